/* Order statistics of a few figures. */
#ifndef SPP_BASE_STATS_H
#define SPP_BASE_STATS_H

#include <stdint.h>

/* Smallest first. No value is NaN. */
void spp_sort_reals(double *values, int64_t count);
/* The share q, 0 to 1, of count > 0 sorted values lies below it: linear between neighbours, as numpy's
 * default. 0.5 is the median. */
double spp_quantile(const double *sorted, int64_t count, double q);

#endif
