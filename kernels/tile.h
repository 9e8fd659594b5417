/* What flash attention asks of a processor: products, packing and softmax on tiles that fit in cache.
 * Internal to kernels/. A tile is a float matrix with a leading dimension from spp_tile_ld, rows padded to
 * SPP_TILE_PAD: the functions may read and write the padding, which never reaches a result. */
#ifndef SPP_KERNELS_TILE_H
#define SPP_KERNELS_TILE_H

#include "kernels/bf16.h"

#include <stdbool.h>
#include <stdint.h>

#define SPP_TILE_PAD 16 /* floats: the widest vector; a multiple of every row count VF_MR */

static inline int64_t spp_tile_pad(int64_t n) {
  return (n + SPP_TILE_PAD - 1) / SPP_TILE_PAD * SPP_TILE_PAD;
}

/* Leading dimension for rows of n floats: an odd number of 64-byte lines, so that walking down a column of
 * the tile visits all cache sets and not one in eight. */
static inline int64_t spp_tile_ld(int64_t n) {
  int64_t lines = spp_tile_pad(n) / SPP_TILE_PAD;
  return (lines | 1) * SPP_TILE_PAD;
}

/* What a score is before softmax where it is not the plain product: cap(x) + slope * (col_at[col] -
 * row_at[row]), cap(x) = cap * tanh(x / cap). All in units of the product: cap and slope have been divided by
 * the scale. */
struct spp_tile_bend {
  float cap, slope;             /* 0: none */
  const float *row_at, *col_at; /* positions less that of the block's first query, padded */
};

/* An operand of a product is stored with its contraction index as rows. k_pack of these rows share one: 1 for
 * fp32, 2 where bf16 pairs of the index (k, k+1) make one 32-bit word (dot-product instructions). */
struct spp_tile_ops {
  /* Query and key rows of a tile that suit this processor's caches; flash attention may be told others. */
  int64_t q_block, kv_block;
  int64_t k_pack;

  /* C[m][n] = A^T B, or C += A^T B when `accumulate`; A is the operand [k][m] (lda), B is [k][n] (ldb), C
   * floats. Writes m and n rounded up to the register tile. */
  void (*gemm_tn)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                  float *c, int64_t ldc, bool accumulate);

  /* Rows of storage -> operand dst[rows][cols], columns padded with zeros. Strides in elements. */
  void (*pack)(const void *src, enum spp_storage storage, int64_t stride, int64_t rows, int64_t cols,
               float *dst, int64_t ld);

  /* Rows of storage -> operand dst[cols][rows], the padding of each dst row zero. */
  void (*pack_transposed)(const void *src, enum spp_storage storage, int64_t stride, int64_t rows,
                          int64_t cols, float *dst, int64_t ld);

  /* src[rows][ld] times factor[row] (1 when NULL) -> rows of storage. */
  void (*unpack)(const float *src, int64_t ld, int64_t rows, int64_t cols, const float *factor, void *dst,
                 enum spp_storage storage, int64_t stride);

  /* dst[row] += src[row] on rows of fp32 storage. */
  void (*add_rows)(const float *src, int64_t ld, int64_t rows, int64_t cols, float *dst, int64_t stride);

  /* s[row][col] becomes the bent score. With dp (NULL in forward), dp becomes delta[row] + (dp - delta[row])
   * * cap'(x), so that what softmax_grad makes of it carries the cap's slope. */
  void (*bend)(float *s, float *dp, int64_t ld, int64_t rows, int64_t cols, const struct spp_tile_bend *b,
               const float *delta);

  /* One step of online softmax on scores st[kv][q] (transposed): st becomes the operand 2^(c*s - m); m
   * (running maximum of c*s) and l (running sum) are updated; alpha[q] = 2^(m_old - m_new). lo, hi: visible
   * kv rows [lo, hi) of each q, relative to the tile, NULL when all are. Returns whether any alpha is not 1.
   */
  bool (*softmax)(float *st, int64_t ld, int64_t kv, int64_t q, float c, const float *lo, const float *hi,
                  float *m, float *l, float *alpha);

  /* c[row][0..n) *= alpha[row]. */
  void (*scale_rows)(float *c, int64_t ld, int64_t rows, int64_t n, const float *alpha);

  /* Backward of softmax on scores s[q][kv] and dp[q][kv]: s becomes the operand p = 2^(c*s - lse/ln 2), dp
   * the operand ds = p * (dp - delta) * scale, both 0 where kv is outside [lo, hi) (NULL: all visible); dst
   * becomes ds as operand [kv][q]. */
  void (*softmax_grad)(float *s, float *dp, int64_t ld, int64_t q, int64_t kv, float scale, const float *lse,
                       const float *delta, const float *lo, const float *hi, float *dst, int64_t ldt);

  /* y[i] = 2^x[i]; for tests of the exponential. */
  void (*exp2)(int64_t n, const float *x, float *y);
};

/* Row k of an operand; k is a multiple of SPP_TILE_PAD. */
static inline const float *spp_tile_at(const struct spp_tile_ops *ops, const float *operand, int64_t k,
                                       int64_t ld) {
  return operand + k / ops->k_pack * ld;
}

#endif
