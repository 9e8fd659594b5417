#include "exec/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "exec/reference.h"
#include "exec/resident.h"
#include "exec/try.h"
#include "exec/validate_time.h"

enum { REPORT_TAG = 20001 };
static const int64_t judged_bytes = INT64_C(64) << 20; /* stacks and the allocator are a small part of it */
static const double resident_tolerance = 0.05;
static const int64_t rank_bytes = 1 << 20; /* stack and small blocks of a thread: observed up to half of it */
static const double timeout_s = 120.0;
/* fp32, some hundred terms a sum: observed up to 5e-6 on these models. bf16: twice what rounding to bf16 does
 * to one rank, measured against fp32: two runs that round differently are no further apart than both from the
 * truth. */
static const double tolerance_fp32 = 1e-5, roundings = 2.0;

/* Traffic as it travels between processes: words instead of pointers. */
struct traffic {
  enum spp_collective op;
  enum spp_group group;
  enum spp_pass pass;
  char what[SPP_VALIDATE_WORD];
  int64_t bytes, messages;
};

/* What one rank tells about its run. */
struct report {
  double loss[SPP_VALIDATE_MAX_STEPS]; /* its share */
  struct spp_validate_clock clock;
  double grad_error, weight_error, passed;
  uint64_t digest; /* of the weights it answers for */
  int64_t peak_bytes, parts[SPP_PART_COUNT];
  enum spp_moment moment;
  int traffic_count;
  struct traffic traffic[SPP_TALLY_ROWS];
};

/* Shared by the ranks of one process. */
struct run {
  struct spp_exec_plan *plan;
  int64_t steps;
  struct spp_reference *reference;
  bool makes_reference;               /* one rank: fills it */
  bool compares;                      /* with what is there before */
  struct spp_routes *routes;          /* that the first run on one rank writes; NULL: no choice by score */
  struct spp_relu_sides *sides;       /* likewise; NULL: no ReLU */
  double rounding_error;              /* of one rank in 16 bits against fp32 */
  struct report *reports;             /* [ranks], filled on the leading rank */
  struct spp_heap_total *total;       /* of this process; NULL: not counted */
  int64_t counted_bytes, grown_bytes; /* heaps and resident memory of this process at most; 0: not known */
  int threads;                        /* ranks of this process */
  const struct spp_device *device;    /* that ranks work on; NULL: the processor */
};

static void note_memory(const struct spp_heap *heap, struct report *r) {
  r->peak_bytes = heap->peak_bytes;
  r->moment = heap->peak_moment;
  for (int i = 0; i < SPP_PART_COUNT; i++)
    r->parts[i] = spp_heap_peak_of(heap, (enum spp_part)i);
}

static void note_traffic(const struct spp_tally *tally, struct report *r) {
  r->traffic_count = tally->row_count;
  for (int i = 0; i < tally->row_count; i++) {
    const struct spp_traffic *row = &tally->rows[i];
    struct traffic *t = &r->traffic[i];
    *t = (struct traffic){.op = row->op,
                          .group = row->group,
                          .pass = row->label.pass,
                          .bytes = row->sent_bytes,
                          .messages = row->messages};
    strncpy(t->what, row->label.what, sizeof t->what - 1);
  }
}

static enum spp_status note_values(const struct run *run, const struct spp_engine *e, bool gradients,
                                   double *error) {
  float *values = gradients ? run->reference->gradients : run->reference->weights;
  if (run->compares) SPP_TRY(spp_reference_error(e, gradients, values, error));
  return run->makes_reference ? spp_reference_take(e, gradients, values) : SPP_OK;
}

static enum spp_status train(const struct run *run, struct spp_engine *e, struct report *r) {
  struct spp_endpoint *end = e->rank->end;
  for (int64_t step = 0; step < run->steps; step++) {
    SPP_TRY(end->ops->barrier(end, e->rank->diag));
    spp_validate_clock_run(&r->clock, end, step);
    SPP_TRY(spp_engine_gradients(e));
    spp_validate_clock_pause(&r->clock, end, step);
    if (step == 0) SPP_TRY(note_values(run, e, true, &r->grad_error));
    spp_validate_clock_run(&r->clock, end, step);
    SPP_TRY(spp_engine_update(e));
    spp_validate_clock_pause(&r->clock, end, step);
    r->loss[step] = spp_engine_counts_loss(e) ? e->loss : 0;
  }
  SPP_TRY(note_values(run, e, false, &r->weight_error));
  r->passed = e->passed;
  return spp_reference_digest(e, &r->digest);
}

