#include <stdlib.h>

#include "base/units.h"
#include "cli/answer.h"
#include "cli/setup.h"
#include "cli/trace.h"
#include "cli/watch.h"

struct planned {
  struct spp_report report;
  struct spp_plan_report answer;
  struct spp_sensitivity sensitivities[SPP_MAX_SENSITIVITIES];
  struct spp_text_style style;
  const struct spp_args *args;
};

static void explain(const struct planned *planned, struct spp_str *out) {
  const struct spp_search_result *search = planned->answer.search;
  const struct spp_plan *plan = search->count         ? &search->plans[0]
                                : search->has_nearest ? &search->nearest
                                                      : NULL;
  struct spp_prediction prediction;
  struct spp_ledger *ledger;
  if (!plan || planned->args->explain < 0) return;
  ledger = calloc(1, sizeof *ledger);
  if (!ledger) {
    out->failed = true;
    return;
  }
  spp_predict(&plan->job, &plan->layout, ledger, &prediction);
  spp_text_explain((enum spp_explain)planned->args->explain,
                   &(struct spp_predict_report){.job = &plan->job,
                                                .layout = &plan->layout,
                                                .prediction = &prediction,
                                                .ledger = ledger,
                                                .sensitivities = planned->answer.sensitivities,
                                                .sensitivity_count = planned->answer.sensitivity_count},
                   &planned->style, out);
  free(ledger);
}

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct planned *planned = what;
  (void)cli;
  spp_text_plan(&planned->report, &planned->answer, &planned->style, out);
  explain(planned, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct planned *planned = what;
  spp_json_plan(&planned->report, &planned->answer, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  const struct planned *planned = what;
  spp_csv_plan(&planned->answer, out);
}

/* Tensor by tensor, when --explain asks for memory. NULL when it does not, or without room. */
static struct spp_ledger *ledger_of(const struct spp_args *args, const struct spp_plan *plan) {
  struct spp_prediction prediction;
  struct spp_ledger *ledger;
  if (!plan || (args->explain != (int)SPP_EXPLAIN_ALL && args->explain != (int)SPP_EXPLAIN_MEMORY))
    return NULL;
  ledger = calloc(1, sizeof *ledger);
  if (ledger) spp_predict(&plan->job, &plan->layout, ledger, &prediction);
  return ledger;
}

/* Exit 4 says on stderr what was in the way, because standard output may be a file. */
static enum spp_status nothing_fits(const struct spp_search_result *search, struct spp_diag *diag) {
  const struct spp_memory *memory = &search->nearest.prediction.memory;
  if (!search->has_nearest)
    return spp_diag_set(diag, SPP_ERR_NOFIT, "search", "more GPUs, LoRA or offload", "nothing fits");
  return spp_diag_set(
      diag, SPP_ERR_NOFIT, search->nearest.job.framework->name,
      "fewer tokens, more GPUs, LoRA or offload; --find max-seq and --find min-gpus say how far",
      "nothing fits: the nearest layout needs %.1f GiB of %.1f on a GPU",
      (double)memory->device_bytes / SPP_GIB, (double)memory->capacity_bytes / SPP_GIB);
}

/* The options that this plan answers: its GPU among several, and what --find found. */
static struct spp_search_options options_of(const struct spp_search_options *options,
                                            const struct spp_plan *plan) {
  struct spp_search_options own = *options;
  own.spec.gpu = plan->job.gpu;
  own.spec.cluster = plan->job.cluster;
  own.spec.calib = plan->job.calib;
  own.spec.usd_per_gpu_hour = plan->job.usd_per_gpu_hour;
  own.spec.gpus = plan->job.gpus;
  own.spec.seq_tokens = plan->job.seq_tokens;
  if (own.spec.global_batch > 0 || plan->job.global_batch != plan->job.gpus)
    own.spec.global_batch = plan->job.global_batch;
  return own;
}

static enum spp_status answer(struct spp_cli *cli, const struct spp_setup *setup,
                              const struct spp_search_options *options,
                              const struct spp_machines_result *result, struct spp_diag *diag) {
  const struct spp_search_result *search = &result->found.search;
  const struct spp_plan *first = search->count         ? &search->plans[0]
                                 : search->has_nearest ? &search->nearest
                                                       : NULL;
  struct planned planned = {.answer = {.search = search,
                                       .options = options,
                                       .find = cli->args.find >= 0 ? &result->found : NULL,
                                       .machines = setup->machine_count > 1 ? result : NULL},
                            .style = spp_setup_style(cli),
                            .args = &cli->args};
  if (first && cli->args.explain == (int)SPP_EXPLAIN_SENSITIVITY) {
    struct spp_search_options own = options_of(options, first);
    planned.answer.sensitivities = planned.sensitivities;
    planned.answer.sensitivity_count =
        spp_sensitivities(&own, first, planned.sensitivities, SPP_MAX_SENSITIVITIES);
  }
  enum spp_status status =
      spp_setup_report(cli, setup, first ? &first->job : NULL, !setup->any_framework, &planned.report, diag);
  if (status != SPP_OK) return status;
  struct spp_ledger *ledger = ledger_of(&cli->args, first);
  planned.answer.ledger = ledger;
  status = spp_answer_give(cli, &(struct spp_answer){&planned, as_text, as_json, as_csv, NULL}, diag);
  free(ledger);
  return status == SPP_OK && first ? spp_cli_trace(cli, &first->job, &first->layout, &first->prediction, diag)
                                   : status;
}

static unsigned needs_of(const struct spp_args *args) {
  switch (args->find) {
  case SPP_FIND_MAX_SEQ: return SPP_NEED_MODEL | SPP_NEED_GPUS;
  case SPP_FIND_MIN_GPUS: return SPP_NEED_MODEL | SPP_NEED_SEQ;
  default: return SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS;
  }
}

enum spp_status spp_run_plan(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_search_options options;
  struct spp_progress progress;
  struct spp_setup setup;
  enum spp_status status, answered;
  if ((status = spp_setup_keep(&cli->args, diag)) != SPP_OK) return status;
  if ((status = spp_setup_job(cli, &cli->args, needs_of(&cli->args), &setup, diag)) != SPP_OK) return status;
  struct spp_machines_result *result = calloc(1, sizeof *result);
  if (!result) return spp_diag_oom(diag);
  spp_setup_search(&cli->args, &setup, &options);
  spp_watch_begin(&progress, cli, "searching");
  spp_watch_search(&progress, &options);
  status = spp_search_machines(&options, setup.machines, setup.machine_count,
                               cli->args.find >= 0 ? cli->args.find : SPP_FIND_NOTHING, result, diag);
  spp_progress_end(&progress);
  options.watch = NULL;
  answered = status;
  if (status == SPP_OK || status == SPP_ERR_NOFIT) {
    answered = answer(cli, &setup, &options, result, diag);
    if (answered == SPP_OK && status == SPP_ERR_NOFIT) nothing_fits(&result->found.search, diag);
    if (answered == SPP_OK) answered = status;
    spp_search_free(&result->found.search);
  }
  free(result);
  return answered;
}
