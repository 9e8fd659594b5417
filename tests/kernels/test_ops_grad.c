/* Gradients of the operators against finite differences of forwards written here in double precision.
 * Tolerance: outputs are fp32 (6e-8 of values up to 10) and the central difference errs by about 1e-7. */
#include "kernels/router.h"
#include "kernels/table.h"
#include "tests/expect.h"
#include "tests/kernels/rows.h"

#include <stdlib.h>
#include <string.h>

enum { W = 5 };

/* sum of dy * f(x), with parameters p. */
typedef double objective(const double *x, const double *p, const double *dy);

static double slope(objective *f, double *x, const double *p, const double *dy, double *at) {
  const double h = 1e-5;
  double keep = *at;
  *at = keep + h;
  double up = f(x, p, dy);
  *at = keep - h;
  double down = f(x, p, dy);
  *at = keep;
  return (up - down) / (2 * h);
}

#define OFFSET 0.5 /* on the weights of norms */

static double norm_x[W] = {0.5, -1.5, 2.0, 0.25, -0.75},
              norm_p[2 * W] = {1.5, 0.5, -1.0, 2.0, 0.75, 0.1, 0.2, 0.3};
static double norm_dy[W] = {1.0, -0.5, 0.25, 2.0, -1.25};

static double rms(const double *x, const double *p, const double *dy) {
  double squares = 0.0, total = 0.0;
  for (int i = 0; i < W; i++)
    squares += x[i] * x[i];
  for (int i = 0; i < W; i++)
    total += dy[i] * (p[i] + OFFSET) * x[i] / sqrt(squares / W + 0.25);
  return total;
}

static double layer(const double *x, const double *p, const double *dy) {
  double mean = 0.0, var = 0.0, total = 0.0;
  for (int i = 0; i < W; i++)
    mean += x[i] / W;
  for (int i = 0; i < W; i++)
    var += (x[i] - mean) * (x[i] - mean) / W;
  for (int i = 0; i < W; i++)
    total += dy[i] * ((p[i] + OFFSET) * (x[i] - mean) / sqrt(var + 0.25) + p[W + i]);
  return total;
}

static double value(enum spp_activation f, double x) {
  double above = fmax(x, 0.0);
  switch (f) {
  case SPP_GELU: return x / 2 * (1.0 + erf(x / sqrt(2.0)));
  case SPP_GELU_TANH: return x / 2 * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
  case SPP_RELU: return above;
  case SPP_RELU2: return above * above;
  case SPP_SILU_CLAMPED: return fmin(x, 7.0) / (1.0 + exp(-1.702 * fmin(x, 7.0)));
  default: return x / (1.0 + exp(-x));
  }
}

static double factor(enum spp_activation f, double up) {
  return f == SPP_SILU_CLAMPED ? 1.0 + fmax(fmin(up, 7.0), -7.0) : up;
}

/* p[W]: which function; gated by p[0..W). */
static double gated(const double *x, const double *p, const double *dy) {
  double total = 0.0;
  for (int i = 0; i < W; i++)
    total +=
        dy[i] * value((enum spp_activation)(int)p[W], x[i]) * factor((enum spp_activation)(int)p[W], p[i]);
  return total;
}
static double plain(const double *x, const double *p, const double *dy) {
  double total = 0.0;
  for (int i = 0; i < W; i++)
    total += dy[i] * value((enum spp_activation)(int)p[W], x[i]);
  return total;
}

/* Of capped logits: minus the log-probability of the second. */
static double capped(const double *x, const double *p, const double *dy) {
  double sum = 0.0;
  (void)dy;
  for (int i = 0; i < W; i++)
    sum += exp(p[0] * tanh(x[i] / p[0]));
  return log(sum) - p[0] * tanh(x[1] / p[0]);
}

static void to_float(const double *x, float *y, int n) {
  for (int i = 0; i < n; i++)
    y[i] = (float)x[i];
}

