#include "cli/trace.h"

#include <string.h>

#include "cli/answer.h"
#include "report/trace.h"

enum spp_status spp_cli_trace(struct spp_cli *cli, const struct spp_job *job, const struct spp_layout *layout,
                              const struct spp_prediction *prediction, struct spp_diag *diag) {
  struct spp_timeline timeline;
  struct spp_str trace;
  enum spp_status status;
  if (!cli->args.trace) return SPP_OK;
  status = spp_timeline_build(job, layout, prediction, SPP_TRACE_SLICES, &timeline, diag);
  if (status != SPP_OK) return status;
  spp_str_init(&trace);
  spp_trace_write(job, layout, &timeline, &trace);
  spp_timeline_free(&timeline);
  if (trace.failed) {
    status = spp_diag_oom(diag);
  } else if (strcmp(cli->args.trace, "-") == 0) {
    spp_str_clear(&cli->out);
    spp_str_addn(&cli->out, trace.data, trace.len);
  } else {
    status = spp_answer_write_file(cli->args.trace, &trace, diag);
  }
  spp_str_free(&trace);
  return status;
}
