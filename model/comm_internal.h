/* Shared by the files that emit communication; not for callers of the model. */
#ifndef SPP_MODEL_COMM_INTERNAL_H
#define SPP_MODEL_COMM_INTERNAL_H

#include "base/num.h"
#include "model/comm.h"

/* Everything an emitter reads, so that each takes one argument. */
struct spp_comm_context {
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_geometry *g;
  const struct spp_stage *stage;
  struct spp_comm *comm;
  int64_t element_bytes; /* of an activation on the wire */
  int64_t forwards;      /* forward passes a micro-batch makes: a DPO/GRPO reference model adds one */
  int64_t layers, moe_layers;
  int64_t full_layers, full_moe_layers; /* of these, recomputed whole */
  bool trains;
};

/* Bytes that all ranks of the stage send in one event of a collective over `ranks` of them each: a gather or
 * a scatter moves every byte ranks - 1 times however uneven the shards are, an all-reduce does both. */
static inline int64_t spp_comm_stage_bytes(const struct spp_comm_context *c, enum spp_collective kind,
                                           int64_t whole_bytes, int64_t ranks) {
  int64_t groups = spp_sat_mul(c->g->tp, c->g->dense_group) / spp_max64(1, ranks);
  int64_t bytes = spp_sat_mul(groups, spp_sat_mul(whole_bytes, ranks - 1));
  return kind == SPP_ALL_REDUCE ? spp_sat_mul(2, bytes) : bytes;
}

/* How often one layer's op runs in a step, by pass. */
struct spp_pass_counts {
  int64_t forward, recompute, backward;
};
struct spp_pass_counts spp_comm_layer_counts(const struct spp_comm_context *c, int64_t layers,
                                             int64_t full_layers, unsigned repeating_modules);

/* Appends an op; `sent_bytes` of one event over `messages` messages. Ops that never run or send nothing are
 * left out. */
void spp_comm_emit(const struct spp_comm_context *c, struct spp_comm_op op);
/* The op once per pass, with that pass's count. */
void spp_comm_emit_passes(const struct spp_comm_context *c, struct spp_comm_op op,
                          struct spp_pass_counts counts);

void spp_comm_emit_ulysses(const struct spp_comm_context *c);
void spp_comm_emit_ring(const struct spp_comm_context *c);
void spp_comm_emit_allgather(const struct spp_comm_context *c);
void spp_comm_emit_tensor_parallel(const struct spp_comm_context *c);
/* Are the gradients of norms summed inside layers, in every backward? Else once a step. */
bool spp_comm_norms_by_unit(const struct spp_comm_context *c);
void spp_comm_emit_norm_gradients(const struct spp_comm_context *c);
void spp_comm_emit_pipeline(const struct spp_comm_context *c);
void spp_comm_emit_experts(const struct spp_comm_context *c);
void spp_comm_emit_states(const struct spp_comm_context *c);

#endif
