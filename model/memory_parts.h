/* Shared by the files that fill the memory of one pipeline stage; not for callers of the model. */
#ifndef SPP_MODEL_MEMORY_PARTS_H
#define SPP_MODEL_MEMORY_PARTS_H

#include "base/num.h"
#include "model/activations.h"
#include "model/memory.h"
#include "model/states.h"

/* Layers that keep the same tensors; windows change what attention sees, not what is kept. */
enum spp_layer_class { SPP_LAYER_DENSE, SPP_LAYER_MOE, SPP_LAYER_CLASS_COUNT };

/* Everything the parts read, worked out once per prediction. */
struct spp_memory_view {
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_geometry *g;
  enum spp_dtype act;                                       /* element of an activation */
  const struct spp_layer_kind *kind[SPP_LAYER_CLASS_COUNT]; /* one that stands for the class, or NULL */
  bool trains;
  bool
      grads_persist; /* gradients outlive the step or grow over micro-batches: there when the loss is taken */
  struct spp_states regime;
  struct spp_kept_list kept[SPP_LAYER_CLASS_COUNT];  /* one layer, nothing recomputed */
  struct spp_kept_list saved[SPP_LAYER_CLASS_COUNT]; /* one layer under op-level recompute */
  struct spp_state_counts kinds[SPP_MAX_LAYER_KINDS], embedding, head, other, vision;
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

void spp_memory_add_states(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_sharding(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_fused_grads(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_layers(const struct spp_memory_stage *s, enum spp_layer_class active,
                           struct spp_memory_sum *sum);
void spp_memory_add_transients(const struct spp_memory_stage *s, enum spp_layer_class active,
                               struct spp_memory_sum *sum);
/* The same two for frameworks that work unit by unit and free at once (memory_units.c). */
void spp_memory_add_units(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_unit_transients(const struct spp_memory_stage *s, enum spp_layer_class active,
                                    struct spp_memory_sum *sum);
void spp_memory_add_outer(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_vision(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_inference(const struct spp_memory_stage *s, struct spp_memory_sum *sum);
void spp_memory_add_fixed(const struct spp_memory_view *v, struct spp_memory_sum *sum);

/* Bytes one layer keeps under the layout's recompute, and those of a stage for one micro-batch. */
int64_t spp_memory_layer_keeps(const struct spp_memory_view *v, enum spp_layer_class class);
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

/* Offloaded optimizers take the gradients along, but for Megatron's, which reduces them on the GPU. */
static inline bool spp_memory_gradients_away(const struct spp_memory_view *v) {
  return spp_offload_optimizer(v->layout->offload) && v->job->framework->sharding != SPP_SHARDING_MEGATRON;
}

/* The matrix that makes the logits: a tied model has no head of its own. */
static inline const struct spp_state_counts *spp_memory_head(const struct spp_memory_view *v) {
  return v->head.elements > 0 ? &v->head : &v->embedding;
}

/* Copies of a layer's tensors at the peak: one for each micro-batch in flight, in whole layers. */
static inline int64_t spp_memory_in_flight(const struct spp_stage *stage, int64_t layers) {
  return spp_ceil_div(spp_sat_mul(layers, stage->in_flight_num), stage->in_flight_den);
}

#endif
