/* Tensor parallelism, with and without Megatron sequence parallelism, and the pipeline's sends.
 * Sources: NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py, mappings.py, cross_entropy.py;
 * megatron/core/pipeline_parallel/schedules.py get_tensor_shapes. */
#include "model/comm_internal.h"
#include "model/loss.h"
#include "model/states.h"

/* TransformerEngine quantises what its products read before it is gathered, and gathers the codes: a norm's
 * output in forward and for the weight gradient, and the output's gradient (transformer-engine 2.9.0
 * pytorch/module/layernorm_linear.py forward, module/base.py grad_output_preprocess, distributed.py
 * _all_gather_fp8, _all_gather_fp8_blockwise, _all_gather_mxfp8, _all_gather_nvfp4). Sums stay in 16 bit. */
static int64_t gathered_bytes(const struct spp_comm_context *c) {
  int64_t elements = spp_sat_mul(c->g->tokens, c->job->arch->hidden);
  return spp_job_runs_te(c->job) && c->job->dtype == SPP_DTYPE_FP8 ? spp_job_narrow_bytes(c->job, elements)
                                                                   : spp_sat_mul(elements, c->element_bytes);
}

/* Do products and their exchanges run in pieces beside each other? TransformerEngine's user buffers hold no
 * NVFP4: megatron-bridge 0.6.2's recipes of that format turn tp_comm_overlap off (perf_recipes/llama). */
static bool splits_products(const struct spp_job *job) {
  if (job->overlap == 1) return true;
  return job->framework->overlap_tp && !(job->fp4 && spp_job_runs_te(job));
}

static struct spp_comm_op tp_op(const struct spp_comm_context *c, enum spp_collective kind, const char *what,
                                int64_t whole_bytes, enum spp_per per) {
  int64_t tp = c->g->tp;
  int64_t once = spp_sat_mul(whole_bytes / tp, tp - 1); /* gather or scatter; a reduce is both */
  return (struct spp_comm_op){.op = kind,
                              .what = what,
                              .group = SPP_GROUP_TP,
                              .ranks = tp,
                              .stride = 1,
                              .per = per,
                              .sent_bytes = kind == SPP_ALL_REDUCE ? spp_sat_mul(2, once) : once,
                              .stage_sent_bytes = spp_comm_stage_bytes(c, kind, whole_bytes, tp),
                              .messages = 1,
                              .message_bytes = whole_bytes,
                              .overlap = splits_products(c->job) ? SPP_OVERLAP_GEMM : SPP_OVERLAP_NONE};
}

static void emit_pass(const struct spp_comm_context *c, struct spp_comm_op op, enum spp_pass pass,
                      int64_t count, int64_t *layer_bytes) {
  op.pass = pass;
  op.count_per_step = count;
  spp_comm_emit(c, op);
  if (layer_bytes) *layer_bytes = spp_sat_add(*layer_bytes, op.sent_bytes);
}

/* Megatron-LM's LinearWithGradAccumulationAndAsyncCommunication (tensor_parallel/layers.py): the input's
 * gather runs beside the input-gradient product, the reduction of that gradient beside the weight-gradient
 * product. */
static enum spp_overlap backward_overlap(const struct spp_comm_context *c, enum spp_overlap otherwise) {
  bool wgrad = c->job->method == SPP_METHOD_FULL || c->job->method == SPP_METHOD_GALORE;
  bool does = c->job->framework->sharding == SPP_SHARDING_MEGATRON && c->job->overlap != 0;
  return wgrad && does ? SPP_OVERLAP_GEMM : otherwise;
}

/* One column-parallel + row-parallel pair (attention or MLP). Without sequence parallelism an all-reduce
 * after the row part and one of the input gradient; with it gathers and scatters, and the sharded input
 * gathered again for the weight gradient when those weights are trained. */
