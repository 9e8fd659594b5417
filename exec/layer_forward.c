/* Forward of one decoder layer (huggingface/transformers models/qwen2/modeling_qwen2.py Qwen2DecoderLayer; q
 * and k norms as modeling_qwen3.py). What it keeps is listed in model/activations_*.c for fused kernels. */
#include "exec/engine.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static const char norm1_output[] = "input norm: output", norm2_output[] = "post-attention norm: output";

/* One layer at work. */
struct forward {
  struct spp_engine *e;
  const struct spp_ops *ops;
  const struct spp_unit_use *use;
  enum spp_pass pass;
  struct spp_layer_kept *kept;
};

static enum spp_status block(const struct forward *f, enum spp_part part, const char *name, int64_t elements,
                             void **data) {
  return spp_engine_block(f->e, part, name, elements, data);
}

static void norm(const struct forward *f, enum spp_slot slot, int64_t rows, int64_t width, const void *x,
                 void *y, float *rstd) {
  const struct spp_rmsnorm call = {.rows = rows,
                                   .width = width,
                                   .eps = SPP_ENGINE_EPS,
                                   .storage = f->e->store,
                                   .x = x,
                                   .weight = spp_use_weight(f->use, slot),
                                   .y = y,
                                   .rstd = rstd};
  f->ops->rmsnorm_forward(&call);
}

/* To each row of y [rows][width], where the model has it. That of a row-parallel product is added to its sum.
 */
static void add_bias(const struct forward *f, enum spp_slot bias, int64_t rows, int64_t width, void *y) {
  if (!spp_use_has(f->use, bias)) return;
  for (int64_t t = 0; t < rows; t++) {
    void *row = spp_engine_at(f->e, y, t * width);
    f->ops->add(width, f->e->store, row, spp_use_weight(f->use, bias), row);
  }
}

/* y [tokens][out] = x w^T (+ bias). */
static enum spp_status project(const struct forward *f, enum spp_slot slot, enum spp_slot bias, const void *x,
                               void *y) {
  const struct spp_held *w = &f->use->unit->held[slot];
  int64_t tokens = f->e->g->tokens;
  SPP_TRY(spp_linear_forward(f->e->rank, tokens, w->cols, w->rows, spp_linear_in(f->e->store), x,
                             spp_use_weight(f->use, slot), y));
  if (bias != SPP_SLOT_COUNT) add_bias(f, bias, tokens, w->rows, y);
  return SPP_OK;
}

static void rotate(const struct forward *f, int64_t heads, void *x) {
  int64_t dh = f->e->arch->head_dim;
  const struct spp_rope call = {.tokens = f->e->g->tokens,
                                .heads = heads,
                                .head_dim = dh,
                                .storage = f->e->store,
                                .x = x,
                                .row_stride = heads * dh,
                                .cos = f->e->cos,
                                .sin = f->e->sin,
                                .sign = 1.0F};
  f->ops->rope(&call);
}

/* Normalises each head of *x; the input is kept. */
static enum spp_status norm_heads(const struct forward *f, enum spp_slot slot, int64_t heads,
                                  const char *name, void **x, void **raw, float **rstd) {
  int64_t rows = f->e->g->tokens * heads, dh = f->e->arch->head_dim;
  *raw = *rstd = NULL;
  if (!spp_use_has(f->use, slot)) return SPP_OK;
  SPP_TRY(spp_heap_rename(&f->e->rank->heap, *x, kept_part, "q/k norm: input", f->e->rank->diag));
  *raw = *x;
  SPP_TRY(spp_engine_floats(f->e, kept_part, "q/k norm: statistics", rows, rstd));
  SPP_TRY(block(f, kept_part, name, rows * dh, x));
  norm(f, slot, rows, dh, *raw, *x, *rstd);
  return SPP_OK;
}

