#include "tests/exec/ranks.h"

#include "exec/validate.h"

#define SHAPE                                                                                                \
  "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":8,"           \
  "\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":128,"
static const char qwen2[] = "{\"model_type\":\"qwen2\"," SHAPE "\"tie_word_embeddings\":false}";

struct validate_case {
  const char *name, *model;
  struct spp_layout layout;
  int64_t seq_tokens;
};

/* What differs from one rank with one sequence; a degree of 0 is 1. */
#define LAYOUT(...)                                                                                          \
  { .recompute_layers = SPP_UNSET, __VA_ARGS__ }

static const struct validate_case cases[] = {
    {"one rank", qwen2, LAYOUT(.grad_accum = 2), 32},
    {"dp 2", qwen2, LAYOUT(.dp = 2), 32},
    {"dp 4, zero 1", qwen2, LAYOUT(.dp = 4, .zero = 1, .grad_accum = 2), 32},
    {"dp 2, zero 2", qwen2, LAYOUT(.dp = 2, .zero = 2, .grad_accum = 2), 32},
    {"dp 4, zero 3, recompute", qwen2,
     LAYOUT(.dp = 4, .zero = 3, .grad_accum = 2, .recompute = SPP_RECOMPUTE_FULL), 32},
    {"ulysses 4", qwen2, LAYOUT(.ulysses = 4, .sp_kind = SPP_SP_ULYSSES), 64},
    {"ulysses 2 x dp 2, zero 3", qwen2,
     LAYOUT(.ulysses = 2, .sp_kind = SPP_SP_ULYSSES, .dp = 2, .zero = 3, .micro_batch = 2), 64},
    {"ring 4", qwen2, LAYOUT(.ring = 4, .sp_kind = SPP_SP_RING), 64},
    {"ring 2, recompute", qwen2, LAYOUT(.ring = 2, .sp_kind = SPP_SP_RING, .recompute = SPP_RECOMPUTE_FULL),
     64},
    {"all-gather 4", qwen2, LAYOUT(.ring = 4, .sp_kind = SPP_SP_ALLGATHER), 64},
    {"hybrid 2 x 2, zero 2", qwen2, LAYOUT(.ulysses = 2, .ring = 2, .sp_kind = SPP_SP_HYBRID, .zero = 2), 64},
    {"tp 4", qwen2, LAYOUT(.tp = 4), 32},
    {"tp 2 with sequence parallelism", qwen2, LAYOUT(.tp = 2, .megatron_sp = true), 32},
    {"tp 2 x dp 2 x ring 2", qwen2, LAYOUT(.tp = 2, .dp = 2, .ring = 2, .sp_kind = SPP_SP_RING, .zero = 1),
     64},
    {"tp 2 sp, recompute", qwen2, LAYOUT(.tp = 2, .megatron_sp = true, .recompute = SPP_RECOMPUTE_FULL), 32},
    {"pp 4", qwen2, LAYOUT(.pp = 4, .grad_accum = 6), 32},
    {"pp 2 interleaved", qwen2,
     LAYOUT(.pp = 2, .vpp = 2, .grad_accum = 4, .schedule = SPP_SCHEDULE_INTERLEAVED), 32},
    {"pp 2 x tp 2 x dp 2", qwen2, LAYOUT(.pp = 2, .tp = 2, .dp = 2, .grad_accum = 3, .megatron_sp = true),
     32},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static void print_result(const struct spp_validate_result *r) {
  print_message("  loss %.6f error %.1e gradients %.1e weights %.1e  %.1f ms\n", r->numerics.loss,
                r->numerics.loss_rel_error, r->numerics.grad_rel_error, r->numerics.output_rel_error,
                1e3 * r->step_s);
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

static struct spp_layout complete(struct spp_layout l) {
  int64_t *const degrees[] = {&l.tp,          &l.pp,        &l.vpp,  &l.dp,           &l.ep,
                              &l.etp,         &l.ulysses,   &l.ring, &l.dp_replicate, &l.recompute_unit,
                              &l.micro_batch, &l.grad_accum};
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
    if (*degrees[i] == 0) *degrees[i] = 1;
  return l;
}

static void run_case(const struct validate_case *c, struct spp_validate_result *result) {
  struct spp_arena arena;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_validate_case v = {.name = c->name,
                                .setting = {.layout = complete(c->layout), .seq_tokens = c->seq_tokens},
                                .steps = SPP_VALIDATE_STEPS};
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(c->model, strlen(c->model), "test", &arena, &v.setting.arch, &diag), SPP_OK,
                &diag);
  expect_status(spp_validate_run(SPP_SOURCE_DIR "/configs", test_backend(), &v, result, &diag), SPP_OK,
                &diag);
  spp_arena_free(&arena);
}

static void layouts_train_like_one_rank_and_use_what_is_predicted(void **state) {
  int most = test_ranks(SPP_EXEC_MAX_RANKS);
  (void)state;
  for (int i = 0; i < CASE_COUNT; i++) {
    static struct spp_validate_result result;
    struct spp_layout layout = complete(cases[i].layout);
    if (spp_layout_world(&layout) > most) continue;
    expect_note("%s", cases[i].name);
    run_case(&cases[i], &result);
    if (!test_backend()->leads()) continue;
    if (!spp_validate_ok(&result)) print_result(&result);
    expect_true(result.numerics.ok);
    expect_true(result.comm.ok);
    expect_true(result.memory.ok);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_train_like_one_rank_and_use_what_is_predicted),
  };
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