static void emit_pair(const struct spp_comm_context *c, const char *into, const char *out,
                      struct spp_pass_counts n, int64_t *forward_bytes, int64_t *backward_bytes) {
  int64_t whole = spp_sat_mul(c->g->tokens, c->job->arch->hidden * c->element_bytes);
  if (!c->layout->megatron_sp) {
    struct spp_comm_op reduce = tp_op(c, SPP_ALL_REDUCE, out, whole, SPP_PER_LAYER);
    emit_pass(c, reduce, SPP_PASS_FORWARD, n.forward, forward_bytes);
    emit_pass(c, reduce, SPP_PASS_RECOMPUTE, n.recompute, NULL);
    reduce.what = into;
    reduce.overlap = backward_overlap(c, reduce.overlap);
    emit_pass(c, reduce, SPP_PASS_BACKWARD, n.backward, backward_bytes);
    return;
  }
  struct spp_comm_op gather = tp_op(c, SPP_ALL_GATHER, into, gathered_bytes(c), SPP_PER_LAYER);
  struct spp_comm_op scatter = tp_op(c, SPP_REDUCE_SCATTER, out, whole, SPP_PER_LAYER);
  emit_pass(c, gather, SPP_PASS_FORWARD, n.forward, forward_bytes);
  emit_pass(c, scatter, SPP_PASS_FORWARD, n.forward, forward_bytes);
  emit_pass(c, gather, SPP_PASS_RECOMPUTE, n.recompute, NULL);
  emit_pass(c, scatter, SPP_PASS_RECOMPUTE, n.recompute, NULL);
  scatter.what = into;
  gather.what = out;
  emit_pass(c, gather, SPP_PASS_BACKWARD, n.backward, backward_bytes);
  scatter.overlap = backward_overlap(c, scatter.overlap);
  emit_pass(c, scatter, SPP_PASS_BACKWARD, n.backward, backward_bytes);
  if (c->job->method != SPP_METHOD_FULL && c->job->method != SPP_METHOD_GALORE) return;
  gather.what = into; /* again, for the weight gradient */
  gather.overlap = backward_overlap(c, gather.overlap);
  emit_pass(c, gather, SPP_PASS_BACKWARD, n.backward, backward_bytes);
}

/* What a tensor-parallel rank makes of its stream before the column-parallel products of latent attention:
 * those are gathered with sequence parallelism, their gradients scattered or summed, not the stream
 * (NVIDIA/Megatron-LM megatron/core/transformer/multi_latent_attention.py 0.14.0
 * get_query_key_value_tensors). The weights of the key's shared part are not trained from it, so that it is
 * not gathered again. */
static void emit_latents(const struct spp_comm_context *c, struct spp_pass_counts n, int64_t *forward_bytes,
                         int64_t *backward_bytes) {
  const struct spp_arch *a = c->job->arch;
  bool plain_q = a->q_lora_rank == 0,
       wgrad = c->job->method == SPP_METHOD_FULL || c->job->method == SPP_METHOD_GALORE;
  const struct {
    const char *what;
    int64_t width;
    bool again;
  } parts[] = {{plain_q ? "attention input" : "q latent", plain_q ? a->hidden : a->q_lora_rank, true},
               {"kv latent", a->kv_lora_rank, true},
               {"rope key", a->qk_rope_dim, false}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    int64_t whole = spp_sat_mul(c->g->tokens, parts[i].width * c->element_bytes);
    bool sp = c->layout->megatron_sp;
    struct spp_comm_op gather = tp_op(c, SPP_ALL_GATHER, parts[i].what, whole, SPP_PER_LAYER);
    struct spp_comm_op back =
        tp_op(c, sp ? SPP_REDUCE_SCATTER : SPP_ALL_REDUCE, parts[i].what, whole, SPP_PER_LAYER);
    if (sp) emit_pass(c, gather, SPP_PASS_FORWARD, n.forward, forward_bytes);
    if (sp) emit_pass(c, gather, SPP_PASS_RECOMPUTE, n.recompute, NULL);
    back.overlap = backward_overlap(c, back.overlap);
    emit_pass(c, back, SPP_PASS_BACKWARD, n.backward, backward_bytes);
    gather.overlap = backward_overlap(c, gather.overlap);
    if (sp && wgrad && parts[i].again) emit_pass(c, gather, SPP_PASS_BACKWARD, n.backward, backward_bytes);
  }
}

