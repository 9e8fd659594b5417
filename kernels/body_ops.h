/* Vector operators (ops.h), written over a vec_*.h layer. Included once by each instance file, after
 * body_math.h. The mathematics is that of ops_ref.c. */
#ifndef SPP_KERNELS_BODY_OPS_H
#define SPP_KERNELS_BODY_OPS_H

#include "kernels/body_math.h"
#include "kernels/ops.h"

#include <math.h>

/* for each vector of n elements: i, and `part` elements in it */
#define VF_FOR(i, part, n)                                                                                   \
  for (int64_t i = 0, part = vf_part(n); i < (n); i += VF_WIDTH, part = vf_part((n)-i))

static vf vf_sigmoid(vf x) {
  const vf one = vf_set1(1.0F);
  return vf_div(one, vf_add(one, vf_exp(vf_neg(x))));
}

static float dot(int64_t n, const void *a, enum spp_storage a_storage, int64_t a_at, const void *b,
                 enum spp_storage b_storage, int64_t b_at) {
  vf sum = vf_set1(0.0F);
  VF_FOR(i, part, n)
  sum = vf_fma(vf_load_any(a, a_storage, a_at + i, part), vf_load_any(b, b_storage, b_at + i, part), sum);
  return vf_hsum(sum);
}

static inline vf rms_weight(const struct spp_rmsnorm *a, int64_t i, int64_t part) {
  return vf_add(vf_set1(a->offset), vf_load_any(a->weight, a->storage, i, part));
}

static void rmsnorm_forward(const struct spp_rmsnorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    float mean = dot(a->width, a->x, a->storage, row, a->x, a->storage, row) / (float)a->width;
    a->rstd[r] = 1.0F / sqrtf(mean + a->eps);
    vf rstd = vf_set1(a->rstd[r]);
    VF_FOR(i, part, a->width) {
      vf x = vf_mul(vf_load_any(a->x, a->storage, row + i, part), rstd);
      vf_store_any(a->y, a->storage, row + i, part, vf_mul(rms_weight(a, i, part), x));
    }
  }
}

static void rmsnorm_backward(const struct spp_rmsnorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    vf sum = vf_set1(0.0F);
    VF_FOR(i, part, a->width) {
      vf g = vf_mul(rms_weight(a, i, part), vf_load_any(a->dy, a->storage, row + i, part));
      sum = vf_fma(g, vf_load_any(a->x, a->storage, row + i, part), sum);
    }
    float rs = a->rstd[r];
    vf rstd = vf_set1(rs), pull = vf_set1(-rs * rs * vf_hsum(sum) / (float)a->width);
    VF_FOR(i, part, a->width) {
      vf x = vf_load_any(a->x, a->storage, row + i, part), dy = vf_load_any(a->dy, a->storage, row + i, part);
      vf g = vf_mul(rms_weight(a, i, part), dy);
      vf dw = vf_fma(vf_mul(dy, x), rstd, vf_load_any(a->dweight, SPP_STORE_F32, i, part));
      vf_store_any(a->dweight, SPP_STORE_F32, i, part, dw);
      vf_store_any(a->dx, a->storage, row + i, part, vf_mul(rstd, vf_fma(x, pull, g)));
    }
  }
}

/* Lanes behind the end of a row hold zeros; `part` of them count in a sum of deviations. */
static vf vf_keep_first(vf x, int64_t n) {
  return vf_in_range(x, vf_iota(), vf_set1(0.0F), vf_set1((float)n), vf_set1(0.0F));
}

/* Weight times x, and plus bias, where there are any. */
static inline vf weighted(const struct spp_layernorm *a, int64_t i, int64_t part, vf x) {
  if (!a->weight) return x;
  return vf_mul(vf_add(vf_set1(a->offset), vf_load_any(a->weight, a->storage, i, part)), x);
}
static inline vf biased(const struct spp_layernorm *a, int64_t i, int64_t part, vf x) {
  return a->bias ? vf_add(x, vf_load_any(a->bias, a->storage, i, part)) : x;
}

