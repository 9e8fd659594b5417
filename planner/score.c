#include "planner/score.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/stats.h"

/* The figure of the prediction that counts what the measured one counts. Unstated figures are read as
 * reserved, which training logs print, unless the framework's log prints none: then nvidia-smi was read. */
static double predicted_memory(const struct spp_run *run, const struct spp_memory *memory) {
  switch (run->memory_kind) {
  case SPP_MEASURED_ALLOCATED: return (double)memory->peak_bytes;
  case SPP_MEASURED_LOGGED:
    return (double)(run->framework->logs_first_step ? memory->first_step_peak_bytes : memory->peak_bytes);
  case SPP_MEASURED_DEVICE: return (double)memory->device_bytes;
  case SPP_MEASURED_KV_CACHE: /* what the budget leaves beside all but the cache */
    return (double)memory->capacity_bytes - (double)memory->device_bytes +
           (double)memory->parts[SPP_PART_KV_CACHE] +
           (run->framework->budget_is_torch_only
                ? (double)memory->parts[SPP_PART_CONTEXT] + (double)memory->parts[SPP_PART_NCCL]
                : 0);
  case SPP_MEASURED_UNSTATED:
    if (run->framework->logs_no_memory) return (double)memory->device_bytes;
    break;
  case SPP_MEASURED_RESERVED:
  case SPP_MEASURED_CAPACITY: break;
  }
  return (double)memory->reserved_bytes;
}

static double measured_step_s(const struct spp_run *run, const struct spp_job *job) {
  if (run->step_s > 0) return run->step_s;
  if (run->tokens_per_s_per_gpu <= 0) return 0;
  double tokens = (double)job->seq_tokens * (double)job->global_batch;
  return tokens / (run->tokens_per_s_per_gpu * (double)job->gpus);
}

static bool fits_at(const struct spp_job *job, const struct spp_layout *layout, int64_t seq_tokens) {
  struct spp_job longer = *job;
  struct spp_prediction p;
  longer.seq_tokens = seq_tokens;
  spp_predict(&longer, layout, NULL, &p);
  return p.memory.fits && p.memory.host_fits;
}

/* Longest sequence that fits under the run's own layout, to a relative 1/256. */
static int64_t longest_fit(const struct spp_job *job, const struct spp_layout *layout) {
  const int64_t most = INT64_C(1) << 28;
  int64_t unit = 2 * layout->tp * spp_layout_sp(layout), low = 0, high = unit;
  while (high <= most && fits_at(job, layout, high)) {
    low = high;
    high *= 2;
  }
  while (high - low > spp_max64(unit, low / 256)) {
    int64_t middle = spp_round_up(low + (high - low) / 2, unit);
    if (middle >= high) break;
    if (fits_at(job, layout, middle))
      low = middle;
    else
      high = middle;
  }
  return low;
}

static bool has_memory(const struct spp_run *run) {
  return run->memory_kind == SPP_MEASURED_KV_CACHE ||
         (run->memory_bytes > 0 && run->memory_kind != SPP_MEASURED_CAPACITY);
}

static void score_memory(const struct spp_run *run, const struct spp_memory *memory,
                         struct spp_run_score *s) {
  s->predicted_memory_bytes = predicted_memory(run, memory);
  if (!has_memory(run)) return;
  if (run->kv_cache_tokens > 0 && run->memory_kind == SPP_MEASURED_KV_CACHE)
    s->measured_memory_bytes =
        run->kv_cache_tokens * (double)memory->parts[SPP_PART_KV_CACHE] / (double)run->spec.seq_tokens;
  s->memory_error = s->predicted_memory_bytes / s->measured_memory_bytes - 1;
  double beyond = fabs(s->memory_error) - run->memory_tolerance;
  s->memory_error_beyond_tolerance = beyond > 0 ? copysign(beyond, s->memory_error) : 0;
  double device = (double)memory->device_bytes > 0 ? (double)memory->device_bytes : 1;
  s->low_bytes = s->predicted_memory_bytes * (double)memory->low_bytes / device;
  s->high_bytes = s->predicted_memory_bytes * (double)memory->high_bytes / device;
  if (run->memory_kind == SPP_MEASURED_KV_CACHE) {
    s->low_bytes = s->predicted_memory_bytes - (double)(memory->high_bytes - memory->device_bytes);
    s->high_bytes = s->predicted_memory_bytes + (double)(memory->device_bytes - memory->low_bytes);
  }
  s->memory_in_interval =
      s->measured_memory_bytes >= s->low_bytes && s->measured_memory_bytes <= s->high_bytes;
}

