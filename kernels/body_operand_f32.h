/* Operands of fp32 products (tile.h, k_pack 1): packing, and softmax that leaves its result as an operand.
 * Written over a vec_*.h layer; included once by an instance file, before body_tile.h. */
#ifndef SPP_KERNELS_BODY_OPERAND_F32_H
#define SPP_KERNELS_BODY_OPERAND_F32_H

#include "kernels/body_math.h"
#include "kernels/tile.h"

#define TILE_K_PACK 1

static inline vf tile_dot(vf a, vf b, vf sum) {
  return vf_fma(a, b, sum);
}

static void tile_pack(const void *src, enum spp_storage storage, int64_t stride, int64_t rows, int64_t cols,
                      float *dst, int64_t ld) {
  int64_t padded = spp_tile_pad(cols);
  for (int64_t r = 0; r < rows; r++) {
    float *to = dst + r * ld;
    int64_t c = 0;
    for (; c < cols; c += VF_WIDTH)
      vf_store(to + c, vf_load_any(src, storage, r * stride + c, vf_part(cols - c)));
    for (; c < padded; c += VF_WIDTH)
      vf_store(to + c, vf_set1(0.0F));
  }
}

static void tile_pack_transposed(const void *src, enum spp_storage storage, int64_t stride, int64_t rows,
                                 int64_t cols, float *dst, int64_t ld) {
  int64_t padded = spp_tile_pad(rows);
  for (int64_t r = 0; r < padded; r += VF_WIDTH)
    for (int64_t c = 0; c < cols; c += VF_WIDTH) {
      vf x[VF_WIDTH];
      int64_t part = vf_part(cols - c);
      for (int i = 0; i < VF_WIDTH; i++)
        x[i] = r + i < rows ? vf_load_any(src, storage, (r + i) * stride + c, part) : vf_set1(0.0F);
      vf_transpose(x);
      for (int64_t i = 0; i < part; i++)
        vf_store(dst + (c + i) * ld + r, x[i]);
    }
}

static void tile_transpose(const float *src, int64_t ld, int64_t rows, int64_t cols, float *dst,
                           int64_t ldt) {
  for (int64_t r = 0; r < rows; r += VF_WIDTH)
    for (int64_t c = 0; c < cols; c += VF_WIDTH) {
      vf x[VF_WIDTH];
      for (int i = 0; i < VF_WIDTH; i++)
        x[i] = vf_load(src + (r + i) * ld + c);
      vf_transpose(x);
      for (int i = 0; i < VF_WIDTH; i++)
        vf_store(dst + (c + i) * ldt + r, x[i]);
    }
}

/* st = 2^(c*st - m); the sum over kv. */
static vf tile_column_exp(float *st, int64_t ld, int64_t kv, vf c, vf minus_m) {
  vf sum[4];
  for (int i = 0; i < 4; i++)
    sum[i] = vf_set1(0.0F);
  int64_t t = 0;
  for (; t + 4 <= kv; t += 4)
    for (int i = 0; i < 4; i++) {
      vf p = vf_exp2(vf_fma(vf_load(st + (t + i) * ld), c, minus_m));
      vf_store(st + (t + i) * ld, p);
      sum[i] = vf_add(sum[i], p);
    }
  for (; t < kv; t++) {
    vf p = vf_exp2(vf_fma(vf_load(st + t * ld), c, minus_m));
    vf_store(st + t * ld, p);
    sum[0] = vf_add(sum[0], p);
  }
  return vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3]));
}

static void tile_softmax_grad(float *s, float *dp, int64_t ld, int64_t q, int64_t kv, float scale,
                              const float *lse, const float *delta, const float *lo, const float *hi,
                              float *dst, int64_t ldt) {
  const vf c = vf_set1(scale * SPP_LOG2E), sv = vf_set1(scale), zero = vf_set1(0.0F);
  for (int64_t r = 0; r < q; r++) {
    vf minus_lse = vf_set1(-lse[r] * SPP_LOG2E), d = vf_set1(delta[r]);
    for (int64_t j = 0; j < kv; j += VF_WIDTH) {
      float *sj = s + r * ld + j, *dj = dp + r * ld + j;
      vf p = vf_exp2(vf_fma(vf_load(sj), c, minus_lse));
      if (lo) p = vf_in_range(p, vf_add(vf_iota(), vf_set1((float)j)), vf_set1(lo[r]), vf_set1(hi[r]), zero);
      vf_store(sj, p);
      vf_store(dj, vf_mul(vf_mul(p, sv), vf_sub(vf_load(dj), d)));
    }
  }
  tile_transpose(dp, ld, q, kv, dst, ldt);
}

#endif
