/* Attention as it is written on paper, one query row at a time, in double precision. */
#include "kernels/attention_impl.h"

#include <math.h>

/* Element (row t, head h, dimension d). */
static double at(const struct spp_rows *x, int64_t head_dim, int64_t t, int64_t h, int64_t d) {
  return (double)spp_load(x->data, x->storage, t * x->row_stride + h * head_dim + d);
}

/* *slope: of the score by scale * q.k. */
static double score_and_slope(const struct spp_attn_shape *s, const struct spp_rows *q,
                              const struct spp_rows *k, int64_t i, int64_t h, int64_t j, double *slope) {
  int64_t kvh = h / (s->q_heads / s->kv_heads);
  double sum = 0.0;
  for (int64_t d = 0; d < s->head_dim; d++)
    sum += at(q, s->head_dim, i, h, d) * at(k, s->head_dim, j, kvh, d);
  sum *= (double)s->scale;
  *slope = 1.0;
  if (s->cap > 0.0F) {
    double bent = tanh(sum / (double)s->cap);
    sum = (double)s->cap * bent;
    *slope = 1.0 - bent * bent;
  }
  if (s->slopes)
    sum += (double)s->slopes[h] * (double)(spp_position(&s->mask.kv, j) - spp_position(&s->mask.q, i));
  return sum;
}

static double score(const struct spp_attn_shape *s, const struct spp_rows *q, const struct spp_rows *k,
                    int64_t i, int64_t h, int64_t j) {
  double slope;
  return score_and_slope(s, q, k, i, h, j, &slope);
}

/* ln sum exp of one row, -infinity without keys. */
static double row_lse(const struct spp_attn_forward *a, int64_t i, int64_t h, struct spp_interval see) {
  double sink = a->sinks ? (double)a->sinks[h] : -INFINITY, top = sink, sum = 0.0;
  for (int64_t j = see.lo; j < see.hi; j++)
    top = fmax(top, score(&a->shape, &a->q, &a->k, i, h, j));
  for (int64_t j = see.lo; j < see.hi; j++)
    sum += exp(score(&a->shape, &a->q, &a->k, i, h, j) - top);
  if (top == -INFINITY) return top;
  return top + log(sum + exp(sink - top));
}

static void forward_row(const struct spp_attn_forward *a, int64_t i, int64_t h) {
  const struct spp_attn_shape *s = &a->shape;
  int64_t kvh = h / (s->q_heads / s->kv_heads), dv = spp_attn_v_dim(s);
  struct spp_interval see = spp_mask_row(&s->mask, i, s->kv_tokens);
  double lse = row_lse(a, i, h, see);
  double out[SPP_ATTN_MAX_HEAD_DIM] = {0};
  for (int64_t j = see.lo; j < see.hi; j++) {
    double p = exp(score(s, &a->q, &a->k, i, h, j) - lse);
    for (int64_t d = 0; d < dv; d++)
      out[d] += p * at(&a->v, dv, j, kvh, d);
  }
  for (int64_t d = 0; d < dv; d++)
    spp_store(a->out.data, a->out.storage, i * a->out.row_stride + h * dv + d, (float)out[d]);
  a->lse.data[h * a->lse.head_stride + i] = (float)lse;
}

void spp_attn_ref_forward(const struct spp_attn_forward *a) {
  for (int64_t h = 0; h < a->shape.q_heads; h++)
    for (int64_t i = 0; i < a->shape.q_tokens; i++)
      forward_row(a, i, h);
}

/* p and ds = p * (dp - delta) * slope * scale of one pair. */
static void pair_grad(const struct spp_attn_backward *a, int64_t i, int64_t h, int64_t j, double *p,
                      double *ds) {
  const struct spp_attn_shape *s = &a->shape;
  int64_t kvh = h / (s->q_heads / s->kv_heads), dv = spp_attn_v_dim(s);
  double dp = 0.0, slope;
  for (int64_t d = 0; d < dv; d++)
    dp += at(&a->dout, dv, i, h, d) * at(&a->v, dv, j, kvh, d);
  *p = exp(score_and_slope(s, &a->q, &a->k, i, h, j, &slope) -
           (double)a->lse.data[h * a->lse.head_stride + i]);
  *ds = *p * (dp - (double)a->delta.data[h * a->delta.head_stride + i]) * slope * (double)s->scale;
}

static void dq_row(const struct spp_attn_backward *a, int64_t i, int64_t h) {
  const struct spp_attn_shape *s = &a->shape;
  int64_t kvh = h / (s->q_heads / s->kv_heads);
  struct spp_interval see = spp_mask_row(&s->mask, i, s->kv_tokens);
  double dq[SPP_ATTN_MAX_HEAD_DIM] = {0};
  for (int64_t j = see.lo; j < see.hi; j++) {
    double p, ds;
    pair_grad(a, i, h, j, &p, &ds);
    for (int64_t d = 0; d < s->head_dim; d++)
      dq[d] += ds * at(&a->k, s->head_dim, j, kvh, d);
  }
  for (int64_t d = 0; d < s->head_dim; d++)
    spp_store(a->dq.data, a->dq.storage, i * a->dq.row_stride + h * s->head_dim + d, (float)dq[d]);
}

static void dkv_row(const struct spp_attn_backward *a, int64_t j, int64_t kvh) {
  const struct spp_attn_shape *s = &a->shape;
  int64_t group = s->q_heads / s->kv_heads, width = spp_attn_v_dim(s);
  double dk[SPP_ATTN_MAX_HEAD_DIM] = {0}, dv[SPP_ATTN_MAX_HEAD_DIM] = {0};
  for (int64_t h = kvh * group; h < (kvh + 1) * group; h++)
    for (int64_t i = 0; i < s->q_tokens; i++) {
      struct spp_interval see = spp_mask_row(&s->mask, i, s->kv_tokens);
      if (j < see.lo || j >= see.hi) continue;
      double p, ds;
      pair_grad(a, i, h, j, &p, &ds);
      for (int64_t d = 0; d < s->head_dim; d++)
        dk[d] += ds * at(&a->q, s->head_dim, i, h, d);
      for (int64_t d = 0; d < width; d++)
        dv[d] += p * at(&a->dout, width, i, h, d);
    }
  for (int64_t d = 0; d < s->head_dim; d++)
    spp_store(a->dk.data, a->dk.storage, j * a->dk.row_stride + kvh * s->head_dim + d, (float)dk[d]);
  for (int64_t d = 0; d < width; d++)
    spp_store(a->dv.data, a->dv.storage, j * a->dv.row_stride + kvh * width + d, (float)dv[d]);
}

void spp_attn_ref_backward(const struct spp_attn_backward *a) {
  for (int64_t h = 0; h < a->shape.q_heads; h++)
    for (int64_t i = 0; i < a->shape.q_tokens; i++)
      dq_row(a, i, h);
  for (int64_t h = 0; h < a->shape.kv_heads; h++)
    for (int64_t j = 0; j < a->shape.kv_tokens; j++)
      dkv_row(a, j, h);
}
