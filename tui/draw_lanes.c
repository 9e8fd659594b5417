/* The step as lanes over time: what computes, what is sent meanwhile, where nothing happens. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"
#include "tui/draw.h"

enum { LABEL = 11, COLUMNS_MAX = 512 };

struct window {
  double from_s, to_s;
  const char *what;
  bool pieces; /* number blocks and hops */
};

/* ---- what is looked at ---- */

/* Slices of the slowest rank's first micro-batch, forward. */
static bool of_first_pass(const struct spp_timeline *t, const struct spp_slice *s, enum spp_lane lane) {
  return s->process == t->slowest && s->lane == lane && s->micro_batch == 0 &&
         strcmp(s->what, "forward") == 0;
}

static bool span_of(const struct spp_timeline *t, int64_t layer, struct window *w) {
  bool any = false;
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    if (!of_first_pass(t, s, SPP_LANE_COMPUTE) && !of_first_pass(t, s, SPP_LANE_ATTENTION)) continue;
    if (s->layer != layer) continue;
    if (!any || s->start_s < w->from_s) w->from_s = s->start_s;
    if (!any || s->start_s + s->dur_s > w->to_s) w->to_s = s->start_s + s->dur_s;
    any = true;
  }
  return any;
}

/* From the first pass of a micro-batch to the end of its last. */
static bool micro_batch_of(const struct spp_timeline *t, struct window *w) {
  bool any = false;
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    if (s->process != t->slowest || s->lane != SPP_LANE_SCHEDULE || s->micro_batch != 0) continue;
    if (!any || s->start_s < w->from_s) w->from_s = s->start_s;
    if (!any || s->start_s + s->dur_s > w->to_s) w->to_s = s->start_s + s->dur_s;
    any = true;
  }
  return any;
}

/* From the end of the layer before: what is sent first belongs to it. */
static bool second_layer_of(const struct spp_timeline *t, struct window *w) {
  struct window before;
  if (!span_of(t, 1, w)) return false;
  if (span_of(t, 0, &before) && before.to_s < w->from_s) w->from_s = before.to_s;
  return true;
}

/* The second layer: in the first, gathers that came before may still be under way. */
static struct window window_of(const struct spp_timeline *t, enum spp_zoom zoom) {
  struct window w = {0, t->length_s, "the step", false};
  if (zoom == SPP_ZOOM_MICRO_BATCH && micro_batch_of(t, &w)) w.what = "one micro-batch";
  if (zoom == SPP_ZOOM_LAYER && (second_layer_of(t, &w) || span_of(t, 0, &w) || span_of(t, -1, &w)))
    w.what = "one layer, forward", w.pieces = true;
  return w;
}

/* ---- lanes ---- */

static bool is_seen(const struct spp_slice *s, const struct window *w, int process, enum spp_lane lane) {
  return s->process == process && s->lane == lane && s->start_s < w->to_s &&
         s->start_s + s->dur_s > w->from_s;
}
static bool lane_used(const struct spp_timeline *t, const struct window *w, enum spp_lane lane) {
  for (int64_t i = 0; i < t->count; i++)
    if (is_seen(&t->slices[i], w, t->slowest, lane)) return true;
  return false;
}

/* Forward, backward with the number of their micro-batch, and dots where the rank waits. */
static void draw_schedule(const struct spp_timeline *t, const struct window *w, int process,
                          const struct spp_rect *rect, int row, struct spp_screen *screen) {
  int cols = rect->cols - LABEL - 1;
  double second = cols / (w->to_s - w->from_s);
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    if (s->process != process || s->lane != SPP_LANE_SCHEDULE || s->start_s >= w->to_s ||
        s->start_s + s->dur_s <= w->from_s)
      continue;
    int from = (int)floor((fmax(s->start_s, w->from_s) - w->from_s) * second + 0.5);
    int to = (int)floor((fmin(s->start_s + s->dur_s, w->to_s) - w->from_s) * second + 0.5);
    bool waits = s->micro_batch < 0, forward = strcmp(s->what, "forward") == 0;
    enum spp_ink role = waits ? SPP_INK_WARN : spp_ink_series(forward ? 0 : s->what[0] == 'b' ? 2 : 4);
    spp_put_fill(screen, rect, row, LABEL + from, role,
                 waits ? 0xb7 : (uint32_t)(unsigned char)(s->what[0] - 'a' + 'A'), to - from);
    if (!waits && to - from > 2)
      spp_put_char(screen, rect, row, LABEL + from + 1, role, (uint32_t)('0' + (s->micro_batch + 1) % 10));
  }
}

