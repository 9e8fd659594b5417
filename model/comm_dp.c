/* Data parallelism and sharded states: gradients reduced, parameters gathered.
 * Sources: deepspeedai/DeepSpeed runtime/zero/stage_1_and_2.py (stage 2 reduces every micro-batch),
 * stage3.py; NVIDIA/Megatron-LM core/distributed/distributed_data_parallel.py,
 * core/optimizer/distrib_optimizer.py; PyTorch FSDP: all-gather forward and backward, reduce-scatter per
 * micro-batch. */
#include "model/comm_internal.h"

#include "model/states.h"

/* One population of parameters: dense ones, or experts, which replicate over a smaller group. */
struct population {
  const char *gradients, *parameters, *copies;
  int64_t trainable, gathered_bytes; /* elements; bytes of the weights as they travel */
  int64_t narrow;                    /* of the trained ones, those whose products are narrow */
  int64_t again;         /* elements that travel a second time in each pass: a tied embedding, unit by unit */
  int64_t group, stride; /* ranks that hold the same parameters */
  bool expert;
};

static bool trains_all(const struct spp_job *job) {
  return job->method == SPP_METHOD_FULL || job->method == SPP_METHOD_GALORE ||
         job->method == SPP_METHOD_Q_GALORE;
}

static bool goes_by_unit(const struct spp_comm_context *c) {
  return c->job->framework->sharding == SPP_SHARDING_UNITS &&
         c->job->framework->states[c->layout->zero].shard_grads;
}

/* Quantised bases travel packed. Bytes per 4096 elements, scales included: NF4 with fp32 absmax per 64
 * (bitsandbytes functional.py quantize_4bit), with double quantisation (4.126953125 bits), GPTQ 4-bit with
 * group 128 (fp16 scale and 4-bit zero), int8 with one fp32 scale per row (left out, under 0.1 %). */
static int64_t quantised_bytes(enum spp_quant quant, int64_t elements) {
  static const int64_t per_4096[] = {[SPP_QUANT_NF4] = 2304,
                                     [SPP_QUANT_NF4_DOUBLE] = 2113,
                                     [SPP_QUANT_GPTQ4] = 2128,
                                     [SPP_QUANT_INT8] = 4096,
                                     [SPP_QUANT_GPTQ8] = 4192};
  return (int64_t)((double)elements / 4096.0 * (double)per_4096[quant]);
}

static int64_t travel_bytes(const struct spp_comm_context *c, int64_t elements, int64_t quantised) {
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *states = &now;
  int64_t element = states->gather_bytes ? states->gather_bytes : c->element_bytes;
  bool narrow = spp_job_keeps_fp8_only(c->job) && trains_all(c->job);
  if (narrow) /* each direction gathers the codes it multiplies */
    return spp_sat_add(spp_sat_mul(elements - quantised, element), spp_job_narrow_bytes(c->job, quantised));
  if (c->job->method != SPP_METHOD_QLORA) return spp_sat_mul(elements, element);
  return spp_sat_add(spp_sat_mul(elements - quantised, element), quantised_bytes(c->job->quant, quantised));
}

/* Padded rows of a vocabulary that the ranks do not divide travel with the rest. */
static int64_t outer_elements(const struct spp_comm_context *c, const struct spp_weight_sums *sums) {
  int64_t vocab = c->job->arch->vocab, padded = spp_sat_mul(c->g->vocab_local, c->g->tp);
  bool has = sums == &c->job->sums.embedding || sums == &c->job->sums.head;
  if (!has || padded == vocab || vocab == 0) return spp_sums_dense(sums, c->g->tp);
  return spp_sat_mul(sums->split / vocab, c->g->vocab_local);
}

static void count_dense(const struct spp_comm_context *c, struct population *p) {
  const struct spp_model_sums *sums = &c->job->sums;
  const struct spp_weight_sums *outer[5];
  int n = 0;
  if (c->stage->first) outer[n++] = &sums->embedding;
  if (c->stage->first) outer[n++] = &sums->position;
  if (c->stage->first) outer[n++] = &sums->vision;
  if (c->stage->last) outer[n++] = &sums->head;
  if (c->stage->last) outer[n++] = &sums->other;
  int64_t tp = c->g->tp, elements = 0, quantised = 0, adapters = 0;
  for (int i = 0; i < n; i++)
    elements += outer_elements(c, outer[i]);
  if (c->stage->last && !c->stage->first && c->job->arch->tied)
    elements += outer_elements(c, &sums->embedding);
  for (int k = 0; k < c->job->arch->kind_count; k++) {
    int64_t layers = c->stage->kind_layers[k];
    elements += layers * spp_sums_dense(&sums->kinds[k], tp);
    quantised += layers * (sums->kinds[k].quantised / tp);
    adapters += layers * spp_sums_lora_dense(&sums->kinds[k], tp, c->job->lora_rank);
  }
  int64_t frozen_vision =
      c->stage->first && !c->job->vision_trainable ? spp_sums_dense(&sums->vision, tp) : 0;
  p->trainable = trains_all(c->job) ? elements - frozen_vision : adapters;
  p->narrow = trains_all(c->job) ? quantised : 0;
  bool twice = goes_by_unit(c) && c->job->arch->tied && c->stage->first && c->stage->last;
  p->again = twice ? outer_elements(c, &sums->embedding) : 0;
  p->gathered_bytes = travel_bytes(c, elements + p->again, quantised);
}

