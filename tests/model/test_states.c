/* Weights, gradients, masters and optimizer states against worked numbers. */
#include "model/states.h"
#include "tests/model/jobs.h"

static const int64_t qwen7b = 7615616512;

static int64_t resident(const struct jobs_fixture *f) {
  return f->memory.resident[SPP_PART_WEIGHTS] + f->memory.resident[SPP_PART_GRADIENTS] +
         f->memory.resident[SPP_PART_MASTER] + f->memory.resident[SPP_PART_OPTIMIZER];
}

static void open_qwen7b(struct jobs_fixture *f, int zero) {
  jobs_open(f);
  jobs_train(f, jobs_load(f, "qwen2.5-7b"), 1024);
  f->layout.dp = 8;
  f->layout.zero = zero;
}

static void nf4_holds_half_a_byte_and_its_scales(void **state) {
  (void)state;
  /* n = 1,048,576: n/2 + 4*16,384; n/2 + 16,384 + 4*64 + 4 */
  expect_i64(spp_quant_bytes(SPP_QUANT_NF4, 1024, 1024), 589824);
  expect_i64(spp_quant_bytes(SPP_QUANT_NF4_DOUBLE, 1024, 1024), 540932);
  /* one byte and one fp32 scale per output */
  expect_i64(spp_quant_bytes(SPP_QUANT_INT8, 1024, 1024), 1048576 + 4 * 1024);
  /* 8 groups of 128: n/2, fp16 scales, 4-bit zeros, int32 group index per input */
  expect_i64(spp_quant_bytes(SPP_QUANT_GPTQ4, 1024, 1024), 524288 + 2 * 1024 * 8 + 1024 * 8 / 2 + 4 * 1024);
  expect_i64(spp_quant_bytes(SPP_QUANT_GPTQ8, 1024, 1024), 1048576 + 3 * 1024 * 8 + 4 * 1024);
}

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

static void adapters_alone_are_trained(void **state) {
  (void)state;
  struct jobs_fixture f;
  struct spp_state_counts counts;
  open_qwen7b(&f, 0);
  f.job.method = SPP_METHOD_LORA;
  jobs_predict(&f);
  spp_states_count_layer(&f.job, &f.layout, &f.geometry, 0, &counts);
  /* 8*(7*3584 + 2*3584 + 2*512 + 3*18944) a layer, 28 layers */
  expect_i64(counts.trainable, 720896);
  expect_i64(f.memory.resident[SPP_PART_GRADIENTS], 2 * INT64_C(20185088));
  expect_i64(f.memory.resident[SPP_PART_MASTER], 4 * INT64_C(20185088));
  expect_i64(f.memory.resident[SPP_PART_OPTIMIZER], 8 * INT64_C(20185088));
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * qwen7b + 2 * INT64_C(20185088));
  jobs_close(&f);
}

static void fp32_adapters_are_their_own_master(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_qwen7b(&f, 0);
  f.job.method = SPP_METHOD_LORA;
  f.framework.lora_fp32_adapters = true;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * qwen7b + 4 * INT64_C(20185088));
  expect_i64(f.memory.resident[SPP_PART_MASTER], 0);
  /* a DeepSpeed engine casts them with the rest of the module */
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.layout.zero = 1;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * qwen7b + 2 * INT64_C(20185088));
  jobs_close(&f);
}

static void frozen_weights_are_sharded_by_stage_three_only(void **state) {
  (void)state;
  struct jobs_fixture f;
  for (int zero = 2; zero <= 3; zero++) {
    open_qwen7b(&f, zero);
    f.job.method = SPP_METHOD_LORA;
    f.framework.sharding = SPP_SHARDING_DEEPSPEED;
    jobs_predict(&f);
    int64_t frozen = jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP);
    expect_i64(frozen, zero == 3 ? 2 * qwen7b / 8 : 2 * qwen7b);
    jobs_close(&f);
  }
}

