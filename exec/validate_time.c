#include "exec/validate_time.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/stats.h"

/* A step that is judged must be predicted within this factor: what is left of a wrong formula when a step of
 * some milliseconds waits now and then for another thread to wake. The interval itself holds four of five. */
static const double time_factor = 3;
/* Quiet: repeated steps alike, others below a tenth of the processors; in less than a quarter of a second the
 * host's clock ticks (10 ms) cannot tell. */
static const double most_spread = 1.5, most_others = 0.1, countable_s = 0.25;

void spp_validate_clock_start(struct spp_validate_clock *clock) {
  clock->process = getpid();
  if (gethostname(clock->host, sizeof clock->host - 1) != 0) clock->host[0] = '\0';
  spp_host_machine(clock->machine, sizeof clock->machine);
  spp_host_use_read(&clock->before);
}

void spp_validate_clock_stop(struct spp_validate_clock *clock) {
  spp_host_use_read(&clock->after);
}

void spp_validate_clock_run(struct spp_validate_clock *clock, const struct spp_endpoint *end, int64_t step) {
  clock->step_s[step] -= end->ops->clock();
  clock->work_s[step] -= spp_host_thread_s();
}

void spp_validate_clock_pause(struct spp_validate_clock *clock, const struct spp_endpoint *end,
                              int64_t step) {
  clock->work_s[step] += spp_host_thread_s();
  clock->step_s[step] += end->ops->clock();
}

/* A step is over when its slowest rank is; the first one warms up. Sorted. */
static int64_t step_times(const struct spp_validate_clock *const *clocks, int ranks, int64_t steps, bool work,
                          double times[SPP_VALIDATE_MAX_STEPS]) {
  int64_t n = 0;
  for (int64_t step = steps > 1 ? 1 : 0; step < steps; step++, n++) {
    times[n] = 0;
    for (int i = 0; i < ranks; i++)
      times[n] = fmax(times[n], work ? clocks[i]->work_s[step] : clocks[i]->step_s[step]);
  }
  spp_sort_reals(times, n);
  return n;
}

static bool same_host(const struct spp_validate_clock *a, const struct spp_validate_clock *b) {
  return strncmp(a->host, b->host, sizeof a->host) == 0;
}

static int ranks_here(const struct spp_validate_clock *const *clocks, int ranks) {
  int here = 0;
  for (int i = 0; i < ranks; i++)
    here += same_host(clocks[i], clocks[0]);
  return here;
}

static bool same_machine(const struct spp_validate_clock *a, const struct spp_validate_clock *b) {
  return strncmp(a->machine, b->machine, sizeof a->machine) == 0;
}

/* The same process: process numbers are a host's own. */
static bool same_process(const struct spp_validate_clock *a, const struct spp_validate_clock *b) {
  return same_host(a, b) && a->process == b->process;
}

/* Share of the first machine's processors that belongs to no rank on it; negative: cannot be told. */
static double others_share(const struct spp_validate_clock *const *clocks, int ranks) {
  const struct spp_host_use *before = &clocks[0]->before, *after = &clocks[0]->after;
  double own_s = 0, elapsed_s = after->clock_s - before->clock_s;
  if (elapsed_s < countable_s || before->busy_s < 0 || after->busy_s < 0) return -1;
  for (int i = 0; i < ranks; i++) {
    bool counted = !same_machine(clocks[i], clocks[0]);
    for (int k = 0; k < i && !counted; k++)
      counted = same_process(clocks[k], clocks[i]);
    if (!counted) own_s += clocks[i]->after.own_s - clocks[i]->before.own_s;
  }
  return (after->busy_s - before->busy_s - own_s) / (elapsed_s * (double)spp_host_processors());
}

/* Why time cannot be judged, into why; false when it can. */
static bool is_disturbed(const struct spp_exec_plan *plan, const struct spp_validate_clock *const *clocks,
                         int ranks, const double *times, int64_t n, char *why, size_t size) {
  double others = others_share(clocks, ranks);
  if (plan->job.dtype != SPP_DTYPE_FP32) {
    snprintf(why, size, "rates are those of fp32");
  } else if (n < 2) {
    snprintf(why, size, "one step says nothing about the next");
  } else if (others < 0) {
    snprintf(why, size, "too short to tell whether the machine was quiet");
  } else if (others > most_others) {
    snprintf(why, size, "other programs use %.0f %% of the processors", 100 * others);
  } else if (times[n - 1] > most_spread * times[0]) {
    snprintf(why, size, "steps differ by a factor of %.1f", times[n - 1] / times[0]);
  } else {
    return false;
  }
  return true;
}

/* The case's job on the measured machine, with as many ranks a host as there were. */
static void predict(const struct spp_exec_plan *plan, const struct spp_validate_hardware *hardware, int here,
                    bool shared, struct spp_time *time) {
  struct spp_job job = plan->job;
  struct spp_cluster cluster = *hardware->cluster;
  struct spp_comm comm;
  cluster.gpus_per_node = cluster.domain_gpus = here;
  if (!shared) cluster.processors_per_node = 0;
  job.gpu = hardware->gpu;
  job.cluster = &cluster;
  job.calib = hardware->calib;
  spp_comm_predict(&job, &plan->layout, &plan->geometry, &comm);
  spp_timing_predict(&job, &plan->layout, &plan->geometry, &comm, time);
}

static void fill_prediction(const struct spp_exec_plan *plan, const struct spp_validate_hardware *hardware,
                            int here, struct spp_validate_result *result) {
  struct spp_time time, alone;
  predict(plan, hardware, here, true, &time);
  predict(plan, hardware, here, false, &alone);
  result->time.predicted_s = time.step_s;
  result->time.low_s = time.low_s;
  result->time.high_s = time.high_s;
  result->time.predicted_work_s = alone.step_s - alone.pp_bubble_s;
  result->time.inside = result->time.measured_s >= time.low_s && result->time.measured_s <= time.high_s;
}

void spp_validate_judge_time(const struct spp_exec_plan *plan, const struct spp_validate_hardware *hardware,
                             const struct spp_validate_clock *const *clocks, int ranks, int64_t steps,
                             struct spp_validate_result *result) {
  double times[SPP_VALIDATE_MAX_STEPS];
  int64_t n = step_times(clocks, ranks, steps, true, times);
  result->time.measured_work_s = spp_quantile(times, n, 0.5);
  n = step_times(clocks, ranks, steps, false, times);
  result->time.measured_s = spp_quantile(times, n, 0.5);
  result->time.ok = true;
  if (!hardware || !hardware->gpu) {
    snprintf(result->time.why, sizeof result->time.why, "%s",
             hardware && hardware->absent ? hardware->absent : "no profile of this machine");
    return;
  }
  fill_prediction(plan, hardware, ranks_here(clocks, ranks), result);
  result->time.judged =
      !is_disturbed(plan, clocks, ranks, times, n, result->time.why, sizeof result->time.why);
  if (result->time.judged)
    result->time.ok = result->time.measured_s <= time_factor * result->time.predicted_s &&
                      result->time.predicted_s <= time_factor * result->time.measured_s;
}
