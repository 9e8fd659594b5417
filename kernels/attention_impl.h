/* The two implementations behind attention.h, whose arguments have been checked. Internal to kernels/. */
#ifndef SPP_KERNELS_ATTENTION_IMPL_H
#define SPP_KERNELS_ATTENTION_IMPL_H

#include "kernels/attention.h"
#include "kernels/tile.h"

/* The rule of attention.h that the arguments break; NULL: none. Reads nothing but the mask behind its
 * addresses. */
const char *spp_attn_forward_fault(const struct spp_attn_forward *a);
const char *spp_attn_backward_fault(const struct spp_attn_backward *a);

/* Plain loops in double precision: the judge of everything else. */
void spp_attn_ref_forward(const struct spp_attn_forward *a);
void spp_attn_ref_backward(const struct spp_attn_backward *a);

/* Blocked, online softmax, scores recomputed in the backward. */
int64_t spp_attn_flash_forward_bytes(const struct spp_tile_ops *ops, const struct spp_attn_forward *a);
void spp_attn_flash_forward(const struct spp_tile_ops *ops, const struct spp_attn_forward *a,
                            void *workspace);
int64_t spp_attn_flash_backward_bytes(const struct spp_tile_ops *ops, const struct spp_attn_backward *a);
void spp_attn_flash_backward(const struct spp_tile_ops *ops, const struct spp_attn_backward *a,
                             void *workspace);

#endif
