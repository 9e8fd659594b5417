/* Backward of one decoder layer; each tensor is freed as soon as nothing needs it. */
#include "exec/engine.h"
#include "exec/try.h"

struct backward {
  struct spp_engine *e;
  const struct spp_ops *ops;
  const struct spp_unit_use *use;
  struct spp_layer_kept *kept;
};

static enum spp_status block(const struct backward *b, const char *name, int64_t elements, void **data) {
  return spp_engine_block(b->e, SPP_PART_TRANSIENT, name, elements, data);
}
static void drop(const struct backward *b, void **data) {
  spp_heap_free(&b->e->rank->heap, *data);
  *data = NULL;
}
static void drop_floats(const struct backward *b, float **data) {
  spp_heap_free(&b->e->rank->heap, *data);
  *data = NULL;
}

static enum spp_status input_grad(const struct backward *b, enum spp_slot slot, const void *dy, bool add,
                                  void *dx) {
  const struct spp_held *w = &b->use->unit->held[slot];
  return spp_linear_input(b->e->rank, b->e->g->tokens, w->cols, w->rows, spp_linear_in(b->e->store), dy,
                          spp_use_weight(b->use, slot), add, dx);
}
static enum spp_status weight_grad(const struct backward *b, enum spp_slot slot, enum spp_slot bias,
                                   const void *dy, const void *x) {
  const struct spp_held *w = &b->use->unit->held[slot];
  SPP_TRY(spp_linear_weight(b->e->rank, b->e->g->tokens, w->cols, w->rows, spp_linear_in(b->e->store), dy, x,
                            spp_use_grad(b->use, slot)));
  if (bias == SPP_SLOT_COUNT || !spp_use_has(b->use, bias)) return SPP_OK;
  for (int64_t t = 0; t < b->e->g->tokens; t++)
    b->ops->accumulate(w->rows, 1.0F, spp_at_const(dy, b->e->store, t * w->rows), b->e->store,
                       spp_use_grad(b->use, bias));
  return SPP_OK;
}

/* In place: dy becomes dx. */
static void norm_grad(const struct backward *b, enum spp_slot slot, int64_t rows, int64_t width,
                      const void *x, float *rstd, void *dy) {
  const struct spp_rmsnorm call = {.rows = rows,
                                   .width = width,
                                   .eps = SPP_ENGINE_EPS,
                                   .storage = b->e->store,
                                   .x = x,
                                   .weight = spp_use_weight(b->use, slot),
                                   .rstd = rstd,
                                   .dy = dy,
                                   .dx = dy,
                                   .dweight = spp_use_grad(b->use, slot)};
  b->ops->rmsnorm_backward(&call);
}

static struct spp_label label(const char *what) {
  return (struct spp_label){what, SPP_PASS_BACKWARD};
}

/* down and SwiGLU: gate_up becomes its own gradient. */
static enum spp_status mlp_inside(struct backward *b, const void *dy) {
  struct spp_layer_kept *k = b->kept;
  int64_t n = b->e->g->tokens * b->use->unit->held[SPP_SLOT_GATE].rows;
  void *dproduct;
  SPP_TRY(weight_grad(b, SPP_SLOT_DOWN, SPP_SLOT_DOWN_BIAS, dy, k->product));
  drop(b, &k->product);
  SPP_TRY(block(b, "gradients inside the MLP", n, &dproduct));
  SPP_TRY(input_grad(b, SPP_SLOT_DOWN, dy, false, dproduct));
  b->ops->swiglu_backward(n, b->e->store, k->gate_up, spp_engine_at(b->e, k->gate_up, n), dproduct,
                          k->gate_up, spp_engine_at(b->e, k->gate_up, n));
  drop(b, &dproduct);
  return SPP_OK;
}

/* Gradient of the MLP's input from that of its output. */
static enum spp_status mlp(struct backward *b, const void *dy, void **dx) {
  struct spp_engine *e = b->e;
  struct spp_layer_kept *k = b->kept;
  int64_t n = e->g->tokens * b->use->unit->held[SPP_SLOT_GATE].rows;
  const void *whole, *x;
  void *gathered;
  if (!k->normed2) SPP_TRY(spp_layer_remake_norm(e, b->use, SPP_SLOT_NORM2, k));
  if (spp_use_has_experts(b->use)) return spp_experts_backward(e, b->use, k, dy, dx);
  if (!k->gate_up) SPP_TRY(spp_layer_remake_mlp(e, b->use, k));
  SPP_TRY(spp_stream_gather(e, label("mlp output"), dy, &whole, &gathered));
  SPP_TRY(mlp_inside(b, whole));
  drop(b, &gathered);
  SPP_TRY(spp_stream_gather(e, label("mlp input"), k->normed2, &x, &gathered));
  SPP_TRY(weight_grad(b, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, k->gate_up, x));
  SPP_TRY(weight_grad(b, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, spp_engine_at(b->e, k->gate_up, n), x));
  drop(b, &gathered);
  drop(b, &k->normed2);
  SPP_TRY(block(b, "norm backward", e->g->tokens * e->arch->hidden, dx));
  SPP_TRY(input_grad(b, SPP_SLOT_GATE, k->gate_up, false, *dx));
  SPP_TRY(input_grad(b, SPP_SLOT_UP, spp_engine_at(b->e, k->gate_up, n), true, *dx));
  drop(b, &k->gate_up);
  return spp_stream_reduce(e, label("mlp input"), dx);
}

