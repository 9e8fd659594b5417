#include "kernels/cross_entropy.h"

#include <math.h>

void spp_cross_entropy_rescale(int64_t tokens, const float *local_max, const float *max, float *sum) {
  for (int64_t t = 0; t < tokens; t++)
    sum[t] *= expf(local_max[t] - max[t]);
}

double spp_cross_entropy_loss(int64_t tokens, const int32_t *targets, const float *max, const float *sum,
                              const float *target_logit, float *loss, int64_t *counted) {
  double total = 0.0;
  int64_t n = 0;
  for (int64_t t = 0; t < tokens; t++) {
    bool counts = targets[t] >= 0;
    double one = counts ? log((double)sum[t]) + (double)max[t] - (double)target_logit[t] : 0.0;
    loss[t] = (float)one;
    total += one;
    n += counts;
  }
  *counted = n;
  return total;
}
