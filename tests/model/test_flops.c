#include <string.h>

#include "model/timing.h"
#include "tests/expect.h"

/* TINY: hidden 64, ffn 160, 2 layers, 8 query and 2 KV heads of 16, vocabulary 256, untied, qkv bias. Matrix
 * elements a token meets: q 128 x 64, k and v 32 x 64, o 64 x 128 = 20,480; gate, up, down 3 x 64 x 160 =
 * 30,720; two layers and the head 256 x 64: 2 (20,480 + 30,720) + 16,384 = 118,784. */
static struct spp_arch tiny_arch(void) {
  struct spp_arch a = {.layers = 2,
                       .hidden = 64,
                       .ffn = 160,
                       .heads = 8,
                       .kv_heads = 2,
                       .head_dim = 16,
                       .vocab = 256,
                       .qkv_bias = true,
                       .norms_per_layer = 2,
                       .kind_count = 1};
  a.kinds[0].count = 2;
  return a;
}

struct bench {
  struct spp_arch arch;
  struct spp_framework framework;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry geometry;
};
static void bench_init(struct bench *b, struct spp_arch arch, double gemm_per_token, int64_t tokens) {
  memset(b, 0, sizeof *b);
  b->arch = arch;
  b->job.arch = &b->arch;
  b->job.framework = &b->framework;
  b->job.params.gemm_per_token = (int64_t)gemm_per_token;
  b->job.params.per_layer_attention = 20480;
  b->job.params.per_dense_mlp = 30720;
  b->layout = (struct spp_layout){.tp = 1, .pp = 1, .dp = 1, .recompute_layers = SPP_UNSET};
  b->geometry = (struct spp_geometry){.m = 1,
                                      .dp = 1,
                                      .su = 1,
                                      .sr = 1,
                                      .sequences = 1,
                                      .padded_tokens = tokens,
                                      .real_tokens = tokens,
                                      .attention_pairs = (double)tokens * (double)tokens};
}
struct flops {
  double causal, full, hardware;
};
static struct flops count(const struct bench *b) {
  struct flops f;
  spp_flops_count(&b->job, &b->layout, &b->geometry, &f.causal, &f.full, &f.hardware);
  return f;
}

/* 6 N S = 6 x 118,784 x 32 = 22,806,528; attention 3 x 2 x 32^2 x 128 x 2 layers = 1,572,864 (causal), twice
 * that full. */
static void tiny_counts_match_the_hand_computed_ones(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  struct flops f = count(&b);
  expect_rel(f.causal, 22806528.0 + 1572864.0, 0);
  expect_rel(f.full, 22806528.0 + 2 * 1572864.0, 0);
  /* flash backward runs 5 products for the forward's 2: half a forward more than the model's twice */
  expect_rel(f.hardware, 22806528.0 + 1572864.0 * 3.5 / 3, 1e-15);
}

/* Qwen2.5-7B at 32,768 tokens: 6 N = 42,421,714,944 and 6 dq S L = 19,730,006,016 (causal) FLOPs per token,
 * ratio 0.4651; 2036.6 TFLOP a sequence. N: 28 (3584 (3584 + 2 x 512) + 3584^2 + 3 x 3584 x 18944) + 152064 x
 * 3584 = 7,070,285,824. */
static void qwen_7b_at_32k_matches_the_hand_computed_ratio(void **state) {
  struct bench b;
  struct spp_arch a = {.layers = 28,
                       .hidden = 3584,
                       .ffn = 18944,
                       .heads = 28,
                       .kv_heads = 4,
                       .head_dim = 128,
                       .vocab = 152064,
                       .kind_count = 1};
  double weights = 28.0 * (3584.0 * (3584 + 1024) + 3584.0 * 3584 + 3 * 3584.0 * 18944) + 152064.0 * 3584;
  (void)state;
  a.kinds[0].count = 28;
  bench_init(&b, a, weights, 32768);
  struct flops f = count(&b);
  double attention = f.full - f.causal;
  expect_rel((f.causal - attention) / 32768, 42421714944.0, 1e-15);
  expect_rel(attention / 32768, 19730006016.0, 1e-15);
  expect_rel(attention / (f.causal - attention), 0.4651, 1e-4);
  double full = f.full - (f.causal - attention); /* 12 dq S L */
  expect_rel(full / 32768, 39460012032.0, 1e-15);
  expect_rel(full / (f.causal - attention), 0.9302, 1e-4);
  expect_rel(f.causal, 2036.6e12, 1e-4);
}

/* Full recompute repeats the layers' forward (8 N in all, the head apart) and the attention forward: 4.5
 * forwards of 3. */
