#include "cli/answer.h"
#include "cli/setup.h"

struct listed_degrees {
  struct spp_report report;
  struct spp_job job;
  struct spp_degrees degrees;
  struct spp_text_style style;
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct listed_degrees *listed = what;
  (void)cli;
  spp_text_degrees(&listed->report, &listed->job, &listed->degrees, &listed->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct listed_degrees *listed = what;
  spp_json_degrees(&listed->report, &listed->job, &listed->degrees, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  const struct listed_degrees *listed = what;
  spp_csv_degrees(&listed->degrees, out);
}

enum spp_status spp_run_degrees(struct spp_cli *cli, struct spp_diag *diag) {
  struct listed_degrees *listed = spp_arena_alloc(&cli->arena, sizeof *listed);
  const struct spp_framework *framework;
  struct spp_setup setup;
  enum spp_status status;
  if (!listed) return spp_diag_oom(diag);
  listed->style = spp_setup_style(cli);
  if ((status = spp_setup_job(cli, &cli->args, SPP_NEED_MODEL, &setup, diag)) != SPP_OK) return status;
  if ((status = spp_setup_one_framework(&setup, &framework, diag)) != SPP_OK) return status;
  if ((status = spp_job_resolve(&cli->args.spec, framework, &listed->job, diag)) != SPP_OK) return status;
  spp_degrees_list(&listed->job, cli->args.request.sp_kind, &listed->degrees);
  if ((status = spp_setup_report(cli, &setup, &listed->job, true, &listed->report, diag)) != SPP_OK)
    return status;
  return spp_answer_give(cli, &(struct spp_answer){listed, as_text, as_json, as_csv, NULL}, diag);
}
