/* Single changes to a plan: what they are, and what comes of them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "planner/advise_internal.h"
#include "planner/search_internal.h"

void spp_advice_add(struct spp_advice_list *list, const char *code, const char *fmt, ...) {
  if (list->count >= list->max) return;
  struct spp_advice *advice = &list->items[list->count++];
  va_list args;
  va_start(args, fmt);
  snprintf(advice->code, sizeof advice->code, "%s", code);
  vsnprintf(advice->text, sizeof advice->text, fmt, args);
  va_end(args);
}

/* ---- words ---- */

const char *spp_sp_words(const struct spp_layout *layout, char *buf, size_t size) {
  long long sp = spp_layout_sp(layout), su = layout->ulysses, sr = layout->ring;
  if (sp <= 1)
    snprintf(buf, size, "no SP");
  else if (layout->sp_kind == SPP_SP_HYBRID)
    snprintf(buf, size, "SP %lld = Ulysses %lld x ring %lld", sp, su, sr);
  else
    snprintf(buf, size, "%s %lld",
             layout->sp_kind == SPP_SP_ULYSSES ? "Ulysses"
             : layout->sp_kind == SPP_SP_RING  ? "ring"
                                               : "all-gather KV",
             sp);
  return buf;
}

const char *spp_speed_words(double speed, char buf[32]) {
  double percent = 100 * speed;
  if (fabs(percent) < 0.75)
    snprintf(buf, 32, "same speed");
  else if (speed > 0)
    snprintf(buf, 32, "%.0f %% faster", percent);
  else
    snprintf(buf, 32, "%.0f %% slower", -percent);
  return buf;
}

const char *spp_change_bytes(int64_t delta, char buf[32]) {
  char plain[32];
  if (delta == 0)
    snprintf(buf, 32, "same memory");
  else
    snprintf(buf, 32, "%c%.30s", delta < 0 ? '-' : '+', spp_bytes_print(delta < 0 ? -delta : delta, plain));
  return buf;
}

/* ---- trying ---- */

void spp_request_of(const struct spp_layout *layout, struct spp_request *request) {
  spp_request_clear(request);
  request->tp = layout->tp;
  request->pp = layout->pp;
  request->vpp = layout->vpp;
  request->ep = layout->ep;
  request->etp = layout->etp;
  request->ulysses = layout->ulysses;
  request->ring = layout->ring;
  request->sp_kind = (int)layout->sp_kind;
  request->megatron_sp = layout->megatron_sp;
  request->zero = layout->zero;
  request->dp_replicate = layout->dp_replicate;
  request->recompute = (int)layout->recompute;
  request->recompute_modules =
      layout->recompute == SPP_RECOMPUTE_SELECTIVE ? (int64_t)layout->recompute_modules : SPP_UNSET;
  request->recompute_layers = layout->recompute_layers;
  request->recompute_unit = layout->recompute_unit;
  request->offload = (int)layout->offload;
  request->fpdt_chunk = layout->fpdt_chunk;
  request->fpdt_offload = layout->fpdt_offload;
  request->offload_layers = layout->offload_layers > 0 ? layout->offload_layers : SPP_UNSET;
  request->schedule = (int)layout->schedule;
  request->first_stage_layers = layout->first_stage_layers > 0 ? layout->first_stage_layers : SPP_UNSET;
  request->last_stage_layers = layout->last_stage_layers > 0 ? layout->last_stage_layers : SPP_UNSET;
  request->micro_batch = layout->micro_batch;
}

/* The largest micro-batch, at most the one asked for, that divides a replica's share of the batch. */
static void fit_micro_batch(const struct spp_job *job, struct spp_layout *layout) {
  int64_t share = job->global_batch / layout->dp;
  if (job->global_batch % layout->dp == 0)
    while (layout->micro_batch > 1 && share % layout->micro_batch)
      layout->micro_batch--;
  layout->grad_accum = spp_max64(1, share / layout->micro_batch);
  if (layout->dp % spp_max64(1, layout->dp_replicate)) layout->dp_replicate = 1;
}

