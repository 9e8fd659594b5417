#include "tests/kernels/staged.h"

#include "kernels/isa.h"
#include "tests/expect.h"

#include <stdlib.h>

static const struct spp_device *device;
static struct spp_queue *queue;

bool staged_ready(void) {
  int count;
  const struct spp_device *const *all = spp_devices_all(&count);
  struct spp_diag diag = {0};
  char text[1024] = "";
  for (int i = 0; i < count && !queue; i++)
    if (spp_device_usable(all[i], &diag) && all[i]->open(0, &queue, &diag) == SPP_OK) {
      device = all[i];
      if (device->describe(0, text, sizeof text, &diag) == SPP_OK) printf("%s\n", text);
    }
  if (!queue) printf("no device: %s\n", spp_diag_format(&diag, text, sizeof text));
  return queue != NULL;
}

const struct spp_device *staged_device(void) {
  return device;
}
struct spp_queue *staged_queue(void) {
  return queue;
}

/* Arrays of one call, here and on the device. */
struct stage {
  struct item {
    void *here, *there, *block;
    int64_t bytes;
    bool results;
  } items[16];
  int n;
};

/* Every other time, by chance, addresses that are not aligned to four elements. */
static int64_t shift(void) {
  static uint32_t state = 1;
  state = state * 1664525U + 1013904223U; /* Numerical Recipes */
  return state >> 31 ? 4 : 0;
}

/* The array on the device; the same array twice is one there, too. */
static void *take(struct stage *s, const void *here, int64_t bytes, bool results) {
  struct spp_diag diag = {0};
  if (!here) return NULL;
  for (int i = 0; i < s->n; i++)
    if (s->items[i].here == here && bytes > 0) {
      expect_true(bytes <= s->items[i].bytes);
      s->items[i].results = s->items[i].results || results;
      return s->items[i].there;
    }
  struct item *it = &s->items[s->n++];
  int64_t by = shift();
  it->bytes = bytes;
  it->results = results;
  memcpy(&it->here, &here, sizeof here); /* results go back only where the caller gave a place to write to */
  expect_status(device->allocate(queue, bytes + by, &it->block, &diag), SPP_OK, &diag);
  it->there = (char *)it->block + by;
  device->upload(queue, it->there, here, bytes);
  return it->there;
}
static void *both(struct stage *s, void *here, int64_t bytes) {
  return take(s, here, bytes, true);
}
static void *in(struct stage *s, const void *here, int64_t bytes) {
  return take(s, here, bytes, false);
}

/* Brings results back. What was only read must not have changed. */
static void finish(struct stage *s) {
  struct spp_diag diag = {0};
  void *after[16];
  for (int i = 0; i < s->n; i++) {
    after[i] = malloc((size_t)s->items[i].bytes + 1);
    device->download(queue, after[i], s->items[i].there, s->items[i].bytes);
  }
  expect_status(device->wait(queue, &diag), SPP_OK, &diag);
  for (int i = 0; i < s->n; i++) {
    struct item *it = &s->items[i];
    if (it->results)
      memcpy(it->here, after[i], (size_t)it->bytes);
    else
      expect_true(memcmp(it->here, after[i], (size_t)it->bytes) == 0);
    device->release(queue, it->block);
    free(after[i]);
  }
}

static int64_t bytes_of(int64_t n, enum spp_storage storage) {
  return n * spp_storage_bytes(storage);
}

static void rmsnorm(const struct spp_rmsnorm *given, bool forward) {
  struct stage s = {0};
  struct spp_rmsnorm a = *given;
  int64_t bytes = bytes_of(a.rows * a.width, a.storage);
  a.x = in(&s, a.x, bytes);
  a.weight = in(&s, a.weight, bytes_of(a.width, a.storage));
  if (forward) a.y = both(&s, a.y, bytes);
  a.rstd = take(&s, a.rstd, a.rows * 4, forward);
  if (!forward) {
    a.dy = in(&s, a.dy, bytes);
    a.dx = both(&s, a.dx, bytes);
    a.dweight = both(&s, a.dweight, a.width * 4);
  }
  (forward ? device->ops->rmsnorm_forward : device->ops->rmsnorm_backward)(queue, &a);
  memset(&a, 0xee, sizeof a);
  finish(&s);
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
  int64_t bytes = bytes_of(a.rows * a.width, a.storage), row_bytes = bytes_of(a.width, a.storage);
  a.x = in(&s, a.x, bytes);
  a.weight = in(&s, a.weight, row_bytes);
  a.bias = in(&s, a.bias, row_bytes);
  a.mean = take(&s, a.mean, a.rows * 4, forward);
  a.rstd = take(&s, a.rstd, a.rows * 4, forward);
  if (forward) a.y = both(&s, a.y, bytes);
  if (!forward) {
    a.dy = in(&s, a.dy, bytes);
    a.dx = both(&s, a.dx, bytes);
    a.dweight = both(&s, a.dweight, a.width * 4);
    a.dbias = both(&s, a.dbias, a.width * 4);
  }
  (forward ? device->ops->layernorm_forward : device->ops->layernorm_backward)(queue, &a);
  memset(&a, 0xee, sizeof a);
  finish(&s);
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
  a.x = both(&s, a.x, bytes_of((a.tokens - 1) * a.row_stride + a.heads * a.head_dim, a.storage));
  a.cos = in(&s, a.cos, a.tokens * half * 4);
  a.sin = in(&s, a.sin, a.tokens * half * 4);
  device->ops->rope(queue, &a);
  finish(&s);
}

