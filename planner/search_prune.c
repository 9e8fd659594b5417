/* What of a cell need not be evaluated. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "planner/search_cell.h"

int spp_cell_slot(const struct spp_walk *walk, int recompute, int pipe, int micro) {
  const struct spp_choices *c = &walk->choices;
  return ((recompute * c->pipe_count + pipe) * c->loss_count + walk->variant.loss) * c->micro_batch_count +
         micro;
}

int spp_cell_own_slot(const struct spp_walk *walk) {
  return spp_cell_slot(walk, walk->variant.recompute, walk->variant.pipe, walk->micro);
}

void spp_cell_turn_page(const struct spp_walk *walk, struct spp_lessons *lessons) {
  const struct spp_choices *c = &walk->choices;
  const struct spp_variant *v = &walk->variant;
  int plain_block = v->megatron_sp * c->sharding_count + v->sharding,
      block = plain_block * c->offload_count + v->offload;
  if (block == lessons->block) return;
  size_t used = (size_t)(c->recompute_count * c->pipe_count * c->loss_count * c->micro_batch_count);
  lessons->block = block;
  memset(lessons->bytes, 0, used * sizeof *lessons->bytes);
  if (plain_block == lessons->plain_block) return;
  lessons->plain_block = plain_block;
  memset(lessons->plain_bytes, 0, used * sizeof *lessons->plain_bytes);
  memset(lessons->plain, 0, used * sizeof *lessons->plain);
}

/* The bound of the states' bytes does not look at the micro-batch. */
int64_t spp_cell_states_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                              const struct spp_place *place, struct spp_lessons *lessons) {
  if (lessons->bounded != walk->number) {
    lessons->states_bytes = spp_bound_device_bytes(&hunt->bounds[place->framework], &walk->layout);
    lessons->host_s = spp_bound_host_s(&hunt->bounds[place->framework], &walk->layout);
  }
  lessons->bounded = walk->number;
  return lessons->states_bytes;
}

int64_t spp_cell_least_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                             const struct spp_place *place, struct spp_lessons *lessons) {
  const struct spp_variant *v = &walk->variant;
  int64_t bytes = hunt->nearest_matters ? 0 : spp_cell_states_bytes(hunt, walk, place, lessons);
  int64_t plain = lessons->plain_bytes[spp_cell_own_slot(walk)];
  if (walk->layout.offload != SPP_OFFLOAD_NONE && plain > 0 && !hunt->nearest_matters)
    bytes = spp_max64(bytes, plain - spp_bound_freed_bytes(&hunt->bounds[place->framework], &walk->layout));
  if (walk->layout.grad_accum < 2 && walk->layout.pp < 2) return bytes;
  if (walk->micro > 0)
    bytes = spp_max64(bytes, lessons->bytes[spp_cell_slot(walk, v->recompute, v->pipe, walk->micro - 1)]);
  if (v->pipe > 0 && walk->choices.pipes[0].vpp == 1 && walk->choices.pipes[0].schedule == SPP_SCHEDULE_1F1B)
    bytes = spp_max64(bytes, lessons->bytes[spp_cell_slot(walk, v->recompute, 0, walk->micro)]);
  if (v->recompute > 0 && walk->choices.recomputes[0] == SPP_RECOMPUTE_FULL &&
      walk->job->arch->layers / walk->layout.pp >= 2 && walk->layout.recompute_layers == SPP_UNSET)
    bytes = spp_max64(bytes, lessons->bytes[spp_cell_slot(walk, 0, v->pipe, walk->micro)]);
  return bytes;
}

bool spp_cell_begin(struct spp_cell_work *p) {
  const struct spp_choices *c = &p->walk.choices;
  const struct spp_evaluator_shape shape = {c->loss_count, c->pipe_count, c->recompute_count,
                                            c->micro_batch_count, c->pipes};
  if (!p->begun && !spp_evaluator_begin(p->evaluator, &shape, p->walk.job, &p->walk.layout))
    p->tally->out_of_memory = true;
  p->begun = true;
  return !p->tally->out_of_memory;
}

