#include "tui/app.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/facts.h"

void spp_app_init(struct spp_app *app, const struct spp_tui_host *host) {
  memset(app, 0, sizeof *app);
  app->host = host;
  app->focus = SPP_PANE_FORM;
}

static void forget_timeline(struct spp_app *app) {
  if (app->timeline_plan) spp_timeline_free(&app->timeline);
  app->timeline_plan = NULL;
}
void spp_app_free(struct spp_app *app) {
  forget_timeline(app);
}

void spp_app_say(struct spp_app *app, bool bad, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(app->message, sizeof app->message, fmt, args);
  va_end(args);
  app->message_bad = bad;
}

enum spp_overlay spp_app_overlay(const struct spp_app *app) {
  return app->overlay_count > 0 ? app->overlays[app->overlay_count - 1] : SPP_OVERLAY_NONE;
}

unsigned spp_app_context(const struct spp_app *app) {
  if (app->overlay_count > 0)
    return SPP_IN_OVERLAY | (spp_app_overlay(app) == SPP_OVERLAY_LEDGER  ? (unsigned)SPP_IN_LEDGER
                             : spp_app_overlay(app) == SPP_OVERLAY_TRIAL ? (unsigned)SPP_IN_TRIAL
                                                                         : 0U);
  return app->focus == SPP_PANE_FORM    ? SPP_IN_FORM
         : app->focus == SPP_PANE_PLANS ? SPP_IN_PLANS
                                        : SPP_IN_DETAIL;
}

static bool needs_details(const struct spp_app *app) {
  return app->view == SPP_VIEW_WHY || app->overlay_count > 0;
}

static void settle(struct spp_app *app) {
  static const enum spp_pane panes_with_lists[] = {SPP_PANE_FORM, SPP_PANE_PLANS, SPP_PANE_DETAIL,
                                                   SPP_PANE_OVERLAY};
  struct spp_panes panes;
  const struct spp_plan *plan = spp_app_selected(app);
  if (!plan)
    app->details.plan = NULL;
  else if (needs_details(app) && app->details.plan != plan)
    app->host->details(app->host->self, plan, &app->details);
  if (!plan || app->timeline_plan != plan) forget_timeline(app);
  if (plan && app->view == SPP_VIEW_TIME && !app->timeline_plan) {
    app->host->timeline(app->host->self, plan, &app->timeline);
    app->timeline_plan = plan;
  }
  spp_panes(app, app->rows, app->cols, &panes);
  for (size_t i = 0; i < sizeof panes_with_lists / sizeof panes_with_lists[0]; i++)
    spp_app_settle_list(app, &panes, panes_with_lists[i]);
}

/* ---- actions ---- */

static enum spp_pane list_pane(const struct spp_app *app) {
  return app->overlay_count > 0 ? SPP_PANE_OVERLAY : app->focus;
}

static unsigned move(struct spp_app *app, int by) {
  struct spp_list_state *list = spp_app_list(app, list_pane(app));
  list->cursor += by;
  return SPP_EFFECT_DRAW;
}

static int page(const struct spp_app *app) {
  struct spp_panes panes;
  spp_panes(app, app->rows, app->cols, &panes);
  int rows = spp_panes_list(app, &panes, list_pane(app)).rows;
  return rows > 2 ? rows - 1 : 1;
}

static unsigned go(struct spp_app *app, enum spp_pane focus) {
  app->focus = focus;
  return SPP_EFFECT_DRAW;
}

static unsigned turn_pane(struct spp_app *app, int by) {
  static const enum spp_pane ring[] = {SPP_PANE_FORM, SPP_PANE_PLANS, SPP_PANE_DETAIL};
  int at = app->focus == SPP_PANE_FORM ? 0 : app->focus == SPP_PANE_PLANS ? 1 : 2;
  return go(app, ring[(at + by + 3) % 3]);
}

static unsigned show_view(struct spp_app *app, enum spp_view view) {
  bool ask = view == SPP_VIEW_COMPARE && app->view != view && !(app->outcome && app->outcome->has_compare);
  app->view = view;
  app->focus = SPP_PANE_DETAIL;
  return ask ? SPP_EFFECT_DRAW | SPP_EFFECT_PLAN : SPP_EFFECT_DRAW;
}

/* One step of a form field; in the form the cursor's own. */
static unsigned step_field(struct spp_app *app, int field, int direction) {
  char text[SPP_WORD_TEXT];
  if (!spp_form_step(app->host, &app->words, field, direction, text)) {
    spp_app_say(app, true, "%s: no further value that way", spp_form_fields[field].label);
    return SPP_EFFECT_DRAW;
  }
  return spp_app_set(app, spp_form_fields[field].option, text);
}

