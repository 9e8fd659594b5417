/* The table of variants. */
#include "kernels/gemm.h"
#include "kernels/table.h"
#include "tests/expect.h"

static void names_are_unique_and_rows_complete(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = spp_kernels_all(&count);
  for (int i = 0; i < count; i++) {
    expect_note("row %d", i);
    expect_true(all[i]->name && all[i]->description);
    expect_true((all[i]->absent != NULL) != (all[i]->available != NULL));
    for (int j = 0; j < i; j++)
      expect_true(strcmp(all[i]->name, all[j]->name) != 0);
  }
}

static void reference_and_portable_run_everywhere(void **state) {
  (void)state;
  const struct spp_kernels *kernels = NULL;
  struct spp_diag diag = {0};
  expect_status(spp_kernels_find("reference", &kernels, &diag), SPP_OK, &diag);
  expect_true(!kernels->tile);
  expect_status(spp_kernels_find("portable", &kernels, &diag), SPP_OK, &diag);
  expect_true(kernels->tile != NULL);
}

static void the_best_is_usable_and_not_the_reference(void **state) {
  (void)state;
  expect_true(spp_kernels_usable(spp_kernels_best()));
  expect_true(spp_kernels_best()->tile != NULL);
}

static void an_unknown_name_lists_the_known(void **state) {
  (void)state;
  const struct spp_kernels *kernels = NULL;
  struct spp_diag diag = {0};
  expect_status(spp_kernels_find("avx3", &kernels, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.hint, "portable");
  expect_true(!kernels);
}

static void the_description_names_variant_and_matrix_product(void **state) {
  (void)state;
  char text[256] = "", gemm[128] = "";
  spp_gemm_describe(gemm, sizeof gemm);
  spp_kernels_describe(spp_kernels_best(), text, sizeof text);
  expect_has(text, spp_kernels_best()->name);
  expect_has(text, gemm);
}

static void a_row_that_cannot_run_says_why(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = spp_kernels_all(&count);
  for (int i = 0; i < count; i++) {
    const struct spp_kernels *kernels = NULL;
    struct spp_diag diag = {0};
    if (spp_kernels_usable(all[i])) continue;
    expect_status(spp_kernels_find(all[i]->name, &kernels, &diag), SPP_ERR_ABSENT, NULL);
    expect_true(diag.what[0] != 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique_and_rows_complete),
      cmocka_unit_test(reference_and_portable_run_everywhere),
      cmocka_unit_test(the_best_is_usable_and_not_the_reference),
      cmocka_unit_test(an_unknown_name_lists_the_known),
      cmocka_unit_test(the_description_names_variant_and_matrix_product),
      cmocka_unit_test(a_row_that_cannot_run_says_why),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
