/* Softmax top-k router of a mixture of experts: probabilities over all experts, the k largest chosen, their
 * weights optionally made to sum to 1. huggingface/transformers modeling_qwen3_moe.py Qwen3MoeSparseMoeBlock.
 */
#ifndef SPP_KERNELS_ROUTER_H
#define SPP_KERNELS_ROUTER_H

#include "kernels/table.h"

#include <stdbool.h>
#include <stdint.h>

#define SPP_ROUTER_MAX_TOP_K  64
#define SPP_ROUTER_MAX_GROUPS 64

struct spp_router {
  int64_t tokens, experts, top_k; /* 1 <= top_k <= experts, at most SPP_ROUTER_MAX_TOP_K */
  bool normalise;                 /* norm_topk_prob */
  bool sigmoid;                   /* probabilities of each expert by itself (DeepSeek-V3), not a softmax */
  const float *logits;            /* [tokens][experts] */
  float *probs;                   /* [tokens][experts]; kept for the backward */
  int32_t *chosen;       /* [tokens][top_k], by falling probability, the lower expert first on ties */
  float *weights;        /* [tokens][top_k] */
  const float *dweights; /* backward: [tokens][top_k] */
  float *dlogits;        /* backward: [tokens][experts] */
};

void spp_router_forward(const struct spp_kernels *kernels, const struct spp_router *a);

/* The k largest of one token's probabilities, the lower expert first on ties. */
void spp_router_choose(const float *probs, int64_t experts, int64_t top_k, int32_t *chosen);
/* The same from the `open` of `groups` equal runs of experts whose `best` largest probabilities have the
 * largest sums, the lower group first on ties. groups at most SPP_ROUTER_MAX_GROUPS. */
struct spp_router_groups {
  int64_t groups, open, best;
};
void spp_router_choose_in_groups(const float *probs, int64_t experts, const struct spp_router_groups *groups,
                                 int64_t top_k, int32_t *chosen);
/* Probabilities of all experts from their logits. */
void spp_router_probabilities(const struct spp_kernels *kernels, const struct spp_router *a);
/* weights from probs and chosen. */
void spp_router_weights(const struct spp_router *a);

/* From probs, chosen and dweights. */
void spp_router_backward(const struct spp_router *a);

#endif
