#include "report/pipeline_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 1 << 20, HALVINGS = 60 };

const char *spp_order_name(enum spp_order order) {
  static const char *const names[] = {"1F1B", "interleaved 1F1B", "GPipe", "zero bubble H1",
                                      "zero bubble H2"};
  return names[order];
}

/* ---- orders ---- */

/* The i-th forward (or backward) of a stage: groups of pp micro-batches go through chunk after chunk. */
static void nth(const struct spp_pipeline *p, int64_t i, bool backward, struct spp_task *task) {
  int64_t group = spp_min64(p->pp, p->m), width = group * p->chunks, first = i / width * group;
  int64_t members = spp_min64(group, p->m - first), rest = i % width;
  int64_t chunk = rest / members;
  if (p->chunks == 1) {
    *task = (struct spp_task){.backward = backward, .micro_batch = i};
    return;
  }
  *task = (struct spp_task){.backward = backward,
                            .chunk = backward ? p->chunks - 1 - chunk : chunk,
                            .micro_batch = first + rest % members};
}

/* Forwards a stage runs before its first backward. */
static int64_t warm_up(const struct spp_pipeline *p, int64_t stage) {
  int64_t total = p->m * p->chunks, after = p->pp - 1 - stage;
  switch (p->order) {
  case SPP_ORDER_GPIPE: return total;
  case SPP_ORDER_INTERLEAVED: return spp_min64(total, 2 * after + (p->chunks - 1) * p->pp);
  case SPP_ORDER_ZB_H2: return spp_min64(total, 2 * after);
  case SPP_ORDER_ZB_H1:
  case SPP_ORDER_1F1B: break;
  }
  return spp_min64(total, after);
}

static void fill_order(const struct spp_pipeline *p, int64_t stage, struct spp_task *tasks) {
  int64_t total = p->m * p->chunks, forward = 0, backward = 0, count = 0, warm = warm_up(p, stage);
  while (forward < warm)
    nth(p, forward++, false, &tasks[count++]);
  while (forward < total) {
    nth(p, forward++, false, &tasks[count++]);
    nth(p, backward++, true, &tasks[count++]);
  }
  while (backward < total)
    nth(p, backward++, true, &tasks[count++]);
}

/* ---- the clock ---- */

struct clock {
  struct spp_pipeline_run *schedule;
  struct spp_task *passes; /* zero bubble: forwards and backwards of each stage, in order */
  int64_t *done;           /* zero bubble: forwards, backwards and weight gradients of each stage so far */
  double *end_s;  /* of each chunk of each stage and micro-batch, forward then backward; NaN: not yet run */
  int64_t *next;  /* task of each stage */
  double *free_s; /* when each stage is free */
};

static double *end_of(const struct clock *c, bool backward, int64_t chunk, int64_t stage,
                      int64_t micro_batch) {
  const struct spp_pipeline *p = &c->schedule->pipeline;
  return &c->end_s[(((backward ? p->chunks : 0) + chunk) * p->pp + stage) * p->m + micro_batch];
}

/* When what a task needs is there: 0 for the first forward, NaN while it has not run. */
static double ready_s(const struct clock *c, int64_t stage, const struct spp_task *task) {
  const struct spp_pipeline *p = &c->schedule->pipeline;
  int64_t chunk = task->chunk, from = task->backward ? stage + 1 : stage - 1;
  if (task->backward && stage == p->pp - 1 && chunk == p->chunks - 1)
    return *end_of(c, false, chunk, stage, task->micro_batch);
  if (!task->backward && stage == 0 && chunk == 0) return 0;
  if (from < 0) chunk--, from = p->pp - 1;
  if (from >= p->pp) chunk++, from = 0;
  return *end_of(c, task->backward, chunk, from, task->micro_batch);
}

static bool is_zero_bubble(const struct spp_pipeline *p) {
  return p->order == SPP_ORDER_ZB_H1 || p->order == SPP_ORDER_ZB_H2;
}

/* ---- zero bubble: weight gradients where there is time for them ---- */

