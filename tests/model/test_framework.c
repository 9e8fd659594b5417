#include "tests/model/framework_case.h"

#include <unistd.h>

#include "base/file.h"
#include "model/words.h"

static const char *const shipped[] = {"axolotl",     "deepspeed",      "fsdp2",    "llama-factory",
                                      "megatron-lm", "megatron-swift", "ms-swift", "spplan",
                                      "torchtitan",  "verl",           "vllm",     "xtuner"};
enum { SHIPPED = sizeof shipped / sizeof shipped[0] };

static void own_path(const char *name, char *path, size_t size) {
  const char *folder = getenv("TMPDIR");
  snprintf(path, size, "%s/%s-%ld.json", folder ? folder : "/tmp", name, (long)getpid());
}

static void every_shipped_framework_loads_under_its_file_name(void **state) {
  const char *const *names = NULL;
  int count = 0;
  struct spp_diag diag;
  (void)state;
  expect_status(spp_framework_list(CASE_CONFIGS, &case_arena, &names, &count, &diag), SPP_OK, &diag);
  int planned = 0; /* the others only describe where measured runs come from */
  for (int i = 0; i < count; i++) {
    const struct spp_framework *f = case_framework(names[i]);
    expect_str(f->name, names[i]);
    bool listed = false;
    for (int k = 0; k < SHIPPED; k++)
      listed = listed || !strcmp(shipped[k], names[i]);
    expect_note("%s", names[i]);
    expect_true(listed || !f->searched);
    planned += listed;
  }
  expect_i64(planned, SHIPPED);
}

/* What no file may contradict: defaults are among what is supported, kinds agree with rules. */
static void a_framework_supports_its_own_defaults(void **state) {
  (void)state;
  for (int i = 0; i < SHIPPED; i++) {
    const struct spp_framework *f = case_framework(shipped[i]);
    expect_note("%s", f->name);
    expect_true(f->sp_kinds[SPP_SP_NONE]);
    expect_true(f->sp_kinds[f->sp_kind_default]);
    expect_true(f->states[f->zero_default].supported);
    expect_true(f->states[0].supported);
    expect_true(f->recomputes[f->recompute_default]);
    expect_true(f->losses[f->loss_default]);
    expect_true(f->attentions[f->attention]);
    expect_true(f->offloads[SPP_OFFLOAD_NONE]);
    expect_true(f->schedules[SPP_SCHEDULE_1F1B]);
    expect_true(f->methods[SPP_METHOD_FULL]);
    expect_true(f->launch_count > 0);
    expect_true(f->allocator_factor >= 1);
    expect_true(f->trains == f->modes[SPP_MODE_TRAIN]);
    expect_true(!f->vpp || f->schedules[SPP_SCHEDULE_INTERLEAVED]);
  }
  expect_note("%s", "");
}

/* Whether KV heads are repeated is said by the rule that is listed, so Ulysses comes with one of the two. */
static void ulysses_comes_with_one_head_rule(void **state) {
  (void)state;
  for (int i = 0; i < SHIPPED; i++) {
    const struct spp_framework *f = case_framework(shipped[i]);
    int rules = 0;
    for (int k = 0; k < f->rule_count; k++)
      rules += strcmp(f->rules[k].id, "ulysses-kv-repeat") == 0 || strcmp(f->rules[k].id, "ulysses-kv") == 0;
    expect_note("%s", f->name);
    expect_i64(rules, f->sp_kinds[SPP_SP_ULYSSES]);
  }
  expect_note("%s", "");
}