struct spp_evaluator_place spp_cell_place(const struct spp_walk *walk) {
  return (struct spp_evaluator_place){walk->variant.loss, walk->variant.pipe, walk->variant.recompute,
                                      walk->micro};
}

bool spp_cell_beaten(const struct spp_cell_work *p, const struct spp_place *place, double step_s,
                     int64_t device_bytes, bool risky) {
  const struct spp_hunt *hunt = p->hunt;
  const struct spp_job *job = p->walk.job;
  double score = hunt->options->objective == SPP_OBJECTIVE_MEMORY
                     ? (double)device_bytes
                     : step_s / hunt->bounds[place->framework].real_tokens;
  if (hunt->options->objective == SPP_OBJECTIVE_COST && job->usd_per_gpu_hour > 0)
    score *= job->usd_per_gpu_hour / 3600 * (double)job->gpus * 1e6;
  return spp_known_hopeless(&hunt->known, place->framework, risky, score, step_s, device_bytes);
}

int spp_cell_least_recompute(const struct spp_choices *c) {
  int last = c->recompute_count - 1;
  while (last > 0 && c->by_layers[last])
    last--;
  return last;
}

/* The layout with least recompute, of the walk's variant but for pipeline and loss. */
static double floor_of(struct spp_cell_work *p, int pipe, int loss, int micro) {
  const struct spp_walk *walk = &p->walk;
  struct spp_variant v = walk->variant;
  struct spp_layout layout;
  v.pipe = pipe;
  v.loss = loss;
  v.recompute = spp_cell_least_recompute(&walk->choices);
  v.offload = 0;
  spp_space_layout(walk->space, walk->cell, &walk->choices, &v, walk->choices.micro_batches[micro], &layout);
  const struct spp_evaluator_place kept = {loss, pipe, v.recompute, micro};
  return spp_evaluator_least_s(p->evaluator, &walk->space->jobs[walk->choices.losses[loss]], &layout, &kept);
}

/* Layers know the sharding stage under some frameworks, never the number of replicas. */
static int half_of(const struct spp_cell_work *p) {
  const struct spp_walk *walk = &p->walk;
  return walk->variant.megatron_sp * 4 + walk->layout.zero;
}

static void count_floors(struct spp_cell_work *p) {
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
static bool know_floors(struct spp_cell_work *p) {
  if (p->hunt->known.front_count == 0 || !spp_cell_begin(p)) return false;
  if (p->floor_half != half_of(p)) count_floors(p);
  return true;
}

bool spp_cell_variant_hopeless(struct spp_cell_work *p, const struct spp_place *place) {
  int64_t bytes = spp_cell_states_bytes(p->hunt, &p->walk, place, &p->lessons);
  bool risky = bytes > p->hunt->risky_bytes[place->framework];
  return know_floors(p) && spp_cell_beaten(p, place, p->least_floor_s + p->lessons.host_s, bytes, risky);
}

bool spp_cell_floor_hopeless(struct spp_cell_work *p, const struct spp_place *place, int64_t device_bytes,
                             bool risky) {
  const struct spp_walk *walk = &p->walk;
  if (!know_floors(p)) return false;
  double floor_s = p->floor_s[walk->variant.pipe][walk->variant.loss][walk->micro];
  return spp_cell_beaten(p, place, floor_s + p->lessons.host_s, device_bytes, risky);
}

bool spp_cell_hopeless(struct spp_cell_work *p, const struct spp_place *place, int64_t device_bytes,
                       bool risky) {
  const struct spp_walk *walk = &p->walk;
  struct spp_evaluator_place kept = spp_cell_place(walk);
  if (p->hunt->known.front_count == 0) return false;
  double least_s = spp_bound_step_s(&p->hunt->bounds[place->framework], &walk->layout);
  if (spp_cell_beaten(p, place, least_s, device_bytes, risky)) return true;
  if (spp_cell_floor_hopeless(p, place, device_bytes, risky)) return true;
  if (!spp_cell_begin(p)) return false;
  double layers_s = spp_evaluator_least_s(p->evaluator, walk->job, &walk->layout, &kept);
  return spp_cell_beaten(p, place, layers_s + p->lessons.host_s, device_bytes, risky);
}
