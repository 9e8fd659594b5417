/* Attention on a device: what the mask shows each query is worked out there first, by the rule of
 * kernels/mask_row.h, from a copy of the mask's description in the workspace. */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/ops.cuh"

extern "C" {
#include "kernels/attention_impl.h"
#include "kernels/mask_row.h"
}

/* The workspace, piece after piece; with base 0 it is only counted. */
struct carver {
  char *base;
  int64_t used;
};
template <class T> static T *carve(struct carver *c, int64_t n) {
  T *piece = c->base ? (T *)(c->base + c->used) : NULL;
  c->used += (n * (int64_t)sizeof(T) + 255) / 256 * 256;
  return piece;
}

struct pieces {
  struct spp_pos_run *q_runs, *kv_runs;
  int64_t *cu_seqlens, *q_at, *kv_at;
  struct span *see, *views;
};

static int64_t views_of(const struct spp_attn_shape *s) {
  return (s->q_tokens + VIEW_ROWS - 1) / VIEW_ROWS;
}

static int64_t carve_all(const struct spp_attn_shape *s, void *workspace, struct pieces *w) {
  struct carver c = {(char *)workspace, 0};
  w->q_runs = carve<struct spp_pos_run>(&c, s->mask.q.n_runs);
  w->kv_runs = carve<struct spp_pos_run>(&c, s->mask.kv.n_runs);
  w->cu_seqlens = carve<int64_t>(&c, s->mask.cu_seqlens ? s->mask.n_docs + 1 : 0);
  w->see = carve<struct span>(&c, s->q_tokens);
  w->views = carve<struct span>(&c, views_of(s));
  w->q_at = carve<int64_t>(&c, s->slopes ? s->q_tokens : 0);
  w->kv_at = carve<int64_t>(&c, s->slopes ? s->kv_tokens : 0);
  return c.used;
}

/* A warp a view, a lane a query. */
static __global__ void look(struct spp_attn_mask mask, int64_t q_tokens, int64_t kv_tokens, struct span *see,
                            struct span *views) {
  int64_t warps = blockDim.x / WARP, count = (q_tokens + VIEW_ROWS - 1) / VIEW_ROWS;
  for (int64_t v = blockIdx.x * warps + threadIdx.x / WARP; v < count; v += gridDim.x * warps) {
    int64_t row = v * VIEW_ROWS + threadIdx.x % WARP;
    struct spp_interval one = {0, 0};
    if (row < q_tokens) {
      one = spp_interval_of(&mask, row, kv_tokens);
      struct span s = {(int)one.lo, (int)one.hi};
      see[row] = s;
    }
    bool any = one.lo < one.hi;
    int lo = -over_lanes<take_most>(any ? -(int)one.lo : -(int)kv_tokens);
    int hi = over_lanes<take_most>(any ? (int)one.hi : 0);
    struct span all = {lo < hi ? lo : 0, lo < hi ? hi : 0};
    if (threadIdx.x % WARP == 0) views[v] = all;
  }
}

static __global__ void place(struct spp_positions positions, int64_t tokens, int64_t *at) {
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < tokens;
       i += (int64_t)gridDim.x * blockDim.x)
    at[i] = spp_position_of(&positions, i);
}

/* Copies what describes the mask, and lets the device work out what each query sees. */
static struct attn_problem prepare(struct spp_queue *q, const struct spp_attn_shape *s, void *workspace) {
  struct pieces w;
  carve_all(s, workspace, &w);
  struct spp_attn_mask mask = s->mask;
  mask.q.runs = w.q_runs;
  mask.kv.runs = w.kv_runs;
  mask.cu_seqlens = s->mask.cu_seqlens ? w.cu_seqlens : NULL;
  const int64_t run_bytes = sizeof(struct spp_pos_run);
  spp_device_cuda.upload(q, w.q_runs, s->mask.q.runs, s->mask.q.n_runs * run_bytes);
  spp_device_cuda.upload(q, w.kv_runs, s->mask.kv.runs, s->mask.kv.n_runs * run_bytes);
  if (mask.cu_seqlens)
    spp_device_cuda.upload(q, w.cu_seqlens, s->mask.cu_seqlens,
                           (s->mask.n_docs + 1) * (int64_t)sizeof(int64_t));
  SPP_LAUNCH(q, look, spp_blocks(views_of(s), BLOCK / WARP), BLOCK, 0, mask, s->q_tokens, s->kv_tokens, w.see,
             w.views);
  if (s->slopes) {
    SPP_LAUNCH(q, place, spp_blocks(s->q_tokens, BLOCK), BLOCK, 0, mask.q, s->q_tokens, w.q_at);
    SPP_LAUNCH(q, place, spp_blocks(s->kv_tokens, BLOCK), BLOCK, 0, mask.kv, s->kv_tokens, w.kv_at);
  }
  struct attn_problem p = {(int)s->q_tokens, (int)s->kv_tokens,
                           (int)s->q_heads,  (int)s->kv_heads,
                           (int)s->head_dim, (int)spp_attn_v_dim(s),
                           s->scale,         s->cap,
                           s->slopes,        w.see,
                           w.views,          w.q_at,
                           w.kv_at};
  return p;
}

