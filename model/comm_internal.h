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