static void full_recompute_repeats_the_layers_but_not_the_head(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  double plain = count(&b).hardware;
  b.layout.recompute = SPP_RECOMPUTE_FULL;
  expect_rel(count(&b).hardware - plain, 2.0 * (118784 - 16384) * 32 + 1572864.0 / 3, 1e-12);
  expect_rel(count(&b).causal, 22806528.0 + 1572864.0, 0);
  b.layout.recompute_layers = 1; /* of two */
  expect_rel(count(&b).hardware - plain, 0.5 * (2.0 * (118784 - 16384) * 32 + 1572864.0 / 3), 1e-12);
  b.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  b.layout.recompute_modules = SPP_RC_CORE_ATTN;
  expect_rel(count(&b).hardware - plain, 1572864.0 / 3, 1e-12);
}

/* Of q, k, v, o, gate, up, down the second, fourth and sixth run again: (2048 + 8192 + 10240) of 51,200; with
 * q, k, v as one, o and up: (8192 + 10240). FP8 products: all, or none where the list names them; NVFP4 ones:
 * all. */
static void op_level_recompute_repeats_every_second_product(void **state) {
  static const struct {
    bool fused, fp8, keeps, fp4;
    double again;
  } rows[] = {{false, false, false, false, 20480},
              {true, false, false, false, 18432},
              {false, true, false, false, 51200},
              {true, true, true, false, 0},
              {true, true, true, true, 51200}};
  static const int64_t shapes[7][2] = {{128, 64}, {32, 64},  {32, 64}, {64, 128},
                                       {160, 64}, {160, 64}, {64, 160}};
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  struct spp_layer_kind *kind = &b.arch.kinds[0];
  kind->weight_count = 7;
  for (int i = 0; i < 7; i++)
    kind->weights[i] = (struct spp_weight){.role = i < 4 ? SPP_ROLE_ATTENTION : SPP_ROLE_MLP,
                                           .split = i == 3 || i == 6 ? SPP_SPLIT_INPUT : SPP_SPLIT_OUTPUT,
                                           .rows = shapes[i][0],
                                           .cols = shapes[i][1],
                                           .copies = 1,
                                           .linear = true};
  double plain = count(&b).hardware;
  b.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  b.framework.selective_is_op_level = true;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    b.framework.fuses_qkv = rows[i].fused;
    b.framework.selective_keeps_fp8 = rows[i].keeps;
    b.job.dtype = rows[i].fp8 ? SPP_DTYPE_FP8 : SPP_DTYPE_BF16;
    b.job.fp4 = rows[i].fp4;
    expect_note("row %d", (int)i);
    expect_rel(count(&b).hardware - plain, rows[i].again / 51200 * 2.0 * (118784 - 16384) * 32, 1e-12);
  }
}

/* A frozen base has no weight gradients: 4 N, attention as before; adapters of rank 4 on 100 input + output
 * features per layer add 6 x 2 x 4 x 100 per token. */
static void lora_skips_the_weight_gradients_of_the_base(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 4;
  b.job.sums.kinds[0].lora_split = 60;
  b.job.sums.kinds[0].lora_replicated = 40;
  expect_rel(count(&b).causal, 22806528.0 * 4 / 6 + 1572864.0 + 6.0 * 2 * 4 * 100 * 32, 1e-15);
}

/* Packing two documents of 16 leaves half of the squared lengths; a sliding window of 8 leaves 2 x 32 x 8 - 8
 * x 8 pairs of the 32 x 32; chunks of 8 leave 32 x 8. */
static void documents_and_windows_cut_attention_only(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  b.geometry.attention_pairs = 2 * 16.0 * 16;
  expect_rel(count(&b).causal, 22806528.0 + 1572864.0 / 2, 0);
  b.geometry.attention_pairs = 32.0 * 32;
  b.arch.kinds[0].window_tokens = 8;
  expect_rel(count(&b).causal, 22806528.0 + 1572864.0 * (2 * 32 * 8 - 8 * 8) / (32.0 * 32), 1e-15);
  b.arch.kinds[0].window_chunked = true;
  expect_rel(count(&b).causal, 22806528.0 + 1572864.0 * 8 / 32, 1e-15);
}

static void inference_runs_the_forward_only_and_preference_training_one_more(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  double train = count(&b).causal;
  b.job.mode = SPP_MODE_INFER;
  expect_rel(count(&b).causal, train / 3, 1e-15);
  expect_rel(count(&b).hardware, train / 3, 1e-15);
  b.job.mode = SPP_MODE_DPO;
  expect_rel(count(&b).causal, train * 4 / 3, 1e-15);
}

/* ms-swift's ring backward runs its forward again: executed, never counted as useful. */
static void the_swift_ring_repeats_an_attention_forward(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  double plain = count(&b).hardware;
  b.geometry.sr = 2;
  b.layout.sp_kind = SPP_SP_RING;
  b.job.ring_impl = SPP_RING_SWIFT;
  expect_rel(count(&b).hardware - plain, 1572864.0 / 3, 1e-12);
}

/* TINY of one sequence of 32: Megatron-LM the causal count; torchtitan and llm-foundry 12 L w S = 12 x 2 x w
 * x 32 per token with w = 128 of the heads or 64 of the hidden width, and 6 times the parameters without and
 * with the input embedding of 16,384; verl the causal half 6 L w S, and the matrices a token meets with the
 * embedding table; transformers 6 times every parameter but the table; SC21 72 L h^2 (1 + 32 / 384 + 256 /
 * 2048), a third more when recomputing. */
