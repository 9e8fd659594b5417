/* Kernels of a device, measured on it: attention beside matrix products, operators beside a copy, in turns in
 * one run. bench_cuda [--seq N] [--heads N] [--kv-heads N] [--head-dim N] [--repeats N] Prints medians with
 * minimum and maximum. Exit status 6 where there is no device. */
#include "kernels/device.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
  const struct spp_device *device;
  struct spp_queue *queue;
  int repeats;
  int64_t seq, heads, kv_heads, head_dim;
};

static void must(enum spp_status status, const struct spp_diag *diag) {
  char text[1024];
  if (status == SPP_OK) return;
  fprintf(stderr, "bench_cuda: %s\n", spp_diag_format(diag, text, sizeof text));
  exit((int)status);
}

/* Memory of the device with numbers in [-1, 1), a fixed sequence (Numerical Recipes). */
static void *filled(const struct bench *b, enum spp_storage storage, int64_t n) {
  struct spp_diag diag = {0};
  uint32_t state = 1;
  void *there, *here = malloc((size_t)(n * spp_storage_bytes(storage)));
  if (!here) must(SPP_ERR_INTERNAL, &(struct spp_diag){.what = "out of memory"});
  for (int64_t i = 0; i < n; i++) {
    state = state * 1664525U + 1013904223U;
    spp_store(here, storage, i, (float)((double)state / 2147483648.0 - 1.0));
  }
  must(b->device->allocate(b->queue, n * spp_storage_bytes(storage), &there, &diag), &diag);
  b->device->upload(b->queue, there, here, n * spp_storage_bytes(storage));
  must(b->device->wait(b->queue, &diag), &diag);
  free(here);
  return there;
}

/* One thing to measure: `work` FLOP or bytes a call. */
struct measured {
  char name[48];
  double work;
  void (*run)(const struct bench *b, const void *context);
  const void *context;
  double *rates;
};

static double rate_of(const struct bench *b, const struct measured *m) {
  struct spp_diag diag = {0};
  b->device->mark(b->queue, 0);
  m->run(b, m->context);
  b->device->mark(b->queue, 1);
  must(b->device->wait(b->queue, &diag), &diag);
  return m->work / b->device->between_s(b->queue);
}

/* Measures all in turns, after a round of warm-up, and prints each beside the first. */
static void measure(const struct bench *b, struct measured *all, int n, double unit, const char *unit_name,
                    const char *beside) {
  double first = 0.0;
  for (int i = 0; i < n; i++) {
    all[i].rates = malloc((size_t)b->repeats * sizeof(double));
    if (!all[i].rates) must(SPP_ERR_INTERNAL, &(struct spp_diag){.what = "out of memory"});
    rate_of(b, &all[i]);
  }
  for (int r = 0; r < b->repeats; r++)
    for (int i = 0; i < n; i++)
      all[i].rates[r] = rate_of(b, &all[i]);
  for (int i = 0; i < n; i++) {
    qsort(all[i].rates, (size_t)b->repeats, sizeof(double), compare);
    double median = all[i].rates[b->repeats / 2];
    if (i == 0) first = median;
    printf("%-40s %8.1f %s  [%.1f, %.1f]  %5.1f %% of %s\n", all[i].name, median / unit, unit_name,
           all[i].rates[0] / unit, all[i].rates[b->repeats - 1] / unit, 100.0 * median / first, beside);
    free(all[i].rates);
  }
}

static struct measured measured_of(const char *name, double work,
                                   void (*run)(const struct bench *, const void *), const void *context) {
  struct measured m = {.work = work, .run = run, .context = context};
  snprintf(m.name, sizeof m.name, "%s", name);
  return m;
}

/* Attention and a product of the same storage. */
struct problem {
  struct spp_attn_forward forward;
  struct spp_attn_backward backward;
  struct spp_gemm gemm;
  void *workspace;
};

static void run_gemm(const struct bench *b, const void *context) {
  const struct problem *p = context;
  struct spp_diag diag = {0};
  must(b->device->ops->gemm(b->queue, &p->gemm, NULL, &diag), &diag);
}
static void run_forward(const struct bench *b, const void *context) {
  const struct problem *p = context;
  struct spp_diag diag = {0};
  must(b->device->ops->attn_forward(b->queue, &p->forward, p->workspace, &diag), &diag);
}
static void run_backward(const struct bench *b, const void *context) {
  const struct problem *p = context;
  struct spp_diag diag = {0};
  must(b->device->ops->attn_backward(b->queue, &p->backward, p->workspace, &diag), &diag);
}

enum { GEMM_SIZE = 8192 };