static void quantised_linears_leave_head_embedding_and_norms_alone(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_parse(&f, JOBS_TINY), 32);
  f.job.method = SPP_METHOD_QLORA;
  f.job.quant = SPP_QUANT_NF4;
  jobs_predict(&f);
  /* linears of a layer: q 8,192, k and v 2,048 each, o 8,192, gate, up, down 10,240 each = 51,200 in NF4
   * (9/16 byte each); biases 192, norms 128 in 16 bit; embedding and head 16,384 each; last norm 64 */
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP),
             2 * (51200 / 2 + 2 * (192 + 128)) + 2 * (2 * 16384 + 64));
  expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP), 2 * 4 * 51200 / 64);
  /* the largest of them in 16 bit while it is used */
  expect_i64(jobs_ledger(&f, "dequantised weight", SPP_MOMENT_BACKWARD_MLP), 2 * 10240);
  expect_i64(jobs_ledger(&f, "dequantised head", SPP_MOMENT_BACKWARD_HEAD), 0);
  jobs_close(&f);
}

/* lightning 2.2.5 BitsandbytesPrecision: every Linear, quantised from fp16 */
static void a_head_may_be_quantised_and_unpacked_twice(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_parse(&f, JOBS_TINY), 32);
  f.job.method = SPP_METHOD_QLORA;
  f.job.quant = SPP_QUANT_NF4;
  f.framework.quantises_head = f.framework.quantises_half = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP),
             2 * (51200 / 2 + 2 * (192 + 128)) + 2 * (16384 + 64) + 16384 / 2);
  expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP),
             2 * 4 * 51200 / 64 + 4 * 16384 / 64);
  /* fp16, and the bf16 copy that the product reads */
  expect_i64(jobs_ledger(&f, "dequantised weight", SPP_MOMENT_BACKWARD_MLP), 2 * 2 * 10240);
  expect_i64(jobs_ledger(&f, "dequantised head", SPP_MOMENT_BACKWARD_HEAD), 2 * 2 * 16384);
  expect_i64(jobs_ledger(&f, "dequantised head", SPP_MOMENT_LOSS), 0);
  f.job.dtype = SPP_DTYPE_FP16;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "dequantised head", SPP_MOMENT_BACKWARD_HEAD), 2 * 16384);
  jobs_close(&f);
}

/* Llama-3.2-1B in NF4 with fp32 scales, adapters of rank 16 on q, k, v, o: fitcheck-llm 0.3.1
 * data/measurements/final-t4-20260921.json run 10 has 464 MiB packed, 58.0069 MiB of scales (58 and the code
 * tables) and 1,015.2578125 MiB unpacked in fp32, 13 MiB of them the adapters' 3,407,872 weights. */
static void what_is_not_packed_is_fp32_where_it_is_prepared_so(void **state) {
  (void)state;
  const int64_t mib = 1 << 20, adapters = 4 * INT64_C(3407872), tokens = 1024;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.2-1b"), tokens);
  f.job.method = SPP_METHOD_QLORA;
  f.job.quant = SPP_QUANT_NF4;
  f.job.lora_rank = 16;
  f.job.lora_targets = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V | SPP_LORA_O;
  f.job.dtype = SPP_DTYPE_FP16;
  f.framework.kbit_fp32 = true;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP),
             464 * mib + (1015 * mib + mib * 2578125 / 10000000) - adapters);
  expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP), 58 * mib);
  /* the embedding gives fp32, and what follows it is fp32; a product's weight is unpacked to 16 bit */
  expect_i64(jobs_ledger(&f, "layer input", SPP_MOMENT_LOSS), 16 * tokens * 2048 * 4);
  expect_i64(jobs_ledger(&f, "dequantised weight", SPP_MOMENT_BACKWARD_MLP), 2 * 8192 * 2048);
  /* attention's operands are what hidden states are, unless autocast casts them */
  f.layout.recompute = SPP_RECOMPUTE_NONE;
  f.framework.lora_autocast = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "q after RoPE", SPP_MOMENT_LOSS), 16 * tokens * 2048 * 4);
  f.framework.lora_autocast = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "q after RoPE", SPP_MOMENT_LOSS), 16 * tokens * 2048 * 2);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  f.framework.kbit_fp32 = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "layer input", SPP_MOMENT_LOSS), 16 * tokens * 2048 * 2);
  jobs_close(&f);
}

