/* Elements in memory, a few at a time, and sums over a warp and a block. Device code. */
#ifndef SPP_KERNELS_CUDA_ELEMENTS_CUH
#define SPP_KERNELS_CUDA_ELEMENTS_CUH

#include "kernels/cuda/queue.cuh"

enum { WARP = 32, BLOCK = 256 };
#define ALL_LANES 0xffffffffu

/* bf16 as it is stored; kernels/bf16.h has the rounding. */
struct bf16 {
  uint16_t bits;
};

static __device__ __forceinline__ float widened(uint16_t bits) {
  return __uint_as_float((unsigned)bits << 16);
}
static __device__ __forceinline__ uint16_t rounded(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static __device__ __forceinline__ float load(const float *p, int64_t i) {
  return p[i];
}
static __device__ __forceinline__ float load(const bf16 *p, int64_t i) {
  return widened(p[i].bits);
}
static __device__ __forceinline__ void store(float *p, int64_t i, float x) {
  p[i] = x;
}
static __device__ __forceinline__ void store(bf16 *p, int64_t i, float x) {
  p[i].bits = rounded(x);
}

/* Four at once; p + i is aligned to four elements. */
static __device__ __forceinline__ float4 load4(const float *p, int64_t i) {
  return *(const float4 *)(p + i);
}
static __device__ __forceinline__ float4 load4(const bf16 *p, int64_t i) {
  uint2 two = *(const uint2 *)(p + i);
  float4 x;
  x.x = __uint_as_float(two.x << 16);
  x.y = __uint_as_float(two.x & 0xffff0000u);
  x.z = __uint_as_float(two.y << 16);
  x.w = __uint_as_float(two.y & 0xffff0000u);
  return x;
}
static __device__ __forceinline__ void store4(float *p, int64_t i, float4 x) {
  *(float4 *)(p + i) = x;
}
static __device__ __forceinline__ void store4(bf16 *p, int64_t i, float4 x) {
  uint2 two;
  two.x = rounded(x.x) | (unsigned)rounded(x.y) << 16;
  two.y = rounded(x.z) | (unsigned)rounded(x.w) << 16;
  *(uint2 *)(p + i) = two;
}

/* V of them, 1 or 4. */
template <int V, class T> static __device__ __forceinline__ void get(const T *p, int64_t i, float (&x)[V]) {
  if constexpr (V == 4) {
    float4 four = load4(p, i);
    x[0] = four.x;
    x[1] = four.y;
    x[2] = four.z;
    x[3] = four.w;
  } else {
    x[0] = load(p, i);
  }
}
template <int V, class T> static __device__ __forceinline__ void put(T *p, int64_t i, const float (&x)[V]) {
  if constexpr (V == 4) {
    float4 four;
    four.x = x[0];
    four.y = x[1];
    four.z = x[2];
    four.w = x[3];
    store4(p, i, four);
  } else {
    store(p, i, x[0]);
  }
}

struct add_up {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a + b; }
};
struct take_most {
  template <class T> static __device__ __forceinline__ T of(T a, T b) { return a > b ? a : b; }
};

/* Over `lanes` neighbours (a power of two), to all of them. */
template <class How, class T> static __device__ __forceinline__ T over_lanes(T x, int lanes = WARP) {
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    x = How::of(x, __shfl_xor_sync(ALL_LANES, x, apart));
  return x;
}

/* Over the block, to all threads, in a fixed order. `room`: shared memory of one T a warp, free for the next
 * use when the call returns. */
template <class How, class T> static __device__ __forceinline__ T over_block(T x, T *room) {
  x = over_lanes<How>(x);
  if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = x;
  __syncthreads();
  x = room[0];
  for (unsigned w = 1; w < blockDim.x / WARP; w++)
    x = How::of(x, room[w]);
  __syncthreads();
  return x;
}

/* The block's shared memory. */
template <class T> static __device__ __forceinline__ T *shared_memory() {
  extern __shared__ __align__(16) unsigned char spp_shared_bytes[];
  return (T *)spp_shared_bytes;
}

/* Are all addresses (NULL is) aligned to four elements? */
static inline bool in_fours(const void *p, int64_t element_bytes) {
  return (uintptr_t)p % (uintptr_t)(4 * element_bytes) == 0;
}

/* call(T()) with the type of the storage. */
template <class F> static void with_storage(enum spp_storage storage, F call) {
  if (storage == SPP_STORE_BF16)
    call(bf16());
  else
    call(float());
}

/* call(V, T()): rows whose elements are read V at a time, by FOR_COLUMNS. */
template <class F> static void with_row(enum spp_storage storage, bool fours, F call) {
  with_storage(storage, [&](auto t) {
    if (fours)
      call(std::integral_constant<int, 4>(), t);
    else
      call(std::integral_constant<int, 1>(), t);
  });
}

/* Columns of one row that a thread has: V from every V * blockDim.x. */
#define FOR_COLUMNS(i, width)                                                                                \
  for (int64_t i = (int64_t)threadIdx.x * V; i < (width); i += (int64_t)blockDim.x * V)

#endif
