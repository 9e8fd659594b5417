/* Flash attention forward: a block of queries walks over the keys it sees, tile by tile, with online softmax.
 * Dao et al., FlashAttention-2 (arXiv 2307.08691), algorithm 1; scores are kept transposed, so that maxima
 * and sums of softmax run down columns and the second product reads them as its left operand without a copy.
 */
#include "kernels/attention_impl.h"
#include "kernels/flash.h"
#include "kernels/parallel.h"

#include <math.h>
#include <string.h>

struct forward {
  const struct spp_tile_ops *ops;
  const struct spp_attn_forward *a;
  int64_t q_block, kv_block, q_blocks;
  int64_t thread_floats;
  float *scratch;
};

/* Scratch of one thread. */
struct tiles {
  float *qt;                             /* [head_dim][q] */
  float *kt;                             /* [head_dim][kv] */
  float *v;                              /* [kv][v_head_dim] */
  float *st;                             /* [kv][q] */
  float *out;                            /* [q][v_head_dim] */
  float *m, *l, *alpha, *lo, *hi, *q_at; /* [q] */
  float *kv_at;                          /* [kv] */
  struct spp_interval *see;              /* [q] */
  int64_t ldq, ldk, ldd;
};

static int64_t carve(const struct forward *f, float *base, struct tiles *t) {
  int64_t dh = spp_tile_pad(f->a->shape.head_dim);
  struct spp_carver c = {base, 0};
  t->ldq = spp_tile_ld(f->q_block);
  t->ldk = spp_tile_ld(f->kv_block);
  t->ldd = spp_tile_ld(spp_attn_v_dim(&f->a->shape));
  t->qt = spp_carve(&c, dh * t->ldq);
  t->kt = spp_carve(&c, dh * t->ldk);
  t->v = spp_carve(&c, f->kv_block * t->ldd);
  t->st = spp_carve(&c, f->kv_block * t->ldq);
  t->out = spp_carve(&c, f->q_block * t->ldd);
  t->m = spp_carve(&c, f->q_block);
  t->l = spp_carve(&c, f->q_block);
  t->alpha = spp_carve(&c, f->q_block);
  t->lo = spp_carve(&c, f->q_block);
  t->hi = spp_carve(&c, f->q_block);
  t->q_at = spp_carve(&c, f->q_block);
  t->kv_at = spp_carve(&c, f->kv_block);
  t->see = (struct spp_interval *)(void *)spp_carve(&c, f->q_block * SPP_FLASH_INTERVAL_FLOATS);
  return c.used;
}

static struct forward plan(const struct spp_tile_ops *ops, const struct spp_attn_forward *a) {
  struct forward f = {.ops = ops, .a = a};
  f.q_block = spp_flash_block(a->options.q_block, ops->q_block, a->shape.q_tokens);
  f.kv_block = spp_flash_block(a->options.kv_block, ops->kv_block, a->shape.kv_tokens);
  f.q_blocks = (a->shape.q_tokens + f.q_block - 1) / f.q_block;
  struct tiles t;
  f.thread_floats = carve(&f, NULL, &t);
  return f;
}

static int threads_of(const struct forward *f) {
  return spp_parallel_threads(f->a->options.threads, f->q_blocks * f->a->shape.q_heads);
}

int64_t spp_attn_flash_forward_bytes(const struct spp_tile_ops *ops, const struct spp_attn_forward *a) {
  struct forward f = plan(ops, a);
  return threads_of(&f) * f.thread_floats * (int64_t)sizeof(float) + SPP_SCRATCH_ALIGN;
}

/* Rows of st are keys, so that the slope changes its sign. */
static void bend(const struct forward *f, const struct tiles *t, int64_t head, struct spp_interval q,
                 struct spp_flash_tile tile) {
  struct spp_tile_bend b = spp_flash_bend(&f->a->shape, head);
  b.slope = -b.slope;
  b.row_at = t->kv_at;
  b.col_at = t->q_at + q.lo;
  f->ops->bend(t->st, NULL, t->ldq, tile.cols, q.hi - q.lo, &b, NULL);
}

