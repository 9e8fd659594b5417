#include "kernels/ops.h"

#include <math.h>

void spp_rope_table(int64_t tokens, int64_t head_dim, const int64_t *positions, double base, float *cosine,
                    float *sine) {
  int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; i++)
    spp_rope_column(tokens, half, i, positions, pow(base, -2.0 * (double)i / (double)head_dim), cosine, sine);
}

void spp_rope_column(int64_t tokens, int64_t half, int64_t i, const int64_t *positions, double frequency,
                     float *cosine, float *sine) {
  for (int64_t t = 0; t < tokens; t++) {
    double angle = (double)positions[t] * frequency;
    cosine[t * half + i] = (float)cos(angle);
    sine[t * half + i] = (float)sin(angle);
  }
}
