/* Clocks and order of measured figures, for the programs of this folder. */
#ifndef SPP_TESTS_BENCH_H
#define SPP_TESTS_BENCH_H

#include <time.h>

static inline double clock_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static inline double now_s(void) {
  return clock_s(CLOCK_MONOTONIC);
}

/* For qsort over doubles. */
static inline int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#endif