static struct problem make_problem(const struct bench *b, struct spp_attn_mask mask,
                                   enum spp_storage storage) {
  struct problem p = {0};
  struct spp_diag diag = {0};
  int64_t s = b->seq, qw = b->heads * b->head_dim, kw = b->kv_heads * b->head_dim;
  struct spp_attn_shape shape = {.q_tokens = s,
                                 .kv_tokens = s,
                                 .q_heads = b->heads,
                                 .kv_heads = b->kv_heads,
                                 .head_dim = b->head_dim,
                                 .scale = 1.0F / sqrtf((float)b->head_dim),
                                 .mask = mask};
  struct spp_rows rows[8];
  for (int i = 0; i < 8; i++) /* q, k, v, out, dout, dq, dk, dv */
    rows[i] = (struct spp_rows){.row_stride = i == 1 || i == 2 || i > 5 ? kw : qw, .storage = storage};
  for (int i = 0; i < 8; i++)
    rows[i].data = filled(b, storage, s * rows[i].row_stride);
  struct spp_row_stats lse = {filled(b, SPP_STORE_F32, b->heads * s), s};
  struct spp_row_stats delta = {filled(b, SPP_STORE_F32, b->heads * s), s};
  p.forward =
      (struct spp_attn_forward){.shape = shape, .q = rows[0], .k = rows[1], .v = rows[2], .out = rows[3]};
  p.forward.lse = lse;
  p.backward = (struct spp_attn_backward){.shape = shape,
                                          .q = rows[0],
                                          .k = rows[1],
                                          .v = rows[2],
                                          .dout = rows[4],
                                          .lse = lse,
                                          .delta = delta,
                                          .dq = rows[5],
                                          .dk = rows[6],
                                          .dv = rows[7]};
  must(b->device->allocate(b->queue, b->device->ops->attn_backward_bytes(b->queue, &p.backward), &p.workspace,
                           &diag),
       &diag);
  p.gemm = (struct spp_gemm){.m = GEMM_SIZE, .n = GEMM_SIZE, .k = GEMM_SIZE, .trans_b = true, .alpha = 1.0F};
  struct spp_matrix *operands[] = {&p.gemm.a, &p.gemm.b, &p.gemm.c};
  for (int i = 0; i < 3; i++)
    *operands[i] =
        (struct spp_matrix){filled(b, storage, (int64_t)GEMM_SIZE * GEMM_SIZE), GEMM_SIZE, storage};
  return p;
}

static void free_problem(const struct bench *b, struct problem *p) {
  void *all[] = {p->forward.q.data,   p->forward.k.data,      p->forward.v.data,   p->forward.out.data,
                 p->forward.lse.data, p->backward.dout.data,  p->backward.dq.data, p->backward.dk.data,
                 p->backward.dv.data, p->backward.delta.data, p->workspace,        p->gemm.a.data,
                 p->gemm.b.data,      p->gemm.c.data};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    b->device->release(b->queue, all[i]);
}

static void measure_attention(const struct bench *b, enum spp_storage storage) {
  const char *word = storage == SPP_STORE_BF16 ? "bf16" : "fp32";
  for (int causal = 0; causal < 2; causal++) {
    struct problem p = make_problem(b, causal ? spp_mask_causal(0, 0) : spp_mask_full(), storage);
    struct measured all[3];
    char name[48];
    snprintf(name, sizeof name, "%s product of %d", word, GEMM_SIZE);
    all[0] = measured_of(name, 2.0 * GEMM_SIZE * GEMM_SIZE * (double)GEMM_SIZE, run_gemm, &p);
    snprintf(name, sizeof name, "%s attention forward, %s", word, causal ? "causal" : "full");
    all[1] = measured_of(name, (double)spp_attn_forward_flops(&p.forward.shape), run_forward, &p);
    snprintf(name, sizeof name, "%s attention backward, %s", word, causal ? "causal" : "full");
    all[2] = measured_of(name, (double)spp_attn_backward_flops(&p.backward.shape), run_backward, &p);
    measure(b, all, 3, 1e12, "TFLOP/s", "the product");
    free_problem(b, &p);
  }
}

/* Operators on ROWS rows of WIDTH, in bf16. */
enum { ROWS = 16384, WIDTH = 8192, ELEMENTS = ROWS * WIDTH };

struct arrays {
  void *x[3];     /* bf16 [ELEMENTS] */
  float *f[4];    /* fp32 [ELEMENTS] */
  float *stat[2]; /* [ROWS] */
  int32_t *targets;
};

