#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "base/utf8.h"
#include "report/text.h"
#include "tui/draw.h"

/* Number of a strategy among those with a curve; -1 when it has none. */
static int curve_of(const struct spp_compare_result *compare, int row) {
  int at = 0;
  if (!compare->rows[row].legal) return -1;
  for (int i = 0; i < row; i++)
    at += compare->rows[i].legal;
  return at;
}

static void draw_row(const struct spp_tui_outcome *outcome, int index, const struct spp_rect *rect, int line,
                     bool here, struct spp_screen *screen) {
  const struct spp_compare_row *row = &outcome->compare.rows[index];
  char gib[32], rate[32], layout[300];
  int curve = curve_of(&outcome->compare, index);
  if (curve >= 0) spp_put_char(screen, rect, line, 1, spp_ink_series(curve), (uint32_t)('a' + curve % 26));
  spp_putf(screen, rect, line, 3, row->legal ? SPP_INK_PLAIN : SPP_INK_DIM, "%.23s", row->name);
  if (row->legal) {
    const struct spp_prediction *p = &row->plan.prediction;
    bool fits = p->memory.fits && p->memory.host_fits;
    spp_putf(screen, rect, line, 27, fits ? SPP_INK_GOOD : SPP_INK_BAD, "%6s %s",
             spp_text_gib(p->memory.device_bytes, gib), fits ? "OK " : "OOM");
    spp_putf(screen, rect, line, 38, SPP_INK_PLAIN, "%7s", spp_text_rate(p->time.tokens_per_s_per_gpu, rate));
    spp_putf(screen, rect, line, 48, SPP_INK_PLAIN, "%s %s", row->plan.job.framework->name,
             spp_layout_describe(&row->plan.job, &row->plan.layout, layout, sizeof layout));
  } else {
    spp_putf(screen, rect, line, 27, SPP_INK_DIM, "illegal: %s", row->why_not);
  }
  if (here) spp_put_role(screen, rect, line, SPP_INK_SELECTED);
}

void spp_draw_compare(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_DETAIL, rect);
  struct spp_rect inner = {rect->row, rect->col + 1, rect->rows, rect->cols - 1};
  spp_draw_head(app, SPP_PANE_DETAIL, rect, screen, "4 Strategies", "1 memory 2 comm 3 time 5 why ");
  if (!app->outcome || !app->outcome->has_compare) {
    spp_put_wrapped(screen, &inner, 1, SPP_INK_DIM,
                    app->searching ? "comparing the strategies… (Esc stops)" : "r compares the strategies");
    return;
  }
  if (list.line > 1) {
    spp_put_fill(screen, rect, 1, 0, SPP_INK_COLUMN, ' ', rect->cols);
    spp_put(screen, rect, 1, 3, SPP_INK_COLUMN, "strategy                   GiB     tok/s/GPU   layout");
  }
  for (int i = 0; i < list.lines && list.top + i < list.count; i++)
    draw_row(app->outcome, list.top + i, rect, list.line + i, list.focused && list.top + i == list.cursor,
             screen);
  int below = list.line + list.lines;
  struct spp_rect plot = {rect->row + below, rect->col, rect->rows - below, rect->cols};
  if (plot.rows >= 6 && plot.cols >= 30) spp_draw_plot(app->outcome, &plot, screen);
}

/* ---- the plot ---- */

/* Dots of braille: two columns and four rows in each character. */
struct dots {
  int cols, rows; /* of dots */
  struct spp_rect area;
};

static void dot(const struct dots *dots, struct spp_screen *screen, int x, int y, int series) {
  static const uint32_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  int row = dots->area.row + y / 4, col = dots->area.col + x / 2;
  if (x < 0 || y < 0 || x >= dots->cols || y >= dots->rows || row >= screen->rows || col >= screen->cols)
    return;
  struct spp_cell_glyph *cell = &screen->cells[row * screen->cols + col];
  uint32_t old = cell->ch >= 0x2800 && cell->ch < 0x2900 ? cell->ch : 0x2800;
  if (screen->utf8)
    *cell = (struct spp_cell_glyph){old | bits[y % 4][x % 2], (uint8_t)spp_ink_series(series)};
  else
    *cell = (struct spp_cell_glyph){(uint32_t)('a' + series % 26), (uint8_t)spp_ink_series(series)};
}

static void line(const struct dots *dots, struct spp_screen *screen, int x0, int y0, int x1, int y1,
                 int series) {
  int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
  for (int i = 0; i <= steps; i++)
    dot(dots, screen, x0 + (steps ? (x1 - x0) * i / steps : 0), y0 + (steps ? (y1 - y0) * i / steps : 0),
        series);
}

/* What a curve is made of: tokens a second of the whole job, length by length. */
struct plot {
  const struct spp_compare_result *compare;
  struct dots dots;
  double most;
};

static double fastest(const struct spp_compare_result *compare) {
  double most = 0;
  for (int r = 0; r < compare->count; r++)
    for (int i = 0; compare->rows[r].legal && i < SPP_COMPARE_LENGTHS; i++)
      most = fmax(most, compare->rows[r].tokens_per_s_at[i]);
  return most;
}

