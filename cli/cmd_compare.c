#include "cli/answer.h"
#include "cli/setup.h"
#include "cli/watch.h"

struct compared {
  struct spp_report report;
  struct spp_compare_result result;
  struct spp_text_style style;
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct compared *compared = what;
  (void)cli;
  spp_text_compare(&compared->report, &compared->result, &compared->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct compared *compared = what;
  spp_json_compare(&compared->report, &compared->result, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  const struct compared *compared = what;
  spp_csv_compare(&compared->result, out);
}

static void as_svg(const void *what, struct spp_str *out) {
  spp_svg_compare(&((const struct compared *)what)->result, out);
}

static const struct spp_job *any_job(const struct spp_compare_result *result) {
  for (int i = 0; i < result->count; i++)
    if (result->rows[i].legal) return &result->rows[i].plan.job;
  return NULL;
}

/* Something fits, or nothing does, or nothing is even legal. */
static enum spp_status verdict(const struct spp_compare_result *result, struct spp_diag *diag) {
  for (int i = 0; i < result->count; i++)
    if (result->rows[i].legal && result->rows[i].plan.prediction.memory.fits &&
        result->rows[i].plan.prediction.memory.host_fits)
      return SPP_OK;
  if (any_job(result))
    return spp_diag_set(diag, SPP_ERR_NOFIT, "compare", "fewer tokens, more GPUs, LoRA or offload",
                        "nothing fits under any strategy");
  return spp_diag_set(diag, SPP_ERR_USAGE, "compare", "the table names the rule of each",
                      "no strategy is legal for this job");
}

enum spp_status spp_run_compare(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_search_options options;
  struct compared compared = {.style = spp_setup_style(cli)};
  struct spp_progress progress;
  struct spp_setup setup;
  int64_t degree;
  enum spp_status status;
  if ((status = spp_setup_keep(&cli->args, diag)) != SPP_OK) return status;
  status = spp_setup_job(cli, &cli->args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, &setup, diag);
  if (status != SPP_OK) return status;
  spp_setup_search(&cli->args, &setup, &options);
  degree = cli->args.request.sp > 0 ? cli->args.request.sp : 0; /* --sp is the degree that is compared */
  spp_watch_begin(&progress, cli, "comparing");
  spp_watch_search(&progress, &options);
  status = spp_compare(&options, degree, &compared.result, diag);
  spp_progress_end(&progress);
  if (status != SPP_OK) return status;
  status =
      spp_setup_report(cli, &setup, any_job(&compared.result), !setup.any_framework, &compared.report, diag);
  if (status == SPP_OK)
    status = spp_answer_give(cli, &(struct spp_answer){&compared, as_text, as_json, as_csv, as_svg}, diag);
  if (status == SPP_OK) status = verdict(&compared.result, diag);
  spp_compare_free(&compared.result);
  return status;
}
