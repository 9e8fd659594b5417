#include "base/term.h"
#include "tests/expect.h"

#include <locale.h>
#include <stdlib.h>

static void color_words_are_three(void **state) {
  (void)state;
  enum spp_color color = SPP_COLOR_AUTO;
  struct spp_diag diag;
  expect_status(spp_color_parse("always", &color, &diag), SPP_OK, &diag);
  expect_i64(color, SPP_COLOR_ALWAYS);
  expect_status(spp_color_parse("never", &color, &diag), SPP_OK, &diag);
  expect_i64(color, SPP_COLOR_NEVER);
  expect_status(spp_color_parse("auto", &color, &diag), SPP_OK, &diag);
  expect_i64(color, SPP_COLOR_AUTO);
  expect_status(spp_color_parse("yes", &color, &diag), SPP_ERR_USAGE, &diag);
  expect_str(diag.where, "--color");
}

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
      cmocka_unit_test(color_words_are_three),
      cmocka_unit_test(color_follows_the_flag_before_the_terminal),
      cmocka_unit_test(width_comes_from_columns_when_it_makes_sense),
      cmocka_unit_test(utf8_comes_from_the_locale),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
