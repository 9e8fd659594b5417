#include "tui/trial.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct spp_trial {
  const struct spp_tui_host *host;
  int wake_fd;
  atomic_bool stop;
  bool started; /* the thread has to be joined */
  pthread_t thread;
  pthread_mutex_t lock; /* of what follows */
  bool fresh;
  struct spp_tui_trial news;
};

static void tell(void *to, const struct spp_tui_trial *news) {
  struct spp_trial *trial = to;
  pthread_mutex_lock(&trial->lock);
  trial->news = *news;
  trial->fresh = true;
  pthread_mutex_unlock(&trial->lock);
  if (write(trial->wake_fd, "", 1) < 0) return; /* full: the reader wakes up anyway */
}

static void *work(void *arg) {
  struct spp_trial *trial = arg;
  trial->host->trial(trial->host->self, tell, trial, &trial->stop);
  return NULL;
}

enum spp_status spp_trial_create(const struct spp_tui_host *host, int wake_fd, struct spp_trial **out,
                                 struct spp_diag *diag) {
  struct spp_trial *trial = calloc(1, sizeof *trial);
  if (!trial) return spp_diag_oom(diag);
  trial->host = host;
  trial->wake_fd = wake_fd;
  pthread_mutex_init(&trial->lock, NULL);
  atomic_init(&trial->stop, false);
  *out = trial;
  return SPP_OK;
}

enum spp_status spp_trial_start(struct spp_trial *trial, struct spp_diag *diag) {
  sigset_t all, before;
  pthread_mutex_lock(&trial->lock);
  bool runs = trial->started && !trial->news.finished;
  pthread_mutex_unlock(&trial->lock);
  if (runs) return SPP_OK;
  if (trial->started) pthread_join(trial->thread, NULL);
  atomic_store(&trial->stop, false);
  trial->news.finished = false;
  sigfillset(&all); /* signals are for the thread that owns the terminal */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  trial->started = pthread_create(&trial->thread, NULL, work, trial) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return trial->started ? SPP_OK
                        : spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, "raise the limit of threads",
                                       "no thread can be started");
}

void spp_trial_stop(struct spp_trial *trial) {
  atomic_store(&trial->stop, true);
}

bool spp_trial_take(struct spp_trial *trial, struct spp_tui_trial *news) {
  pthread_mutex_lock(&trial->lock);
  bool fresh = trial->fresh;
  if (fresh) *news = trial->news;
  trial->fresh = false;
  pthread_mutex_unlock(&trial->lock);
  return fresh;
}

void spp_trial_free(struct spp_trial *trial) {
  if (!trial) return;
  spp_trial_stop(trial);
  if (trial->started) pthread_join(trial->thread, NULL);
  pthread_mutex_destroy(&trial->lock);
  free(trial);
}