static void check_norms(const struct spp_ops *ops) {
  float x[W], p[2 * W], y[W], rstd, mean, dy[W], dx[W], dweight[W] = {0}, dbias[W] = {0};
  to_float(norm_x, x, W);
  to_float(norm_p, p, 2 * W);
  to_float(norm_dy, dy, W);
  struct spp_rmsnorm r = {1, W, 0.25F, SPP_STORE_F32, x, p, y, &rstd, dy, dx, dweight, (float)OFFSET};
  ops->rmsnorm_forward(&r);
  ops->rmsnorm_backward(&r);
  for (int i = 0; i < W; i++) {
    expect_near((double)dx[i], slope(rms, norm_x, norm_p, norm_dy, &norm_x[i]), 1e-6);
    expect_near((double)dweight[i], slope(rms, norm_x, norm_p, norm_dy, &norm_p[i]), 1e-6);
    dweight[i] = 0.0F;
  }
  struct spp_layernorm l = {1,  W,       0.25F, SPP_STORE_F32, x, p, p + W, y, &mean, &rstd, dy,
                            dx, dweight, dbias, (float)OFFSET};
  ops->layernorm_forward(&l);
  ops->layernorm_backward(&l);
  for (int i = 0; i < W; i++) {
    expect_near((double)dx[i], slope(layer, norm_x, norm_p, norm_dy, &norm_x[i]), 1e-6);
    expect_near((double)dweight[i], slope(layer, norm_x, norm_p, norm_dy, &norm_p[i]), 1e-6);
    expect_near((double)dbias[i], slope(layer, norm_x, norm_p, norm_dy, &norm_p[W + i]), 1e-6);
  }
}

/* The bias and the weight may be missing. */
static void check_bare_norm(const struct spp_ops *ops) {
  float x[W], p[2 * W], y[W], rstd, mean, dy[W], dweight[W] = {0};
  to_float(norm_x, x, W);
  to_float(norm_p, p, 2 * W);
  to_float(norm_dy, dy, W);
  double bare[2 * W] = {1 - OFFSET, 1 - OFFSET, 1 - OFFSET, 1 - OFFSET, 1 - OFFSET};
  struct spp_layernorm l = {1,     W,  0.25F, SPP_STORE_F32, x,    NULL,         NULL, y, &mean,
                            &rstd, dy, dy,    NULL,          NULL, (float)OFFSET};
  ops->layernorm_forward(&l);
  ops->layernorm_backward(&l);
  for (int i = 0; i < W; i++)
    expect_near((double)dy[i], slope(layer, norm_x, bare, norm_dy, &norm_x[i]), 1e-6);
  to_float(norm_dy, dy, W);
  l.weight = p;
  l.dweight = dweight;
  l.dx = x;
  ops->layernorm_forward(&l);
  ops->layernorm_backward(&l);
  for (int i = 0; i < W; i++) {
    expect_near((double)x[i], slope(layer, norm_x, norm_p, norm_dy, &norm_x[i]), 1e-6);
    expect_near((double)dweight[i], slope(layer, norm_x, norm_p, norm_dy, &norm_p[i]), 1e-6);
  }
}

/* No element of norm_x is where ReLU has a corner. */
static void check_activations(const struct spp_ops *ops) {
  float x[W], p[W], dy[W], dx[W], dp[W], y[W];
  to_float(norm_x, x, W);
  to_float(norm_p, p, W);
  to_float(norm_dy, dy, W);
  for (int f = 0; f < SPP_ACTIVATION_COUNT; f++) {
    enum spp_activation which = (enum spp_activation)f;
    double terms[W + 1];
    memcpy(terms, norm_p, sizeof terms);
    terms[W] = f;
    ops->activation_forward(which, W, SPP_STORE_F32, x, y);
    ops->glu_backward(which, W, SPP_STORE_F32, x, p, dy, dx, dp);
    for (int i = 0; i < W; i++) {
      expect_near((double)y[i], value(which, norm_x[i]), 1e-6);
      expect_near((double)dx[i], slope(gated, norm_x, terms, norm_dy, &norm_x[i]), 1e-6);
      expect_near((double)dp[i], slope(gated, norm_x, terms, norm_dy, &terms[i]), 1e-6);
    }
    ops->activation_backward(which, W, SPP_STORE_F32, x, dy, dx);
    for (int i = 0; i < W; i++)
      expect_near((double)dx[i], slope(plain, norm_x, terms, norm_dy, &norm_x[i]), 1e-6);
  }
}

