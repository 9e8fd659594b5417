/* The charts of the report: memory phase by phase, one step on the clock, the Pareto front. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/html.h"

/* ---- memory ---- */

static int64_t live_at(const struct spp_ledger *ledger, enum spp_moment moment,
                       int64_t parts[SPP_PART_COUNT]) {
  int64_t sum = 0;
  memset(parts, 0, SPP_PART_COUNT * sizeof *parts);
  for (int i = 0; i < ledger->count; i++) {
    const struct spp_ledger_entry *e = &ledger->entries[i];
    if (!(e->live & SPP_LIVE(moment)) || e->tensor->part == SPP_PART_ALLOCATOR) continue;
    parts[e->tensor->part] = spp_sat_add(parts[e->tensor->part], e->bytes);
    sum = spp_sat_add(sum, e->bytes);
  }
  return sum;
}

/* Parts at the fullest moment of a phase; what the tensors do not make up is held back by the allocator. */
static void phase_parts(const struct spp_memory *memory, const struct spp_ledger *ledger,
                        enum spp_phase phase, int64_t best[SPP_PART_COUNT]) {
  int64_t parts[SPP_PART_COUNT], most = -1;
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    if (spp_moment_phase((enum spp_moment)m) != phase) continue;
    int64_t sum = live_at(ledger, (enum spp_moment)m, parts);
    if (sum <= most) continue;
    most = sum;
    memcpy(best, parts, sizeof parts);
  }
  best[SPP_PART_ALLOCATOR] = spp_max64(0, memory->phase_bytes[phase] - most);
}

static void phase_strip(const struct spp_job *job, const struct spp_memory *memory,
                        const int64_t parts[SPP_PART_COUNT], enum spp_phase phase, double scale,
                        struct spp_str *out) {
  char title[96], bytes[32], label[48];
  bool peak = spp_moment_phase(memory->peak_moment) == phase;
  double at = 0;
  if (!spp_phase_words(job, phase)) return;
  snprintf(label, sizeof label, "%s%s", spp_phase_words(job, phase), peak ? " (peak)" : "");
  spp_html_strip(out, label);
  for (int p = 0; p < SPP_PART_COUNT; p++) {
    double wide = (double)parts[p] / scale;
    snprintf(title, sizeof title, "%s: %s", spp_part_words(job, (enum spp_part)p),
             spp_bytes_print(parts[p], bytes));
    spp_html_strip_bar(out, at, at + wide, spp_svg_part_colour((enum spp_part)p), title);
    at += wide;
  }
  spp_html_strip_mark(out, (double)memory->capacity_bytes / scale);
  spp_html_strip_end(out, spp_bytes_print(memory->phase_bytes[phase], bytes));
}

void spp_html_memory(const struct spp_job *job, const struct spp_memory *memory,
                     const struct spp_ledger *ledger, struct spp_str *out) {
  int64_t parts[SPP_PHASE_COUNT][SPP_PART_COUNT];
  const char *names[SPP_PART_COUNT], *colours[SPP_PART_COUNT];
  double scale = (double)memory->capacity_bytes;
  int count = 0;
  for (int i = 0; i < SPP_PHASE_COUNT; i++) {
    phase_parts(memory, ledger, (enum spp_phase)i, parts[i]);
    scale = fmax(scale, (double)memory->phase_bytes[i]);
  }
  for (int i = 0; i < SPP_PHASE_COUNT; i++)
    phase_strip(job, memory, parts[i], (enum spp_phase)i, scale * 1.01, out);
  for (int p = 0; p < SPP_PART_COUNT; p++)
    for (int i = 0; i < SPP_PHASE_COUNT; i++)
      if (parts[i][p] > 0) {
        names[count] = spp_part_words(job, (enum spp_part)p);
        colours[count++] = spp_svg_part_colour((enum spp_part)p);
        break;
      }
  spp_html_legend(out, names, colours, count);
}

/* ---- one step ---- */

enum { TELLING = 1000 }; /* slices below this fraction of the step are drawn as one with their neighbours */

static const char *slice_colour(const struct spp_slice *s) {
  if (s->lane != SPP_LANE_SCHEDULE) return spp_svg_colour((int)s->lane);
  return strcmp(s->what, "bubble") == 0     ? "#9a9a9a"
         : strcmp(s->what, "forward") == 0  ? "#0072b2"
         : strcmp(s->what, "backward") == 0 ? "#e69f00"
                                            : "#009e73";
}

static void flush(const struct spp_timeline *t, const struct spp_slice *first, double end_s,
                  struct spp_str *out) {
  char title[128], begin[32], took[32];
  snprintf(title, sizeof title, "%s: %s from %s on", first->what,
           spp_seconds_print(end_s - first->start_s, took), spp_seconds_print(first->start_s, begin));
  double from = first->start_s / t->length_s;
  spp_html_strip_bar(out, from, fmax(end_s / t->length_s, from + 1.0 / TELLING), slice_colour(first), title);
}

static bool is_bubble(const struct spp_slice *s) {
  return strcmp(s->what, "bubble") == 0;
}

/* Too near to be told apart. On the schedule lane forward, backward and bubble stay apart while they can be
 * seen. */
static bool joins(const struct spp_timeline *t, const struct spp_slice *first, double end_s,
                  const struct spp_slice *s) {
  double telling_s = t->length_s / TELLING;
  if (!first || s->start_s - end_s >= telling_s) return false;
  if (s->lane != SPP_LANE_SCHEDULE) return true;
  return !is_bubble(s) && !is_bubble(first) && s->dur_s < telling_s / 4;
}