static void logs_count_what_their_code_counts(void **state) {
  struct bench b;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  b.job.params.active = 140000;
  b.job.params.embedding = 16384;
  b.job.params.total = 150000;
  const struct {
    enum spp_reporter reporter;
    double flops;
  } rows[] = {{SPP_REPORTER_MEGATRON, 22806528.0 + 1572864.0},
              {SPP_REPORTER_TORCHTITAN, 32 * (6.0 * (140000 - 16384) + 12.0 * 2 * 128 * 32)},
              {SPP_REPORTER_FOUNDRY, 32 * (6.0 * 140000 + 12.0 * 2 * 64 * 32)},
              {SPP_REPORTER_SC21, 32 * 72.0 * 2 * 64 * 64 * (1 + 1.0 / 12 + 1.0 / 8)},
              {SPP_REPORTER_VERL, 32 * (6.0 * (118784 + 16384) + 6.0 * 2 * 128 * 32)},
              {SPP_REPORTER_TRANSFORMERS, 32 * 6.0 * (150000 - 16384)},
              {SPP_REPORTER_NONE, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double flops = spp_flops_reported(rows[i].reporter, &b.job, &b.layout, &b.geometry);
    expect_rel(flops, rows[i].flops, 1e-14);
  }
  b.layout.recompute = SPP_RECOMPUTE_FULL;
  expect_rel(spp_flops_reported(SPP_REPORTER_SC21, &b.job, &b.layout, &b.geometry), rows[3].flops * 96 / 72,
             1e-14);
  b.arch.tied = true; /* the shared table is multiplied with, so torchtitan keeps it */
  expect_rel(spp_flops_reported(SPP_REPORTER_TORCHTITAN, &b.job, &b.layout, &b.geometry),
             32 * (6.0 * 140000 + 12.0 * 2 * 128 * 32), 1e-14);
}

/* TINY in 1 ms on one GPU of 1 TFLOP/s (16 bit) and 2 (fp8). torchtitan: 32 (6 x 123,616 + 98,304) =
 * 26,880,000 FLOP, 0.02688 TFLOP/s, MFU over the 16-bit peak whatever the precision; llm-foundry 32 (6 x
 * 140,000 + 49,152) = 28,452,864, over the peak of the precision; Megatron-LM 24,379,392 and no MFU. */
static void a_log_shows_its_own_rate_and_peak(void **state) {
  struct bench b;
  struct spp_gpu gpu = {.flops_per_s = {[SPP_DTYPE_BF16] = 1e12, [SPP_DTYPE_FP8] = 2e12}};
  struct spp_time time = {.step_s = 1e-3};
  struct spp_log_figures log;
  (void)state;
  bench_init(&b, tiny_arch(), 118784, 32);
  b.job.params.active = 140000;
  b.job.params.embedding = 16384;
  b.job.gpu = &gpu;
  b.job.dtype = SPP_DTYPE_FP8;
  b.layout.ulysses = b.layout.ring = 1;
  spp_log_figures(SPP_REPORTER_TORCHTITAN, &b.job, &b.layout, &b.geometry, &time, &log);
  expect_str(log.convention, "torchtitan");
  expect_rel(log.tflops_per_gpu, 0.02688, 1e-6);
  expect_rel(log.mfu, 0.02688, 1e-6);
  spp_log_figures(SPP_REPORTER_FOUNDRY, &b.job, &b.layout, &b.geometry, &time, &log);
  expect_rel(log.tflops_per_gpu, 0.028452864, 1e-9);
  expect_rel(log.mfu, 0.014226432, 1e-9);
  spp_log_figures(SPP_REPORTER_MEGATRON, &b.job, &b.layout, &b.geometry, &time, &log);
  expect_rel(log.tflops_per_gpu, 0.024379392, 1e-9);
  expect_rel(log.mfu, 0, 0);
  spp_log_figures(SPP_REPORTER_NONE, &b.job, &b.layout, &b.geometry, &time, &log);
  assert_null(log.convention);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiny_counts_match_the_hand_computed_ones),
      cmocka_unit_test(a_log_shows_its_own_rate_and_peak),
      cmocka_unit_test(logs_count_what_their_code_counts),
      cmocka_unit_test(qwen_7b_at_32k_matches_the_hand_computed_ratio),
      cmocka_unit_test(full_recompute_repeats_the_layers_but_not_the_head),
      cmocka_unit_test(op_level_recompute_repeats_every_second_product),
      cmocka_unit_test(lora_skips_the_weight_gradients_of_the_base),
      cmocka_unit_test(documents_and_windows_cut_attention_only),
      cmocka_unit_test(inference_runs_the_forward_only_and_preference_training_one_more),
      cmocka_unit_test(the_swift_ring_repeats_an_attention_forward),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
