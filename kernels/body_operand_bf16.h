/* Operands of bf16 dot products (tile.h, k_pack 2) for AVX512_BF16: row k/2 of an operand holds words of two
 * bf16, k in the low half, k + 1 in the high half. Probabilities and their gradients are rounded to bf16, as
 * FlashAttention does on GPUs; sums stay fp32. All storage is bf16. Included once, before body_tile.h. */
#ifndef SPP_KERNELS_BODY_OPERAND_BF16_H
#define SPP_KERNELS_BODY_OPERAND_BF16_H

#include "kernels/body_math.h"
#include "kernels/tile.h"

#include <math.h>

#define TILE_K_PACK 2

static inline vf tile_dot(vf a, vf b, vf sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}

/* Word i of the result: low half of a's word i rounded to bf16, high half b's. */
static inline vf tile_pair(vf low, vf high) {
  __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                   21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low)));
}

/* n <= 16 bf16 of storage, each in the low half of a word. */
static inline __m512i tile_halves(const uint16_t *p, int64_t n) {
  __mmask16 first = (__mmask16)((1U << n) - 1U);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, p));
}

static void tile_pack(const void *src, enum spp_storage storage, int64_t stride, int64_t rows, int64_t cols,
                      float *dst, int64_t ld) {
  int64_t padded = spp_tile_pad(cols);
  (void)storage;
  for (int64_t r = 0; r < rows; r += 2)
    for (int64_t c = 0; c < padded; c += VF_WIDTH) {
      int64_t part = c < cols ? vf_part(cols - c) : 0;
      const uint16_t *p = (const uint16_t *)src + r * stride + c;
      __m512i low = tile_halves(p, part), high = tile_halves(p + stride, r + 1 < rows ? part : 0);
      vf_store(dst + r / 2 * ld + c, _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16))));
    }
}

/* Columns are even (a head dimension), so pairs along a row are words of storage: a transpose of words. */
static void tile_pack_transposed(const void *src, enum spp_storage storage, int64_t stride, int64_t rows,
                                 int64_t cols, float *dst, int64_t ld) {
  int64_t padded = spp_tile_pad(rows), words = cols / 2;
  (void)storage;
  for (int64_t r = 0; r < padded; r += VF_WIDTH)
    for (int64_t w = 0; w < words; w += VF_WIDTH) {
      vf x[VF_WIDTH];
      int64_t part = vf_part(words - w);
      __mmask16 first = (__mmask16)((1U << part) - 1U);
      for (int64_t i = 0; i < VF_WIDTH; i++) {
        const uint16_t *p = (const uint16_t *)src + (r + i) * stride + 2 * w;
        x[i] = r + i < rows ? _mm512_maskz_loadu_ps(first, p) : vf_set1(0.0F);
      }
      vf_transpose(x);
      for (int64_t i = 0; i < part; i++)
        vf_store(dst + (w + i) * ld + r, x[i]);
    }
}

/* st = 2^(c*st - m) as an operand; the sum over kv, of the values before rounding. Row t/2 is written after
 * rows up to t + 1 have been read. */
static vf tile_column_exp(float *st, int64_t ld, int64_t kv, vf c, vf minus_m) {
  vf even = vf_set1(0.0F), odd = vf_set1(0.0F);
  for (int64_t t = 0; t < kv; t += 2) {
    vf p = vf_exp2(vf_fma(vf_load(st + t * ld), c, minus_m)), q = vf_set1(0.0F);
    if (t + 1 < kv) q = vf_exp2(vf_fma(vf_load(st + (t + 1) * ld), c, minus_m));
    vf_store(st + t / 2 * ld, tile_pair(p, q));
    even = vf_add(even, p);
    odd = vf_add(odd, q);
  }
  return vf_add(even, odd);
}

/* p and ds of one query row, in place; zero from kv up to the padding. */
static void tile_grad_row(float *s, float *dp, int64_t kv, float scale, float lse, float delta, vf lo,
                          vf hi) {
  const vf c = vf_set1(scale * SPP_LOG2E), sv = vf_set1(scale), zero = vf_set1(0.0F);
  vf minus_lse = vf_set1(-lse * SPP_LOG2E), d = vf_set1(delta);
  for (int64_t j = 0; j < kv; j += VF_WIDTH) {
    vf index = vf_add(vf_iota(), vf_set1((float)j));
    vf p = vf_in_range(vf_exp2(vf_fma(vf_load(s + j), c, minus_lse)), index, lo, hi, zero);
    vf ds = vf_mul(vf_mul(p, sv), vf_sub(vf_load(dp + j), d));
    vf_store(s + j, p);
    vf_store(dp + j, ds);
  }
}

/* Rows of floats [q][kv] to an operand of the same index order, in place. */
static void tile_pair_rows(float *x, int64_t ld, int64_t q, int64_t kv) {
  for (int64_t r = 0; r < q; r += 2)
    for (int64_t j = 0; j < kv; j += VF_WIDTH) {
      vf high = r + 1 < q ? vf_load(x + (r + 1) * ld + j) : vf_set1(0.0F);
      vf_store(x + r / 2 * ld + j, tile_pair(vf_load(x + r * ld + j), high));
    }
}

/* Floats [q][kv] to the operand [kv][q]: pairs along a row, then a transpose of words. */
static void tile_pair_transposed(const float *x, int64_t ld, int64_t q, int64_t kv, float *dst, int64_t ldt) {
  const vf zero = vf_set1(0.0F);
  for (int64_t r = 0; r < q; r += VF_WIDTH)
    for (int64_t j = 0; j < kv; j += 2 * VF_WIDTH) {
      vf w[VF_WIDTH];
      for (int64_t i = 0; i < VF_WIDTH; i++) {
        const float *from = x + (r + i) * ld + j;
        vf low = r + i < q ? vf_load(from) : zero;
        vf high = r + i < q && j + VF_WIDTH < kv ? vf_load(from + VF_WIDTH) : zero;
        w[i] = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
      }
      vf_transpose(w);
      int64_t words = vf_part((kv - j + 1) / 2);
      for (int64_t i = 0; i < words; i++)
        vf_store(dst + (j / 2 + i) * ldt + r, w[i]);
    }
}

static void tile_softmax_grad(float *s, float *dp, int64_t ld, int64_t q, int64_t kv, float scale,
                              const float *lse, const float *delta, const float *lo, const float *hi,
                              float *dst, int64_t ldt) {
  for (int64_t r = 0; r < q; r++) {
    vf first = vf_set1(lo ? lo[r] : 0.0F), end = vf_set1(lo ? hi[r] : (float)kv);
    tile_grad_row(s + r * ld, dp + r * ld, kv, scale, lse[r], delta[r], first, end);
  }
  tile_pair_transposed(dp, ld, q, kv, dst, ldt);
  tile_pair_rows(s, ld, q, kv);
  tile_pair_rows(dp, ld, q, kv);
}

#endif