static unsigned edit_field(struct spp_app *app, int field) {
  const char *option = spp_form_fields[field].option;
  spp_prompt_begin(&app->prompt, SPP_PROMPT_FIELD, option, spp_words_get(&app->words, option));
  return SPP_EFFECT_DRAW;
}

static unsigned clear_field(struct spp_app *app) {
  const struct spp_form_field *field = &spp_form_fields[app->form.cursor];
  if (field->needed) {
    spp_app_say(app, true, "%s: a plan needs one", field->label);
    return SPP_EFFECT_DRAW;
  }
  return spp_app_set(app, field->option, "");
}

static unsigned open_row(struct spp_app *app) {
  if (app->overlay_count > 0) {
    if (spp_app_overlay(app) == SPP_OVERLAY_LEDGER) spp_app_explain(app);
    return SPP_EFFECT_DRAW;
  }
  if (app->focus == SPP_PANE_PLANS) return go(app, SPP_PANE_DETAIL);
  if (app->view != SPP_VIEW_MEMORY) {
    spp_app_explain(app);
    return SPP_EFFECT_DRAW;
  }
  if (!spp_app_selected(app)) return 0;
  app->details.plan = NULL; /* worked out by settle() */
  app->ledger_part = spp_app_memory_part(spp_app_selected(app), app->detail[SPP_VIEW_MEMORY].cursor);
  app->host->details(app->host->self, spp_app_selected(app), &app->details);
  spp_app_pick_ledger(app, app->ledger_part);
  spp_app_open(app, SPP_OVERLAY_LEDGER);
  return SPP_EFFECT_DRAW;
}

static unsigned zoom(struct spp_app *app) {
  if (app->view != SPP_VIEW_TIME) return show_view(app, SPP_VIEW_TIME);
  app->zoom = (enum spp_zoom)(((int)app->zoom + 1) % (int)SPP_ZOOM_COUNT);
  return SPP_EFFECT_DRAW;
}

static bool trial_runs(const struct spp_app *app) {
  return app->trial_begun && !app->trial.finished;
}

/* One that runs is shown, else a new one begins. */
static unsigned validate(struct spp_app *app) {
  bool runs = trial_runs(app);
  if (spp_app_overlay(app) != SPP_OVERLAY_TRIAL) spp_app_open(app, SPP_OVERLAY_TRIAL);
  if (runs) return SPP_EFFECT_DRAW;
  memset(&app->trial, 0, sizeof app->trial);
  app->trial_begun = true;
  return SPP_EFFECT_TRIAL | SPP_EFFECT_DRAW;
}

static unsigned take_trial(struct spp_app *app, const struct spp_tui_trial *trial) {
  bool stopped = app->trial.stopped;
  app->trial = *trial;
  app->trial.stopped |= stopped && !trial->finished;
  if (spp_app_overlay(app) == SPP_OVERLAY_TRIAL) /* the newest case in sight */
    app->overlay[app->overlay_count - 1].cursor = app->trial.done;
  else if (trial->finished)
    spp_app_say(app, trial->failed > 0, "validation: %d passed, %d failed%s (v runs it again)",
                trial->done - trial->failed, trial->failed, trial->stopped ? ", stopped" : "");
  return SPP_EFFECT_DRAW;
}

static unsigned back(struct spp_app *app) {
  if (spp_app_overlay(app) == SPP_OVERLAY_TRIAL && trial_runs(app) && !app->trial.stopped) {
    app->trial.stopped = true; /* stays open and says so */
    return SPP_EFFECT_TRIAL_STOP | SPP_EFFECT_DRAW;
  }
  if (app->overlay_count > 0) {
    app->overlay_count--;
    return SPP_EFFECT_DRAW;
  }
  if (app->searching) {
    app->searching = false;
    spp_app_say(app, false, "stopped: r plans again");
    return SPP_EFFECT_CANCEL | SPP_EFFECT_DRAW;
  }
  if (app->filter[0]) {
    app->filter[0] = '\0';
    spp_app_arrange(app);
    return SPP_EFFECT_DRAW;
  }
  if (app->focus == SPP_PANE_DETAIL) return go(app, SPP_PANE_PLANS);
  if (app->focus == SPP_PANE_PLANS) return go(app, SPP_PANE_FORM);
  spp_app_say(app, false, "q quits, ? helps");
  return SPP_EFFECT_DRAW;
}

