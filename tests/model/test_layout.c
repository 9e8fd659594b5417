#include "tests/model/framework_case.h"

static enum spp_status complete(const struct spp_job *job, const struct spp_request *request,
                                struct spp_layout *layout, struct spp_diag *diag) {
  memset(layout, 0, sizeof *layout);
  return spp_layout_complete(job, request, layout, diag);
}

static void nothing_said_gives_the_frameworks_defaults(void **state) {
  static const struct {
    const char *framework;
    int zero;
    enum spp_recompute recompute;
  } rows[] = {{"ms-swift", 3, SPP_RECOMPUTE_FULL},
              {"megatron-lm", 1, SPP_RECOMPUTE_NONE},
              {"megatron-swift", 1, SPP_RECOMPUTE_SELECTIVE},
              {"torchtitan", 3, SPP_RECOMPUTE_SELECTIVE},
              {"spplan", 0, SPP_RECOMPUTE_NONE}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(32, 8), rows[i].framework, 8, 4096);
    struct spp_layout l = case_layout(&job, SPP_UNSET, SPP_UNSET, SPP_UNSET);
    expect_note("%s", rows[i].framework);
    expect_i64(l.dp, 8);
    expect_i64(l.tp * l.pp * l.vpp * l.ep * l.etp * l.ulysses * l.ring * l.dp_replicate, 1);
    expect_i64(l.sp_kind, SPP_SP_NONE);
    expect_i64(l.zero, rows[i].zero);
    expect_i64(l.recompute, rows[i].recompute);
    expect_i64(l.grad_accum, 1);
    expect_i64(l.recompute_layers, SPP_UNSET);
    expect_i64(spp_rules_first(&job, &l), -1);
  }
  expect_note("%s", "");
}

static void a_degree_alone_is_split_by_kind(void **state) {
  static const struct {
    const char *framework;
    int64_t sp;
    int kind;
    int64_t ulysses, ring;
    enum spp_sp_kind got;
  } rows[] = {
      {"ms-swift", 8, SPP_UNSET, 4, 2, SPP_SP_HYBRID},
      {"ms-swift", 8, SPP_SP_ULYSSES, 8, 1, SPP_SP_ULYSSES},
      {"ms-swift", 3, SPP_UNSET, 1, 3, SPP_SP_RING},
      {"ringmaster", 8, SPP_UNSET, 4, 2, SPP_SP_HYBRID},
      {"ringmaster", 12, SPP_UNSET, 4, 3, SPP_SP_HYBRID},
      {"ringmaster", 6, SPP_UNSET, 2, 3, SPP_SP_HYBRID},
      {"ringmaster", 2, SPP_SP_RING, 1, 2, SPP_SP_RING},
      {"megatron-lm", 8, SPP_UNSET, 1, 8, SPP_SP_RING},
      {"megatron-lm", 8, SPP_SP_HYBRID, 4, 2, SPP_SP_HYBRID},
      {"megatron-lm", 4, SPP_SP_HYBRID, 2, 2, SPP_SP_HYBRID},
      {"megatron-lm", 8, SPP_SP_ALLGATHER, 1, 8, SPP_SP_ALLGATHER},
      {"torchtitan", 8, SPP_UNSET, 1, 8, SPP_SP_ALLGATHER},
      {"deepspeed", 4, SPP_UNSET, 4, 1, SPP_SP_ULYSSES},
      {"fsdp2", 4, SPP_SP_ULYSSES, 4, 1, SPP_SP_ULYSSES},
      {"megatron-lm", 1, SPP_SP_RING, 1, 1, SPP_SP_NONE},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(28, 4), rows[i].framework, 24, 4096);
    struct spp_request request;
    struct spp_layout l;
    struct spp_diag diag;
    spp_request_clear(&request);
    request.sp = rows[i].sp;
    request.sp_kind = rows[i].kind;
    expect_note("%s sp %d", rows[i].framework, (int)rows[i].sp);
    expect_status(complete(&job, &request, &l, &diag), SPP_OK, &diag);
    expect_i64(l.ulysses, rows[i].ulysses);
    expect_i64(l.ring, rows[i].ring);
    expect_i64(l.sp_kind, rows[i].got);
  }
  expect_note("%s", "");
}

/* Worked out by axolotl-ringmaster 0.2.7's own auto_select(total, kv heads, node): largest d that divides
 * both and is at most the node. */
