/* Attention of one decoder layer, from its input to o_proj's output (huggingface/transformers
 * models/qwen2/modeling_qwen2.py Qwen2Attention; q and k norms as modeling_qwen3.py). What it keeps is listed
 * in model/activations_attention.c for fused kernels. */
#include "exec/head_norm.h"
#include "exec/layer_work.h"
#include "exec/try.h"
#include "exec/wide_norm.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static enum spp_status block(const struct spp_layer_work *w, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(w->e, part, name, elements, data);
}

/* Layers with a window may have angles of their own. */
void spp_layer_rotate(const struct spp_layer_work *w, int64_t heads, int64_t head_dim, int64_t first,
                      float sign, void *x) {
  const struct spp_arch *a = w->e->arch;
  const struct spp_unit *unit = w->use->unit;
  int local = w->e->angles[1].cos && unit->kind->window_tokens > 0;
  if (!a->layer_rotates[unit->layer]) return;
  const struct spp_rope call = {.tokens = w->e->g->tokens,
                                .heads = heads,
                                .head_dim = head_dim,
                                .storage = w->e->store,
                                .x = x,
                                .row_stride = heads * head_dim,
                                .cos = w->e->angles[local].cos,
                                .sin = w->e->angles[local].sin,
                                .sign = sign,
                                .first = first,
                                .width = a->rotary_dim,
                                .neighbours = a->rotary_neighbours};
  w->ops->rope(w->q, &call);
}

/* --- forward --- */

/* Normalises each head of *x, or all of them as one; the input is kept. */
static enum spp_status norm_heads(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads,
                                  const char *name, void **x, void **raw, float **rstd) {
  int64_t rows = w->e->g->tokens * heads, dh = w->e->arch->head_dim;
  *raw = *rstd = NULL;
  if (!spp_use_has(w->use, slot)) return SPP_OK;
  SPP_TRY(spp_heap_rename(&w->e->rank->heap, *x, kept_part, "q/k norm: input", w->e->rank->diag));
  *raw = *x;
  bool full = w->e->arch->qk_norm == SPP_QK_NORM_FULL, rms = w->e->arch->norm == SPP_NORM_RMS;
  int64_t stats = full && rms ? w->e->g->tokens : rms ? rows : 2 * rows;
  SPP_TRY(spp_engine_floats(w->e, kept_part, "q/k norm: statistics", stats, rstd));
  SPP_TRY(block(w, kept_part, name, rows * dh, x));
  if (full && rms) return spp_wide_norm_forward(w, slot, heads * dh, *raw, *x, *rstd);
  if (full)
    spp_head_norm_forward(w, slot, heads, *raw, *x, *rstd);
  else
    spp_layer_norm(w, slot, rows, dh, *raw, *x, *rstd);
  return SPP_OK;
}

static enum spp_status query_key_value(const struct spp_layer_work *w, const void *x) {
  const struct spp_geometry *g = w->e->g;
  struct spp_layer_kept *k = w->kept;
  SPP_TRY(block(w, kept_part, "q after RoPE", g->tokens * g->q_width, &k->attention.q));
  SPP_TRY(block(w, kept_part, "k after RoPE", g->tokens * g->k_width, &k->attention.k));
  SPP_TRY(block(w, kept_part, "v", g->tokens * g->v_width, &k->attention.v));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_Q, SPP_SLOT_Q_BIAS, x, k->attention.q));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_K, SPP_SLOT_K_BIAS, x, k->attention.k));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_V, SPP_SLOT_V_BIAS, x, k->attention.v));
  return SPP_OK;
}