bool spp_outcome_try(const struct spp_plan *plan, const struct spp_job *job,
                     const struct spp_request *request, struct spp_outcome *outcome) {
  memset(outcome, 0, sizeof *outcome);
  outcome->job = *job;
  if (spp_layout_complete(job, request, &outcome->layout, NULL) != SPP_OK) return false;
  fit_micro_batch(job, &outcome->layout);
  outcome->legal = spp_rules_check(job, &outcome->layout, &outcome->violation, 1) == 0;
  if (!outcome->legal) return true;
  spp_predict(job, &outcome->layout, NULL, &outcome->prediction);
  outcome->feasible = spp_memory_feasible(&outcome->prediction.memory);
  outcome->saved_bytes = plan->prediction.memory.device_bytes - outcome->prediction.memory.device_bytes;
  double before = plan->prediction.time.tokens_per_s;
  outcome->speed = before > 0 ? outcome->prediction.time.tokens_per_s / before - 1 : 0;
  return true;
}

bool spp_outcome_likely(const struct spp_plan *plan, const struct spp_outcome *outcome) {
  double odds = outcome->prediction.memory.fit_probability;
  return outcome->feasible && (odds >= 0.8 || odds >= plan->prediction.memory.fit_probability);
}

bool spp_change_try(const struct spp_plan *plan, const struct spp_change *change, char *words, size_t size,
                    struct spp_outcome *outcome) {
  struct spp_job job = plan->job;
  struct spp_request request;
  spp_request_of(&plan->layout, &request);
  words[0] = '\0';
  if (!change->apply(plan, change->arg, &job, &request, words, size)) return false;
  if (!spp_outcome_try(plan, &job, &request, outcome)) return false;
  if (words[0] == '\0') spp_sp_words(&outcome->layout, words, size);
  return true;
}

/* ---- the changes ---- */

static bool change_loss(const struct spp_plan *plan, int64_t loss, struct spp_job *job,
                        struct spp_request *request, char *words, size_t size) {
  (void)request;
  if (job->loss_path_forced != SPP_UNSET || job->mode == SPP_MODE_INFER) return false;
  if ((int64_t)plan->job.loss == loss || !job->framework->losses[loss]) return false;
  job->loss = (enum spp_loss_choice)loss;
  snprintf(words, size, "%s loss", spp_loss_choice_name(job->loss));
  return true;
}

static bool change_recompute(const struct spp_plan *plan, int64_t recompute, struct spp_job *job,
                             struct spp_request *request, char *words, size_t size) {
  if ((int64_t)plan->layout.recompute == recompute || !job->framework->recomputes[recompute] ||
      job->mode == SPP_MODE_INFER)
    return false;
  request->recompute = (int)recompute;
  request->recompute_modules = request->recompute_layers = SPP_UNSET;
  if (recompute == SPP_RECOMPUTE_NONE && spp_offload_activations(plan->layout.offload)) return false;
  if (recompute == SPP_RECOMPUTE_NONE)
    snprintf(words, size, "no recompute");
  else
    snprintf(words, size, "%s recompute", spp_recompute_name((enum spp_recompute)recompute));
  return true;
}

static bool change_offload(const struct spp_plan *plan, int64_t offload, struct spp_job *job,
                           struct spp_request *request, char *words, size_t size) {
  if ((int64_t)plan->layout.offload == offload || job->mode == SPP_MODE_INFER) return false;
  if (offload != SPP_OFFLOAD_NONE && !job->framework->offloads[offload]) return false;
  request->offload = (int)offload;
  if (offload == SPP_OFFLOAD_NONE)
    snprintf(words, size, "no offload");
  else
    snprintf(words, size, "offload %s", spp_offload_name((enum spp_offload)offload));
  return true;
}