static void layernorm_forward(const struct spp_layernorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    vf sum = vf_set1(0.0F), squares = vf_set1(0.0F);
    VF_FOR(i, part, a->width) sum = vf_add(sum, vf_load_any(a->x, a->storage, row + i, part));
    a->mean[r] = vf_hsum(sum) / (float)a->width;
    vf mean = vf_set1(a->mean[r]);
    VF_FOR(i, part, a->width) {
      vf d = vf_keep_first(vf_sub(vf_load_any(a->x, a->storage, row + i, part), mean), part);
      squares = vf_fma(d, d, squares);
    }
    a->rstd[r] = 1.0F / sqrtf(vf_hsum(squares) / (float)a->width + a->eps);
    vf rstd = vf_set1(a->rstd[r]);
    VF_FOR(i, part, a->width) {
      vf n = vf_mul(vf_sub(vf_load_any(a->x, a->storage, row + i, part), mean), rstd);
      vf_store_any(a->y, a->storage, row + i, part, biased(a, i, part, weighted(a, i, part, n)));
    }
  }
}

static void add_to(float *sum, int64_t i, int64_t part, vf x) {
  vf_store_any(sum, SPP_STORE_F32, i, part, vf_add(x, vf_load_any(sum, SPP_STORE_F32, i, part)));
}

static void layernorm_backward(const struct spp_layernorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    vf mean = vf_set1(a->mean[r]), rstd = vf_set1(a->rstd[r]), sum_g = vf_set1(0.0F), sum_gn = vf_set1(0.0F);
    VF_FOR(i, part, a->width) {
      vf g = weighted(a, i, part, vf_load_any(a->dy, a->storage, row + i, part));
      sum_g = vf_add(sum_g, g);
      sum_gn = vf_fma(g, vf_mul(vf_sub(vf_load_any(a->x, a->storage, row + i, part), mean), rstd), sum_gn);
    }
    vf mean_g = vf_set1(vf_hsum(sum_g) / (float)a->width), pull = vf_set1(-vf_hsum(sum_gn) / (float)a->width);
    VF_FOR(i, part, a->width) {
      vf dy = vf_load_any(a->dy, a->storage, row + i, part);
      vf n = vf_mul(vf_sub(vf_load_any(a->x, a->storage, row + i, part), mean), rstd);
      vf g = weighted(a, i, part, dy);
      if (a->weight) add_to(a->dweight, i, part, vf_mul(dy, n));
      if (a->bias) add_to(a->dbias, i, part, dy);
      vf_store_any(a->dx, a->storage, row + i, part, vf_mul(rstd, vf_fma(n, pull, vf_sub(g, mean_g))));
    }
  }
}

/* Pairs of neighbours: two vectors hold the pairs of one of angles, so plain floats do. */
static void rope_neighbours(const struct spp_rope *a) {
  int64_t half = spp_rope_width(a) / 2;
  for (int64_t t = 0; t < a->tokens; t++)
    for (int64_t h = 0; h < a->heads; h++)
      for (int64_t i = 0; i < half; i++) {
        int64_t at = t * a->row_stride + h * a->head_dim + a->first + 2 * i;
        float c = a->cos[t * half + i], s = a->sin[t * half + i] * a->sign;
        float x = spp_load(a->x, a->storage, at), y = spp_load(a->x, a->storage, at + 1);
        spp_store(a->x, a->storage, at, x * c - y * s);
        spp_store(a->x, a->storage, at + 1, y * c + x * s);
      }
}

