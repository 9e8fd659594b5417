/* The inner loop of the search: one cell, every layout in it. */
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

static void count_reasons(struct spp_reason *reason, const struct spp_place *place, int64_t over_bytes,
                          int64_t count) {
  if (reason->count == 0 || spp_place_compare(place, &reason->example) < 0) {
    reason->example = *place;
    reason->over_bytes = over_bytes;
  }
  reason->count += count;
}

static void count_reason(struct spp_reason *reason, const struct spp_place *place, int64_t over_bytes) {
  count_reasons(reason, place, over_bytes, 1);
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

static void note_miss(const struct spp_job *job, const struct spp_memory_figures *memory,
                      const struct spp_place *place, struct spp_tally *tally) {
  int64_t over = bytes_over(job, memory);
  count_reason(&tally->reasons[memory->fits ? SPP_REASON_HOST : SPP_REASON_MEMORY], place, over);
  if (tally->has_nearest &&
      (over > tally->nearest_over_bytes ||
       (over == tally->nearest_over_bytes && spp_place_compare(place, &tally->nearest) > 0)))
    return;
  tally->has_nearest = true;
  tally->nearest_over_bytes = over;
  tally->nearest = *place;
}

/* With fewer bytes than the most of a safe plan, or some to give back, no need to ask how likely. */
static bool is_risky(const struct spp_hunt *hunt, int framework, const struct spp_job *job,
                     const struct spp_memory_figures *memory) {
  return memory->device_bytes > hunt->risky_bytes[framework] &&
         spp_memory_fit_probability(job, memory->device_bytes, memory->reclaimable_bytes) <
             hunt->options->min_fit;
}

bool spp_plan_risky(const struct spp_search_options *options, const struct spp_memory *memory) {
  return memory->fit_probability < options->min_fit;
}

static struct spp_candidate candidate_of(const struct spp_search_options *options, const struct spp_job *job,
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
  return candidate_of(options, job, layout, &memory, spp_plan_risky(options, &prediction->memory), &time,
                      place);
}

static void note_fit(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     const struct spp_memory_figures *memory, bool risky, const struct spp_time_figures *time,
                     struct spp_tally *tally) {
  struct spp_candidate candidate =
      candidate_of(hunt->options, walk->job, &walk->layout, memory, risky, time, place);
  add_candidate(tally, &candidate);
}

/* What the cell has taught so far, so that more of the same need not be asked.
 *
 * bytes: device bytes of the layouts of a block (one sharding, one offload, one choice of Megatron SP), exact
 * or bounded from below. Where gradients outlive a micro-batch (more than one of them, or a pipeline), so
 * that they are there at every peak, a layout takes at least as much as each of these, all else equal:
 * - a smaller micro-batch: b sequences in each of min(P, M/b) micro-batches in flight is min(bP, M), which
 * never falls as b grows; states do not depend on b.
 * - plain 1F1B, for interleaved stages: (2(d - 1) + (v - 1)p + 1)/v >= d in flight at depth d <= p, either
 * capped by M. The other flat schedules hold as many micro-batches or more.
 * - full recompute, where a stage has two layers or more: it keeps a layer's input for each of the n layers
 * alive and rebuilds one; less recompute keeps n times what a layer keeps, at least twice its input (a norm's
 * output, a projection's input or output).
 *
 * plain_bytes: what offload frees is bounded too (spp_bound_freed_bytes).
 *
 * fits_plain: offload is a remedy. Where the layout safely fits without, it is no part of the space (unless
 * the objective is memory, or the user fixed it), pruned or exhaustive. */
enum { MAX_BLOCK = SPP_MAX_RECOMPUTES * SPP_MAX_PIPES * SPP_LOSS_CHOICE_COUNT * SPP_MAX_MICRO_BATCHES };
struct lessons {
  int block, plain_block;
  int bounded; /* variant of states_bytes */
  int64_t states_bytes;
  int64_t bytes[MAX_BLOCK];
  int64_t plain_bytes[MAX_BLOCK]; /* of the same layouts without offload */
  bool fits_plain[MAX_BLOCK];
};

/* Index inside a block; micro-batches fastest. */
static int slot(const struct spp_walk *walk, int recompute, int pipe, int micro) {
  const struct spp_choices *c = &walk->choices;
  return ((recompute * c->pipe_count + pipe) * c->loss_count + walk->variant.loss) * c->micro_batch_count +
         micro;
}

static int own_slot(const struct spp_walk *walk) {
  return slot(walk, walk->variant.recompute, walk->variant.pipe, walk->micro);
}

static void turn_page(const struct spp_walk *walk, struct lessons *lessons) {
  const struct spp_choices *c = &walk->choices;
  int variants = c->recompute_count * c->pipe_count * c->loss_count, block = walk->number / variants;
  size_t used = (size_t)variants * (size_t)c->micro_batch_count;
  if (block == lessons->block) return;
  lessons->block = block;
  memset(lessons->bytes, 0, used * sizeof *lessons->bytes);
  if (block / c->offload_count == lessons->plain_block) return;
  lessons->plain_block = block / c->offload_count;
  memset(lessons->plain_bytes, 0, used * sizeof *lessons->plain_bytes);
  memset(lessons->fits_plain, 0, used * sizeof *lessons->fits_plain);
}

/* The bound of the states' bytes does not look at the micro-batch. */
static int64_t states_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                            const struct spp_place *place, struct lessons *lessons) {
  if (lessons->bounded != walk->number)
    lessons->states_bytes = spp_bound_device_bytes(&hunt->bounds[place->framework], &walk->layout);
  lessons->bounded = walk->number;
  return lessons->states_bytes;
}

