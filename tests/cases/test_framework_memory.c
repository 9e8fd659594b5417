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

/* Moments are made in the first step, after its passes. Llama-3-70B on TP 4, PP 4, without distribution (DP
 * 1): a stage's part of the moments, 8 bytes for each of 20 layers and of a head padded to 128,512 rows, is
 * the difference unless the step's peak is the larger: then that is what the log shows. */
static void a_first_step_has_no_moments_in_its_passes(void **state) {
  (void)state;
  const int64_t layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * INT64_C(8192) * 28672 + 2 * 8192;
  const int64_t stage = 20 * ((layer - 2 * 8192) / 4 + 2 * 8192) + INT64_C(128512) * 8192 / 4;
  struct text_job *t = text_job_run(
      "model=llama3-70b framework=megatron-bridge seq=16384 gpus=16 tp=4 pp=4 zero=1 global_batch=32 "
      "recompute=none",
      0);
  const struct spp_memory *m = &t->prediction.memory;
  expect_i64(m->peak_moment == SPP_MOMENT_STEP, 0);
  expect_i64(m->first_step_peak_bytes, m->peak_bytes - 8 * stage);
  text_job_free(t);
  t = text_job_run(
      "model=llama3-70b framework=megatron-bridge seq=1024 gpus=16 tp=4 pp=4 zero=1 global_batch=32 "
      "recompute=full",
      0);
  expect_i64(t->prediction.memory.peak_moment, SPP_MOMENT_STEP);
  expect_i64(t->prediction.memory.first_step_peak_bytes, t->prediction.memory.peak_bytes);
  text_job_free(t);
}

/* transformer_engine pytorch/tensor/utils.py cast_master_weights_to_fp8: every master shard in 16 bit at
 * once, of matrices. Llama-3-8B, 32 layers of 4096 x (2 * 4096 + 2 * 1024) and 3 * 4096 x 14336, over 8
 * ranks. */
