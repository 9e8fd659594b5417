/* Flash attention backward: a block of keys walks over the queries that see it, recomputing the scores from
 * the log-sum-exp. Dao et al., FlashAttention-2 (arXiv 2307.08691), algorithm 2. dk and dv of the block stay
 * in scratch; dq of a query block receives its key blocks strictly in increasing order, each waiting for its
 * turn (the idea of the deterministic mode of FlashAttention-3), so that no sum depends on timing. */
#include "kernels/attention_impl.h"
#include "kernels/flash.h"
#include "kernels/parallel.h"

#include <stdatomic.h>
#include <string.h>

struct backward {
  const struct spp_tile_ops *ops;
  const struct spp_attn_backward *a;
  int64_t q_block, kv_block, q_blocks, kv_blocks;
  int64_t thread_floats, shared_floats;
  float *scratch;
  float *dq; /* fp32 sums: a->dq itself when that is fp32 */
  int64_t dq_stride;
  struct spp_interval *see;     /* [q_tokens] */
  struct spp_block_view *views; /* [q_blocks] */
  _Atomic int64_t *turn;        /* [q_heads][q_blocks]: key block whose dq may be added next */
};

/* Scratch of one thread. */
struct tiles {
  float *kt, *qt;        /* [head_dim][kv], [head_dim][q] */
  float *vt, *dot;       /* [v_head_dim][kv], [v_head_dim][q] */
  float *k, *dk;         /* [kv][head_dim] */
  float *q, *dq;         /* [q][head_dim] */
  float *dv, *dout;      /* [kv][v_head_dim], [q][v_head_dim] */
  float *s, *dp, *dst;   /* [q][kv], [q][kv], [kv][q] */
  float *lo, *hi, *q_at; /* [q] */
  float *kv_at;          /* [kv] */
  int64_t ldq, ldk, ldd, ldv;
};

static int64_t carve(const struct backward *f, float *base, struct tiles *t) {
  int64_t dh = spp_tile_pad(f->a->shape.head_dim), dv = spp_tile_pad(spp_attn_v_dim(&f->a->shape));
  struct spp_carver c = {base, 0};
  t->ldq = spp_tile_ld(f->q_block);
  t->ldk = spp_tile_ld(f->kv_block);
  t->ldd = spp_tile_ld(dh);
  t->ldv = spp_tile_ld(dv);
  t->kt = spp_carve(&c, dh * t->ldk);
  t->vt = spp_carve(&c, dv * t->ldk);
  t->qt = spp_carve(&c, dh * t->ldq);
  t->dot = spp_carve(&c, dv * t->ldq);
  t->k = spp_carve(&c, f->kv_block * t->ldd);
  t->dk = spp_carve(&c, f->kv_block * t->ldd);
  t->dv = spp_carve(&c, f->kv_block * t->ldv);
  t->q = spp_carve(&c, f->q_block * t->ldd);
  t->dout = spp_carve(&c, f->q_block * t->ldv);
  t->dq = spp_carve(&c, f->q_block * t->ldd);
  t->s = spp_carve(&c, f->q_block * t->ldk);
  t->dp = spp_carve(&c, f->q_block * t->ldk);
  t->dst = spp_carve(&c, f->kv_block * t->ldq);
  t->lo = spp_carve(&c, f->q_block);
  t->hi = spp_carve(&c, f->q_block);
  t->q_at = spp_carve(&c, f->q_block);
  t->kv_at = spp_carve(&c, f->kv_block);
  return c.used;
}

