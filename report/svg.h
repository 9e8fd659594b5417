/* Small SVG charts: one plot area with axes, drawn in order. Self-contained, no script, readable on dark and
 * light pages. */
#ifndef SPP_REPORT_SVG_H
#define SPP_REPORT_SVG_H

#include <stdbool.h>

#include "base/strbuf.h"

enum { SPP_SVG_MAX_SERIES = 32 };
struct spp_svg_axis {
  const char *label; /* "measured GiB" */
  double low, high;  /* data range; positive when log */
  bool log;
};
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
/* Legend rows at (left, top) in pixels. */
void spp_svg_legend(struct spp_str *out, double left, double top, const char *const *names, int count);
/* Text with XML's own characters escaped. */
void spp_svg_text(struct spp_str *out, const char *text);

#endif