/* Through a norm; the gradient that flows past the block is added and *dy becomes the sum. */
static void through_norm(struct backward *b, enum spp_slot slot, void **x, float **rstd, void *inner,
                         void *dy) {
  b->e->rank->heap.moment = SPP_MOMENT_BACKWARD_NORM;
  norm_grad(b, slot, b->e->g->stream_tokens, b->e->arch->hidden, *x, *rstd, inner);
  b->ops->add(spp_stream_elements(b->e), b->e->store, dy, inner, dy);
  drop(b, &inner);
  drop(b, x);
  drop_floats(b, rstd);
}

static void heads_back(struct backward *b, enum spp_slot slot, int64_t heads, void *grad, void **raw,
                       float **rstd) {
  int64_t dh = b->e->arch->head_dim, tokens = b->e->g->tokens;
  const struct spp_rope call = {.tokens = tokens,
                                .heads = heads,
                                .head_dim = dh,
                                .storage = b->e->store,
                                .x = grad,
                                .row_stride = heads * dh,
                                .cos = b->e->cos,
                                .sin = b->e->sin,
                                .sign = -1.0F};
  b->ops->rope(&call);
  if (!spp_use_has(b->use, slot)) return;
  norm_grad(b, slot, tokens * heads, dh, *raw, *rstd, grad);
  drop(b, raw);
  drop_floats(b, rstd);
}

/* o_proj and attention itself. */
static enum spp_status attention_inside(struct backward *b, const void *dy,
                                        struct spp_attention_grads *grads) {
  struct spp_engine *e = b->e;
  struct spp_layer_kept *k = b->kept;
  void *dout;
  bool separate = k->attention.o_input != k->attention.out;
  SPP_TRY(weight_grad(b, SPP_SLOT_O, SPP_SLOT_O_BIAS, dy, k->attention.o_input));
  if (separate) drop(b, &k->attention.o_input);
  if (!k->attention.lse) SPP_TRY(spp_attention_again(e->rank, &e->attention, &k->attention));
  SPP_TRY(block(b, "gradient of the attention output", e->g->tokens * e->g->o_width, &dout));
  SPP_TRY(input_grad(b, SPP_SLOT_O, dy, false, dout));
  SPP_TRY(spp_attention_backward(e->rank, &e->attention, &k->attention, dout, grads));
  heads_back(b, SPP_SLOT_Q_NORM, e->g->heads_local, grads->q, &k->q_raw, &k->q_rstd);
  heads_back(b, SPP_SLOT_K_NORM, e->g->kv_heads_local, grads->k, &k->k_raw, &k->k_rstd);
  return SPP_OK;
}

static enum spp_status projections(struct backward *b, struct spp_attention_grads *g, void **dx) {
  struct spp_engine *e = b->e;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, label("attention input"), b->kept->normed1, &x, &gathered));
  SPP_TRY(weight_grad(b, SPP_SLOT_Q, SPP_SLOT_Q_BIAS, g->q, x));
  SPP_TRY(weight_grad(b, SPP_SLOT_K, SPP_SLOT_K_BIAS, g->k, x));
  SPP_TRY(weight_grad(b, SPP_SLOT_V, SPP_SLOT_V_BIAS, g->v, x));
  drop(b, &gathered);
  drop(b, &b->kept->normed1);
  SPP_TRY(block(b, "norm backward", e->g->tokens * e->arch->hidden, dx));
  SPP_TRY(input_grad(b, SPP_SLOT_Q, g->q, false, *dx));
  SPP_TRY(input_grad(b, SPP_SLOT_K, g->k, true, *dx));
  SPP_TRY(input_grad(b, SPP_SLOT_V, g->v, true, *dx));
  drop(b, &g->q);
  drop(b, &g->k);
  drop(b, &g->v);
  return spp_stream_reduce(e, label("attention input"), dx);
}

static enum spp_status attention(struct backward *b, const void *dy, void **dx) {
  struct spp_attention_grads grads;
  const void *whole;
  void *gathered;
  b->e->rank->heap.moment = SPP_MOMENT_BACKWARD_ATTENTION;
  if (!b->kept->normed1) SPP_TRY(spp_layer_remake_norm(b->e, b->use, SPP_SLOT_NORM1, b->kept));
  SPP_TRY(spp_stream_gather(b->e, label("attention projection"), dy, &whole, &gathered));
  SPP_TRY(attention_inside(b, whole, &grads));
  drop(b, &gathered);
  return projections(b, &grads, dx);
}

enum spp_status spp_layer_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                   struct spp_layer_kept *kept, void **dy) {
  struct backward b = {.e = e, .ops = e->rank->kernels->ops, .use = use, .kept = kept};
  void *inner;
  spp_engine_turn_to(e, use->unit);
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_MLP;
  SPP_TRY(mlp(&b, *dy, &inner));
  through_norm(&b, SPP_SLOT_NORM2, &kept->middle, &kept->rstd2, inner, *dy);
  SPP_TRY(attention(&b, *dy, &inner));
  through_norm(&b, SPP_SLOT_NORM1, &kept->input, &kept->rstd1, inner, *dy);
  return SPP_OK;
}
