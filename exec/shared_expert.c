/* The shared expert of a mixture: an MLP that every token visits, cut over tensor-parallel ranks like a dense
 * one (megatron-core 0.16.1 megatron/core/transformer/moe/shared_experts.py), its output scaled by the
 * sigmoid of one logit where the model has such a gate (huggingface/transformers modeling_qwen2_moe.py
 * Qwen2MoeSparseMoeBlock, modeling_deepseek_v3.py DeepseekV3MoE). */
#include <math.h>

#include "exec/expert_rows.h"
#include "exec/try.h"

struct shared {
  struct spp_engine *e;
  const struct spp_device_ops *ops;
  struct spp_queue *q;
  const struct spp_unit_use *use;
  struct spp_layer_kept *kept;
  int64_t stream, tokens, hidden, ffn; /* stream: tokens of this rank's part of the residual stream */
  bool gated;                          /* by the logit */
};

static struct shared shared_of(struct spp_engine *e, const struct spp_unit_use *use,
                               struct spp_layer_kept *kept) {
  return (struct shared){.e = e,
                         .ops = e->rank->ops,
                         .q = e->rank->queue,
                         .use = use,
                         .kept = kept,
                         .stream = e->g->stream_tokens,
                         .tokens = e->g->tokens,
                         .hidden = e->arch->hidden,
                         .ffn = use->unit->held[SPP_SLOT_SHARED_UP].rows,
                         .gated = spp_use_has(use, SPP_SLOT_SHARED_SWITCH)};
}

static enum spp_status product(const struct shared *s, enum spp_slot slot, const void *x, void *y) {
  const struct spp_held *w = &s->use->unit->held[slot];
  return spp_linear_forward(s->e->rank, s->tokens, w->cols, w->rows, spp_linear_in(s->e->store), x,
                            spp_use_weight(s->use, slot), y);
}

/* Logit of each token of the stream for how much of the expert's output it takes. */
static enum spp_status logits_of(const struct shared *s, float **logits) {
  return spp_engine_row_dots(s->e, s->stream, s->hidden, s->kept->mlp_input,
                             spp_use_weight(s->use, SPP_SLOT_SHARED_SWITCH), 0, logits);
}
static float share_of(const float *logits, int64_t t) {
  return 1.0F / (1.0F + expf(-logits[t]));
}

static enum spp_status add_shares(const struct shared *s, void *out, const float *logits, void *sums) {
  void *scaled;
  SPP_TRY(spp_engine_block(s->e, SPP_PART_CONTEXT, "scaled row", s->hidden, &scaled));
  for (int64_t t = 0; t < s->stream; t++) {
    void *sum = spp_engine_at(s->e, sums, t * s->hidden);
    s->ops->convert(s->q, s->hidden, spp_engine_at(s->e, out, t * s->hidden), s->e->store, scaled,
                    s->e->store);
    s->ops->scale(s->q, s->hidden, share_of(logits, t), scaled, s->e->store);
    s->ops->add(s->q, s->hidden, s->e->store, sum, scaled, sum);
  }
  spp_heap_free(&s->e->rank->heap, scaled);
  return SPP_OK;
}

static enum spp_status add_output(const struct shared *s, void *out, void *sums) {
  float *logits;
  if (!s->gated) {
    s->ops->add(s->q, s->stream * s->hidden, s->e->store, sums, out, sums);
    return SPP_OK;
  }
  SPP_TRY(logits_of(s, &logits));
  struct spp_view view = spp_view_floats(logits, s->stream, SPP_VIEW_READ);
  SPP_TRY(spp_views_open(s->e->rank, &view, 1));
  enum spp_status status = add_shares(s, out, view.data, sums);
  spp_views_close(s->e->rank, &view, 1);
  spp_heap_free(&s->e->rank->heap, logits);
  return status;
}