static unsigned next_match(struct spp_app *app, int by) {
  if (app->order_count == 0) return 0;
  app->plans.cursor = (app->plans.cursor + by + app->order_count) % app->order_count;
  return SPP_EFFECT_DRAW;
}

static unsigned mark(struct spp_app *app) {
  if (app->plans.cursor >= app->order_count) return 0;
  int index = app->order[app->plans.cursor];
  app->marked[index] = !app->marked[index];
  app->plans.cursor++;
  return SPP_EFFECT_DRAW;
}

static unsigned compare(struct spp_app *app) {
  int marks = 0;
  for (int i = 0; i < spp_app_plan_count(app); i++)
    marks += app->marked[i];
  if (marks == 0) return show_view(app, SPP_VIEW_COMPARE);
  if (marks == 1) {
    spp_app_say(app, true, "mark a second plan with Space");
    return SPP_EFFECT_DRAW;
  }
  spp_app_open(app, SPP_OVERLAY_MARKED);
  return SPP_EFFECT_DRAW;
}

static unsigned show_line(struct spp_app *app) {
  struct spp_str line;
  spp_str_init(&line);
  spp_app_command_line(app, &line);
  snprintf(app->text_title, sizeof app->text_title, "The same on the command line");
  snprintf(app->text, sizeof app->text, "%s", spp_str_text(&line));
  spp_str_free(&line);
  spp_app_open(app, SPP_OVERLAY_TEXT);
  return SPP_EFFECT_DRAW;
}

static unsigned begin_save(struct spp_app *app) {
  if (!app->outcome) {
    spp_app_say(app, true, "there is no plan yet");
    return SPP_EFFECT_DRAW;
  }
  spp_prompt_begin(&app->prompt, SPP_PROMPT_SAVE, NULL, "plan.json");
  return SPP_EFFECT_DRAW;
}

static unsigned begin_prompt(struct spp_app *app, enum spp_prompt_kind kind, const char *text) {
  spp_prompt_begin(&app->prompt, kind, NULL, text);
  return SPP_EFFECT_DRAW;
}

static unsigned resort(struct spp_app *app, bool next) {
  if (next)
    app->sort = (enum spp_sort)(((int)app->sort + 1) % (int)SPP_SORT_COUNT);
  else
    app->inverted = !app->inverted;
  app->plans.cursor = 0;
  spp_app_arrange(app);
  return SPP_EFFECT_DRAW;
}

static unsigned quit_or_close(struct spp_app *app) {
  if (app->overlay_count == 0) return SPP_EFFECT_QUIT;
  app->overlay_count--;
  return SPP_EFFECT_DRAW;
}

static unsigned help(struct spp_app *app) {
  if (spp_app_overlay(app) == SPP_OVERLAY_HELP)
    app->overlay_count--;
  else
    spp_app_open(app, SPP_OVERLAY_HELP);
  return SPP_EFFECT_DRAW;
}

static unsigned move_action(struct spp_app *app, enum spp_action action) {
  switch (action) {
  case SPP_ACT_UP: return move(app, -1);
  case SPP_ACT_DOWN: return move(app, 1);
  case SPP_ACT_PAGE_UP: return move(app, -page(app));
  case SPP_ACT_PAGE_DOWN: return move(app, page(app));
  case SPP_ACT_FIRST: return move(app, -100000);
  default: return move(app, 100000);
  }
}

