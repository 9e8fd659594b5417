/* Sequence parallelism: what one attention layer exchanges under each kind. T tokens a rank, widths per TP
 * rank. */
#include "model/comm_internal.h"

enum { FP32_BYTES = 4, INT64_BYTES = 8 };

/* Ulysses: four all-to-alls forward (q, k, v, attention output) and their four transposes backward, 16-bit,
 * su-1 messages each, and each once for every chunk of the sequence (FPDT). K and V carry kv_repeat copies
 * when su exceeds the KV heads. Sources: deepspeedai/DeepSpeed deepspeed/sequence/layer.py,
 * runtime/sequence_parallel/ulysses_sp.py; modelscope/ms-swift swift/sequence_parallel/ulysses.py;
 * NVIDIA/TransformerEngine context_parallel.py AttnFuncWithCPAndQKVOA2A. */
void spp_comm_emit_ulysses(const struct spp_comm_context *c) {
  const struct spp_geometry *g = c->g;
  if (g->su == 1) return;
  const struct {
    const char *what;
    int64_t width;
  } tensors[] = {{"q", g->q_width},
                 {"k", g->k_width * g->kv_repeat},
                 {"v", g->v_width * g->kv_repeat},
                 {"attention output", g->o_width}};
  struct spp_comm_op op = {.op = SPP_ALL_TO_ALL,
                           .group = SPP_GROUP_ULYSSES,
                           .ranks = g->su,
                           .stride = g->tp,
                           .per = SPP_PER_LAYER,
                           .messages = g->su - 1,
                           .overlap =
                               c->job->framework->ulysses_overlap ? SPP_OVERLAP_GEMM : SPP_OVERLAP_NONE};
  struct spp_pass_counts counts = spp_comm_layer_counts(c, c->layers, c->full_layers, SPP_RC_CORE_ATTN);
  int64_t layer_bytes = 0;
  counts.forward *= g->pieces;
  counts.recompute *= g->pieces;
  counts.backward *= g->pieces;
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    op.what = tensors[i].what;
    op.message_bytes = spp_sat_mul(g->piece_tokens, tensors[i].width * c->element_bytes) / g->su;
    op.sent_bytes = spp_sat_mul(op.message_bytes, g->su - 1);
    layer_bytes = spp_sat_add(layer_bytes, spp_sat_mul(op.sent_bytes, g->pieces));
    spp_comm_emit_passes(c, op, counts);
  }
  c->comm->layer_forward_bytes[SPP_GROUP_ULYSSES] = layer_bytes;
  c->comm->layer_backward_bytes[SPP_GROUP_ULYSSES] = layer_bytes;
  if (!c->job->framework->position_ids_gather) return;
  /* int64 ids of the whole sequence, forward passes only; a latency more than a volume. */
  op.op = SPP_ALL_GATHER;
  op.what = "position ids";
  op.message_bytes = spp_sat_mul(g->tokens, INT64_BYTES);
  op.sent_bytes = spp_sat_mul(op.message_bytes, g->su - 1);
  op.messages = 1;
  op.overlap = SPP_OVERLAP_NONE;
  counts.forward /= g->pieces;
  counts.recompute /= g->pieces;
  counts.backward = 0;
  spp_comm_emit_passes(c, op, counts);
}

static struct spp_comm_op ring_op(const struct spp_comm_context *c, enum spp_collective kind,
                                  const char *what) {
  return (struct spp_comm_op){.op = kind,
                              .what = what,
                              .group = SPP_GROUP_RING,
                              .ranks = c->g->sr,
                              .stride = c->g->tp * c->g->su,
                              .per = SPP_PER_LAYER,
                              .overlap =
                                  c->job->framework->ring_waits ? SPP_OVERLAP_NONE : SPP_OVERLAP_ATTENTION};
}

static void emit_hops(const struct spp_comm_context *c, const char *what, enum spp_pass pass, int64_t count,
                      int64_t hops, int64_t hop_bytes, int64_t messages_per_hop) {
  struct spp_comm_op op = ring_op(c, SPP_SEND_RECV, what);
  op.pass = pass;
  op.count_per_step = count;
  op.sent_bytes = spp_sat_mul(hops, hop_bytes);
  op.messages = hops * messages_per_hop;
  op.message_bytes = hop_bytes / messages_per_hop;
  spp_comm_emit(c, op);
  if (pass == SPP_PASS_BACKWARD && count > 0)
    c->comm->layer_backward_bytes[SPP_GROUP_RING] =
        spp_sat_add(c->comm->layer_backward_bytes[SPP_GROUP_RING], op.sent_bytes);
}

