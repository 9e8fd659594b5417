#include "exec/attention_parallel.h"

#include <math.h>

#include "base/num.h"
#include "exec/attention_pieces.h"
#include "exec/try.h"
#include "exec/view.h"

static bool exchanges(const struct spp_attention *a) {
  return a->cut.ulysses > 1;
}

static enum spp_status check(const struct spp_attention *a, struct spp_diag *diag) {
  int64_t su = a->cut.ulysses, unit = spp_sequence_unit(&a->cut);
  if (a->heads % a->kv_heads != 0 || a->heads % su != 0 || (a->kv_heads % su != 0 && su % a->kv_heads != 0))
    return spp_diag_set(diag, SPP_ERR_INPUT, NULL, "choose a degree that divides the heads",
                        "%lld query and %lld KV heads cannot be shared by %lld Ulysses ranks",
                        (long long)a->heads, (long long)a->kv_heads, (long long)su);
  if (a->cut.tokens % unit != 0)
    return spp_diag_set(diag, SPP_ERR_INPUT, NULL, "pad the sequences",
                        "sequences of %lld tokens are no multiple of %lld", (long long)a->cut.tokens,
                        (long long)unit);
  return SPP_OK;
}

/* Sequences are documents when nothing else was said. */
static enum spp_status mark_sequences(struct spp_attention *a, struct spp_diag *diag) {
  if (a->cu_seqlens) return SPP_OK;
  int64_t *bounds = spp_arena_array(&a->arena, (size_t)a->cut.sequences + 1, sizeof *bounds);
  if (!bounds) return spp_diag_oom(diag);
  for (int64_t s = 0; s <= a->cut.sequences; s++)
    bounds[s] = s * a->cut.tokens;
  a->cu_seqlens = bounds;
  a->n_docs = a->cut.sequences;
  return SPP_OK;
}

static enum spp_status place_rows(struct spp_attention *a, struct spp_diag *diag) {
  a->positions = spp_arena_array(&a->arena, (size_t)a->cut.ring, sizeof *a->positions);
  if (!a->positions) return spp_diag_oom(diag);
  for (int64_t r = 0; r < a->cut.ring; r++) {
    struct spp_pos_run *runs = spp_arena_array(&a->arena, (size_t)(2 * a->cut.sequences), sizeof *runs);
    if (!runs) return spp_diag_oom(diag);
    a->positions[r] = (struct spp_positions){.runs = runs, .n_runs = spp_sequence_runs(&a->cut, r, runs)};
  }
  return SPP_OK;
}

/* What differs from head to head. */
static enum spp_status one_a_head(struct spp_rank *rank, const struct spp_attention *a, float **numbers) {
  return spp_heap_floats(&rank->heap, SPP_PART_CONTEXT, "numbers of heads", a->heads_here, numbers,
                         rank->diag);
}
static enum spp_status mark_heads(struct spp_rank *rank, struct spp_attention *a) {
  a->first_here = (a->ulysses ? a->ulysses->me : 0) * a->heads_here;
  if (a->has_sinks) SPP_TRY(one_a_head(rank, a, &a->sinks));
  if (a->alibi <= 0) return SPP_OK;
  SPP_TRY(one_a_head(rank, a, &a->slopes));
  struct spp_view view = spp_view_floats(a->slopes, a->heads_here, SPP_VIEW_WRITE);
  SPP_TRY(spp_views_open(rank, &view, 1));
  float *slopes = view.data;
  for (int64_t h = 0; h < a->heads_here; h++)
    slopes[h] = (float)(a->alibi * spp_alibi_slope(a->all_heads, a->first_head + a->first_here + h));
  spp_views_close(rank, &view, 1);
  return SPP_OK;
}

enum spp_status spp_attention_open(struct spp_rank *rank, struct spp_attention *a) {
  struct spp_diag *diag = rank->diag;
  int64_t su = a->cut.ulysses;
  SPP_TRY(check(a, diag));
  spp_arena_init(&a->arena);
  a->rows = a->cut.sequences * a->cut.tokens / a->cut.ring;
  a->tokens = a->rows / su;
  a->kv_repeat = spp_max64(su / a->kv_heads, 1);
  a->heads_here = a->heads / su;
  a->kv_heads_here = a->kv_heads * a->kv_repeat / su;
  if (a->v_head_dim == 0) a->v_head_dim = a->head_dim;
  if (a->scale <= 0) a->scale = 1.0 / sqrt((double)a->head_dim);
  SPP_TRY(mark_heads(rank, a));
  SPP_TRY(mark_sequences(a, diag));
  return place_rows(a, diag);
}

