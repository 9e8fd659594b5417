/* Properties of the search over many jobs; the judge is the exhaustive search. */
#include "tests/planner/random.h"
#include "tests/planner/sound.h"

static void random_options(struct spp_search_options *options, const struct spp_framework **frameworks) {
  static const char *const models[] = {"qwen2.5-0.5b", "qwen2.5-7b",       "llama3.1-8b", "qwen3-30b-a3b",
                                       "qwen2.5-32b",  "deepseek-v2-lite", "gemma2-2b"};
  static const char *const gpus[] = {"h100-80gb", "a100-40gb", "rtx-4090"};
  static const int64_t counts[] = {1, 2, 3, 4, 6, 8, 16}, seqs[] = {512, 4096, 16384, 32768, 131072, 1000};
  static const int64_t batches[] = {0, 0, 8, 12, 32, 7};
  static const int64_t objectives[] = {SPP_OBJECTIVE_THROUGHPUT, SPP_OBJECTIVE_MEMORY, SPP_OBJECTIVE_COST};
  static const double min_fits[] = {0, 0.8, 0.95};
  static const int64_t methods[] = {SPP_UNSET, SPP_METHOD_FULL, SPP_METHOD_LORA, SPP_METHOD_QLORA};
  jobs_options(models[next_random() % 7], gpus[next_random() % 3], pick(counts, 7), pick(seqs, 6), options);
  options->spec.global_batch = pick(batches, 6);
  options->spec.method = (int)pick(methods, 4);
  options->spec.packing = next_random() % 2 ? 1 : SPP_UNSET;
  options->objective = (enum spp_objective)pick(objectives, 3);
  options->min_fit = min_fits[next_random() % 3];
  options->top = 1 + (int)(next_random() % 8);
  frameworks[0] = jobs_frameworks[next_random() % (uint64_t)jobs_framework_count];
  options->frameworks = frameworks;
  options->framework_count = 1;
}

static void pruning_changes_no_answer_on_five_hundred_random_jobs(void **state) {
  (void)state;
  random_state = 20240601;
  for (int i = 0; i < 500; i++) {
    struct spp_search_options options;
    struct spp_search_result pruned, judge;
    struct spp_diag diag = {.status = SPP_OK};
    const struct spp_framework *framework;
    random_options(&options, &framework);
    expect_note("job %d: %s %s x%d seq %d batch %d", i, framework->name, options.spec.arch->name,
                (int)options.spec.gpus, (int)options.spec.seq_tokens, (int)options.spec.global_batch);
    enum spp_status status = spp_search(&options, &pruned, &diag);
    options.exhaustive = true;
    expect_i64(spp_search(&options, &judge, &diag), status);
    if (status != SPP_OK && status != SPP_ERR_NOFIT) continue;
    expect_same_result(&pruned, &judge);
    expect_i64(judge.evaluated, judge.layouts);
    options.exhaustive = false;
    if (options.objective == SPP_OBJECTIVE_THROUGHPUT) expect_sound_result(&options, &pruned);
    spp_search_free(&pruned);
    spp_search_free(&judge);
  }
  expect_note("%s", "");
}

static void no_layout_that_fits_is_faster_than_the_answer_on_two_hundred_random_jobs(void **state) {
  int answered = 0;
  (void)state;
  random_state = 20261130;
  for (int i = 0; i < 400 && answered < 200; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    const struct spp_framework *framework;
    random_options(&options, &framework);
    options.objective = SPP_OBJECTIVE_THROUGHPUT;
    expect_note("job %d: %s %s x%d seq %d batch %d", i, framework->name, options.spec.arch->name,
                (int)options.spec.gpus, (int)options.spec.seq_tokens, (int)options.spec.global_batch);
    enum spp_status status = spp_search(&options, &result, &diag);
    if (status == SPP_OK) expect_none_faster(&options, &result.plans[0]);
    answered += status == SPP_OK;
    if (status == SPP_OK || status == SPP_ERR_NOFIT) spp_search_free(&result);
  }
  expect_i64(answered, 200);
  expect_note("%s", "");
}

static void four_threads_find_what_one_finds(void **state) {
  struct spp_search_options options;
  struct spp_search_result one, four;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-70b", "h100-80gb", 32, 16384, &options);
  expect_status(spp_search(&options, &one, &diag), SPP_OK, &diag);
  options.threads = 4;
  expect_status(spp_search(&options, &four, &diag), SPP_OK, &diag);
  expect_i64(four.threads, 4);
  expect_same_result(&one, &four);
  expect_i64(one.evaluated, four.evaluated);
  expect_i64(one.rejection_count, four.rejection_count);
  for (int i = 0; i < one.rejection_count; i++) {
    expect_str(one.rejections[i].reason, four.rejections[i].reason);
    expect_i64(one.rejections[i].count, four.rejections[i].count);
    expect_str(one.rejections[i].example, four.rejections[i].example);
  }
  spp_search_free(&one);
  spp_search_free(&four);
}

static void the_order_of_frameworks_only_breaks_ties(void **state) {
  struct spp_search_options options;
  struct spp_search_result forward, backward;
  const struct spp_framework *reversed[SPP_MAX_FRAMEWORKS];
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &forward, &diag), SPP_OK, &diag);
  for (int i = 0; i < options.framework_count; i++)
    reversed[i] = options.frameworks[options.framework_count - 1 - i];
  options.frameworks = reversed;
  expect_status(spp_search(&options, &backward, &diag), SPP_OK, &diag);
  expect_rel(forward.plans[0].prediction.time.step_s, backward.plans[0].prediction.time.step_s, 1e-3);
  expect_i64(forward.layouts, backward.layouts);
  for (int i = 0; i < options.framework_count; i++) {
    int a = forward.best_of_framework[i], b = backward.best_of_framework[options.framework_count - 1 - i];
    expect_i64(a < 0, b < 0);
    if (a >= 0) expect_same_plan(&forward.plans[a], &backward.plans[b]);
  }
  spp_search_free(&forward);
  spp_search_free(&backward);
}

static void more_memory_never_makes_the_best_slower(void **state) {
  static const int64_t budgets_gib[] = {30, 40, 50, 60, 70, 79};
  double before = 0;
  (void)state;
  for (size_t i = 0; i < sizeof budgets_gib / sizeof *budgets_gib; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
    options.spec.max_memory_bytes = budgets_gib[i] << 30;
    enum spp_status status = spp_search(&options, &result, &diag);
    expect_note("%d GiB", (int)budgets_gib[i]);
    expect_true(status == SPP_OK || (status == SPP_ERR_NOFIT && before == 0));
    if (status == SPP_OK) {
      double speed = result.plans[0].prediction.time.tokens_per_s;
      expect_true(speed >= before * (1 - 1e-3));
      before = speed;
    }
    spp_search_free(&result);
  }
  expect_note("%s", "");
  expect_true(before > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pruning_changes_no_answer_on_five_hundred_random_jobs),
      cmocka_unit_test(no_layout_that_fits_is_faster_than_the_answer_on_two_hundred_random_jobs),
      cmocka_unit_test(four_threads_find_what_one_finds),
      cmocka_unit_test(the_order_of_frameworks_only_breaks_ties),
      cmocka_unit_test(more_memory_never_makes_the_best_slower),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
