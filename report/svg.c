#include "report/svg.h"

#include <math.h>
#include <stdio.h>

#include "base/decimal.h"
#include "base/units.h"
#include "base/utf8.h"

/* Okabe and Ito's palette, told apart by colour-blind readers; repeats with another mark shape. */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
enum {
  COLOURS = sizeof palette / sizeof palette[0],
  LETTER = 6 /* pixels a letter of the font takes, about */
};
const char *spp_svg_colour(int series) {
  return palette[series % COLOURS];
}

static void number(struct spp_str *out, double value) {
  char buf[32];
  spp_str_add(out, spp_decimal_print(round(value * 10) / 10, 6, buf));
}
static void attribute(struct spp_str *out, const char *name, double value) {
  spp_str_addf(out, " %s=\"", name);
  number(out, value);
  spp_str_addc(out, '"');
}

void spp_svg_text(struct spp_str *out, const char *text) {
  for (; *text; text++)
    switch (*text) {
    case '&': spp_str_add(out, "&amp;"); break;
    case '<': spp_str_add(out, "&lt;"); break;
    case '>': spp_str_add(out, "&gt;"); break;
    case '"': spp_str_add(out, "&quot;"); break;
    default: spp_str_addc(out, (unsigned char)*text < 32 ? ' ' : *text); /* XML has no control characters */
    }
}

void spp_svg_open(struct spp_str *out, double width, double height, const char *title) {
  spp_str_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ");
  number(out, width);
  spp_str_addc(out, ' ');
  number(out, height);
  spp_str_add(out, "\" font-family=\"sans-serif\" font-size=\"11\">\n<title>");
  spp_svg_text(out, title);
  spp_str_add(out, "</title>\n<style>.t{fill:#222}.a{stroke:#555;fill:none}.g{stroke:#bbb;stroke-opacity:.5}"
                   ".e{stroke:#222}.d{stroke:#888;stroke-dasharray:4 "
                   "3}.x{stroke:#d62728;stroke-width:2;fill:none}.c{stroke:#d62728;stroke-dasharray:4 3}"
                   "@media(prefers-color-scheme:dark){.t{fill:#ddd}.a{stroke:#aaa}.g{stroke:#666}.e{stroke:#"
                   "ddd}}</style>\n");
}
void spp_svg_close(struct spp_str *out) {
  spp_str_add(out, "</svg>\n");
}

static double share(const struct spp_svg_axis *axis, double value) {
  return axis->log ? log(value / axis->low) / log(axis->high / axis->low)
                   : (value - axis->low) / (axis->high - axis->low);
}
static double pixel_x(const struct spp_svg_chart *c, double value) {
  return c->left + share(&c->x, value) * c->width;
}
static double pixel_y(const struct spp_svg_chart *c, double value) {
  return c->top + (1 - share(&c->y, value)) * c->height;
}

void spp_svg_words(struct spp_str *out, double x, double y, const char *anchor, const char *text) {
  spp_str_add(out, "<text class=\"t\"");
  attribute(out, "x", x);
  attribute(out, "y", y);
  spp_str_addf(out, " text-anchor=\"%s\">", anchor);
  spp_svg_text(out, text);
  spp_str_add(out, "</text>\n");
}

static void segment(struct spp_str *out, double x1, double y1, double x2, double y2, const char *style) {
  spp_str_addf(out, "<line class=\"%s\"", style);
  attribute(out, "x1", x1);
  attribute(out, "y1", y1);
  attribute(out, "x2", x2);
  attribute(out, "y2", y2);
  spp_str_add(out, "/>\n");
}

/* The tick after `value`: 1, 2, 5 times powers of ten on log axes, powers of ten only over more than three
 * decades. */
static double next_tick(const struct spp_svg_axis *axis, double value) {
  if (axis->ticks == SPP_SVG_TOKENS) return value * (axis->high / axis->low > 256 ? 4 : 2);
  if (!axis->log) {
    double step = pow(10, floor(log10((axis->high - axis->low) / 4)));
    while ((axis->high - axis->low) / step > 6)
      step *= 2;
    return (floor(value / step + 1e-9) + 1) * step;
  }
  double decade = pow(10, floor(log10(value) + 1e-9)), digit = value / decade;
  if (axis->high / axis->low > 1e3) return decade * 10;
  return digit < 1.5 ? decade * 2 : digit < 4 ? decade * 5 : decade * 10;
}