static void score_time(const struct spp_run *run, const struct spp_job *job, const struct spp_time *time,
                       struct spp_run_score *s) {
  s->predicted_step_s = time->step_s;
  s->low_s = time->low_s;
  s->high_s = time->high_s;
  s->measured_step_s = run->memory_only ? 0 : measured_step_s(run, job);
  if (s->measured_step_s <= 0) return;
  s->time_error = time->step_s / s->measured_step_s - 1;
  s->time_in_interval = s->measured_step_s >= time->low_s && s->measured_step_s <= time->high_s;
}

static void score_run(const struct spp_run *run, struct spp_arena *arena, struct spp_run_score *s) {
  *s = (struct spp_run_score){.run = run,
                              .skip = run->skip,
                              .memory_error = NAN,
                              .time_error = NAN,
                              .memory_error_beyond_tolerance = NAN,
                              .measured_memory_bytes = run->memory_bytes};
  if (s->skip) return;
  struct spp_job job;
  struct spp_diag diag = {0};
  struct spp_violation violation;
  if (spp_job_resolve(&run->spec, run->framework, &job, &diag) != SPP_OK ||
      spp_layout_complete(&job, &run->request, &s->layout, &diag) != SPP_OK) {
    s->skip = spp_arena_printf(arena, "%s: %s", diag.where, diag.what);
    return;
  }
  if (spp_rules_check(&job, &s->layout, &violation, 1) > 0) {
    s->skip = spp_arena_printf(arena, "rule %s: %s", violation.rule, violation.text);
    return;
  }
  struct spp_prediction p;
  spp_predict(&job, &s->layout, NULL, &p);
  score_memory(run, &p.memory, s);
  score_time(run, &job, &p.time, s);
  s->predicted_fits = p.memory.fits && p.memory.host_fits;
  s->fit_probability = p.memory.fit_probability;
  s->memory_sigma = job.memory_sigma;
  s->time_sigma = job.time_sigma;
  s->waits_share = p.time.waits_share;
  s->fit_scored = run->oom != SPP_UNSET;
  s->fit_right = s->fit_scored && s->predicted_fits == (run->oom == 0);
  if (run->max_seq_tokens > 0) s->predicted_max_seq = longest_fit(&job, &s->layout);
}

static void summarise(double *errors, int scored, int n, int inside, struct spp_error_stats *stats) {
  *stats = (struct spp_error_stats){.n = n, .scored = scored};
  if (scored == 0) return;
  double sum = 0;
  for (int i = 0; i < scored; i++) {
    sum += errors[i];
    errors[i] = fabs(errors[i]);
    stats->mean_abs += errors[i] / scored;
  }
  spp_sort_reals(errors, scored);
  stats->bias = sum / scored;
  stats->median_abs = spp_quantile(errors, scored, 0.5);
  stats->p90_abs = spp_quantile(errors, scored, 0.9);
  stats->coverage = (double)inside / scored;
}

static bool has_time(const struct spp_run *run) {
  return !run->memory_only && (run->step_s > 0 || run->tokens_per_s_per_gpu > 0);
}

/* Beyond the tolerance of the records' units and rounding. */
static void summarise_beyond(const struct spp_scoreboard *board, const char *group, double *scratch,
                             struct spp_error_stats *stats) {
  int filled = 0;
  for (int i = 0; i < board->count; i++) {
    const struct spp_run_score *r = &board->runs[i];
    if (group && strcmp(group, r->run->group) != 0) continue;
    if (!isnan(r->memory_error_beyond_tolerance)) scratch[filled++] = fabs(r->memory_error_beyond_tolerance);
  }
  if (filled == 0) return;
  spp_sort_reals(scratch, filled);
  stats->median_beyond = spp_quantile(scratch, filled, 0.5);
  stats->p90_beyond = spp_quantile(scratch, filled, 0.9);
}

static void count_verdicts(const struct spp_run_score *r, struct spp_score *score) {
  score->fit.n += r->run->oom != SPP_UNSET;
  score->fit.scored += r->fit_scored;
  score->fit.correct += r->fit_right;
  score->fit.false_fit += r->fit_scored && !r->fit_right && r->run->oom == 1;
  score->fit.false_oom += r->fit_scored && !r->fit_right && r->run->oom == 0;
  if (r->run->max_seq_tokens <= 0) return;
  score->max_seq.n++;
  if (r->skip) return;
  score->max_seq.scored++;
  double ratio = (double)r->predicted_max_seq / (double)r->run->max_seq_tokens;
  score->max_seq.within_2x += ratio >= 0.5 && ratio <= 2;
  score->max_seq.not_below_stated += ratio >= 1;
}

