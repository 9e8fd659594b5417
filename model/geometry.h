/* The numbers every part needs, worked out once from a job and a layout: tokens per rank, groups, shards,
 * stages. */
#ifndef SPP_MODEL_GEOMETRY_H
#define SPP_MODEL_GEOMETRY_H

#include "model/layout.h"

struct spp_geometry {
  int64_t tp, pp, vpp, dp, ep, etp, su, sr, sp, m; /* m: micro-batches per step per replica */
  int64_t sequences;        /* b: sequences per micro-batch on one replica (DPO: chosen and rejected both) */
  int64_t element_bytes;    /* e: bytes of an activation element: 4 for fp32, else 2 */
  int64_t pad_tokens;       /* the unit sequences (or packed documents) are padded to */
  int64_t padded_tokens;    /* S: tokens of one sequence after the framework's padding */
  int64_t tokens;           /* T = b*S/sp: tokens a rank holds outside attention */
  int64_t attention_tokens; /* Tr = T*su */
  int64_t stream_tokens;    /* tokens of the residual stream on a rank: T/tp with Megatron SP, else T */
  int64_t real_tokens;      /* tokens per step over all replicas, padding excluded */
  double attention_pairs;   /* sum over documents of length^2 in one micro-batch (all b sequences, before any
                               split) */
  int64_t kv_repeat;        /* rep = max(1, su / kv heads per TP rank), or query heads over them */
  int64_t shard_group;      /* d: ranks over which dense states are sharded */
  int64_t expert_shard_group;
  int64_t dense_group; /* ranks that hold the same dense parameters and reduce their gradients: dp*sp */
  int64_t expert_group;
  int64_t vocab_local;                 /* vocabulary rows of one TP rank after padding */
  int64_t heads_local, kv_heads_local; /* per TP rank; kv at least 1 */
  int64_t
      head_groups; /* groups of heads that a rank gathers K and V for one after the other, 1 = all at once */
  int64_t q_width, k_width, v_width, o_width; /* elements per token of one TP rank */
  int64_t ring_block_bytes;                   /* KVB: K and V block one hop carries: e T (k+v) rep */
  int64_t chunk_tokens;                       /* zigzag chunk c = b*S/(2*sr) over all sequences */
  int64_t pieces;                             /* FPDT: chunks that a sequence passes a layer in, 1 = whole */
  int64_t piece_tokens;                       /* of T, those of one chunk */
  enum spp_loss_path loss_path;
  int64_t nodes;
};
/* The unit above alone. */
int64_t spp_layout_pad_tokens(const struct spp_job *job, const struct spp_layout *layout);
void spp_geometry_resolve(const struct spp_job *job, const struct spp_layout *layout,
                          struct spp_geometry *geometry);

/* What one pipeline stage (rank along pp) holds. */
struct spp_stage {
  int64_t index;
  int64_t first_layer; /* of the stage's first chunk */
  bool first, last;
  int64_t layers;
  int64_t kind_layers[SPP_MAX_LAYER_KINDS];
  int64_t in_flight_num, in_flight_den; /* micro-batches of this stage's layers alive at the peak */
};

/* Layers of each pipeline stage where the layout says how many the first or the last has; an end it is silent
 * about is like the middle. exact: the others share what is left equally. Source: NVIDIA/Megatron-LM
 * megatron/core/transformer/transformer_block.py (num_layers_in_first_pipeline_stage). */
struct spp_stage_counts {
  int64_t first, middle, last;
  bool exact;
};
struct spp_stage_counts spp_stage_count(const struct spp_layout *layout, int64_t layers);
/* Ends for a pipeline that `layers` do not fill evenly: a layer less on both where that makes it even
 * (embedding and loss stand for one), else, without virtual stages, what full middle stages leave. False when
 * there is no such split with ends about as long as the middle. */
bool spp_stage_suggest(int64_t layers, int64_t pp, int64_t vpp, int64_t *first, int64_t *last);
/* No stage has more layers; virtual stages round up once each. */
int64_t spp_stage_most_layers(const struct spp_job *job, const struct spp_layout *layout);
void spp_stage_resolve(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *geometry, int64_t index, struct spp_stage *stage);
/* Layers of one of a stage's vpp chunks; *first: where they begin in the model. */
int64_t spp_stage_chunk(const struct spp_job *job, const struct spp_layout *layout, int64_t stage,
                        int64_t chunk, int64_t *first);
/* Layers of a stage that full recompute runs again: the first ones of every chunk. */
struct spp_stage_again {
  int64_t layers, experts; /* experts: of them, layers of experts */
};
struct spp_stage_again spp_stage_recomputed(const struct spp_job *job, const struct spp_layout *layout,
                                            const struct spp_stage *stage);
/* Of one chunk, if it has as many. */
static inline int64_t spp_stage_chunk_recomputed(const struct spp_layout *layout) {
  if (layout->recompute != SPP_RECOMPUTE_FULL) return 0;
  return layout->recompute_layers == SPP_UNSET ? INT64_MAX : layout->recompute_layers / layout->vpp;
}
/* The stage whose communication stands for all: most MoE layers, then most layers (the last where they are
 * equal: it has the head). */
void spp_stage_busiest(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *geometry, struct spp_stage *stage);
/* Only what depends on the number of micro-batches: in_flight_num, in_flight_den. */
void spp_stage_in_flight(const struct spp_job *job, const struct spp_layout *layout,
                         const struct spp_geometry *geometry, struct spp_stage *stage);

#endif