static void states_hold_the_bytes_of_the_literature(void **state) {
  /* Megatron 18 and 6 + 12/d; DeepSpeed ZeRO-2 2 + 14/d (+4 at the step); FSDP2 16/d. */
  static const struct {
    const char *framework;
    int zero, whole, sharded;
  } rows[] = {{"megatron-lm", 0, 18, 0}, {"megatron-lm", 1, 6, 12}, {"deepspeed", 1, 4, 12},
              {"deepspeed", 2, 2, 14},   {"deepspeed", 3, 0, 16},   {"fsdp2", 3, 0, 16},
              {"torchtitan", 3, 0, 16},  {"ms-swift", 0, 8, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_states *st = &case_framework(rows[i].framework)->states[rows[i].zero];
    int parts[3][2] = {{st->weight_bytes, st->shard_weights},
                       {st->grad_bytes, st->shard_grads},
                       {st->master_bytes + st->moment_bytes, st->shard_optimizer}};
    int total[2] = {0, 0};
    for (int k = 0; k < 3; k++)
      total[parts[k][1]] += parts[k][0];
    expect_note("%s stage %d", rows[i].framework, rows[i].zero);
    expect_i64(total[0], rows[i].whole);
    expect_i64(total[1], rows[i].sharded);
  }
  expect_note("%s", "");
}

static void extending_keeps_what_is_not_said(void **state) {
  (void)state;
  const struct spp_framework *base = case_framework("megatron-lm"),
                             *derived = case_framework("megatron-swift");
  expect_i64(derived->vocab_multiple, base->vocab_multiple);
  expect_i64(derived->rule_count, base->rule_count - 1);
  expect_str(spp_framework_source(derived, "vocab_multiple"), spp_framework_source(base, "vocab_multiple"));
  expect_true(spp_framework_source(base, "no_such_field") == NULL);
}

static void a_users_file_is_checked_strictly(void **state) {
  static const struct {
    const char *text, *words, *where;
  } rows[] = {
      {"{\"extends\":\"ms-swift\",\"sp_kindz\":[]}", "sp_kinds", "$.sp_kindz"},
      {"{\"extends\":\"ms-swift\",\"vocab_multiple\":2}", "no source for vocab_multiple", "$.vocab_multiple"},
      {"{\"extends\":\"ms-swift\",\"vocab_multiple\":-1}", "", "$.vocab_multiple"},
      {"{\"extends\":\"ms-swift\",\"kernels\":\"fusd\"}", "fused", "$.kernels"},
      {"{\"extends\":\"ms-swift\",\"kernels\":3}", "string", "$.kernels"},
      {"{\"extends\":\"ms-swift\",\"sp_kinds\":[\"ringg\"]}", "ring", "$.sp_kinds[0]"},
      {"{\"extends\":\"ms-swift\",\"states\":{\"4\":null}}", "", "$.states.4"},
      {"{\"extends\":\"ms-swift\",\"states\":{\"3\":{\"weight_byte\":2}}}", "weight_bytes", "weight_byte"},
      {"{\"extends\":\"ms-swift\",\"states\":{\"3\":{\"weight_bytes\":2}}}", "no source for states.3",
       "$.states"},
      {"{\"extends\":\"ms-swift\",\"rules\":[{\"id\":\"ulyses-heads\",\"source\":\"x\"}]}", "ulysses-heads",
       "$.rules[0].id"},
      {"{\"extends\":\"ms-swift\",\"rules\":[{\"id\":\"zero-pp\"}]}", "source", "$.rules[0]"},
      {"{\"extends\":\"ms-swift\",\"rules_drop\":[\"zero-pp\"]}", "not inherited", "$.rules_drop[0]"},
      {"{\"extends\":\"ms-swift\",\"launch\":[\"--x {seqq}\"]}", "{seqq}", "$.launch[0]"},
      {"{\"extends\":\"ms-swift\",\"launch\":[{\"when\":\"spp>1\",\"text\":\"x\"}]}", "spp>1", "$.launch[0]"},
      {"{\"extends\":\"ms-swift\",\"launch\":[{\"when\":\"zero=three\",\"text\":\"x\"}]}", "zero=three",
       "$.launch[0]"},
      {"{\"extends\":\"ms-swift\",\"launch\":[{\"when\":\"mode=trian\",\"text\":\"x\"}]}", "mode=trian",
       "$.launch[0]"},
      {"{\"extends\":\"ms-swift\",\"launch\":[{\"when\":\"mode>train\",\"text\":\"x\"}]}", "mode>train",
       "$.launch[0]"},
      {"{\"extends\":\"../ms-swift\"}", "path", "$.extends"},
      {"{\"name\":\"half\"}", "display", "display"},
      {"[]", "", "$"},
  };
  char path[256];
  (void)state;
  own_path("framework_case", path, sizeof path);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_framework *framework = NULL;
    struct spp_diag diag;
    char line[1024];
    expect_note("%s", rows[i].text);
    expect_status(spp_file_write_atomic(path, rows[i].text, strlen(rows[i].text), &diag), SPP_OK, &diag);
    expect_status(spp_framework_load(CASE_CONFIGS, path, &case_arena, &framework, &diag), SPP_ERR_INPUT,
                  &diag);
    spp_diag_format(&diag, line, sizeof line);
    expect_has(line, rows[i].words);
    expect_has(line, rows[i].where);
  }
  remove(path);
  expect_note("%s", "");
}