static void embedding_forward(const struct spp_embedding *given) {
  struct stage s = {0};
  struct spp_embedding a = *given;
  a.ids = in(&s, a.ids, a.tokens * 4);
  a.table = in(&s, a.table, bytes_of(a.rows * a.width, a.storage));
  a.out = both(&s, a.out, bytes_of(a.tokens * a.width, a.storage));
  device->ops->embedding_forward(queue, &a);
  finish(&s);
}
static void embedding_backward(const struct spp_embedding *given) {
  struct stage s = {0};
  struct spp_embedding a = *given;
  a.ids = in(&s, a.ids, a.tokens * 4);
  a.dout = in(&s, a.dout, bytes_of(a.tokens * a.width, a.storage));
  a.dtable = both(&s, a.dtable, a.rows * a.width * 4);
  device->ops->embedding_backward(queue, &a);
  finish(&s);
}

static void cross_entropy(const struct spp_cross_entropy *given, bool forward) {
  struct stage s = {0};
  struct spp_cross_entropy a = *given;
  int64_t bytes = bytes_of((a.tokens - 1) * a.row_stride + a.vocab, a.storage);
  a.logits = in(&s, a.logits, bytes);
  a.targets = in(&s, a.targets, a.tokens * 4);
  a.max = take(&s, a.max, a.tokens * 4, forward);
  a.sum = take(&s, a.sum, a.tokens * 4, forward);
  if (forward) a.target_logit = both(&s, a.target_logit, a.tokens * 4);
  if (!forward) {
    a.grad = in(&s, a.grad, a.tokens * 4);
    a.dlogits = both(&s, a.dlogits, bytes);
  }
  (forward ? device->ops->cross_entropy_local : device->ops->cross_entropy_backward)(queue, &a);
  finish(&s);
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
  a.grad = in(&s, a.grad, bytes_of(a.n, a.grad_storage));
  a.master = both(&s, a.master, a.n * 4);
  a.m = both(&s, a.m, a.n * 4);
  a.v = both(&s, a.v, a.n * 4);
  a.param = both(&s, a.param, a.n * 2);
  device->ops->adamw(queue, &a);
  finish(&s);
}

static void activation_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                               void *y) {
  struct stage s = {0};
  int64_t bytes = bytes_of(n, storage);
  const void *from = in(&s, x, bytes);
  device->ops->activation_forward(queue, f, n, storage, from, both(&s, y, bytes));
  finish(&s);
}
static void activation_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                                const void *dy, void *dx) {
  struct stage s = {0};
  int64_t bytes = bytes_of(n, storage);
  const void *from = in(&s, x, bytes), *grad = in(&s, dy, bytes);
  device->ops->activation_backward(queue, f, n, storage, from, grad, both(&s, dx, bytes));
  finish(&s);
}
static void glu_forward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                        const void *up, void *out) {
  struct stage s = {0};
  int64_t bytes = bytes_of(n, storage);
  const void *g = in(&s, gate, bytes), *u = in(&s, up, bytes);
  device->ops->glu_forward(queue, f, n, storage, g, u, both(&s, out, bytes));
  finish(&s);
}
static void glu_backward(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                         const void *up, const void *dout, void *dgate, void *dup) {
  struct stage s = {0};
  int64_t bytes = bytes_of(n, storage);
  const void *g = in(&s, gate, bytes), *u = in(&s, up, bytes), *d = in(&s, dout, bytes);
  void *dg = both(&s, dgate, bytes);
  device->ops->glu_backward(queue, f, n, storage, g, u, d, dg, both(&s, dup, bytes));
  finish(&s);
}

