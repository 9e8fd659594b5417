/* Adapters and the frozen weights beside them, packed or not, against worked numbers. */
#include "tests/model/states_case.h"

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

/* Megatron's linear_qkv and linear_fc1: one A for q, k, v and one for gate, up (ms-swift 3.9.3
 * megatron/tuners/lora.py). */
static void linears_that_are_one_module_have_one_adapter(void **state) {
  (void)state;
  struct jobs_fixture f;
  struct spp_state_counts counts;
  open_qwen7b(&f, 0);
  f.job.method = SPP_METHOD_LORA;
  f.framework.joined_adapters = true;
  jobs_predict(&f);
  spp_states_count_layer(&f.job, &f.layout, &f.geometry, 0, &counts);
  /* 8*(3584 + 3584 + 2*512 + 2*3584 + 3584 + 2*18944 + 18944 + 3584) */
  expect_i64(counts.trainable, 634880);
  jobs_close(&f);
}

/* A token's dropped copy and mask, 3 bytes an element of the input, and A x, 8 elements: two less for q, k, v
 * and one for gate, up. */
static void one_adapter_keeps_one_input(void **state) {
  (void)state;
  struct jobs_fixture f;
  int64_t kept[2];
  for (int joined = 0; joined < 2; joined++) {
    jobs_open(&f);
    jobs_train(&f, jobs_parse(&f, JOBS_TINY), 128);
    f.job.method = SPP_METHOD_LORA;
    f.job.lora_dropout = 0.05;
    f.framework.joined_adapters = joined == 1;
    jobs_predict(&f);
    kept[joined] = f.memory.kept_bytes[0];
    jobs_close(&f);
  }
  expect_i64(kept[0] - kept[1], 128 * 3 * (3 * 64 + 2 * 8));
}

/* A grouped linear of Megatron-Bridge has one adapter, whatever its experts (megatron-bridge 0.3.1
 * peft/lora.py). */
static void experts_of_a_rank_may_share_an_adapter(void **state) {
  (void)state;
  struct jobs_fixture f;
  struct spp_state_counts counts;
  for (int shared = 0; shared < 2; shared++) {
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, "qwen3-30b-a3b"), 512);
    f.job.method = SPP_METHOD_LORA;
    f.framework.joined_adapters = true;
    f.framework.shared_expert_adapters = shared == 1;
    jobs_predict(&f);
    spp_states_count_layer(&f.job, &f.layout, &f.geometry, 0, &counts);
    expect_i64(counts.trainable, 8 * (2048 + 5120 + 4096 + 2048));
    expect_i64(counts.trainable_expert, (shared ? 1 : 128) * 8 * (2048 + 2 * 768 + 768 + 2048));
    jobs_close(&f);
  }
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
  expect_i64(jobs_ledger(&f, "16-bit copy of the head", SPP_MOMENT_LOSS), INT64_C(2) * 128256 * 4096);
  f.layout.recompute = SPP_RECOMPUTE_FULL; /* the running layer's alone */
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "16-bit copies of frozen weights", SPP_MOMENT_BACKWARD_ATTENTION), 2 * matrices);
  expect_i64(jobs_ledger(&f, "layer input", SPP_MOMENT_LOSS), INT64_C(32) * 512 * 4096 * 4); /* fp32 stream */
  f.framework.loads_fp32 = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP), 2 * INT64_C(8030261248));
  jobs_close(&f);
}

/* The stream is fp32: norms keep 4 bytes, and the cast of what they give is made anew for q, k and v, and for
 * gate and up (autocast caches leaves alone), each kept for the gradient of its weight. The last norm's
 * output is read once. Recomputed layers have saved no casts of their weights when the loss works. */
static void autocast_casts_what_a_norm_gives_for_each_product(void **state) {
  (void)state;
  const int64_t row = INT64_C(512) * 4096;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.1-8b"), 512);
  f.framework.loads_fp32 = true;
  f.layout.zero = 0;
  for (int i = 0; i < 4; i++)
    f.framework.states[i].weight_bytes = 4;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "input norm: output", SPP_MOMENT_LOSS), 32 * 3 * 2 * row);
  expect_i64(jobs_ledger(&f, "post-attention norm: output", SPP_MOMENT_LOSS), 32 * 2 * 2 * row);
  expect_i64(jobs_ledger(&f, "16-bit weight copies", SPP_MOMENT_LOSS), 2 * 32 * INT64_C(218103808));
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "16-bit weight copies", SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_ledger(&f, "16-bit copy of the head", SPP_MOMENT_LOSS), INT64_C(2) * 128256 * 4096);
  jobs_close(&f);
}

