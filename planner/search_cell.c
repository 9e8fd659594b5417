/* The inner loop of the search: one cell, every layout in it. */
#include <stdlib.h>

#include "base/num.h"
#include "planner/search_internal.h"

bool spp_memory_feasible(const struct spp_memory *memory) {
  return memory->fits && memory->host_fits;
}

int64_t spp_memory_over(const struct spp_job *job, const struct spp_memory *memory) {
  int64_t device = spp_max64(0, memory->device_bytes - memory->capacity_bytes);
  int64_t host =
      memory->host_fits ? 0 : spp_max64(0, memory->host_bytes_per_node - memory->host_capacity_bytes);
  int64_t share = job->cluster ? spp_max64(1, spp_min64(job->cluster->gpus_per_node, job->gpus)) : 1;
  if (memory->fits && memory->host_fits) return 0;
  return spp_max64(1, spp_sat_add(device, host / share));
}

double spp_objective_score(enum spp_objective objective, const struct spp_prediction *prediction) {
  const struct spp_time *time = &prediction->time;
  if (objective == SPP_OBJECTIVE_MEMORY) return (double)prediction->memory.device_bytes;
  if (objective == SPP_OBJECTIVE_COST && time->usd_per_million_tokens > 0)
    return time->usd_per_million_tokens;
  return time->tokens_per_s > 0 ? 1 / time->tokens_per_s : time->step_s;
}

static void count_reason(struct spp_reason *reason, const struct spp_place *place, int64_t over_bytes) {
  if (reason->count == 0 || spp_place_compare(place, &reason->example) < 0) {
    reason->example = *place;
    reason->over_bytes = over_bytes;
  }
  reason->count++;
}

static void add_candidate(struct spp_tally *tally, const struct spp_candidate *candidate) {
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

static void note_miss(const struct spp_job *job, const struct spp_memory *memory,
                      const struct spp_place *place, struct spp_tally *tally) {
  int64_t over = spp_memory_over(job, memory);
  count_reason(&tally->reasons[memory->fits ? SPP_REASON_HOST : SPP_REASON_MEMORY], place, over);
  if (tally->has_nearest &&
      (over > tally->nearest_over_bytes ||
       (over == tally->nearest_over_bytes && spp_place_compare(place, &tally->nearest) > 0)))
    return;
  tally->has_nearest = true;
  tally->nearest_over_bytes = over;
  tally->nearest = *place;
}

static void note_fit(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     const struct spp_prediction *prediction, struct spp_tally *tally) {
  struct spp_candidate candidate = {
      .score = spp_objective_score(hunt->options->objective, prediction),
      .step_s = prediction->time.step_s,
      .device_bytes = prediction->memory.device_bytes,
      .complexity = spp_layout_complexity(walk->job, &walk->layout),
      .place = *place,
  };
  add_candidate(tally, &candidate);
}

/* What already failed for want of memory, so that more of the same need not be asked.
 *
 * A larger micro-batch at the same everything keeps at least as many tokens alive: b sequences in each of
 * min(P, M/b) micro-batches in flight is min(bP, M), which never falls as b grows; states do not depend on b.
 */
struct too_big {
  int number, micro; /* this variant, from this micro-batch on */
};

static void evaluate(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     struct too_big *too_big, struct spp_tally *tally) {
  struct spp_prediction prediction;
  bool exhaustive = hunt->options->exhaustive;
  if (!exhaustive && too_big->number == walk->number) {
    count_reason(&tally->reasons[SPP_REASON_MEMORY], place, -1);
    tally->pruned++;
    return;
  }
  spp_geometry_resolve(walk->job, &walk->layout, &prediction.geometry);
  spp_memory_predict(walk->job, &walk->layout, &prediction.geometry, NULL, &prediction.memory);
  bool feasible = spp_memory_feasible(&prediction.memory);
  if (!feasible) {
    note_miss(walk->job, &prediction.memory, place, tally);
    if (!exhaustive) {
      if (!prediction.memory.fits) too_big->number = walk->number;
      tally->pruned++;
      return;
    }
  }
  spp_comm_predict(walk->job, &walk->layout, &prediction.geometry, &prediction.comm);
  spp_timing_predict(walk->job, &walk->layout, &prediction.geometry, &prediction.comm, &prediction.time);
  tally->evaluated++;
  if (feasible) note_fit(hunt, walk, place, &prediction, tally);
}

void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_tally *tally) {
  const struct spp_space *space = &hunt->spaces[framework];
  struct spp_walk walk;
  struct too_big too_big = {.number = -1};
  spp_walk_begin(&walk, space, &space->cells[cell]);
  while (spp_walk_next(&walk)) {
    struct spp_place place = {framework, cell, walk.number, walk.micro};
    int rule = spp_rules_first(walk.job, &walk.layout);
    if (rule >= 0) {
      count_reason(&tally->reasons[rule < SPP_TALLY_RULES ? rule : SPP_TALLY_RULES - 1], &place, 0);
      count_reason(&tally->framework_rule[framework], &place, 0);
      continue;
    }
    tally->layouts++;
    tally->framework_layouts[framework]++;
    evaluate(hunt, &walk, &place, &too_big, tally);
  }
}
