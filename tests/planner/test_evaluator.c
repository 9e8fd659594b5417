/* The evaluator is the model, kept in parts: the judge is spp_predict(). */
#include "model/evaluator.h"

#include "planner/space.h"
#include "tests/planner/jobs.h"
#include "tests/planner/random.h"

/* Dense, windows of two kinds, MLA with dense and MoE layers, a vision tower, attention sinks. */
static void random_options(struct spp_search_options *options) {
  static const char *const models[] = {"qwen2.5-0.5b",     "llama3.1-8b",   "qwen3-30b-a3b", "gemma2-9b",
                                       "deepseek-v2-lite", "qwen2.5-vl-7b", "gpt-oss-20b",   "llama4-scout"};
  static const char *const gpus[] = {"h100-80gb", "a100-40gb", "rtx-4090"};
  static const int64_t counts[] = {1, 2, 6, 8, 16, 32, 64}, seqs[] = {512, 4096, 32768, 131072, 1000};
  static const int64_t batches[] = {0, 0, 8, 12, 32, 7, 128};
  static const int64_t methods[] = {SPP_UNSET,        SPP_METHOD_FULL,   SPP_METHOD_FULL, SPP_METHOD_LORA,
                                    SPP_METHOD_QLORA, SPP_METHOD_GALORE, SPP_METHOD_FULL};
  static const int64_t modes[] = {SPP_UNSET,     SPP_UNSET,    SPP_UNSET,     SPP_MODE_DPO,
                                  SPP_MODE_GRPO, SPP_MODE_PPO, SPP_MODE_INFER};
  static const int64_t dtypes[] = {SPP_UNSET, SPP_UNSET, SPP_DTYPE_FP8, SPP_DTYPE_FP32};
  static const int64_t optimizers[] = {SPP_UNSET, SPP_UNSET, SPP_OPTIMIZER_MUON, SPP_OPTIMIZER_ADAMW_8BIT};
  jobs_options(models[next_random() % 8], gpus[next_random() % 3], pick(counts, 7), pick(seqs, 5), options);
  options->spec.global_batch = pick(batches, 7);
  options->spec.method = (int)pick(methods, 7);
  options->spec.mode = (int)pick(modes, 7);
  options->spec.dtype = (int)pick(dtypes, 4);
  options->spec.optimizer = (int)pick(optimizers, 4);
  options->spec.packing = next_random() % 3 == 0 ? 1 : SPP_UNSET;
  options->spec.lora_dropout = next_random() % 2 ? 0.05 : 0;
  if (next_random() % 4 == 0) options->fixed.recompute_layers = 2;
  if (next_random() % 8 == 0) options->fixed.recompute_unit = 2;
}

static void expect_same(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_memory_figures *memory, const struct spp_time_figures *time,
                        double least_s, const struct spp_memory_figures *least) {
  struct spp_prediction p;
  char text[256];
  spp_predict(job, layout, NULL, &p);
  bool same =
      memory->device_bytes == p.memory.device_bytes &&
      memory->reclaimable_bytes == p.memory.reclaimable_bytes &&
      memory->capacity_bytes == p.memory.capacity_bytes && memory->fits == p.memory.fits &&
      memory->host_fits == p.memory.host_fits &&
      memory->host_bytes_per_node == p.memory.host_bytes_per_node &&
      memory->host_capacity_bytes == p.memory.host_capacity_bytes && time->step_s == p.time.step_s &&
      time->tokens_per_s == p.time.tokens_per_s &&
      time->usd_per_million_tokens == p.time.usd_per_million_tokens && least_s <= p.time.step_s &&
      least->device_bytes <= p.memory.device_bytes &&
      least->device_bytes - least->reclaimable_bytes <= p.memory.device_bytes - p.memory.reclaimable_bytes;
  if (same) return;
  expect_note(
      "%s %s: %s zero %d offload %d recompute %d: %lld %lld bytes, %.17g %.17g s, at least %.17g and %lld",
      job->framework->name, job->arch->name, spp_layout_describe(job, layout, text, sizeof text),
      layout->zero, (int)layout->offload, (int)layout->recompute, (long long)memory->device_bytes,
      (long long)p.memory.device_bytes, time->step_s, p.time.step_s, least_s, (long long)least->device_bytes);
  expect_true(same);
}

/* The layouts of a cell in the order of the search; from each kept, one of `stride`. */
static int64_t compare_cell(const struct spp_space *space, const struct spp_cell *cell,
                            struct spp_evaluator *evaluator, uint64_t stride) {
  static struct spp_walk walk;
  bool begun = false;
  int64_t compared = 0;
  spp_walk_begin(&walk, space, cell);
  while (spp_walk_next(&walk)) {
    struct spp_memory_figures memory;
    struct spp_time_figures time;
    if (next_random() % stride || spp_rules_first(walk.job, &walk.layout) >= 0) continue;
    const struct spp_choices *c = &walk.choices;
    if (walk.layout.recompute_layers > 0 && next_random() % 2) walk.layout.recompute_layers = 3;
    const struct spp_evaluator_shape shape = {c->loss_count, c->pipe_count, c->recompute_count,
                                              c->micro_batch_count, c->pipes};
    const struct spp_evaluator_place place = {walk.variant.loss, walk.variant.pipe, walk.variant.recompute,
                                              walk.micro};
    if (!begun) expect_true(spp_evaluator_begin(evaluator, &shape, walk.job, &walk.layout));
    begun = true;
    double least_s = next_random() % 2 ? spp_evaluator_least_s(evaluator, walk.job, &walk.layout, &place) : 0;
    struct spp_memory_figures least = {.device_bytes = 0};
    if (next_random() % 2) spp_evaluator_least_memory(evaluator, walk.job, &walk.layout, &place, &least);
    if (next_random() % 2) spp_evaluator_memory(evaluator, walk.job, &walk.layout, &place, &memory);
    spp_evaluator_time(evaluator, walk.job, &walk.layout, &place, &time);
    spp_evaluator_memory(evaluator, walk.job, &walk.layout, &place, &memory);
    expect_same(walk.job, &walk.layout, &memory, &time, least_s, &least);
    compared++;
  }
  return compared;
}

/* Every framework there is, searched by default or not. */
static const struct spp_framework *random_framework(void) {
  const char *const *names;
  struct spp_diag diag;
  int count;
  jobs_need(spp_framework_list(JOBS_CONFIG_DIR, &jobs_arena, &names, &count, &diag), &diag);
  return jobs_framework(names[next_random() % (uint64_t)count]);
}

static void figures_are_those_of_the_prediction_to_the_last_bit(void **state) {
  struct spp_evaluator *evaluator = spp_evaluator_create();
  int64_t compared = 0;
  (void)state;
  expect_true(evaluator != NULL);
  random_state = 20261130;
  for (int i = 0; i < 900; i++) {
    struct spp_search_options options;
    struct spp_space space;
    struct spp_diag diag;
    random_options(&options);
    if (spp_space_build(&options.spec, random_framework(), &options.fixed, &space, &diag) != SPP_OK) continue;
    for (int n = 0; n < 12; n++)
      compared += compare_cell(&space, &space.cells[next_random() % (uint64_t)space.cell_count], evaluator,
                               1 + next_random() % 3 * 4);
    spp_space_free(&space);
  }
  spp_evaluator_free(evaluator);
  expect_note("%lld layouts", (long long)compared);
  expect_true(compared > 100000);
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(figures_are_those_of_the_prediction_to_the_last_bit),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
