#include "planner/sensitivity.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "planner/advise_internal.h"

/* ---- another machine, or another limit ---- */

/* A job spec and the hardware it points to, to be changed. */
struct varied {
  struct spp_job_spec spec;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
};

static int64_t room(const struct varied *v) {
  return v->spec.max_memory_bytes > 0 ? v->spec.max_memory_bytes : v->gpu.capacity_bytes;
}
static bool more_memory(struct varied *v) {
  v->gpu.capacity_bytes += SPP_GIB;
  if (v->spec.max_memory_bytes > 0) v->spec.max_memory_bytes += SPP_GIB;
  return true;
}
static bool less_memory(struct varied *v) {
  v->spec.max_memory_bytes = room(v) - SPP_GIB;
  return v->spec.max_memory_bytes > 0;
}
static bool several_nodes(const struct varied *v) {
  int64_t domain =
      v->cluster.domain_gpus > v->cluster.gpus_per_node ? v->cluster.domain_gpus : v->cluster.gpus_per_node;
  return v->spec.gpus > domain;
}
static bool faster_nic(struct varied *v) {
  v->cluster.nic_bytes_per_s *= 2;
  v->cluster.nic_bytes_per_s_per_gpu *= 2;
  return several_nodes(v);
}
static bool faster_link(struct varied *v) {
  v->gpu.link_bytes_per_s *= 2;
  v->gpu.pcie_bytes_per_s *= v->gpu.has_fast_link ? 1 : 2;
  v->cluster.link_bytes_per_s *= 2;
  return v->spec.gpus > 1;
}
static bool twice_the_gpus(struct varied *v) {
  v->spec.gpus *= 2;
  return true;
}
static bool half_the_gpus(struct varied *v) {
  bool even = v->spec.gpus % 2 == 0;
  v->spec.gpus /= 2;
  return even;
}

static const struct variation {
  const char *code, *what;
  bool (*apply)(struct varied *v); /* false: it makes no sense for the job */
} variations[] = {
    {"memory-more", "1 GiB more on each GPU", more_memory},
    {"memory-less", "1 GiB less on each GPU", less_memory},
    {"nic", "network between nodes twice as fast", faster_nic},
    {"link", "links inside a node twice as fast", faster_link},
    {"gpus-twice", "twice the GPUs", twice_the_gpus},
    {"gpus-half", "half the GPUs", half_the_gpus},
};

static bool same_layout(const struct spp_plan *plan, const struct spp_plan *other) {
  const struct spp_layout *a = &plan->layout, *b = &other->layout;
  return a->tp == b->tp && a->pp == b->pp && a->vpp == b->vpp && a->dp == b->dp && a->ep == b->ep &&
         a->etp == b->etp && a->ulysses == b->ulysses && a->ring == b->ring && a->sp_kind == b->sp_kind &&
         a->megatron_sp == b->megatron_sp && a->zero == b->zero && a->dp_replicate == b->dp_replicate &&
         a->recompute == b->recompute && a->offload == b->offload && a->schedule == b->schedule &&
         a->micro_batch == b->micro_batch && plan->job.loss == other->job.loss;
}

static void note_plan(const struct spp_plan *plan, const struct spp_plan *then, struct spp_sensitivity *row) {
  double now = plan->prediction.time.tokens_per_s;
  row->possible = true;
  row->tokens_per_s = then->prediction.time.tokens_per_s;
  row->speed = now > 0 ? row->tokens_per_s / now - 1 : 0;
  row->device_bytes = then->prediction.memory.device_bytes;
  row->usd_per_million_tokens = then->prediction.time.usd_per_million_tokens;
  row->same_layout = same_layout(plan, then);
  spp_layout_describe(&then->job, &then->layout, row->layout, sizeof row->layout);
}

/* False: no row. */
static bool vary(const struct spp_search_options *options, const struct spp_plan *plan,
                 const struct variation *variation, struct spp_sensitivity *row) {
  struct spp_search_options own = *options;
  const struct spp_framework *framework = plan->job.framework;
  struct varied varied = {options->spec, *plan->job.gpu, *plan->job.cluster};
  struct spp_search_result result;
  struct spp_diag diag = {.status = SPP_OK};
  if (options->spec.gpus != plan->job.gpus) varied.spec.gpus = plan->job.gpus; /* found, not given */
  if (!variation->apply(&varied)) return false;
  varied.spec.gpu = &varied.gpu;
  varied.spec.cluster = &varied.cluster;
  own.spec = varied.spec;
  own.frameworks = &framework;
  own.framework_count = 1;
  own.top = 1;
  row->searched = true;
  snprintf(row->code, sizeof row->code, "%s", variation->code);
  snprintf(row->what, sizeof row->what, "%s", variation->what);
  enum spp_status status = spp_search(&own, &result, &diag);
  if (status == SPP_OK)
    note_plan(plan, &result.plans[0], row);
  else
    snprintf(row->why_not, sizeof row->why_not, "%.159s", diag.what);
  if (status == SPP_OK || status == SPP_ERR_NOFIT) spp_search_free(&result);
  return true;
}

/* ---- another loss, other recompute ---- */

static void note_outcome(const struct spp_plan *plan, const struct spp_outcome *outcome,
                         struct spp_sensitivity *row) {
  const struct spp_memory *memory = &outcome->prediction.memory;
  char bytes[32];
  if (outcome->feasible) {
    const struct spp_plan then = {outcome->job, outcome->layout, outcome->prediction};
    note_plan(plan, &then, row);
  } else if (!outcome->legal) {
    snprintf(row->why_not, sizeof row->why_not, "%.159s", outcome->violation.text);
  } else if (!memory->fits) {
    snprintf(row->why_not, sizeof row->why_not, "%s over on each GPU",
             spp_bytes_print(-memory->headroom_bytes, bytes));
  } else {
    snprintf(row->why_not, sizeof row->why_not, "%s over in host memory",
             spp_bytes_print(memory->host_bytes_per_node - memory->host_capacity_bytes, bytes));
  }
}

static bool change(const struct spp_plan *plan, const struct spp_change *change,
                   struct spp_sensitivity *row) {
  struct spp_outcome outcome;
  if (strcmp(change->code, "loss") != 0 && strcmp(change->code, "recompute") != 0) return false;
  if (!spp_change_try(plan, change, row->what, sizeof row->what, &outcome)) return false;
  if (change->code[0] == 'l')
    snprintf(row->code, sizeof row->code, "loss-%s", spp_loss_choice_name(outcome.job.loss));
  else
    snprintf(row->code, sizeof row->code, "recompute-%s", spp_recompute_name(outcome.layout.recompute));
  note_outcome(plan, &outcome, row);
  return true;
}

/* ---- entry ---- */

int spp_sensitivities(const struct spp_search_options *options, const struct spp_plan *plan,
                      struct spp_sensitivity *rows, int max) {
  int count = 0;
  for (size_t i = 0; i < sizeof variations / sizeof *variations && count < max; i++) {
    memset(&rows[count], 0, sizeof *rows);
    count += vary(options, plan, &variations[i], &rows[count]);
  }
  for (int i = 0; i < spp_changes_next_count && count < max; i++) {
    memset(&rows[count], 0, sizeof *rows);
    count += change(plan, &spp_changes_next[i], &rows[count]);
  }
  return count;
}
