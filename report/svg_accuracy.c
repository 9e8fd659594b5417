/* Predicted against measured, memory and time side by side on log axes, one colour a source of runs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/accuracy.h"
#include "report/svg.h"

struct pair {
  double measured, predicted;
};

static struct pair memory_of(const struct spp_run_score *r) {
  if (isnan(r->memory_error)) return (struct pair){0, 0};
  return (struct pair){r->measured_memory_bytes / SPP_GIB, r->predicted_memory_bytes / SPP_GIB};
}
static struct pair time_of(const struct spp_run_score *r) {
  if (isnan(r->time_error)) return (struct pair){0, 0};
  return (struct pair){r->measured_step_s, r->predicted_step_s};
}

static int series_of(const struct spp_scoreboard *board, const char *group) {
  for (int g = 0; g < board->group_count; g++)
    if (!strcmp(board->groups[g].group, group)) return g;
  return 0;
}

static void range_of(const struct spp_scoreboard *board, struct pair (*of)(const struct spp_run_score *),
                     double *low, double *high) {
  *low = INFINITY;
  *high = 0;
  for (int i = 0; i < board->count; i++) {
    struct pair p = of(&board->runs[i]);
    if (p.measured <= 0 || p.predicted <= 0) continue;
    *low = fmin(*low, fmin(p.measured, p.predicted));
    *high = fmax(*high, fmax(p.measured, p.predicted));
  }
  if (*high <= 0) *low = 1, *high = 10; /* nothing to show */
  *low *= 0.8;
  *high *= 1.25;
}

static void draw(const struct spp_scoreboard *board, struct pair (*of)(const struct spp_run_score *),
                 const char *unit, double left, const char *heading, struct spp_str *out) {
  double low, high;
  char x[48], y[48], title[160];
  range_of(board, of, &low, &high);
  snprintf(x, sizeof x, "measured %s", unit);
  snprintf(y, sizeof y, "predicted %s", unit);
  struct spp_svg_chart chart = {.out = out,
                                .x = {.label = x, .low = low, .high = high, .log = true},
                                .y = {.label = y, .low = low, .high = high, .log = true},
                                .left = left,
                                .top = 30,
                                .width = 300,
                                .height = 300};
  spp_svg_axes(&chart, heading);
  spp_svg_line(&chart, low, low, high, high, "e");
  spp_svg_line(&chart, low, low * 1.1, high / 1.1, high, "d");
  spp_svg_line(&chart, low * 1.1, low, high, high / 1.1, "d");
  for (int i = 0; i < board->count; i++) {
    struct pair p = of(&board->runs[i]);
    if (p.measured <= 0) continue;
    snprintf(title, sizeof title, "%.60s: measured %.3g, predicted %.3g %s", board->runs[i].run->id,
             p.measured, p.predicted, unit);
    spp_svg_point(&chart, p.measured, p.predicted, series_of(board, board->runs[i].run->group), title);
  }
}

void spp_svg_accuracy(const struct spp_accuracy_report *answer, struct spp_str *out) {
  const struct spp_scoreboard *board = answer->board;
  const char *names[SPP_SVG_MAX_SERIES];
  int count = board->group_count < SPP_SVG_MAX_SERIES ? board->group_count : SPP_SVG_MAX_SERIES;
  for (int g = 0; g < count; g++)
    names[g] = board->groups[g].group;
  double legend_height = 40 + 15.0 * count;
  spp_svg_open(out, 860, legend_height > 380 ? legend_height : 380, "predicted against measured");
  draw(board, memory_of, "GiB a GPU", 60, "memory (dashed: 10 %)", out);
  draw(board, time_of, "s a step", 430, "step time (dashed: 10 %)", out);
  spp_svg_legend(out, 760, 36, names, count);
  spp_svg_close(out);
}