static enum spp_status query_key_value(struct forward *f, const void *x) {
  const struct spp_geometry *g = f->e->g;
  struct spp_layer_kept *k = f->kept;
  SPP_TRY(block(f, kept_part, "q after RoPE", g->tokens * g->q_width, &k->attention.q));
  SPP_TRY(block(f, kept_part, "k after RoPE", g->tokens * g->k_width, &k->attention.k));
  SPP_TRY(block(f, kept_part, "v", g->tokens * g->v_width, &k->attention.v));
  SPP_TRY(project(f, SPP_SLOT_Q, SPP_SLOT_Q_BIAS, x, k->attention.q));
  SPP_TRY(project(f, SPP_SLOT_K, SPP_SLOT_K_BIAS, x, k->attention.k));
  SPP_TRY(project(f, SPP_SLOT_V, SPP_SLOT_V_BIAS, x, k->attention.v));
  return SPP_OK;
}

static enum spp_status prepare_heads(struct forward *f) {
  const struct spp_geometry *g = f->e->g;
  struct spp_layer_kept *k = f->kept;
  SPP_TRY(
      norm_heads(f, SPP_SLOT_Q_NORM, g->heads_local, "q after RoPE", &k->attention.q, &k->q_raw, &k->q_rstd));
  SPP_TRY(norm_heads(f, SPP_SLOT_K_NORM, g->kv_heads_local, "k after RoPE", &k->attention.k, &k->k_raw,
                     &k->k_rstd));
  rotate(f, g->heads_local, k->attention.q);
  rotate(f, g->kv_heads_local, k->attention.k);
  return SPP_OK;
}

static void drop(const struct forward *f, void **data) {
  spp_heap_free(&f->e->rank->heap, *data);
  *data = NULL;
}

/* Attention; under selective recompute it keeps what spp_attention_again starts from. */
static enum spp_status attention(struct forward *f) {
  struct spp_rank *rank = f->e->rank;
  const struct spp_attention *a = &f->e->attention;
  bool again = spp_engine_drops(f->e, SPP_RC_CORE_ATTN);
  struct spp_attention_kept inputs;
  if (again) SPP_TRY(spp_attention_copy_inputs(rank, a, &f->kept->attention, &inputs));
  SPP_TRY(spp_attention_forward(rank, a, f->pass, again, &f->kept->attention));
  if (again) spp_attention_reduce(rank, a, &inputs, &f->kept->attention);
  return SPP_OK;
}

/* The stream after attention, in a block of its own. */
static enum spp_status attend(struct forward *f) {
  struct spp_engine *e = f->e;
  struct spp_layer_kept *k = f->kept;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"attention input", f->pass}, k->normed1, &x, &gathered));
  SPP_TRY(query_key_value(f, x));
  spp_heap_free(&e->rank->heap, gathered);
  if (spp_engine_drops(e, SPP_RC_LAYERNORM)) drop(f, &k->normed1);
  SPP_TRY(prepare_heads(f));
  SPP_TRY(attention(f));
  SPP_TRY(block(f, work_part, "stream", e->g->tokens * e->arch->hidden, &k->middle));
  SPP_TRY(project(f, SPP_SLOT_O, SPP_SLOT_COUNT, k->attention.o_input, k->middle));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"attention projection", f->pass}, &k->middle));
  add_bias(f, SPP_SLOT_O_BIAS, e->g->stream_tokens, e->arch->hidden, k->middle);
  f->ops->add(spp_stream_elements(e), f->e->store, k->middle, k->input, k->middle);
  return spp_heap_rename(&e->rank->heap, k->middle, kept_part, "post-attention norm: input", e->rank->diag);
}

/* Experts read the stream as it is: no rank needs its neighbours' tokens. */
static enum spp_status mix_experts(struct forward *f, void **out) {
  struct spp_layer_kept *k = f->kept;
  SPP_TRY(spp_experts_forward(f->e, f->use, f->pass, k, out));
  if (spp_use_has(f->use, SPP_SLOT_SHARED_UP)) SPP_TRY(spp_shared_expert_forward(f->e, f->use, k, *out));
  f->ops->add(spp_stream_elements(f->e), f->e->store, *out, k->middle, *out);
  if (spp_engine_drops(f->e, SPP_RC_LAYERNORM) && f->pass == SPP_PASS_FORWARD) drop(f, &k->normed2);
  return SPP_OK;
}

