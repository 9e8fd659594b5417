/* What one layer keeps: the ledger's lines must add up to closed forms, and to byte counts taken with
 * saved-tensor hooks (named experiments of docs/memory.md). */
#include "tests/model/jobs.h"

/* TINY with 32 tokens: h 64, i 160, dq 128, dk 32, nq 8, nk 2. */
enum { T = 32, H = 64, I = 160, DQ = 128, DK = 32, NQ = 8, NK = 2 };

static void open_tiny(struct jobs_fixture *f, const char *shape) {
  jobs_open(f);
  jobs_train(f, jobs_parse(f, shape), T);
}

static void an_eager_layer_keeps_what_hooks_counted(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  jobs_predict(&f);
  /* 32 * (16*64 + 4*128 + 4*32 + 8*160 + 4*8 + 8) = 95,488, counted on a CPU with hooks */
  expect_i64(f.memory.kept_bytes[0], 95488);
  expect_i64(f.memory.kept_bytes[0], T * (16 * H + 4 * DQ + 4 * DK + 8 * I + 4 * NQ + 8));
  jobs_close(&f);
}

static void a_norm_on_q_and_k_adds_its_upcast_and_scale(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY_QK);
  jobs_predict(&f);
  /* + 32 * (6*(128+32) + 4*(8+2)) = 32,000 */
  expect_i64(f.memory.kept_bytes[0], 127488);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  /* fused: + 32 * (2*(128+32) + 4*(8+2)) = 11,520 over 68,864 */
  expect_i64(f.memory.kept_bytes[0], 80384);
  jobs_close(&f);
}

static void fused_kernels_keep_their_inputs_only(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 68864);
  expect_i64(f.memory.kept_bytes[0], T * (8 * H + 4 * DQ + 4 * DK + 6 * I + 4 * NQ + 8));
  jobs_close(&f);
}

static void repeated_keys_and_values_are_kept_as_wide_as_queries(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.framework.repeats_kv = true;
  jobs_predict(&f);
  expect_i64(f.geometry.kv_repeat, NQ / NK);
  /* k and v of 2 heads become 8: 2 x 2 x 32 x (128 - 32) more than 95,488 */
  expect_i64(f.memory.kept_bytes[0], 95488 + 4 * T * (DQ - DK));
  f.layout.ring = 2;
  f.layout.sp_kind = SPP_SP_ALLGATHER;
  jobs_predict(&f); /* gathered K and V of both ranks, and their copy in order */
  expect_i64(jobs_ledger(&f, "gathered K and V", SPP_MOMENT_FORWARD), 2 * T * 2 * DQ * 2);
  jobs_close(&f);
}

static void the_all_to_all_makes_a_second_attention_output(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.seq_tokens = 2 * T;
  f.layout.ulysses = 2;
  f.layout.sp_kind = SPP_SP_ULYSSES;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 103680); /* 95,488 + 2*32*128 */
  f.job.seq_tokens = 8 * T;
  f.layout.ulysses = 8; /* 2 KV heads repeated 4 times: + 4*32*32*3 = 12,288 */
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 103680 + 12288);
  jobs_close(&f);
}

static void rings_keep_no_more_than_no_ring(void **state) {
  (void)state;
  static const enum spp_ring_impl impls[] = {SPP_RING_ZHUZILIN, SPP_RING_TE, SPP_RING_SWIFT};
  for (size_t i = 0; i < sizeof impls / sizeof impls[0]; i++) {
    struct jobs_fixture f;
    open_tiny(&f, JOBS_TINY);
    f.job.seq_tokens = 4 * T;
    f.job.ring_impl = impls[i];
    f.layout.ring = 4;
    f.layout.sp_kind = SPP_SP_RING;
    jobs_predict(&f);
    expect_i64(f.memory.kept_bytes[0], 95488);
    f.job.packing = true; /* ms-swift: two bool masks of T */
    jobs_predict(&f);
    expect_i64(f.memory.kept_bytes[0], 95488 + (impls[i] == SPP_RING_SWIFT ? 2 * T : 0));
    jobs_close(&f);
  }
}