static void rope(const struct spp_rope *a) {
  int64_t half = spp_rope_width(a) / 2;
  vf sign = vf_set1(a->sign);
  if (a->neighbours) {
    rope_neighbours(a);
    return;
  }
  for (int64_t t = 0; t < a->tokens; t++)
    for (int64_t h = 0; h < a->heads; h++) {
      int64_t at = t * a->row_stride + h * a->head_dim + a->first;
      VF_FOR(i, part, half) {
        vf c = vf_load_any(a->cos, SPP_STORE_F32, t * half + i, part);
        vf s = vf_mul(sign, vf_load_any(a->sin, SPP_STORE_F32, t * half + i, part));
        vf x = vf_load_any(a->x, a->storage, at + i, part),
           y = vf_load_any(a->x, a->storage, at + half + i, part);
        vf_store_any(a->x, a->storage, at + i, part, vf_fma(x, c, vf_neg(vf_mul(y, s))));
        vf_store_any(a->x, a->storage, at + half + i, part, vf_fma(y, c, vf_mul(x, s)));
      }
    }
}

static void embedding_forward(const struct spp_embedding *a) {
  size_t bytes = (size_t)(a->width * spp_storage_bytes(a->storage));
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t row = (int64_t)a->ids[t] - a->first;
    char *to = (char *)a->out + (size_t)t * bytes;
    if (row >= 0 && row < a->rows)
      memcpy(to, (const char *)a->table + (size_t)row * bytes, bytes);
    else
      memset(to, 0, bytes);
  }
}

static void accumulate(int64_t n, float factor, const void *x, enum spp_storage storage, float *sum) {
  vf f = vf_set1(factor);
  VF_FOR(i, part, n) {
    vf total = vf_fma(f, vf_load_any(x, storage, i, part), vf_load_any(sum, SPP_STORE_F32, i, part));
    vf_store_any(sum, SPP_STORE_F32, i, part, total);
  }
}

static void embedding_backward(const struct spp_embedding *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t row = (int64_t)a->ids[t] - a->first;
    if (row < 0 || row >= a->rows) continue;
    const char *from = (const char *)a->dout + t * a->width * spp_storage_bytes(a->storage);
    accumulate(a->width, 1.0F, from, a->storage, a->dtable + row * a->width);
  }
}

/* Maximum of a row, and sum of exp(x - max); optionally the exponentials themselves. */
static float row_max(int64_t n, const void *x, enum spp_storage storage, int64_t at) {
  vf max = vf_set1(-INFINITY);
  int64_t i = 0;
  for (; i + VF_WIDTH <= n; i += VF_WIDTH)
    max = vf_max(max, vf_load_any(x, storage, at + i, VF_WIDTH));
  float top = vf_hmax(max);
  for (; i < n; i++)
    top = fmaxf(top, spp_load(x, storage, at + i));
  return top;
}

static float row_sum_exp(int64_t n, const void *x, enum spp_storage storage, int64_t at, float max) {
  vf sum = vf_set1(0.0F), m = vf_set1(max);
  VF_FOR(i, part, n)
  sum = vf_add(sum, vf_keep_first(vf_exp(vf_sub(vf_load_any(x, storage, at + i, part), m)), part));
  return vf_hsum(sum);
}

static void cross_entropy_local(const struct spp_cross_entropy *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t at = t * a->row_stride, target = (int64_t)a->targets[t] - a->first;
    bool here = a->targets[t] >= 0 && target >= 0 && target < a->vocab;
    a->max[t] = row_max(a->vocab, a->logits, a->storage, at);
    a->sum[t] = row_sum_exp(a->vocab, a->logits, a->storage, at, a->max[t]);
    a->target_logit[t] = here ? spp_load(a->logits, a->storage, at + target) : 0.0F;
  }
}

