#include "tests/exec/ranks.h"

#include "exec/suite.h"
#include "exec/validate.h"

static void print_result(const struct spp_validate_result *r) {
  print_message("  loss %.6f error %.1e gradients %.1e weights %.1e  %.2f ms\n", r->numerics.loss,
                r->numerics.loss_rel_error, r->numerics.grad_rel_error, r->numerics.output_rel_error,
                1e3 * r->time.measured_s);
  for (int i = 0; i < r->comm.count; i++) {
    const struct spp_validate_traffic *t = &r->comm.rows[i];
    if (t->predicted_bytes == t->measured_bytes && t->predicted_messages == t->measured_messages) continue;
    print_message("  %s %s %s %s: bytes predicted %lld measured %lld, messages %lld %lld\n",
                  spp_collective_name(t->op), t->what, spp_group_name(t->group), spp_pass_name(t->pass),
                  (long long)t->predicted_bytes, (long long)t->measured_bytes,
                  (long long)t->predicted_messages, (long long)t->measured_messages);
  }
  print_message("  memory predicted %lld (%s) measured %lld (%s)\n", (long long)r->memory.predicted_bytes,
                spp_moment_name(r->memory.predicted_moment), (long long)r->memory.measured_bytes,
                spp_moment_name(r->memory.measured_moment));
  for (int p = 0; p < SPP_PART_COUNT; p++)
    if (r->memory.predicted_parts[p] != r->memory.measured_parts[p])
      print_message("    %s predicted %lld measured %lld\n", spp_part_name((enum spp_part)p),
                    (long long)r->memory.predicted_parts[p], (long long)r->memory.measured_parts[p]);
}

static void run_on(const struct spp_backend *backend, const struct spp_suite_case *c, int64_t steps,
                   struct spp_validate_result *result) {
  struct spp_arena arena;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_validate_case v = {.name = c->name, .setting = spp_suite_setting(c), .steps = steps};
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(c->model, strlen(c->model), "test", &arena, &v.setting.arch, &diag), SPP_OK,
                &diag);
  expect_status(spp_validate_run(SPP_SOURCE_DIR "/configs", backend, &v, result, &diag), SPP_OK, &diag);
  spp_arena_free(&arena);
}

static void run_case(const struct spp_suite_case *c, struct spp_validate_result *result) {
  run_on(test_backend(), c, SPP_VALIDATE_STEPS, result);
}

static void layouts_train_like_one_rank_and_use_what_is_predicted(void **state) {
  int most = test_ranks(SPP_EXEC_MAX_RANKS), run = 0;
  struct spp_suite_case c;
  (void)state;
  for (int i = 0; spp_suite_get(SPP_SUITE_FULL, i, &c); i++) {
    static struct spp_validate_result result;
    if (spp_layout_world(&c.layout) > most) continue;
    expect_note("%s", c.name);
    run_case(&c, &result);
    run++;
    if (!test_backend()->leads()) continue;
    if (!result.numerics.ok || !result.comm.ok || !result.memory.ok) print_result(&result);
    expect_true(result.numerics.ok);
    expect_true(result.comm.ok);
    expect_true(result.memory.ok);
  }
  expect_note("%s", "");
  expect_true(run > 5);
}

/* Sums are taken in one order, whatever the threads do: two runs give the same bits. */
static void runs_give_the_same_bits_again(void **state) {
  struct spp_suite_case c;
  (void)state;
  for (int i = 0; spp_suite_get(SPP_SUITE_QUICK, i, &c); i++) {
    static struct spp_validate_result first, second;
    if (spp_layout_world(&c.layout) > test_ranks(SPP_EXEC_MAX_RANKS)) continue;
    expect_note("%s", c.name);
    run_case(&c, &first);
    run_case(&c, &second);
    if (!test_backend()->leads()) continue;
    expect_true(first.numerics.weights_digest != 0);
    expect_true(first.numerics.weights_digest == second.numerics.weights_digest);
    expect_true(first.numerics.loss == second.numerics.loss);
  }
  expect_note("%s", "");
}

/* 32 threads of little more than 2 MiB each: their stacks and the arenas of small blocks are a tenth of it.
 */
static void the_system_may_count_a_little_more_for_each_rank(void **state) {
  static struct spp_validate_result result;
  struct spp_suite_case c;
  (void)state;
  assert_true(spp_suite_get(SPP_SUITE_QUICK, 0, &c));
  c.layout = spp_layout_plain();
  c.layout.dp = 32;
  run_on(&spp_backend_self, &c, 1, &result);
  expect_true(result.memory.predicted_bytes * 32 > INT64_C(64) << 20);
  expect_i64(result.memory.measured_bytes, result.memory.predicted_bytes);
  expect_true(result.memory.ok);
}

/* 80 layers of tensors of some pages each, which malloc would take from what the runs before left with it. */
static void small_tensors_are_resident_as_counted(void **state) {
  static const char model[] =
      "{\"model_type\":\"llama\",\"hidden_size\":120,\"intermediate_size\":60,\"num_hidden_layers\":80,"
      "\"num_attention_heads\":12,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":100,"
      "\"tie_word_embeddings\":false}";
  static struct spp_validate_result result;
  struct spp_suite_case c;
  (void)state;
  assert_true(spp_suite_get(SPP_SUITE_QUICK, 0, &c));
  c.model = model;
  c.layout = spp_layout_plain();
  c.layout.micro_batch = 3;
  c.seq_tokens = 17;
  for (int i = 0; i < 2; i++) {
    run_on(&spp_backend_self, &c, 1, &result);
    expect_true(result.memory.predicted_bytes > INT64_C(64) << 20);
    expect_true(result.memory.ok);
  }
}