/* Micro-batches a stage may hold: from their forward to their weight gradients. */
static int64_t held_at_most(const struct spp_pipeline *p) {
  return spp_min64(p->m, p->order == SPP_ORDER_ZB_H2 ? 2 * p->pp - 1 : p->pp);
}

/* What the stage does next; false when it has to know first when another stage ends. */
static bool choose(const struct clock *c, int64_t stage, double speed, struct spp_task *task) {
  const struct spp_pipeline *p = &c->schedule->pipeline;
  const int64_t *done = &c->done[3 * stage];
  const struct spp_task weights = {.weights = true, .micro_batch = done[2]};
  int64_t passes = done[0] + done[1];
  double ready, free_s = c->free_s[stage];
  bool due = done[2] < done[1];
  if (passes == 2 * p->m) {
    *task = weights;
    return due;
  }
  *task = c->passes[2 * p->m * stage + passes];
  if (isnan(ready = ready_s(c, stage, task))) return false;
  if (!due) return true;
  bool full = !task->backward && done[0] - done[2] >= held_at_most(p);
  if (full || ready - free_s >= speed * p->weights_s * (1 - 1e-9)) *task = weights;
  return true;
}

static bool advance_zero_bubble(struct clock *c, int64_t stage) {
  struct spp_pipeline_run *s = c->schedule;
  const struct spp_pipeline *p = &s->pipeline;
  double speed = stage == p->slowest ? 1 : s->speed;
  bool moved = false;
  for (struct spp_task task; c->next[stage] < s->per_stage && choose(c, stage, speed, &task); moved = true) {
    double ready = task.weights ? 0 : ready_s(c, stage, &task);
    task.start_s = fmax(ready, c->free_s[stage]);
    task.end_s = task.start_s + speed * (task.weights    ? p->weights_s
                                         : task.backward ? p->backward_s
                                                         : p->forward_s);
    if (!task.weights) *end_of(c, task.backward, 0, stage, task.micro_batch) = task.end_s;
    c->done[3 * stage + (task.weights ? 2 : task.backward)]++;
    c->free_s[stage] = task.end_s;
    s->tasks[stage * s->per_stage + c->next[stage]++] = task;
  }
  return moved;
}

/* ---- the others: in a fixed order ---- */

static bool advance(struct clock *c, int64_t stage) {
  if (is_zero_bubble(&c->schedule->pipeline)) return advance_zero_bubble(c, stage);
  struct spp_pipeline_run *s = c->schedule;
  const struct spp_pipeline *p = &s->pipeline;
  double speed = (stage == p->slowest ? 1 : s->speed) / (double)p->chunks;
  bool moved = false;
  for (; c->next[stage] < s->per_stage; c->next[stage]++, moved = true) {
    struct spp_task *task = &s->tasks[stage * s->per_stage + c->next[stage]];
    double ready = ready_s(c, stage, task);
    if (isnan(ready)) break;
    task->start_s = fmax(ready, c->free_s[stage]);
    task->end_s = task->start_s + speed * (task->backward ? p->backward_s : p->forward_s);
    c->free_s[stage] = *end_of(c, task->backward, task->chunk, stage, task->micro_batch) = task->end_s;
  }
  return moved;
}

/* When the last stage ends; NaN when the order waits for itself. */
static double run(struct clock *c) {
  const struct spp_pipeline *p = &c->schedule->pipeline;
  int64_t cells = 2 * p->chunks * p->pp * p->m;
  double last_s = 0;
  bool moved = true;
  for (int64_t i = 0; i < cells; i++)
    c->end_s[i] = NAN;
  for (int64_t i = 0; i < p->pp; i++)
    c->next[i] = 0, c->free_s[i] = 0;
  if (c->done) memset(c->done, 0, (size_t)(3 * p->pp) * sizeof *c->done);
  while (moved) {
    moved = false;
    for (int64_t i = 0; i < p->pp; i++)
      moved = advance(c, i) || moved;
  }
  for (int64_t i = 0; i < p->pp; i++) {
    if (c->next[i] < c->schedule->per_stage) return NAN;
    bool own = p->order == SPP_ORDER_ZB_H2; /* from the beginning of its own step */
    last_s = fmax(last_s, c->free_s[i] - (own ? c->schedule->tasks[i * c->schedule->per_stage].start_s : 0));
  }
  return last_s;
}

