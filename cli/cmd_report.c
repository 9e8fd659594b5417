/* report: a plan as one self-contained page. */
#include <stdlib.h>

#include "cli/command.h"
#include "cli/setup.h"
#include "cli/watch.h"
#include "report/timeline.h"

enum { SLICES = 3000 }; /* of the picture of a step, drawn layer by layer */

enum spp_status spp_cli_page(const struct spp_report *report, const struct spp_search_result *search,
                             const struct spp_plan *plan, struct spp_str *out, struct spp_diag *diag) {
  struct spp_timeline timeline;
  struct spp_prediction prediction;
  struct spp_ledger *ledger = calloc(1, sizeof *ledger);
  if (!ledger) return spp_diag_oom(diag);
  spp_predict(&plan->job, &plan->layout, ledger, &prediction);
  enum spp_status drawn =
      spp_timeline_build(&plan->job, &plan->layout, &plan->prediction, SLICES, &timeline, NULL);
  if (drawn == SPP_OK || drawn == SPP_ERR_USAGE) { /* too many micro-batches: no picture of the step */
    const struct spp_html_report page = {report, search, plan, ledger, drawn == SPP_OK ? &timeline : NULL};
    spp_html_plan(&page, out);
  }
  if (drawn == SPP_OK) spp_timeline_free(&timeline);
  free(ledger);
  return out->failed || drawn == SPP_ERR_INTERNAL ? spp_diag_oom(diag) : SPP_OK;
}

enum spp_status spp_run_report(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_search_options options;
  struct spp_search_result search;
  struct spp_progress progress;
  struct spp_setup setup;
  struct spp_report report;
  enum spp_status status, written = SPP_OK;
  if ((status = spp_setup_keep(&cli->args, diag)) != SPP_OK) return status;
  status = spp_setup_job(cli, &cli->args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, &setup, diag);
  if (status != SPP_OK) return status;
  spp_setup_search(&cli->args, &setup, &options);
  spp_watch_begin(&progress, cli, "searching");
  spp_watch_search(&progress, &options);
  status = spp_search(&options, &search, diag);
  spp_progress_end(&progress);
  if (status != SPP_OK && status != SPP_ERR_NOFIT) return status;
  const struct spp_plan *plan = search.count ? &search.plans[0] : search.has_nearest ? &search.nearest : NULL;
  if (plan) {
    written = spp_setup_report(cli, &setup, &plan->job, !setup.any_framework, &report, diag);
    if (written == SPP_OK) written = spp_cli_page(&report, &search, plan, &cli->out, diag);
  }
  if (written == SPP_OK && status == SPP_ERR_NOFIT)
    spp_diag_set(diag, status, "search",
                 "fewer tokens, more GPUs, LoRA or offload; the page shows the nearest layout",
                 "nothing fits");
  spp_search_free(&search);
  return written != SPP_OK ? written : status;
}
