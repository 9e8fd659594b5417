/* What the host needs to launch a step, in launches of a second. */
#include "tests/model/timing_bench.h"

/* A host that takes a second for each launch, 32 layers, one forward and one backward: 9 launches for each of
 * 8 ring steps, 6 for each of 4 all-to-alls, 40 for each module recomputed by itself. */
static void exchanges_and_checkpoints_cost_the_host_their_launches(void **state) {
  static const struct {
    int64_t ulysses, ring;
    unsigned modules;
    double launches;
  } rows[] = {{1, 1, 0, 55},
              {1, 8, 0, 55 + 8 * 9},
              {8, 1, 0, 55 + 4 * 6},
              {4, 2, 0, 55 + 2 * 9 + 4 * 6},
              {1, 1, SPP_RC_CORE_ATTN | SPP_RC_MLP | SPP_RC_MOE, 55 + 2 * 40}};
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 8192, 8);
  b.framework.ring_needs_packing = false;
  bench_model(&b, "llama3.1-8b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = rows[i].modules ? SPP_RECOMPUTE_SELECTIVE : SPP_RECOMPUTE_NONE;
    layout.recompute_modules = rows[i].modules;
    layout.zero = 0;
    layout.ulysses = rows[i].ulysses;
    layout.ring = rows[i].ring;
    layout.dp = 8 / rows[i].ulysses / rows[i].ring;
    layout.grad_accum = rows[i].ulysses * rows[i].ring;
    layout.sp_kind = rows[i].ring > 1 ? rows[i].ulysses > 1 ? SPP_SP_HYBRID : SPP_SP_RING : SPP_SP_ULYSSES;
    double micro_batches = (double)layout.grad_accum;
    expect_note("Ulysses %d, ring %d", (int)rows[i].ulysses, (int)rows[i].ring);
    expect_rel(run(&b, &layout).time.step_s, micro_batches * 2 * 32 * rows[i].launches, 0.02);
  }
  bench_close(&b);
}

/* Llama: 30 launches of a fused layer, and 5 for each of four gathers and scatters, or two sums without
 * sequence parallelism. Qwen3-30B: 250 for the experts, whose part has no gather and no scatter. Moonlight's
 * kind, DeepSeek-V3's layers: 30 for latent attention, which gathers three times; shared experts are a part.
 */
static void tensor_parallel_exchanges_cost_the_host_their_launches(void **state) {
  static const struct {
    const char *model;
    bool sp;
    int64_t layers, dense;
    double launches, of_dense;
  } rows[] = {{"llama3.1-8b", true, 32, 32, 0, 30 + 4 * 5},
              {"llama3.1-8b", false, 32, 32, 0, 30 + 2 * 5},
              {"qwen3-30b-a3b", true, 48, 0, 30 + 250 + 2 * 5, 0},
              {"deepseek-v3", true, 61, 3, 30 + 30 + 250 + 6 * 5, 30 + 30 + 6 * 5}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, "megatron-lm", 8, 4096, 4);
    bench_model(&b, rows[i].model);
    b.framework.host_s_per_layer = 30;
    b.framework.host_s_per_step = 0;
    struct spp_request request = request_of(2, 1, 1, 1);
    request.megatron_sp = rows[i].sp;
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = SPP_RECOMPUTE_NONE;
    double moe = (double)(rows[i].layers - rows[i].dense);
    expect_note("%s", rows[i].model);
    expect_rel(run(&b, &layout).time.step_s,
               2 * (moe * rows[i].launches + (double)rows[i].dense * rows[i].of_dense), 0.02);
    bench_close(&b);
  }
}

/* As above, in launches of a layer: 11 for each adapted linear of 7, as many for q and v alone as there are
 * two; unpacking a 4-bit weight 4 each way, 7 with two scales, 18 and none where autograd keeps it. */
