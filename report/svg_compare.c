/* Strategies side by side: memory by part, step time by part, and speed over the sequence length. */
#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "report/svg_memory.h"

enum {
  ROW = 24,
  THICK = 15,
  TOP = 40,
  MARGIN = 200,
  PLOT = 300,
  GAP = 70,
  WIDTH = MARGIN + 2 * PLOT + GAP + 50,
  CURVES = 260
};

static bool fits(const struct spp_compare_row *row) {
  return row->plan.prediction.memory.fits && row->plan.prediction.memory.host_fits;
}

struct compared {
  const struct spp_compare_result *result;
  struct spp_str *out;
  const struct spp_compare_row *legal[64];
  const char *names[64];
  int count;
};

static double most_of(const struct compared *c, double (*value)(const struct spp_compare_row *)) {
  double most = 0;
  for (int i = 0; i < c->count; i++)
    most = fmax(most, value(c->legal[i]));
  return most > 0 ? most * 1.14 : 1; /* room for the figure at the end of the longest bar */
}
/* A bar that needs several times the card is cut off, so that the others stay readable. */
static double memory_gib(const struct spp_compare_row *row) {
  const struct spp_memory *m = &row->plan.prediction.memory;
  return fmin((double)m->device_bytes, 2 * (double)m->capacity_bytes) / SPP_GIB;
}
static double step_s(const struct spp_compare_row *row) {
  return row->plan.prediction.time.step_s;
}

static struct spp_svg_chart chart_of(const struct compared *c, double left, const char *label, double high,
                                     bool named) {
  return (struct spp_svg_chart){
      .out = c->out,
      .x = {.label = label, .high = high},
      .y = {.high = c->count, .ticks = SPP_SVG_NAMES, .names = named ? c->names : NULL},
      .left = left,
      .top = TOP,
      .width = PLOT,
      .height = ROW * c->count};
}

static void memory_chart(const struct compared *c) {
  struct spp_svg_chart chart =
      chart_of(c, MARGIN, "GiB a GPU (dashed: what the card has)", most_of(c, memory_gib), true);
  double capacity = c->count ? (double)c->legal[0]->plan.prediction.memory.capacity_bytes / SPP_GIB : 0;
  char text[48], number[32];
  chart.x.high = fmax(chart.x.high, 1.04 * capacity);
  spp_svg_axes(&chart, "memory at the peak");
  for (int i = 0; i < c->count; i++) {
    const struct spp_memory *m = &c->legal[i]->plan.prediction.memory;
    double y = spp_svg_category_y(&chart.y, i);
    spp_svg_memory_bar(&chart, m, y, THICK);
    snprintf(text, sizeof text, "%s%s", spp_bytes_print(m->device_bytes, number),
             fits(c->legal[i]) ? "" : " OOM");
    spp_svg_note(&chart, 0, y, PLOT + 5, 4, "start", text);
  }
  if (capacity > 0) spp_svg_line(&chart, capacity, 0, capacity, c->count, "c");
}

static void time_chart(const struct compared *c) {
  struct spp_svg_chart chart = chart_of(c, MARGIN + PLOT + GAP, "seconds", most_of(c, step_s), false);
  char text[32];
  spp_svg_axes(&chart, "step time");
  for (int i = 0; i < c->count; i++) {
    const struct spp_time *t = &c->legal[i]->plan.prediction.time;
    double y = spp_svg_category_y(&chart.y, i);
    spp_svg_time_bar(&chart, t, y, THICK);
    spp_svg_note(&chart, t->step_s, y, 4, 4, "start", spp_seconds_print(t->step_s, text));
  }
}

/* The legend of the parts that any bar shows. Returns its height. */
static double legend(const struct compared *c, double top) {
  const char *names[SPP_PART_COUNT + 16], *colours[SPP_PART_COUNT + 16];
  int parts = 0, times = 0;
  for (int p = 0; p < SPP_PART_COUNT; p++)
    for (int i = 0; i < c->count; i++)
      if (c->legal[i]->plan.prediction.memory.parts[p] > 0) {
        names[parts] = spp_part_label((enum spp_part)p);
        colours[parts++] = spp_svg_part_colour((enum spp_part)p);
        break;
      }
  double left_height = spp_svg_swatches(c->out, MARGIN - 60, top, PLOT + 80, names, colours, parts);
  for (int p = 0; p < spp_time_part_count; p++)
    for (int i = 0; i < c->count; i++)
      if (spp_fact_time_part(&c->legal[i]->plan.prediction.time, p) > 0) {
        names[times] = spp_svg_time_word(p);
        colours[times++] = spp_svg_time_colour(p);
        break;
      }
  double right_height = spp_svg_swatches(c->out, MARGIN + PLOT + GAP, top, PLOT + 40, names, colours, times);
  return fmax(left_height, right_height);
}

/* ---- speed over the length ---- */

static bool has_curve(const struct spp_compare_row *row) {
  int points = 0;
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++)
    points += row->tokens_per_s_at[i] > 0;
  return points > 0;
}

