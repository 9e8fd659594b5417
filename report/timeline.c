#include "report/timeline.h"

#include <math.h>
#include <stdlib.h>

const char *spp_lane_name(enum spp_lane lane) {
  static const char *const names[SPP_LANE_COUNT] = {
      [SPP_LANE_SCHEDULE] = "schedule",
      [SPP_LANE_COMPUTE] = "compute",
      [SPP_LANE_ATTENTION] = "attention",
      [SPP_LANE_COMM + SPP_GROUP_ULYSSES] = "Ulysses",
      [SPP_LANE_COMM + SPP_GROUP_RING] = "ring",
      [SPP_LANE_COMM + SPP_GROUP_TP] = "tensor parallel",
      [SPP_LANE_COMM + SPP_GROUP_PP] = "pipeline",
      [SPP_LANE_COMM + SPP_GROUP_DP] = "data parallel, sharding",
      [SPP_LANE_COMM + SPP_GROUP_EP] = "expert parallel",
      [SPP_LANE_OFFLOAD] = "offload",
      [SPP_LANE_OPTIMIZER] = "optimizer",
      [SPP_LANE_HOST] = "waiting for the host",
  };
  return names[lane];
}

/* ---- what one layer's share of a pass holds ---- */

struct pass {
  double compute_s, attention_s, host_s;
  double exposed_s[SPP_GROUP_COUNT];
};
struct builder {
  const struct spp_job *job;
  const struct spp_comm *comm;
  const struct spp_geometry *g;
  const struct spp_time *time;
  struct spp_time_shape shape;
  struct pass pass[SPP_PASS_STEP]; /* one micro-batch of the slowest stage */
  double weights_s;                /* weight gradients, where they are apart from the backward pass */
  struct spp_timeline *timeline;
  bool failed;
  /* of the task being drawn */
  int process;
  const struct spp_task *task;
  double scale;                        /* of every duration: speed of the stage, share of the chunk */
  double cursor_s[SPP_GROUP_COUNT];    /* where each lane is free */
  double remaining_s[SPP_GROUP_COUNT]; /* still to be placed on it before the task ends */
};

static void add(struct builder *b, struct spp_slice slice) {
  struct spp_timeline *t = b->timeline;
  if (!(slice.dur_s > 0) || b->failed) return;
  if (t->count == t->capacity) {
    int64_t capacity = t->capacity ? 2 * t->capacity : 1024;
    struct spp_slice *grown = realloc(t->slices, (size_t)capacity * sizeof *grown);
    if (!grown) {
      b->failed = true;
      return;
    }
    t->slices = grown;
    t->capacity = capacity;
  }
  slice.process = b->process;
  t->slices[t->count++] = slice;
}

/* Sent inside the passes of every micro-batch, not once at the end of the step. */
static bool in_passes(const struct builder *b, const struct spp_comm_op *op) {
  return op->pass != SPP_PASS_STEP && (op->per != SPP_PER_STEP || b->g->m == 1);
}
/* The communication of layers is that of the stage it was counted for; sharded states and sends are not
 * scaled. */
static double share_of(const struct builder *b, const struct spp_comm_op *op) {
  return op->pass == SPP_PASS_STEP || op->group == SPP_GROUP_DP || op->group == SPP_GROUP_PP ? 1
                                                                                             : b->shape.share;
}
/* Of one micro-batch. Copies out of gathered buffers can make the exposed time the longer one. */
static double busy_s(const struct builder *b, const struct spp_comm_op *op) {
  return fmax(op->time_s, op->exposed_s) * share_of(b, op) / (double)b->g->m;
}
static bool is_hops(const struct spp_comm_op *op) {
  return op->group == SPP_GROUP_RING && op->op == SPP_SEND_RECV;
}

/* The part compute_s holds what communication slows down too: spread over the passes as they compute. As much
 * is no longer waited for the host. */