static void a_rule_for_the_split_stops_at_the_node(void **state) {
  static const struct {
    int64_t kv_heads, sp, node, ulysses;
  } rows[] = {{8, 8, 8, 8},   {8, 8, 4, 4},  {8, 16, 8, 8}, {12, 24, 8, 6},
              {16, 16, 7, 4}, {7, 14, 4, 1}, {8, 1, 8, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(rows[i].kv_heads, rows[i].kv_heads), "ringmaster", 24, 4096);
    struct spp_cluster cluster = {.gpus_per_node = rows[i].node};
    job.cluster = &cluster;
    expect_note("%d KV heads, SP %d, node of %d", (int)rows[i].kv_heads, (int)rows[i].sp, (int)rows[i].node);
    expect_i64(spp_own_ulysses(&job, rows[i].sp), rows[i].ulysses);
  }
  expect_note("%s", "");
}

static void two_of_sp_ulysses_and_ring_give_the_third(void **state) {
  struct spp_request request;
  struct spp_layout l;
  struct spp_diag diag;
  (void)state;
  struct spp_job job = case_job(case_heads(32, 8), "megatron-lm", 8, 4096);
  spp_request_clear(&request);
  request.sp = 8, request.ulysses = 4;
  expect_status(complete(&job, &request, &l, &diag), SPP_OK, &diag);
  expect_i64(l.ring, 2);
  spp_request_clear(&request);
  request.sp = 8, request.ring = 8;
  expect_status(complete(&job, &request, &l, &diag), SPP_OK, &diag);
  expect_i64(l.ulysses, 1);
  request.ulysses = 2;
  expect_status(complete(&job, &request, &l, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "Ulysses 2 x ring 8 is not 8");
  request.ring = SPP_UNSET, request.ulysses = 3;
  expect_status(complete(&job, &request, &l, &diag), SPP_ERR_USAGE, &diag);
}

static void degrees_that_do_not_multiply_are_refused(void **state) {
  static const struct {
    int64_t tp, pp, dp, sp, micro_batch;
    const char *words;
  } rows[] = {
      {3, 1, SPP_UNSET, 1, 1, "TP 3 x PP 1 x SP 1 = 3 does not divide 8 GPUs"},
      {2, 1, 2, 1, 1, "TP 2 x PP 1 x SP 1 x DP 2 is not 8 GPUs"},
      {16, 1, SPP_UNSET, 1, 1, "does not divide 8 GPUs"},
      {0, 1, SPP_UNSET, 1, 1, "below 1"},
      {1, 1, 0, 1, 1, "below 1"},
      {1, 1, SPP_UNSET, 0, 1, "makes no sense"},
      {1, 1, SPP_UNSET, 1, 0, "below 1"},
      {INT64_MAX, INT64_MAX, SPP_UNSET, 1, 1, "does not divide"},
  };
  (void)state;
  struct spp_job job = case_job(case_heads(32, 8), "megatron-lm", 8, 4096);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_request request;
    struct spp_layout l;
    struct spp_diag diag;
    spp_request_clear(&request);
    request.tp = rows[i].tp, request.pp = rows[i].pp, request.dp = rows[i].dp, request.sp = rows[i].sp;
    request.micro_batch = rows[i].micro_batch;
    expect_note("row %d", (int)i);
    expect_status(complete(&job, &request, &l, &diag), SPP_ERR_USAGE, &diag);
    expect_has(diag.what, rows[i].words);
    expect_true(diag.hint[0] != '\0');
    expect_i64(l.tp, 0); /* written on success only */
  }
  expect_note("%s", "");
}

static void megatron_sp_follows_tp(void **state) {
  struct spp_request request;
  struct spp_layout l;
  struct spp_diag diag;
  (void)state;
  struct spp_job job = case_job(case_heads(32, 8), "megatron-lm", 8, 4096);
  expect_true(case_layout(&job, 2, 1, 1).megatron_sp);
  expect_false(case_layout(&job, 1, 1, 1).megatron_sp);
  spp_request_clear(&request);
  request.tp = 2, request.megatron_sp = 0;
  expect_status(complete(&job, &request, &l, &diag), SPP_OK, &diag);
  expect_false(l.megatron_sp);
  request.tp = 1, request.megatron_sp = 1; /* Megatron switches it off */
  expect_status(complete(&job, &request, &l, &diag), SPP_OK, &diag);
  expect_false(l.megatron_sp);
}

