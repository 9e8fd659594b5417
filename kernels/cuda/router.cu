/* The router of a mixture of experts (kernels/router.h): a warp a token. */
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.cuh"

static __global__ void sigmoids(int64_t n, const float *x, float *y) {
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += (int64_t)gridDim.x * blockDim.x)
    y[i] = 1.0F / (1.0F + expf(-x[i]));
}

void spp_cuda_router_probabilities(struct spp_queue *q, const struct spp_router *a) {
  int64_t n = a->tokens * a->experts;
  if (a->sigmoid)
    SPP_LAUNCH(q, sigmoids, spp_blocks(n, BLOCK), BLOCK, 0, n, a->logits, a->probs);
  else
    spp_cuda_softmax(q, a->tokens, a->experts, a->logits, a->probs);
}

/* A place in the order of the choice: by falling score, the lower index first. Scores that are no number come
 * last. */
struct place {
  float score;
  int32_t index; /* -1: none */
};
static __device__ __forceinline__ bool precedes(struct place a, struct place b) {
  if (b.index < 0) return a.index >= 0;
  return a.index >= 0 && (a.score > b.score || (a.score == b.score && a.index < b.index));
}
static __device__ __forceinline__ struct place place_of(float score, int64_t index) {
  struct place p = {score == score ? score : -INFINITY, (int32_t)index};
  return p;
}
/* Keeps the first of what comes behind `last` (index -1: of all). */
static __device__ __forceinline__ void consider(struct place *first, struct place candidate,
                                                struct place last) {
  if ((last.index < 0 || precedes(last, candidate)) && precedes(candidate, *first)) *first = candidate;
}
static __device__ __forceinline__ struct place first_of_warp(struct place mine) {
  for (int apart = WARP / 2; apart > 0; apart /= 2) {
    struct place other = {__shfl_xor_sync(ALL_LANES, mine.score, apart),
                          __shfl_xor_sync(ALL_LANES, mine.index, apart)};
    if (precedes(other, mine)) mine = other;
  }
  return mine;
}

/* Sum of the `best` largest of n, by one lane. */
static __device__ float best_sum(const float *p, int64_t n, int64_t best) {
  struct place last = {0.0F, -1};
  float sum = 0.0F;
  for (int64_t i = 0; i < best && i < n; i++) {
    struct place next = {0.0F, -1};
    for (int64_t e = 0; e < n; e++)
      consider(&next, place_of(p[e], e), last);
    sum += p[next.index];
    last = next;
  }
  return sum;
}

/* Bit g: group g is open. */
static __device__ uint64_t open_groups(const float *p, int64_t experts, struct spp_router_groups g) {
  const int lane = threadIdx.x % WARP;
  int64_t each = experts / g.groups;
  float sums[SPP_ROUTER_MAX_GROUPS / WARP] = {};
  for (int i = 0; i < SPP_ROUTER_MAX_GROUPS / WARP; i++)
    if (lane + i * WARP < g.groups) sums[i] = best_sum(p + (lane + i * WARP) * each, each, g.best);
  uint64_t open = 0;
  struct place last = {0.0F, -1};
  for (int64_t k = 0; k < g.open; k++) {
    struct place next = {0.0F, -1};
    for (int i = 0; i < SPP_ROUTER_MAX_GROUPS / WARP; i++)
      if (lane + i * WARP < g.groups) consider(&next, place_of(sums[i], lane + i * WARP), last);
    last = first_of_warp(next);
    open |= (uint64_t)1 << last.index;
  }
  return open;
}

/* groups.groups 0: any expert. */
static __global__ void choose(struct spp_router a, const float *scores, struct spp_router_groups groups) {
  const int lane = threadIdx.x % WARP;
  int64_t warps = blockDim.x / WARP, each = groups.groups > 0 ? a.experts / groups.groups : a.experts;
  for (int64_t t = blockIdx.x * warps + threadIdx.x / WARP; t < a.tokens; t += gridDim.x * warps) {
    const float *p = scores + t * a.experts;
    uint64_t open = groups.groups > 0 ? open_groups(p, a.experts, groups) : 1;
    struct place last = {0.0F, -1};
    for (int64_t k = 0; k < a.top_k; k++) {
      struct place next = {0.0F, -1};
      for (int64_t e = lane; e < a.experts; e += WARP)
        if (open >> e / each & 1) consider(&next, place_of(p[e], e), last);
      last = first_of_warp(next);
      if (lane == 0) a.chosen[t * a.top_k + k] = last.index;
    }
  }
}

void spp_cuda_router_choose(struct spp_queue *q, const struct spp_router *a, const float *scores,
                            const struct spp_router_groups *groups) {
  struct spp_router_groups any = {0, 0, 0};
  SPP_LAUNCH(q, choose, spp_blocks(a->tokens, BLOCK / WARP), BLOCK, 0, *a, scores, groups ? *groups : any);
}

static __device__ float chosen_sum(struct spp_router a, int64_t t) {
  float sum = 0.0F;
  for (int64_t i = 0; i < a.top_k; i++)
    sum += a.probs[t * a.experts + a.chosen[t * a.top_k + i]];
  return sum;
}

static __global__ void weigh(struct spp_router a) {
  for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < a.tokens;
       t += (int64_t)gridDim.x * blockDim.x) {
    float sum = a.normalise ? chosen_sum(a, t) : 1.0F;
    for (int64_t i = t * a.top_k; i < (t + 1) * a.top_k; i++)
      a.weights[i] = a.probs[t * a.experts + a.chosen[i]] / sum;
  }
}

void spp_cuda_router_weights(struct spp_queue *q, const struct spp_router *a) {
  SPP_LAUNCH(q, weigh, spp_blocks(a->tokens, BLOCK), BLOCK, 0, *a);
}

/* The formulas of kernels/router.c spp_router_backward. Every lane works out the sums over the few that were
 * chosen. */
static __global__ void router_grad(struct spp_router a) {
  const int lane = threadIdx.x % WARP;
  int64_t warps = blockDim.x / WARP;
  for (int64_t t = blockIdx.x * warps + threadIdx.x / WARP; t < a.tokens; t += gridDim.x * warps) {
    const float *p = a.probs + t * a.experts, *dw = a.dweights + t * a.top_k;
    const int32_t *chosen = a.chosen + t * a.top_k;
    float s = a.normalise ? chosen_sum(a, t) : 1.0F, pull = 0.0F, all = 0.0F;
    for (int64_t i = 0; a.normalise && i < a.top_k; i++)
      pull += dw[i] * p[chosen[i]] / s;
    for (int64_t i = 0; i < a.top_k; i++)
      all += (dw[i] - pull) / s * p[chosen[i]];
    for (int64_t e = lane; e < a.experts; e += WARP) {
      float d = a.sigmoid ? 0.0F : -p[e] * all;
      for (int64_t i = 0; i < a.top_k; i++)
        if (chosen[i] == e) d += p[e] * ((dw[i] - pull) / s) * (a.sigmoid ? 1.0F - p[e] : 1.0F);
      a.dlogits[t * a.experts + e] = d;
    }
  }
}

void spp_cuda_router_backward(struct spp_queue *q, const struct spp_router *a) {
  SPP_LAUNCH(q, router_grad, spp_blocks(a->tokens, BLOCK / WARP), BLOCK, 0, *a);
}
