/* The order of micro-batches: 1F1B and interleaved 1F1B (NVIDIA/Megatron-LM
 * megatron/core/pipeline_parallel/schedules.py); one stage is the case without warm-up. A stage's chunk c
 * holds virtual stage c * pp + stage of pp * vpp. */
#include <string.h>

#include "base/num.h"
#include "exec/engine.h"
#include "exec/try.h"

/* A block on its way to another stage, freed when it has arrived. */
struct departure {
  bool under_way;
  void *block;
  struct spp_transfer transfer;
};

struct pipeline {
  struct spp_engine *e;
  int64_t pp, vpp, stage, m;
  int64_t *first_layer; /* [vpp + 1]: of each chunk, among the layers of the stage */
  void **head_grads;    /* [m]: what spp_head_train left for the backward pass */
  struct departure forward, backward;
};

/* One chunk's work on one micro-batch. */
struct task {
  int64_t chunk, micro_batch;
};

static bool is_first(const struct pipeline *p, struct task t) {
  return p->stage == 0 && t.chunk == 0;
}
static bool is_last(const struct pipeline *p, struct task t) {
  return p->stage == p->pp - 1 && t.chunk == p->vpp - 1;
}

/* Messages of the two directions and of different chunks may overtake each other. The chunk is the sender's.
 */
static int channel(bool backward, int64_t chunk) {
  return (int)(2 * chunk + (backward ? 1 : 0));
}

static enum spp_status arrive(struct pipeline *p, int64_t from, int at, void **block) {
  struct spp_engine *e = p->e;
  struct spp_transfer t;
  int64_t bytes = spp_stream_elements(e) * spp_storage_bytes(e->store);
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "pipeline buffers", spp_stream_elements(e), block));
  SPP_TRY(spp_group_receive_start(&e->groups.pp, (int)from, at, *block, bytes, &t, e->rank->diag));
  return spp_group_wait(&e->groups.pp, &t, e->rank->diag);
}

static enum spp_status land(struct pipeline *p, struct departure *d) {
  if (!d->under_way) return SPP_OK;
  SPP_TRY(spp_group_wait(&p->e->groups.pp, &d->transfer, p->e->rank->diag));
  spp_heap_free(&p->e->rank->heap, d->block);
  d->under_way = false;
  return SPP_OK;
}

/* One block a direction is under way; the next waits for it. */
static enum spp_status depart(struct pipeline *p, struct departure *d, struct spp_label label, int64_t to,
                              int at, void *block) {
  struct spp_engine *e = p->e;
  int64_t bytes = spp_stream_elements(e) * spp_storage_bytes(e->store);
  SPP_TRY(land(p, d));
  SPP_TRY(spp_heap_rename(&e->rank->heap, block, SPP_PART_TRANSIENT, "pipeline buffers", e->rank->diag));
  d->block = block;
  d->under_way = true;
  return spp_group_send_start(&e->groups.pp, label, (int)to, at, block, bytes, &d->transfer, e->rank->diag);
}

static struct spp_layer_kept *kept_of(const struct pipeline *p, struct task t, int64_t layer) {
  return &p->e->kept[t.micro_batch * p->e->weights.layer_count + layer];
}
static bool recomputed(const struct pipeline *p, struct task t, int64_t layer) {
  return layer - p->first_layer[t.chunk] < spp_stage_chunk_recomputed(&p->e->plan->layout);
}

static enum spp_status forward_layer(struct pipeline *p, struct task t, int64_t layer, void **x) {
  struct spp_engine *e = p->e;
  struct spp_unit_use use;
  int64_t unit = e->weights.first_layer_unit + layer;
  bool again = recomputed(p, t, layer);
  e->rank->heap.moment = SPP_MOMENT_FORWARD;
  SPP_TRY(spp_heap_rename(&e->rank->heap, *x, again ? SPP_PART_LAYER_INPUTS : SPP_PART_ACTIVATIONS,
                          again ? "layer input" : "input norm: input", e->rank->diag));
  SPP_TRY(spp_states_use(e, unit, SPP_PASS_FORWARD, &use));
  SPP_TRY(spp_layer_forward(e, &use, SPP_PASS_FORWARD, x, kept_of(p, t, layer)));
  if (again) spp_layer_release(e, kept_of(p, t, layer));
  return spp_states_done(e, unit, &use);
}

/* The forward pass again, for what it keeps; its result is not needed. */
static enum spp_status rerun(struct pipeline *p, const struct spp_unit_use *use,
                             struct spp_layer_kept *kept) {
  void *x = kept->input;
  SPP_TRY(spp_layer_forward(p->e, use, SPP_PASS_RECOMPUTE, &x, kept));
  spp_heap_free(&p->e->rank->heap, x);
  return SPP_OK;
}

