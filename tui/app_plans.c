/* The table of plans: which are shown, and in what order. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tui/app.h"

int spp_app_plan_count(const struct spp_app *app) {
  const struct spp_tui_outcome *outcome = app->outcome;
  if (!outcome) return 0;
  if (outcome->search.count == 0) return outcome->search.has_nearest ? 1 : 0;
  return outcome->search.count < SPP_APP_PLANS_MAX ? outcome->search.count : SPP_APP_PLANS_MAX;
}

const struct spp_plan *spp_app_plan(const struct spp_app *app, int index) {
  const struct spp_search_result *search = &app->outcome->search;
  return search->count == 0 ? &search->nearest : &search->plans[index];
}

const struct spp_plan *spp_app_selected(const struct spp_app *app) {
  if (!app->outcome || app->plans.cursor < 0 || app->plans.cursor >= app->order_count) return NULL;
  return spp_app_plan(app, app->order[app->plans.cursor]);
}

/* True when the text holds the word, case aside. */
static bool holds(const char *text, const char *word, size_t length) {
  for (; *text; text++)
    if (strncasecmp(text, word, length) == 0) return true;
  return false;
}

/* Every word of the filter is in the plan's words; a word after '!' must not be. */
static bool passes(const struct spp_plan *plan, const char *filter) {
  char text[400], layout[300];
  snprintf(text, sizeof text, "%s %s", plan->job.framework->name,
           spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
  while (*(filter += strspn(filter, " "))) {
    bool without = *filter == '!';
    filter += without;
    size_t length = strcspn(filter, " ");
    if (length > 0 && holds(text, filter, length) == without) return false;
    filter += length;
  }
  return true;
}

static int compare_double(double a, double b) {
  return (a > b) - (a < b);
}

static int compare_plans(const struct spp_app *app, int a, int b) {
  const struct spp_plan *x = spp_app_plan(app, a), *y = spp_app_plan(app, b);
  switch (app->sort) {
  case SPP_SORT_FRAMEWORK: return strcmp(x->job.framework->name, y->job.framework->name);
  case SPP_SORT_MEMORY:
    return compare_double((double)x->prediction.memory.device_bytes,
                          (double)y->prediction.memory.device_bytes);
  case SPP_SORT_SPEED:
    return compare_double(y->prediction.time.tokens_per_s_per_gpu, x->prediction.time.tokens_per_s_per_gpu);
  case SPP_SORT_STEP: return compare_double(x->prediction.time.step_s, y->prediction.time.step_s);
  default: return 0;
  }
}

void spp_app_arrange(struct spp_app *app) {
  app->order_count = 0;
  for (int i = 0; i < spp_app_plan_count(app); i++) {
    int at = app->order_count;
    if (!passes(spp_app_plan(app, i), app->filter)) continue;
    for (; at > 0; at--) { /* a few hundred rows, nearly sorted; equals stay in their order */
      int order = compare_plans(app, app->order[at - 1], i);
      if (order == 0) order = app->order[at - 1] - i;
      if (app->inverted ? order >= 0 : order <= 0) break;
      app->order[at] = app->order[at - 1];
    }
    app->order[at] = i;
    app->order_count++;
  }
}
