/* Vector layer for AArch64 Advanced SIMD: 4 floats a vector. Contract of each name: vec_portable.h. */
#ifndef SPP_KERNELS_VEC_NEON_H
#define SPP_KERNELS_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define VF_WIDTH 4
#define VF_MR    8 /* 8 x 3 accumulators of 32 registers */
#define VF_NV    3

typedef float32x4_t vf;

static inline vf vf_load(const float *p) {
  return vld1q_f32(p);
}
static inline void vf_store(float *p, vf x) {
  vst1q_f32(p, x);
}
static inline vf vf_set1(float x) {
  return vdupq_n_f32(x);
}
static inline vf vf_add(vf a, vf b) {
  return vaddq_f32(a, b);
}
static inline vf vf_sub(vf a, vf b) {
  return vsubq_f32(a, b);
}
static inline vf vf_mul(vf a, vf b) {
  return vmulq_f32(a, b);
}
static inline vf vf_div(vf a, vf b) {
  return vdivq_f32(a, b);
}
static inline vf vf_sqrt(vf a) {
  return vsqrtq_f32(a);
}
static inline vf vf_max(vf a, vf b) {
  return vmaxq_f32(a, b);
}
static inline vf vf_min(vf a, vf b) {
  return vminq_f32(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c) {
  return vfmaq_f32(c, a, b);
}
static inline float vf_hsum(vf a) {
  return vaddvq_f32(a);
}
static inline float vf_hmax(vf a) {
  return vmaxvq_f32(a);
}

static inline vf vf_iota(void) {
  static const float index[VF_WIDTH] = {0, 1, 2, 3};
  return vld1q_f32(index);
}

static inline vf vf_in_range(vf x, vf index, vf lo, vf hi, vf fill) {
  return vbslq_f32(vandq_u32(vcleq_f32(lo, index), vcltq_f32(index, hi)), x, fill);
}

static inline vf vf_round(vf x) {
  return vrndnq_f32(x);
}

static inline vf vf_scale2(vf y, vf n, vf x, vf floor_x) {
  int32x4_t i = vcvtq_s32_f32(n);
  int32x4_t half = vshrq_n_s32(i, 1);
  int32x4_t bias = vdupq_n_s32(127);
  vf f1 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
  vf f2 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vsubq_s32(i, half), bias), 23));
  vf r = vmulq_f32(vmulq_f32(y, f1), f2);
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(r), vcgeq_f32(x, floor_x)));
}

static inline vf vf_load_bf16(const uint16_t *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline void vf_store_bf16(uint16_t *p, vf x) {
  uint32x4_t w = vreinterpretq_u32_f32(x);
  uint32x4_t hi = vshrq_n_u32(w, 16);
  uint32x4_t up = vaddq_u32(vandq_u32(hi, vdupq_n_u32(1)), vdupq_n_u32(0x7fff));
  uint32x4_t r = vshrq_n_u32(vaddq_u32(w, up), 16);
  r = vbslq_u32(vceqq_f32(x, x), r, vorrq_u32(hi, vdupq_n_u32(0x40)));
  vst1_u16(p, vmovn_u32(r));
}

static inline void vf_transpose(vf x[VF_WIDTH]) {
  float32x4x2_t a = vtrnq_f32(x[0], x[1]), b = vtrnq_f32(x[2], x[3]);
  x[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
  x[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
  x[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
  x[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#endif
