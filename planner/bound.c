#include "planner/bound.h"

#include <math.h>

#include "base/num.h"
#include "model/kernel_time.h"
#include "model/states.h"
#include "model/timing.h"

static const double rounding = 1 - 1e-6; /* sums of doubles in another order */

/* No kernel runs above its fitted rate (blocks of a ring that need no mask by a known ratio), and cutting
 * work into more kernels adds start-up and half-length terms, never takes any away; so the whole model's
 * FLOPs at those rates, spread evenly over the GPUs, bound the slowest GPU from below. Attention backward
 * is 2.5 forwards (a flash kernel recomputes the scores); matrix products backward are the two halves where
 * weights are trained, one where they are frozen. Vision tower, memory-bound kernels, communication,
 * optimizer and host are left out. Sources of the counts: model/flops.c. */
void spp_bound_prepare(const struct spp_job *job, struct spp_bound *bound) {
  struct spp_layout plain = spp_layout_plain();
  struct spp_geometry g;
  struct spp_kernel_rates rates;
  double causal, full, hardware, gpus = (double)spp_max64(1, job->gpus);
  bool trains = job->mode != SPP_MODE_INFER, frozen = spp_job_has_adapters(job);
  double forwards = spp_job_forwards(job);
  plain.grad_accum = spp_max64(1, job->global_batch);
  spp_geometry_resolve(job, &plain, &g);
  spp_flops_count(job, &plain, &g, &causal, &full, &hardware);
  spp_kernel_rates_resolve(job->gpu, job->cluster, job->calib, job->dtype, job->attention,
                           job->arch->head_dim, &rates);
  if (job->fp4) spp_kernel_rates_narrow(job->gpu, spp_job_fp4_share(job), &rates);
  double attention = (full - causal) / (forwards + (trains ? 2 : 0)); /* one forward */
  double weights = 2 * (double)job->params.gemm_per_token * (double)g.real_tokens * rates.gemm.s_per_flop;
  double head = 2 * (double)job->arch->vocab * (double)job->arch->hidden * (double)g.real_tokens *
                rates.gemm.s_per_flop;
  bound->job = job;
  bound->real_tokens = (double)g.real_tokens;
  bound->host_s_per_byte =
      rates.host_s_per_byte * fmin(gpus, (double)spp_max64(1, job->cluster->gpus_per_node));
  for (int ring = 0; ring < 2; ring++) {
    double ahead = ring ? spp_ring_attention_share(SPP_PASS_FORWARD) : 1,
           back = ring ? spp_ring_attention_share(SPP_PASS_BACKWARD) : 1;
    double attention_s = attention * rates.forward.s_per_flop * ahead, forward_s = weights + attention_s;
    double backward_s = weights * (rates.dgrad_ratio + (frozen ? 0 : rates.wgrad_ratio)) +
                        2.5 * attention * rates.backward.s_per_flop * back;
    double again_s = fmax(0, weights - head) + attention_s;
    double once_s = forwards * forward_s + (trains ? backward_s : 0);
    for (int r = 0; r < SPP_RECOMPUTE_COUNT; r++)
      bound->device_s[r][ring] =
          rounding / gpus * (once_s + (r == SPP_RECOMPUTE_FULL && trains ? again_s : 0));
  }
}

/* Elements of the largest rank: at least the mean over stages of what tensor and expert parallelism leave. */
static double rank_elements(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_model_sums *sums = &job->sums;
  double dense = 0, expert = 0;
  for (int k = 0; k < job->arch->kind_count; k++) {
    dense += (double)job->arch->kinds[k].count * (double)(sums->kinds[k].split / layout->tp);
    expert +=
        (double)job->arch->kinds[k].count * (double)(sums->kinds[k].expert / (layout->ep * layout->etp));
  }
  dense += (double)(sums->embedding.split / layout->tp);
  if (!job->arch->tied) dense += (double)(sums->head.split / layout->tp);
  return (dense + expert) / (double)layout->pp;
}

static bool plain_training(const struct spp_job *job) {
  return job->method == SPP_METHOD_FULL && job->optimizer == SPP_OPTIMIZER_ADAMW &&
         job->mode != SPP_MODE_INFER;
}

/* Ranks that share the states of one: no shard group is larger. */
static double most_ranks(const struct spp_job *job, const struct spp_layout *layout) {
  double ranks = (double)(layout->dp * layout->ulysses * layout->ring);
  return job->arch->experts > 0 ? ranks * (double)layout->tp : ranks;
}

/* An offloaded optimizer reads and writes master and moments once a step, through the memory that a node's
 * GPUs share. Nothing hides it: gradients must be complete. */
double spp_bound_host_s(const struct spp_bound *bound, const struct spp_layout *layout) {
  const struct spp_states now = spp_states_in_dtype(bound->job, layout->zero), *states = &now;
  if (!spp_offload_optimizer(layout->offload) || !plain_training(bound->job)) return 0;
  double elements = rank_elements(bound->job, layout);
  if (states->shard_optimizer) elements /= most_ranks(bound->job, layout);
  return rounding * elements * 2 * (states->master_bytes + states->moment_bytes) * bound->host_s_per_byte;
}

/* Stages take a1 .. ap a micro-batch, a their mean, s their largest. The step is at least m s + (p a - s) /
 * v, which grows with s >= a, so at least m a + (p - 1) a / v. Zero-bubble schedules fill the bubble: m a. */
