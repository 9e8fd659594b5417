/* What stands between blocks of attention: delta, gradients of sinks, merging by log-sum-exp. */
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.cuh"

/* A warp for each (token, head): lane, and the first and the step of `which`. */
struct warp_walk {
  int lane;
  int64_t first, step;
};
static __device__ __forceinline__ struct warp_walk walk_of_warp() {
  int64_t warps = blockDim.x / WARP;
  struct warp_walk w = {(int)(threadIdx.x % WARP), blockIdx.x * warps + threadIdx.x / WARP,
                        gridDim.x * warps};
  return w;
}

template <class A, class B>
__global__ void deltas(int64_t tokens, int64_t heads, int64_t dim, struct spp_rows dout, struct spp_rows out,
                       struct spp_row_stats delta) {
  struct warp_walk w = walk_of_warp();
  for (int64_t which = w.first; which < tokens * heads; which += w.step) {
    int64_t t = which / heads, h = which % heads;
    const A *a = (const A *)dout.data + t * dout.row_stride + h * dim;
    const B *b = (const B *)out.data + t * out.row_stride + h * dim;
    float sum = 0.0F;
    for (int64_t d = w.lane; d < dim; d += WARP)
      sum = fmaf(load(a, d), load(b, d), sum);
    sum = over_lanes<add_up>(sum);
    if (w.lane == 0) delta.data[h * delta.head_stride + t] = sum;
  }
}

void spp_cuda_attn_delta(struct spp_queue *q, const struct spp_attn_shape *s, struct spp_rows dout,
                         struct spp_rows out, struct spp_row_stats delta) {
  with_storage(dout.storage, [&](auto ta) {
    with_storage(out.storage, [&](auto tb) {
      SPP_LAUNCH(q, (deltas<decltype(ta), decltype(tb)>), spp_blocks(s->q_tokens * s->q_heads, BLOCK / WARP),
                 BLOCK, 0, s->q_tokens, s->q_heads, spp_attn_v_dim(s), dout, out, delta);
    });
  });
}

static __global__ void sink_grads(int64_t tokens, int64_t heads, const float *sinks, struct spp_row_stats lse,
                                  struct spp_row_stats delta, float *dsinks) {
  double *room = shared_memory<double>();
  for (int64_t h = blockIdx.x; h < heads; h += gridDim.x) {
    double sum = 0.0;
    for (int64_t t = threadIdx.x; t < tokens; t += blockDim.x)
      sum -= (double)expf(sinks[h] - lse.data[h * lse.head_stride + t]) *
             (double)delta.data[h * delta.head_stride + t];
    sum = over_block<add_up>(sum, room);
    if (threadIdx.x == 0) dsinks[h] += (float)sum;
  }
}

void spp_cuda_attn_sink_grad(struct spp_queue *q, const struct spp_attn_shape *s, const float *sinks,
                             struct spp_row_stats lse, struct spp_row_stats delta, float *dsinks) {
  SPP_LAUNCH(q, sink_grads, spp_blocks(s->q_heads, 1), BLOCK, BLOCK / WARP * sizeof(double), s->q_tokens,
             s->q_heads, sinks, lse, delta, dsinks);
}

struct merging {
  int64_t tokens, heads, dim;
  float *out;
  int64_t out_stride;
  float *lse;
  int64_t lse_stride;
  const float *block_out;
  int64_t block_stride;
  const float *block_lse;
  int64_t block_lse_stride;
};

static __global__ void merge(struct merging m) {
  struct warp_walk w = walk_of_warp();
  for (int64_t which = w.first; which < m.tokens * m.heads; which += w.step) {
    int64_t t = which / m.heads, h = which % m.heads;
    float *l = &m.lse[h * m.lse_stride + t], own = *l, block = m.block_lse[h * m.block_lse_stride + t];
    __syncwarp(); /* every lane has read what lane 0 writes */
    if (block == -INFINITY) continue;
    float merged = fmaxf(own, block) + log1pf(expf(fminf(own, block) - fmaxf(own, block)));
    float keep = expf(own - merged), add = expf(block - merged);
    float *o = m.out + t * m.out_stride + h * m.dim;
    const float *b = m.block_out + t * m.block_stride + h * m.dim;
    for (int64_t d = w.lane; d < m.dim; d += WARP)
      o[d] = keep * o[d] + add * b[d];
    if (w.lane == 0) *l = merged;
  }
}

void spp_cuda_lse_merge(struct spp_queue *q, int64_t tokens, int64_t heads, int64_t head_dim, float *out,
                        int64_t out_stride, float *lse, int64_t lse_stride, const float *block_out,
                        int64_t block_stride, const float *block_lse, int64_t block_lse_stride) {
  struct merging m = {tokens,     heads,     head_dim,     out,       out_stride,      lse,
                      lse_stride, block_out, block_stride, block_lse, block_lse_stride};
  SPP_LAUNCH(q, merge, spp_blocks(tokens * heads, BLOCK / WARP), BLOCK, 0, m);
}