static int64_t least_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                           const struct spp_place *place, struct lessons *lessons) {
  const struct spp_variant *v = &walk->variant;
  int64_t bytes = hunt->nearest_matters ? 0 : states_bytes(hunt, walk, place, lessons);
  int64_t plain = lessons->plain_bytes[own_slot(walk)];
  if (walk->layout.offload != SPP_OFFLOAD_NONE && plain > 0 && !hunt->nearest_matters)
    bytes = spp_max64(bytes, plain - spp_bound_freed_bytes(&hunt->bounds[place->framework], &walk->layout));
  if (walk->layout.grad_accum < 2 && walk->layout.pp < 2) return bytes;
  if (walk->micro > 0)
    bytes = spp_max64(bytes, lessons->bytes[slot(walk, v->recompute, v->pipe, walk->micro - 1)]);
  if (v->pipe > 0 && walk->choices.pipes[0].vpp == 1 && walk->choices.pipes[0].schedule == SPP_SCHEDULE_1F1B)
    bytes = spp_max64(bytes, lessons->bytes[slot(walk, v->recompute, 0, walk->micro)]);
  if (v->recompute > 0 && walk->choices.recomputes[0] == SPP_RECOMPUTE_FULL &&
      walk->job->arch->layers / walk->layout.pp >= 2 && walk->layout.recompute_layers == SPP_UNSET)
    bytes = spp_max64(bytes, lessons->bytes[slot(walk, 0, v->pipe, walk->micro)]);
  return bytes;
}

/* The offloads list starts with none where none is a choice. */
static bool needless_offload(const struct spp_hunt *hunt, const struct spp_walk *walk,
                             const struct lessons *lessons) {
  return walk->variant.offload > 0 && hunt->options->objective != SPP_OBJECTIVE_MEMORY &&
         lessons->fits_plain[own_slot(walk)];
}

static int64_t capacity_of(const struct spp_job *job) {
  return job->max_memory_bytes > 0 ? job->max_memory_bytes : job->gpu->capacity_bytes;
}

/* Whether a plain layout fits must be known where it decides if offload is tried. */
static bool decides_offload(const struct spp_walk *walk) {
  struct spp_layout layout = walk->layout;
  if (walk->layout.offload != SPP_OFFLOAD_NONE) return false;
  for (int i = 0; i < walk->choices.offload_count; i++) {
    layout.offload = walk->choices.offloads[i];
    if (layout.offload != SPP_OFFLOAD_NONE && spp_rules_first(walk->job, &layout) < 0) return true;
  }
  return false;
}

/* One cell under way. */
struct pass {
  const struct spp_hunt *hunt;
  struct spp_evaluator *evaluator;
  struct spp_tally *tally;
  struct spp_walk walk;
  struct lessons lessons;
  bool begun; /* the evaluator has seen a layout of the cell */
};

static bool begin(struct pass *p) {
  const struct spp_choices *c = &p->walk.choices;
  const struct spp_evaluator_shape shape = {c->loss_count, c->pipe_count, c->recompute_count,
                                            c->micro_batch_count, c->pipes};
  if (!p->begun && !spp_evaluator_begin(p->evaluator, &shape, p->walk.job, &p->walk.layout))
    p->tally->out_of_memory = true;
  p->begun = true;
  return !p->tally->out_of_memory;
}

static struct spp_evaluator_place place_of(const struct spp_walk *walk) {
  return (struct spp_evaluator_place){walk->variant.loss, walk->variant.pipe, walk->variant.recompute,
                                      walk->micro};
}

/* Can the layout be left out, if its step takes at least so long and this much memory? risky: it is known to
 * be. */
