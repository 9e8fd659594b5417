/* The bar of a command that may take long. */
#ifndef SPP_CLI_WATCH_H
#define SPP_CLI_WATCH_H

#include "base/progress.h"
#include "cli/command.h"

/* A bar on the standard error, if that is a terminal, once the command has taken half a second. `what` is
 * borrowed. */
void spp_watch_begin(struct spp_progress *progress, const struct spp_cli *cli, const char *what);
/* The search tells the bar. */
void spp_watch_search(struct spp_progress *progress, struct spp_search_options *options);

#endif
