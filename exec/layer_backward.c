/* Backward of one decoder layer; each tensor is freed as soon as nothing needs it. */
#include "exec/layer_work.h"
#include "exec/try.h"

static enum spp_status block(const struct spp_layer_work *b, const char *name, int64_t elements,
                             void **data) {
  return spp_engine_block(b->e, SPP_PART_TRANSIENT, name, elements, data);
}

static struct spp_label label(const char *what) {
  return (struct spp_label){what, SPP_PASS_BACKWARD};
}

/* down and SwiGLU: gate_up becomes its own gradient. */
static enum spp_status mlp_inside(const struct spp_layer_work *b, const void *dy) {
  struct spp_layer_kept *k = b->kept;
  int64_t n = b->e->g->tokens * b->use->unit->held[SPP_SLOT_GATE].rows;
  void *dproduct;
  SPP_TRY(spp_layer_weight_grad(b, SPP_SLOT_DOWN, SPP_SLOT_DOWN_BIAS, dy, k->product));
  spp_layer_drop(b, &k->product);
  SPP_TRY(block(b, "gradients inside the MLP", n, &dproduct));
  SPP_TRY(spp_layer_input_grad(b, SPP_SLOT_DOWN, dy, false, dproduct));
  b->ops->swiglu_backward(n, b->e->store, k->gate_up, spp_engine_at(b->e, k->gate_up, n), dproduct,
                          k->gate_up, spp_engine_at(b->e, k->gate_up, n));
  spp_layer_drop(b, &dproduct);
  return SPP_OK;
}

/* Gradient of the MLP's input from that of its output. */
static enum spp_status mlp(const struct spp_layer_work *b, const void *dy, void **dx) {
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
  spp_layer_drop(b, &gathered);
  SPP_TRY(spp_stream_gather(e, label("mlp input"), k->normed2, &x, &gathered));
  SPP_TRY(spp_layer_weight_grad(b, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, k->gate_up, x));
  SPP_TRY(spp_layer_weight_grad(b, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, spp_engine_at(b->e, k->gate_up, n), x));
  spp_layer_drop(b, &gathered);
  spp_layer_drop(b, &k->normed2);
  SPP_TRY(block(b, "norm backward", e->g->tokens * e->arch->hidden, dx));
  SPP_TRY(spp_layer_input_grad(b, SPP_SLOT_GATE, k->gate_up, false, *dx));
  SPP_TRY(spp_layer_input_grad(b, SPP_SLOT_UP, spp_engine_at(b->e, k->gate_up, n), true, *dx));
  spp_layer_drop(b, &k->gate_up);
  return spp_stream_reduce(e, label("mlp input"), dx);
}

/* Through a norm; the gradient that flows past the block is added and *dy becomes the sum. */
static void through_norm(const struct spp_layer_work *b, enum spp_slot slot, void **x, float **rstd,
                         void *inner, void *dy) {
  b->e->rank->heap.moment = SPP_MOMENT_BACKWARD_NORM;
  spp_layer_norm_grad(b, slot, b->e->g->stream_tokens, b->e->arch->hidden, *x, *rstd, inner);
  b->ops->add(spp_stream_elements(b->e), b->e->store, dy, inner, dy);
  spp_layer_drop(b, &inner);
  spp_layer_drop(b, x);
  spp_layer_drop_floats(b, rstd);
}

static enum spp_status attention(const struct spp_layer_work *b, const void *dy, void **dx) {
  struct spp_layer_kept *k = b->kept;
  b->e->rank->heap.moment = SPP_MOMENT_BACKWARD_ATTENTION;
  if (!k->normed1) SPP_TRY(spp_layer_remake_norm(b->e, b->use, SPP_SLOT_NORM1, k));
  return spp_layer_attention_backward(b, k->normed1, &k->normed1, dy, dx);
}

enum spp_status spp_layer_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                   struct spp_layer_kept *kept, void **dy) {
  const struct spp_layer_work b = spp_layer_work_of(e, use, SPP_PASS_BACKWARD, kept);
  void *inner;
  spp_engine_turn_to(e, use->unit);
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_MLP;
  SPP_TRY(mlp(&b, *dy, &inner));
  through_norm(&b, SPP_SLOT_NORM2, &kept->middle, &kept->rstd2, inner, *dy);
  SPP_TRY(attention(&b, *dy, &inner));
  through_norm(&b, SPP_SLOT_NORM1, &kept->input, &kept->rstd1, inner, *dy);
  return SPP_OK;
}