/* What all threads share: views, turns, and fp32 sums of dq when dq is stored in 16 bits. */
static int64_t carve_shared(struct backward *f, float *base) {
  const struct spp_attn_shape *s = &f->a->shape;
  struct spp_carver c = {base, 0};
  int64_t turns = s->q_heads * f->q_blocks;
  f->see = (struct spp_interval *)(void *)spp_carve(&c, s->q_tokens * SPP_FLASH_INTERVAL_FLOATS);
  f->views = (struct spp_block_view *)(void *)spp_carve(&c, f->q_blocks * 2 * SPP_FLASH_INTERVAL_FLOATS);
  f->turn = (_Atomic int64_t *)(void *)spp_carve(&c, turns * (int64_t)(sizeof *f->turn / sizeof(float)));
  f->dq = f->a->dq.data;
  f->dq_stride = f->a->dq.row_stride;
  if (f->a->dq.storage != SPP_STORE_F32) {
    f->dq_stride = s->q_heads * s->head_dim;
    f->dq = spp_carve(&c, s->q_tokens * f->dq_stride);
  }
  return c.used;
}

static struct backward plan(const struct spp_tile_ops *ops, const struct spp_attn_backward *a) {
  struct backward f = {.ops = ops, .a = a};
  f.q_block = spp_flash_block(a->options.q_block, ops->q_block / 2, a->shape.q_tokens);
  f.kv_block = spp_flash_block(a->options.kv_block, ops->kv_block, a->shape.kv_tokens);
  f.q_blocks = (a->shape.q_tokens + f.q_block - 1) / f.q_block;
  f.kv_blocks = (a->shape.kv_tokens + f.kv_block - 1) / f.kv_block;
  struct tiles t;
  f.thread_floats = carve(&f, NULL, &t);
  f.shared_floats = carve_shared(&f, NULL);
  return f;
}

static int threads_of(const struct backward *f) {
  return spp_parallel_threads(f->a->options.threads, f->kv_blocks * f->a->shape.kv_heads);
}

int64_t spp_attn_flash_backward_bytes(const struct spp_tile_ops *ops, const struct spp_attn_backward *a) {
  struct backward f = plan(ops, a);
  int64_t floats = f.shared_floats + threads_of(&f) * f.thread_floats;
  return floats * (int64_t)sizeof(float) + SPP_SCRATCH_ALIGN;
}

static float *dq_at(const struct backward *f, int64_t row, int64_t head) {
  return f->dq + row * f->dq_stride + head * f->a->shape.head_dim;
}

/* Adds the tile's dq when every lower key block has added its own. */
static void add_dq(const struct backward *f, const struct tiles *t, int64_t head, int64_t row, int64_t rows) {
  f->ops->add_rows(t->dq, t->ldd, rows, f->a->shape.head_dim, dq_at(f, row, head), f->dq_stride);
}

static void wait_turn(const struct backward *f, int64_t head, int64_t q_index, int64_t kv_index) {
  _Atomic int64_t *turn = &f->turn[head * f->q_blocks + q_index];
  for (int64_t spins = 0; atomic_load_explicit(turn, memory_order_acquire) != kv_index; spins++)
    if (spins > 1000) spp_parallel_yield();
}

static void pass_turn(const struct backward *f, int64_t head, int64_t q_index, int64_t kv_index) {
  atomic_store_explicit(&f->turn[head * f->q_blocks + q_index], kv_index + 1, memory_order_release);
}

/* Both layouts of q and dout: as left operands transposed, as right operands as they are. */
static void pack_queries(const struct backward *f, const struct tiles *t, int64_t head, int64_t row,
                         int64_t rows) {
  const struct spp_attn_backward *a = f->a;
  int64_t dh = a->shape.head_dim, dv = spp_attn_v_dim(&a->shape);
  const void *q = spp_flash_at(&a->q, dh, row, head), *dout = spp_flash_at(&a->dout, dv, row, head);
  f->ops->pack_transposed(q, a->q.storage, a->q.row_stride, rows, dh, t->qt, t->ldq);
  f->ops->pack_transposed(dout, a->dout.storage, a->dout.row_stride, rows, dv, t->dot, t->ldq);
  f->ops->pack(q, a->q.storage, a->q.row_stride, rows, dh, t->q, t->ldd);
  f->ops->pack(dout, a->dout.storage, a->dout.row_stride, rows, dv, t->dout, t->ldv);
}

