/* Time of every collective of a step, and what of it compute does not hide.
 * A ring hop runs beside one attention step; tensor-parallel and expert exchanges beside matrix products;
 * sharded states beside the forward or backward of the neighbouring layers. Windows are summed over a pass,
 * which for equal layers and steps is the step-by-step max(compute, communication). */
#include "model/collective.h"
#include "model/timing_internal.h"

/* Share of a pass's matrix products that an exchange can hide under: pieces of a product overlap with the
 * pieces of its own collective (NVIDIA/TransformerEngine userbuffers), so the first piece of each stays bare.
 * Assumption. */
static const double gemm_window_share = 0.8;
/* DeepSpeed overlaps the exchange of one of q, k, v with the projection of the next: 2 of the 3 projections'
 * exchanges. */
static const double ulysses_window_share = 2.0 / 3;

static int64_t ring_hops(const struct spp_timing_context *c, const struct spp_comm_op *op) {
  int64_t per_hop = c->job->ring_impl == SPP_RING_TE ? 1 : 2;
  return spp_max64(1, op->messages / per_hop);
}

/* On a hop every rank sends and receives at once. On a switch each pair has its own links; over PCIe they
 * share host bridges and memory, and a hop runs at the rate of an all-gather, whose steps are the same
 * exchanges, not at that of a lone pair. */
static enum spp_collective hop_kind(const struct spp_job *job, const struct spp_comm_op *op) {
  struct spp_placement p;
  spp_placement_resolve(job->gpu, job->cluster, op->ranks, op->stride, &p);
  return p.domains <= 1 && !p.fast ? SPP_ALL_GATHER : SPP_SEND_RECV;
}

/* Frameworks cut the states into pieces: one layer at a time when weights are sharded, by unit where
 * gradients are (PyTorch FSDP), buckets of gradients otherwise. */
static double state_pieces(const struct spp_timing_context *c, const struct spp_comm_op *op, double layers) {
  const struct spp_framework *f = c->job->framework;
  double elements = (double)op->message_bytes / (double)c->g->element_bytes;
  if (f->states[c->layout->zero].shard_weights) return layers + 1;
  if (op->messages > 1) return (double)op->messages;
  if (f->reduce_bucket_elements <= 0) return 1;
  return spp_most(1, elements / (double)f->reduce_bucket_elements);
}

/* Adapters that are units of their own travel one by one: next to no bytes, but each its latency. */
static double small_units_s(const struct spp_timing_context *c, const struct spp_comm_op *op, double layers) {
  const struct spp_job *job = c->job;
  double units = 0, all = 0;
  if (!job->framework->adapters_are_units || !spp_job_has_adapters(job) ||
      !job->framework->states[c->layout->zero].shard_weights)
    return 0;
  for (int k = 0; k < job->arch->kind_count; k++) {
    double count = (double)job->arch->kinds[k].count;
    units += count * (spp_fsdp_units(job, &job->sums.kinds[k]) - 1);
    all += count;
  }
  double bytes = (double)(job->lora_rank * job->arch->hidden * c->g->element_bytes);
  double each = bytes * (double)(op->ranks - 1) / (double)op->ranks;
  return all > 0
             ? layers * units / all *
                   spp_collective_s(job->gpu, job->cluster, job->calib, op->op, op->ranks, op->stride, each)
             : 0;
}

double spp_comm_event_s(const struct spp_timing_context *c, const struct spp_comm_op *op, double layers) {
  const struct spp_job *job = c->job;
  double pieces = 1;
  enum spp_collective kind = op->op;
  if (op->group == SPP_GROUP_RING && op->op == SPP_SEND_RECV) {
    pieces = (double)ring_hops(c, op);
    kind = hop_kind(job, op);
  }
  if (op->group == SPP_GROUP_DP) pieces = state_pieces(c, op, layers);
  if (op->group == SPP_GROUP_EP && op->op == SPP_ALL_TO_ALL && job->framework->ep_sends_once_per_node)
    return spp_relayed_exchange_s(job->gpu, job->cluster, job->calib, op->ranks, op->stride,
                                  (double)op->sent_bytes, (double)job->arch->experts_per_token);
  double small = op->group == SPP_GROUP_DP ? small_units_s(c, op, layers) : 0;
  return small + pieces * spp_collective_s(job->gpu, job->cluster, job->calib, kind, op->ranks, op->stride,
                                           (double)op->sent_bytes / pieces);
}

static bool equal_events(const struct spp_comm_op *a, const struct spp_comm_op *b) {
  return a->op == b->op && a->group == b->group && a->ranks == b->ranks && a->stride == b->stride &&
         a->sent_bytes == b->sent_bytes && a->messages == b->messages && a->message_bytes == b->message_bytes;
}

