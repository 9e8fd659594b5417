/* A sweep as three charts over the first variable, a line for each value of the second: speed, memory, step
 * time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/report.h"
#include "report/svg.h"

enum {
  PLOT = 255,
  STEP = 335,
  LEFT = 64,
  TOP = 34,
  HEIGHT = 220,
  POINTS = 256,
  WIDTH = LEFT + 2 * STEP + PLOT + 16
};

/* Points lie with the second variable innermost. */
struct grid {
  const struct spp_sweep *sweep;
  int columns, series;
  char labels[POINTS][32];
  const char *names[POINTS];
};

static bool plain_digits(const char *text) {
  return strspn(text, "0123456789") == strlen(text) && strlen(text) < 16;
}

/* Large counts of tokens as 32k; anything else as it was written. */
static void label_of(const char *text, char label[32]) {
  int64_t value;
  if (plain_digits(text) && spp_count_parse(text, "label", 1024, INT64_MAX, &value, NULL) == SPP_OK &&
      value % 1024 == 0)
    spp_tokens_print(value, label);
  else
    snprintf(label, 32, "%s", text);
}

static void lay_out(const struct spp_sweep *sweep, struct grid *g) {
  g->sweep = sweep;
  g->series = 1;
  if (sweep->variable_count == 2)
    while (g->series < sweep->count &&
           strcmp(sweep->points[g->series].values[0], sweep->points[0].values[0]) == 0)
      g->series++;
  g->columns = sweep->count / g->series;
  if (g->columns > POINTS) g->columns = POINTS;
  for (int i = 0; i < g->columns; i++) {
    label_of(sweep->points[i * g->series].values[0], g->labels[i]);
    g->names[i] = g->labels[i];
  }
}

static const struct spp_plan *plan_at(const struct grid *g, int column, int series) {
  return g->sweep->points[column * g->series + series].plan;
}
static bool fits(const struct spp_plan *plan) {
  return plan->prediction.memory.fits && plan->prediction.memory.host_fits;
}

static double speed(const struct spp_plan *plan) {
  return plan->prediction.time.tokens_per_s_per_gpu;
}
static double memory(const struct spp_plan *plan) {
  return (double)plan->prediction.memory.device_bytes / SPP_GIB;
}
static double step_time(const struct spp_plan *plan) {
  return plan->prediction.time.step_s;
}

static const struct panel {
  const char *heading, *unit;
  double (*value)(const struct spp_plan *);
  bool misses; /* what does not fit is shown, as a cross */
} panels[] = {{"speed of the best layout", "tokens/s a GPU", speed, false},
              {"memory (dashed: what the card has)", "GiB a GPU", memory, true},
              {"step time", "seconds", step_time, false}};

/* Linear from 0, or logarithmic where values span more than a factor of twenty. */
static void range_of(const struct grid *g, const struct panel *panel, struct spp_svg_axis *axis) {
  double low = INFINITY, high = 0;
  for (int i = 0; i < g->columns * g->series; i++) {
    const struct spp_plan *plan = g->sweep->points[i].plan;
    if (!plan || (!panel->misses && !fits(plan))) continue;
    double value = panel->value(plan);
    if (panel->misses) /* a need of many times the card would flatten the rest */
      value = fmin(value, 2 * (double)plan->prediction.memory.capacity_bytes / SPP_GIB);
    low = fmin(low, value);
    high = fmax(high, value);
    if (panel->misses) high = fmax(high, (double)plan->prediction.memory.capacity_bytes / SPP_GIB);
  }
  if (!(high > 0)) low = 0, high = 1;
  axis->log = low > 0 && high / low > 20;
  axis->low = axis->log ? low / 1.3 : 0;
  axis->high = axis->log ? high * 1.3 : high * 1.1;
}

static void title_of(const struct grid *g, int column, int series, char title[512]) {
  const struct spp_sweep_point *p = &g->sweep->points[column * g->series + series];
  char layout[320], rate[32], bytes[32];
  snprintf(title, 512, "%.30s%s%.30s: %s tok/s a GPU, %s; %s, %s", p->values[0], g->series > 1 ? ", " : "",
           g->series > 1 ? p->values[1] : "", spp_int_print((int64_t)speed(p->plan), rate),
           spp_bytes_print(p->plan->prediction.memory.device_bytes, bytes), p->plan->job.framework->name,
           spp_layout_describe(&p->plan->job, &p->plan->layout, layout, sizeof layout));
}

