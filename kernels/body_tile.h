/* Tile operations of flash attention (tile.h), written over a vec_*.h layer and a body_operand_*.h. Included
 * once by each instance file. */
#ifndef SPP_KERNELS_BODY_TILE_H
#define SPP_KERNELS_BODY_TILE_H

#include "kernels/body_math.h"
#include "kernels/tile.h"

#include <math.h>

#if defined(__clang__)
#define SPP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SPP_UNROLL _Pragma("GCC unroll 16")
#endif
#define SPP_INLINE static inline __attribute__((always_inline))

/* VF_MR rows by nv vectors of C in registers; nv is a constant at each call. */
SPP_INLINE void tile_micro(const int nv, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                           float *c, int64_t ldc, bool accumulate) {
  vf acc[VF_MR][VF_NV];
  SPP_UNROLL
  for (int r = 0; r < VF_MR; r++) {
    SPP_UNROLL
    for (int v = 0; v < nv; v++)
      acc[r][v] = vf_set1(0.0F);
  }
  for (int64_t p = 0; p < k; p += TILE_K_PACK) {
    vf bv[VF_NV];
    SPP_UNROLL
    for (int v = 0; v < nv; v++)
      bv[v] = vf_load(b + v * VF_WIDTH);
    SPP_UNROLL
    for (int r = 0; r < VF_MR; r++) {
      vf ar = vf_set1(a[r]);
      SPP_UNROLL
      for (int v = 0; v < nv; v++)
        acc[r][v] = tile_dot(ar, bv[v], acc[r][v]);
    }
    a += lda;
    b += ldb;
  }
  SPP_UNROLL
  for (int r = 0; r < VF_MR; r++) {
    SPP_UNROLL
    for (int v = 0; v < nv; v++) {
      float *at = c + r * ldc + v * VF_WIDTH;
      vf_store(at, accumulate ? vf_add(vf_load(at), acc[r][v]) : acc[r][v]);
    }
  }
}

static void tile_panel1(int64_t m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                        float *c, int64_t ldc, bool accumulate) {
  for (int64_t r = 0; r < m; r += VF_MR)
    tile_micro(1, k, a + r, lda, b, ldb, c + r * ldc, ldc, accumulate);
}

static void tile_panel2(int64_t m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                        float *c, int64_t ldc, bool accumulate) {
  for (int64_t r = 0; r < m; r += VF_MR)
    tile_micro(2, k, a + r, lda, b, ldb, c + r * ldc, ldc, accumulate);
}

static void tile_panel_full(int64_t m, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                            float *c, int64_t ldc, bool accumulate) {
  for (int64_t r = 0; r < m; r += VF_MR)
    tile_micro(VF_NV, k, a + r, lda, b, ldb, c + r * ldc, ldc, accumulate);
}

/* Column panels outermost: a panel of B stays in L1 while the rows of A stream past. Four vectors are split
 * 2 + 2 rather than 3 + 1: a one-vector panel loads more than it multiplies. */
static void tile_gemm_tn(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                         int64_t ldb, float *c, int64_t ldc, bool accumulate) {
  int64_t left = (n + VF_WIDTH - 1) / VF_WIDTH;
  while (left > 0) {
    int64_t nv = left < VF_NV ? left : VF_NV;
    if (left == VF_NV + 1 && VF_NV > 2) nv = VF_NV - 1;
    if (nv == 1)
      tile_panel1(m, k, a, lda, b, ldb, c, ldc, accumulate);
    else if (nv == 2)
      tile_panel2(m, k, a, lda, b, ldb, c, ldc, accumulate);
    else
      tile_panel_full(m, k, a, lda, b, ldb, c, ldc, accumulate);
    b += nv * VF_WIDTH;
    c += nv * VF_WIDTH;
    left -= nv;
  }
}

static void tile_unpack(const float *src, int64_t ld, int64_t rows, int64_t cols, const float *factor,
                        void *dst, enum spp_storage storage, int64_t stride) {
  for (int64_t r = 0; r < rows; r++) {
    vf f = vf_set1(factor ? factor[r] : 1.0F);
    for (int64_t c = 0; c < cols; c += VF_WIDTH) {
      int64_t part = vf_part(cols - c);
      vf x = vf_load_any(src, SPP_STORE_F32, r * ld + c, part);
      vf_store_any(dst, storage, r * stride + c, part, vf_mul(f, x));
    }
  }
}

static void tile_add_rows(const float *src, int64_t ld, int64_t rows, int64_t cols, float *dst,
                          int64_t stride) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c += VF_WIDTH) {
      int64_t part = vf_part(cols - c);
      vf sum = vf_add(vf_load_any(dst, SPP_STORE_F32, r * stride + c, part), vf_load(src + r * ld + c));
      vf_store_any(dst, SPP_STORE_F32, r * stride + c, part, sum);
    }
}

