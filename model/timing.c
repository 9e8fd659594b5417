/* Step time: kernels summed per stage, exposed communication, pipeline schedule, optimizer, host. */
#include "model/timing.h"

#include <math.h>
#include <string.h>

#include "model/timing_internal.h"

static const double ten_percent_tail = 1.2815515655446004; /* standard normal quantile: 80 % interval */

struct spp_timing_context spp_timing_context_make(const struct spp_job *job, const struct spp_layout *layout,
                                                  const struct spp_geometry *geometry,
                                                  const struct spp_kernel_rates *rates) {
  struct spp_timing_context c = {.job = job, .layout = layout, .g = geometry, .rates = rates};
  c.eager = job->kernels == SPP_KERNELS_EAGER;
  c.trains = job->mode != SPP_MODE_INFER;
  c.base_trainable = c.trains && job->method != SPP_METHOD_LORA && job->method != SPP_METHOD_QLORA;
  c.forwards = spp_job_forwards(job);
  return c;
}

/* Hidden states in fp32 and no autocast: attention and the head, which is not packed, compute in fp32. */
static void widen(const struct spp_job *job, struct spp_kernel_rates *rates) {
  struct spp_kernel_rates wide;
  spp_kernel_rates_resolve(job->gpu, job->cluster, job->calib, SPP_DTYPE_FP32, job->attention,
                           job->arch->head_dim, &wide);
  rates->forward = wide.forward;
  rates->backward = wide.backward;
  rates->wide.s_per_flop = wide.gemm.s_per_flop;
}

/* Share of the SMs that communication takes from the compute beside it: NCCL runs one block per channel. */
static double stolen_share(const struct spp_job *job) {
  const struct spp_framework *f = job->framework;
  if (f->nccl_channels <= 0 || job->gpu->sms <= 0) return f->comm_sm_slowdown;
  return spp_most(f->comm_sm_slowdown, spp_least(0.5, (double)f->nccl_channels / job->gpu->sms));
}

void spp_timing_rates(const struct spp_job *job, struct spp_kernel_rates *rates) {
  spp_kernel_rates_resolve(job->gpu, job->cluster, job->calib, job->dtype, job->attention,
                           job->arch->head_dim, rates);
  if (job->fp4) spp_kernel_rates_narrow(job->gpu, spp_job_fp4_share(job), rates);
  if (spp_job_hidden_fp32(job) && !job->framework->lora_autocast) widen(job, rates);
  rates->stolen_share = stolen_share(job);
}

/* Share of a stage's layers that are recomputed. */
static double recomputed_share(const struct spp_layout *layout, double layers) {
  if (layout->recompute != SPP_RECOMPUTE_FULL || layout->recompute_layers == SPP_UNSET || layers <= 0)
    return 1;
  return spp_least(1, (double)layout->recompute_layers / layers);
}

static void add_part(const struct spp_timing_context *c, const struct spp_layer_time *t, double count,
                     double recomputed, struct spp_stage_time *stage) {
  spp_pass_add(&stage->pass[SPP_PASS_FORWARD], &t->forward, count * c->forwards);
  spp_pass_add(&stage->pass[SPP_PASS_RECOMPUTE], &t->recompute, count * recomputed);
  spp_pass_add(&stage->pass[SPP_PASS_BACKWARD], &t->backward, count);
  stage->wgrad_s += count * t->wgrad_s;
  stage->forward_host_s += count * c->forwards * (t->host_s + t->forward_host_s);
  if (!c->trains) return;
  stage->backward_host_s += count * t->host_s;
  if (c->layout->recompute == SPP_RECOMPUTE_FULL)
    stage->backward_host_s += count * recomputed * (t->host_s + t->forward_host_s);
}

void spp_model_layers_count(const struct spp_timing_context *c, struct spp_model_time *model) {
  for (int k = 0; k < c->job->arch->kind_count; k++)
    spp_layer_time_count(c, k, &model->kinds[k]);
  spp_embedding_time_count(c, &model->embedding);
  spp_vision_time_count(c, &model->vision);
}

