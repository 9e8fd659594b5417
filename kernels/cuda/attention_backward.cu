/* Flash attention backward: scores are worked out again from the log-sum-exp. Dao et al., FlashAttention-2
 * (arXiv 2307.08691), algorithm 2, in two passes: a block of keys walks over the queries that see it and sums
 * dk and dv, a block of queries over its keys and sums dq. That is seven products against five, and no sum
 * crosses blocks: the same inputs give the same bits. */
#include "kernels/cuda/attention.cuh"

/* Rows that stay with a block, and rows that pass by. */
template <class P, int D> struct backward_tiles {
  typedef typename P::element E;
  enum { STAY = D <= 128 ? 64 : 32, PASS = 32, LD = D + P::PAD, LDS = PASS + P::PAD };
  enum { ROWS = 2 * (STAY + PASS) };
  /* Two tensors that stay and two that pass; p and ds; of dk and dv besides four floats or ints a passing
   * query. */
  enum { BYTES = (ROWS * LD + 2 * STAY * LDS) * sizeof(E) + 4 * PASS * sizeof(float) };
};

/* p and ds = p * (dp - delta) * steep * scale of a pair, 0 where the query does not see the key. `lse` in
 * units of log2(e). */
static __device__ __forceinline__ void pair_grad(const struct attn_problem &p, struct span see, float lse,
                                                 float delta, int head, int row, int col, float *s,
                                                 float *dp) {
  float steep, e = 0.0F, d = 0.0F;
  if (see.lo <= col && col < see.hi) {
    e = exp2f(score_of(p, *s, head, row, col, &steep) - lse);
    d = e * (*dp - delta) * steep * p.scale;
  }
  *s = e;
  *dp = d;
}

template <class P, int D>
static __global__ void __launch_bounds__(P::threads(backward_tiles<P, D>::STAY))
    backward_q(struct backward_call c) {
  typedef backward_tiles<P, D> S;
  typedef typename P::element E;
  enum { R = P::rows(S::STAY), C = P::cols(S::PASS), O = P::cols(D) };
  const struct attn_problem &p = c.p;
  E *q_tile = shared_memory<E>(), *dout_tile = q_tile + S::STAY * S::LD,
    *k_tile = dout_tile + S::STAY * S::LD;
  E *v_tile = k_tile + S::PASS * S::LD, *ds_tile = v_tile + S::PASS * S::LD;
  int tiles = (p.q_tokens + S::STAY - 1) / S::STAY, tile = tiles - 1 - (int)(blockIdx.x / p.q_heads);
  int head = (int)(blockIdx.x % p.q_heads), kv_head = head / (p.q_heads / p.kv_heads), first = tile * S::STAY;
  int views = (p.q_tokens + VIEW_ROWS - 1) / VIEW_ROWS, view = first / VIEW_ROWS,
      next = view + S::STAY / VIEW_ROWS;
  struct span all = span_of_views(p, view, next < views ? next : views, (int *)ds_tile), see[R];
  float dq[R][O] = {}, lse[R], delta[R], one[R];
#pragma unroll
  for (int i = 0; i < R; i++) {
    int row = first + P::row(i);
    see[i] = seen_by(p, row);
    lse[i] = row < p.q_tokens ? c.lse.data[head * c.lse.head_stride + row] * LOG2E : 0.0F;
    delta[i] = row < p.q_tokens ? c.delta.data[head * c.delta.head_stride + row] : 0.0F;
    one[i] = 1.0F;
  }
  fill_tile<S::STAY, D>(q_tile, S::LD, c.q, head, p.dim, first, p.q_tokens);
  fill_tile<S::STAY, D>(dout_tile, S::LD, c.dout, head, p.v_dim, first, p.q_tokens);
  for (int kv = all.lo / S::PASS * S::PASS; kv < all.hi; kv += S::PASS) {
    float s[R][C] = {}, dp[R][C] = {};
    __syncthreads(); /* K and ds have been read */
    fill_tile<S::PASS, D>(k_tile, S::LD, c.k, kv_head, p.dim, kv, p.kv_tokens);
    fill_tile<S::PASS, D>(v_tile, S::LD, c.v, kv_head, p.v_dim, kv, p.kv_tokens);
    __syncthreads();
    P::nt(s, q_tile, S::LD, k_tile, S::LD, (p.dim + P::DEPTH - 1) / P::DEPTH * P::DEPTH);
    P::nt(dp, dout_tile, S::LD, v_tile, S::LD, (p.v_dim + P::DEPTH - 1) / P::DEPTH * P::DEPTH);
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
      for (int j = 0; j < C; j++) {
        pair_grad(p, see[i], lse[i], delta[i], head, first + P::row(i), kv + P::col(j), &s[i][j], &dp[i][j]);
        store(ds_tile, P::row(i) * S::LDS + P::col(j), dp[i][j]);
      }
    __syncthreads();
    P::nn(dq, ds_tile, S::LDS, k_tile, S::LD, S::PASS);
  }
  write_tile<P>(c.dq, dq, one, head, p.dim, first, p.q_tokens);
}

