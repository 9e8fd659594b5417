/* One pass over the layouts of a cell, and how many layers a layout need recompute. */
#include "base/num.h"
#include "model/geometry.h"
#include "planner/space.h"

static void set_micro_batch(const struct spp_walk *walk, int micro, struct spp_layout *layout) {
  int64_t micro_batch = walk->choices.micro_batches[micro];
  int64_t per_pass = spp_max64(1, spp_sat_mul(micro_batch, walk->cell->dp));
  layout->micro_batch = micro_batch;
  layout->grad_accum = spp_max64(1, walk->space->jobs[0].global_batch / per_pass);
}

static void enter_micro_batch(struct spp_walk *walk, int micro) {
  walk->micro = micro;
  set_micro_batch(walk, micro, &walk->layout);
}

static void enter_variant(struct spp_walk *walk, int number, const struct spp_variant *variant) {
  walk->number = number;
  walk->variant = *variant;
  walk->job = &walk->space->jobs[walk->choices.losses[walk->variant.loss]];
  spp_space_layout(walk->space, walk->cell, &walk->choices, &walk->variant, walk->choices.micro_batches[0],
                   &walk->layout);
  walk->micro = 0;
}

void spp_walk_begin(struct spp_walk *walk, const struct spp_space *space, const struct spp_cell *cell) {
  walk->space = space;
  walk->cell = cell;
  spp_space_choices(space, cell, &walk->choices);
  walk->count = spp_choices_count(&walk->choices);
  walk->number = walk->ruled = walk->rule = -1;
  walk->micro = 0;
  walk->variant = spp_choices_variant(&walk->choices, 0);
  walk->judged = false;
  for (int pipe = 0; pipe < walk->choices.pipe_count; pipe++)
    walk->batches_judged[pipe] = false;
}

static int first_in(const struct spp_walk *walk, const struct spp_layout *layout,
                    const struct spp_rule_list *list) {
  return spp_rules_first_in(walk->job, layout, list->rules, list->count);
}

int spp_walk_cell_rule(struct spp_walk *walk) {
  if (!walk->judged) walk->cell_rule = first_in(walk, &walk->layout, &walk->space->cell_rules);
  walk->judged = true;
  return walk->cell_rule;
}

int spp_walk_choice_rule(struct spp_walk *walk) {
  if (spp_walk_cell_rule(walk) >= 0) return walk->cell_rule;
  if (walk->ruled != walk->number) walk->rule = first_in(walk, &walk->layout, &walk->space->choice_rules);
  walk->ruled = walk->number;
  return walk->rule;
}

/* Of all micro-batches under one pipeline: nothing else matters to these rules. */
static void judge_batches(struct spp_walk *walk, int pipe) {
  struct spp_layout layout = walk->layout;
  if (walk->batches_judged[pipe]) return;
  layout.vpp = walk->choices.pipes[pipe].vpp;
  layout.schedule = walk->choices.pipes[pipe].schedule;
  walk->batches_judged[pipe] = true;
  walk->legal_batches[pipe] = 0;
  for (int micro = 0; micro < walk->choices.micro_batch_count; micro++) {
    set_micro_batch(walk, micro, &layout);
    int rule = first_in(walk, &layout, &walk->space->batch_rules);
    walk->batch_rule[pipe][micro] = (int16_t)rule;
    walk->legal_batches[pipe] = (int16_t)(walk->legal_batches[pipe] + (rule < 0));
  }
}

int spp_walk_batch_rule(struct spp_walk *walk, int pipe, int micro) {
  judge_batches(walk, pipe);
  return walk->batch_rule[pipe][micro];
}

int spp_walk_legal_batches(struct spp_walk *walk) {
  judge_batches(walk, walk->variant.pipe);
  return walk->legal_batches[walk->variant.pipe];
}

int spp_walk_rule(struct spp_walk *walk) {
  int rule = spp_walk_choice_rule(walk);
  return rule >= 0 ? rule : spp_walk_batch_rule(walk, walk->variant.pipe, walk->micro);
}

/* Of chunks of one layer, all or none are recomputed. */
static bool beyond_layers(const struct spp_walk *walk, const struct spp_variant *variant) {
  int64_t chunks = walk->cell->pp * walk->choices.pipes[variant->pipe].vpp;
  return walk->choices.by_layers[variant->recompute] && walk->space->jobs[0].arch->layers < 2 * chunks;
}

void spp_walk_skip(struct spp_walk *walk) {
  walk->micro = walk->choices.micro_batch_count - 1;
}

