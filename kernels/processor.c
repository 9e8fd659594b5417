#include "kernels/processor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cross_entropy.h"

/* What a queue stands for. */
static const struct spp_kernels *row_of(const struct spp_queue *q) {
  union {
    const struct spp_queue *queue;
    const struct spp_kernels *kernels;
  } same = {.queue = q};
  return same.kernels;
}
static const struct spp_ops *ops_of(const struct spp_queue *q) {
  return row_of(q)->ops;
}

/* --- operators --- */

static void rmsnorm_forward(struct spp_queue *q, const struct spp_rmsnorm *a) {
  ops_of(q)->rmsnorm_forward(a);
}
static void rmsnorm_backward(struct spp_queue *q, const struct spp_rmsnorm *a) {
  ops_of(q)->rmsnorm_backward(a);
}
static void layernorm_forward(struct spp_queue *q, const struct spp_layernorm *a) {
  ops_of(q)->layernorm_forward(a);
}
static void layernorm_backward(struct spp_queue *q, const struct spp_layernorm *a) {
  ops_of(q)->layernorm_backward(a);
}
static void rope(struct spp_queue *q, const struct spp_rope *a) {
  ops_of(q)->rope(a);
}
static void embedding_forward(struct spp_queue *q, const struct spp_embedding *a) {
  ops_of(q)->embedding_forward(a);
}
static void embedding_backward(struct spp_queue *q, const struct spp_embedding *a) {
  ops_of(q)->embedding_backward(a);
}
static void cross_entropy_local(struct spp_queue *q, const struct spp_cross_entropy *a) {
  ops_of(q)->cross_entropy_local(a);
}
static void cross_entropy_backward(struct spp_queue *q, const struct spp_cross_entropy *a) {
  ops_of(q)->cross_entropy_backward(a);
}
static void cross_entropy_rescale(struct spp_queue *q, int64_t tokens, const float *local_max,
                                  const float *max, float *sum) {
  (void)q;
  spp_cross_entropy_rescale(tokens, local_max, max, sum);
}
static void cross_entropy_loss(struct spp_queue *q, int64_t tokens, const int32_t *targets, const float *max,
                               const float *sum, const float *target_logit, float *loss) {
  int64_t counted;
  (void)q;
  spp_cross_entropy_loss(tokens, targets, max, sum, target_logit, loss, &counted);
}
static void adamw(struct spp_queue *q, const struct spp_adamw *a) {
  ops_of(q)->adamw(a);
}
static void activation_forward(struct spp_queue *q, enum spp_activation f, int64_t n,
                               enum spp_storage storage, const void *x, void *y) {
  ops_of(q)->activation_forward(f, n, storage, x, y);
}
static void activation_backward(struct spp_queue *q, enum spp_activation f, int64_t n,
                                enum spp_storage storage, const void *x, const void *dy, void *dx) {
  ops_of(q)->activation_backward(f, n, storage, x, dy, dx);
}
static void glu_forward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                        const void *gate, const void *up, void *out) {
  ops_of(q)->glu_forward(f, n, storage, gate, up, out);
}
static void glu_backward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                         const void *gate, const void *up, const void *dout, void *dgate, void *dup) {
  ops_of(q)->glu_backward(f, n, storage, gate, up, dout, dgate, dup);
}
static void softcap(struct spp_queue *q, int64_t n, float cap, void *x, enum spp_storage storage) {
  ops_of(q)->softcap(n, cap, x, storage);
}
static void softmax(struct spp_queue *q, int64_t rows, int64_t n, const float *x, float *y) {
  ops_of(q)->softmax(rows, n, x, y);
}
static void row_dots(struct spp_queue *q, int64_t rows, int64_t width, const void *a, int64_t a_stride,
                     enum spp_storage a_storage, const void *b, int64_t b_stride, enum spp_storage b_storage,
                     float *dot, int64_t dot_stride) {
  ops_of(q)->row_dots(rows, width, a, a_stride, a_storage, b, b_stride, b_storage, dot, dot_stride);
}
static void convert(struct spp_queue *q, int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                    enum spp_storage dst_storage) {
  ops_of(q)->convert(n, src, src_storage, dst, dst_storage);
}
static void add(struct spp_queue *q, int64_t n, enum spp_storage storage, const void *a, const void *b,
                void *out) {
  ops_of(q)->add(n, storage, a, b, out);
}
static void add_row(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                    const void *row, void *x) {
  for (int64_t r = 0; r < rows; r++) {
    void *to = spp_at(x, storage, r * width);
    ops_of(q)->add(width, storage, to, row, to);
  }
}
static void sum_rows(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                     const void *x, float *sum) {
  for (int64_t r = 0; r < rows; r++)
    ops_of(q)->accumulate(width, 1.0F, spp_at_const(x, storage, r * width), storage, sum);
}
static void maximum(struct spp_queue *q, int64_t n, const float *x, float *most) {
  (void)q;
  for (int64_t i = 0; i < n; i++)
    most[i] = fmaxf(most[i], x[i]);
}
static void accumulate(struct spp_queue *q, int64_t n, float factor, const void *x, enum spp_storage storage,
                       float *sum) {
  ops_of(q)->accumulate(n, factor, x, storage, sum);
}
static void scale(struct spp_queue *q, int64_t n, float factor, void *x, enum spp_storage storage) {
  ops_of(q)->scale(n, factor, x, storage);
}
static void sum_squares(struct spp_queue *q, int64_t n, const void *x, enum spp_storage storage,
                        double *sum) {
  *sum = ops_of(q)->sum_squares(n, x, storage);
}

