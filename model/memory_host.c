#include "model/memory_parts.h"

/* Host bytes per parameter and the slack DeepSpeed's own estimators use:
 * deepspeed/runtime/zero/stage_1_and_2.py estimate_zero2_model_states_mem_needs, stage3.py
 * estimate_zero3_model_states_mem_needs: 16 (18 with parameters) bytes over the nodes; stage 2 loads an fp32
 * copy in each of the node's processes first. */
enum { STATE_BYTES = 16, STATE_AND_PARAM_BYTES = 18, LOAD_BYTES = 4 };
static const double buffer_factor = 1.5;

static int64_t estimate(const struct spp_memory_view *v, int64_t parameters) {
  const struct spp_geometry *g = v->g;
  bool params = spp_offload_params(v->layout->offload);
  double nodes = (double)spp_max64(1, g->nodes);
  double each = (params ? STATE_AND_PARAM_BYTES : STATE_BYTES) / nodes;
  if (v->layout->zero < 3) {
    double processes = (double)spp_ceil_div(spp_layout_world(v->layout), spp_max64(1, g->nodes));
    each = each > LOAD_BYTES * processes ? each : LOAD_BYTES * processes;
  }
  double bytes = (double)parameters * each * buffer_factor;
  return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

/* Frozen weights of the whole model as they are stored: packed where they are quantised. Counted here: the
 * search leaves the view's counts empty where it knows what the GPUs hold. */
static int64_t frozen_bytes(const struct spp_memory_view *v) {
  static const enum spp_outer outer[] = {SPP_OUTER_EMBEDDING, SPP_OUTER_POSITION, SPP_OUTER_HEAD,
                                         SPP_OUTER_OTHER, SPP_OUTER_VISION};
  const struct spp_geometry *g = v->g;
  struct spp_state_counts c;
  int64_t dense = 0, experts = 0;
  for (int k = 0; k < v->job->arch->kind_count; k++) {
    int64_t layers = v->job->arch->kinds[k].count;
    spp_states_count_layer(v->job, v->layout, g, k, &c);
    dense = spp_sat_add(dense, spp_sat_mul(layers, c.frozen_bytes));
    experts = spp_sat_add(experts, spp_sat_mul(layers, c.frozen_expert_bytes));
  }
  for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++) {
    spp_states_count_outer(v->job, v->layout, g, outer[i], &c);
    dense = spp_sat_add(dense, c.frozen_bytes);
  }
  return spp_sat_add(spp_sat_mul(dense, g->tp), spp_sat_mul(experts, spp_sat_mul(g->ep, g->etp)));
}

/* Elsewhere what left the GPUs of a node, without slack. */
static int64_t moved(const struct spp_memory_view *v, int64_t trainable) {
  const struct spp_states *r = &v->regime;
  int64_t bytes = spp_sat_mul(trainable, r->master_bytes + r->moment_bytes);
  if (v->job->framework->sharding != SPP_SHARDING_MEGATRON)
    bytes = spp_sat_add(bytes, spp_sat_mul(trainable, r->grad_bytes));
  if (spp_offload_params(v->layout->offload)) {
    bytes = spp_sat_add(bytes, spp_sat_mul(trainable, r->weight_bytes));
    if (spp_job_has_adapters(v->job)) bytes = spp_sat_add(bytes, frozen_bytes(v));
  }
  return spp_ceil_div(bytes, spp_max64(1, v->g->nodes));
}

/* What layers of the node's ranks keep, or their inputs; a fuller stage holds more, an even split is assumed.
 */
static int64_t offloaded_inputs(const struct spp_memory_view *v) {
  const struct spp_geometry *g = v->g;
  bool whole = spp_layout_offloads_layers(v->layout, v->job);
  if (v->layout->recompute != SPP_RECOMPUTE_FULL && !whole) return 0;
  int64_t layers = spp_ceil_div(v->job->arch->layers, spp_max64(1, g->pp));
  int64_t bytes = spp_sat_mul(spp_sat_mul(g->stream_tokens, v->job->arch->hidden), spp_dtype_bytes(v->act));
  int64_t ranks = spp_ceil_div(spp_layout_world(v->layout), spp_max64(1, g->nodes));
  if (whole) layers = spp_layout_layers_away(v->layout, layers);
  for (int k = 0; whole && k < v->job->arch->kind_count; k++)
    bytes = spp_max64(bytes, spp_kept_layer_bytes(v->job, v->layout, g, &v->job->arch->kinds[k]));
  return spp_sat_mul(spp_sat_mul(bytes, layers), ranks);
}