void spp_model_time_count(const struct spp_timing_context *c, struct spp_model_time *model) {
  spp_model_layers_count(c, model);
  spp_loss_time_count(c, &model->loss);
}

static void count_stage(const struct spp_timing_context *c, const struct spp_model_time *model,
                        const struct spp_stage *stage, struct spp_stage_time *t) {
  *t = (struct spp_stage_time){.layers = (double)stage->layers};
  double recomputed = recomputed_share(c->layout, t->layers);
  for (int k = 0; k < c->job->arch->kind_count; k++)
    add_part(c, &model->kinds[k], (double)stage->kind_layers[k], recomputed, t);
  if (stage->first) add_part(c, &model->embedding, 1, 0, t);
  if (stage->first) add_part(c, &model->vision, 1, 0, t);
  if (stage->last) add_part(c, &model->loss, 1, 0, t);
}

/* One micro-batch of a stage on the clock: device with its exposed communication, or the host that launches
 * it. */
struct stage_clock {
  double forward_s, backward_s, host_wait_s[SPP_SIDE_COUNT];
};

static struct stage_clock run_stage(const struct spp_stage_time *t, const struct spp_exposed *exposed,
                                    double share) {
  struct stage_clock clock;
  double device[SPP_PASS_STEP];
  for (int pass = 0; pass < SPP_PASS_STEP; pass++) {
    device[pass] = spp_pass_sum(&t->pass[pass]);
    for (int group = 0; group < SPP_GROUP_COUNT; group++)
      device[pass] += exposed->pass_s[pass][group] * (group == SPP_GROUP_PP ? 1 : share);
  }
  double backward = device[SPP_PASS_RECOMPUTE] + device[SPP_PASS_BACKWARD];
  clock.forward_s = spp_most(device[SPP_PASS_FORWARD], t->forward_host_s);
  clock.backward_s = spp_most(backward, t->backward_host_s);
  clock.host_wait_s[SPP_SIDE_FORWARD] = clock.forward_s - device[SPP_PASS_FORWARD];
  clock.host_wait_s[SPP_SIDE_BACKWARD] = clock.backward_s - backward;
  return clock;
}

/* Fill and drain of one other stage's micro-batch. ZB-H1 fills with F + B - W, ZB-H2 with F + B - 2 W, B
 * without weight gradients (zero-bubble pipeline schedules; Megatron interleaving divides by the chunks per
 * rank). */
static double bubble_share(const struct spp_layout *layout, double stage_s, double wgrad_s) {
  switch (layout->schedule) {
  case SPP_SCHEDULE_INTERLEAVED: return stage_s / (double)spp_max64(1, layout->vpp);
  case SPP_SCHEDULE_ZB_H1: return spp_positive(stage_s - 2 * wgrad_s);
  case SPP_SCHEDULE_ZB_H2: return spp_positive(stage_s - 3 * wgrad_s);
  case SPP_SCHEDULE_1F1B:
  case SPP_SCHEDULE_GPIPE:
  case SPP_SCHEDULE_COUNT: break;
  }
  return stage_s;
}

/* What the whole pipeline looks like: its slowest stage, and the fill and drain of the others. */
struct pipeline {
  struct spp_stage slowest;
  struct spp_stage_time time;
  struct stage_clock clock;
  double share; /* of the counted stage's exposed communication */
  double bubble_s;
};

/* The i-th run of stages. */
static struct spp_stage_run run_at(const struct spp_timing_context *c, const struct spp_stage_runs *runs,
                                   int64_t i) {
  struct spp_stage_run run = {.count = 1};
  if (runs) return runs->run[i];
  spp_stage_resolve(c->job, c->layout, c->g, i, &run.stage);
  return run;
}

