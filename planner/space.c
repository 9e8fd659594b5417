#include "planner/space.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/geometry.h"

int spp_divisors(int64_t n, int64_t *divisors, int max) {
  int count = 0;
  for (int64_t d = 1; d <= n / d && count < max; d++)
    if (n % d == 0) divisors[count++] = d;
  for (int i = count - 1; i >= 0 && count < max; i--)
    if (divisors[i] != n / divisors[i]) divisors[count++] = n / divisors[i];
  return count;
}

static bool allows(int64_t fixed, int64_t value) {
  return fixed == SPP_UNSET || fixed == value;
}

/* ---- jobs: one per loss choice ---- */

static bool loss_is_fixed(const struct spp_job_spec *spec) {
  return spec->loss != SPP_UNSET || spec->mode == SPP_MODE_INFER;
}

static enum spp_status add_job(struct spp_space *space, const struct spp_job_spec *spec,
                               struct spp_diag *diag) {
  enum spp_status status = spp_job_resolve(spec, space->framework, &space->jobs[space->job_count], diag);
  if (status == SPP_OK) space->job_count++;
  return status;
}

/* The framework's own loss first, so that it wins where the choice makes no difference. */
static enum spp_status build_jobs(struct spp_space *space, const struct spp_job_spec *spec,
                                  struct spp_diag *diag) {
  const struct spp_framework *framework = space->framework;
  enum spp_status status = add_job(space, spec, diag);
  if (status != SPP_OK || loss_is_fixed(spec)) return status;
  for (int loss = 0; loss < SPP_LOSS_CHOICE_COUNT; loss++) {
    if (!framework->losses[loss] || loss == (int)space->jobs[0].loss) continue;
    struct spp_job_spec other = *spec;
    other.loss = loss;
    add_job(space, &other, NULL); /* a refusal here only means that this loss is no choice for the job */
  }
  return SPP_OK;
}

/* ---- cells ---- */

