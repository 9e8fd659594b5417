#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/facts.h"
#include "report/text.h"
#include "tui/draw.h"

/* Columns from the left; the layout takes what is left. Narrow tables leave the last ones out. */
enum { MARK = 0, RANK = 2, FRAMEWORK = 6, NUMBERS = 18, WITH_STEP = 72, LAYOUT = NUMBERS + 20 };

/* Degrees, column by column, where the words of a layout have no room. */
static const char short_heads[] = "TP PP  U  R  Z";
static void draw_degrees(const struct spp_layout *l, const struct spp_rect *rect, int row,
                         struct spp_screen *screen) {
  const int64_t degrees[] = {l->tp, l->pp, l->ulysses, l->ring, l->zero};
  for (int i = 0; i < 5; i++)
    spp_putf(screen, rect, row, LAYOUT + 3 * i, degrees[i] > (i < 4) ? SPP_INK_PLAIN : SPP_INK_DIM, "%2lld",
             (long long)degrees[i]);
}

/* "9.6 s", "70 s", "2.1 h" in seven columns. */
static const char *short_seconds(double seconds, char text[32]) {
  if (seconds < 60) return spp_seconds_print(seconds, text);
  if (seconds < 6000)
    snprintf(text, 32, "%.0f s", seconds);
  else
    snprintf(text, 32, "%.1f h", seconds / 3600);
  return text;
}

static bool in_front(const struct spp_app *app, int index) {
  const struct spp_search_result *search = &app->outcome->search;
  for (int i = 0; i < search->pareto_count; i++)
    if (search->pareto[i] == index) return true;
  return false;
}

static void draw_row(const struct spp_app *app, int index, const struct spp_rect *rect, int row, bool here,
                     struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_plan(app, index);
  const struct spp_memory *memory = &plan->prediction.memory;
  const struct spp_time *time = &plan->prediction.time;
  char gib[32], rate[32], step[32], layout[300], framework[16];
  bool fits = memory->fits && memory->host_fits;
  snprintf(framework, sizeof framework, "%.11s", plan->job.framework->name);
  if (app->marked[index]) spp_put(screen, rect, row, MARK, SPP_INK_KEY, "✓");
  if (in_front(app, index)) spp_put(screen, rect, row, MARK + 1, SPP_INK_DIM, "*");
  spp_putf(screen, rect, row, RANK, SPP_INK_PLAIN, "%3d", index + 1);
  spp_put(screen, rect, row, FRAMEWORK, SPP_INK_PLAIN, framework);
  spp_putf(screen, rect, row, NUMBERS, fits ? SPP_INK_GOOD : SPP_INK_BAD, "%6s %s",
           spp_text_gib(memory->device_bytes, gib), fits ? "OK " : "OOM");
  spp_putf(screen, rect, row, NUMBERS + 11, SPP_INK_PLAIN, "%7s",
           spp_text_rate(time->tokens_per_s_per_gpu, rate));
  if (rect->cols >= WITH_STEP)
    spp_putf(screen, rect, row, NUMBERS + 19, SPP_INK_PLAIN, "%9.9s", short_seconds(time->step_s, step));
  if (rect->cols < WITH_STEP && rect->cols >= LAYOUT + 14)
    draw_degrees(&plan->layout, rect, row, screen);
  else if (rect->cols >= WITH_STEP)
    spp_put(screen, rect, row, NUMBERS + 30, SPP_INK_PLAIN,
            spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
  if (here) spp_put_role(screen, rect, row, SPP_INK_SELECTED);
}

static void draw_columns(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  static const struct {
    int col;
    const char *name;
    enum spp_sort sort;
  } columns[] = {{RANK, "  #", SPP_SORT_RANK},          {FRAMEWORK, "framework", SPP_SORT_FRAMEWORK},
                 {NUMBERS, "   GiB", SPP_SORT_MEMORY},  {NUMBERS + 9, "tok/s/GPU", SPP_SORT_SPEED},
                 {NUMBERS + 24, "step", SPP_SORT_STEP}, {NUMBERS + 30, "layout", SPP_SORT_COUNT}};
  spp_put_fill(screen, rect, 1, 0, SPP_INK_COLUMN, ' ', rect->cols);
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
    bool step = columns[i].sort == SPP_SORT_STEP, layout = columns[i].sort == SPP_SORT_COUNT;
    if (rect->cols < WITH_STEP && (step || layout)) {
      if (layout && rect->cols >= LAYOUT + 14) spp_put(screen, rect, 1, LAYOUT, SPP_INK_COLUMN, short_heads);
      continue;
    }
    int col = spp_put(screen, rect, 1, columns[i].col, SPP_INK_COLUMN, columns[i].name);
    if (columns[i].sort == app->sort)
      spp_put(screen, rect, 1, col, SPP_INK_COLUMN, app->inverted ? "↑" : "↓");
  }
}

static void say_nothing_yet(const struct spp_app *app, const struct spp_rect *rect,
                            struct spp_screen *screen) {
  const char *text = app->searching   ? "searching every legal layout… (Esc stops)"
                     : !app->outcome  ? "no plan yet: fill in the form, r plans"
                     : app->filter[0] ? "no plan has these words: Esc clears the filter"
                                      : "no plan";
  struct spp_rect inner = {rect->row, rect->col + 1, rect->rows, rect->cols - 1};
  spp_put_wrapped(screen, &inner, 2, SPP_INK_DIM, text);
}

void spp_draw_plans(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_PLANS, rect);
  char title[96], right[96] = "";
  snprintf(title, sizeof title, "Plans");
  if (app->outcome && app->outcome->search.count > 0) {
    char evaluated[32];
    snprintf(title, sizeof title, "Plans %d of %d", app->order_count, spp_app_plan_count(app));
    snprintf(right, sizeof right, "%s layouts, * on the front ",
             spp_int_print(app->outcome->search.layouts, evaluated));
  } else if (app->outcome && app->order_count > 0) {
    snprintf(title, sizeof title, "Nothing fits: the nearest miss");
  }
  spp_draw_head(app, SPP_PANE_PLANS, rect, screen, title, right);
  if (list.line > 1) draw_columns(app, rect, screen);
  if (app->order_count == 0) say_nothing_yet(app, rect, screen);
  for (int i = 0; i < list.lines && list.top + i < list.count; i++)
    draw_row(app, app->order[list.top + i], rect, list.line + i, list.top + i == list.cursor, screen);
}