static void walk_stages(const struct spp_timing_context *c, const struct spp_model_time *model,
                        const struct spp_stage_runs *runs, const struct spp_exposed *exposed,
                        double counted_layers, struct pipeline *p) {
  double slowest_s = -1, slowest_fill = 0;
  int64_t count = runs ? runs->count : c->g->pp;
  p->bubble_s = 0;
  for (int64_t i = 0; i < count; i++) {
    struct spp_stage_run run = run_at(c, runs, i);
    struct spp_stage_time t;
    count_stage(c, model, &run.stage, &t);
    double share = counted_layers > 0 ? t.layers / counted_layers : 1;
    struct stage_clock clock = run_stage(&t, exposed, share);
    double stage_s = clock.forward_s + clock.backward_s, fill = bubble_share(c->layout, stage_s, t.wgrad_s);
    for (int64_t n = 0; n < run.count; n++) /* added up as without runs: the same sum to the last bit */
      p->bubble_s += fill;
    if (stage_s <= slowest_s) continue;
    slowest_s = stage_s;
    slowest_fill = fill;
    p->slowest = run.stage;
    p->time = t;
    p->clock = clock;
    p->share = share;
  }
  p->bubble_s -= slowest_fill;
}

/* Ranks that share processors: a step takes no less than all their work, one after the other, needs. Ranks
 * that wait lend theirs, so waiting for other pipeline stages shrinks as work fills it (derived). */
static void share_processors(const struct spp_timing_context *c, struct spp_time *time) {
  int64_t here = spp_min64(spp_layout_world(c->layout), c->job->cluster->gpus_per_node);
  double processors = c->job->cluster->processors_per_node, more = (double)here / processors;
  if (processors <= 0 || more <= 1) return;
  double alone_s = time->step_s, busy_s = alone_s - time->pp_bubble_s;
  double *const parts[] = {&time->compute_s,    &time->attention_s,  &time->sp_exposed_s,
                           &time->tp_exposed_s, &time->pp_exposed_s, &time->dp_exposed_s,
                           &time->ep_exposed_s, &time->optimizer_s,  &time->offload_exposed_s,
                           &time->host_s};
  time->pp_bubble_s = time->step_s = spp_positive(alone_s - more * busy_s);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    time->step_s += *parts[i] *= more;
}

/* What communication takes from the compute beside it, of both sides, and how long the device waits for the
 * host then: kernels that take longer leave less to wait. */
static void slow_compute(const struct spp_timing_context *c, const struct spp_layers_time *l,
                         const struct spp_states_time *s, double *stolen_s, double *wait_s) {
  const double share = c->rates->stolen_share, m = (double)c->g->m;
  *stolen_s = *wait_s = 0;
  for (int side = 0; side < SPP_SIDE_COUNT; side++) {
    const double stolen = share * (l->hidden_s[side] + s->hidden_s[side]);
    *stolen_s += stolen;
    *wait_s += spp_positive(m * l->host_wait_s[side] - stolen);
  }
}

void spp_time_parts_fill(const struct spp_timing_context *c, const struct spp_layers_time *l,
                         const struct spp_states_time *s, struct spp_time *time) {
  double m = (double)c->g->m, layered = m * l->share, exposed[SPP_GROUP_COUNT], stolen_s, wait_s;
  slow_compute(c, l, s, &stolen_s, &wait_s);
  for (int group = 0; group < SPP_GROUP_COUNT; group++)
    exposed[group] = l->exposed_s[group] * (group == SPP_GROUP_PP ? m : layered) + s->step_s[group];
  time->compute_s = m * l->compute_s + stolen_s;
  time->attention_s = m * l->attention_s;
  time->sp_exposed_s = exposed[SPP_GROUP_ULYSSES] + exposed[SPP_GROUP_RING];
  time->tp_exposed_s = exposed[SPP_GROUP_TP];
  time->ep_exposed_s = exposed[SPP_GROUP_EP];
  time->pp_exposed_s = exposed[SPP_GROUP_PP];
  time->dp_exposed_s = s->step_s[SPP_GROUP_DP];
  time->pp_bubble_s = l->bubble_s;
  time->offload_exposed_s = s->offload_exposed_s;
  time->optimizer_s = s->optimizer_s;
  time->host_s = wait_s + c->job->framework->host_s_per_step;
  time->step_s = time->compute_s + time->attention_s + time->sp_exposed_s + time->tp_exposed_s +
                 time->pp_bubble_s + time->pp_exposed_s + time->dp_exposed_s + time->ep_exposed_s +
                 time->offload_exposed_s + time->optimizer_s + time->host_s;
  share_processors(c, time);
}

