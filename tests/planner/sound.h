/* What every plan and every result of a search must hold. */
#ifndef SPP_TESTS_PLANNER_SOUND_H
#define SPP_TESTS_PLANNER_SOUND_H

#include "planner/space.h"
#include "tests/planner/jobs.h"

static inline bool fits(const struct spp_plan *plan) {
  return plan->prediction.memory.fits && plan->prediction.memory.host_fits;
}

static inline void expect_same_plan(const struct spp_plan *a, const struct spp_plan *b) {
  char x[256], y[256];
  expect_str(a->job.framework->name, b->job.framework->name);
  expect_str(spp_layout_describe(&a->job, &a->layout, x, sizeof x),
             spp_layout_describe(&b->job, &b->layout, y, sizeof y));
  expect_i64(a->job.loss, b->job.loss);
  expect_i64(a->prediction.memory.device_bytes, b->prediction.memory.device_bytes);
  expect_rel(a->prediction.time.step_s, b->prediction.time.step_s, 0);
}

static inline void expect_same_result(const struct spp_search_result *a, const struct spp_search_result *b) {
  expect_i64(a->count, b->count);
  expect_i64(a->top_count, b->top_count);
  for (int i = 0; i < a->count; i++)
    expect_same_plan(&a->plans[i], &b->plans[i]);
  expect_i64(a->pareto_count, b->pareto_count);
  for (int i = 0; i < a->pareto_count; i++)
    expect_i64(a->pareto[i], b->pareto[i]);
  expect_i64(a->layouts, b->layouts);
  expect_i64(a->has_nearest, b->has_nearest);
  if (a->has_nearest) expect_same_plan(&a->nearest, &b->nearest);
}

/* A plan is legal, its degrees make the GPUs, its batch comes out, and predicting it again says the same. */
static inline void expect_sound(const struct spp_search_options *options, const struct spp_plan *plan) {
  struct spp_prediction again;
  const struct spp_layout *l = &plan->layout;
  expect_true(fits(plan));
  expect_i64(spp_rules_first(&plan->job, l), -1);
  expect_i64(spp_layout_world(l), options->spec.gpus);
  expect_i64(l->micro_batch * l->grad_accum * l->dp, plan->job.global_batch);
  spp_predict(&plan->job, l, NULL, &again);
  expect_i64(again.memory.device_bytes, plan->prediction.memory.device_bytes);
  expect_rel(again.time.step_s, plan->prediction.time.step_s, 0);
}

static inline bool risky(const struct spp_search_options *options, const struct spp_plan *plan) {
  return spp_plan_risky(options, &plan->prediction.memory);
}

static inline void expect_sound_result(const struct spp_search_options *options,
                                       const struct spp_search_result *result) {
  expect_i64(result->layouts, result->evaluated + result->pruned);
  for (int i = 0; i < result->count; i++)
    expect_sound(options, &result->plans[i]);
  for (int i = 1; i < result->pareto_count; i++) {
    const struct spp_prediction *fast = &result->plans[result->pareto[i - 1]].prediction;
    const struct spp_prediction *slow = &result->plans[result->pareto[i]].prediction;
    expect_true(slow->time.step_s >= fast->time.step_s);
    expect_true(slow->memory.device_bytes < fast->memory.device_bytes);
  }
  for (int i = 0; i < result->count && result->top_count > 0; i++)
    expect_true(risky(options, &result->plans[i]) > risky(options, &result->plans[0]) ||
                result->plans[i].prediction.time.tokens_per_s <=
                    1.001 * result->plans[0].prediction.time.tokens_per_s * (1 + 1e-12));
}

/* Every legal layout of every framework, predicted by itself: none that fits, as likely as the best plan
 * does or is asked to, is faster than it by more than a tie. */
static inline void expect_none_faster(const struct spp_search_options *options, const struct spp_plan *best) {
  struct spp_diag diag;
  bool best_risky = risky(options, best);
  double fastest = 1.0011 * best->prediction.time.tokens_per_s;
  for (int f = 0; f < options->framework_count; f++) {
    struct spp_space space;
    if (spp_space_build(&options->spec, options->frameworks[f], &options->fixed, &space, &diag) != SPP_OK)
      continue;
    for (int c = 0; c < space.cell_count; c++) {
      static struct spp_walk walk;
      spp_walk_begin(&walk, &space, &space.cells[c]);
      while (spp_walk_next(&walk)) {
        struct spp_prediction p;
        if (spp_rules_first(walk.job, &walk.layout) >= 0) continue;
        spp_predict(walk.job, &walk.layout, NULL, &p);
        if (!p.memory.fits || !p.memory.host_fits) continue;
        bool likely = !spp_plan_risky(options, &p.memory);
        if (best_risky) expect_false(likely);
        if (best_risky || likely) expect_true(p.time.tokens_per_s <= fastest);
      }
    }
    spp_space_free(&space);
  }
}

#endif
