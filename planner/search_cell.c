/* The inner loop of the search: one cell, every layout in it. */
#include "planner/search_cell.h"

static void note_fit(const struct spp_hunt *hunt, const struct spp_walk *walk, const struct spp_place *place,
                     const struct spp_memory_figures *memory, bool risky, const struct spp_time_figures *time,
                     struct spp_tally *tally) {
  struct spp_candidate candidate =
      spp_candidate_make(hunt->options, walk->job, &walk->layout, memory, risky, time, place);
  spp_tally_candidate(tally, &candidate);
}

/* What is known of the layout without offload. */
static void learn_plain(struct spp_cell_work *p, bool safe) {
  if (p->walk.layout.offload == SPP_OFFLOAD_NONE)
    p->lessons.plain[spp_cell_own_slot(&p->walk)] = safe ? SPP_PLAIN_FITS : SPP_PLAIN_DOES_NOT;
}

/* By a bound: never fits. */
static bool over_capacity(struct spp_cell_work *p, const struct spp_place *place) {
  learn_plain(p, false);
  spp_reason_count(&p->tally->reasons[SPP_REASON_MEMORY], place, -1, 1);
  return false;
}

/* Memory of a layout that may fit; false when it does not, or is known not to. */
static bool fit_in(struct spp_cell_work *p, const struct spp_place *place,
                   struct spp_memory_figures *memory) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = spp_cell_place(walk);
  int64_t *bytes = &p->lessons.bytes[spp_cell_own_slot(walk)];
  if (!p->hunt->options->exhaustive) {
    *bytes = spp_cell_least_bytes(p->hunt, walk, place, &p->lessons);
    if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[spp_cell_own_slot(walk)] = *bytes;
    if (*bytes > spp_memory_capacity(walk->job)) return over_capacity(p, place);
    int64_t device_bytes = *bytes;
    if (spp_cell_floor_hopeless(p, place, device_bytes,
                                device_bytes > p->hunt->risky_bytes[place->framework]))
      return false;
    if (!p->hunt->nearest_matters && spp_cell_begin(p)) { /* more is known at a price */
      spp_evaluator_least_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
      device_bytes = spp_max64(device_bytes, memory->device_bytes);
      *bytes = spp_max64(*bytes, memory->device_bytes - memory->reclaimable_bytes);
      if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[spp_cell_own_slot(walk)] = *bytes;
    }
    if (*bytes > spp_memory_capacity(walk->job)) return over_capacity(p, place);
    bool risky = *bytes > p->hunt->risky_bytes[place->framework];
    if (spp_cell_hopeless(p, place, device_bytes, risky)) return false;
  }
  if (!spp_cell_begin(p)) return false;
  spp_evaluator_memory(p->evaluator, walk->job, &walk->layout, &kept, memory);
  *bytes = memory->device_bytes - memory->reclaimable_bytes;
  if (walk->layout.offload == SPP_OFFLOAD_NONE) p->lessons.plain_bytes[spp_cell_own_slot(walk)] = *bytes;
  if (memory->fits && memory->host_fits) return true;
  learn_plain(p, false);
  spp_tally_missed(walk->job, memory, place, p->tally);
  return false;
}

static bool safely_fits(struct spp_cell_work *p, const struct spp_place *place,
                        const struct spp_layout *layout) {
  const struct spp_job *job = p->walk.job;
  const struct spp_evaluator_place kept = spp_cell_place(&p->walk);
  struct spp_memory_figures memory;
  if (spp_rules_first(job, layout) >= 0) return false;
  spp_evaluator_memory(p->evaluator, job, layout, &kept, &memory);
  return memory.fits && memory.host_fits && !spp_hunt_risky(p->hunt, place->framework, job, &memory);
}

/* Offload that may be left out: the offloads list starts with none where none is a choice. */
static bool may_go(const struct spp_cell_work *p) {
  return p->walk.variant.offload > 0 && p->hunt->options->objective != SPP_OBJECTIVE_MEMORY;
}

bool spp_cell_fits_without_offload(struct spp_cell_work *p, const struct spp_place *place,
                                   const struct spp_layout *layout) {
  struct spp_layout without = *layout;
  without.offload = SPP_OFFLOAD_NONE;
  return may_go(p) && safely_fits(p, place, &without);
}

