/* Vector layer in plain C, and the contract of every vec_*.h: a vector `vf` of VF_WIDTH floats, a register
 * tile of VF_MR rows by VF_NV vectors, and the functions below. Loads and stores need no alignment. */
#ifndef SPP_KERNELS_VEC_PORTABLE_H
#define SPP_KERNELS_VEC_PORTABLE_H

#include "kernels/bf16.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VF_WIDTH 4
#define VF_MR    8 /* wider than a vector, as on NEON: tests then cover that case everywhere */
#define VF_NV    2

typedef struct {
  float f[VF_WIDTH];
} vf;

#define VF_EACH(expr)                                                                                        \
  do {                                                                                                       \
    vf r;                                                                                                    \
    for (int i = 0; i < VF_WIDTH; i++)                                                                       \
      r.f[i] = (expr);                                                                                       \
    return r;                                                                                                \
  } while (0)

static inline vf vf_load(const float *p) {
  VF_EACH(p[i]);
}
static inline void vf_store(float *p, vf x) {
  memcpy(p, x.f, sizeof x.f);
}
static inline vf vf_set1(float x) {
  VF_EACH(x);
}
static inline vf vf_add(vf a, vf b) {
  VF_EACH(a.f[i] + b.f[i]);
}
static inline vf vf_sub(vf a, vf b) {
  VF_EACH(a.f[i] - b.f[i]);
}
static inline vf vf_mul(vf a, vf b) {
  VF_EACH(a.f[i] * b.f[i]);
}
static inline vf vf_div(vf a, vf b) {
  VF_EACH(a.f[i] / b.f[i]);
}
static inline vf vf_sqrt(vf a) {
  VF_EACH(sqrtf(a.f[i]));
}
static inline vf vf_max(vf a, vf b) {
  VF_EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]);
}
static inline vf vf_min(vf a, vf b) {
  VF_EACH(a.f[i] < b.f[i] ? a.f[i] : b.f[i]);
}
/* a * b + c, one rounding where the processor has it. */
static inline vf vf_fma(vf a, vf b, vf c) {
  VF_EACH(a.f[i] * b.f[i] + c.f[i]);
}
static inline float vf_hsum(vf a) {
  return (a.f[0] + a.f[2]) + (a.f[1] + a.f[3]);
}
static inline float vf_hmax(vf a) {
  return fmaxf(fmaxf(a.f[0], a.f[1]), fmaxf(a.f[2], a.f[3]));
}
/* 0, 1, 2, ... */
static inline vf vf_iota(void) {
  VF_EACH((float)i);
}

/* x where lo <= index < hi, else fill. */
static inline vf vf_in_range(vf x, vf index, vf lo, vf hi, vf fill) {
  VF_EACH(lo.f[i] <= index.f[i] && index.f[i] < hi.f[i] ? x.f[i] : fill.f[i]);
}

/* Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits. */
static inline vf vf_round(vf x) {
  VF_EACH((x.f[i] + 12582912.0F) - 12582912.0F);
}

/* y * 2^n where x >= floor_x, else 0; n is an integer within [-126, 128]. */
static inline vf vf_scale2(vf y, vf n, vf x, vf floor_x) {
  VF_EACH(x.f[i] >= floor_x.f[i] ? ldexpf(y.f[i], (int)n.f[i]) : 0.0F);
}

static inline vf vf_load_bf16(const uint16_t *p) {
  VF_EACH(spp_bf16_to_float(p[i]));
}

/* Round to nearest even; a NaN keeps its sign and becomes quiet. */
static inline void vf_store_bf16(uint16_t *p, vf x) {
  for (int i = 0; i < VF_WIDTH; i++)
    p[i] = spp_float_to_bf16(x.f[i]);
}

/* Transposes VF_WIDTH rows of VF_WIDTH. */
static inline void vf_transpose(vf x[VF_WIDTH]) {
  for (int i = 0; i < VF_WIDTH; i++)
    for (int j = i + 1; j < VF_WIDTH; j++) {
      float t = x[i].f[j];
      x[i].f[j] = x[j].f[i];
      x[j].f[i] = t;
    }
}

#undef VF_EACH
#endif
