/* What a pass over layouts gathers: candidates, misses and reasons. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "planner/search_internal.h"

bool spp_memory_feasible(const struct spp_memory *memory) {
  return memory->fits && memory->host_fits;
}

static int64_t bytes_over(const struct spp_job *job, const struct spp_memory_figures *memory) {
  int64_t device = spp_max64(0, memory->device_bytes - memory->capacity_bytes);
  int64_t host =
      memory->host_fits ? 0 : spp_max64(0, memory->host_bytes_per_node - memory->host_capacity_bytes);
  int64_t share = job->cluster ? spp_max64(1, spp_min64(job->cluster->gpus_per_node, job->gpus)) : 1;
  if (memory->fits && memory->host_fits) return 0;
  return spp_max64(1, spp_sat_add(device, host / share));
}

int64_t spp_memory_over(const struct spp_job *job, const struct spp_memory *memory) {
  struct spp_memory_figures figures = spp_memory_figures_of(memory);
  return bytes_over(job, &figures);
}

double spp_objective_score(enum spp_objective objective, const struct spp_memory_figures *memory,
                           const struct spp_time_figures *time) {
  if (objective == SPP_OBJECTIVE_MEMORY) return (double)memory->device_bytes;
  if (objective == SPP_OBJECTIVE_COST && time->usd_per_million_tokens > 0)
    return time->usd_per_million_tokens;
  return time->tokens_per_s > 0 ? 1 / time->tokens_per_s : time->step_s;
}

void spp_reason_count(struct spp_reason *reason, const struct spp_place *place, int64_t over_bytes,
                      int64_t count) {
  if (reason->count == 0 || spp_place_compare(place, &reason->example) < 0) {
    reason->example = *place;
    reason->over_bytes = over_bytes;
  }
  reason->count += count;
}

void spp_tally_candidate(struct spp_tally *tally, const struct spp_candidate *candidate) {
  if (tally->count == tally->capacity) {
    size_t capacity = tally->capacity ? 2 * tally->capacity : 1024;
    struct spp_candidate *grown = realloc(tally->candidates, capacity * sizeof *grown);
    if (!grown) {
      tally->out_of_memory = true;
      return;
    }
    tally->candidates = grown;
    tally->capacity = capacity;
  }
  tally->candidates[tally->count++] = *candidate;
}

void spp_tally_missed(const struct spp_job *job, const struct spp_memory_figures *memory,
                      const struct spp_place *place, struct spp_tally *tally) {
  int64_t over = bytes_over(job, memory);
  spp_reason_count(&tally->reasons[memory->fits ? SPP_REASON_HOST : SPP_REASON_MEMORY], place, over, 1);
  if (tally->has_nearest &&
      (over > tally->nearest_over_bytes ||
       (over == tally->nearest_over_bytes && spp_place_compare(place, &tally->nearest) > 0)))
    return;
  tally->has_nearest = true;
  tally->nearest_over_bytes = over;
  tally->nearest = *place;
}

/* With fewer bytes than the most of a safe plan, or some to give back, no need to ask how likely. */
bool spp_hunt_risky(const struct spp_hunt *hunt, int framework, const struct spp_job *job,
                    const struct spp_memory_figures *memory) {
  return memory->device_bytes > hunt->risky_bytes[framework] &&
         spp_memory_fit_probability(job, memory->device_bytes, memory->reclaimable_bytes) <
             hunt->options->min_fit;
}

bool spp_plan_risky(const struct spp_search_options *options, const struct spp_memory *memory) {
  return memory->fit_probability < options->min_fit;
}

struct spp_candidate spp_candidate_make(const struct spp_search_options *options, const struct spp_job *job,
                                        const struct spp_layout *layout,
                                        const struct spp_memory_figures *memory, bool risky,
                                        const struct spp_time_figures *time, const struct spp_place *place) {
  return (struct spp_candidate){
      .risky = risky,
      .score = spp_objective_score(options->objective, memory, time),
      .step_s = time->step_s,
      .device_bytes = memory->device_bytes,
      .complexity = spp_layout_complexity(job, layout),
      .place = *place,
  };
}

struct spp_candidate spp_candidate_of(const struct spp_search_options *options, const struct spp_job *job,
                                      const struct spp_layout *layout,
                                      const struct spp_prediction *prediction,
                                      const struct spp_place *place) {
  struct spp_memory_figures memory = spp_memory_figures_of(&prediction->memory);
  struct spp_time_figures time = spp_time_figures_of(&prediction->time);
  return spp_candidate_make(options, job, layout, &memory, spp_plan_risky(options, &prediction->memory),
                            &time, place);
}

static void merge_reason(struct spp_reason *into, const struct spp_reason *from) {
  int64_t count = into->count + from->count;
  if (from->count > 0 && (into->count == 0 || spp_place_compare(&from->example, &into->example) < 0))
    *into = *from;
  into->count = count;
}

void spp_tally_merge(struct spp_tally *into, struct spp_tally *from) {
  size_t total = into->count + from->count;
  struct spp_candidate *grown = realloc(into->candidates, (total + 1) * sizeof *grown);
  into->out_of_memory |= from->out_of_memory || !grown;
  if (grown) {
    into->candidates = grown;
    into->capacity = total + 1;
    if (from->count > 0) memcpy(grown + into->count, from->candidates, from->count * sizeof *grown);
    into->count = total;
  }
  into->layouts += from->layouts;
  into->evaluated += from->evaluated;
  into->pruned += from->pruned;
  for (int i = 0; i < SPP_REASON_COUNT; i++)
    merge_reason(&into->reasons[i], &from->reasons[i]);
  for (int i = 0; i < SPP_MAX_FRAMEWORKS; i++) {
    into->framework_layouts[i] += from->framework_layouts[i];
    merge_reason(&into->framework_rule[i], &from->framework_rule[i]);
  }
  if (from->has_nearest && (!into->has_nearest || from->nearest_over_bytes < into->nearest_over_bytes ||
                            (from->nearest_over_bytes == into->nearest_over_bytes &&
                             spp_place_compare(&from->nearest, &into->nearest) < 0))) {
    into->has_nearest = true;
    into->nearest_over_bytes = from->nearest_over_bytes;
    into->nearest = from->nearest;
  }
  spp_tally_free(from);
}

void spp_tally_free(struct spp_tally *tally) {
  free(tally->candidates);
  memset(tally, 0, sizeof *tally);
}
