#include <stdlib.h>

#include "report/trace.h"
#include "tests/planner/jobs.h"

static const struct spp_task *task_of(const struct spp_pipeline_run *run, int64_t stage, int64_t i) {
  return &run->tasks[stage * run->per_stage + i];
}

/* Forward 1, backward 2, two micro-batches. Stage 1: F 1-2, B 2-4, F 4-5, B 5-7; stage 0: F 0-1, F 1-2, B
 * 4-6, B 7-9. */
static void two_equal_stages_alternate_forward_and_backward(void **state) {
  const struct spp_pipeline p = {SPP_ORDER_1F1B, 2, 1, 2, 1, 1, 2, 3, 0};
  static const double starts[2][4] = {{0, 1, 4, 7}, {1, 2, 4, 5}};
  static const bool backward[2][4] = {{false, false, true, true}, {false, true, false, true}};
  struct spp_pipeline_run run;
  struct spp_diag diag;
  (void)state;
  expect_status(spp_pipeline_run_build(&p, &run, &diag), SPP_OK, &diag);
  expect_i64(run.per_stage, 4);
  expect_near(run.length_s, 9, 1e-12);
  expect_near(run.speed, 1, 0);
  for (int64_t stage = 0; stage < 2; stage++)
    for (int64_t i = 0; i < 4; i++) {
      expect_near(task_of(&run, stage, i)->start_s, starts[stage][i], 1e-12);
      expect_true(task_of(&run, stage, i)->backward == backward[stage][i]);
    }
  spp_pipeline_run_free(&run);
}

/* A bubble of half of 3 s: the other stage takes half the time. It ends at 6 + 1.5. */
static void a_shorter_bubble_means_quicker_other_stages(void **state) {
  const struct spp_pipeline p = {SPP_ORDER_1F1B, 2, 1, 2, 1, 1, 2, 1.5, 0};
  struct spp_pipeline_run run;
  struct spp_diag diag;
  (void)state;
  expect_status(spp_pipeline_run_build(&p, &run, &diag), SPP_OK, &diag);
  expect_rel(run.speed, 0.5, 1e-9);
  expect_rel(task_of(&run, 0, 3)->end_s, 7.5, 1e-9);
  spp_pipeline_run_free(&run);
}

/* Chunks divide the bubble: (pp - 1)(f + b) / chunks beside m (f + b), when m is a multiple of pp. GPipe
 * waits as long as 1F1B. */