void spp_time_speed_fill(const struct spp_timing_context *c, struct spp_time *time) {
  double gpus = (double)spp_layout_world(c->layout), step = time->step_s;
  time->tokens_per_s = step > 0 ? (double)c->g->real_tokens / step : 0;
  time->tokens_per_s_per_gpu = time->tokens_per_s / gpus;
  time->usd_per_million_tokens =
      time->tokens_per_s_per_gpu > 0 ? c->job->usd_per_gpu_hour / 3600 / time->tokens_per_s_per_gpu * 1e6 : 0;
}

/* Time that the GPU's own rates do not set: the host's launches and Python, states that other GPUs send or
 * the host's memory takes, the host's optimizer. */
static double waits_s(const struct spp_timing_context *c, const struct spp_time *time) {
  double step_s = spp_offload_optimizer(c->layout->offload) ? time->optimizer_s : 0;
  return time->host_s + time->dp_exposed_s + time->offload_exposed_s + step_s;
}

static void fill_rates(const struct spp_timing_context *c, struct spp_time *time) {
  const struct spp_job *job = c->job;
  double gpus = (double)spp_layout_world(c->layout), step = time->step_s;
  double peak = spp_peak_flops(job->gpu, job->dtype) * gpus * step;
  time->waits_share = step > 0 ? waits_s(c, time) / step : 0;
  double waits = job->calib->spread.waits * time->waits_share;
  double spread = exp(ten_percent_tail * sqrt(job->time_sigma * job->time_sigma + waits * waits));
  time->low_s = step / spread;
  time->high_s = step * spread;
  spp_time_speed_fill(c, time);
  time->samples_per_s = step > 0 ? (double)job->global_batch / step : 0;
  spp_flops_count(job, c->layout, c->g, &time->model_flops_causal, &time->model_flops_full,
                  &time->hardware_flops);
  time->mfu_causal = peak > 0 ? time->model_flops_causal / peak : 0;
  time->mfu_full = peak > 0 ? time->model_flops_full / peak : 0;
  time->hfu = peak > 0 ? time->hardware_flops / peak : 0;
  time->tflops_per_gpu_causal = step > 0 ? time->model_flops_causal / step / gpus / 1e12 : 0;
  time->tflops_per_gpu_full = step > 0 ? time->model_flops_full / step / gpus / 1e12 : 0;
}

/* The counted stage gives the exposed communication of a layer; the walk finds the slowest stage. */
static void run_layers(const struct spp_timing_context *c, const struct spp_model_time *model,
                       const struct spp_stage_runs *runs, const struct spp_stage *counted,
                       struct spp_comm *comm, struct spp_exposed *exposed, struct pipeline *p,
                       struct spp_layers_time *layers) {
  struct spp_stage_time counted_time;
  count_stage(c, model, counted, &counted_time);
  *exposed = (struct spp_exposed){.hidden_s = {0}};
  spp_layer_exposure_count(c, &counted_time, comm, exposed);
  struct stage_clock clock = run_stage(&counted_time, exposed, 1);
  walk_stages(c, model, runs, exposed, (double)counted->layers, p);
  *layers = (struct spp_layers_time){.forward_s = p->clock.forward_s,
                                     .backward_s = p->clock.backward_s,
                                     .host_wait_s = {p->clock.host_wait_s[0], p->clock.host_wait_s[1]},
                                     .share = p->share,
                                     .bubble_s = p->bubble_s,
                                     .hidden_s = {exposed->hidden_s[0], exposed->hidden_s[1]},
                                     .counted_layers = (double)counted->layers,
                                     .counted_forward_s = clock.forward_s,
                                     .counted_backward_s = clock.backward_s,
                                     .slowest = p->slowest.index};
  for (int pass = 0; pass < SPP_PASS_STEP; pass++) {
    layers->compute_s += p->time.pass[pass].gemm_s + p->time.pass[pass].memory_s;
    layers->attention_s += p->time.pass[pass].attention_s;
    for (int group = 0; group < SPP_GROUP_COUNT; group++)
      layers->exposed_s[group] += exposed->pass_s[pass][group];
  }
}