static void adapters_keep_more_than_they_save(void **state) {
  (void)state;
  const int64_t inputs = 5 * H + DQ + I, plain = 95488 - 4 * T * H;
  const int64_t cast = 2 * 4 * (inputs + DQ + 2 * DK + 2 * H + 2 * I); /* 16-bit copies of A and B, rank 4 */
  struct {
    const char *name;
    bool fp32, autocast;
    double dropout;
    int64_t bytes;
  } cases[] = {
      {"16 bit, no dropout", false, false, 0.0, plain + 14 * T * 4},
      /* counted on a CPU, whose masks have a second byte an element: 148,480 */
      {"16 bit, dropout", false, false, 0.05, 148480 - T * inputs},
      {"fp32", true, false, 0.0, plain - T * (4 * H + 2 * I) + 4 * T * inputs + 28 * T * 4},
      {"fp32, dropout", true, false, 0.05, plain - T * (4 * H + 2 * I) + 5 * T * inputs + 28 * T * 4},
      {"fp32 autocast", true, true, 0.0, plain - T * (4 * H + 2 * I) + 2 * T * inputs + 14 * T * 4 + cast},
      {"fp32 autocast, dropout", true, true, 0.05,
       plain - T * (4 * H + 2 * I) + 3 * T * inputs + 14 * T * 4 + cast},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct jobs_fixture f;
    open_tiny(&f, JOBS_TINY);
    f.job.method = SPP_METHOD_LORA;
    f.job.lora_rank = 4;
    f.job.lora_dropout = cases[i].dropout;
    f.framework.lora_fp32_adapters = cases[i].fp32;
    f.framework.lora_autocast = cases[i].autocast;
    jobs_predict(&f);
    expect_note("%s", cases[i].name);
    expect_i64(f.memory.kept_bytes[0], cases[i].bytes);
    jobs_close(&f);
  }
  expect_i64(cases[0].bytes, 89088); /* counted with hooks */
  expect_note("%s", "");
}

static void adapters_on_some_modules_drop_the_other_inputs(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.method = SPP_METHOD_LORA;
  f.job.lora_rank = 4;
  f.job.lora_targets = SPP_LORA_Q | SPP_LORA_V;
  jobs_predict(&f);
  /* of the 89,088: minus the MLP norm's output 2Th and down's input 2Ti (nobody adapted reads them) and five
   * of the seven A x */
  expect_i64(f.memory.kept_bytes[0], 89088 - 2 * T * H - 2 * T * I - 5 * 2 * T * 4);
  jobs_close(&f);
}

static void qwen_7b_matches_the_published_bytes_per_token(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 1000);
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 225400 * 1000);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 158840 * 1000);
  f.job.kernels = SPP_KERNELS_EAGER;
  f.job.method = SPP_METHOD_LORA;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 211176 * 1000);
  f.job.lora_dropout = 0.05;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 280296 * 1000);
  jobs_close(&f);
}

static void latent_attention_matches_hooks_and_form(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY_MLA);
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 153088);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 116736);
  /* a kernel that takes a narrow v: 4 nq D + 4 nq dv for q, k, v and out instead of 8 nq D + 2 nq dv, D 24,
   * dv 16, and v a copy of its own */
  f.job.attention = SPP_ATTN_FA3;
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 116736 - T * (8 * 8 * 24 + 2 * 8 * 16) + T * (4 * 8 * 24 + 4 * 8 * 16));
  jobs_close(&f);
}

static void tensor_parallelism_splits_all_but_the_norms(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.kernels = SPP_KERNELS_FUSED;
  f.layout.tp = 2;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], T * (8 * H + 8) + T * (4 * DQ + 4 * DK + 6 * I + 4 * NQ) / 2);
  f.layout.megatron_sp = true;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 68864 / 2);
  jobs_close(&f);
}

static void adapters_under_sequence_parallel_tp_keep_the_gathered_input(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.method = SPP_METHOD_LORA;
  f.layout.tp = 2;
  f.layout.megatron_sp = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "input norm: output", SPP_MOMENT_LOSS), 2 * T * H * 2); /* whole T, two layers */
  jobs_close(&f);
}

static void eager_attention_keeps_score_matrices(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.attention = SPP_ATTN_EAGER;
  jobs_predict(&f);
  /* K and V repeated to 8 heads (4T(dq-dk) more), no log-sum-exp, fp32 and 16-bit probabilities 8*32*32 */
  expect_i64(f.memory.kept_bytes[0], 95488 + 4 * T * (DQ - DK) - 4 * T * NQ + 6 * NQ * T * T);
  jobs_close(&f);
}