static bool push_cell(struct spp_space *space, const struct spp_cell *cell) {
  if (space->cell_count == space->cell_capacity) {
    int capacity = space->cell_capacity ? 2 * space->cell_capacity : 64;
    struct spp_cell *grown = realloc(space->cells, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    space->cells = grown;
    space->cell_capacity = capacity;
  }
  space->cells[space->cell_count++] = *cell;
  return true;
}

/* Degrees to try along one dimension: the fixed value alone, or the divisors of the GPUs up to `limit`. */
static int degrees(const struct spp_space *space, int64_t fixed, bool offered, int64_t limit, int64_t *out) {
  int count = 0;
  if (fixed != SPP_UNSET) {
    out[0] = fixed;
    return fixed > 0 ? 1 : 0;
  }
  for (int i = 0; i < space->gpu_divisor_count; i++) {
    int64_t d = space->gpu_divisors[i];
    if (d == 1 || (offered && d <= limit)) out[count++] = d;
  }
  return count;
}

/* Expert degrees of one division of the GPUs. Experts spread over the ranks of one pipeline stage
 * (NVIDIA/Megatron-LM megatron/core/parallel_state.py: expert groups cut world / pp by ep x etp). */
static bool push_experts(struct spp_space *space, struct spp_cell cell) {
  const struct spp_arch *arch = space->jobs[0].arch;
  const struct spp_framework *framework = space->framework;
  const struct spp_request *fixed = &space->fixed;
  int64_t eps[SPP_MAX_DIVISORS];
  bool moe = arch->experts > 0;
  int ep_count = degrees(space, fixed->ep, moe && framework->ep, arch->experts, eps);
  int64_t ranks = cell.tp * cell.dp * cell.ulysses * cell.ring;
  for (int i = 0; i < ep_count; i++) {
    if (fixed->ep == SPP_UNSET && eps[i] > 1 && (arch->experts % eps[i] || ranks % eps[i])) continue;
    int64_t etps[2] = {cell.tp, 1}; /* NVIDIA/Megatron-LM: expert TP defaults to TP */
    int etp_count = moe && framework->etp && cell.tp > 1 ? 2 : 1;
    if (fixed->etp != SPP_UNSET) etps[0] = fixed->etp, etp_count = 1;
    for (int j = 0; j < etp_count; j++) {
      if (fixed->etp == SPP_UNSET && ranks % (eps[i] * etps[j])) continue;
      cell.ep = eps[i];
      cell.etp = etps[j];
      if (!push_cell(space, &cell)) return false;
    }
  }
  return true;
}

static bool push_sp(struct spp_space *space, const struct spp_cell *outer, enum spp_sp_kind kind,
                    int64_t ulysses, int64_t ring) {
  const struct spp_request *fixed = &space->fixed;
  struct spp_cell cell = *outer;
  int64_t product = cell.tp * cell.pp * ulysses * ring, gpus = space->jobs[0].gpus;
  if (product > gpus || gpus % product) return true;
  if (!allows(fixed->sp, ulysses * ring) || !allows(fixed->ulysses, ulysses) || !allows(fixed->ring, ring) ||
      !allows(fixed->sp_kind, kind) || !allows(fixed->dp, gpus / product))
    return true;
  cell.sp_kind = kind;
  cell.ulysses = ulysses;
  cell.ring = ring;
  cell.dp = gpus / product;
  return push_experts(space, cell);
}

/* A framework that splits the degree itself (ms-swift: Ulysses = gcd(KV heads, degree)) offers one kind per
 * degree. */
static bool push_own_split(struct spp_space *space, const struct spp_cell *outer, int64_t degree) {
  int64_t heads = spp_max64(1, spp_arch_kv_heads(space->jobs[0].arch) / outer->tp);
  int64_t ulysses = spp_gcd(heads, degree);
  enum spp_sp_kind kind = ulysses == degree ? SPP_SP_ULYSSES : ulysses == 1 ? SPP_SP_RING : SPP_SP_HYBRID;
  return push_sp(space, outer, kind, ulysses, degree / ulysses);
}

static bool kind_offered(const struct spp_space *space, enum spp_sp_kind kind) {
  return space->framework->sp_kinds[kind] || space->fixed.sp_kind == (int)kind;
}

static bool push_degree(struct spp_space *space, const struct spp_cell *outer, int64_t degree) {
  int64_t heads = space->jobs[0].arch->heads;
  const struct spp_request *fixed = &space->fixed;
  bool split_given = fixed->sp_kind != SPP_UNSET || fixed->ulysses != SPP_UNSET || fixed->ring != SPP_UNSET;
  if (degree == 1) return push_sp(space, outer, SPP_SP_NONE, 1, 1);
  if (space->framework->sp_split == SPP_SPLIT_GCD_KV && !split_given)
    return push_own_split(space, outer, degree);
  if (kind_offered(space, SPP_SP_ULYSSES) && (degree <= heads || split_given) &&
      !push_sp(space, outer, SPP_SP_ULYSSES, degree, 1))
    return false;
  if (kind_offered(space, SPP_SP_RING) && !push_sp(space, outer, SPP_SP_RING, 1, degree)) return false;
  if (kind_offered(space, SPP_SP_ALLGATHER) && !push_sp(space, outer, SPP_SP_ALLGATHER, 1, degree))
    return false;
  if (!kind_offered(space, SPP_SP_HYBRID)) return true;
  for (int i = 0; i < space->gpu_divisor_count; i++) {
    int64_t ulysses = space->gpu_divisors[i];
    if (ulysses < 2 || ulysses >= degree || degree % ulysses || ulysses > heads) continue;
    if (!push_sp(space, outer, SPP_SP_HYBRID, ulysses, degree / ulysses)) return false;
  }
  return true;
}

static bool any_sp(const struct spp_space *space) {
  for (int kind = SPP_SP_ULYSSES; kind < SPP_SP_KIND_COUNT; kind++)
    if (kind_offered(space, (enum spp_sp_kind)kind)) return true;
  return space->fixed.sp > 1 || space->fixed.ulysses > 1 || space->fixed.ring > 1;
}

static bool build_cells(struct spp_space *space) {
  const struct spp_framework *framework = space->framework;
  const struct spp_request *fixed = &space->fixed;
  const struct spp_arch *arch = space->jobs[0].arch;
  int64_t tps[SPP_MAX_DIVISORS], pps[SPP_MAX_DIVISORS], gpus = space->jobs[0].gpus;
  int tp_count = degrees(space, fixed->tp, framework->tp, arch->heads, tps);
  int pp_count = degrees(space, fixed->pp, framework->pp, arch->layers, pps);
  for (int i = 0; i < pp_count; i++)
    for (int j = 0; j < tp_count; j++) {
      struct spp_cell outer = {.tp = tps[j], .pp = pps[i]};
      if (outer.tp > gpus || outer.pp > gpus || gpus % (outer.tp * outer.pp)) continue;
      for (int k = 0; k < space->gpu_divisor_count; k++) {
        int64_t degree = space->gpu_divisors[k];
        if ((degree > 1 && !any_sp(space)) || (gpus / (outer.tp * outer.pp)) % degree) continue;
        if (!push_degree(space, &outer, degree)) return false;
      }
    }
  return true;
}

enum spp_status spp_space_build(const struct spp_job_spec *spec, const struct spp_framework *framework,
                                const struct spp_request *fixed, struct spp_space *space,
                                struct spp_diag *diag) {
  struct spp_space built = {.framework = framework, .fixed = *fixed};
  built.jobs = calloc(SPP_LOSS_CHOICE_COUNT, sizeof *built.jobs);
  if (!built.jobs) return spp_diag_oom(diag);
  enum spp_status status = build_jobs(&built, spec, diag);
  if (status == SPP_OK) {
    built.gpu_divisor_count = spp_divisors(built.jobs[0].gpus, built.gpu_divisors, SPP_MAX_DIVISORS);
    built.batch_divisor_count =
        spp_divisors(built.jobs[0].global_batch, built.batch_divisors, SPP_MAX_DIVISORS);
    built.batch_rule_count =
        spp_rules_list(&built.jobs[0], SPP_AXIS_BATCH, built.batch_rules, SPP_MAX_BATCH_RULES);
    if (built.batch_rule_count > SPP_MAX_BATCH_RULES) built.batch_rule_count = SPP_MAX_BATCH_RULES;
    if (!build_cells(&built)) status = spp_diag_oom(diag);
  }
  if (status == SPP_OK && built.cell_count == 0)
    status = spp_diag_set(diag, SPP_ERR_USAGE, NULL, "free one degree, or change --gpus",
                          "%s has no layout with these degrees on %lld GPUs", framework->display,
                          (long long)built.jobs[0].gpus);
  if (status != SPP_OK) {
    spp_space_free(&built);
    return status;
  }
  *space = built;
  return SPP_OK;
}

void spp_space_free(struct spp_space *space) {
  free(space->jobs);
  free(space->cells);
  memset(space, 0, sizeof *space);
}

/* ---- choices inside a cell ---- */

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

bool spp_choices_redundant(const struct spp_choices *choices, const struct spp_variant *variant) {
  return choices->one_holder && choices->offload_count == 1 && choices->shardings[variant->sharding].twin;
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
      .recompute_layers = choices->by_layers[variant->recompute] ? 1 : fixed->recompute_layers,
      .recompute_unit = fixed->recompute_unit == SPP_UNSET ? 1 : fixed->recompute_unit,
      .offload = choices->offloads[variant->offload],
      .schedule = choices->pipes[variant->pipe].schedule,
      .first_stage_layers = choices->pipes[variant->pipe].first_layers,
      .last_stage_layers = choices->pipes[variant->pipe].last_layers,
      .micro_batch = micro_batch,
      .grad_accum = spp_max64(1, space->jobs[0].global_batch / per_pass),
  };
  if (recompute == SPP_RECOMPUTE_SELECTIVE && fixed->recompute_modules != SPP_UNSET)
    layout->recompute_modules = (unsigned)fixed->recompute_modules;
}

/* ---- walking ---- */

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