static void lane(const struct spp_timeline *t, int process, int which, const char *label,
                 struct spp_str *out) {
  const struct spp_slice *first = NULL;
  double end_s = 0, sum_s = 0;
  char took[32];
  spp_html_strip(out, label);
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    if (s->process != process || (int)s->lane != which) continue;
    if (is_bubble(s) && s->dur_s < t->length_s / TELLING) continue;
    if (!is_bubble(s)) sum_s += s->dur_s;
    bool same = joins(t, first, end_s, s);
    if (first && !same) flush(t, first, end_s, out);
    if (!same) first = s;
    end_s = s->start_s + s->dur_s;
  }
  if (first) flush(t, first, end_s, out);
  spp_html_strip_end(out, spp_seconds_print(sum_s, took));
}

static bool has_lane(const struct spp_timeline *t, int process, int which) {
  for (int64_t i = 0; i < t->count; i++)
    if (t->slices[i].process == process && (int)t->slices[i].lane == which) return true;
  return false;
}

void spp_html_timeline(const struct spp_timeline *t, struct spp_str *out) {
  static const char *const names[] = {"forward", "backward, with recompute", "bubble", "weight gradients"};
  static const char *const colours[] = {"#0072b2", "#e69f00", "#9a9a9a", "#009e73"};
  bool apart = t->order == SPP_ORDER_ZB_H1 || t->order == SPP_ORDER_ZB_H2;
  char label[64], seconds[32], text[160];
  for (int p = 0; p < t->process_count; p++) {
    snprintf(label, sizeof label, "pipeline rank %lld", (long long)t->process_stage[p]);
    lane(t, p, SPP_LANE_SCHEDULE, t->stages > 1 ? label : "micro-batches", out);
  }
  spp_html_legend(out, names, colours, apart ? 4 : t->stages > 1 ? 3 : 2);
  for (int which = SPP_LANE_SCHEDULE + 1; which < SPP_LANE_COUNT; which++)
    if (has_lane(t, t->slowest, which)) lane(t, t->slowest, which, spp_lane_name((enum spp_lane)which), out);
  snprintf(text, sizeof text, "0 to %s from left to right%s. Drawn from the prediction, not measured.",
           spp_seconds_print(t->length_s, seconds),
           t->stages > 1 ? "; the lanes are the slowest rank's" : "");
  spp_html_element(out, "p", "dim", text);
}

/* ---- the front ---- */

static void front_range(const struct spp_search_result *search, struct spp_svg_axis *x,
                        struct spp_svg_axis *y) {
  double low = INFINITY, high = 0, most = 0;
  for (int i = 0; i < search->count; i++) {
    const struct spp_prediction *p = &search->plans[i].prediction;
    low = fmin(low, p->time.step_s);
    high = fmax(high, p->time.step_s);
    most = fmax(most, (double)p->memory.device_bytes / SPP_GIB);
  }
  *x = (struct spp_svg_axis){
      .label = "seconds a step", .low = low / 1.1, .high = high * 1.1, .log = high / low > 4};
  if (!x->log)
    x->low = fmax(0, low - 0.1 * (high - low) - 0.01 * high),
    x->high = high + 0.1 * (high - low) + 0.01 * high;
  *y = (struct spp_svg_axis){.label = "GiB a GPU", .low = 0, .high = most * 1.1};
}

static void front_point(const struct spp_svg_chart *chart, const struct spp_plan *plan, int series) {
  char title[512], layout[320], seconds[32], bytes[32];
  snprintf(title, sizeof title, "%s, %s: %s, %s", spp_seconds_print(plan->prediction.time.step_s, seconds),
           spp_bytes_print(plan->prediction.memory.device_bytes, bytes), plan->job.framework->name,
           spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
  spp_svg_point(chart, plan->prediction.time.step_s, (double)plan->prediction.memory.device_bytes / SPP_GIB,
                series, title);
}

void spp_html_front(const struct spp_search_result *search, struct spp_str *out) {
  static const char *const names[] = {"Pareto front: no layout is both faster and smaller", "other plans",
                                      "the best"};
  const char *colours[] = {spp_svg_colour(0), spp_svg_colour(6), spp_svg_colour(1)};
  double x[32], y[32];
  int count = 0;
  struct spp_svg_chart chart = {.out = out, .left = 52, .top = 24, .width = 350, .height = 210};
  front_range(search, &chart.x, &chart.y);
  spp_str_add(out, "<div class=\"chart\">");
  spp_svg_open(out, 420, 275, "step time against memory");
  spp_svg_axes(&chart, "step time against memory");
  for (int i = 0; i < search->pareto_count && count < 32; i++, count++) {
    const struct spp_prediction *p = &search->plans[search->pareto[i]].prediction;
    x[count] = p->time.step_s;
    y[count] = (double)p->memory.device_bytes / SPP_GIB;
  }
  for (int i = 0; i < search->count; i++)
    front_point(&chart, &search->plans[i], 6);
  spp_svg_polyline(&chart, x, y, count, 0);
  for (int i = 0; i < search->pareto_count; i++)
    front_point(&chart, &search->plans[search->pareto[i]], 0);
  front_point(&chart, &search->plans[0], 1);
  spp_svg_close(out);
  spp_str_add(out, "</div>\n");
  spp_html_legend(out, names, colours, 3);
}
