/* The judge itself: a worked example, and its gradients against finite differences of a separate forward. */
#include "tests/kernels/attn_case.h"

enum { Q = 3, K = 4, H = 2, D = 8 };

/* One query (1,0,...), keys ln 3 * e0 and 0, scale 1: scores ln 3 and 0, probabilities 3/4 and 1/4,
 * lse = ln(3 + 1) = 1.386294; values 1 and 5 give 0.75 * 1 + 0.25 * 5 = 2. */
static void a_worked_row(void **state) {
  (void)state;
  int count;
  struct spp_attn_shape shape = SHAPE(1, 2, 1, 1, D, 1.0F, {.kind = SPP_MASK_FULL});
  struct attn_case c = case_make(shape, SPP_STORE_F32);
  float *q = c.q.data, *k = c.k.data, *v = c.v.data;
  for (int64_t d = 0; d < D; d++) {
    q[d] = d == 0 ? 1.0F : 0.0F;
    k[d] = d == 0 ? logf(3.0F) : 0.0F;
    k[c.k.row_stride + d] = 0.0F;
    v[d] = 1.0F;
    v[c.v.row_stride + d] = 5.0F;
  }
  case_forward(judged_rows(&count)[0], &c, (struct spp_attn_options){0});
  expect_rel((double)c.lse.data[0], log(4.0), 1e-6);
  for (int64_t d = 0; d < D; d++)
    expect_rel((double)case_at(&c.out, 0, d), 2.0, 1e-6);
  case_free(&c);
}

/* v has 8 + 8 elements in one of the kinds below. */
enum { V = 16 };
struct inputs {
  double q[Q][H][D], k[K][D], v[K][V], dout[Q][H][V], sinks[H];
};

static const float slopes[H] = {0.5F, 0.125F}, sinks[H] = {0.25F, -1.0F};
static const struct kind {
  const char *name;
  int v_dim;
  double cap;
  bool slopes, sinks;
} kinds[] = {{"plain", D, 0, false, false},
             {"capped", D, 0.75, false, false},
             {"linear biases", D, 0, true, false},
             {"sinks", D, 0, false, true},
             {"all of it, v wider", V, 1.5, true, true}};

/* sum of dout * attention(q, k, v), causal with queries one position late; written apart from the kernels. */
static double objective(const struct inputs *x, const struct kind *kind) {
  double total = 0.0;
  for (int i = 0; i < Q; i++)
    for (int h = 0; h < H; h++) {
      double weight[K], sum = kind->sinks ? exp(x->sinks[h]) : 0.0;
      for (int j = 0; j <= i + 1; j++) {
        double s = 0.0;
        for (int d = 0; d < D; d++)
          s += x->q[i][h][d] * x->k[j][d] * 0.5;
        if (kind->cap > 0) s = kind->cap * tanh(s / kind->cap);
        if (kind->slopes) s += (double)slopes[h] * (j - (i + 1));
        weight[j] = exp(s);
        sum += weight[j];
      }
      for (int j = 0; j <= i + 1; j++)
        for (int d = 0; d < kind->v_dim; d++)
          total += weight[j] / sum * x->v[j][d] * x->dout[i][h][d];
    }
  return total;
}

/* Central difference: truncation h^2/6 f''' with h = 1e-4 and rounding 1e-16/h are both below 1e-8. */
static double slope(struct inputs *x, const struct kind *kind, double *at) {
  const double h = 1e-4;
  double keep = *at;
  *at = keep + h;
  double up = objective(x, kind);
  *at = keep - h;
  double down = objective(x, kind);
  *at = keep;
  return (up - down) / (2 * h);
}

static void check_kind(const struct kind *kind) {
  int count;
  struct spp_attn_shape shape = SHAPE(Q, K, H, 1, D, 0.5F, spp_mask_causal(1, 0));
  shape.v_head_dim = kind->v_dim;
  shape.cap = (float)kind->cap;
  shape.slopes = kind->slopes ? slopes : NULL;
  struct attn_case c = case_make(shape, SPP_STORE_F32);
  struct inputs x;
  c.sinks = kind->sinks ? sinks : NULL;
  for (int h = 0; h < H; h++)
    x.sinks[h] = (double)sinks[h];
  for (int i = 0; i < Q; i++)
    for (int h = 0; h < H; h++)
      for (int d = 0; d < V; d++) {
        if (d < D) x.q[i][h][d] = (double)case_at(&c.q, i, h * D + d);
        if (d < kind->v_dim) x.dout[i][h][d] = (double)case_at(&c.dout, i, h * kind->v_dim + d);
      }
  for (int j = 0; j < K; j++)
    for (int d = 0; d < V; d++) {
      if (d < D) x.k[j][d] = (double)case_at(&c.k, j, d);
      if (d < kind->v_dim) x.v[j][d] = (double)case_at(&c.v, j, d);
    }
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s, %s", all[v]->name, kind->name);
    case_forward(all[v], &c, (struct spp_attn_options){0});
    judged_attn_delta(judged_best(), &c.shape, c.dout, c.out, c.delta);
    case_backward(all[v], &c, (struct spp_attn_options){0});
    for (int i = 0; i < Q; i++)
      for (int h = 0; h < H; h++)
        for (int d = 0; d < D; d++)
          expect_near((double)case_at(&c.dq, i, h * D + d), slope(&x, kind, &x.q[i][h][d]), 2e-6);
    for (int j = 0; j < K; j++) {
      for (int d = 0; d < D; d++)
        expect_near((double)case_at(&c.dk, j, d), slope(&x, kind, &x.k[j][d]), 2e-6);
      for (int d = 0; d < kind->v_dim; d++)
        expect_near((double)case_at(&c.dv, j, d), slope(&x, kind, &x.v[j][d]), 2e-6);
    }
    float dsinks[H] = {1.0F, 1.0F};
    if (kind->sinks) judged_attn_sink_grad(&c.shape, sinks, c.lse, c.delta, dsinks);
    for (int h = 0; kind->sinks && h < H; h++)
      expect_near((double)dsinks[h], 1.0 + slope(&x, kind, &x.sinks[h]), 2e-6);
  }
  case_free(&c);
}

static void gradients_match_finite_differences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    check_kind(&kinds[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_worked_row),
      cmocka_unit_test(gradients_match_finite_differences),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
