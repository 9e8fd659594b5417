#include "tests/model/framework_case.h"

#include "model/geometry.h"

/* modelscope/ms-swift: su = gcd(KV heads, sp), sr = sp / su. */
static void ms_swift_splits_a_degree_by_the_kv_heads(void **state) {
  static const struct {
    int64_t heads, kv_heads, sp, ulysses, ring;
  } rows[] = {{14, 2, 2, 2, 1}, {14, 2, 4, 2, 2},  {14, 2, 8, 2, 4},  {14, 2, 16, 2, 8}, {28, 4, 2, 2, 1},
              {28, 4, 4, 4, 1}, {28, 4, 8, 4, 2},  {28, 4, 16, 4, 4}, {40, 8, 2, 2, 1},  {40, 8, 4, 4, 1},
              {40, 8, 8, 8, 1}, {40, 8, 16, 8, 2}, {32, 8, 6, 2, 3}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(rows[i].heads, rows[i].kv_heads), "ms-swift", rows[i].sp, 4096);
    struct spp_layout layout = case_layout(&job, 1, 1, rows[i].sp);
    expect_note("%d KV heads, sp %d", (int)rows[i].kv_heads, (int)rows[i].sp);
    expect_i64(layout.ulysses, rows[i].ulysses);
    expect_i64(layout.ring, rows[i].ring);
    expect_i64(layout.sp_kind,
               rows[i].ring > 1 ? (rows[i].ulysses > 1 ? SPP_SP_HYBRID : SPP_SP_RING) : SPP_SP_ULYSSES);
  }
  expect_note("%s", "");
}

/* Documents of 10 and 21 tokens, sp 8: with a ring part each to a multiple of 16 (16 + 32 = 48, 6 a rank),
 * without one the total of 31 to a multiple of 8 (32, 4 a rank). */
static void ms_swift_pads_documents_only_with_a_ring_part(void **state) {
  static const int64_t lengths[] = {10, 21};
  static const struct { int64_t heads, kv_heads, padded, local; } rows[] = {{28, 4, 48, 6}, {32, 8, 32, 4}};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct spp_job job = case_job(case_heads(rows[i].heads, rows[i].kv_heads), "ms-swift", 8, 64);
    job.packing = true;
    spp_documents_measure(lengths, 2, 64, &job.documents);
    struct spp_layout layout = case_layout(&job, 1, 1, 8);
    struct spp_geometry g;
    spp_geometry_resolve(&job, &layout, &g);
    expect_i64(g.padded_tokens, rows[i].padded);
    expect_i64(g.tokens, rows[i].local);
    expect_rel(g.attention_pairs, 10.0 * 10 + 21.0 * 21, 0);
  }
}

static void padding_units_follow_the_framework(void **state) {
  static const struct {
    const char *framework;
    int64_t tp, sp, ulysses, unit;
  } rows[] = {{"ms-swift", 1, 4, 4, 4},     {"ms-swift", 1, 8, 4, 16},   {"megatron-lm", 1, 4, 1, 8},
              {"megatron-lm", 2, 4, 1, 16}, {"megatron-lm", 2, 1, 1, 2}, {"megatron-lm", 1, 1, 1, 1},
              {"deepspeed", 1, 4, 4, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(28, 4), rows[i].framework, 8, 4096);
    struct spp_layout layout = case_layout(&job, rows[i].tp, 1, rows[i].sp);
    expect_note("%s tp %d sp %d", rows[i].framework, (int)rows[i].tp, (int)rows[i].sp);
    expect_i64(layout.ulysses, rows[i].ulysses);
    expect_i64(spp_layout_pad_tokens(&job, &layout), rows[i].unit);
  }
  expect_note("%s", "");
}

/* Qwen2.5-7B (28 query, 4 KV heads of 128), one sequence of 32,768 over SP 8 = 4 x 2: 4,096 tokens a rank;
 * the ring carries 2 (K, V) x 2 bytes x 4,096 x 512 = 8,388,608 bytes a hop. */
