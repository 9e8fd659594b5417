#include "base/json_out.h"

#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

void spp_jo_begin(struct spp_jo *jo, struct spp_str *out, bool pretty) {
  *jo = (struct spp_jo){.out = out, .pretty = pretty};
}

static void quote(struct spp_str *out, const char *text) {
  spp_str_addc(out, '"');
  for (size_t left = strlen(text); left > 0;) {
    unsigned char c = (unsigned char)*text;
    size_t n = spp_utf8_length(text, left);
    if (n == 0) {
      spp_str_add(out, "\xEF\xBF\xBD");
      n = 1;
    } else if (c == '"' || c == '\\') {
      spp_str_addc(out, '\\');
      spp_str_addc(out, (char)c);
    } else if (c == '\n') {
      spp_str_add(out, "\\n");
    } else if (c == '\t') {
      spp_str_add(out, "\\t");
    } else if (c < 0x20 || c == 0x7F) {
      spp_str_addf(out, "\\u%04x", c);
    } else {
      spp_str_addn(out, text, n);
    }
    text += n;
    left -= n;
  }
  spp_str_addc(out, '"');
}

/* Comma, line break and key, as the place asks for. */
static void lead(struct spp_jo *jo, const char *key) {
  if (jo->depth > 0) {
    int top = jo->depth - 1;
    if (jo->is_array[top] != (key == NULL)) jo->failed = true;
    if (jo->has_any[top]) spp_str_addc(jo->out, ',');
    jo->has_any[top] = true;
    if (jo->pretty) {
      spp_str_addc(jo->out, '\n');
      spp_str_fill(jo->out, ' ', jo->depth);
    }
  } else if (key) {
    jo->failed = true;
  }
  if (!key) return;
  quote(jo->out, key);
  spp_str_add(jo->out, jo->pretty ? ": " : ":");
}

static void open_container(struct spp_jo *jo, const char *key, bool is_array) {
  if (jo->depth >= SPP_JO_MAX_DEPTH) {
    jo->failed = true;
    return;
  }
  lead(jo, key);
  spp_str_addc(jo->out, is_array ? '[' : '{');
  jo->is_array[jo->depth] = is_array;
  jo->has_any[jo->depth] = false;
  jo->depth++;
}

void spp_jo_obj(struct spp_jo *jo, const char *key) {
  open_container(jo, key, false);
}

void spp_jo_arr(struct spp_jo *jo, const char *key) {
  open_container(jo, key, true);
}

void spp_jo_end(struct spp_jo *jo) {
  if (jo->depth == 0) {
    jo->failed = true;
    return;
  }
  jo->depth--;
  if (jo->pretty && jo->has_any[jo->depth]) {
    spp_str_addc(jo->out, '\n');
    spp_str_fill(jo->out, ' ', jo->depth);
  }
  spp_str_addc(jo->out, jo->is_array[jo->depth] ? ']' : '}');
  if (jo->depth == 0) spp_str_addc(jo->out, '\n');
}

void spp_jo_i64(struct spp_jo *jo, const char *key, int64_t value) {
  lead(jo, key);
  spp_str_addf(jo->out, "%lld", (long long)value);
}

static void real(struct spp_jo *jo, const char *key, double value, int digits) {
  if (!isfinite(value)) {
    spp_jo_null(jo, key);
    return;
  }
  char buf[32];
  lead(jo, key);
  spp_str_add(jo->out, spp_decimal_print(value, digits, buf));
}

void spp_jo_real(struct spp_jo *jo, const char *key, double value) {
  real(jo, key, value, 6);
}

/* 15 digits are enough for what people wrote, 17 for every double. */
void spp_jo_real_exact(struct spp_jo *jo, const char *key, double value) {
  char text[32];
  double back = 0;
  int digits = 15;
  while (isfinite(value) && digits < 17 &&
         (!spp_decimal_parse(spp_decimal_print(value, digits, text), strlen(text), &back) || back != value))
    digits++;
  real(jo, key, value, digits);
}

void spp_jo_str(struct spp_jo *jo, const char *key, const char *text) {
  if (!text) {
    spp_jo_null(jo, key);
    return;
  }
  lead(jo, key);
  quote(jo->out, text);
}

void spp_jo_bool(struct spp_jo *jo, const char *key, bool value) {
  lead(jo, key);
  spp_str_add(jo->out, value ? "true" : "false");
}

void spp_jo_null(struct spp_jo *jo, const char *key) {
  lead(jo, key);
  spp_str_add(jo->out, "null");
}

void spp_jo_i64_if(struct spp_jo *jo, const char *key, int64_t value, bool known) {
  if (known)
    spp_jo_i64(jo, key, value);
  else
    spp_jo_null(jo, key);
}

void spp_jo_real_if(struct spp_jo *jo, const char *key, double value, bool known) {
  spp_jo_real(jo, key, known ? value : NAN);
}

void spp_jo_bool_if(struct spp_jo *jo, const char *key, bool value, bool known) {
  if (known)
    spp_jo_bool(jo, key, value);
  else
    spp_jo_null(jo, key);
}

bool spp_jo_ok(const struct spp_jo *jo) {
  return !jo->failed && jo->depth == 0 && !jo->out->failed;
}
