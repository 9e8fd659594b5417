#include "tui/prompt.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "tui/keys.h"

void spp_prompt_begin(struct spp_prompt *prompt, enum spp_prompt_kind kind, const char *option,
                      const char *text) {
  memset(prompt, 0, sizeof *prompt);
  prompt->kind = kind;
  prompt->completion = -1;
  snprintf(prompt->option, sizeof prompt->option, "%s", option ? option : "");
  snprintf(prompt->text, sizeof prompt->text, "%s", text ? text : "");
  prompt->at = prompt->length = (int)strlen(prompt->text);
}

/* ---- completion ---- */

/* The text to complete (what was typed, not what Tab put there) and the option whose values fit; "" = option
 * names. */
static const char *completing(const struct spp_prompt *prompt, char option[SPP_WORD_NAME]) {
  const char *typed = prompt->completion >= 0 ? prompt->stem : prompt->text;
  snprintf(option, SPP_WORD_NAME, "%s", prompt->option);
  if (prompt->kind != SPP_PROMPT_COMMAND) return typed;
  for (const char *next; (next = strstr(typed + strspn(typed, " "), " --")) != NULL;)
    typed = next + 1; /* the last of several options */
  typed += strspn(typed, " -");
  size_t name = strcspn(typed, " =");
  if (!typed[name]) return typed;
  snprintf(option, SPP_WORD_NAME, "%.*s", (int)(name < SPP_WORD_NAME ? name : SPP_WORD_NAME - 1), typed);
  return typed + name + strspn(typed + name, " =");
}

const char *spp_prompt_candidate(const struct spp_prompt *prompt, const struct spp_tui_host *host, int i) {
  char option[SPP_WORD_NAME];
  const char *typed = completing(prompt, option), *word;
  if (prompt->kind == SPP_PROMPT_FILTER || prompt->kind == SPP_PROMPT_SAVE) return NULL;
  for (int pass = 0; pass < 2; pass++) /* those that begin so, then those that hold it */
    for (int n = 0;; n++) {
      word = option[0] ? host->choice(host->self, option, n) : host->option(host->self, n);
      if (!word) break;
      bool begins = strncasecmp(word, typed, strlen(typed)) == 0;
      if ((pass == 0 ? begins : !begins && *typed && strstr(word, typed)) && i-- == 0) return word;
    }
  return NULL;
}

static void replace_tail(struct spp_prompt *prompt, const char *word) {
  char option[SPP_WORD_NAME], head[SPP_WORD_TEXT];
  const char *typed = completing(prompt, option);
  size_t keep = (size_t)(typed - prompt->stem);
  snprintf(head, sizeof head, "%.*s", (int)keep, prompt->stem);
  snprintf(prompt->text, sizeof prompt->text, "%.120s%.120s", head, word);
  prompt->at = prompt->length = (int)strlen(prompt->text);
}

static void complete(struct spp_prompt *prompt, const struct spp_tui_host *host, int direction) {
  int count = 0;
  if (prompt->completion < 0) memcpy(prompt->stem, prompt->text, sizeof prompt->stem);
  while (spp_prompt_candidate(prompt, host, count))
    count++;
  if (count == 0) return;
  int next = prompt->completion < 0 ? (direction > 0 ? 0 : count - 1)
                                    : (prompt->completion + direction + count) % count;
  prompt->completion = next;
  replace_tail(prompt, spp_prompt_candidate(prompt, host, next));
}

/* ---- editing ---- */

static void cut(struct spp_prompt *prompt, int from, int to) {
  memmove(prompt->text + from, prompt->text + to, (size_t)(prompt->length - to + 1));
  prompt->length -= to - from;
  prompt->at = from;
}

static int before(const struct spp_prompt *prompt) {
  int at = prompt->at;
  while (at > 0 && ((unsigned char)prompt->text[--at] & 0xc0) == 0x80)
    continue;
  return at;
}
static int after(const struct spp_prompt *prompt) {
  int at = prompt->at;
  if (at < prompt->length) at++;
  while (at < prompt->length && ((unsigned char)prompt->text[at] & 0xc0) == 0x80)
    at++;
  return at;
}

static void insert(struct spp_prompt *prompt, int key) {
  char bytes[5];
  int n;
  if (key < 32 || key == 127 || key > 0x10ffff) return;
  spp_utf8_encode((uint32_t)key, bytes);
  n = (int)strlen(bytes);
  if (prompt->length + n >= (int)sizeof prompt->text) return;
  memmove(prompt->text + prompt->at + n, prompt->text + prompt->at,
          (size_t)(prompt->length - prompt->at + 1));
  memcpy(prompt->text + prompt->at, bytes, (size_t)n);
  prompt->at += n;
  prompt->length += n;
}

static void cut_word(struct spp_prompt *prompt) {
  int from = prompt->at;
  while (from > 0 && prompt->text[from - 1] == ' ')
    from--;
  while (from > 0 && prompt->text[from - 1] != ' ')
    from--;
  cut(prompt, from, prompt->at);
}

enum spp_typed spp_prompt_key(struct spp_prompt *prompt, const struct spp_tui_host *host, int key) {
  prompt->error[0] = '\0';
  if (key == SPP_KEY_TAB || key == SPP_KEY_BACKTAB) {
    complete(prompt, host, key == SPP_KEY_TAB ? 1 : -1);
    return SPP_TYPED_ON;
  }
  prompt->completion = -1;
  switch (key) {
  case SPP_KEY_ENTER: return SPP_TYPED_DONE;
  case SPP_KEY_ESCAPE:
  case SPP_CTRL('c'): return SPP_TYPED_GIVEN_UP;
  case SPP_KEY_BACKSPACE:
    if (prompt->length == 0) return SPP_TYPED_GIVEN_UP;
    cut(prompt, before(prompt), prompt->at);
    break;
  case SPP_KEY_DELETE: {
    int at = prompt->at;
    cut(prompt, at, after(prompt));
    break;
  }
  case SPP_CTRL('u'): cut(prompt, 0, prompt->at); break;
  case SPP_CTRL('w'): cut_word(prompt); break;
  case SPP_KEY_LEFT: prompt->at = before(prompt); break;
  case SPP_KEY_RIGHT: prompt->at = after(prompt); break;
  case SPP_KEY_HOME:
  case SPP_CTRL('a'): prompt->at = 0; break;
  case SPP_KEY_END:
  case SPP_CTRL('e'): prompt->at = prompt->length; break;
  default: insert(prompt, key); break;
  }
  return SPP_TYPED_ON;
}
