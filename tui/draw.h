/* State onto the screen. Reads only; one file a pane. */
#ifndef SPP_TUI_DRAW_H
#define SPP_TUI_DRAW_H

#include "tui/app.h"

/* The rows of a pane's list, relative to its rectangle: first line, count, and the item on the first. */
struct spp_draw_list {
  int line, lines, top, cursor, count;
  bool focused;
};

/* The whole screen, of the size it has. */
void spp_draw(const struct spp_app *app, struct spp_screen *screen);

void spp_draw_form(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_plans(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_memory(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_comm(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_time(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
/* Lanes of the step below its parts. */
void spp_draw_lanes(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_trial(const struct spp_app *app, const struct spp_draw_list *list, const struct spp_rect *rect,
                    struct spp_screen *screen);
void spp_draw_compare(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_why(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
void spp_draw_overlay(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen);
/* Curves of the comparison, in braille dots, or letters where there are none. */
void spp_draw_plot(const struct spp_tui_outcome *outcome, const struct spp_rect *rect,
                   struct spp_screen *screen);

/* Heading of a pane over its whole width. */
void spp_draw_head(const struct spp_app *app, enum spp_pane pane, const struct spp_rect *rect,
                   struct spp_screen *screen, const char *title, const char *right);
struct spp_draw_list spp_draw_list(const struct spp_app *app, enum spp_pane pane,
                                   const struct spp_rect *rect);

#endif
