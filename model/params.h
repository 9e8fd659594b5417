/* Parameter counts: sums over the weight rows of an arch. Source: model definitions of
 * huggingface/transformers. */
#ifndef SPP_MODEL_PARAMS_H
#define SPP_MODEL_PARAMS_H

#include "model/arch.h"

struct spp_params {
  int64_t total;          /* every trainable element of the HF module, tied head once, MTP modules apart */
  int64_t active;         /* total minus the experts a token does not visit */
  int64_t gemm_per_token; /* elements of matrices a text token is multiplied by: no embedding lookup, norms,
                             biases, vision; the head counted even when tied */
  int64_t text, vision, embedding, head, mtp;
  int64_t per_layer_attention, per_layer_norms, per_dense_mlp, per_expert, per_moe_mlp, per_moe_mlp_active;
  int64_t per_layer[SPP_MAX_LAYER_KINDS];
};

/* Elements of one weight on one rank: rows or cols divided by tp (ceil), copies by ep for experts (and by etp
 * inside). */
int64_t spp_weight_elements(const struct spp_weight *weight, int64_t tp, int64_t ep, int64_t etp);
void spp_params_count(const struct spp_arch *arch, struct spp_params *params);

#endif
