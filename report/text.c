#include "report/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/units.h"
#include "base/utf8.h"

static const char *const sgr[SPP_TONE_COUNT] = {
    [SPP_TONE_PLAIN] = "",   [SPP_TONE_TITLE] = "1", [SPP_TONE_GOOD] = "1;32",
    [SPP_TONE_BAD] = "1;31", [SPP_TONE_WARN] = "33", [SPP_TONE_DIM] = "2",
};

static const char separator[] = " · ";
enum { SEPARATOR_END = 2 }; /* columns that " ·" takes at the end of a line: kept free on every line */

static void paint_n(const struct spp_text_style *style, enum spp_tone tone, const char *text, size_t n,
                    struct spp_str *out) {
  bool painted = style->color && sgr[tone][0] && n > 0;
  if (painted) spp_str_addf(out, "\033[%sm", sgr[tone]);
  spp_str_addn(out, text, n);
  if (painted) spp_str_add(out, "\033[0m");
}

void spp_text_paint(const struct spp_text_style *style, enum spp_tone tone, const char *text,
                    struct spp_str *out) {
  paint_n(style, tone, text, strlen(text), out);
}

/* Blanks left at the end of a line by a break. */
static void trim(struct spp_str *out) {
  while (out->len > 0 && out->data[out->len - 1] == ' ')
    out->data[--out->len] = '\0';
}

static void new_line(struct spp_para *para) {
  trim(para->out);
  spp_str_addc(para->out, '\n');
  spp_str_fill(para->out, ' ', para->indent);
  para->column = para->indent;
}

void spp_para_begin(struct spp_para *para, const struct spp_text_style *style, const char *label,
                    struct spp_str *out) {
  *para = (struct spp_para){style, out, SPP_TEXT_LABEL, SPP_TEXT_LABEL, true};
  if (!label) {
    para->column = para->indent = 0;
    return;
  }
  spp_text_paint(style, SPP_TONE_DIM, label, out);
  spp_str_fill(out, ' ', SPP_TEXT_LABEL - spp_utf8_width(label));
}

/* Text that may be longer than the line: broken at spaces. */
static void flow(struct spp_para *para, enum spp_tone tone, const char *text) {
  int limit = para->style->width - SEPARATOR_END;
  while (*text) {
    size_t length = strcspn(text, " ");
    char word[512];
    int width;
    if (length >= sizeof word) length = sizeof word - 1;
    memcpy(word, text, length);
    word[length] = '\0';
    width = spp_utf8_width(word);
    if (para->column > para->indent && para->column + width > limit) new_line(para);
    paint_n(para->style, tone, text, length, para->out);
    para->column += width;
    text += length;
    if (*text == ' ') {
      text++;
      if (para->column < limit && *text) {
        spp_str_addc(para->out, ' ');
        para->column++;
      }
    }
  }
}

void spp_para_break(struct spp_para *para) {
  if (para->first) return;
  new_line(para);
  para->first = true;
}

/* One item without a separator inside. */
static void place(struct spp_para *para, enum spp_tone tone, const char *text) {
  int width = spp_utf8_width(text), limit = para->style->width - SEPARATOR_END;
  if (!para->first) {
    if (para->column + 3 + width > limit && width <= limit - para->indent) {
      spp_str_add(para->out, " ·");
      new_line(para);
    } else {
      spp_str_add(para->out, separator);
      para->column += 3;
    }
  }
  para->first = false;
  flow(para, tone, text);
}

void spp_para_item(struct spp_para *para, enum spp_tone tone, const char *fmt, ...) {
  char text[1024], *item = text, *next;
  va_list list;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  while ((next = strstr(item, separator)) != NULL) {
    *next = '\0';
    place(para, tone, item);
    item = next + sizeof separator - 1;
  }
  place(para, tone, item);
}

void spp_para_end(struct spp_para *para) {
  trim(para->out);
  spp_str_addc(para->out, '\n');
}

void spp_text_line(const struct spp_text_style *style, const char *label, enum spp_tone tone,
                   const char *text, struct spp_str *out) {
  struct spp_para para;
  spp_para_begin(&para, style, label, out);
  spp_para_item(&para, tone, "%s", text);
  spp_para_end(&para);
}

void spp_text_advice(const struct spp_text_style *style, const char *label, enum spp_tone tone,
                     const struct spp_advice *advice, int count, int most, struct spp_str *out) {
  struct spp_para para;
  if (count <= 0) return;
  spp_para_begin(&para, style, label, out);
  for (int i = 0; i < count && i < most; i++) {
    spp_para_break(&para);
    spp_para_item(&para, tone, "%s", advice[i].text);
  }
  if (count > most) {
    spp_para_break(&para);
    spp_para_item(&para, SPP_TONE_DIM, "%d more: -v", count - most);
  }
  spp_para_end(&para);
}

/* One column wide each, as their replacement. */
static const struct {
  const char *text;
  char ascii;
} replacements[] = {{"·", '|'}, {"×", 'x'}, {"–", '-'}, {"—", '-'}, {"→", '>'},
                    {"≤", '<'}, {"≥", '>'}, {"±", '~'}, {"…", '.'}};

static char ascii_of(const char *text, size_t n) {
  for (size_t i = 0; i < sizeof replacements / sizeof replacements[0]; i++)
    if (strlen(replacements[i].text) == n && memcmp(text, replacements[i].text, n) == 0)
      return replacements[i].ascii;
  return '?';
}

void spp_text_to_ascii(struct spp_str *text) {
  size_t to = 0;
  for (size_t from = 0; from < text->len;) {
    size_t n = spp_utf8_length(text->data + from, text->len - from);
    text->data[to++] = n <= 1 ? text->data[from] : ascii_of(text->data + from, n);
    from += n ? n : 1;
  }
  text->len = to;
  if (text->data) text->data[to] = '\0';
}

const char *spp_text_gib(int64_t bytes, char buf[32]) {
  return spp_decimal_fixed((double)bytes / SPP_GIB, 1, buf);
}

const char *spp_text_percent(double share, char buf[32]) {
  if (!isfinite(share)) return strcpy(buf, "?");
  return spp_decimal_fixed(100.0 * share, fabs(share) < 0.0995 && share != 0 ? 1 : 0, buf);
}

const char *spp_text_rate(double per_s, char buf[32]) {
  if (!isfinite(per_s) || fabs(per_s) > 1e15) return strcpy(buf, "?");
  if (per_s < 100) return spp_decimal_print(per_s, 3, buf);
  return spp_int_print((int64_t)llround(per_s), buf);
}

const char *spp_text_signed_percent(double ratio, char buf[32]) {
  double change = 100.0 * (ratio - 1.0);
  if (!isfinite(change)) return strcpy(buf, "?");
  snprintf(buf, 32, fabs(change) < 0.5 ? "0 %%" : "%+.0f %%", change);
  return buf;
}