/* Rows of s and dp are queries from `row`, columns keys from `key`. */
static void bend(const struct backward *f, const struct tiles *t, int64_t head, struct spp_interval q,
                 struct spp_interval keys) {
  const struct spp_attn_backward *a = f->a;
  const struct spp_attn_shape *s = &a->shape;
  struct spp_tile_bend b = spp_flash_bend(s, head);
  b.row_at = t->q_at;
  b.col_at = t->kv_at;
  if (s->slopes) {
    int64_t base = spp_position(&s->mask.q, q.lo);
    spp_flash_positions(&s->mask.q, q.lo, q.hi - q.lo, base, t->q_at);
    spp_flash_positions(&s->mask.kv, keys.lo, keys.hi - keys.lo, base, t->kv_at);
  }
  f->ops->bend(t->s, t->dp, t->ldk, q.hi - q.lo, keys.hi - keys.lo, &b,
               a->delta.data + head * a->delta.head_stride + q.lo);
}

/* Queries [row, row + rows) against keys `kv` of the packed block from `key` (kv.lo a multiple of
 * SPP_TILE_PAD).
 */
static void backward_tile(const struct backward *f, const struct tiles *t, int64_t head, int64_t row,
                          int64_t rows, int64_t key, struct spp_interval kv, bool masked) {
  const struct spp_attn_backward *a = f->a;
  const struct spp_tile_ops *ops = f->ops;
  int64_t dh = a->shape.head_dim, dv = spp_attn_v_dim(&a->shape), cols = kv.hi - kv.lo;
  pack_queries(f, t, head, row, rows);
  ops->gemm_tn(rows, cols, dh, t->qt, t->ldq, t->kt + kv.lo, t->ldk, t->s, t->ldk, false);
  ops->gemm_tn(rows, cols, dv, t->dot, t->ldq, t->vt + kv.lo, t->ldk, t->dp, t->ldk, false);
  if (spp_flash_bends(&a->shape))
    bend(f, t, head, (struct spp_interval){row, row + rows}, (struct spp_interval){key + kv.lo, key + kv.hi});
  ops->softmax_grad(
      t->s, t->dp, t->ldk, rows, cols, a->shape.scale, a->lse.data + head * a->lse.head_stride + row,
      a->delta.data + head * a->delta.head_stride + row, masked ? t->lo : NULL, t->hi, t->dst, t->ldq);
  ops->gemm_tn(cols, dv, rows, t->s, t->ldk, t->dout, t->ldv, t->dv + kv.lo * t->ldv, t->ldv, true);
  ops->gemm_tn(cols, dh, rows, t->dp, t->ldk, t->q, t->ldd, t->dk + kv.lo * t->ldd, t->ldd, true);
  ops->gemm_tn(rows, dh, cols, t->dst, t->ldq, spp_tile_at(ops, t->k, kv.lo, t->ldd), t->ldd, t->dq, t->ldd,
               false);
}

/* Cuts the (query block, key block) rectangle to the rows and keys that see each other. */
static void backward_pair(const struct backward *f, const struct tiles *t, int64_t head, int64_t q_index,
                          int64_t kv_index) {
  const struct spp_attn_shape *s = &f->a->shape;
  int64_t row = q_index * f->q_block, rows = spp_min64(f->q_block, s->q_tokens - row);
  int64_t key = kv_index * f->kv_block, keys = spp_min64(f->kv_block, s->kv_tokens - key);
  const struct spp_block_view *view = &f->views[q_index];
  struct spp_interval kv = {0, keys}, q = {0, rows};
  bool masked = view->all.lo > key || view->all.hi < key + keys;
  if (masked) {
    q = spp_flash_tile_rows(f->see + row, rows, key, keys, t->lo, t->hi);
    kv = spp_flash_tile_cols(t->lo + q.lo, t->hi + q.lo, q.hi - q.lo, keys);
    spp_flash_shift(t->lo, t->hi, q, kv.lo);
  }
  bool any = q.lo < q.hi && kv.lo < kv.hi;
  if (any) backward_tile(f, t, head, row + q.lo, q.hi - q.lo, key, kv, masked);
  wait_turn(f, head, q_index, kv_index);
  if (any) add_dq(f, t, head, row + q.lo, q.hi - q.lo);
  pass_turn(f, head, q_index, kv_index);
}

