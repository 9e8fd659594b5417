#include "tui/draw.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"

void spp_draw_head(const struct spp_app *app, enum spp_pane pane, const struct spp_rect *rect,
                   struct spp_screen *screen, const char *title, const char *right) {
  bool focused = pane == SPP_PANE_OVERLAY || (app->overlay_count == 0 && app->focus == pane);
  enum spp_ink role = focused ? SPP_INK_FOCUS : SPP_INK_HEAD;
  spp_put_fill(screen, rect, 0, 0, role, ' ', rect->cols);
  int col = spp_putf(screen, rect, 0, 0, role, "%s%s", focused ? "▸" : " ", title);
  if (right && col + 1 + spp_utf8_width(right) <= rect->cols) spp_put_right(screen, rect, 0, role, right);
}

struct spp_draw_list spp_draw_list(const struct spp_app *app, enum spp_pane pane,
                                   const struct spp_rect *rect) {
  struct spp_panes panes;
  const struct spp_list_state *state =
      pane == SPP_PANE_FORM      ? &app->form
      : pane == SPP_PANE_PLANS   ? &app->plans
      : pane == SPP_PANE_OVERLAY ? &app->overlay[app->overlay_count > 0 ? app->overlay_count - 1 : 0]
                                 : &app->detail[app->view];
  spp_panes(app, app->rows, app->cols, &panes);
  struct spp_rect list = spp_panes_list(app, &panes, pane);
  return (struct spp_draw_list){.line = list.row - rect->row,
                                .lines = list.rows,
                                .top = state->top,
                                .cursor = state->cursor,
                                .count = spp_app_list_count(app, pane),
                                .focused = pane == SPP_PANE_OVERLAY ||
                                           (app->overlay_count == 0 && app->focus == pane)};
}

static void draw_title(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_selected(app);
  char text[256], right[64] = "", tokens[32];
  const char *name = plan ? plan->job.arch->display : spp_words_get(&app->words, "model");
  spp_put_fill(screen, rect, 0, 0, SPP_INK_BAR, ' ', rect->cols);
  if (app->searching)
    snprintf(right, sizeof right, "searching… ");
  else if (app->outdated)
    snprintf(right, sizeof right, "previous answer ");
  else if (app->outcome)
    snprintf(right, sizeof right, "%s ", app->outcome->status == SPP_OK ? "fits" : "nothing fits");
  int length = snprintf(text, sizeof text, " spplan  %s", name ? name : "no model");
  if (plan && length > 0 && (size_t)length < sizeof text)
    snprintf(text + length, sizeof text - (size_t)length, " · %s tokens x %lld · %lld x %s",
             spp_tokens_print(plan->job.seq_tokens, tokens), (long long)plan->job.global_batch,
             (long long)plan->job.gpus, plan->job.gpu->display);
  struct spp_rect left = *rect;
  left.cols -= spp_utf8_width(right) + 1;
  spp_put(screen, &left, 0, 0, SPP_INK_BAR, text);
  spp_put_right(screen, rect, 0, SPP_INK_BAR, right);
}

static void draw_prompt(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  static const char *const labels[] = {"", "", ":", "/", "save as "};
  const struct spp_prompt *prompt = &app->prompt;
  char label[64], typed[SPP_WORD_TEXT];
  int field = spp_form_find(prompt->option);
  snprintf(label, sizeof label, "%s", labels[prompt->kind]);
  if (prompt->kind == SPP_PROMPT_FIELD)
    snprintf(label, sizeof label, "%s: ", field >= 0 ? spp_form_fields[field].label : prompt->option);
  int col = spp_put(screen, rect, 0, 0, SPP_INK_FOCUS, label);
  /* a text longer than the line shows the end that is being typed */
  const char *text = prompt->text;
  snprintf(typed, sizeof typed, "%.*s", prompt->at, prompt->text);
  while (col + spp_utf8_width(typed + (text - prompt->text)) >= rect->cols && *text)
    text += spp_utf8_length(text, strlen(text)) ? spp_utf8_length(text, strlen(text)) : 1;
  screen->cursor_row = rect->row;
  screen->cursor_col = rect->col + col + spp_utf8_width(typed + (text - prompt->text));
  col = spp_put(screen, rect, 0, col, SPP_INK_PLAIN, text) + 2;
  for (int i = 0; i < 24; i++) {
    const char *word = spp_prompt_candidate(prompt, app->host, i);
    if (!word || col + spp_utf8_width(word) > rect->cols) break;
    col = spp_put(screen, rect, 0, col, i == prompt->completion ? SPP_INK_SELECTED : SPP_INK_DIM, word) + 2;
  }
}