/* What a block of keys must know of the queries that pass. */
struct passing {
  struct span *see;
  float *lse, *delta;
};

static __device__ __forceinline__ void look_at(const struct backward_call &c, const struct passing &pass,
                                               int head, int first, int rows) {
  for (int r = threadIdx.x; r < rows; r += blockDim.x) {
    int row = first + r;
    pass.see[r] = seen_by(c.p, row);
    pass.lse[r] = row < c.p.q_tokens ? c.lse.data[head * c.lse.head_stride + row] * LOG2E : 0.0F;
    pass.delta[r] = row < c.p.q_tokens ? c.delta.data[head * c.delta.head_stride + row] : 0.0F;
  }
}

/* The first and the last view that sees any of keys [kv, end), as [lo, hi). */
static __device__ __forceinline__ struct span views_that_see(const struct attn_problem &p, int kv, int end,
                                                             int *room) {
  int views = (p.q_tokens + VIEW_ROWS - 1) / VIEW_ROWS, lo = -views, hi = 0;
  for (int v = threadIdx.x; v < views; v += blockDim.x) {
    struct span s = p.views[v];
    if (s.lo >= end || s.hi <= kv) continue;
    lo = take_most::of(lo, -v);
    hi = take_most::of(hi, v + 1);
  }
  lo = -over_block<take_most>(lo, room);
  hi = over_block<take_most>(hi, room);
  struct span found = {lo, hi};
  return found;
}

/* Does any query of [first, first + rows) see any of keys [kv, end)? */
static __device__ __forceinline__ bool any_sees(const struct attn_problem &p, int first, int rows, int kv,
                                                int end) {
  for (int v = first / VIEW_ROWS; v * VIEW_ROWS < first + rows && v * VIEW_ROWS < p.q_tokens; v++)
    if (p.views[v].lo < end && p.views[v].hi > kv) return true;
  return false;
}