/* Does the layout safely fit without its offload? Asked of layouts that nothing else rules out. */
static bool needless_offload(struct spp_cell_work *p, const struct spp_place *place) {
  enum spp_plain *plain = &p->lessons.plain[spp_cell_own_slot(&p->walk)];
  if (!may_go(p)) return false;
  if (*plain == SPP_PLAIN_UNKNOWN)
    *plain = spp_cell_fits_without_offload(p, place, &p->walk.layout) ? SPP_PLAIN_FITS : SPP_PLAIN_DOES_NOT;
  return *plain == SPP_PLAIN_FITS;
}

static void evaluate(struct spp_cell_work *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  struct spp_memory_figures memory;
  struct spp_time_figures time;
  struct spp_evaluator_place kept = spp_cell_place(walk);
  bool exhaustive = p->hunt->options->exhaustive, fits = fit_in(p, place, &memory);
  bool risky = fits && spp_hunt_risky(p->hunt, place->framework, walk->job, &memory);
  if (fits) learn_plain(p, !risky);
  bool pruned = !exhaustive && (!fits || spp_cell_hopeless(p, place, memory.device_bytes, risky) ||
                                needless_offload(p, place));
  if (pruned || p->tally->out_of_memory) {
    p->tally->pruned++;
    return;
  }
  spp_evaluator_time(p->evaluator, walk->job, &walk->layout, &kept, &time);
  p->tally->evaluated++;
  if (fits && !(exhaustive && needless_offload(p, place)))
    note_fit(p->hunt, walk, place, &memory, risky, &time, p->tally);
}

static void count_refused(struct spp_cell_work *p, const struct spp_place *place, int rule, int64_t count) {
  if (count == 0) return;
  spp_reason_count(&p->tally->reasons[rule < SPP_TALLY_RULES ? rule : SPP_TALLY_RULES - 1], place, 0, count);
  spp_reason_count(&p->tally->framework_rule[place->framework], place, 0, count);
}

/* A rule that refuses every micro-batch of the variant. */
static void refuse_variant(struct spp_cell_work *p, const struct spp_place *place, int rule) {
  count_refused(p, place, rule, p->walk.choices.micro_batch_count);
  spp_walk_skip(&p->walk);
}

static void count_legal(struct spp_cell_work *p, const struct spp_place *place, int64_t count) {
  p->tally->layouts += count;
  p->tally->framework_layouts[place->framework] += count;
}

/* The variant is counted at once: its states alone exceed the GPU, or it is hopeless. */
static void leave_out_variant(struct spp_cell_work *p, const struct spp_place *place, bool exceeds) {
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
static bool leave_out(struct spp_cell_work *p, const struct spp_place *place) {
  const struct spp_hunt *hunt = p->hunt;
  if (hunt->options->exhaustive || hunt->nearest_matters) return false;
  bool exceeds = spp_cell_states_bytes(hunt, &p->walk, place, &p->lessons) > spp_memory_capacity(p->walk.job);
  if (!exceeds && !spp_cell_variant_hopeless(p, place)) return false;
  leave_out_variant(p, place, exceeds);
  return true;
}

/* Known to safely fit without offload; of a number of layers, without recomputing any: then with as many,
 * too. */
static bool known_needless(const struct spp_cell_work *p) {
  const struct spp_walk *walk = &p->walk;
  const struct spp_choices *c = &walk->choices;
  int recompute = spp_walk_by_layers(walk) ? spp_cell_least_recompute(c) : walk->variant.recompute;
  bool layers_stay = !spp_walk_by_layers(walk) || c->recomputes[recompute] == SPP_RECOMPUTE_NONE;
  return !p->hunt->options->exhaustive && may_go(p) && layers_stay &&
         p->lessons.plain[spp_cell_slot(walk, recompute, walk->variant.pipe, walk->micro)] == SPP_PLAIN_FITS;
}

static void judge(struct spp_cell_work *p, const struct spp_place *place) {
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
    spp_cell_evaluate_by_layers(p, place);
  else
    evaluate(p, place);
}

void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_evaluator *evaluator,
                     struct spp_tally *tally) {
  const struct spp_space *space = &hunt->spaces[framework];
  struct spp_cell_work p;
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
    spp_cell_turn_page(&p.walk, &p.lessons);
    judge(&p, &place);
  }
}
