/* One rank of a training run: a decoder-only transformer, in fp32 or with
 * weights and activations in bf16 beside fp32 masters and gradients, forward, backward and optimizer, over
 * every layout that the framework file "spplan" allows. What it keeps, sends and allocates is what that file
 * says; tests hold one against the other. */
#ifndef SPP_EXEC_ENGINE_H
#define SPP_EXEC_ENGINE_H

#include "exec/attention_parallel.h"
#include "exec/relu_sides.h"
#include "exec/view.h"
#include "exec/weights.h"

/* Groups of one rank; those of one member are NULL. */
struct spp_engine_groups {
  struct spp_rank_group world, dp, tp, pp, ulysses, ring;
  /* dp: the ranks that hold the same weights (dp x sp) */
  const struct spp_rank_group *reduce; /* world when it is the same */
  /* ep: the ranks that have all experts together; expert_dp: those that hold the same ones */
  struct spp_rank_group ep, expert_dp;
  const struct spp_rank_group *experts; /* NULL: this rank alone */
  int64_t tp_rank, ulysses_rank, ring_rank, dp_rank, ep_rank, stage;
};

/* Part of the stage's weights whose gradients are reduced, and whose states are sharded, together. */
struct spp_segment {
  const struct spp_rank_group *group; /* ranks that hold the same; NULL: this one alone */
  bool expert;
  int64_t first, floats; /* in the stage */
  int64_t mine, end;     /* what this rank answers for, in the stage */
  int64_t shard;         /* where that lies in a store of such parts only */
};

/* Weights, gradients and moments of the stage. Sharded ones hold this rank's part of each segment, one after
 * the other; a segment is the whole stage under ZeRO-1, a unit from ZeRO-2 on, experts apart. */
struct spp_engine_states {
  int zero;
  int64_t segment_count;
  struct spp_segment *segments;
  int64_t shard_floats;
  void *weights; /* of the engine's storage: what products read */
  float *master; /* the same in fp32, where the storage is not */
  float *grads, *first_moment, *second_moment;
};

/* At the ends of attention or of the MLP, [stream][hidden], where norms stand there. */
struct spp_branch_kept {
  void *normed; /* output of the norm before: what the branch reads */
  float *stats; /* of that norm: [stream] rstd, and of a LayerNorm the mean behind it */
  void *output; /* of the branch: input of the norm behind */
  float *output_stats;
};

/* Of latent attention: [stream][rank], before and behind its norm. */
struct spp_latent_kept {
  void *input, *latent;
  float *stats; /* [stream] */
};

/* Tensors of one layer that backward needs. */
struct spp_layer_kept {
  void *input;                      /* [stream][hidden] */
  struct spp_branch_kept branch[2]; /* attention, MLP */
  void *q_raw, *k_raw;              /* before the norm of q and k; NULL without */
  float *q_rstd, *k_rstd;
  struct spp_latent_kept q_latent, kv_latent;
  struct spp_attention_kept attention;
  void *middle;          /* the stream between attention and MLP, unless they are parallel */
  const void *mlp_input; /* one of the above */
  void *
      gate_up; /* gate [tokens][ffn], then up; without a gate up alone; of experts [routed rows][their ffn] */
  void *product;
  float *router_logits, *router_probs; /* [stream][experts]; NULL without experts */
  float *routing;                      /* [routed rows]: the router's weights of them */
  void *expert_input;                  /* [routed rows][hidden] */
  void *shared_gate_up, *shared_product,
      *shared_out; /* of the shared expert; its output where a gate scales it */
};

struct spp_batch {    /* of one micro-batch, [tokens] */
  int64_t *positions; /* within the document */
  int32_t *ids, *targets;
  float *token_weights;
  int64_t first_sequence; /* of the step */
  struct {                /* the same as operators read them, and what they write */
    int32_t *ids, *targets;
    float *token_weights, *losses;
  } placed;
};

/* Documents packed into sequences; sequence q of a step holds those of q % count. */
struct spp_packs {
  int64_t count, most;  /* sequences, and the most documents of one */
  const int64_t *first; /* [count + 1]: first document of each */
  int64_t *bounds;      /* of the documents of one micro-batch */
  int64_t step_tokens;  /* of all replicas, without padding */
};

enum { SPP_ENGINE_MAX_EXPERTS = 512 };

/* The experts that each token chose, [steps][layers][sequences of a step][tokens][k]. Scores that are all but
 * equal fall either way where sums are taken in another order: a run that is compared with another follows
 * its choices, and the largest difference of scores that it so passed over, over the larger of the two, is
 * `passed`. */
enum { SPP_NO_ROUTE = -1 }; /* of a token that was not there */
struct spp_routes {
  int64_t layers, sequences, tokens, top_k;
  int16_t *chosen;
};