static unsigned act(struct spp_app *app, enum spp_action action) {
  switch (action) {
  case SPP_ACT_NONE: spp_app_say(app, true, "no such key here: ? lists them"); return SPP_EFFECT_DRAW;
  case SPP_ACT_UP:
  case SPP_ACT_DOWN:
  case SPP_ACT_PAGE_UP:
  case SPP_ACT_PAGE_DOWN:
  case SPP_ACT_FIRST:
  case SPP_ACT_LAST: return move_action(app, action);
  case SPP_ACT_LESS: return step_field(app, app->form.cursor, -1);
  case SPP_ACT_MORE: return step_field(app, app->form.cursor, 1);
  case SPP_ACT_OPEN: return open_row(app);
  case SPP_ACT_EDIT: return edit_field(app, app->form.cursor);
  case SPP_ACT_CLEAR: return clear_field(app);
  case SPP_ACT_BACK: return back(app);
  case SPP_ACT_NEXT_PANE: return turn_pane(app, 1);
  case SPP_ACT_PREVIOUS_PANE: return turn_pane(app, -1);
  case SPP_ACT_FORM: return go(app, SPP_PANE_FORM);
  case SPP_ACT_VIEW_MEMORY:
  case SPP_ACT_VIEW_COMM:
  case SPP_ACT_VIEW_TIME:
  case SPP_ACT_VIEW_COMPARE:
  case SPP_ACT_VIEW_WHY: return show_view(app, (enum spp_view)((int)action - (int)SPP_ACT_VIEW_MEMORY));
  case SPP_ACT_EDIT_SEQ: return edit_field(app, spp_form_find("seq"));
  case SPP_ACT_SEQ_LESS: return step_field(app, spp_form_find("seq"), -1);
  case SPP_ACT_SEQ_MORE: return step_field(app, spp_form_find("seq"), 1);
  case SPP_ACT_GPUS_LESS: return step_field(app, spp_form_find("gpus"), -1);
  case SPP_ACT_GPUS_MORE: return step_field(app, spp_form_find("gpus"), 1);
  case SPP_ACT_SORT: return resort(app, true);
  case SPP_ACT_INVERT: return resort(app, false);
  case SPP_ACT_FILTER: return begin_prompt(app, SPP_PROMPT_FILTER, app->filter);
  case SPP_ACT_NEXT_MATCH: return next_match(app, 1);
  case SPP_ACT_PREVIOUS_MATCH: return next_match(app, -1);
  case SPP_ACT_MARK: return mark(app);
  case SPP_ACT_COMPARE: return compare(app);
  case SPP_ACT_EXPLAIN: spp_app_explain(app); return SPP_EFFECT_DRAW;
  case SPP_ACT_COMMAND: return begin_prompt(app, SPP_PROMPT_COMMAND, "");
  case SPP_ACT_LINE: return show_line(app);
  case SPP_ACT_SAVE: return begin_save(app);
  case SPP_ACT_VALIDATE: return validate(app);
  case SPP_ACT_ZOOM: return zoom(app);
  case SPP_ACT_RECOMPUTE: return SPP_EFFECT_PLAN | SPP_EFFECT_DRAW;
  case SPP_ACT_REPAINT: return SPP_EFFECT_REPAINT | SPP_EFFECT_DRAW;
  case SPP_ACT_SUSPEND: return SPP_EFFECT_SUSPEND | SPP_EFFECT_REPAINT | SPP_EFFECT_DRAW;
  case SPP_ACT_HELP: return help(app);
  case SPP_ACT_QUIT: return quit_or_close(app);
  case SPP_ACT_STOP: return SPP_EFFECT_QUIT;
  }
  return 0;
}

void spp_app_open(struct spp_app *app, enum spp_overlay overlay) {
  if (app->overlay_count == SPP_OVERLAYS_MAX) app->overlay_count--;
  app->overlays[app->overlay_count] = overlay;
  app->overlay[app->overlay_count] = (struct spp_list_state){0, 0};
  app->overlay_count++;
}

/* ---- other events ---- */

static bool inside(const struct spp_rect *rect, int row, int col) {
  return row >= rect->row && row < rect->row + rect->rows && col >= rect->col && col < rect->col + rect->cols;
}

static unsigned click_keys(struct spp_app *app, const struct spp_rect *keys, int col) {
  struct spp_key_hint hints[SPP_HINTS_MAX];
  int count = spp_key_hints(spp_app_context(app), keys->cols, hints);
  for (int i = 0; i < count; i++)
    if (col >= hints[i].col && col < hints[i].col + hints[i].cols) return act(app, hints[i].binding->action);
  return 0;
}