static struct tensor tensor_of(const struct spp_rows *x) {
  int64_t bytes = spp_storage_bytes(x->storage);
  struct tensor t = {x->data, x->row_stride, x->storage,
                     (uintptr_t)x->data % 16 == 0 && x->row_stride * bytes % 16 == 0};
  return t;
}

static bool is_bf16(const struct spp_rows *x) {
  return x->storage == SPP_STORE_BF16;
}

/* Kernels count rows in int, and go a tile past the last; every tile of every head is a block of one launch.
 */
static const char *too_large(const struct spp_attn_shape *s) {
  enum { SMALLEST_TILE = 32, LARGEST_TILE = 64 };
  int64_t tokens = s->q_tokens > s->kv_tokens ? s->q_tokens : s->kv_tokens;
  if (tokens > INT32_MAX - LARGEST_TILE) return "there are too many tokens for one call on a device";
  return tokens / SMALLEST_TILE + 1 > INT32_MAX / s->q_heads
             ? "there are too many tiles for one call on a device"
             : NULL;
}

int64_t spp_cuda_attn_forward_bytes(struct spp_queue *, const struct spp_attn_forward *a) {
  struct pieces w;
  return carve_all(&a->shape, NULL, &w);
}

int64_t spp_cuda_attn_backward_bytes(struct spp_queue *, const struct spp_attn_backward *a) {
  struct pieces w;
  return carve_all(&a->shape, NULL, &w);
}

enum spp_status spp_cuda_attn_forward(struct spp_queue *q, const struct spp_attn_forward *a, void *workspace,
                                      struct spp_diag *diag) {
  const char *fault = spp_attn_forward_fault(a);
  if (!fault) fault = too_large(&a->shape);
  if (fault) return spp_diag_set(diag, SPP_ERR_INPUT, "attention", NULL, "%s", fault);
  struct forward_call c = {prepare(q, &a->shape, workspace),
                           tensor_of(&a->q),
                           tensor_of(&a->k),
                           tensor_of(&a->v),
                           tensor_of(&a->out),
                           a->lse,
                           a->sinks};
  spp_cuda_launch_forward(q, c, is_bf16(&a->q) && is_bf16(&a->k) && is_bf16(&a->v));
  return spp_queue_status(q, diag);
}

enum spp_status spp_cuda_attn_backward(struct spp_queue *q, const struct spp_attn_backward *a,
                                       void *workspace, struct spp_diag *diag) {
  const char *fault = spp_attn_backward_fault(a);
  if (!fault) fault = too_large(&a->shape);
  if (fault) return spp_diag_set(diag, SPP_ERR_INPUT, "attention", NULL, "%s", fault);
  struct backward_call c = {prepare(q, &a->shape, workspace),
                            tensor_of(&a->q),
                            tensor_of(&a->k),
                            tensor_of(&a->v),
                            tensor_of(&a->dout),
                            tensor_of(&a->dq),
                            tensor_of(&a->dk),
                            tensor_of(&a->dv),
                            a->lse,
                            a->delta};
  spp_cuda_launch_backward(q, c, is_bf16(&a->q) && is_bf16(&a->k) && is_bf16(&a->v) && is_bf16(&a->dout));
  return spp_queue_status(q, diag);
}