static void count_passes(struct builder *b) {
  double m = (double)b->g->m, all = 0, waits = 0;
  for (int p = 0; p < SPP_PASS_STEP; p++) {
    all += b->shape.compute_s[p];
    waits += m * b->shape.host_wait_s[p];
  }
  double waited =
      waits > 0 ? fmin(1, fmax(0, b->time->host_s - b->job->framework->host_s_per_step) / waits) : 0;
  for (int p = 0; p < SPP_PASS_STEP; p++)
    b->pass[p] =
        (struct pass){.compute_s = all > 0 ? b->shape.compute_s[p] / all * b->time->compute_s / m : 0,
                      .attention_s = b->shape.attention_s[p],
                      .host_s = waited * b->shape.host_wait_s[p]};
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (in_passes(b, op)) b->pass[op->pass].exposed_s[op->group] += op->exposed_s * share_of(b, op) / m;
  }
}
/* A zero-bubble schedule runs them on their own. */
static void part_weights(struct builder *b) {
  struct pass *backward = &b->pass[SPP_PASS_BACKWARD];
  double all = b->shape.compute_s[SPP_PASS_BACKWARD];
  b->weights_s = all > 0 ? backward->compute_s * b->shape.wgrad_s / all : 0;
  backward->compute_s -= b->weights_s;
}
static double pass_s(const struct pass *p) {
  double sum = p->compute_s + p->attention_s + p->host_s;
  for (int g = 0; g < SPP_GROUP_COUNT; g++)
    sum += p->exposed_s[g];
  return sum;
}

/* ---- one layer's share of one pass ---- */

struct segment {
  enum spp_pass pass;
  int64_t layer; /* -1: all layers at once */
  double part;   /* of the pass: 1 / layers */
  bool sends;    /* the pipeline's sends come after it */
};

/* A ring's attention goes block by block, each beside a hop. */
static int blocks_of(const struct builder *b, enum spp_pass pass) {
  for (int i = 0; i < b->comm->count; i++)
    if (is_hops(&b->comm->ops[i]) && b->comm->ops[i].pass == pass)
      return (int)spp_min64(spp_max64(b->g->sr, 1), 64);
  return 1;
}

static const char *const pass_words[SPP_PASS_STEP] = {"forward", "recompute", "backward"};

static double add_work(struct builder *b, const struct segment *s, enum spp_lane lane, double at_s,
                       double dur_s, int piece, int pieces) {
  add(b, (struct spp_slice){.lane = lane,
                            .what = pass_words[s->pass],
                            .micro_batch = b->task->micro_batch,
                            .layer = s->layer,
                            .piece = piece,
                            .pieces = pieces,
                            .start_s = at_s,
                            .dur_s = dur_s});
  return at_s + dur_s;
}

/* Blocks with what the hops leave exposed between them. */
static double add_attention(struct builder *b, const struct segment *s, double at_s, double attention_s,
                            double exposed_s) {
  int blocks = blocks_of(b, s->pass);
  if (blocks == 1) at_s += exposed_s; /* a gather comes first */
  for (int i = 0; i < blocks; i++) {
    at_s = add_work(b, s, SPP_LANE_ATTENTION, at_s, attention_s / blocks, i, blocks > 1 ? blocks : 0);
    if (blocks > 1 && i < blocks - 1) at_s += exposed_s / (blocks - 1);
  }
  return at_s;
}

static double part_of(const struct segment *s, enum spp_group group) {
  return group == SPP_GROUP_PP ? s->sends : s->part;
}

/* One slice: where it belongs, but not before its lane is free and not so late that the rest does not fit. */
static void place(struct builder *b, const struct segment *s, const struct spp_comm_op *op, double ideal_s,
                  double dur_s, double exposed_s, int piece, int pieces) {
  double latest_s = b->task->end_s - b->remaining_s[op->group];
  double start_s = fmax(fmax(b->cursor_s[op->group], b->task->start_s), fmin(ideal_s, latest_s));
  add(b, (struct spp_slice){.lane = SPP_LANE_COMM + (enum spp_lane)op->group,
                            .what = op->what,
                            .micro_batch = b->task->micro_batch,
                            .layer = s->layer,
                            .piece = piece,
                            .pieces = pieces,
                            .start_s = start_s,
                            .dur_s = dur_s,
                            .exposed_s = exposed_s});
  b->cursor_s[op->group] = start_s + dur_s;
  b->remaining_s[op->group] -= dur_s;
}

/* One op in its hops, spread over the attention's time. */
static void place_hops(struct builder *b, const struct segment *s, const struct spp_comm_op *op,
                       double from_s, double to_s, double dur_s, double exposed_s) {
  int64_t per_hop = b->job->ring_impl == SPP_RING_TE ? 1 : 2;
  int hops = (int)spp_min64(spp_max64(1, op->messages / per_hop), 64), blocks = blocks_of(b, s->pass);
  int slots = hops > blocks ? hops : blocks;
  for (int i = 0; i < hops; i++)
    place(b, s, op, from_s + (to_s - from_s) * i / slots, dur_s / hops, exposed_s / hops, i, hops);
}