static void cross_entropy_backward(const struct spp_cross_entropy *a) {
  float steep = a->softcap > 0.0F ? 1.0F / (a->softcap * a->softcap) : 0.0F;
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t at = t * a->row_stride, target = (int64_t)a->targets[t] - a->first;
    float grad = a->targets[t] < 0 ? 0.0F : a->grad[t];
    bool here = a->targets[t] >= 0 && target >= 0 && target < a->vocab;
    /* Read before the row is overwritten: dlogits may be logits. */
    float logit = here ? spp_load(a->logits, a->storage, at + target) : 0.0F;
    float own = here ? expf(logit - a->max[t]) / a->sum[t] : 0.0F;
    vf factor = vf_set1(grad / a->sum[t]), max = vf_set1(a->max[t]);
    vf one = vf_set1(1.0F), bend = vf_set1(-steep);
    VF_FOR(i, part, a->vocab) {
      vf x = vf_load_any(a->logits, a->storage, at + i, part), e = vf_exp(vf_sub(x, max));
      vf slope = vf_fma(vf_mul(x, x), bend, one); /* of the soft cap */
      vf_store_any(a->dlogits, a->storage, at + i, part, vf_mul(vf_mul(e, factor), slope));
    }
    if (here)
      spp_store(a->dlogits, a->storage, at + target, grad * (own - 1.0F) * (1.0F - logit * logit * steep));
  }
}

static void adamw(const struct spp_adamw *a) {
  double b1 = (double)a->beta1, b2 = (double)a->beta2, lr = (double)a->lr;
  double c1 = 1.0 - pow(b1, (double)a->step), c2 = sqrt(1.0 - pow(b2, (double)a->step));
  const vf beta1 = vf_set1(a->beta1), rest1 = vf_set1((float)(1.0 - b1));
  const vf beta2 = vf_set1(a->beta2), rest2 = vf_set1((float)(1.0 - b2));
  const vf keep = vf_set1((float)(1.0 - lr * (double)a->weight_decay)), rate = vf_set1((float)(-lr / c1));
  const vf root = vf_set1((float)(1.0 / c2)), eps = vf_set1(a->eps), gs = vf_set1(a->grad_scale);
  VF_FOR(i, part, a->n) {
    vf g = vf_mul(gs, vf_load_any(a->grad, a->grad_storage, i, part));
    vf m = vf_fma(beta1, vf_load_any(a->m, SPP_STORE_F32, i, part), vf_mul(rest1, g));
    vf v = vf_fma(beta2, vf_load_any(a->v, SPP_STORE_F32, i, part), vf_mul(rest2, vf_mul(g, g)));
    vf p = vf_mul(keep, vf_load_any(a->master, SPP_STORE_F32, i, part));
    p = vf_fma(rate, vf_div(m, vf_fma(vf_sqrt(v), root, eps)), p);
    vf_store_any(a->m, SPP_STORE_F32, i, part, m);
    vf_store_any(a->v, SPP_STORE_F32, i, part, v);
    vf_store_any(a->master, SPP_STORE_F32, i, part, p);
    if (a->param) vf_store_any(a->param, SPP_STORE_BF16, i, part, p);
  }
}

/* tanh(sqrt(2/pi) * (x + 0.044715 x^3)) */
static vf gelu_tanh(vf x) {
  vf inner = vf_fma(vf_mul(vf_set1(0.044715F), vf_mul(x, x)), x, x);
  return vf_tanh(vf_mul(vf_set1(0.79788456F), inner));
}

/* The normal distribution below x, from erfc (Abramowitz, Stegun, Handbook of Mathematical Functions 7.1.26:
 * within 1.5e-7, of which half); *density is e^(-x^2/2). */
static vf normal_below(vf x, vf *density) {
  const vf one = vf_set1(1.0F), zero = vf_set1(0.0F);
  vf z = vf_mul(vf_max(x, vf_neg(x)), vf_set1(0.70710678F));
  vf t = vf_div(one, vf_fma(z, vf_set1(0.3275911F), one));
  vf p = vf_set1(1.061405429F);
  p = vf_fma(p, t, vf_set1(-1.453152027F));
  p = vf_fma(p, t, vf_set1(1.421413741F));
  p = vf_fma(p, t, vf_set1(-0.284496736F));
  p = vf_fma(p, t, vf_set1(0.254829592F));
  *density = vf_exp(vf_neg(vf_mul(z, z)));
  vf tail = vf_mul(vf_mul(vf_set1(0.5F), vf_mul(p, t)), *density);
  return vf_in_range(tail, x, vf_set1(-INFINITY), zero, vf_sub(one, tail));
}

