/* Vector layer for AVX-512 (F, BW, DQ, VL): 16 floats a vector. Included once by each instance file; the
 * bodies (body_tile.h, body_ops.h) know only the names vf_*. Contract of each name: vec_portable.h. */
#ifndef SPP_KERNELS_VEC_AVX512_H
#define SPP_KERNELS_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VF_WIDTH 16
#define VF_MR    8 /* 8 x 3 accumulators + 3 B vectors + 1 broadcast = 28 of 32 registers */
#define VF_NV    3

typedef __m512 vf;

static inline vf vf_load(const float *p) {
  return _mm512_loadu_ps(p);
}
static inline void vf_store(float *p, vf x) {
  _mm512_storeu_ps(p, x);
}
static inline vf vf_set1(float x) {
  return _mm512_set1_ps(x);
}
static inline vf vf_add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}
static inline vf vf_sqrt(vf a) {
  return _mm512_sqrt_ps(a);
}
static inline vf vf_max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline float vf_hsum(vf a) {
  return _mm512_reduce_add_ps(a);
}
static inline float vf_hmax(vf a) {
  return _mm512_reduce_max_ps(a);
}

static inline vf vf_iota(void) {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline vf vf_in_range(vf x, vf index, vf lo, vf hi, vf fill) {
  __mmask16 m = _mm512_cmp_ps_mask(lo, index, _CMP_LE_OQ);
  m = _mm512_mask_cmp_ps_mask(m, index, hi, _CMP_LT_OQ);
  return _mm512_mask_mov_ps(fill, m, x);
}

/* Without optimisation gcc 12 makes this intrinsic a macro that converts its all-ones mask to short. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
static inline vf vf_round(vf x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#pragma GCC diagnostic pop

/* y * 2^n where x >= floor_x, else 0. */
static inline vf vf_scale2(vf y, vf n, vf x, vf floor_x) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, floor_x, _CMP_GE_OQ), y, n);
}

static inline vf vf_load_bf16(const uint16_t *p) {
  __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

/* Round to nearest even; a NaN keeps its sign and becomes quiet. */
static inline void vf_store_bf16(uint16_t *p, vf x) {
  __m512i w = _mm512_castps_si512(x);
  __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(w, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7fff))), 16);
  __m512i q = _mm512_or_si512(_mm512_srli_epi32(w, 16), _mm512_set1_epi32(0x40));
  r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), q);
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(r));
}

/* Transposes 16 rows of 16 in registers: pairs, quads, then 128-bit lanes. */
static inline void vf_transpose(vf x[VF_WIDTH]) {
  vf t[VF_WIDTH];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
    __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
    x[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    x[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    x[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    x[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; i++) {
    x[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    x[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    x[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    x[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

#endif