static void draw_series(const struct spp_svg_chart *chart, const struct grid *g, const struct panel *panel,
                        int series) {
  double x[POINTS], y[POINTS];
  char title[512];
  for (int i = 0; i < g->columns; i++) {
    const struct spp_plan *plan = plan_at(g, i, series);
    x[i] = spp_svg_category_x(&chart->x, i);
    y[i] = plan && fits(plan) ? panel->value(plan) : NAN;
  }
  spp_svg_polyline(chart, x, y, g->columns, series);
  for (int i = 0; i < g->columns; i++) {
    const struct spp_plan *plan = plan_at(g, i, series);
    if (!plan) continue;
    title_of(g, i, series, title);
    if (fits(plan))
      spp_svg_point(chart, x[i], y[i], series, title);
    else if (panel->misses)
      spp_svg_cross(chart, x[i], fmin(panel->value(plan), chart->y.high), title);
  }
}

/* The card's memory, column by column: it may be what is varied. */
static void draw_capacity(const struct spp_svg_chart *chart, const struct grid *g) {
  for (int i = 0; i < g->columns; i++) {
    const struct spp_plan *plan = plan_at(g, i, 0);
    if (!plan) continue;
    double capacity = (double)plan->prediction.memory.capacity_bytes / SPP_GIB;
    spp_svg_line(chart, i, capacity, i + 1, capacity, "c");
  }
}

static void draw_panel(const struct grid *g, const struct panel *panel, int place, struct spp_str *out) {
  char variable[64];
  struct spp_svg_chart chart = {.out = out,
                                .x = {.high = g->columns, .ticks = SPP_SVG_NAMES, .names = g->names},
                                .left = LEFT + STEP * place,
                                .top = TOP,
                                .width = PLOT,
                                .height = HEIGHT};
  snprintf(variable, sizeof variable, "--%s", g->sweep->variables[0]);
  chart.x.label = variable;
  range_of(g, panel, &chart.y);
  chart.y.label = panel->unit;
  spp_svg_axes(&chart, panel->heading);
  if (panel->misses) draw_capacity(&chart, g);
  for (int s = 0; s < g->series; s++)
    draw_series(&chart, g, panel, s);
}

static double draw_legend(const struct grid *g, double top, struct spp_str *out) {
  char labels[SPP_SVG_MAX_SERIES][64], value[32];
  const char *names[SPP_SVG_MAX_SERIES], *colours[SPP_SVG_MAX_SERIES];
  int count = g->series < SPP_SVG_MAX_SERIES ? g->series : SPP_SVG_MAX_SERIES;
  if (g->series == 1) return 0;
  for (int i = 0; i < count; i++) {
    label_of(g->sweep->points[i].values[1], value);
    snprintf(labels[i], sizeof labels[i], "--%.32s %s", g->sweep->variables[1], value);
    names[i] = labels[i];
    colours[i] = spp_svg_colour(i);
  }
  return spp_svg_swatches(out, LEFT, top, WIDTH - LEFT - 20, names, colours, count);
}

void spp_svg_sweep(const struct spp_sweep *sweep, struct spp_str *out) {
  struct grid g = {.sweep = sweep};
  struct spp_str legend;
  double height = TOP + HEIGHT + 44;
  lay_out(sweep, &g);
  spp_str_init(&legend);
  height += draw_legend(&g, height, &legend);
  spp_svg_open(out, WIDTH, height + 22, "the best layout at each point");
  for (int i = 0; i < (int)(sizeof panels / sizeof panels[0]); i++)
    draw_panel(&g, &panels[i], i, out);
  spp_str_addn(out, spp_str_text(&legend), legend.len);
  if (legend.failed) out->failed = true;
  spp_str_free(&legend);
  spp_svg_words(out, LEFT, height + 12, "start",
                "red cross: the nearest layout does not fit; no mark: no layout is legal");
  spp_svg_close(out);
}
