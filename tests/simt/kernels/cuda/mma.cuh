/* In the place of kernels/cuda/mma.cuh, which says which lane holds what. */
#ifndef SPP_TESTS_SIMT_MMA_CUH
#define SPP_TESTS_SIMT_MMA_CUH

#include <cuda_runtime.h>

struct simt_fragments {
  unsigned a[4], b[2];
};

static inline float simt_half(unsigned pair, int which) {
  return __uint_as_float(which ? pair & 0xffff0000u : pair << 16);
}

static inline void mma(float &c0, float &c1, float &c2, float &c3, const unsigned (&a)[4], unsigned b0,
                       unsigned b1) {
  simt_fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const unsigned char *slots = simt::collect("mma", &mine, sizeof mine);
  float *c[2][2] = {{&c0, &c1}, {&c2, &c3}};
  int g = simt::lane() / 4, t = simt::lane() % 4;
  for (int high = 0; high < 2; high++) /* row g or g + 8 */
    for (int odd = 0; odd < 2; odd++)  /* column 2 t or 2 t + 1 */
      for (int k = 0; k < 16; k++) {
        const simt_fragments *row = (const simt_fragments *)(slots + (g * 4 + k % 8 / 2) * simt::SLOT_BYTES);
        const simt_fragments *column =
            (const simt_fragments *)(slots + ((2 * t + odd) * 4 + k % 8 / 2) * simt::SLOT_BYTES);
        *c[high][odd] += simt_half(row->a[high + 2 * (k / 8)], k % 2) * simt_half(column->b[k / 8], k % 2);
      }
}

/* Element `col` of row `row` of matrix i, from the addresses of all lanes. */
static inline unsigned simt_element(const unsigned char *slots, int i, int row, int col) {
  const uint16_t *address = *(const uint16_t *const *)(slots + (8 * i + row) * simt::SLOT_BYTES);
  return address[col];
}

static inline void simt_load(unsigned (&x)[4], const void *row, bool transposed) {
  const unsigned char *first = spp_shared_bytes, *at = (const unsigned char *)row;
  if (at < first || at + 16 > first + SIMT_SHARED_BYTES || (at - first) % 16 != 0)
    simt::fail("ldmatrix of an address that is not of shared memory or not aligned");
  const unsigned char *slots = simt::collect(transposed ? "ldmatrix.trans" : "ldmatrix", &row, sizeof row);
  int g = simt::lane() / 4, t = simt::lane() % 4;
  for (int i = 0; i < 4; i++)
    x[i] = transposed ? simt_element(slots, i, 2 * t, g) | simt_element(slots, i, 2 * t + 1, g) << 16
                      : simt_element(slots, i, g, 2 * t) | simt_element(slots, i, g, 2 * t + 1) << 16;
}

static inline void load_matrices(unsigned (&x)[4], const void *row) {
  simt_load(x, row, false);
}
static inline void load_transposed(unsigned (&x)[4], const void *row) {
  simt_load(x, row, true);
}

#endif