static void tick_text(const struct spp_svg_axis *axis, double value, char text[32]) {
  if (axis->ticks == SPP_SVG_TOKENS)
    spp_tokens_print((int64_t)value, text);
  else if (fabs(value) >= 1000 && fabs(value) < 1e15)
    spp_int_print((int64_t)round(value), text);
  else
    spp_decimal_print(value, 3, text);
}

static void tick(const struct spp_svg_chart *c, bool horizontal, double value) {
  char text[32];
  tick_text(horizontal ? &c->x : &c->y, value, text);
  if (horizontal) {
    double x = pixel_x(c, value);
    segment(c->out, x, c->top, x, c->top + c->height, "g");
    spp_svg_words(c->out, x, c->top + c->height + 14, "middle", text);
  } else {
    double y = pixel_y(c, value);
    segment(c->out, c->left, y, c->left + c->width, y, "g");
    spp_svg_words(c->out, c->left - 5, y + 4, "end", text);
  }
}

double spp_svg_category_x(const struct spp_svg_axis *axis, int i) {
  (void)axis;
  return i + 0.5;
}
double spp_svg_category_y(const struct spp_svg_axis *axis, int i) {
  return axis->high - i - 0.5;
}

/* All names down the side; along the bottom as many as there is room for. */
static void names(const struct spp_svg_chart *c, bool horizontal) {
  const struct spp_svg_axis *axis = horizontal ? &c->x : &c->y;
  int count = (int)axis->high, step = 1, widest = 1;
  if (!horizontal) {
    for (int i = 0; i < count; i++)
      spp_svg_words(c->out, c->left - 6, pixel_y(c, spp_svg_category_y(axis, i)) + 4, "end", axis->names[i]);
    return;
  }
  for (int i = 0; i < count; i++)
    if (spp_utf8_width(axis->names[i]) > widest) widest = spp_utf8_width(axis->names[i]);
  while (c->width * step / count < LETTER * widest + 6)
    step++;
  for (int i = 0; i < count; i += step)
    spp_svg_words(c->out, pixel_x(c, spp_svg_category_x(axis, i)), c->top + c->height + 14, "middle",
                  axis->names[i]);
}

static void ticks(const struct spp_svg_chart *c, bool horizontal) {
  const struct spp_svg_axis *axis = horizontal ? &c->x : &c->y;
  double value = axis->log ? pow(10, floor(log10(axis->low))) : floor(axis->low);
  if (axis->ticks == SPP_SVG_NAMES && !axis->names) return;
  if (axis->ticks == SPP_SVG_NAMES) {
    names(c, horizontal);
    return;
  }
  if (axis->ticks == SPP_SVG_TOKENS) value = pow(2, ceil(log2(axis->low)));
  for (int i = 0; i < 100 && value <= axis->high * (1 + 1e-9); i++, value = next_tick(axis, value))
    if (value >= axis->low) tick(c, horizontal, value);
}

void spp_svg_axes(const struct spp_svg_chart *c, const char *heading) {
  ticks(c, true);
  ticks(c, false);
  spp_str_add(c->out, "<rect class=\"a\"");
  attribute(c->out, "x", c->left);
  attribute(c->out, "y", c->top);
  attribute(c->out, "width", c->width);
  attribute(c->out, "height", c->height);
  spp_str_add(c->out, "/>\n");
  spp_svg_words(c->out, c->left + c->width / 2, c->top - 8, "middle", heading);
  spp_svg_words(c->out, c->left + c->width / 2, c->top + c->height + 30, "middle", c->x.label);
  if (!c->y.label) return;
  spp_str_add(c->out, "<text class=\"t\" text-anchor=\"middle\" transform=\"translate(");
  number(c->out, c->left - (c->y.high >= 10000 ? 56 : 44)); /* past the longest tick */
  spp_str_addc(c->out, ' ');
  number(c->out, c->top + c->height / 2);
  spp_str_add(c->out, ") rotate(-90)\">");
  spp_svg_text(c->out, c->y.label);
  spp_str_add(c->out, "</text>\n");
}

static void end_titled(struct spp_str *out, const char *element, const char *title) {
  if (!title) {
    spp_str_add(out, "/>\n");
    return;
  }
  spp_str_add(out, "><title>");
  spp_svg_text(out, title);
  spp_str_addf(out, "</title></%s>\n", element);
}