/* The ops of a group in this segment; they end with the group's exposed time, at `end_s`. */
static void place_group(struct builder *b, const struct segment *s, enum spp_group group, double from_s,
                        double end_s) {
  double factor = b->scale * part_of(s, group), sum_s = 0, at_s;
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (op->group == group && op->pass == s->pass && in_passes(b, op)) sum_s += busy_s(b, op) * factor;
  }
  at_s = end_s - sum_s;
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (op->group != group || op->pass != s->pass || !in_passes(b, op)) continue;
    double dur_s = busy_s(b, op) * factor;
    double exposed_s = op->exposed_s * share_of(b, op) / (double)b->g->m * factor;
    if (is_hops(op))
      place_hops(b, s, op, from_s, end_s, dur_s, exposed_s);
    else
      place(b, s, op, at_s, dur_s, exposed_s, 0, 0);
    at_s += dur_s;
  }
}

/* In their order on the clock; each lets its group's exposed time pass. */
static double add_segment(struct builder *b, const struct segment *s, double at_s) {
  static const enum spp_group after[] = {SPP_GROUP_TP, SPP_GROUP_EP, SPP_GROUP_DP, SPP_GROUP_PP};
  const struct pass *p = &b->pass[s->pass];
  double factor = b->scale * s->part, from_s = at_s;
  at_s += p->exposed_s[SPP_GROUP_ULYSSES] * factor;
  place_group(b, s, SPP_GROUP_ULYSSES, from_s, at_s);
  from_s = at_s;
  at_s = add_attention(b, s, at_s, p->attention_s * factor, p->exposed_s[SPP_GROUP_RING] * factor);
  place_group(b, s, SPP_GROUP_RING, from_s, at_s);
  at_s = add_work(b, s, SPP_LANE_COMPUTE, at_s, p->compute_s * factor, 0, 0);
  at_s = add_work(b, s, SPP_LANE_HOST, at_s, p->host_s * factor, 0, 0);
  for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
    from_s = at_s;
    at_s += p->exposed_s[after[i]] * b->scale * part_of(s, after[i]);
    place_group(b, s, after[i], from_s, at_s);
  }
  return at_s;
}

/* ---- one pass of a micro-batch through a chunk ---- */

static bool belongs(const struct builder *b, const struct spp_comm_op *op) {
  return in_passes(b, op) && (op->pass == SPP_PASS_FORWARD) != b->task->backward;
}

static void begin_task(struct builder *b, const struct spp_task *task, double scale) {
  b->task = task;
  b->scale = scale;
  for (int g = 0; g < SPP_GROUP_COUNT; g++)
    b->remaining_s[g] = 0;
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (belongs(b, op)) b->remaining_s[op->group] += busy_s(b, op) * scale;
  }
}

static void add_weights(struct builder *b, const struct spp_task *task) {
  static const enum spp_lane lanes[] = {SPP_LANE_SCHEDULE, SPP_LANE_COMPUTE};
  for (int i = 0; i < 2; i++)
    add(b, (struct spp_slice){.lane = lanes[i],
                              .what = "weight gradients",
                              .micro_batch = task->micro_batch,
                              .layer = -1,
                              .start_s = task->start_s,
                              .dur_s = task->end_s - task->start_s});
}

static void add_task(struct builder *b, const struct spp_task *task, double scale, int64_t layers) {
  double at_s = task->start_s;
  if (task->weights) {
    add_weights(b, task);
    return;
  }
  begin_task(b, task, scale);
  add(b, (struct spp_slice){.lane = SPP_LANE_SCHEDULE,
                            .what = task->backward ? "backward" : "forward",
                            .micro_batch = task->micro_batch,
                            .layer = -1,
                            .piece = (int)task->chunk,
                            .start_s = task->start_s,
                            .dur_s = task->end_s - task->start_s});
  for (int64_t i = 0; i < layers; i++) {
    struct segment s = {.pass = SPP_PASS_FORWARD,
                        .layer = layers == 1      ? -1
                                 : task->backward ? layers - 1 - i
                                                  : i,
                        .part = 1 / (double)layers,
                        .sends = i == layers - 1};
    if (!task->backward) {
      at_s = add_segment(b, &s, at_s);
      continue;
    }
    s.pass = SPP_PASS_RECOMPUTE;
    at_s = add_segment(b, &s, at_s);
    s.pass = SPP_PASS_BACKWARD;
    at_s = add_segment(b, &s, at_s);
  }
}