/* Reports go to rank 0; they are not part of the run and not counted. */
static enum spp_status collect(const struct run *run, struct spp_endpoint *end, struct report *mine,
                               struct spp_diag *diag) {
  struct spp_transfer t;
  if (end->rank != 0) {
    SPP_TRY(end->ops->isend(end, 0, REPORT_TAG, mine, sizeof *mine, &t, diag));
    return end->ops->wait(end, &t, diag);
  }
  run->reports[0] = *mine;
  for (int i = 1; i < end->size; i++) {
    SPP_TRY(end->ops->irecv(end, i, REPORT_TAG, &run->reports[i], sizeof *mine, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
  }
  return SPP_OK;
}

static enum spp_status run_rank(const struct run *run, struct spp_rank *rank, struct spp_engine *e,
                                struct report *r) {
  SPP_TRY(spp_engine_open(rank, run->plan, e));
  e->routes = run->routes;
  e->sides = run->sides;
  e->follows = run->compares;
  spp_validate_clock_start(&r->clock);
  SPP_TRY(train(run, e, r));
  spp_validate_clock_stop(&r->clock);
  if (rank->tally.overflow)
    return spp_diag_set(rank->diag, SPP_ERR_INTERNAL, NULL, NULL, "more kinds of traffic than rows");
  note_memory(&rank->heap, r);
  note_traffic(&rank->tally, r);
  return collect(run, rank->end, r, rank->diag);
}

static enum spp_status rank_main(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct run *run = context;
  struct spp_rank *rank = calloc(1, sizeof *rank);
  struct spp_engine *e = calloc(1, sizeof *e);
  struct report *r = calloc(1, sizeof *r);
  enum spp_status status = SPP_ERR_INTERNAL;
  if (rank && e && r) {
    status = spp_rank_open(rank, end, run->device, diag);
    rank->heap.total = run->total;
    if (status == SPP_OK) status = run_rank(context, rank, e, r);
    if (status != SPP_OK) end->ops->abort(end, diag); /* before what others may still read is freed */
    spp_engine_close(e);
    spp_rank_close(rank);
  } else {
    spp_diag_oom(diag);
  }
  free(rank);
  free(e);
  free(r);
  return status;
}

/* The same sequences on one rank: micro-batches of all replicas one after the other. */
static struct spp_exec_setting alone(const struct spp_exec_setting *s, int64_t group_tokens) {
  struct spp_exec_setting one = *s;
  one.layout = spp_layout_plain();
  one.layout.micro_batch = s->layout.micro_batch;
  one.layout.grad_accum = s->layout.grad_accum * s->layout.dp;
  one.expert_group_tokens = group_tokens;
  return one;
}

static enum spp_status run_alone(const char *config_dir, const struct spp_exec_setting *setting,
                                 struct run *one, struct spp_diag *diag) {
  struct spp_exec_plan *plan = malloc(sizeof *plan);
  enum spp_status status = plan ? SPP_OK : spp_diag_oom(diag);
  if (status == SPP_OK) {
    status = spp_exec_plan_open(config_dir, setting, plan, diag);
    one->plan = plan;
    if (status == SPP_OK) status = spp_backend_self.run(1, timeout_s, rank_main, one, diag);
    spp_exec_plan_close(plan);
  }
  free(plan);
  return status;
}

/* In 16 bits: fp32 first, which tells how much rounding does. */
static enum spp_status make_reference(const char *config_dir, const struct spp_validate_case *c,
                                      struct run *run, double *loss, struct spp_diag *diag) {
  struct spp_exec_setting setting = alone(&c->setting, run->plan->expert_group_tokens), exact = setting;
  struct report *report = calloc(1, sizeof *report);
  struct run one = {.steps = c->steps,
                    .reference = run->reference,
                    .makes_reference = true,
                    .reports = report,
                    .routes = run->routes,
                    .sides = run->sides};
  enum spp_status status = report ? SPP_OK : spp_diag_oom(diag);
  exact.dtype = SPP_DTYPE_FP32;
  if (status == SPP_OK) status = run_alone(config_dir, &exact, &one, diag);
  one.compares = true;
  if (status == SPP_OK && setting.dtype != exact.dtype) {
    status = run_alone(config_dir, &setting, &one, diag);
    run->rounding_error = fmax(fmax(report->grad_error, report->weight_error), report->passed);
  }
  if (status == SPP_OK) memcpy(loss, report->loss, sizeof report->loss);
  free(report);
  return status;
}

static void judge_numbers(const struct run *run, int ranks, const double *loss,
                          struct spp_validate_result *result) {
  const double tolerance = fmax(tolerance_fp32, roundings * run->rounding_error);
  result->numerics.tolerance = tolerance;
  for (int64_t step = 0; step < run->steps; step++) {
    double sum = 0;
    for (int i = 0; i < ranks; i++)
      sum += run->reports[i].loss[step];
    double error = fabs(sum - loss[step]) / fabs(loss[step]);
    result->numerics.loss = sum;
    if (!(error <= result->numerics.loss_rel_error)) result->numerics.loss_rel_error = error;
  }
  for (int i = 0; i < ranks; i++) {
    result->numerics.weights_digest += run->reports[i].digest;
    result->numerics.grad_rel_error = fmax(result->numerics.grad_rel_error, run->reports[i].grad_error);
    result->numerics.output_rel_error = fmax(result->numerics.output_rel_error, run->reports[i].weight_error);
    result->numerics.output_rel_error = fmax(result->numerics.output_rel_error, run->reports[i].passed);
  }
  result->numerics.ok = result->numerics.loss_rel_error <= tolerance &&
                        result->numerics.grad_rel_error <= tolerance &&
                        result->numerics.output_rel_error <= tolerance;
}

/* Workspaces of kernels and products depend on the processor, and no allocator holds anything back here. */
static bool not_predicted(int part) {
  return part == SPP_PART_CONTEXT || part == SPP_PART_ALLOCATOR;
}

/* The system counts pages, stacks and what the allocator keeps: a share of a run that is large enough. */
static void judge_resident(const struct run *run, struct spp_validate_result *result) {
  result->memory.counted_bytes = run->counted_bytes;
  result->memory.resident_bytes = run->grown_bytes;
  double most = resident_tolerance * (double)run->counted_bytes + (double)(rank_bytes * run->threads);
  if (run->counted_bytes > 0 && fabs((double)(run->grown_bytes - run->counted_bytes)) > most)
    result->memory.ok = false;
}

static void judge_memory(const struct run *run, int ranks, const struct spp_memory *predicted,
                         struct spp_validate_result *result) {
  const struct report *worst = &run->reports[0];
  for (int i = 1; i < ranks; i++)
    if (run->reports[i].peak_bytes > worst->peak_bytes) worst = &run->reports[i];
  result->memory.measured_bytes = worst->peak_bytes;
  result->memory.predicted_bytes = predicted->peak_bytes;
  result->memory.predicted_moment = predicted->peak_moment;
  result->memory.measured_moment = worst->moment;
  result->memory.ok = worst->peak_bytes == predicted->peak_bytes;
  judge_resident(run, result);
  for (int p = 0; p < SPP_PART_COUNT; p++) {
    if (not_predicted(p)) continue;
    result->memory.measured_parts[p] = worst->parts[p];
    result->memory.predicted_parts[p] = predicted->parts[p];
    if (worst->parts[p] != predicted->parts[p]) result->memory.ok = false;
  }
}

static struct spp_validate_traffic *traffic_row(struct spp_validate_result *result, enum spp_collective op,
                                                enum spp_group group, enum spp_pass pass, const char *what) {
  for (int i = 0; i < result->comm.count; i++) {
    struct spp_validate_traffic *row = &result->comm.rows[i];
    if (row->op == op && row->group == group && row->pass == pass && strcmp(row->what, what) == 0) return row;
  }
  if (result->comm.count == SPP_VALIDATE_TRAFFIC) return &result->comm.rows[SPP_VALIDATE_TRAFFIC - 1];
  struct spp_validate_traffic *row = &result->comm.rows[result->comm.count++];
  *row = (struct spp_validate_traffic){.op = op, .group = group, .pass = pass};
  strncpy(row->what, what, sizeof row->what - 1);
  return row;
}

/* What each rank of a stage is predicted to send in a step, times ranks and steps. */
static void add_predicted(const struct run *run, const struct spp_comm *comm, int64_t stage_ranks,
                          struct spp_validate_result *result) {
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    struct spp_validate_traffic *row = traffic_row(result, op->op, op->group, op->pass, op->what);
    int64_t events = op->count_per_step * run->steps;
    int64_t bytes = op->stage_sent_bytes > 0 ? op->stage_sent_bytes : op->sent_bytes * stage_ranks;
    row->predicted_bytes += bytes * events;
    row->predicted_messages += op->messages * stage_ranks * events;
  }
}

static void judge_traffic(const struct run *run, int ranks, struct spp_validate_result *result) {
  const struct spp_exec_plan *plan = run->plan;
  struct spp_comm comm;
  struct spp_stage stage;
  for (int64_t s = 0; s < plan->layout.pp; s++) {
    spp_stage_resolve(&plan->job, &plan->layout, &plan->geometry, s, &stage);
    spp_comm_predict_stage(&plan->job, &plan->layout, &plan->geometry, &stage, &comm);
    add_predicted(run, &comm, ranks / plan->layout.pp, result);
  }
  for (int i = 0; i < ranks; i++)
    for (int k = 0; k < run->reports[i].traffic_count; k++) {
      const struct traffic *t = &run->reports[i].traffic[k];
      struct spp_validate_traffic *row = traffic_row(result, t->op, t->group, t->pass, t->what);
      row->measured_bytes += t->bytes;
      row->measured_messages += t->messages;
    }
  result->comm.ok = true;
  for (int i = 0; i < result->comm.count; i++) {
    const struct spp_validate_traffic *row = &result->comm.rows[i];
    result->comm.predicted_sent_bytes += row->predicted_bytes;
    result->comm.measured_sent_bytes += row->measured_bytes;
    result->comm.predicted_messages += row->predicted_messages;
    result->comm.measured_messages += row->measured_messages;
    if (row->predicted_bytes != row->measured_bytes || row->predicted_messages != row->measured_messages)
      result->comm.ok = false;
  }
}

static void judge_time(const struct run *run, const struct spp_validate_hardware *hardware, int ranks,
                       struct spp_validate_result *result) {
  const struct spp_validate_clock *clocks[SPP_EXEC_MAX_RANKS];
  for (int i = 0; i < ranks; i++)
    clocks[i] = &run->reports[i].clock;
  spp_validate_judge_time(run->plan, hardware, clocks, ranks, run->steps, result);
}

static void judge(const struct run *run, const struct spp_validate_hardware *hardware, int ranks,
                  const double *loss, struct spp_validate_result *result) {
  struct spp_memory memory;
  memset(result, 0, sizeof *result);
  spp_memory_predict(&run->plan->job, &run->plan->layout, &run->plan->geometry, NULL, &memory);
  judge_numbers(run, ranks, loss, result);
  judge_memory(run, ranks, &memory, result);
  judge_traffic(run, ranks, result);
  judge_time(run, hardware, ranks, result);
}

/* All ranks of one machine, and the whole model three times beside them: the run alone and what it is
 * compared with. An operating system that would rather kill than refuse must not be asked. */
static enum spp_status check_memory(const struct run *run, int ranks, struct spp_diag *diag) {
  struct spp_memory memory;
  spp_memory_predict(&run->plan->job, &run->plan->layout, &run->plan->geometry, NULL, &memory);
  int64_t ours = spp_sat_mul(memory.peak_bytes, ranks);
  int64_t reference = spp_sat_mul(run->reference->total, 6 * (int64_t)sizeof(float));
  int64_t needed = spp_sat_add(ours, spp_sat_add(reference, spp_sat_mul(ranks, 4 << 20)));
  int64_t there = spp_sat_mul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE));
  if (needed <= there / 2) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_USAGE, "--model", "choose a smaller model or shorter sequences",
                      "the run needs some %lld MiB, half of this machine has %lld", (long long)(needed >> 20),
                      (long long)(there >> 21));
}

