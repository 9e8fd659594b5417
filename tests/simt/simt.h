/* Runs CUDA kernels on the processor, for tests without a device: the threads of a block are fibers that
 * switch at barriers and collectives of warps and nowhere else, in an order drawn at random, so that a
 * barrier that is missing shows as a wrong result. Blocks run one after another, in random order too. A block
 * whose threads do not all come to the same barrier ends the program with a message. */
#ifndef SPP_TESTS_SIMT_H
#define SPP_TESTS_SIMT_H

#include <stddef.h>
#include <stdint.h>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* Of the fiber that runs. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

/* What `extern __shared__` names; full of NaNs when a block starts. */
enum { SIMT_SHARED_BYTES = 232448 };
extern "C" unsigned char spp_shared_bytes[SIMT_SHARED_BYTES];

namespace simt {

/* Calls body(context) as every thread of every block. */
void run(dim3 grid, dim3 block, size_t shared_bytes, void (*body)(void *), void *context);

/* All threads of the block come here; returns the or of their values. */
int block_barrier(int value);

/* All 32 lanes of the warp come here with a value of up to 64 bytes; returns those of lane 0, 64 bytes apart
 * those of the others, until the next call. `what` is the same in all lanes. */
const unsigned char *collect(const char *what, const void *value, size_t bytes);
enum { SLOT_BYTES = 64, LANES = 32 };

[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <class T> T from_lane(const char *what, T value, unsigned mask, int lane) {
  static_assert(sizeof(T) <= SLOT_BYTES, "too large for a lane");
  if (mask != 0xffffffffu) fail("%s with a part of the warp", what);
  T result;
  const unsigned char *slots = collect(what, &value, sizeof value);
  __builtin_memcpy(&result, slots + (lane & (LANES - 1)) * SLOT_BYTES, sizeof result);
  return result;
}

inline int lane() {
  return (int)(threadIdx.x % LANES);
}

} // namespace simt

#endif