/* torch's allocator of pinned memory hands out powers of two (torch 2.15 ATen/core/CachingHostAllocator.h
 * allocate). */
static int64_t pinned(int64_t rows, int64_t cols, int64_t each) {
  return spp_next_pow2(spp_min64(spp_sat_mul(spp_sat_mul(rows, cols), each), INT64_C(1) << 61));
}

/* What FPDT parks: of a layer that waits for its backward the normalised input, q, k, v, output and
 * log-sum-exp of every chunk; in backward fp32 dq and the output's gradient of one layer beside them. The
 * loss keeps the head's input there (deepspeed 0.19.8 sequence/fpdt_layer.py SequenceChunk, FPDT_LogitsLoss).
 */
static int64_t parked_chunks(const struct spp_memory_view *v) {
  const struct spp_geometry *g = v->g;
  int64_t c = g->piece_tokens, act = spp_dtype_bytes(v->act), layers = v->job->arch->layers;
  if (!spp_attention_is_parked(v->layout, g) || !v->trains) return 0;
  int64_t forward = spp_sat_add(pinned(c, v->job->arch->hidden, act), pinned(c, g->q_width, act));
  forward = spp_sat_add(forward, spp_sat_add(pinned(c, g->k_width, act), pinned(c, g->v_width, act)));
  forward = spp_sat_add(forward, spp_sat_add(pinned(c, g->o_width, act), pinned(c, g->heads_local, 4)));
  int64_t backward = spp_sat_add(pinned(c, g->q_width, 4), pinned(c, g->o_width, act));
  int64_t waiting = spp_ceil_div(layers, spp_max64(1, g->pp));
  if (v->layout->recompute == SPP_RECOMPUTE_FULL)
    waiting =
        v->layout->recompute_layers == SPP_UNSET ? 1 : spp_max64(1, waiting - v->layout->recompute_layers);
  int64_t one = spp_sat_add(spp_sat_mul(forward, waiting), backward);
  int64_t head = spp_sat_mul(spp_sat_mul(g->tokens, v->job->arch->hidden), act);
  if (g->loss_path != SPP_LOSS_FPDT) head = 0;
  int64_t ranks = spp_ceil_div(spp_layout_world(v->layout), spp_max64(1, g->nodes));
  return spp_sat_mul(spp_sat_add(spp_sat_mul(one, g->pieces), head), ranks);
}

int64_t spp_memory_host_bytes(const struct spp_memory_view *v) {
  enum spp_offload offload = v->layout->offload;
  const struct spp_job *job = v->job;
  int64_t bytes = spp_sat_add(spp_offload_activations(offload) ? offloaded_inputs(v) : 0, parked_chunks(v));
  if (!spp_offload_optimizer(offload)) return bytes;
  int64_t trainable = job->params.total;
  if (spp_job_has_adapters(job)) {
    trainable = 0;
    for (int k = 0; k < job->arch->kind_count; k++) {
      const struct spp_weight_sums *w = &job->sums.kinds[k];
      bool shared = job->framework->shared_expert_adapters;
      int64_t experts = shared ? spp_sat_mul(w->lora_expert_one, v->g->ep) : w->lora_expert;
      int64_t per_rank = w->lora_split + w->lora_replicated + experts;
      trainable = spp_sat_add(trainable,
                              spp_sat_mul(spp_sat_mul(per_rank, job->lora_rank), job->arch->kinds[k].count));
    }
  }
  bool estimator = job->framework->sharding == SPP_SHARDING_DEEPSPEED &&
                   !job->framework->offload_keeps_grads && !spp_job_has_adapters(job);
  int64_t states = estimator ? estimate(v, job->params.total) : moved(v, trainable);
  return spp_sat_add(bytes, states);
}