/* --- attention, router, products --- */

static int64_t attn_forward_bytes(struct spp_queue *q, const struct spp_attn_forward *a) {
  return spp_attn_forward_workspace_bytes(row_of(q), a);
}
static int64_t attn_backward_bytes(struct spp_queue *q, const struct spp_attn_backward *a) {
  return spp_attn_backward_workspace_bytes(row_of(q), a);
}
static enum spp_status attn_forward(struct spp_queue *q, const struct spp_attn_forward *a, void *workspace,
                                    struct spp_diag *diag) {
  return spp_attn_forward(row_of(q), a, workspace, diag);
}
static enum spp_status attn_backward(struct spp_queue *q, const struct spp_attn_backward *a, void *workspace,
                                     struct spp_diag *diag) {
  return spp_attn_backward(row_of(q), a, workspace, diag);
}
static void attn_delta(struct spp_queue *q, const struct spp_attn_shape *shape, struct spp_rows dout,
                       struct spp_rows out, struct spp_row_stats delta) {
  spp_attn_delta(row_of(q), shape, dout, out, delta);
}
static void attn_sink_grad(struct spp_queue *q, const struct spp_attn_shape *shape, const float *sinks,
                           struct spp_row_stats lse, struct spp_row_stats delta, float *dsinks) {
  (void)q;
  spp_attn_sink_grad(shape, sinks, lse, delta, dsinks);
}
static void lse_merge(struct spp_queue *q, int64_t tokens, int64_t heads, int64_t head_dim, float *out,
                      int64_t out_stride, float *lse, int64_t lse_stride, const float *block_out,
                      int64_t block_stride, const float *block_lse, int64_t block_lse_stride) {
  (void)q;
  spp_lse_merge(tokens, heads, head_dim, out, out_stride, lse, lse_stride, block_out, block_stride, block_lse,
                block_lse_stride);
}
static void router_probabilities(struct spp_queue *q, const struct spp_router *a) {
  spp_router_probabilities(row_of(q), a);
}
static void router_choose(struct spp_queue *q, const struct spp_router *a, const float *scores,
                          const struct spp_router_groups *groups) {
  (void)q;
  for (int64_t t = 0; t < a->tokens; t++) {
    int32_t *chosen = a->chosen + t * a->top_k;
    if (groups)
      spp_router_choose_in_groups(scores + t * a->experts, a->experts, groups, a->top_k, chosen);
    else
      spp_router_choose(scores + t * a->experts, a->experts, a->top_k, chosen);
  }
}
static void router_weights(struct spp_queue *q, const struct spp_router *a) {
  (void)q;
  spp_router_weights(a);
}
static void router_backward(struct spp_queue *q, const struct spp_router *a) {
  (void)q;
  spp_router_backward(a);
}
static int64_t gemm_bytes(struct spp_queue *q, const struct spp_gemm *g) {
  (void)q;
  return spp_gemm_workspace_bytes(g);
}
static enum spp_status gemm(struct spp_queue *q, const struct spp_gemm *g, void *workspace,
                            struct spp_diag *diag) {
  (void)q;
  return spp_gemm(g, workspace, diag);
}

/* --- memory --- */

