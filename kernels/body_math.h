/* Functions of a vector, written over a vec_*.h layer. Included once by each instance file. */
#ifndef SPP_KERNELS_BODY_MATH_H
#define SPP_KERNELS_BODY_MATH_H

#include "kernels/bf16.h"

#include <stdint.h>
#include <string.h>

#define SPP_LOG2E 1.44269504088896340736F

/* 2^x: x = n + r with |r| <= 1/2, 2^r by the degree-6 polynomial of Cephes exp2f (single/exp2f.c of
 * netlib.org/cephes). Relative error below 1.2e-7 for x in [-126, 128) (tested);
 * exactly 0 below -126, so that masked scores (-infinity) add nothing; 2^127.99 above 128. */
static inline vf vf_exp2(vf x) {
  const vf floor_x = vf_set1(-126.0F);
  vf y = vf_min(vf_max(x, floor_x), vf_set1(127.99999F));
  vf n = vf_round(y);
  vf r = vf_sub(y, n);
  vf p = vf_set1(1.535336188319500e-4F);
  p = vf_fma(p, r, vf_set1(1.339887440266574e-3F));
  p = vf_fma(p, r, vf_set1(9.618437357674640e-3F));
  p = vf_fma(p, r, vf_set1(5.550332471162809e-2F));
  p = vf_fma(p, r, vf_set1(2.402264791363012e-1F));
  p = vf_fma(p, r, vf_set1(6.931472028550421e-1F));
  p = vf_fma(p, r, vf_set1(1.0F));
  return vf_scale2(p, n, x, floor_x);
}

/* e^x; x * log2(e) carries two roundings: relative error below 1.2e-7 + 8e-8 * |x|. */
static inline vf vf_exp(vf x) {
  return vf_exp2(vf_mul(x, vf_set1(SPP_LOG2E)));
}

static inline vf vf_neg(vf x) {
  return vf_sub(vf_set1(0.0F), x);
}

/* 1 - 2 / (e^2x + 1); near 0, where that cancels, the polynomial of Cephes tanhf (single/tanhf.c of
 * netlib.org/cephes) for |x| < 0.625. */
static inline vf vf_tanh(vf x) {
  const vf one = vf_set1(1.0F), two = vf_set1(2.0F), edge = vf_set1(0.625F);
  vf far = vf_sub(one, vf_div(two, vf_add(vf_exp(vf_mul(two, x)), one))), z = vf_mul(x, x);
  vf p = vf_set1(-5.70498872745e-3F);
  p = vf_fma(p, z, vf_set1(2.06390887954e-2F));
  p = vf_fma(p, z, vf_set1(-5.37397155531e-2F));
  p = vf_fma(p, z, vf_set1(1.33314422036e-1F));
  p = vf_fma(p, z, vf_set1(-3.33332819422e-1F));
  vf near = vf_fma(vf_mul(p, z), x, x);
  return vf_in_range(near, x, vf_neg(edge), edge, far);
}

/* The first n floats, zeros behind. */
static inline vf vf_load_first(const float *p, int64_t n) {
  float t[VF_WIDTH] = {0};
  memcpy(t, p, (size_t)n * sizeof *p);
  return vf_load(t);
}

static inline void vf_store_first(float *p, int64_t n, vf x) {
  float t[VF_WIDTH];
  vf_store(t, x);
  memcpy(p, t, (size_t)n * sizeof *p);
}

/* Element i onwards of storage; n <= VF_WIDTH elements, zeros behind. */
static inline vf vf_load_any(const void *p, enum spp_storage storage, int64_t i, int64_t n) {
  if (storage == SPP_STORE_F32) {
    const float *f = (const float *)p + i;
    return n >= VF_WIDTH ? vf_load(f) : vf_load_first(f, n);
  }
  const uint16_t *h = (const uint16_t *)p + i;
  if (n >= VF_WIDTH) return vf_load_bf16(h);
  uint16_t t[VF_WIDTH] = {0};
  memcpy(t, h, (size_t)n * sizeof *h);
  return vf_load_bf16(t);
}

static inline void vf_store_any(void *p, enum spp_storage storage, int64_t i, int64_t n, vf x) {
  if (storage == SPP_STORE_F32) {
    float *f = (float *)p + i;
    if (n >= VF_WIDTH)
      vf_store(f, x);
    else
      vf_store_first(f, n, x);
    return;
  }
  uint16_t *h = (uint16_t *)p + i;
  if (n >= VF_WIDTH) {
    vf_store_bf16(h, x);
    return;
  }
  uint16_t t[VF_WIDTH];
  vf_store_bf16(t, x);
  memcpy(h, t, (size_t)n * sizeof *h);
}

static inline int64_t vf_part(int64_t left) {
  return left < VF_WIDTH ? left : VF_WIDTH;
}

#endif
