/* RMSNorm over the whole of a projection whose heads are cut over tensor-parallel ranks (OLMo 2's q and k):
 * the sum of squares of a token, one float, is summed over the ranks, and backward the projection of the
 * gradient. The weight is whole on every rank; each uses its part. vllm-project/vllm 0.11
 * model_executor/layers/mamba/linear_attn.py MiniMaxText01RMSNormTP does the same forward (recalled). */
#ifndef SPP_EXEC_WIDE_NORM_H
#define SPP_EXEC_WIDE_NORM_H

#include "exec/layer_work.h"

/* x, y [tokens][width], this rank's part; rstd [tokens]. */
enum spp_status spp_wide_norm_forward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                      const void *x, void *y, float *rstd);
/* In place: dy becomes dx. */
enum spp_status spp_wide_norm_backward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                       const void *x, const float *rstd, void *dy);

#endif