static void emit_latent_attention(const struct spp_comm_context *c, struct spp_pass_counts n,
                                  int64_t *forward_bytes, int64_t *backward_bytes) {
  const char *const out = "attention projection";
  int64_t whole = spp_sat_mul(c->g->tokens, c->job->arch->hidden * c->element_bytes);
  bool sp = c->layout->megatron_sp;
  struct spp_comm_op sum = tp_op(c, sp ? SPP_REDUCE_SCATTER : SPP_ALL_REDUCE, out, whole, SPP_PER_LAYER);
  emit_latents(c, n, forward_bytes, backward_bytes);
  emit_pass(c, sum, SPP_PASS_FORWARD, n.forward, forward_bytes);
  emit_pass(c, sum, SPP_PASS_RECOMPUTE, n.recompute, NULL);
  if (sp)
    emit_pass(c, tp_op(c, SPP_ALL_GATHER, out, gathered_bytes(c), SPP_PER_LAYER), SPP_PASS_BACKWARD,
              n.backward, backward_bytes);
}

/* Embedding output on the first stage; head input, its gradients and the vocab-parallel loss on the last. */
static void emit_ends(const struct spp_comm_context *c) {
  int64_t whole = spp_sat_mul(c->g->tokens, c->job->arch->hidden * c->element_bytes);
  int64_t forward = spp_sat_mul(c->forwards, c->g->m), backward = c->trains ? c->g->m : 0;
  bool sp = c->layout->megatron_sp;
  if (c->stage->first) {
    struct spp_comm_op out =
        tp_op(c, sp ? SPP_REDUCE_SCATTER : SPP_ALL_REDUCE, "embedding output", whole, SPP_PER_MICRO_BATCH);
    emit_pass(c, out, SPP_PASS_FORWARD, forward, NULL);
    if (sp) { /* its gradient is gathered for the vocabulary shards */
      struct spp_comm_op back = tp_op(c, SPP_ALL_GATHER, "embedding output", whole, SPP_PER_MICRO_BATCH);
      emit_pass(c, back, SPP_PASS_BACKWARD, backward, NULL);
    }
  }
  if (!c->stage->last) return;
  struct spp_comm_op gather = tp_op(c, SPP_ALL_GATHER, "head input", whole, SPP_PER_MICRO_BATCH);
  struct spp_comm_op back =
      tp_op(c, sp ? SPP_REDUCE_SCATTER : SPP_ALL_REDUCE, "head input", whole, SPP_PER_MICRO_BATCH);
  if (sp) {
    emit_pass(c, gather, SPP_PASS_FORWARD, forward, NULL);
    emit_pass(c, gather, SPP_PASS_BACKWARD, backward, NULL);
  }
  emit_pass(c, back, SPP_PASS_BACKWARD, backward, NULL);
  if (!spp_loss_exchanges(c->g->loss_path)) return;
  struct spp_comm_op loss = tp_op(c, SPP_ALL_REDUCE, "loss statistics",
                                  spp_sat_mul(c->g->tokens, (int64_t)sizeof(float)), SPP_PER_MICRO_BATCH);
  emit_pass(c, loss, SPP_PASS_FORWARD, spp_sat_mul(3, forward),
            NULL); /* maximum, target logit, sum of exponentials */
}

/* Elements whose gradient each rank has a part of: norms and router see a shard of the tokens under sequence
 * parallelism, norms of q and k the heads of one rank always (NVIDIA/Megatron-LM
 * distributed/finalize_model_grads.py). */
static int64_t partial_elements(const struct spp_comm_context *c, const struct spp_weight_sums *s) {
  return s->head_norm + (c->layout->megatron_sp ? s->norm : 0);
}

