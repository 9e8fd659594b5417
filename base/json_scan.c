#include "base/json_scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json.h"
#include "base/utf8.h"

struct scan {
  const char *start, *at, *end;
  const char *problem; /* what is wrong at `at`, NULL while all is well */
  const char *hint;
};

static bool fail(struct scan *s, const char *problem, const char *hint) {
  s->problem = problem;
  s->hint = hint;
  return false;
}

static void skip_space(struct scan *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
    s->at++;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool digits(struct scan *s) {
  const char *from = s->at;
  while (s->at < s->end && is_digit(*s->at))
    s->at++;
  return s->at > from;
}

static bool number(struct scan *s) {
  const char *from = s->at;
  if (*s->at == '-') s->at++;
  const char *first = s->at;
  if (!digits(s)) return fail(s, "not a JSON value", NULL);
  if (*first == '0' && s->at > first + 1) return fail(s, "number with a leading zero", NULL);
  if (s->at < s->end && *s->at == '.') {
    s->at++;
    if (!digits(s)) return fail(s, "digit expected after the decimal point", NULL);
  }
  if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
    s->at++;
    if (s->at < s->end && (*s->at == '+' || *s->at == '-')) s->at++;
    if (!digits(s)) return fail(s, "digit expected in the exponent", NULL);
  }
  double value;
  size_t n = (size_t)(s->at - from);
  if (spp_decimal_parse(from, n, &value)) return true;
  s->at = from;
  return fail(s, n > SPP_DECIMAL_MAX ? "number is too long" : "number is out of range", NULL);
}

/* Four hexadecimal digits, or -1. */
static long hex4(const char *p, const char *end) {
  if (end - p < 4) return -1;
  long value = 0;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int digit = is_digit(c)            ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* at stands on 'u'. */
static bool unicode_escape(struct scan *s) {
  long code = hex4(s->at + 1, s->end);
  if (code < 0) return fail(s, "\\u needs four hexadecimal digits", NULL);
  if (code == 0) return fail(s, "\\u0000 is not allowed in a string", NULL);
  if (code >= 0xDC00 && code <= 0xDFFF) return fail(s, "lone low surrogate", NULL);
  s->at += 5;
  if (code < 0xD800 || code > 0xDBFF) return true;
  if (s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u') return fail(s, "lone high surrogate", NULL);
  long low = hex4(s->at + 2, s->end);
  if (low < 0xDC00 || low > 0xDFFF) return fail(s, "lone high surrogate", NULL);
  s->at += 6;
  return true;
}

/* at stands on the opening quote. */
static bool string(struct scan *s) {
  const char *opening = s->at++;
  while (s->at < s->end) {
    unsigned char c = (unsigned char)*s->at;
    if (c == '"') {
      s->at++;
      return true;
    }
    if (c < 0x20) return fail(s, "control character in a string", "write it as an escape, like \\n");
    if (c != '\\') {
      size_t n = spp_utf8_length(s->at, (size_t)(s->end - s->at));
      if (n == 0) return fail(s, "invalid UTF-8", "save the file as UTF-8");
      s->at += n;
      continue;
    }
    s->at++;
    if (s->at < s->end && *s->at == 'u') {
      if (!unicode_escape(s)) return false;
    } else if (s->at < s->end && *s->at && strchr("\"\\/bfnrt", *s->at)) {
      s->at++;
    } else {
      return fail(s, "unknown escape in a string", NULL);
    }
  }
  s->at = opening;
  return fail(s, "string is not closed", NULL);
}

static bool word(struct scan *s) {
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
      s->at += n;
      return true;
    }
  }
  if (spp_utf8_length(s->at, (size_t)(s->end - s->at)) == 0)
    return fail(s, "invalid UTF-8", "save the file as UTF-8");
  if (strchr("NI", *s->at) && *s->at) return fail(s, "NaN and infinity are not JSON", "use null");
  if (*s->at == '\'') return fail(s, "not a JSON value", "strings stand in double quotes");
  return fail(s, "not a JSON value", NULL);
}

static bool scalar(struct scan *s) {
  if (*s->at == '"') return string(s);
  if (*s->at == '-' || is_digit(*s->at)) return number(s);
  return word(s);
}

static bool key(struct scan *s) {
  if (s->at >= s->end) return fail(s, "object is not closed", NULL);
  if (*s->at != '"')
    return fail(s, "a key in double quotes expected", *s->at == '}' ? "remove the last comma" : NULL);
  if (!string(s)) return false;
  skip_space(s);
  if (s->at >= s->end || *s->at != ':') return fail(s, "':' expected after the key", NULL);
  s->at++;
  skip_space(s);
  return true;
}

/* After a value inside `depth` open containers: close those that end here, and stand before the next value.
 * *more is false when the outermost value is complete. */
static bool after_value(struct scan *s, const char *open, int *depth, bool *more) {
  while (*depth > 0) {
    skip_space(s);
    char closing = open[*depth - 1] == '{' ? '}' : ']';
    if (s->at >= s->end)
      return fail(s, closing == '}' ? "object is not closed" : "array is not closed", NULL);
    if (*s->at == closing) {
      s->at++;
      (*depth)--;
      continue;
    }
    if (*s->at != ',') return fail(s, closing == '}' ? "',' or '}' expected" : "',' or ']' expected", NULL);
    s->at++;
    skip_space(s);
    if (closing == ']' && s->at < s->end && *s->at == ']')
      return fail(s, "a value expected after the comma", "remove the last comma");
    *more = true;
    return closing == '}' ? key(s) : true;
  }
  *more = false;
  return true;
}

/* Open a container; *empty when it closes at once. */
static bool open_container(struct scan *s, char *open, int *depth, int max_depth, bool *empty) {
  if (*depth >= max_depth) return fail(s, "nested too deeply", NULL);
  char kind = *s->at++;
  open[(*depth)++] = kind;
  skip_space(s);
  *empty = s->at < s->end && *s->at == (kind == '{' ? '}' : ']');
  if (*empty || kind == '[') return true;
  return key(s);
}

static bool document(struct scan *s, int max_depth) {
  char open[SPP_JSON_MAX_DEPTH];
  int depth = 0;
  bool more = true;
  if (s->end - s->at >= 3 && memcmp(s->at, "\xEF\xBB\xBF", 3) == 0) s->at += 3;
  skip_space(s);
  while (more) {
    if (s->at >= s->end) return fail(s, depth ? "a value expected" : "no JSON value", NULL);
    if (*s->at == '{' || *s->at == '[') {
      bool empty;
      if (!open_container(s, open, &depth, max_depth, &empty)) return false;
      if (!empty) continue;
    } else if (!scalar(s)) {
      return false;
    }
    if (!after_value(s, open, &depth, &more)) return false;
  }
  skip_space(s);
  if (s->at < s->end) return fail(s, "text after the JSON value", NULL);
  return true;
}

enum spp_status spp_json_scan(const char *text, size_t len, const char *name, int max_depth,
                              struct spp_diag *diag) {
  struct scan s = {.start = text, .at = text, .end = text + len};
  if (max_depth > SPP_JSON_MAX_DEPTH) max_depth = SPP_JSON_MAX_DEPTH;
  if (document(&s, max_depth)) return SPP_OK;
  long line = 1, column = 1;
  for (const char *p = s.start; p < s.at; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if (((unsigned char)*p & 0xC0) != 0x80) {
      column++;
    }
  }
  char where[320];
  snprintf(where, sizeof where, "%.256s:%ld:%ld", name, line, column);
  return spp_diag_set(diag, SPP_ERR_INPUT, where, s.hint, "%s", s.problem);
}
