#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/facts.h"
#include "report/text.h"
#include "tui/draw.h"

/* ---- why ---- */

static int advice_rows(const struct spp_advice *advice, int count, const char *label, enum spp_ink role,
                       int number, const struct spp_draw_list *list, const struct spp_rect *rect,
                       struct spp_screen *screen) {
  for (int i = 0; i < count; i++, number++) {
    int at = number - list->top;
    if (at < 0 || at >= list->lines) continue;
    spp_put(screen, rect, list->line + at, 1, role, label);
    spp_put(screen, rect, list->line + at, 10, SPP_INK_PLAIN, advice[i].text);
    if (list->focused && number == list->cursor)
      spp_put_role(screen, rect, list->line + at, SPP_INK_SELECTED);
  }
  return number;
}

void spp_draw_why(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_DETAIL, rect);
  const struct spp_plan_details *d = &app->details;
  spp_draw_head(app, SPP_PANE_DETAIL, rect, screen, "5 Why", "1 memory 2 comm 3 time 4 compare ");
  if (!spp_app_selected(app) || d->plan != spp_app_selected(app)) return;
  int number = advice_rows(d->warnings, d->warning_count, "watch", SPP_INK_WARN, 0, &list, rect, screen);
  number = advice_rows(d->next, d->next_count, "next", SPP_INK_GOOD, number, &list, rect, screen);
  number = advice_rows(d->why_not, d->why_not_count, "why not", SPP_INK_DIM, number, &list, rect, screen);
  if (number == 0) spp_put(screen, rect, list.line, 1, SPP_INK_DIM, "nothing to say about this plan");
}

/* ---- overlays ---- */

static void draw_help(const struct spp_draw_list *list, const struct spp_rect *rect,
                      struct spp_screen *screen) {
  for (int i = 0; i < list->lines && list->top + i < list->count; i++) {
    const struct spp_binding *binding = &spp_bindings[list->top + i];
    const char *where = (binding->contexts & SPP_IN_PANES) == SPP_IN_PANES ? ""
                        : binding->contexts & SPP_IN_FORM                  ? "form"
                        : binding->contexts & SPP_IN_PLANS                 ? "plans"
                        : binding->contexts & SPP_IN_DETAIL                ? "view"
                                                                           : "window";
    spp_put(screen, rect, list->line + i, 1, SPP_INK_KEY, binding->label);
    spp_put(screen, rect, list->line + i, 12, SPP_INK_DIM, where);
    spp_put(screen, rect, list->line + i, 19, SPP_INK_PLAIN, binding->help);
  }
}

static void draw_ledger(const struct spp_app *app, const struct spp_draw_list *list,
                        const struct spp_rect *rect, struct spp_screen *screen) {
  unsigned peak = SPP_LIVE(app->details.plan->prediction.memory.peak_moment);
  spp_put_fill(screen, rect, 1, 0, SPP_INK_COLUMN, ' ', rect->cols);
  if (list->line > 1)
    spp_put(screen, rect, 1, 1, SPP_INK_COLUMN, "*      bytes  tensor                         shape");
  for (int i = 0; i < list->lines && list->top + i < list->count; i++) {
    const struct spp_ledger_entry *entry = &app->details.ledger.entries[app->ledger_rows[list->top + i]];
    char bytes[32], shape[64] = "";
    if (entry->rows > 0)
      snprintf(shape, sizeof shape, "%lld x %lld %s x %lld", (long long)entry->rows, (long long)entry->cols,
               spp_dtype_name(entry->dtype), (long long)entry->copies);
    spp_putf(screen, rect, list->line + i, 1, SPP_INK_PLAIN, "%s %10s  %-30.30s %s",
             entry->live & peak ? "*" : " ", spp_bytes_print(entry->bytes, bytes), entry->tensor->name,
             shape);
    if (list->top + i == list->cursor) spp_put_role(screen, rect, list->line + i, SPP_INK_SELECTED);
  }
}

static void draw_text(const struct spp_app *app, const struct spp_draw_list *list,
                      const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_rect inner = {rect->row, rect->col + 1, rect->rows, rect->cols - 2};
  const char *text = app->text;
  int row = list->line;
  for (int skip = list->top; skip > 0 && *text; text++)
    skip -= *text == '\n';
  while (*text && row < inner.rows) {
    char lined[1024];
    size_t length = strcspn(text, "\n");
    snprintf(lined, sizeof lined, "%.*s", (int)(length < sizeof lined ? length : sizeof lined - 1), text);
    row = length ? spp_put_wrapped(screen, &inner, row, SPP_INK_PLAIN, lined) : row + 1;
    text += length + (text[length] == '\n');
  }
}

