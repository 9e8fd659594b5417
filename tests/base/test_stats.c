#include "base/stats.h"
#include "tests/expect.h"

static void sorting_puts_the_smallest_first(void **state) {
  (void)state;
  double values[] = {3, -1, 2, 2, 0.5};
  static const double sorted[] = {-1, 0.5, 2, 2, 3};
  spp_sort_reals(values, 5);
  for (int i = 0; i < 5; i++)
    expect_rel(values[i], sorted[i], 0);
  spp_sort_reals(values, 0);
  spp_sort_reals(NULL, 0);
}

/* numpy.quantile([1, 2, 4, 8], q): position 3 q, linear in between. */
static void a_quantile_lies_between_its_neighbours(void **state) {
  (void)state;
  static const double values[] = {1, 2, 4, 8};
  static const struct {
    int64_t count;
    double q, is;
  } cases[] = {{4, 0, 1}, {4, 1, 8}, {4, 0.5, 3}, {3, 0.5, 2}, {4, 0.75, 5}, {1, 0.9, 1}, {2, 0.25, 1.25}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("case %zu", i);
    expect_rel(spp_quantile(values, cases[i].count, cases[i].q), cases[i].is, 1e-15);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sorting_puts_the_smallest_first),
                                     cmocka_unit_test(a_quantile_lies_between_its_neighbours)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
