#include "model/evaluator.h"

#include <stdlib.h>
#include <string.h>

#include "model/evaluator_internal.h"

struct spp_evaluator *spp_evaluator_create(void) {
  return calloc(1, sizeof(struct spp_evaluator));
}

void spp_evaluator_free(struct spp_evaluator *e) {
  if (!e) return;
  free(e->pipes);
  free(e->slots);
  free(e->totals);
  free(e->geometries);
  free(e->geometry_turns);
  free(e->models);
  free(e->loss);
  free(e->beside);
  free(e->tensors);
  free(e);
}

/* Room for `count` of `size` bytes each, what is in them forgotten. */
static bool make_room(void **array, size_t *room, size_t count, size_t size) {
  if (count <= *room) return true;
  free(*array);
  *room = 0;
  *array = calloc(count, size);
  if (!*array) return false;
  *room = count;
  return true;
}

static bool expert_layer(const struct spp_arch *arch, int64_t layer) {
  return arch->kinds[arch->kind_of_layer[layer]].moe;
}

/* Dense layers and experts in the same order? Virtual stages are not looked into. */
static bool equal_order(const struct spp_arch *arch, int64_t vpp, const struct spp_stage *a,
                        const struct spp_stage *b) {
  int64_t experts = 0;
  bool equal = vpp == 1;
  for (int k = 0; k < arch->kind_count; k++)
    experts += arch->kinds[k].moe ? a->kind_layers[k] : 0;
  if (experts == 0 || experts == a->layers) return true;
  for (int64_t i = 0; i < a->layers && equal; i++)
    equal = expert_layer(arch, a->first_layer + i) == expert_layer(arch, b->first_layer + i);
  return equal;
}

static bool equal_stages(const struct spp_stage *a, const struct spp_stage *b) {
  return a->first == b->first && a->last == b->last && a->layers == b->layers &&
         memcmp(a->kind_layers, b->kind_layers, sizeof a->kind_layers) == 0;
}

static void list_runs(const struct spp_job *job, const struct spp_layout *layout,
                      struct spp_kept_pipe *pipe) {
  struct spp_geometry g;
  spp_geometry_resolve(job, layout, &g);
  spp_stage_busiest(job, layout, &g, &pipe->counted);
  pipe->runs = (struct spp_stage_runs){.run = pipe->run};
  for (int64_t i = 0; i < g.pp; i++) {
    struct spp_stage stage;
    spp_stage_resolve(job, layout, &g, i, &stage);
    struct spp_stage_run *last = pipe->runs.count > 0 ? &pipe->run[pipe->runs.count - 1] : NULL;
    if (last && equal_stages(&last->stage, &stage) && equal_order(job->arch, g.vpp, &last->stage, &stage)) {
      last->count++;
      continue;
    }
    pipe->whole = pipe->runs.count == SPP_KEPT_RUNS || job->framework->sharding == SPP_SHARDING_UNITS;
    if (pipe->whole) return;
    pipe->looked_at[pipe->runs.count] = spp_memory_looks_at(job, layout, i);
    pipe->run[pipe->runs.count++] = (struct spp_stage_run){stage, 1};
  }
}

static int most_looks(const struct spp_evaluator *e) {
  int most = 1;
  for (int i = 0; i < e->shape.pipes; i++) {
    int looks = 0;
    for (int r = 0; r < e->pipes[i].runs.count; r++)
      looks += e->pipes[i].looked_at[r];
    if (!e->pipes[i].whole && looks > most) most = looks;
  }
  return most;
}