static void pack_keys(const struct backward *f, const struct tiles *t, int64_t kvh, int64_t key,
                      int64_t keys) {
  const struct spp_attn_backward *a = f->a;
  int64_t dh = a->shape.head_dim, dv = spp_attn_v_dim(&a->shape);
  const void *k = spp_flash_at(&a->k, dh, key, kvh), *v = spp_flash_at(&a->v, dv, key, kvh);
  f->ops->pack_transposed(k, a->k.storage, a->k.row_stride, keys, dh, t->kt, t->ldk);
  f->ops->pack_transposed(v, a->v.storage, a->v.row_stride, keys, dv, t->vt, t->ldk);
  f->ops->pack(k, a->k.storage, a->k.row_stride, keys, dh, t->k, t->ldd);
}

static void backward_block(void *context, int64_t task, int thread) {
  const struct backward *f = context;
  const struct spp_attn_backward *a = f->a;
  int64_t group = a->shape.q_heads / a->shape.kv_heads, dh = a->shape.head_dim;
  int64_t dv = spp_attn_v_dim(&a->shape);
  int64_t kvh = task / f->kv_blocks, kv_index = task % f->kv_blocks;
  int64_t key = kv_index * f->kv_block, keys = spp_min64(f->kv_block, a->shape.kv_tokens - key);
  struct tiles t;
  carve(f, f->scratch + thread * f->thread_floats, &t);
  pack_keys(f, &t, kvh, key, keys);
  memset(t.dk, 0, (size_t)(f->kv_block * t.ldd) * sizeof(float));
  memset(t.dv, 0, (size_t)(f->kv_block * t.ldv) * sizeof(float));
  for (int64_t head = kvh * group; head < (kvh + 1) * group; head++)
    for (int64_t i = 0; i < f->q_blocks; i++)
      if (f->views[i].any.lo < key + keys && f->views[i].any.hi > key)
        backward_pair(f, &t, head, i, kv_index);
  f->ops->unpack(t.dk, t.ldd, keys, dh, NULL, spp_flash_at(&a->dk, dh, key, kvh), a->dk.storage,
                 a->dk.row_stride);
  f->ops->unpack(t.dv, t.ldv, keys, dv, NULL, spp_flash_at(&a->dv, dv, key, kvh), a->dv.storage,
                 a->dv.row_stride);
}

static void start(struct backward *f) {
  const struct spp_attn_shape *s = &f->a->shape;
  for (int64_t i = 0; i < f->q_blocks; i++) {
    int64_t row = i * f->q_block;
    f->views[i] =
        spp_mask_block(&s->mask, row, spp_min64(f->q_block, s->q_tokens - row), s->kv_tokens, f->see + row);
    for (int64_t h = 0; h < s->q_heads; h++)
      atomic_init(&f->turn[h * f->q_blocks + i], f->views[i].any.lo / f->kv_block);
  }
  for (int64_t r = 0; r < s->q_tokens; r++)
    memset(f->dq + r * f->dq_stride, 0, (size_t)(s->q_heads * s->head_dim) * sizeof(float));
}

void spp_attn_flash_backward(const struct spp_tile_ops *ops, const struct spp_attn_backward *a,
                             void *workspace) {
  struct backward f = plan(ops, a);
  f.scratch = spp_scratch_align(workspace) + f.shared_floats;
  carve_shared(&f, spp_scratch_align(workspace));
  start(&f);
  spp_parallel_run(threads_of(&f), f.kv_blocks * a->shape.kv_heads, backward_block, &f);
  if (a->dq.storage == SPP_STORE_F32) return;
  ops->unpack(f.dq, f.dq_stride, a->shape.q_tokens, a->shape.q_heads * a->shape.head_dim, NULL, a->dq.data,
              a->dq.storage, a->dq.row_stride);
}