/* What makes latents sees a shard of the tokens too; its matrices are summed one by one, where they lie. */
static void emit_latent_sum(const struct spp_comm_context *c, int64_t elements, int64_t weights,
                            enum spp_per per, enum spp_pass pass, int64_t count) {
  int grad = c->job->grads_bytes == SPP_UNSET ? spp_states_in_dtype(c->job, c->layout->zero).grad_bytes
                                              : c->job->grads_bytes;
  struct spp_comm_op op = tp_op(c, SPP_ALL_REDUCE, "latent gradients", spp_sat_mul(elements, grad), per);
  op.overlap = SPP_OVERLAP_NONE;
  op.messages = weights;
  op.message_bytes = op.message_bytes / spp_max64(1, weights);
  emit_pass(c, op, pass, count, NULL);
}

static void emit_norm_sum(const struct spp_comm_context *c, int64_t elements, enum spp_per per,
                          enum spp_pass pass, int64_t count) {
  int grad = c->job->grads_bytes == SPP_UNSET ? spp_states_in_dtype(c->job, c->layout->zero).grad_bytes
                                              : c->job->grads_bytes;
  struct spp_comm_op op = tp_op(c, SPP_ALL_REDUCE, "norm gradients", spp_sat_mul(elements, grad), per);
  op.overlap = SPP_OVERLAP_NONE;
  emit_pass(c, op, pass, count, NULL);
}

bool spp_comm_norms_by_unit(const struct spp_comm_context *c) {
  return c->job->framework->sharding == SPP_SHARDING_UNITS &&
         c->job->framework->states[c->layout->zero].shard_grads;
}

/* Summed over tp once a step; before a unit's gradients are scattered where that happens in every backward.
 */
void spp_comm_emit_norm_gradients(const struct spp_comm_context *c) {
  const struct spp_model_sums *sums = &c->job->sums;
  int64_t outer = c->stage->last ? partial_elements(c, &sums->other) : 0, elements = outer;
  int64_t latent = 0, latent_weights = 0;
  bool by_unit = spp_comm_norms_by_unit(c);
  if (c->g->tp == 1 || !c->trains || spp_job_has_adapters(c->job)) return;
  for (int k = 0; k < c->job->arch->kind_count; k++) {
    int64_t layers = c->stage->kind_layers[k], each = partial_elements(c, &sums->kinds[k]);
    elements += layers * each;
    if (by_unit) emit_norm_sum(c, each, SPP_PER_LAYER, SPP_PASS_BACKWARD, layers * c->g->m);
    if (!c->layout->megatron_sp || sums->kinds[k].latent == 0) continue;
    latent += layers * sums->kinds[k].latent;
    latent_weights += layers * sums->kinds[k].latent_weights;
    if (by_unit)
      emit_latent_sum(c, sums->kinds[k].latent, sums->kinds[k].latent_weights, SPP_PER_LAYER,
                      SPP_PASS_BACKWARD, layers * c->g->m);
  }
  if (!by_unit && latent > 0) emit_latent_sum(c, latent, latent_weights, SPP_PER_STEP, SPP_PASS_STEP, 1);
  if (by_unit)
    emit_norm_sum(c, outer, SPP_PER_MICRO_BATCH, SPP_PASS_BACKWARD, c->g->m);
  else
    emit_norm_sum(c, elements, SPP_PER_STEP, SPP_PASS_STEP, 1);
}

/* A norm over all of q or k has one sum a token, over the ranks of its heads, and one in backward
 * (exec/wide_norm.c; other frameworks are not known to train such a norm cut). */
static void emit_wide_norms(const struct spp_comm_context *c, struct spp_pass_counts n) {
  const struct spp_arch *a = c->job->arch;
  if (a->qk_norm != SPP_QK_NORM_FULL || a->norm != SPP_NORM_RMS ||
      c->job->framework->sharding != SPP_SHARDING_UNITS)
    return;
  static const char *const what[] = {"q norm statistics", "k norm statistics"};
  for (int i = 0; i < 2; i++) {
    struct spp_comm_op op =
        tp_op(c, SPP_ALL_REDUCE, what[i], spp_sat_mul(c->g->tokens, (int64_t)sizeof(float)), SPP_PER_LAYER);
    op.overlap = SPP_OVERLAP_NONE;
    spp_comm_emit_passes(c, op, n);
  }
}

