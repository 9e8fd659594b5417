/* Inside the evaluator: what is kept, and by what. Not for callers. */
#ifndef SPP_MODEL_EVALUATOR_INTERNAL_H
#define SPP_MODEL_EVALUATOR_INTERNAL_H

#include "model/evaluator.h"
#include "model/memory_parts.h"
#include "model/timing_internal.h"

enum {
  SPP_KEPT_RUNS = 24,      /* runs of equal stages; a pipeline with more is predicted whole */
  SPP_KEPT_EXCHANGES = 16, /* of sharded states; with more, too */
  SPP_KEPT_HELD = 8        /* gradients persist, the peak is late, casts are made again: or not */
};

/* Parts are stamped with the number of the last change of what they depend on (a turn); 0 = never made. */

/* By pipeline: its stages, and what the sharding of the states makes of them. */
struct spp_kept_pipe {
  bool whole; /* too many runs: not kept */
  struct spp_stage_runs runs;
  struct spp_stage_run run[SPP_KEPT_RUNS];
  bool looked_at[SPP_KEPT_RUNS]; /* by the memory model */
  struct spp_stage counted;      /* the one whose communication is counted */
  unsigned grouped;              /* turn of the layers */
  struct spp_memory_groups groups;
  unsigned exchanged; /* turn of the sharding */
  int exchange_count;
  struct spp_kept_exchange {
    struct spp_comm_op op;
    double event_s;
    int64_t fixed_count, count_per_micro_batch;
  } exchange[SPP_KEPT_EXCHANGES];
  unsigned updated; /* turn of the offload */
  double optimizer_s;
  unsigned held[SPP_KEPT_HELD]; /* turns of the offload */
  struct spp_memory_totals held_totals[SPP_KEPT_HELD][SPP_KEPT_RUNS];
  struct spp_memory_ends gradient_ends; /* of held[not persistent]: of the only stage */
};

/* By pipeline, recompute, loss and micro-batch. */
struct spp_kept_slot {
  unsigned timed, passed, ended; /* turns of the layers */
  int64_t recompute_layers;      /* of the layout it was made for */
  int pass_tie, ends_tie;        /* spp_memory_tie() */
  bool late;
  struct spp_layers_time layers;
  double least_s;
  struct spp_memory_ends kept_ends;
};

struct spp_evaluator {
  struct spp_evaluator_shape shape;
  struct spp_kept_pipe *pipes;
  struct spp_kept_slot *slots;
  struct spp_memory_totals *totals; /* by slot, run that is looked at, class of the running layer */
  struct spp_geometry *geometries;  /* by micro-batch and loss */
  unsigned *geometry_turns;
  size_t pipe_room, slot_room, totals_room, geometry_room;
  int totals_per_slot;
  struct spp_layout last;
  bool fresh; /* no layout was asked about since spp_evaluator_begin() */
  unsigned layers_turn, sharding_turn, offload_turn;
  int64_t shard_group, expert_shard_group; /* of the sharding */
  struct spp_kernel_rates rates;
  bool rated;
  struct spp_kept_model {
    unsigned turn; /* of the layers */
    struct spp_model_time model;
  } * models; /* by recompute and micro-batch */
  struct spp_kept_loss {
    unsigned turn;
    struct spp_layer_time loss;
  } * loss; /* by micro-batch and loss */
  struct spp_kept_tensors {
    unsigned turn; /* of the layers */
    struct spp_memory_lists lists;
    int64_t layer_keeps[SPP_LAYER_CLASS_COUNT]; /* spp_memory_layer_keeps() */
    int64_t whole_keeps[SPP_LAYER_CLASS_COUNT]; /* of a layer that is not recomputed */
    bool transients_known[SPP_LAYER_CLASS_COUNT];
    struct spp_memory_totals transients[SPP_LAYER_CLASS_COUNT];
  } * tensors; /* by recompute and micro-batch */
  struct spp_kept_beside {
    unsigned turn; /* of the layers */
    int tie;       /* spp_memory_tie() */
    struct spp_memory_totals totals;
  } * beside; /* spp_memory_add_beside() by micro-batch, loss and whether the stage is the last */
  size_t model_room, loss_room, tensor_room, beside_room;
  struct spp_kept_comm { /* inside layers, of the layout asked about last: losses share it */
    unsigned turn;       /* of the layers */
    int pipe, recompute, micro;
    bool tp_loss; /* the loss exchanges over tensor parallel ranks */
    int64_t recompute_layers;
    struct spp_comm comm;
  } comm;
};

/* Count what changed since the layout before. */
void spp_evaluator_turn(struct spp_evaluator *e, const struct spp_job *job, const struct spp_layout *layout);
/* The layout's geometry, until the next is asked for; turns must be counted. */
const struct spp_geometry *spp_evaluator_geometry(struct spp_evaluator *e, const struct spp_job *job,
                                                  const struct spp_layout *layout,
                                                  const struct spp_evaluator_place *place);
int spp_evaluator_slot(const struct spp_evaluator *e, const struct spp_evaluator_place *place);
/* The slot; what is in it is forgotten when it was made for another number of recomputed layers. */
struct spp_kept_slot *spp_evaluator_keep(struct spp_evaluator *e, const struct spp_layout *layout,
                                         const struct spp_evaluator_place *place);

#endif
