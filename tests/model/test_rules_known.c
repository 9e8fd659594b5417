/* Rules in threads with known answers; head rules against a plain distribution of heads. */
#include "tests/model/rules_case.h"

static struct spp_job job_of(const char *framework, int64_t heads, int64_t kv_heads, int64_t gpus,
                             int64_t seq) {
  return case_job(case_heads(heads, kv_heads), framework, gpus, seq);
}

static void the_message_lists_the_legal_degrees(void **state) {
  struct spp_violation v[MANY];
  (void)state;
  struct spp_job job = job_of("deepspeed", 28, 4, 6, 6000);
  struct spp_layout layout = case_layout(&job, 1, 1, 3);
  expect_true(spp_rules_check(&job, &layout, v, MANY) >= 1);
  expect_str(v[0].rule, "ulysses-heads");
  expect_str(v[0].text, "Ulysses 3 does not divide 28 query heads: use 1, 2, 4 (DeepSpeed 0.19.6)");
  expect_has(v[0].source, "ulysses_sp.py");
}

/* A framework that lacks something says what it has instead. */
static void what_is_not_there_is_answered_with_what_is(void **state) {
  static const struct {
    const char *framework, *rule, *text;
  } rows[] = {
      {"ms-swift", "sp-kind-support",
       "ms-swift has no allgather sequence parallelism (SP 2): it has none, ulysses, ring, hybrid (ms-swift "
       "3602360a)"},
      {"fsdp2", "zero-support", "has no sharding stage 1: it has 0, 2, 3"},
      {"ms-swift", "recompute-support", "has no selective recompute: it has none, full"},
      {"ms-swift", "offload-support", "cannot offload activations: it has none, optimizer, optimizer+params"},
      {"torchtitan", "schedule-support", "has no zb-h2 pipeline schedule: it has "},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_violation v[MANY];
    struct spp_job job = job_of(rows[i].framework, 32, 8, 8, 4096);
    struct spp_layout layout = case_layout(&job, 1, 1, 1);
    int at = -1;
    switch (i) {
    case 0: gather(&layout, 2); break;
    case 1: layout.zero = 1; break;
    case 2: layout.recompute = SPP_RECOMPUTE_SELECTIVE; break;
    case 3: layout.offload = SPP_OFFLOAD_ACTIVATIONS; break;
    default: layout.pp = 2, layout.schedule = SPP_SCHEDULE_ZB_H2; break;
    }
    int count = spp_rules_check(&job, &layout, v, MANY);
    for (int k = 0; k < count && k < MANY; k++)
      if (strcmp(v[k].rule, rows[i].rule) == 0) at = k;
    expect_note("%s %s", rows[i].framework, rows[i].rule);
    assert_true(at >= 0);
    expect_has(v[at].text, rows[i].text);
  }
}

/* modelscope/ms-swift#5624: Llama-3.1-8B with SP 6 is Ulysses 2 x ring 3, and a ring part needs padding-free
 * batches. */
static void sp_six_needs_packing_in_ms_swift(void **state) {
  struct spp_violation v[MANY];
  (void)state;
  struct spp_job job = job_of("ms-swift", 32, 8, 6, 45000);
  struct spp_layout layout = case_layout(&job, 1, 1, 6);
  expect_i64(layout.ulysses, 2);
  expect_i64(layout.ring, 3);
  expect_i64(spp_rules_check(&job, &layout, v, MANY), 1);
  expect_str(v[0].rule, "ring-packing");
  expect_has(v[0].text, "Ulysses 2 x ring 3");
  job.packing = true;
  expect_i64(spp_rules_first(&job, &layout), -1);
}

/* modelscope/ms-swift#8219: 2 query groups at TP 8 run from core 0.16 on, and not in 0.15. */
static void tp_beyond_the_kv_heads_depends_on_the_version(void **state) {
  static struct spp_framework old;
  struct spp_violation v[MANY];
  (void)state;
  struct spp_job job = job_of("megatron-lm", 32, 2, 8, 4096);
  struct spp_layout layout = case_layout(&job, 8, 1, 1);
  expect_i64(spp_rules_first(&job, &layout), -1);
  old = *job.framework;
  for (int i = 0; i < old.rule_count; i++)
    if (strcmp(old.rules[i].id, "kv-tp") == 0) {
      old.rules[i].index = spp_rule_find("kv-tp-strict");
      snprintf(old.rules[i].version, sizeof old.rules[i].version, "Megatron core 0.15");
    }
  job.framework = &old;
  expect_i64(spp_rules_check(&job, &layout, v, MANY), 1);
  expect_str(v[0].text,
             "2 KV heads (query groups) must be a multiple of TP 8: use 1, 2 (Megatron core 0.15)");
}

/* NVIDIA-NeMo/Megatron-Bridge#2667: a2a+p2p without two sizes exchanges nothing. */
static void a_hybrid_needs_two_sizes(void **state) {
  struct spp_violation v[MANY];
  struct spp_request request;
  struct spp_layout layout;
  struct spp_diag diag;
  (void)state;
  struct spp_job job = job_of("megatron-lm", 32, 8, 16, 65536);
  spp_request_clear(&request);
  request.sp_kind = SPP_SP_HYBRID, request.ulysses = 16;
  expect_status(spp_layout_complete(&job, &request, &layout, &diag), SPP_OK, &diag);
  expect_true(spp_rules_check(&job, &layout, v, MANY) >= 1);
  expect_str(v[0].rule, "hybrid-levels");
  request.ulysses = 8, request.ring = 2;
  expect_status(spp_layout_complete(&job, &request, &layout, &diag), SPP_OK, &diag);
  expect_i64(spp_rules_first(&job, &layout), -1);
}

