#include "planner/advise.h"

#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "base/units.h"
#include "model/calib.h"
#include "planner/advise_internal.h"
#include "planner/search_internal.h"

/* ---- next ---- */

/* How much a change is worth; 0 = not worth a line. A plan that does not fit is helped by what makes it fit,
 * and after that by what brings it nearer. */
static double worth(const struct spp_plan *plan, const struct spp_outcome *outcome) {
  const struct spp_memory *now = &plan->prediction.memory;
  if (!outcome->legal) return 0;
  double saved = (double)outcome->saved_bytes / (double)spp_max64(1, now->device_bytes);
  if (!spp_memory_feasible(now) && outcome->feasible) return 10 + outcome->speed;
  if (!spp_memory_feasible(now)) return saved >= 0.1 && outcome->prediction.memory.host_fits ? saved : 0;
  if (!outcome->feasible) return 0;
  bool faster = outcome->speed >= 0.01 && spp_outcome_likely(plan, outcome),
       smaller = saved >= 0.02 && outcome->speed >= -0.15;
  if (!faster && !smaller) return 0;
  return fmax(outcome->speed, -0.15) + 0.3 * fmin(fmax(saved, -0.5), 0.9) + (faster ? 0.2 : 0.16);
}

static void say_next(const struct spp_plan *plan, const char *code, const char *words,
                     const struct spp_outcome *outcome, struct spp_advice_list *list) {
  const struct spp_memory *then = &outcome->prediction.memory;
  char speed[32], delta[32], bytes[32], odds[48] = "";
  bool rescued = outcome->feasible && !spp_memory_feasible(&plan->prediction.memory);
  if (!outcome->feasible)
    snprintf(odds, sizeof odds, ", still %s over", spp_bytes_print(-then->headroom_bytes, bytes));
  else if (!spp_outcome_likely(plan, outcome))
    snprintf(odds, sizeof odds, ", only %.0f %% likely to fit", floor(100 * then->fit_probability));
  spp_advice_add(list, code, "%s: %s%s (%s), %s%s", words, rescued ? "fits, " : "",
                 spp_change_bytes(-outcome->saved_bytes, delta),
                 spp_bytes_print(outcome->prediction.memory.device_bytes, bytes),
                 spp_speed_words(outcome->speed, speed), odds);
}

int spp_advise_next(const struct spp_plan *plan, struct spp_advice *advice, int max) {
  struct spp_advice_list list = {advice, 0, max};
  double values[SPP_MAX_ADVICE];
  struct spp_advice one;
  if (list.max > SPP_MAX_ADVICE) list.max = SPP_MAX_ADVICE;
  for (int i = 0; i < spp_changes_next_count; i++) {
    struct spp_outcome outcome;
    struct spp_advice_list line = {&one, 0, 1};
    char words[96];
    if (!spp_change_try(plan, &spp_changes_next[i], words, sizeof words, &outcome)) continue;
    double value = worth(plan, &outcome);
    int at = list.count;
    while (at > 0 && values[at - 1] < value)
      at--;
    if (value <= 0 || at >= list.max) continue;
    say_next(plan, spp_changes_next[i].code, words, &outcome, &line);
    if (list.count < list.max) list.count++;
    for (int j = list.count - 1; j > at; j--) {
      values[j] = values[j - 1];
      advice[j] = advice[j - 1];
    }
    values[at] = value;
    advice[at] = one;
  }
  return list.count;
}

/* ---- why not ---- */

/* The part of the step that grew most: the number behind "slower". */
static void say_cause(const struct spp_job *job, const struct spp_time *now, const struct spp_time *then,
                      char *text, size_t size) {
  const struct {
    const char *words;
    double grown_s;
  } parts[] = {
      {"compute", then->compute_s - now->compute_s},
      {"attention", then->attention_s - now->attention_s},
      {"SP communication", then->sp_exposed_s - now->sp_exposed_s},
      {"TP communication", then->tp_exposed_s - now->tp_exposed_s},
      {"pipeline bubble", then->pp_bubble_s - now->pp_bubble_s},
      {"pipeline sends", then->pp_exposed_s - now->pp_exposed_s},
      {"data-parallel communication", then->dp_exposed_s - now->dp_exposed_s},
      {"expert communication", then->ep_exposed_s - now->ep_exposed_s},
      {"offload", then->offload_exposed_s - now->offload_exposed_s},
      {"optimizer", then->optimizer_s - now->optimizer_s},
      {"host launches", then->host_s - now->host_s},
  };
  size_t most = 0;
  char seconds[32];
  for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].grown_s > parts[most].grown_s) most = i;
  if (size > 0) text[0] = '\0';
  if (parts[most].grown_s > 0)
    snprintf(text, size, " (%s +%s a %s)", parts[most].words, spp_seconds_print(parts[most].grown_s, seconds),
             spp_job_round(job));
}

static void say_why_not(const struct spp_plan *plan, const char *code, const char *words,
                        const struct spp_outcome *outcome, struct spp_advice_list *list) {
  const struct spp_memory *memory = &outcome->prediction.memory;
  char number[32], speed[32], cause[96];
  if (!outcome->legal) {
    spp_advice_add(list, code, "%s: %s", words, outcome->violation.text);
  } else if (!memory->fits) {
    spp_advice_add(list, code, "%s: %s over in the %s", words,
                   spp_bytes_print(memory->device_bytes - memory->capacity_bytes, number),
                   spp_phase_words(&plan->job, spp_moment_phase(memory->peak_moment)));
  } else if (!memory->host_fits) {
    spp_advice_add(list, code, "%s: %s over in host memory", words,
                   spp_bytes_print(memory->host_bytes_per_node - memory->host_capacity_bytes, number));
  } else {
    say_cause(&plan->job, &plan->prediction.time, &outcome->prediction.time, cause, sizeof cause);
    spp_advice_add(list, code, "%s: %s, %s%s", words, spp_speed_words(outcome->speed, speed),
                   spp_bytes_print(memory->device_bytes, number), outcome->speed < -0.0075 ? cause : "");
  }
}

