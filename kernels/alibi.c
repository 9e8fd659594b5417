#include "kernels/attention.h"

#include <math.h>

double spp_alibi_slope(int64_t heads, int64_t head) {
  int64_t whole = 1; /* largest power of two of heads */
  while (2 * whole <= heads)
    whole *= 2;
  if (head < whole) return exp2(-8.0 * (double)(head + 1) / (double)whole);
  return exp2(-8.0 * (double)(2 * (head - whole) + 1) / (double)(2 * whole));
}
