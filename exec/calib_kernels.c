/* What is measured on one rank alone: products, attention, memory-bound kernels. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "exec/calib_parts.h"
#include "exec/try.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"

enum { HEAD_PART = 32 };

struct gemm_shape {
  int64_t m, n, k;
  bool quick;
};
static const struct gemm_shape gemm_shapes[] = {
    {16, 64, 64, false},    {32, 64, 64, true},      {32, 128, 64, false},    {64, 64, 128, false},
    {64, 256, 256, true},   {128, 64, 256, false},   {128, 256, 256, false},  {128, 768, 256, false},
    {256, 256, 256, true},  {256, 256, 768, false},  {256, 512, 512, true},   {512, 128, 256, false},
    {512, 256, 256, false}, {512, 768, 256, true},   {512, 512, 512, false},  {512, 2048, 256, true},
    {768, 768, 768, false}, {1024, 512, 512, false}, {1024, 1024, 256, false}};

struct attention_shape {
  int64_t tokens, heads, head_dim;
  bool quick;
};
static const struct attention_shape attention_shapes[] = {
    {32, 2, 16, true},   {64, 4, 16, false},  {128, 4, 32, false}, {128, 2, 64, true},   {256, 4, 32, false},
    {256, 4, 64, true},  {512, 4, 32, false}, {512, 4, 64, true},  {1024, 2, 64, false}, {64, 2, 128, false},
    {128, 2, 128, true}, {256, 2, 96, false}, {512, 2, 128, true}, {1024, 2, 128, false}};

struct memory_shape {
  int64_t rows, width;
  bool quick;
};
static const struct memory_shape memory_shapes[] = {
    {32, 64, true}, {128, 128, false}, {256, 256, true}, {512, 512, false}, {1024, 512, true}};

/* Bytes and launches as model/timing_layer.c, timing_ends.c and timing_optimizer.c count them: forward and
 * backward of fused kernels on fp32, twice the bytes of their tables, which are for 16 bits. */
static const struct {
  double bytes, launches;
} counted[SPP_MEMORY_KERNEL_COUNT] = {
    [SPP_MEMORY_STREAM] = {24, 2},     /* residual sum, there and back */
    [SPP_MEMORY_NORM] = {24, 2},       /* 4 + 8 */
    [SPP_MEMORY_ACTIVATION] = {32, 2}, /* 6 + 10 */
    [SPP_MEMORY_EAGER] = {16, 2},      /* embedding: 4 + 12, counted in bytes as they are */
    [SPP_MEMORY_PERMUTE] = {32, 4},    /* rows there and back, twice */
    [SPP_MEMORY_OPTIMIZER] = {40, 0},  /* weights and moments twice, gradient once; 12 for norm and scaling */
    [SPP_MEMORY_ROW_LOSS] = {16, 0},   /* in place: 8 + 8 */
    [SPP_MEMORY_ROPE] = {16, 2},       /* 4 + 4 */
    [SPP_MEMORY_MERGE] = {50, 4},      /* zhuzilin's merge: 38; a sum of gradients: 12 */
};
double spp_measured_bytes(int kernel) {
  return counted[kernel].bytes;
}
double spp_measured_launches(int kernel) {
  return counted[kernel].launches;
}

/* Buffers and the call at hand. */
struct bench {
  struct spp_meter *meter;
  float *data[6];
  int64_t floats; /* of each */
  int32_t *ids;
  void *work;
  struct spp_measured point;
};

static enum spp_status run_gemm(void *context, int calls) {
  const struct bench *b = context;
  const int64_t m = b->point.size[0], n = b->point.size[1], k = b->point.size[2];
  struct spp_gemm g = {.m = m, .n = n, .k = k, .alpha = 1, .threads = 1};
  g.trans_a = b->point.variant == 2;
  g.trans_b = b->point.variant == 0;
  g.beta = b->point.variant == 2 ? 1.0F : 0.0F;
  g.a = (struct spp_matrix){b->data[0], g.trans_a ? m : k, SPP_STORE_F32};
  g.b = (struct spp_matrix){b->data[1], g.trans_b ? k : n, SPP_STORE_F32};
  g.c = (struct spp_matrix){b->data[2], n, SPP_STORE_F32};
  for (int i = 0; i < calls; i++)
    SPP_TRY(spp_gemm(&g, b->work, b->meter->rank->diag));
  return SPP_OK;
}