static bool beaten(const struct pass *p, const struct spp_place *place, double step_s, int64_t device_bytes,
                   bool risky) {
  const struct spp_hunt *hunt = p->hunt;
  const struct spp_job *job = p->walk.job;
  double score = hunt->options->objective == SPP_OBJECTIVE_MEMORY
                     ? (double)device_bytes
                     : step_s / hunt->bounds[place->framework].real_tokens;
  if (hunt->options->objective == SPP_OBJECTIVE_COST && job->usd_per_gpu_hour > 0)
    score *= job->usd_per_gpu_hour / 3600 * (double)job->gpus * 1e6;
  return spp_known_hopeless(&hunt->known, place->framework, risky, score, step_s, device_bytes);
}

/* The same from the bounds of the step time, the cheap one first. */
static bool hopeless(struct pass *p, const struct spp_place *place, int64_t device_bytes, bool risky) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = place_of(walk);
  if (p->hunt->known.front_count == 0) return false;
  double least_s = spp_bound_step_s(&p->hunt->bounds[place->framework], &walk->layout);
  if (beaten(p, place, least_s, device_bytes, risky)) return true;
  if (!begin(p)) return false;
  return beaten(p, place, spp_evaluator_least_s(p->evaluator, walk->job, &walk->layout, &kept), device_bytes,
                risky);
}

/* Memory of a layout that may fit; false when it does not, or is known not to. */
static bool fit_in(struct pass *p, const struct spp_place *place, struct spp_memory_figures *memory) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = place_of(walk);
  int64_t *bytes = &p->lessons.bytes[own_slot(walk)];
  if (!p->hunt->options->exhaustive) {
    *bytes = least_bytes(p->hunt, walk, place, &p->lessons);
    if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
    if (*bytes > capacity_of(walk->job)) {
      count_reason(&p->tally->reasons[SPP_REASON_MEMORY], place, -1);
      return false;
    }
    int64_t device_bytes = *bytes;
    if (!p->hunt->nearest_matters && begin(p)) { /* more is known at a price */
      spp_evaluator_least_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
      device_bytes = spp_max64(device_bytes, memory->device_bytes);
      *bytes = spp_max64(*bytes, memory->device_bytes - memory->reclaimable_bytes);
      if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
    }
    if (*bytes > capacity_of(walk->job)) {
      count_reason(&p->tally->reasons[SPP_REASON_MEMORY], place, -1);
      return false;
    }
    bool risky = *bytes > p->hunt->risky_bytes[place->framework];
    if (hopeless(p, place, device_bytes, risky) && !decides_offload(walk)) return false;
  }
  if (!begin(p)) return false;
  spp_evaluator_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
  *bytes = memory->device_bytes - memory->reclaimable_bytes;
  if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
  if (memory->fits && memory->host_fits) return true;
  note_miss(walk->job, memory, place, p->tally);
  return false;
}

static void evaluate(struct pass *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  struct spp_memory_figures memory;
  struct spp_time_figures time;
  struct spp_evaluator_place kept = place_of(walk);
  bool exhaustive = p->hunt->options->exhaustive, fits = fit_in(p, place, &memory);
  bool risky = fits && is_risky(p->hunt, place->framework, walk->job, &memory);
  if (fits && !risky && walk->layout.offload == SPP_OFFLOAD_NONE)
    p->lessons.fits_plain[own_slot(walk)] = true;
  if (p->tally->out_of_memory || (!exhaustive && (!fits || hopeless(p, place, memory.device_bytes, risky)))) {
    p->tally->pruned++;
    return;
  }
  spp_evaluator_time(p->evaluator, walk->job, &walk->layout, &kept, &time);
  p->tally->evaluated++;
  if (fits) note_fit(p->hunt, walk, place, &memory, risky, &time, p->tally);
}

/* The most bytes that may be as likely to fit as asked. */
static int64_t most_likely_bytes(const struct pass *p, const struct spp_place *place) {
  return spp_min64(p->hunt->risky_bytes[place->framework], capacity_of(p->walk.job));
}

static bool likely(struct pass *p, const struct spp_layout *layout, const struct spp_evaluator_place *kept) {
  const struct spp_job *job = p->walk.job;
  struct spp_memory_figures memory;
  spp_evaluator_memory(p->evaluator, job, layout, kept, &memory);
  return memory.fits && spp_memory_fit_probability(job, memory.device_bytes, memory.reclaimable_bytes) >=
                            p->hunt->options->min_fit;
}

/* Is there no need to recompute any layer? Known where that layout has been evaluated before in this block,
 * or is known to take too much. */
