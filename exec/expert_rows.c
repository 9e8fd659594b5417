/* What one expert of a mixture does to its rows: gate and up, the weighted activation, down. */
#include "exec/expert_rows.h"

#include "exec/try.h"

/* Row r of expert i, of those that a product of `width` columns gives. */
static void *expert_row(const struct spp_experts *x, void *rows, int64_t i, int64_t r, int64_t width) {
  return spp_engine_at(x->e, rows, (i * (x->rows / x->local) + r) * width);
}
static const void *expert_bias(const struct spp_experts *x, enum spp_slot slot, int64_t i, int64_t width) {
  return spp_at_const(spp_use_weight(x->use, slot), x->e->store, i * width);
}

/* Biases of gate and up. */
static void add_inner_biases(const struct spp_experts *x, int64_t i) {
  if (!spp_use_has(x->use, SPP_SLOT_EXPERT_GATE_BIAS)) return;
  const void *gate = expert_bias(x, SPP_SLOT_EXPERT_GATE_BIAS, i, x->ffn),
             *up = expert_bias(x, SPP_SLOT_EXPERT_UP_BIAS, i, x->ffn);
  void *ups = spp_engine_at(x->e, x->kept->gate_up, x->rows * x->ffn);
  int64_t n = x->rows / x->local;
  x->ops->add_row(x->q, n, x->ffn, x->e->store, gate, expert_row(x, x->kept->gate_up, i, 0, x->ffn));
  x->ops->add_row(x->q, n, x->ffn, x->e->store, up, expert_row(x, ups, i, 0, x->ffn));
}

/* That of down, as much of it as the routing weight takes of the expert. */
static enum spp_status add_outer_bias(const struct spp_experts *x, int64_t i, void *out) {
  void *scaled;
  int64_t n = x->rows / x->local;
  if (!spp_use_has(x->use, SPP_SLOT_EXPERT_DOWN_BIAS)) return SPP_OK;
  const void *bias = expert_bias(x, SPP_SLOT_EXPERT_DOWN_BIAS, i, x->hidden);
  SPP_TRY(spp_engine_block(x->e, SPP_PART_CONTEXT, "scaled row", x->hidden, &scaled));
  for (int64_t r = 0; r < n; r++) {
    void *row = expert_row(x, out, i, r, x->hidden);
    x->ops->convert(x->q, x->hidden, bias, x->e->store, scaled, x->e->store);
    x->ops->scale(x->q, x->hidden, x->routing[i * n + r], scaled, x->e->store);
    x->ops->add(x->q, x->hidden, x->e->store, row, scaled, row);
  }
  spp_heap_free(&x->e->rank->heap, scaled);
  return SPP_OK;
}

void spp_expert_activate(const struct spp_experts *x, int64_t i) {
  struct spp_layer_kept *k = x->kept;
  int64_t n = x->rows / x->local;
  void *product = expert_row(x, k->product, i, 0, x->ffn);
  x->ops->glu_forward(x->q, x->e->arch->activation, n * x->ffn, x->e->store,
                      expert_row(x, k->gate_up, i, 0, x->ffn),
                      spp_engine_at(x->e, k->gate_up, (x->rows + i * n) * x->ffn), product);
  for (int64_t r = 0; r < n && !spp_experts_weigh_input(x); r++)
    x->ops->scale(x->q, x->ffn, x->routing[i * n + r], spp_engine_at(x->e, product, r * x->ffn), x->e->store);
}

enum spp_status spp_expert_forward(const struct spp_experts *x, int64_t i, void *out) {
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  struct spp_layer_kept *k = x->kept;
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  const void *input = spp_engine_at(x->e, k->expert_input, row * x->hidden);
  void *gate = spp_engine_at(x->e, k->gate_up, row * x->ffn),
       *up = spp_engine_at(x->e, k->gate_up, (x->rows + row) * x->ffn),
       *product = spp_engine_at(x->e, k->product, row * x->ffn);
  const void *gate_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_GATE), x->e->store, matrix),
             *up_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_UP), x->e->store, matrix),
             *down_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_DOWN), x->e->store, matrix);
  SPP_TRY(spp_linear_forward(x->e->rank, n, x->hidden, x->ffn, store, input, gate_w, gate));
  SPP_TRY(spp_linear_forward(x->e->rank, n, x->hidden, x->ffn, store, input, up_w, up));
  add_inner_biases(x, i);
  spp_expert_activate(x, i);
  SPP_TRY(spp_linear_forward(x->e->rank, n, x->ffn, x->hidden, store, product, down_w,
                             spp_engine_at(x->e, out, row * x->hidden)));
  return add_outer_bias(x, i, out);
}

/* Gradients of the biases of gate and up, whose own gradients lie in gate_up. */
static void inner_biases_back(const struct spp_experts *x, int64_t i) {
  static const enum spp_slot slots[] = {SPP_SLOT_EXPERT_GATE_BIAS, SPP_SLOT_EXPERT_UP_BIAS};
  if (!spp_use_has(x->use, slots[0])) return;
  for (int s = 0; s < 2; s++)
    x->ops->sum_rows(x->q, x->rows / x->local, x->ffn, x->e->store,
                     expert_row(x, spp_engine_at(x->e, x->kept->gate_up, s * x->rows * x->ffn), i, 0, x->ffn),
                     spp_use_grad(x->use, slots[s]) + i * x->ffn);
}

