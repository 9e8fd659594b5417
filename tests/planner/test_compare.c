#include "planner/compare.h"
#include "tests/planner/jobs.h"

static const struct spp_compare_row *row_of(const struct spp_compare_result *result, const char *name) {
  for (int i = 0; i < result->count; i++)
    if (strcmp(result->rows[i].name, name) == 0) return &result->rows[i];
  return NULL;
}

static void every_strategy_has_a_row_and_illegal_ones_say_why(void **state) {
  struct spp_search_options options;
  struct spp_compare_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_compare(&options, 0, &result, &diag), SPP_OK, &diag);
  static const char *const names[] = {"none",       "tp 8 + sp",  "ulysses 8",         "allgather 8",
                                      "hybrid 2x4", "hybrid 4x2", "ring 8 zigzag (te)"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    expect_note("%s", names[i]);
    expect_true(row_of(&result, names[i]) != NULL);
  }
  expect_note("%s", "");
  /* 28 heads, 4 KV heads: neither TP 8 nor Ulysses 8; half of it is, and gets a row */
  expect_false(row_of(&result, "ulysses 8")->legal);
  expect_true(row_of(&result, "ulysses 8")->why_not[0] != '\0');
  expect_true(row_of(&result, "ulysses 4")->legal);
  expect_true(row_of(&result, "none")->legal);
  for (int i = 0; i < result.count; i++) {
    const struct spp_compare_row *row = &result.rows[i];
    expect_note("%s", row->name);
    if (!row->legal) continue;
    expect_i64(spp_layout_world(&row->plan.layout), 8);
    expect_i64(spp_rules_first(&row->plan.job, &row->plan.layout), -1);
  }
  expect_note("%s", "");
  spp_compare_free(&result);
}

static void a_row_uses_the_kind_it_is_named_after(void **state) {
  struct spp_search_options options;
  struct spp_compare_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-8b", "h100-80gb", 8, 65536, &options);
  expect_status(spp_compare(&options, 8, &result, &diag), SPP_OK, &diag);
  const struct spp_compare_row *ulysses = row_of(&result, "ulysses 8"),
                               *ring = row_of(&result, "ring 8 zigzag (te)");
  expect_true(ulysses && ulysses->legal && ring && ring->legal);
  expect_i64(ulysses->plan.layout.ulysses, 8);
  expect_i64(ulysses->plan.layout.sp_kind, SPP_SP_ULYSSES);
  expect_i64(ring->plan.layout.ring, 8);
  expect_i64(ring->plan.layout.sp_kind, SPP_SP_RING);
  expect_i64(row_of(&result, "none")->plan.layout.ulysses, 1);
  expect_i64(row_of(&result, "tp 8 + sp")->plan.layout.megatron_sp, 1);
  spp_compare_free(&result);
}

static void crossovers_rise_and_name_rows(void **state) {
  struct spp_search_options options;
  struct spp_compare_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_compare(&options, 0, &result, &diag), SPP_OK, &diag);
  expect_true(result.crossover_count >= 1); /* no SP wins at 4k and does not fit at 1m */
  for (int i = 0; i < result.crossover_count; i++) {
    const struct spp_crossover *c = &result.crossovers[i];
    expect_true(row_of(&result, c->from) && row_of(&result, c->to));
    expect_true(strcmp(c->from, c->to) != 0);
    expect_true(c->seq_tokens > 4096 && c->seq_tokens <= 1 << 22);
    if (i > 0) expect_true(c->seq_tokens >= result.crossovers[i - 1].seq_tokens);
    if (i > 0) expect_str(c->from, result.crossovers[i - 1].to);
  }
  spp_compare_free(&result);
}

static void one_gpu_compares_only_no_sp(void **state) {
  struct spp_search_options options;
  struct spp_compare_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-0.5b", "h100-80gb", 1, 8192, &options);
  expect_status(spp_compare(&options, 0, &result, &diag), SPP_OK, &diag);
  expect_i64(result.count, 1);
  expect_str(result.rows[0].name, "none");
  spp_compare_free(&result);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_strategy_has_a_row_and_illegal_ones_say_why),
      cmocka_unit_test(a_row_uses_the_kind_it_is_named_after),
      cmocka_unit_test(crossovers_rise_and_name_rows),
      cmocka_unit_test(one_gpu_compares_only_no_sp),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
