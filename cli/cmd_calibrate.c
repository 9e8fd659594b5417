/* calibrate: what this machine does, as a profile that --cluster reads. */
#include <string.h>

#include "base/num.h"
#include "base/progress.h"
#include "cli/answer.h"
#include "cli/mpirun.h"
#include "cli/profile_report.h"
#include "cli/setup.h"
#include "exec/host.h"
#include "kernels/table.h"

static const double timeout_s = 120, default_spread = 0.15;

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  if (cli->args.quiet <= 0) spp_text_profile(what, out);
}
static void as_json(const void *what, struct spp_str *out) {
  spp_json_profile(what, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  spp_csv_profile(what, out);
}

static void draw(void *context, int done, int total) {
  spp_progress_step(context, done, total, NULL);
}

/* Two ranks at least: messages need someone to go to. */
static int default_ranks(void) {
  return (int)spp_min64(8, spp_max64(2, spp_host_processors()));
}

/* The profile goes to --output whole; what is printed is the text. */
static enum spp_status keep(struct spp_cli *cli, struct spp_profile_answer *a, struct spp_diag *diag) {
  struct spp_str json;
  if (!cli->args.output || strcmp(cli->args.output, "-") == 0) return SPP_OK;
  a->file = cli->args.output;
  spp_str_init(&json);
  spp_json_profile(a, &json);
  enum spp_status status =
      json.failed ? spp_diag_oom(diag) : spp_answer_write_file(cli->args.output, &json, diag);
  spp_str_free(&json);
  if (status != SPP_OK) return spp_answer_lost(cli, status, diag);
  if (cli->args.json <= 0 && cli->args.csv <= 0) cli->args.output = NULL;
  return SPP_OK;
}

static enum spp_status report(struct spp_cli *cli, struct spp_profile_answer *a, struct spp_diag *diag) {
  struct spp_setup setup = {0};
  enum spp_status status = spp_setup_report(cli, &setup, NULL, false, &a->report, diag);
  a->style = spp_setup_style(cli);
  spp_kernels_describe(spp_kernels_best(), a->kernels, sizeof a->kernels);
  if (status == SPP_OK) status = keep(cli, a, diag);
  if (status != SPP_OK) return status;
  return spp_answer_give(cli, &(struct spp_answer){a, as_text, as_json, as_csv, NULL}, diag);
}

/* Every process of a job measures, one speaks. */
static enum spp_status measure(struct spp_cli *cli, const struct spp_backend *backend,
                               struct spp_profile *profile, struct spp_diag *diag) {
  struct spp_progress progress;
  struct spp_calibrate_options options = {.timeout_s = timeout_s,
                                          .max_spread = cli->args.max_spread >= 0 ? cli->args.max_spread
                                                                                  : default_spread,
                                          .progress = draw,
                                          .progress_context = &progress};
  int job_ranks = 0;
  enum spp_status status = backend->start(&job_ranks, diag);
  if (status == SPP_OK && job_ranks > 0) status = spp_mpirun_check(job_ranks, diag);
  if (status != SPP_OK) return status;
  options.ranks = cli->args.ranks > 0 ? (int)cli->args.ranks : job_ranks > 0 ? job_ranks : default_ranks();
  spp_progress_begin(&progress, &cli->term, cli->args.quiet > 0, "measuring");
  status = spp_calibrate(backend, &options, profile, diag);
  spp_progress_end(&progress);
  return status;
}

enum spp_status spp_run_calibrate(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_profile_answer *a = spp_arena_alloc(&cli->arena, sizeof *a);
  struct spp_profile *profile = spp_arena_alloc(&cli->arena, sizeof *profile);
  const struct spp_backend *backend;
  int count;
  if (!a || !profile) return spp_diag_oom(diag);
  *a = (struct spp_profile_answer){.profile = profile};
  a->backend = spp_backends_all(&count)[cli->args.backend == SPP_UNSET ? 0 : cli->args.backend]->name;
  enum spp_status status = spp_backend_find(a->backend, &backend, diag);
  if (status != SPP_OK) return status;
  if (backend->device)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--backend", "use self or mpi",
                        "calibrate measures processors, %s sends between devices", backend->name);
  if (backend->starts_job && !spp_mpirun_inside())
    return spp_mpirun_start(cli, cli->args.ranks > 0 ? cli->args.ranks : default_ranks(), backend, diag);
  status = measure(cli, backend, profile, diag);
  bool leads = backend->leads();
  if (status == SPP_OK || !leads) backend->stop(status);
  if (leads) return status == SPP_OK ? report(cli, a, diag) : status;
  cli->args.output = NULL;
  *diag = (struct spp_diag){.status = SPP_OK};
  return SPP_OK;
}
