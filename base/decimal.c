#include "base/decimal.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end) {
  while (p < end && is_digit(*p))
    p++;
  return p;
}

static bool is_decimal(const char *p, const char *end) {
  if (p < end && *p == '-') p++;
  const char *start = p;
  p = skip_digits(p, end);
  if (p == start) return false;
  if (p < end && *p == '.') {
    start = ++p;
    p = skip_digits(p, end);
    if (p == start) return false;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < end && (*p == '+' || *p == '-')) p++;
    start = p;
    p = skip_digits(p, end);
    if (p == start) return false;
  }
  return p == end;
}

/* The locale's decimal point; multi-byte points exist, so it is a string. */
static const char *point(void) {
  const struct lconv *locale = localeconv();
  return locale && locale->decimal_point && locale->decimal_point[0] ? locale->decimal_point : ".";
}

bool spp_decimal_parse(const char *text, size_t n, double *out) {
  if (n == 0 || n > SPP_DECIMAL_MAX || !is_decimal(text, text + n)) return false;
  char local[SPP_DECIMAL_MAX + 16];
  const char *dot = memchr(text, '.', n);
  if (dot)
    snprintf(local, sizeof local, "%.*s%s%.*s", (int)(dot - text), text, point(), (int)(text + n - dot - 1),
             dot + 1);
  else
    snprintf(local, sizeof local, "%.*s", (int)n, text);
  double value = strtod(local, NULL);
  if (!isfinite(value)) return false;
  *out = value;
  return true;
}

/* Put '.' where the locale's point stands. */
static const char *normalise(char *buf) {
  const char *local = point();
  if (strcmp(local, ".") == 0) return buf;
  char *found = strstr(buf, local);
  if (found) {
    size_t n = strlen(local);
    *found = '.';
    memmove(found + 1, found + n, strlen(found + n) + 1);
  }
  return buf;
}

const char *spp_decimal_print(double value, int digits, char buf[32]) {
  snprintf(buf, 32, "%.*g", digits, value);
  return normalise(buf);
}

const char *spp_decimal_fixed(double value, int places, char buf[32]) {
  snprintf(buf, 32, "%.*f", places, value);
  return normalise(buf);
}