static void tile_scale_rows(float *c, int64_t ld, int64_t rows, int64_t n, const float *alpha) {
  for (int64_t r = 0; r < rows; r++) {
    vf f = vf_set1(alpha[r]);
    for (int64_t j = 0; j < n; j += VF_WIDTH)
      vf_store(c + r * ld + j, vf_mul(f, vf_load(c + r * ld + j)));
  }
}

/* -infinity where kv row t is invisible to a q of this vector. */
static void tile_mask_column(float *st, int64_t ld, int64_t kv, vf lo, vf hi) {
  const vf minus_inf = vf_set1(-INFINITY);
  for (int64_t t = 0; t < kv; t++)
    vf_store(st + t * ld, vf_in_range(vf_load(st + t * ld), vf_set1((float)t), lo, hi, minus_inf));
}

/* Maximum over the kv rows of one vector of q; four chains hide the latency. */
static vf tile_column_max(const float *st, int64_t ld, int64_t kv) {
  vf x[4];
  for (int i = 0; i < 4; i++)
    x[i] = vf_set1(-INFINITY);
  int64_t t = 0;
  for (; t + 4 <= kv; t += 4)
    for (int i = 0; i < 4; i++)
      x[i] = vf_max(x[i], vf_load(st + (t + i) * ld));
  for (; t < kv; t++)
    x[0] = vf_max(x[0], vf_load(st + t * ld));
  return vf_max(vf_max(x[0], x[1]), vf_max(x[2], x[3]));
}

static bool tile_softmax(float *st, int64_t ld, int64_t kv, int64_t q, float c, const float *lo,
                         const float *hi, float *m, float *l, float *alpha) {
  const vf cv = vf_set1(c);
  float smallest_alpha = 1.0F;
  for (int64_t j = 0; j < q; j += VF_WIDTH) {
    if (lo) tile_mask_column(st + j, ld, kv, vf_load(lo + j), vf_load(hi + j));
    vf m_old = vf_load(m + j);
    vf m_new = vf_max(m_old, vf_mul(cv, tile_column_max(st + j, ld, kv)));
    /* Rows that have seen no key yet keep m = -infinity; subtract something finite there. */
    vf m_safe = vf_max(m_new, vf_set1(-3.0e38F));
    vf a = vf_exp2(vf_sub(m_old, m_safe));
    vf sum = tile_column_exp(st + j, ld, kv, cv, vf_sub(vf_set1(0.0F), m_safe));
    vf_store(m + j, m_new);
    vf_store(alpha + j, a);
    vf_store(l + j, vf_fma(vf_load(l + j), a, sum));
    float least = -vf_hmax(vf_sub(vf_set1(0.0F), a));
    if (least < smallest_alpha) smallest_alpha = least;
  }
  return smallest_alpha != 1.0F;
}

static void tile_bend(float *s, float *dp, int64_t ld, int64_t rows, int64_t cols,
                      const struct spp_tile_bend *b, const float *delta) {
  const vf one = vf_set1(1.0F), cap = vf_set1(b->cap), part = vf_set1(b->cap > 0.0F ? 1.0F / b->cap : 0.0F);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < cols; j += VF_WIDTH) {
      float *at = s + r * ld + j;
      vf x = vf_load(at);
      if (b->cap > 0.0F) {
        vf t = vf_tanh(vf_mul(x, part));
        x = vf_mul(cap, t);
        if (dp) {
          float *grad = dp + r * ld + j;
          vf d = vf_set1(delta[r]), bent = vf_sub(one, vf_mul(t, t));
          vf_store(grad, vf_fma(vf_sub(vf_load(grad), d), bent, d));
        }
      }
      if (b->slope != 0.0F)
        x = vf_fma(vf_set1(b->slope), vf_sub(vf_load(b->col_at + j), vf_set1(b->row_at[r])), x);
      vf_store(at, x);
    }
}

static void tile_exp2(int64_t n, const float *x, float *y) {
  for (int64_t i = 0; i < n; i += VF_WIDTH) {
    int64_t part = vf_part(n - i);
    vf_store_any(y, SPP_STORE_F32, i, part, vf_exp2(vf_load_any(x, SPP_STORE_F32, i, part)));
  }
}

#define SPP_TILE_BY_NAME                                                                                     \
  .k_pack = TILE_K_PACK, .gemm_tn = tile_gemm_tn, .pack = tile_pack,                                         \
  .pack_transposed = tile_pack_transposed, .unpack = tile_unpack, .add_rows = tile_add_rows,                 \
  .bend = tile_bend, .softmax = tile_softmax, .scale_rows = tile_scale_rows,                                 \
  .softmax_grad = tile_softmax_grad, .exp2 = tile_exp2

#endif
