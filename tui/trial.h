/* The thread that validates. */
#ifndef SPP_TUI_TRIAL_H
#define SPP_TUI_TRIAL_H

#include "tui/host.h"

struct spp_trial;

/* `wake_fd` gets a byte whenever there is news. Nothing runs yet. */
enum spp_status spp_trial_create(const struct spp_tui_host *host, int wake_fd, struct spp_trial **trial,
                                 struct spp_diag *diag);
/* Does nothing while one runs. */
enum spp_status spp_trial_start(struct spp_trial *trial, struct spp_diag *diag);
void spp_trial_stop(struct spp_trial *trial);
/* The latest news into *news; false when there is none. */
bool spp_trial_take(struct spp_trial *trial, struct spp_tui_trial *news);
/* Stops, waits for the case under way, frees everything. */
void spp_trial_free(struct spp_trial *trial);

#endif
