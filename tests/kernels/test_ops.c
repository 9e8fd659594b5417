/* Every operator of every usable variant against the reference, over odd widths and both storage types. */
#include "kernels/cross_entropy.h"
#include "kernels/router.h"
#include "kernels/table.h"
#include "tests/expect.h"
#include "tests/kernels/attn_case.h"

enum { ROWS = 5, MOST = 1003, N = ROWS * MOST };
static const int64_t widths[] = {1, 2, 7, 16, 33, 64, 100, 257, MOST};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* Named arrays of one run; b[i] are activations in `storage`, f[i] are fp32. */
struct arrays {
  void *b[8];
  float *f[6];
  enum spp_storage storage;
};

static struct arrays make_arrays(enum spp_storage storage) {
  struct arrays x = {.storage = storage};
  for (uint32_t i = 0; i < 8; i++) {
    x.b[i] = case_alloc(N * 4);
    case_fill(x.b[i], storage, N, i + 1, 3.0F);
  }
  for (uint32_t i = 0; i < 6; i++) {
    x.f[i] = case_alloc(N * 4);
    case_fill(x.f[i], SPP_STORE_F32, N, i + 20, 1.0F);
  }
  return x;
}

static void free_arrays(struct arrays *x) {
  for (int i = 0; i < 8; i++)
    free(x->b[i]);
  for (int i = 0; i < 6; i++)
    free(x->f[i]);
}

/* Element by element: fp32 within 1e-5 of the larger of |value| and `size`; bf16 within one unit of 8 bits.
 */
static void expect_close(const void *got, const void *want, enum spp_storage storage, int64_t n,
                         double size) {
  double rel = storage == SPP_STORE_F32 ? 1e-5 : 1.0 / 128.0;
  for (int64_t i = 0; i < n; i++) {
    double x = (double)spp_load(got, storage, i), y = (double)spp_load(want, storage, i);
    if (!(fabs(x - y) <= rel * fmax(fabs(y), size)))
      expect_fail_at(__FILE__, __LINE__, "element %d is %.9g, expected %.9g", (int)i, x, y);
  }
}

static void expect_arrays_close(const struct arrays *got, const struct arrays *want) {
  for (int i = 0; i < 8; i++)
    expect_close(got->b[i], want->b[i], got->storage, N, 1.0);
  for (int i = 0; i < 6; i++)
    expect_close(got->f[i], want->f[i], SPP_STORE_F32, N, 1.0);
}

static void run_rmsnorm(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  struct spp_rmsnorm a = {ROWS,    w,       1e-6F,   x->storage, x->b[0], x->b[1],
                          x->b[2], x->f[0], x->b[3], x->b[4],    x->f[1], 1.0F};
  ops->rmsnorm_forward(&a);
  ops->rmsnorm_backward(&a);
}

static void run_layernorm(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  struct spp_layernorm a = {.rows = ROWS, .width = w, .eps = 1e-5F, .storage = x->storage};
  a.x = x->b[0];
  a.weight = x->b[1];
  a.bias = x->b[2];
  a.offset = 1.0F;
  a.y = x->b[3];
  a.mean = x->f[0];
  a.rstd = x->f[1];
  a.dy = x->b[4];
  a.dx = x->b[4];
  a.dweight = x->f[2];
  a.dbias = x->f[3];
  ops->layernorm_forward(&a);
  if (w > 2) ops->layernorm_backward(&a); /* of two elements the normalised are +-1 and dx cancels to noise */
}

static void run_rope(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  struct spp_rope a = {.tokens = ROWS,
                       .heads = 1,
                       .head_dim = w / 2 * 2,
                       .storage = x->storage,
                       .x = x->b[0],
                       .row_stride = w,
                       .cos = x->f[0],
                       .sin = x->f[1],
                       .sign = 1.0F};
  ops->rope(&a);
}

