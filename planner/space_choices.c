/* The choices inside one cell, numbered, and the layout of each. */
#include "base/num.h"
#include "model/geometry.h"
#include "planner/space.h"

/* The ends of the pipeline: what the user fixed; else the others' number, unless that leaves layers over and
 * the framework takes numbers for the ends. */
static void choose_ends(const struct spp_space *space, int64_t pp, struct spp_pipe *pipe) {
  const struct spp_request *fixed = &space->fixed;
  int64_t layers = space->jobs[0].arch->layers;
  if (fixed->first_stage_layers != SPP_UNSET) pipe->first_layers = fixed->first_stage_layers;
  if (fixed->last_stage_layers != SPP_UNSET) pipe->last_layers = fixed->last_stage_layers;
  if (pipe->first_layers > 0 || pipe->last_layers > 0 || !space->framework->stage_uneven) return;
  if (layers % spp_sat_mul(pp, pipe->vpp) == 0) return;
  spp_stage_suggest(layers, pp, pipe->vpp, &pipe->first_layers, &pipe->last_layers);
}

static void add_pipe(const struct spp_space *space, int64_t pp, int64_t vpp, enum spp_schedule schedule,
                     struct spp_choices *choices) {
  if (choices->pipe_count == SPP_MAX_PIPES) return;
  struct spp_pipe *pipe = &choices->pipes[choices->pipe_count++];
  *pipe = (struct spp_pipe){.vpp = vpp, .schedule = schedule};
  choose_ends(space, pp, pipe);
}

/* Chunks a rank may hold: divisors of a middle stage's layers, where its virtual stages come out even; with
 * ends that lack a layer each the same, the stages being as long for every number of chunks. */
static int choose_chunks(const struct spp_space *space, int64_t pp, int64_t *vpps) {
  int64_t layers = space->jobs[0].arch->layers;
  vpps[0] = space->fixed.vpp == SPP_UNSET ? 1 : space->fixed.vpp;
  if (space->fixed.vpp != SPP_UNSET || pp == 1 || !space->framework->vpp) return 1;
  if (layers % pp == 0) return spp_divisors(spp_max64(1, layers / pp), vpps, SPP_MAX_PIPES / 2);
  if (!space->framework->stage_uneven || (layers + 2) % pp != 0) return 1;
  return spp_divisors((layers + 2) / pp, vpps, SPP_MAX_PIPES / 2);
}

/* GPipe has 1F1B's bubble and keeps every micro-batch alive: never better, so only where there is no 1F1B. */
static bool schedule_offered(const struct spp_framework *framework, int schedule) {
  if (schedule == SPP_SCHEDULE_INTERLEAVED) return false; /* comes with virtual stages */
  if (schedule == SPP_SCHEDULE_GPIPE && framework->schedules[SPP_SCHEDULE_1F1B]) return false;
  return framework->schedules[schedule];
}

/* Without a pipeline there is no schedule; with one chunk a rank every flat schedule, with more the
 * interleaved one. */
static void choose_pipes(const struct spp_space *space, const struct spp_cell *cell,
                         struct spp_choices *choices) {
  const struct spp_framework *framework = space->framework;
  const struct spp_request *fixed = &space->fixed;
  int64_t vpps[SPP_MAX_DIVISORS], pp = cell->pp;
  int vpp_count = choose_chunks(space, pp, vpps);
  for (int i = 0; i < vpp_count; i++) {
    if (fixed->schedule != SPP_UNSET)
      add_pipe(space, pp, vpps[i], (enum spp_schedule)fixed->schedule, choices);
    else if (vpps[i] > 1)
      add_pipe(space, pp, vpps[i], SPP_SCHEDULE_INTERLEAVED, choices);
    else if (cell->pp == 1)
      add_pipe(space, pp, 1, SPP_SCHEDULE_1F1B, choices);
    else
      for (int s = 0; s < SPP_SCHEDULE_COUNT; s++)
        if (schedule_offered(framework, s)) add_pipe(space, pp, 1, (enum spp_schedule)s, choices);
  }
  if (choices->pipe_count == 0) add_pipe(space, pp, 1, SPP_SCHEDULE_1F1B, choices);
}

static void add_sharding(struct spp_choices *choices, int zero, int64_t dp_replicate) {
  if (choices->sharding_count == SPP_MAX_SHARDINGS) return;
  choices->shardings[choices->sharding_count].twin = false;
  choices->shardings[choices->sharding_count].zero = zero;
  choices->shardings[choices->sharding_count++].dp_replicate = dp_replicate;
}

/* Copies of the sharded states (HSDP) pay where a group would cross nodes; inside one node only on request.
 */
static void choose_replicas(const struct spp_space *space, const struct spp_cell *cell, int zero,
                            struct spp_choices *choices) {
  const struct spp_job *job = &space->jobs[0];
  int64_t replicas = space->fixed.dp_replicate;
  if (replicas != SPP_UNSET) {
    add_sharding(choices, zero, replicas);
    return;
  }
  add_sharding(choices, zero, 1);
  bool one_node = !job->cluster || job->gpus <= job->cluster->gpus_per_node;
  if (!space->framework->hsdp || zero == 0 || one_node) return;
  for (int i = 1; i < space->gpu_divisor_count; i++) {
    replicas = space->gpu_divisors[i];
    if (replicas < cell->dp && cell->dp % replicas == 0) add_sharding(choices, zero, replicas);
  }
}

