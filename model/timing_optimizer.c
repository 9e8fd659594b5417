/* The optimizer step and what offloading adds. Memory bound: every byte of states, gradients and weights
 * moves once. Sources: torch.optim.AdamW (foreach: one pass per operator), deepspeedai/DeepSpeed
 * csrc/adam/cpu_adam.cpp, runtime/zero/stage_1_and_2.py (offload copies). */
#include "model/activations.h"
#include "model/states.h"
#include "model/timing_internal.h"

/* torch foreach AdamW reads and writes fp32 lists operator by operator: decay 8, lerp 12, mul 8, addcmul 12,
 * sqrt 8, div 8, add 8, addcdiv 16 = 80 bytes where one fused pass moves 28. Derived. */
static const double foreach_passes = 80.0 / 28;

static bool trains_base(const struct spp_timing_context *c) {
  return c->job->method != SPP_METHOD_LORA && c->job->method != SPP_METHOD_QLORA;
}

/* Elements of one group of weights that one rank updates. */
static double local_elements(const struct spp_timing_context *c, const struct spp_weight_sums *s,
                             bool sharded) {
  const struct spp_geometry *g = c->g;
  double dense_group = sharded ? (double)spp_max64(1, g->shard_group) : 1;
  double expert_group = sharded ? (double)spp_max64(1, g->expert_shard_group) : 1;
  int64_t rank = c->job->lora_rank;
  bool shared = c->job->framework->shared_expert_adapters;
  if (!trains_base(c))
    return (double)spp_sums_lora_dense(s, g->tp, rank) / dense_group +
           (double)spp_sums_lora_expert(s, g->ep, g->etp, rank, shared) / expert_group;
  return (double)spp_sums_dense(s, g->tp) / dense_group +
         (double)spp_sums_expert(s, g->ep, g->etp) / expert_group;
}

static double stage_elements(const struct spp_timing_context *c, const struct spp_stage *stage,
                             bool sharded) {
  const struct spp_job *job = c->job;
  double sum = 0;
  for (int k = 0; k < job->arch->kind_count; k++)
    sum += (double)stage->kind_layers[k] * local_elements(c, &job->sums.kinds[k], sharded);
  if (stage->first)
    sum += local_elements(c, &job->sums.embedding, sharded) + local_elements(c, &job->sums.position, sharded);
  if (stage->first && job->vision_trainable) sum += local_elements(c, &job->sums.vision, sharded);
  if (stage->last)
    sum += local_elements(c, &job->sums.head, sharded) + local_elements(c, &job->sums.other, sharded);
  return sum;
}

static double moment_bytes(const struct spp_job *job, const struct spp_states *states) {
  switch (job->optimizer) {
  case SPP_OPTIMIZER_ADAMW: return states->moment_bytes;
  case SPP_OPTIMIZER_ADAMW_BF16: return 4;
  case SPP_OPTIMIZER_ADAMW_8BIT: return 2;
  case SPP_OPTIMIZER_MUON: return 4;
  case SPP_OPTIMIZER_ADAFACTOR:
  case SPP_OPTIMIZER_SGD:
  case SPP_OPTIMIZER_COUNT: break;
  }
  return 0;
}

/* Read and written per local parameter: moments and master twice, gradient once, 16-bit weight written; norm
 * clipping reads the gradient and scales it (3 times its bytes). */
static double step_bytes(const struct spp_timing_context *c) {
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *s = &now;
  double grad = c->job->grads_bytes != SPP_UNSET ? c->job->grads_bytes : s->grad_bytes;
  double master = s->master_bytes > 0 ? 2.0 * s->master_bytes + s->weight_bytes : 2.0 * s->weight_bytes;
  return master + 2 * moment_bytes(c->job, s) + grad + 2.0 * s->step_extra_bytes;
}

static bool offloads_optimizer(const struct spp_timing_context *c) {
  return spp_offload_optimizer(c->layout->offload);
}

double spp_optimizer_s(const struct spp_timing_context *c, const struct spp_stage *stage) {
  const struct spp_framework *f = c->job->framework;
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *s = &now;
  if (!c->trains) return 0;
  double elements = stage_elements(c, stage, s->shard_optimizer), bytes = elements * step_bytes(c);
  if (offloads_optimizer(c)) { /* the GPUs of a node share its memory */
    double sharing = (double)spp_least((double)c->job->gpus, (double)c->job->cluster->gpus_per_node);
    return bytes * sharing * c->rates->host_s_per_byte;
  }
  double passes = f->optimizer_foreach && !f->optimizer_fused ? foreach_passes : 1;
  double clip = 3.0 * elements * (double)s->grad_bytes;
  return spp_memory_s(c->rates, SPP_MEMORY_OPTIMIZER, bytes * passes + clip);
}