static void run_embedding(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  static const int32_t ids[ROWS] = {12, 9, 10, 12, 99};
  struct spp_embedding a = {ROWS, w, 10, 3, x->storage, ids, x->b[0], x->b[1], x->b[2], x->f[0]};
  ops->embedding_forward(&a);
  ops->embedding_backward(&a);
}

static void run_cross_entropy(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  static const int32_t targets[ROWS] = {40, -100, 39, 40, 1000};
  struct spp_cross_entropy a = {ROWS,    w,       40,      x->storage, x->b[0], w,   targets,
                                x->f[0], x->f[1], x->f[2], x->f[3],    x->b[0], 0.0F};
  ops->cross_entropy_local(&a);
  ops->cross_entropy_backward(&a);
}

static void run_adamw(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  for (int64_t i = 0; i < w; i++)
    x->f[2][i] = fabsf(x->f[2][i]);
  struct spp_adamw a = {w,    3,       0.01F,      0.9F,    0.95F,   1e-8F,   0.1F,
                        0.5F, x->b[0], x->storage, x->f[0], x->f[1], x->f[2], NULL};
  if (x->storage == SPP_STORE_BF16) a.param = x->b[1];
  ops->adamw(&a);
}

/* Each function for itself, whose results are of the size of their inputs. */
#define RUN_ACTIVATION(name, f)                                                                              \
  static void run_##name(const struct spp_ops *ops, struct arrays *x, int64_t w) {                           \
    ops->activation_forward(f, w, x->storage, x->b[0], x->b[2]);                                             \
    ops->activation_backward(f, w, x->storage, x->b[0], x->b[1], x->b[4]);                                   \
    ops->activation_backward(f, w, x->storage, x->b[0], x->b[1], x->b[1]);                                   \
    ops->glu_forward(f, w, x->storage, x->b[0], x->b[5], x->b[6]);                                           \
    ops->glu_backward(f, w, x->storage, x->b[0], x->b[5], x->b[3], x->b[0], x->b[5]);                        \
  }
RUN_ACTIVATION(silu, SPP_SILU)
RUN_ACTIVATION(gelu, SPP_GELU)
RUN_ACTIVATION(gelu_tanh, SPP_GELU_TANH)
RUN_ACTIVATION(relu, SPP_RELU)
RUN_ACTIVATION(relu2, SPP_RELU2)
RUN_ACTIVATION(silu_clamped, SPP_SILU_CLAMPED)

/* No bias; no weight either; gradients in place of the input. */
static void run_layernorm_parts(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  struct spp_layernorm a = {.rows = ROWS, .width = w, .eps = 1e-5F, .storage = x->storage};
  a.x = x->b[0];
  a.weight = x->b[1];
  a.y = x->b[3];
  a.mean = x->f[0];
  a.rstd = x->f[1];
  a.dy = x->b[4];
  a.dx = x->b[0];
  a.dweight = x->f[2];
  ops->layernorm_forward(&a);
  if (w > 2) ops->layernorm_backward(&a);
  a.weight = NULL;
  a.x = x->b[5];
  a.y = x->b[6];
  a.mean = x->f[3];
  a.rstd = x->f[4];
  a.dx = x->b[5];
  ops->layernorm_forward(&a);
  if (w > 2) ops->layernorm_backward(&a);
}

static void run_rmsnorm_in_place(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  struct spp_rmsnorm a = {ROWS,    w,       1e-6F,   x->storage, x->b[0], x->b[1],
                          x->b[2], x->f[0], x->b[3], x->b[0],    x->f[1], 0.0F};
  ops->rmsnorm_forward(&a);
  ops->rmsnorm_backward(&a);
}

static void run_softcap(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  static const int32_t targets[ROWS] = {40, -100, 39, 40, 1000};
  struct spp_cross_entropy a = {ROWS,    w,       40,      x->storage, x->b[0], w,   targets,
                                x->f[0], x->f[1], x->f[2], x->f[3],    x->b[0], 0.0F};
  a.softcap = 2.5F;
  ops->softcap(ROWS * w, a.softcap, x->b[0], x->storage);
  ops->cross_entropy_local(&a);
  ops->cross_entropy_backward(&a);
}