/* Do two stages keep the same types? An engine that casts (DeepSpeed, stage 1 on) is another one. */
static bool same_types(const struct spp_framework *framework, int a, int b) {
  const struct spp_states *x = &framework->states[a], *y = &framework->states[b];
  bool engine = framework->sharding == SPP_SHARDING_DEEPSPEED && (a == 0) != (b == 0);
  return !engine && x->weight_bytes == y->weight_bytes && x->grad_bytes == y->grad_bytes &&
         x->master_bytes == y->master_bytes && x->moment_bytes == y->moment_bytes &&
         x->step_extra_bytes == y->step_extra_bytes;
}

static void find_twins(const struct spp_space *space, struct spp_choices *choices) {
  for (int i = 1; i < choices->sharding_count; i++)
    for (int j = 0; j < i; j++)
      choices->shardings[i].twin |=
          same_types(space->framework, choices->shardings[j].zero, choices->shardings[i].zero);
}

static void choose_shardings(const struct spp_space *space, const struct spp_cell *cell,
                             struct spp_choices *choices) {
  int64_t holders = cell->dp * (space->framework->dp_shard_includes_sp ? cell->ulysses * cell->ring : 1);
  choices->one_holder = holders == 1;
  if (space->fixed.zero != SPP_UNSET) {
    choose_replicas(space, cell, space->fixed.zero, choices);
    return;
  }
  for (int zero = 0; zero < 4; zero++)
    if (space->framework->states[zero].supported) choose_replicas(space, cell, zero, choices);
  if (choices->sharding_count == 0) add_sharding(choices, space->framework->zero_default, 1);
  if (choices->one_holder) find_twins(space, choices);
}

static void choose_rest(const struct spp_space *space, const struct spp_cell *cell,
                        struct spp_choices *choices) {
  const struct spp_framework *framework = space->framework;
  const struct spp_request *fixed = &space->fixed;
  bool infer = space->jobs[0].mode == SPP_MODE_INFER;
  if (fixed->megatron_sp != SPP_UNSET)
    choices->megatron_sp[choices->megatron_sp_count++] = fixed->megatron_sp != 0;
  else {
    if (cell->tp > 1 && framework->megatron_sp) choices->megatron_sp[choices->megatron_sp_count++] = true;
    choices->megatron_sp[choices->megatron_sp_count++] = false;
  }
  for (int o = 0; o < SPP_OFFLOAD_COUNT; o++) {
    bool offered = o == SPP_OFFLOAD_NONE || (framework->offloads[o] && !infer);
    if (fixed->offload == SPP_UNSET ? offered : fixed->offload == o)
      choices->offloads[choices->offload_count++] = (enum spp_offload)o;
  }
  for (int r = SPP_RECOMPUTE_COUNT - 1; r >= 0; r--) {
    bool offered = infer ? r == SPP_RECOMPUTE_NONE : framework->recomputes[r];
    if (fixed->recompute == SPP_UNSET ? !offered : fixed->recompute != r) continue;
    choices->by_layers[choices->recompute_count] = false;
    choices->recomputes[choices->recompute_count++] = (enum spp_recompute)r;
  }
  if (choices->recompute_count == 0) choices->by_layers[0] = false;
  if (choices->recompute_count == 0)
    choices->recomputes[choices->recompute_count++] = framework->recompute_default;
  if (!framework->recompute_by_layers || choices->recomputes[0] != SPP_RECOMPUTE_FULL ||
      fixed->recompute_layers != SPP_UNSET || space->jobs[0].arch->layers < 2 * cell->pp)
    return;
  choices->by_layers[choices->recompute_count] = true;
  choices->recomputes[choices->recompute_count++] = SPP_RECOMPUTE_FULL;
}

/* Loss choices that take the same path under this cell are one. */
static void choose_losses(const struct spp_space *space, const struct spp_cell *cell,
                          struct spp_choices *choices) {
  const struct spp_framework *framework = space->framework;
  const enum spp_loss_path *paths =
      cell->ulysses * cell->ring > 1 ? framework->loss_path_sp : framework->loss_path;
  for (int j = 0; j < space->job_count; j++) {
    bool known = false;
    for (int i = 0; i < choices->loss_count; i++)
      known |= paths[space->jobs[choices->losses[i]].loss] == paths[space->jobs[j].loss];
    if (!known) choices->losses[choices->loss_count++] = j;
  }
}

/* Divisors of the sequences one replica sees in a step. Where they do not divide, one layout is left for the
 * rule. */
