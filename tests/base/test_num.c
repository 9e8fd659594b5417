#include "base/num.h"
#include "tests/expect.h"

static void sums_saturate_at_both_ends(void **state) {
  (void)state;
  static const struct {
    int64_t a, b, sum;
  } cases[] = {{2, 3, 5},
               {INT64_MAX, 0, INT64_MAX},
               {INT64_MAX, 1, INT64_MAX},
               {INT64_MAX, INT64_MAX, INT64_MAX},
               {INT64_MIN, -1, INT64_MIN},
               {INT64_MIN, INT64_MAX, -1},
               {-5, 3, -2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("case %zu", i);
    expect_i64(spp_sat_add(cases[i].a, cases[i].b), cases[i].sum);
    expect_i64(spp_sat_add(cases[i].b, cases[i].a), cases[i].sum);
  }
}

static void products_saturate_at_both_ends(void **state) {
  (void)state;
  const int64_t two32 = INT64_C(1) << 32;
  const struct {
    int64_t a, b, product;
  } cases[] = {{6, 7, 42},
               {0, INT64_MAX, 0},
               {two32, two32, INT64_MAX},
               {two32, two32 / 2 - 1, (two32 / 2 - 1) * two32}, /* 2^63 - 2^32, just inside */
               {two32, two32 / 2, INT64_MAX},                   /* 2^63, one too many */
               {-two32, two32, INT64_MIN},
               {-two32, two32 / 2, INT64_MIN}, /* -2^63 is exact */
               {-two32, -two32, INT64_MAX},
               {-3, 4, -12}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("case %zu", i);
    expect_i64(spp_sat_mul(cases[i].a, cases[i].b), cases[i].product);
    expect_i64(spp_sat_mul(cases[i].b, cases[i].a), cases[i].product);
  }
}

static void ceil_div_and_round_up_agree_with_their_definition(void **state) {
  (void)state;
  for (int64_t a = 0; a <= 60; a++) {
    for (int64_t b = 1; b <= 12; b++) {
      int64_t pieces = spp_ceil_div(a, b);
      expect_note("a %d b %d", (int)a, (int)b);
      expect_true(pieces * b >= a);
      expect_true(pieces == 0 || (pieces - 1) * b < a);
      expect_i64(spp_round_up(a, b), pieces * b);
    }
  }
  expect_i64(spp_ceil_div(INT64_MAX, 2), (INT64_C(1) << 62));
  expect_i64(spp_round_up(INT64_MAX, 2), INT64_MAX);
}

static void gcd_and_lcm_agree_with_their_definition(void **state) {
  (void)state;
  for (int64_t a = 1; a <= 40; a++) {
    for (int64_t b = 1; b <= 40; b++) {
      int64_t common = 0;
      for (int64_t d = 1; d <= a; d++)
        if (a % d == 0 && b % d == 0) common = d;
      expect_i64(spp_gcd(a, b), common);
      expect_i64(spp_lcm_sat(a, b), a * b / common);
    }
  }
  expect_i64(spp_gcd(0, 7), 7);
  expect_i64(spp_gcd(7, 0), 7);
  expect_i64(spp_lcm_sat(0, 7), 0);
  /* Neighbours have no common divisor, and their product is beyond 2^63. */
  expect_i64(spp_lcm_sat(INT64_C(1) << 32, (INT64_C(1) << 32) + 1), INT64_MAX);
}

static void powers_of_two_are_found(void **state) {
  (void)state;
  static const struct {
    int64_t a, next;
    bool is;
  } cases[] = {{-4, 1, false}, {0, 1, false}, {1, 1, true},        {2, 2, true},
               {3, 4, false},  {4, 4, true},  {1000, 1024, false}, {INT64_MAX, INT64_MAX, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("case %zu", i);
    expect_true(spp_is_pow2(cases[i].a) == cases[i].is);
    expect_i64(spp_next_pow2(cases[i].a), cases[i].next);
  }
  expect_i64(spp_next_pow2(INT64_C(1) << 62), INT64_C(1) << 62);
  expect_i64(spp_next_pow2((INT64_C(1) << 62) + 1), INT64_MAX);
}

static void min_and_max_pick_the_right_one(void **state) {
  (void)state;
  expect_i64(spp_min64(INT64_MIN, 1), INT64_MIN);
  expect_i64(spp_max64(INT64_MIN, 1), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_saturate_at_both_ends),
      cmocka_unit_test(products_saturate_at_both_ends),
      cmocka_unit_test(ceil_div_and_round_up_agree_with_their_definition),
      cmocka_unit_test(gcd_and_lcm_agree_with_their_definition),
      cmocka_unit_test(powers_of_two_are_found),
      cmocka_unit_test(min_and_max_pick_the_right_one),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
