/* The thread that answers questions. One question waits at most: a newer one takes its place and stops the
 * one being answered. */
#ifndef SPP_TUI_WORKER_H
#define SPP_TUI_WORKER_H

#include "tui/host.h"

struct spp_worker;

/* `wake_fd` gets a byte whenever an answer is ready. */
enum spp_status spp_worker_start(const struct spp_tui_host *host, int wake_fd, struct spp_worker **worker,
                                 struct spp_diag *diag);
void spp_worker_ask(struct spp_worker *worker, int64_t request, const struct spp_words *words, bool compare);
void spp_worker_cancel(struct spp_worker *worker);
/* The answer that is ready, now the caller's; NULL when there is none. */
struct spp_tui_outcome *spp_worker_take(struct spp_worker *worker);
/* Stops what runs, waits for the thread, frees everything. */
void spp_worker_end(struct spp_worker *worker);

#endif
