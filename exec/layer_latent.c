/* q, k and v of latent attention (deepseek-ai/DeepSeek-V2 modeling_deepseek.py DeepseekV2Attention): q and,
 * together, k and v are made of latents of lower rank, each behind a norm of its own; a part of k that turns
 * is shared by all heads. Under tensor parallelism every rank makes the latents of its stream
 * (NVIDIA/Megatron-LM megatron/core/transformer/multi_latent_attention.py 0.14.0 get_query_key_value_tensors:
 * duplicated down-projections); with Megatron sequence parallelism these are gathered, not the stream. */
#include "exec/layer_work.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

/* One of the two latents. */
struct side {
  const char *label, *input, *stats, *latent; /* its name on the wire and in the heap */
  enum spp_slot down, down_bias, norm, up;
  int64_t width;
  struct spp_latent_kept *kept;
};
static struct side query_side(const struct spp_layer_work *w) {
  return (struct side){"q latent",        "q latent norm: input", "q latent norm: statistics",
                       "q latent",        SPP_SLOT_Q_A,           SPP_SLOT_Q_A_BIAS,
                       SPP_SLOT_Q_A_NORM, SPP_SLOT_Q_B,           w->e->arch->q_lora_rank,
                       &w->kept->q_latent};
}
static struct side key_value_side(const struct spp_layer_work *w) {
  return (struct side){"kv latent",        "kv latent norm: input", "kv latent norm: statistics",
                       "kv latent",        SPP_SLOT_KV_A,           SPP_SLOT_KV_A_BIAS,
                       SPP_SLOT_KV_A_NORM, SPP_SLOT_KV_B,           w->e->arch->kv_lora_rank,
                       &w->kept->kv_latent};
}

static const char rope_key[] = "rope key";

static int64_t rows(const struct spp_layer_work *w) {
  return w->e->g->stream_tokens;
}
static struct spp_label label(const struct spp_layer_work *w, const char *what) {
  return (struct spp_label){what, w->pass};
}
static enum spp_status block(const struct spp_layer_work *w, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(w->e, part, name, elements, data);
}

/* Copies `width` elements of each of n rows. */
struct columns {
  void *to;
  int64_t to_width, to_first;
  const void *from;
  int64_t from_width, from_first;
};
static void copy(const struct spp_layer_work *w, int64_t n, int64_t width, const struct columns *c) {
  const enum spp_storage store = w->e->store;
  int64_t each = spp_storage_bytes(store);
  w->e->rank->device->copy_rows(w->q, n, width * each, spp_at(c->to, store, c->to_first), c->to_width * each,
                                spp_at_const(c->from, store, c->from_first), c->from_width * each);
}

/* --- forward --- */

/* y [stream][out] = x w^T (+ bias). */
static enum spp_status down(const struct spp_layer_work *w, const struct side *s, const void *x, void *y) {
  const struct spp_held *held = &w->use->unit->held[s->down];
  SPP_TRY(spp_linear_forward(w->e->rank, rows(w), held->cols, held->rows, spp_linear_in(w->e->store), x,
                             spp_use_weight(w->use, s->down), y));
  spp_layer_add_bias(w, s->down_bias, rows(w), held->rows, y);
  return SPP_OK;
}

/* The latent of its input, which is there. */
static enum spp_status normalise(const struct spp_layer_work *w, const struct side *s) {
  SPP_TRY(spp_engine_floats(w->e, kept_part, s->stats, rows(w), &s->kept->stats));
  SPP_TRY(block(w, kept_part, s->latent, rows(w) * s->width, &s->kept->latent));
  spp_layer_norm(w, s->norm, rows(w), s->width, s->kept->input, s->kept->latent, s->kept->stats);
  return SPP_OK;
}

static enum spp_status gather(const struct spp_layer_work *w, const struct side *s, const void **whole,
                              void **gathered) {
  return spp_stream_gather_width(w->e, label(w, s->label), s->kept->latent, s->width, whole, gathered);
}

