/* The host side of the CUDA runtime as far as kernels/cuda calls it. */
#include "tests/simt/cuda_runtime.h"

#include <stdlib.h>
#include <time.h>

#include <deque>
#include <map>
#include <mutex>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#endif

struct simt_stream {
  std::deque<std::function<bool()>> work;
};
struct simt_event {
  double seconds;
};

namespace {

enum {
  DEVICES = 8,
  GUARD_BYTES = 256,
  GUARD = 0xa7,
  MOST_SHARED_BYTES = 166912, /* of compute capability 8.0 */
  SHARED_BYTES_UNASKED = 49152
};
const size_t DEVICE_BYTES = (size_t)1 << 36;

/* Threads have a queue each; all devices are one, which does one thing at a time. */
std::mutex device;
typedef std::lock_guard<std::mutex> alone;

std::map<unsigned char *, size_t> allocations;
std::map<const void *, int> allowed;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  return last_error = error;
}

/* The bytes lie in one allocation. */
void must_be_device(const void *memory, size_t bytes, const char *what) {
  alone here(device);
  unsigned char *at = (unsigned char *)memory;
  auto next = allocations.upper_bound(at);
  if (next != allocations.begin()) {
    auto a = std::prev(next);
    if (at + bytes <= a->first + a->second) return;
  }
  if (bytes > 0) simt::fail("%s of %zu bytes of memory that is not of the device", what, bytes);
}

/* Before and behind an allocation, where the address sanitizer also stops who reads. */
void set_guards(unsigned char *memory, size_t bytes) {
  memset(memory - GUARD_BYTES, GUARD, GUARD_BYTES);
  memset(memory + bytes, GUARD, GUARD_BYTES);
  ASAN_POISON_MEMORY_REGION(memory - GUARD_BYTES, GUARD_BYTES);
  ASAN_POISON_MEMORY_REGION(memory + bytes, GUARD_BYTES);
}
void check_guards(unsigned char *memory, size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(memory - GUARD_BYTES, GUARD_BYTES);
  ASAN_UNPOISON_MEMORY_REGION(memory + bytes, GUARD_BYTES);
  for (int i = 1; i <= GUARD_BYTES; i++)
    if (memory[-i] != GUARD || memory[bytes + (size_t)i - 1] != GUARD)
      simt::fail("written outside an allocation of %zu bytes, %d bytes %s", bytes, i,
                 memory[-i] != GUARD ? "before it" : "behind it");
}

} // namespace

namespace simt {

void put_off_until(cudaStream_t stream, std::function<bool()> work) {
  stream->work.push_back(std::move(work));
}

void put_off(cudaStream_t stream, std::function<void()> work) {
  put_off_until(stream, [=]() {
    work();
    return true;
  });
}

void allow_shared(const void *kernel, int bytes) {
  alone here(device);
  allowed[kernel] = bytes;
}

cudaError_t check_launch(const cudaLaunchConfig_t *c, const void *kernel) {
  alone here(device);
  size_t threads = (size_t)c->blockDim.x * c->blockDim.y * c->blockDim.z;
  auto found = allowed.find(kernel);
  size_t most = found == allowed.end() ? (size_t)SHARED_BYTES_UNASKED : (size_t)found->second;
  if (threads == 0 || threads > 1024 || c->gridDim.x == 0 || c->gridDim.x > 0x7fffffffu ||
      c->gridDim.y != 1 || c->gridDim.z != 1 || c->dynamicSmemBytes > most ||
      c->dynamicSmemBytes > MOST_SHARED_BYTES)
    return failed(cudaErrorInvalidValue);
  return cudaSuccess;
}

} // namespace simt

const char *cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}
const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "no error";
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorInvalidDevice: return "invalid device ordinal";
  default: return "invalid argument";
  }
}
cudaError_t cudaGetLastError() {
  cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaGetDeviceCount(int *count) {
  *count = DEVICES;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < DEVICES ? cudaSuccess : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int) {
  strcpy(prop->name, "SIMT emulator");
  prop->multiProcessorCount = 1;
  prop->major = 8;
  prop->minor = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  *stream = new simt_stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
/* The device gets on whenever it is asked how far it is. */
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  alone here(device);
  for (; !stream->work.empty(); stream->work.pop_front())
    if (!stream->work.front()()) return cudaErrorNotReady;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  while (cudaStreamQuery(stream) == cudaErrorNotReady)
    continue;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
  if (bytes > DEVICE_BYTES) return failed(cudaErrorMemoryAllocation);
  unsigned char *base = (unsigned char *)aligned_alloc(256, (bytes + 2 * GUARD_BYTES + 255) / 256 * 256);
  if (!base) return failed(cudaErrorMemoryAllocation);
  memset(base + GUARD_BYTES, 0xff, bytes);
  set_guards(base + GUARD_BYTES, bytes);
  alone here(device);
  allocations[base + GUARD_BYTES] = bytes;
  *memory = base + GUARD_BYTES;
  return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
  if (!memory) return cudaSuccess;
  alone here(device);
  auto found = allocations.find((unsigned char *)memory);
  if (found == allocations.end()) return failed(cudaErrorInvalidValue);
  check_guards(found->first, found->second);
  free(found->first - GUARD_BYTES);
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind != cudaMemcpyHostToDevice) must_be_device(from, bytes, "a copy");
  if (kind != cudaMemcpyDeviceToHost) must_be_device(to, bytes, "a copy");
  if (kind == cudaMemcpyHostToDevice) { /* pageable memory has been read when the call returns */
    std::vector<unsigned char> staged((const unsigned char *)from, (const unsigned char *)from + bytes);
    simt::put_off(stream, [=]() { memcpy(to, staged.data(), bytes); });
  } else {
    simt::put_off(stream, [=]() { memcpy(to, from, bytes); });
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (to_stride < bytes || from_stride < bytes || kind != cudaMemcpyDeviceToDevice)
    return failed(cudaErrorInvalidValue);
  must_be_device(from, (rows - 1) * from_stride + bytes, "a copy of rows");
  must_be_device(to, (rows - 1) * to_stride + bytes, "a copy of rows");
  simt::put_off(stream, [=]() {
    for (size_t r = 0; r < rows; r++)
      memcpy((char *)to + r * to_stride, (const char *)from + r * from_stride, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  must_be_device(memory, bytes, "clearing");
  simt::put_off(stream, [=]() { memset(memory, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = new simt_event{0.0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  simt::put_off(stream, [=]() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    event->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = (float)((to->seconds - from->seconds) * 1e3);
  return cudaSuccess;
}
