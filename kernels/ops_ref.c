/* Reference operators: one line of mathematics per line of C, in double precision. */
#include "kernels/isa.h"
#include "kernels/ops.h"

#include <math.h>

static double get(const void *x, enum spp_storage storage, int64_t i) {
  return (double)spp_load(x, storage, i);
}

static void put(void *x, enum spp_storage storage, int64_t i, double v) {
  spp_store(x, storage, i, (float)v);
}

static double rms_weight(const struct spp_rmsnorm *a, int64_t i) {
  return get(a->weight, a->storage, i) + (double)a->offset;
}

static void rmsnorm_forward(const struct spp_rmsnorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    double squares = 0.0;
    for (int64_t i = 0; i < a->width; i++)
      squares += pow(get(a->x, a->storage, row + i), 2.0);
    double rstd = 1.0 / sqrt(squares / (double)a->width + (double)a->eps);
    a->rstd[r] = (float)rstd;
    for (int64_t i = 0; i < a->width; i++)
      put(a->y, a->storage, row + i, rms_weight(a, i) * get(a->x, a->storage, row + i) * rstd);
  }
}

/* With g = weight * dy: dx = rstd * (g - x * rstd^2 * mean(g * x)). */
static void rmsnorm_backward(const struct spp_rmsnorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    double rstd = (double)a->rstd[r], dot = 0.0;
    for (int64_t i = 0; i < a->width; i++)
      dot += rms_weight(a, i) * get(a->dy, a->storage, row + i) * get(a->x, a->storage, row + i);
    for (int64_t i = 0; i < a->width; i++) {
      double x = get(a->x, a->storage, row + i), dy = get(a->dy, a->storage, row + i);
      double g = rms_weight(a, i) * dy;
      a->dweight[i] += (float)(dy * x * rstd);
      put(a->dx, a->storage, row + i, rstd * (g - x * rstd * rstd * dot / (double)a->width));
    }
  }
}

static double weight_of(const struct spp_layernorm *a, int64_t i) {
  return a->weight ? get(a->weight, a->storage, i) + (double)a->offset : 1.0;
}

static void layernorm_forward(const struct spp_layernorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    double mean = 0.0, var = 0.0;
    for (int64_t i = 0; i < a->width; i++)
      mean += get(a->x, a->storage, row + i) / (double)a->width;
    for (int64_t i = 0; i < a->width; i++)
      var += pow(get(a->x, a->storage, row + i) - mean, 2.0) / (double)a->width;
    double rstd = 1.0 / sqrt(var + (double)a->eps);
    a->mean[r] = (float)mean;
    a->rstd[r] = (float)rstd;
    for (int64_t i = 0; i < a->width; i++) {
      double n = (get(a->x, a->storage, row + i) - mean) * rstd, bias = 0.0;
      if (a->bias) bias = get(a->bias, a->storage, i);
      put(a->y, a->storage, row + i, weight_of(a, i) * n + bias);
    }
  }
}

/* With n = (x - mean) * rstd, g = weight * dy: dx = rstd * (g - mean(g) - n * mean(g * n)). */
static void layernorm_backward(const struct spp_layernorm *a) {
  for (int64_t r = 0; r < a->rows; r++) {
    int64_t row = r * a->width;
    double mean = (double)a->mean[r], rstd = (double)a->rstd[r], sum_g = 0.0, sum_gn = 0.0;
    for (int64_t i = 0; i < a->width; i++) {
      double g = weight_of(a, i) * get(a->dy, a->storage, row + i);
      sum_g += g;
      sum_gn += g * (get(a->x, a->storage, row + i) - mean) * rstd;
    }
    for (int64_t i = 0; i < a->width; i++) {
      double dy = get(a->dy, a->storage, row + i), n = (get(a->x, a->storage, row + i) - mean) * rstd;
      if (a->weight) a->dweight[i] += (float)(dy * n);
      if (a->bias) a->dbias[i] += (float)dy;
      double g = weight_of(a, i) * dy;
      put(a->dx, a->storage, row + i, rstd * (g - (sum_g + n * sum_gn) / (double)a->width));
    }
  }
}

static void rope(const struct spp_rope *a) {
  int64_t half = spp_rope_width(a) / 2, apart = a->neighbours ? 1 : half;
  for (int64_t t = 0; t < a->tokens; t++)
    for (int64_t h = 0; h < a->heads; h++)
      for (int64_t i = 0; i < half; i++) {
        int64_t at = t * a->row_stride + h * a->head_dim + a->first + (a->neighbours ? 2 * i : i);
        double c = (double)a->cos[t * half + i], s = (double)a->sin[t * half + i] * (double)a->sign;
        double x = get(a->x, a->storage, at), y = get(a->x, a->storage, at + apart);
        put(a->x, a->storage, at, x * c - y * s);
        put(a->x, a->storage, at + apart, y * c + x * s);
      }
}

