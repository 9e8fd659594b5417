/* Values of options, written as they could be typed. */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "cli/options.h"

static void print_words(const struct spp_value_type *type, int64_t bits, char *text, size_t size) {
  const char *word;
  size_t used = 0;
  int value;
  for (int i = 0; (word = type->word(i, &value)) != NULL; i++)
    if ((unsigned)value == (unsigned)bits) { /* one word says it all */
      snprintf(text, size, "%s", word);
      return;
    }
  for (int i = 0; (word = type->word(i, &value)) != NULL && used < size; i++)
    if ((bits & value) == value)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", word);
}

/* Sizes as people write them. */
static void print_tokens(int64_t tokens, char *text, size_t size) {
  if (tokens > 0 && tokens % (1 << 20) == 0)
    snprintf(text, size, "%lldm", (long long)tokens >> 20);
  else if (tokens > 0 && tokens % 1024 == 0)
    snprintf(text, size, "%lldk", (long long)tokens >> 10);
  else
    snprintf(text, size, "%lld", (long long)tokens);
}

/* The fewest digits that are this very number. */
static void print_real(double value, char *text, size_t size) {
  double back = value + 1;
  char digits[32] = "";
  for (int n = 1; n <= 17 && back != value; n++)
    if (!spp_decimal_parse(spp_decimal_print(value, n, digits), strlen(digits), &back)) break;
  snprintf(text, size, "%s", digits);
}

static void print_reals(const struct spp_reals *list, char *text, size_t size) {
  char one[32];
  size_t used = 0;
  for (int i = 0; i < list->count && used < size; i++) {
    print_real(list->value[i], one, sizeof one);
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? "," : "", one);
  }
}

static size_t size_of(enum spp_value_kind kind) {
  switch (kind) {
  case SPP_KIND_FLAG:
  case SPP_KIND_CHOICE:
  case SPP_KIND_INT:
  case SPP_KIND_PART: return sizeof(int);
  case SPP_KIND_MASK: return sizeof(unsigned);
  case SPP_KIND_WORDS:
  case SPP_KIND_COUNT:
  case SPP_KIND_TOKENS:
  case SPP_KIND_BYTES: return sizeof(int64_t);
  case SPP_KIND_SECONDS:
  case SPP_KIND_RATE:
  case SPP_KIND_REAL: return sizeof(double);
  case SPP_KIND_REALS: return sizeof(struct spp_reals);
  case SPP_KIND_TEXT: return sizeof(const char *);
  case SPP_KIND_IMAGE: return sizeof(struct spp_image_size);
  case SPP_KIND_LIST: break;
  }
  return 0;
}

static bool is_clear(const struct spp_option *option, const struct spp_args *args) {
  struct spp_args clear;
  spp_args_clear(&clear);
  return memcmp((const char *)args + option->offset, (const char *)&clear + option->offset,
                size_of(option->type.kind)) == 0;
}

bool spp_option_text(const struct spp_option *option, const struct spp_args *args, char *text, size_t size) {
  const void *field = (const char *)args + option->offset;
  const struct spp_image_size *image = field;
  text[0] = '\0';
  if (is_clear(option, args)) return false;
  switch (option->type.kind) {
  case SPP_KIND_FLAG: return *(const int *)field == option->type.value;
  case SPP_KIND_CHOICE:
    snprintf(text, size, "%s", spp_value_word(&option->type, spp_option_i64(option, args)));
    return true;
  case SPP_KIND_TOKENS: print_tokens(spp_option_i64(option, args), text, size); return true;
  case SPP_KIND_INT:
  case SPP_KIND_COUNT:
  case SPP_KIND_BYTES: snprintf(text, size, "%lld", (long long)spp_option_i64(option, args)); return true;
  case SPP_KIND_WORDS:
  case SPP_KIND_MASK: print_words(&option->type, spp_option_i64(option, args), text, size); return true;
  case SPP_KIND_REAL: print_real(*(const double *)field, text, size); return true;
  case SPP_KIND_SECONDS:
  case SPP_KIND_RATE:
    print_real(*(const double *)field, text, size);
    snprintf(text + strlen(text), size - strlen(text), option->type.kind == SPP_KIND_RATE ? "B/s" : "s");
    return true;
  case SPP_KIND_REALS: print_reals(field, text, size); return true;
  case SPP_KIND_TEXT: snprintf(text, size, "%s", *(const char *const *)field); return true;
  case SPP_KIND_IMAGE:
    snprintf(text, size, "%lldx%lldx%lld", (long long)image->width, (long long)image->height,
             (long long)image->count);
    return true;
  case SPP_KIND_PART:
  case SPP_KIND_LIST: break;
  }
  return false;
}