double spp_bound_step_s(const struct spp_bound *bound, const struct spp_layout *layout) {
  enum spp_recompute recompute =
      layout->recompute_layers == SPP_UNSET ? layout->recompute : SPP_RECOMPUTE_NONE;
  double m = (double)spp_max64(1, layout->grad_accum), bubble = 0;
  if (layout->schedule != SPP_SCHEDULE_ZB_H1 && layout->schedule != SPP_SCHEDULE_ZB_H2)
    bubble = (double)(layout->pp - 1) / (m * (double)spp_max64(1, layout->vpp));
  bool ring = (layout->ring > 1 && layout->sp_kind != SPP_SP_ALLGATHER) ||
              layout->fpdt_chunk > 0; /* unmasked blocks */
  return bound->device_s[recompute][ring] * (1 + bubble) + spp_bound_host_s(bound, layout);
}

/* Weights, masters and moments are there from the first step to the last, on every rank of the group in equal
 * parts; gradients come and go and are left out, as are activations and buffers. Only for full fine-tuning
 * with plain AdamW; anything else is bounded by nothing. */
int64_t spp_bound_device_bytes(const struct spp_bound *bound, const struct spp_layout *layout) {
  const struct spp_job *job = bound->job;
  const struct spp_states now = spp_states_in_dtype(job, layout->zero), *states = &now;
  if (!plain_training(job)) return 0;
  double ranks = most_ranks(job, layout);
  double weights = (double)states->weight_bytes / (states->shard_weights ? ranks : 1);
  double optimizer =
      (double)(states->master_bytes + states->moment_bytes) / (states->shard_optimizer ? ranks : 1);
  if (spp_offload_params(layout->offload)) weights = 0;
  if (spp_offload_optimizer(layout->offload)) optimizer = 0;
  double bytes =
      (double)job->framework->context_bytes + rank_elements(job, layout) * (weights + optimizer) * rounding;
  return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

/* Elements of the largest rank: at most its share of the layers, each of the largest kind, and everything
 * outside them. Virtual stages round up once each. */
static double most_elements(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_model_sums *sums = &job->sums;
  const struct spp_weight_sums *outer[] = {&sums->embedding, &sums->position, &sums->head, &sums->vision,
                                           &sums->other};
  double layer = 0, all = 0, padding = (double)job->framework->vocab_multiple * (double)job->arch->hidden;
  double layers = (double)spp_stage_most_layers(job, layout);
  for (int k = 0; k < job->arch->kind_count; k++) {
    double one = (double)spp_sums_dense(&sums->kinds[k], layout->tp) +
                 (double)spp_sums_expert(&sums->kinds[k], layout->ep, layout->etp) + 1;
    layer = fmax(layer, one);
  }
  all = layer * layers;
  for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
    all += (double)spp_sums_dense(outer[i], layout->tp) + padding + 1;
  return all;
}

/* Layer inputs that full recompute keeps: no schedule but GPipe has more than 2p micro-batches in flight. */
static double most_inputs(const struct spp_job *job, const struct spp_layout *layout) {
  struct spp_geometry g;
  spp_geometry_resolve(job, layout, &g);
  double layers = (double)spp_stage_most_layers(job, layout);
  double flying = layout->pp == 1 ? 1 : 2 * (double)layout->pp;
  if (layout->schedule == SPP_SCHEDULE_GPIPE) flying = fmax(flying, (double)layout->grad_accum);
  return layers * flying * (double)g.tokens * (double)job->arch->hidden * (double)g.element_bytes;
}

/* Offload takes tensors off the GPU and adds none to what it holds of them: at the moment and on the stage
 * where the plain layout peaks, no more is gone than every byte of optimizer, gradients, weights and layer
 * inputs, as named. Eight bytes an element are added for what the step makes on top (fp32 copies, foreach
 * lists). */
int64_t spp_bound_freed_bytes(const struct spp_bound *bound, const struct spp_layout *layout) {
  const struct spp_job *job = bound->job;
  const struct spp_framework *framework = job->framework;
  const struct spp_states now = spp_states_in_dtype(job, layout->zero), *states = &now;
  bool inputs = spp_offload_activations(layout->offload);
  if (inputs && layout->recompute != SPP_RECOMPUTE_FULL) return INT64_MAX;
  double sp = (double)(framework->dp_shard_includes_sp ? layout->ulysses * layout->ring : 1);
  double ranks = (double)layout->dp * sp / (double)spp_max64(1, layout->dp_replicate);
  if (job->arch->experts > 0)
    ranks = fmax(1, ranks * fmin(1, (double)layout->tp / (double)(layout->ep * layout->etp)));
  double optimizer = states->master_bytes + states->moment_bytes + states->step_extra_bytes + 8;
  double freed = optimizer / (states->shard_optimizer ? ranks : 1) +
                 (states->grad_bytes + 4) / (states->shard_grads ? ranks : 1);
  if (spp_offload_params(layout->offload))
    freed += (states->weight_bytes + 4) / (states->shard_weights ? ranks : 1);
  double bytes = spp_offload_optimizer(layout->offload) ? most_elements(job, layout) * freed : 0;
  if (inputs) bytes += most_inputs(job, layout);
  bytes = fmax(1, framework->allocator_factor) * bytes + 4194304;
  return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}
