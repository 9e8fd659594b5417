/* Forward of one decoder layer: the walk over its shape (exec/layer_shape.h). Sources, all in
 * huggingface/transformers: models/qwen2/modeling_qwen2.py Qwen2DecoderLayer (a norm before each branch),
 * modeling_gptj.py, modeling_gpt_neox.py, modeling_falcon.py (parallel branches, one norm or two),
 * modeling_gemma2.py (a norm behind each branch too), modeling_olmo2.py (behind only). What it keeps is
 * listed in model/activations_*.c for fused kernels. */
#include "exec/layer_shape.h"
#include "exec/layer_work.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static const struct {
  const char *output, *statistics;
} before_names[2] = {{"input norm: output", "input norm: statistics"},
                     {"post-attention norm: output", "post-attention norm: statistics"}};

static enum spp_status block(const struct spp_layer_work *w, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(w->e, part, name, elements, data);
}

/* What branch i reads of the stream: a norm of it, the other branch's, or the stream itself. */
static enum spp_status enter(const struct spp_layer_work *w, const struct spp_layer_shape *shape, int i,
                             void *stream, const void **x) {
  struct spp_branch_kept *b = &w->kept->branch[i];
  *x = stream;
  if (shape->before[i] == SPP_SLOT_COUNT) return SPP_OK;
  *x = w->kept->branch[0].normed;
  if (i > 0 && spp_layer_shares_norm(shape)) return SPP_OK;
  SPP_TRY(block(w, kept_part, before_names[i].output, spp_stream_elements(w->e), &b->normed));
  SPP_TRY(
      spp_engine_floats(w->e, kept_part, before_names[i].statistics, spp_stream_norm_stats(w->e), &b->stats));
  spp_stream_norm(w, shape->before[i], stream, b->normed, b->stats);
  *x = b->normed;
  return SPP_OK;
}

/* The branch's output, or the norm of it, is added to the stream: *out becomes the sum. */
static enum spp_status leave(const struct spp_layer_work *w, const struct spp_layer_shape *shape, int i,
                             const void *stream, void **out) {
  struct spp_branch_kept *b = &w->kept->branch[i];
  struct spp_engine *e = w->e;
  if (shape->behind[i] != SPP_SLOT_COUNT) {
    SPP_TRY(spp_heap_rename(&e->rank->heap, *out, kept_part, "norm after a block: input", e->rank->diag));
    b->output = *out;
    SPP_TRY(spp_engine_floats(e, kept_part, "norm after a block: statistics", spp_stream_norm_stats(e),
                              &b->output_stats));
    SPP_TRY(block(w, work_part, "stream", spp_stream_elements(e), out));
    spp_stream_norm(w, shape->behind[i], b->output, *out, b->output_stats);
  }
  if (e->arch->residual_scale != 1)
    w->ops->scale(w->q, spp_stream_elements(e), (float)e->arch->residual_scale, *out, e->store);
  w->ops->add(w->q, spp_stream_elements(e), e->store, *out, stream, *out);
  return SPP_OK;
}

/* What selective recompute of norms frees when branch i has read it: not yet, if the MLP reads it too. */
static void **spare_of(const struct spp_layer_work *w, const struct spp_layer_shape *shape, int i) {
  bool shared = spp_layer_shares_norm(shape);
  if (!spp_engine_drops(w->e, SPP_RC_LAYERNORM) || shape->before[i] == SPP_SLOT_COUNT) return NULL;
  if (shared) return i == SPP_BRANCH_MLP ? &w->kept->branch[0].normed : NULL;
  return &w->kept->branch[i].normed;
}

enum spp_status spp_layer_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                  void **x, struct spp_layer_kept *kept) {
  const struct spp_layer_work w = spp_layer_work_of(e, use, pass, kept);
  const struct spp_layer_shape shape = spp_layer_shape_of(e->arch);
  const void *read;
  void *sum;
  *kept = (struct spp_layer_kept){.input = *x};
  spp_engine_turn_to(e, use->unit);
  SPP_TRY(enter(&w, &shape, SPP_BRANCH_ATTENTION, kept->input, &read));
  SPP_TRY(spp_layer_attention_forward(&w, read, spare_of(&w, &shape, SPP_BRANCH_ATTENTION), &sum));
  SPP_TRY(leave(&w, &shape, SPP_BRANCH_ATTENTION, kept->input, &sum));
  if (!shape.parallel) {
    kept->middle = sum;
    SPP_TRY(spp_heap_rename(&e->rank->heap, sum, kept_part, "post-attention norm: input", e->rank->diag));
  }
  SPP_TRY(enter(&w, &shape, SPP_BRANCH_MLP, shape.parallel ? kept->input : sum, &kept->mlp_input));
  SPP_TRY(spp_layer_mlp_forward(&w, spare_of(&w, &shape, SPP_BRANCH_MLP), x));
  SPP_TRY(leave(&w, &shape, SPP_BRANCH_MLP, sum, x));
  if (shape.parallel) spp_heap_free(&e->rank->heap, sum);
  spp_layer_mlp_drop(&w);
  return SPP_OK;
}

static void release_branch(struct spp_engine *e, const struct spp_branch_kept *b) {
  void *const blocks[] = {b->normed, b->stats, b->output, b->output_stats};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    spp_heap_free(&e->rank->heap, blocks[i]);
}

void spp_layer_release(struct spp_engine *e, struct spp_layer_kept *k) {
  void *const blocks[] = {k->middle,  k->gate_up,      k->product,        k->router_logits,  k->router_probs,
                          k->routing, k->expert_input, k->shared_gate_up, k->shared_product, k->shared_out};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    spp_heap_free(&e->rank->heap, blocks[i]);
  release_branch(e, &k->branch[0]);
  release_branch(e, &k->branch[1]);
  spp_layer_attention_release(e, k);
  *k = (struct spp_layer_kept){.input = k->input};
}
