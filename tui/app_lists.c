/* The lists of the panes and windows: how many rows each has, and which is under the cursor. */
#include "report/facts.h"
#include "tui/app.h"

static int overlay_rows(const struct spp_app *app) {
  int lines = 1;
  switch (spp_app_overlay(app)) {
  case SPP_OVERLAY_HELP: return spp_binding_count;
  case SPP_OVERLAY_LEDGER: return app->ledger_count;
  case SPP_OVERLAY_TRIAL: return app->trial.done;
  case SPP_OVERLAY_TEXT:
    for (const char *c = app->text; *c; c++)
      lines += *c == '\n';
    return lines;
  case SPP_OVERLAY_MARKED: return 10 + SPP_PART_COUNT + spp_time_part_count;
  case SPP_OVERLAY_NONE: break;
  }
  return 0;
}

static int live_parts(const struct spp_memory *memory) {
  int count = 0;
  for (int part = 0; part < SPP_PART_COUNT; part++)
    count += memory->parts[part] != 0;
  return count;
}

int spp_app_memory_part(const struct spp_plan *plan, int row) {
  for (int part = 0; part < SPP_PART_COUNT; part++)
    if (plan->prediction.memory.parts[part] != 0 && --row == 0) return part;
  return -1;
}

int spp_app_time_part(const struct spp_plan *plan, int row) {
  for (int part = 0; part < spp_time_part_count; part++)
    if (spp_fact_time_part(&plan->prediction.time, part) > 0 && row-- == 0) return part;
  return -1;
}
static int live_time_parts(const struct spp_plan *plan) {
  int count = 0;
  while (spp_app_time_part(plan, count) >= 0)
    count++;
  return count;
}

static int detail_rows(const struct spp_app *app) {
  const struct spp_plan *plan = spp_app_selected(app);
  struct spp_comm_sum sums[SPP_COLLECTIVE_COUNT * SPP_GROUP_COUNT];
  if (app->view == SPP_VIEW_COMPARE)
    return app->outcome && app->outcome->has_compare ? app->outcome->compare.count : 0;
  if (!plan) return 0;
  switch (app->view) {
  case SPP_VIEW_MEMORY: return 1 + live_parts(&plan->prediction.memory);
  case SPP_VIEW_COMM:
    return spp_fact_comm_sums(&plan->prediction.comm, sums, (int)(sizeof sums / sizeof sums[0]));
  case SPP_VIEW_TIME: return live_time_parts(plan);
  case SPP_VIEW_WHY:
    return app->details.plan == plan
               ? app->details.warning_count + app->details.next_count + app->details.why_not_count
               : 0;
  default: return 0;
  }
}

int spp_app_list_count(const struct spp_app *app, enum spp_pane pane) {
  switch (pane) {
  case SPP_PANE_FORM: return spp_form_count;
  case SPP_PANE_PLANS: return app->order_count;
  case SPP_PANE_DETAIL: return detail_rows(app);
  case SPP_PANE_OVERLAY: return overlay_rows(app);
  default: return 0;
  }
}

struct spp_list_state *spp_app_list(struct spp_app *app, enum spp_pane pane) {
  switch (pane) {
  case SPP_PANE_PLANS: return &app->plans;
  case SPP_PANE_DETAIL: return &app->detail[app->view];
  case SPP_PANE_OVERLAY: return &app->overlay[app->overlay_count > 0 ? app->overlay_count - 1 : 0];
  default: return &app->form;
  }
}

void spp_app_settle_list(struct spp_app *app, const struct spp_panes *panes, enum spp_pane pane) {
  struct spp_list_state *list = spp_app_list(app, pane);
  int count = spp_app_list_count(app, pane), rows = spp_panes_list(app, panes, pane).rows;
  enum spp_overlay overlay = spp_app_overlay(app);
  bool scrolls = pane == SPP_PANE_OVERLAY && overlay != SPP_OVERLAY_LEDGER; /* text: the cursor is its top */
  if (rows < 1) rows = 1;
  if (scrolls && list->cursor > count - rows) list->cursor = count - rows;
  if (list->cursor >= count) list->cursor = count - 1;
  if (list->cursor < 0) list->cursor = 0;
  if (list->top > count - rows) list->top = count - rows;
  if (list->top < 0) list->top = 0;
  if (list->cursor < list->top) list->top = list->cursor;
  if (list->cursor >= list->top + rows) list->top = list->cursor - rows + 1;
  if (scrolls) list->top = list->cursor;
}
