/* The MLP of one decoder layer, with a gate (Shazeer, arXiv 2002.05202) or without, or its experts. What it
 * keeps is listed in model/activations_mlp.c for fused kernels. */
#include "exec/layer_work.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static enum spp_status block(const struct spp_layer_work *w, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(w->e, part, name, elements, data);
}
static bool is_gated(const struct spp_layer_work *w) {
  return spp_use_has(w->use, SPP_SLOT_GATE);
}
/* Elements of gate, of up and of their product. */
static int64_t inner_elements(const struct spp_layer_work *w) {
  return w->e->g->tokens * w->use->unit->held[SPP_SLOT_UP].rows;
}
/* Behind the gate, where there is one. */
static void *up_of(const struct spp_layer_work *w) {
  return spp_engine_at(w->e, w->kept->gate_up, is_gated(w) ? inner_elements(w) : 0);
}
static void drop_spare(const struct spp_layer_work *w, void **spare) {
  if (spare) spp_layer_drop(w, spare);
}

/* --- forward --- */

/* Experts read the stream as it is: no rank needs its neighbours' tokens. */
static enum spp_status mix_experts(const struct spp_layer_work *w, void **spare, void **out) {
  SPP_TRY(spp_experts_forward(w->e, w->use, w->pass, w->kept, out));
  if (spp_use_has(w->use, SPP_SLOT_SHARED_UP))
    SPP_TRY(spp_shared_expert_forward(w->e, w->use, w->pass, w->kept, *out));
  drop_spare(w, spare);
  return SPP_OK;
}

static enum spp_status widen(const struct spp_layer_work *w, void **spare) {
  struct spp_engine *e = w->e;
  struct spp_layer_kept *k = w->kept;
  const char *name = is_gated(w) ? "MLP: gate and up" : "MLP: up";
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"mlp input", w->pass}, k->mlp_input, &x, &gathered));
  SPP_TRY(block(w, kept_part, name, (is_gated(w) ? 2 : 1) * inner_elements(w), &k->gate_up));
  if (is_gated(w)) SPP_TRY(spp_layer_project(w, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, x, k->gate_up));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, x, up_of(w)));
  const struct spp_held *read = &w->use->unit->held[is_gated(w) ? SPP_SLOT_GATE : SPP_SLOT_UP];
  SPP_TRY(spp_relu_sides_meet(e, w->use->unit->layer, read->first_row, read->rows, k->gate_up));
  spp_heap_free(&e->rank->heap, gathered);
  drop_spare(w, spare);
  return SPP_OK;
}

static void activate(const struct spp_layer_work *w) {
  const struct spp_layer_kept *k = w->kept;
  enum spp_activation f = w->e->arch->activation;
  if (is_gated(w))
    w->ops->glu_forward(w->q, f, inner_elements(w), w->e->store, k->gate_up, up_of(w), k->product);
  else
    w->ops->activation_forward(w->q, f, inner_elements(w), w->e->store, k->gate_up, k->product);
}

enum spp_status spp_layer_mlp_forward(const struct spp_layer_work *w, void **spare, void **out) {
  struct spp_engine *e = w->e;
  if (spp_use_has_experts(w->use)) return mix_experts(w, spare, out);
  SPP_TRY(widen(w, spare));
  SPP_TRY(block(w, kept_part, "MLP: input of down", inner_elements(w), &w->kept->product));
  activate(w);
  SPP_TRY(block(w, work_part, "stream", e->g->tokens * e->arch->hidden, out));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_DOWN, SPP_SLOT_COUNT, w->kept->product, *out));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"mlp output", w->pass}, out));
  spp_layer_add_bias(w, SPP_SLOT_DOWN_BIAS, e->g->stream_tokens, e->arch->hidden, *out);
  return SPP_OK;
}

void spp_layer_mlp_drop(const struct spp_layer_work *w) {
  if (spp_use_has_experts(w->use)) {
    spp_experts_drop(w->e, w->kept);
    return;
  }
  if (!spp_engine_drops(w->e, SPP_RC_MLP)) return;
  spp_layer_drop(w, &w->kept->gate_up);
  spp_layer_drop(w, &w->kept->product);
}

/* --- backward; each tensor is freed as soon as nothing needs it --- */

static struct spp_label label(const char *what) {
  return (struct spp_label){what, SPP_PASS_BACKWARD};
}

/* What selective recompute dropped. */
static enum spp_status make_again(const struct spp_layer_work *w) {
  const struct spp_layer_work f = spp_layer_work_of(w->e, w->use, SPP_PASS_RECOMPUTE, w->kept);
  void *out;
  SPP_TRY(spp_layer_mlp_forward(&f, NULL, &out));
  spp_heap_free(&w->e->rank->heap, out);
  return SPP_OK;
}

/* down and the activation: gate_up becomes its own gradient. */
static enum spp_status inside(const struct spp_layer_work *w, const void *dy) {
  struct spp_layer_kept *k = w->kept;
  enum spp_activation f = w->e->arch->activation;
  int64_t n = inner_elements(w);
  void *dproduct;
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_DOWN, SPP_SLOT_DOWN_BIAS, dy, k->product));
  spp_layer_drop(w, &k->product);
  SPP_TRY(block(w, work_part, "gradients inside the MLP", n, &dproduct));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_DOWN, dy, false, dproduct));
  if (is_gated(w))
    w->ops->glu_backward(w->q, f, n, w->e->store, k->gate_up, up_of(w), dproduct, k->gate_up, up_of(w));
  else
    w->ops->activation_backward(w->q, f, n, w->e->store, k->gate_up, dproduct, k->gate_up);
  spp_layer_drop(w, &dproduct);
  return SPP_OK;
}

static enum spp_status narrow(const struct spp_layer_work *w, void **spare, void **dx) {
  struct spp_engine *e = w->e;
  struct spp_layer_kept *k = w->kept;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, label("mlp input"), k->mlp_input, &x, &gathered));
  if (is_gated(w)) SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, k->gate_up, x));
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, up_of(w), x));
  spp_layer_drop(w, &gathered);
  drop_spare(w, spare);
  SPP_TRY(block(w, work_part, "norm backward", e->g->tokens * e->arch->hidden, dx));
  if (is_gated(w)) SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_GATE, k->gate_up, false, *dx));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_UP, up_of(w), is_gated(w), *dx));
  spp_layer_drop(w, &k->gate_up);
  return spp_stream_reduce(e, label("mlp input"), dx);
}

enum spp_status spp_layer_mlp_backward(const struct spp_layer_work *w, void **spare, const void *dy,
                                       void **dx) {
  const void *whole;
  void *gathered;
  if (spp_use_has_experts(w->use)) {
    SPP_TRY(spp_experts_backward(w->e, w->use, w->kept, dy, dx));
    drop_spare(w, spare);
    return SPP_OK;
  }
  if (!w->kept->gate_up) SPP_TRY(make_again(w));
  SPP_TRY(spp_stream_gather(w->e, label("mlp output"), dy, &whole, &gathered));
  SPP_TRY(inside(w, whole));
  spp_layer_drop(w, &gathered);
  return narrow(w, spare, dx);
}
