/* Small SVG charts: one plot area with axes, drawn in order. Self-contained, no script, readable on dark and
 * light pages. */
#ifndef SPP_REPORT_SVG_H
#define SPP_REPORT_SVG_H

#include <stdbool.h>

#include "base/strbuf.h"

enum { SPP_SVG_MAX_SERIES = 32 };
enum spp_svg_ticks {
  SPP_SVG_NUMBERS,
  SPP_SVG_TOKENS, /* powers of two, as 4k, 8k */
  SPP_SVG_NAMES   /* one a category: low 0, high the count; from the left, or from the top */
};
struct spp_svg_axis {
  const char *label; /* "measured GiB" */
  double low, high;  /* data range; positive when log */
  bool log;
  enum spp_svg_ticks ticks;
  const char *const *names; /* of the categories */
};
/* Where category i lies on an axis of names. */
double spp_svg_category_x(const struct spp_svg_axis *axis, int i);
double spp_svg_category_y(const struct spp_svg_axis *axis, int i);
/* A chart inside one <svg>: several may stand side by side. Coordinates are in pixels of the whole picture.
 */
struct spp_svg_chart {
  struct spp_str *out;
  struct spp_svg_axis x, y;
  double left, top, width, height; /* plot area */
};
void spp_svg_open(struct spp_str *out, double width, double height, const char *title);
void spp_svg_close(struct spp_str *out);
/* Frame, ticks, grid and labels of the chart's axes, and a heading above. */
void spp_svg_axes(const struct spp_svg_chart *chart, const char *heading);
/* Marks and lines in data coordinates; what falls outside the range is left out (points) or clipped by the
 * frame (lines). series picks the colour; title is shown on hover, may be NULL. */
void spp_svg_point(const struct spp_svg_chart *chart, double x, double y, int series, const char *title);
void spp_svg_line(const struct spp_svg_chart *chart, double x1, double y1, double x2, double y2,
                  const char *style);
/* A line through n points in a series' colour; a y of NaN interrupts it. */
void spp_svg_polyline(const struct spp_svg_chart *chart, const double *x, const double *y, int n, int series);
/* A cross: what does not fit. */
void spp_svg_cross(const struct spp_svg_chart *chart, double x, double y, const char *title);
/* Horizontal bar from x1 to x2 around y, `thick` pixels high. */
void spp_svg_bar(const struct spp_svg_chart *chart, double x1, double x2, double y, double thick,
                 const char *colour, const char *title);
/* Words at data coordinates, moved by (dx, dy) pixels. anchor: "start", "middle" or "end". */
void spp_svg_note(const struct spp_svg_chart *chart, double x, double y, double dx, double dy,
                  const char *anchor, const char *text);
/* Words at pixels. */
void spp_svg_words(struct spp_str *out, double x, double y, const char *anchor, const char *text);
const char *spp_svg_colour(int series);
/* Coloured squares with names, flowing over lines within `width` pixels. Returns the height taken. */
double spp_svg_swatches(struct spp_str *out, double left, double top, double width, const char *const *names,
                        const char *const *colours, int count);
/* Legend rows at (left, top) in pixels. */
void spp_svg_legend(struct spp_str *out, double left, double top, const char *const *names, int count);
/* Text with XML's own characters escaped. */
void spp_svg_text(struct spp_str *out, const char *text);

#endif