static void run_softmax(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  ops->softmax(ROWS, w, x->f[0], x->f[1]);
}

static void run_small(const struct spp_ops *ops, struct arrays *x, int64_t w) {
  ops->row_dots(ROWS, w, x->b[0], w, x->storage, x->b[1], w, x->storage, x->f[0], 2);
  ops->convert(w, x->f[1], SPP_STORE_F32, x->b[2], x->storage);
  ops->convert(w, x->b[3], x->storage, x->f[2], SPP_STORE_F32);
  ops->add(w, x->storage, x->b[4], x->b[5], x->b[4]);
  ops->accumulate(w, 0.3F, x->b[5], x->storage, x->f[3]);
  ops->scale(w, -1.7F, x->b[6], x->storage);
  x->f[4][0] = (float)ops->sum_squares(ROWS * w, x->b[5], x->storage);
}

static const struct {
  const char *name;
  void (*run)(const struct spp_ops *ops, struct arrays *x, int64_t width);
} operators[] = {{"rmsnorm", run_rmsnorm},
                 {"layernorm", run_layernorm},
                 {"rope", run_rope},
                 {"embedding", run_embedding},
                 {"cross entropy", run_cross_entropy},
                 {"adamw", run_adamw},
                 {"rmsnorm in place", run_rmsnorm_in_place},
                 {"layernorm without bias, without weight", run_layernorm_parts},
                 {"silu", run_silu},
                 {"gelu", run_gelu},
                 {"gelu, tanh form", run_gelu_tanh},
                 {"relu", run_relu},
                 {"relu^2", run_relu2},
                 {"silu, clamped", run_silu_clamped},
                 {"soft cap", run_softcap},
                 {"softmax", run_softmax},
                 {"small ones", run_small}};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

static void judge(const struct spp_kernels *kernels, int op, int64_t width, enum spp_storage storage) {
  int count;
  struct arrays want = make_arrays(storage), got = make_arrays(storage);
  operators[op].run(judged_rows(&count)[0]->ops, &want, width);
  operators[op].run(kernels->ops, &got, width);
  expect_note("%s, %s of %d, %s", kernels->name, operators[op].name, (int)width, storage ? "bf16" : "fp32");
  expect_arrays_close(&got, &want);
  free_arrays(&want);
  free_arrays(&got);
}

/* Arrays an operator does not write keep their fill, so a write past a row is seen too. */
static void every_variant_agrees_with_the_reference(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 1; v < count; v++)
    for (int op = 0; spp_kernels_usable(all[v]) && op < OPERATORS; op++)
      for (int w = 0; w < WIDTHS; w++)
        for (int storage = SPP_STORE_F32; storage <= SPP_STORE_BF16; storage++)
          judge(all[v], op, widths[w], (enum spp_storage)storage);
}

/* Logits (0, ln 3), target the second: p = 3/4, loss = ln(4/3), gradient (1/4, -1/4). */
static void cross_entropy_of_two_columns(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    float logits[2] = {0.0F, logf(3.0F)}, max, sum, own, loss, grad = 1.0F;
    int32_t target = 1;
    int64_t counted;
    struct spp_cross_entropy a = {1,    2,    0,    SPP_STORE_F32, logits, 2,   &target,
                                  &max, &sum, &own, &grad,         logits, 0.0F};
    all[v]->ops->cross_entropy_local(&a);
    expect_rel(spp_cross_entropy_loss(1, &target, &max, &sum, &own, &loss, &counted), log(4.0 / 3.0), 1e-6);
    expect_i64(counted, 1);
    all[v]->ops->cross_entropy_backward(&a);
    expect_rel((double)logits[0], 0.25, 1e-6);
    expect_rel((double)logits[1], -0.25, 1e-6);
  }
}