static bool needs_no_layers(struct pass *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  int none = walk->choices.recompute_count - 2;
  struct spp_evaluator_place kept = place_of(walk);
  if (walk->choices.recomputes[none] != SPP_RECOMPUTE_NONE) return false;
  kept.recompute = none;
  none = slot(walk, none, walk->variant.pipe, walk->micro);
  if (p->lessons.fits_plain[none]) return true;
  if (p->lessons.bytes[none] > most_likely_bytes(p, place)) return false;
  struct spp_layout layout = walk->layout;
  layout.recompute = SPP_RECOMPUTE_NONE;
  layout.recompute_layers = SPP_UNSET;
  return likely(p, &layout, &kept);
}

struct layers_asked {
  struct pass *pass;
  struct spp_layout layout;
  struct spp_evaluator_place kept;
};

static bool enough(void *context, int64_t layers) {
  struct layers_asked *asked = context;
  asked->layout.recompute_layers = layers;
  return likely(asked->pass, &asked->layout, &asked->kept);
}

static int64_t fewest_layers(struct pass *p, struct layers_asked *asked) {
  int64_t most = spp_evaluator_most_layers(p->evaluator, &asked->kept);
  if (most == 0) return spp_fewest_layers(p->walk.job, &p->walk.layout, p->hunt->options->min_fit);
  return spp_fewest_enough(most, enough, asked);
}

/* Full recompute of the fewest layers that are likely to fit. Its time is bounded by that with one, its bytes
 * by recompute of every layer, which comes first in the block. Where that takes no layer, or every one, it is
 * another variant: then this one adds nothing. */
static void evaluate_by_layers(struct pass *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  struct layers_asked asked = {p, walk->layout, place_of(walk)};
  struct spp_memory_figures memory;
  struct spp_time_figures time;
  bool comparable = walk->layout.grad_accum > 1 || walk->layout.pp > 1; /* as in least_bytes */
  int64_t least = comparable ? p->lessons.bytes[slot(walk, 0, walk->variant.pipe, walk->micro)] : 0;
  if (!begin(p) || (!p->hunt->options->exhaustive &&
                    (least > most_likely_bytes(p, place) || hopeless(p, place, least, false)))) {
    p->tally->pruned++;
    return;
  }
  p->tally->evaluated++;
  if (needs_no_layers(p, place)) return;
  asked.layout.recompute_layers = fewest_layers(p, &asked);
  if (asked.layout.recompute_layers == 0) return;
  spp_evaluator_memory(p->evaluator, walk->job, &asked.layout, &asked.kept, &memory);
  spp_evaluator_time(p->evaluator, walk->job, &asked.layout, &asked.kept, &time);
  bool risky = is_risky(p->hunt, place->framework, walk->job, &memory);
  struct spp_candidate candidate =
      candidate_of(p->hunt->options, walk->job, &asked.layout, &memory, risky, &time, place);
  add_candidate(p->tally, &candidate);
}

/* A broken rule counts once a layout; where it refuses the variant, all micro-batches left are counted at
 * once, but those that are no part of the space. */
static void refuse(struct pass *p, const struct spp_place *place, int rule) {
  struct spp_walk *walk = &p->walk;
  int count = 0, here = walk->micro;
  int end = spp_walk_refused(walk) ? walk->choices.micro_batch_count : walk->micro + 1;
  for (; walk->micro < end; walk->micro++)
    count += !needless_offload(p->hunt, walk, &p->lessons);
  walk->micro = here;
  if (spp_walk_refused(walk)) spp_walk_skip(walk);
  count_reasons(&p->tally->reasons[rule < SPP_TALLY_RULES ? rule : SPP_TALLY_RULES - 1], place, 0, count);
  count_reasons(&p->tally->framework_rule[place->framework], place, 0, count);
}

void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_evaluator *evaluator,
                     struct spp_tally *tally) {
  const struct spp_space *space = &hunt->spaces[framework];
  struct pass p;
  p.hunt = hunt;
  p.evaluator = evaluator;
  p.tally = tally;
  p.begun = false;
  p.lessons.block = p.lessons.plain_block = p.lessons.bounded = -1;
  spp_walk_begin(&p.walk, space, &space->cells[cell]);
  while (spp_walk_next(&p.walk)) {
    turn_page(&p.walk, &p.lessons);
    if (needless_offload(hunt, &p.walk, &p.lessons)) continue;
    struct spp_place place = {framework, cell, p.walk.number, p.walk.micro};
    int rule = spp_walk_rule(&p.walk);
    if (rule >= 0) {
      refuse(&p, &place, rule);
      continue;
    }
    tally->layouts++;
    tally->framework_layouts[framework]++;
    if (spp_walk_by_layers(&p.walk))
      evaluate_by_layers(&p, &place);
    else
      evaluate(&p, &place);
  }
}
