#include "kernels/router.h"

#include <math.h>

static bool holds(const int32_t *taken, int64_t k, int64_t e) {
  for (int64_t i = 0; i < k; i++)
    if (taken[i] == e) return true;
  return false;
}

/* Position of the largest of p that `taken` (k chosen so far) does not hold; of the open groups only, each of
 * so many experts (0: all are one). */
static int32_t next_largest(const float *p, int64_t experts, const int32_t *taken, int64_t k,
                            const bool *open, int64_t group) {
  int32_t best = -1;
  for (int64_t e = 0; e < experts; e++) {
    if (group > 0 && !open[e / group]) continue;
    if (!holds(taken, k, e) && (best < 0 || p[e] > p[best])) best = (int32_t)e;
  }
  return best;
}

static float chosen_sum(const struct spp_router *a, int64_t t) {
  float sum = 0.0F;
  for (int64_t i = 0; i < a->top_k; i++)
    sum += a->probs[t * a->experts + a->chosen[t * a->top_k + i]];
  return sum;
}

void spp_router_choose(const float *probs, int64_t experts, int64_t top_k, int32_t *chosen) {
  for (int64_t i = 0; i < top_k; i++)
    chosen[i] = next_largest(probs, experts, chosen, i, NULL, 0);
}

/* Sum of the `best` largest of n. */
static float best_sum(const float *p, int64_t n, int64_t best) {
  int32_t taken[SPP_ROUTER_MAX_TOP_K];
  float sum = 0.0F;
  for (int64_t i = 0; i < best && i < n; i++) {
    taken[i] = next_largest(p, n, taken, i, NULL, 0);
    sum += p[taken[i]];
  }
  return sum;
}

void spp_router_choose_in_groups(const float *probs, int64_t experts, const struct spp_router_groups *g,
                                 int64_t top_k, int32_t *chosen) {
  float sums[SPP_ROUTER_MAX_GROUPS];
  bool open[SPP_ROUTER_MAX_GROUPS] = {false};
  int32_t order[SPP_ROUTER_MAX_GROUPS];
  int64_t each = experts / g->groups;
  for (int64_t i = 0; i < g->groups; i++)
    sums[i] = best_sum(probs + i * each, each, g->best);
  spp_router_choose(sums, g->groups, g->open, order);
  for (int64_t i = 0; i < g->open; i++)
    open[order[i]] = true;
  for (int64_t i = 0; i < top_k; i++)
    chosen[i] = next_largest(probs, experts, chosen, i, open, each);
}

void spp_router_probabilities(const struct spp_kernels *kernels, const struct spp_router *a) {
  if (!a->sigmoid) {
    kernels->ops->softmax(a->tokens, a->experts, a->logits, a->probs);
    return;
  }
  for (int64_t i = 0; i < a->tokens * a->experts; i++)
    a->probs[i] = 1.0F / (1.0F + expf(-a->logits[i]));
}

void spp_router_weights(const struct spp_router *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    const int32_t *chosen = a->chosen + t * a->top_k;
    float sum = a->normalise ? chosen_sum(a, t) : 1.0F;
    for (int64_t i = 0; i < a->top_k; i++)
      a->weights[t * a->top_k + i] = a->probs[t * a->experts + chosen[i]] / sum;
  }
}

void spp_router_forward(const struct spp_kernels *kernels, const struct spp_router *a) {
  spp_router_probabilities(kernels, a);
  for (int64_t t = 0; t < a->tokens; t++)
    spp_router_choose(a->probs + t * a->experts, a->experts, a->top_k, a->chosen + t * a->top_k);
  spp_router_weights(a);
}

/* With p the probabilities and w = p / s over the chosen (s = 1 when not normalised):
 * dp_i = (dw_i - sum_j dw_j w_j) / s when normalised, else dw_i; dlogit_e = p_e * (dp_e - sum_j dp_j p_j) for
 * a softmax, p_e * (1 - p_e) * dp_e for sigmoids. */
void spp_router_backward(const struct spp_router *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    const float *p = a->probs + t * a->experts, *dw = a->dweights + t * a->top_k;
    const int32_t *chosen = a->chosen + t * a->top_k;
    float *dl = a->dlogits + t * a->experts;
    float s = a->normalise ? chosen_sum(a, t) : 1.0F, pull = 0.0F, all = 0.0F;
    float dp[SPP_ROUTER_MAX_TOP_K];
    for (int64_t i = 0; a->normalise && i < a->top_k; i++)
      pull += dw[i] * p[chosen[i]] / s;
    for (int64_t i = 0; i < a->top_k; i++) {
      dp[i] = (dw[i] - pull) / s;
      all += dp[i] * p[chosen[i]];
    }
    for (int64_t e = 0; e < a->experts; e++)
      dl[e] = a->sigmoid ? 0.0F : -p[e] * all;
    for (int64_t i = 0; i < a->top_k; i++)
      dl[chosen[i]] += p[chosen[i]] * dp[i] * (a->sigmoid ? 1.0F - p[chosen[i]] : 1.0F);
  }
}
