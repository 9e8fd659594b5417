/* The memory of a server: its cache, its longest step, its sampler. */
#include <stdio.h>

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

/* Qwen2.5-7B, 28 layers of 512 keys and as many values in 16 bit: 57,344 bytes a token. torch.cat makes the
 * new cache beside the old one: whole, or one layer's keys or values at a time. */
static void a_cache_that_is_joined_with_each_token_exists_twice(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 32768);
  f.job.mode = SPP_MODE_INFER;
  f.layout.micro_batch = 2;
  f.framework.cache_growth = SPP_CACHE_JOINS_ALL;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "KV cache", SPP_MOMENT_STEP), INT64_C(2) * 32768 * 57344);
  expect_i64(jobs_ledger(&f, "KV cache of the step before", SPP_MOMENT_STEP), INT64_C(2) * 32767 * 57344);
  expect_i64(jobs_ledger(&f, "KV cache", SPP_MOMENT_FORWARD), INT64_C(2) * 32768 * 57344); /* all is prompt */
  f.framework.cache_growth = SPP_CACHE_JOINS_LAYER;
  f.job.prompt_tokens = 1024;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "KV cache", SPP_MOMENT_STEP), INT64_C(2) * 32768 * 57344);
  expect_i64(jobs_ledger(&f, "KV cache of the step before", SPP_MOMENT_STEP),
             INT64_C(2) * 32767 * 57344 / 28 / 2);
  expect_i64(jobs_ledger(&f, "KV cache", SPP_MOMENT_FORWARD), INT64_C(2) * 1024 * 57344);
  expect_i64(jobs_ledger(&f, "MLP work", SPP_MOMENT_FORWARD), INT64_C(6) * 2 * 1024 * 18944);
  expect_i64(jobs_ledger(&f, "MLP work", SPP_MOMENT_STEP), INT64_C(6) * 2 * 18944);
  jobs_close(&f);
}

/* transformers before 4.45 takes the head over the whole prompt, and casts what it makes to fp32 but for
 * models that do not. */
static void logits_of_a_whole_prompt_are_made_where_the_code_makes_them(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 4096);
  f.job.mode = SPP_MODE_INFER;
  f.framework.cache_growth = SPP_CACHE_JOINS_ALL;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(8) * 152064); /* two fp32 rows, of the last token */
  f.framework.prompt_logits = true;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(8) * 152064 + INT64_C(6) * 4096 * 152064);
  f.framework.prompt_logits_16bit = true; /* since 4.45 the loss casts, which a forward has not */
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(8) * 152064 + INT64_C(2) * 4096 * 152064);
  f.framework.prompt_logits_16bit = false;
  snprintf(f.framework.engine_loss_types[0], sizeof f.framework.engine_loss_types[0], "%s",
           f.job.arch->model_type);
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, INT64_C(8) * 152064 + INT64_C(2) * 4096 * 152064);
  jobs_close(&f);
}

/* Eager attention: 28 heads, bf16 scores, an fp32 copy and its softmax, over pairs of the prompt and one row
 * at the end; K and V are repeated from 4 heads to 28 of 128. An 8-bit cache has scales, and its keys are
 * unpacked.
 */
static void attention_by_its_own_products_needs_room_beside_the_cache(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 4096);
  f.job.mode = SPP_MODE_INFER;
  f.job.attention = SPP_ATTN_EAGER;
  f.job.prompt_tokens = 1024;
  f.framework.cache_growth = SPP_CACHE_JOINS_ALL;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "attention scores", SPP_MOMENT_FORWARD), INT64_C(10) * 28 * 1024 * 1024);
  expect_i64(jobs_ledger(&f, "attention scores", SPP_MOMENT_STEP), INT64_C(10) * 28 * 4096);
  expect_i64(jobs_ledger(&f, "repeated keys and values", SPP_MOMENT_STEP), INT64_C(4) * 3584 * 4096);
  expect_i64(jobs_ledger(&f, "scales of the KV cache", SPP_MOMENT_STEP), 0);
  f.framework.kv_scale_bytes = 4;
  f.job.kv_dtype = SPP_DTYPE_INT8;
  jobs_predict(&f); /* 28 layers, keys and values of 4 heads; the cache, and that of the step before */
  expect_i64(jobs_ledger(&f, "scales of the KV cache", SPP_MOMENT_STEP), INT64_C(4) * 28 * 8 * (4096 + 4095));
  expect_i64(jobs_ledger(&f, "unpacked keys", SPP_MOMENT_STEP), INT64_C(2) * 2 * 512 * 4096);
  jobs_close(&f);
}

/* Llama-3.1-8B: 32 layers of 218,112,000 - 8,192 elements of products in 4 bits, embedding and head in 16. */
static void weights_that_are_served_in_four_bits_take_a_quarter(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.1-8b"), 128);
  f.job.mode = SPP_MODE_INFER;
  f.job.quant = SPP_QUANT_NF4;
  jobs_predict(&f);
  int64_t plain = f.memory.parts[SPP_PART_WEIGHTS], products = INT64_C(32) * 218103808;
  f.job.serves_quantised = true;
  jobs_predict(&f); /* NF4: half a byte, and four for each block of 64 */
  expect_i64(plain - f.memory.parts[SPP_PART_WEIGHTS], 2 * products - (products / 2 + products / 16));
  jobs_close(&f);
}

/* vllm 0.7.2 engine/arg_utils.py: above 32,768 tokens prompts are cut into steps of 2,048. */
static void a_long_context_is_cut_where_shorter_ones_run_whole(void **state) {
  static const int64_t lengths[] = {32768, 32896}, steps[] = {32768, 2048};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), lengths[i]);
    f.job.mode = SPP_MODE_INFER;
    f.framework.step_tokens = f.framework.step_tokens_large = 0;
    f.framework.step_tokens_long = 2048;
    f.framework.profiled_sequences = 256;
    f.job.prompt_tokens = 16; /* what is asked later does not matter to a server */
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "MLP work", SPP_MOMENT_FORWARD), INT64_C(6) * steps[i] * 18944);
    jobs_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_cache_holds_keys_and_values_of_a_stage),
      cmocka_unit_test(more_tensor_ranks_than_heads_repeat_the_cache),
      cmocka_unit_test(a_cache_that_is_joined_with_each_token_exists_twice),
      cmocka_unit_test(logits_of_a_whole_prompt_are_made_where_the_code_makes_them),
      cmocka_unit_test(attention_by_its_own_products_needs_room_beside_the_cache),
      cmocka_unit_test(weights_that_are_served_in_four_bits_take_a_quarter),
      cmocka_unit_test(a_server_keeps_room_for_its_longest_step_and_its_sampler),
      cmocka_unit_test(a_long_context_is_cut_where_shorter_ones_run_whole),
  };
  int failed = cmocka_run_group_tests_name("memory_serving", tests, NULL, NULL);
  return failed != 0;
}
