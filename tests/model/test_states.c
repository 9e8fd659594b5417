/* Weights, gradients, masters and optimizer states against worked numbers. */
#include "tests/model/states_case.h"

static void eight_bit_adam_leaves_small_tensors_in_fp32(void **state) {
  (void)state;
  expect_i64(spp_adam8_bytes((int64_t)4096 * 4096), 34078720); /* 2n + 8*ceil(n/256) */
  expect_i64(spp_adam8_bytes(4095), 8 * 4095);
  expect_i64(spp_adam8_bytes(4096), 2 * 4096 + 8 * 16);
}

static void galore_keeps_moments_at_rank_and_one_projector(void **state) {
  (void)state;
  expect_i64(spp_galore_bytes(4096, 11008, 128, 2), 6684672); /* 128*(2*11008+4096)*2 */
  expect_i64(spp_galore_bytes(11008, 4096, 128, 2), 6684672);
  /* 4-bit projector 128*4096/2, 8-bit moments of 128 x 11008: 2n + 8*5504 */
  expect_i64(spp_qgalore_bytes(4096, 11008, 128), 262144 + 2 * 1409024 + 8 * 5504);
}

static void optimizers_differ_by_matrix(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_parse(&f, JOBS_TINY), 32);
  struct {
    enum spp_optimizer optimizer;
    int64_t matrix, vector; /* 100 x 200 hidden matrix, vector of 300 */
  } cases[] = {
      {SPP_OPTIMIZER_ADAMW, 8 * 20000, 8 * 300},
      {SPP_OPTIMIZER_ADAMW_BF16, 4 * 20000, 4 * 300},
      {SPP_OPTIMIZER_ADAMW_8BIT, 2 * 20000 + 8 * 79, 8 * 300}, /* ceil(20000/256) = 79 */
      {SPP_OPTIMIZER_ADAFACTOR, 4 * 300, 4 * 300},
      {SPP_OPTIMIZER_MUON, 4 * 20000, 8 * 300},
      {SPP_OPTIMIZER_SGD, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    f.job.optimizer = cases[i].optimizer;
    expect_i64(spp_optimizer_bytes(&f.job, 8, 100, 200, true), cases[i].matrix);
    expect_i64(spp_optimizer_bytes(&f.job, 8, 300, 1, false), cases[i].vector);
  }
  jobs_close(&f);
}

static void the_distributed_optimizer_keeps_seven_and_a_half_bytes_over_eight_ranks(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 1);
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.framework.states[1].grad_bytes = 4;
  jobs_predict(&f);
  /* 2 + 4 + 12/8 = 7.5 bytes a parameter (NVIDIA/Megatron-LM docs, dist_optimizer) */
  expect_i64(resident(&f), 57117123840);
  f.layout.zero = 0;
  f.framework.states[0].grad_bytes = 4;
  jobs_predict(&f);
  expect_i64(resident(&f), 18 * qwen7b);
  jobs_close(&f);
}

/* fp32 training: 4 + 4 + 8 bytes a parameter, 8 + 8/d with the distributed optimizer; weights are their own
 * master (NVIDIA/Megatron-LM docs, dist_optimizer). */
static void in_fp32_weights_are_their_own_master(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 0);
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.framework.states[0].grad_bytes = 4;
  f.job.dtype = SPP_DTYPE_FP32;
  jobs_predict(&f);
  expect_i64(resident(&f), 16 * qwen7b);
  f.layout.zero = 1;
  jobs_predict(&f);
  expect_i64(resident(&f), 9 * qwen7b);
  jobs_close(&f);
}

static void zero_stages_shard_what_the_estimators_say(void **state) {
  (void)state;
  struct jobs_fixture f;
  for (int zero = 1; zero <= 3; zero++) {
    open_qwen7b(&f, zero);
    f.framework.sharding = SPP_SHARDING_DEEPSPEED;
    f.framework.states[zero].step_extra_bytes = 4;
    jobs_predict(&f);
    int64_t step = resident(&f) + jobs_ledger(&f, "fp32 gradients of the partition", SPP_MOMENT_STEP);
    /* 4 + 16/8; 2 + 18/8 (estimate_zero2_model_states_mem_needs); 20/8, of which the estimator of stage 3
     * leaves out the 16-bit gradients: 18/8 */
    const int64_t expected[] = {0, 4 * qwen7b + 2 * qwen7b, 32366370176, 17135137152 + 2 * qwen7b / 8};
    expect_i64(step, expected[zero]);
    jobs_close(&f);
  }
  /* estimate_zero3: 18 P / 8 + 4 bytes of the largest layer, the head */
  expect_i64(INT64_C(17135137152) + 4 * INT64_C(544997376), 19315126656);
}

