/* --trace FILE: the step of the answer as a trace, beside the answer. */
#ifndef SPP_CLI_TRACE_H
#define SPP_CLI_TRACE_H

#include "cli/command.h"

/* Nothing without --trace. "-" is standard output, in place of the answer. */
enum spp_status spp_cli_trace(struct spp_cli *cli, const struct spp_job *job, const struct spp_layout *layout,
                              const struct spp_prediction *prediction, struct spp_diag *diag);

#endif