void spp_layers_time_count(const struct spp_timing_context *c, const struct spp_model_time *model,
                           const struct spp_stage_runs *runs, const struct spp_stage *counted,
                           struct spp_comm *comm, struct spp_layers_time *layers) {
  struct spp_exposed exposed;
  struct pipeline pipeline;
  run_layers(c, model, runs, counted, comm, &exposed, &pipeline, layers);
}

static void run_states(const struct spp_timing_context *c, const struct spp_layers_time *layers,
                       struct spp_comm *comm, struct spp_states_time *states) {
  struct spp_exposed exposed = {.hidden_s = {0}};
  struct spp_stage stage;
  spp_state_exposure_count(c, layers->counted_forward_s, layers->counted_backward_s, layers->counted_layers,
                           comm, &exposed);
  memcpy(states->step_s, exposed.step_s, sizeof states->step_s);
  memcpy(states->hidden_s, exposed.hidden_s, sizeof states->hidden_s);
  states->optimizer_s = 0;
  for (int64_t i = 0; i < c->g->pp; i++) {
    spp_stage_resolve(c->job, c->layout, c->g, i, &stage);
    states->optimizer_s = spp_most(states->optimizer_s, spp_optimizer_s(c, &stage));
  }
  spp_stage_resolve(c->job, c->layout, c->g, layers->slowest, &stage);
  struct spp_states_beside beside;
  spp_states_beside_count(c, comm, &beside);
  states->offload_exposed_s = spp_offload_exposed_s(c, &stage, layers, &beside);
}

void spp_timing_predict(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_geometry *geometry, struct spp_comm *comm, struct spp_time *time) {
  struct spp_kernel_rates rates;
  spp_timing_rates(job, &rates);
  struct spp_timing_context c = spp_timing_context_make(job, layout, geometry, &rates);
  struct spp_model_time model;
  struct spp_layers_time layers;
  struct spp_states_time states;
  struct spp_stage counted;
  spp_model_time_count(&c, &model);
  spp_stage_busiest(job, layout, geometry, &counted);
  spp_comm_time_count(&c, (double)counted.layers, comm);
  spp_layers_time_count(&c, &model, NULL, &counted, comm, &layers);
  run_states(&c, &layers, comm, &states);
  spp_time_parts_fill(&c, &layers, &states, time);
  fill_rates(&c, time);
}

void spp_timing_shape(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *geometry, struct spp_time_shape *shape) {
  struct spp_kernel_rates rates;
  spp_timing_rates(job, &rates);
  struct spp_timing_context c = spp_timing_context_make(job, layout, geometry, &rates);
  struct spp_exposed exposed;
  struct pipeline pipeline;
  struct spp_model_time model;
  struct spp_layers_time layers;
  struct spp_stage counted;
  struct spp_comm comm;
  spp_comm_predict(job, layout, geometry, &comm);
  spp_model_time_count(&c, &model);
  spp_stage_busiest(job, layout, geometry, &counted);
  spp_comm_time_count(&c, (double)counted.layers, &comm);
  run_layers(&c, &model, NULL, &counted, &comm, &exposed, &pipeline, &layers);
  *shape = (struct spp_time_shape){.stage = pipeline.slowest.index,
                                   .layers = pipeline.time.layers,
                                   .share = pipeline.share,
                                   .wgrad_s = pipeline.time.wgrad_s};
  for (int pass = 0; pass < SPP_PASS_STEP; pass++) {
    shape->compute_s[pass] = pipeline.time.pass[pass].gemm_s + pipeline.time.pass[pass].memory_s;
    shape->attention_s[pass] = pipeline.time.pass[pass].attention_s;
  }
  shape->host_wait_s[SPP_PASS_FORWARD] = pipeline.clock.host_wait_s[SPP_SIDE_FORWARD];
  shape->host_wait_s[SPP_PASS_BACKWARD] = pipeline.clock.host_wait_s[SPP_SIDE_BACKWARD];
}
