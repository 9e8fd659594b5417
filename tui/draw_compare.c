#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "base/utf8.h"
#include "report/text.h"
#include "tui/draw.h"

static char curve_letter(const struct spp_tui_outcome *outcome, int row) {
  for (int i = 0; i < outcome->curve_count; i++)
    if (outcome->curves[i].row == row) return (char)('a' + i);
  return ' ';
}

static void draw_row(const struct spp_tui_outcome *outcome, int index, const struct spp_rect *rect, int line,
                     bool here, struct spp_screen *screen) {
  const struct spp_compare_row *row = &outcome->compare.rows[index];
  char gib[32], rate[32], layout[300];
  char letter[2] = {curve_letter(outcome, index), '\0'};
  if (letter[0] != ' ') spp_put(screen, rect, line, 1, spp_ink_series(letter[0] - 'a'), letter);
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

static double fastest(const struct spp_tui_outcome *outcome) {
  double most = 0;
  for (int c = 0; c < outcome->curve_count; c++)
    for (int i = 0; i < SPP_CURVE_POINTS; i++)
      most = fmax(most, outcome->curves[c].tokens_per_s_per_gpu[i]);
  return most;
}

static void draw_curve(const struct spp_curve *curve, int series, double most, const struct dots *dots,
                       struct spp_screen *screen) {
  int last_x = -1, last_y = 0;
  for (int i = 0; i < SPP_CURVE_POINTS; i++) {
    double value = curve->tokens_per_s_per_gpu[i];
    int x = (dots->cols - 1) * i / (SPP_CURVE_POINTS - 1);
    int y = (int)((1 - value / most) * (dots->rows - 1) + 0.5);
    if (value <= 0) {
      last_x = -1;
      continue;
    }
    if (last_x >= 0) line(dots, screen, last_x, last_y, x, y, series);
    dot(dots, screen, x, y, series);
    last_x = x;
    last_y = y;
  }
}

/* The letter of a curve where it ends, so that no colour is needed to tell curves apart. */
static void draw_letter(const struct spp_curve *curve, int series, double most, const struct dots *dots,
                        struct spp_screen *screen) {
  for (int i = SPP_CURVE_POINTS - 1; i >= 0; i--) {
    double value = curve->tokens_per_s_per_gpu[i];
    if (value <= 0) continue;
    int x = (dots->cols - 1) * i / (SPP_CURVE_POINTS - 1);
    int y = (int)((1 - value / most) * (dots->rows - 1) + 0.5);
    /* curves that end together: letters side by side */
    int col = x / 2 - series % 4;
    spp_put_char(screen, &dots->area, y / 4, col > 0 ? col : 0, spp_ink_series(series),
                 (uint32_t)('a' + series % 26));
    return;
  }
}

static void draw_axes(const struct spp_tui_outcome *outcome, const struct spp_rect *rect, double most,
                      const struct dots *dots, struct spp_screen *screen) {
  char text[32];
  spp_put(screen, rect, 0, 1, SPP_INK_DIM,
          "tok/s/GPU over sequence length, layouts held; a line ends where it no longer fits");
  spp_putf(screen, rect, 1, 0, SPP_INK_DIM, "%7s", spp_text_rate(most, text));
  spp_putf(screen, rect, 1 + dots->area.rows / 2, 0, SPP_INK_DIM, "%7s", spp_text_rate(most / 2, text));
  for (int i = 0; i < SPP_CURVE_POINTS; i += 3) {
    int x = (dots->area.cols - 1) * i / (SPP_CURVE_POINTS - 1);
    const char *label = spp_tokens_print(outcome->curve_seq_tokens[i], text);
    int width = spp_utf8_width(label);
    if (i == SPP_CURVE_POINTS - 1) x -= width - 1;
    spp_put(screen, rect, rect->rows - 1, 8 + x, SPP_INK_DIM, label);
  }
}

void spp_draw_plot(const struct spp_tui_outcome *outcome, const struct spp_rect *rect,
                   struct spp_screen *screen) {
  struct dots dots = {.area = {rect->row + 1, rect->col + 8, rect->rows - 2, rect->cols - 9}};
  double most = fastest(outcome);
  dots.cols = 2 * dots.area.cols;
  dots.rows = 4 * dots.area.rows;
  if (most <= 0 || dots.area.rows < 2 || dots.area.cols < 8) return;
  draw_axes(outcome, rect, most, &dots, screen);
  for (int i = outcome->curve_count - 1; i >= 0; i--)
    draw_curve(&outcome->curves[i], i, most, &dots, screen);
  for (int i = outcome->curve_count - 1; i >= 0; i--)
    draw_letter(&outcome->curves[i], i, most, &dots, screen);
}