static void zero3_gathers_the_whole_head_and_its_gradient(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 3);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gathered head", SPP_MOMENT_LOSS), 1089994752); /* 2 * 152064 * 3584 */
  expect_i64(jobs_ledger(&f, "gradient of the head", SPP_MOMENT_BACKWARD_HEAD), 1089994752);
  jobs_close(&f);
}

/* 3 bytes of each gradient: over one rank 22.8e9, where the step's copies of 1e9 elements are 6e9; over eight
 * 2.9e9 of 5.7e9, whose blocks are kept and not needed. */
static void zero3_looks_for_overflow_in_all_gradients_at_once(void **state) {
  (void)state;
  struct jobs_fixture f;
  struct spp_memory memory[2];
  for (int ranks = 1; ranks <= 8; ranks *= 8) {
    open_qwen7b(&f, 3);
    f.layout.dp = ranks;
    f.framework.sharding = SPP_SHARDING_DEEPSPEED;
    f.framework.states[3].step_extra_bytes = 6;
    for (int fp16 = 0; fp16 < 2; fp16++) {
      f.job.dtype = fp16 ? SPP_DTYPE_FP16 : SPP_DTYPE_BF16;
      jobs_predict(&f);
      memory[fp16] = f.memory;
      int64_t beyond = fp16 && ranks == 1 ? 3 * qwen7b - INT64_C(6000000000) : 0;
      expect_i64(jobs_ledger(&f, "overflow check", SPP_MOMENT_STEP), beyond);
    }
    if (ranks == 8) {
      expect_rel((double)(memory[1].reserved_bytes - memory[0].reserved_bytes), 3e0 / 8 * (double)qwen7b,
                 0.001);
      expect_rel((double)(memory[1].reclaimable_bytes - memory[0].reclaimable_bytes),
                 3e0 / 8 * (double)qwen7b, 0.001);
    }
    jobs_close(&f);
  }
}

static void a_reference_model_doubles_the_weights_of_a_full_fine_tune(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 3);
  f.job.mode = SPP_MODE_DPO;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 2 * qwen7b / 8);
  f.job.no_reference = true; /* SimPO, ORPO, CPO */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 0);
  f.job.no_reference = false;
  f.job.method = SPP_METHOD_LORA; /* adapters are switched off instead */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 0);
  f.job.own_reference = true; /* trl force_use_ref_model */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 2 * qwen7b / 8);
  jobs_close(&f);
}

/* PPO: policy and critic trained, reference and reward model frozen, each of 7.6e9 parameters, over 8 ranks.
 */
static void ppo_keeps_four_models_and_trains_two(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 3);
  f.job.mode = SPP_MODE_PPO;
  jobs_predict(&f);
  const int64_t share = qwen7b / 8;
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 2 * share);
  expect_i64(jobs_ledger(&f, "reward model", SPP_MOMENT_STEP), 2 * share);
  const char *const pairs[][2] = {{"weights", "critic"},
                                  {"gradients", "gradients of the critic"},
                                  {"fp32 master weights", "fp32 master weights of the critic"},
                                  {"optimizer states", "optimizer states of the critic"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    expect_note("%s", pairs[i][1]);
    expect_true(jobs_ledger(&f, pairs[i][0], SPP_MOMENT_STEP) > 0);
    expect_i64(jobs_ledger(&f, pairs[i][1], SPP_MOMENT_STEP), jobs_ledger(&f, pairs[i][0], SPP_MOMENT_STEP));
  }
  expect_note("%s", "");
  f.job.no_reference = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_STEP), 0);
  expect_i64(spp_job_forwards(&f.job), 3);
  jobs_close(&f);
}

static void a_tied_head_costs_the_last_stage_a_copy(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 1024); /* 24 layers, tied, 151,936 x 896 */
  f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * INT64_C(494032768));
  f.layout.pp = 2;
  f.layout.grad_accum = 4;
  jobs_predict(&f);
  int64_t layers = INT64_C(494032768) - 151936 * 896 - 896, embedding = 151936 * 896;
  int64_t stage = f.memory.worst_stage == 0 ? layers / 2 + embedding : layers / 2 + embedding + 896;
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * stage);
  jobs_close(&f);
}