/* zero_grad(set_to_none=False) leaves the last step's gradients where they are; set to None they come with
 * the backward. Moments of 16 bit have a foreach list of square roots too, as wide as one. */
static void a_loop_that_zeroes_keeps_gradients_in_the_loss(void **state) {
  (void)state;
  const int64_t weights = INT64_C(8030261248);
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.1-8b"), 512);
  f.framework.sharding = SPP_SHARDING_NONE;
  f.layout.zero = 0;
  f.layout.grad_accum = 1;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_LOSS), 0);
  f.framework.zeroes_gradients = true;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_LOSS),
             jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_STEP));
  f.job.optimizer = SPP_OPTIMIZER_ADAMW_BF16;
  f.framework.optimizer_foreach = true;
  f.framework.optimizer_fused = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "square roots of the second moments", SPP_MOMENT_STEP), 2 * weights);
  f.framework.optimizer_fused = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "square roots of the second moments", SPP_MOMENT_STEP), 0);
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

/* transformers 5.24 with bitsandbytes and peft's preparation: 48 layers of 603,979,776 expert elements in
 * fp32. What the adapters are folded into is of that type too; nothing is unpacked. */
static void experts_that_are_no_linear_modules_are_not_packed(void **state) {
  (void)state;
  static const int64_t layer = INT64_C(128) * 3 * 2048 * 768;
  struct jobs_fixture f, packed;
  jobs_open(&packed);
  jobs_train(&packed, jobs_load(&packed, "qwen3-30b-a3b"), 512);
  packed.framework.kbit_fp32 = packed.framework.fused_experts = true;
  packed.framework.lora_autocast = false;
  packed.job.method = SPP_METHOD_QLORA;
  packed.job.quant = SPP_QUANT_NF4;
  packed.job.lora_targets = SPP_LORA_ALL_LINEAR;
  packed.layout.recompute = SPP_RECOMPUTE_FULL;
  f = packed;
  jobs_predict(&packed);
  f.job.framework = &f.framework;
  f.framework.unpacked_experts = true;
  for (int k = 0; k < f.job.arch->kind_count; k++)
    f.job.sums.kinds[k].quantised_expert = f.job.sums.kinds[k].quantised_expert_modules = 0;
  jobs_predict(&f);
  int64_t more = jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP) -
                 jobs_ledger(&packed, "frozen weights", SPP_MOMENT_STEP);
  expect_i64(more, 48 * (4 * layer - layer / 2)); /* fp32 instead of half a byte, scales apart */
  expect_i64(jobs_ledger(&f, "a layer's experts", SPP_MOMENT_BACKWARD_MLP), 4 * layer);
  jobs_close(&packed);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nf4_holds_half_a_byte_and_its_scales),
      cmocka_unit_test(adapters_alone_are_trained),
      cmocka_unit_test(linears_that_are_one_module_have_one_adapter),
      cmocka_unit_test(one_adapter_keeps_one_input),
      cmocka_unit_test(experts_of_a_rank_may_share_an_adapter),
      cmocka_unit_test(fp32_adapters_are_their_own_master),
      cmocka_unit_test(frozen_weights_are_sharded_by_stage_three_only),
      cmocka_unit_test(quantised_linears_leave_head_embedding_and_norms_alone),
      cmocka_unit_test(a_head_may_be_quantised_and_unpacked_twice),
      cmocka_unit_test(what_is_not_packed_is_fp32_where_it_is_prepared_so),
      cmocka_unit_test(autocast_keeps_a_copy_of_each_frozen_fp32_matrix),
      cmocka_unit_test(autocast_casts_what_a_norm_gives_for_each_product),
      cmocka_unit_test(a_loop_that_zeroes_keeps_gradients_in_the_loss),
      cmocka_unit_test(scales_of_quantised_weights_are_whole_on_every_rank),
      cmocka_unit_test(scales_that_are_part_of_a_parameter_are_sharded),
      cmocka_unit_test(experts_of_one_tensor_are_unpacked_whole),
      cmocka_unit_test(experts_that_are_no_linear_modules_are_not_packed),
      cmocka_unit_test(a_packed_model_is_on_every_rank_until_it_is_sharded),
  };
  int failed = cmocka_run_group_tests_name("states of frozen weights", tests, NULL, NULL);
  return failed != 0;
}
