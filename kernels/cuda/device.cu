/* The row "cuda": devices, queues, memory. */
#include "kernels/cuda/ops.cuh"
#include "kernels/cuda/queue.cuh"

#include <cstdio>
#include <cstdlib>

/* "cudaMalloc(...): out of memory (cudaErrorMemoryAllocation): device.cu:57" */
static void say(struct spp_diag *diag, enum spp_status status, cudaError_t error, const char *what,
                const char *file, int line) {
  const char *slash = strrchr(file, '/');
  char where[96];
  snprintf(where, sizeof where, "%s:%d", slash ? slash + 1 : file, line);
  spp_diag_set(diag, status, where, NULL, "%s: %s (%s)", what, cudaGetErrorString(error),
               cudaGetErrorName(error));
}

bool spp_cuda_said(struct spp_diag *diag, cudaError_t error, const char *what, const char *file, int line) {
  if (error == cudaSuccess) return true;
  say(diag, error == cudaErrorMemoryAllocation ? SPP_ERR_INTERNAL : SPP_ERR_ABSENT, error, what, file, line);
  cudaGetLastError(); /* the next call does not tell it again */
  return false;
}

bool spp_cuda_ok(struct spp_queue *q, cudaError_t error, const char *what, const char *file, int line) {
  if (error != cudaSuccess) {
    if (!q->failed) say(&q->fault, SPP_ERR_INTERNAL, error, what, file, line);
    q->failed = true;
    cudaGetLastError();
  }
  return !q->failed;
}

enum spp_status spp_queue_status(const struct spp_queue *q, struct spp_diag *diag) {
  if (!q->failed) return SPP_OK;
  if (diag) *diag = q->fault;
  return q->fault.status;
}

static int count(struct spp_diag *why) {
  int devices = 0;
  if (!SPP_CUDA_SAID(why, cudaGetDeviceCount(&devices))) return 0;
  if (devices == 0) spp_diag_set(why, SPP_ERR_ABSENT, "cuda", NULL, "the driver lists no device");
  return devices;
}

static enum spp_status describe(int ordinal, char *text, size_t size, struct spp_diag *diag) {
  cudaDeviceProp prop;
  int driver, runtime;
  if (!SPP_CUDA_SAID(diag, cudaGetDeviceProperties(&prop, ordinal)) ||
      !SPP_CUDA_SAID(diag, cudaDriverGetVersion(&driver)) ||
      !SPP_CUDA_SAID(diag, cudaRuntimeGetVersion(&runtime)))
    return SPP_ERR_ABSENT;
  snprintf(text, size, "%s, compute capability %d.%d, %d multiprocessors, CUDA driver %d.%d, runtime %d.%d",
           prop.name, prop.major, prop.minor, prop.multiProcessorCount, driver / 1000, driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10);
  return SPP_OK;
}

static void close(struct spp_queue *q) {
  if (!q) return;
  cudaSetDevice(q->ordinal);
  if (q->stream) cudaStreamSynchronize(q->stream);
  spp_cuda_blas_close(q);
  cudaFree(q->scratch);
  for (int i = 0; i < 2; i++)
    if (q->marks[i]) cudaEventDestroy(q->marks[i]);
  if (q->stream) cudaStreamDestroy(q->stream);
  cudaGetLastError(); /* a queue that failed leaves nothing behind */
  free(q);
}

static enum spp_status open(int ordinal, struct spp_queue **queue, struct spp_diag *diag) {
  struct spp_queue *q = (struct spp_queue *)calloc(1, sizeof *q);
  if (!q) return spp_diag_oom(diag);
  q->ordinal = ordinal;
  if (SPP_CUDA_SAID(diag, cudaSetDevice(ordinal)) &&
      SPP_CUDA_SAID(diag, cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking)) &&
      SPP_CUDA_SAID(diag, cudaEventCreate(&q->marks[0])) &&
      SPP_CUDA_SAID(diag, cudaEventCreate(&q->marks[1])) &&
      SPP_CUDA_SAID(diag, cudaMalloc(&q->scratch, SPP_SCRATCH_BYTES))) {
    *queue = q;
    return SPP_OK;
  }
  close(q);
  return SPP_ERR_ABSENT;
}

