#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/num.h"

/* A number as written, before its unit is known: whole part, and the digits after the point. */
struct number {
  int64_t whole;
  const char *fraction; /* digits, possibly with '_' between; NULL without a point */
  size_t fraction_len;
  const char *rest; /* what follows, the optional single space skipped */
  bool overflow;
};

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Length of a run of digits with single '_' between digits; 0 when it does not begin with a digit. */
static size_t digit_run(const char *p) {
  size_t n = 0;
  while (is_digit(p[n]) || (n > 0 && p[n] == '_' && is_digit(p[n + 1])))
    n++;
  return n;
}

static bool read_number(const char *text, struct number *out) {
  struct number number = {0};
  size_t n = digit_run(text);
  if (n == 0) return false;
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '_') continue;
    int digit = text[i] - '0';
    if (number.whole > (INT64_MAX - digit) / 10) number.overflow = true;
    if (!number.overflow) number.whole = number.whole * 10 + digit;
  }
  text += n;
  if (*text == '.') {
    n = digit_run(++text);
    if (n == 0) return false;
    number.fraction = text;
    number.fraction_len = n;
    text += n;
  }
  number.rest = text;
  if (*text == ' ' && text[1] != '\0' && text[1] != ' ') number.rest++;
  *out = number;
  return true;
}

/* floor(fraction * scale) by schoolbook division from the last digit; floors nest, so it is exact. *exact
 * tells whether nothing was cut off. scale < 2^59. */
static int64_t scale_fraction(const struct number *number, int64_t scale, bool *exact) {
  int64_t sum = 0;
  *exact = true;
  for (size_t i = number->fraction_len; i-- > 0;) {
    if (number->fraction[i] == '_') continue;
    sum += (number->fraction[i] - '0') * scale;
    if (sum % 10 != 0) *exact = false;
    sum /= 10;
  }
  return sum;
}

/* number * scale to the nearest whole (half up); false on overflow. */
static bool scale_number(const struct number *number, int64_t scale, int64_t *out, bool *exact) {
  bool halves_exact;
  int64_t halves = scale_fraction(number, scale * 2, &halves_exact);
  *exact = halves_exact && halves % 2 == 0;
  if (number->overflow || number->whole > INT64_MAX / scale) return false;
  int64_t whole = number->whole * scale, part = (halves + 1) / 2;
  if (whole > INT64_MAX - part) return false;
  *out = whole + part;
  return true;
}

/* number as a double, for rates and times where 53 bits are plenty. */
static double number_value(const struct number *number) {
  double fraction = 0;
  for (size_t i = number->fraction_len; i-- > 0;)
    if (number->fraction[i] != '_') fraction = (fraction + (number->fraction[i] - '0')) / 10;
  return (double)number->whole + fraction;
}

static enum spp_status refuse(struct spp_diag *diag, const char *text, const char *what, const char *why,
                              const char *hint) {
  return spp_diag_set(diag, SPP_ERR_USAGE, what, hint, "'%s' %s", text, why);
}

static enum spp_status check_range(const char *text, const char *what, int64_t min, int64_t max,
                                   int64_t value, int64_t *out, struct spp_diag *diag) {
  char low[32], high[32];
  if (value < min)
    return spp_diag_set(diag, SPP_ERR_USAGE, what, NULL, "'%s' is below the minimum of %s", text,
                        spp_int_print(min, low));
  if (value > max)
    return spp_diag_set(diag, SPP_ERR_USAGE, what, NULL, "'%s' is above the maximum of %s", text,
                        spp_int_print(max, high));
  *out = value;
  return SPP_OK;
}

enum spp_status spp_count_parse(const char *text, const char *what, int64_t min, int64_t max, int64_t *out,
                                struct spp_diag *diag) {
  struct number number;
  if (!read_number(text, &number) || number.fraction || *number.rest)
    return refuse(diag, text, what, "is not a whole number", "write digits only, like 8");
  if (number.overflow) return refuse(diag, text, what, "is too large", NULL);
  return check_range(text, what, min, max, number.whole, out, diag);
}

/* Lengths of sequences are counted in powers of two, data sets in powers of ten. */
static int64_t token_scale(const char *suffix) {
  static const struct {
    char letter;
    int64_t tokens;
  } scales[] = {{'k', 1024}, {'m', 1024 * 1024}, {'b', INT64_C(1000000000)}, {'t', INT64_C(1000000000000)}};
  if (!*suffix) return 1;
  for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
    if ((suffix[0] == scales[i].letter || suffix[0] + 32 == scales[i].letter) && !suffix[1])
      return scales[i].tokens;
  return 0;
}