/* 1 where x > 0, else 0. */
static vf positive(vf x) {
  return vf_in_range(vf_set1(1.0F), x, vf_set1(1.40129846e-45F), vf_set1(INFINITY), vf_set1(0.0F));
}

static inline vf at_most(vf x) {
  const vf limit = vf_set1((float)SPP_CLAMP_LIMIT);
  return vf_neg(vf_max(vf_neg(x), vf_neg(limit)));
}
/* x where it is not above the limit, nor (both) below its negative; else zero. */
static inline vf within(vf x, vf kept, bool both) {
  float limit = (float)SPP_CLAMP_LIMIT;
  return vf_in_range(kept, x, vf_set1(both ? -limit : -INFINITY), vf_set1(nextafterf(limit, INFINITY)),
                     vf_set1(0.0F));
}

/* f(x), and its slope there. */
static inline vf value_of(enum spp_activation f, vf x) {
  const vf half = vf_set1(0.5F), one = vf_set1(1.0F), zero = vf_set1(0.0F);
  vf density;
  switch (f) {
  case SPP_GELU: return vf_mul(x, normal_below(x, &density));
  case SPP_GELU_TANH: return vf_mul(vf_mul(half, x), vf_add(one, gelu_tanh(x)));
  case SPP_RELU: return vf_max(x, zero);
  case SPP_RELU2: return vf_mul(vf_max(x, zero), vf_max(x, zero));
  case SPP_SILU_CLAMPED:
    x = at_most(x);
    return vf_mul(x, vf_sigmoid(vf_mul(vf_set1((float)SPP_CLAMP_SLOPE), x)));
  default: return vf_mul(x, vf_sigmoid(x));
  }
}

static vf gelu_tanh_slope(vf x) {
  const vf half = vf_set1(0.5F), one = vf_set1(1.0F);
  vf t = gelu_tanh(x);
  vf inner = vf_mul(vf_set1(0.79788456F), vf_fma(vf_set1(3.0F * 0.044715F), vf_mul(x, x), one));
  vf bend = vf_mul(vf_mul(vf_mul(half, x), vf_sub(one, vf_mul(t, t))), inner);
  return vf_fma(half, vf_add(one, t), bend);
}

static vf clamped_slope(vf x) {
  const vf one = vf_set1(1.0F), bent = vf_mul(vf_set1((float)SPP_CLAMP_SLOPE), x), s = vf_sigmoid(bent);
  return vf_mul(s, vf_fma(bent, vf_sub(one, s), one));
}

static inline vf slope_of(enum spp_activation f, vf x) {
  const vf one = vf_set1(1.0F);
  vf density, s;
  switch (f) {
  case SPP_GELU: s = normal_below(x, &density); return vf_fma(vf_mul(x, vf_set1(0.39894228F)), density, s);
  case SPP_GELU_TANH: return gelu_tanh_slope(x);
  case SPP_RELU: return positive(x);
  case SPP_RELU2: return vf_mul(vf_set1(2.0F), vf_max(x, vf_set1(0.0F)));
  case SPP_SILU_CLAMPED: return within(x, clamped_slope(x), false);
  default: s = vf_sigmoid(x); return vf_mul(s, vf_fma(x, vf_sub(one, s), one));
  }
}

static void activation_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                               void *y) {
  VF_FOR(i, part, n) vf_store_any(y, storage, i, part, value_of(f, vf_load_any(x, storage, i, part)));
}

static void activation_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                                const void *dy, void *dx) {
  VF_FOR(i, part, n) {
    vf slope = slope_of(f, vf_load_any(x, storage, i, part));
    vf_store_any(dx, storage, i, part, vf_mul(vf_load_any(dy, storage, i, part), slope));
  }
}

