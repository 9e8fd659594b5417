#include <stdio.h>
#include <string.h>

#include "tui/draw.h"

enum { LABEL_COLS = 12 };

void spp_draw_form(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_FORM, rect);
  spp_draw_head(app, SPP_PANE_FORM, rect, screen, "Job", "F2");
  for (int i = 0; i < list.lines && list.top + i < list.count; i++) {
    const struct spp_form_field *field = &spp_form_fields[list.top + i];
    const char *said = spp_words_get(&app->words, field->option);
    int row = list.line + i;
    bool here = list.focused && list.top + i == list.cursor;
    spp_putf(screen, rect, row, 1, SPP_INK_DIM, "%s", field->label);
    spp_put(screen, rect, row, 1 + LABEL_COLS, said ? SPP_INK_PLAIN : SPP_INK_DIM,
            said ? said : field->unsaid);
    if (!here) continue;
    spp_put_role(screen, rect, row, SPP_INK_SELECTED);
    spp_put_char(screen, rect, row, 0, SPP_INK_SELECTED, '<');
    spp_put_char(screen, rect, row, rect->cols - 1, SPP_INK_SELECTED, '>');
  }
}