static void adapters_and_packed_weights_cost_the_host_by_the_module(void **state) {
  static const struct {
    enum spp_method method;
    enum spp_quant quant;
    unsigned targets;
    double forward, backward;
  } rows[] = {{SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_ALL_LINEAR, 55 + 7 * 11, 55 + 7 * 11},
              {SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_Q | SPP_LORA_V, 55 + 2 * 11, 55 + 2 * 11},
              {SPP_METHOD_QLORA, SPP_QUANT_NF4, SPP_LORA_Q, 55 + 11 + 7 * 4, 55 + 11 + 7 * 4},
              {SPP_METHOD_QLORA, SPP_QUANT_NF4_DOUBLE, SPP_LORA_Q, 55 + 11 + 7 * 7, 55 + 11 + 7 * 7},
              {SPP_METHOD_QLORA, SPP_QUANT_GPTQ4, SPP_LORA_Q, 55 + 11 + 7 * 18, 55 + 11}};
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 512, 8);
  bench_model(&b, "llama3.1-8b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = SPP_RECOMPUTE_NONE;
    layout.zero = 0;
    b.job.method = rows[i].method;
    b.job.quant = rows[i].quant;
    b.job.lora_rank = 8;
    spp_model_sums_count(b.job.arch, rows[i].targets, &b.job.sums);
    expect_note("row %d", (int)i);
    expect_rel(run(&b, &layout).time.step_s, 32 * (rows[i].forward + rows[i].backward), 0.02);
    layout.recompute = SPP_RECOMPUTE_FULL; /* a checkpoint's 40 in each of three passes */
    expect_rel(run(&b, &layout).time.step_s, 32 * (2 * rows[i].forward + rows[i].backward + 120), 0.02);
  }
  bench_close(&b);
}

/* In launches of a second: 60 for the unit of FSDP that a layer is, in each of two passes, as many for each A
 * and B of 7 adapted linears where they are units; 5 for each of 9 gradients handed to ZeRO-2, in backward
 * alone. */
static void hooks_of_sharded_states_cost_the_host_their_launches(void **state) {
  static const struct {
    const char *framework;
    int zero;
    bool adapters, units;
    double both_passes;
  } rows[] = {{"fsdp2", 0, false, false, 2 * 55},
              {"fsdp2", 3, false, false, 2 * (55 + 60)},
              {"fsdp2", 3, true, false, 2 * (55 + 77 + 60)},
              {"fsdp2", 3, true, true, 2 * (55 + 77 + 60 * 15)},
              {"deepspeed", 2, false, false, 2 * 55 + 5 * 9},
              {"deepspeed", 2, true, false, 2 * (55 + 77) + 5 * 14}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, rows[i].framework, 8, 512, 8);
    bench_model(&b, "llama3.1-8b");
    b.framework.host_s_per_layer = 55;
    b.framework.host_s_per_step = 0;
    b.framework.adapters_are_units = rows[i].units;
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = SPP_RECOMPUTE_NONE;
    layout.zero = rows[i].zero;
    b.job.method = rows[i].adapters ? SPP_METHOD_LORA : SPP_METHOD_FULL;
    b.job.lora_rank = 8;
    spp_model_sums_count(b.job.arch, rows[i].adapters ? SPP_LORA_ALL_LINEAR : 0, &b.job.sums);
    expect_note("row %d", (int)i);
    expect_rel(run(&b, &layout).time.step_s, 32 * rows[i].both_passes, 0.02);
    bench_close(&b);
  }
}

/* 48 layers of 128 experts, 15 launches of a second for each expert; under ZeRO-3 30 more for each of its
 * three linears. The device waits for those of the forward, one expert after the other: it is busy for as
 * long. */
static void a_loop_over_experts_makes_the_device_wait(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 512, 8);
  bench_model(&b, "qwen3-30b-a3b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  for (int zero = 0; zero <= 3; zero += 3) {
    /* two norms, q, k, v, o and the router beside the experts */
    double expert = 15 + (zero == 3 ? 3 * 30 : 0), rest = 55 + (zero == 3 ? 7 * 30 : 0);
    layout.zero = zero;
    struct spp_time t = run(&b, &layout).time;
    expect_rel(t.step_s, 48 * 2 * (rest + 128 * expert), 0.02);
    expect_rel(t.compute_s, 48 * 128 * expert, 0.02);
  }
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exchanges_and_checkpoints_cost_the_host_their_launches),
      cmocka_unit_test(tensor_parallel_exchanges_cost_the_host_their_launches),
      cmocka_unit_test(adapters_and_packed_weights_cost_the_host_by_the_module),
      cmocka_unit_test(hooks_of_sharded_states_cost_the_host_their_launches),
      cmocka_unit_test(a_loop_over_experts_makes_the_device_wait),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
