/* Largest sequence, fewest GPUs, largest batch: the answer fits and the next one does not. */
#include "tests/planner/jobs.h"

static void one_framework(struct spp_search_options *options, const struct spp_framework **slot,
                          const char *name) {
  *slot = jobs_framework(name);
  options->frameworks = slot;
  options->framework_count = 1;
}

static enum spp_status search_at(const struct spp_search_options *options, int64_t gpus, int64_t seq,
                                 int64_t batch) {
  struct spp_search_options at = *options;
  struct spp_search_result result;
  struct spp_diag diag;
  at.spec.gpus = gpus;
  at.spec.seq_tokens = seq;
  at.spec.global_batch = batch;
  enum spp_status status = spp_search(&at, &result, &diag);
  if (status == SPP_OK || status == SPP_ERR_NOFIT) spp_search_free(&result);
  return status;
}

static void the_longest_sequence_fits_and_the_next_unit_does_not(void **state) {
  static const char *const names[] = {"ms-swift", "megatron-lm", "deepspeed"};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    struct spp_search_options options;
    struct spp_find_result found;
    struct spp_diag diag;
    const struct spp_framework *framework;
    expect_note("%s", names[i]);
    jobs_options("qwen2.5-7b", "h100-80gb", 8, 0, &options);
    one_framework(&options, &framework, names[i]);
    expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &found, &diag), SPP_OK, &diag);
    expect_true(found.value >= 32768);
    expect_str(found.limit, "memory");
    const struct spp_plan *plan = &found.search.plans[0];
    expect_i64(plan->job.seq_tokens, found.value);
    expect_true(plan->prediction.memory.fits);
    /* no layout of any unit up to 2 x 8 x 8 holds more */
    expect_i64(search_at(&options, 8, (found.value / 1024 + 2) * 1024, 0), SPP_ERR_NOFIT);
    spp_search_free(&found.search);
  }
}

static void a_longer_fixed_batch_changes_the_longest_sequence_little(void **state) {
  struct spp_search_options options;
  struct spp_find_result small, large;
  struct spp_diag diag;
  const struct spp_framework *framework;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 4096, &options);
  one_framework(&options, &framework, "deepspeed");
  options.spec.global_batch = 8;
  expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &small, &diag), SPP_OK, &diag);
  options.spec.global_batch = 64;
  expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &large, &diag), SPP_OK, &diag);
  expect_rel((double)large.value, (double)small.value, 0.2); /* accumulation costs no activations */
  spp_search_free(&small.search);
  spp_search_free(&large.search);
}

static void the_fewest_gpus_fit_and_one_fewer_does_not(void **state) {
  struct spp_search_options options;
  struct spp_find_result found;
  struct spp_diag diag;
  (void)state;
  const struct spp_framework *framework;
  jobs_options("qwen2.5-7b", "h100-80gb", 0, 32768, &options);
  one_framework(&options, &framework, "deepspeed"); /* stage 3: 18 B a parameter over all GPUs, 137 GB */
  options.fixed.zero = 3;
  options.fixed.offload = SPP_OFFLOAD_NONE;
  expect_status(spp_find(&options, SPP_FIND_MIN_GPUS, &found, &diag), SPP_OK, &diag);
  expect_note("%d GPUs, %s", (int)found.value, found.limit);
  expect_true(found.value > 1 && found.value <= 8);
  expect_i64(found.search.plans[0].job.gpus, found.value);
  expect_str(found.limit, "memory");
  expect_i64(search_at(&options, found.value - 1, 32768, 0), SPP_ERR_NOFIT);
  spp_search_free(&found.search);
}

/* 405.9e9 parameters x 16 B = 6.5 TB of states: over 80 GB a GPU no fewer than 82 GPUs. */
static void a_large_model_takes_whole_nodes(void **state) {
  struct spp_search_options options;
  struct spp_find_result found;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-405b", "h100-80gb", 0, 8192, &options);
  options.fixed.offload = SPP_OFFLOAD_NONE;
  expect_status(spp_find(&options, SPP_FIND_MIN_GPUS, &found, &diag), SPP_OK, &diag);
  expect_true(found.value >= 39); /* 8 bytes a parameter in 16-bit AdamW, 80 GiB a card */
  expect_i64(found.value % 8, 0);
  spp_search_free(&found.search);
}

static void the_largest_batch_goes_in_one_pass(void **state) {
  struct spp_search_options options;
  struct spp_find_result found;
  struct spp_diag diag;
  const struct spp_framework *framework;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 4096, &options);
  one_framework(&options, &framework, "deepspeed");
  expect_status(spp_find(&options, SPP_FIND_MAX_BATCH, &found, &diag), SPP_OK, &diag);
  const struct spp_plan *plan = &found.search.plans[0];
  expect_true(found.value >= 8);
  expect_i64(plan->job.global_batch, found.value);
  expect_i64(plan->layout.grad_accum, 1);
  expect_i64(plan->layout.micro_batch * plan->layout.dp, found.value);
  spp_search_free(&found.search);
}

static void what_never_fits_is_no_fit(void **state) {
  struct spp_search_options options;
  struct spp_find_result found;
  struct spp_diag diag;
  const struct spp_framework *framework;
  (void)state;
  jobs_options("qwen2.5-72b", "rtx-4090", 1, 4096, &options);
  one_framework(&options, &framework, "megatron-lm");
  expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &found, &diag), SPP_ERR_NOFIT, &diag);
  expect_i64(found.value, 0);
  expect_true(found.search.has_nearest);
  spp_search_free(&found.search);
}

/* A longest sequence that must be likely to fit is shorter, likely, and one unit short of what is not. */
static void a_limit_may_be_asked_to_be_likely(void **state) {
  const struct spp_framework *framework = jobs_framework("deepspeed");
  struct spp_search_options options;
  struct spp_find_result just, likely;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 1024, &options);
  options.frameworks = &framework;
  options.framework_count = 1;
  expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &just, &diag), SPP_OK, &diag);
  options.min_fit = options.find_min_fit = 0.9;
  expect_status(spp_find(&options, SPP_FIND_MAX_SEQ, &likely, &diag), SPP_OK, &diag);
  expect_true(likely.value < just.value);
  expect_true(likely.search.plans[0].prediction.memory.fit_probability >= 0.9);
  expect_str(likely.limit, "memory");
  spp_search_free(&just.search);
  spp_search_free(&likely.search);
  expect_status(spp_find(&options, SPP_FIND_MIN_GPUS, &likely, &diag), SPP_OK, &diag);
  expect_true(likely.search.plans[0].prediction.memory.fit_probability >= 0.9);
  spp_search_free(&likely.search);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_may_be_asked_to_be_likely),
      cmocka_unit_test(the_longest_sequence_fits_and_the_next_unit_does_not),
      cmocka_unit_test(a_longer_fixed_batch_changes_the_longest_sequence_little),
      cmocka_unit_test(the_fewest_gpus_fit_and_one_fewer_does_not),
      cmocka_unit_test(a_large_model_takes_whole_nodes),
      cmocka_unit_test(the_largest_batch_goes_in_one_pass),
      cmocka_unit_test(what_never_fits_is_no_fit),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
