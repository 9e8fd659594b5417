/* Products of tiles in shared memory, by the threads of a block together. Two kinds of tile, of fp32 elements
 * and plain multiply-adds, of bf16 elements and tensor cores, behind the same names: which thread of the
 * block holds which results, and two products. Attention is written once over either. Device code. */
#ifndef SPP_KERNELS_CUDA_TILE_CUH
#define SPP_KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/mma.cuh"

/* 256 threads as 16 x 16; of a tile of results thread (y, x) has rows y + 16 i and columns x + 16 j. */
struct fma_tile {
  typedef float element;
  enum { PAD = 4, ROW_LANES = 16, DEPTH = 4 }; /* DEPTH: products go in steps of it */
  static __host__ __device__ constexpr int threads(int) { return 256; }
  static __host__ __device__ constexpr int rows(int all) { return all / 16; } /* of one thread */
  static __host__ __device__ constexpr int cols(int all) { return all / 16; }
  static __device__ __forceinline__ int row(int i) { return (int)threadIdx.x / 16 + 16 * i; }
  static __device__ __forceinline__ int col(int j) { return (int)threadIdx.x % 16 + 16 * j; }

  /* acc += A B^T: A [rows][depth], B [cols][depth]. */
  template <int R, int C>
  static __device__ __forceinline__ void nt(float (&acc)[R][C], const float *a, int lda, const float *b,
                                            int ldb, int depth) {
    for (int d = 0; d < depth; d += 4) {
      float4 x[R], y[C];
      for (int i = 0; i < R; i++)
        x[i] = load4(a, row(i) * lda + d);
      for (int j = 0; j < C; j++)
        y[j] = load4(b, col(j) * ldb + d);
      for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++)
          acc[i][j] = fmaf(x[i].w, y[j].w,
                           fmaf(x[i].z, y[j].z, fmaf(x[i].y, y[j].y, fmaf(x[i].x, y[j].x, acc[i][j]))));
    }
  }

  /* acc += A B: A [rows][depth], B [depth][cols]. */
  template <int R, int C>
  static __device__ __forceinline__ void nn(float (&acc)[R][C], const float *a, int lda, const float *b,
                                            int ldb, int depth) {
    for (int k = 0; k < depth; k += 4) {
      float x[R][4];
      for (int i = 0; i < R; i++)
        get(a, row(i) * lda + k, x[i]);
      for (int kk = 0; kk < 4; kk++)
        for (int j = 0; j < C; j++) {
          float y = b[(k + kk) * ldb + col(j)];
          for (int i = 0; i < R; i++)
            acc[i][j] = fmaf(x[i][kk], y, acc[i][j]);
        }
    }
  }
};

/* A warp for every 16 rows; mma.cuh says which lane has which results of 16 x 8. */
struct mma_tile {
  typedef bf16 element;
  enum { PAD = 8, ROW_LANES = 4, DEPTH = 16 };
  static __host__ __device__ constexpr int threads(int all_rows) { return all_rows / 16 * WARP; }
  static __host__ __device__ constexpr int rows(int) { return 2; }
  static __host__ __device__ constexpr int cols(int all) { return all / 4; }
  static __device__ __forceinline__ int group() { return (int)threadIdx.x % WARP / 4; }
  static __device__ __forceinline__ int pair() { return (int)threadIdx.x % 4 * 2; }
  static __device__ __forceinline__ int row(int i) { return (int)threadIdx.x / WARP * 16 + group() + 8 * i; }
  static __device__ __forceinline__ int col(int j) { return j / 2 * 8 + pair() + j % 2; }

  static __device__ __forceinline__ unsigned two(const bf16 *p) { return *(const unsigned *)p; }
  static __device__ __forceinline__ void left(unsigned (&x)[4], const bf16 *a, int lda, int k) {
    for (int part = 0; part < 4; part++)
      x[part] = two(a + row(part % 2) * lda + k + pair() + part / 2 * 8);
  }

  template <int R, int C>
  static __device__ __forceinline__ void nt(float (&acc)[R][C], const bf16 *a, int lda, const bf16 *b,
                                            int ldb, int depth) {
    for (int k = 0; k < depth; k += 16) {
      unsigned x[4], y[2];
      left(x, a, lda, k);
      for (int j = 0; j < C; j += 2) {
        const bf16 *at = b + (j * 4 + group()) * ldb + k + pair();
        y[0] = two(at);
        y[1] = two(at + 8);
        mma(acc[0][j], acc[0][j + 1], acc[1][j], acc[1][j + 1], x, y);
      }
    }
  }

  template <int R, int C>
  static __device__ __forceinline__ void nn(float (&acc)[R][C], const bf16 *a, int lda, const bf16 *b,
                                            int ldb, int depth) {
    for (int k = 0; k < depth; k += 16) {
      unsigned x[4], y[2];
      left(x, a, lda, k);
      for (int j = 0; j < C; j += 2) {
        const bf16 *at = b + (k + pair()) * ldb + j * 4 + group();
        y[0] = at[0].bits | (unsigned)at[ldb].bits << 16;
        y[1] = at[8 * ldb].bits | (unsigned)at[9 * ldb].bits << 16;
        mma(acc[0][j], acc[0][j + 1], acc[1][j], acc[1][j + 1], x, y);
      }
    }
  }
};

#endif