struct spp_engine {
  struct spp_rank *rank;
  const struct spp_exec_plan *plan;
  const struct spp_arch *arch;
  const struct spp_geometry *g;
  enum spp_storage store; /* of weights in use and of activations */
  struct spp_arena arena;
  struct spp_engine_groups groups;
  struct spp_attention attention;
  struct spp_stage_weights weights;
  struct spp_engine_states states;
  struct spp_batch batch;
  struct spp_packs packs;
  struct {
    float *cos, *sin;          /* [tokens][rotary_dim / 2]; NULL: none */
  } angles[2];                 /* [1]: of layers with a window, where those turn by others */
  struct spp_layer_kept *kept; /* [micro-batches in flight][layers of the stage] */
  int64_t step;
  double loss;                  /* of this rank's tokens, this step */
  struct spp_routes *routes;    /* NULL: none */
  struct spp_relu_sides *sides; /* NULL: none */
  bool follows;                 /* them, or writes them */
  double passed;
};

/* SPP_ERR_ABSENT: an architecture or a combination the engine does not have. */
enum spp_status spp_engine_open(struct spp_rank *rank, const struct spp_exec_plan *plan,
                                struct spp_engine *engine);
void spp_engine_close(struct spp_engine *engine);

/* Forward and backward of all micro-batches; gradients are summed over the ranks that share weights. */
enum spp_status spp_engine_gradients(struct spp_engine *e);
/* AdamW, then updated weights to where they are needed. */
enum spp_status spp_engine_update(struct spp_engine *e);

/* Which of the elements a rank is answerable for a caller sees: weights and gradients, piece by piece.
 * `number` counts through the model (exec/weights.h). Call between the two functions above for gradients. */
typedef void spp_element_visit(void *context, const struct spp_weight *weight, int64_t number,
                               float weight_value, float gradient);
enum spp_status spp_engine_visit(const struct spp_engine *e, spp_element_visit *visit, void *context);

/* Does this rank's loss count, or has another rank of its tensor-parallel group or pipeline the same? */
bool spp_engine_counts_loss(const struct spp_engine *e);

/* --- for the files of the engine --- */

/* Weights and gradients of a unit, gathered for use. */
struct spp_unit_use {
  const struct spp_unit *unit;
  enum spp_storage store;
  const void *weights, *experts;
  float *grads, *expert_grads; /* NULL in forward */
  void *gathered;              /* heap blocks behind them, NULL when resident */
  float *gathered_grads;
};
enum spp_status spp_states_open(struct spp_engine *e);
enum spp_status spp_states_use(struct spp_engine *e, int64_t unit, enum spp_pass pass,
                               struct spp_unit_use *use);
enum spp_status spp_states_done(struct spp_engine *e, int64_t unit, struct spp_unit_use *use);
void spp_states_clear_grads(struct spp_engine *e);
/* What is not reduced unit by unit: gradients of whole stages, of norms over a sequence-parallel stream, of
 * tied weights on two stages. */
enum spp_status spp_states_reduce(struct spp_engine *e);
static inline const void *spp_use_weight(const struct spp_unit_use *u, enum spp_slot slot) {
  return spp_at_const(spp_slot_is_expert((int)slot) ? u->experts : u->weights, u->store,
                      u->unit->held[slot].offset);
}
static inline float *spp_use_grad(const struct spp_unit_use *u, enum spp_slot slot) {
  return (spp_slot_is_expert((int)slot) ? u->expert_grads : u->grads) + u->unit->held[slot].offset;
}
static inline bool spp_use_has(const struct spp_unit_use *u, enum spp_slot slot) {
  return u->unit->held[slot].weight != NULL;
}

static inline bool spp_use_has_experts(const struct spp_unit_use *u) {
  return spp_use_has(u, SPP_SLOT_ROUTER);
}

/* Does selective recompute drop what this module keeps (SPP_RC_*)? */
static inline bool spp_engine_drops(const struct spp_engine *e, unsigned module) {
  const struct spp_layout *l = &e->plan->layout;
  return l->recompute == SPP_RECOMPUTE_SELECTIVE && (l->recompute_modules & module);
}

/* Linear layers, w [out][in]. y, dy may be of another storage than the rest. forward: y = x w^T. input: dx =
 * dy w (+ dx). weight: dw += dy^T x. */
struct spp_linear_storage {
  enum spp_storage x, y; /* of x, w, dx; of y, dy */
};
static inline struct spp_linear_storage spp_linear_in(enum spp_storage store) {
  return (struct spp_linear_storage){store, store};
}
enum spp_status spp_linear_forward(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                   struct spp_linear_storage store, const void *x, const void *w, void *y);
enum spp_status spp_linear_input(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                 struct spp_linear_storage store, const void *dy, const void *w, bool add,
                                 void *dx);
