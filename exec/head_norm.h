/* LayerNorm of each head of q or k by weights of its own (huggingface/transformers
 * models/cohere/modeling_cohere.py CohereLayerNorm of (heads, head_dim); models/stablelm
 * StableLmLayerNormPerHead). The weight of all heads is on every tensor-parallel rank; each uses its part. */
#ifndef SPP_EXEC_HEAD_NORM_H
#define SPP_EXEC_HEAD_NORM_H

#include "exec/layer_work.h"

/* x, y [tokens][heads][head_dim], of this rank; stats [2][tokens][heads]. */
void spp_head_norm_forward(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads, const void *x,
                           void *y, float *stats);
/* In place: dy becomes dx. */
void spp_head_norm_backward(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads, const void *x,
                            float *stats, void *dy);

#endif
