/* Random jobs that are the same in every run: a test sets random_state first. */
#ifndef SPP_TESTS_PLANNER_RANDOM_H
#define SPP_TESTS_PLANNER_RANDOM_H

#include <stdint.h>

static uint64_t random_state;
static uint64_t next_random(void) { /* SplitMix64 */
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}
__attribute__((unused)) static int64_t pick(const int64_t *values, int count) {
  return values[next_random() % (uint64_t)count];
}

#endif