/* Llama-3.1-8B: 8,030,261,248 weights, 218,103,808 of them in a layer's matrices. */
static void autocast_keeps_a_copy_of_each_frozen_fp32_matrix(void **state) {
  (void)state;
  const int64_t matrices = 218103808;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.1-8b"), 512);
  f.job.method = SPP_METHOD_LORA;
  f.framework.loads_fp32 = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP), 4 * INT64_C(8030261248));
  expect_i64(jobs_ledger(&f, "16-bit copies of frozen weights", SPP_MOMENT_LOSS), 2 * 32 * matrices);
  expect_i64(jobs_ledger(&f, "16-bit copies of frozen weights", SPP_MOMENT_STEP), 0);
  f.layout.recompute = SPP_RECOMPUTE_FULL; /* the running layer's alone */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "16-bit copies of frozen weights", SPP_MOMENT_BACKWARD_ATTENTION), 2 * matrices);
  f.framework.loads_fp32 = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP), 2 * INT64_C(8030261248));
  jobs_close(&f);
}

/* bitsandbytes Params4bit: the packed values are the parameter, quant_state is an attribute of it */
static void scales_of_quantised_weights_are_whole_on_every_rank(void **state) {
  (void)state;
  /* llama2-7b, double quantisation: 262,144 blocks of q, k, v, o: 262,144 + 4 * 1,024 + 4; 704,512 of gate,
   * up, down: 704,512 + 4 * 2,752 + 4 */
  const int64_t scales = 32 * (4 * 266244 + 3 * 715524);
  static const enum spp_sharding schemes[] = {SPP_SHARDING_DEEPSPEED, SPP_SHARDING_FSDP};
  for (int i = 0; i < 4; i++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, "llama2-7b"), 512);
    f.job.method = SPP_METHOD_QLORA;
    f.job.quant = SPP_QUANT_NF4_DOUBLE;
    f.framework.sharding = schemes[i % 2];
    f.layout.zero = 3;
    f.layout.dp = 8;
    f.layout.offload = i < 2 ? SPP_OFFLOAD_NONE : SPP_OFFLOAD_OPTIMIZER_PARAMS;
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP), scales);
    /* 202,375,168 linear elements of a layer, its two norms, embedding and head, last norm */
    expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP),
               i < 2 ? (32 * (INT64_C(202375168) / 2 + 2 * 8192) + 2 * (2 * INT64_C(131072000) + 4096)) / 8
                     : 0);
    jobs_close(&f);
  }
}

/* torchao's NF4 tensor: scalers and factors are inner tensors, cut with the data and moved with it */
static void scales_that_are_part_of_a_parameter_are_sharded(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama2-7b"), 512);
  f.job.method = SPP_METHOD_QLORA;
  f.job.quant = SPP_QUANT_NF4_DOUBLE;
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.framework.shards_scales = true;
  f.layout.zero = 3;
  f.layout.dp = 8;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP),
             4 * (4 * 266244 + 3 * 715524)); /* an eighth of the 32 layers of the test above */
  f.layout.offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "scales of quantised weights", SPP_MOMENT_STEP), 0);
  jobs_close(&f);
}