bool spp_evaluator_begin(struct spp_evaluator *e, const struct spp_evaluator_shape *shape,
                         const struct spp_job *job, const struct spp_layout *layout) {
  size_t pipes = (size_t)shape->pipes, passes = (size_t)shape->losses * (size_t)shape->micros;
  size_t slots = pipes * (size_t)shape->recomputes * passes,
         models = (size_t)(shape->recomputes * shape->micros);
  if (!make_room((void **)&e->pipes, &e->pipe_room, pipes, sizeof *e->pipes) ||
      !make_room((void **)&e->slots, &e->slot_room, slots, sizeof *e->slots) ||
      !make_room((void **)&e->models, &e->model_room, models, sizeof *e->models) ||
      !make_room((void **)&e->tensors, &e->tensor_room, models, sizeof *e->tensors) ||
      !make_room((void **)&e->loss, &e->loss_room, passes, sizeof *e->loss) ||
      !make_room((void **)&e->beside, &e->beside_room, 2 * passes, sizeof *e->beside) ||
      !make_room((void **)&e->geometries, &e->geometry_room, passes, sizeof *e->geometries))
    return false;
  unsigned *turns = realloc(e->geometry_turns, (e->geometry_room + 1) * sizeof *turns);
  if (!turns) return false;
  e->geometry_turns = turns;
  memset(e->geometry_turns, 0, passes * sizeof *turns);
  e->rated = false;
  e->shape = *shape;
  for (int i = 0; i < shape->pipes; i++) {
    struct spp_layout own = *layout;
    own.vpp = shape->pipe[i].vpp;
    own.schedule = shape->pipe[i].schedule;
    own.first_stage_layers = shape->pipe[i].first_layers;
    own.last_stage_layers = shape->pipe[i].last_layers;
    list_runs(job, &own, &e->pipes[i]);
  }
  e->totals_per_slot = SPP_LAYER_CLASS_COUNT * most_looks(e);
  e->fresh = true; /* turns go on, so that what was kept of other layouts is out of date by itself */
  return make_room((void **)&e->totals, &e->totals_room, slots * (size_t)e->totals_per_slot,
                   sizeof *e->totals);
}

/* Engines cast adapters, and the logits of pairs, or not; where units reduce their own gradients, norms are
 * exchanged inside layers; hooks that fetch sharded weights take the host's time. */
static bool zero_matters(const struct spp_job *job) {
  const struct spp_framework *f = job->framework;
  return spp_job_has_adapters(job) || job->mode == SPP_MODE_DPO || job->mode == SPP_MODE_PPO ||
         f->sharding == SPP_SHARDING_UNITS || f->launches_per_gather > 0 || f->launches_per_unit > 0 ||
         f->launches_per_gradient > 0;
}

void spp_evaluator_turn(struct spp_evaluator *e, const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_layout *last = &e->last;
  bool first = e->fresh;
  e->fresh = false;
  bool sharding = first || layout->zero != last->zero || layout->dp_replicate != last->dp_replicate;
  bool layers =
      first || layout->megatron_sp != last->megatron_sp || (layout->zero != last->zero && zero_matters(job));
  if (layers) e->layers_turn++;
  if (layers || sharding) e->sharding_turn++;
  if (layers || sharding || layout->offload != last->offload) e->offload_turn++;
  if (layers || sharding) {
    struct spp_geometry g;
    spp_geometry_resolve(job, layout, &g);
    e->shard_group = g.shard_group;
    e->expert_shard_group = g.expert_shard_group;
  }
  e->last.zero = layout->zero;
  e->last.dp_replicate = layout->dp_replicate;
  e->last.megatron_sp = layout->megatron_sp;
  e->last.offload = layout->offload;
}

const struct spp_geometry *spp_evaluator_geometry(struct spp_evaluator *e, const struct spp_job *job,
                                                  const struct spp_layout *layout,
                                                  const struct spp_evaluator_place *place) {
  size_t pass = (size_t)place->micro * (size_t)e->shape.losses + (size_t)place->loss;
  struct spp_geometry *g = &e->geometries[pass];
  if (e->geometry_turns[pass] != e->layers_turn) {
    spp_geometry_resolve(job, layout, g);
    e->geometry_turns[pass] = e->layers_turn;
  }
  g->vpp = layout->vpp;
  g->shard_group = e->shard_group;
  g->expert_shard_group = e->expert_shard_group;
  return g;
}

int spp_evaluator_slot(const struct spp_evaluator *e, const struct spp_evaluator_place *p) {
  return ((p->recompute * e->shape.pipes + p->pipe) * e->shape.losses + p->loss) * e->shape.micros + p->micro;
}

struct spp_kept_slot *spp_evaluator_keep(struct spp_evaluator *e, const struct spp_layout *layout,
                                         const struct spp_evaluator_place *place) {
  struct spp_kept_slot *slot = &e->slots[spp_evaluator_slot(e, place)];
  if (slot->recompute_layers != layout->recompute_layers) slot->timed = slot->passed = slot->ended = 0;
  slot->recompute_layers = layout->recompute_layers;
  return slot;
}

int64_t spp_evaluator_most_layers(const struct spp_evaluator *e, const struct spp_evaluator_place *place) {
  const struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  int64_t most = 0;
  for (int r = 0; r < pipe->runs.count && !pipe->whole; r++)
    most = spp_max64(most, pipe->run[r].stage.layers);
  return most;
}