/* NVIDIA/TransformerEngine#2541: gpt-oss runs with a2a and not with p2p. */
static void attention_sinks_run_with_ulysses_only(void **state) {
  (void)state;
  struct spp_arch *arch = case_heads(64, 8);
  arch->attention_sinks = true;
  struct spp_job job = case_job(arch, "megatron-lm", 8, 4096);
  struct spp_layout layout = case_layout(&job, 1, 1, 4);
  expect_i64(layout.sp_kind, SPP_SP_RING);
  expect_str(spp_rule_id(spp_rules_first(&job, &layout)), "sinks-a2a");
  ulysses(&layout, 4);
  expect_i64(spp_rules_first(&job, &layout), -1);
}

/* jzhang38/EasyContext#47: 2,999 tokens in a zigzag ring of 4 fail; 3,000 = 375 x 8 run. */
static void a_zigzag_ring_needs_two_chunks_a_rank(void **state) {
  struct spp_violation v[MANY];
  (void)state;
  struct spp_job job = job_of("megatron-lm", 32, 8, 4, 2999);
  struct spp_layout layout = case_layout(&job, 1, 1, 4);
  expect_i64(spp_rules_check(&job, &layout, v, MANY), 1);
  expect_has(v[0].text, "pad to 3000");
  job.seq_tokens = 3000;
  expect_i64(spp_rules_first(&job, &layout), -1);
}

/* verl-project/verl#7476: the model family is not split, whatever SP says. */
static void verl_does_not_split_qwen3_5(void **state) {
  struct spp_violation v[MANY];
  (void)state;
  struct spp_arch *arch = case_heads(24, 4);
  snprintf(arch->model_type, sizeof arch->model_type, "qwen3_5");
  struct spp_job job = case_job(arch, "verl", 8, 32768);
  struct spp_layout layout = case_layout(&job, 1, 1, 4);
  expect_i64(spp_rules_check(&job, &layout, v, MANY), 1);
  expect_str(v[0].rule, "sp-model-type");
}

static void absurd_degrees_are_refused_and_never_trap(void **state) {
  struct spp_violation v[4];
  (void)state;
  struct spp_job job = job_of("megatron-lm", 32, 8, 8, 4096);
  struct spp_layout layout = case_layout(&job, 1, 1, 1);
  layout.tp = layout.pp = layout.dp = layout.ep = layout.ulysses = layout.ring = INT64_MAX / 4;
  expect_true(spp_rules_check(&job, &layout, v, 4) >= 4);
  expect_str(v[0].rule, "world-product");
  layout.ring = 0;
  expect_i64(spp_rules_check(&job, &layout, v, 4), 1);
  expect_str(v[0].rule, "degree-positive");
}

/* ---- head rules against a distribution of heads ---- */

/* Rank j of su gets query heads [j nq/su, (j+1) nq/su) and an equal share of the KV heads, each repeated
 * su/nk times when there are fewer than ranks; legal when every share is whole and holds exactly the KV heads
 * its queries read. */
static bool heads_distribute(int64_t nq, int64_t nk, int64_t su, bool repeat) {
  int64_t times = repeat && su > nk ? su / nk : 1, kv = nk * times;
  if (nq % su != 0 || kv % su != 0) return false;
  int64_t share_q = nq / su, share_kv = kv / su, reads = nq / nk;
  for (int64_t j = 0; j < su; j++)
    for (int64_t h = j * share_q; h < (j + 1) * share_q; h++) {
      int64_t needed = h / reads, first = j * share_kv / times, last = ((j + 1) * share_kv - 1) / times;
      if (needed < first || needed > last) return false;
    }
  return true;
}

static uint64_t next_random(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 33;
}

static void head_rules_agree_with_a_distribution_of_heads(void **state) {
  static const struct {
    const char *framework;
    bool repeat;
  } rows[] = {
      {"deepspeed", true}, {"verl", true}, {"llama-factory", true}, {"megatron-lm", false}, {"spplan", true}};
  uint64_t seed = 20240917;
  (void)state;
  for (int trial = 0; trial < 60; trial++) {
    int64_t nk = 1 + (int64_t)(next_random(&seed) % 16), nq = nk * (1 + (int64_t)(next_random(&seed) % 12));
    struct spp_arch *arch = case_heads(nq, nk);
    bool expanded = next_random(&seed) % 4 == 0; /* MLA expands K and V to all heads */
    if (expanded) arch->attention = SPP_ATTENTION_MLA;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
      struct spp_job job = case_job(arch, rows[r].framework, 1, 4096);
      struct spp_layout layout = case_layout(&job, 1, 1, 1);
      for (int64_t su = 2; su <= 64; su++) {
        ulysses(&layout, su);
        int first = spp_rules_first_of(&job, &layout, SPP_AXIS_SP);
        bool heads_ok = first < 0 || strncmp(spp_rule_id(first), "ulysses", 7) != 0;
        expect_note("seed 20240917 trial %d: %s %d/%d%s su %d", trial, rows[r].framework, (int)nq, (int)nk,
                    expanded ? " MLA" : "", (int)su);
        expect_true(heads_ok == heads_distribute(nq, expanded ? nq : nk, su, rows[r].repeat));
      }
    }
  }
  expect_note("%s", "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(the_message_lists_the_legal_degrees),
      TEST(what_is_not_there_is_answered_with_what_is),
      TEST(sp_six_needs_packing_in_ms_swift),
      TEST(tp_beyond_the_kv_heads_depends_on_the_version),
      TEST(a_hybrid_needs_two_sizes),
      TEST(attention_sinks_run_with_ulysses_only),
      TEST(a_zigzag_ring_needs_two_chunks_a_rank),
      TEST(verl_does_not_split_qwen3_5),
      TEST(absurd_degrees_are_refused_and_never_trap),
      TEST(head_rules_agree_with_a_distribution_of_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
