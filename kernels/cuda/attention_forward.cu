/* Flash attention forward: a block has a tile of queries of one head and walks over the keys they see, with
 * online softmax. Dao et al., FlashAttention-2 (arXiv 2307.08691), algorithm 1. */
#include "kernels/cuda/attention.cuh"

/* P: the kind of tile; D: the larger head dimension, padded. K and V take turns in one place. */
template <class P, int D> struct forward_tiles {
  typedef typename P::element E;
  enum { Q = 64, KV = D <= 128 ? 64 : 32, LD = D + P::PAD, LDS = KV + P::PAD };
  enum { BYTES = (Q * LD + KV * LD + Q * LDS) * sizeof(E) };
};

template <class P, int D>
static __global__ void __launch_bounds__(P::threads(64)) forward(struct forward_call c) {
  typedef forward_tiles<P, D> S;
  typedef typename P::element E;
  enum { R = P::rows(S::Q), C = P::cols(S::KV), O = P::cols(D) };
  const struct attn_problem &p = c.p;
  E *q_tile = shared_memory<E>(), *kv_tile = q_tile + S::Q * S::LD, *p_tile = kv_tile + S::KV * S::LD;
  /* Last blocks first: under a causal mask they are the longest. */
  int tiles = (p.q_tokens + S::Q - 1) / S::Q, tile = tiles - 1 - (int)(blockIdx.x / p.q_heads);
  int head = (int)(blockIdx.x % p.q_heads), kv_head = head / (p.q_heads / p.kv_heads), first = tile * S::Q;
  int views = (p.q_tokens + VIEW_ROWS - 1) / VIEW_ROWS, view = first / VIEW_ROWS,
      next = view + S::Q / VIEW_ROWS;
  struct span all = span_of_views(p, view, next < views ? next : views, (int *)p_tile), see[R];
  float out[R][O] = {}, top[R], sum[R], steep;
  /* A sink is a score that has been seen, by the first of a row's lanes, with a value of 0. */
#pragma unroll
  for (int i = 0; i < R; i++) {
    see[i] = seen_by(p, first + P::row(i));
    top[i] = c.sinks ? c.sinks[head] * LOG2E : -INFINITY;
    sum[i] = c.sinks && threadIdx.x % P::ROW_LANES == 0 ? 1.0F : 0.0F;
  }
  fill_tile<S::Q, D>(q_tile, S::LD, c.q, head, p.dim, first, p.q_tokens);
  for (int kv = all.lo / S::KV * S::KV; kv < all.hi; kv += S::KV) {
    float s[R][C] = {};
    __syncthreads(); /* the product with V has been read */
    fill_tile<S::KV, D>(kv_tile, S::LD, c.k, kv_head, p.dim, kv, p.kv_tokens);
    __syncthreads();
    P::nt(s, q_tile, S::LD, kv_tile, S::LD, (p.dim + P::DEPTH - 1) / P::DEPTH * P::DEPTH);
#pragma unroll
    for (int i = 0; i < R; i++) {
      float most = -INFINITY;
#pragma unroll
      for (int j = 0; j < C; j++) {
        int col = kv + P::col(j);
        bool visible = see[i].lo <= col && col < see[i].hi;
        s[i][j] = visible ? score_of(p, s[i][j], head, first + P::row(i), col, &steep) : -INFINITY;
        most = fmaxf(most, s[i][j]);
      }
      most = fmaxf(top[i], over_lanes<take_most>(most, P::ROW_LANES));
      float base = most == -INFINITY ? 0.0F : most, keep = exp2f(top[i] - base);
      top[i] = most;
      sum[i] *= keep;
#pragma unroll
      for (int j = 0; j < O; j++)
        out[i][j] *= keep;
#pragma unroll
      for (int j = 0; j < C; j++) {
        float e = exp2f(s[i][j] - base);
        sum[i] += e;
        store(p_tile, P::row(i) * S::LDS + P::col(j), e);
      }
    }
    __syncthreads(); /* K has been read */
    fill_tile<S::KV, D>(kv_tile, S::LD, c.v, kv_head, p.v_dim, kv, p.kv_tokens);
    __syncthreads();
    P::nn(out, p_tile, S::LDS, kv_tile, S::LD, S::KV);
  }
  float factor[R];
#pragma unroll
  for (int i = 0; i < R; i++) {
    int row = first + P::row(i);
    float whole = over_lanes<add_up>(sum[i], P::ROW_LANES);
    factor[i] = whole > 0.0F ? 1.0F / whole : 0.0F;
    if (row < p.q_tokens && threadIdx.x % P::ROW_LANES == 0)
      c.lse.data[head * c.lse.head_stride + row] = whole > 0.0F ? (top[i] + log2f(whole)) * LN2 : -INFINITY;
  }
  write_tile<P>(c.out, out, factor, head, p.v_dim, first, p.q_tokens);
}

template <class P, int D> struct forward_launch {
  static void run(struct spp_queue *q, const struct forward_call &c) {
    typedef forward_tiles<P, D> S;
    int64_t tiles = ((int64_t)c.p.q_tokens + S::Q - 1) / S::Q;
    SPP_LAUNCH(q, (forward<P, D>), (unsigned)(tiles * c.p.q_heads), P::threads(S::Q), S::BYTES, c);
  }
};

void spp_cuda_launch_forward(struct spp_queue *q, const struct forward_call &c, bool all_bf16) {
  launch_for<forward_launch>(q, c, all_bf16);
}