static enum spp_status make_query(const struct spp_layer_work *w, const void *x) {
  const struct spp_geometry *g = w->e->g;
  const struct spp_arch *a = w->e->arch;
  const struct side s = query_side(w);
  const void *whole;
  void *gathered, **q = &w->kept->attention.q;
  if (s.width > 0) {
    SPP_TRY(block(w, kept_part, s.input, rows(w) * s.width, &s.kept->input));
    SPP_TRY(down(w, &s, x, s.kept->input));
    SPP_TRY(normalise(w, &s));
    SPP_TRY(gather(w, &s, &whole, &gathered));
  } else {
    SPP_TRY(spp_stream_gather(w->e, label(w, "attention input"), x, &whole, &gathered));
  }
  SPP_TRY(block(w, kept_part, "q after RoPE", g->tokens * g->q_width, q));
  SPP_TRY(spp_layer_project(w, s.width > 0 ? s.up : SPP_SLOT_Q, SPP_SLOT_COUNT, whole, *q));
  spp_layer_drop(w, &gathered);
  spp_layer_rotate(w, g->heads_local, a->head_dim, a->qk_nope_dim, 1.0F, *q);
  return SPP_OK;
}

/* k and v from their joined product [tokens][heads][nope + v] and the shared part of k [tokens][rope]. */
static enum spp_status spread(const struct spp_layer_work *w, const void *joined, const void *shared) {
  const struct spp_geometry *g = w->e->g;
  const struct spp_arch *a = w->e->arch;
  struct spp_attention_kept *kept = &w->kept->attention;
  int64_t n = g->tokens * g->heads_local, nope = a->qk_nope_dim, rope = a->qk_rope_dim, v = a->v_head_dim;
  SPP_TRY(block(w, kept_part, "k after RoPE", g->tokens * g->k_width, &kept->k));
  SPP_TRY(block(w, kept_part, "v", g->tokens * g->v_width, &kept->v));
  copy(w, n, nope, &(struct columns){kept->k, nope + rope, 0, joined, nope + v, 0});
  copy(w, n, v, &(struct columns){kept->v, v, 0, joined, nope + v, nope});
  for (int64_t h = 0; h < g->heads_local; h++)
    copy(w, g->tokens, rope,
         &(struct columns){kept->k, g->k_width, h * (nope + rope) + nope, shared, rope, 0});
  return SPP_OK;
}

/* Input of the kv latent's norm, and the shared part of k, from one product. */
static enum spp_status split(const struct spp_layer_work *w, const struct side *s, const void *x,
                             void **shared) {
  int64_t rope = w->e->arch->qk_rope_dim, width = s->width + rope;
  void *both;
  SPP_TRY(block(w, work_part, "kv latent and rope key", rows(w) * width, &both));
  SPP_TRY(down(w, s, x, both));
  SPP_TRY(block(w, kept_part, s->input, rows(w) * s->width, &s->kept->input));
  SPP_TRY(block(w, work_part, rope_key, rows(w) * rope, shared));
  copy(w, rows(w), s->width, &(struct columns){s->kept->input, s->width, 0, both, width, 0});
  copy(w, rows(w), rope, &(struct columns){*shared, rope, 0, both, width, s->width});
  spp_layer_drop(w, &both);
  return SPP_OK;
}

static enum spp_status make_key_value(const struct spp_layer_work *w, const void *x) {
  const struct spp_arch *a = w->e->arch;
  const struct side s = key_value_side(w);
  int64_t width = w->e->g->heads_local * (a->qk_nope_dim + a->v_head_dim), rope = a->qk_rope_dim;
  const void *whole, *whole_key;
  void *shared, *gathered, *gathered_key, *joined;
  SPP_TRY(split(w, &s, x, &shared));
  SPP_TRY(normalise(w, &s));
  SPP_TRY(spp_stream_gather_width(w->e, label(w, rope_key), shared, rope, &whole_key, &gathered_key));
  if (gathered_key) {
    spp_layer_drop(w, &shared);
    shared = gathered_key;
  }
  spp_layer_rotate(w, 1, rope, 0, 1.0F, shared);
  SPP_TRY(gather(w, &s, &whole, &gathered));
  SPP_TRY(block(w, work_part, "k and v joined", w->e->g->tokens * width, &joined));
  SPP_TRY(spp_layer_project(w, s.up, SPP_SLOT_COUNT, whole, joined));
  spp_layer_drop(w, &gathered);
  SPP_TRY(spread(w, joined, shared));
  spp_layer_drop(w, &joined);
  spp_layer_drop(w, &shared);
  return SPP_OK;
}

