/* Where things stand: rectangles from numbers alone. */
#ifndef SPP_TUI_PANES_H
#define SPP_TUI_PANES_H

#include "tui/screen.h"

struct spp_app;

enum spp_pane {
  SPP_PANE_TITLE,
  SPP_PANE_FORM,
  SPP_PANE_RULE, /* the line between form and the rest */
  SPP_PANE_PLANS,
  SPP_PANE_DETAIL,
  SPP_PANE_OVERLAY, /* over the others */
  SPP_PANE_MESSAGE,
  SPP_PANE_KEYS,
  SPP_PANE_COUNT
};
enum spp_view {
  SPP_VIEW_MEMORY,
  SPP_VIEW_COMM,
  SPP_VIEW_TIME,
  SPP_VIEW_COMPARE,
  SPP_VIEW_WHY,
  SPP_VIEW_COUNT
};
enum { SPP_MIN_ROWS = 10, SPP_MIN_COLS = 40 };

struct spp_panes {
  bool too_small; /* nothing but one sentence */
  struct spp_rect rects[SPP_PANE_COUNT];
};
void spp_panes(const struct spp_app *app, int rows, int cols, struct spp_panes *panes);
/* The rows of a pane (FORM, PLANS, DETAIL, OVERLAY) that hold its list. */
struct spp_rect spp_panes_list(const struct spp_app *app, const struct spp_panes *panes, enum spp_pane pane);

#endif
