#include "base/term.h"
#include "tests/expect.h"

#include <locale.h>
#include <stdlib.h>

/* ctest gives no terminal, so that "auto" means none; only the flag can turn colour on. */
static void color_follows_the_flag_before_the_terminal(void **state) {
  (void)state;
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  expect_true(spp_term_facts(SPP_COLOR_ALWAYS).color);
  expect_false(spp_term_facts(SPP_COLOR_NEVER).color);
  expect_true(spp_term_facts(SPP_COLOR_AUTO).color == spp_term_facts(SPP_COLOR_AUTO).stdout_tty);
  setenv("NO_COLOR", "1", 1);
  expect_false(spp_term_facts(SPP_COLOR_AUTO).color);
  expect_true(spp_term_facts(SPP_COLOR_ALWAYS).color);
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  expect_false(spp_term_facts(SPP_COLOR_AUTO).color);
}

static void width_comes_from_columns_when_it_makes_sense(void **state) {
  (void)state;
  setenv("COLUMNS", "132", 1);
  expect_i64(spp_term_facts(SPP_COLOR_AUTO).columns, 132);
  static const char *const nonsense[] = {"", "0", "-5", "wide", "19", "99999999999999999999"};
  for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
    setenv("COLUMNS", nonsense[i], 1);
    expect_note("COLUMNS=%s", nonsense[i]);
    int columns = spp_term_facts(SPP_COLOR_AUTO).columns;
    expect_true(spp_term_facts(SPP_COLOR_AUTO).stdout_tty ? columns >= 20 : columns == 100);
  }
  unsetenv("COLUMNS");
}

static void utf8_comes_from_the_locale(void **state) {
  (void)state;
  setlocale(LC_CTYPE, "C");
  expect_false(spp_term_facts(SPP_COLOR_AUTO).utf8);
  if (setlocale(LC_CTYPE, "C.UTF-8")) expect_true(spp_term_facts(SPP_COLOR_AUTO).utf8);
  setlocale(LC_CTYPE, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(color_follows_the_flag_before_the_terminal),
      cmocka_unit_test(width_comes_from_columns_when_it_makes_sense),
      cmocka_unit_test(utf8_comes_from_the_locale),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
