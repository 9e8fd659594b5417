#include "model/comm.h"

#include <string.h>

#include "model/comm_internal.h"

static const char *const collective_names[] = {"all_to_all", "send_recv", "all_gather", "reduce_scatter",
                                               "all_reduce"};
static const char *const group_names[] = {"ulysses", "ring", "tp", "pp", "dp", "ep"};
static const char *const pass_names[] = {"forward", "recompute", "backward", "step"};
static const char *const per_names[] = {"layer", "micro_batch", "step"};
static const char *const overlap_names[] = {"none", "attention", "gemm", "backward", "forward"};

const char *spp_collective_name(enum spp_collective op) {
  return collective_names[op];
}
const char *spp_group_name(enum spp_group group) {
  return group_names[group];
}
const char *spp_pass_name(enum spp_pass pass) {
  return pass_names[pass];
}
const char *spp_per_name(enum spp_per per) {
  return per_names[per];
}
const char *spp_overlap_name(enum spp_overlap overlap) {
  return overlap_names[overlap];
}

void spp_comm_emit(const struct spp_comm_context *c, struct spp_comm_op op) {
  struct spp_comm *comm = c->comm;
  if (op.count_per_step <= 0 || op.sent_bytes <= 0 || comm->count == SPP_COMM_MAX) return;
  comm->ops[comm->count++] = op;
  comm->sent_bytes_per_step =
      spp_sat_add(comm->sent_bytes_per_step, spp_sat_mul(op.sent_bytes, op.count_per_step));
}

void spp_comm_emit_passes(const struct spp_comm_context *c, struct spp_comm_op op,
                          struct spp_pass_counts counts) {
  const int64_t by_pass[] = {counts.forward, counts.recompute, counts.backward};
  for (int pass = SPP_PASS_FORWARD; pass <= SPP_PASS_BACKWARD; pass++) {
    op.pass = (enum spp_pass)pass;
    op.count_per_step = by_pass[pass];
    spp_comm_emit(c, op);
  }
}

/* Full recompute repeats a layer's forward collectives inside backward; selective recompute repeats those
 * that sit inside a checkpointed module (derived: the module's region contains the exchange). */
struct spp_pass_counts spp_comm_layer_counts(const struct spp_comm_context *c, int64_t layers,
                                             int64_t full_layers, unsigned repeating_modules) {
  struct spp_pass_counts counts = {spp_sat_mul(layers * c->forwards, c->g->m), 0, 0};
  if (!c->trains) return counts;
  counts.backward = spp_sat_mul(layers, c->g->m);
  bool repeats = c->layout->recompute == SPP_RECOMPUTE_SELECTIVE &&
                 !c->job->framework->selective_is_op_level &&
                 (c->layout->recompute_modules & repeating_modules);
  counts.recompute = spp_sat_mul(repeats ? layers : full_layers, c->g->m);
  return counts;
}

/* Layers of the stage that are recomputed whole. */
static void count_full_layers(struct spp_comm_context *c) {
  if (c->layout->recompute != SPP_RECOMPUTE_FULL) return;
  struct spp_stage_again again = spp_stage_recomputed(c->job, c->layout, c->stage);
  c->full_layers = again.layers;
  c->full_moe_layers = again.experts;
}

static struct spp_comm_context context_of(const struct spp_job *job, const struct spp_layout *layout,
                                          const struct spp_geometry *geometry, const struct spp_stage *stage,
                                          struct spp_comm *comm) {
  struct spp_comm_context c = {
      .job = job,
      .layout = layout,
      .g = geometry,
      .stage = stage,
      .comm = comm,
      .element_bytes = job->dtype == SPP_DTYPE_FP32 ? 4 : 2,
      .forwards = spp_job_forwards(job),
      .layers = stage->layers,
      .trains = job->mode != SPP_MODE_INFER,
  };
  for (int k = 0; k < job->arch->kind_count; k++)
    c.moe_layers += job->arch->kinds[k].moe ? stage->kind_layers[k] : 0;
  count_full_layers(&c);
  comm->count = 0;
  comm->sent_bytes_per_step = 0;
  memset(comm->layer_forward_bytes, 0, sizeof comm->layer_forward_bytes);
  memset(comm->layer_backward_bytes, 0, sizeof comm->layer_backward_bytes);
  return c;
}

static void emit_sequence(const struct spp_comm_context *c) {
  spp_comm_emit_ulysses(c);
  if (c->layout->sp_kind == SPP_SP_ALLGATHER)
    spp_comm_emit_allgather(c);
  else
    spp_comm_emit_ring(c);
}

void spp_comm_predict_stage(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *geometry, const struct spp_stage *stage,
                            struct spp_comm *comm) {
  struct spp_comm_context c = context_of(job, layout, geometry, stage, comm);
  emit_sequence(&c);
  spp_comm_emit_tensor_parallel(&c);
  spp_comm_emit_norm_gradients(&c);
  spp_comm_emit_pipeline(&c);
  spp_comm_emit_experts(&c);
  if (c.trains) spp_comm_emit_states(&c);
}

void spp_comm_predict_layers(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *geometry, const struct spp_stage *stage,
                             struct spp_comm *comm) {
  struct spp_comm_context c = context_of(job, layout, geometry, stage, comm);
  emit_sequence(&c);
  spp_comm_emit_tensor_parallel(&c);
  if (spp_comm_norms_by_unit(&c)) spp_comm_emit_norm_gradients(&c);
  spp_comm_emit_pipeline(&c);
  spp_comm_emit_experts(&c);
}

void spp_comm_predict_states(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *geometry, const struct spp_stage *stage,
                             struct spp_comm *comm) {
  struct spp_comm_context c = context_of(job, layout, geometry, stage, comm);
  if (!spp_comm_norms_by_unit(&c)) spp_comm_emit_norm_gradients(&c);
  if (c.trains) spp_comm_emit_states(&c);
}

void spp_comm_predict(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *geometry, struct spp_comm *comm) {
  struct spp_stage busiest;
  spp_stage_busiest(job, layout, geometry, &busiest);
  spp_comm_predict_stage(job, layout, geometry, &busiest, comm);
}
