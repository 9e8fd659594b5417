/* One pass over the layouts of a cell, and how many layers a layout need recompute. */
#include "base/num.h"
#include "model/geometry.h"
#include "planner/space.h"

static void enter_micro_batch(struct spp_walk *walk, int micro) {
  const struct spp_space *space = walk->space;
  int64_t micro_batch = walk->choices.micro_batches[micro];
  int64_t per_pass = spp_max64(1, spp_sat_mul(micro_batch, walk->cell->dp));
  walk->micro = micro;
  walk->layout.micro_batch = micro_batch;
  walk->layout.grad_accum = spp_max64(1, space->jobs[0].global_batch / per_pass);
}

static void enter_variant(struct spp_walk *walk, int number) {
  walk->number = number;
  walk->variant = spp_choices_variant(&walk->choices, number);
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
}

int spp_walk_rule(struct spp_walk *walk) {
  bool known = walk->ruled == walk->number;
  if (known && walk->rule >= 0) return walk->rule;
  if (known)
    return spp_rules_first_in(walk->job, &walk->layout, walk->space->batch_rules,
                              walk->space->batch_rule_count);
  int rule = spp_rules_first(walk->job, &walk->layout);
  if (rule >= 0 && (spp_rule_axes(rule) & SPP_AXIS_BATCH)) return rule;
  walk->ruled = walk->number;
  walk->rule = rule;
  return rule;
}

/* A number of layers counts per chunk where a stage has several (Megatron's block method), and with offload
 * there are simpler ways to save: neither is searched. */
static bool beyond_layers(const struct spp_choices *choices, const struct spp_variant *variant) {
  return choices->pipes[variant->pipe].vpp > 1 || choices->offloads[variant->offload] != SPP_OFFLOAD_NONE;
}

bool spp_walk_refused(const struct spp_walk *walk) {
  return walk->ruled == walk->number && walk->rule >= 0;
}

void spp_walk_skip(struct spp_walk *walk) {
  walk->micro = walk->choices.micro_batch_count - 1;
}

bool spp_walk_next(struct spp_walk *walk) {
  if (walk->number >= 0 && walk->micro + 1 < walk->choices.micro_batch_count) {
    enter_micro_batch(walk, walk->micro + 1);
    return true;
  }
  for (int number = walk->number + 1; number < walk->count; number++) {
    struct spp_variant variant = spp_choices_variant(&walk->choices, number);
    if (spp_choices_redundant(&walk->choices, &variant)) continue;
    if (walk->choices.by_layers[variant.recompute] && beyond_layers(&walk->choices, &variant)) continue;
    enter_variant(walk, number);
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
  return memory.fits && memory.fit_probability >= likely;
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

int64_t spp_fewest_enough(int64_t most, bool (*enough)(void *context, int64_t layers), void *context) {
  int64_t low = 0, high = most - 1; /* high is enough, low is not */
  if (high < 1 || !enough(context, high)) return 0;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (enough(context, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

struct likelihood {
  const struct spp_job *job;
  struct spp_layout layout;
  double likely;
};

static bool likely_with(void *context, int64_t layers) {
  struct likelihood *l = context;
  l->layout.recompute_layers = layers;
  return spp_layout_likely(l->job, &l->layout, l->likely);
}

int64_t spp_fewest_layers(const struct spp_job *job, const struct spp_layout *layout, double likely) {
  struct likelihood l = {job, *layout, likely};
  return spp_fewest_enough(most_layers(job, layout), likely_with, &l);
}

void spp_walk_seek(struct spp_walk *walk, int number, int micro) {
  enter_variant(walk, number);
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
         (layout->dp_replicate > 1 ? 2 : 0) + (job->loss != job->framework->loss_default);
}