/* 12 layers of 7,087,872, 50,257 x 768 tied, 1,024 positions, a final norm of two vectors: positions stand
 * with the embedding (NVIDIA/Megatron-LM models/common/embeddings/language_model_embedding.py). */
static void learned_positions_stand_on_the_first_stage(void **state) {
  (void)state;
  const int64_t layers = 12 * 7087872, embedding = 50257 * 768, positions = 1024 * 768, norm = 2 * 768;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "gpt2"), 1024);
  f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * (layers + embedding + positions + norm));
  f.layout.pp = 2;
  f.layout.grad_accum = 4;
  jobs_predict(&f);
  expect_i64(f.memory.worst_stage, 1); /* the logits' */
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * (layers / 2 + embedding + norm));
  jobs_close(&f);
}

/* GPT-J: 50,400 x 4,096 and a bias. */
static void the_bias_of_a_head_is_part_of_it(void **state) {
  (void)state;
  struct jobs_fixture f;
  struct spp_state_counts head;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "gpt-j-6b"), 1024);
  jobs_predict(&f);
  spp_states_count_outer(&f.job, &f.layout, &f.geometry, SPP_OUTER_HEAD, &head);
  expect_i64(head.elements, INT64_C(50400) * 4096 + 50400);
  jobs_close(&f);
}

static void padded_vocabulary_is_paid_for(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 1024);
  f.framework.vocab_multiple = 128;
  f.layout.tp = 8;
  jobs_predict(&f);
  /* 152,064 rounds up to 152,576, a multiple of 1024; a rank has 19,072 rows of embedding and head */
  expect_i64(f.geometry.vocab_local, 19072);
  struct spp_state_counts head;
  spp_states_count_outer(&f.job, &f.layout, &f.geometry, SPP_OUTER_HEAD, &head);
  expect_i64(head.trainable, 19072 * 3584);
  jobs_close(&f);
}

static void fp8_training_keeps_two_copies_before_blackwell(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 1);
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.job.dtype = SPP_DTYPE_FP8;
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  /* linears of a layer: 2*3584*3584 + 2*512*3584 + 3*3584*18944 */
  const int64_t linear = 28 * INT64_C(233046016);
  expect_i64(jobs_ledger(&f, "8-bit weight copies", SPP_MOMENT_STEP), 2 * linear);
  int64_t both = f.memory.resident[SPP_PART_WEIGHTS];
  f.framework.fp8_params = true; /* no 16-bit copy of them */
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], both - 2 * linear);
  f.gpu.compute_capability = 100;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "8-bit weight copies", SPP_MOMENT_STEP), linear);
  jobs_close(&f);
}

static void offloaded_states_leave_the_gpu(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 3);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.layout.offload = SPP_OFFLOAD_OPTIMIZER;
  jobs_predict(&f);
  expect_i64(resident(&f), 2 * qwen7b / 8);
  f.layout.offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;
  jobs_predict(&f);
  expect_i64(resident(&f), 0);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_bit_adam_leaves_small_tensors_in_fp32),
      cmocka_unit_test(galore_keeps_moments_at_rank_and_one_projector),
      cmocka_unit_test(optimizers_differ_by_matrix),
      cmocka_unit_test(the_distributed_optimizer_keeps_seven_and_a_half_bytes_over_eight_ranks),
      cmocka_unit_test(in_fp32_weights_are_their_own_master),
      cmocka_unit_test(zero_stages_shard_what_the_estimators_say),
      cmocka_unit_test(zero3_gathers_the_whole_head_and_its_gradient),
      cmocka_unit_test(zero3_looks_for_overflow_in_all_gradients_at_once),
      cmocka_unit_test(a_reference_model_doubles_the_weights_of_a_full_fine_tune),
      cmocka_unit_test(ppo_keeps_four_models_and_trains_two),
      cmocka_unit_test(a_tied_head_costs_the_last_stage_a_copy),
      cmocka_unit_test(learned_positions_stand_on_the_first_stage),
      cmocka_unit_test(the_bias_of_a_head_is_part_of_it),
      cmocka_unit_test(padded_vocabulary_is_paid_for),
      cmocka_unit_test(fp8_training_keeps_two_copies_before_blackwell),
      cmocka_unit_test(offloaded_states_leave_the_gpu),
  };
  int failed = cmocka_run_group_tests_name("states", tests, NULL, NULL);
  return failed != 0;
}
