/* From parsed options to what model and planner take: names looked up, files read, frameworks loaded. */
#ifndef SPP_CLI_SETUP_H
#define SPP_CLI_SETUP_H

#include "cli/command.h"
#include "report/report.h"

enum spp_need { SPP_NEED_MODEL = 1, SPP_NEED_SEQ = 2, SPP_NEED_GPUS = 4 };

struct spp_setup {
  const struct spp_framework *frameworks[SPP_MAX_FRAMEWORKS];
  int framework_count;
  bool any_framework;                            /* --framework any, given or by default */
  const char *gpu_note;                          /* why this GPU, when nobody named one */
  struct spp_machine machines[SPP_MAX_MACHINES]; /* one for each type of --gpu; the first is the spec's */
  const char *gpu_names[SPP_MAX_MACHINES];
  int machine_count;
};
/* Fills args->spec (arch, gpu, cluster, calib, documents, images) and the frameworks. `needs` are the options
 * that must be there (SPP_ERR_USAGE when not). Everything lives in cli->arena. */
enum spp_status spp_setup_job(struct spp_cli *cli, struct spp_args *args, unsigned needs,
                              struct spp_setup *setup, struct spp_diag *diag);
/* Of these, the documents: --doc-lengths read and packed into sequences of --seq tokens. */
enum spp_status spp_setup_documents(struct spp_cli *cli, struct spp_args *args, struct spp_diag *diag);

/* The one framework of commands that take one; SPP_ERR_USAGE for "any". */
enum spp_status spp_setup_one_framework(const struct spp_setup *setup, const struct spp_framework **framework,
                                        struct spp_diag *diag);
/* Search options for the args as set up; --keep is applied before (spp_setup_keep). */
void spp_setup_search(const struct spp_args *args, const struct spp_setup *setup,
                      struct spp_search_options *options);
/* Stores each FIELD=VALUE of --keep as if it were the option. */
enum spp_status spp_setup_keep(struct spp_args *args, struct spp_diag *diag);

struct spp_text_style spp_setup_style(const struct spp_cli *cli);

/* The "inputs" of the answer: every option that belongs to the command, as parsed. `job` (may be NULL) gives
 * the values nobody set; those that a framework chooses only when `one_framework`. */
enum spp_status spp_setup_report(struct spp_cli *cli, const struct spp_setup *setup,
                                 const struct spp_job *job, bool one_framework, struct spp_report *report,
                                 struct spp_diag *diag);

/* Options that the job, or the job under `layout`, has no use for are said in the report's warnings. */
enum spp_status spp_setup_idle(struct spp_cli *cli, const struct spp_job *job,
                               const struct spp_layout *layout, struct spp_report *report,
                               struct spp_diag *diag);

/* One plan of a search as a page of HTML. */
enum spp_status spp_cli_page(const struct spp_report *report, const struct spp_search_result *search,
                             const struct spp_plan *plan, struct spp_str *out, struct spp_diag *diag);

#endif