/* How much of each column a lane is busy, and how much of that holds the step up. */
struct busy {
  double all[COLUMNS_MAX], exposed[COLUMNS_MAX];
};
static void add_slice(struct busy *busy, const struct spp_slice *s, const struct window *w, int cols) {
  double second = cols / (w->to_s - w->from_s);
  double from = (fmax(s->start_s, w->from_s) - w->from_s) * second;
  double to = (fmin(s->start_s + s->dur_s, w->to_s) - w->from_s) * second;
  double waits = s->dur_s > 0 ? fmin(1, s->exposed_s / s->dur_s) : 0;
  for (int col = (int)from; col < cols && col < to; col++) {
    double part = fmin(to, col + 1) - fmax(from, col);
    if (part > 0) busy->all[col] += part, busy->exposed[col] += part * waits;
  }
}

/* As in the list of parts above: computation, attention, then those at its end. */
static enum spp_ink ink_of(enum spp_lane lane) {
  return spp_ink_series(lane < SPP_LANE_COMM ? (int)lane - (int)SPP_LANE_COMPUTE
                                             : 8 + (int)lane - (int)SPP_LANE_OFFLOAD);
}

/* Work is as high as its share of the column. What is sent is light while work goes on, solid where work
 * waits for it, and a dot for less than a tenth of the column. */
static uint32_t glyph_of(double busy, bool sends, bool waits) {
  int eighths = (int)(busy * 8 + 0.5);
  if (!sends) return 0x2580 + (uint32_t)(eighths < 1 ? 1 : eighths > 8 ? 8 : eighths);
  return busy < 0.1 ? 0xb7 : waits ? 0x2588 : 0x2591;
}

static void draw_lane(const struct spp_timeline *t, const struct window *w, enum spp_lane lane,
                      const struct spp_rect *rect, int row, struct spp_screen *screen) {
  int cols = rect->cols - LABEL - 1 < COLUMNS_MAX ? rect->cols - LABEL - 1 : COLUMNS_MAX;
  bool sends = lane >= SPP_LANE_COMM && lane < SPP_LANE_OFFLOAD;
  struct busy busy = {.all = {0}};
  for (int64_t i = 0; i < t->count; i++)
    if (is_seen(&t->slices[i], w, t->slowest, lane)) add_slice(&busy, &t->slices[i], w, cols);
  for (int col = 0; col < cols; col++) {
    if (!(busy.all[col] > 0)) continue;
    bool waits = busy.exposed[col] > 0.5 * busy.all[col];
    enum spp_ink role = sends ? waits ? SPP_INK_WARN : SPP_INK_GOOD : ink_of(lane);
    spp_put_char(screen, rect, row, LABEL + col, role, glyph_of(busy.all[col], sends, waits));
  }
}

/* Blocks and hops by their numbers. */
static void draw_pieces(const struct spp_timeline *t, const struct window *w, enum spp_lane lane,
                        const struct spp_rect *rect, int row, struct spp_screen *screen) {
  double second = (rect->cols - LABEL - 1) / (w->to_s - w->from_s);
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    if (s->pieces == 0 || s->start_s < w->from_s || !is_seen(s, w, t->slowest, lane)) continue;
    spp_put_char(screen, rect, row, LABEL + (int)((s->start_s - w->from_s) * second), SPP_INK_KEY,
                 (uint32_t)('1' + s->piece % 9));
  }
}

