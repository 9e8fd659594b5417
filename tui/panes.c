#include "tui/panes.h"

#include "tui/app.h"

enum {
  TWO_COLUMNS = 76, /* screen columns from which the form stands beside the rest */
  WIDE = 110,       /* ... and has room */
  TWO_PANES = 17    /* body rows from which plans and detail stand one above the other */
};

static void split_right(const struct spp_app *app, struct spp_rect area, struct spp_panes *panes) {
  int plans = area.rows * 2 / 5;
  bool detail_only = app->focus == SPP_PANE_DETAIL;
  if (area.rows < TWO_PANES) {
    panes->rects[detail_only ? SPP_PANE_DETAIL : SPP_PANE_PLANS] = area;
    return;
  }
  if (app->view == SPP_VIEW_COMPARE) plans = area.rows / 4; /* the plot wants height */
  if (plans < 6) plans = 6;
  panes->rects[SPP_PANE_PLANS] = (struct spp_rect){area.row, area.col, plans, area.cols};
  panes->rects[SPP_PANE_DETAIL] = (struct spp_rect){area.row + plans, area.col, area.rows - plans, area.cols};
}

void spp_panes(const struct spp_app *app, int rows, int cols, struct spp_panes *panes) {
  *panes = (struct spp_panes){.too_small = rows < SPP_MIN_ROWS || cols < SPP_MIN_COLS};
  if (panes->too_small) return;
  struct spp_rect body = {1, 0, rows - 3, cols};
  panes->rects[SPP_PANE_TITLE] = (struct spp_rect){0, 0, 1, cols};
  panes->rects[SPP_PANE_MESSAGE] = (struct spp_rect){rows - 2, 0, 1, cols};
  panes->rects[SPP_PANE_KEYS] = (struct spp_rect){rows - 1, 0, 1, cols};
  if (app->overlay_count > 0) panes->rects[SPP_PANE_OVERLAY] = body;
  if (cols >= TWO_COLUMNS) {
    int form = cols >= WIDE ? 34 : 26;
    panes->rects[SPP_PANE_FORM] = (struct spp_rect){body.row, 0, body.rows, form};
    panes->rects[SPP_PANE_RULE] = (struct spp_rect){body.row, form, body.rows, 1};
    split_right(app, (struct spp_rect){body.row, form + 1, body.rows, cols - form - 1}, panes);
  } else if (app->focus == SPP_PANE_FORM) {
    panes->rects[SPP_PANE_FORM] = body;
  } else {
    split_right(app, body, panes);
  }
}

/* Rows above the list: heading and column names, or what a view says before its rows. Dropped from the bottom
 * up where the pane is low. */
static int head_rows(const struct spp_app *app, enum spp_pane pane, int rows) {
  static const int views[SPP_VIEW_COUNT] = {[SPP_VIEW_MEMORY] = 5,
                                            [SPP_VIEW_COMM] = 3,
                                            [SPP_VIEW_TIME] = 3,
                                            [SPP_VIEW_COMPARE] = 2,
                                            [SPP_VIEW_WHY] = 1};
  int head = 1;
  if (pane == SPP_PANE_PLANS) head = 2;
  if (pane == SPP_PANE_DETAIL) head = views[app->view];
  if (pane == SPP_PANE_OVERLAY)
    head = spp_app_overlay(app) == SPP_OVERLAY_LEDGER ? 2 : spp_app_overlay(app) == SPP_OVERLAY_TRIAL ? 3 : 1;
  return head < rows - 1 ? head : rows > 1 ? 1 : 0;
}

struct spp_rect spp_panes_list(const struct spp_app *app, const struct spp_panes *panes, enum spp_pane pane) {
  struct spp_rect rect = panes->rects[pane];
  int head = head_rows(app, pane, rect.rows);
  if (rect.rows == 0) return rect;
  rect.row += head;
  rect.rows -= head;
  /* below the strategies stands the plot, below the parts of a step its lanes */
  int below = pane != SPP_PANE_DETAIL         ? 0
              : app->view == SPP_VIEW_COMPARE ? 8
              : app->view == SPP_VIEW_TIME    ? 6
                                              : 0;
  if (below > 0 && rect.rows > below + 2) {
    int count = spp_app_list_count(app, pane), most = rect.rows - below;
    rect.rows = count < most ? (count > 0 ? count : 1) : most;
  }
  return rect;
}