enum spp_status spp_tokens_parse(const char *text, const char *what, int64_t min, int64_t max, int64_t *out,
                                 struct spp_diag *diag) {
  static const char hint[] = "write 32k (32,768), 1m (1,048,576), 10b (10,000,000,000) or a plain number";
  struct number number;
  int64_t scale = read_number(text, &number) ? token_scale(number.rest) : 0;
  if (scale == 0) return refuse(diag, text, what, "is not a number of tokens", hint);
  int64_t value;
  bool exact;
  if (!scale_number(&number, scale, &value, &exact)) return refuse(diag, text, what, "is too large", NULL);
  if (!exact) return refuse(diag, text, what, "is not a whole number of tokens", hint);
  return check_range(text, what, min, max, value, out, diag);
}

struct unit {
  const char *name;
  int64_t scale;
};

#define KI   INT64_C(1024)
#define KILO INT64_C(1000)

/* Case matters: b is bits, B is bytes. */
static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", KI},
    {"MiB", KI *KI},
    {"GiB", KI *KI *KI},
    {"TiB", KI *KI *KI *KI},
    {"PiB", KI *KI *KI *KI *KI},
    {"kB", KILO},
    {"KB", KILO},
    {"MB", KILO *KILO},
    {"GB", KILO *KILO *KILO},
    {"TB", KILO *KILO *KILO *KILO},
    {"PB", KILO *KILO *KILO *KILO *KILO},
};

enum { BYTE_UNITS = sizeof byte_units / sizeof byte_units[0] };

static const struct unit *find_unit(const char *name, size_t n) {
  for (int i = 0; i < BYTE_UNITS; i++)
    if (strlen(byte_units[i].name) == n && memcmp(byte_units[i].name, name, n) == 0) return &byte_units[i];
  return NULL;
}

/* "G" or "g" alone: the marketing trap that deserves its own hint. */
static bool is_bare_prefix(const char *unit) {
  return unit[0] && !unit[1] && strchr("kKmMgGtTpP", unit[0]);
}

static enum spp_status refuse_bytes(struct spp_diag *diag, const char *text, const char *what,
                                    const struct number *number) {
  if (!number || !is_bare_prefix(number->rest))
    return refuse(diag, text, what, "is not a size in bytes",
                  "write 80GiB (binary), 80GB (decimal) or plain bytes");
  char hint[160], prefix = number->rest[0];
  if (prefix >= 'a') prefix = (char)(prefix - 'a' + 'A');
  int digits = (int)spp_min64(number->rest - text, 40);
  while (digits > 0 && text[digits - 1] == ' ')
    digits--;
  snprintf(hint, sizeof hint, "write %.*s%ciB (binary) or %.*s%cB (decimal)", digits, text, prefix, digits,
           text, prefix);
  return refuse(diag, text, what, "could be binary or decimal", hint);
}

enum spp_status spp_bytes_parse(const char *text, const char *what, int64_t *out, struct spp_diag *diag) {
  struct number number;
  if (!read_number(text, &number)) return refuse_bytes(diag, text, what, NULL);
  const struct unit *unit = find_unit(number.rest, strlen(number.rest));
  if (!unit) return refuse_bytes(diag, text, what, &number);
  int64_t value;
  bool exact;
  if (!scale_number(&number, unit->scale, &value, &exact))
    return refuse(diag, text, what, "is too large", NULL);
  if (!exact && unit->scale == 1) return refuse(diag, text, what, "is not a whole number of bytes", NULL);
  *out = value;
  return SPP_OK;
}

enum spp_status spp_rate_parse(const char *text, const char *what, double *bytes_per_s,
                               struct spp_diag *diag) {
  static const char hint[] = "write 50GB/s (bytes) or 400Gb/s (bits)";
  struct number number;
  if (!read_number(text, &number)) return refuse(diag, text, what, "is not a rate", hint);
  if (number.overflow) return refuse(diag, text, what, "is too large", NULL);
  size_t n = strlen(number.rest);
  if (n < 3 || n > 5 || strcmp(number.rest + n - 2, "/s") != 0)
    return refuse(diag, text, what, "is not a rate", hint);
  char name[4];
  memcpy(name, number.rest, n - 2);
  name[n - 2] = '\0';
  bool bits = name[n - 3] == 'b';
  if (bits) name[n - 3] = 'B';
  const struct unit *unit = find_unit(name, n - 2);
  if (!unit) return refuse(diag, text, what, "is not a rate", hint);
  *bytes_per_s = number_value(&number) * (double)unit->scale / (bits ? 8 : 1);
  return SPP_OK;
}

