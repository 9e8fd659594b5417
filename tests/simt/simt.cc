#include "tests/simt/simt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <memory>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

/* Jumps between stacks: swapcontext() would ask the system every time, and the address sanitizer takes
 * longjmp() for one that leaves frames behind. */
#ifdef __x86_64__
typedef void *place[5];
#define REMEMBER(place) __builtin_setjmp(place)
#define JUMP(place)     __builtin_longjmp(place, 1)
#else
typedef jmp_buf place;
#define REMEMBER(place) _setjmp(place)
#define JUMP(place)     _longjmp(place, 1)
#endif
#define OWN_STACKS __attribute__((noinline, no_sanitize_address))

dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(128) unsigned char spp_shared_bytes[SIMT_SHARED_BYTES];

namespace simt {
namespace {

enum { STACK_BYTES = 256 << 10, MAX_THREADS = 1024, POISON = 0xff, GUARD_BYTES = 256 };

struct fiber {
  place here;
  ucontext_t first;
  bool started, finished;
  unsigned thread;
  std::unique_ptr<unsigned char[]> stack;
  void *fake_stack; /* of the address sanitizer */
};

struct warp {
  std::vector<unsigned> ready; /* threads that can go on */
  unsigned char slots[2][LANES * SLOT_BYTES];
  unsigned generation;
  int arrived;
  const char *what;
};

std::vector<fiber> fibers(MAX_THREADS);
std::vector<warp> warps(MAX_THREADS / LANES);
place scheduler;
void *scheduler_fake_stack;
const void *scheduler_stack;
size_t scheduler_stack_bytes;
unsigned current, threads, at_barrier;
int barrier_values[2];
unsigned barrier_generation;
void (*body)(void *);
void *body_context;
uint32_t random_state = 1;

/* Numerical Recipes; the high bits. */
unsigned below(unsigned n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (unsigned)(((uint64_t)random_state * n) >> 32);
}

/* To a fiber or, from one, to the scheduler. longjmp between stacks, because swapcontext asks the system
 * every time. */
OWN_STACKS void leave_to(place to, void **fake_stack, const void *stack, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#else
  (void)fake_stack, (void)stack, (void)bytes;
#endif
  JUMP(to);
}
void arrived(void *fake_stack, const void **from, size_t *bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
#else
  (void)fake_stack, (void)from, (void)bytes;
#endif
}

OWN_STACKS void to_scheduler() {
  fiber &f = fibers[current];
  if (REMEMBER(f.here) == 0) leave_to(scheduler, &f.fake_stack, scheduler_stack, scheduler_stack_bytes);
  arrived(fibers[current].fake_stack, nullptr, nullptr);
}

void fiber_main() {
  arrived(nullptr, &scheduler_stack, &scheduler_stack_bytes);
  for (;;) {
    body(body_context);
    fibers[current].finished = true;
    to_scheduler();
  }
}

OWN_STACKS void start(fiber &f) {
  f.started = true;
  if (!f.stack) f.stack.reset(new unsigned char[STACK_BYTES]);
  getcontext(&f.first);
  f.first.uc_stack.ss_sp = f.stack.get();
  f.first.uc_stack.ss_size = STACK_BYTES;
  makecontext(&f.first, fiber_main, 0);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&scheduler_fake_stack, f.stack.get(), STACK_BYTES);
#endif
  setcontext(&f.first);
}

OWN_STACKS void to_fiber(unsigned thread) {
  current = thread;
  threadIdx = dim3(thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y);
  fiber &f = fibers[thread];
  if (REMEMBER(scheduler) == 0) {
    if (!f.started) start(f);
    leave_to(f.here, &scheduler_fake_stack, f.stack.get(), STACK_BYTES);
  }
  arrived(scheduler_fake_stack, nullptr, nullptr);
}

void go_on(unsigned thread) {
  warps[thread / LANES].ready.push_back(thread);
}

/* A thread that can go on, taken from its list; MAX_THREADS: none can. In every other block, by chance, one
 * of the favourite warp as long as it has any, so that one warp gets far ahead of the others; else one of any
 * warp. */
unsigned pick(bool by_warps, unsigned *favourite) {
  unsigned count = threads / LANES;
  if (!by_warps || warps[*favourite].ready.empty()) {
    *favourite = below(count);
    for (unsigned tried = 0; warps[*favourite].ready.empty(); tried++) {
      if (tried == count) return MAX_THREADS;
      *favourite = (*favourite + 1) % count;
    }
  }
  std::vector<unsigned> &ready = warps[*favourite].ready;
  std::swap(ready[below((unsigned)ready.size())], ready.back());
  unsigned thread = ready.back();
  ready.pop_back();
  return thread;
}

void run_block(size_t shared_bytes) {
  memset(spp_shared_bytes, POISON, SIMT_SHARED_BYTES);
  for (unsigned t = 0; t < threads; t++) {
    fibers[t].finished = false;
    go_on(t);
  }
  unsigned finished = 0, favourite = 0;
  bool by_warps = below(2) == 1;
  at_barrier = 0;
  for (unsigned thread; (thread = pick(by_warps, &favourite)) < MAX_THREADS;) {
    to_fiber(thread);
    finished += fibers[thread].finished;
  }
  if (finished < threads)
    fail("%u threads ended, %u wait at the barrier of the block, others in their warps", finished,
         at_barrier);
  for (size_t i = shared_bytes; i < shared_bytes + GUARD_BYTES && i < SIMT_SHARED_BYTES; i++)
    if (spp_shared_bytes[i] != POISON) fail("shared memory was written at byte %zu of %zu", i, shared_bytes);
}

} // namespace

void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "simt: block %u, thread %u: ", blockIdx.x, current);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  abort();
}

void run(dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(void *), void *context) {
  gridDim = grid;
  blockDim = block;
  threads = block.x * block.y * block.z;
  if (threads % LANES != 0 || threads > MAX_THREADS) fail("%u threads a block", threads);
  body = kernel;
  body_context = context;
  std::vector<unsigned> order(grid.x);
  for (unsigned i = 0; i < grid.x; i++) { /* a shuffle from the inside out */
    unsigned other = below(i + 1);
    order[i] = order[other];
    order[other] = i;
  }
  for (unsigned i : order) {
    blockIdx = dim3(i);
    run_block(shared_bytes);
  }
}

int block_barrier(int value) {
  unsigned mine = barrier_generation & 1;
  if (at_barrier == 0) barrier_values[mine] = 0;
  barrier_values[mine] |= value;
  if (++at_barrier == threads) {
    at_barrier = 0;
    barrier_generation++;
    for (unsigned t = 0; t < threads; t++)
      go_on(t);
  }
  to_scheduler();
  return barrier_values[mine];
}

const unsigned char *collect(const char *what, const void *value, size_t bytes) {
  unsigned first = current / LANES * LANES;
  warp &w = warps[current / LANES];
  if (w.arrived == 0) w.what = what;
  if (strcmp(w.what, what) != 0) fail("%s where another lane is in %s", what, w.what);
  unsigned char *slots = w.slots[w.generation & 1];
  memcpy(slots + (current - first) * SLOT_BYTES, value, bytes);
  if (++w.arrived == LANES) {
    w.arrived = 0;
    w.generation++;
    for (unsigned t = first; t < first + LANES; t++)
      go_on(t);
  }
  to_scheduler();
  return slots;
}

} // namespace simt
