#include "base/stats.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void spp_sort_reals(double *values, int64_t count) {
  if (count > 1) qsort(values, (size_t)count, sizeof *values, by_size);
}

double spp_quantile(const double *sorted, int64_t count, double q) {
  double at = q * (double)(count - 1);
  int64_t i = (int64_t)at;
  return i + 1 < count ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}