/* Into a pane: its row gets the cursor; on the column names: sort; on a key of the bottom line: that key. */
static unsigned click(struct spp_app *app, int row, int col) {
  static const enum spp_pane lists[] = {SPP_PANE_FORM, SPP_PANE_PLANS, SPP_PANE_DETAIL};
  struct spp_panes panes;
  spp_panes(app, app->rows, app->cols, &panes);
  if (inside(&panes.rects[SPP_PANE_KEYS], row, col)) return click_keys(app, &panes.rects[SPP_PANE_KEYS], col);
  if (app->overlay_count > 0) {
    if (!inside(&panes.rects[SPP_PANE_OVERLAY], row, col)) return back(app);
    struct spp_rect list = spp_panes_list(app, &panes, SPP_PANE_OVERLAY);
    struct spp_list_state *state = spp_app_list(app, SPP_PANE_OVERLAY);
    if (spp_app_overlay(app) == SPP_OVERLAY_LEDGER && inside(&list, row, col))
      state->cursor = state->top + row - list.row;
    return SPP_EFFECT_DRAW;
  }
  for (int i = 0; i < 3; i++) {
    struct spp_rect list = spp_panes_list(app, &panes, lists[i]);
    struct spp_list_state *state = spp_app_list(app, lists[i]);
    if (!inside(&panes.rects[lists[i]], row, col)) continue;
    app->focus = lists[i];
    if (lists[i] == SPP_PANE_PLANS && row == panes.rects[lists[i]].row + 1 && list.row > row)
      return resort(app, true);
    if (inside(&list, row, col)) state->cursor = state->top + row - list.row;
    return SPP_EFFECT_DRAW;
  }
  return 0;
}

static unsigned wheel(struct spp_app *app, const struct spp_event *event) {
  struct spp_panes panes;
  enum spp_pane pane = list_pane(app);
  spp_panes(app, app->rows, app->cols, &panes);
  if (app->overlay_count == 0)
    for (int i = (int)SPP_PANE_FORM; i <= (int)SPP_PANE_DETAIL; i++)
      if (i != (int)SPP_PANE_RULE && inside(&panes.rects[i], event->rows, event->cols))
        pane = (enum spp_pane)i;
  spp_app_list(app, pane)->cursor += 3 * event->direction;
  return SPP_EFFECT_DRAW;
}

/* The cursor goes to the same layout under the same framework where the new answer has it. */
static void keep_selection(struct spp_app *app, const struct spp_plan *before) {
  app->plans.cursor = app->plans.top = 0;
  for (int i = 0; before && i < app->order_count; i++) {
    const struct spp_plan *plan = spp_app_plan(app, app->order[i]);
    if (strcmp(plan->job.framework->name, before->job.framework->name) == 0 &&
        memcmp(&plan->layout, &before->layout, sizeof plan->layout) == 0)
      app->plans.cursor = i;
  }
}

static unsigned take_outcome(struct spp_app *app, const struct spp_tui_outcome *outcome) {
  const struct spp_plan *before = spp_app_selected(app);
  bool keeps = app->plans.cursor > 0;
  char text[1000];
  if (outcome->request != app->request) return 0; /* an old question */
  app->searching = false;
  if (outcome->status != SPP_OK && outcome->status != SPP_ERR_NOFIT) {
    app->outdated = app->outcome != NULL;
    spp_app_say(app, true, "%s", spp_diag_format(&outcome->diag, text, sizeof text));
    return SPP_EFFECT_DRAW;
  }
  app->outcome = outcome;
  app->outdated = false;
  app->details.plan = NULL;
  forget_timeline(app);
  if (app->overlay_count > 0 && spp_app_overlay(app) != SPP_OVERLAY_HELP &&
      spp_app_overlay(app) != SPP_OVERLAY_TRIAL)
    app->overlay_count = 0;
  memset(app->marked, 0, sizeof app->marked);
  if (outcome->status == SPP_ERR_NOFIT) spp_app_say(app, true, "%s", outcome->diag.what);
  spp_app_arrange(app);
  keep_selection(app, keeps ? before : NULL);
  return SPP_EFFECT_DRAW;
}

unsigned spp_app_handle(struct spp_app *app, const struct spp_event *event) {
  unsigned effects = 0;
  switch (event->kind) {
  case SPP_EVENT_RESIZE:
    app->rows = event->rows;
    app->cols = event->cols;
    effects = SPP_EFFECT_DRAW;
    break;
  case SPP_EVENT_KEY:
    if (app->prompt.kind != SPP_PROMPT_NONE) {
      effects = spp_app_prompt_key(app, event->key);
      break;
    }
    app->message[0] = '\0';
    effects = act(app, spp_key_action(event->key, spp_app_context(app)));
    break;
  case SPP_EVENT_CLICK:
    if (app->prompt.kind == SPP_PROMPT_NONE) effects = click(app, event->rows, event->cols);
    break;
  case SPP_EVENT_WHEEL: effects = wheel(app, event); break;
  case SPP_EVENT_OUTCOME: effects = take_outcome(app, event->outcome); break;
  case SPP_EVENT_TRIAL: effects = take_trial(app, event->trial); break;
  }
  if (effects & SPP_EFFECT_PLAN) {
    app->request++;
    app->searching = true;
  }
  settle(app);
  return effects;
}