/* Statistics of the runs of one group (NULL = all). scratch holds count doubles. */
static void score_group(const struct spp_scoreboard *board, const char *group, double *scratch,
                        struct spp_score *score) {
  *score = (struct spp_score){0};
  int memory_n = 0, memory_scored = 0, memory_inside = 0, time_n = 0, time_scored = 0, time_inside = 0;
  for (int pass = 0; pass < 2; pass++) {
    int filled = 0;
    for (int i = 0; i < board->count; i++) {
      const struct spp_run_score *r = &board->runs[i];
      if (group && strcmp(group, r->run->group) != 0) continue;
      double error = pass == 0 ? r->memory_error : r->time_error;
      if (!isnan(error)) scratch[filled++] = error;
      if (pass == 1) continue;
      score->runs++;
      score->skipped += r->skip != NULL;
      memory_n += has_memory(r->run);
      time_n += has_time(r->run);
      memory_inside += !isnan(r->memory_error) && r->memory_in_interval;
      time_inside += !isnan(r->time_error) && r->time_in_interval;
      count_verdicts(r, score);
    }
    if (pass == 0)
      summarise(scratch, memory_scored = filled, memory_n, memory_inside, &score->memory);
    else
      summarise(scratch, time_scored = filled, time_n, time_inside, &score->time);
  }
  summarise_beyond(board, group, scratch, &score->memory);
}

static void average_groups(const struct spp_scoreboard *board, bool memory, struct spp_error_stats *out) {
  *out = (struct spp_error_stats){0};
  int groups = 0;
  for (int g = 0; g < board->group_count; g++) {
    const struct spp_error_stats *s = memory ? &board->groups[g].score.memory : &board->groups[g].score.time;
    out->n += s->n;
    out->scored += s->scored;
    if (s->scored == 0) continue;
    groups++;
    out->median_abs += s->median_abs;
    out->mean_abs += s->mean_abs;
    out->p90_abs += s->p90_abs;
    out->median_beyond += s->median_beyond;
    out->p90_beyond += s->p90_beyond;
    out->bias += s->bias;
    out->coverage += s->coverage;
  }
  if (groups == 0) return;
  out->median_abs /= groups;
  out->mean_abs /= groups;
  out->p90_abs /= groups;
  out->median_beyond /= groups;
  out->p90_beyond /= groups;
  out->bias /= groups;
  out->coverage /= groups;
}

static void list_groups(struct spp_scoreboard *board, double *scratch) {
  for (int i = 0; i < board->count; i++) {
    int g = 0;
    while (g < board->group_count && strcmp(board->groups[g].group, board->runs[i].run->group) != 0)
      g++;
    if (g < board->group_count) continue;
    board->groups[board->group_count].group = board->runs[i].run->group;
    score_group(board, board->runs[i].run->group, scratch, &board->groups[board->group_count++].score);
  }
}

enum spp_status spp_score_corpus(const struct spp_corpus *corpus, bool core_only, const char *group,
                                 struct spp_arena *arena, struct spp_scoreboard *board,
                                 struct spp_diag *diag) {
  size_t most = corpus->count > 0 ? (size_t)corpus->count : 1;
  double *scratch = spp_arena_array(arena, most, sizeof *scratch);
  *board = (struct spp_scoreboard){.runs = spp_arena_array(arena, most, sizeof *board->runs),
                                   .groups = spp_arena_array(arena, most, sizeof *board->groups)};
  if (!scratch || !board->runs || !board->groups)
    return spp_diag_set(diag, SPP_ERR_INTERNAL, "accuracy", NULL, "out of memory");
  for (int i = 0; i < corpus->count; i++) {
    const struct spp_run *run = &corpus->runs[i];
    if ((core_only && !run->core) || (group && strcmp(group, run->group) != 0)) continue;
    score_run(run, arena, &board->runs[board->count++]);
  }
  score_group(board, NULL, scratch, &board->all);
  list_groups(board, scratch);
  average_groups(board, true, &board->memory_by_group);
  average_groups(board, false, &board->time_by_group);
  return SPP_OK;
}
