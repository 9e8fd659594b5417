#include "tests/tui/fake.h"

enum { MOST_ROWS = 200, MOST_COLS = 300 };

static bool apart(const struct spp_rect *a, const struct spp_rect *b) {
  return a->row + a->rows <= b->row || b->row + b->rows <= a->row || a->col + a->cols <= b->col ||
         b->col + b->cols <= a->col;
}

static void check_panes(const struct spp_app *app, int rows, int cols) {
  struct spp_panes panes;
  spp_panes(app, rows, cols, &panes);
  expect_note("%d x %d", rows, cols);
  if (panes.too_small != (rows < SPP_MIN_ROWS || cols < SPP_MIN_COLS)) expect_true(false);
  for (int i = 0; i < SPP_PANE_COUNT; i++) {
    const struct spp_rect *a = &panes.rects[i];
    if (a->rows == 0 && a->cols == 0) continue;
    bool inside = a->row >= 0 && a->col >= 0 && a->rows > 0 && a->cols > 0 && a->row + a->rows <= rows &&
                  a->col + a->cols <= cols;
    if (!inside) expect_true(inside);
    for (int j = 0; j < i; j++)
      if (i != SPP_PANE_OVERLAY && j != SPP_PANE_OVERLAY && panes.rects[j].rows > 0)
        if (!apart(a, &panes.rects[j])) expect_true(apart(a, &panes.rects[j]));
  }
  if (!panes.too_small && panes.rects[app->focus].rows == 0) expect_true(false); /* the keys go nowhere */
}

static void panes_are_inside_the_screen_and_apart_at_every_size(void **state) {
  struct fake *fake = fake_make(24, 80);
  static const enum spp_pane focuses[] = {SPP_PANE_FORM, SPP_PANE_PLANS, SPP_PANE_DETAIL};
  (void)state;
  for (int f = 0; f < 3; f++)
    for (int rows = 1; rows <= MOST_ROWS; rows++)
      for (int cols = 1; cols <= MOST_COLS; cols++) {
        fake->app.focus = focuses[f];
        fake->app.view = (enum spp_view)((rows + cols) % SPP_VIEW_COUNT);
        fake->app.overlay_count = cols % 2;
        fake->app.overlays[0] = SPP_OVERLAY_HELP;
        check_panes(&fake->app, rows, cols);
      }
  fake_free(fake);
}

static void the_selected_row_is_in_sight_after_every_resize(void **state) {
  struct fake *fake = fake_make(24, 80);
  static const enum spp_pane lists[] = {SPP_PANE_FORM, SPP_PANE_PLANS, SPP_PANE_DETAIL};
  struct spp_panes panes;
  (void)state;
  for (int rows = SPP_MIN_ROWS; rows <= MOST_ROWS; rows += 1)
    for (int cols = SPP_MIN_COLS; cols <= MOST_COLS; cols += 7)
      for (int i = 0; i < 3; i++) {
        struct spp_list_state *list = spp_app_list(&fake->app, lists[i]);
        fake->app.focus = lists[i];
        list->cursor = 1000; /* the last row */
        spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_RESIZE, .rows = rows, .cols = cols});
        spp_panes(&fake->app, rows, cols, &panes);
        int shown = spp_panes_list(&fake->app, &panes, lists[i]).rows;
        expect_note("%d x %d, pane %d", rows, cols, (int)lists[i]);
        expect_i64(list->cursor, spp_app_list_count(&fake->app, lists[i]) - 1);
        expect_true(shown > 0 && list->cursor >= list->top && list->cursor < list->top + shown);
      }
  fake_free(fake);
}

static void every_size_draws(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  for (int view = 0; view < SPP_VIEW_COUNT; view++)
    for (int rows = 1; rows <= 60; rows += 1)
      for (int cols = 1; cols <= 200; cols += rows < 14 ? 1 : 13) {
        struct spp_screen screen = {.utf8 = cols % 2 == 0};
        fake->app.view = (enum spp_view)view;
        expect_status(spp_screen_resize(&screen, rows, cols, NULL), SPP_OK, NULL);
        spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_RESIZE, .rows = rows, .cols = cols});
        spp_draw(&fake->app, &screen);
        spp_screen_free(&screen);
      }
  fake_free(fake);
}

static void the_bottom_line_fits_and_ends_with_help_and_quit(void **state) {
  struct spp_key_hint hints[SPP_HINTS_MAX];
  (void)state;
  for (unsigned context = 1; context <= SPP_IN_OVERLAY; context <<= 1) /* in a window there is less to do */
    for (int cols = SPP_MIN_COLS; cols <= MOST_COLS; cols++) {
      int count = spp_key_hints(context, cols, hints);
      expect_note("context %u, %d columns", context, cols);
      expect_true(count >= (context == SPP_IN_OVERLAY ? 3 : 4));
      expect_i64(hints[count - 1].binding->action, SPP_ACT_QUIT);
      expect_i64(hints[count - 2].binding->action, SPP_ACT_HELP);
      expect_true(hints[count - 1].col + hints[count - 1].cols <= cols);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(panes_are_inside_the_screen_and_apart_at_every_size),
      cmocka_unit_test(the_selected_row_is_in_sight_after_every_resize),
      cmocka_unit_test(every_size_draws),
      cmocka_unit_test(the_bottom_line_fits_and_ends_with_help_and_quit),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