/* The shared expert is cut like a dense MLP and works on all tokens (megatron-core 0.16.1
 * transformer/moe/shared_experts.py SharedExpertMLP). Without sequence parallelism the layer's one reduction
 * has its sum. */
static void emit_shared_expert(const struct spp_comm_context *c, int64_t *forward_bytes,
                               int64_t *backward_bytes) {
  if (c->job->arch->shared_experts == 0 || c->moe_layers == 0 || !c->layout->megatron_sp) return;
  struct spp_pass_counts n =
      spp_comm_layer_counts(c, c->moe_layers, c->full_moe_layers, SPP_RC_MOE | SPP_RC_SHARED_EXPERTS);
  emit_pair(c, "shared expert input", "shared expert output", n, forward_bytes, backward_bytes);
}

void spp_comm_emit_tensor_parallel(const struct spp_comm_context *c) {
  if (c->g->tp == 1) return;
  int64_t forward = 0, backward = 0;
  struct spp_pass_counts attention = spp_comm_layer_counts(c, c->layers, c->full_layers, 0);
  emit_wide_norms(c, attention);
  if (c->job->arch->attention == SPP_ATTENTION_MLA)
    emit_latent_attention(c, attention, &forward, &backward);
  else
    emit_pair(c, "attention input", "attention projection", attention, &forward, &backward);
  /* A MoE layer with sequence parallelism dispatches its own shard of the tokens: no pair around the experts.
   */
  int64_t pairs = c->layout->megatron_sp ? c->layers - c->moe_layers : c->layers;
  int64_t full = c->layout->megatron_sp ? c->full_layers - c->full_moe_layers : c->full_layers;
  struct spp_pass_counts mlp = spp_comm_layer_counts(c, pairs, full, SPP_RC_MLP);
  if (pairs > 0) emit_pair(c, "mlp input", "mlp output", mlp, &forward, &backward);
  emit_shared_expert(c, pairs == 0 ? &forward : NULL, pairs == 0 ? &backward : NULL);
  c->comm->layer_forward_bytes[SPP_GROUP_TP] = forward;
  c->comm->layer_backward_bytes[SPP_GROUP_TP] = c->trains ? backward : 0;
  emit_ends(c);
}

/* Point to point between stages: every chunk sends its output forward and its input gradient back, but for
 * the ends of the pipeline. Sharded over tp with Megatron SP. */
void spp_comm_emit_pipeline(const struct spp_comm_context *c) {
  const struct spp_geometry *g = c->g;
  if (g->pp == 1) return;
  int64_t bytes = spp_sat_mul(g->stream_tokens, c->job->arch->hidden * c->element_bytes);
  struct spp_comm_op op = {.op = SPP_SEND_RECV,
                           .what = "stage output",
                           .group = SPP_GROUP_PP,
                           .ranks = g->pp,
                           .stride = g->tp * g->sp * c->layout->dp,
                           .pass = SPP_PASS_FORWARD,
                           .per = SPP_PER_MICRO_BATCH,
                           .sent_bytes = bytes,
                           .messages = 1,
                           .message_bytes = bytes,
                           .overlap = c->job->framework->overlap_pp ? SPP_OVERLAP_FORWARD : SPP_OVERLAP_NONE};
  op.count_per_step = spp_sat_mul(c->forwards * (g->vpp - (c->stage->last ? 1 : 0)), g->m);
  spp_comm_emit(c, op);
  if (!c->trains) return;
  op.what = "stage input gradient";
  op.pass = SPP_PASS_BACKWARD;
  op.count_per_step = spp_sat_mul(g->vpp - (c->stage->first ? 1 : 0), g->m);
  op.overlap = c->job->framework->overlap_pp ? SPP_OVERLAP_BACKWARD : SPP_OVERLAP_NONE;
  spp_comm_emit(c, op);
}