enum spp_status spp_linear_weight(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                  struct spp_linear_storage store, const void *dy, const void *x, float *dw);

/* Tensor parallelism at the borders of a column- and row-parallel pair. Megatron sequence parallelism gathers
 * the stream into a new block and scatters back; without it the first returns its argument and the second
 * sums in place. NVIDIA/Megatron-LM megatron/core/tensor_parallel/mappings.py. */
enum spp_status spp_stream_gather(struct spp_engine *e, struct spp_label label, const void *stream,
                                  const void **whole, void **block);
/* *data, [tokens][hidden], becomes the summed stream; the block may be replaced. */
enum spp_status spp_stream_reduce(struct spp_engine *e, struct spp_label label, void **data);

/* The same for rows of another width than the stream's. */
enum spp_status spp_stream_gather_width(struct spp_engine *e, struct spp_label label, const void *stream,
                                        int64_t width, const void **whole, void **block);
enum spp_status spp_stream_reduce_width(struct spp_engine *e, struct spp_label label, int64_t width,
                                        void **data);

/* *x, the stream, becomes kept->input and is replaced by the layer's output. */
enum spp_status spp_layer_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                  void **x, struct spp_layer_kept *kept);
/* *dy becomes the gradient of the layer's input; what was kept is freed. */
enum spp_status spp_layer_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                   struct spp_layer_kept *kept, void **dy);
/* The mixture of experts instead of the MLP, reading kept->mlp_input: *out, [stream][hidden], is made here.
 */
enum spp_status spp_experts_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                    struct spp_layer_kept *kept, void **out);
enum spp_status spp_experts_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                     struct spp_layer_kept *kept, const void *dy, void **dx);
/* What selective recompute drops of a mixture: all of it but its input (module moe), the input of down
 * (moe_act), the shared expert (shared_experts). Backward makes it again. */
void spp_experts_drop(struct spp_engine *e, struct spp_layer_kept *kept);
/* SPP_ERR_USAGE: tokens that do not spread evenly over the experts, or do not fill their room. */
enum spp_status spp_experts_check(const struct spp_engine *e, struct spp_diag *diag);

/* The shared expert, which all tokens visit: its output is added to `sums`, unless that is NULL, the gradient
 * of its input to dx. */
enum spp_status spp_shared_expert_forward(struct spp_engine *e, const struct spp_unit_use *use,
                                          enum spp_pass pass, struct spp_layer_kept *kept, void *sums);
enum spp_status spp_shared_expert_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                           struct spp_layer_kept *kept, const void *dy, void *dx);
/* Attention of a layer's own kind, before it is used. */
void spp_engine_turn_to(struct spp_engine *e, const struct spp_unit *unit);

/* Frees what was kept but the input. */
void spp_layer_release(struct spp_engine *e, struct spp_layer_kept *kept);

enum spp_status spp_embedding_forward(struct spp_engine *e, void **x);
enum spp_status spp_embedding_backward(struct spp_engine *e, void *dy);
/* Final norm, head and loss, forward and backward at once: *x, which is freed, is replaced by its gradient.
 */
enum spp_status spp_head_train(struct spp_engine *e, void **x);

/* Blocks of the engine's storage, and of fp32. */
enum spp_status spp_engine_block(struct spp_engine *e, enum spp_part part, const char *name, int64_t elements,
                                 void **data);
enum spp_status spp_engine_floats(struct spp_engine *e, enum spp_part part, const char *name, int64_t floats,
                                  float **data);
static inline void *spp_engine_at(const struct spp_engine *e, void *data, int64_t i) {
  return spp_at(data, e->store, i);
}
static inline void spp_engine_copy(const struct spp_engine *e, void *to, const void *from, int64_t bytes) {
  e->rank->device->copy(e->rank->queue, to, from, bytes);
}
static inline void spp_engine_clear(const struct spp_engine *e, void *data, int64_t bytes) {
  e->rank->device->clear(e->rank->queue, data, bytes);
}
static inline struct spp_span spp_engine_span(const struct spp_engine *e, void *data, int64_t elements) {
  return (struct spp_span){data, elements, e->store};
}
/* Elements of the residual stream of this rank, [stream tokens][hidden]. */
int64_t spp_stream_elements(const struct spp_engine *e);

enum spp_status spp_batch_open(struct spp_engine *e);
enum spp_status spp_batch_fill(struct spp_engine *e, int64_t micro_batch);

enum spp_status spp_pipeline_run(struct spp_engine *e);

#endif