/* Rows of a tile of scores are keys here, columns queries. */
template <class P, int D>
static __global__ void __launch_bounds__(P::threads(backward_tiles<P, D>::STAY))
    backward_kv(struct backward_call c) {
  typedef backward_tiles<P, D> S;
  typedef typename P::element E;
  enum { R = P::rows(S::STAY), C = P::cols(S::PASS), O = P::cols(D) };
  const struct attn_problem &p = c.p;
  E *k_tile = shared_memory<E>(), *v_tile = k_tile + S::STAY * S::LD, *q_tile = v_tile + S::STAY * S::LD;
  E *dout_tile = q_tile + S::PASS * S::LD, *p_tile = dout_tile + S::PASS * S::LD,
    *ds_tile = p_tile + S::STAY * S::LDS;
  struct passing pass = {(struct span *)(ds_tile + S::STAY * S::LDS), NULL, NULL};
  pass.lse = (float *)(pass.see + S::PASS);
  pass.delta = pass.lse + S::PASS;
  int kv_head = (int)(blockIdx.x % p.kv_heads), group = p.q_heads / p.kv_heads;
  int first = (int)(blockIdx.x / p.kv_heads) * S::STAY;
  int end = first + S::STAY < p.kv_tokens ? first + S::STAY : p.kv_tokens;
  struct span views = views_that_see(p, first, end, (int *)ds_tile);
  float dk[R][O] = {}, dv[R][O] = {}, one[R];
  fill_tile<S::STAY, D>(k_tile, S::LD, c.k, kv_head, p.dim, first, p.kv_tokens);
  fill_tile<S::STAY, D>(v_tile, S::LD, c.v, kv_head, p.v_dim, first, p.kv_tokens);
  for (int head = kv_head * group; head < (kv_head + 1) * group; head++)
    for (int row = views.lo * VIEW_ROWS / S::PASS * S::PASS; row < views.hi * VIEW_ROWS; row += S::PASS) {
      if (!any_sees(p, row, S::PASS, first, end)) continue;
      float s[R][C] = {}, dp[R][C] = {};
      __syncthreads(); /* Q, dout, p and ds have been read */
      fill_tile<S::PASS, D>(q_tile, S::LD, c.q, head, p.dim, row, p.q_tokens);
      fill_tile<S::PASS, D>(dout_tile, S::LD, c.dout, head, p.v_dim, row, p.q_tokens);
      look_at(c, pass, head, row, S::PASS);
      __syncthreads();
      P::nt(s, k_tile, S::LD, q_tile, S::LD, (p.dim + P::DEPTH - 1) / P::DEPTH * P::DEPTH);
      P::nt(dp, v_tile, S::LD, dout_tile, S::LD, (p.v_dim + P::DEPTH - 1) / P::DEPTH * P::DEPTH);
#pragma unroll
      for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < C; j++) {
          int at = P::col(j);
          pair_grad(p, pass.see[at], pass.lse[at], pass.delta[at], head, row + at, first + P::row(i),
                    &s[i][j], &dp[i][j]);
          store(p_tile, P::row(i) * S::LDS + at, s[i][j]);
          store(ds_tile, P::row(i) * S::LDS + at, dp[i][j]);
        }
      __syncthreads();
      P::nn(dv, p_tile, S::LDS, dout_tile, S::LD, S::PASS);
      P::nn(dk, ds_tile, S::LDS, q_tile, S::LD, S::PASS);
    }
#pragma unroll
  for (int i = 0; i < R; i++)
    one[i] = 1.0F;
  write_tile<P>(c.dk, dk, one, kv_head, p.dim, first, p.kv_tokens);
  write_tile<P>(c.dv, dv, one, kv_head, p.v_dim, first, p.kv_tokens);
}

template <class P, int D> struct backward_launch {
  static void run(struct spp_queue *q, const struct backward_call &c) {
    typedef backward_tiles<P, D> S;
    int64_t q_tiles = ((int64_t)c.p.q_tokens + S::STAY - 1) / S::STAY;
    int64_t kv_tiles = ((int64_t)c.p.kv_tokens + S::STAY - 1) / S::STAY;
    SPP_LAUNCH(q, (backward_kv<P, D>), (unsigned)(kv_tiles * c.p.kv_heads), P::threads(S::STAY), S::BYTES, c);
    SPP_LAUNCH(q, (backward_q<P, D>), (unsigned)(q_tiles * c.p.q_heads), P::threads(S::STAY), S::BYTES, c);
  }
};

void spp_cuda_launch_backward(struct spp_queue *q, const struct backward_call &c, bool all_bf16) {
  launch_for<backward_launch>(q, c, all_bf16);
}
