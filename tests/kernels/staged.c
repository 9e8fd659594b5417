/* Kernels over rows and elements, products and routers on the device. */
#include "kernels/isa.h"
#include "tests/kernels/stage.h"

static void rmsnorm(const struct spp_rmsnorm *given, bool forward) {
  struct stage s = {0};
  struct spp_rmsnorm a = *given;
  int64_t bytes = stage_bytes(a.rows * a.width, a.storage);
  a.x = stage_in(&s, a.x, bytes);
  a.weight = stage_in(&s, a.weight, stage_bytes(a.width, a.storage));
  if (forward) a.y = stage_both(&s, a.y, bytes);
  a.rstd = stage_take(&s, a.rstd, a.rows * 4, forward);
  if (!forward) {
    a.dy = stage_in(&s, a.dy, bytes);
    a.dx = stage_both(&s, a.dx, bytes);
    a.dweight = stage_both(&s, a.dweight, a.width * 4);
  }
  (forward ? staged_device()->ops->rmsnorm_forward : staged_device()->ops->rmsnorm_backward)(staged_queue(),
                                                                                             &a);
  memset(&a, 0xee, sizeof a);
  stage_finish(&s);
}
static void rmsnorm_forward(const struct spp_rmsnorm *a) {
  rmsnorm(a, true);
}
static void rmsnorm_backward(const struct spp_rmsnorm *a) {
  rmsnorm(a, false);
}

static void layernorm(const struct spp_layernorm *given, bool forward) {
  struct stage s = {0};
  struct spp_layernorm a = *given;
  int64_t bytes = stage_bytes(a.rows * a.width, a.storage), row_bytes = stage_bytes(a.width, a.storage);
  a.x = stage_in(&s, a.x, bytes);
  a.weight = stage_in(&s, a.weight, row_bytes);
  a.bias = stage_in(&s, a.bias, row_bytes);
  a.mean = stage_take(&s, a.mean, a.rows * 4, forward);
  a.rstd = stage_take(&s, a.rstd, a.rows * 4, forward);
  if (forward) a.y = stage_both(&s, a.y, bytes);
  if (!forward) {
    a.dy = stage_in(&s, a.dy, bytes);
    a.dx = stage_both(&s, a.dx, bytes);
    a.dweight = stage_both(&s, a.dweight, a.width * 4);
    a.dbias = stage_both(&s, a.dbias, a.width * 4);
  }
  (forward ? staged_device()->ops->layernorm_forward
           : staged_device()->ops->layernorm_backward)(staged_queue(), &a);
  memset(&a, 0xee, sizeof a);
  stage_finish(&s);
}
static void layernorm_forward(const struct spp_layernorm *a) {
  layernorm(a, true);
}
static void layernorm_backward(const struct spp_layernorm *a) {
  layernorm(a, false);
}

static void rope(const struct spp_rope *given) {
  struct stage s = {0};
  struct spp_rope a = *given;
  int64_t half = spp_rope_width(&a) / 2;
  a.x = stage_both(&s, a.x, stage_bytes((a.tokens - 1) * a.row_stride + a.heads * a.head_dim, a.storage));
  a.cos = stage_in(&s, a.cos, a.tokens * half * 4);
  a.sin = stage_in(&s, a.sin, a.tokens * half * 4);
  staged_device()->ops->rope(staged_queue(), &a);
  stage_finish(&s);
}

static void embedding_forward(const struct spp_embedding *given) {
  struct stage s = {0};
  struct spp_embedding a = *given;
  a.ids = stage_in(&s, a.ids, a.tokens * 4);
  a.table = stage_in(&s, a.table, stage_bytes(a.rows * a.width, a.storage));
  a.out = stage_both(&s, a.out, stage_bytes(a.tokens * a.width, a.storage));
  staged_device()->ops->embedding_forward(staged_queue(), &a);
  stage_finish(&s);
}
static void embedding_backward(const struct spp_embedding *given) {
  struct stage s = {0};
  struct spp_embedding a = *given;
  a.ids = stage_in(&s, a.ids, a.tokens * 4);
  a.dout = stage_in(&s, a.dout, stage_bytes(a.tokens * a.width, a.storage));
  a.dtable = stage_both(&s, a.dtable, a.rows * a.width * 4);
  staged_device()->ops->embedding_backward(staged_queue(), &a);
  stage_finish(&s);
}

