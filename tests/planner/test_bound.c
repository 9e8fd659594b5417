/* The bounds that pruning rests on hold for every layout that is predicted: the judge is spp_predict(). */
#include "planner/bound.h"

#include "model/evaluator.h"
#include "planner/space.h"
#include "tests/planner/jobs.h"
#include "tests/planner/random.h"

static void random_options(struct spp_search_options *options) {
  static const char *const models[] = {"qwen2.5-0.5b", "llama3.1-8b",      "qwen3-30b-a3b", "gemma2-9b",
                                       "mixtral-8x7b", "deepseek-v2-lite", "llama3.1-70b",  "qwen2.5-vl-7b"};
  static const char *const gpus[] = {"h100-80gb", "a100-40gb", "rtx-4090"};
  static const int64_t counts[] = {1, 2, 6, 8, 16, 64, 256}, seqs[] = {512, 4096, 32768, 131072, 1000};
  static const int64_t batches[] = {0, 0, 8, 12, 32, 7, 512};
  static const int64_t methods[] = {SPP_UNSET, SPP_METHOD_FULL, SPP_METHOD_LORA, SPP_METHOD_QLORA};
  static const int64_t modes[] = {SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_MODE_DPO, SPP_MODE_INFER};
  static const int64_t dtypes[] = {SPP_UNSET, SPP_UNSET, SPP_DTYPE_FP8, SPP_DTYPE_FP32};
  jobs_options(models[next_random() % 8], gpus[next_random() % 3], pick(counts, 7), pick(seqs, 5), options);
  options->spec.global_batch = pick(batches, 7);
  options->spec.method = (int)pick(methods, 4);
  options->spec.mode = (int)pick(modes, 5);
  options->spec.dtype = (int)pick(dtypes, 4);
  options->spec.packing = next_random() % 3 == 0 ? 1 : SPP_UNSET;
  if (next_random() % 6 == 0) options->fixed.recompute_layers = 2;
}

/* What the allocator can give back is no part of what must fit. */
static int64_t needed(const struct spp_memory *m) {
  return m->device_bytes - m->reclaimable_bytes;
}

/* What layers and pipeline need by themselves with nothing recomputed: no recompute, offload or number of
 * replicas makes a step of the same sharding stage faster than that. */
static double floor_s(struct spp_evaluator *evaluator, const struct spp_job *job,
                      const struct spp_layout *layout) {
  struct spp_layout least = *layout;
  const struct spp_pipe pipe = {layout->vpp, layout->first_stage_layers, layout->last_stage_layers,
                                layout->schedule};
  const struct spp_evaluator_shape shape = {1, 1, 1, 1, &pipe};
  const struct spp_evaluator_place place = {0, 0, 0, 0};
  least.recompute = SPP_RECOMPUTE_NONE;
  least.recompute_modules = 0;
  least.recompute_layers = SPP_UNSET;
  least.offload = SPP_OFFLOAD_NONE;
  least.dp_replicate = 1;
  assert_true(spp_evaluator_begin(evaluator, &shape, job, &least));
  return spp_evaluator_least_s(evaluator, job, &least, &place);
}

static void expect_bounded(struct spp_evaluator *evaluator, const struct spp_bound *bound,
                           const struct spp_job *job, const struct spp_layout *layout) {
  struct spp_prediction p;
  char text[256];
  spp_predict(job, layout, NULL, &p);
  double least_s = spp_bound_step_s(bound, layout);
  int64_t least_bytes = spp_bound_device_bytes(bound, layout);
  expect_note("%s %s: %s schedule %d offload %d: at least %.17g of %.17g s, %lld of %lld bytes",
              job->framework->name, job->arch->name, spp_layout_describe(job, layout, text, sizeof text),
              (int)layout->schedule, (int)layout->offload, least_s, p.time.step_s, (long long)least_bytes,
              (long long)needed(&p.memory));
  expect_true(least_s > 0 && least_s <= p.time.step_s);
  expect_true(floor_s(evaluator, job, layout) + spp_bound_host_s(bound, layout) <= p.time.step_s);
  expect_true(least_bytes <= needed(&p.memory));
  if (layout->offload == SPP_OFFLOAD_NONE) return;
  struct spp_layout plain = *layout;
  struct spp_prediction without;
  plain.offload = SPP_OFFLOAD_NONE;
  spp_predict(job, &plain, NULL, &without);
  int64_t freed = spp_bound_freed_bytes(bound, layout);
  expect_true(freed == INT64_MAX || needed(&without.memory) - needed(&p.memory) <= freed);
}

static void no_prediction_falls_below_its_bounds(void **state) {
  struct spp_evaluator *evaluator = spp_evaluator_create();
  int64_t asked = 0;
  (void)state;
  assert_non_null(evaluator);
  random_state = 20261201;
  for (int i = 0; i < 1000; i++) {
    struct spp_search_options options;
    struct spp_space space;
    struct spp_bound bound;
    struct spp_diag diag;
    random_options(&options);
    const struct spp_framework *framework =
        options.frameworks[next_random() % (uint64_t)options.framework_count];
    if (spp_space_build(&options.spec, framework, &options.fixed, &space, &diag) != SPP_OK) continue;
    spp_bound_prepare(&space.jobs[0], &bound);
    for (int n = 0; n < 10; n++) {
      static struct spp_walk walk;
      spp_walk_begin(&walk, &space, &space.cells[next_random() % (uint64_t)space.cell_count]);
      while (spp_walk_next(&walk)) {
        if (next_random() % 16 || spp_rules_first(walk.job, &walk.layout) >= 0) continue;
        expect_bounded(evaluator, &bound, walk.job, &walk.layout);
        asked++;
      }
    }
    spp_space_free(&space);
  }
  spp_evaluator_free(evaluator);
  expect_note("%lld layouts", (long long)asked);
  expect_true(asked > 30000);
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_prediction_falls_below_its_bounds),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