enum spp_status spp_latent_forward(const struct spp_layer_work *w, const void *x) {
  SPP_TRY(make_query(w, x));
  return make_key_value(w, x);
}

/* --- backward --- */

/* The shared part of k, [tokens][rope], has the gradient of all heads' parts together. */
static enum spp_status sum_heads(const struct spp_layer_work *w, const void *k, void *shared) {
  const struct spp_arch *a = w->e->arch;
  const enum spp_storage store = w->e->store;
  int64_t tokens = w->e->g->tokens, heads = w->e->g->heads_local, each = spp_storage_bytes(store);
  int64_t nope = a->qk_nope_dim, rope = a->qk_rope_dim;
  struct spp_view views[] = {spp_view_of(k, tokens * heads * (nope + rope) * each, SPP_VIEW_READ),
                             spp_view_of(shared, tokens * rope * each, SPP_VIEW_WRITE)};
  SPP_TRY(spp_views_open(w->e->rank, views, 2));
  for (int64_t t = 0; t < tokens; t++)
    for (int64_t i = 0; i < rope; i++) {
      float sum = 0.0F;
      for (int64_t h = 0; h < heads; h++)
        sum += spp_load(views[0].data, store, (t * heads + h) * (nope + rope) + nope + i);
      spp_store(views[1].data, store, t * rope + i, sum);
    }
  spp_views_close(w->e->rank, views, 2);
  return SPP_OK;
}

/* Gradients of the joined product and of the shared part of k, summed over the heads of this rank in fp32. */
static enum spp_status join(const struct spp_layer_work *w, struct spp_attention_grads *g, void **joined,
                            void **shared) {
  const struct spp_arch *a = w->e->arch;
  int64_t tokens = w->e->g->tokens, n = tokens * w->e->g->heads_local;
  int64_t nope = a->qk_nope_dim, rope = a->qk_rope_dim, v = a->v_head_dim;
  SPP_TRY(block(w, work_part, "k and v joined", n * (nope + v), joined));
  SPP_TRY(block(w, work_part, rope_key, tokens * rope, shared));
  copy(w, n, nope, &(struct columns){*joined, nope + v, 0, g->k, nope + rope, 0});
  copy(w, n, v, &(struct columns){*joined, nope + v, nope, g->v, v, 0});
  SPP_TRY(sum_heads(w, g->k, *shared));
  spp_layer_drop(w, &g->k);
  spp_layer_drop(w, &g->v);
  return SPP_OK;
}

/* From the gradient of the up-projection's output, which is freed, to that of the norm's input,
 * [stream][width]. */
static enum spp_status to_latent(const struct spp_layer_work *w, const struct side *s, void **dy, void **dx) {
  const void *whole;
  void *gathered;
  SPP_TRY(gather(w, s, &whole, &gathered));
  SPP_TRY(spp_layer_weight_grad(w, s->up, SPP_SLOT_COUNT, *dy, whole));
  spp_layer_drop(w, &gathered);
  spp_layer_drop(w, &s->kept->latent);
  SPP_TRY(block(w, work_part, "gradient of a latent", w->e->g->tokens * s->width, dx));
  SPP_TRY(spp_layer_input_grad(w, s->up, *dy, false, *dx));
  spp_layer_drop(w, dy);
  SPP_TRY(spp_stream_reduce_width(w->e, label(w, s->label), s->width, dx));
  spp_layer_norm_grad(w, s->norm, rows(w), s->width, s->kept->input, s->kept->stats, *dx);
  spp_layer_drop(w, &s->kept->input);
  spp_layer_drop_floats(w, &s->kept->stats);
  return SPP_OK;
}

