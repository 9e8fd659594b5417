/* The queue behind kernels/device.h: a stream, its scratch, its first fault; and how kernels are launched on
 * it. */
#ifndef SPP_KERNELS_CUDA_QUEUE_CUH
#define SPP_KERNELS_CUDA_QUEUE_CUH

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

extern "C" {
#include "kernels/device.h"
}

/* Partial sums of norms and of squares lie here. The size is part of the order of sums, so it is one for all.
 */
enum { SPP_SCRATCH_BYTES = 8 << 20 };

struct spp_queue {
  int ordinal;
  cudaStream_t stream;
  cudaEvent_t marks[2];
  void *scratch;
  void *blas; /* cublasHandle_t, made for the first product */
  bool failed;
  struct spp_diag fault;
};

/* Remembers the first fault; true when there was none, now or before. */
bool spp_cuda_ok(struct spp_queue *q, cudaError_t error, const char *what, const char *file, int line);
#define SPP_CUDA_OK(q, call) spp_cuda_ok(q, call, #call, __FILE__, __LINE__)

/* No fault yet, and the calling thread's device is the queue's. */
static inline bool spp_queue_ready(struct spp_queue *q) {
  return !q->failed && SPP_CUDA_OK(q, cudaSetDevice(q->ordinal));
}

/* The same for calls before there is a queue: fills diag. */
bool spp_cuda_said(struct spp_diag *diag, cudaError_t error, const char *what, const char *file, int line);
#define SPP_CUDA_SAID(diag, call) spp_cuda_said(diag, call, #call, __FILE__, __LINE__)

/* What the queue's fault says, or SPP_OK. */
enum spp_status spp_queue_status(const struct spp_queue *q, struct spp_diag *diag);

/* Blocks for `work` pieces of `each` a block, at most so many that a kernel's own loop goes on over the rest.
 */
static inline unsigned spp_blocks(int64_t work, int64_t each) {
  int64_t blocks = (work + each - 1) / each;
  return (unsigned)(blocks < 16384 ? blocks : 16384);
}

template <class... P, class... A>
void spp_launch(struct spp_queue *q, const char *name, const char *file, int line, void (*kernel)(P...),
                unsigned blocks, int threads, size_t shared_bytes, A... args) {
  if (blocks == 0 || !spp_queue_ready(q)) return;
  /* More than 48 KiB must be asked for (CUDA programming guide, shared memory of compute capability 8.x). */
  if (shared_bytes > 49152 &&
      !spp_cuda_ok(
          q, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
          name, file, line))
    return;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3((unsigned)threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = q->stream;
  spp_cuda_ok(q, cudaLaunchKernelEx(&config, kernel, P(args)...), name, file, line);
}
/* SPP_LAUNCH(queue, (kernel<...>), blocks, threads, shared bytes, arguments...) */
#define SPP_LAUNCH(q, kernel, ...) spp_launch(q, #kernel, __FILE__, __LINE__, kernel, __VA_ARGS__)

#endif