static bool change_zero(const struct spp_plan *plan, int64_t zero, struct spp_job *job,
                        struct spp_request *request, char *words, size_t size) {
  static const char *const fsdp[] = {"DDP", "ZeRO-1", "FSDP without resharding", "FSDP full shard"};
  static const char *const megatron[] = {"no distributed optimizer", "distributed optimizer",
                                         "FSDP optimizer + gradients", "FSDP full shard"};
  if (plan->layout.zero == (int)zero || !job->framework->states[zero].supported ||
      job->mode == SPP_MODE_INFER)
    return false;
  if (plan->prediction.geometry.shard_group <= 1) return false;
  request->zero = (int)zero;
  if (zero == 0) request->dp_replicate = 1;
  if (job->framework->sharding == SPP_SHARDING_FSDP)
    snprintf(words, size, "%s", fsdp[zero]);
  else if (job->framework->sharding == SPP_SHARDING_MEGATRON)
    snprintf(words, size, "%s", megatron[zero]);
  else
    snprintf(words, size, "ZeRO-%lld", (long long)zero);
  return true;
}

static void clear_sp(struct spp_request *request) {
  request->ulysses = request->ring = SPP_UNSET;
  request->sp_kind = SPP_UNSET;
}

/* Another degree of the framework's own split, or of the plan's kind. arg: 0 = none, 2 = twice, -2 = half. */
static bool change_sp(const struct spp_plan *plan, int64_t arg, struct spp_job *job,
                      struct spp_request *request, char *words, size_t size) {
  int64_t sp = spp_layout_sp(&plan->layout), degree = arg == 0 ? 1 : arg > 0 ? 2 * sp : sp / 2;
  (void)words;
  (void)size;
  if (degree == sp || degree < 1 || (arg < 0 && (sp < 4 || sp % 2))) return false;
  clear_sp(request);
  request->sp = degree;
  if (sp > 1 && degree > 1 && job->framework->sp_split == SPP_SPLIT_FREE &&
      plan->layout.sp_kind != SPP_SP_HYBRID)
    request->sp_kind = (int)plan->layout.sp_kind;
  return true;
}

/* The same degree of another kind. Where the framework splits the degree itself there is no other kind. */
static bool change_kind(const struct spp_plan *plan, int64_t kind, struct spp_job *job,
                        struct spp_request *request, char *words, size_t size) {
  (void)words;
  (void)size;
  if (spp_layout_sp(&plan->layout) <= 1 || (int64_t)plan->layout.sp_kind == kind) return false;
  if (!job->framework->sp_kinds[kind] || job->framework->sp_split != SPP_SPLIT_FREE) return false;
  if (kind == SPP_SP_HYBRID && spp_layout_sp(&plan->layout) < 4) return false;
  clear_sp(request);
  request->sp = spp_layout_sp(&plan->layout);
  request->sp_kind = (int)kind;
  return true;
}

static bool change_tp(const struct spp_plan *plan, int64_t arg, struct spp_job *job,
                      struct spp_request *request, char *words, size_t size) {
  int64_t tp = arg > 0 ? plan->layout.tp * arg : plan->layout.tp / -arg;
  if (!job->framework->tp || tp < 1 || tp == plan->layout.tp || (arg < 0 && plan->layout.tp % -arg))
    return false;
  request->tp = tp;
  request->etp = plan->layout.etp == plan->layout.tp ? tp : plan->layout.etp;
  request->megatron_sp = tp > 1 && job->framework->megatron_sp;
  snprintf(words, size, tp > 1 ? "TP %lld" : "no TP", (long long)tp);
  return true;
}

static bool change_pp(const struct spp_plan *plan, int64_t arg, struct spp_job *job,
                      struct spp_request *request, char *words, size_t size) {
  int64_t pp = arg > 0 ? plan->layout.pp * arg : plan->layout.pp / -arg;
  if (!job->framework->pp || pp < 1 || pp == plan->layout.pp || (arg < 0 && plan->layout.pp % -arg))
    return false;
  request->pp = pp;
  request->vpp = 1;
  request->schedule = SPP_SCHEDULE_1F1B;
  snprintf(words, size, pp > 1 ? "PP %lld" : "no PP", (long long)pp);
  return true;
}

static bool change_micro_batch(const struct spp_plan *plan, int64_t arg, struct spp_job *job,
                               struct spp_request *request, char *words, size_t size) {
  int64_t batch = arg > 0 ? plan->layout.micro_batch * arg : plan->layout.micro_batch / -arg;
  if (batch < 1 || batch == plan->layout.micro_batch || (job->global_batch / plan->layout.dp) % batch)
    return false;
  request->micro_batch = batch;
  snprintf(words, size, "micro-batch %lld", (long long)batch);
  return true;
}