static void add_bubble(struct builder *b, double from_s, double to_s) {
  if (to_s - from_s <= 1e-9 * b->time->step_s) return; /* rounding */
  add(b, (struct spp_slice){.lane = SPP_LANE_SCHEDULE,
                            .what = "bubble",
                            .micro_batch = -1,
                            .layer = -1,
                            .start_s = from_s,
                            .dur_s = to_s - from_s});
}

/* ---- what happens once a step ---- */

static double add_once(struct builder *b, enum spp_lane lane, const char *what, double at_s, double dur_s) {
  add(b, (struct spp_slice){
             .lane = lane, .what = what, .micro_batch = -1, .layer = -1, .start_s = at_s, .dur_s = dur_s});
  return at_s + dur_s;
}

static bool before_passes(const struct builder *b, const struct spp_comm_op *op) {
  return !in_passes(b, op) && op->overlap == SPP_OVERLAP_FORWARD;
}
static bool after_passes(const struct builder *b, const struct spp_comm_op *op) {
  return !in_passes(b, op) && op->overlap != SPP_OVERLAP_FORWARD;
}

static void add_step_op(struct builder *b, const struct spp_comm_op *op, double ideal_s) {
  double dur_s = fmax(op->time_s, op->exposed_s);
  double start_s = fmax(b->cursor_s[op->group], fmin(ideal_s, b->time->step_s - dur_s));
  add(b, (struct spp_slice){.lane = SPP_LANE_COMM + (enum spp_lane)op->group,
                            .what = op->what,
                            .micro_batch = -1,
                            .layer = -1,
                            .start_s = start_s,
                            .dur_s = dur_s,
                            .exposed_s = op->exposed_s});
  b->cursor_s[op->group] = start_s + dur_s;
}

/* Gathers of the step: what the first forward cannot hide comes before it. Returns when that may begin. */
static double add_beginning(struct builder *b) {
  double at_s = 0;
  for (int i = 0; i < b->comm->count; i++) {
    if (!before_passes(b, &b->comm->ops[i])) continue;
    add_step_op(b, &b->comm->ops[i], at_s);
    at_s += b->comm->ops[i].exposed_s;
  }
  return at_s;
}

/* Reductions of the step run under the last backward and show the rest after it. */
static double add_reductions(struct builder *b, double at_s) {
  double hidden_s[SPP_GROUP_COUNT] = {0};
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (after_passes(b, op)) hidden_s[op->group] += fmax(0, op->time_s - op->exposed_s);
  }
  for (int i = 0; i < b->comm->count; i++) {
    const struct spp_comm_op *op = &b->comm->ops[i];
    if (!after_passes(b, op)) continue;
    add_step_op(b, op, at_s - hidden_s[op->group]);
    hidden_s[op->group] -= fmax(0, op->time_s - op->exposed_s);
    at_s += op->exposed_s;
  }
  return at_s;
}

static void add_end(struct builder *b, double at_s) {
  const struct spp_time *t = b->time;
  double waits_s = 0;
  for (int p = 0; p < SPP_PASS_STEP; p++)
    waits_s += (double)b->g->m * b->pass[p].host_s;
  at_s = add_reductions(b, at_s);
  at_s = add_once(b, SPP_LANE_OFFLOAD, "host copies", at_s, t->offload_exposed_s);
  at_s = add_once(b, SPP_LANE_OPTIMIZER, "optimizer step", at_s, t->optimizer_s);
  add_once(b, SPP_LANE_HOST, "Python between steps", at_s, fmax(0, t->host_s - waits_s));
}

/* ---- the step ---- */

static void add_process(struct builder *b, const struct spp_pipeline_run *schedule, int64_t layered) {
  const struct spp_pipeline *p = &schedule->pipeline;
  int64_t stage = b->timeline->process_stage[b->process], chunk_layers;
  double speed = stage == p->slowest ? 1 : schedule->speed, begin_s, at_s;
  chunk_layers = spp_max64(1, (int64_t)lround(b->shape.layers / (double)p->chunks));
  for (int g = 0; g < SPP_GROUP_COUNT; g++)
    b->cursor_s[g] = 0;
  at_s = begin_s = add_beginning(b);
  for (int64_t i = 0; i < schedule->per_stage; i++) {
    struct spp_task task = schedule->tasks[stage * schedule->per_stage + i];
    task.start_s += begin_s;
    task.end_s += begin_s;
    add_bubble(b, at_s, task.start_s);
    add_task(b, &task, speed / (double)p->chunks, task.micro_batch < layered ? chunk_layers : 1);
    at_s = task.end_s;
  }
  add_bubble(b, at_s, begin_s + schedule->length_s);
  add_end(b, begin_s + schedule->length_s);
}

