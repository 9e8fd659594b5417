#include "model/setting.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/units.h"
#include "model/setting_list.h"

enum { MAX_WORDS = 32, LIST_BYTES = 320 };

/* ---- values ---- */

/* "bf16, fp16, fp32" into buf. */
static void list_words(const struct spp_value_type *type, char *buf, size_t size) {
  size_t used = 0;
  int value;
  buf[0] = '\0';
  for (int i = 0; type->word(i, &value) && used < size; i++) {
    int n = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", type->word(i, &value));
    if (n < 0) return;
    used += (size_t)n;
  }
}

static bool word_value(const struct spp_value_type *type, const char *text, size_t length, int *value) {
  const char *word;
  for (int i = 0; (word = type->word(i, value)) != NULL; i++)
    if (strlen(word) == length && strncmp(word, text, length) == 0) return true;
  return false;
}

static enum spp_status refuse_word(const struct spp_value_type *type, const char *text, size_t length,
                                   const char *where, struct spp_diag *diag) {
  char words[LIST_BYTES - 40], hint[LIST_BYTES], typed[64];
  const char *names[MAX_WORDS], *near;
  int count = 0, value;
  while (count < MAX_WORDS && (names[count] = type->word(count, &value)) != NULL)
    count++;
  snprintf(typed, sizeof typed, "%.*s", (int)(length < 60 ? length : 60), text);
  near = spp_suggest(typed, names, count);
  list_words(type, words, sizeof words);
  if (near)
    snprintf(hint, sizeof hint, "did you mean %.40s? (one of %.220s)", near, words);
  else
    snprintf(hint, sizeof hint, "one of %s", words);
  return spp_diag_set(diag, SPP_ERR_USAGE, where, hint, typed[0] ? "unknown value '%s'" : "empty value%s",
                      typed);
}

static enum spp_status parse_choice(const struct spp_value_type *type, const char *text, const char *where,
                                    int *field, struct spp_diag *diag) {
  int value;
  if (!word_value(type, text, strlen(text), &value))
    return refuse_word(type, text, strlen(text), where, diag);
  *field = value;
  return SPP_OK;
}

static enum spp_status parse_words(const struct spp_value_type *type, const char *text, const char *where,
                                   int64_t *bits, struct spp_diag *diag) {
  int64_t all = 0;
  for (const char *word = text;;) {
    size_t length = strcspn(word, ",+");
    int value;
    if (!word_value(type, word, length, &value)) return refuse_word(type, word, length, where, diag);
    all |= value;
    if (!word[length]) break;
    word += length + 1;
  }
  *bits = all;
  return SPP_OK;
}

static enum spp_status parse_flag(const struct spp_value_type *type, const char *text, const char *where,
                                  int *field, struct spp_diag *diag) {
  static const char *const yes[] = {"1", "true", "on"}, *const no[] = {"0", "false", "off"};
  for (int i = 0; i < 3; i++) {
    bool on = strcmp(text, yes[i]) == 0;
    if (!on && strcmp(text, no[i]) != 0) continue;
    *field = on ? type->value : !type->value;
    return SPP_OK;
  }
  return spp_diag_set(diag, SPP_ERR_USAGE, where, "use 1 or 0", "'%.60s' is neither true nor false", text);
}

/* Of a GPU's memory: a number without its unit is no such size. */
enum { SMALLEST_SIZE = 1 << 20 };

static enum spp_status parse_size(const char *text, const char *where, int64_t *field,
                                  struct spp_diag *diag) {
  int64_t bytes;
  enum spp_status status = spp_bytes_parse(text, where, &bytes, diag);
  if (status != SPP_OK) return status;
  if (bytes < SMALLEST_SIZE)
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "write a size, such as 70GiB",
                        "'%.60s' is less than 1 MiB", text);
  *field = bytes;
  return SPP_OK;
}

enum spp_status spp_value_parse(const struct spp_value_type *type, const char *text, const char *where,
                                void *field, struct spp_diag *diag) {
  int64_t number = 0;
  enum spp_status status = SPP_ERR_INTERNAL;
  switch (type->kind) {
  case SPP_KIND_FLAG: return parse_flag(type, text, where, field, diag);
  case SPP_KIND_CHOICE: return parse_choice(type, text, where, field, diag);
  case SPP_KIND_WORDS: return parse_words(type, text, where, field, diag);
  case SPP_KIND_COUNT: return spp_count_parse(text, where, type->min, type->max, field, diag);
  case SPP_KIND_TOKENS: return spp_tokens_parse(text, where, type->min, type->max, field, diag);
  case SPP_KIND_BYTES: return parse_size(text, where, field, diag);
  case SPP_KIND_REAL: return spp_real_parse(text, where, type->real_min, type->real_max, field, diag);
  case SPP_KIND_MASK:
    status = parse_words(type, text, where, &number, diag);
    if (status == SPP_OK) *(unsigned *)field = (unsigned)number;
    return status;
  case SPP_KIND_INT:
    status = spp_count_parse(text, where, type->min, type->max, &number, diag);
    if (status == SPP_OK) *(int *)field = (int)number;
    return status;
  default: return status;
  }
}

const char *spp_value_word(const struct spp_value_type *type, int64_t value) {
  const char *word;
  int stands_for;
  for (int i = 0; (word = type->word(i, &stands_for)) != NULL; i++)
    if (stands_for == value) return word;
  return NULL;
}

/* ---- settings ---- */

struct setting {
  const char *name, *key;
  bool in_request;
  size_t offset;
  struct spp_value_type type;
};
#define AT_spec(field)    .in_request = false, .offset = offsetof(struct spp_job_spec, field)
#define AT_request(field) .in_request = true, .offset = offsetof(struct spp_request, field)
#define ROW(group, name_, letter, kind_, arg, holder, field, scope, key_, help)                              \
  { .name = name_, .key = key_, AT_##holder(field), kind_ }
static const struct setting settings[] = {SPP_SETTINGS(ROW)};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

int spp_setting_count(void) {
  return SETTING_COUNT;
}
const char *spp_setting_name(int index) {
  return settings[index].name;
}

/* "lora_rank" is "lora-rank". */
static bool same_name(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))) return false;
  return *a == *b;
}

enum spp_status spp_setting_apply(const char *name, const char *text, struct spp_job_spec *spec,
                                  struct spp_request *request, struct spp_diag *diag) {
  const char *names[SETTING_COUNT];
  for (int i = 0; i < SETTING_COUNT; i++) {
    const struct setting *row = &settings[i];
    names[i] = row->name;
    if (!same_name(name, row->name) && !(row->key && strcmp(name, row->key) == 0)) continue;
    char *base = row->in_request ? (char *)request : (char *)spec;
    return spp_value_parse(&row->type, text, row->name, base + row->offset, diag);
  }
  const char *near = spp_suggest(name, names, SETTING_COUNT);
  return spp_diag_set(diag, SPP_ERR_USAGE, name, near ? near : "see the option list", "unknown setting%s",
                      near ? ", did you mean" : "");
}