static int count(struct spp_diag *why) {
  (void)why;
  return 1;
}
static enum spp_status describe(int ordinal, char *text, size_t size, struct spp_diag *diag) {
  (void)ordinal, (void)diag;
  spp_kernels_describe(spp_kernels_best(), text, size);
  return SPP_OK;
}
static enum spp_status open(int ordinal, struct spp_queue **queue, struct spp_diag *diag) {
  if (ordinal != 0)
    return spp_diag_set(diag, SPP_ERR_ABSENT, "processor", NULL, "there is one processor, not %d",
                        ordinal + 1);
  *queue = spp_processor_runner(spp_kernels_best()).queue;
  return SPP_OK;
}
static void close(struct spp_queue *q) {
  (void)q;
}
static void *handle(struct spp_queue *q) {
  return q;
}
static enum spp_status allocate(struct spp_queue *q, int64_t bytes, void **memory, struct spp_diag *diag) {
  (void)q;
  void *fresh = bytes < 0 ? NULL : malloc(bytes > 0 ? (size_t)bytes : 1);
  if (!fresh) return spp_diag_oom(diag);
  *memory = fresh;
  return SPP_OK;
}
static void release(struct spp_queue *q, void *memory) {
  (void)q;
  free(memory);
}
static void move(struct spp_queue *q, void *to, const void *from, int64_t bytes) {
  (void)q;
  if (bytes > 0) memcpy(to, from, (size_t)bytes);
}
static void copy_rows(struct spp_queue *q, int64_t rows, int64_t bytes, void *to, int64_t to_stride,
                      const void *from, int64_t from_stride) {
  for (int64_t r = 0; r < rows; r++)
    move(q, (char *)to + r * to_stride, (const char *)from + r * from_stride, bytes);
}
static void clear(struct spp_queue *q, void *memory, int64_t bytes) {
  (void)q;
  if (bytes > 0) memset(memory, 0, (size_t)bytes);
}
static bool is_done(struct spp_queue *q) {
  (void)q;
  return true;
}
static enum spp_status wait(struct spp_queue *q, struct spp_diag *diag) {
  (void)q, (void)diag;
  return SPP_OK;
}

static const struct spp_device_ops ops = {.rmsnorm_forward = rmsnorm_forward,
                                          .rmsnorm_backward = rmsnorm_backward,
                                          .layernorm_forward = layernorm_forward,
                                          .layernorm_backward = layernorm_backward,
                                          .rope = rope,
                                          .embedding_forward = embedding_forward,
                                          .embedding_backward = embedding_backward,
                                          .cross_entropy_local = cross_entropy_local,
                                          .cross_entropy_backward = cross_entropy_backward,
                                          .cross_entropy_rescale = cross_entropy_rescale,
                                          .cross_entropy_loss = cross_entropy_loss,
                                          .adamw = adamw,
                                          .activation_forward = activation_forward,
                                          .activation_backward = activation_backward,
                                          .glu_forward = glu_forward,
                                          .glu_backward = glu_backward,
                                          .softcap = softcap,
                                          .softmax = softmax,
                                          .row_dots = row_dots,
                                          .convert = convert,
                                          .add = add,
                                          .add_row = add_row,
                                          .sum_rows = sum_rows,
                                          .maximum = maximum,
                                          .accumulate = accumulate,
                                          .scale = scale,
                                          .sum_squares = sum_squares,
                                          .attn_forward_bytes = attn_forward_bytes,
                                          .attn_backward_bytes = attn_backward_bytes,
                                          .attn_forward = attn_forward,
                                          .attn_backward = attn_backward,
                                          .attn_delta = attn_delta,
                                          .attn_sink_grad = attn_sink_grad,
                                          .lse_merge = lse_merge,
                                          .router_probabilities = router_probabilities,
                                          .router_choose = router_choose,
                                          .router_weights = router_weights,
                                          .router_backward = router_backward,
                                          .gemm_bytes = gemm_bytes,
                                          .gemm = gemm};

const struct spp_device spp_device_processor = {.name = "processor",
                                                .description = "the processor",
                                                .count = count,
                                                .describe = describe,
                                                .open = open,
                                                .close = close,
                                                .handle = handle,
                                                .allocate = allocate,
                                                .release = release,
                                                .upload = move,
                                                .download = move,
                                                .copy = move,
                                                .copy_rows = copy_rows,
                                                .clear = clear,
                                                .is_done = is_done,
                                                .wait = wait,
                                                .ops = &ops};