/* One step for the operating system's view: blocks are pages of their own meanwhile, which costs time, so
 * this is not the run that is timed. Only where there is enough to tell from stacks and the allocator's own.
 */
static enum spp_status run_for_pages(const struct spp_backend *backend, int ranks, struct run *run,
                                     struct spp_diag *diag) {
  struct spp_memory memory;
  spp_memory_predict(&run->plan->job, &run->plan->layout, &run->plan->geometry, NULL, &memory);
  run->counted_bytes = run->grown_bytes = 0;
  run->threads = backend == &spp_backend_self ? ranks : 1;
  if (run->device) return SPP_OK; /* its memory is not the system's */
  if (spp_sat_mul(memory.peak_bytes, run->threads) < judged_bytes) return SPP_OK;
  struct run one = *run;
  struct spp_heap_total total = {0};
  one.steps = 1;
  one.total = &total;
  int64_t before = spp_resident_begin();
  enum spp_status status = backend->run(ranks, timeout_s, rank_main, &one, diag);
  int64_t peak = spp_resident_peak();
  if (status != SPP_OK || before < 0 || peak < 0) return status;
  run->counted_bytes = total.peak_bytes;
  run->grown_bytes = peak - before;
  return SPP_OK;
}

/* Room for what one rank chooses, where it chooses by score. */
static enum spp_status open_routes(struct run *run, struct spp_arena *arena, struct spp_diag *diag) {
  const struct spp_geometry *g = &run->plan->geometry;
  const struct spp_arch *a = run->plan->job.arch;
  struct spp_routes r = {.layers = a->layers,
                         .sequences = g->sequences * g->m * g->dp,
                         .tokens = run->plan->job.seq_tokens,
                         .top_k = a->experts_per_token};
  if (run->plan->job.expert_capacity <= 0) return SPP_OK;
  int64_t choices = spp_sat_mul(spp_sat_mul(r.layers, r.sequences), spp_sat_mul(r.tokens, r.top_k));
  run->routes = spp_arena_alloc(arena, sizeof *run->routes);
  r.chosen = spp_arena_array(arena, (size_t)spp_sat_mul(choices, run->steps), sizeof *r.chosen);
  if (!run->routes || !r.chosen) return spp_diag_oom(diag);
  for (int64_t i = 0; i < choices * run->steps; i++)
    r.chosen[i] = SPP_NO_ROUTE;
  *run->routes = r;
  return SPP_OK;
}