/* Beyond its limits the clamped function follows neither input. */
static void check_clamp(const struct spp_ops *ops) {
  float gate[4] = {8.0F, 1.0F, 1.0F, 7.0F}, up[4] = {0.0F, 9.0F, -9.0F, 7.0F}, y[4], d[4] = {1, 1, 1, 1};
  float s = 1.0F / (1.0F + expf(-1.702F)), t = 7.0F / (1.0F + expf(-1.702F * 7.0F));
  const float expected[4] = {t, 8.0F * s, -6.0F * s, 8.0F * t};
  ops->glu_forward(SPP_SILU_CLAMPED, 4, SPP_STORE_F32, gate, up, y);
  ops->glu_backward(SPP_SILU_CLAMPED, 4, SPP_STORE_F32, gate, up, d, gate, up);
  for (int i = 0; i < 4; i++)
    expect_rel((double)y[i], (double)expected[i], 1e-6);
  expect_near((double)gate[0], 0.0, 0.0);
  expect_near((double)up[1], 0.0, 0.0);
  expect_near((double)up[2], 0.0, 0.0);
  expect_near((double)up[3], (double)t, 1e-6);
}

static void check_softcap(const struct spp_ops *ops) {
  float x[W], max, sum, own, grad = 1.0F;
  const int32_t target = 1;
  double cap = 1.5;
  to_float(norm_x, x, W);
  struct spp_cross_entropy a = {1, W, 0, SPP_STORE_F32, x, W, &target, &max, &sum, &own, &grad, x, 1.5F};
  ops->softcap(W, 1.5F, x, SPP_STORE_F32);
  ops->cross_entropy_local(&a);
  ops->cross_entropy_backward(&a);
  for (int i = 0; i < W; i++)
    expect_near((double)x[i], slope(capped, norm_x, &cap, norm_dy, &norm_x[i]), 1e-6);
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    check_norms(all[v]->ops);
    check_bare_norm(all[v]->ops);
    check_activations(all[v]->ops);
    check_clamp(all[v]->ops);
    check_softcap(all[v]->ops);
  }
}

/* Weights of the two largest of norm_x (experts 2 and 0), with dy in the order of the choice. p[0] != 0:
 * normalised. */
static double route(const double *x, const double *p, const double *dy) {
  double all = 0.0, e2 = exp(x[2]), e0 = exp(x[0]);
  for (int i = 0; i < W; i++)
    all += exp(x[i]);
  double sum = p[0] != 0.0 ? e2 + e0 : all;
  return dy[0] * e2 / sum + dy[1] * e0 / sum;
}

static void router_gradients_match_finite_differences(void **state) {
  (void)state;
  float logits[W], probs[W], weights[2], dweights[2] = {1.0F, -0.5F}, dlogits[W];
  int32_t chosen[2];
  to_float(norm_x, logits, W);
  for (int normalise = 0; normalise < 2; normalise++) {
    const double p[1] = {(double)normalise};
    struct spp_router a = {1, W, 2, normalise == 1, false, logits, probs, chosen, weights, dweights, dlogits};
    judged_router_forward(judged_best(), &a);
    expect_i64(chosen[0], 2);
    expect_i64(chosen[1], 0);
    judged_router_backward(&a);
    for (int i = 0; i < W; i++)
      expect_near((double)dlogits[i], slope(route, norm_x, p, norm_dy, &norm_x[i]), 1e-6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_match_finite_differences),
      cmocka_unit_test(router_gradients_match_finite_differences),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
