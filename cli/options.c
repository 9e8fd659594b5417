#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

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
  args->gpus_per_node = args->rank = SPP_UNSET;
  args->dataset_tokens = args->dataset_samples = args->top = args->threads = SPP_UNSET;
  args->find = args->explain = SPP_UNSET;
  args->backend = args->device = args->suite = args->to = SPP_UNSET;
  args->ranks = args->steps = SPP_UNSET;
  args->max_spread = SPP_UNSET;
  args->objective = SPP_OBJECTIVE_THROUGHPUT;
  args->min_fit = args->mtbf_s = args->checkpoint_bytes_per_s = args->restart_s = -1;
  args->color = SPP_COLOR_AUTO;
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
    enum spp_status status = spp_real_parse(number, where, option->type.real_min, option->type.real_max,
                                            &list.value[list.count++], diag);
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

/* A time or a rate of nothing says nothing. */
static enum spp_status store_positive(const struct spp_option *option, const char *text, const char *where,
                                      struct spp_args *args, struct spp_diag *diag) {
  double value = 0;
  enum spp_status status = option->type.kind == SPP_KIND_RATE ? spp_rate_parse(text, where, &value, diag)
                                                              : spp_seconds_parse(text, where, &value, diag);
  if (status != SPP_OK) return status;
  if (value < option->type.real_min || value > option->type.real_max)
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "give one that a machine could have",
                        "'%.60s' is out of range", text);
  *(double *)field_of(option, args) = value;
  return SPP_OK;
}

enum spp_status spp_option_store(const struct spp_option *option, const char *text, const char *where,
                                 struct spp_args *args, struct spp_diag *diag) {
  void *field = field_of(option, args);
  struct spp_value_type word = option->type;
  switch (option->type.kind) {
  case SPP_KIND_REALS: return store_reals(option, text, where, args, diag);
  case SPP_KIND_SECONDS:
  case SPP_KIND_RATE: return store_positive(option, text, where, args, diag);
  case SPP_KIND_TEXT: return store_text(option, text, where, args, diag);
  case SPP_KIND_LIST: return store_list(option, text, where, args, diag);
  case SPP_KIND_IMAGE: return store_image(option, text, where, args, diag);
  case SPP_KIND_PART: word.kind = SPP_KIND_CHOICE; return spp_value_parse(&word, text, where, field, diag);
  default: return spp_value_parse(&option->type, text, where, field, diag);
  }
}

int64_t spp_option_i64(const struct spp_option *option, const struct spp_args *args) {
  const void *field = const_field_of(option, args);
  switch (option->type.kind) {
  case SPP_KIND_FLAG:
  case SPP_KIND_CHOICE:
  case SPP_KIND_INT:
  case SPP_KIND_PART: return *(const int *)field;
  case SPP_KIND_MASK: return *(const unsigned *)field ? (int64_t) * (const unsigned *)field : SPP_UNSET;
  case SPP_KIND_WORDS:
  case SPP_KIND_COUNT:
  case SPP_KIND_TOKENS:
  case SPP_KIND_BYTES: return *(const int64_t *)field;
  default: return SPP_UNSET;
  }
}
