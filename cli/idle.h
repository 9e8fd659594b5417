/* Options that were given and change nothing. */
#ifndef SPP_CLI_IDLE_H
#define SPP_CLI_IDLE_H

#include "cli/command.h"
#include "planner/advise.h"

/* One line for each option that somebody wrote on the command line and that this job has no use for: a rank
 * without adapters, a KV cache's number format in training. Defaults from the environment or a file are for
 * many jobs and say nothing. With a `layout` also those that it has no use for; NULL when layouts are still
 * to be searched. Returns the count. */
int spp_idle_options(const struct spp_cli *cli, const struct spp_job *job, const struct spp_layout *layout,
                     struct spp_advice *advice, int max);

#endif