static enum spp_status run_case(const char *config_dir, const struct spp_backend *backend,
                                const struct spp_validate_case *c, struct spp_arena *arena, struct run *run,
                                struct spp_validate_result *result, struct spp_diag *diag) {
  double loss[SPP_VALIDATE_MAX_STEPS];
  int ranks = (int)spp_layout_world(&c->setting.layout);
  run->reference->total = spp_weights_total(c->setting.arch);
  SPP_TRY(check_memory(run, ranks, diag));
  SPP_TRY(spp_reference_open(c->setting.arch, arena, run->reference, diag));
  SPP_TRY(open_routes(run, arena, diag));
  SPP_TRY(spp_relu_sides_open(run->plan, run->steps, arena, &run->sides, diag));
  SPP_TRY(make_reference(config_dir, c, run, loss, diag));
  SPP_TRY(run_for_pages(backend, ranks, run, diag));
  spp_resident_keep();
  SPP_TRY(backend->run(ranks, timeout_s, rank_main, run, diag));
  if (backend->leads()) judge(run, c->hardware, ranks, loss, result);
  return SPP_OK;
}

/* Chunks of an interleaved pipeline cross on their way between two stages. */
const char *spp_validate_lack(const struct spp_backend *backend, const struct spp_validate_case *c) {
  return c->device && backend->in_order && c->setting.layout.vpp > 1 ? "interleaved pipelines" : NULL;
}

