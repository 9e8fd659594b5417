/* The memory of a server: its cache, its longest step, its sampler. */
#include "tests/model/jobs.h"

static void the_cache_holds_keys_and_values_of_a_stage(void **state) {
  (void)state;
  struct {
    const char *model;
    int64_t bytes_per_token;
  } cases[] = {{"qwen2.5-7b", 57344}, {"llama3.1-8b", 131072}, {"deepseek-v3", 70272}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, cases[i].model), 32768);
    f.job.mode = SPP_MODE_INFER;
    jobs_predict(&f);
    expect_i64(f.memory.parts[SPP_PART_KV_CACHE], 32768 * cases[i].bytes_per_token);
    expect_i64(f.memory.parts[SPP_PART_GRADIENTS] + f.memory.parts[SPP_PART_OPTIMIZER], 0);
    f.job.kv_dtype = SPP_DTYPE_FP8;
    jobs_predict(&f);
    expect_i64(f.memory.parts[SPP_PART_KV_CACHE], 32768 * cases[i].bytes_per_token / 2);
    f.job.mode = SPP_MODE_TRAIN; /* training has none */
    jobs_predict(&f);
    expect_i64(f.memory.parts[SPP_PART_KV_CACHE], 0);
    jobs_close(&f);
  }
}

static void more_tensor_ranks_than_heads_repeat_the_cache(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 32768); /* 4 KV heads */
  f.job.mode = SPP_MODE_INFER;
  f.layout.tp = 4;
  jobs_predict(&f);
  int64_t quarter = f.memory.parts[SPP_PART_KV_CACHE];
  expect_i64(quarter, INT64_C(1879048192) / 4);
  f.layout.tp = 28;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_KV_CACHE], quarter);
  jobs_close(&f);
}

/* vllm's profiling run: its sampler holds 2 + 4 + 12 + 20 = 38 bytes a logit of every sequence at once, and
 * its longest step is run whole however short the request. */
static void a_server_keeps_room_for_its_longest_step_and_its_sampler(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 128);
  f.job.mode = SPP_MODE_INFER;
  f.framework.step_tokens = 2048;
  f.framework.step_tokens_large = 8192;
  f.framework.profiled_sequences = 256;
  f.framework.profiled_sequences_large = 1024;
  f.gpu.capacity_bytes = INT64_C(24) << 30;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(38) * 256 * 152064); /* vocabulary of Qwen2.5-7B */
  expect_i64(jobs_ledger(&f, "MLP work", SPP_MOMENT_FORWARD), INT64_C(6) * 2048 * 18944);
  f.gpu.capacity_bytes = INT64_C(80) << 30;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(38) * 1024 * 152064);
  expect_i64(jobs_ledger(&f, "MLP work", SPP_MOMENT_FORWARD), INT64_C(6) * 8192 * 18944);
  f.framework.step_tokens_large = f.framework.profiled_sequences_large = 0; /* as on any card */
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(38) * 256 * 152064);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cache_holds_keys_and_values_of_a_stage),
      cmocka_unit_test(more_tensor_ranks_than_heads_repeat_the_cache),
      cmocka_unit_test(a_server_keeps_room_for_its_longest_step_and_its_sampler),
  };
  int failed = cmocka_run_group_tests_name("memory_serving", tests, NULL, NULL);
  return failed != 0;
}
