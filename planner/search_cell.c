/* The inner loop of the search: one cell, every layout in it. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "planner/search_internal.h"

static void note_fit(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     const struct spp_memory_figures *memory, bool risky, const struct spp_time_figures *time,
                     struct spp_tally *tally) {
  struct spp_candidate candidate =
      spp_candidate_make(hunt->options, walk->job, &walk->layout, memory, risky, time, place);
  spp_tally_candidate(tally, &candidate);
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
 * plain: offload is a remedy. Where the layout safely fits without, it is no candidate (unless the objective
 * is memory, or the user fixed it), pruned or exhaustive: needless_offload(). */
enum plain { PLAIN_UNKNOWN, PLAIN_FITS, PLAIN_DOES_NOT };
enum { MAX_BLOCK = SPP_MAX_RECOMPUTES * SPP_MAX_PIPES * SPP_LOSS_CHOICE_COUNT * SPP_MAX_MICRO_BATCHES };
struct lessons {
  int block, plain_block;
  int bounded; /* variant of states_bytes */
  int64_t states_bytes;
  double host_s; /* of the same variant: optimizer step on the host */
  int64_t bytes[MAX_BLOCK];
  int64_t plain_bytes[MAX_BLOCK]; /* of the same layouts without offload */
  enum plain plain[MAX_BLOCK];    /* do they safely fit */
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
  memset(lessons->plain, 0, used * sizeof *lessons->plain);
}

