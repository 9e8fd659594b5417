/* The inner loop of the search: one cell, every layout in it. */
#include <stdlib.h>
#include <string.h>

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

/* What the cell has taught so far, so that more of the same need not be asked.
 *
 * too_big: a larger micro-batch at the same everything keeps at least as many tokens alive: b sequences in each of
 * min(P, M/b) micro-batches in flight is min(bP, M), which never falls as b grows; states do not depend on b.
 *
 * full_stops: full recompute keeps a layer's input (2 bytes a token and hidden unit) for each of the n layers alive and
 * rebuilds one layer; less recompute keeps what a layer keeps n times. A layer keeps at least twice its input (norm
 * output and one projection's input or output), so with n >= 2 layers full recompute never takes more, and where it
 * does not fit, nothing less does.
 *
 * fits_plain: offload is a remedy. Where the layout fits without, it is no part of the space (unless the objective is
 * memory, or the user fixed it), pruned or exhaustive. */
struct lessons {
  int too_big;           /* variant number */
  int block, plain_block; /* the variants equal but for recompute and loss; and but for offload too */
  int full_stops[SPP_LOSS_CHOICE_COUNT]; /* micro-batch index */
  bool fits_plain[SPP_RECOMPUTE_COUNT][SPP_LOSS_CHOICE_COUNT][SPP_MAX_MICRO_BATCHES];
};

static void turn_page(const struct spp_walk *walk, struct lessons *lessons) {
  int block = walk->number / (walk->choices.recompute_count * walk->choices.loss_count);
  if (block == lessons->block) return;
  lessons->block = block;
  for (int i = 0; i < SPP_LOSS_CHOICE_COUNT; i++) lessons->full_stops[i] = SPP_MAX_MICRO_BATCHES;
  if (block / walk->choices.offload_count == lessons->plain_block) return;
  lessons->plain_block = block / walk->choices.offload_count;
  memset(lessons->fits_plain, 0, sizeof lessons->fits_plain);
}

static bool known_too_big(const struct spp_walk *walk, const struct lessons *lessons) {
  if (lessons->too_big == walk->number) return true;
  return walk->layout.recompute != SPP_RECOMPUTE_FULL && walk->micro >= lessons->full_stops[walk->variant.loss];
}

static void learn_too_big(const struct spp_walk *walk, struct lessons *lessons) {
  lessons->too_big = walk->number;
  if (walk->layout.recompute == SPP_RECOMPUTE_FULL && walk->job->arch->layers / walk->layout.pp >= 2)
    lessons->full_stops[walk->variant.loss] = walk->micro;
}

/* The offloads list starts with none where none is a choice. */
static bool needless_offload(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct lessons *lessons) {
  return walk->variant.offload > 0 && hunt->options->objective != SPP_OBJECTIVE_MEMORY &&
         lessons->fits_plain[walk->variant.recompute][walk->variant.loss][walk->micro];
}

static void evaluate(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     struct lessons *lessons, struct spp_tally *tally) {
  struct spp_prediction prediction;
  bool exhaustive = hunt->options->exhaustive;
  if (!exhaustive && known_too_big(walk, lessons)) {
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
      if (!prediction.memory.fits) learn_too_big(walk, lessons);
      tally->pruned++;
      return;
    }
  }
  spp_comm_predict(walk->job, &walk->layout, &prediction.geometry, &prediction.comm);
  spp_timing_predict(walk->job, &walk->layout, &prediction.geometry, &prediction.comm, &prediction.time);
  tally->evaluated++;
  if (!feasible) return;
  note_fit(hunt, walk, place, &prediction, tally);
  if (walk->layout.offload == SPP_OFFLOAD_NONE)
    lessons->fits_plain[walk->variant.recompute][walk->variant.loss][walk->micro] = true;
}

void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_tally *tally) {
  const struct spp_space *space = &hunt->spaces[framework];
  struct spp_walk walk;
  struct lessons lessons = {.too_big = -1, .block = -1, .plain_block = -1};
  spp_walk_begin(&walk, space, &space->cells[cell]);
  while (spp_walk_next(&walk)) {
    turn_page(&walk, &lessons);
    if (needless_offload(hunt, &walk, &lessons)) continue;
    struct spp_place place = {framework, cell, walk.number, walk.micro};
    int rule = spp_rules_first(walk.job, &walk.layout);
    if (rule >= 0) {
      count_reason(&tally->reasons[rule < SPP_TALLY_RULES ? rule : SPP_TALLY_RULES - 1], &place, 0);
      count_reason(&tally->framework_rule[framework], &place, 0);
      continue;
    }
    tally->layouts++;
    tally->framework_layouts[framework]++;
    evaluate(hunt, &walk, &place, &lessons, tally);
  }
}
