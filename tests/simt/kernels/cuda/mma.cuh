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

static inline void mma(float &c0, float &c1, float &c2, float &c3, const unsigned (&a)[4],
                       const unsigned (&b)[2]) {
  simt_fragments mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
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

#endif