/* Queries `q` of the block (q.lo a multiple of SPP_TILE_PAD) against the keys of one tile. */
static void forward_tile(const struct forward *f, const struct tiles *t, int64_t head, struct spp_interval q,
                         struct spp_flash_tile tile) {
  const struct spp_attn_forward *a = f->a;
  const struct spp_tile_ops *ops = f->ops;
  int64_t dh = a->shape.head_dim, dv = spp_attn_v_dim(&a->shape);
  int64_t kvh = head / (a->shape.q_heads / a->shape.kv_heads);
  int64_t rows = q.hi - q.lo, cols = tile.cols;
  ops->pack_transposed(spp_flash_at(&a->k, dh, tile.kv, kvh), a->k.storage, a->k.row_stride, cols, dh, t->kt,
                       t->ldk);
  ops->pack(spp_flash_at(&a->v, dv, tile.kv, kvh), a->v.storage, a->v.row_stride, cols, dv, t->v, t->ldd);
  ops->gemm_tn(cols, rows, dh, t->kt, t->ldk, t->qt + q.lo, t->ldq, t->st, t->ldq, false);
  if (spp_flash_bends(&a->shape)) bend(f, t, head, q, tile);
  bool rescale = ops->softmax(t->st, t->ldq, cols, rows, a->shape.scale * SPP_FLASH_LOG2E,
                              tile.masked ? t->lo + q.lo : NULL, t->hi + q.lo, t->m + q.lo, t->l + q.lo,
                              t->alpha + q.lo);
  float *out = t->out + q.lo * t->ldd;
  if (rescale) ops->scale_rows(out, t->ldd, rows, dv, t->alpha + q.lo);
  ops->gemm_tn(rows, dv, cols, t->st, t->ldq, t->v, t->ldd, out, t->ldd, true);
}

static void finish(const struct forward *f, const struct tiles *t, int64_t head, int64_t row, int64_t rows) {
  const struct spp_attn_forward *a = f->a;
  float *lse = a->lse.data + head * a->lse.head_stride + row;
  for (int64_t r = 0; r < rows; r++) {
    bool seen = t->l[r] > 0.0F;
    t->alpha[r] = seen ? 1.0F / t->l[r] : 0.0F;
    lse[r] = seen ? (float)(((double)t->m[r] + log2((double)t->l[r])) * SPP_FLASH_LN2) : -INFINITY;
  }
  int64_t dv = spp_attn_v_dim(&a->shape);
  f->ops->unpack(t->out, t->ldd, rows, dv, t->alpha, spp_flash_at(&a->out, dv, row, head), a->out.storage,
                 a->out.row_stride);
}

/* A sink is a score that has been seen, with a value of 0. */
static void begin(const struct forward *f, const struct tiles *t, int64_t head) {
  const float *sinks = f->a->sinks;
  memset(t->out, 0, (size_t)(f->q_block * t->ldd) * sizeof(float));
  for (int64_t r = 0; r < f->q_block; r++) {
    t->m[r] = sinks ? sinks[head] * SPP_FLASH_LOG2E : -INFINITY;
    t->l[r] = sinks ? 1.0F : 0.0F;
  }
}

static void forward_block(void *context, int64_t task, int thread) {
  const struct forward *f = context;
  const struct spp_attn_shape *s = &f->a->shape;
  struct tiles t;
  carve(f, f->scratch + thread * f->thread_floats, &t);
  /* Last blocks first: under a causal mask they are the longest. */
  int64_t head = task % s->q_heads, block = f->q_blocks - 1 - task / s->q_heads;
  int64_t row = block * f->q_block, rows = spp_min64(f->q_block, s->q_tokens - row);
  f->ops->pack_transposed(spp_flash_at(&f->a->q, s->head_dim, row, head), f->a->q.storage, f->a->q.row_stride,
                          rows, s->head_dim, t.qt, t.ldq);
  begin(f, &t, head);
  if (s->slopes) spp_flash_positions(&s->mask.q, row, rows, spp_position(&s->mask.q, row), t.q_at);
  struct spp_block_view view = spp_mask_block(&s->mask, row, rows, s->kv_tokens, t.see);
  for (int64_t kv = view.any.lo; kv < view.any.hi;) {
    struct spp_flash_tile tile = spp_flash_next(&view, kv, f->kv_block);
    struct spp_interval q = {0, rows};
    if (tile.masked) q = spp_flash_tile_rows(t.see, rows, kv, tile.cols, t.lo, t.hi);
    if (s->slopes) spp_flash_positions(&s->mask.kv, kv, tile.cols, spp_position(&s->mask.q, row), t.kv_at);
    if (q.lo < q.hi) forward_tile(f, &t, head, q, tile);
    kv += tile.cols;
  }
  finish(f, &t, head, row, rows);
}

void spp_attn_flash_forward(const struct spp_tile_ops *ops, const struct spp_attn_forward *a,
                            void *workspace) {
  struct forward f = plan(ops, a);
  f.scratch = spp_scratch_align(workspace);
  spp_parallel_run(threads_of(&f), f.q_blocks * a->shape.q_heads, forward_block, &f);
}