int64_t spp_walk_layouts(const struct spp_walk *walk) {
  const struct spp_choices *c = &walk->choices;
  struct spp_variant v = {0, 0, 0, 0, 0, 0};
  int64_t shardings = 0, inner = 0;
  for (v.sharding = 0; v.sharding < c->sharding_count; v.sharding++)
    shardings += !spp_choices_redundant(c, &v);
  for (v.offload = 0; v.offload < c->offload_count; v.offload++)
    for (v.pipe = 0; v.pipe < c->pipe_count; v.pipe++)
      for (v.recompute = 0; v.recompute < c->recompute_count; v.recompute++)
        inner += !beyond_layers(walk, &v);
  return c->megatron_sp_count * shardings * inner * c->loss_count * c->micro_batch_count;
}

bool spp_walk_next(struct spp_walk *walk) {
  if (walk->number >= 0 && walk->micro + 1 < walk->choices.micro_batch_count) {
    enter_micro_batch(walk, walk->micro + 1);
    return true;
  }
  struct spp_variant variant = walk->variant;
  for (int number = walk->number + 1; number < walk->count; number++) {
    if (number > 0) spp_choices_step(&walk->choices, &variant);
    if (spp_choices_redundant(&walk->choices, &variant)) continue;
    if (beyond_layers(walk, &variant)) continue;
    enter_variant(walk, number, &variant);
    return true;
  }
  return false;
}

bool spp_walk_by_layers(const struct spp_walk *walk) {
  return walk->choices.by_layers[walk->variant.recompute];
}

bool spp_layout_likely(const struct spp_job *job, const struct spp_layout *layout, double likely) {
  struct spp_geometry geometry;
  struct spp_memory memory;
  spp_geometry_resolve(job, layout, &geometry);
  spp_memory_predict(job, layout, &geometry, NULL, &memory);
  return memory.fits && memory.host_fits && memory.fit_probability >= likely;
}

/* Layers of the fullest stage. */
static int64_t most_layers(const struct spp_job *job, const struct spp_layout *layout) {
  struct spp_geometry geometry;
  struct spp_stage stage;
  int64_t most = 0;
  spp_geometry_resolve(job, layout, &geometry);
  for (int64_t i = 0; i < layout->pp; i++) {
    spp_stage_resolve(job, layout, &geometry, i, &stage);
    most = spp_max64(most, stage.layers);
  }
  return most;
}

struct likelihood {
  const struct spp_job *job;
  struct spp_layout layout;
  double likely;
};

static bool likely_with(struct likelihood *l, int64_t layers) {
  l->layout.recompute_layers = layers;
  return spp_layout_likely(l->job, &l->layout, l->likely);
}

int64_t spp_fewest_layers(const struct spp_job *job, const struct spp_layout *layout, double likely) {
  struct likelihood l = {job, *layout, likely};
  int64_t chunks = layout->vpp, low = 0, high = spp_ceil_div(most_layers(job, layout), chunks) - 1;
  if (high < 1 || !likely_with(&l, high * chunks)) return 0;
  while (high - low > 1) { /* high is enough, low is not */
    int64_t middle = low + (high - low) / 2;
    if (likely_with(&l, middle * chunks))
      high = middle;
    else
      low = middle;
  }
  return high * chunks;
}

void spp_walk_seek(struct spp_walk *walk, int number, int micro) {
  struct spp_variant variant = spp_choices_variant(&walk->choices, number);
  enter_variant(walk, number, &variant);
  enter_micro_batch(walk, micro);
}

/* Weights, not costs: what a person would rather not have to set up and debug. Offload outweighs everything
 * else, then pipelines and rings, then tensor and Ulysses parallelism, then switches. */
int spp_layout_complexity(const struct spp_job *job, const struct spp_layout *layout) {
  static const int offloads[SPP_OFFLOAD_COUNT] = {0, 16, 24, 18, 28, 32};
  static const int recomputes[SPP_RECOMPUTE_COUNT] = {0, 1, 2};
  static const int kinds[SPP_SP_KIND_COUNT] = {0, 4, 6, 5, 8};
  static const int schedules[SPP_SCHEDULE_COUNT] = {0, 2, 1, 3, 4};
  int64_t holders = layout->dp * (job->framework->dp_shard_includes_sp ? spp_layout_sp(layout) : 1);
  return (holders == 1 ? layout->zero : 0) + offloads[layout->offload] + recomputes[layout->recompute] +
         (layout->recompute_layers != SPP_UNSET) + kinds[layout->sp_kind] +
         (layout->pp > 1 ? 7 + schedules[layout->schedule] : 0) +
         (layout->tp > 1 ? 5 - layout->megatron_sp : 0) + (layout->ep > 1) +
         (layout->fpdt_chunk > 0 ? 10 : 0) + (layout->dp_replicate > 1 ? 2 : 0) +
         (job->loss != job->framework->loss_default);
}