static enum spp_status backward_layer(struct pipeline *p, struct task t, int64_t layer, void **dy) {
  struct spp_engine *e = p->e;
  struct spp_unit_use use;
  int64_t unit = e->weights.first_layer_unit + layer;
  struct spp_layer_kept *kept = kept_of(p, t, layer);
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_MLP;
  SPP_TRY(spp_states_use(e, unit, SPP_PASS_BACKWARD, &use));
  if (recomputed(p, t, layer)) SPP_TRY(rerun(p, &use, kept));
  SPP_TRY(spp_layer_backward(e, &use, kept, dy));
  return spp_states_done(e, unit, &use);
}

static enum spp_status forward(struct pipeline *p, struct task t) {
  struct spp_engine *e = p->e;
  bool wraps = p->stage == 0; /* the sender's chunk is the one before */
  void *x;
  SPP_TRY(spp_batch_fill(e, t.micro_batch));
  if (is_first(p, t))
    SPP_TRY(spp_embedding_forward(e, &x));
  else
    SPP_TRY(arrive(p, (p->stage + p->pp - 1) % p->pp, channel(false, t.chunk - (wraps ? 1 : 0)), &x));
  for (int64_t i = p->first_layer[t.chunk]; i < p->first_layer[t.chunk + 1]; i++)
    SPP_TRY(forward_layer(p, t, i, &x));
  if (!is_last(p, t))
    return depart(p, &p->forward, (struct spp_label){"stage output", SPP_PASS_FORWARD},
                  (p->stage + 1) % p->pp, channel(false, t.chunk), x);
  SPP_TRY(spp_head_train(e, &x));
  p->head_grads[t.micro_batch] = x;
  return SPP_OK;
}

static enum spp_status backward(struct pipeline *p, struct task t) {
  struct spp_engine *e = p->e;
  bool wraps = p->stage == p->pp - 1;
  void *dy = NULL;
  SPP_TRY(spp_batch_fill(e, t.micro_batch));
  if (is_last(p, t))
    dy = p->head_grads[t.micro_batch];
  else
    SPP_TRY(arrive(p, (p->stage + 1) % p->pp, channel(true, t.chunk + (wraps ? 1 : 0)), &dy));
  SPP_TRY(spp_heap_rename(&e->rank->heap, dy, SPP_PART_TRANSIENT, "gradient of the residual stream",
                          e->rank->diag));
  for (int64_t i = p->first_layer[t.chunk + 1]; i-- > p->first_layer[t.chunk];)
    SPP_TRY(backward_layer(p, t, i, &dy));
  if (is_first(p, t)) return spp_embedding_backward(e, dy);
  return depart(p, &p->backward, (struct spp_label){"stage input gradient", SPP_PASS_BACKWARD},
                (p->stage + p->pp - 1) % p->pp, channel(true, t.chunk), dy);
}

/* Micro-batches go in groups of pp through chunk after chunk; backward takes the chunks from the last. */
static struct task task_of(const struct pipeline *p, int64_t k, bool backwards) {
  int64_t group = p->pp * p->vpp, chunk = k % group / p->pp;
  if (p->vpp == 1) return (struct task){0, k};
  return (struct task){backwards ? p->vpp - 1 - chunk : chunk, k / group * p->pp + k % p->pp};
}

static int64_t warm_up(const struct pipeline *p) {
  int64_t depth = p->pp - 1 - p->stage;
  int64_t n = p->vpp == 1 ? depth : 2 * depth + (p->vpp - 1) * p->pp;
  return spp_min64(n, p->m * p->vpp);
}

/* Chunks of a pipeline that layers do not fill evenly differ. */
static enum spp_status open_chunks(struct pipeline *p, struct spp_arena *arena) {
  const struct spp_exec_plan *plan = p->e->plan;
  int64_t first;
  p->head_grads = spp_arena_array(arena, (size_t)p->m, sizeof *p->head_grads);
  p->first_layer = spp_arena_array(arena, (size_t)p->vpp + 1, sizeof *p->first_layer);
  if (!p->head_grads || !p->first_layer) return spp_diag_oom(p->e->rank->diag);
  p->first_layer[0] = 0;
  for (int64_t i = 0; i < p->vpp; i++)
    p->first_layer[i + 1] =
        p->first_layer[i] + spp_stage_chunk(&plan->job, &plan->layout, p->stage, i, &first);
  return SPP_OK;
}

enum spp_status spp_pipeline_run(struct spp_engine *e) {
  const struct spp_layout *l = &e->plan->layout;
  struct pipeline p = {.e = e, .pp = l->pp, .vpp = l->vpp, .stage = e->groups.stage, .m = l->grad_accum};
  struct spp_arena arena;
  spp_arena_init(&arena);
  enum spp_status status = open_chunks(&p, &arena);
  int64_t total = p.m * p.vpp, ahead = warm_up(&p);
  for (int64_t k = 0; k < total + ahead && status == SPP_OK; k++) {
    if (k < total) status = forward(&p, task_of(&p, k, false));
    if (k >= ahead && status == SPP_OK) status = backward(&p, task_of(&p, k - ahead, true));
  }
  if (status == SPP_OK) status = land(&p, &p.forward);
  if (status == SPP_OK) status = land(&p, &p.backward);
  spp_arena_free(&arena);
  return status;
}
