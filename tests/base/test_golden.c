/* The golden comparison itself: equal text passes, and the first differing line is found. */
#include "tests/golden.h"

static void equal_text_passes(void **state) {
  (void)state;
  expect_golden("first line\nsecond line\n", "base_golden.txt");
}

static void the_first_differing_line_is_found(void **state) {
  (void)state;
  static const struct {
    const char *a, *b;
    int line;
    const char *at_a, *at_b;
  } cases[] = {{"a\nb\nc", "a\nb\nd", 3, "c", "d"},
               {"a\nb", "a\n", 2, "b", ""},
               {"", "x", 1, "", "x"},
               {"long prefix one\n", "long prefix two\n", 1, "long prefix one\n", "long prefix two\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *at_a, *at_b;
    expect_note("case %zu", i);
    expect_i64(golden_difference(cases[i].a, cases[i].b, &at_a, &at_b), cases[i].line);
    expect_str(at_a, cases[i].at_a);
    expect_str(at_b, cases[i].at_b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_text_passes),
      cmocka_unit_test(the_first_differing_line_is_found),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
