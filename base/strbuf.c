#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char empty_text[1] = "";

void spp_str_init(struct spp_str *s) {
  *s = (struct spp_str){0};
}

void spp_str_free(struct spp_str *s) {
  if (s->cap > 0) free(s->data);
  spp_str_init(s);
}

void spp_str_clear(struct spp_str *s) {
  s->len = 0;
  s->failed = false;
  if (s->cap > 0) s->data[0] = '\0';
}

/* Room for `more` bytes and the NUL. */
static bool reserve(struct spp_str *s, size_t more) {
  if (s->failed) return false;
  if (more < s->cap && s->len + more < s->cap) return true;
  size_t cap = s->cap ? s->cap : 64;
  while (cap <= s->len + more && cap <= SIZE_MAX / 4)
    cap *= 2;
  char *data = more < SIZE_MAX / 4 && cap > s->len + more ? realloc(s->cap ? s->data : NULL, cap) : NULL;
  if (!data) {
    if (!s->data) s->data = empty_text;
    s->failed = true;
    return false;
  }
  s->data = data;
  s->cap = cap;
  return true;
}

void spp_str_addn(struct spp_str *s, const char *bytes, size_t n) {
  if (!reserve(s, n)) return;
  if (n > 0) memcpy(s->data + s->len, bytes, n);
  s->len += n;
  s->data[s->len] = '\0';
}

void spp_str_add(struct spp_str *s, const char *text) {
  spp_str_addn(s, text, strlen(text));
}

void spp_str_addc(struct spp_str *s, char ch) {
  spp_str_addn(s, &ch, 1);
}

void spp_str_addf(struct spp_str *s, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0) {
    s->failed = true;
  } else if (reserve(s, (size_t)n)) {
    vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
    s->len += (size_t)n;
  }
  va_end(again);
}

void spp_str_fill(struct spp_str *s, char ch, int count) {
  if (count <= 0 || !reserve(s, (size_t)count)) return;
  memset(s->data + s->len, ch, (size_t)count);
  s->len += (size_t)count;
  s->data[s->len] = '\0';
}

const char *spp_str_text(const struct spp_str *s) {
  return s->data ? s->data : "";
}
