/* What layers keep under each way of recompute. */
#include "tests/model/tiny.h"

static void without_recompute_every_layer_keeps_all(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  jobs_predict(&f);
  expect_i64(kept(&f, SPP_MOMENT_LOSS), 2 * TINY_KEPT); /* 190,976 */
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 2 * TINY_KEPT);
  expect_i64(f.memory.checkpoint_bytes[0], TINY_KEPT);
  jobs_close(&f);
}

static void full_recompute_keeps_inputs_and_one_layer(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), 8192); /* 2 layers * 2*32*64 */
  expect_i64(kept(&f, SPP_MOMENT_LOSS), 8192);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 8192 + TINY_KEPT); /* 103,680 */
  expect_i64(f.memory.checkpoint_bytes[0], 4096);
  jobs_close(&f);
}

static void a_fused_norm_shares_the_checkpoint_of_its_layer(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.job.kernels = SPP_KERNELS_FUSED;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 8192 + TINY_FUSED - 2 * T * H);
  jobs_close(&f);
}

static void units_of_layers_trade_inputs_for_live_layers(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  f.layout.recompute_unit = 2;
  jobs_predict(&f);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 4096 + 2 * TINY_KEPT);
  f.layout.recompute_unit = 1;
  f.layout.recompute_layers = 1; /* the other layer keeps everything */
  jobs_predict(&f);
  expect_i64(kept(&f, SPP_MOMENT_LOSS), 4096 + TINY_KEPT);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 4096 + 2 * TINY_KEPT);
  jobs_close(&f);
}

static void selective_modules_drop_their_own_tensors(void **state) {
  (void)state;
  struct {
    unsigned modules;
    int64_t dropped; /* of one fused layer */
  } cases[] = {
      {SPP_RC_CORE_ATTN, 4 * T * NQ},           /* the output is o_proj's input and stays */
      {SPP_RC_LAYERNORM, 0},                    /* both norms are part of the product behind them */
      {SPP_RC_MLP, 6 * T * I + 2 * T * H},      /* with its norm */
      {SPP_RC_MOE_ACT | SPP_RC_MLA_UP_PROJ, 0}, /* a dense layer has neither */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct jobs_fixture f;
    open_tiny(&f);
    f.job.kernels = SPP_KERNELS_FUSED;
    f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
    f.layout.recompute_modules = cases[i].modules;
    jobs_predict(&f);
    expect_i64(f.memory.checkpoint_bytes[0], TINY_FUSED - cases[i].dropped);
    expect_i64(kept(&f, SPP_MOMENT_LOSS), 2 * (TINY_FUSED - cases[i].dropped));
    /* the running layer has everything again */
    expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 2 * TINY_FUSED - cases[i].dropped);
    jobs_close(&f);
  }
}

static void latent_up_projections_can_be_dropped(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_parse(&f, JOBS_TINY_MLA), T);
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.attention = SPP_ATTN_TE;
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  f.layout.recompute_modules = SPP_RC_MLA_UP_PROJ;
  jobs_predict(&f);
  /* q and k 2*8*24 each, v 2*8*16 */
  expect_i64(f.memory.kept_bytes[0] - f.memory.checkpoint_bytes[0], T * (4 * 8 * 24 + 2 * 8 * 16));
  jobs_close(&f);
}

static void op_level_recompute_keeps_every_second_product(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.framework.selective_is_op_level = true;
  f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  jobs_predict(&f);
  /* input 2h, attention output 2dq + 4nq, products q and v, gate, down: 2(dq + dk + i + h) */
  expect_i64(f.memory.checkpoint_bytes[0], T * (2 * H + 2 * DQ + 4 * NQ + 2 * (DQ + DK + I + H)));
  /* compiled, nothing reads down's output: counted on torch 2.15 (tests/oracle/compiled.py), 3,488 bytes a
   * token for h 256, dq 256, dk 64, i 896, nq 8: 2 (h + 2dq + dk + i) + 4nq */
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  expect_i64(2 * (256 + 2 * 256 + 64 + 896) + 4 * 8, 3488);
  expect_i64(f.memory.checkpoint_bytes[0], T * (2 * (H + 2 * DQ + DK + I) + 4 * NQ));
  /* q, k, v as one product: counted 3,616, k more */
  f.framework.fuses_qkv = true;
  jobs_predict(&f);
  expect_i64(f.memory.checkpoint_bytes[0], T * (2 * (H + 2 * DQ + 2 * DK + I) + 4 * NQ));
  jobs_close(&f);
}

