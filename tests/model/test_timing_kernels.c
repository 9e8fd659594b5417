/* What adapters, packed weights and experts add to a step: products, casts, exchanges. */
#include "model/collective.h"
#include "tests/model/timing_bench.h"

/* 1e15 FLOP/s in 16 bit and 1e14 in fp32: attention takes ten times as long, and so do the head's two
 * products (forward, gradient of the input; it is frozen) of 1,024 tokens, 2,048 and 128,256; packed matrices
 * are multiplied in 16 bit. */
static void a_base_prepared_in_fp32_pays_for_attention_and_head(void **state) {
  (void)state;
  struct bench b;
  bench_open(&b, "hf-peft", 1, 1024, 1);
  bench_model(&b, "llama3.2-1b");
  b.job.method = SPP_METHOD_QLORA;
  make_ideal(&b, 1e15);
  b.gpu.flops_per_s[SPP_DTYPE_FP32] = 1e14;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  struct spp_time wide = run(&b, &layout).time;
  b.framework.kbit_fp32 = false;
  struct spp_time narrow = run(&b, &layout).time;
  double head_s = 2 * 2.0 * 1024 * 2048 * 128256;
  expect_rel(wide.attention_s / narrow.attention_s, 10, 1e-9);
  expect_rel(wide.compute_s - narrow.compute_s, head_s * (1e-14 - 1e-15), 1e-6);
  bench_close(&b);
}

/* Rank 16 on q, k, v, o of 16 layers: widths 4,096, 2,560, 2,560, 4,096; A and B once forward and twice
 * backward at 1e14 FLOP/s, when no autocast makes them 16 bit, too narrow to count. */
static void fp32_adapters_multiply_in_fp32_without_autocast(void **state) {
  (void)state;
  struct bench b;
  bench_open(&b, "hf-peft", 1, 1024, 1);
  bench_model(&b, "llama3.2-1b");
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 16;
  b.job.lora_targets = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V | SPP_LORA_O;
  spp_model_sums_count(b.job.arch, b.job.lora_targets, &b.job.sums);
  make_ideal(&b, 1e15);
  b.gpu.flops_per_s[SPP_DTYPE_FP32] = 1e14;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.zero = 0;
  layout.recompute = SPP_RECOMPUTE_NONE;
  struct spp_time wide = run(&b, &layout).time;
  b.framework.lora_autocast = true;
  struct spp_time narrow = run(&b, &layout).time;
  expect_rel(wide.compute_s - narrow.compute_s, 16 * 3 * 2.0 * 1024 * 16 * (2 * 4096 + 2 * 2560) / 1e14,
             1e-6);
  bench_close(&b);
}

/* 32 layers of 218,103,808 weights, 4 bits read and 16 written before each product; vLLM's GPTQ products read
 * the packed weights. */
static void weights_that_are_served_packed_are_unpacked_where_the_code_does(void **state) {
  static const struct {
    const char *framework;
    enum spp_quant quant;
    double bytes;
  } rows[] = {
      {"hf-generate", SPP_QUANT_NF4, 2.5}, {"vllm", SPP_QUANT_NF4, 2.5}, {"vllm", SPP_QUANT_GPTQ4, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, rows[i].framework, 1, 512, 1);
    bench_model(&b, "llama3.1-8b");
    b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
    b.job.quant = rows[i].quant;
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    double plain = run(&b, &layout).time.compute_s;
    b.job.serves_quantised = true;
    double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_EAGER];
    expect_note("%s, row %d", rows[i].framework, (int)i);
    expect_near(run(&b, &layout).time.compute_s - plain, 32 * 218103808.0 * rows[i].bytes / bandwidth, 1e-9);
    bench_close(&b);
  }
}

/* Each of 32 layers gathers 14 matrices of adapters more, one by one: 8 x 4,096 elements of 16 bit, 7/8 of
 * them from other ranks. */
static void adapters_that_are_units_are_gathered_one_by_one(void **state) {
  struct bench b;
  double gather_s[2] = {0, 0};
  (void)state;
  bench_open(&b, "fsdp2", 8, 512, 8);
  bench_model(&b, "llama3.1-8b");
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 8;
  spp_model_sums_count(b.job.arch, SPP_LORA_ALL_LINEAR, &b.job.sums);
  struct spp_request request = request_of(1, 1, 1, 1);
  request.zero = 3;
  struct spp_layout layout = layout_of(&b, &request);
  for (int units = 0; units < 2; units++) {
    b.framework.adapters_are_units = units;
    struct result r = run(&b, &layout);
    for (int i = 0; i < r.comm.count; i++)
      if (r.comm.ops[i].op == SPP_ALL_GATHER && r.comm.ops[i].pass == SPP_PASS_FORWARD)
        gather_s[units] += r.comm.ops[i].time_s;
  }
  double each = spp_collective_s(&b.gpu, &b.cluster, &b.calib, SPP_ALL_GATHER, 8, 1, 8 * 4096 * 2 * 7.0 / 8);
  expect_rel(gather_s[1] - gather_s[0], 32 * 14 * each, 1e-9);
  bench_close(&b);
}

