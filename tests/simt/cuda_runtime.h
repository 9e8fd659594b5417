/* Stands in for the header of the CUDA toolkit where kernels/cuda is compiled for the processor
 * (tests/simt/simt.h). Only what kernels/cuda uses. Work is put off until the stream is waited for, as a
 * device would: what a kernel reads of the caller's memory after the call is found. Device memory starts full
 * of NaNs, between guards that are looked at when it is freed. */
#ifndef SPP_TESTS_SIMT_CUDA_RUNTIME_H
#define SPP_TESTS_SIMT_CUDA_RUNTIME_H

#include "tests/simt/simt.h"

#include <math.h>
#include <string.h>

#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1 };

typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount, major, minor;
};

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace simt {
/* Puts work off until the stream is waited for. */
void put_off(cudaStream_t stream, std::function<void()> work);
/* Work that is tried again and again until it says that it is done. */
void put_off_until(cudaStream_t stream, std::function<bool()> work);
/* Is this launch one that a device of compute capability 8.0 takes? */
cudaError_t check_launch(const cudaLaunchConfig_t *config, const void *kernel);
void allow_shared(const void *kernel, int bytes);
} // namespace simt

template <class K> cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute, int bytes) {
  simt::allow_shared((const void *)kernel, bytes);
  return cudaSuccess;
}

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args) {
  cudaError_t error = simt::check_launch(config, (const void *)kernel);
  if (error != cudaSuccess) return error;
  std::tuple<P...> values(args...);
  cudaLaunchConfig_t c = *config;
  simt::put_off(c.stream, [=]() {
    auto call = [&]() { std::apply(kernel, values); };
    simt::run(
        c.gridDim, c.blockDim, c.dynamicSmemBytes, [](void *f) { (*(decltype(call) *)f)(); }, &call);
  });
  return cudaSuccess;
}

struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};

static inline void __syncthreads() {
  simt::block_barrier(0);
}
static inline int __syncthreads_or(int value) {
  return simt::block_barrier(value != 0) != 0;
}
static inline void __syncwarp() {
  simt::from_lane("syncwarp", 0, 0xffffffffu, 0);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return simt::from_lane("shfl_xor", value, mask, simt::lane() ^ lanes);
}
template <class T> T __shfl_sync(unsigned mask, T value, int lane) {
  return simt::from_lane("shfl", value, mask, lane);
}
static inline unsigned __float_as_uint(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float __uint_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

#endif