/* Ring: each KV block visits every rank. Forward sr-1 hops of one block in every implementation. Backward:
 *   zhuzilin  KV again, and fp32 dK, dV travelling sr hops back to their owner (zhuzilin/ring-flash-attention
 * zigzag_ring_flash_attn.py) swift     same, after repeating the whole forward ring (modelscope/ms-swift
 * zigzag_ring_attn.py) te        KV and 16-bit dKV in one message, sr-1 hops each, sr messages
 * (NVIDIA/TransformerEngine AttnFuncWithCPAndKVP2P) Causal skipping changes compute, never bytes. */
void spp_comm_emit_ring(const struct spp_comm_context *c) {
  const struct spp_geometry *g = c->g;
  if (g->sr == 1) return;
  bool te = c->job->ring_impl == SPP_RING_TE;
  int64_t block = g->ring_block_bytes, hops = g->sr - 1, per_hop = te ? 1 : 2;
  struct spp_pass_counts counts = spp_comm_layer_counts(c, c->layers, c->full_layers, SPP_RC_CORE_ATTN);
  emit_hops(c, "kv block", SPP_PASS_FORWARD, counts.forward, hops, block, per_hop);
  emit_hops(c, "kv block", SPP_PASS_RECOMPUTE, counts.recompute, hops, block, per_hop);
  c->comm->layer_forward_bytes[SPP_GROUP_RING] = spp_sat_mul(hops, block);
  if (te) {
    /* First message KV only, last dKV only, those between both. */
    struct spp_comm_op op = ring_op(c, SPP_SEND_RECV, "kv and dkv blocks");
    op.pass = SPP_PASS_BACKWARD;
    op.count_per_step = counts.backward;
    op.sent_bytes = spp_sat_mul(2 * hops, block);
    op.messages = g->sr;
    op.message_bytes = g->sr > 2 ? 2 * block : block;
    spp_comm_emit(c, op);
    c->comm->layer_backward_bytes[SPP_GROUP_RING] = counts.backward ? op.sent_bytes : 0;
    return;
  }
  int64_t gradient_block = block / c->element_bytes * FP32_BYTES;
  if (c->job->ring_impl == SPP_RING_SWIFT)
    emit_hops(c, "kv block (forward repeated)", SPP_PASS_BACKWARD, counts.backward, hops, block, per_hop);
  emit_hops(c, "kv block", SPP_PASS_BACKWARD, counts.backward, hops, block, per_hop);
  emit_hops(c, "dkv block", SPP_PASS_BACKWARD, counts.backward, g->sr, gradient_block, per_hop);
}

/* All-gather of K and V; backward gathers again and reduce-scatters 16-bit dK and dV.
 * Sources: NVIDIA/TransformerEngine context_parallel.py AttnFuncWithCPAndKVAllGather; head group by head
 * group, ring_flash_attn 0.1.8 llama3_flash_attn_varlen.py. */
void spp_comm_emit_allgather(const struct spp_comm_context *c) {
  const struct spp_geometry *g = c->g;
  if (g->sr == 1) return;
  struct spp_pass_counts counts = spp_comm_layer_counts(c, c->layers, c->full_layers, SPP_RC_CORE_ATTN);
  const struct {
    const char *gathered, *reduced;
    int64_t width;
  } sides[] = {{"k", "dk", g->k_width}, {"v", "dv", g->v_width}};
  int64_t groups = g->head_groups; /* of heads, one after the other */
  counts.forward *= groups;
  counts.recompute *= groups;
  counts.backward *= groups;
  for (size_t i = 0; i < 2; i++) {
    struct spp_comm_op op = ring_op(c, SPP_ALL_GATHER, sides[i].gathered);
    op.overlap = c->job->framework->allgather_overlap ? SPP_OVERLAP_ATTENTION : SPP_OVERLAP_NONE;
    op.message_bytes = spp_sat_mul(g->tokens, sides[i].width * g->kv_repeat * c->element_bytes) / groups;
    op.sent_bytes = spp_sat_mul(op.message_bytes, g->sr - 1);
    op.messages = 1;
    spp_comm_emit_passes(c, op, counts);
    c->comm->layer_forward_bytes[SPP_GROUP_RING] =
        spp_sat_add(c->comm->layer_forward_bytes[SPP_GROUP_RING], spp_sat_mul(op.sent_bytes, groups));
    op.op = SPP_REDUCE_SCATTER;
    op.what = sides[i].reduced;
    op.overlap = SPP_OVERLAP_NONE; /* needs the finished gradient; the llama3 variant waits for each head
                                      group's too */
    op.pass = SPP_PASS_BACKWARD;
    op.count_per_step = counts.backward;
    spp_comm_emit(c, op);
  }
  c->comm->layer_backward_bytes[SPP_GROUP_RING] =
      counts.backward ? spp_sat_mul(2, c->comm->layer_forward_bytes[SPP_GROUP_RING]) : 0;
}
