#include "base/suggest.h"
#include "tests/expect.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void suggestions_find_the_near_word(void **state) {
  (void)state;
  static const char *const names[] = {"plan",       "predict",   "compare",       "sweep",   "alloc",
                                      "qwen2.5-7b", "h100-80gb", "--micro-batch", "validate"};
  static const struct {
    const char *word, *name;
  } cases[] = {{"paln", "plan"},  /* swap */
               {"pla", "plan"},   /* one missing */
               {"plann", "plan"}, /* one too many */
               {"PLAN", "plan"},
               {"predcit", "predict"},
               {"qwen2.5-7B", "qwen2.5-7b"},
               {"qwen25-7b", "qwen2.5-7b"},
               {"H100_80GB", "h100-80gb"},
               {"--micro_batch", "--micro-batch"},
               {"--microbatch", "--micro-batch"},
               {"vaildate", "validate"},
               {"zzz", NULL},
               {"", NULL},
               {"p", NULL},
               {"completely-different", NULL}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    expect_note("'%s'", cases[i].word);
    expect_str(spp_suggest(cases[i].word, names, (int)COUNT(names)), cases[i].name);
  }
  char absurd[1000];
  memset(absurd, 'p', sizeof absurd);
  absurd[sizeof absurd - 1] = '\0';
  expect_true(spp_suggest(absurd, names, (int)COUNT(names)) == NULL);
  expect_true(spp_suggest("plan", names, 0) == NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(suggestions_find_the_near_word),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
