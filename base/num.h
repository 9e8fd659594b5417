/* Integer arithmetic on counts. Counts are int64_t and, unless a function says otherwise, non-negative; sums
 * and products saturate instead of overflowing, so that an absurd job is "too big", never undefined. */
#ifndef SPP_BASE_NUM_H
#define SPP_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t spp_min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t spp_max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* a + b, held at INT64_MAX or INT64_MIN. */
static inline int64_t spp_sat_add(int64_t a, int64_t b) {
  if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
  if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
  return a + b;
}

/* a * b, held at INT64_MAX or INT64_MIN. */
static inline int64_t spp_sat_mul(int64_t a, int64_t b) {
#if defined(__GNUC__)
  int64_t product;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
#else
  if (a == 0 || b == 0) return 0;
  if ((a < 0) == (b < 0)) {
    if (a > 0 ? a > INT64_MAX / b : b < INT64_MAX / a) return INT64_MAX;
  } else if (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b) {
    return INT64_MIN;
  }
  return a * b;
#endif
}

/* Smallest whole number of b-sized pieces that holds a. a >= 0, b > 0. */
static inline int64_t spp_ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

/* Smallest multiple of b that is at least a, held at INT64_MAX. a >= 0, b > 0. */
static inline int64_t spp_round_up(int64_t a, int64_t b) {
  return spp_sat_mul(spp_ceil_div(a, b), b);
}

/* Greatest common divisor; gcd(a, 0) = a. Non-negative. */
static inline int64_t spp_gcd(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Least common multiple, held at INT64_MAX; 0 when either is 0. Non-negative. */
static inline int64_t spp_lcm_sat(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return spp_sat_mul(a / spp_gcd(a, b), b);
}

static inline bool spp_is_pow2(int64_t a) {
  return a > 0 && (a & (a - 1)) == 0;
}

/* Smallest power of two that is at least a (1 for a <= 1); INT64_MAX beyond 2^62. */
static inline int64_t spp_next_pow2(int64_t a) {
  int64_t power = 1;
  while (power < a) {
    if (power > INT64_MAX / 2) return INT64_MAX;
    power *= 2;
  }
  return power;
}

#endif