static int x_of(const struct plot *plot, double length) {
  return (int)((plot->dots.cols - 1) * length / (SPP_COMPARE_LENGTHS - 1) + 0.5);
}
static int y_of(const struct plot *plot, double value) {
  return (int)((1 - value / plot->most) * (plot->dots.rows - 1) + 0.5);
}

static void draw_curve(const struct plot *plot, const double *values, int series, struct spp_screen *screen) {
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++) {
    if (!(values[i] > 0)) continue;
    int x = x_of(plot, i), y = y_of(plot, values[i]);
    if (i > 0 && values[i - 1] > 0)
      line(&plot->dots, screen, x_of(plot, i - 1), y_of(plot, values[i - 1]), x, y, series);
    dot(&plot->dots, screen, x, y, series);
  }
}

/* The letter of a curve where it ends, so that no colour is needed to tell curves apart. */
static void draw_letter(const struct plot *plot, const double *values, int series,
                        struct spp_screen *screen) {
  for (int i = SPP_COMPARE_LENGTHS - 1; i >= 0; i--) {
    if (!(values[i] > 0)) continue;
    int col = x_of(plot, i) / 2 - series % 4; /* curves that end together: letters side by side */
    spp_put_char(screen, &plot->dots.area, y_of(plot, values[i]) / 4, col > 0 ? col : 0,
                 spp_ink_series(series), (uint32_t)('a' + series % 26));
    return;
  }
}

static int curve_named(const struct spp_compare_result *compare, const char *name) {
  for (int i = 0; i < compare->count; i++)
    if (strcmp(compare->rows[i].name, name) == 0) return curve_of(compare, i);
  return -1;
}

/* Where the fastest strategy changes: a mark in the plot, the letters above it. */
static void draw_crossovers(const struct plot *plot, struct spp_screen *screen) {
  const struct spp_compare_result *compare = plot->compare;
  for (int i = 0; i < compare->crossover_count; i++) {
    const struct spp_crossover *c = &compare->crossovers[i];
    int from = curve_named(compare, c->from), to = curve_named(compare, c->to);
    int col = x_of(plot, log2((double)c->seq_tokens / SPP_COMPARE_SHORTEST)) / 2;
    if (from < 0 || to < 0) continue;
    for (int row = 1; row < plot->dots.area.rows; row++) {
      const struct spp_rect *a = &plot->dots.area;
      if (screen->cells[(a->row + row) * screen->cols + a->col + col].ch == ' ')
        spp_put_char(screen, a, row, col, SPP_INK_DIM, 0x2502);
    }
    spp_putf(screen, &plot->dots.area, 0, col - (col > 0), SPP_INK_KEY, "%c>%c", 'a' + from % 26,
             'a' + to % 26);
  }
}

static void draw_axes(const struct plot *plot, int64_t gpus, const struct spp_rect *rect,
                      struct spp_screen *screen) {
  double most = plot->most / (double)spp_max64(gpus, 1);
  char text[32];
  int next = 0;
  spp_put(screen, rect, 0, 1, SPP_INK_DIM,
          "tok/s/GPU over sequence length; a line ends where nothing fits; a>b: b is faster from here");
  spp_putf(screen, rect, 1, 0, SPP_INK_DIM, "%7s", spp_text_rate(most, text));
  spp_putf(screen, rect, 1 + plot->dots.area.rows / 2, 0, SPP_INK_DIM, "%7s", spp_text_rate(most / 2, text));
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++) {
    const char *label = spp_tokens_print(INT64_C(4096) << i, text);
    int width = spp_utf8_width(label), col = 8 + x_of(plot, i) / 2;
    if (i == SPP_COMPARE_LENGTHS - 1) col -= width - 1;
    if (col < next) continue;
    next = spp_put(screen, rect, rect->rows - 1, col, SPP_INK_DIM, label) + 2;
  }
}

void spp_draw_plot(const struct spp_tui_outcome *outcome, const struct spp_rect *rect,
                   struct spp_screen *screen) {
  const struct spp_compare_result *compare = &outcome->compare;
  struct plot plot = {.compare = compare,
                      .dots = {.area = {rect->row + 1, rect->col + 8, rect->rows - 2, rect->cols - 9}},
                      .most = fastest(compare)};
  int64_t gpus = 1;
  plot.dots.cols = 2 * plot.dots.area.cols;
  plot.dots.rows = 4 * plot.dots.area.rows;
  if (!(plot.most > 0) || plot.dots.area.rows < 2 || plot.dots.area.cols < 8) return;
  for (int i = 0; i < compare->count; i++)
    if (compare->rows[i].legal) gpus = compare->rows[i].plan.job.gpus;
  draw_axes(&plot, gpus, rect, screen);
  for (int i = compare->count - 1; i >= 0; i--)
    if (compare->rows[i].legal)
      draw_curve(&plot, compare->rows[i].tokens_per_s_at, curve_of(compare, i), screen);
  draw_crossovers(&plot, screen);
  for (int i = compare->count - 1; i >= 0; i--)
    if (compare->rows[i].legal)
      draw_letter(&plot, compare->rows[i].tokens_per_s_at, curve_of(compare, i), screen);
}
