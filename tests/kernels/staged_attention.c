/* Attention, block by block of a ring or whole, on the device. */
#include "tests/kernels/stage.h"

static struct spp_rows rows_in(struct stage *s, struct spp_rows x, int64_t tokens, int64_t width,
                               bool results) {
  int64_t elements = tokens > 0 ? (tokens - 1) * x.row_stride + width : 0;
  x.data = stage_take(s, x.data, stage_bytes(elements, x.storage), results);
  return x;
}
static struct spp_row_stats stats_in(struct stage *s, struct spp_row_stats x,
                                     const struct spp_attn_shape *shape, bool results) {
  x.data = stage_take(s, x.data, ((shape->q_heads - 1) * x.head_stride + shape->q_tokens) * 4, results);
  return x;
}

/* The description of a mask, in memory that is scribbled over when the call has returned. */
struct description {
  struct spp_pos_run *runs[2];
  int64_t *cu_seqlens;
};
static void *copied(const void *from, int64_t bytes) {
  void *copy = malloc((size_t)bytes + 1);
  assert_non_null(copy);
  if (bytes > 0) memcpy(copy, from, (size_t)bytes);
  return copy;
}
static struct description describe(struct stage *s, struct spp_attn_shape *shape) {
  struct description d;
  struct spp_attn_mask *m = &shape->mask;
  d.runs[0] = copied(m->q.runs, m->q.n_runs * (int64_t)sizeof *m->q.runs);
  d.runs[1] = copied(m->kv.runs, m->kv.n_runs * (int64_t)sizeof *m->kv.runs);
  d.cu_seqlens = copied(m->cu_seqlens, m->cu_seqlens ? (m->n_docs + 1) * 8 : 0);
  m->q.runs = d.runs[0];
  m->kv.runs = d.runs[1];
  if (m->cu_seqlens) m->cu_seqlens = d.cu_seqlens;
  shape->slopes = stage_in(s, shape->slopes, shape->q_heads * 4);
  return d;
}
static void scribble(struct description *d, const struct spp_attn_shape *given) {
  const struct spp_attn_mask *m = &given->mask;
  memset(d->runs[0], 0xee, (size_t)m->q.n_runs * sizeof *m->q.runs);
  memset(d->runs[1], 0xee, (size_t)m->kv.n_runs * sizeof *m->kv.runs);
  if (m->cu_seqlens) memset(d->cu_seqlens, 0xee, (size_t)(m->n_docs + 1) * 8);
  free(d->runs[0]);
  free(d->runs[1]);
  free(d->cu_seqlens);
}

enum spp_status staged_attn_forward(const struct spp_kernels *kernels, const struct spp_attn_forward *given,
                                    void *workspace, struct spp_diag *diag) {
  struct stage s = {0};
  struct spp_attn_forward a = *given;
  struct spp_attn_shape *shape = &a.shape;
  void *work;
  if (kernels != staged_best()) return spp_attn_forward(kernels, given, workspace, diag);
  if (!given->q.data)
    return staged_device()->ops->attn_forward(staged_queue(), given, NULL, diag); /* it is to be refused */
  struct description d = describe(&s, shape);
  a.q = rows_in(&s, a.q, shape->q_tokens, shape->q_heads * shape->head_dim, false);
  a.k = rows_in(&s, a.k, shape->kv_tokens, shape->kv_heads * shape->head_dim, false);
  a.v = rows_in(&s, a.v, shape->kv_tokens, shape->kv_heads * spp_attn_v_dim(shape), false);
  a.out = rows_in(&s, a.out, shape->q_tokens, shape->q_heads * spp_attn_v_dim(shape), true);
  a.lse = stats_in(&s, a.lse, shape, true);
  a.sinks = stage_in(&s, a.sinks, shape->q_heads * 4);
  expect_status(staged_device()->allocate(staged_queue(),
                                          staged_device()->ops->attn_forward_bytes(staged_queue(), &a), &work,
                                          diag),
                SPP_OK, diag);
  enum spp_status status = staged_device()->ops->attn_forward(staged_queue(), &a, work, diag);
  scribble(&d, &given->shape);
  stage_finish(&s);
  staged_device()->release(staged_queue(), work);
  return status;
}

