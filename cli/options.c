#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/units.h"

enum { MAX_WORDS = 32, LIST_BYTES = 320 };

const struct spp_option *spp_option_find(const char *name) {
  for (int i = 0; i < spp_option_count; i++)
    if (strcmp(spp_options[i].name, name) == 0) return &spp_options[i];
  return NULL;
}

int spp_option_index(const struct spp_option *option) {
  return (int)(option - spp_options);
}

static void *field_of(const struct spp_option *option, struct spp_args *args) {
  return (char *)args + option->offset;
}
static const void *const_field_of(const struct spp_option *option, const struct spp_args *args) {
  return (const char *)args + option->offset;
}

void spp_args_clear(struct spp_args *args) {
  memset(args, 0, sizeof *args);
  spp_job_spec_clear(&args->spec);
  spp_request_clear(&args->request);
  args->gpus_per_node = args->lora_targets = SPP_UNSET;
  args->dataset_tokens = args->dataset_samples = args->top = args->threads = SPP_UNSET;
  args->loss = args->find = args->explain = SPP_UNSET;
  args->backend = args->suite = SPP_UNSET;
  args->ranks = args->steps = SPP_UNSET;
  args->objective = SPP_OBJECTIVE_THROUGHPUT;
  args->color = SPP_COLOR_AUTO;
}

/* "bf16, fp16, fp32" into buf. */
static void list_words(const struct spp_option *option, char *buf, size_t size) {
  size_t used = 0;
  int value;
  buf[0] = '\0';
  for (int i = 0; option->word(i, &value) && used < size; i++) {
    int n = snprintf(buf + used, size - used, "%s%s", i ? ", " : "", option->word(i, &value));
    if (n < 0) return;
    used += (size_t)n;
  }
}

static bool word_value(const struct spp_option *option, const char *text, size_t length, int *value) {
  const char *word;
  for (int i = 0; (word = option->word(i, value)) != NULL; i++)
    if (strlen(word) == length && strncmp(word, text, length) == 0) return true;
  return false;
}

static enum spp_status refuse_word(const struct spp_option *option, const char *text, size_t length,
                                   const char *where, struct spp_diag *diag) {
  char words[LIST_BYTES - 40], hint[LIST_BYTES], typed[64];
  const char *names[MAX_WORDS], *near;
  int count = 0, value;
  while (count < MAX_WORDS && (names[count] = option->word(count, &value)) != NULL)
    count++;
  snprintf(typed, sizeof typed, "%.*s", (int)(length < 60 ? length : 60), text);
  near = spp_suggest(typed, names, count);
  list_words(option, words, sizeof words);
  if (near)
    snprintf(hint, sizeof hint, "did you mean %.40s? (one of %.220s)", near, words);
  else
    snprintf(hint, sizeof hint, "one of %s", words);
  return spp_diag_set(diag, SPP_ERR_USAGE, where, hint, typed[0] ? "unknown value '%s'" : "empty value%s",
                      typed);
}

static enum spp_status store_choice(const struct spp_option *option, const char *text, const char *where,
                                    struct spp_args *args, struct spp_diag *diag) {
  int value;
  if (!word_value(option, text, strlen(text), &value))
    return refuse_word(option, text, strlen(text), where, diag);
  *(int *)field_of(option, args) = value;
  return SPP_OK;
}

static enum spp_status store_words(const struct spp_option *option, const char *text, const char *where,
                                   struct spp_args *args, struct spp_diag *diag) {
  int64_t bits = 0;
  for (const char *word = text;;) {
    size_t length = strcspn(word, ",");
    int value;
    if (!word_value(option, word, length, &value)) return refuse_word(option, word, length, where, diag);
    bits |= value;
    if (!word[length]) break;
    word += length + 1;
  }
  *(int64_t *)field_of(option, args) = bits;
  return SPP_OK;
}

static enum spp_status store_image(const struct spp_option *option, const char *text, const char *where,
                                   struct spp_args *args, struct spp_diag *diag) {
  const char *hint = "write WIDTHxHEIGHT or WIDTHxHEIGHTxCOUNT, such as 1024x768x2";
  struct spp_image_size size = {0, 0, 1};
  int64_t *const sides[3] = {&size.width, &size.height, &size.count};
  const int64_t most[3] = {65536, 65536, 4096};
  int given = 0;
  for (const char *part = text; given < 3; given++) {
    size_t length = strcspn(part, "x");
    char digits[16];
    if (length >= sizeof digits) break;
    memcpy(digits, part, length);
    digits[length] = '\0';
    if (spp_count_parse(digits, where, 1, most[given], sides[given], NULL) != SPP_OK) break;
    part += length;
    if (!*part++) {
      if (given == 0) break;
      *(struct spp_image_size *)field_of(option, args) = size;
      return SPP_OK;
    }
  }
  return spp_diag_set(diag, SPP_ERR_USAGE, where, hint, "'%.60s' is no image size", text);
}

