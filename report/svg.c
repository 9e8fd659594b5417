#include "report/svg.h"

#include <math.h>

#include "base/decimal.h"

/* Okabe and Ito's palette, told apart by colour-blind readers; repeats with another mark shape. */
static const char *const palette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
enum { COLOURS = sizeof palette / sizeof palette[0] };

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
    default: spp_str_addc(out, *text);
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
                   ".e{stroke:#222}.d{stroke:#888;stroke-dasharray:4 3}"
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

static void label(const struct spp_svg_chart *c, double x, double y, const char *anchor, const char *text) {
  spp_str_add(c->out, "<text class=\"t\"");
  attribute(c->out, "x", x);
  attribute(c->out, "y", y);
  spp_str_addf(c->out, " text-anchor=\"%s\">", anchor);
  spp_svg_text(c->out, text);
  spp_str_add(c->out, "</text>\n");
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

static void tick(const struct spp_svg_chart *c, bool horizontal, double value) {
  char text[32];
  spp_decimal_print(value, 3, text);
  if (horizontal) {
    double x = pixel_x(c, value);
    segment(c->out, x, c->top, x, c->top + c->height, "g");
    label(c, x, c->top + c->height + 14, "middle", text);
  } else {
    double y = pixel_y(c, value);
    segment(c->out, c->left, y, c->left + c->width, y, "g");
    label(c, c->left - 5, y + 4, "end", text);
  }
}

static void ticks(const struct spp_svg_chart *c, bool horizontal) {
  const struct spp_svg_axis *axis = horizontal ? &c->x : &c->y;
  double value = axis->log ? pow(10, floor(log10(axis->low))) : floor(axis->low);
  for (int i = 0; i < 100 && value <= axis->high; i++, value = next_tick(axis, value))
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
  label(c, c->left + c->width / 2, c->top - 8, "middle", heading);
  label(c, c->left + c->width / 2, c->top + c->height + 30, "middle", c->x.label);
  spp_str_add(c->out, "<text class=\"t\" text-anchor=\"middle\" transform=\"translate(");
  number(c->out, c->left - 38);
  spp_str_addc(c->out, ' ');
  number(c->out, c->top + c->height / 2);
  spp_str_add(c->out, ") rotate(-90)\">");
  spp_svg_text(c->out, c->y.label);
  spp_str_add(c->out, "</text>\n");
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
  if (!title) {
    spp_str_add(out, "/>\n");
    return;
  }
  spp_str_add(out, "><title>");
  spp_svg_text(out, title);
  spp_str_addf(out, "</title></%s>\n", series / COLOURS % 2 == 0 ? "circle" : "rect");
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
  struct spp_svg_chart chart = {.out = out};
  for (int i = 0; i < count; i++) {
    mark(out, left, top + 15 * i, i, NULL);
    label(&chart, left + 8, top + 15 * i + 4, "start", names[i]);
  }
}