enum spp_status spp_shared_expert_forward(struct spp_engine *e, const struct spp_unit_use *use,
                                          enum spp_pass pass, struct spp_layer_kept *k, void *sums) {
  const struct shared s = shared_of(e, use, k);
  const enum spp_part kept_part = SPP_PART_ACTIVATIONS;
  int64_t n = s.tokens * s.ffn;
  const void *x;
  void *gathered, *out;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"shared expert input", pass}, k->mlp_input, &x, &gathered));
  SPP_TRY(spp_engine_block(e, kept_part, "shared expert: gate and up", 2 * n, &k->shared_gate_up));
  SPP_TRY(product(&s, SPP_SLOT_SHARED_GATE, x, k->shared_gate_up));
  SPP_TRY(product(&s, SPP_SLOT_SHARED_UP, x, spp_engine_at(e, k->shared_gate_up, n)));
  spp_heap_free(&e->rank->heap, gathered);
  SPP_TRY(spp_engine_block(e, kept_part, "shared expert: input of down", n, &k->shared_product));
  s.ops->glu_forward(s.q, e->arch->activation, n, e->store, k->shared_gate_up,
                     spp_engine_at(e, k->shared_gate_up, n), k->shared_product);
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "stream", s.tokens * s.hidden, &out));
  SPP_TRY(product(&s, SPP_SLOT_SHARED_DOWN, k->shared_product, out));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"shared expert output", pass}, &out));
  if (sums) SPP_TRY(add_output(&s, out, sums));
  if (!s.gated) {
    spp_heap_free(&e->rank->heap, out);
    return SPP_OK;
  }
  k->shared_out = out;
  return spp_heap_rename(&e->rank->heap, out, kept_part, "shared expert: output", e->rank->diag);
}

static enum spp_status weight_grad(const struct shared *s, enum spp_slot slot, const void *dy,
                                   const void *x) {
  const struct spp_held *w = &s->use->unit->held[slot];
  return spp_linear_weight(s->e->rank, s->tokens, w->cols, w->rows, spp_linear_in(s->e->store), dy, x,
                           spp_use_grad(s->use, slot));
}
static enum spp_status input_grad(const struct shared *s, enum spp_slot slot, const void *dy, bool add,
                                  void *dx) {
  const struct spp_held *w = &s->use->unit->held[slot];
  return spp_linear_input(s->e->rank, s->tokens, w->cols, w->rows, spp_linear_in(s->e->store), dy,
                          spp_use_weight(s->use, slot), add, dx);
}

/* The kept output becomes the gradient that reaches it, dy times the share; the logit's goes to the gate's
 * weight and to the input. */
static void gate_row_back(const struct shared *s, int64_t t, float share, float dlogit, const void *dy,
                          void *dx, float *sum) {
  void *out = spp_engine_at(s->e, s->kept->shared_out, t * s->hidden),
       *d = spp_engine_at(s->e, dx, t * s->hidden);
  s->ops->accumulate(s->q, s->hidden, dlogit, spp_at_const(s->kept->mlp_input, s->e->store, t * s->hidden),
                     s->e->store, spp_use_grad(s->use, SPP_SLOT_SHARED_SWITCH));
  s->ops->convert(s->q, s->hidden, d, s->e->store, sum, SPP_STORE_F32);
  s->ops->accumulate(s->q, s->hidden, dlogit, spp_use_weight(s->use, SPP_SLOT_SHARED_SWITCH), s->e->store,
                     sum);
  s->ops->convert(s->q, s->hidden, sum, SPP_STORE_F32, d, s->e->store);
  s->ops->convert(s->q, s->hidden, spp_at_const(dy, s->e->store, t * s->hidden), s->e->store, out,
                  s->e->store);
  s->ops->scale(s->q, s->hidden, share, out, s->e->store);
}