static enum spp_status store_list(const struct spp_option *option, const char *text, const char *where,
                                  struct spp_args *args, struct spp_diag *diag) {
  struct spp_texts *list = field_of(option, args);
  if (list->count == SPP_MAX_TEXTS)
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "give fewer", "more than %d values", SPP_MAX_TEXTS);
  list->text[list->count++] = text;
  return SPP_OK;
}

static enum spp_status store_reals(const struct spp_option *option, const char *text, const char *where,
                                   struct spp_args *args, struct spp_diag *diag) {
  struct spp_reals list = {.count = 0};
  for (const char *part = text;;) {
    size_t length = strcspn(part, ",");
    char number[48];
    if (list.count == SPP_MAX_TEXTS)
      return spp_diag_set(diag, SPP_ERR_USAGE, where, "give fewer", "more than %d values", SPP_MAX_TEXTS);
    snprintf(number, sizeof number, "%.*s", (int)(length < 47 ? length : 47), part);
    enum spp_status status =
        spp_real_parse(number, where, option->real_min, option->real_max, &list.value[list.count++], diag);
    if (status != SPP_OK) return status;
    if (!part[length]) break;
    part += length + 1;
  }
  *(struct spp_reals *)field_of(option, args) = list;
  return SPP_OK;
}

static enum spp_status store_text(const struct spp_option *option, const char *text, const char *where,
                                  struct spp_args *args, struct spp_diag *diag) {
  if (!*text) {
    char hint[80];
    snprintf(hint, sizeof hint, "give %s", option->arg);
    return spp_diag_set(diag, SPP_ERR_USAGE, where, hint, "empty value");
  }
  *(const char **)field_of(option, args) = text;
  return SPP_OK;
}

/* A flag's text comes from the environment or the config file only. */
static enum spp_status store_flag(const struct spp_option *option, const char *text, const char *where,
                                  struct spp_args *args, struct spp_diag *diag) {
  bool on = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
  if (!on && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "use 1 or 0", "'%.60s' is neither true nor false", text);
  *(int *)field_of(option, args) = on ? option->value : !option->value;
  return SPP_OK;
}

enum spp_status spp_option_store(const struct spp_option *option, const char *text, const char *where,
                                 struct spp_args *args, struct spp_diag *diag) {
  void *field = field_of(option, args);
  switch (option->kind) {
  case SPP_KIND_FLAG: return store_flag(option, text, where, args, diag);
  case SPP_KIND_CHOICE:
  case SPP_KIND_PART: return store_choice(option, text, where, args, diag);
  case SPP_KIND_WORDS: return store_words(option, text, where, args, diag);
  case SPP_KIND_COUNT: return spp_count_parse(text, where, option->min, option->max, field, diag);
  case SPP_KIND_TOKENS: return spp_tokens_parse(text, where, option->min, option->max, field, diag);
  case SPP_KIND_BYTES: return spp_bytes_parse(text, where, field, diag);
  case SPP_KIND_REAL: return spp_real_parse(text, where, option->real_min, option->real_max, field, diag);
  case SPP_KIND_REALS: return store_reals(option, text, where, args, diag);
  case SPP_KIND_TEXT: return store_text(option, text, where, args, diag);
  case SPP_KIND_LIST: return store_list(option, text, where, args, diag);
  case SPP_KIND_IMAGE: return store_image(option, text, where, args, diag);
  }
  return SPP_ERR_INTERNAL;
}

int64_t spp_option_i64(const struct spp_option *option, const struct spp_args *args) {
  const void *field = const_field_of(option, args);
  switch (option->kind) {
  case SPP_KIND_FLAG:
  case SPP_KIND_CHOICE:
  case SPP_KIND_PART: return *(const int *)field;
  case SPP_KIND_WORDS:
  case SPP_KIND_COUNT:
  case SPP_KIND_TOKENS:
  case SPP_KIND_BYTES: return *(const int64_t *)field;
  default: return SPP_UNSET;
  }
}

const char *spp_option_word(const struct spp_option *option, int64_t value) {
  const char *word;
  int stands_for;
  for (int i = 0; (word = option->word(i, &stands_for)) != NULL; i++)
    if (stands_for == value) return word;
  return NULL;
}

void spp_args_settle(struct spp_args *args) {
  if (args->loss >= SPP_LOSS_CHOICE_COUNT)
    args->spec.loss_path = args->loss - SPP_LOSS_CHOICE_COUNT;
  else if (args->loss >= 0)
    args->spec.loss = args->loss;
  if (args->prices.count == 1) args->spec.usd_per_gpu_hour = args->prices.value[0];
  if (args->lora_targets >= 0)
    args->spec.lora_targets = args->lora_targets >> 30 ? SPP_LORA_ALL_LINEAR : (unsigned)args->lora_targets;
}