static void count_experts(const struct spp_comm_context *c, struct population *p) {
  int64_t ep = c->g->ep, etp = c->g->etp, elements = 0, quantised = 0, adapters = 0;
  for (int k = 0; k < c->job->arch->kind_count; k++) {
    const struct spp_weight_sums *s = &c->job->sums.kinds[k];
    int64_t layers = c->stage->kind_layers[k];
    elements += layers * spp_sums_expert(s, ep, etp);
    quantised += layers * (s->quantised_expert / (ep * etp));
    adapters += layers * spp_sums_lora_expert(s, ep, etp, c->job->lora_rank,
                                              c->job->framework->shared_expert_adapters);
  }
  p->trainable = trains_all(c->job) ? elements : adapters;
  p->narrow = trains_all(c->job) ? quantised : 0;
  p->gathered_bytes = travel_bytes(c, elements, quantised);
}

/* Collectives one event is made of. Buckets of other frameworks hold many layers: one. A table of positions
 * is a unit; a tied head on the embedding's stage uses the embedding's unit again; on another stage its copy
 * is a unit of its own. */
static int64_t calls(const struct spp_comm_context *c, bool expert, enum spp_pass pass) {
  if (!goes_by_unit(c)) return 1;
  if (expert) return c->moe_layers;
  bool more = c->job->arch->tied && c->stage->last && (!c->stage->first || pass != SPP_PASS_STEP);
  bool positions = c->stage->first && c->job->arch->learned_positions > 0;
  return c->stage->layers + c->stage->first + positions + c->stage->last + more;
}

static void emit_state_op(const struct spp_comm_context *c, const struct population *p,
                          enum spp_collective kind, const char *what, int64_t whole_bytes, int64_t ranks,
                          int64_t stride, enum spp_pass pass, int64_t count, enum spp_overlap overlap) {
  int64_t once = whole_bytes - spp_ceil_div(whole_bytes, ranks); /* (ranks-1)/ranks, rounded down */
  struct spp_comm_op op = {.op = kind,
                           .what = what,
                           .group = SPP_GROUP_DP,
                           .ranks = ranks,
                           .stride = stride,
                           .pass = pass,
                           .per = pass == SPP_PASS_STEP || count == 1 ? SPP_PER_STEP : SPP_PER_MICRO_BATCH,
                           .count_per_step = count,
                           .sent_bytes = kind == SPP_ALL_REDUCE ? spp_sat_mul(2, once) : once,
                           .stage_sent_bytes = spp_comm_stage_bytes(c, kind, whole_bytes, ranks),
                           .messages = calls(c, p->expert, pass),
                           .message_bytes = whole_bytes / calls(c, p->expert, pass),
                           .overlap = overlap};
  if (ranks > 1) spp_comm_emit(c, op);
}

static bool overlaps(const struct spp_comm_context *c, bool framework_does) {
  return c->job->overlap == SPP_UNSET ? framework_does : c->job->overlap != 0;
}

/* Stage 3: weights gathered for each forward, again for backward, gradients scattered, every micro-batch. */
static void emit_full_shard(const struct spp_comm_context *c, const struct population *p, int64_t shard,
                            int64_t reduce_bytes) {
  enum spp_overlap gather_hides =
      overlaps(c, c->job->framework->overlap_param_gather) ? SPP_OVERLAP_FORWARD : SPP_OVERLAP_NONE;
  enum spp_overlap backward_hides =
      overlaps(c, c->job->framework->overlap_grad_reduce) ? SPP_OVERLAP_BACKWARD : SPP_OVERLAP_NONE;
  bool held = c->job->framework->gathers_once_under_pp && c->g->pp > 1;
  int64_t m = held ? 1 : c->g->m;
  emit_state_op(c, p, SPP_ALL_GATHER, p->parameters, p->gathered_bytes, shard, p->stride, SPP_PASS_FORWARD,
                spp_sat_mul(c->forwards, m), gather_hides);
  emit_state_op(c, p, SPP_ALL_GATHER, p->parameters, p->gathered_bytes, shard, p->stride, SPP_PASS_BACKWARD,
                held ? 0 : m, gather_hides == SPP_OVERLAP_NONE ? SPP_OVERLAP_NONE : SPP_OVERLAP_BACKWARD);
  emit_state_op(c, p, SPP_REDUCE_SCATTER, p->gradients, reduce_bytes, shard, p->stride, SPP_PASS_BACKWARD, m,
                backward_hides);
}

/* Updated weights on their way back. Weights without a 16-bit copy travel as they are kept (megatron-core
 * 0.16.1 distributed/param_and_grad_buffer.py: a buffer of bytes for FP8 parameters; 0.19.2 the rowwise codes
 * of NVFP4, in pairs), MXFP8, the recipe of Blackwell, in 16 bit through the gradient buffer
 * (reuse_grad_buf_for_mxfp8_param_ag). */
