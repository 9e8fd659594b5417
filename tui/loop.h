/* The interactive planner. */
#ifndef SPP_TUI_LOOP_H
#define SPP_TUI_LOOP_H

#include "tui/terminal.h"

/* Runs until the user quits (SPP_OK) or a signal ends it (SPP_INTERRUPTED). `words`: the job to begin with;
 * `greeting`: the first message, or NULL. */
enum spp_status spp_tui_run(const struct spp_tui_host *host, const struct spp_terminal_options *options,
                            const struct spp_words *words, const char *greeting, struct spp_diag *diag);

#endif