/* The bound of the states' bytes does not look at the micro-batch. */
static int64_t states_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                            const struct spp_place *place, struct lessons *lessons) {
  if (lessons->bounded != walk->number) {
    lessons->states_bytes = spp_bound_device_bytes(&hunt->bounds[place->framework], &walk->layout);
    lessons->host_s = spp_bound_host_s(&hunt->bounds[place->framework], &walk->layout);
  }
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

static int64_t capacity_of(const struct spp_job *job) {
  return job->max_memory_bytes > 0 ? job->max_memory_bytes : job->gpu->capacity_bytes;
}

/* One cell under way. */
struct pass {
  const struct spp_hunt *hunt;
  struct spp_evaluator *evaluator;
  struct spp_tally *tally;
  struct spp_walk walk;
  struct lessons lessons;
  bool begun; /* the evaluator has seen a layout of the cell */
  /* Seconds that no layout of the same pipeline, loss and micro-batch falls below, and that none at all does;
   * of one choice of Megatron SP and sharding stage. */
  int floor_half;
  double floor_s[SPP_MAX_PIPES][SPP_LOSS_CHOICE_COUNT][SPP_MAX_MICRO_BATCHES], least_floor_s;
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

/* ---- floors ---- */

/* The recompute that takes least time: none, where it is a choice. The layers' time by itself never falls
 * with more recompute: it adds a pass of its own, with its own exchanges, to a forward and a backward that
 * stay as they are. */
static int least_recompute(const struct spp_choices *c) {
  int last = c->recompute_count - 1;
  while (last > 0 && c->by_layers[last])
    last--;
  return last;
}

/* The layout with least recompute, of the walk's variant but for pipeline and loss. */
static double floor_of(struct pass *p, int pipe, int loss, int micro) {
  const struct spp_walk *walk = &p->walk;
  struct spp_variant v = walk->variant;
  struct spp_layout layout;
  v.pipe = pipe;
  v.loss = loss;
  v.recompute = least_recompute(&walk->choices);
  v.offload = 0;
  spp_space_layout(walk->space, walk->cell, &walk->choices, &v, walk->choices.micro_batches[micro], &layout);
  const struct spp_evaluator_place kept = {loss, pipe, v.recompute, micro};
  return spp_evaluator_least_s(p->evaluator, &walk->space->jobs[walk->choices.losses[loss]], &layout, &kept);
}

/* Layers know the sharding stage under some frameworks, never the number of replicas. */
static int half_of(const struct pass *p) {
  const struct spp_walk *walk = &p->walk;
  return walk->variant.megatron_sp * 4 + walk->layout.zero;
}

static void count_floors(struct pass *p) {
  const struct spp_choices *c = &p->walk.choices;
  p->floor_half = half_of(p);
  p->least_floor_s = INFINITY;
  for (int pipe = 0; pipe < c->pipe_count; pipe++)
    for (int micro = 0; micro < c->micro_batch_count; micro++)
      for (int loss = 0; loss < c->loss_count; loss++) { /* losses share most of it */
        bool legal = spp_walk_batch_rule(&p->walk, pipe, micro) < 0;
        double floor_s = legal ? floor_of(p, pipe, loss, micro) : INFINITY;
        p->floor_s[pipe][loss][micro] = floor_s;
        if (floor_s < p->least_floor_s) p->least_floor_s = floor_s;
      }
}

/* Floors of the current half of the cell; false when there is nothing to compare them with. */
static bool know_floors(struct pass *p) {
  if (p->hunt->known.front_count == 0 || !begin(p)) return false;
  if (p->floor_half != half_of(p)) count_floors(p);
  return true;
}

/* No layout of the variant matters, whatever its micro-batch and recompute. */
static bool variant_hopeless(struct pass *p, const struct spp_place *place) {
  int64_t bytes = states_bytes(p->hunt, &p->walk, place, &p->lessons);
  bool risky = bytes > p->hunt->risky_bytes[place->framework];
  return know_floors(p) && beaten(p, place, p->least_floor_s + p->lessons.host_s, bytes, risky);
}

/* The floor of the current layout is too slow for its bytes. */
static bool floor_hopeless(struct pass *p, const struct spp_place *place, int64_t device_bytes, bool risky) {
  const struct spp_walk *walk = &p->walk;
  if (!know_floors(p)) return false;
  double floor_s = p->floor_s[walk->variant.pipe][walk->variant.loss][walk->micro];
  return beaten(p, place, floor_s + p->lessons.host_s, device_bytes, risky);
}

/* The same from the bounds of the step time, the cheap one first. */
static bool hopeless(struct pass *p, const struct spp_place *place, int64_t device_bytes, bool risky) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = place_of(walk);
  if (p->hunt->known.front_count == 0) return false;
  double least_s = spp_bound_step_s(&p->hunt->bounds[place->framework], &walk->layout);
  if (beaten(p, place, least_s, device_bytes, risky)) return true;
  if (floor_hopeless(p, place, device_bytes, risky)) return true;
  if (!begin(p)) return false;
  double layers_s = spp_evaluator_least_s(p->evaluator, walk->job, &walk->layout, &kept);
  return beaten(p, place, layers_s + p->lessons.host_s, device_bytes, risky);
}

/* What is known of the layout without offload. */
static void learn_plain(struct pass *p, bool safe) {
  if (p->walk.layout.offload == SPP_OFFLOAD_NONE)
    p->lessons.plain[own_slot(&p->walk)] = safe ? PLAIN_FITS : PLAIN_DOES_NOT;
}

/* By a bound: never fits. */
static bool over_capacity(struct pass *p, const struct spp_place *place) {
  learn_plain(p, false);
  spp_reason_count(&p->tally->reasons[SPP_REASON_MEMORY], place, -1, 1);
  return false;
}

/* Memory of a layout that may fit; false when it does not, or is known not to. */
static bool fit_in(struct pass *p, const struct spp_place *place, struct spp_memory_figures *memory) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = place_of(walk);
  int64_t *bytes = &p->lessons.bytes[own_slot(walk)];
  if (!p->hunt->options->exhaustive) {
    *bytes = least_bytes(p->hunt, walk, place, &p->lessons);
    if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
    if (*bytes > capacity_of(walk->job)) return over_capacity(p, place);
    int64_t device_bytes = *bytes;
    if (floor_hopeless(p, place, device_bytes, device_bytes > p->hunt->risky_bytes[place->framework]))
      return false;
    if (!p->hunt->nearest_matters && begin(p)) { /* more is known at a price */
      spp_evaluator_least_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
      device_bytes = spp_max64(device_bytes, memory->device_bytes);
      *bytes = spp_max64(*bytes, memory->device_bytes - memory->reclaimable_bytes);
      if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
    }
    if (*bytes > capacity_of(walk->job)) return over_capacity(p, place);
    bool risky = *bytes > p->hunt->risky_bytes[place->framework];
    if (hopeless(p, place, device_bytes, risky)) return false;
  }
  if (!begin(p)) return false;
  spp_evaluator_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
  *bytes = memory->device_bytes - memory->reclaimable_bytes;
  if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[own_slot(walk)] = *bytes;
  if (memory->fits && memory->host_fits) return true;
  learn_plain(p, false);
  spp_tally_missed(walk->job, memory, place, p->tally);
  return false;
}