static void softcap(int64_t n, float cap, void *x, enum spp_storage storage) {
  struct stage s = {0};
  device->ops->softcap(queue, n, cap, both(&s, x, bytes_of(n, storage)), storage);
  finish(&s);
}
static void softmax(int64_t rows, int64_t n, const float *x, float *y) {
  struct stage s = {0};
  const float *from = in(&s, x, rows * n * 4);
  device->ops->softmax(queue, rows, n, from, both(&s, y, rows * n * 4));
  finish(&s);
}
static void row_dots(int64_t rows, int64_t width, const void *a, int64_t a_stride, enum spp_storage a_storage,
                     const void *b, int64_t b_stride, enum spp_storage b_storage, float *dot,
                     int64_t dot_stride) {
  struct stage s = {0};
  const void *x = in(&s, a, bytes_of((rows - 1) * a_stride + width, a_storage));
  const void *y = in(&s, b, bytes_of((rows - 1) * b_stride + width, b_storage));
  device->ops->row_dots(queue, rows, width, x, a_stride, a_storage, y, b_stride, b_storage,
                        both(&s, dot, ((rows - 1) * dot_stride + 1) * 4), dot_stride);
  finish(&s);
}
static void convert(int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                    enum spp_storage dst_storage) {
  struct stage s = {0};
  const void *from = in(&s, src, bytes_of(n, src_storage));
  device->ops->convert(queue, n, from, src_storage, both(&s, dst, bytes_of(n, dst_storage)), dst_storage);
  finish(&s);
}
static void add(int64_t n, enum spp_storage storage, const void *a, const void *b, void *out) {
  struct stage s = {0};
  int64_t bytes = bytes_of(n, storage);
  const void *x = in(&s, a, bytes), *y = in(&s, b, bytes);
  device->ops->add(queue, n, storage, x, y, both(&s, out, bytes));
  finish(&s);
}
static void accumulate(int64_t n, float factor, const void *x, enum spp_storage storage, float *sum) {
  struct stage s = {0};
  const void *from = in(&s, x, bytes_of(n, storage));
  device->ops->accumulate(queue, n, factor, from, storage, both(&s, sum, n * 4));
  finish(&s);
}
static void scale(int64_t n, float factor, void *x, enum spp_storage storage) {
  struct stage s = {0};
  device->ops->scale(queue, n, factor, both(&s, x, bytes_of(n, storage)), storage);
  finish(&s);
}
static double sum_squares(int64_t n, const void *x, enum spp_storage storage) {
  struct stage s = {0};
  struct spp_diag diag = {0};
  void *sum;
  double result = NAN;
  expect_status(device->allocate(queue, sizeof result, &sum, &diag), SPP_OK, &diag);
  device->ops->sum_squares(queue, n, in(&s, x, bytes_of(n, storage)), storage, sum);
  device->download(queue, &result, sum, sizeof result);
  finish(&s);
  device->release(queue, sum);
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

static struct spp_rows rows_in(struct stage *s, struct spp_rows x, int64_t tokens, int64_t width,
                               bool results) {
  int64_t elements = tokens > 0 ? (tokens - 1) * x.row_stride + width : 0;
  x.data = take(s, x.data, bytes_of(elements, x.storage), results);
  return x;
}
static struct spp_row_stats stats_in(struct stage *s, struct spp_row_stats x,
                                     const struct spp_attn_shape *shape, bool results) {
  x.data = take(s, x.data, ((shape->q_heads - 1) * x.head_stride + shape->q_tokens) * 4, results);
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
  shape->slopes = in(s, shape->slopes, shape->q_heads * 4);
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
  if (kernels != &row) return spp_attn_forward(kernels, given, workspace, diag);
  if (!given->q.data) return device->ops->attn_forward(queue, given, NULL, diag); /* it is to be refused */
  struct description d = describe(&s, shape);
  a.q = rows_in(&s, a.q, shape->q_tokens, shape->q_heads * shape->head_dim, false);
  a.k = rows_in(&s, a.k, shape->kv_tokens, shape->kv_heads * shape->head_dim, false);
  a.v = rows_in(&s, a.v, shape->kv_tokens, shape->kv_heads * spp_attn_v_dim(shape), false);
  a.out = rows_in(&s, a.out, shape->q_tokens, shape->q_heads * spp_attn_v_dim(shape), true);
  a.lse = stats_in(&s, a.lse, shape, true);
  a.sinks = in(&s, a.sinks, shape->q_heads * 4);
  expect_status(device->allocate(queue, device->ops->attn_forward_bytes(queue, &a), &work, diag), SPP_OK,
                diag);
  enum spp_status status = device->ops->attn_forward(queue, &a, work, diag);
  scribble(&d, &given->shape);
  finish(&s);
  device->release(queue, work);
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
  if (kernels != &row) return spp_attn_backward(kernels, given, workspace, diag);
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
  expect_status(device->allocate(queue, device->ops->attn_backward_bytes(queue, &a), &work, diag), SPP_OK,
                diag);
  enum spp_status status = device->ops->attn_backward(queue, &a, work, diag);
  scribble(&d, &given->shape);
  finish(&s);
  device->release(queue, work);
  return status;
}

void staged_attn_delta(const struct spp_kernels *kernels, const struct spp_attn_shape *shape,
                       struct spp_rows dout, struct spp_rows out, struct spp_row_stats delta) {
  struct stage s = {0};
  int64_t width = shape->q_heads * spp_attn_v_dim(shape);
  if (kernels != &row) {
    spp_attn_delta(kernels, shape, dout, out, delta);
    return;
  }
  dout = rows_in(&s, dout, shape->q_tokens, width, false);
  out = rows_in(&s, out, shape->q_tokens, width, false);
  device->ops->attn_delta(queue, shape, dout, out, stats_in(&s, delta, shape, true));
  finish(&s);
}

void staged_attn_sink_grad(const struct spp_attn_shape *shape, const float *sinks, struct spp_row_stats lse,
                           struct spp_row_stats delta, float *dsinks) {
  struct stage s = {0};
  const float *from = in(&s, sinks, shape->q_heads * 4);
  lse = stats_in(&s, lse, shape, false);
  delta = stats_in(&s, delta, shape, false);
  device->ops->attn_sink_grad(queue, shape, from, lse, delta, both(&s, dsinks, shape->q_heads * 4));
  finish(&s);
}

void staged_lse_merge(int64_t tokens, int64_t heads, int64_t head_dim, float *out, int64_t out_stride,
                      float *lse, int64_t lse_stride, const float *block_out, int64_t block_stride,
                      const float *block_lse, int64_t block_lse_stride) {
  struct stage s = {0};
  int64_t width = heads * head_dim;
  float *o = both(&s, out, ((tokens - 1) * out_stride + width) * 4);
  float *l = both(&s, lse, ((heads - 1) * lse_stride + tokens) * 4);
  const float *b = in(&s, block_out, ((tokens - 1) * block_stride + width) * 4);
  const float *bl = in(&s, block_lse, ((heads - 1) * block_lse_stride + tokens) * 4);
  device->ops->lse_merge(queue, tokens, heads, head_dim, o, out_stride, l, lse_stride, b, block_stride, bl,
                         block_lse_stride);
  finish(&s);
}

static struct spp_matrix matrix_in(struct stage *s, struct spp_matrix x, int64_t rows, int64_t cols,
                                   bool results) {
  int64_t elements = rows > 0 && cols > 0 ? (rows - 1) * x.ld + cols : 0;
  x.data = take(s, x.data, bytes_of(elements, x.storage), results);
  return x;
}

enum spp_status staged_gemm(const struct spp_gemm *given, void *workspace, struct spp_diag *diag) {
  struct stage s = {0};
  struct spp_gemm g = *given;
  (void)workspace;
  if (!given->a.data) return device->ops->gemm(queue, given, NULL, diag); /* it is to be refused */
  g.a = matrix_in(&s, g.a, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, false);
  g.b = matrix_in(&s, g.b, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, false);
  g.c = matrix_in(&s, g.c, g.m, g.n, true);
  enum spp_status status = device->ops->gemm(queue, &g, NULL, diag);
  finish(&s);
  return status;
}

static struct spp_router router_in(struct stage *s, const struct spp_router *given, bool forward) {
  struct spp_router a = *given;
  int64_t all = a.tokens * a.experts * 4, few = a.tokens * a.top_k * 4;
  a.logits = in(s, a.logits, all);
  a.probs = take(s, a.probs, all, forward);
  a.chosen = take(s, a.chosen, few, forward);
  a.weights = take(s, a.weights, few, forward);
  a.dweights = in(s, a.dweights, few);
  a.dlogits = take(s, a.dlogits, all, !forward);
  return a;
}

void staged_router_forward(const struct spp_kernels *kernels, const struct spp_router *given) {
  struct stage s = {0};
  if (kernels != &row) {
    spp_router_forward(kernels, given);
    return;
  }
  struct spp_router a = router_in(&s, given, true);
  device->ops->router_probabilities(queue, &a);
  device->ops->router_choose(queue, &a, a.probs, NULL);
  device->ops->router_weights(queue, &a);
  finish(&s);
}

void staged_router_choose_in_groups(const float *probs, int64_t experts,
                                    const struct spp_router_groups *groups, int64_t top_k, int32_t *chosen) {
  struct stage s = {0};
  struct spp_router a = {.tokens = 1, .experts = experts, .top_k = top_k};
  const float *scores = in(&s, probs, experts * 4);
  a.chosen = both(&s, chosen, top_k * 4);
  device->ops->router_choose(queue, &a, scores, groups);
  finish(&s);
}

void staged_router_backward(const struct spp_router *given) {
  struct stage s = {0};
  struct spp_router a = router_in(&s, given, false);
  device->ops->router_backward(queue, &a);
  finish(&s);
}