static void *handle(struct spp_queue *q) {
  return q->stream;
}

static enum spp_status allocate(struct spp_queue *q, int64_t bytes, void **memory, struct spp_diag *diag) {
  void *fresh = NULL;
  if (bytes < 0) return spp_diag_set(diag, SPP_ERR_INTERNAL, "cuda", NULL, "a negative size");
  if (!SPP_CUDA_SAID(diag, cudaSetDevice(q->ordinal)) ||
      !SPP_CUDA_SAID(diag, cudaMalloc(&fresh, bytes > 0 ? (size_t)bytes : 1)))
    return SPP_ERR_INTERNAL;
  *memory = fresh;
  return SPP_OK;
}

static void release(struct spp_queue *q, void *memory) {
  SPP_CUDA_OK(q, cudaStreamSynchronize(q->stream));
  SPP_CUDA_OK(q, cudaFree(memory));
}

static void move(struct spp_queue *q, void *to, const void *from, int64_t bytes, cudaMemcpyKind kind) {
  if (bytes > 0 && spp_queue_ready(q))
    SPP_CUDA_OK(q, cudaMemcpyAsync(to, from, (size_t)bytes, kind, q->stream));
}
static void upload(struct spp_queue *q, void *memory, const void *host, int64_t bytes) {
  move(q, memory, host, bytes, cudaMemcpyHostToDevice);
}
static void download(struct spp_queue *q, void *host, const void *memory, int64_t bytes) {
  move(q, host, memory, bytes, cudaMemcpyDeviceToHost);
}
static void copy(struct spp_queue *q, void *to, const void *from, int64_t bytes) {
  move(q, to, from, bytes, cudaMemcpyDeviceToDevice);
}
static void copy_rows(struct spp_queue *q, int64_t rows, int64_t bytes, void *to, int64_t to_stride,
                      const void *from, int64_t from_stride) {
  if (rows > 0 && bytes > 0 && spp_queue_ready(q))
    SPP_CUDA_OK(q, cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, (size_t)bytes,
                                     (size_t)rows, cudaMemcpyDeviceToDevice, q->stream));
}
static void clear(struct spp_queue *q, void *memory, int64_t bytes) {
  if (bytes > 0 && spp_queue_ready(q)) SPP_CUDA_OK(q, cudaMemsetAsync(memory, 0, (size_t)bytes, q->stream));
}

static bool is_done(struct spp_queue *q) {
  cudaError_t error = cudaStreamQuery(q->stream);
  if (error == cudaErrorNotReady) {
    cudaGetLastError(); /* no fault */
    return false;
  }
  SPP_CUDA_OK(q, error);
  return true;
}

static enum spp_status wait(struct spp_queue *q, struct spp_diag *diag) {
  SPP_CUDA_OK(q, cudaStreamSynchronize(q->stream));
  return spp_queue_status(q, diag);
}

static void mark(struct spp_queue *q, int which) {
  if (spp_queue_ready(q)) SPP_CUDA_OK(q, cudaEventRecord(q->marks[which], q->stream));
}
static double between_s(struct spp_queue *q) {
  float ms = 0.0F;
  if (!q->failed) SPP_CUDA_OK(q, cudaEventElapsedTime(&ms, q->marks[0], q->marks[1]));
  return 1e-3 * (double)ms;
}

extern "C" {
const struct spp_device spp_device_cuda = {
    "cuda",    "NVIDIA GPUs from the A100 on: checked by emulation alone",
    NULL,      count,
    describe,  open,
    close,     handle,
    allocate,  release,
    upload,    download,
    copy,      copy_rows,
    clear,     is_done,
    wait,      mark,
    between_s, &spp_cuda_ops};
}
