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

  /* A's 16 rows of the warp, columns k to k + 15. */
  static __device__ __forceinline__ void left(unsigned (&x)[4], const bf16 *a, int lda, int k) {
    int lane = threadIdx.x % WARP, first = threadIdx.x / WARP * 16;
    load_matrices(x, a + (first + lane % 16) * lda + k + lane / 16 * 8);
  }
  /* Columns 4 j to 4 j + 15 of the results: two products with the halves of y. */
  template <int R, int C>
  static __device__ __forceinline__ void two_products(float (&acc)[R][C], int j, const unsigned (&x)[4],
                                                      const unsigned (&y)[4]) {
    mma(acc[0][j], acc[0][j + 1], acc[1][j], acc[1][j + 1], x, y[0], y[1]);
    mma(acc[0][j + 2], acc[0][j + 3], acc[1][j + 2], acc[1][j + 3], x, y[2], y[3]);
  }

  template <int R, int C>
  static __device__ __forceinline__ void nt(float (&acc)[R][C], const bf16 *a, int lda, const bf16 *b,
                                            int ldb, int depth) {
    int lane = threadIdx.x % WARP;
    const bf16 *row = b + (lane / 16 * 8 + lane % 8) * ldb + lane / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
      unsigned x[4], y[4];
      left(x, a, lda, k);
#pragma unroll
      for (int j = 0; j < C; j += 4) {
        load_matrices(y, row + j * 4 * ldb + k);
        two_products(acc, j, x, y);
      }
    }
  }

  template <int R, int C>
  static __device__ __forceinline__ void nn(float (&acc)[R][C], const bf16 *a, int lda, const bf16 *b,
                                            int ldb, int depth) {
    int lane = threadIdx.x % WARP;
    const bf16 *row = b + lane % 16 * ldb + lane / 16 * 8;
    for (int k = 0; k < depth; k += 16) {
      unsigned x[4], y[4];
      left(x, a, lda, k);
#pragma unroll
      for (int j = 0; j < C; j += 4) {
        load_transposed(y, row + k * ldb + j * 4);
        two_products(acc, j, x, y);
      }
    }
  }
};

#endif