static enum spp_status prepare_heads(const struct spp_layer_work *w) {
  const struct spp_geometry *g = w->e->g;
  struct spp_layer_kept *k = w->kept;
  SPP_TRY(
      norm_heads(w, SPP_SLOT_Q_NORM, g->heads_local, "q after RoPE", &k->attention.q, &k->q_raw, &k->q_rstd));
  SPP_TRY(norm_heads(w, SPP_SLOT_K_NORM, g->kv_heads_local, "k after RoPE", &k->attention.k, &k->k_raw,
                     &k->k_rstd));
  spp_layer_rotate(w, g->heads_local, w->e->arch->head_dim, 0, 1.0F, k->attention.q);
  spp_layer_rotate(w, g->kv_heads_local, w->e->arch->head_dim, 0, 1.0F, k->attention.k);
  return SPP_OK;
}

/* Those of the heads that this rank works on inside attention. */
static void fill_sinks(const struct spp_layer_work *w) {
  const struct spp_attention *a = &w->e->attention;
  const void *sinks = a->sinks ? spp_use_weight(w->use, SPP_SLOT_SINKS) : NULL;
  if (sinks)
    w->ops->convert(w->q, a->heads_here, spp_at_const(sinks, w->e->store, a->first_here), w->e->store,
                    a->sinks, SPP_STORE_F32);
}

/* Attention; under selective recompute it keeps what spp_attention_again starts from. */
static enum spp_status attend(const struct spp_layer_work *w) {
  struct spp_rank *rank = w->e->rank;
  const struct spp_attention *a = &w->e->attention;
  bool again = spp_engine_drops(w->e, SPP_RC_CORE_ATTN);
  struct spp_attention_kept inputs;
  if (again) SPP_TRY(spp_attention_copy_inputs(rank, a, &w->kept->attention, &inputs));
  fill_sinks(w);
  SPP_TRY(spp_attention_forward(rank, a, w->pass, again, &w->kept->attention));
  if (again) spp_attention_reduce(rank, a, &inputs, &w->kept->attention);
  return SPP_OK;
}

static bool is_latent(const struct spp_layer_work *w) {
  return w->e->arch->attention == SPP_ATTENTION_MLA;
}

static enum spp_status project(const struct spp_layer_work *w, const void *x) {
  const void *whole;
  void *gathered;
  if (is_latent(w)) return spp_latent_forward(w, x);
  SPP_TRY(spp_stream_gather(w->e, (struct spp_label){"attention input", w->pass}, x, &whole, &gathered));
  SPP_TRY(query_key_value(w, whole));
  spp_heap_free(&w->e->rank->heap, gathered);
  return SPP_OK;
}

enum spp_status spp_layer_attention_forward(const struct spp_layer_work *w, const void *x, void **spare,
                                            void **out) {
  struct spp_engine *e = w->e;
  SPP_TRY(project(w, x));
  if (spare) spp_layer_drop(w, spare);
  if (!is_latent(w)) SPP_TRY(prepare_heads(w));
  SPP_TRY(attend(w));
  SPP_TRY(block(w, work_part, "stream", e->g->tokens * e->arch->hidden, out));
  SPP_TRY(spp_layer_project(w, SPP_SLOT_O, SPP_SLOT_COUNT, w->kept->attention.o_input, *out));
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"attention projection", w->pass}, out));
  spp_layer_add_bias(w, SPP_SLOT_O_BIAS, e->g->stream_tokens, e->arch->hidden, *out);
  return SPP_OK;
}

void spp_layer_attention_release(struct spp_engine *e, struct spp_layer_kept *k) {
  void *const blocks[] = {
      k->q_raw,           k->k_raw,          k->q_rstd,          k->k_rstd,           k->q_latent.input,
      k->q_latent.latent, k->q_latent.stats, k->kv_latent.input, k->kv_latent.latent, k->kv_latent.stats};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    spp_heap_free(&e->rank->heap, blocks[i]);
  spp_attention_release(e->rank, &k->attention);
}

/* --- backward; each tensor is freed as soon as nothing needs it --- */

