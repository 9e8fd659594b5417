/* More rows than one piece of a sum, more tokens than a block has threads, more experts than a warp has
 * lanes, and more rows than a launch has blocks; and the same bits every time. */
#include "kernels/router.h"
#include "tests/kernels/attn_case.h"

/* Largest difference, relative to the largest element of want. */
static double worst(const float *got, const float *want, int64_t n) {
  double most = 0.0, size = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(got[i])) return INFINITY;
    most = fmax(most, fabs((double)got[i] - (double)want[i]));
    size = fmax(size, fabs((double)want[i]));
  }
  return most / size;
}

static float *random_floats(int64_t n, uint32_t seed) {
  float *x = case_alloc(n * 4);
  case_fill(x, SPP_STORE_F32, n, seed, 1.0F);
  return x;
}

enum { NORM_ROWS = 700, NORM_WIDTH = 77 };

/* The gradients of weight and bias, begun from what stands in them; run twice. */
struct norm_grads {
  float rms[NORM_WIDTH], weight[NORM_WIDTH], bias[NORM_WIDTH];
};

static struct norm_grads norm_grads_of(const struct spp_ops *ops) {
  struct norm_grads g;
  int64_t n = NORM_ROWS * NORM_WIDTH;
  float *x = random_floats(n, 1), *dy = random_floats(n, 2), *y = random_floats(n, 3),
        *dx = random_floats(n, 4);
  float *weight = random_floats(NORM_WIDTH, 5), *mean = random_floats(NORM_ROWS, 6),
        *rstd = random_floats(NORM_ROWS, 7);
  case_fill(&g, SPP_STORE_F32, sizeof g / sizeof(float), 8, 1.0F);
  struct spp_rmsnorm r = {NORM_ROWS, NORM_WIDTH, 1e-6F, SPP_STORE_F32, x,   weight, y,
                          rstd,      dy,         dx,    g.rms,         0.0F};
  ops->rmsnorm_forward(&r);
  ops->rmsnorm_backward(&r);
  struct spp_layernorm l = {NORM_ROWS, NORM_WIDTH, 1e-6F, SPP_STORE_F32, x,      weight, weight, y, mean,
                            rstd,      dy,         dx,    g.weight,      g.bias, 0.0F};
  ops->layernorm_forward(&l);
  ops->layernorm_backward(&l);
  float *all[] = {x, dy, y, dx, weight, mean, rstd};
  for (int i = 0; i < 7; i++)
    free(all[i]);
  return g;
}

static void gradients_of_weights_over_many_rows_agree_and_repeat(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  struct norm_grads want = norm_grads_of(all[0]->ops);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    struct norm_grads got = norm_grads_of(all[v]->ops), again = norm_grads_of(all[v]->ops);
    expect_near(worst(got.rms, want.rms, NORM_WIDTH), 0.0, 1e-5);
    expect_near(worst(got.weight, want.weight, NORM_WIDTH), 0.0, 1e-5);
    expect_near(worst(got.bias, want.bias, NORM_WIDTH), 0.0, 1e-5);
    expect_true(memcmp(&got, &again, sizeof got) == 0);
  }
}

enum { TOKENS = 900, TABLE_ROWS = 40, TABLE_WIDTH = 300 };

static float *table_grad_of(const struct spp_ops *ops) {
  static int32_t ids[TOKENS];
  uint32_t seed = 9;
  float *dout = random_floats(TOKENS * TABLE_WIDTH, 1), *dtable = random_floats(TABLE_ROWS * TABLE_WIDTH, 2);
  for (int t = 0; t < TOKENS; t++) /* 60 ids, of which 40 are held; id 17 comes last alone */
    ids[t] = (int32_t)(30.0F * (1.0F + case_random(&seed)));
  ids[TOKENS - 1] = 17;
  struct spp_embedding a = {
      .tokens = TOKENS, .width = TABLE_WIDTH, .first = 10, .rows = TABLE_ROWS, .ids = ids};
  a.dout = dout;
  a.dtable = dtable;
  ops->embedding_backward(&a);
  free(dout);
  return dtable;
}

static void the_gradient_of_a_table_over_many_tokens_agrees_and_repeats(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  float *want = table_grad_of(all[0]->ops);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    float *got = table_grad_of(all[v]->ops), *again = table_grad_of(all[v]->ops);
    expect_near(worst(got, want, TABLE_ROWS * TABLE_WIDTH), 0.0, 1e-6);
    expect_true(memcmp(got, again, TABLE_ROWS * TABLE_WIDTH * 4) == 0);
    free(got);
    free(again);
  }
  free(want);
}