static void choose_micro_batches(const struct spp_space *space, const struct spp_cell *cell,
                                 struct spp_choices *choices) {
  int64_t batch = space->jobs[0].global_batch;
  if (space->fixed.micro_batch != SPP_UNSET) {
    choices->micro_batches[choices->micro_batch_count++] = space->fixed.micro_batch;
    return;
  }
  if (batch % cell->dp != 0) {
    choices->micro_batches[choices->micro_batch_count++] = 1;
    return;
  }
  for (int i = 0; i < space->batch_divisor_count && choices->micro_batch_count < SPP_MAX_MICRO_BATCHES; i++)
    if ((batch / cell->dp) % space->batch_divisors[i] == 0)
      choices->micro_batches[choices->micro_batch_count++] = space->batch_divisors[i];
}

void spp_space_choices(const struct spp_space *space, const struct spp_cell *cell,
                       struct spp_choices *choices) {
  choices->pipe_count = choices->megatron_sp_count = choices->sharding_count = 0;
  choices->offload_count = choices->recompute_count = choices->micro_batch_count = choices->loss_count = 0;
  choose_losses(space, cell, choices);
  choose_pipes(space, cell, choices);
  choose_shardings(space, cell, choices);
  choose_rest(space, cell, choices);
  choose_micro_batches(space, cell, choices);
}

int spp_choices_count(const struct spp_choices *c) {
  return c->pipe_count * c->megatron_sp_count * c->sharding_count * c->offload_count * c->recompute_count *
         c->loss_count;
}

static int take(int *number, int count) {
  int digit = *number % count;
  *number /= count;
  return digit;
}

struct spp_variant spp_choices_variant(const struct spp_choices *choices, int number) {
  struct spp_variant variant;
  variant.loss = take(&number, choices->loss_count);
  variant.pipe = take(&number, choices->pipe_count);
  variant.recompute = take(&number, choices->recompute_count);
  variant.offload = take(&number, choices->offload_count);
  variant.sharding = take(&number, choices->sharding_count);
  variant.megatron_sp = number;
  return variant;
}

/* One on, the next where its values are through: false = carried. */
static bool step(int *digit, int count) {
  if (++*digit < count) return true;
  *digit = 0;
  return false;
}

void spp_choices_step(const struct spp_choices *c, struct spp_variant *v) {
  if (step(&v->loss, c->loss_count) || step(&v->pipe, c->pipe_count) ||
      step(&v->recompute, c->recompute_count) || step(&v->offload, c->offload_count) ||
      step(&v->sharding, c->sharding_count))
    return;
  v->megatron_sp++;
}

bool spp_choices_redundant(const struct spp_choices *choices, const struct spp_variant *variant) {
  bool plain = choices->offload_count == 1 && choices->offloads[0] == SPP_OFFLOAD_NONE;
  return choices->one_holder && plain && choices->shardings[variant->sharding].twin;
}

void spp_space_layout(const struct spp_space *space, const struct spp_cell *cell,
                      const struct spp_choices *choices, const struct spp_variant *variant,
                      int64_t micro_batch, struct spp_layout *layout) {
  const struct spp_framework *framework = space->framework;
  const struct spp_request *fixed = &space->fixed;
  enum spp_recompute recompute = choices->recomputes[variant->recompute];
  int64_t per_pass = spp_max64(1, spp_sat_mul(micro_batch, cell->dp));
  *layout = (struct spp_layout){
      .tp = cell->tp,
      .pp = cell->pp,
      .vpp = choices->pipes[variant->pipe].vpp,
      .dp = cell->dp,
      .ep = cell->ep,
      .etp = cell->etp,
      .ulysses = cell->ulysses,
      .ring = cell->ring,
      .sp_kind = cell->sp_kind,
      .megatron_sp = choices->megatron_sp[variant->megatron_sp],
      .zero = choices->shardings[variant->sharding].zero,
      .dp_replicate = choices->shardings[variant->sharding].dp_replicate,
      .recompute = recompute,
      .recompute_modules = recompute == SPP_RECOMPUTE_SELECTIVE ? framework->selective_modules : 0,
      .recompute_layers = choices->by_layers[variant->recompute] ? choices->pipes[variant->pipe].vpp
                                                                 : fixed->recompute_layers,
      .recompute_unit = fixed->recompute_unit == SPP_UNSET ? 1 : fixed->recompute_unit,
      .offload = choices->offloads[variant->offload],
      .fpdt_chunk = cell->fpdt_chunk,
      .fpdt_offload = cell->fpdt_chunk > 0 && fixed->fpdt_offload != 0,
      .offload_layers = fixed->offload_layers == SPP_UNSET ? 0 : fixed->offload_layers,
      .schedule = choices->pipes[variant->pipe].schedule,
      .first_stage_layers = choices->pipes[variant->pipe].first_layers,
      .last_stage_layers = choices->pipes[variant->pipe].last_layers,
      .micro_batch = micro_batch,
      .grad_accum = spp_max64(1, space->jobs[0].global_batch / per_pass),
  };
  if (recompute == SPP_RECOMPUTE_SELECTIVE && fixed->recompute_modules != SPP_UNSET)
    layout->recompute_modules = (unsigned)fixed->recompute_modules;
}
