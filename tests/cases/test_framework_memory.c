/* What single frameworks hold, from their shipped files: each figure is worked out from the source named in
 * the file. */
#include "tests/cases/job_text.h"

static const double GIB = 1073741824.0;

static int64_t row(const struct text_job *t, const char *name, enum spp_moment moment) {
  int64_t bytes = 0;
  for (int i = 0; i < t->ledger.count; i++) {
    const struct spp_ledger_entry *e = &t->ledger.entries[i];
    if (!strcmp(e->tensor->name, name) && (e->live >> moment & 1)) bytes += e->bytes;
  }
  return bytes;
}

/* ceil(P / 8) of Llama-3-8B: 8,030,261,248 / 8. */
static const int64_t eighth = 1003782656;

/* distrib_optimizer.py: shard_main_param.grad = shard_model_grad.float(); a no-op on fp32 gradients; the
 * precision-aware optimizer reads the 16-bit ones. */
static void megatron_casts_16_bit_gradients_for_the_step(void **state) {
  (void)state;
  static const struct {
    const char *job;
    int64_t bytes;
  } cases[] = {
      {"model=llama3-8b framework=megatron-bridge seq=4096 gpus=8 zero=1", 4 * eighth},
      {"model=llama3-8b framework=megatron-lm seq=4096 gpus=8 zero=1", 0},
      {"model=llama3-8b framework=megatron-lm seq=4096 gpus=8 zero=1 grads_dtype=bf16", 4 * eighth},
      {"model=llama3-8b framework=megatron-bridge seq=4096 gpus=8 zero=1 optimizer=adamw-bf16", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    expect_note("%s", cases[i].job);
    expect_i64(row(t, "fp32 gradients of the partition", SPP_MOMENT_STEP), cases[i].bytes);
    text_job_free(t);
  }
}

/* stage_1_and_2.py step: flatten (2), cast (4) while the averaged gradients (2) are there; buckets of 2e8
 * 16-bit elements stay from one backward to the next. stage3.py: the same for at most 1e9 elements. */
static void deepspeed_joins_and_casts_gradients_for_the_step(void **state) {
  (void)state;
  struct text_job *t = text_job_run("model=llama3-8b framework=ms-swift seq=4096 gpus=8 zero=2", 0);
  expect_i64(row(t, "flat gradients of the partition", SPP_MOMENT_STEP), 2 * eighth);
  expect_i64(row(t, "fp32 gradients of the partition", SPP_MOMENT_STEP), 4 * eighth);
  expect_i64(row(t, "gradient reduction bucket", SPP_MOMENT_STEP), 400000000);
  text_job_free(t);
  t = text_job_run("model=llama3-8b framework=ms-swift seq=4096 gpus=2 zero=3", 0);
  expect_i64(row(t, "fp32 gradients of the partition", SPP_MOMENT_STEP), 4 * INT64_C(1000000000));
  expect_i64(row(t, "gradient reduction bucket", SPP_MOMENT_STEP), 2 * 4096 * 4096); /* "auto": h * h */
  text_job_free(t);
}

/* engine.py: bf16 without ZeRO is FP16_Optimizer's kind: 2 + 2 + 4 + 8. Without an engine (HF Trainer): 2 + 2
 * + 4. */
static void deepspeed_without_zero_keeps_fp32_masters(void **state) {
  (void)state;
  static const enum spp_part states[] = {SPP_PART_WEIGHTS, SPP_PART_GRADIENTS, SPP_PART_MASTER,
                                         SPP_PART_OPTIMIZER};
  static const struct {
    const char *framework;
    int64_t bytes;
  } cases[] = {{"deepspeed", 16}, {"hf-deepspeed", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char line[160];
    int64_t sum = 0;
    snprintf(line, sizeof line, "model=llama3-8b framework=%s seq=4096 gpus=1 zero=0", cases[i].framework);
    struct text_job *t = text_job_run(line, 0);
    for (size_t p = 0; p < sizeof states / sizeof states[0]; p++)
      sum += t->prediction.memory.resident[states[p]];
    expect_note("%s", line);
    expect_i64(sum, cases[i].bytes * 8 * eighth);
    text_job_free(t);
  }
}

/* megatron/bridge/recipes: DeepSeek-V3 (and Moonlight, of its family) and OLMoE keep moments in bf16, others
 * in fp32; who says what he wants gets it. */
static void recipes_of_some_families_keep_16_bit_moments(void **state) {
  (void)state;
  static const struct {
    const char *job;
    enum spp_optimizer optimizer;
  } cases[] = {
      {"model=moonlight-16b-a3b framework=megatron-bridge seq=4096 gpus=8 tp=2 ep=8",
       SPP_OPTIMIZER_ADAMW_BF16},
      {"model=moonlight-16b-a3b framework=megatron-bridge seq=4096 gpus=8 tp=2 ep=8 optimizer=adamw",
       SPP_OPTIMIZER_ADAMW},
      {"model=moonlight-16b-a3b framework=megatron-lm seq=4096 gpus=8 tp=2 ep=8", SPP_OPTIMIZER_ADAMW},
      {"model=qwen3-30b-a3b framework=megatron-bridge seq=4096 gpus=16 ep=16", SPP_OPTIMIZER_ADAMW},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    expect_note("%s", cases[i].job);
    expect_i64(t->job.optimizer, cases[i].optimizer);
    text_job_free(t);
  }
}

/* 1F1B: the first stage holds pp micro-batches, the last one; a log line of the last rank shows the less. */
static void the_last_stage_has_its_own_peak(void **state) {
  (void)state;
  struct text_job *t = text_job_run(
      "model=llama3-70b framework=megatron-bridge seq=4096 gpus=32 tp=8 pp=4 zero=1 global_batch=32 "
      "recompute=none",
      0);
  const struct spp_memory *m = &t->prediction.memory;
  expect_true(m->last_stage_peak_bytes > 0 && m->last_stage_peak_bytes < m->peak_bytes);
  text_job_free(t);
  t = text_job_run("model=llama3-8b framework=megatron-bridge seq=4096 gpus=8 zero=1", 0);
  expect_i64(t->prediction.memory.last_stage_peak_bytes, t->prediction.memory.peak_bytes);
  text_job_free(t);
}

/* Counted with saved-tensor hooks on litgpt 0.4.0, two layers of the code of Llama-2-7B, per token: two norms
 * in fp32 (4h and a statistic each), one dropped copy of the input for q and v (2h, mask h), A x of both (2 x
 * 8), their output before it is spread over the joined product (2 x 2h), q, k (2h each), the joined product
 * behind v (6h), attention's output (2h) and log-sum-exp, gate, its activation and up (2i each). Masks take a
 * byte on a GPU. */
static void litgpt_layers_keep_what_was_counted(void **state) {
  (void)state;
  const int64_t h = 4096, i = 11008, heads = 32, rank = 8, tokens = 1304;
  struct text_job *t = text_job_run("model=llama2-7b framework=litgpt gpu=a100-80gb seq=1304 gpus=1 "
                                    "method=lora lora_rank=8 lora_targets=q+v "
                                    "attention=sdpa",
                                    0);
  expect_i64(t->prediction.memory.kept_bytes[0],
             tokens * (2 * (4 * h + 4) + 3 * h + 2 * 2 * rank + 4 * h + 12 * h + 4 * heads + 6 * i));
  /* one GPU shards nothing, and nothing is gathered */
  expect_i64(t->prediction.memory.parts[SPP_PART_SHARDING_BUFFERS], 0);
  /* fp32 logits of all chunks, kept by the caller, and their log-softmax; 128 tokens at work */
  expect_i64(t->prediction.memory.logits_bytes, 8 * tokens * 32000 + 8 * 128 * 32000);
  text_job_free(t);
}

/* Qwen-1.8B under ZeRO-3 on one GPU: 1e9 elements step at a time, 4 GB in one tensor. 1,024 tokens leave fp32
 * logits of 0.6 GB, 8,192 of 5 GB: the second serve it, the first do not and stay beside it, reserved but not
 * needed. */
static void joined_gradients_find_no_room_in_smaller_blocks(void **state) {
  (void)state;
  struct text_job *t = text_job_run(
      "model=qwen-1.8b framework=hf-trainer-2023 gpu=a100-80gb seq=1024 gpus=1 zero=3 global_batch=8", 0);
  expect_i64(t->prediction.memory.peak_moment, SPP_MOMENT_STEP);
  expect_true(t->prediction.memory.reclaimable_bytes > 2 * GIB);
  text_job_free(t);
  t = text_job_run(
      "model=qwen-1.8b framework=hf-trainer-2023 gpu=a100-80gb seq=8192 gpus=1 zero=3 global_batch=8", 0);
  expect_i64(t->prediction.memory.peak_moment, SPP_MOMENT_LOSS);
  text_job_free(t);
}

/* llama-factory-2024: a block as large as fp32 logits cannot go back to the driver, unless rows are packed.
 */
static void a_longer_batch_holds_a_segment_of_logits(void **state) {
  (void)state;
  static const char *const jobs[] = {
      "model=llama3-8b framework=llama-factory-2024 seq=8192 gpus=4 zero=3 method=lora",
      "model=llama3-8b framework=llama-factory-2024 seq=8192 gpus=4 zero=3 method=lora packing=true"};
  double needed[2];
  for (int i = 0; i < 2; i++) {
    struct text_job *t = text_job_run(jobs[i], 0);
    needed[i] = (double)(t->prediction.memory.device_bytes - t->prediction.memory.reclaimable_bytes);
    text_job_free(t);
  }
  expect_rel(needed[0] - needed[1], 4.0 * 8192 * 128256, 0.001);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(megatron_casts_16_bit_gradients_for_the_step),
      cmocka_unit_test(deepspeed_joins_and_casts_gradients_for_the_step),
      cmocka_unit_test(deepspeed_without_zero_keeps_fp32_masters),
      cmocka_unit_test(recipes_of_some_families_keep_16_bit_moments),
      cmocka_unit_test(the_last_stage_has_its_own_peak),
      cmocka_unit_test(litgpt_layers_keep_what_was_counted),
      cmocka_unit_test(joined_gradients_find_no_room_in_smaller_blocks),
      cmocka_unit_test(a_longer_batch_holds_a_segment_of_logits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