static void embedding_forward(const struct spp_embedding *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t row = (int64_t)a->ids[t] - a->first;
    bool here = row >= 0 && row < a->rows;
    for (int64_t i = 0; i < a->width; i++)
      put(a->out, a->storage, t * a->width + i, here ? get(a->table, a->storage, row * a->width + i) : 0.0);
  }
}

static void embedding_backward(const struct spp_embedding *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    int64_t row = (int64_t)a->ids[t] - a->first;
    if (row < 0 || row >= a->rows) continue;
    for (int64_t i = 0; i < a->width; i++)
      a->dtable[row * a->width + i] += spp_load(a->dout, a->storage, t * a->width + i);
  }
}

static void cross_entropy_local(const struct spp_cross_entropy *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < a->vocab; j++)
      max = fmax(max, get(a->logits, a->storage, t * a->row_stride + j));
    for (int64_t j = 0; j < a->vocab; j++)
      sum += exp(get(a->logits, a->storage, t * a->row_stride + j) - max);
    int64_t target = (int64_t)a->targets[t] - a->first;
    bool here = a->targets[t] >= 0 && target >= 0 && target < a->vocab;
    a->max[t] = (float)max;
    a->sum[t] = (float)sum;
    a->target_logit[t] = here ? spp_load(a->logits, a->storage, t * a->row_stride + target) : 0.0F;
  }
}

static void cross_entropy_backward(const struct spp_cross_entropy *a) {
  for (int64_t t = 0; t < a->tokens; t++) {
    double grad = a->targets[t] < 0 ? 0.0 : (double)a->grad[t];
    for (int64_t j = 0; j < a->vocab; j++) {
      int64_t at = t * a->row_stride + j;
      double logit = get(a->logits, a->storage, at), cap = (double)a->softcap;
      double p = exp(logit - (double)a->max[t]) / (double)a->sum[t];
      double slope = cap > 0 ? 1.0 - pow(logit / cap, 2.0) : 1.0;
      put(a->dlogits, a->storage, at, grad * slope * (p - (a->first + j == a->targets[t] ? 1.0 : 0.0)));
    }
  }
}

static void adamw(const struct spp_adamw *a) {
  double b1 = (double)a->beta1, b2 = (double)a->beta2, lr = (double)a->lr;
  double c1 = 1.0 - pow(b1, (double)a->step), c2 = sqrt(1.0 - pow(b2, (double)a->step));
  for (int64_t i = 0; i < a->n; i++) {
    double g = get(a->grad, a->grad_storage, i) * (double)a->grad_scale;
    double p = (double)a->master[i] * (1.0 - lr * (double)a->weight_decay);
    double m = b1 * (double)a->m[i] + (1.0 - b1) * g, v = b2 * (double)a->v[i] + (1.0 - b2) * g * g;
    p -= lr / c1 * m / (sqrt(v) / c2 + (double)a->eps);
    a->m[i] = (float)m;
    a->v[i] = (float)v;
    a->master[i] = (float)p;
    if (a->param) a->param[i] = spp_float_to_bf16((float)p);
  }
}

static double sigmoid(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/* The normal distribution, and the argument of the tanh form: sqrt(2/pi) (x + 0.044715 x^3). */
static double normal_below(double x) {
  return 0.5 * (1.0 + erf(x * 0.70710678118654752440));
}
static double tanh_argument(double x) {
  return 0.79788456080286535588 * (x + 0.044715 * x * x * x);
}

static double value_of(enum spp_activation f, double x) {
  const double below = fmin(x, SPP_CLAMP_LIMIT);
  switch (f) {
  case SPP_GELU: return x * normal_below(x);
  case SPP_GELU_TANH: return 0.5 * x * (1.0 + tanh(tanh_argument(x)));
  case SPP_RELU: return fmax(x, 0.0);
  case SPP_RELU2: return fmax(x, 0.0) * fmax(x, 0.0);
  case SPP_SILU_CLAMPED: return below * sigmoid(SPP_CLAMP_SLOPE * below);
  default: return x * sigmoid(x);
  }
}

/* silu' = s * (1 + x * (1 - s)), s = sigmoid(x); gelu' = Phi + x * phi. */
static double slope_of(enum spp_activation f, double x) {
  double s = sigmoid(x), t = tanh(tanh_argument(x)), bend = 0.79788456080286535588 * (1.0 + 0.134145 * x * x);
  switch (f) {
  case SPP_GELU: return normal_below(x) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
  case SPP_GELU_TANH: return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * bend;
  case SPP_RELU: return x > 0.0 ? 1.0 : 0.0;
  case SPP_RELU2: return 2.0 * fmax(x, 0.0);
  case SPP_SILU_CLAMPED:
    s = sigmoid(SPP_CLAMP_SLOPE * x);
    return x > SPP_CLAMP_LIMIT ? 0.0 : s * (1.0 + SPP_CLAMP_SLOPE * x * (1.0 - s));
  default: return s * (1.0 + x * (1.0 - s));
  }
}

static void activation_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                               void *y) {
  for (int64_t i = 0; i < n; i++)
    put(y, storage, i, value_of(f, get(x, storage, i)));
}