void spp_attention_close(struct spp_rank *rank, struct spp_attention *a) {
  spp_heap_free(&rank->heap, a->sinks);
  spp_heap_free(&rank->heap, a->slopes);
  spp_arena_free(&a->arena);
}

static int64_t me(const struct spp_attention *a) {
  return a->ring ? a->ring->me : 0;
}

/* The kernels take void pointers that they only read where the row is an input. */
static struct spp_rows rows_in(const void *data, int64_t width, enum spp_storage storage) {
  union {
    const void *read;
    void *any;
  } pointer = {.read = data};
  return (struct spp_rows){pointer.any, width, storage};
}
/* Elements of a row of q, k, v and of the result, inside attention. */
struct widths {
  int64_t q, k, v, out;
};
static struct widths widths_of(const struct spp_attention *a) {
  return (struct widths){a->heads_here * a->head_dim, a->kv_heads_here * a->head_dim,
                         a->kv_heads_here * a->v_head_dim, a->heads_here * a->v_head_dim};
}
static struct spp_row_stats stats_of(const struct spp_attention *a, const float *data) {
  union {
    const float *read;
    float *any;
  } pointer = {.read = data};
  return (struct spp_row_stats){pointer.any, a->rows};
}

static struct spp_attn_shape shape_of(const struct spp_attention *a, const struct spp_kv_block *block) {
  return (struct spp_attn_shape){.q_tokens = a->rows,
                                 .kv_tokens = block->rows,
                                 .q_heads = a->heads_here,
                                 .kv_heads = a->kv_heads_here,
                                 .head_dim = a->head_dim,
                                 .v_head_dim = a->v_head_dim,
                                 .scale = (float)a->scale,
                                 .cap = (float)a->cap,
                                 .slopes = a->slopes,
                                 .mask = {.kind = SPP_MASK_CAUSAL,
                                          .window_tokens = a->window_tokens,
                                          .window_chunked = a->window_chunked,
                                          .q = a->positions[me(a)],
                                          .kv = block->positions,
                                          .cu_seqlens = a->cu_seqlens,
                                          .n_docs = a->n_docs}};
}

static enum spp_status workspace(struct spp_rank *rank, int64_t bytes, void **work) {
  return spp_heap_bytes(&rank->heap, SPP_PART_CONTEXT, "attention workspace", bytes, work, rank->diag);
}

enum spp_status spp_attention_block_forward(struct spp_rank *rank, const struct spp_attention *a,
                                            const void *q, const struct spp_kv_block *block,
                                            const struct spp_block_result *result) {
  const struct widths w = widths_of(a);
  const struct spp_attn_forward call = {.shape = shape_of(a, block),
                                        .options = {.threads = rank->threads},
                                        .q = rows_in(q, w.q, a->store),
                                        .k = rows_in(block->k, w.k, a->store),
                                        .v = rows_in(block->v, w.v, a->store),
                                        .out = rows_in(result->out, w.out, result->storage),
                                        .lse = stats_of(a, result->lse),
                                        .sinks = result->first ? a->sinks : NULL};
  void *work = NULL;
  SPP_TRY(workspace(rank, rank->ops->attn_forward_bytes(rank->queue, &call), &work));
  SPP_TRY(rank->ops->attn_forward(rank->queue, &call, work, rank->diag));
  spp_heap_free(&rank->heap, work);
  return SPP_OK;
}

enum spp_status spp_attention_block_backward(struct spp_rank *rank, const struct spp_attention *a,
                                             const struct spp_kv_block *block,
                                             const struct spp_block_backward *b) {
  const struct widths w = widths_of(a);
  const struct spp_attn_backward call = {.shape = shape_of(a, block),
                                         .options = {.threads = rank->threads},
                                         .q = rows_in(b->q, w.q, a->store),
                                         .k = rows_in(block->k, w.k, a->store),
                                         .v = rows_in(block->v, w.v, a->store),
                                         .dout = rows_in(b->dout, w.out, a->store),
                                         .lse = stats_of(a, b->lse),
                                         .delta = stats_of(a, b->delta),
                                         .dq = rows_in(b->dq, w.q, b->storage),
                                         .dk = rows_in(b->dkv.k, w.k, b->storage),
                                         .dv = rows_in(b->dkv.v, w.v, b->storage)};
  void *work = NULL;
  SPP_TRY(workspace(rank, rank->ops->attn_backward_bytes(rank->queue, &call), &work));
  SPP_TRY(rank->ops->attn_backward(rank->queue, &call, work, rank->diag));
  spp_heap_free(&rank->heap, work);
  return SPP_OK;
}

