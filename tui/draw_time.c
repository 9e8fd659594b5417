/* Where a step's time goes: communication and timeline. */
#include <stdio.h>

#include "base/units.h"
#include "report/facts.h"
#include "report/text.h"
#include "tui/draw.h"

void spp_draw_comm(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_selected(app);
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_DETAIL, rect);
  struct spp_comm_sum sums[SPP_COLLECTIVE_COUNT * SPP_GROUP_COUNT];
  char text[32], time[32], exposed[32], over[32];
  spp_draw_head(app, SPP_PANE_DETAIL, rect, screen, "2 Communication", "1 memory 3 time 4 compare 5 why ");
  if (!plan) return;
  int count = spp_fact_comm_sums(&plan->prediction.comm, sums, (int)(sizeof sums / sizeof sums[0]));
  if (list.line >= 3) {
    spp_putf(screen, rect, 1, 1, SPP_INK_PLAIN, "one GPU sends %s a step",
             spp_bytes_print_decimal(plan->prediction.comm.sent_bytes_per_step, text));
    spp_put_fill(screen, rect, 2, 0, SPP_INK_COLUMN, ' ', rect->cols);
    spp_put(screen, rect, 2, 1, SPP_INK_COLUMN, "operation      over         sent     time  exposed");
  }
  if (count == 0) spp_put(screen, rect, list.line, 1, SPP_INK_DIM, "nothing is sent");
  for (int i = 0; i < list.lines && list.top + i < count; i++) {
    const struct spp_comm_sum *sum = &sums[list.top + i];
    int row = list.line + i, col;
    double hidden = sum->time_s > 0 ? 1 - sum->exposed_s / sum->time_s : 0;
    snprintf(over, sizeof over, "%s %lld", spp_group_name(sum->group), (long long)sum->ranks);
    col = spp_putf(screen, rect, row, 1, SPP_INK_PLAIN, "%-14s %-9s%8s", spp_collective_name(sum->op), over,
                   spp_bytes_print_decimal(sum->step_bytes, text));
    col = spp_putf(screen, rect, row, col, SPP_INK_PLAIN, "%9s", spp_seconds_print(sum->time_s, time));
    col = spp_putf(screen, rect, row, col,
                   sum->exposed_s > 0.01 * plan->prediction.time.step_s ? SPP_INK_WARN : SPP_INK_PLAIN, "%9s",
                   spp_seconds_print(sum->exposed_s, exposed));
    int bar = rect->cols - col - 14;
    if (bar >= 8) {
      spp_put_fill(screen, rect, row, col + 2, SPP_INK_GOOD, 0x2591, (int)(hidden * bar + 0.5));
      spp_put_fill(screen, rect, row, col + 2 + (int)(hidden * bar + 0.5), SPP_INK_WARN, 0x2588,
                   bar - (int)(hidden * bar + 0.5));
      spp_putf(screen, rect, row, col + 3 + bar, SPP_INK_DIM, "%3.0f %% hidden", 100 * hidden);
    }
    if (list.focused && list.top + i == list.cursor) spp_put_role(screen, rect, row, SPP_INK_SELECTED);
  }
}

static const char *const short_labels[] = {"compute",   "attention",  "SP exposed", "TP exposed",
                                           "PP bubble", "PP exposed", "DP exposed", "EP exposed",
                                           "offload",   "optimizer",  "host"};

/* Each part begins where the one before ended: the bars read as one step from left to right. */
static void draw_part(const struct spp_time *time, int part, const struct spp_rect *rect, int row,
                      struct spp_screen *screen) {
  enum { BAR = 32 };
  int cols = rect->cols - BAR - 1;
  double part_s = spp_fact_time_part(time, part), begin_s = 0;
  char text[32];
  for (int i = 0; i < part; i++)
    begin_s += spp_fact_time_part(time, i);
  spp_putf(screen, rect, row, 1, SPP_INK_PLAIN, "%-11s %9s  %5.1f %%", short_labels[part],
           spp_seconds_print(part_s, text), 100 * part_s / time->step_s);
  int from = (int)(begin_s / time->step_s * cols + 0.5);
  int to = (int)((begin_s + part_s) / time->step_s * cols + 0.5);
  if (from >= cols) from = cols - 1;
  if (cols > 0)
    spp_put_fill(screen, rect, row, BAR + from, spp_ink_series(part), 0x2588, to > from ? to - from : 1);
}

void spp_draw_time(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_selected(app);
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_DETAIL, rect);
  char text[32], rate[32];
  spp_draw_head(app, SPP_PANE_DETAIL, rect, screen, "3 Timeline", "1 memory 2 comm 4 compare 5 why ");
  if (!plan || !(plan->prediction.time.step_s > 0)) return;
  const struct spp_time *time = &plan->prediction.time;
  if (list.line >= 3) {
    spp_putf(screen, rect, 1, 1, SPP_INK_PLAIN, "step %s, %s tok/s/GPU, MFU %.1f %%",
             spp_seconds_print(time->step_s, text), spp_text_rate(time->tokens_per_s_per_gpu, rate),
             100 * time->mfu_causal);
    spp_put_fill(screen, rect, 2, 0, SPP_INK_COLUMN, ' ', rect->cols);
    spp_put(screen, rect, 2, 1, SPP_INK_COLUMN, "part          time       share");
  }
  for (int i = 0; i < list.lines && list.top + i < list.count; i++) {
    draw_part(time, spp_app_time_part(plan, list.top + i), rect, list.line + i, screen);
    if (list.focused && list.top + i == list.cursor)
      spp_put_role(screen, rect, list.line + i, SPP_INK_SELECTED);
  }
  int below = list.line + list.lines + 1;
  struct spp_rect lanes = {rect->row + below, rect->col, rect->rows - below, rect->cols};
  if (lanes.rows > 0) spp_draw_lanes(app, &lanes, screen);
}