/* Without experts' casts FP8 would cost a layer of experts nothing beyond its products: 4 bytes an element of
 * the rows that go into three products and of the gradients that come back from them. */
static void fp8_casts_the_rows_of_experts(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-lm", 8, 4096, 8);
  bench_model(&b, "qwen3-30b-a3b");
  b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
  b.gpu.flops_per_s[SPP_DTYPE_FP8] = b.gpu.flops_per_s[SPP_DTYPE_BF16];
  b.calib.gemm.memory_efficiency = 1e9; /* operands of half the bytes save nothing */
  b.calib.gemm_fp8 = b.calib.gemm;
  b.calib.launch_s = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  request.ep = 8;
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  double plain = run(&b, &layout).time.compute_s;
  b.job.dtype = SPP_DTYPE_FP8; /* at the rate of 16 bit, so that only casts are added */
  double fp8 = run(&b, &layout).time.compute_s;
  /* rows of 8 experts a token: 2048 in and 1536 out of gate and up, 768 and 2048 of down; q, k, v: 2048 and
   * 5120; o: 4096 and 2048; router: 2048 and 128 */
  double elements = 4096.0 * (8 * (2048 + 1536 + 768 + 2048) + 2048 + 5120 + 4096 + 2048 + 2048 + 128);
  double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_ACTIVATION];
  expect_rel(fp8 - plain, 48 * 4 * elements / bandwidth, 0.01);
  b.job.fp4 = true; /* read three times, written twice in 9/16 byte */
  b.job.fp4_layers = 48;
  b.gpu.flops_per_s[SPP_DTYPE_NVFP4] = b.gpu.flops_per_s[SPP_DTYPE_FP8];
  expect_rel(run(&b, &layout).time.compute_s - plain, 48 * 7.125 * elements / bandwidth, 0.01);
  bench_close(&b);
}

/* Megatron-LM lays one micro-batch's exchanges beside everything another one computes, others beside their
 * own products: a link so slow that products hide little leaves less in view. */
static void exchanges_of_experts_hide_under_another_micro_batch(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-lm", 8, 4096, 64);
  bench_model(&b, "qwen3-30b-a3b");
  b.job.overlap = 1;
  b.framework.host_s_per_layer = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  request.ep = 8;
  struct spp_layout layout = layout_of(&b, &request);
  expect_rel(run(&b, &layout).time.ep_exposed_s, 0, 1e-12);
  b.framework.sharding = SPP_SHARDING_FSDP;
  b.calib.link[SPP_ALL_TO_ALL].link_share /= 2;
  double beside_products_s = run(&b, &layout).time.ep_exposed_s;
  b.framework.sharding = SPP_SHARDING_MEGATRON;
  expect_true(run(&b, &layout).time.ep_exposed_s < 0.5 * beside_products_s);
  bench_close(&b);
}

/* 65,536 routed rows of 2,880: 28 bytes an element forward and 36 backward for the bias of the last product.
 */
static void biases_of_experts_are_added_apart(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-bridge", 8, 16384, 8);
  bench_model(&b, "gpt-oss-120b");
  b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
  b.calib.launch_s = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  request.ep = 8;
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  double with = run(&b, &layout).time.compute_s;
  b.arch.expert_bias = false;
  double elements = 4.0 * 16384 * 2880;
  double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_EAGER];
  expect_rel(with - run(&b, &layout).time.compute_s, 36 * (28 + 36) * elements / bandwidth, 1e-6);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adapters_that_are_units_are_gathered_one_by_one),
      cmocka_unit_test(weights_that_are_served_packed_are_unpacked_where_the_code_does),
      cmocka_unit_test(fp8_casts_the_rows_of_experts),
      cmocka_unit_test(exchanges_of_experts_hide_under_another_micro_batch),
      cmocka_unit_test(biases_of_experts_are_added_apart),
      cmocka_unit_test(a_base_prepared_in_fp32_pays_for_attention_and_head),
      cmocka_unit_test(fp32_adapters_multiply_in_fp32_without_autocast),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