static void accumulation_fills_the_global_batch(void **state) {
  struct spp_violation v[4];
  (void)state;
  struct spp_job job = case_job(case_heads(32, 8), "megatron-lm", 8, 4096);
  job.global_batch = 64;
  struct spp_layout l = case_layout(&job, 2, 1, 1);
  expect_i64(l.grad_accum, 16);
  job.global_batch = 30; /* not a multiple of micro-batch 1 x DP 4: the rule says which is */
  l = case_layout(&job, 2, 1, 1);
  expect_i64(spp_rules_check(&job, &l, v, 4), 1);
  expect_str(v[0].rule, "batch-divides");
  expect_has(v[0].text, "such as 32");
}

static void descriptions_read_like_the_answer(void **state) {
  static const struct {
    const char *framework;
    int64_t tp, pp, sp;
    const char *text;
  } rows[] = {
      {"ms-swift", 1, 1, 4, "DP 2 · SP 4 (Ulysses 4) · ZeRO-3 · full recompute · micro-batch 1 x 4"},
      {"ms-swift", 1, 1, 8, "DP 1 · SP 8 (Ulysses 4 x ring 2) · ZeRO-3 · full recompute · micro-batch 1 x 8"},
      {"megatron-lm", 2, 2, 2,
       "TP 2+SP x PP 2 x DP 1 · SP 2 (ring 2) · distributed optimizer · no recompute · micro-batch 1 x 8"},
      {"torchtitan", 1, 1, 2, "DP 4 · SP 2 (all-gather 2) · FSDP · selective recompute · micro-batch 1 x 2"},
      {"vllm", 2, 1, 1, "TP 2 x DP 4 · batch 1 x 2"},
  };
  char buf[200], tiny[8];
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job job = case_job(case_heads(28, 4), rows[i].framework, 8, 4096);
    struct spp_layout l = case_layout(&job, rows[i].tp, rows[i].pp, rows[i].sp);
    expect_str(spp_layout_describe(&job, &l, buf, sizeof buf), rows[i].text);
    expect_str(spp_layout_describe(&job, &l, tiny, 1), "");
    expect_true(strlen(spp_layout_describe(&job, &l, tiny, sizeof tiny)) < sizeof tiny);
  }
}

/* Two plans of one search that differ in any choice must not read alike. */
static void a_description_says_what_is_not_the_frameworks_own_choice(void **state) {
  (void)state;
  char buf[240];
  struct spp_job job = case_job(case_heads(32, 8), "megatron-lm", 16, 4096);
  struct spp_layout l = case_layout(&job, 2, 2, 1);
  l.schedule = SPP_SCHEDULE_ZB_H1;
  l.recompute = SPP_RECOMPUTE_FULL;
  l.recompute_layers = 3;
  expect_has(spp_layout_describe(&job, &l, buf, sizeof buf), "DP 4 · zb-h1 ·");
  expect_has(buf, "full recompute of 3 layers a stage");
  l.recompute = SPP_RECOMPUTE_SELECTIVE;
  l.recompute_modules = SPP_RC_LAYERNORM | SPP_RC_MLP;
  expect_has(spp_layout_describe(&job, &l, buf, sizeof buf), "selective recompute (layernorm, mlp)");
  l.ep = 4;
  l.etp = 1;
  expect_has(spp_layout_describe(&job, &l, buf, sizeof buf), "EP 4 x ETP 1");
  job.loss =
      job.framework->loss_default == SPP_LOSS_CHOICE_FUSED ? SPP_LOSS_CHOICE_FULL : SPP_LOSS_CHOICE_FUSED;
  expect_has(spp_layout_describe(&job, &l, buf, sizeof buf), spp_loss_choice_name(job.loss));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(a_description_says_what_is_not_the_frameworks_own_choice),
      TEST(nothing_said_gives_the_frameworks_defaults),
      TEST(a_degree_alone_is_split_by_kind),
      TEST(a_rule_for_the_split_stops_at_the_node),
      TEST(two_of_sp_ulysses_and_ring_give_the_third),
      TEST(degrees_that_do_not_multiply_are_refused),
      TEST(megatron_sp_follows_tp),
      TEST(accumulation_fills_the_global_batch),
      TEST(descriptions_read_like_the_answer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