static void fp8_weights_are_cast_from_a_whole_list(void **state) {
  (void)state;
  const int64_t linear = 32 * (4096 * INT64_C(10240) + 3 * 4096 * INT64_C(14336));
  static const struct {
    const char *job;
    int share;
  } cases[] = {
      {"model=llama3-8b framework=megatron-bridge gpu=h100-80gb seq=4096 gpus=8 zero=1 dtype=fp8", 8},
      {"model=llama3-8b framework=megatron-bridge gpu=h100-80gb seq=4096 gpus=8 tp=8 zero=1 dtype=fp8", 8},
      {"model=llama3-8b framework=megatron-bridge gpu=b200-180gb seq=4096 gpus=8 zero=1 dtype=fp8", 0},
      {"model=llama3-8b framework=megatron-bridge gpu=h100-80gb seq=4096 gpus=8 zero=1", 0},
      {"model=llama3-8b framework=megatron-lm gpu=h100-80gb seq=4096 gpus=8 zero=1 dtype=fp8", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    expect_note("%s", cases[i].job);
    expect_i64(row(t, "16-bit casts of the master weights", SPP_MOMENT_STEP),
               cases[i].share ? 2 * linear / cases[i].share : 0);
    text_job_free(t);
  }
}

/* torch 2.0.1 optim/adamw.py _multi_tensor_adamw: a list of square roots and a list of denominators, in the
 * type of the moments: 2 x 2 bytes for each of Qwen-1.8B's 1,836,828,672 parameters; from torch 2.1 one list.
 */
static void older_foreach_adamw_makes_two_lists(void **state) {
  (void)state;
  const int64_t params = 1836828672;
  struct text_job *t = text_job_run("model=qwen-1.8b framework=hf-trainer-2023 seq=512 gpus=1 zero=0", 0);
  expect_i64(row(t, "square roots of the second moments", SPP_MOMENT_STEP), 2 * params);
  expect_i64(row(t, "denominators of the update", SPP_MOMENT_STEP), 2 * params);
  text_job_free(t);
  t = text_job_run("model=qwen-1.8b framework=hf-deepspeed seq=512 gpus=1 zero=0", 0);
  expect_i64(row(t, "square roots of the second moments", SPP_MOMENT_STEP), 2 * params);
  text_job_free(t);
}

/* Cross entropy is fp32 under autocast and where the model's code upcasts (Llama), 16 bit for others in an
 * engine. */
static void an_engine_leaves_the_loss_in_16_bit_where_the_code_does(void **state) {
  (void)state;
  static const struct {
    const char *job;
    int64_t bytes;
  } cases[] = {
      {"model=qwen-1.8b framework=hf-trainer-2023 seq=1024 gpus=1 zero=0", 4 * INT64_C(1024) * 151936},
      {"model=qwen-1.8b framework=hf-trainer-2023 seq=1024 gpus=1 zero=2", 2 * INT64_C(1024) * 151936},
      {"model=llama2-7b framework=hf-trainer-2023 seq=1024 gpus=2 zero=2", 4 * INT64_C(1024) * 32000},
      {"model=qwen-1.8b framework=hf-deepspeed seq=1024 gpus=1 zero=2", 4 * INT64_C(1024) * 151936},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    expect_note("%s", cases[i].job);
    expect_i64(row(t, "log-softmax", SPP_MOMENT_LOSS), cases[i].bytes);
    text_job_free(t);
  }
}

/* partition_parameters.py _no_gather_coalesced: one rank's partition is the weight. Several gather on a
 * stream whose blocks the step does not get: the largest is Qwen2.5-7B's head, 2 x 152,064 x 3,584. */
static void stage_three_gathers_on_a_stream_of_its_own(void **state) {
  (void)state;
  const int64_t head = 2 * INT64_C(152064) * 3584;
  static const struct {
    const char *job;
    int64_t head, pool;
  } cases[] = {
      {"model=qwen2.5-7b framework=ms-swift seq=4096 gpus=8 zero=3", head, head},
      {"model=qwen2.5-7b framework=ms-swift seq=4096 gpus=1 zero=3", 0, 0},
      {"model=qwen2.5-7b framework=ms-swift seq=4096 gpus=1 zero=3 offload=optimizer+params", head, head},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    expect_note("%s", cases[i].job);
    expect_i64(row(t, "gathered head", SPP_MOMENT_LOSS), cases[i].head);
    expect_i64(row(t, "gathered layer weights", SPP_MOMENT_BACKWARD_MLP) > 0, cases[i].head > 0);
    text_job_free(t);
  }
}

/* CheckpointFunction.backward: the outputs it made again, and their gradients, live until its own backward
 * call returns; non-reentrant checkpoints (torchtitan) discard the outputs. 4,096 tokens of 3,584 in 16 bit.
 */
static void reentrant_checkpoints_hold_the_ends_of_a_layer(void **state) {
  (void)state;
  const int64_t end = 2 * INT64_C(4096) * 3584;
  static const struct {
    const char *job;
    bool held;
  } cases[] = {
      {"model=qwen2.5-7b framework=ms-swift seq=4096 gpus=8 zero=3 recompute=full", true},
      {"model=qwen2.5-7b framework=deepspeed seq=4096 gpus=8 zero=3 recompute=full", true},
      {"model=qwen2.5-7b framework=megatron-lm seq=4096 gpus=8 recompute=full", true},
      {"model=qwen2.5-7b framework=ms-swift seq=4096 gpus=8 zero=3 recompute=none", false},
      {"model=qwen2.5-7b framework=torchtitan seq=4096 gpus=8 zero=3 recompute=full", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct text_job *t = text_job_run(cases[i].job, 0);
    const int64_t held = cases[i].held ? end : 0;
    expect_note("%s", cases[i].job);
    expect_i64(row(t, "output of the recomputed layer", SPP_MOMENT_BACKWARD_MLP), held);
    expect_i64(row(t, "output of the recomputed layer", SPP_MOMENT_LOSS), 0);
    expect_i64(row(t, "gradient of the layer's output", SPP_MOMENT_BACKWARD_ATTENTION), held);
    expect_i64(row(t, "gradient of the layer's output", SPP_MOMENT_BACKWARD_MLP), 0);
    text_job_free(t);
  }
}

/* Under Ulysses o_proj keeps a sequence-sharded copy; its backward runs before attention's. T dq of 4,096 / 4
 * tokens. */
static void the_input_of_o_proj_is_gone_in_backward_of_attention(void **state) {
  (void)state;
  struct text_job *t =
      text_job_run("model=qwen2.5-7b framework=ms-swift seq=4096 gpus=4 sp=4 zero=3 recompute=full", 0);
  expect_i64(row(t, "o_proj input", SPP_MOMENT_BACKWARD_MLP), 2 * INT64_C(1024) * 3584);
  expect_i64(row(t, "o_proj input", SPP_MOMENT_BACKWARD_ATTENTION), 0);
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
      "model=qwen-1.8b framework=hf-trainer-2023 gpu=a100-80gb seq=1024 gpus=1 zero=3 global_batch=8 "
      "loss=hf-shifted",
      0);
  expect_i64(t->prediction.memory.peak_moment, SPP_MOMENT_STEP);
  expect_true((double)t->prediction.memory.reclaimable_bytes > 1.7 * GIB); /* three of them */
  text_job_free(t);
  t = text_job_run(
      "model=qwen-1.8b framework=hf-trainer-2023 gpu=a100-80gb seq=8192 gpus=1 zero=3 global_batch=8 "
      "loss=hf-shifted",
      0);
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
      cmocka_unit_test(a_first_step_has_no_moments_in_its_passes),
      cmocka_unit_test(fp8_weights_are_cast_from_a_whole_list),
      cmocka_unit_test(older_foreach_adamw_makes_two_lists),
      cmocka_unit_test(an_engine_leaves_the_loss_in_16_bit_where_the_code_does),
      cmocka_unit_test(stage_three_gathers_on_a_stream_of_its_own),
      cmocka_unit_test(reentrant_checkpoints_hold_the_ends_of_a_layer),
      cmocka_unit_test(the_input_of_o_proj_is_gone_in_backward_of_attention),
      cmocka_unit_test(litgpt_layers_keep_what_was_counted),
      cmocka_unit_test(joined_gradients_find_no_room_in_smaller_blocks),
      cmocka_unit_test(a_longer_batch_holds_a_segment_of_logits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
