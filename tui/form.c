#include "tui/form.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

const struct spp_form_field spp_form_fields[] = {
    {"model", "model", SPP_FORM_WORD, true, "none"},
    {"sequence", "seq", SPP_FORM_TOKENS, true, "none"},
    {"GPUs", "gpus", SPP_FORM_NUMBER, true, "none"},
    {"GPU type", "gpu", SPP_FORM_WORD, false, "the one here"},
    {"framework", "framework", SPP_FORM_WORD, false, "any"},
    {"method", "method", SPP_FORM_WORD, false, "full"},
    {"batch", "global-batch", SPP_FORM_NUMBER, false, "one a GPU"},
    {"TP", "tp", SPP_FORM_NUMBER, false, "any"},
    {"PP", "pp", SPP_FORM_NUMBER, false, "any"},
    {"EP", "ep", SPP_FORM_NUMBER, false, "any"},
    {"SP", "sp", SPP_FORM_NUMBER, false, "any"},
    {"SP kind", "sp-kind", SPP_FORM_WORD, false, "any"},
    {"  Ulysses", "ulysses", SPP_FORM_NUMBER, false, "any"},
    {"  ring", "ring", SPP_FORM_NUMBER, false, "any"},
    {"ZeRO", "zero", SPP_FORM_NUMBER, false, "any"},
    {"recompute", "recompute", SPP_FORM_WORD, false, "any"},
    {"offload", "offload", SPP_FORM_WORD, false, "any"},
    {"micro-batch", "micro-batch", SPP_FORM_NUMBER, false, "any"},
};
const int spp_form_count = (int)(sizeof spp_form_fields / sizeof spp_form_fields[0]);

int spp_form_find(const char *option) {
  for (int i = 0; i < spp_form_count; i++)
    if (strcmp(spp_form_fields[i].option, option) == 0) return i;
  return -1;
}

static int64_t next_power(int64_t value, int direction) {
  int64_t power = 1;
  if (direction > 0) {
    while (power <= value && power < INT64_C(1) << 40)
      power *= 2;
    return power;
  }
  while (power * 2 < value)
    power *= 2;
  return value > 1 ? power : 0;
}

/* Numbers below the first are "free", where the field may be. */
static bool step_number(const struct spp_tui_host *host, const struct spp_form_field *field, const char *said,
                        int direction, char text[SPP_WORD_TEXT]) {
  bool from_zero = strcmp(field->option, "zero") == 0; /* stages 0..3, one by one */
  int64_t value = from_zero ? -1 : 0;
  if (said && spp_count_parse(said, field->option, 0, INT64_MAX / 4, &value, NULL) != SPP_OK) return false;
  if (!said && direction < 0) return false;
  value = from_zero ? value + direction : next_power(value, direction);
  if (value < (from_zero ? 0 : 1)) {
    text[0] = '\0';
    return !field->needed;
  }
  snprintf(text, SPP_WORD_TEXT, "%lld", (long long)value);
  return host->check(host->self, field->option, text, NULL) == SPP_OK;
}

static bool step_tokens(const struct spp_tui_host *host, const struct spp_form_field *field, const char *said,
                        int direction, char text[SPP_WORD_TEXT]) {
  int64_t tokens = 32768;
  if (said && spp_tokens_parse(said, field->option, 1, INT64_C(1) << 40, &tokens, NULL) != SPP_OK)
    return false;
  if (said) tokens = direction > 0 ? tokens * 2 : tokens / 2;
  if (tokens % 1024 == 0 && tokens < 1 << 20)
    snprintf(text, SPP_WORD_TEXT, "%lldk", (long long)(tokens / 1024));
  else if (tokens % (1 << 20) == 0 && tokens > 0)
    snprintf(text, SPP_WORD_TEXT, "%lldm", (long long)(tokens / (1 << 20)));
  else
    snprintf(text, SPP_WORD_TEXT, "%lld", (long long)tokens);
  return host->check(host->self, field->option, text, NULL) == SPP_OK;
}

/* Round about: free, then the words, then free again (or the first word, where one is needed). */
static bool step_word(const struct spp_tui_host *host, const struct spp_form_field *field, const char *said,
                      int direction, char text[SPP_WORD_TEXT]) {
  int count = 0, at = -1, lowest = field->needed ? 0 : -1;
  const char *word;
  for (; (word = host->choice(host->self, field->option, count)) != NULL; count++)
    if (said && strcmp(word, said) == 0) at = count;
  if (count == 0) return false;
  at += direction;
  if (at < lowest) at = count - 1;
  if (at >= count) at = lowest;
  snprintf(text, SPP_WORD_TEXT, "%s", at < 0 ? "" : host->choice(host->self, field->option, at));
  return true;
}

bool spp_form_step(const struct spp_tui_host *host, const struct spp_words *words, int i, int direction,
                   char text[SPP_WORD_TEXT]) {
  const struct spp_form_field *field = &spp_form_fields[i];
  const char *said = spp_words_get(words, field->option);
  switch (field->kind) {
  case SPP_FORM_TOKENS: return step_tokens(host, field, said, direction, text);
  case SPP_FORM_NUMBER: return step_number(host, field, said, direction, text);
  case SPP_FORM_WORD: return step_word(host, field, said, direction, text);
  }
  return false;
}
