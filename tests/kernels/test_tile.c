/* Tile operations of every variant: the exponential's stated bound, and products against plain sums. */
#include "kernels/table.h"
#include "kernels/tile.h"
#include "tests/expect.h"

#include <stdlib.h>

static const struct spp_kernels *const *variants(int *count) {
  return spp_kernels_all(count);
}

static void exp2_keeps_its_error_bound(void **state) {
  (void)state;
  enum { N = 40001 };
  static float x[N], y[N];
  int count;
  for (int i = 0; i < N; i++)
    x[i] = -126.0F + 253.5F * (float)i / (float)(N - 1);
  const struct spp_kernels *const *all = variants(&count);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    all[v]->tile->exp2(N, x, y);
    for (int i = 0; i < N; i++) {
      expect_note("%s, 2^%.9g", all[v]->name, (double)x[i]);
      expect_rel((double)y[i], exp2((double)x[i]), 1.2e-7);
    }
  }
}

static void exp2_is_zero_far_below_and_finite_far_above(void **state) {
  (void)state;
  const float x[5] = {-INFINITY, -126.5F, -3e38F, 3e38F, 0.0F};
  float y[5];
  int count;
  const struct spp_kernels *const *all = variants(&count);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    all[v]->tile->exp2(5, x, y);
    for (int i = 0; i < 3; i++)
      expect_true(y[i] == 0.0F);
    expect_true(isfinite(y[3]) && y[3] > 3e38F);
    expect_true(y[4] == 1.0F);
  }
}

/* Small integers: every order of summation gives the same bits, so equality is asked. */
static void products_of_small_integers_are_exact(void **state) {
  (void)state;
  enum { MOST = 96, LD = 112 };
  float *a = calloc(MOST * LD, 4), *b = calloc(MOST * LD, 4), *c = calloc(MOST * LD, 4);
  assert_true(a && b && c);
  for (int i = 0; i < MOST * LD; i++) {
    a[i] = (float)(i * 7 % 11 - 5);
    b[i] = (float)(i * 5 % 13 - 6);
  }
  int count;
  const struct spp_kernels *const *all = variants(&count);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    for (int n = 1; n <= 80; n += 13)
      for (int m = 1; m <= 40; m += 13) {
        for (int i = 0; i < MOST * LD; i++)
          c[i] = 1.0F;
        all[v]->tile->gemm_tn(m, n, 33, a, LD, b, LD, c, LD, true);
        for (int r = 0; r < m; r++)
          for (int j = 0; j < n; j++) {
            float sum = 1.0F;
            for (int p = 0; p < 33; p++)
              sum += a[p * LD + r] * b[p * LD + j];
            expect_note("%s, %d x %d, row %d, column %d", all[v]->name, m, n, r, j);
            expect_true(c[r * LD + j] == sum);
          }
      }
  }
  free(a);
  free(b);
  free(c);
}

static void packing_transposes_and_pads_with_zeros(void **state) {
  (void)state;
  enum { ROWS = 19, COLS = 21, STRIDE = 23, LD = 48 };
  float src[ROWS * STRIDE], *dst = calloc(32 * LD, 4);
  uint16_t half[ROWS * STRIDE];
  int count;
  assert_non_null(dst);
  for (int i = 0; i < ROWS * STRIDE; i++) {
    src[i] = (float)(i % 251); /* exact in bf16 */
    half[i] = spp_float_to_bf16(src[i]);
  }
  const struct spp_kernels *const *all = variants(&count);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    for (int storage = 0; storage < 2; storage++) {
      const void *from = storage ? (const void *)half : (const void *)src;
      expect_note("%s, storage %d", all[v]->name, storage);
      for (int i = 0; i < 32 * LD; i++)
        dst[i] = 9.0F;
      all[v]->tile->pack_transposed(from, (enum spp_storage)storage, STRIDE, ROWS, COLS, dst, LD);
      for (int c = 0; c < COLS; c++)
        for (int r = 0; r < 32; r++)
          expect_true(dst[c * LD + r] == (r < ROWS ? src[r * STRIDE + c] : 0.0F));
      for (int i = 0; i < 32 * LD; i++)
        dst[i] = 9.0F;
      all[v]->tile->pack(from, (enum spp_storage)storage, STRIDE, ROWS, COLS, dst, LD);
      for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < 32; c++)
          expect_true(dst[r * LD + c] == (c < COLS ? src[r * STRIDE + c] : 0.0F));
    }
  }
  free(dst);
}

/* bf16 keeps 7 explicit bits: 1 + 2^-8 lies half-way to 1 + 2^-7 and goes to the even 1; 1 + 3 * 2^-8
 * half-way between 1 + 2^-7 and the even 1 + 2^-6. */
static const struct {
  uint32_t fp32;
  uint16_t bf16;
} rounding[] = {
    {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
    {0x80000000, 0x8000}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
    {0x7f800001, 0x7fc0}, {0xffffffff, 0xffff}, {0x00000001, 0x0000}, {0x00018000, 0x0002},
    {0x7fbfffff, 0x7fff},
};
enum { ROUNDINGS = sizeof rounding / sizeof rounding[0] };

static void bf16_rounds_to_nearest_even_in_every_variant(void **state) {
  (void)state;
  float in[ROUNDINGS];
  uint16_t out[ROUNDINGS];
  int count;
  for (int i = 0; i < ROUNDINGS; i++) {
    memcpy(&in[i], &rounding[i].fp32, 4);
    expect_i64(spp_float_to_bf16(in[i]), rounding[i].bf16);
  }
  const struct spp_kernels *const *all = variants(&count);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    all[v]->tile->unpack(in, ROUNDINGS, 1, ROUNDINGS, NULL, out, SPP_STORE_BF16, ROUNDINGS);
    for (int i = 0; i < ROUNDINGS; i++) {
      expect_note("%s, %08x", all[v]->name, rounding[i].fp32);
      expect_i64(out[i], rounding[i].bf16);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp2_keeps_its_error_bound),
      cmocka_unit_test(exp2_is_zero_far_below_and_finite_far_above),
      cmocka_unit_test(products_of_small_integers_are_exact),
      cmocka_unit_test(packing_transposes_and_pads_with_zeros),
      cmocka_unit_test(bf16_rounds_to_nearest_even_in_every_variant),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