static struct spp_attn_shape plain_shape(int64_t tokens, int64_t heads, int64_t head_dim) {
  return (struct spp_attn_shape){.q_tokens = tokens,
                                 .kv_tokens = tokens,
                                 .q_heads = heads,
                                 .kv_heads = heads,
                                 .head_dim = head_dim,
                                 .scale = 0.1F,
                                 .mask = spp_mask_causal(0, 0)};
}

static enum spp_status run_attention(void *context, int calls) {
  const struct bench *b = context;
  const int64_t s = b->point.size[0], h = b->point.size[1], d = b->point.size[2];
  const struct spp_kernels *kernels = b->meter->kernels;
  const struct spp_attn_shape shape = plain_shape(s, h, d);
  struct spp_rows r[6];
  for (int i = 0; i < 6; i++)
    r[i] = (struct spp_rows){b->data[i], h * d, SPP_STORE_F32};
  const struct spp_row_stats stats = {b->data[5] + s * h * d, s};
  const struct spp_attn_forward f = {
      .shape = shape, .options = {.threads = 1}, .q = r[0], .k = r[1], .v = r[2], .out = r[3], .lse = stats};
  const struct spp_attn_backward k = {shape, {.threads = 1}, r[0], r[1], r[2], r[0],
                                      stats, stats,          r[3], r[4], r[5]};
  for (int i = 0; i < calls; i++)
    SPP_TRY(b->point.variant == 0 ? spp_attn_forward(kernels, &f, b->work, b->meter->rank->diag)
                                  : spp_attn_backward(kernels, &k, b->work, b->meter->rank->diag));
  return SPP_OK;
}

static void norm(const struct bench *b, const struct spp_ops *ops) {
  const int64_t rows = b->point.size[0], width = b->point.size[1];
  const struct spp_rmsnorm n = {.rows = rows,
                                .width = width,
                                .eps = 1e-6F,
                                .storage = SPP_STORE_F32,
                                .x = b->data[0],
                                .weight = b->data[4],
                                .y = b->data[1],
                                .rstd = b->data[3] + width,
                                .dy = b->data[2],
                                .dx = b->data[5],
                                .dweight = b->data[3]};
  ops->rmsnorm_forward(&n);
  ops->rmsnorm_backward(&n);
}

static void embedding(const struct bench *b, const struct spp_ops *ops) {
  const int64_t rows = b->point.size[0], width = b->point.size[1];
  const struct spp_embedding e = {.tokens = rows,
                                  .width = width,
                                  .rows = rows,
                                  .storage = SPP_STORE_F32,
                                  .ids = b->ids,
                                  .table = b->data[0],
                                  .out = b->data[1],
                                  .dout = b->data[1],
                                  .dtable = b->data[2]};
  ops->embedding_forward(&e);
  ops->embedding_backward(&e);
}