static void choose_processes(struct spp_timeline *t, int64_t pp, int64_t slowest) {
  const int64_t wanted[] = {0, pp / 2, slowest, pp - 1};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    int at = 0, after;
    while (at < t->process_count && t->process_stage[at] < wanted[i])
      at++;
    if (at < t->process_count && t->process_stage[at] == wanted[i]) continue;
    for (after = t->process_count++; after > at; after--)
      t->process_stage[after] = t->process_stage[after - 1];
    t->process_stage[at] = wanted[i];
  }
  for (int i = 0; i < t->process_count; i++)
    if (t->process_stage[i] == slowest) t->slowest = i;
}

static enum spp_order order_of(const struct spp_layout *layout) {
  if (layout->schedule == SPP_SCHEDULE_GPIPE) return SPP_ORDER_GPIPE;
  if (layout->pp > 1 && layout->vpp <= 1 && layout->schedule == SPP_SCHEDULE_ZB_H1) return SPP_ORDER_ZB_H1;
  if (layout->pp > 1 && layout->vpp <= 1 && layout->schedule == SPP_SCHEDULE_ZB_H2) return SPP_ORDER_ZB_H2;
  return layout->vpp > 1 ? SPP_ORDER_INTERLEAVED : SPP_ORDER_1F1B;
}

/* Micro-batches that can be drawn layer by layer with at most about `most` slices. */
static int64_t layered_of(const struct builder *b, int64_t most) {
  int64_t each = 4;
  for (int i = 0; i < b->comm->count; i++)
    if (in_passes(b, &b->comm->ops[i])) each += is_hops(&b->comm->ops[i]) ? 2 * b->g->sr : 1;
  int64_t one = spp_sat_mul(spp_sat_mul(each, (int64_t)b->shape.layers + 1), b->timeline->process_count);
  return spp_min64(most / spp_max64(one, 1), b->g->m);
}

enum spp_status spp_timeline_build(const struct spp_job *job, const struct spp_layout *layout,
                                   const struct spp_prediction *prediction, int64_t most,
                                   struct spp_timeline *timeline, struct spp_diag *diag) {
  const struct spp_geometry *g = &prediction->geometry;
  struct spp_timeline t = {.length_s = prediction->time.step_s, .stages = g->pp};
  struct spp_pipeline_run schedule;
  struct builder b = {
      .job = job, .comm = &prediction->comm, .g = g, .time = &prediction->time, .timeline = &t};
  spp_timing_shape(job, layout, g, &b.shape);
  count_passes(&b);
  enum spp_order order = order_of(layout);
  if (order == SPP_ORDER_ZB_H1 || order == SPP_ORDER_ZB_H2) part_weights(&b);
  struct spp_pipeline pipeline = {.order = order,
                                  .pp = g->pp,
                                  .chunks = spp_max64(1, layout->vpp),
                                  .m = g->m,
                                  .slowest = b.shape.stage,
                                  .forward_s = pass_s(&b.pass[SPP_PASS_FORWARD]),
                                  .backward_s = pass_s(&b.pass[SPP_PASS_RECOMPUTE]) +
                                                pass_s(&b.pass[SPP_PASS_BACKWARD]),
                                  .bubble_s = prediction->time.pp_bubble_s,
                                  .weights_s = b.weights_s};
  enum spp_status status = spp_pipeline_run_build(&pipeline, &schedule, diag);
  if (status != SPP_OK) return status;
  choose_processes(&t, g->pp, b.shape.stage);
  t.order = schedule.pipeline.order;
  t.speed = schedule.speed;
  t.layered = layered_of(&b, most);
  for (b.process = 0; b.process < t.process_count; b.process++)
    add_process(&b, &schedule, t.layered);
  spp_pipeline_run_free(&schedule);
  if (b.failed) {
    spp_timeline_free(&t);
    return spp_diag_oom(diag);
  }
  *timeline = t;
  return SPP_OK;
}

void spp_timeline_free(struct spp_timeline *timeline) {
  free(timeline->slices);
  timeline->slices = NULL;
}
