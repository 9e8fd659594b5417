/* The quick suite of validate, case by case, for the interactive planner. */
#ifndef SPP_CLI_TUI_TRIAL_H
#define SPP_CLI_TUI_TRIAL_H

#include "tui/host.h"

/* Trains the quick suite's small models over ranks in this process; see struct spp_tui_host. */
void spp_tui_validate(const char *config_dir, spp_trial_tell *tell, void *to, atomic_bool *stop);

#endif