static void activation_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                                const void *dy, void *dx) {
  for (int64_t i = 0; i < n; i++)
    put(dx, storage, i, get(dy, storage, i) * slope_of(f, get(x, storage, i)));
}

/* What up contributes to a product of gate and up, and its slope. */
static double factor_of(enum spp_activation f, double up) {
  return f == SPP_SILU_CLAMPED ? 1.0 + fmax(fmin(up, SPP_CLAMP_LIMIT), -SPP_CLAMP_LIMIT) : up;
}
static double factor_slope(enum spp_activation f, double up) {
  return f == SPP_SILU_CLAMPED && fabs(up) > SPP_CLAMP_LIMIT ? 0.0 : 1.0;
}

static void glu_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                        const void *up, void *out) {
  for (int64_t i = 0; i < n; i++)
    put(out, storage, i, value_of(f, get(gate, storage, i)) * factor_of(f, get(up, storage, i)));
}

static void glu_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                         const void *up, const void *dout, void *dgate, void *dup) {
  for (int64_t i = 0; i < n; i++) {
    double g = get(gate, storage, i), u = get(up, storage, i), d = get(dout, storage, i);
    put(dgate, storage, i, d * factor_of(f, u) * slope_of(f, g));
    put(dup, storage, i, d * value_of(f, g) * factor_slope(f, u));
  }
}

static void softcap(int64_t n, float cap, void *x, enum spp_storage storage) {
  for (int64_t i = 0; i < n; i++)
    put(x, storage, i, (double)cap * tanh(get(x, storage, i) / (double)cap));
}

static void softmax(int64_t rows, int64_t n, const float *x, float *y) {
  for (int64_t r = 0; r < rows; r++) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < n; i++)
      max = fmax(max, (double)x[r * n + i]);
    for (int64_t i = 0; i < n; i++)
      sum += exp((double)x[r * n + i] - max);
    for (int64_t i = 0; i < n; i++)
      y[r * n + i] = (float)(exp((double)x[r * n + i] - max) / sum);
  }
}

static void row_dots(int64_t rows, int64_t width, const void *a, int64_t a_stride, enum spp_storage a_storage,
                     const void *b, int64_t b_stride, enum spp_storage b_storage, float *dot,
                     int64_t dot_stride) {
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0.0;
    for (int64_t i = 0; i < width; i++)
      sum += get(a, a_storage, r * a_stride + i) * get(b, b_storage, r * b_stride + i);
    dot[r * dot_stride] = (float)sum;
  }
}

static void convert(int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                    enum spp_storage dst_storage) {
  for (int64_t i = 0; i < n; i++)
    spp_store(dst, dst_storage, i, spp_load(src, src_storage, i));
}

static void add(int64_t n, enum spp_storage storage, const void *a, const void *b, void *out) {
  for (int64_t i = 0; i < n; i++)
    put(out, storage, i, get(a, storage, i) + get(b, storage, i));
}

static void accumulate(int64_t n, float factor, const void *x, enum spp_storage storage, float *sum) {
  for (int64_t i = 0; i < n; i++)
    sum[i] = (float)((double)sum[i] + (double)factor * get(x, storage, i));
}

static void scale(int64_t n, float factor, void *x, enum spp_storage storage) {
  for (int64_t i = 0; i < n; i++)
    put(x, storage, i, (double)factor * get(x, storage, i));
}

static double sum_squares(int64_t n, const void *x, enum spp_storage storage) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    sum += pow(get(x, storage, i), 2.0);
  return sum;
}

const struct spp_ops spp_ops_reference = SPP_OPS_BY_NAME;