int spp_advise_why_not(const struct spp_plan *plan, struct spp_advice *advice, int max) {
  struct spp_advice_list list = {advice, 0, max};
  for (int i = 0; i < spp_changes_natural_count; i++) {
    struct spp_outcome outcome;
    char words[96];
    if (!spp_change_try(plan, &spp_changes_natural[i], words, sizeof words, &outcome)) continue;
    say_why_not(plan, spp_changes_natural[i].code, words, &outcome, &list);
  }
  return list.count;
}

/* ---- assumed ---- */

static void assume_batch(const struct spp_job_spec *spec, const struct spp_job *job,
                         struct spp_advice_list *list) {
  char number[32];
  if (spec->global_batch <= 0)
    spp_advice_add(list, "global-batch", "global batch %s", spp_int_print(job->global_batch, number));
  if (spec->documents.count == 0 && spec->mode != SPP_MODE_INFER)
    spp_advice_add(list, "documents", "every sequence full length");
  if (job->mode == SPP_MODE_GRPO && spec->grpo_completions <= 0)
    spp_advice_add(list, "grpo-completions", "%s completions a prompt",
                   spp_int_print(job->grpo_completions, number));
}

static void assume_training(const struct spp_job_spec *spec, const struct spp_job *job,
                            struct spp_advice_list *list) {
  if (spec->mode == SPP_UNSET && job->mode != SPP_MODE_TRAIN)
    spp_advice_add(list, "mode", "mode %s", spp_mode_name(job->mode));
  if (job->mode == SPP_MODE_INFER) return;
  if (spec->method == SPP_UNSET)
    spp_advice_add(list, "method", "%s fine-tuning", spp_method_name(job->method));
  if (spec->optimizer == SPP_UNSET)
    spp_advice_add(list, "optimizer", "optimizer %s", spp_optimizer_name(job->optimizer));
  if (job->lora_rank > 0 && spec->lora_rank <= 0)
    spp_advice_add(list, "lora-rank", "LoRA rank %lld", (long long)job->lora_rank);
  if (job->lora_rank > 0 && spec->lora_dropout < 0)
    spp_advice_add(list, "lora-dropout", "LoRA dropout %.2g", job->lora_dropout);
  if (job->lora_rank > 0 && spec->lora_targets == 0)
    spp_advice_add(list, "lora-targets", "LoRA on all linear layers");
}

int spp_advise_assumed(const struct spp_job_spec *spec, const struct spp_plan *plan,
                       struct spp_advice *advice, int max) {
  struct spp_advice_list list = {advice, 0, max};
  const struct spp_job *job = &plan->job;
  assume_batch(spec, job, &list);
  if (spec->dtype == SPP_UNSET) spp_advice_add(&list, "dtype", "%s", spp_dtype_name(spp_job_format(job)));
  assume_training(spec, job, &list);
  if (spec->attention == SPP_UNSET)
    spp_advice_add(&list, "attention", "attention %s", spp_attention_impl_name(job->attention));
  if (spec->packing == SPP_UNSET && job->mode != SPP_MODE_INFER)
    spp_advice_add(&list, "packing", "%s", job->packing ? "packing" : "no packing");
  return list.count;
}

/* ---- intervals ---- */

/* `added`: what the width has on top of the framework's own sigma for want of runs; 0: nothing, so that the
 * file's sigma alone says how wide. */
static void count_runs(const struct spp_framework *f, const char *what, int64_t runs, int64_t least,
                       double sigma, double added, struct spp_advice_list *list) {
  char number[32] = "no";
  if (runs >= least) return;
  if (runs > 0) spp_int_print(runs, number);
  if (added > 0)
    spp_advice_add(list, "interval-framework",
                   "%s interval: %s measured run%s of %s, too few: one sigma of %.3g %% is added", what,
                   number, runs > 1 ? "s" : "", f->display, 100 * added);
  else
    spp_advice_add(list, "interval-framework",
                   "%s interval: one sigma of %.3g %%, assumed for %s (%s measured run%s)", what, 100 * sigma,
                   f->display, number, runs > 1 ? "s" : "");
}

int spp_advise_intervals(const struct spp_plan *plan, struct spp_advice *advice, int max) {
  enum { SAID_FROM_PERCENT = 10 }; /* of a step that waits */
  struct spp_advice_list list = {advice, 0, max};
  const struct spp_job *job = &plan->job;
  const struct spp_calib *calib = job->calib;
  const struct spp_framework *f = job->framework;
  const struct spp_spread *spread = &calib->spread;
  count_runs(f, "memory", f->memory_runs, spread->least_runs, f->memory_sigma,
             job->settings_open ? spread->memory_open : spread->memory, &list);
  count_runs(f, "time", f->time_runs, spread->least_runs, f->time_sigma,
             job->settings_open ? spread->time_open : 0, &list);
  if (!calib->measured)
    spp_advice_add(&list, "interval-gpu",
                   "time interval: no measured kernels of %s, shares of its datasheet by %s",
                   job->gpu->display, calib->name);
  double waits = 100 * plan->prediction.time.waits_share;
  if (calib->spread.waits > 0 && waits >= SAID_FROM_PERCENT)
    spp_advice_add(&list, "interval-waits",
                   "time interval: %.0f %% of a %s waits for the host, its memory or other GPUs", waits,
                   spp_job_round(job));
  return list.count;
}