static void run_copy(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  b->device->copy(b->queue, a->x[1], a->x[0], (int64_t)ELEMENTS * 2);
}
static void run_add(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  b->device->ops->add(b->queue, ELEMENTS, SPP_STORE_BF16, a->x[0], a->x[1], a->x[2]);
}
static void run_glu(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  b->device->ops->glu_forward(b->queue, SPP_SILU, ELEMENTS, SPP_STORE_BF16, a->x[0], a->x[1], a->x[2]);
}
static void run_convert(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  b->device->ops->convert(b->queue, ELEMENTS, a->f[0], SPP_STORE_F32, a->x[2], SPP_STORE_BF16);
}
static void run_adamw(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  struct spp_adamw call = {
      .n = ELEMENTS, .step = 1, .lr = 1e-3F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F};
  call.grad_scale = 1.0F;
  call.grad = a->f[0];
  call.master = a->f[1];
  call.m = a->f[2];
  call.v = a->f[3];
  call.param = a->x[2];
  b->device->ops->adamw(b->queue, &call);
}
static struct spp_rmsnorm norm_of(const struct arrays *a) {
  return (struct spp_rmsnorm){.rows = ROWS,
                              .width = WIDTH,
                              .eps = 1e-6F,
                              .storage = SPP_STORE_BF16,
                              .x = a->x[0],
                              .weight = a->x[1],
                              .y = a->x[2],
                              .rstd = a->stat[0],
                              .dy = a->x[1],
                              .dx = a->x[2],
                              .dweight = a->f[0]};
}
static void run_norm(const struct bench *b, const void *context) {
  struct spp_rmsnorm call = norm_of(context);
  b->device->ops->rmsnorm_forward(b->queue, &call);
}
static void run_norm_backward(const struct bench *b, const void *context) {
  struct spp_rmsnorm call = norm_of(context);
  b->device->ops->rmsnorm_backward(b->queue, &call);
}
static void run_cross_entropy(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  struct spp_cross_entropy call = {
      .tokens = ROWS, .vocab = WIDTH, .storage = SPP_STORE_BF16, .row_stride = WIDTH};
  call.logits = a->x[0];
  call.targets = a->targets;
  call.max = a->stat[0];
  call.sum = a->stat[1];
  call.target_logit = a->f[0];
  b->device->ops->cross_entropy_local(b->queue, &call);
}
static void run_squares(const struct bench *b, const void *context) {
  const struct arrays *a = context;
  b->device->ops->sum_squares(b->queue, ELEMENTS, a->f[0], SPP_STORE_F32, (double *)(void *)a->stat[0]);
}

static void measure_operators(const struct bench *b) {
  struct arrays a;
  struct spp_diag diag = {0};
  void *targets;
  for (int i = 0; i < 3; i++)
    a.x[i] = filled(b, SPP_STORE_BF16, ELEMENTS);
  for (int i = 0; i < 4; i++)
    a.f[i] = filled(b, SPP_STORE_F32, ELEMENTS);
  for (int i = 0; i < 2; i++)
    a.stat[i] = filled(b, SPP_STORE_F32, ROWS);
  must(b->device->allocate(b->queue, ROWS * 4, &targets, &diag), &diag);
  b->device->clear(b->queue, targets, ROWS * 4);
  b->device->clear(b->queue, a.f[3], (int64_t)ELEMENTS * 4); /* second moments are not negative */
  a.targets = targets;
  const double n = ELEMENTS;
  struct measured all[] = {
      measured_of("copy", 4 * n, run_copy, &a),
      measured_of("add", 6 * n, run_add, &a),
      measured_of("SwiGLU", 6 * n, run_glu, &a),
      measured_of("fp32 to bf16", 6 * n, run_convert, &a),
      measured_of("AdamW", 30 * n, run_adamw, &a), /* reads four floats, writes three and bf16 */
      measured_of("RMSNorm forward", 4 * n, run_norm, &a),
      measured_of("RMSNorm backward", 6 * n, run_norm_backward, &a),
      measured_of("cross-entropy statistics", 2 * n, run_cross_entropy, &a),
      measured_of("sum of squares, fp32", 4 * n, run_squares, &a),
  };
  printf("\noperators, %d x %d, bf16; bytes that must move, once\n", ROWS, WIDTH);
  measure(b, all, sizeof all / sizeof all[0], 1e9, "GB/s", "the copy");
}

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], name) == 0) return strtoll(argv[i + 1], NULL, 10);
  return otherwise;
}

int main(int argc, char **argv) {
  struct bench b = {.device = &spp_device_cuda,
                    .repeats = (int)option(argc, argv, "--repeats", 9),
                    .seq = option(argc, argv, "--seq", 8192),
                    .heads = option(argc, argv, "--heads", 32),
                    .kv_heads = option(argc, argv, "--kv-heads", 8),
                    .head_dim = option(argc, argv, "--head-dim", 128)};
  char text[256];
  struct spp_diag diag = {0};
  if (!spp_device_usable(b.device, &diag)) {
    printf("no device: %s\n", diag.what);
    return SPP_ERR_ABSENT;
  }
  must(b.device->open(0, &b.queue, &diag), &diag);
  must(b.device->describe(0, text, sizeof text, &diag), &diag);
  printf("%s\n%lld tokens, %lld/%lld heads of %lld; %d repeats after a warm-up: median [min, max]\n\n", text,
         (long long)b.seq, (long long)b.heads, (long long)b.kv_heads, (long long)b.head_dim, b.repeats);
  measure_attention(&b, SPP_STORE_BF16);
  measure_attention(&b, SPP_STORE_F32);
  measure_operators(&b);
  b.device->close(b.queue);
  return 0;
}