enum { TOKENS = 6, VOCAB = 50 };

struct ce_run {
  float logits[TOKENS * VOCAB], max[TOKENS], sum[TOKENS], own[TOKENS], loss[TOKENS];
};

static const int32_t ce_targets[TOKENS] = {0, 49, 20, -100, 19, 30};
static float ce_grad[TOKENS] = {1, 1, 1, 1, 1, 1};

static struct spp_cross_entropy ce_args(struct ce_run *r, int64_t first, int64_t vocab) {
  return (struct spp_cross_entropy){
      TOKENS, vocab,  first,  SPP_STORE_F32, r->logits + first, VOCAB, ce_targets,
      r->max, r->sum, r->own, ce_grad,       r->logits + first, 0.0F};
}

/* Two ranks with 20 and 30 columns, reduced as all-reduces would, give the loss and gradient of the whole. */
static void parts_of_the_vocabulary_give_the_whole_loss(void **state) {
  (void)state;
  const struct spp_ops *ops = judged_best()->ops;
  static struct ce_run whole, left, right;
  case_fill(whole.logits, SPP_STORE_F32, TOKENS * VOCAB, 5, 8.0F);
  left = right = whole;
  struct spp_cross_entropy w = ce_args(&whole, 0, VOCAB), l = ce_args(&left, 0, 20),
                           r = ce_args(&right, 20, 30);
  float top[TOKENS];
  int64_t counted;
  ops->cross_entropy_local(&w);
  ops->cross_entropy_local(&l);
  ops->cross_entropy_local(&r);
  for (int t = 0; t < TOKENS; t++)
    top[t] = fmaxf(left.max[t], right.max[t]);
  spp_cross_entropy_rescale(TOKENS, left.max, top, left.sum);
  spp_cross_entropy_rescale(TOKENS, right.max, top, right.sum);
  for (int t = 0; t < TOKENS; t++) {
    left.max[t] = right.max[t] = top[t];
    left.sum[t] = right.sum[t] = left.sum[t] + right.sum[t];
    left.own[t] = right.own[t] = left.own[t] + right.own[t];
  }
  double want =
      spp_cross_entropy_loss(TOKENS, ce_targets, whole.max, whole.sum, whole.own, whole.loss, &counted);
  expect_rel(spp_cross_entropy_loss(TOKENS, ce_targets, left.max, left.sum, left.own, left.loss, &counted),
             want, 1e-6);
  expect_i64(counted, TOKENS - 1);
  expect_true(left.loss[3] == 0.0F);
  ops->cross_entropy_backward(&w);
  ops->cross_entropy_backward(&l);
  ops->cross_entropy_backward(&r);
  for (int t = 0; t < TOKENS; t++)
    for (int j = 0; j < VOCAB; j++)
      expect_near((double)(j < 20 ? left : right).logits[t * VOCAB + j], (double)whole.logits[t * VOCAB + j],
                  1e-6);
}

/* Tokens are independent: chunks of 4 and 2 give the same bits as 6 at once. */
static void chunks_of_tokens_give_the_same_bits(void **state) {
  (void)state;
  const struct spp_ops *ops = judged_best()->ops;
  static struct ce_run whole, chunked;
  case_fill(whole.logits, SPP_STORE_F32, TOKENS * VOCAB, 5, 8.0F);
  chunked = whole;
  struct spp_cross_entropy w = ce_args(&whole, 0, VOCAB), c = ce_args(&chunked, 0, VOCAB);
  ops->cross_entropy_local(&w);
  ops->cross_entropy_backward(&w);
  for (int first = 0, n = 4; first < TOKENS; first += n, n = 2) {
    struct spp_cross_entropy part = c;
    part.tokens = n;
    part.logits = part.dlogits = chunked.logits + first * VOCAB;
    part.targets = ce_targets + first;
    part.max = chunked.max + first;
    part.sum = chunked.sum + first;
    part.target_logit = chunked.own + first;
    ops->cross_entropy_local(&part);
    ops->cross_entropy_backward(&part);
  }
  expect_true(memcmp(&whole, &chunked, sizeof whole) == 0);
}