static void cross_entropy(const struct spp_cross_entropy *given, bool forward) {
  struct stage s = {0};
  struct spp_cross_entropy a = *given;
  int64_t bytes = stage_bytes((a.tokens - 1) * a.row_stride + a.vocab, a.storage);
  a.logits = stage_in(&s, a.logits, bytes);
  a.targets = stage_in(&s, a.targets, a.tokens * 4);
  a.max = stage_take(&s, a.max, a.tokens * 4, forward);
  a.sum = stage_take(&s, a.sum, a.tokens * 4, forward);
  if (forward) a.target_logit = stage_both(&s, a.target_logit, a.tokens * 4);
  if (!forward) {
    a.grad = stage_in(&s, a.grad, a.tokens * 4);
    a.dlogits = stage_both(&s, a.dlogits, bytes);
  }
  (forward ? staged_device()->ops->cross_entropy_local
           : staged_device()->ops->cross_entropy_backward)(staged_queue(), &a);
  stage_finish(&s);
}
static void cross_entropy_local(const struct spp_cross_entropy *a) {
  cross_entropy(a, true);
}
static void cross_entropy_backward(const struct spp_cross_entropy *a) {
  cross_entropy(a, false);
}

static void adamw(const struct spp_adamw *given) {
  struct stage s = {0};
  struct spp_adamw a = *given;
  a.grad = stage_in(&s, a.grad, stage_bytes(a.n, a.grad_storage));
  a.master = stage_both(&s, a.master, a.n * 4);
  a.m = stage_both(&s, a.m, a.n * 4);
  a.v = stage_both(&s, a.v, a.n * 4);
  a.param = stage_both(&s, a.param, a.n * 2);
  staged_device()->ops->adamw(staged_queue(), &a);
  stage_finish(&s);
}

static void activation_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                               void *y) {
  struct stage s = {0};
  int64_t bytes = stage_bytes(n, storage);
  const void *from = stage_in(&s, x, bytes);
  staged_device()->ops->activation_forward(staged_queue(), f, n, storage, from, stage_both(&s, y, bytes));
  stage_finish(&s);
}
static void activation_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                                const void *dy, void *dx) {
  struct stage s = {0};
  int64_t bytes = stage_bytes(n, storage);
  const void *from = stage_in(&s, x, bytes), *grad = stage_in(&s, dy, bytes);
  staged_device()->ops->activation_backward(staged_queue(), f, n, storage, from, grad,
                                            stage_both(&s, dx, bytes));
  stage_finish(&s);
}
static void glu_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                        const void *up, void *out) {
  struct stage s = {0};
  int64_t bytes = stage_bytes(n, storage);
  const void *g = stage_in(&s, gate, bytes), *u = stage_in(&s, up, bytes);
  staged_device()->ops->glu_forward(staged_queue(), f, n, storage, g, u, stage_both(&s, out, bytes));
  stage_finish(&s);
}
static void glu_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                         const void *up, const void *dout, void *dgate, void *dup) {
  struct stage s = {0};
  int64_t bytes = stage_bytes(n, storage);
  const void *g = stage_in(&s, gate, bytes), *u = stage_in(&s, up, bytes), *d = stage_in(&s, dout, bytes);
  void *dg = stage_both(&s, dgate, bytes);
  staged_device()->ops->glu_backward(staged_queue(), f, n, storage, g, u, d, dg, stage_both(&s, dup, bytes));
  stage_finish(&s);
}

static void softcap(int64_t n, float cap, void *x, enum spp_storage storage) {
  struct stage s = {0};
  staged_device()->ops->softcap(staged_queue(), n, cap, stage_both(&s, x, stage_bytes(n, storage)), storage);
  stage_finish(&s);
}
static void softmax(int64_t rows, int64_t n, const float *x, float *y) {
  struct stage s = {0};
  const float *from = stage_in(&s, x, rows * n * 4);
  staged_device()->ops->softmax(staged_queue(), rows, n, from, stage_both(&s, y, rows * n * 4));
  stage_finish(&s);
}
static void row_dots(int64_t rows, int64_t width, const void *a, int64_t a_stride, enum spp_storage a_storage,
                     const void *b, int64_t b_stride, enum spp_storage b_storage, float *dot,
                     int64_t dot_stride) {
  struct stage s = {0};
  const void *x = stage_in(&s, a, stage_bytes((rows - 1) * a_stride + width, a_storage));
  const void *y = stage_in(&s, b, stage_bytes((rows - 1) * b_stride + width, b_storage));
  staged_device()->ops->row_dots(staged_queue(), rows, width, x, a_stride, a_storage, y, b_stride, b_storage,
                                 stage_both(&s, dot, ((rows - 1) * dot_stride + 1) * 4), dot_stride);
  stage_finish(&s);
}
static void convert(int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                    enum spp_storage dst_storage) {
  struct stage s = {0};
  const void *from = stage_in(&s, src, stage_bytes(n, src_storage));
  staged_device()->ops->convert(staged_queue(), n, from, src_storage,
                                stage_both(&s, dst, stage_bytes(n, dst_storage)), dst_storage);
  stage_finish(&s);
}
static void add(int64_t n, enum spp_storage storage, const void *a, const void *b, void *out) {
  struct stage s = {0};
  int64_t bytes = stage_bytes(n, storage);
  const void *x = stage_in(&s, a, bytes), *y = stage_in(&s, b, bytes);
  staged_device()->ops->add(staged_queue(), n, storage, x, y, stage_both(&s, out, bytes));
  stage_finish(&s);
}
static void accumulate(int64_t n, float factor, const void *x, enum spp_storage storage, float *sum) {
  struct stage s = {0};
  const void *from = stage_in(&s, x, stage_bytes(n, storage));
  staged_device()->ops->accumulate(staged_queue(), n, factor, from, storage, stage_both(&s, sum, n * 4));
  stage_finish(&s);
}
static void scale(int64_t n, float factor, void *x, enum spp_storage storage) {
  struct stage s = {0};
  staged_device()->ops->scale(staged_queue(), n, factor, stage_both(&s, x, stage_bytes(n, storage)), storage);
  stage_finish(&s);
}
static double sum_squares(int64_t n, const void *x, enum spp_storage storage) {
  struct stage s = {0};
  struct spp_diag diag = {0};
  void *sum;
  double result = NAN;
  expect_status(staged_device()->allocate(staged_queue(), sizeof result, &sum, &diag), SPP_OK, &diag);
  staged_device()->ops->sum_squares(staged_queue(), n, stage_in(&s, x, stage_bytes(n, storage)), storage,
                                    sum);
  staged_device()->download(staged_queue(), &result, sum, sizeof result);
  stage_finish(&s);
  staged_device()->release(staged_queue(), sum);
  return result;
}