static void equal_stages_wait_as_the_formula_of_their_order_says(void **state) {
  static const struct {
    enum spp_order order;
    int64_t pp, chunks, m;
  } cases[] = {{SPP_ORDER_1F1B, 4, 1, 8},        {SPP_ORDER_1F1B, 8, 1, 3},
               {SPP_ORDER_GPIPE, 4, 1, 6},       {SPP_ORDER_INTERLEAVED, 4, 2, 8},
               {SPP_ORDER_INTERLEAVED, 2, 4, 6}, {SPP_ORDER_INTERLEAVED, 8, 3, 16},
               {SPP_ORDER_INTERLEAVED, 4, 2, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_pipeline p = {cases[i].order, cases[i].pp, cases[i].chunks, cases[i].m, 0, 1, 2, 0, 0};
    struct spp_pipeline_run run;
    struct spp_diag diag;
    p.bubble_s = 3.0 * (double)(p.pp - 1) / (double)p.chunks;
    expect_note("case %zu", i);
    expect_status(spp_pipeline_run_build(&p, &run, &diag), SPP_OK, &diag);
    expect_near(run.speed, 1, 0);
    double last = 0;
    for (int64_t k = 0; k < p.pp * run.per_stage; k++)
      last = fmax(last, run.tasks[k].end_s);
    expect_rel(last, run.length_s, 1e-9);
    spp_pipeline_run_free(&run);
  }
  expect_note("%s", "");
}

/* Forward, backward and weight gradients of 1 s each. H1 waits (pp - 1)(F + B - W) = pp - 1, H2 not at all
 * (sail-sg/zero-bubble-pipeline-parallelism, README). Every weight gradient comes after its backward, and no
 * stage holds more micro-batches than 1F1B's most (H1) or twice that less one (H2). */
static void zero_bubble_fills_its_gaps_with_weight_gradients(void **state) {
  static const struct {
    enum spp_order order;
    int64_t pp, m, slowest;
    double bubble_s;
  } cases[] = {{SPP_ORDER_ZB_H1, 4, 8, 0, 3}, {SPP_ORDER_ZB_H1, 4, 8, 3, 3},  {SPP_ORDER_ZB_H1, 8, 24, 2, 7},
               {SPP_ORDER_ZB_H1, 2, 2, 1, 1}, {SPP_ORDER_ZB_H2, 4, 12, 0, 0}, {SPP_ORDER_ZB_H2, 4, 8, 3, 0},
               {SPP_ORDER_ZB_H2, 2, 4, 0, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t pp = cases[i].pp, m = cases[i].m, most = cases[i].order == SPP_ORDER_ZB_H1 ? pp : 2 * pp - 1;
    const struct spp_pipeline p = {cases[i].order, pp, 1, m, cases[i].slowest, 1, 1, cases[i].bubble_s, 1};
    struct spp_pipeline_run run;
    struct spp_diag diag;
    expect_note("case %zu", i);
    expect_status(spp_pipeline_run_build(&p, &run, &diag), SPP_OK, &diag);
    expect_i64(run.per_stage, 3 * m);
    expect_near(run.length_s, 3.0 * (double)m + cases[i].bubble_s, 1e-12);
    expect_near(run.speed, 1, 0);
    for (int64_t stage = 0; stage < pp; stage++) {
      int64_t forwards = 0, backwards = 0, weights = 0;
      double at = 0;
      for (int64_t k = 0; k < run.per_stage; k++) {
        const struct spp_task *task = task_of(&run, stage, k);
        expect_true(task->start_s >= at - 1e-12);
        at = task->end_s;
        expect_i64(task->micro_batch, task->weights ? weights : task->backward ? backwards : forwards);
        *(task->weights ? &weights : task->backward ? &backwards : &forwards) += 1;
        expect_true(weights <= backwards && backwards <= forwards && forwards - weights <= most);
      }
      expect_true(at <= run.length_s + 1e-9);
      expect_i64(weights, m);
    }
    spp_pipeline_run_free(&run);
  }
  expect_note("%s", "");
}

static void too_many_micro_batches_are_refused(void **state) {
  const struct spp_pipeline p = {SPP_ORDER_1F1B, 64, 1, INT64_C(1) << 40, 0, 1, 2, 0, 0};
  struct spp_pipeline_run run;
  struct spp_diag diag;
  (void)state;
  expect_status(spp_pipeline_run_build(&p, &run, &diag), SPP_ERR_USAGE, &diag);
}

/* ---- laws over jobs ---- */

struct drawn {
  struct spp_job job;
  struct spp_layout layout;
  struct spp_prediction prediction;
  struct spp_timeline timeline;
};

static const struct drawn_case {
  const char *framework, *model;
  int64_t gpus, seq, batch, tp, pp, vpp, ulysses, ring;
  int sp_kind, zero, schedule; /* schedule 0: the framework's own */
} drawn_cases[] = {
    {"ms-swift", "qwen2.5-7b", 8, 32768, 8, 1, 1, 1, 4, 1, SPP_SP_ULYSSES, 3, 0},
    {"ms-swift", "qwen2.5-7b", 8, 32768, 16, 1, 1, 1, 4, 2, SPP_SP_HYBRID, 3, 0},
    {"deepspeed", "llama-3.1-8b", 8, 65536, 8, 1, 1, 1, 8, 1, SPP_SP_ULYSSES, 2, 0},
    {"megatron-lm", "qwen2.5-72b", 64, 32768, 16, 8, 8, 1, 1, 1, SPP_SP_NONE, 1, 0},
    {"megatron-lm", "qwen2.5-72b", 64, 32768, 8, 4, 4, 2, 1, 4, SPP_SP_RING, 1, 0},
    {"megatron-lm", "qwen2.5-72b", 64, 16384, 24, 8, 2, 4, 1, 1, SPP_SP_NONE, 1, 0},
    {"megatron-lm", "llama-3.1-8b", 32, 131072, 4, 2, 2, 1, 1, 8, SPP_SP_RING, 1, 0},
    {"fsdp2", "llama-3.1-8b", 16, 8192, 32, 1, 1, 1, 1, 1, SPP_SP_NONE, 3, 0},
    {"torchtitan", "llama-3.1-8b", 16, 32768, 16, 2, 2, 1, 1, 1, SPP_SP_NONE, 3, 0},
    {"megatron-lm", "qwen2.5-72b", 64, 16384, 32, 8, 4, 1, 1, 1, SPP_SP_NONE, 1, SPP_SCHEDULE_ZB_H1},
    {"megatron-lm", "qwen2.5-72b", 64, 16384, 32, 8, 4, 1, 1, 1, SPP_SP_NONE, 1, SPP_SCHEDULE_ZB_H2},
};
enum { DRAWN_CASES = sizeof drawn_cases / sizeof drawn_cases[0] };

static void draw(const struct drawn_case *c, int64_t most, struct drawn *d) {
  struct spp_job_spec spec;
  struct spp_request request;
  struct spp_diag diag;
  jobs_spec(c->model, "h100-80gb", c->gpus, c->seq, &spec);
  spec.global_batch = c->batch;
  spec.packing = 1;
  spp_request_clear(&request);
  request.tp = c->tp;
  request.pp = c->pp;
  request.vpp = c->vpp;
  request.ulysses = c->ulysses;
  request.ring = c->ring;
  request.sp_kind = c->sp_kind;
  request.zero = c->zero;
  if (c->schedule) request.schedule = c->schedule;
  expect_note("%s %s tp %lld pp %lld ring %lld", c->framework, c->model, (long long)c->tp, (long long)c->pp,
              (long long)c->ring);
  expect_status(spp_job_resolve(&spec, jobs_framework(c->framework), &d->job, &diag), SPP_OK, &diag);
  expect_status(spp_layout_complete(&d->job, &request, &d->layout, &diag), SPP_OK, &diag);
  spp_predict(&d->job, &d->layout, NULL, &d->prediction);
  expect_status(spp_timeline_build(&d->job, &d->layout, &d->prediction, most, &d->timeline, &diag), SPP_OK,
                &diag);
}

static int by_place(const void *a, const void *b) {
  const struct spp_slice *x = a, *y = b;
  if (x->process != y->process) return x->process - y->process;
  if (x->lane != y->lane) return (int)x->lane - (int)y->lane;
  return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

static void for_each(int64_t most, void (*check)(const struct drawn *)) {
  struct drawn *d = calloc(1, sizeof *d);
  for (int i = 0; i < DRAWN_CASES; i++) {
    draw(&drawn_cases[i], most, d);
    qsort(d->timeline.slices, (size_t)d->timeline.count, sizeof *d->timeline.slices, by_place);
    check(d);
    spp_timeline_free(&d->timeline);
  }
  free(d);
  expect_note("%s", "");
}

static void check_overlap(const struct drawn *d) {
  const struct spp_timeline *t = &d->timeline;
  double last_s = 0;
  for (int64_t i = 0; i < t->count; i++) {
    const struct spp_slice *s = &t->slices[i];
    expect_true(s->dur_s > 0 && s->start_s >= -1e-12);
    last_s = fmax(last_s, s->start_s + s->dur_s);
    if (i == 0 || s->process != s[-1].process || s->lane != s[-1].lane) continue;
    expect_true(s->start_s >= s[-1].start_s + s[-1].dur_s - 1e-9 * t->length_s);
  }
  expect_rel(last_s, d->prediction.time.step_s, 1e-6);
  expect_rel(t->length_s, d->prediction.time.step_s, 1e-12);
}
static void slices_of_a_lane_never_overlap_and_the_last_ends_the_step(void **state) {
  (void)state;
  for_each(0, check_overlap);
  for_each(SPP_TRACE_SLICES, check_overlap);
}

static double lane_sum(const struct spp_timeline *t, int lane, bool exposed) {
  double sum = 0;
  for (int64_t i = 0; i < t->count; i++)
    if (t->slices[i].process == t->slowest && (int)t->slices[i].lane == lane)
      sum += exposed ? t->slices[i].exposed_s : t->slices[i].dur_s;
  return sum;
}
static double bubble_sum(const struct spp_timeline *t) {
  double sum = 0;
  for (int64_t i = 0; i < t->count; i++)
    if (t->slices[i].process == t->slowest && strcmp(t->slices[i].what, "bubble") == 0)
      sum += t->slices[i].dur_s;
  return sum;
}
static void check_sums(const struct drawn *d) {
  const struct spp_timeline *t = &d->timeline;
  const struct spp_time *time = &d->prediction.time;
  const double near = 1e-6 * time->step_s;
  expect_near(lane_sum(t, SPP_LANE_COMPUTE, false), time->compute_s, near);
  expect_near(lane_sum(t, SPP_LANE_ATTENTION, false), time->attention_s, near);
  expect_near(lane_sum(t, SPP_LANE_OPTIMIZER, false), time->optimizer_s, near);
  expect_near(lane_sum(t, SPP_LANE_OFFLOAD, false), time->offload_exposed_s, near);
  expect_near(lane_sum(t, SPP_LANE_HOST, false), time->host_s, near);
  expect_near(bubble_sum(t), time->pp_bubble_s, near);
  expect_near(lane_sum(t, SPP_LANE_COMM + SPP_GROUP_ULYSSES, true) +
                  lane_sum(t, SPP_LANE_COMM + SPP_GROUP_RING, true),
              time->sp_exposed_s, near);
  expect_near(lane_sum(t, SPP_LANE_COMM + SPP_GROUP_TP, true), time->tp_exposed_s, near);
  expect_near(lane_sum(t, SPP_LANE_COMM + SPP_GROUP_PP, true), time->pp_exposed_s, near);
  expect_near(lane_sum(t, SPP_LANE_COMM + SPP_GROUP_DP, true), time->dp_exposed_s, near);
  expect_near(lane_sum(t, SPP_LANE_COMM + SPP_GROUP_EP, true), time->ep_exposed_s, near);
}
static void lanes_of_the_slowest_rank_sum_to_the_predicted_parts(void **state) {
  (void)state;
  for_each(0, check_sums);
  for_each(SPP_TRACE_SLICES, check_sums);
}

/* Compute, attention, optimizer and waiting are one device's: at no moment two of them. */
static void check_device(const struct drawn *d) {
  const struct spp_timeline *t = &d->timeline;
  struct spp_slice *device = calloc((size_t)t->count, sizeof *device);
  int64_t count = 0;
  for (int64_t i = 0; i < t->count; i++) {
    enum spp_lane lane = t->slices[i].lane;
    if (lane == SPP_LANE_SCHEDULE || (lane >= SPP_LANE_COMM && lane < SPP_LANE_OFFLOAD)) continue;
    device[count] = t->slices[i];
    device[count++].lane = SPP_LANE_COMPUTE;
  }
  qsort(device, (size_t)count, sizeof *device, by_place);
  for (int64_t i = 1; i < count; i++)
    if (device[i].process == device[i - 1].process)
      expect_true(device[i].start_s >= device[i - 1].start_s + device[i - 1].dur_s - 1e-9 * t->length_s);
  free(device);
}
static void a_device_does_one_thing_at_a_time(void **state) {
  (void)state;
  for_each(SPP_TRACE_SLICES, check_device);
}

static void ring_hops_stand_beside_attention_blocks(void **state) {
  struct drawn *d = calloc(1, sizeof *d);
  int hops = 0, blocks = 0;
  (void)state;
  draw(&drawn_cases[4], SPP_TRACE_SLICES, d);
  for (int64_t i = 0; i < d->timeline.count; i++) {
    const struct spp_slice *s = &d->timeline.slices[i];
    if (s->micro_batch != 0 || s->layer != 0 || s->process != 0 || strcmp(s->what, "backward") == 0) continue;
    hops += s->lane == SPP_LANE_COMM + SPP_GROUP_RING && s->pieces > 0 && s->exposed_s <= s->dur_s;
    blocks += s->lane == SPP_LANE_ATTENTION && s->pieces == 4;
  }
  expect_i64(blocks, 2 * 4); /* a ring of 4, layer 1 of both chunks */
  expect_true(hops >= 2 * 3);
  spp_timeline_free(&d->timeline);
  free(d);
}

static void a_trace_is_json_with_named_processes_and_lanes(void **state) {
  struct drawn *d = calloc(1, sizeof *d);
  struct spp_str out;
  (void)state;
  draw(&drawn_cases[3], SPP_TRACE_SLICES, d);
  spp_str_init(&out);
  spp_trace_write(&d->job, &d->layout, &d->timeline, &out);
  expect_false(out.failed);
  expect_has(spp_str_text(&out), "\"traceEvents\":[");
  expect_has(spp_str_text(&out), "pipeline rank 0 of 8");
  expect_has(spp_str_text(&out), "\"ph\":\"X\"");
  spp_str_free(&out);
  spp_timeline_free(&d->timeline);
  free(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_equal_stages_alternate_forward_and_backward),
      cmocka_unit_test(a_shorter_bubble_means_quicker_other_stages),
      cmocka_unit_test(equal_stages_wait_as_the_formula_of_their_order_says),
      cmocka_unit_test(zero_bubble_fills_its_gaps_with_weight_gradients),
      cmocka_unit_test(too_many_micro_batches_are_refused),
      cmocka_unit_test(slices_of_a_lane_never_overlap_and_the_last_ends_the_step),
      cmocka_unit_test(lanes_of_the_slowest_rank_sum_to_the_predicted_parts),
      cmocka_unit_test(a_device_does_one_thing_at_a_time),
      cmocka_unit_test(ring_hops_stand_beside_attention_blocks),
      cmocka_unit_test(a_trace_is_json_with_named_processes_and_lanes),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
