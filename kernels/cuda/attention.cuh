/* What the kernels of attention forward and backward share: the problem as the device sees it, and loading of
 * tiles. Queries and keys are counted in int: attention.h takes up to 2^31 - 1 of each. */
#ifndef SPP_KERNELS_CUDA_ATTENTION_CUH
#define SPP_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/tile.cuh"

enum { VIEW_ROWS = WARP }; /* queries of one view */
#define LOG2E 1.44269504088896340736F
#define LN2   0.69314718055994530942F

/* Keys [lo, hi). */
struct span {
  int lo, hi;
};

struct tensor {
  void *data;
  int64_t stride;
  enum spp_storage storage;
  bool wide; /* rows are aligned to 16 bytes */
};

struct attn_problem {
  int q_tokens, kv_tokens, q_heads, kv_heads, dim, v_dim;
  float scale, cap;
  const float *slopes;         /* [q_heads], or NULL; then q_at and kv_at are NULL too */
  const struct span *see;      /* [q_tokens] */
  const struct span *views;    /* of VIEW_ROWS queries each: the smallest span that holds theirs */
  const int64_t *q_at, *kv_at; /* positions */
};

/* What a query sees. Padding behind the last sees nothing. */
static __device__ __forceinline__ struct span seen_by(const struct attn_problem &p, int row) {
  struct span none = {0, 0};
  return row < p.q_tokens ? p.see[row] : none;
}

/* The score of a pair, in units of log2(e), from the product of its query and key; *steep: how fast it grows
 * with the scaled product. */
static __device__ __forceinline__ float score_of(const struct attn_problem &p, float product, int head,
                                                 int row, int col, float *steep) {
  float x = product * p.scale;
  *steep = 1.0F;
  if (p.cap > 0.0F) {
    float bent = tanhf(x / p.cap);
    x = p.cap * bent;
    *steep = 1.0F - bent * bent;
  }
  if (p.slopes) x = fmaf(p.slopes[head], (float)(p.kv_at[col] - p.q_at[row]), x);
  return x * LOG2E;
}

/* Eight elements at once. Tiles of bf16 are of tensors that are. */
static __device__ __forceinline__ void fill8(bf16 *to, const struct tensor &x, int64_t i) {
  const bf16 *from = (const bf16 *)x.data + i;
  if (x.wide)
    *(uint4 *)to = *(const uint4 *)from;
  else
    for (int v = 0; v < 8; v++)
      to[v] = from[v];
}
static __device__ __forceinline__ void fill8(float *to, const struct tensor &x, int64_t i) {
  __align__(16) float values[8];
  if (x.storage == SPP_STORE_BF16) {
    __align__(16) bf16 few[8];
    fill8(few, x, i);
    for (int v = 0; v < 8; v++)
      values[v] = widened(few[v].bits);
  } else if (x.wide) {
    store4(values, 0, load4((const float *)x.data, i));
    store4(values, 4, load4((const float *)x.data, i + 4));
  } else {
    for (int v = 0; v < 8; v++)
      values[v] = ((const float *)x.data)[i + v];
  }
  store4(to, 0, load4(values, 0));
  store4(to, 4, load4(values, 4));
}
static __device__ __forceinline__ void clear8(bf16 *to) {
  uint4 zeros = {0, 0, 0, 0};
  *(uint4 *)to = zeros;
}
static __device__ __forceinline__ void clear8(float *to) {
  float4 zeros = {0.0F, 0.0F, 0.0F, 0.0F};
  store4(to, 0, zeros);
  store4(to, 4, zeros);
}

/* Rows [first, first + ROWS) of one head into to[ROWS][ld], zeros where a row is not below `tokens` and in
 * columns [dim, D). */
template <int ROWS, int D, class E>
static __device__ __forceinline__ void fill_tile(E *to, int ld, const struct tensor &x, int head, int dim,
                                                 int first, int tokens) {
  for (int piece = threadIdx.x; piece < ROWS * (D / 8); piece += blockDim.x) {
    int r = piece / (D / 8), c = piece % (D / 8) * 8;
    if (first + r < tokens && c < dim)
      fill8(to + r * ld + c, x, (first + r) * x.stride + head * dim + c);
    else
      clear8(to + r * ld + c);
  }
}

/* A tile of results, times factor[i] of its row, to rows of one head. */
template <class P, int R, int C>
static __device__ __forceinline__ void write_tile(const struct tensor &x, const float (&acc)[R][C],
                                                  const float (&factor)[R], int head, int dim, int first,
                                                  int tokens) {
#pragma unroll
  for (int i = 0; i < R; i++) {
    int row = first + P::row(i);
    if (row >= tokens) continue;
    int64_t at = row * x.stride + head * dim;
#pragma unroll
    for (int j = 0; j < C; j++) {
      if (P::col(j) >= dim) continue;
      if (x.storage == SPP_STORE_BF16)
        store((bf16 *)x.data, at + P::col(j), acc[i][j] * factor[i]);
      else
        store((float *)x.data, at + P::col(j), acc[i][j] * factor[i]);
    }
  }
}

/* The smallest span that holds those of views [first, end), to all threads; {0, 0}: nothing is seen. `room`
 * as over_block has it. */
static __device__ __forceinline__ struct span span_of_views(const struct attn_problem &p, int first, int end,
                                                            int *room) {
  int lo = -p.kv_tokens, hi = 0; /* the largest of -lo is the smallest lo */
  for (int v = first + threadIdx.x; v < end; v += blockDim.x) {
    struct span s = p.views[v];
    if (s.lo >= s.hi) continue;
    lo = take_most::of(lo, -s.lo);
    hi = take_most::of(hi, s.hi);
  }
  lo = -over_block<take_most>(lo, room);
  hi = over_block<take_most>(hi, room);
  struct span all = {lo < hi ? lo : 0, lo < hi ? hi : 0};
  return all;
}

struct forward_call {
  struct attn_problem p;
  struct tensor q, k, v, out;
  struct spp_row_stats lse;
  const float *sinks;
};

struct backward_call {
  struct attn_problem p;
  struct tensor q, k, v, dout, dq, dk, dv;
  struct spp_row_stats lse, delta;
};

/* Launch<tile of a product, head dim>::run(q, call) of the smallest that holds the call's heads; tensor cores
 * where every tensor that is read is bf16. */
template <template <class, int> class Launch, class Call>
static void launch_for(struct spp_queue *q, const Call &c, bool all_bf16) {
  int widest = c.p.dim > c.p.v_dim ? c.p.dim : c.p.v_dim;
  if (widest > 128)
    Launch<fma_tile, 256>::run(q, c);
  else if (widest > 64)
    all_bf16 ? Launch<mma_tile, 128>::run(q, c) : Launch<fma_tile, 128>::run(q, c);
  else
    all_bf16 ? Launch<mma_tile, 64>::run(q, c) : Launch<fma_tile, 64>::run(q, c);
}

/* attention_forward.cu, attention_backward.cu; tensor cores where every tensor that is read is bf16. */
void spp_cuda_launch_forward(struct spp_queue *q, const struct forward_call &c, bool all_bf16);
void spp_cuda_launch_backward(struct spp_queue *q, const struct backward_call &c, bool all_bf16);

#endif