/* What up contributes to a product of gate and up; `kept` as far as that follows up. */
static inline vf factor_of(enum spp_activation f, vf up) {
  if (f != SPP_SILU_CLAMPED) return up;
  return vf_add(vf_set1(1.0F), vf_max(at_most(up), vf_set1(-(float)SPP_CLAMP_LIMIT)));
}
static inline vf following(enum spp_activation f, vf up, vf kept) {
  return f == SPP_SILU_CLAMPED ? within(up, kept, true) : kept;
}

static void glu_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                        const void *up, void *out) {
  VF_FOR(i, part, n) {
    vf g = vf_load_any(gate, storage, i, part), u = vf_load_any(up, storage, i, part);
    vf_store_any(out, storage, i, part, vf_mul(value_of(f, g), factor_of(f, u)));
  }
}

static void glu_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                         const void *up, const void *dout, void *dgate, void *dup) {
  VF_FOR(i, part, n) {
    vf g = vf_load_any(gate, storage, i, part), u = vf_load_any(up, storage, i, part);
    vf d = vf_load_any(dout, storage, i, part);
    vf_store_any(dgate, storage, i, part, vf_mul(vf_mul(d, factor_of(f, u)), slope_of(f, g)));
    vf_store_any(dup, storage, i, part, following(f, u, vf_mul(d, value_of(f, g))));
  }
}

static void softcap(int64_t n, float cap, void *x, enum spp_storage storage) {
  vf size = vf_set1(cap), inverse = vf_set1(1.0F / cap);
  VF_FOR(i, part, n) {
    vf t = vf_tanh(vf_mul(vf_load_any(x, storage, i, part), inverse));
    vf_store_any(x, storage, i, part, vf_mul(size, t));
  }
}

static void softmax(int64_t rows, int64_t n, const float *x, float *y) {
  for (int64_t r = 0; r < rows; r++) {
    float max = row_max(n, x, SPP_STORE_F32, r * n);
    vf m = vf_set1(max), factor = vf_set1(1.0F / row_sum_exp(n, x, SPP_STORE_F32, r * n, max));
    VF_FOR(i, part, n) {
      vf e = vf_exp(vf_sub(vf_load_any(x, SPP_STORE_F32, r * n + i, part), m));
      vf_store_any(y, SPP_STORE_F32, r * n + i, part, vf_mul(e, factor));
    }
  }
}

static void row_dots(int64_t rows, int64_t width, const void *a, int64_t a_stride, enum spp_storage a_storage,
                     const void *b, int64_t b_stride, enum spp_storage b_storage, float *result,
                     int64_t result_stride) {
  for (int64_t r = 0; r < rows; r++)
    result[r * result_stride] = dot(width, a, a_storage, r * a_stride, b, b_storage, r * b_stride);
}

static void convert(int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                    enum spp_storage dst_storage) {
  VF_FOR(i, part, n) vf_store_any(dst, dst_storage, i, part, vf_load_any(src, src_storage, i, part));
}

static void add(int64_t n, enum spp_storage storage, const void *a, const void *b, void *out) {
  VF_FOR(i, part, n) {
    vf sum = vf_add(vf_load_any(a, storage, i, part), vf_load_any(b, storage, i, part));
    vf_store_any(out, storage, i, part, sum);
  }
}

static void scale(int64_t n, float factor, void *x, enum spp_storage storage) {
  vf f = vf_set1(factor);
  VF_FOR(i, part, n) vf_store_any(x, storage, i, part, vf_mul(f, vf_load_any(x, storage, i, part)));
}

static double sum_squares(int64_t n, const void *x, enum spp_storage storage) {
  double total = 0.0;
  for (int64_t at = 0; at < n; at += 4096) {
    int64_t block = n - at < 4096 ? n - at : 4096;
    total += (double)dot(block, x, storage, at, x, storage, at);
  }
  return total;
}

#endif
