#include "tui/words.h"

#include <stdio.h>
#include <string.h>

static int find(const struct spp_words *words, const char *name) {
  for (int i = 0; i < words->count; i++)
    if (strcmp(words->items[i].name, name) == 0) return i;
  return -1;
}

const char *spp_words_get(const struct spp_words *words, const char *name) {
  int at = find(words, name);
  return at < 0 ? NULL : words->items[at].text;
}

bool spp_words_unset(struct spp_words *words, const char *name) {
  int at = find(words, name);
  if (at < 0) return false;
  memmove(&words->items[at], &words->items[at + 1], (size_t)(words->count - at - 1) * sizeof words->items[0]);
  words->count--;
  return true;
}

bool spp_words_set(struct spp_words *words, const char *name, const char *text) {
  struct spp_word word;
  int at = find(words, name);
  if (strlen(name) >= sizeof word.name || strlen(text) >= sizeof word.text) return false;
  if (at < 0 && words->count == SPP_WORDS_MAX) return false;
  snprintf(word.name, sizeof word.name, "%s", name);
  snprintf(word.text, sizeof word.text, "%s", text);
  if (at >= 0) spp_words_unset(words, name);
  words->items[words->count++] = word;
  return true;
}

/* Plain words stay plain; anything else stands in single quotes. */
static void quote(const char *text, struct spp_str *out) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (*text && strspn(text, plain) == strlen(text)) {
    spp_str_add(out, text);
    return;
  }
  spp_str_addc(out, '\'');
  for (; *text; text++) {
    if (*text == '\'')
      spp_str_add(out, "'\\''");
    else
      spp_str_addc(out, *text);
  }
  spp_str_addc(out, '\'');
}

void spp_words_print(const struct spp_words *words, struct spp_str *out) {
  for (int i = 0; i < words->count; i++) {
    spp_str_addf(out, "%s--%s", i ? " " : "", words->items[i].name);
    if (!words->items[i].text[0]) continue;
    spp_str_addc(out, ' ');
    quote(words->items[i].text, out);
  }
}