static void draw_message(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_selected(app);
  char layout[300];
  if (app->prompt.kind != SPP_PROMPT_NONE)
    draw_prompt(app, rect, screen);
  else if (app->message[0])
    spp_put(screen, rect, 0, 0, app->message_bad ? SPP_INK_BAD : SPP_INK_DIM, app->message);
  else if (app->filter[0])
    spp_putf(screen, rect, 0, 0, SPP_INK_DIM, "filter: %s (Esc clears)", app->filter);
  else if (plan) /* the whole of what the table may have had to cut */
    spp_putf(screen, rect, 0, 1, SPP_INK_DIM, "%s · %s", plan->job.framework->display,
             spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
}

static void draw_keys(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_key_hint hints[SPP_HINTS_MAX];
  if (app->prompt.kind != SPP_PROMPT_NONE) {
    if (app->prompt.error[0])
      spp_put(screen, rect, 0, 0, SPP_INK_BAD, app->prompt.error);
    else
      spp_put(screen, rect, 0, 1, SPP_INK_DIM, "Enter takes it  Esc gives up  Tab completes");
    return;
  }
  int count = spp_key_hints(spp_app_context(app), rect->cols, hints);
  for (int i = 0; i < count; i++) {
    int col = spp_put(screen, rect, 0, hints[i].col, SPP_INK_KEY, hints[i].binding->label);
    spp_put(screen, rect, 0, col + 1, SPP_INK_DIM, hints[i].binding->hint);
  }
}

static void draw_too_small(struct spp_screen *screen) {
  char text[64];
  struct spp_rect all = {0, 0, screen->rows, screen->cols};
  snprintf(text, sizeof text, "spplan needs %d x %d", (int)SPP_MIN_COLS, (int)SPP_MIN_ROWS);
  int width = spp_utf8_width(text), col = (screen->cols - width) / 2;
  spp_put(screen, &all, screen->rows / 2, col > 0 ? col : 0, SPP_INK_WARN, text);
}

static void draw_detail(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  static void (*const views[SPP_VIEW_COUNT])(const struct spp_app *, const struct spp_rect *,
                                             struct spp_screen *) = {[SPP_VIEW_MEMORY] = spp_draw_memory,
                                                                     [SPP_VIEW_COMM] = spp_draw_comm,
                                                                     [SPP_VIEW_TIME] = spp_draw_time,
                                                                     [SPP_VIEW_COMPARE] = spp_draw_compare,
                                                                     [SPP_VIEW_WHY] = spp_draw_why};
  views[app->view](app, rect, screen);
}

void spp_draw(const struct spp_app *app, struct spp_screen *screen) {
  struct spp_panes panes;
  spp_screen_clear(screen);
  spp_panes(app, screen->rows, screen->cols, &panes);
  if (panes.too_small) {
    draw_too_small(screen);
    return;
  }
  const struct spp_rect *rects = panes.rects;
  draw_title(app, &rects[SPP_PANE_TITLE], screen);
  if (rects[SPP_PANE_FORM].rows > 0) spp_draw_form(app, &rects[SPP_PANE_FORM], screen);
  for (int row = 0; row < rects[SPP_PANE_RULE].rows; row++)
    spp_put_char(screen, &rects[SPP_PANE_RULE], row, 0, SPP_INK_DIM, 0x2502);
  if (rects[SPP_PANE_PLANS].rows > 0) spp_draw_plans(app, &rects[SPP_PANE_PLANS], screen);
  if (rects[SPP_PANE_DETAIL].rows > 0) draw_detail(app, &rects[SPP_PANE_DETAIL], screen);
  if (rects[SPP_PANE_OVERLAY].rows > 0) spp_draw_overlay(app, &rects[SPP_PANE_OVERLAY], screen);
  draw_message(app, &rects[SPP_PANE_MESSAGE], screen);
  draw_keys(app, &rects[SPP_PANE_KEYS], screen);
}
