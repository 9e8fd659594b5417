/* Attention problems for the tests: filled from a fixed sequence, owned in one place. */
#ifndef SPP_TESTS_KERNELS_ATTN_CASE_H
#define SPP_TESTS_KERNELS_ATTN_CASE_H

#include "kernels/attention.h"
#include "kernels/table.h"
#include "tests/expect.h"
#include "tests/kernels/rows.h"

#include <stdlib.h>

#define SHAPE(q, kv, heads_q, heads_kv, dim, factor, ...)                                                    \
  {                                                                                                          \
    .q_tokens = (q), .kv_tokens = (kv), .q_heads = (heads_q), .kv_heads = (heads_kv), .head_dim = (dim),     \
    .scale = (factor), .mask = __VA_ARGS__                                                                   \
  }

struct attn_case {
  struct spp_attn_shape shape;
  enum spp_storage storage;
  struct spp_rows q, k, v, dout, out, dq, dk, dv;
  struct spp_row_stats lse, delta;
  const float *sinks;
};

__attribute__((unused)) static void *case_alloc(int64_t bytes) {
  void *p = calloc(1, (size_t)(bytes > 0 ? bytes : 1));
  assert_non_null(p);
  return p;
}

/* Uniform in [-1, 1) from a linear congruential sequence (Numerical Recipes constants). */
__attribute__((unused)) static float case_random(uint32_t *state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)((double)*state / 2147483648.0 - 1.0);
}

__attribute__((unused)) static void case_fill(void *p, enum spp_storage storage, int64_t n, uint32_t seed,
                                              float size) {
  for (int64_t i = 0; i < n; i++)
    spp_store(p, storage, i, size * case_random(&seed));
}

/* `gap` unused elements between rows: kernels must honour strides. */
__attribute__((unused)) static struct spp_rows case_rows(int64_t tokens, int64_t width, int64_t gap,
                                                         enum spp_storage storage, uint32_t seed) {
  struct spp_rows x = {case_alloc(tokens * (width + gap) * spp_storage_bytes(storage)), width + gap, storage};
  case_fill(x.data, storage, tokens * (width + gap), seed, 1.0F);
  return x;
}

__attribute__((unused)) static struct attn_case case_make(struct spp_attn_shape s, enum spp_storage storage) {
  struct attn_case c = {.shape = s, .storage = storage};
  int64_t qw = s.q_heads * s.head_dim, kw = s.kv_heads * s.head_dim;
  int64_t ow = s.q_heads * spp_attn_v_dim(&s), vw = s.kv_heads * spp_attn_v_dim(&s);
  if (c.shape.scale <= 0.0F) c.shape.scale = 1.0F / sqrtf((float)s.head_dim);
  c.q = case_rows(s.q_tokens, qw, 3, storage, 1);
  c.k = case_rows(s.kv_tokens, kw, 5, storage, 2);
  c.v = case_rows(s.kv_tokens, vw, 0, storage, 3);
  c.dout = case_rows(s.q_tokens, ow, 1, storage, 4);
  c.out = case_rows(s.q_tokens, ow, 2, storage, 5);
  c.dq = case_rows(s.q_tokens, qw, 4, storage, 6);
  c.dk = case_rows(s.kv_tokens, kw, 0, storage, 7);
  c.dv = case_rows(s.kv_tokens, vw, 7, storage, 8);
  c.lse = (struct spp_row_stats){case_alloc(s.q_heads * (s.q_tokens + 1) * 4), s.q_tokens + 1};
  c.delta = (struct spp_row_stats){case_alloc(s.q_heads * (s.q_tokens + 1) * 4), s.q_tokens + 1};
  return c;
}

__attribute__((unused)) static void case_free(struct attn_case *c) {
  struct spp_rows *rows[] = {&c->q, &c->k, &c->v, &c->dout, &c->out, &c->dq, &c->dk, &c->dv};
  for (int i = 0; i < 8; i++)
    free(rows[i]->data);
  free(c->lse.data);
  free(c->delta.data);
}

__attribute__((unused)) static void case_forward(const struct spp_kernels *kernels, const struct attn_case *c,
                                                 struct spp_attn_options options) {
  struct spp_attn_forward f = {c->shape, options, c->q, c->k, c->v, c->out, c->lse, c->sinks};
  struct spp_diag diag = {0};
  void *workspace = case_alloc(spp_attn_forward_workspace_bytes(kernels, &f));
  expect_status(judged_attn_forward(kernels, &f, workspace, &diag), SPP_OK, &diag);
  free(workspace);
}

/* With c->lse and c->delta as they are. */
__attribute__((unused)) static void
case_backward(const struct spp_kernels *kernels, const struct attn_case *c, struct spp_attn_options options) {
  struct spp_attn_backward b = {c->shape, options,  c->q,  c->k,  c->v, c->dout,
                                c->lse,   c->delta, c->dq, c->dk, c->dv};
  struct spp_diag diag = {0};
  void *workspace = case_alloc(spp_attn_backward_workspace_bytes(kernels, &b));
  expect_status(judged_attn_backward(kernels, &b, workspace, &diag), SPP_OK, &diag);
  free(workspace);
}

__attribute__((unused)) static float case_at(const struct spp_rows *x, int64_t t, int64_t i) {
  return spp_load(x->data, x->storage, t * x->row_stride + i);
}

/* sqrt(sum (a - b)^2 / sum (b^2 + 0.01^2)) over the rows, infinite when a holds a NaN. Inputs are of size 1
 * and results mostly above 0.01; the floor is for gradients that cancel to 0 (a query that sees one key). */
__attribute__((unused)) static double case_error(const struct spp_rows *a, const struct spp_rows *b,
                                                 int64_t tokens, int64_t width) {
  double diff = 0.0, size = 0.0;
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t i = 0; i < width; i++) {
      double x = (double)case_at(a, t, i), y = (double)case_at(b, t, i);
      if (!isfinite(x)) return INFINITY;
      diff += (x - y) * (x - y);
      size += y * y + 1e-4;
    }
  return diff == 0.0 ? 0.0 : sqrt(diff / size);
}

#endif
