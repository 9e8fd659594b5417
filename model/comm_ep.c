/* Expert parallelism: tokens travel to their experts and back, balanced routing assumed.
 * Source: NVIDIA/Megatron-LM megatron/core/transformer/moe/token_dispatcher.py (all-to-all dispatcher). */
#include "model/activations.h"
#include "model/comm_internal.h"

enum { PROBABILITY_BYTES = 4 }; /* fp32 */

static void emit_exchange(const struct spp_comm_context *c, const char *what, int64_t whole_bytes,
                          struct spp_pass_counts n, int64_t *layer_bytes) {
  int64_t ep = c->g->ep;
  struct spp_comm_op op = {
      .op = SPP_ALL_TO_ALL,
      .what = what,
      .group = SPP_GROUP_EP,
      .ranks = ep,
      .stride = c->g->etp,
      .per = SPP_PER_LAYER,
      .message_bytes = whole_bytes / ep,
      .sent_bytes = spp_sat_mul(whole_bytes / ep, ep - 1),
      .messages = ep - 1,
      .overlap = c->job->framework->overlap_ep || c->job->overlap == 1 ? SPP_OVERLAP_GEMM : SPP_OVERLAP_NONE};
  spp_comm_emit_passes(c, op, n);
  *layer_bytes = spp_sat_add(*layer_bytes, op.sent_bytes);
}

/* Experts cut by ETP see the tokens of the whole ETP group: gather in, reduce-scatter out, mirrored in
 * backward. */
static void emit_expert_tensor_parallel(const struct spp_comm_context *c, int64_t whole_bytes,
                                        struct spp_pass_counts n, int64_t *layer_bytes) {
  int64_t etp = c->g->etp;
  if (etp == 1) return;
  struct spp_comm_op op = {.op = SPP_ALL_GATHER,
                           .what = "expert input",
                           .group = SPP_GROUP_EP,
                           .ranks = etp,
                           .stride = 1,
                           .per = SPP_PER_LAYER,
                           .message_bytes = whole_bytes,
                           .sent_bytes = spp_sat_mul(whole_bytes, etp - 1),
                           .messages = 1,
                           .overlap = SPP_OVERLAP_NONE};
  spp_comm_emit_passes(c, op, n);
  op.op = SPP_REDUCE_SCATTER;
  op.what = "expert output";
  spp_comm_emit_passes(c, op, n);
  *layer_bytes = spp_sat_add(*layer_bytes, spp_sat_mul(2, op.sent_bytes));
}

void spp_comm_emit_experts(const struct spp_comm_context *c) {
  const struct spp_arch *arch = c->job->arch;
  if (arch->experts == 0 || c->moe_layers == 0 || (c->g->ep == 1 && c->g->etp == 1)) return;
  struct spp_pass_counts n = spp_comm_layer_counts(c, c->moe_layers, c->full_moe_layers, SPP_RC_MOE);
  int64_t routed = spp_routed_rows(c->job, c->g);
  int64_t payload = spp_sat_mul(routed, arch->hidden * c->element_bytes);
  int64_t layer_bytes = 0;
  if (c->g->ep > 1) {
    emit_exchange(c, "dispatched tokens", payload, n, &layer_bytes);
    emit_exchange(c, "routing probabilities", spp_sat_mul(routed, PROBABILITY_BYTES), n, &layer_bytes);
    emit_exchange(c, "combined tokens", payload, n, &layer_bytes);
  }
  emit_expert_tensor_parallel(c, payload, n, &layer_bytes);
  c->comm->layer_forward_bytes[SPP_GROUP_EP] = layer_bytes;
  c->comm->layer_backward_bytes[SPP_GROUP_EP] = c->trains ? layer_bytes : 0;
}