static bool safely_fits(struct pass *p, const struct spp_place *place, const struct spp_layout *layout) {
  const struct spp_job *job = p->walk.job;
  const struct spp_evaluator_place kept = place_of(&p->walk);
  struct spp_memory_figures memory;
  if (spp_rules_first(job, layout) >= 0) return false;
  spp_evaluator_memory(p->evaluator, job, layout, &kept, &memory);
  return memory.fits && memory.host_fits && !spp_hunt_risky(p->hunt, place->framework, job, &memory);
}

/* Offload that may be left out: the offloads list starts with none where none is a choice. */
static bool may_go(const struct pass *p) {
  return p->walk.variant.offload > 0 && p->hunt->options->objective != SPP_OBJECTIVE_MEMORY;
}

static bool fits_without_offload(struct pass *p, const struct spp_place *place,
                                 const struct spp_layout *layout) {
  struct spp_layout without = *layout;
  without.offload = SPP_OFFLOAD_NONE;
  return may_go(p) && safely_fits(p, place, &without);
}

/* Does the layout safely fit without its offload? Asked of layouts that nothing else rules out. */
static bool needless_offload(struct pass *p, const struct spp_place *place) {
  enum plain *plain = &p->lessons.plain[own_slot(&p->walk)];
  if (!may_go(p)) return false;
  if (*plain == PLAIN_UNKNOWN)
    *plain = fits_without_offload(p, place, &p->walk.layout) ? PLAIN_FITS : PLAIN_DOES_NOT;
  return *plain == PLAIN_FITS;
}

static void evaluate(struct pass *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  struct spp_memory_figures memory;
  struct spp_time_figures time;
  struct spp_evaluator_place kept = place_of(walk);
  bool exhaustive = p->hunt->options->exhaustive, fits = fit_in(p, place, &memory);
  bool risky = fits && spp_hunt_risky(p->hunt, place->framework, walk->job, &memory);
  if (fits) learn_plain(p, !risky);
  bool pruned =
      !exhaustive && (!fits || hopeless(p, place, memory.device_bytes, risky) || needless_offload(p, place));
  if (pruned || p->tally->out_of_memory) {
    p->tally->pruned++;
    return;
  }
  spp_evaluator_time(p->evaluator, walk->job, &walk->layout, &kept, &time);
  p->tally->evaluated++;
  if (fits && !(exhaustive && needless_offload(p, place)))
    note_fit(p->hunt, walk, place, &memory, risky, &time, p->tally);
}

/* The most bytes that may be as likely to fit as asked. */
static int64_t most_likely_bytes(const struct pass *p, const struct spp_place *place) {
  return spp_min64(p->hunt->risky_bytes[place->framework], capacity_of(p->walk.job));
}

static bool is_likely(const struct pass *p, const struct spp_memory_figures *memory) {
  return memory->fits && memory->host_fits &&
         spp_memory_fit_probability(p->walk.job, memory->device_bytes, memory->reclaimable_bytes) >=
             p->hunt->options->min_fit;
}

