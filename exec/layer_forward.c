/* Forward of one decoder layer (huggingface/transformers models/qwen2/modeling_qwen2.py Qwen2DecoderLayer; q
 * and k norms as modeling_qwen3.py). What it keeps is listed in model/activations_*.c for fused kernels. */
#include "exec/layer_work.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static const char norm1_output[] = "input norm: output", norm2_output[] = "post-attention norm: output";

static enum spp_status block(const struct spp_layer_work *f, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(f->e, part, name, elements, data);
}

/* The stream after attention, in a block of its own. */
static enum spp_status attend(const struct spp_layer_work *f) {
  struct spp_engine *e = f->e;
  struct spp_layer_kept *k = f->kept;
  SPP_TRY(spp_layer_attention_forward(
      f, k->normed1, spp_engine_drops(e, SPP_RC_LAYERNORM) ? &k->normed1 : NULL, &k->middle));
  f->ops->add(spp_stream_elements(e), e->store, k->middle, k->input, k->middle);
  return spp_heap_rename(&e->rank->heap, k->middle, kept_part, "post-attention norm: input", e->rank->diag);
}

/* Experts read the stream as it is: no rank needs its neighbours' tokens. */
static enum spp_status mix_experts(const struct spp_layer_work *f, void **out) {
  struct spp_layer_kept *k = f->kept;
  SPP_TRY(spp_experts_forward(f->e, f->use, f->pass, k, out));
  if (spp_use_has(f->use, SPP_SLOT_SHARED_UP)) SPP_TRY(spp_shared_expert_forward(f->e, f->use, k, *out));
  f->ops->add(spp_stream_elements(f->e), f->e->store, *out, k->middle, *out);
  if (spp_engine_drops(f->e, SPP_RC_LAYERNORM) && f->pass == SPP_PASS_FORWARD) spp_layer_drop(f, &k->normed2);
  return SPP_OK;
}

static enum spp_status feed_forward(const struct spp_layer_work *f, void **out) {
  if (spp_use_has_experts(f->use)) return mix_experts(f, out);
  struct spp_engine *e = f->e;
  struct spp_layer_kept *k = f->kept;
  int64_t n = e->g->tokens * f->use->unit->held[SPP_SLOT_GATE].rows;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"mlp input", f->pass}, k->normed2, &x, &gathered));
  SPP_TRY(block(f, kept_part, "MLP: gate and up", 2 * n, &k->gate_up));
  SPP_TRY(spp_layer_project(f, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, x, k->gate_up));
  SPP_TRY(spp_layer_project(f, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, x, spp_engine_at(e, k->gate_up, n)));
  spp_heap_free(&e->rank->heap, gathered);
  if (spp_engine_drops(e, SPP_RC_LAYERNORM) && f->pass == SPP_PASS_FORWARD) spp_layer_drop(f, &k->normed2);
  SPP_TRY(block(f, kept_part, "MLP: input of down", n, &k->product));
  f->ops->swiglu_forward(n, f->e->store, k->gate_up, spp_engine_at(e, k->gate_up, n), k->product);
  SPP_TRY(block(f, work_part, "stream", e->g->tokens * e->arch->hidden, out));
  SPP_TRY(spp_layer_project(f, SPP_SLOT_DOWN, SPP_SLOT_COUNT, k->product, *out));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"mlp output", f->pass}, out));
  spp_layer_add_bias(f, SPP_SLOT_DOWN_BIAS, e->g->stream_tokens, e->arch->hidden, *out);
  f->ops->add(spp_stream_elements(e), f->e->store, *out, k->middle, *out);
  if (spp_engine_drops(e, SPP_RC_MLP) && f->pass == SPP_PASS_FORWARD) {
    spp_layer_drop(f, &k->gate_up);
    spp_layer_drop(f, &k->product);
  }
  return SPP_OK;
}

static enum spp_status norm_stream(const struct spp_layer_work *f, enum spp_slot slot, const char *output,
                                   const char *statistics, const void *x, void **y, float **rstd) {
  SPP_TRY(block(f, kept_part, output, spp_stream_elements(f->e), y));
  SPP_TRY(spp_engine_floats(f->e, kept_part, statistics, f->e->g->stream_tokens, rstd));
  spp_layer_norm(f, slot, f->e->g->stream_tokens, f->e->arch->hidden, x, *y, *rstd);
  return SPP_OK;
}

enum spp_status spp_layer_remake_norm(struct spp_engine *e, const struct spp_unit_use *use,
                                      enum spp_slot slot, struct spp_layer_kept *k) {
  const struct spp_layer_work f = spp_layer_work_of(e, use, SPP_PASS_RECOMPUTE, k);
  bool first = slot == SPP_SLOT_NORM1;
  void **y = first ? &k->normed1 : &k->normed2;
  SPP_TRY(block(&f, kept_part, first ? norm1_output : norm2_output, spp_stream_elements(e), y));
  spp_layer_norm(&f, slot, e->g->stream_tokens, e->arch->hidden, first ? k->input : k->middle, *y,
                 first ? k->rstd1 : k->rstd2);
  return SPP_OK;
}

enum spp_status spp_layer_remake_mlp(struct spp_engine *e, const struct spp_unit_use *use,
                                     struct spp_layer_kept *kept) {
  const struct spp_layer_work f = spp_layer_work_of(e, use, SPP_PASS_RECOMPUTE, kept);
  void *out;
  SPP_TRY(feed_forward(&f, &out));
  spp_heap_free(&e->rank->heap, out);
  return SPP_OK;
}

enum spp_status spp_layer_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                  void **x, struct spp_layer_kept *kept) {
  const struct spp_layer_work f = spp_layer_work_of(e, use, pass, kept);
  *kept = (struct spp_layer_kept){.input = *x};
  spp_engine_turn_to(e, use->unit);
  SPP_TRY(norm_stream(&f, SPP_SLOT_NORM1, norm1_output, "input norm: statistics", kept->input, &kept->normed1,
                      &kept->rstd1));
  SPP_TRY(attend(&f));
  SPP_TRY(norm_stream(&f, SPP_SLOT_NORM2, norm2_output, "post-attention norm: statistics", kept->middle,
                      &kept->normed2, &kept->rstd2));
  return feed_forward(&f, x);
}

void spp_layer_release(struct spp_engine *e, struct spp_layer_kept *k) {
  void *const blocks[] = {k->rstd1,        k->normed1,        k->middle,         k->rstd2,        k->normed2,
                          k->gate_up,      k->product,        k->router_logits,  k->router_probs, k->routing,
                          k->expert_input, k->shared_gate_up, k->shared_product, k->shared_out};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    spp_heap_free(&e->rank->heap, blocks[i]);
  spp_layer_attention_release(e, k);
  *k = (struct spp_layer_kept){.input = k->input};
}
