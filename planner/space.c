#include "planner/space.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

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

/* Shorter chunks hide their copies no longer: a pair of chunks computes with the square of their length, what
 * moves grows with it (65,536 is DeepSpeed's default). */
enum { SHORTEST_CHUNK = 16384 };

/* Whole sequences and, where the framework passes them in chunks (FPDT), halves, quarters, ... that divide.
 */
static bool push_chunks(struct spp_space *space, struct spp_cell cell) {
  int64_t fixed = space->fixed.fpdt_chunk, seq = space->jobs[0].seq_tokens, sp = cell.ulysses * cell.ring;
  cell.fpdt_chunk = spp_max64(0, fixed);
  if (!push_experts(space, cell)) return false;
  if (fixed != SPP_UNSET || !space->framework->fpdt || cell.sp_kind != SPP_SP_ULYSSES) return true;
  for (int64_t count = 2; seq / count >= SHORTEST_CHUNK; count *= 2) {
    if (seq % count || (seq / count) % sp) continue;
    cell.fpdt_chunk = seq / count;
    if (!push_experts(space, cell)) return false;
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
  return push_chunks(space, cell);
}

/* A framework that splits the degree itself (ms-swift: Ulysses = gcd(KV heads, degree)) offers one kind per
 * degree. */
static bool push_own_split(struct spp_space *space, const struct spp_cell *outer, int64_t degree) {
  int64_t ulysses = spp_own_ulysses(&space->jobs[0], degree);
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

static void list_of(const struct spp_job *job, unsigned axes, unsigned but, struct spp_rule_list *list) {
  list->count = spp_rules_list(job, axes, but, list->rules, SPP_MAX_RULES_LISTED);
  if (list->count > SPP_MAX_RULES_LISTED) list->count = SPP_MAX_RULES_LISTED;
}

static void list_rules(struct spp_space *space) {
  const struct spp_job *job = &space->jobs[0];
  list_of(job, 0, SPP_AXES_CHOICE | SPP_AXIS_BATCH, &space->cell_rules);
  list_of(job, SPP_AXES_CHOICE, SPP_AXIS_BATCH, &space->choice_rules);
  list_of(job, SPP_AXIS_BATCH, 0, &space->batch_rules);
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
    list_rules(&built);
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
