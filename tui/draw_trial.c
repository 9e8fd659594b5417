#include <stdio.h>

#include "tui/draw.h"

/* [######....] 12 of 20  Ulysses 4 */
static void draw_progress(const struct spp_tui_trial *trial, const struct spp_rect *rect,
                          struct spp_screen *screen) {
  int bar = rect->cols / 3, done = trial->count > 0 ? bar * trial->done / trial->count : 0;
  enum spp_ink role = trial->failed > 0 ? SPP_INK_BAD : SPP_INK_GOOD;
  spp_put_fill(screen, rect, 1, 1, role, 0x2588, done);
  spp_put_fill(screen, rect, 1, 1 + done, SPP_INK_DIM, 0x2591, bar - done);
  int col = spp_putf(screen, rect, 1, bar + 2, SPP_INK_PLAIN, "%d of %d  ", trial->done, trial->count);
  if (trial->finished && trial->diag.what[0])
    spp_put(screen, rect, 1, col, SPP_INK_BAD, trial->diag.what);
  else if (trial->finished)
    spp_putf(screen, rect, 1, col, role, "%d passed, %d FAILED%s", trial->done - trial->failed, trial->failed,
             trial->stopped ? ", stopped" : "");
  else
    spp_put(screen, rect, 1, col, SPP_INK_DIM, trial->stopped ? "stopping after this case" : trial->running);
}

void spp_draw_trial(const struct spp_app *app, const struct spp_draw_list *list, const struct spp_rect *rect,
                    struct spp_screen *screen) {
  const struct spp_tui_trial *trial = &app->trial;
  enum { NAME = 7, TEXT = 34 };
  if (list->line < 3) return;
  draw_progress(trial, rect, screen);
  spp_put_fill(screen, rect, 2, 0, SPP_INK_COLUMN, ' ', rect->cols);
  spp_put(screen, rect, 2, NAME, SPP_INK_COLUMN, "case");
  spp_put(screen, rect, 2, TEXT, SPP_INK_COLUMN, "measured, against predicted");
  for (int i = 0; i < list->lines && list->top + i < trial->done; i++) {
    const struct spp_trial_case *c = &trial->cases[list->top + i];
    spp_put(screen, rect, list->line + i, 1, c->ok ? SPP_INK_GOOD : SPP_INK_BAD, c->ok ? "ok" : "FAIL");
    spp_putf(screen, rect, list->line + i, NAME, SPP_INK_PLAIN, "%.26s", c->name);
    spp_put(screen, rect, list->line + i, TEXT, c->ok ? SPP_INK_PLAIN : SPP_INK_BAD, c->text);
  }
}