static void a_window_changes_nothing_that_flash_attention_keeps(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 8192);
  struct spp_arch windowed = *f.job.arch;
  windowed.kinds[0].window_tokens = 512;
  jobs_predict(&f);
  int64_t kept = f.memory.kept_bytes[0];
  f.job.arch = &windowed;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], kept);
  jobs_close(&f);
}

static void a_window_makes_sdpa_keep_a_mask(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.attention = SPP_ATTN_SDPA;
  struct spp_arch windowed = *f.job.arch;
  windowed.kinds[0].window_tokens = T + 1; /* nothing is out of sight */
  f.job.arch = &windowed;
  jobs_predict(&f);
  expect_i64(f.memory.kept_bytes[0], 95488);
  windowed.kinds[0].window_tokens = T / 2;
  jobs_predict(&f);
  /* K and V for 8 heads instead of 2, and a 16-bit mask of T x T */
  expect_i64(f.memory.kept_bytes[0], 95488 + 4 * T * (DQ - DK) + 2 * T * T);
  jobs_close(&f);
}

static void routed_experts_keep_what_each_token_brings(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY_MOE);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  /* dense fused minus its MLP 6Ti, plus router 8TE, permuted input 2Tk h, fc1 4Tk i, fc2 input 2Tk i, weights
   * 4Tk */
  const int64_t tk = 2 * T, e = 4;
  expect_i64(f.memory.kept_bytes[0], 68864 - 6 * T * I + 8 * T * e + 2 * tk * H + 6 * tk * I + 4 * tk);
  jobs_close(&f);
}

static void fp8_training_keeps_gemm_inputs_in_one_byte(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f, JOBS_TINY);
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.dtype = SPP_DTYPE_FP8;
  jobs_predict(&f);
  /* two norm outputs and down's input in 8 bit; o_proj keeps an 8-bit copy beside flash attention's output */
  expect_i64(f.memory.kept_bytes[0], 68864 - 2 * T * H - T * I + T * DQ);
  /* compiled, they are made again from norm inputs, gate and up. Counted with torchao's Float8Linear: 5,928
   * bytes a token for h 256, dq 256, dk 64, i 896, nq 8 */
  f.framework.fp8_remakes_inputs = true;
  jobs_predict(&f);
  expect_i64(4 * 256 + 4 * 256 + 4 * 64 + 4 * 896 + 4 * 8 + 8, 5928);
  expect_i64(f.memory.checkpoint_bytes[0], T * (4 * H + 4 * DQ + 4 * DK + 4 * I + 4 * NQ + 8));
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_eager_layer_keeps_what_hooks_counted),
      cmocka_unit_test(a_norm_on_q_and_k_adds_its_upcast_and_scale),
      cmocka_unit_test(fused_kernels_keep_their_inputs_only),
      cmocka_unit_test(repeated_keys_and_values_are_kept_as_wide_as_queries),
      cmocka_unit_test(the_all_to_all_makes_a_second_attention_output),
      cmocka_unit_test(rings_keep_no_more_than_no_ring),
      cmocka_unit_test(adapters_keep_more_than_they_save),
      cmocka_unit_test(adapters_on_some_modules_drop_the_other_inputs),
      cmocka_unit_test(qwen_7b_matches_the_published_bytes_per_token),
      cmocka_unit_test(latent_attention_matches_hooks_and_form),
      cmocka_unit_test(tensor_parallelism_splits_all_but_the_norms),
      cmocka_unit_test(adapters_under_sequence_parallel_tp_keep_the_gathered_input),
      cmocka_unit_test(eager_attention_keeps_score_matrices),
      cmocka_unit_test(a_window_changes_nothing_that_flash_attention_keeps),
      cmocka_unit_test(a_window_makes_sdpa_keep_a_mask),
      cmocka_unit_test(routed_experts_keep_what_each_token_brings),
      cmocka_unit_test(fp8_training_keeps_gemm_inputs_in_one_byte),
  };
  int failed = cmocka_run_group_tests_name("memory_activations", tests, NULL, NULL);
  return failed != 0;
}
