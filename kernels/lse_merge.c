#include "kernels/attention.h"

#include <math.h>

void spp_lse_merge(int64_t tokens, int64_t heads, int64_t head_dim, float *out, int64_t out_stride,
                   float *lse, int64_t lse_stride, const float *block_out, int64_t block_stride,
                   const float *block_lse, int64_t block_lse_stride) {
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t h = 0; h < heads; h++) {
      float *l = &lse[h * lse_stride + t], block_l = block_lse[h * block_lse_stride + t];
      if (block_l == -INFINITY) continue;
      float top = fmaxf(*l, block_l), low = fminf(*l, block_l);
      float merged = top + log1pf(expf(low - top));
      float keep = expf(*l - merged), add = expf(block_l - merged);
      float *o = out + t * out_stride + h * head_dim;
      const float *b = block_out + t * block_stride + h * head_dim;
      for (int64_t d = 0; d < head_dim; d++)
        o[d] = keep * o[d] + add * b[d];
      *l = merged;
    }
}