static enum spp_status feed_forward(struct forward *f, void **out) {
  if (spp_use_has_experts(f->use)) return mix_experts(f, out);
  struct spp_engine *e = f->e;
  struct spp_layer_kept *k = f->kept;
  int64_t n = e->g->tokens * f->use->unit->held[SPP_SLOT_GATE].rows;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"mlp input", f->pass}, k->normed2, &x, &gathered));
  SPP_TRY(block(f, kept_part, "MLP: gate and up", 2 * n, &k->gate_up));
  SPP_TRY(project(f, SPP_SLOT_GATE, SPP_SLOT_GATE_BIAS, x, k->gate_up));
  SPP_TRY(project(f, SPP_SLOT_UP, SPP_SLOT_UP_BIAS, x, spp_engine_at(e, k->gate_up, n)));
  spp_heap_free(&e->rank->heap, gathered);
  if (spp_engine_drops(e, SPP_RC_LAYERNORM) && f->pass == SPP_PASS_FORWARD) drop(f, &k->normed2);
  SPP_TRY(block(f, kept_part, "MLP: input of down", n, &k->product));
  f->ops->swiglu_forward(n, f->e->store, k->gate_up, spp_engine_at(e, k->gate_up, n), k->product);
  SPP_TRY(block(f, work_part, "stream", e->g->tokens * e->arch->hidden, out));
  SPP_TRY(project(f, SPP_SLOT_DOWN, SPP_SLOT_COUNT, k->product, *out));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"mlp output", f->pass}, out));
  add_bias(f, SPP_SLOT_DOWN_BIAS, e->g->stream_tokens, e->arch->hidden, *out);
  f->ops->add(spp_stream_elements(e), f->e->store, *out, k->middle, *out);
  if (spp_engine_drops(e, SPP_RC_MLP) && f->pass == SPP_PASS_FORWARD) {
    drop(f, &k->gate_up);
    drop(f, &k->product);
  }
  return SPP_OK;
}

static enum spp_status norm_stream(struct forward *f, enum spp_slot slot, const char *output,
                                   const char *statistics, const void *x, void **y, float **rstd) {
  SPP_TRY(block(f, kept_part, output, spp_stream_elements(f->e), y));
  SPP_TRY(spp_engine_floats(f->e, kept_part, statistics, f->e->g->stream_tokens, rstd));
  norm(f, slot, f->e->g->stream_tokens, f->e->arch->hidden, x, *y, *rstd);
  return SPP_OK;
}

static struct forward forward_of(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                 struct spp_layer_kept *kept) {
  return (struct forward){.e = e, .ops = e->rank->kernels->ops, .use = use, .pass = pass, .kept = kept};
}

enum spp_status spp_layer_remake_norm(struct spp_engine *e, const struct spp_unit_use *use,
                                      enum spp_slot slot, struct spp_layer_kept *k) {
  const struct forward f = forward_of(e, use, SPP_PASS_RECOMPUTE, k);
  bool first = slot == SPP_SLOT_NORM1;
  void **y = first ? &k->normed1 : &k->normed2;
  SPP_TRY(block(&f, kept_part, first ? norm1_output : norm2_output, spp_stream_elements(e), y));
  norm(&f, slot, e->g->stream_tokens, e->arch->hidden, first ? k->input : k->middle, *y,
       first ? k->rstd1 : k->rstd2);
  return SPP_OK;
}

enum spp_status spp_layer_remake_mlp(struct spp_engine *e, const struct spp_unit_use *use,
                                     struct spp_layer_kept *kept) {
  struct forward f = forward_of(e, use, SPP_PASS_RECOMPUTE, kept);
  void *out;
  SPP_TRY(feed_forward(&f, &out));
  spp_heap_free(&e->rank->heap, out);
  return SPP_OK;
}

enum spp_status spp_layer_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                  void **x, struct spp_layer_kept *kept) {
  struct forward f = forward_of(e, use, pass, kept);
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
  void *const blocks[] = {k->rstd1,          k->normed1,        k->q_raw,        k->k_raw,   k->q_rstd,
                          k->k_rstd,         k->middle,         k->rstd2,        k->normed2, k->gate_up,
                          k->product,        k->router_logits,  k->router_probs, k->routing, k->expert_input,
                          k->shared_gate_up, k->shared_product, k->shared_out};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    spp_heap_free(&e->rank->heap, blocks[i]);
  spp_attention_release(e->rank, &k->attention);
  *k = (struct spp_layer_kept){.input = k->input};
}