static void more_rows_than_blocks_are_all_done(void **state) {
  (void)state;
  enum { ROWS = 16500, WIDTH = 3 };
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  float *x = random_floats(ROWS * WIDTH, 1), *want = case_alloc(ROWS * WIDTH * 4),
        *got = case_alloc(ROWS * WIDTH * 4);
  all[0]->ops->softmax(ROWS, WIDTH, x, want);
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    memset(got, 0, ROWS * WIDTH * 4);
    all[v]->ops->softmax(ROWS, WIDTH, x, got);
    expect_near(worst(got, want, ROWS * WIDTH), 0.0, 1e-6);
  }
  free(x);
  free(want);
  free(got);
}

/* Columns that a mask has taken out, first and in between. */
static void logits_of_minus_infinity_count_nothing(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 0; v < count; v++) {
    float x[300], y[300];
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    for (int i = 0; i < 300; i++)
      x[i] = i == 7 || i == 290 ? 1.0F : -INFINITY;
    all[v]->ops->softmax(1, 300, x, y);
    for (int i = 0; i < 300; i++)
      expect_near((double)y[i], i == 7 || i == 290 ? 0.5 : 0.0, 1e-6);
  }
}

enum { EXPERTS = 130, TOP_K = 8, ROUTED = 50 };

struct routing {
  float probs[ROUTED * EXPERTS], weights[ROUTED * TOP_K], dlogits[ROUTED * EXPERTS];
  int32_t chosen[ROUTED * TOP_K];
};

/* Logits of eighths: many are equal. */
static void routers_of_many_experts_agree(void **state) {
  (void)state;
  static struct routing want, got;
  float *logits = random_floats(ROUTED * EXPERTS, 1), *dweights = random_floats(ROUTED * TOP_K, 2);
  for (int i = 0; i < ROUTED * EXPERTS; i++)
    logits[i] = roundf(8.0F * logits[i]) / 8.0F;
  for (int kind = 0; kind < 4; kind++) {
    expect_note("normalised %d, sigmoid %d", kind & 1, kind >> 1);
    struct spp_router a = {ROUTED,     EXPERTS,     TOP_K,        kind & 1, kind >> 1,   logits,
                           want.probs, want.chosen, want.weights, dweights, want.dlogits};
    spp_router_forward(spp_kernels_best(), &a);
    spp_router_backward(&a);
    a.probs = got.probs;
    a.chosen = got.chosen;
    a.weights = got.weights;
    a.dlogits = got.dlogits;
    judged_router_forward(judged_best(), &a);
    judged_router_backward(&a);
    expect_true(memcmp(got.chosen, want.chosen, sizeof want.chosen) == 0);
    expect_near(worst(got.weights, want.weights, ROUTED * TOP_K), 0.0, 1e-6);
    expect_near(worst(got.probs, want.probs, ROUTED * EXPERTS), 0.0, 1e-6);
    expect_near(worst(got.dlogits, want.dlogits, ROUTED * EXPERTS), 0.0, 1e-5);
  }
  free(logits);
  free(dweights);
}

static void choices_in_many_groups_agree(void **state) {
  (void)state;
  enum { N = 192 };
  int32_t want[12], got[12];
  for (uint32_t seed = 1; seed < 20; seed++) {
    float *p = random_floats(N, seed);
    const struct spp_router_groups groups = {
        .groups = seed % 2 ? 48 : 64, .open = 1 + seed % 5, .best = 1 + seed % 3};
    int64_t top_k = groups.open * (N / groups.groups) < 12 ? 3 : 12;
    expect_note("%d of %d groups by their %d best", (int)groups.open, (int)groups.groups, (int)groups.best);
    for (int i = 0; i < N; i++)
      p[i] = roundf(4.0F * p[i]);
    spp_router_choose_in_groups(p, N, &groups, top_k, want);
    judged_router_choose_in_groups(p, N, &groups, top_k, got);
    expect_true(memcmp(got, want, (size_t)top_k * sizeof want[0]) == 0);
    free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_of_weights_over_many_rows_agree_and_repeat),
      cmocka_unit_test(the_gradient_of_a_table_over_many_tokens_agrees_and_repeats),
      cmocka_unit_test(more_rows_than_blocks_are_all_done),
      cmocka_unit_test(logits_of_minus_infinity_count_nothing),
      cmocka_unit_test(routers_of_many_experts_agree),
      cmocka_unit_test(choices_in_many_groups_agree),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
