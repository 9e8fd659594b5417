#include "base/decimal.h"
#include "tests/comma_locale.h"
#include "tests/expect.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void decimals_parse_strictly(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double value;
  } good[] = {{"0", 0}, {"-0.5", -0.5}, {"1e3", 1000}, {"1E-2", 0.01}, {"12.5e+1", 125}, {"1e-999", 0}};
  static const char *const bad[] = {"",    "-",   ".",     "1.", ".1", "+1",  "e1",    "1e",  "1e+", "0x1",
                                    "nan", "inf", "1e999", "1 ", " 1", "1,5", "1.2.3", "--1", "1_0"};
  for (size_t i = 0; i < COUNT(good); i++) {
    double value = -7;
    expect_note("%s", good[i].text);
    expect_true(spp_decimal_parse(good[i].text, strlen(good[i].text), &value));
    expect_rel(value, good[i].value, 0);
  }
  for (size_t i = 0; i < COUNT(bad); i++) {
    double value = -7;
    expect_note("%s", bad[i]);
    expect_false(spp_decimal_parse(bad[i], strlen(bad[i]), &value));
    expect_rel(value, -7, 0);
  }
  char digits[SPP_DECIMAL_MAX + 2];
  double value;
  memset(digits, '1', sizeof digits);
  expect_true(spp_decimal_parse(digits, SPP_DECIMAL_MAX, &value));
  expect_false(spp_decimal_parse(digits, SPP_DECIMAL_MAX + 1, &value));
  expect_true(spp_decimal_parse("12x", 2, &value)); /* reads n bytes and no further */
  expect_rel(value, 12, 0);
}

static void decimals_print_by_digits_or_places(void **state) {
  (void)state;
  char buf[32];
  expect_str(spp_decimal_print(1.0 / 3, 3, buf), "0.333");
  expect_str(spp_decimal_print(0.1, 17, buf), "0.10000000000000001");
  expect_str(spp_decimal_fixed(2.25, 1, buf), "2.2");
  expect_str(spp_decimal_fixed(41, 0, buf), "41");
}

static void decimals_do_not_follow_the_locale(void **state) {
  (void)state;
  char buf[32];
  double value = 0;
  if (!comma_locale_set()) skip();
  expect_str(spp_decimal_print(0.25, 6, buf), "0.25");
  expect_str(spp_decimal_print(1e30, 6, buf), "1e+30");
  expect_str(spp_decimal_fixed(1234567.5, 1, buf), "1234567.5");
  expect_true(spp_decimal_parse("0.25", 4, &value));
  expect_rel(value, 0.25, 0);
  expect_true(spp_decimal_parse("-1.5e2", 6, &value));
  expect_rel(value, -150, 0);
  expect_false(spp_decimal_parse("0,25", 4, &value));
  comma_locale_reset();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decimals_parse_strictly),
      cmocka_unit_test(decimals_print_by_digits_or_places),
      cmocka_unit_test(decimals_do_not_follow_the_locale),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