/* What Ulysses exchanges, under the names that prediction gives it. */
static struct spp_exchanged queries(const struct spp_attention *a) {
  return (struct spp_exchanged){a->heads, 1, a->head_dim, SPP_PART_ACTIVATIONS, "q after RoPE"};
}
static struct spp_exchanged keys(const struct spp_attention *a) {
  return (struct spp_exchanged){a->kv_heads, a->kv_repeat, a->head_dim, SPP_PART_ACTIVATIONS, "k after RoPE"};
}
static struct spp_exchanged values(const struct spp_attention *a) {
  return (struct spp_exchanged){a->kv_heads, a->kv_repeat, a->v_head_dim, SPP_PART_ACTIVATIONS, "v"};
}
static struct spp_exchanged result(const struct spp_attention *a) {
  return (struct spp_exchanged){a->heads, 1, a->v_head_dim, SPP_PART_ACTIVATIONS, "o_proj input"};
}
static struct spp_exchanged as_transient(struct spp_exchanged x, const char *name) {
  x.part = SPP_PART_TRANSIENT;
  x.name = name;
  return x;
}

static enum spp_status exchange_inputs(struct spp_rank *rank, const struct spp_attention *a,
                                       enum spp_pass pass, struct spp_attention_kept *kept) {
  const struct spp_exchanged q = queries(a), k = keys(a), v = values(a);
  if (!exchanges(a)) return SPP_OK;
  SPP_TRY(spp_ulysses_to_heads(rank, a, (struct spp_label){"q", pass}, &q, &kept->q));
  SPP_TRY(spp_ulysses_to_heads(rank, a, (struct spp_label){"k", pass}, &k, &kept->k));
  return spp_ulysses_to_heads(rank, a, (struct spp_label){"v", pass}, &v, &kept->v);
}

static enum spp_status run_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                   struct spp_attention_kept *kept) {
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_ACTIVATIONS, "attention log-sum-exp", a->heads_here * a->rows,
                          &kept->lse, rank->diag));
  return a->gathers ? spp_gather_forward(rank, a, pass, kept) : spp_ring_forward(rank, a, pass, kept);
}

static void free_inputs(struct spp_rank *rank, struct spp_attention_kept *kept) {
  spp_heap_free(&rank->heap, kept->q);
  spp_heap_free(&rank->heap, kept->k);
  spp_heap_free(&rank->heap, kept->v);
  spp_heap_free(&rank->heap, kept->lse);
  kept->q = kept->k = kept->v = NULL;
  kept->lse = NULL;
}

enum spp_status spp_attention_forward(struct spp_rank *rank, const struct spp_attention *a,
                                      enum spp_pass pass, bool again, struct spp_attention_kept *kept) {
  const enum spp_part part = SPP_PART_ACTIVATIONS;
  const struct spp_exchanged out = result(a);
  SPP_TRY(exchange_inputs(rank, a, pass, kept));
  SPP_TRY(spp_attention_block(rank, a, part, "attention output", spp_attention_out_elements(a), &kept->out));
  SPP_TRY(run_forward(rank, a, pass, kept));
  kept->o_input = kept->out;
  if (!exchanges(a)) return SPP_OK;
  if (again) free_inputs(rank, kept);
  return spp_ulysses_to_tokens(rank, a, (struct spp_label){"attention output", pass}, &out, kept->out,
                               &kept->o_input);
}

static enum spp_status copy(struct spp_rank *rank, const struct spp_attention *a, const char *name,
                            const void *data, int64_t elements, void **result) {
  SPP_TRY(spp_attention_block(rank, a, SPP_PART_ACTIVATIONS, name, elements, result));
  rank->device->copy(rank->queue, *result, data, elements * spp_storage_bytes(a->store));
  return SPP_OK;
}