static bool change_megatron_sp(const struct spp_plan *plan, int64_t on, struct spp_job *job,
                               struct spp_request *request, char *words, size_t size) {
  if (plan->layout.tp <= 1 || plan->layout.megatron_sp == (on != 0) || !job->framework->megatron_sp)
    return false;
  request->megatron_sp = on != 0;
  snprintf(words, size, "%s", on ? "sequence parallelism inside TP" : "TP without its sequence parallelism");
  return true;
}

static bool change_kernels(const struct spp_plan *plan, int64_t kernels, struct spp_job *job,
                           struct spp_request *request, char *words, size_t size) {
  (void)request;
  if ((int64_t)plan->job.kernels == kernels) return false;
  job->kernels = (enum spp_kernel_style)kernels;
  snprintf(words, size, "fused norm and SwiGLU kernels");
  return true;
}

static bool change_overlap(const struct spp_plan *plan, int64_t on, struct spp_job *job,
                           struct spp_request *request, char *words, size_t size) {
  (void)request;
  (void)plan;
  bool already = job->overlap == SPP_UNSET ? job->framework->overlap_grad_reduce : job->overlap != 0;
  if (already == (on != 0) || job->mode == SPP_MODE_INFER) return false; /* inference has no gradients */
  job->overlap = (int)on;
  snprintf(words, size, "overlapped gradient reduction");
  return true;
}

const struct spp_change spp_changes_next[] = {
    {"loss", change_loss, SPP_LOSS_CHOICE_FULL},
    {"loss", change_loss, SPP_LOSS_CHOICE_CHUNKED},
    {"loss", change_loss, SPP_LOSS_CHOICE_FUSED},
    {"loss", change_loss, SPP_LOSS_CHOICE_VOCAB},
    {"kernels", change_kernels, SPP_KERNELS_FUSED},
    {"overlap", change_overlap, 1},
    {"recompute", change_recompute, SPP_RECOMPUTE_NONE},
    {"recompute", change_recompute, SPP_RECOMPUTE_SELECTIVE},
    {"recompute", change_recompute, SPP_RECOMPUTE_FULL},
    {"sp", change_sp, 2},
    {"sp", change_sp, -2},
    {"sp", change_sp, 0},
    {"zero", change_zero, 1},
    {"zero", change_zero, 2},
    {"zero", change_zero, 3},
    {"tp", change_tp, 2},
    {"tp", change_tp, -2},
    {"pp", change_pp, 2},
    {"pp", change_pp, -2},
    {"micro-batch", change_micro_batch, 2},
    {"micro-batch", change_micro_batch, -2},
    {"megatron-sp", change_megatron_sp, 1},
    {"offload", change_offload, SPP_OFFLOAD_NONE},
    {"offload", change_offload, SPP_OFFLOAD_OPTIMIZER},
    {"offload", change_offload, SPP_OFFLOAD_OPTIMIZER_PARAMS},
    {"offload", change_offload, SPP_OFFLOAD_ACTIVATIONS},
};
const int spp_changes_next_count = (int)(sizeof spp_changes_next / sizeof *spp_changes_next);

const struct spp_change spp_changes_natural[] = {
    {"no-sp", change_sp, 0},
    {"more-sp", change_sp, 2},
    {"less-sp", change_sp, -2},
    {"ulysses", change_kind, SPP_SP_ULYSSES},
    {"ring", change_kind, SPP_SP_RING},
    {"hybrid", change_kind, SPP_SP_HYBRID},
    {"allgather", change_kind, SPP_SP_ALLGATHER},
    {"no-recompute", change_recompute, SPP_RECOMPUTE_NONE},
    {"full-recompute", change_recompute, SPP_RECOMPUTE_FULL},
    {"zero-1", change_zero, 1},
    {"zero-2", change_zero, 2},
    {"zero-3", change_zero, 3},
    {"more-tp", change_tp, 2},
    {"no-offload", change_offload, SPP_OFFLOAD_NONE},
};
const int spp_changes_natural_count = (int)(sizeof spp_changes_natural / sizeof *spp_changes_natural);