static void a_users_file_may_extend_and_override(void **state) {
  static const char text[] =
      "{\"extends\":\"megatron-lm\",\"name\":\"old\",\"version\":\"core 0.15\","
      "\"rules_drop\":[\"kv-tp\"],\"rules\":[{\"id\":\"kv-tp-strict\",\"source\":\"U032\"}],"
      "\"vocab_multiple\":64,\"sources\":{\"vocab_multiple\":\"mine\"}}";
  const struct spp_framework *f = NULL;
  struct spp_diag diag;
  char path[256];
  (void)state;
  own_path("framework_own", path, sizeof path);
  expect_status(spp_file_write_atomic(path, text, strlen(text), &diag), SPP_OK, &diag);
  expect_status(spp_framework_load(CASE_CONFIGS, path, &case_arena, &f, &diag), SPP_OK, &diag);
  remove(path);
  expect_i64(f->vocab_multiple, 64);
  expect_str(spp_framework_source(f, "vocab_multiple"), "mine");
  expect_str(f->rules[f->rule_count - 1].id, "kv-tp-strict");
  expect_str(f->rules[f->rule_count - 1].version, "core 0.15");
}

static void an_unknown_name_gives_the_nearest(void **state) {
  const struct spp_framework *framework = NULL;
  struct spp_diag diag;
  (void)state;
  expect_status(spp_framework_load(CASE_CONFIGS, "ms-swif", &case_arena, &framework, &diag), SPP_ERR_USAGE,
                &diag);
  expect_has(diag.hint, "ms-swift?");
  expect_true(framework == NULL);
}

static void words_and_values_go_both_ways(void **state) {
  (void)state;
  for (int t = 0; t < SPP_WORDS_COUNT; t++) {
    const struct spp_words *words = spp_words_of((enum spp_words_table)t);
    expect_true(words->count > 1);
    for (int i = 0; i < words->count; i++) {
      expect_true(words->names[i] != NULL);
      expect_i64(spp_words_find((enum spp_words_table)t, words->names[i]), i);
    }
    expect_i64(spp_words_find((enum spp_words_table)t, "nonsense"), -1);
  }
  for (int i = 0; i < SPP_DTYPE_COUNT; i++)
    expect_str(spp_words_name(SPP_WORDS_DTYPE, i), spp_dtype_name((enum spp_dtype)i));
  expect_str(spp_offload_name(SPP_OFFLOAD_OPTIMIZER_PARAMS), "optimizer+params");
  expect_str(spp_sp_kind_name(SPP_SP_ALLGATHER), "allgather");
  expect_str(spp_recompute_module_name(0), "core_attn");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_shipped_framework_loads_under_its_file_name),
      TEST(a_framework_supports_its_own_defaults),
      TEST(ulysses_comes_with_one_head_rule),
      TEST(states_hold_the_bytes_of_the_literature),
      TEST(extending_keeps_what_is_not_said),
      TEST(a_users_file_is_checked_strictly),
      TEST(a_users_file_may_extend_and_override),
      TEST(an_unknown_name_gives_the_nearest),
      TEST(words_and_values_go_both_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
