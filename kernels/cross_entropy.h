/* Cross-entropy put together from the pieces of ops.h: on one rank, over chunks of tokens, or over ranks that
 * hold parts of the vocabulary. */
#ifndef SPP_KERNELS_CROSS_ENTROPY_H
#define SPP_KERNELS_CROSS_ENTROPY_H

#include "kernels/ops.h"

/* Vocab-parallel, between `local` and the loss: ranks first agree on the maximum (all-reduce max of `max`),
 * then each rescales its sum to it, then sums and target logits are all-reduced by addition. As
 * NVIDIA/Megatron-LM core/tensor_parallel/cross_entropy.py. sum[t] *= exp(local_max[t] - max[t]). */
void spp_cross_entropy_rescale(int64_t tokens, const float *local_max, const float *max, float *sum);

/* loss[t] = ln sum + max - target_logit, 0 when the target is below 0. Returns their sum in double; *counted:
 * how many targets were not ignored. */
double spp_cross_entropy_loss(int64_t tokens, const int32_t *targets, const float *max, const float *sum,
                              const float *target_logit, float *loss, int64_t *counted);

#endif
