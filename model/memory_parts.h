/* Shared by the files that fill the memory of one pipeline stage; not for callers of the model. */
#ifndef SPP_MODEL_MEMORY_PARTS_H
#define SPP_MODEL_MEMORY_PARTS_H

#include "base/num.h"
#include "model/activations.h"
#include "model/memory.h"
#include "model/states.h"

/* Layers that keep the same tensors; windows change what attention sees, not what is kept. */
enum spp_layer_class { SPP_LAYER_DENSE, SPP_LAYER_MOE, SPP_LAYER_CLASS_COUNT };

/* What one layer of a class keeps. */
struct spp_memory_lists {
  struct spp_kept_list kept[SPP_LAYER_CLASS_COUNT];  /* nothing recomputed */
  struct spp_kept_list saved[SPP_LAYER_CLASS_COUNT]; /* under op-level recompute */
};

/* What communicators take, by whether states are sharded and which ends of the pipeline a stage is: the same
 * for all layouts of the same degrees. */
struct spp_memory_groups {
  bool known[2][4];
  int64_t bytes[2][4];
};

/* Everything the parts read, worked out once per prediction. */
struct spp_memory_view {
  struct spp_memory_groups *groups; /* remembered from other layouts, or NULL */
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_geometry *g;
  enum spp_dtype act;                                       /* element of an activation */
  const struct spp_layer_kind *kind[SPP_LAYER_CLASS_COUNT]; /* one that stands for the class, or NULL */
  bool trains;
  bool
      grads_persist; /* gradients outlive the step or grow over micro-batches: there when the loss is taken */
  struct spp_states regime;
  const struct spp_memory_lists *lists;
  struct spp_state_counts kinds[SPP_MAX_LAYER_KINDS], embedding, position, head, other, vision;
};

/* One stage of the pipeline. */
struct spp_memory_stage {
  const struct spp_memory_view *view;
  const struct spp_stage *stage;
  int64_t layers[SPP_LAYER_CLASS_COUNT];
  int64_t recomputed[SPP_LAYER_CLASS_COUNT]; /* of them, under full recompute */
  struct spp_state_counts states;
  struct spp_state_counts unit; /* the largest layer: what sharded schemes gather at a time */
  bool late; /* gradients that do not persist outweigh what layers keep: the peak is at the end of backward */
};

/* When tensors of layers wait for their backward: while a layer is in forward, in backward, while the loss is
 * taken, and at the end of a micro-batch's backward, behind its first layer. */
enum spp_wait { SPP_WAIT_FORWARD, SPP_WAIT_BACKWARD, SPP_WAIT_LOSS, SPP_WAIT_END, SPP_WAIT_COUNT };

/* Layers of a sort at work, where most others wait: a candidate for the peak. Counted are layers, of all
 * micro-batches in flight, that hold what they keep, and inputs of recomputed ones; the running layer is
 * among them, with what it keeps or, when it is run again, with its input. */
struct spp_memory_turn {
  enum spp_layer_class class;
  bool again;
  int64_t kept[SPP_LAYER_CLASS_COUNT][SPP_WAIT_COUNT], inputs[SPP_LAYER_CLASS_COUNT][SPP_WAIT_COUNT];
  unsigned sent, returned; /* waits during which a stage's output, an input's gradient is on its way */
};
/* Dense layers and experts; apart by recompute where every tensor is freed at its last use. */
enum { SPP_TURNS_MAX = 2 * SPP_LAYER_CLASS_COUNT };

/* The view in three steps, the last two in any order: what is asked everywhere; what layers keep; how many
 * states there are. Then a stage of it. */
void spp_memory_view_begin(const struct spp_job *job, const struct spp_layout *layout,
                           const struct spp_geometry *g, struct spp_memory_view *v);
void spp_memory_view_layers(struct spp_memory_view *v, struct spp_memory_lists *lists);
void spp_memory_view_states(struct spp_memory_view *v);
/* The layers of a stage; not late. Then its states. */
void spp_memory_stage_layers(const struct spp_memory_view *v, const struct spp_stage *stage,
                             struct spp_memory_stage *s);
