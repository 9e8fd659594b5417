/* The interface's state, and what each event does to it. No curses, no files, no threads: the loop carries
 * out the effects. */
#ifndef SPP_TUI_APP_H
#define SPP_TUI_APP_H

#include "tui/form.h"
#include "tui/keys.h"
#include "tui/panes.h"
#include "tui/prompt.h"

/* What the loop has to do after an event. */
enum spp_effect {
  SPP_EFFECT_DRAW = 1 << 0,
  SPP_EFFECT_PLAN = 1 << 1,    /* ask the worker anew; what it is at is superseded */
  SPP_EFFECT_CANCEL = 1 << 2,  /* stop the worker */
  SPP_EFFECT_SAVE = 1 << 3,    /* to app->save_path */
  SPP_EFFECT_REPAINT = 1 << 4, /* everything, as if the terminal had been cleared */
  SPP_EFFECT_SUSPEND = 1 << 5,
  SPP_EFFECT_QUIT = 1 << 6,
  SPP_EFFECT_TRIAL = 1 << 7,     /* validate this machine */
  SPP_EFFECT_TRIAL_STOP = 1 << 8 /* no longer */
};

enum spp_event_kind {
  SPP_EVENT_KEY,
  SPP_EVENT_RESIZE,
  SPP_EVENT_CLICK,
  SPP_EVENT_WHEEL,
  SPP_EVENT_OUTCOME,
  SPP_EVENT_TRIAL
};
struct spp_event {
  enum spp_event_kind kind;
  int key;                               /* KEY: a code point or enum spp_key */
  int rows, cols;                        /* RESIZE: the screen; CLICK, WHEEL: where (row, column) */
  int direction;                         /* WHEEL: -1 up, +1 down */
  const struct spp_tui_outcome *outcome; /* OUTCOME: becomes app->outcome, or is not kept */
  const struct spp_tui_trial *trial;     /* TRIAL: copied */
};

enum spp_sort {
  SPP_SORT_RANK,
  SPP_SORT_FRAMEWORK,
  SPP_SORT_MEMORY,
  SPP_SORT_SPEED,
  SPP_SORT_STEP,
  SPP_SORT_COUNT
};

/* Windows over the panes; they stack. */
enum spp_overlay {
  SPP_OVERLAY_NONE,
  SPP_OVERLAY_HELP,
  SPP_OVERLAY_LEDGER,
  SPP_OVERLAY_MARKED, /* marked plans side by side */
  SPP_OVERLAY_TRIAL,  /* the validation */
  SPP_OVERLAY_TEXT    /* app->text: an explanation, a command line */
};
enum { SPP_OVERLAYS_MAX = 3, SPP_APP_PLANS_MAX = 512, SPP_APP_TEXT = 4096, SPP_MARKS_SHOWN = 4 };

/* How much of a step the timeline shows. */
enum spp_zoom { SPP_ZOOM_STEP, SPP_ZOOM_MICRO_BATCH, SPP_ZOOM_LAYER, SPP_ZOOM_COUNT };

struct spp_list_state {
  int cursor, top; /* selected row, first row shown */
};

struct spp_app {
  const struct spp_tui_host *host;
  int rows, cols;
  struct spp_words words;
  bool searching;
  int64_t request; /* number of the latest question */

  const struct spp_tui_outcome *outcome; /* NULL until the first */
  bool outdated;                         /* the question it answers was another one */

  enum spp_pane focus; /* FORM, PLANS or DETAIL */
  enum spp_view view;
  struct spp_list_state form, plans, detail[SPP_VIEW_COUNT];

  enum spp_sort sort;
  bool inverted;
  char filter[64];
  int order[SPP_APP_PLANS_MAX]; /* indices of the plans shown, in their order */
  int order_count;
  bool marked[SPP_APP_PLANS_MAX]; /* by index */

  enum spp_overlay overlays[SPP_OVERLAYS_MAX];
  struct spp_list_state overlay[SPP_OVERLAYS_MAX];
  int overlay_count;
  char text_title[64], text[SPP_APP_TEXT];
  int ledger_part;                 /* enum spp_part or -1 = all */
  int ledger_rows[SPP_LEDGER_MAX]; /* entries shown, largest first */
  int ledger_count;
  struct spp_plan_details details;
  enum spp_zoom zoom;
  const struct spp_plan *timeline_plan; /* whose timeline this is; NULL: nobody's */
  struct spp_timeline timeline;
  bool trial_begun;
  struct spp_tui_trial trial;

  struct spp_prompt prompt;
  char save_path[SPP_WORD_TEXT];

  char message[320];
  bool message_bad;
};

void spp_app_init(struct spp_app *app, const struct spp_tui_host *host);
/* Frees what the app holds of its own; the outcome is the loop's. */
void spp_app_free(struct spp_app *app);
/* SPP_EFFECT_* bits. */
unsigned spp_app_handle(struct spp_app *app, const struct spp_event *event);

/* The plans of the outcome: those that fit, else the nearest miss. */
int spp_app_plan_count(const struct spp_app *app);
const struct spp_plan *spp_app_plan(const struct spp_app *app, int index);
/* The plan under the cursor, or NULL. */
const struct spp_plan *spp_app_selected(const struct spp_app *app);
/* The part that row `row` of the memory view shows; -1 = all of it. Parts of no bytes have no row. */
int spp_app_memory_part(const struct spp_plan *plan, int row);
/* The part of the step that row `row` of the timeline names; -1 when there is none. Parts of no time have no
 * row. */
int spp_app_time_part(const struct spp_plan *plan, int row);
unsigned spp_app_context(const struct spp_app *app);
enum spp_overlay spp_app_overlay(const struct spp_app *app); /* the topmost */
/* Rows of the list a pane, or the topmost overlay, shows. */
int spp_app_list_count(const struct spp_app *app, enum spp_pane pane);
struct spp_list_state *spp_app_list(struct spp_app *app, enum spp_pane pane);
/* The cursor onto a row that exists, and that row into sight. */
void spp_app_settle_list(struct spp_app *app, const struct spp_panes *panes, enum spp_pane pane);
void spp_app_say(struct spp_app *app, bool bad, const char *fmt, ...) SPP_PRINTF(3, 4);

/* Parts of the handler, by subject. */
void spp_app_arrange(struct spp_app *app); /* filter and sort the plans */
unsigned spp_app_set(struct spp_app *app, const char *option, const char *text); /* "" or "any" = free it */
unsigned spp_app_command(struct spp_app *app, const char *line);
unsigned spp_app_prompt_key(struct spp_app *app, int key);
void spp_app_open(struct spp_app *app, enum spp_overlay overlay);
void spp_app_pick_ledger(struct spp_app *app, int part);
void spp_app_explain(struct spp_app *app);
void spp_app_command_line(const struct spp_app *app, struct spp_str *out);

#endif