/* Command-R's block on a stream wider than its MLP: 120 elements, 96. */
static void a_shared_norm_stays_beside_the_gradient_of_a_narrow_mlp(void **state) {
  static const char model[] =
      "{\"model_type\":\"cohere\",\"hidden_size\":120,\"intermediate_size\":96,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":8,\"vocab_size\":64}";
  static struct spp_validate_result result;
  static const struct {
    int64_t dp;
    int zero;
    enum spp_recompute recompute;
    unsigned modules;
  } cases[] = {{1, 0, SPP_RECOMPUTE_NONE, 0},
               {2, 2, SPP_RECOMPUTE_NONE, 0},
               {2, 3, SPP_RECOMPUTE_SELECTIVE, SPP_RC_LAYERNORM},
               {2, 2, SPP_RECOMPUTE_SELECTIVE, SPP_RC_MLP},
               {2, 2, SPP_RECOMPUTE_FULL, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_suite_case c;
    assert_true(spp_suite_get(SPP_SUITE_QUICK, 0, &c));
    expect_note("%zu", i);
    c.model = model;
    c.layout = spp_layout_plain();
    c.layout.dp = cases[i].dp;
    c.layout.zero = cases[i].zero;
    c.layout.recompute = cases[i].recompute;
    c.layout.recompute_modules = cases[i].modules;
    run_on(&spp_backend_self, &c, 2, &result);
    if (!result.memory.ok) print_result(&result);
    expect_true(result.memory.ok);
  }
}

static void suites_grow(void **state) {
  struct spp_suite_case c;
  int count[SPP_SUITE_COUNT] = {0};
  (void)state;
  for (int s = 0; s < SPP_SUITE_COUNT; s++)
    while (spp_suite_get((enum spp_suite)s, count[s], &c))
      count[s]++;
  expect_true(count[SPP_SUITE_QUICK] >= 5);
  expect_true(count[SPP_SUITE_CI] > count[SPP_SUITE_QUICK]);
  expect_true(count[SPP_SUITE_FULL] > count[SPP_SUITE_CI]);
}

/* A model or layout the engine lacks is told, not run. */
static void what_the_engine_lacks_is_refused(void **state) {
  static const char mixture[] = /* experts: not cut by tensor parallelism */
      "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":128,"
      "\"num_local_experts\":4,\"num_experts_per_tok\":2}";
  static const char few[] = /* positions */
      "{\"model_type\":\"gpt2\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":8,"
      "\"vocab_size\":128,\"n_positions\":40}";
  static const char nine[] = /* experts: 48 tokens with two each are no multiple */
      "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":128,"
      "\"num_local_experts\":9,\"num_experts_per_tok\":2}";
  static const char narrow[] = /* heads: 20 elements, for which attention has no kernel */
      "{\"model_type\":\"llama\",\"hidden_size\":80,\"intermediate_size\":96,\"num_hidden_layers\":2,"
      "\"num_attention_heads\":4,\"vocab_size\":128}";
  static struct spp_validate_result result;
  static const struct {
    const char *model;
    int64_t tp, ulysses, etp;
    enum spp_status status;
  } bad[] = {{mixture, 2, 1, 2, SPP_ERR_ABSENT},
             {narrow, 1, 1, 1, SPP_ERR_ABSENT},
             {few, 1, 1, 1, SPP_ERR_USAGE},
             {nine, 1, 1, 1, SPP_ERR_USAGE},
             {spp_suite_model, 3, 1, 1, SPP_ERR_USAGE},
             {spp_suite_model, 1, 3, 1, SPP_ERR_USAGE}};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct spp_arena arena;
    struct spp_diag diag = {.status = SPP_OK};
    struct spp_validate_case v = {.name = "bad", .steps = 1, .setting = {.seq_tokens = 48}};
    v.setting.layout = spp_layout_plain();
    v.setting.layout.tp = bad[i].tp;
    v.setting.layout.megatron_sp = bad[i].tp > 1;
    v.setting.layout.etp = bad[i].etp;
    v.setting.layout.ulysses = bad[i].ulysses;
    if (bad[i].ulysses > 1) v.setting.layout.sp_kind = SPP_SP_ULYSSES;
    spp_arena_init(&arena);
    expect_status(spp_arch_parse(bad[i].model, strlen(bad[i].model), "test", &arena, &v.setting.arch, &diag),
                  SPP_OK, &diag);
    expect_status(spp_validate_run(SPP_SOURCE_DIR "/configs", &spp_backend_self, &v, &result, &diag),
                  bad[i].status, NULL);
    spp_arena_free(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_train_like_one_rank_and_use_what_is_predicted),
      cmocka_unit_test(runs_give_the_same_bits_again),
      cmocka_unit_test(the_system_may_count_a_little_more_for_each_rank),
      cmocka_unit_test(small_tensors_are_resident_as_counted),
      cmocka_unit_test(a_shared_norm_stays_beside_the_gradient_of_a_narrow_mlp),
      cmocka_unit_test(suites_grow),
      cmocka_unit_test(what_the_engine_lacks_is_refused),
  };
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