void spp_memory_stage_states(struct spp_memory_stage *s);
/* Bytes at the two ends of backward: of gradients, and of what layers keep. */
struct spp_memory_ends {
  int64_t begin, end;
};
bool spp_memory_may_be_late(const struct spp_memory_view *v); /* else it is not */
struct spp_memory_ends spp_memory_gradient_ends(const struct spp_memory_stage *s);
struct spp_memory_ends spp_memory_kept_ends(const struct spp_memory_stage *s);
bool spp_memory_is_late(const struct spp_memory_ends *gradients, const struct spp_memory_ends *kept);
/* Does the peak of this stage have to be looked at? */
bool spp_memory_looks_at(const struct spp_job *job, const struct spp_layout *layout, int64_t stage);
/* Fills `turns` and returns how many there are, at least one: memory_turns.c. */
int spp_memory_turns(const struct spp_memory_stage *s, struct spp_memory_turn turns[SPP_TURNS_MAX]);
/* Is what waits counted step by step, chunks being unlike? */
bool spp_memory_walks(const struct spp_memory_stage *s);

/* A stage is the sum of two halves. What the sharding of the states, and offload, decide, whatever a
 * micro-batch holds: */
void spp_memory_add_held(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
/* and the rest, in two steps. Sharding and offload matter to it as far as spp_memory_tie says. */
void spp_memory_add_pass(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
/* Of the first, what training needs beside its layers and the vision tower, whatever is recomputed: of stages
 * only the last differs. */
void spp_memory_add_beside(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_running(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                            struct spp_memory_sum *sum);
/* What of its sharding and offload a layout's second half depends on: equal numbers, equal halves (`late` of
 * the stage apart). */
int spp_memory_tie(const struct spp_job *job, const struct spp_layout *layout);

/* Bytes of a stage by moment, over all parts: a sum without its rows. */
struct spp_memory_totals {
  int64_t moment[SPP_MOMENT_COUNT];    /* all there is */
  int64_t held[SPP_MOMENT_COUNT];      /* of it, free blocks that cannot be used */
  int64_t outside;                     /* of it, context and NCCL: no business of the allocator */
  int64_t pinned;                      /* of the loss's held blocks, those that cannot be given back */
  int64_t pass[SPP_MOMENT_COUNT];      /* of it, what comes and goes within a pass */
  int64_t pass_free[SPP_MOMENT_COUNT]; /* of the free blocks, those that the pass itself freed */
  int64_t logits[SPP_MOMENT_COUNT];    /* of that, logits */
  int64_t weights;                     /* of what is always there */
  int64_t spare, spare_block;          /* free blocks that the making of the shards left, the largest one */
  int64_t step_block, pass_block;      /* largest tensors of the step's joined gradients and of the loss */
  int64_t step_made;       /* joined tensors of the step, none of which fits in the block of another */
  int64_t pass_blocks;     /* of the size pass_block */
  int64_t step_rows, norm; /* temporaries of the update among those of the step; of the norm before it */
  bool absurd;
};
void spp_memory_totals_of(const struct spp_memory_sum *sum, struct spp_memory_totals *totals);
/* What tensors take of the allocator at a moment, and what it holds then, in whole segments. */
int64_t spp_memory_allocated(const struct spp_memory_totals *totals, enum spp_moment moment);
int64_t spp_memory_pool_at(const struct spp_job *job, const struct spp_memory_totals *totals,
                           enum spp_moment moment);
/* The worst of stages, classes of running layers and moments so far. */
struct spp_memory_peak {
  int64_t bytes;        /* what the allocator holds at the worst moment; -1 = nothing seen */
  int64_t needed_bytes; /* the most without free blocks */
  int64_t outside;      /* at the worst */
  enum spp_moment moment;
};
/* True when the totals hold a new worst moment. */
bool spp_memory_peak_of(const struct spp_job *job, const struct spp_memory_totals *totals,
                        struct spp_memory_peak *peak);
/* Device bytes, free blocks, limits and whether it fits. */
void spp_memory_verdict(const struct spp_job *job, const struct spp_memory_peak *peak,
                        struct spp_memory *memory);
void spp_memory_report_host(const struct spp_memory_view *v, struct spp_memory *memory);

void spp_memory_add_states(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_sharding(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
/* What FSDP1 leaves with the allocator (memory_flat.c). */
void spp_memory_add_flat_units(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
/* Bytes of a unit's weights once gathered: trained ones in the gather type, frozen ones as stored. */
int64_t spp_memory_gathered(const struct spp_state_counts *c, int gather_bytes);
void spp_memory_add_fused_grads(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_layers(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                           struct spp_memory_sum *sum);
/* Of a stage's layers that are not recomputed, those whose tensors are on the GPU at a time. */
int64_t spp_memory_layers_here(const struct spp_memory_view *v, int64_t layers);
/* What plain segments strand (memory_plain.c). */
void spp_memory_add_plain(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_transients(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                               struct spp_memory_sum *sum);
/* The same, with buffers of sharded states, for frameworks that work unit by unit and free at once
 * (memory_units.c). */
/* What a mixture does not keep yet, or any more (SPP_MIX_*), when its forward [0] and its backward [1], with
 * its rerun if `again`, need most. */
void spp_memory_mixture_without(const struct spp_memory_view *v, bool again, unsigned without[2]);
void spp_memory_add_unit_transients(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                                    struct spp_memory_sum *sum);
/* Attention, and an MLP of `width` columns, that sequences pass in chunks (memory_chunks.c). */
void spp_memory_add_chunked_attention(const struct spp_memory_view *v, struct spp_memory_sum *sum);
void spp_memory_add_chunked_mlp(const struct spp_memory_view *v, int64_t width, struct spp_memory_sum *sum);
void spp_memory_add_outer(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_vision(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_inference(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_fixed(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_user_buffers(const struct spp_memory_view *v, struct spp_memory_sum *sum);

/* Bytes of the input of a recomputed layer; what one layer keeps under the layout's recompute; and those of a
 * stage for one micro-batch. */
int64_t spp_memory_input_bytes(const struct spp_memory_view *v);
int64_t spp_memory_layer_keeps(const struct spp_memory_view *v, enum spp_layer_class class);
static inline int64_t spp_memory_recompute_unit(const struct spp_layout *layout) {
  return spp_max64(1, layout->recompute_unit);
}
int64_t spp_memory_stage_keeps(const struct spp_memory_stage *s);
/* What is left of it when the last layer of backward runs, beyond what a recomputed layer makes again. */
int64_t spp_memory_running_keeps(const struct spp_memory_stage *s);

/* Host bytes of one node under the layout's offload. */
int64_t spp_memory_host_bytes(const struct spp_memory_view *v);

/* Elements or bytes a rank holds of what is sharded: dense parts over one group, experts over theirs. */
static inline int64_t spp_memory_share(const struct spp_geometry *g, bool sharded, int64_t dense,
                                       int64_t expert) {
  if (!sharded) return spp_sat_add(dense, expert);
  return spp_sat_add(spp_ceil_div(dense, spp_max64(1, g->shard_group)),
                     spp_ceil_div(expert, spp_max64(1, g->expert_shard_group)));
}

/* Trained elements a rank holds of the stage when it holds a share. */
int64_t spp_memory_trained(const struct spp_memory_stage *s, bool sharded);

/* Offloaded optimizers take the gradients along, but for those that reduce and keep them on the GPU. */
static inline bool spp_memory_gradients_away(const struct spp_memory_view *v) {
  const struct spp_framework *f = v->job->framework;
  bool stay = f->sharding == SPP_SHARDING_MEGATRON || f->offload_keeps_grads;
  return spp_offload_optimizer(v->layout->offload) && !stay;
}

/* The matrix that makes the logits: a tied model has no head of its own. */
static inline const struct spp_state_counts *spp_memory_head(const struct spp_memory_view *v) {
  return v->job->arch->tied ? &v->embedding : &v->head;
}

/* Copies of a layer's tensors at the peak: one for each micro-batch in flight, in whole layers. */
static inline int64_t spp_memory_in_flight(const struct spp_stage *stage, int64_t layers) {
  int64_t pieces = spp_sat_mul(layers, stage->in_flight_num);
  return stage->in_flight_den == 1 ? pieces : spp_ceil_div(pieces, stage->in_flight_den);
}

#endif