/* What the layers of a stage move to the host in a forward. */
static double offloaded_bytes(const struct spp_timing_context *c, const struct spp_stage *stage) {
  const struct spp_geometry *g = c->g;
  double bytes = 0;
  if (!spp_layout_offloads_layers(c->layout, c->job))
    return (double)(stage->layers * g->stream_tokens * c->job->arch->hidden * g->element_bytes);
  for (int k = 0; k < c->job->arch->kind_count; k++) {
    const struct spp_layer_kind *kind = &c->job->arch->kinds[k];
    if (stage->kind_layers[k] > 0)
      bytes += (double)stage->kind_layers[k] * (double)spp_kept_layer_bytes(c->job, c->layout, g, kind);
  }
  double away = (double)spp_layout_layers_away(c->layout, stage->layers);
  return bytes * away / (double)spp_max64(1, stage->layers);
}

/* Compute of one pass of one micro-batch, slowed by what hides under it as far as the device would not wait
 * for the host all the same. */
static double slowed_s(const struct spp_timing_context *c, const struct spp_layers_time *l,
                       enum spp_side side, double compute_s, double hidden_s) {
  const double stolen_s = c->rates->stolen_share * (l->hidden_s[side] / (double)c->g->m + hidden_s);
  return compute_s + spp_positive(stolen_s - l->host_wait_s[side]);
}

/* Copies to and from the host in one pass that show: `fed` of states, which come before or after an exchange
 * of the same bytes on its stream (deepspeed 0.19.8 runtime/zero/partition_parameters.py all_gather_coalesced
 * moves the shard on the stream that gathers it, stage3.py partition_grads copies on the stream that reduced
 * them), so that they have the compute the exchange leaves; `link`: one direction of the link altogether,
 * layer inputs on a stream of their own included, which runs beside both. */
static double showing_s(double fed, double link, double compute_s, double hidden_s, double exposed_s) {
  const double chain = fed > 0 ? fed + hidden_s : 0;
  return spp_positive(spp_most(chain, link - exposed_s) - compute_s);
}

/* Gradients go down and weights come up once a step; with offloaded parameters every pass also fetches its
 * shard; offloaded layer inputs travel once each way per micro-batch and layer. Copies hide under the pass
 * they belong to, except the weights that come back after the step; up and down have an engine and a
 * direction of the link each (CUDA C++ Programming Guide, "Concurrent Data Transfers"), so that the longer of
 * the two shows. */
double spp_offload_exposed_s(const struct spp_timing_context *c, const struct spp_stage *stage,
                             const struct spp_layers_time *layers, const struct spp_states_beside *beside) {
  const enum spp_side F = SPP_SIDE_FORWARD, B = SPP_SIDE_BACKWARD;
  const struct spp_geometry *g = c->g;
  const struct spp_states now = spp_states_in_dtype(c->job, c->layout->zero), *s = &now;
  double per_byte = c->rates->pcie_s_per_byte, m = (double)g->m, grads = 0, fetch = 0, inputs = 0;
  if (!c->trains || c->layout->offload == SPP_OFFLOAD_NONE) return 0;
  if (offloads_optimizer(c))
    grads = stage_elements(c, stage, s->shard_optimizer) * (double)g->element_bytes * per_byte;
  if (spp_offload_params(c->layout->offload))
    fetch = stage_elements(c, stage, true) * (double)g->element_bytes * per_byte;
  if (spp_offload_activations(c->layout->offload)) inputs = per_byte * offloaded_bytes(c, stage);
  double back = grads, up = fetch + inputs; /* in backward */
  double forward_s = slowed_s(c, layers, F, layers->forward_s, beside->hidden_s[F]);
  double last_s = slowed_s(c, layers, B, layers->backward_s, beside->last_hidden_s[B]), backward = 0;
  double forward =
      showing_s(fetch, spp_most(fetch, inputs), forward_s, beside->hidden_s[F], beside->exposed_s[F]);
  double last = showing_s(spp_most(fetch, grads), spp_most(up, grads), last_s, beside->last_hidden_s[B],
                          beside->last_exposed_s[B]);
  if (up > 0 && g->m > 1)
    backward = showing_s(fetch, up, slowed_s(c, layers, B, layers->backward_s, beside->hidden_s[B]),
                         beside->hidden_s[B], beside->exposed_s[B]);
  return back + m * forward + (m - 1) * backward + last;
}