enum spp_status spp_seconds_parse(const char *text, const char *what, double *s, struct spp_diag *diag) {
  static const struct {
    const char *name;
    double times, over; /* dividing by 1e6 keeps 10us the nearest double to 1e-5 */
  } units[] = {{"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1},
               {"min", 60, 1}, {"h", 3600, 1}, {"d", 86400, 1}};
  static const char hint[] = "write 10us, 3ms, 2s, 5min, 2h or 3d";
  struct number number;
  if (!read_number(text, &number)) return refuse(diag, text, what, "is not a time", hint);
  if (number.overflow) return refuse(diag, text, what, "is too large", NULL);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (strcmp(number.rest, units[i].name) != 0) continue;
    *s = number_value(&number) * units[i].times / units[i].over;
    return SPP_OK;
  }
  return refuse(diag, text, what, *number.rest ? "is not a time" : "has no unit of time", hint);
}

enum spp_status spp_real_parse(const char *text, const char *what, double min, double max, double *out,
                               struct spp_diag *diag) {
  double value;
  char low[32], high[32];
  if (!spp_decimal_parse(text, strlen(text), &value))
    return refuse(diag, text, what, "is not a number", "write it like 0.25 or 1e-4");
  if (value < min || value > max)
    return spp_diag_set(diag, SPP_ERR_USAGE, what, NULL, "'%s' is outside %s to %s", text,
                        spp_decimal_print(min, 6, low), spp_decimal_print(max, 6, high));
  *out = value;
  return SPP_OK;
}

/* One decimal below 100, none above, in the largest unit that keeps the number at least 1. */
static const char *print_scaled(int64_t bytes, double step, const char *const *units, char buf[32]) {
  double value = fabs((double)bytes);
  int unit = 0;
  while (unit < 5 && value >= step) {
    value /= step;
    unit++;
  }
  /* 1023.7 MiB would round to "1024 MiB". */
  if (unit > 0 && unit < 5 && floor(value + 0.5) >= step) {
    value /= step;
    unit++;
  }
  char digits[32];
  spp_decimal_fixed(value, unit > 0 && value < 99.95 ? 1 : 0, digits);
  snprintf(buf, 32, "%s%.20s %s", bytes < 0 ? "-" : "", digits, units[unit]);
  return buf;
}

const char *spp_bytes_print(int64_t bytes, char buf[32]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return print_scaled(bytes, 1024, units, buf);
}

const char *spp_bytes_print_decimal(int64_t bytes, char buf[32]) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return print_scaled(bytes, 1000, units, buf);
}

const char *spp_int_print(int64_t value, char buf[32]) {
  char digits[24];
  /* Negating INT64_MIN overflows; its unsigned magnitude does not. */
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)magnitude);
  char *out = buf;
  if (value < 0) *out++ = '-';
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) *out++ = ',';
    *out++ = digits[i];
  }
  *out = '\0';
  return buf;
}

const char *spp_tokens_print(int64_t tokens, char buf[32]) {
  const int64_t k = 1024, m = k * k;
  if (tokens <= 0 || tokens % k != 0) return spp_int_print(tokens, buf);
  bool millions = tokens % m == 0;
  snprintf(buf, 32, "%lld%c", (long long)(tokens / (millions ? m : k)), millions ? 'm' : 'k');
  return buf;
}

/* "3 h 12 min": whole smaller units of a longer time. */
static const char *print_pair(double s, double large, const char *large_name, double small,
                              const char *small_name, char buf[32]) {
  double units = floor(s / small + 0.5), per_large = large / small;
  double first = floor(units / per_large);
  snprintf(buf, 32, "%.0f %s %.0f %s", first, large_name, units - first * per_large, small_name);
  return buf;
}

const char *spp_seconds_print(double s, char buf[32]) {
  static const struct {
    double unit_s;
    const char *name;
  } small[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}};
  if (!isfinite(s) || fabs(s) >= 86400e9) {
    snprintf(buf, 32, "%s", isnan(s) ? "unknown" : s > 0 ? "forever" : "-forever");
    return buf;
  }
  if (s == 0) {
    snprintf(buf, 32, "0 s");
    return buf;
  }
  double size = fabs(s);
  if (size >= 59.95) {
    char text[32];
    if (size < 3599.5)
      print_pair(size, 60, "min", 1, "s", text);
    else if (size < 86400 - 30)
      print_pair(size, 3600, "h", 60, "min", text);
    else
      print_pair(size, 86400, "d", 3600, "h", text);
    snprintf(buf, 32, "%s%.30s", s < 0 ? "-" : "", text);
    return buf;
  }
  int unit = 0;
  while (unit < 3 && size / small[unit].unit_s >= 999.5)
    unit++;
  double value = size / small[unit].unit_s;
  char digits[32];
  spp_decimal_fixed(value, value < 99.95 ? 1 : 0, digits);
  snprintf(buf, 32, "%s%.20s %s", s < 0 ? "-" : "", digits, small[unit].name);
  return buf;
}