static const char *const labels[SPP_LANE_COUNT] = {
    [SPP_LANE_COMPUTE] = "compute",
    [SPP_LANE_ATTENTION] = "attention",
    [SPP_LANE_COMM + SPP_GROUP_ULYSSES] = "Ulysses",
    [SPP_LANE_COMM + SPP_GROUP_RING] = "ring",
    [SPP_LANE_COMM + SPP_GROUP_TP] = "TP",
    [SPP_LANE_COMM + SPP_GROUP_PP] = "PP",
    [SPP_LANE_COMM + SPP_GROUP_DP] = "DP",
    [SPP_LANE_COMM + SPP_GROUP_EP] = "EP",
    [SPP_LANE_OFFLOAD] = "offload",
    [SPP_LANE_OPTIMIZER] = "optimizer",
    [SPP_LANE_HOST] = "host",
};

/* Rows that a window takes with the lanes before `end`. */
static int rows_of(const struct spp_timeline *t, const struct window *w, enum spp_lane end) {
  int rows = 1 + (w->pieces ? 0 : t->process_count);
  for (int lane = SPP_LANE_COMPUTE; lane < (int)end; lane++)
    rows += lane_used(t, w, (enum spp_lane)lane);
  return rows;
}

/* Head and lanes (those before `end`) of one window from `row` on; returns the row after them. */
static int draw_window(const struct spp_timeline *t, const struct window *w, enum spp_lane end,
                       const struct spp_rect *rect, int row, struct spp_screen *screen) {
  char text[96], seconds[32];
  if (!(w->to_s > w->from_s) || row >= rect->rows) return row;
  snprintf(text, sizeof text, "%s, %s%s", w->what, spp_seconds_print(w->to_s - w->from_s, seconds),
           w->pieces ? ", numbers: blocks and hops" : " (z zooms)");
  spp_put_fill(screen, rect, row, 0, SPP_INK_COLUMN, ' ', rect->cols);
  static const char legend[] = "light: hidden, solid: waited for ";
  int col = spp_put(screen, rect, row, LABEL, SPP_INK_COLUMN, text);
  if (col + spp_utf8_width(legend) + 1 <= rect->cols)
    spp_put_right(screen, rect, row, SPP_INK_COLUMN, legend);
  row++;
  for (int p = 0; p < t->process_count && row < rect->rows && !w->pieces; p++) {
    spp_putf(screen, rect, row, 1, SPP_INK_DIM, "rank %lld%s", (long long)t->process_stage[p],
             t->stages > 1 && p == t->slowest ? "!" : "");
    draw_schedule(t, w, p, rect, row++, screen);
  }
  for (int lane = SPP_LANE_COMPUTE; lane < (int)end && row < rect->rows; lane++) {
    if (!lane_used(t, w, (enum spp_lane)lane)) continue;
    spp_put(screen, rect, row, 1, SPP_INK_DIM, labels[lane]);
    draw_lane(t, w, (enum spp_lane)lane, rect, row, screen);
    if (w->pieces) draw_pieces(t, w, (enum spp_lane)lane, rect, row, screen);
    row++;
  }
  return row;
}

void spp_draw_lanes(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_timeline *t = &app->timeline;
  if (app->timeline_plan != spp_app_selected(app) || t->count == 0 || rect->rows < 3 || rect->cols < 30)
    return;
  struct window w = window_of(t, app->zoom), layer = window_of(t, SPP_ZOOM_LAYER);
  enum spp_lane end = SPP_LANE_COUNT;
  int below = rect->rows - 1 - rows_of(t, &layer, SPP_LANE_COUNT); /* rows left above a picture of a layer */
  if (rows_of(t, &w, end) > below && rows_of(t, &w, SPP_LANE_OFFLOAD) <= below) end = SPP_LANE_OFFLOAD;
  int row = draw_window(t, &w, end, rect, 0, screen);
  if (app->zoom != SPP_ZOOM_LAYER && row <= below)
    draw_window(t, &layer, SPP_LANE_COUNT, rect, row + 1, screen);
}