/* Passes repeat each other's exchanges, and attention's are the MLP's: what is known is not counted again. */
void spp_comm_time_count(const struct spp_timing_context *c, double layers, struct spp_comm *comm) {
  double event_s[SPP_COMM_MAX];
  for (int i = 0; i < comm->count; i++) {
    struct spp_comm_op *op = &comm->ops[i];
    int like = i - 1;
    while (like >= 0 && !equal_events(&comm->ops[like], op))
      like--;
    event_s[i] = like >= 0 ? event_s[like] : spp_comm_event_s(c, op, layers);
    op->time_s = event_s[i] * (double)op->count_per_step;
    op->exposed_s = op->time_s;
  }
}

static bool inside_layers(const struct spp_comm_op *op) {
  return op->pass != SPP_PASS_STEP && op->group != SPP_GROUP_DP;
}

/* Compute of one micro-batch's pass that ops of a group may hide under. */
static double window_s(const struct spp_timing_context *c, const struct spp_stage_time *stage,
                       enum spp_pass pass, enum spp_group group) {
  const struct spp_pass_time *t = &stage->pass[pass];
  const struct spp_params *p = &c->job->params;
  double sr = (double)c->g->sr, attention, mlp;
  switch (group) {
  case SPP_GROUP_RING: /* sr - 1 hops run beside sr - 1 of the sr steps; TE's backward sends in every step */
    return t->attention_s *
           (c->job->ring_impl == SPP_RING_TE && pass == SPP_PASS_BACKWARD ? 1 : (sr - 1) / sr);
  case SPP_GROUP_ULYSSES:
    attention = (double)p->per_layer_attention;
    mlp = (double)spp_max64(p->per_dense_mlp, p->per_moe_mlp_active);
    return t->gemm_s * ulysses_window_share * attention / (attention + mlp + 1);
  case SPP_GROUP_EP:
    if (spp_job_runs_te(c->job)) return spp_pass_sum(t); /* of the other micro-batch */
    return t->gemm_s * gemm_window_share;
  case SPP_GROUP_TP: return t->gemm_s * gemm_window_share;
  case SPP_GROUP_PP: return spp_pass_sum(t);
  case SPP_GROUP_DP:
  case SPP_GROUP_COUNT: break;
  }
  return 0;
}

/* The last gradient hop of zhuzilin's and ms-swift's backward has no step left to hide under. */
static double bare_share(const struct spp_timing_context *c, const struct spp_comm_op *op) {
  if (op->overlap == SPP_OVERLAP_NONE) return 1;
  if (op->group != SPP_GROUP_RING || op->op != SPP_SEND_RECV || c->job->ring_impl == SPP_RING_TE) return 0;
  int64_t hops = ring_hops(c, op);
  return hops >= c->g->sr ? 1.0 / (double)hops : 0;
}

void spp_layer_exposure_count(const struct spp_timing_context *c, const struct spp_stage_time *stage,
                              struct spp_comm *comm, struct spp_exposed *exposed) {
  double m = (double)c->g->m, hideable[SPP_PASS_STEP][SPP_GROUP_COUNT] = {{0}},
         kept[SPP_PASS_STEP][SPP_GROUP_COUNT], hidden_s[SPP_PASS_STEP] = {0};
  for (int i = 0; i < comm->count; i++) {
    struct spp_comm_op *op = &comm->ops[i];
    if (inside_layers(op)) hideable[op->pass][op->group] += op->time_s * (1 - bare_share(c, op)) / m;
  }
  for (int pass = 0; pass < SPP_PASS_STEP; pass++)
    for (int group = 0; group < SPP_GROUP_COUNT; group++) { /* kept: the share that stays exposed */
      double all = hideable[pass][group];
      kept[pass][group] =
          all > 0 ? spp_positive(1 - window_s(c, stage, (enum spp_pass)pass, (enum spp_group)group) / all)
                  : 0;
    }
  for (int i = 0; i < comm->count; i++) {
    struct spp_comm_op *op = &comm->ops[i];
    if (!inside_layers(op)) continue;
    double bare = bare_share(c, op);
    if (op->group == SPP_GROUP_TP) bare = spp_most(bare, c->job->framework->tp_exposed_share);
    op->exposed_s = op->time_s * (bare + (1 - bare) * kept[op->pass][op->group]);
    exposed->pass_s[op->pass][op->group] += op->exposed_s / m;
    hidden_s[op->pass] += op->time_s - op->exposed_s;
  }
  exposed->hidden_s[SPP_SIDE_FORWARD] = hidden_s[SPP_PASS_FORWARD];
  exposed->hidden_s[SPP_SIDE_BACKWARD] = hidden_s[SPP_PASS_RECOMPUTE] + hidden_s[SPP_PASS_BACKWARD];
}