/* The policy names no FP4 product, so those layers keep their input and attention's output; without recompute
 * they keep 9/16 byte of each product's input and weight. The last 16-bit layer is as it was. */
static void fp4_layers_keep_codes_of_their_inputs(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  const int64_t n = 10 * T; /* enough tokens to outweigh the weights' codes */
  f.job.seq_tokens = n;
  f.framework.selective_is_op_level = true;
  f.framework.fuses_qkv = true;
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.dtype = SPP_DTYPE_FP8;
  f.job.fp4 = true;
  f.job.fp4_layers = 1; /* of two */
  f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  jobs_predict(&f);
  expect_i64(f.memory.checkpoint_bytes[0], n * (2 * H + 2 * DQ + 4 * NQ));
  expect_i64(jobs_ledger(&f, "matrix products", SPP_MOMENT_LOSS), n * 2 * (DQ + 2 * DK + I));
  f.layout.recompute = SPP_RECOMPUTE_NONE;
  jobs_predict(&f);
  /* norm inputs, q, k, v, attention output, log-sum-exp, statistics, gate and up; codes of the inputs of
   * qkv, gate, up, o, down, and of the weights */
  const int64_t weights = H * (DQ + 2 * DK) + DQ * H + 3 * H * I;
  expect_i64(f.memory.checkpoint_bytes[0], n * (4 * H + 4 * DQ + 4 * DK + 4 * NQ + 8 + 4 * I) +
                                               n * 9 * (3 * H + DQ + I) / 16 + 9 * weights / 16);
  expect_i64(jobs_ledger(&f, "MLP: input of down", SPP_MOMENT_LOSS), n * (2 * I + 9 * I / 16));
  jobs_close(&f);
}

/* TransformerEngine quantises an input once for all its products and keeps the columnwise codes, both ways
 * where a shard is gathered again; weights are codes of both ways and nothing else. */
static void transformer_engine_keeps_fp4_codes_once(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.framework.fp8_params = true;
  f.gpu.compute_capability = 100;
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.attention = SPP_ATTN_TE;
  f.job.dtype = SPP_DTYPE_FP8;
  f.job.fp4 = true;
  f.job.fp4_layers = 2;
  jobs_predict(&f);
  const int64_t weights = H * (DQ + 2 * DK) + DQ * H + 3 * H * I, rest = 2 * 2 * H + H + 2 * 256 * H;
  expect_i64(jobs_ledger(&f, "4-bit weights", SPP_MOMENT_LOSS), 2 * (9 * 2 * weights / 16));
  expect_i64(jobs_ledger(&f, "weights", SPP_MOMENT_LOSS), 2 * (rest + 2 * (DQ + 2 * DK)));
  expect_i64(jobs_ledger(&f, "weights in FP4", SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_ledger(&f, "MLP: input of down", SPP_MOMENT_LOSS), 2 * T * 9 * I / 16);
  /* norm inputs and statistics, q, k, v, attention output, log-sum-exp, gate and up; codes of the inputs of
   * qkv, gate with up, o and down */
  expect_i64(f.memory.checkpoint_bytes[0],
             T * (4 * H + 4 * DQ + 4 * DK + 4 * NQ + 8 + 4 * I) + T * 9 * (2 * H + DQ + I) / 16);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_recompute_every_layer_keeps_all),
      cmocka_unit_test(full_recompute_keeps_inputs_and_one_layer),
      cmocka_unit_test(a_fused_norm_shares_the_checkpoint_of_its_layer),
      cmocka_unit_test(units_of_layers_trade_inputs_for_live_layers),
      cmocka_unit_test(selective_modules_drop_their_own_tensors),
      cmocka_unit_test(latent_up_projections_can_be_dropped),
      cmocka_unit_test(op_level_recompute_keeps_every_second_product),
      cmocka_unit_test(fp4_layers_keep_codes_of_their_inputs),
      cmocka_unit_test(transformer_engine_keeps_fp4_codes_once),
  };
  int failed = cmocka_run_group_tests_name("memory_recompute", tests, NULL, NULL);
  return failed != 0;
}