enum spp_status staged_attn_backward(const struct spp_kernels *kernels, const struct spp_attn_backward *given,
                                     void *workspace, struct spp_diag *diag) {
  struct stage s = {0};
  struct spp_attn_backward a = *given;
  struct spp_attn_shape *shape = &a.shape;
  int64_t qw = shape->q_heads * shape->head_dim, kw = shape->kv_heads * shape->head_dim;
  int64_t ow = shape->q_heads * spp_attn_v_dim(shape), vw = shape->kv_heads * spp_attn_v_dim(shape);
  void *work;
  if (kernels != staged_best()) return spp_attn_backward(kernels, given, workspace, diag);
  struct description d = describe(&s, shape);
  a.q = rows_in(&s, a.q, shape->q_tokens, qw, false);
  a.k = rows_in(&s, a.k, shape->kv_tokens, kw, false);
  a.v = rows_in(&s, a.v, shape->kv_tokens, vw, false);
  a.dout = rows_in(&s, a.dout, shape->q_tokens, ow, false);
  a.dq = rows_in(&s, a.dq, shape->q_tokens, qw, true);
  a.dk = rows_in(&s, a.dk, shape->kv_tokens, kw, true);
  a.dv = rows_in(&s, a.dv, shape->kv_tokens, vw, true);
  a.lse = stats_in(&s, a.lse, shape, false);
  a.delta = stats_in(&s, a.delta, shape, false);
  expect_status(staged_device()->allocate(staged_queue(),
                                          staged_device()->ops->attn_backward_bytes(staged_queue(), &a),
                                          &work, diag),
                SPP_OK, diag);
  enum spp_status status = staged_device()->ops->attn_backward(staged_queue(), &a, work, diag);
  scribble(&d, &given->shape);
  stage_finish(&s);
  staged_device()->release(staged_queue(), work);
  return status;
}

void staged_attn_delta(const struct spp_kernels *kernels, const struct spp_attn_shape *shape,
                       struct spp_rows dout, struct spp_rows out, struct spp_row_stats delta) {
  struct stage s = {0};
  int64_t width = shape->q_heads * spp_attn_v_dim(shape);
  if (kernels != staged_best()) {
    spp_attn_delta(kernels, shape, dout, out, delta);
    return;
  }
  dout = rows_in(&s, dout, shape->q_tokens, width, false);
  out = rows_in(&s, out, shape->q_tokens, width, false);
  staged_device()->ops->attn_delta(staged_queue(), shape, dout, out, stats_in(&s, delta, shape, true));
  stage_finish(&s);
}

void staged_attn_sink_grad(const struct spp_attn_shape *shape, const float *sinks, struct spp_row_stats lse,
                           struct spp_row_stats delta, float *dsinks) {
  struct stage s = {0};
  const float *from = stage_in(&s, sinks, shape->q_heads * 4);
  lse = stats_in(&s, lse, shape, false);
  delta = stats_in(&s, delta, shape, false);
  staged_device()->ops->attn_sink_grad(staged_queue(), shape, from, lse, delta,
                                       stage_both(&s, dsinks, shape->q_heads * 4));
  stage_finish(&s);
}

void staged_lse_merge(int64_t tokens, int64_t heads, int64_t head_dim, float *out, int64_t out_stride,
                      float *lse, int64_t lse_stride, const float *block_out, int64_t block_stride,
                      const float *block_lse, int64_t block_lse_stride) {
  struct stage s = {0};
  int64_t width = heads * head_dim;
  float *o = stage_both(&s, out, ((tokens - 1) * out_stride + width) * 4);
  float *l = stage_both(&s, lse, ((heads - 1) * lse_stride + tokens) * 4);
  const float *b = stage_in(&s, block_out, ((tokens - 1) * block_stride + width) * 4);
  const float *bl = stage_in(&s, block_lse, ((heads - 1) * block_lse_stride + tokens) * 4);
  staged_device()->ops->lse_merge(staged_queue(), tokens, heads, head_dim, o, out_stride, l, lse_stride, b,
                                  block_stride, bl, block_lse_stride);
  stage_finish(&s);
}
