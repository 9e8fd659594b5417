/* The interactive planner's view of the command line. */
#ifndef SPP_CLI_TUI_HOST_H
#define SPP_CLI_TUI_HOST_H

#include "cli/options.h"
#include "tui/host.h"

/* The real host; close it when no answer of its is left. SPP_ERR_INPUT when config_dir cannot be listed. */
enum spp_status spp_tui_host_open(const char *config_dir, struct spp_tui_host *host, struct spp_diag *diag);
void spp_tui_host_close(struct spp_tui_host *host);

/* The job to begin with: the options that were given, and an example for what a plan needs; returns a
 * greeting when the example was needed, else NULL. */
const char *spp_tui_first_words(const struct spp_args *args, struct spp_words *words);

#endif