enum spp_status spp_validate_run(const char *config_dir, const struct spp_backend *backend,
                                 const struct spp_validate_case *c, struct spp_validate_result *result,
                                 struct spp_diag *diag) {
  struct spp_arena arena;
  struct spp_reference reference;
  if (c->steps < 1 || c->steps > SPP_VALIDATE_MAX_STEPS)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--steps", NULL, "1 to %d steps are possible",
                        SPP_VALIDATE_MAX_STEPS);
  const char *lack = spp_validate_lack(backend, c);
  if (lack)
    return spp_diag_set(diag, SPP_ERR_ABSENT, backend->name, "use --backend mpi or self",
                        "it cannot carry %s", lack);
  spp_arena_init(&arena);
  struct run run = {.steps = c->steps, .reference = &reference, .compares = true, .device = c->device};
  struct spp_exec_plan *plan = spp_arena_alloc(&arena, sizeof *plan);
  run.plan = plan;
  run.reports = spp_arena_array(&arena, (size_t)spp_layout_world(&c->setting.layout), sizeof *run.reports);
  enum spp_status status = plan && run.reports ? SPP_OK : spp_diag_oom(diag);
  if (status == SPP_OK) {
    status = spp_exec_plan_open(config_dir, &c->setting, plan, diag);
    if (status == SPP_OK) status = spp_weights_supported(c->setting.arch, diag);
    if (status == SPP_OK) status = run_case(config_dir, backend, c, &arena, &run, result, diag);
    spp_exec_plan_close(plan);
  }
  spp_arena_free(&arena);
  return status;
}