static void a_rank_holds_its_share_of_the_tokens(void **state) {
  (void)state;
  struct spp_job job = case_job(case_arch("qwen2.5-7b"), "ms-swift", 8, 32768);
  job.packing = true;
  struct spp_layout layout = case_layout(&job, 1, 1, 8);
  struct spp_geometry g;
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.tokens, 4096);
  expect_i64(g.attention_tokens, 16384);
  expect_i64(g.chunk_tokens, 8192);
  expect_i64(g.ring_block_bytes, 8388608);
  expect_i64(g.q_width, 3584);
  expect_i64(g.k_width, 512);
  expect_i64(g.kv_repeat, 1);
  expect_i64(g.shard_group, 8);
  expect_i64(g.vocab_local, 152064);
  expect_i64(g.real_tokens, 8 * 32768);
  expect_i64(g.loss_path, SPP_LOSS_SP_16BIT);
}

static void dpo_carries_both_answers(void **state) {
  (void)state;
  struct spp_job job = case_job(case_arch("qwen2.5-7b"), "ms-swift", 8, 1024);
  struct spp_layout layout = case_layout(&job, 1, 1, 1);
  struct spp_geometry g;
  job.mode = SPP_MODE_DPO;
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.sequences, 2);
  expect_i64(g.tokens, 2048);
  job.packing = true; /* ms-swift packs pairs, counted by the length of both */
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.sequences, 1);
  expect_i64(g.tokens, 1024);
}

/* DeepSpeed repeats KV heads: 4 KV heads at Ulysses 28 are held 7 times; with TP the heads of one rank count.
 */
static void kv_heads_repeat_when_ulysses_exceeds_them(void **state) {
  (void)state;
  struct spp_job job = case_job(case_heads(28, 4), "deepspeed", 28, 28 * 64);
  struct spp_layout layout = case_layout(&job, 1, 1, 28);
  struct spp_geometry g;
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.kv_repeat, 7);
  job = case_job(case_heads(32, 2), "megatron-lm", 8, 4096);
  layout = case_layout(&job, 4, 1, 1);
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.kv_heads_local, 1);
  expect_i64(g.heads_local, 8);
  expect_i64(g.stream_tokens, 1024); /* Megatron SP: 4096 / 4 */
}

/* Megatron pads the vocabulary to a multiple of 128 x tp: 152,064 = 1,188 x 128 stays at tp 4 (297 x 512);
 * 151,936 becomes 152,064 at tp 2 (594 x 256). */
static void megatron_pads_the_vocabulary(void **state) {
  static const struct {
    int64_t vocab, tp, local;
  } rows[] = {{152064, 4, 38016}, {151936, 2, 76032}, {151936, 1, 151936}, {256, 4, 128}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_arch *arch = case_heads(32, 8);
    struct spp_geometry g;
    arch->vocab = rows[i].vocab;
    struct spp_job job = case_job(arch, "megatron-lm", 4, 4096);
    struct spp_layout layout = case_layout(&job, rows[i].tp, 1, 1);
    spp_geometry_resolve(&job, &layout, &g);
    expect_i64(g.vocab_local, rows[i].local);
  }
}

/* An expert lives on ep x etp ranks of a stage: 64 GPUs, tp 2, pp 2, ep 8, etp 1 -> groups of 64 / (8*1*2) =
 * 4; dense parameters are equal on 64 / (2*2) = 16. */
static void experts_have_their_own_groups(void **state) {
  (void)state;
  struct spp_arch *arch = case_heads(32, 8);
  struct spp_request request;
  struct spp_layout layout;
  struct spp_geometry g;
  struct spp_diag diag;
  arch->experts = 64;
  struct spp_job job = case_job(arch, "megatron-lm", 64, 4096);
  spp_request_clear(&request);
  request.tp = 2, request.pp = 2, request.ep = 8, request.etp = 1, request.sp = 2;
  expect_status(spp_layout_complete(&job, &request, &layout, &diag), SPP_OK, &diag);
  spp_geometry_resolve(&job, &layout, &g);
  expect_i64(g.dense_group, 16);
  expect_i64(g.shard_group, 16);
  expect_i64(g.expert_group, 4);
  expect_i64(g.nodes, 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(ms_swift_splits_a_degree_by_the_kv_heads, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(ms_swift_pads_documents_only_with_a_ring_part, case_setup,
                                      case_teardown),
      cmocka_unit_test_setup_teardown(padding_units_follow_the_framework, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(a_rank_holds_its_share_of_the_tokens, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(dpo_carries_both_answers, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(kv_heads_repeat_when_ulysses_exceeds_them, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(megatron_pads_the_vocabulary, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(experts_have_their_own_groups, case_setup, case_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
