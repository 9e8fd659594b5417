/* Matrix products against plain sums in double precision. */
#include "kernels/gemm.h"
#include "tests/kernels/attn_case.h"

static const struct {
  int64_t m, n, k;
  float alpha, beta;
} sizes[] = {{1, 1, 1, 1, 0},     {5, 7, 3, 1, 0},          {64, 64, 64, 1, 1}, {33, 130, 257, 0.5F, 0},
             {300, 17, 65, 1, 2}, {17, 300, 1100, 1, 0.5F}, {3, 4, 0, 1, 0.5F}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void judge(int size, bool ta, bool tb, enum spp_storage storage, enum spp_storage result) {
  int64_t m = sizes[size].m, n = sizes[size].n, k = sizes[size].k;
  struct spp_rows a = case_rows(ta ? k : m, ta ? m : k, 3, storage, 1);
  struct spp_rows b = case_rows(tb ? n : k, tb ? k : n, 1, storage, 2);
  struct spp_rows c = case_rows(m, n, 2, result, 3), before = case_rows(m, n, 2, result, 3);
  struct spp_gemm g = {ta, tb, m, n, k, sizes[size].alpha, sizes[size].beta, {0}, {0}, {0}, 1};
  g.a = (struct spp_matrix){a.data, a.row_stride, storage};
  g.b = (struct spp_matrix){b.data, b.row_stride, storage};
  g.c = (struct spp_matrix){c.data, c.row_stride, result};
  if (sizes[size].beta == 0.0F) spp_store(c.data, result, 0, NAN); /* must not be read */
  void *workspace = case_alloc(spp_gemm_workspace_bytes(&g));
  struct spp_diag diag = {0};
  expect_status(judged_gemm(&g, workspace, &diag), SPP_OK, &diag);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0.0, size_of_terms = 1.0;
      for (int64_t p = 0; p < k; p++) {
        double x = (double)(ta ? case_at(&a, p, i) : case_at(&a, i, p));
        x *= (double)(tb ? case_at(&b, j, p) : case_at(&b, p, j));
        sum += x;
        size_of_terms += fabs(x);
      }
      double want = (double)g.alpha * sum;
      if (g.beta != 0.0F) want += (double)g.beta * (double)case_at(&before, i, j);
      /* fp32: rounding of k terms, 2^-24 each and random. bf16: one rounding of the result, 2^-9. */
      double bound = result ? 1e-5 * size_of_terms + fabs(want) / 256.0 : 1e-6 * size_of_terms;
      expect_near((double)case_at(&c, i, j), want, bound);
    }
  free(a.data);
  free(b.data);
  free(c.data);
  free(before.data);
  free(workspace);
}

/* fp32, bf16, and gradients of bf16 summed in fp32. */
static void products_agree_with_plain_sums(void **state) {
  (void)state;
  static const enum spp_storage storages[][2] = {
      {SPP_STORE_F32, SPP_STORE_F32}, {SPP_STORE_BF16, SPP_STORE_BF16}, {SPP_STORE_BF16, SPP_STORE_F32}};
  for (int size = 0; size < SIZES; size++)
    for (int t = 0; t < 4; t++)
      for (int i = 0; i < 3; i++) {
        expect_note("%d x %d x %d, transposes %d, storages %d", (int)sizes[size].m, (int)sizes[size].n,
                    (int)sizes[size].k, t, i);
        judge(size, t & 1, t & 2, storages[i][0], storages[i][1]);
      }
}

static void short_rows_and_negative_sizes_are_refused(void **state) {
  (void)state;
  struct spp_diag diag = {0};
  struct spp_gemm g = {.m = 4, .n = 4, .k = 4, .a = {.ld = 4}, .b = {.ld = 3}, .c = {.ld = 4}};
  expect_status(judged_gemm(&g, NULL, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.what, "rows of B");
  g.m = -1;
  expect_status(judged_gemm(&g, NULL, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.what, "negative");
}

static void it_says_which_library_runs(void **state) {
  (void)state;
  char text[160] = "";
  spp_gemm_describe(text, sizeof text);
  expect_true(strlen(text) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_agree_with_plain_sums),
      cmocka_unit_test(short_rows_and_negative_sizes_are_refused),
      cmocka_unit_test(it_says_which_library_runs),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