/* A row of the side-by-side table: what, and one plan's text for it. */
static void marked_cell(const struct spp_plan *plan, int row, char text[64], const char **label) {
  const struct spp_prediction *p = &plan->prediction;
  const struct spp_layout *l = &plan->layout;
  char number[32];
  static const char *const heads[] = {"framework", "TP x PP x DP", "EP",        "Ulysses x ring", "ZeRO",
                                      "recompute", "micro-batch",  "tok/s/GPU", "step",           "memory"};
  text[0] = '\0';
  if (row < 10) {
    *label = heads[row];
    switch (row) {
    case 0: snprintf(text, 64, "%s", plan->job.framework->name); break;
    case 1:
      snprintf(text, 64, "%lld x %lld x %lld", (long long)l->tp, (long long)l->pp, (long long)l->dp);
      break;
    case 2: snprintf(text, 64, "%lld", (long long)l->ep); break;
    case 3: snprintf(text, 64, "%lld x %lld", (long long)l->ulysses, (long long)l->ring); break;
    case 4: snprintf(text, 64, "%d", l->zero); break;
    case 5: snprintf(text, 64, "%s", spp_recompute_name(l->recompute)); break;
    case 6: snprintf(text, 64, "%lld x %lld", (long long)l->micro_batch, (long long)l->grad_accum); break;
    case 7: snprintf(text, 64, "%s", spp_text_rate(p->time.tokens_per_s_per_gpu, number)); break;
    case 8: snprintf(text, 64, "%s", spp_seconds_print(p->time.step_s, number)); break;
    default: snprintf(text, 64, "%s", spp_bytes_print(p->memory.device_bytes, number)); break;
    }
  } else if (row < 10 + SPP_PART_COUNT) {
    *label = spp_part_label((enum spp_part)(row - 10));
    snprintf(text, 64, "%s", spp_bytes_print(p->memory.parts[row - 10], number));
  } else {
    int part = row - 10 - SPP_PART_COUNT;
    *label = spp_time_parts[part].name;
    snprintf(text, 64, "%s", spp_seconds_print(spp_fact_time_part(&p->time, part), number));
  }
}

static void draw_marked(const struct spp_app *app, const struct spp_draw_list *list,
                        const struct spp_rect *rect, struct spp_screen *screen) {
  enum { LABEL = 19, COLUMN = 15 };
  for (int i = 0; i < list->lines && list->top + i < list->count; i++) {
    int shown = 0;
    for (int plan = 0; plan < spp_app_plan_count(app) && LABEL + (shown + 1) * COLUMN <= rect->cols; plan++) {
      const char *label = "";
      char text[64];
      if (!app->marked[plan]) continue;
      marked_cell(spp_app_plan(app, plan), list->top + i, text, &label);
      if (shown == 0) spp_put(screen, rect, list->line + i, 1, SPP_INK_DIM, label);
      spp_putf(screen, rect, list->line + i, LABEL + COLUMN * shown++, SPP_INK_PLAIN, "%14.14s", text);
    }
  }
}

void spp_draw_overlay(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_OVERLAY, rect);
  char title[96], right[64];
  for (int row = 0; row < rect->rows; row++)
    spp_put_fill(screen, rect, row, 0, SPP_INK_PLAIN, ' ', rect->cols);
  snprintf(right, sizeof right, "%s", list.count > list.lines ? "j k scroll, Esc closes " : "Esc closes ");
  switch (spp_app_overlay(app)) {
  case SPP_OVERLAY_HELP: snprintf(title, sizeof title, "Keys (t edits the sequence length)"); break;
  case SPP_OVERLAY_LEDGER:
    snprintf(title, sizeof title, "Tensors: %s",
             app->ledger_part < 0 ? "all" : spp_part_label((enum spp_part)app->ledger_part));
    snprintf(right, sizeof right, "* alive at the peak, Enter explains ");
    break;
  case SPP_OVERLAY_MARKED: snprintf(title, sizeof title, "Marked plans"); break;
  case SPP_OVERLAY_TRIAL:
    snprintf(title, sizeof title, "Validation: small models trained here");
    snprintf(right, sizeof right, "%s",
             app->trial.finished ? "v again, Esc closes " : "Esc stops, q leaves it running ");
    break;
  default: snprintf(title, sizeof title, "%s", app->text_title); break;
  }
  spp_draw_head(app, SPP_PANE_OVERLAY, rect, screen, title, right);
  switch (spp_app_overlay(app)) {
  case SPP_OVERLAY_HELP: draw_help(&list, rect, screen); break;
  case SPP_OVERLAY_LEDGER:
    if (app->details.plan) draw_ledger(app, &list, rect, screen);
    break;
  case SPP_OVERLAY_MARKED: draw_marked(app, &list, rect, screen); break;
  case SPP_OVERLAY_TRIAL: spp_draw_trial(app, &list, rect, screen); break;
  default: draw_text(app, &list, rect, screen); break;
  }
}