static const struct spp_ops ops = SPP_OPS_BY_NAME;
static bool available(void) {
  return true;
}
static const struct spp_kernels row = {
    .name = "device", .description = "the device's kernels", .available = available, .ops = &ops};

const struct spp_kernels *const *staged_rows(int *count) {
  static const struct spp_kernels *const rows[] = {&spp_kernels_reference, &row};
  *count = 2;
  return rows;
}
const struct spp_kernels *staged_best(void) {
  return &row;
}
bool staged_rounds_bf16(const struct spp_kernels *kernels) {
  return kernels == &row;
}

static struct spp_matrix matrix_in(struct stage *s, struct spp_matrix x, int64_t rows, int64_t cols,
                                   bool results) {
  int64_t elements = rows > 0 && cols > 0 ? (rows - 1) * x.ld + cols : 0;
  x.data = stage_take(s, x.data, stage_bytes(elements, x.storage), results);
  return x;
}

enum spp_status staged_gemm(const struct spp_gemm *given, void *workspace, struct spp_diag *diag) {
  struct stage s = {0};
  struct spp_gemm g = *given;
  (void)workspace;
  if (!given->a.data)
    return staged_device()->ops->gemm(staged_queue(), given, NULL, diag); /* it is to be refused */
  g.a = matrix_in(&s, g.a, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, false);
  g.b = matrix_in(&s, g.b, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, false);
  g.c = matrix_in(&s, g.c, g.m, g.n, true);
  enum spp_status status = staged_device()->ops->gemm(staged_queue(), &g, NULL, diag);
  stage_finish(&s);
  return status;
}

static struct spp_router router_in(struct stage *s, const struct spp_router *given, bool forward) {
  struct spp_router a = *given;
  int64_t all = a.tokens * a.experts * 4, few = a.tokens * a.top_k * 4;
  a.logits = stage_in(s, a.logits, all);
  a.probs = stage_take(s, a.probs, all, forward);
  a.chosen = stage_take(s, a.chosen, few, forward);
  a.weights = stage_take(s, a.weights, few, forward);
  a.dweights = stage_in(s, a.dweights, few);
  a.dlogits = stage_take(s, a.dlogits, all, !forward);
  return a;
}

void staged_router_forward(const struct spp_kernels *kernels, const struct spp_router *given) {
  struct stage s = {0};
  if (kernels != &row) {
    spp_router_forward(kernels, given);
    return;
  }
  struct spp_router a = router_in(&s, given, true);
  staged_device()->ops->router_probabilities(staged_queue(), &a);
  staged_device()->ops->router_choose(staged_queue(), &a, a.probs, NULL);
  staged_device()->ops->router_weights(staged_queue(), &a);
  stage_finish(&s);
}

void staged_router_choose_in_groups(const float *probs, int64_t experts,
                                    const struct spp_router_groups *groups, int64_t top_k, int32_t *chosen) {
  struct stage s = {0};
  struct spp_router a = {.tokens = 1, .experts = experts, .top_k = top_k};
  const float *scores = stage_in(&s, probs, experts * 4);
  a.chosen = stage_both(&s, chosen, top_k * 4);
  staged_device()->ops->router_choose(staged_queue(), &a, scores, groups);
  stage_finish(&s);
}

void staged_router_backward(const struct spp_router *given) {
  struct stage s = {0};
  struct spp_router a = router_in(&s, given, false);
  staged_device()->ops->router_backward(staged_queue(), &a);
  stage_finish(&s);
}