/* Position 1, base 10000, head of 4: angles 1 and 10000^(-1/2) = 0.01. (1, 0) turns to (cos, sin). */
static void rope_turns_pairs_by_their_angle_and_back(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  const int64_t position = 1;
  float c[2], s[2];
  spp_rope_table(1, 4, &position, 10000.0, c, s);
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    float x[4] = {1, 1, 0, 0};
    struct spp_rope a = {.tokens = 1,
                         .heads = 1,
                         .head_dim = 4,
                         .storage = SPP_STORE_F32,
                         .x = x,
                         .row_stride = 4,
                         .cos = c,
                         .sin = s,
                         .sign = 1.0F};
    all[v]->ops->rope(&a);
    expect_rel((double)x[0], cos(1.0), 1e-6);
    expect_rel((double)x[2], sin(1.0), 1e-6);
    expect_rel((double)x[1], cos(0.01), 1e-6);
    expect_rel((double)x[3], sin(0.01), 1e-6);
    a.sign = -1.0F;
    all[v]->ops->rope(&a);
    for (int i = 0; i < 4; i++)
      expect_near((double)x[i], i < 2 ? 1.0 : 0.0, 1e-6);
  }
}

/* The same angles on elements 2..5 of each of two heads of 8; halves pair 2 with 4, neighbours 2 with 3. */
static void rope_turns_a_part_of_each_head(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  const int64_t position = 1;
  const double cosine[] = {cos(1.0), cos(0.01)}, sine[] = {sin(1.0), sin(0.01)};
  float c[2], s[2];
  spp_rope_table(1, 4, &position, 10000.0, c, s);
  for (int v = 0; v < count; v++)
    for (int storage = 0; storage < 2; storage++)
      for (int neighbours = 0; neighbours < 2; neighbours++) {
        float x[32];
        if (!spp_kernels_usable(all[v])) continue;
        expect_note("%s, storage %d, neighbours %d", all[v]->name, storage, neighbours);
        for (int i = 0; i < 16; i++)
          spp_store(x, (enum spp_storage)storage, i, (float)(1 + i));
        struct spp_rope a = {.tokens = 1,
                             .heads = 2,
                             .head_dim = 8,
                             .storage = (enum spp_storage)storage,
                             .x = x,
                             .row_stride = 16,
                             .cos = c,
                             .sin = s,
                             .sign = 1.0F,
                             .first = 2,
                             .width = 4,
                             .neighbours = neighbours != 0};
        double bound = storage ? 0.05 : 1e-5;
        all[v]->ops->rope(&a);
        for (int h = 0; h < 16; h += 8)
          for (int i = 0; i < 2; i++) {
            int at = h + 2 + (neighbours ? 2 * i : i), with = at + (neighbours ? 1 : 2);
            double p = 1 + at, q = 1 + with;
            expect_near((double)spp_load(x, (enum spp_storage)storage, at), p * cosine[i] - q * sine[i],
                        bound);
            expect_near((double)spp_load(x, (enum spp_storage)storage, with), q * cosine[i] + p * sine[i],
                        bound);
            expect_near((double)spp_load(x, (enum spp_storage)storage, h + i), 1 + h + i, 0);
            expect_near((double)spp_load(x, (enum spp_storage)storage, h + 6 + i), 7 + h + i, 0);
          }
        a.sign = -1.0F;
        all[v]->ops->rope(&a);
        for (int i = 0; i < 16; i++)
          expect_near((double)spp_load(x, (enum spp_storage)storage, i), 1 + i, 2 * bound);
      }
}

/* First step from zero moments: m/c1 = g and sqrt(v)/c2 = |g|, so the step is lr * sign(g) after the decay:
 * 1 * (1 - 0.1 * 0.5) - 0.1 = 0.85. */