/* Qwen3-30B-A3B: 128 experts of 3 x 2,048 x 768, of which gate and up are one tensor, two thirds */
static void experts_of_one_tensor_are_unpacked_whole(void **state) {
  (void)state;
  static const int64_t layer = INT64_C(128) * 3 * 2048 * 768;
  static const struct {
    enum spp_method method;
    enum spp_quant quant;
    unsigned targets;
    int64_t whole, gradient; /* bytes an element */
  } cases[] = {{SPP_METHOD_QLORA, SPP_QUANT_NF4_DOUBLE, SPP_LORA_Q, 2, 0},
               {SPP_METHOD_QLORA, SPP_QUANT_NF4_DOUBLE, SPP_LORA_ALL_LINEAR, 2, 2},
               {SPP_METHOD_QLORA, SPP_QUANT_INT8, SPP_LORA_Q, 4, 0},
               {SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_Q, 0, 0},
               {SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_DOWN, 2, 2}};
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen3-30b-a3b"), 512);
  f.framework.fused_experts = true;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    f.job.method = cases[i].method;
    f.job.quant = cases[i].quant;
    f.job.lora_targets = cases[i].targets;
    f.layout.recompute = SPP_RECOMPUTE_FULL;
    jobs_predict(&f);
    expect_note("case %zu", i);
    expect_i64(jobs_ledger(&f, "a layer's experts", SPP_MOMENT_BACKWARD_MLP), cases[i].whole * layer);
    expect_i64(jobs_ledger(&f, "a layer's experts", SPP_MOMENT_LOSS), 0);
    expect_i64(jobs_ledger(&f, "gradient of adapted experts", SPP_MOMENT_BACKWARD_MLP),
               cases[i].gradient * layer * 2 / 3);
    f.layout.recompute = SPP_RECOMPUTE_NONE; /* every layer's product has saved its own */
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "a layer's experts", SPP_MOMENT_LOSS), cases[i].whole * layer * 48);
  }
  jobs_close(&f);
}

/* fsdp2_prepare_model of axolotl 0.19.0 holds the whole state while it is cut */
static void a_packed_model_is_on_every_rank_until_it_is_sharded(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_parse(&f, JOBS_TINY), 32);
  f.job.method = SPP_METHOD_QLORA;
  f.job.quant = SPP_QUANT_NF4;
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.framework.loads_packed_whole = true;
  f.layout.zero = 3;
  f.layout.dp = 4;
  jobs_predict(&f);
  int64_t frozen = 2 * (51200 / 2 + 2 * (192 + 128)) + 2 * (2 * 16384 + 64); /* as counted above */
  expect_i64(jobs_ledger(&f, "packed model at load", SPP_MOMENT_LOAD), frozen);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_LOAD), frozen / 4);
  f.layout.dp = 1; /* nothing is sharded over one rank */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "packed model at load", SPP_MOMENT_LOAD), 0);
  jobs_close(&f);
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
      cmocka_unit_test(nf4_holds_half_a_byte_and_its_scales),
      cmocka_unit_test(eight_bit_adam_leaves_small_tensors_in_fp32),
      cmocka_unit_test(galore_keeps_moments_at_rank_and_one_projector),
      cmocka_unit_test(optimizers_differ_by_matrix),
      cmocka_unit_test(the_distributed_optimizer_keeps_seven_and_a_half_bytes_over_eight_ranks),
      cmocka_unit_test(in_fp32_weights_are_their_own_master),
      cmocka_unit_test(zero_stages_shard_what_the_estimators_say),
      cmocka_unit_test(zero3_gathers_the_whole_head_and_its_gradient),
      cmocka_unit_test(adapters_alone_are_trained),
      cmocka_unit_test(fp32_adapters_are_their_own_master),
      cmocka_unit_test(frozen_weights_are_sharded_by_stage_three_only),
      cmocka_unit_test(quantised_linears_leave_head_embedding_and_norms_alone),
      cmocka_unit_test(a_head_may_be_quantised_and_unpacked_twice),
      cmocka_unit_test(what_is_not_packed_is_fp32_where_it_is_prepared_so),
      cmocka_unit_test(autocast_keeps_a_copy_of_each_frozen_fp32_matrix),
      cmocka_unit_test(scales_of_quantised_weights_are_whole_on_every_rank),
      cmocka_unit_test(scales_that_are_part_of_a_parameter_are_sharded),
      cmocka_unit_test(experts_of_one_tensor_are_unpacked_whole),
      cmocka_unit_test(a_packed_model_is_on_every_rank_until_it_is_sharded),
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