static void permute(const struct bench *b) {
  const int64_t rows = b->point.size[0], width = b->point.size[1];
  for (int pass = 0; pass < 4; pass++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(b->data[pass % 2 + 1] + r * width, b->data[0] + b->ids[r] * width,
             (size_t)width * sizeof(float));
}

static void optimizer(const struct bench *b, const struct spp_ops *ops) {
  const int64_t n = b->point.size[0] * b->point.size[1];
  const struct spp_adamw a = {.n = n,
                              .step = 3,
                              .lr = 1e-3F,
                              .beta1 = 0.9F,
                              .beta2 = 0.95F,
                              .eps = 1e-5F,
                              .weight_decay = 0.1F,
                              .grad_scale = 1,
                              .grad = b->data[0],
                              .master = b->data[1],
                              .m = b->data[2],
                              .v = b->data[3]};
  ops->adamw(&a);
  memset(b->data[4], 0, (size_t)n * sizeof(float)); /* gradients are cleared for the next step */
}

static void loss(const struct bench *b, const struct spp_ops *ops) {
  const int64_t rows = b->point.size[0], vocab = b->point.size[1];
  const struct spp_cross_entropy c = {.tokens = rows,
                                      .vocab = vocab,
                                      .storage = SPP_STORE_F32,
                                      .logits = b->data[0],
                                      .row_stride = vocab,
                                      .targets = b->ids,
                                      .max = b->data[1],
                                      .sum = b->data[2],
                                      .target_logit = b->data[3],
                                      .grad = b->data[4],
                                      .dlogits = b->data[0]};
  ops->cross_entropy_local(&c);
  ops->cross_entropy_backward(&c);
}

static void rope(const struct bench *b, const struct spp_ops *ops) {
  const int64_t rows = b->point.size[0], width = b->point.size[1];
  struct spp_rope r = {.tokens = rows,
                       .heads = width / HEAD_PART,
                       .head_dim = HEAD_PART,
                       .storage = SPP_STORE_F32,
                       .x = b->data[0],
                       .row_stride = width,
                       .cos = b->data[1],
                       .sin = b->data[2],
                       .sign = 1};
  ops->rope(&r);
  r.sign = -1;
  ops->rope(&r);
}

static void merge(const struct bench *b, const struct spp_ops *ops) {
  const int64_t rows = b->point.size[0], width = b->point.size[1];
  spp_lse_merge(rows, width / HEAD_PART, HEAD_PART, b->data[0], width, b->data[1], rows, b->data[2], width,
                b->data[3], rows);
  ops->add(rows * width, SPP_STORE_F32, b->data[0], b->data[2], b->data[0]);
}

static void run_memory_once(const struct bench *b) {
  const struct spp_ops *ops = b->meter->kernels->ops;
  const int64_t n = b->point.size[0] * b->point.size[1];
  switch ((enum spp_memory_kernel)b->point.variant) {
  case SPP_MEMORY_STREAM:
    ops->add(n, SPP_STORE_F32, b->data[0], b->data[1], b->data[2]);
    ops->add(n, SPP_STORE_F32, b->data[2], b->data[1], b->data[0]);
    break;
  case SPP_MEMORY_NORM: norm(b, ops); break;
  case SPP_MEMORY_ACTIVATION:
    ops->glu_forward(SPP_SILU, n, SPP_STORE_F32, b->data[0], b->data[1], b->data[2]);
    ops->glu_backward(SPP_SILU, n, SPP_STORE_F32, b->data[0], b->data[1], b->data[2], b->data[3], b->data[4]);
    break;
  case SPP_MEMORY_EAGER: embedding(b, ops); break;
  case SPP_MEMORY_PERMUTE: permute(b); break;
  case SPP_MEMORY_OPTIMIZER: optimizer(b, ops); break;
  case SPP_MEMORY_ROW_LOSS: loss(b, ops); break;
  case SPP_MEMORY_ROPE: rope(b, ops); break;
  case SPP_MEMORY_MERGE: merge(b, ops); break;
  case SPP_MEMORY_KERNEL_COUNT: break;
  }
}
static enum spp_status run_memory(void *context, int calls) {
  for (int i = 0; i < calls; i++)
    run_memory_once(context);
  return SPP_OK;
}

static bool wanted(bool quick_shape, bool quick) {
  return quick_shape || !quick;
}

static enum spp_status measure_gemms(struct bench *b, bool quick) {
  for (size_t i = 0; i < sizeof gemm_shapes / sizeof gemm_shapes[0]; i++)
    for (int variant = 0; variant < 3; variant++) {
      const struct gemm_shape *s = &gemm_shapes[i];
      if (!wanted(s->quick, quick)) continue;
      b->point =
          (struct spp_measured){.what = SPP_MEASURED_GEMM, .variant = variant, .size = {s->m, s->n, s->k}};
      SPP_TRY(spp_meter_time(b->meter, b->point, false, run_gemm, b));
    }
  return SPP_OK;
}

static enum spp_status measure_attention(struct bench *b, bool quick) {
  for (size_t i = 0; i < sizeof attention_shapes / sizeof attention_shapes[0]; i++)
    for (int pass = 0; pass < 2; pass++) {
      const struct attention_shape *s = &attention_shapes[i];
      if (!wanted(s->quick, quick)) continue;
      b->point = (struct spp_measured){
          .what = SPP_MEASURED_ATTENTION, .variant = pass, .size = {s->tokens, s->heads, s->head_dim}};
      SPP_TRY(spp_meter_time(b->meter, b->point, false, run_attention, b));
    }
  return SPP_OK;
}

/* No repetition may leave the range of numbers that processors handle at full speed: rope turns by an angle
 * whose cosine and sine are these. */
static void reset(struct bench *b, bool turns) {
  for (size_t i = 0; i < sizeof b->data / sizeof b->data[0]; i++)
    for (int64_t k = 0; k < b->floats; k++)
      b->data[i][k] = turns && i > 0 ? (i == 1 ? 0.8F : 0.6F) : 0.01F * (float)(k % 7);
}

static enum spp_status measure_memory(struct bench *b, bool quick) {
  for (int kernel = 0; kernel < SPP_MEMORY_KERNEL_COUNT; kernel++)
    for (size_t i = 0; i < sizeof memory_shapes / sizeof memory_shapes[0]; i++) {
      const struct memory_shape *s = &memory_shapes[i];
      if (!wanted(s->quick, quick)) continue;
      reset(b, kernel == SPP_MEMORY_ROPE);
      b->point = (struct spp_measured){
          .what = SPP_MEASURED_MEMORY, .variant = kernel, .size = {s->rows, s->width, 0}};
      SPP_TRY(spp_meter_time(b->meter, b->point, false, run_memory, b));
    }
  return SPP_OK;
}

static int count_of(const bool *quick_flag, size_t step, size_t n, bool quick) {
  int count = 0;
  for (size_t i = 0; i < n; i++)
    count += wanted(*(const bool *)((const char *)quick_flag + i * step), quick);
  return count;
}
#define COUNT(shapes, quick)                                                                                 \
  count_of(&(shapes)[0].quick, sizeof(shapes)[0], sizeof(shapes) / sizeof(shapes)[0], quick)

int spp_meter_kernel_count(bool quick) {
  return 3 * COUNT(gemm_shapes, quick) + 2 * COUNT(attention_shapes, quick) +
         SPP_MEMORY_KERNEL_COUNT * COUNT(memory_shapes, quick);
}

/* Most that any of the calls above asks for. */
static int64_t workspace_bytes(const struct spp_kernels *kernels) {
  int64_t most = 64;
  for (size_t i = 0; i < sizeof attention_shapes / sizeof attention_shapes[0]; i++) {
    const struct attention_shape *s = &attention_shapes[i];
    const struct spp_attn_shape shape = plain_shape(s->tokens, s->heads, s->head_dim);
    const struct spp_rows r = {NULL, s->heads * s->head_dim, SPP_STORE_F32};
    const struct spp_attn_forward f = {
        .shape = shape, .options = {.threads = 1}, .q = r, .k = r, .v = r, .out = r};
    const struct spp_attn_backward k = {.shape = shape,
                                        .options = {.threads = 1},
                                        .q = r,
                                        .k = r,
                                        .v = r,
                                        .dout = r,
                                        .dq = r,
                                        .dk = r,
                                        .dv = r};
    most = spp_max64(most, spp_attn_forward_workspace_bytes(kernels, &f));
    most = spp_max64(most, spp_attn_backward_workspace_bytes(kernels, &k));
  }
  const struct spp_matrix x = {NULL, 1024, SPP_STORE_F32};
  const struct spp_gemm g = {.m = 1024, .n = 1024, .k = 1024, .a = x, .b = x, .c = x, .threads = 1};
  return spp_max64(most, spp_gemm_workspace_bytes(&g));
}

enum spp_status spp_meter_kernels(struct spp_meter *m) {
  struct bench b = {.meter = m, .floats = 1 << 20};
  b.work = malloc((size_t)workspace_bytes(m->kernels));
  b.ids = malloc((size_t)b.floats * sizeof *b.ids);
  bool all = b.work && b.ids;
  for (size_t i = 0; i < sizeof b.data / sizeof b.data[0]; i++)
    all = (b.data[i] = malloc((size_t)b.floats * sizeof(float))) && all;
  enum spp_status status = all ? SPP_OK : spp_diag_oom(m->rank->diag);
  if (all) {
    reset(&b, false);
    for (int64_t i = 0; i < b.floats; i++)
      b.ids[i] = (int32_t)(i * 7 % 32);
    status = measure_gemms(&b, m->options->quick);
  }
  if (status == SPP_OK) status = measure_attention(&b, m->options->quick);
  if (status == SPP_OK) status = measure_memory(&b, m->options->quick);
  for (size_t i = 0; i < sizeof b.data / sizeof b.data[0]; i++)
    free(b.data[i]);
  free(b.ids);
  free(b.work);
  return status;
}