static enum spp_status gate_back(const struct shared *s, const void *dy, void *dx) {
  struct spp_heap *heap = &s->e->rank->heap;
  float *sum, *logits, *dots;
  SPP_TRY(spp_engine_floats(s->e, SPP_PART_CONTEXT, "row of the gradient", s->hidden, &sum));
  SPP_TRY(logits_of(s, &logits));
  SPP_TRY(spp_engine_row_dots(s->e, s->stream, s->hidden, dy, s->kept->shared_out, s->hidden, &dots));
  struct spp_view views[] = {spp_view_floats(logits, s->stream, SPP_VIEW_READ),
                             spp_view_floats(dots, s->stream, SPP_VIEW_READ)};
  SPP_TRY(spp_views_open(s->e->rank, views, 2));
  const float *dot = views[1].data;
  for (int64_t t = 0; t < s->stream; t++) {
    float share = share_of(views[0].data, t);
    gate_row_back(s, t, share, dot[t] * share * (1.0F - share), dy, dx, sum);
  }
  spp_views_close(s->e->rank, views, 2);
  spp_heap_free(heap, sum);
  spp_heap_free(heap, logits);
  spp_heap_free(heap, dots);
  return SPP_OK;
}

/* Gradient of the input from those of gate and up: summed over the ranks, where each has a part of it. */
static enum spp_status input_back(const struct shared *s, void *up, void *dx) {
  struct spp_engine *e = s->e;
  bool apart = e->g->tp > 1;
  void *part = dx;
  if (apart) SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "norm backward", s->tokens * s->hidden, &part));
  SPP_TRY(input_grad(s, SPP_SLOT_SHARED_GATE, s->kept->shared_gate_up, !apart, part));
  SPP_TRY(input_grad(s, SPP_SLOT_SHARED_UP, up, true, part));
  if (!apart) return SPP_OK;
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"shared expert input", SPP_PASS_BACKWARD}, &part));
  s->ops->add(s->q, s->stream * s->hidden, e->store, dx, part, dx);
  spp_heap_free(&e->rank->heap, part);
  return SPP_OK;
}

enum spp_status spp_shared_expert_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                           struct spp_layer_kept *k, const void *dy, void *dx) {
  const struct shared s = shared_of(e, use, k);
  const struct spp_label into = {"shared expert input", SPP_PASS_BACKWARD},
                         out = {"shared expert output", SPP_PASS_BACKWARD};
  int64_t n = s.tokens * s.ffn;
  void *up = spp_engine_at(e, k->shared_gate_up, n), *gathered;
  const void *dout, *x;
  if (s.gated) SPP_TRY(gate_back(&s, dy, dx));
  SPP_TRY(spp_stream_gather(e, out, s.gated ? k->shared_out : dy, &dout, &gathered));
  SPP_TRY(weight_grad(&s, SPP_SLOT_SHARED_DOWN, dout, k->shared_product));
  SPP_TRY(input_grad(&s, SPP_SLOT_SHARED_DOWN, dout, false, k->shared_product)); /* in place of the product */
  spp_heap_free(&e->rank->heap, gathered);
  s.ops->glu_backward(s.q, e->arch->activation, n, e->store, k->shared_gate_up, up, k->shared_product,
                      k->shared_gate_up, up);
  SPP_TRY(spp_stream_gather(e, into, k->mlp_input, &x, &gathered));
  SPP_TRY(weight_grad(&s, SPP_SLOT_SHARED_GATE, k->shared_gate_up, x));
  SPP_TRY(weight_grad(&s, SPP_SLOT_SHARED_UP, up, x));
  spp_heap_free(&e->rank->heap, gathered);
  SPP_TRY(input_back(&s, up, dx));
  void *const done[] = {k->shared_gate_up, k->shared_product, k->shared_out};
  for (size_t i = 0; i < sizeof done / sizeof done[0]; i++)
    spp_heap_free(&e->rank->heap, done[i]);
  k->shared_gate_up = k->shared_product = k->shared_out = NULL;
  return SPP_OK;
}