/* The slowest stage waits as long as predicted when the others have the right speed. */
static bool fit_speed(struct clock *c) {
  struct spp_pipeline_run *s = c->schedule;
  double low = 0, high = 1, longest;
  s->speed = 1;
  longest = run(c);
  if (isnan(longest)) return false;
  if (longest <= s->length_s * (1 + 1e-9)) return true;
  for (int i = 0; i < HALVINGS; i++) {
    s->speed = (low + high) / 2;
    if (run(c) > s->length_s)
      high = s->speed;
    else
      low = s->speed;
  }
  s->speed = low;
  run(c);
  return true;
}

/* Times of H2 count from each stage's own beginning. */
static void start_at_zero(struct spp_pipeline_run *s) {
  for (int64_t stage = 0; stage < s->pipeline.pp; stage++) {
    struct spp_task *tasks = &s->tasks[stage * s->per_stage];
    double begin_s = tasks[0].start_s;
    for (int64_t i = 0; i < s->per_stage; i++)
      tasks[i].start_s -= begin_s, tasks[i].end_s -= begin_s;
  }
}

static bool lay_out(struct clock *c) {
  struct spp_pipeline_run *s = c->schedule;
  int64_t passes = 2 * s->pipeline.m * s->pipeline.chunks;
  bool apart = is_zero_bubble(&s->pipeline);
  s->per_stage = apart ? passes + s->pipeline.m : passes;
  for (int64_t i = 0; i < s->pipeline.pp; i++)
    fill_order(&s->pipeline, i, apart ? &c->passes[i * passes] : &s->tasks[i * passes]);
  bool fits = fit_speed(c);
  if (fits && s->pipeline.order == SPP_ORDER_ZB_H2) start_at_zero(s);
  return fits;
}

enum spp_status spp_pipeline_run_build(const struct spp_pipeline *p, struct spp_pipeline_run *schedule,
                                       struct spp_diag *diag) {
  int64_t count = spp_sat_mul(spp_sat_mul(spp_sat_mul(p->m, p->chunks), p->pp), is_zero_bubble(p) ? 3 : 2);
  if (count > MAX_TASKS)
    return spp_diag_set(diag, SPP_ERR_USAGE, "picture of the step",
                        "a smaller --global-batch is drawn the same way",
                        "more than %d passes of micro-batches over stages", MAX_TASKS);
  struct spp_pipeline_run s = {
      .pipeline = *p, .length_s = (double)p->m * (p->forward_s + p->backward_s + p->weights_s) + p->bubble_s};
  struct clock clock = {.schedule = &s};
  s.tasks = calloc((size_t)count, sizeof *s.tasks);
  clock.end_s = calloc((size_t)count, sizeof *clock.end_s);
  clock.next = calloc((size_t)p->pp, sizeof *clock.next);
  clock.free_s = calloc((size_t)p->pp, sizeof *clock.free_s);
  if (is_zero_bubble(p)) {
    clock.passes = calloc((size_t)count, sizeof *clock.passes);
    clock.done = calloc((size_t)p->pp, 3 * sizeof *clock.done);
  }
  bool ok = s.tasks && clock.end_s && clock.next && clock.free_s &&
            (!is_zero_bubble(p) || (clock.passes && clock.done));
  if (ok &&
      !lay_out(&clock)) { /* groups that do not fill up wait for themselves: without chunks they do not */
    s.pipeline.order = SPP_ORDER_1F1B;
    s.pipeline.chunks = 1;
    lay_out(&clock);
  }
  free(clock.passes);
  free(clock.done);
  free(clock.end_s);
  free(clock.next);
  free(clock.free_s);
  if (!ok) {
    free(s.tasks);
    return spp_diag_oom(diag);
  }
  *schedule = s;
  return SPP_OK;
}

void spp_pipeline_run_free(struct spp_pipeline_run *schedule) {
  free(schedule->tasks);
  schedule->tasks = NULL;
}