/* From the gradient of the down-projection's output, which is freed, to that of the stream, which it is added
 * to. */
static enum spp_status from_stream(const struct spp_layer_work *w, const struct side *s, const void *x,
                                   void **dy, bool add, void *dx) {
  const struct spp_held *held = &w->use->unit->held[s->down];
  const enum spp_storage store = w->e->store;
  SPP_TRY(spp_linear_weight(w->e->rank, rows(w), held->cols, held->rows, spp_linear_in(store), *dy, x,
                            spp_use_grad(w->use, s->down)));
  if (spp_use_has(w->use, s->down_bias))
    w->ops->sum_rows(w->q, rows(w), held->rows, store, *dy, spp_use_grad(w->use, s->down_bias));
  SPP_TRY(spp_linear_input(w->e->rank, rows(w), held->cols, held->rows, spp_linear_in(store), *dy,
                           spp_use_weight(w->use, s->down), add, dx));
  spp_layer_drop(w, dy);
  return SPP_OK;
}

static enum spp_status key_value_back(const struct spp_layer_work *w, const void *x,
                                      struct spp_attention_grads *g, void *dx) {
  const struct side s = key_value_side(w);
  int64_t rope = w->e->arch->qk_rope_dim, width = s.width + rope;
  void *joined, *shared, *latent, *both;
  SPP_TRY(join(w, g, &joined, &shared));
  spp_layer_rotate(w, 1, rope, 0, -1.0F, shared);
  SPP_TRY(spp_stream_reduce_width(w->e, label(w, rope_key), rope, &shared));
  SPP_TRY(to_latent(w, &s, &joined, &latent));
  SPP_TRY(block(w, work_part, "kv latent and rope key", rows(w) * width, &both));
  copy(w, rows(w), s.width, &(struct columns){both, width, 0, latent, s.width, 0});
  copy(w, rows(w), rope, &(struct columns){both, width, s.width, shared, rope, 0});
  spp_layer_drop(w, &latent);
  spp_layer_drop(w, &shared);
  return from_stream(w, &s, x, &both, false, dx);
}

/* q straight from the stream. */
static enum spp_status plain_query_back(const struct spp_layer_work *w, const void *x, void **dq, void *dx) {
  const void *whole;
  void *gathered, *part;
  SPP_TRY(spp_stream_gather(w->e, label(w, "attention input"), x, &whole, &gathered));
  SPP_TRY(spp_layer_weight_grad(w, SPP_SLOT_Q, SPP_SLOT_COUNT, *dq, whole));
  spp_layer_drop(w, &gathered);
  SPP_TRY(block(w, work_part, "norm backward", w->e->g->tokens * w->e->arch->hidden, &part));
  SPP_TRY(spp_layer_input_grad(w, SPP_SLOT_Q, *dq, false, part));
  spp_layer_drop(w, dq);
  SPP_TRY(spp_stream_reduce(w->e, label(w, "attention input"), &part));
  w->ops->add(w->q, spp_stream_elements(w->e), w->e->store, dx, part, dx);
  spp_layer_drop(w, &part);
  return SPP_OK;
}

enum spp_status spp_latent_backward(const struct spp_layer_work *w, const void *x,
                                    struct spp_attention_grads *grads, void **dx) {
  const struct spp_arch *a = w->e->arch;
  const struct side s = query_side(w);
  void *latent;
  spp_layer_rotate(w, w->e->g->heads_local, a->head_dim, a->qk_nope_dim, -1.0F, grads->q);
  SPP_TRY(block(w, work_part, "norm backward", spp_stream_elements(w->e), dx));
  SPP_TRY(key_value_back(w, x, grads, *dx));
  if (s.width == 0) return plain_query_back(w, x, &grads->q, *dx);
  SPP_TRY(to_latent(w, &s, &grads->q, &latent));
  return from_stream(w, &s, x, &latent, true, *dx);
}