static enum spp_status heads_back(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads,
                                  void *grad, void **raw, float **rstd) {
  int64_t dh = w->e->arch->head_dim, tokens = w->e->g->tokens;
  spp_layer_rotate(w, heads, dh, 0, -1.0F, grad);
  if (!spp_use_has(w->use, slot)) return SPP_OK;
  bool full = w->e->arch->qk_norm == SPP_QK_NORM_FULL, rms = w->e->arch->norm == SPP_NORM_RMS;
  if (full && rms)
    SPP_TRY(spp_wide_norm_backward(w, slot, heads * dh, *raw, *rstd, grad));
  else if (full)
    spp_head_norm_backward(w, slot, heads, *raw, *rstd, grad);
  else
    spp_layer_norm_grad(w, slot, tokens * heads, dh, *raw, *rstd, grad);
  spp_layer_drop(w, raw);
  spp_layer_drop_floats(w, rstd);
  return SPP_OK;
}

/* o_proj and attention itself. */
static enum spp_status inside(const struct spp_layer_work *w, const void *dy,
                              struct spp_attention_grads *grads) {
  struct spp_engine *e = w->e;
  struct spp_layer_kept *k = w->kept;
  void *dout;
  bool separate = k->attention.o_input != k->attention.out;
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_O, SPP_SLOT_O_BIAS, dy, k->attention.o_input));
  if (separate) spp_layer_drop(w, &k->attention.o_input);
  fill_sinks(w);
  if (e->attention.sinks) grads->sinks = spp_use_grad(w->use, SPP_SLOT_SINKS) + e->attention.first_here;
  if (!k->attention.lse) SPP_TRY(spp_attention_again(e->rank, &e->attention, &k->attention));
  SPP_TRY(block(w, work_part, "gradient of the attention output", e->g->tokens * e->g->o_width, &dout));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_O, dy, false, dout));
  SPP_TRY(spp_attention_backward(e->rank, &e->attention, &k->attention, dout, grads));
  if (is_latent(w)) return SPP_OK;
  SPP_TRY(heads_back(w, SPP_SLOT_Q_NORM, e->g->heads_local, grads->q, &k->q_raw, &k->q_rstd));
  return heads_back(w, SPP_SLOT_K_NORM, e->g->kv_heads_local, grads->k, &k->k_raw, &k->k_rstd);
}

static struct spp_label backward(const char *what) {
  return (struct spp_label){what, SPP_PASS_BACKWARD};
}

static enum spp_status projections(const struct spp_layer_work *w, const void *input, void **spare,
                                   struct spp_attention_grads *g, void **dx) {
  struct spp_engine *e = w->e;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, backward("attention input"), input, &x, &gathered));
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_Q, SPP_SLOT_Q_BIAS, g->q, x));
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_K, SPP_SLOT_K_BIAS, g->k, x));
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_V, SPP_SLOT_V_BIAS, g->v, x));
  spp_layer_drop(w, &gathered);
  if (spare) spp_layer_drop(w, spare);
  SPP_TRY(block(w, work_part, "norm backward", e->g->tokens * e->arch->hidden, dx));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_Q, g->q, false, *dx));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_K, g->k, true, *dx));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_V, g->v, true, *dx));
  spp_layer_drop(w, &g->q);
  spp_layer_drop(w, &g->k);
  spp_layer_drop(w, &g->v);
  return spp_stream_reduce(e, backward("attention input"), dx);
}

enum spp_status spp_layer_attention_backward(const struct spp_layer_work *w, const void *x, void **spare,
                                             const void *dy, void **dx) {
  struct spp_attention_grads grads = {.q = NULL};
  const void *whole;
  void *gathered;
  SPP_TRY(spp_stream_gather(w->e, backward("attention projection"), dy, &whole, &gathered));
  SPP_TRY(inside(w, whole, &grads));
  spp_layer_drop(w, &gathered);
  if (!is_latent(w)) return projections(w, x, spare, &grads, dx);
  SPP_TRY(spp_latent_backward(w, x, &grads, dx));
  if (spare) spp_layer_drop(w, spare);
  return SPP_OK;
}
