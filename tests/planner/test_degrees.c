#include "tests/model/framework_case.h"

#include "planner/degrees.h"

static struct spp_degrees degrees; /* large: not on the stack */

static void list(const char *framework, const struct spp_arch *arch, int64_t gpus, bool packing) {
  struct spp_job job = case_job(arch, framework, gpus, 4096);
  job.packing = packing;
  spp_degrees_list(&job, SPP_UNSET, &degrees);
}

/* The legal degrees as "1 2 4". */
static const char *legal(const struct spp_degree *list, int count) {
  static char text[256];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < count; i++)
    if (list[i].legal && used < sizeof text - 8) {
      snprintf(text + used, sizeof text - used, "%s%d", used ? " " : "", (int)list[i].degree);
      used = strlen(text);
    }
  return text;
}

static void sequence_degrees_follow_the_heads(void **state) {
  static const struct {
    const char *framework;
    int64_t heads, kv_heads, gpus;
    bool packing;
    const char *legal;
  } rows[] = {
      {"verl", 40, 8, 0, false, "1 2 4 8 40"},    /* verl-project/verl#1226 */
      {"deepspeed", 28, 4, 0, false, "1 2 4 28"}, /* KV heads repeated 7 times at 28 */
      {"ms-swift", 28, 4, 0, false, "1 2 4"},     /* more needs a ring part, hence packing */
      {"ms-swift", 28, 4, 8, true, "1 2 4 8"},    /* any degree with packing; 8 GPUs divide by these */
      {"torchtitan", 32, 8, 6, false, "1 2 3 6"}, /* all-gather: no head rule */
      {"vllm", 32, 8, 8, false, "1"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    expect_note("%s %d/%d", rows[i].framework, (int)rows[i].heads, (int)rows[i].kv_heads);
    list(rows[i].framework, case_heads(rows[i].heads, rows[i].kv_heads), rows[i].gpus, rows[i].packing);
    expect_str(legal(degrees.sp, degrees.sp_count), rows[i].legal);
    expect_i64(degrees.sp_count, rows[i].gpus ? rows[i].gpus : 64);
  }
  expect_note("%s", "");
}

static void an_illegal_degree_says_its_rule(void **state) {
  (void)state;
  list("verl", case_heads(40, 8), 0, false);
  expect_str(degrees.sp[2].rule, "ulysses-heads");     /* 3 does not divide 40 */
  expect_str(degrees.sp[4].rule, "ulysses-kv-repeat"); /* 5, 10 and 20 fail on the KV side */
  expect_str(degrees.sp[9].rule, "ulysses-kv-repeat");
  expect_str(degrees.sp[19].rule, "ulysses-kv-repeat");
  expect_has(degrees.sp[4].text, "use 1, 2, 4, 8, 40");
  expect_true(degrees.sp[7].legal && degrees.sp[7].rule[0] == '\0');
  list("ms-swift", case_heads(28, 4), 12, false);
  expect_str(degrees.sp[7].rule, "ring-packing");
  expect_i64(degrees.sp[7].ulysses, 4);
  expect_i64(degrees.sp[7].ring, 2);
  list("torchtitan", case_heads(32, 8), 6, false);
  expect_str(degrees.sp[3].rule, "world-product");
  expect_str(degrees.sp[3].text, "4 does not divide 6 GPUs");
}

static void a_kind_can_be_asked_for(void **state) {
  (void)state;
  struct spp_job job = case_job(case_heads(28, 4), "megatron-lm", 0, 4096);
  spp_degrees_list(&job, SPP_SP_ULYSSES, &degrees);
  expect_str(legal(degrees.sp, degrees.sp_count), "1 2 4");
  spp_degrees_list(&job, SPP_SP_RING, &degrees);
  expect_true(degrees.sp[63].legal); /* p2p has no head rule */
}

static void tensor_degrees_follow_both_head_counts(void **state) {
  static const struct {
    const char *framework;
    int64_t heads, kv_heads;
    const char *legal;
  } rows[] = {{"megatron-lm", 32, 8, "1 2 4 8 16 32"},
              {"megatron-lm", 28, 4, "1 2 4 28"},
              {"torchtitan", 32, 8, "1 2 4 8"},
              {"megatron-lm", 32, 2, "1 2 4 8 16 32"},
              {"ms-swift", 32, 8, "1"}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    expect_note("%s %d/%d", rows[i].framework, (int)rows[i].heads, (int)rows[i].kv_heads);
    list(rows[i].framework, case_heads(rows[i].heads, rows[i].kv_heads), 0, false);
    expect_str(legal(degrees.tp, degrees.tp_count), rows[i].legal);
  }
  expect_note("%s", "");
}

static void expert_degrees_divide_the_experts(void **state) {
  (void)state;
  struct spp_arch *arch = case_heads(32, 8);
  list("megatron-lm", arch, 8, false);
  expect_str(legal(degrees.ep, degrees.ep_count), "1");
  expect_str(degrees.ep[1].rule, "ep-experts");
  arch->experts = 12;
  list("megatron-lm", arch, 0, false);
  expect_str(legal(degrees.ep, degrees.ep_count), "1 2 3 4 6 12");
  list("megatron-lm", arch, 8, false);
  expect_str(legal(degrees.ep, degrees.ep_count), "1 2 4");
  list("ms-swift", arch, 0, false);
  expect_str(legal(degrees.ep, degrees.ep_count), "1");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(sequence_degrees_follow_the_heads), TEST(an_illegal_degree_says_its_rule),
      TEST(a_kind_can_be_asked_for),           TEST(tensor_degrees_follow_both_head_counts),
      TEST(expert_degrees_divide_the_experts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