static int64_t updated_bytes(const struct spp_comm_context *c, const struct population *p, int64_t element) {
  const struct spp_job *job = c->job;
  bool narrow = spp_job_keeps_fp8_only(job) && (job->fp4 || job->gpu->compute_capability < 100);
  if (!narrow) return spp_sat_mul(p->trainable, element);
  return spp_sat_add(spp_sat_mul(p->trainable - p->narrow, element), job->fp4 ? p->narrow / 2 : p->narrow);
}

static void emit_population(const struct spp_comm_context *c, const struct population *p) {
  const struct spp_framework *f = c->job->framework;
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *states = &now;
  int64_t replicas = c->layout->dp_replicate > 0 ? c->layout->dp_replicate : 1;
  int64_t shard = p->group / replicas > 0 ? p->group / replicas : 1;
  int64_t grad = c->job->grads_bytes != SPP_UNSET ? c->job->grads_bytes
                 : states->reduce_bytes           ? states->reduce_bytes
                                                  : states->grad_bytes;
  int64_t reduced = spp_sat_mul(p->trainable + p->again, grad);
  enum spp_overlap hides = overlaps(c, f->overlap_grad_reduce) ? SPP_OVERLAP_BACKWARD : SPP_OVERLAP_NONE;
  if (!states->shard_optimizer) {
    emit_state_op(c, p, SPP_ALL_REDUCE, p->gradients, reduced, p->group, p->stride, SPP_PASS_BACKWARD, 1,
                  hides);
    return;
  }
  if (states->shard_weights) {
    emit_full_shard(c, p, shard, reduced);
  } else {
    /* DeepSpeed stage 2 scatters gradients in every micro-batch; the others once, at the accumulation
     * boundary. */
    int64_t times = states->shard_grads ? c->g->m : 1;
    emit_state_op(c, p, SPP_REDUCE_SCATTER, p->gradients, reduced, shard, p->stride, SPP_PASS_BACKWARD, times,
                  hides);
    int64_t updated = updated_bytes(c, p, states->gather_bytes ? states->gather_bytes : c->element_bytes);
    emit_state_op(c, p, SPP_ALL_GATHER, p->parameters, updated, shard, p->stride, SPP_PASS_STEP, 1,
                  overlaps(c, f->overlap_param_gather) ? SPP_OVERLAP_FORWARD : SPP_OVERLAP_NONE);
  }
  if (replicas > 1) /* HSDP: shards are summed over the replicas */
    emit_state_op(c, p, SPP_ALL_REDUCE, p->copies, reduced / shard, replicas, p->stride * shard,
                  SPP_PASS_BACKWARD, states->shard_weights || states->shard_grads ? c->g->m : 1, hides);
}

/* Tied embedding with a pipeline: first and last stage each hold a copy and sum its gradient. */
static void emit_tied_embedding(const struct spp_comm_context *c, int64_t grad_bytes) {
  if (c->g->pp == 1 || !c->job->arch->tied || !trains_all(c->job) || (!c->stage->first && !c->stage->last))
    return;
  int64_t elements = outer_elements(c, &c->job->sums.embedding), ranks = c->g->dense_group;
  bool shards = goes_by_unit(c); /* then each rank sums its own */
  int64_t bytes = spp_sat_mul(shards ? elements / c->g->shard_group : elements, grad_bytes);
  struct spp_comm_op op = {
      .op = SPP_ALL_REDUCE,
      .what = "tied embedding gradients",
      .group = SPP_GROUP_PP,
      .ranks = 2,
      .stride = (c->g->pp - 1) * c->g->tp * c->g->sp * c->layout->dp,
      .pass = SPP_PASS_STEP,
      .per = SPP_PER_STEP,
      .count_per_step = 1,
      .sent_bytes = bytes,
      .stage_sent_bytes = spp_sat_mul(spp_sat_mul(elements, grad_bytes), c->g->tp * (shards ? 1 : ranks)),
      .messages = 1,
      .message_bytes = bytes,
      .overlap = SPP_OVERLAP_NONE};
  spp_comm_emit(c, op);
}

void spp_comm_emit_states(const struct spp_comm_context *c) {
  struct population dense = {.gradients = "gradients",
                             .parameters = "parameters",
                             .copies = "gradient shards",
                             .group = c->g->dense_group,
                             .stride = c->g->tp};
  count_dense(c, &dense);
  emit_population(c, &dense);
  if (c->moe_layers > 0) {
    struct population experts = {.gradients = "expert gradients",
                                 .parameters = "expert parameters",
                                 .copies = "expert gradient shards",
                                 .group = c->g->expert_group,
                                 .stride = c->g->ep * c->g->etp,
                                 .expert = true};
    count_experts(c, &experts);
    emit_population(c, &experts);
  }
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *states = &now;
  emit_tied_embedding(c, c->job->grads_bytes != SPP_UNSET ? c->job->grads_bytes : states->grad_bytes);
}