enum spp_status spp_attention_copy_inputs(struct spp_rank *rank, const struct spp_attention *a,
                                          const struct spp_attention_kept *kept,
                                          struct spp_attention_kept *inputs) {
  int64_t width = a->tokens * a->head_dim, v_width = a->tokens * a->v_head_dim;
  *inputs = (struct spp_attention_kept){.q = NULL};
  if (!exchanges(a)) return SPP_OK;
  SPP_TRY(copy(rank, a, "q after RoPE", kept->q, width * a->heads, &inputs->q));
  SPP_TRY(copy(rank, a, "k after RoPE", kept->k, width * a->kv_heads, &inputs->k));
  return copy(rank, a, "v", kept->v, v_width * a->kv_heads, &inputs->v);
}

static void free_kept(struct spp_rank *rank, struct spp_attention_kept *kept) {
  spp_heap_free(&rank->heap, kept->q);
  spp_heap_free(&rank->heap, kept->k);
  spp_heap_free(&rank->heap, kept->v);
  spp_heap_free(&rank->heap, kept->out);
  spp_heap_free(&rank->heap, kept->lse);
}

void spp_attention_reduce(struct spp_rank *rank, const struct spp_attention *a,
                          const struct spp_attention_kept *inputs, struct spp_attention_kept *kept) {
  void *o_input = kept->o_input;
  if (exchanges(a)) {
    free_kept(rank, kept);
    *kept = *inputs;
  } else {
    spp_heap_free(&rank->heap, kept->lse);
    kept->lse = NULL;
  }
  kept->o_input = o_input;
}

enum spp_status spp_attention_again(struct spp_rank *rank, const struct spp_attention *a,
                                    struct spp_attention_kept *kept) {
  if (!exchanges(a)) return run_forward(rank, a, SPP_PASS_RECOMPUTE, kept);
  SPP_TRY(spp_attention_forward(rank, a, SPP_PASS_RECOMPUTE, false, kept));
  spp_heap_free(&rank->heap, kept->o_input);
  kept->o_input = kept->out;
  return SPP_OK;
}

void spp_attention_release(struct spp_rank *rank, struct spp_attention_kept *kept) {
  if (kept->o_input != kept->out) spp_heap_free(&rank->heap, kept->o_input);
  free_kept(rank, kept);
}

static enum spp_status return_gradient(struct spp_rank *rank, const struct spp_attention *a, const char *what,
                                       struct spp_exchanged exchanged, void **grad) {
  const struct spp_exchanged x = as_transient(exchanged, "gradients of q, k, v");
  void *inside = *grad;
  SPP_TRY(spp_ulysses_to_tokens(rank, a, (struct spp_label){what, SPP_PASS_BACKWARD}, &x, inside, grad));
  spp_heap_free(&rank->heap, inside);
  return SPP_OK;
}

enum spp_status spp_attention_backward(struct spp_rank *rank, const struct spp_attention *a,
                                       struct spp_attention_kept *kept, void *dout,
                                       struct spp_attention_grads *grads) {
  const struct spp_kv_block own = {.rows = a->rows, .positions = a->positions[me(a)]};
  const struct spp_attn_shape shape = shape_of(a, &own);
  const struct spp_exchanged out = as_transient(result(a), "gradient of the attention output");
  int64_t width = widths_of(a).out;
  float *delta;
  if (exchanges(a))
    SPP_TRY(spp_ulysses_to_heads(rank, a, (struct spp_label){"attention output", SPP_PASS_BACKWARD}, &out,
                                 &dout));
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "softmax row statistics", a->heads_here * a->rows,
                          &delta, rank->diag));
  rank->ops->attn_delta(rank->queue, &shape, rows_in(dout, width, a->store),
                        rows_in(kept->out, width, a->store), stats_of(a, delta));
  if (a->sinks)
    rank->ops->attn_sink_grad(rank->queue, &shape, a->sinks, stats_of(a, kept->lse), stats_of(a, delta),
                              grads->sinks);
  SPP_TRY(a->gathers ? spp_gather_backward(rank, a, kept, dout, delta, grads)
                     : spp_ring_backward(rank, a, kept, dout, delta, grads));
  spp_heap_free(&rank->heap, delta);
  spp_heap_free(&rank->heap, dout);
  free_kept(rank, kept);
  if (!exchanges(a)) return SPP_OK;
  SPP_TRY(return_gradient(rank, a, "q", queries(a), &grads->q));
  SPP_TRY(return_gradient(rank, a, "k", keys(a), &grads->k));
  return return_gradient(rank, a, "v", values(a), &grads->v);
}