/* FSDP2 splits each gathered buffer into parameters and lays gradients out for the scatter: 16-bit weights
 * read and written per gather, gradients read in 16 bits and written in the reduce type (pytorch/pytorch
 * torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py all_gather_copy_out, chunk_cat). */
static double copies_s(const struct spp_timing_context *c, const struct spp_comm_op *op) {
  double bytes = (double)op->message_bytes * (double)op->count_per_step;
  if (!c->job->framework->copies_gathered || op->group != SPP_GROUP_DP) return 0;
  if (op->op == SPP_ALL_GATHER) return spp_memory_s(c->rates, SPP_MEMORY_STREAM, 2 * bytes);
  return op->op == SPP_REDUCE_SCATTER ? spp_memory_s(c->rates, SPP_MEMORY_STREAM, 1.5 * bytes) : 0;
}

/* Sharded states hide under the layers of one pass: of every micro-batch, or of the one beside the step. All
 * but the first (forward) or last (backward) layer has a neighbour to hide under. */
void spp_state_exposure_count(const struct spp_timing_context *c, double forward_s, double backward_s,
                              double layers, struct spp_comm *comm, struct spp_exposed *exposed) {
  double hideable[2] = {0, 0}, windows[2] = {0, 0}, kept[2], pass_s[2] = {forward_s, backward_s};
  double least_exposed = c->job->framework->state_exposed_share;
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    int side = op->overlap == SPP_OVERLAP_BACKWARD;
    if (inside_layers(op) || op->overlap == SPP_OVERLAP_NONE) continue;
    double times = op->per == SPP_PER_STEP ? 1 : (double)c->g->m;
    hideable[side] += op->time_s;
    windows[side] = spp_most(windows[side], times * pass_s[side] * (layers - 1) / spp_most(1, layers));
  }
  for (int side = 0; side < 2; side++)
    kept[side] = hideable[side] > 0 ? spp_positive(1 - windows[side] / hideable[side]) : 0;
  for (int i = 0; i < comm->count; i++) {
    struct spp_comm_op *op = &comm->ops[i];
    if (inside_layers(op)) continue;
    if (op->overlap != SPP_OVERLAP_NONE)
      op->exposed_s = op->time_s * spp_most(least_exposed, kept[op->overlap == SPP_OVERLAP_BACKWARD]);
    exposed->hidden_s[op->overlap == SPP_OVERLAP_BACKWARD ? SPP_SIDE_BACKWARD : SPP_SIDE_FORWARD] +=
        op->time_s - op->exposed_s;
    double copies = copies_s(c, op);
    op->time_s += copies;
    op->exposed_s += copies;
    exposed->step_s[op->group] += op->exposed_s;
  }
}

/* Time that exchanges add to the passes: to what layer inputs, which have a stream of their own, hide under.
 */
static void add_exposed(const struct spp_comm *comm, double times, struct spp_states_beside *beside) {
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    const bool bare = op->overlap == SPP_OVERLAP_NONE;
    if (inside_layers(op) || (bare && op->pass == SPP_PASS_STEP)) continue; /* after the passes */
    const int side = bare ? op->pass != SPP_PASS_FORWARD : op->overlap == SPP_OVERLAP_BACKWARD;
    const double exposed_s = op->per == SPP_PER_STEP ? op->exposed_s : op->exposed_s / times;
    beside->last_exposed_s[side] += exposed_s;
    if (op->per != SPP_PER_STEP || times <= 1) beside->exposed_s[side] += exposed_s;
  }
}

void spp_states_beside_count(const struct spp_timing_context *c, const struct spp_comm *comm,
                             struct spp_states_beside *beside) {
  const double times = (double)c->g->m;
  double hidden_s[2][SPP_SIDE_COUNT] = {{0}}; /* [1]: once a step */
  *beside = (struct spp_states_beside){{0}, {0}, {0}, {0}};
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    if (op->overlap == SPP_OVERLAP_NONE || inside_layers(op)) continue;
    hidden_s[op->per == SPP_PER_STEP][op->overlap == SPP_OVERLAP_BACKWARD] += op->time_s - op->exposed_s;
  }
  for (int side = 0; side < SPP_SIDE_COUNT; side++) {
    beside->hidden_s[side] = hidden_s[0][side] / times + (times <= 1 ? hidden_s[1][side] : 0);
    beside->last_hidden_s[side] = hidden_s[0][side] / times + hidden_s[1][side];
  }
  if (spp_offload_activations(c->layout->offload)) add_exposed(comm, times, beside);
}