struct range {
  double low, high;
  int longest;
};
static struct range curves_range(const struct compared *c) {
  struct range r = {INFINITY, 0, 0};
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < SPP_COMPARE_LENGTHS; k++) {
      double v = c->legal[i]->tokens_per_s_at[k];
      if (!(v > 0)) continue;
      r.low = fmin(r.low, v);
      r.high = fmax(r.high, v);
      if (k > r.longest) r.longest = k;
    }
  return r;
}

static void curve(const struct spp_svg_chart *chart, const struct spp_compare_row *row, int series) {
  double x[SPP_COMPARE_LENGTHS], y[SPP_COMPARE_LENGTHS];
  char title[128], tokens[32], rate[32];
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++) {
    x[i] = (double)((int64_t)SPP_COMPARE_SHORTEST << i);
    y[i] = row->tokens_per_s_at[i] > 0 ? row->tokens_per_s_at[i] : NAN;
  }
  spp_svg_polyline(chart, x, y, SPP_COMPARE_LENGTHS, series);
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++) {
    if (isnan(y[i])) continue;
    snprintf(title, sizeof title, "%s at %s: %s tok/s", row->name, spp_tokens_print((int64_t)x[i], tokens),
             spp_int_print((int64_t)y[i], rate));
    spp_svg_point(chart, x[i], y[i], series, title);
  }
}

static void crossovers(const struct spp_svg_chart *chart, const struct spp_compare_result *result) {
  char text[16];
  for (int i = 0; i < result->crossover_count; i++) {
    double at = (double)result->crossovers[i].seq_tokens;
    if (!(at > chart->x.low && at < chart->x.high)) continue;
    spp_svg_line(chart, at, chart->y.low, at, chart->y.high, "d");
    snprintf(text, sizeof text, "%d", i + 1);
    spp_svg_note(chart, at, chart->y.high, 3, 12, "start", text);
  }
}

static void crossover_words(const struct compared *c, double left, double top) {
  char words[160], tokens[32];
  for (int i = 0; i < c->result->crossover_count; i++) {
    const struct spp_crossover *x = &c->result->crossovers[i];
    snprintf(words, sizeof words, "%d: from %s tokens on %s is faster than %s", i + 1,
             spp_int_print(x->seq_tokens, tokens), x->to, x->from);
    spp_svg_words(c->out, left, top + 15 * i, "start", words);
  }
}

static void curves(const struct compared *c, double top) {
  struct range r = curves_range(c);
  const char *names[SPP_SVG_MAX_SERIES];
  int series = 0;
  struct spp_svg_chart chart = {
      .out = c->out,
      .x = {"tokens a sequence", SPP_COMPARE_SHORTEST * 0.9,
            (double)((int64_t)SPP_COMPARE_SHORTEST << r.longest) * 1.1, true, SPP_SVG_TOKENS, NULL},
      .y = {"tokens/s, all GPUs", r.low / 1.15, r.high * 1.15, true, SPP_SVG_NUMBERS, NULL},
      .left = 90,
      .top = top + 30,
      .width = 500,
      .height = CURVES};
  spp_svg_axes(&chart, "speed over the sequence length, where it fits");
  crossovers(&chart, c->result);
  for (int i = 0; i < c->count && series < SPP_SVG_MAX_SERIES; i++) {
    if (!has_curve(c->legal[i])) continue;
    curve(&chart, c->legal[i], series);
    names[series++] = c->names[i];
  }
  spp_svg_legend(c->out, 610, chart.top + 8, names, series);
  crossover_words(c, 90, chart.top + CURVES + 54);
}

static double refusals(const struct compared *c, double top) {
  char words[128];
  int line = 0;
  for (int i = 0; i < c->result->count; i++) {
    const struct spp_compare_row *row = &c->result->rows[i];
    if (row->legal) continue;
    snprintf(words, sizeof words, "%s: illegal: %.80s%s", row->name, row->why_not,
             row->why_not[0] && row->why_not[79] ? "..." : "");
    spp_svg_words(c->out, 20, top + 15 * line++, "start", words);
  }
  return 15 * line;
}

void spp_svg_compare(const struct spp_compare_result *result, struct spp_str *out) {
  struct compared c = {.result = result, .out = out};
  struct spp_str body;
  double top, height;
  for (int i = 0; i < result->count && c.count < 64; i++)
    if (result->rows[i].legal) {
      c.names[c.count] = result->rows[i].name;
      c.legal[c.count++] = &result->rows[i];
    }
  spp_str_init(&body); /* the picture's height is known when it is drawn */
  c.out = &body;
  if (c.count > 0) memory_chart(&c), time_chart(&c);
  top = TOP + ROW * c.count + 48;
  if (c.count > 0) top += legend(&c, top) + 12;
  height = top + refusals(&c, top + 6);
  if (curves_range(&c).high > 0) {
    curves(&c, height + 16);
    height += 30 + CURVES + 70 + 15 * result->crossover_count;
  }
  spp_svg_open(out, WIDTH, height + 10, "sequence parallel strategies compared");
  spp_str_addn(out, spp_str_text(&body), body.len);
  if (body.failed) out->failed = true;
  spp_str_free(&body);
  spp_svg_close(out);
}