static void mark(struct spp_str *out, double x, double y, int series, const char *title) {
  const char *colour = palette[series % COLOURS];
  if (series / COLOURS % 2 == 0) {
    spp_str_addf(out, "<circle fill=\"%s\" fill-opacity=\".75\" r=\"3\"", colour);
    attribute(out, "cx", x);
    attribute(out, "cy", y);
  } else {
    spp_str_addf(out, "<rect fill=\"%s\" fill-opacity=\".75\" width=\"6\" height=\"6\"", colour);
    attribute(out, "x", x - 3);
    attribute(out, "y", y - 3);
  }
  end_titled(out, series / COLOURS % 2 == 0 ? "circle" : "rect", title);
}

void spp_svg_bar(const struct spp_svg_chart *c, double x1, double x2, double y, double thick,
                 const char *colour, const char *title) {
  double left = pixel_x(c, x1), right = pixel_x(c, fmin(x2, c->x.high));
  if (!(right > left)) return;
  spp_str_addf(c->out, "<rect fill=\"%s\"", colour);
  attribute(c->out, "x", left);
  attribute(c->out, "y", pixel_y(c, y) - thick / 2);
  attribute(c->out, "width", right - left);
  attribute(c->out, "height", thick);
  end_titled(c->out, "rect", title);
}

void spp_svg_cross(const struct spp_svg_chart *c, double x, double y, const char *title) {
  if (!(x >= c->x.low && x <= c->x.high && y >= c->y.low && y <= c->y.high)) return;
  spp_str_add(c->out, "<path class=\"x\" d=\"M");
  number(c->out, pixel_x(c, x) - 4);
  spp_str_addc(c->out, ' ');
  number(c->out, pixel_y(c, y) - 4);
  spp_str_add(c->out, "l8 8m0 -8l-8 8\"");
  end_titled(c->out, "path", title);
}

void spp_svg_polyline(const struct spp_svg_chart *c, const double *x, const double *y, int n, int series) {
  bool drawing = false;
  for (int i = 0; i <= n; i++) {
    bool there = i < n && !isnan(y[i]);
    if (there && !drawing)
      spp_str_addf(c->out, "<polyline fill=\"none\" stroke-width=\"1.8\" stroke=\"%s\" points=\"",
                   palette[series % COLOURS]);
    if (!there && drawing) spp_str_add(c->out, "\"/>\n");
    drawing = there;
    if (!there) continue;
    number(c->out, pixel_x(c, x[i]));
    spp_str_addc(c->out, ',');
    number(c->out, pixel_y(c, y[i]));
    spp_str_addc(c->out, ' ');
  }
}

void spp_svg_note(const struct spp_svg_chart *c, double x, double y, double dx, double dy, const char *anchor,
                  const char *text) {
  spp_svg_words(c->out, pixel_x(c, x) + dx, pixel_y(c, y) + dy, anchor, text);
}

double spp_svg_swatches(struct spp_str *out, double left, double top, double width, const char *const *titles,
                        const char *const *colours, int count) {
  double x = left, y = top;
  for (int i = 0; i < count; i++) {
    double wide = 22 + LETTER * (double)spp_utf8_width(titles[i]);
    if (x > left && x + wide > left + width) x = left, y += 17;
    spp_str_addf(out, "<rect fill=\"%s\" width=\"11\" height=\"11\"", colours[i]);
    attribute(out, "x", x);
    attribute(out, "y", y);
    spp_str_add(out, "/>\n");
    spp_svg_words(out, x + 15, y + 9.5, "start", titles[i]);
    x += wide + 8;
  }
  return y - top + 17;
}

void spp_svg_point(const struct spp_svg_chart *c, double x, double y, int series, const char *title) {
  if (!(x >= c->x.low && x <= c->x.high && y >= c->y.low && y <= c->y.high)) return;
  mark(c->out, pixel_x(c, x), pixel_y(c, y), series, title);
}

void spp_svg_line(const struct spp_svg_chart *c, double x1, double y1, double x2, double y2,
                  const char *style) {
  segment(c->out, pixel_x(c, x1), pixel_y(c, y1), pixel_x(c, x2), pixel_y(c, y2), style);
}

void spp_svg_legend(struct spp_str *out, double left, double top, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    mark(out, left, top + 15 * i, i, NULL);
    spp_svg_words(out, left + 8, top + 15 * i + 4, "start", names[i]);
  }
}
