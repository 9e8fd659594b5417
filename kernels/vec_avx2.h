/* Vector layer for AVX2 + FMA: 8 floats a vector. Contract of each name: vec_portable.h. */
#ifndef SPP_KERNELS_VEC_AVX2_H
#define SPP_KERNELS_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define VF_WIDTH 8
#define VF_MR    4 /* 4 x 3 accumulators + 3 B vectors + 1 broadcast = all 16 registers */
#define VF_NV    3

typedef __m256 vf;

static inline vf vf_load(const float *p) {
  return _mm256_loadu_ps(p);
}
static inline void vf_store(float *p, vf x) {
  _mm256_storeu_ps(p, x);
}
static inline vf vf_set1(float x) {
  return _mm256_set1_ps(x);
}
static inline vf vf_add(vf a, vf b) {
  return _mm256_add_ps(a, b);
}
static inline vf vf_sub(vf a, vf b) {
  return _mm256_sub_ps(a, b);
}
static inline vf vf_mul(vf a, vf b) {
  return _mm256_mul_ps(a, b);
}
static inline vf vf_div(vf a, vf b) {
  return _mm256_div_ps(a, b);
}
static inline vf vf_sqrt(vf a) {
  return _mm256_sqrt_ps(a);
}
static inline vf vf_max(vf a, vf b) {
  return _mm256_max_ps(a, b);
}
static inline vf vf_min(vf a, vf b) {
  return _mm256_min_ps(a, b);
}
static inline vf vf_fma(vf a, vf b, vf c) {
  return _mm256_fmadd_ps(a, b, c);
}

static inline float vf_hsum(vf a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float vf_hmax(vf a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline vf vf_iota(void) {
  return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

static inline vf vf_in_range(vf x, vf index, vf lo, vf hi, vf fill) {
  __m256 m = _mm256_and_ps(_mm256_cmp_ps(lo, index, _CMP_LE_OQ), _mm256_cmp_ps(index, hi, _CMP_LT_OQ));
  return _mm256_blendv_ps(fill, x, m);
}

static inline vf vf_round(vf x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* y * 2^n where x >= floor_x, else 0; n within [-126, 128]: 2^n is applied as two factors, 2^128 is no float.
 */
static inline vf vf_scale2(vf y, vf n, vf x, vf floor_x) {
  __m256i i = _mm256_cvtps_epi32(n);
  __m256i half = _mm256_srai_epi32(i, 1);
  __m256i rest = _mm256_sub_epi32(i, half);
  __m256i bias = _mm256_set1_epi32(127);
  vf f1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  vf f2 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  vf r = _mm256_mul_ps(_mm256_mul_ps(y, f1), f2);
  return _mm256_and_ps(r, _mm256_cmp_ps(x, floor_x, _CMP_GE_OQ));
}

static inline vf vf_load_bf16(const uint16_t *p) {
  __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

static inline void vf_store_bf16(uint16_t *p, vf x) {
  __m256i w = _mm256_castps_si256(x);
  __m256i hi = _mm256_srli_epi32(w, 16);
  __m256i lsb = _mm256_and_si256(hi, _mm256_set1_epi32(1));
  __m256i r = _mm256_srli_epi32(_mm256_add_epi32(w, _mm256_add_epi32(lsb, _mm256_set1_epi32(0x7fff))), 16);
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  r = _mm256_blendv_epi8(r, _mm256_or_si256(hi, _mm256_set1_epi32(0x40)), nan);
  __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
  _mm_storeu_si128((__m128i *)(void *)p, packed);
}

static inline void vf_transpose(vf x[VF_WIDTH]) {
  vf t[VF_WIDTH];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    vf lo = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    x[i] = lo;
  }
}

#endif