static bool likely(struct pass *p, const struct spp_layout *layout, const struct spp_evaluator_place *kept) {
  struct spp_memory_figures memory;
  spp_evaluator_memory(p->evaluator, p->walk.job, layout, kept, &memory);
  return is_likely(p, &memory);
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
  if (p->lessons.plain[none] != PLAIN_UNKNOWN && walk->layout.offload == SPP_OFFLOAD_NONE)
    return p->lessons.plain[none] == PLAIN_FITS;
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

static bool enough(struct layers_asked *asked, int64_t layers) {
  struct pass *p = asked->pass;
  const struct spp_job *job = p->walk.job;
  struct spp_memory_figures memory;
  asked->layout.recompute_layers = layers;
  spp_evaluator_memory(p->evaluator, job, &asked->layout, &asked->kept, &memory);
  return is_likely(p, &memory);
}

/* Do so many recomputed layers, or more, take too long? `bytes`: what the most of them take at least. */
static bool slow_with(struct pass *p, const struct spp_place *place, struct layers_asked *asked,
                      int64_t layers, int64_t bytes) {
  if (p->hunt->known.front_count == 0) return false;
  asked->layout.recompute_layers = layers;
  double layers_s = spp_evaluator_least_s(p->evaluator, p->walk.job, &asked->layout, &asked->kept);
  return beaten(p, place, layers_s + p->lessons.host_s, bytes, false);
}

/* Device bytes that so many recomputed layers take at least. */
static int64_t least_with(struct layers_asked *asked, int64_t layers) {
  struct spp_memory_figures memory;
  asked->layout.recompute_layers = layers;
  spp_evaluator_least_memory(asked->pass->evaluator, asked->pass->walk.job, &asked->layout, &asked->kept,
                             &memory);
  return memory.device_bytes;
}

/* Chunks' layers above `low` of which fewer are bound to take too much: found by halving, the bound never
 * grows. */
static int64_t least_layers(struct layers_asked *asked, int64_t high, int64_t unit, int64_t limit) {
  int64_t low = 0; /* too few, or none */
  if (least_with(asked, high * unit) > limit) return high + 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (least_with(asked, middle * unit) > limit)
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* The fewest chunks' layers above `low`, which are too few, up to `high`: the bound is close, so with growing
 * steps and then by halving. 0 = none are enough. */
static int64_t climb(struct layers_asked *asked, int64_t low, int64_t high, int64_t unit) {
  int64_t step = 1, top = low;
  for (;; step *= 2) {
    top = spp_min64(low + step, high);
    if (enough(asked, top * unit)) break;
    if (top == high) return 0;
    low = top;
  }
  while (top - low > 1) {
    int64_t middle = low + (top - low) / 2;
    if (enough(asked, middle * unit))
      top = middle;
    else
      low = middle;
  }
  return top * unit;
}

/* As spp_fewest_layers(), in fewer steps: memory is bounded before it is counted. 0 too where so many layers
 * are needed that the layout cannot matter. */
static int64_t fewest_layers(struct pass *p, struct layers_asked *asked, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  int64_t most = spp_evaluator_most_layers(p->evaluator, &asked->kept), unit = walk->layout.vpp;
  int64_t low = 0, high = spp_ceil_div(most, unit) - 1;
  if (most == 0) return spp_fewest_layers(walk->job, &walk->layout, p->hunt->options->min_fit);
  if (high < 1) return 0;
  if (!p->hunt->options->exhaustive) {
    low = least_layers(asked, high, unit, most_likely_bytes(p, place)) - 1;
    if (low >= high) return 0;
    int64_t bytes = least_with(asked, high * unit);
    if (low > 0 && slow_with(p, place, asked, (low + 1) * unit, bytes)) return 0;
  }
  return climb(asked, low, high, unit);
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
  asked.layout.recompute_layers = fewest_layers(p, &asked, place);
  if (asked.layout.recompute_layers == 0) return;
  if (fits_without_offload(p, place, &asked.layout)) return;
  spp_evaluator_memory(p->evaluator, walk->job, &asked.layout, &asked.kept, &memory);
  spp_evaluator_time(p->evaluator, walk->job, &asked.layout, &asked.kept, &time);
  bool risky = spp_hunt_risky(p->hunt, place->framework, walk->job, &memory);
  struct spp_candidate candidate =
      spp_candidate_make(p->hunt->options, walk->job, &asked.layout, &memory, risky, &time, place);
  spp_tally_candidate(p->tally, &candidate);
}

static void count_refused(struct pass *p, const struct spp_place *place, int rule, int64_t count) {
  if (count == 0) return;
  spp_reason_count(&p->tally->reasons[rule < SPP_TALLY_RULES ? rule : SPP_TALLY_RULES - 1], place, 0, count);
  spp_reason_count(&p->tally->framework_rule[place->framework], place, 0, count);
}

/* A rule that refuses every micro-batch of the variant. */
static void refuse_variant(struct pass *p, const struct spp_place *place, int rule) {
  count_refused(p, place, rule, p->walk.choices.micro_batch_count);
  spp_walk_skip(&p->walk);
}

static void count_legal(struct pass *p, const struct spp_place *place, int64_t count) {
  p->tally->layouts += count;
  p->tally->framework_layouts[place->framework] += count;
}

/* The variant is counted at once: its states alone exceed the GPU, or it is hopeless. */
static void leave_out_variant(struct pass *p, const struct spp_place *place, bool exceeds) {
  struct spp_walk *walk = &p->walk;
  int legal = spp_walk_legal_batches(walk);
  for (; legal < walk->choices.micro_batch_count && walk->micro < walk->choices.micro_batch_count;
       walk->micro++)
    if (spp_walk_rule(walk) >= 0)
      count_refused(p, &(struct spp_place){place->framework, place->cell, walk->number, walk->micro},
                    spp_walk_rule(walk), 1);
  walk->micro = 0;
  while (legal > 0 && spp_walk_rule(walk) >= 0)
    walk->micro++;
  const struct spp_place first = {place->framework, place->cell, walk->number, walk->micro};
  spp_walk_skip(walk);
  if (legal == 0) return;
  count_legal(p, place, legal);
  p->tally->pruned += legal;
  if (exceeds && !spp_walk_by_layers(walk))
    spp_reason_count(&p->tally->reasons[SPP_REASON_MEMORY], &first, -1, legal);
}

/* What can be left out from the variant alone. */
static bool leave_out(struct pass *p, const struct spp_place *place) {
  const struct spp_hunt *hunt = p->hunt;
  if (hunt->options->exhaustive || hunt->nearest_matters) return false;
  bool exceeds = states_bytes(hunt, &p->walk, place, &p->lessons) > capacity_of(p->walk.job);
  if (!exceeds && !variant_hopeless(p, place)) return false;
  leave_out_variant(p, place, exceeds);
  return true;
}

/* Known to safely fit without offload; of a number of layers, without recomputing any: then with as many,
 * too. */
static bool known_needless(const struct pass *p) {
  const struct spp_walk *walk = &p->walk;
  const struct spp_choices *c = &walk->choices;
  int recompute = spp_walk_by_layers(walk) ? least_recompute(c) : walk->variant.recompute;
  bool layers_stay = !spp_walk_by_layers(walk) || c->recomputes[recompute] == SPP_RECOMPUTE_NONE;
  return !p->hunt->options->exhaustive && may_go(p) && layers_stay &&
         p->lessons.plain[slot(walk, recompute, walk->variant.pipe, walk->micro)] == PLAIN_FITS;
}

static void judge(struct pass *p, const struct spp_place *place) {
  int rule = spp_walk_choice_rule(&p->walk);
  if (rule >= 0) {
    refuse_variant(p, place, rule);
    return;
  }
  if (p->walk.micro == 0 && leave_out(p, place)) return;
  rule = spp_walk_rule(&p->walk);
  if (rule >= 0) {
    count_refused(p, place, rule, 1);
    return;
  }
  count_legal(p, place, 1);
  if (known_needless(p)) {
    p->tally->pruned++;
    return;
  }
  if (spp_walk_by_layers(&p->walk))
    evaluate_by_layers(p, place);
  else
    evaluate(p, place);
}

void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_evaluator *evaluator,
                     struct spp_tally *tally) {
  const struct spp_space *space = &hunt->spaces[framework];
  struct pass p;
  p.hunt = hunt;
  p.evaluator = evaluator;
  p.tally = tally;
  p.begun = false;
  p.floor_half = -1;
  p.lessons.block = p.lessons.plain_block = p.lessons.bounded = -1;
  p.lessons.host_s = 0;
  spp_walk_begin(&p.walk, space, &space->cells[cell]);
  while (spp_walk_next(&p.walk)) {
    struct spp_place place = {framework, cell, p.walk.number, p.walk.micro};
    int rule = spp_walk_cell_rule(&p.walk);
    if (rule >= 0) {
      count_refused(&p, &place, rule, spp_walk_layouts(&p.walk));
      return;
    }
    turn_page(&p.walk, &p.lessons);
    judge(&p, &place);
  }
}