enum spp_status spp_engine_row_dots(struct spp_engine *e, int64_t n, int64_t width, const void *a,
                                    const void *b, int64_t b_stride, float **dots) {
  SPP_TRY(spp_engine_floats(e, SPP_PART_CONTEXT, "products of rows", n, dots));
  e->rank->ops->row_dots(e->rank->queue, n, width, a, width, e->store, b, b_stride, e->store, *dots, 1);
  return SPP_OK;
}

/* That of down's. */
static void outer_bias_back(const struct spp_experts *x, int64_t i, const void *dy) {
  int64_t n = x->rows / x->local;
  for (int64_t r = 0; r < n && spp_use_has(x->use, SPP_SLOT_EXPERT_DOWN_BIAS); r++)
    x->ops->accumulate(x->q, x->hidden, x->routing[i * n + r], spp_at_const(dy, x->e->store, r * x->hidden),
                       x->e->store, spp_use_grad(x->use, SPP_SLOT_EXPERT_DOWN_BIAS) + i * x->hidden);
}

/* Gradients of the routing weights: [n] of what they weigh, and of the bias of down where there is one. */
struct weight_grads {
  float *inner, *outer;
};
static enum spp_status take_dots(const struct spp_experts *x, int64_t i, const void *dy, const void *d,
                                 const void *product, struct weight_grads *g) {
  int64_t n = x->rows / x->local;
  g->outer = NULL;
  SPP_TRY(spp_engine_row_dots(x->e, n, x->ffn, d, product, x->ffn, &g->inner));
  if (!spp_use_has(x->use, SPP_SLOT_EXPERT_DOWN_BIAS)) return SPP_OK;
  return spp_engine_row_dots(x->e, n, x->hidden, dy, expert_bias(x, SPP_SLOT_EXPERT_DOWN_BIAS, i, x->hidden),
                             0, &g->outer);
}

/* d [n][ffn] becomes the gradient of what the weights were applied to, the weights their own gradients. */
static enum spp_status weights_back(const struct spp_experts *x, int64_t i, const void *dy, void *d,
                                    const void *product) {
  int64_t n = x->rows / x->local;
  struct weight_grads g;
  SPP_TRY(take_dots(x, i, dy, d, product, &g));
  struct spp_view views[] = {spp_view_floats(g.inner, n, SPP_VIEW_READ),
                             spp_view_floats(g.outer, n, SPP_VIEW_READ)};
  SPP_TRY(spp_views_open(x->e->rank, views, g.outer ? 2 : 1));
  const float *inner = views[0].data, *outer = g.outer ? views[1].data : NULL;
  outer_bias_back(x, i, dy);
  for (int64_t r = 0; r < n; r++) {
    float weight = x->routing[i * n + r];
    x->ops->scale(x->q, x->ffn, weight, spp_engine_at(x->e, d, r * x->ffn), x->e->store);
    x->routing[i * n + r] = weight > 0 ? inner[r] / weight + (outer ? outer[r] : 0) : 0;
  }
  spp_views_close(x->e->rank, views, g.outer ? 2 : 1);
  spp_heap_free(&x->e->rank->heap, g.inner);
  spp_heap_free(&x->e->rank->heap, g.outer);
  return SPP_OK;
}

enum spp_status spp_expert_activation_back(const struct spp_experts *x, int64_t i, const void *dout,
                                           void *dproduct) {
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  struct spp_layer_kept *k = x->kept;
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  const void *dy = spp_at_const(dout, x->e->store, row * x->hidden);
  void *product = spp_engine_at(x->e, k->product, row * x->ffn),
       *d = spp_engine_at(x->e, dproduct, row * x->ffn);
  void *gate = spp_engine_at(x->e, k->gate_up, row * x->ffn),
       *up = spp_engine_at(x->e, k->gate_up, (x->rows + row) * x->ffn);
  SPP_TRY(spp_linear_weight(x->e->rank, n, x->ffn, x->hidden, store, dy, product,
                            spp_use_grad(x->use, SPP_SLOT_EXPERT_DOWN) + matrix));
  SPP_TRY(spp_linear_input(x->e->rank, n, x->ffn, x->hidden, store, dy,
                           spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_DOWN), x->e->store, matrix),
                           false, d));
  if (!spp_experts_weigh_input(x)) SPP_TRY(weights_back(x, i, dy, d, product));
  x->ops->glu_backward(x->q, x->e->arch->activation, n * x->ffn, x->e->store, gate, up, d, gate, up);
  inner_biases_back(x, i);
  return SPP_OK;
}

enum spp_status spp_expert_inputs_back(const struct spp_experts *x, int64_t i, void *drows) {
  static const enum spp_slot slots[] = {SPP_SLOT_EXPERT_GATE, SPP_SLOT_EXPERT_UP};
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  for (int s = 0; s < 2; s++) {
    const void *dy = spp_engine_at(x->e, x->kept->gate_up, (s * x->rows + row) * x->ffn);
    SPP_TRY(spp_linear_weight(x->e->rank, n, x->hidden, x->ffn, store, dy,
                              spp_engine_at(x->e, x->kept->expert_input, row * x->hidden),
                              spp_use_grad(x->use, slots[s]) + matrix));
    SPP_TRY(spp_linear_input(x->e->rank, n, x->hidden, x->ffn, store, dy,
                             spp_at_const(spp_use_weight(x->use, slots[s]), x->e->store, matrix), s > 0,
                             spp_engine_at(x->e, drows, row * x->hidden)));
  }
  return SPP_OK;
}