static void the_first_adamw_step_moves_by_the_rate(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    float grad = 0.25F, master = 1.0F, m = 0.0F, second = 0.0F;
    uint16_t param = 0;
    struct spp_adamw a = {1,    1,     0.1F,          0.9F,    0.999F, 1e-8F,   0.5F,
                          1.0F, &grad, SPP_STORE_F32, &master, &m,     &second, &param};
    all[v]->ops->adamw(&a);
    expect_rel((double)master, 0.85, 1e-6);
    expect_rel((double)m, 0.1 * 0.25, 1e-6);
    expect_rel((double)second, 0.001 * 0.0625, 1e-4); /* 1 - 0.999F is known to 6e-5 */
    expect_i64(param, spp_float_to_bf16(master));
  }
}

/* Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8; the two largest, normalised: 5/7 and 2/7. */
static void the_router_picks_the_largest(void **state) {
  (void)state;
  float logits[3] = {0.0F, logf(2.0F), logf(5.0F)}, probs[3], weights[2];
  int32_t chosen[2];
  struct spp_router a = {1, 3, 2, true, false, logits, probs, chosen, weights, NULL, NULL};
  judged_router_forward(judged_best(), &a);
  expect_i64(chosen[0], 2);
  expect_i64(chosen[1], 1);
  expect_rel((double)probs[0], 0.125, 1e-6);
  expect_rel((double)weights[0], 5.0 / 7.0, 1e-6);
  expect_rel((double)weights[1], 2.0 / 7.0, 1e-6);
  a.normalise = false;
  judged_router_forward(judged_best(), &a);
  expect_rel((double)weights[0], 0.625, 1e-6);
}

static void router_ties_go_to_the_lower_expert(void **state) {
  (void)state;
  float logits[4] = {1, 1, 1, 1}, probs[4], weights[2];
  int32_t chosen[2];
  struct spp_router a = {1, 4, 2, true, false, logits, probs, chosen, weights, NULL, NULL};
  judged_router_forward(judged_best(), &a);
  expect_i64(chosen[0], 0);
  expect_i64(chosen[1], 1);
}

/* Groups {5, 1}, {4, 4}, {0, 6}: the best is the last by its largest, 6, the second by its two largest, 8;
 * the two best by their largest are the last and the first. */
static void the_router_chooses_in_the_best_groups(void **state) {
  (void)state;
  const float probs[6] = {5, 1, 4, 4, 0, 6};
  int32_t chosen[3];
  judged_router_choose_in_groups(probs, 6, &(struct spp_router_groups){3, 1, 1}, 2, chosen);
  expect_i64(chosen[0], 5);
  expect_i64(chosen[1], 4);
  judged_router_choose_in_groups(probs, 6, &(struct spp_router_groups){3, 1, 2}, 2, chosen);
  expect_i64(chosen[0], 2);
  expect_i64(chosen[1], 3);
  judged_router_choose_in_groups(probs, 6, &(struct spp_router_groups){3, 2, 1}, 3, chosen);
  expect_i64(chosen[0], 5);
  expect_i64(chosen[1], 0);
  expect_i64(chosen[2], 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variant_agrees_with_the_reference),
      cmocka_unit_test(cross_entropy_of_two_columns),
      cmocka_unit_test(parts_of_the_vocabulary_give_the_whole_loss),
      cmocka_unit_test(chunks_of_tokens_give_the_same_bits),
      cmocka_unit_test(rope_turns_pairs_by_their_angle_and_back),
      cmocka_unit_test(rope_turns_a_part_of_each_head),
      cmocka_unit_test(the_first_adamw_step_moves_by_the_rate),
      cmocka_unit_test(the_router_picks_the_largest),
      cmocka_unit_test(router_ties_go_to_the_lower_expert),
      cmocka_unit_test(the_router_chooses_in_the_best_groups),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
