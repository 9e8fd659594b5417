#include "tui/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SEARCH_NICE = 10 };

struct spp_worker {
  const struct spp_tui_host *host;
  int wake_fd;
  pthread_t thread;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t asked;
  bool waiting, ending;
  int64_t request;
  bool compare;
  struct spp_words words;
  struct spp_tui_outcome *ready;
  atomic_bool stop;
};

/* A cancelled answer is no answer: nobody waits for it. */
static void publish(struct spp_worker *worker, struct spp_tui_outcome *outcome, int64_t request) {
  struct spp_tui_outcome *old = outcome;
  pthread_mutex_lock(&worker->lock);
  if (outcome && !atomic_load(&worker->stop)) {
    outcome->request = request;
    old = worker->ready;
    worker->ready = outcome;
  }
  pthread_mutex_unlock(&worker->lock);
  if (old) worker->host->release(worker->host->self, old);
  if (old != outcome && write(worker->wake_fd, "", 1) < 0) return; /* full: the reader wakes up anyway */
}

static void *work(void *arg) {
  struct spp_worker *worker = arg;
  struct spp_words words;
  /* Linux: of this thread and those it starts; the one that draws must not wait for a search */
  if (setpriority(PRIO_PROCESS, 0, SEARCH_NICE) != 0) errno = 0;
  for (;;) {
    pthread_mutex_lock(&worker->lock);
    while (!worker->waiting && !worker->ending)
      pthread_cond_wait(&worker->asked, &worker->lock);
    bool ending = worker->ending, compare = worker->compare;
    int64_t request = worker->request;
    words = worker->words;
    worker->waiting = false;
    if (!ending) atomic_store(&worker->stop, false);
    pthread_mutex_unlock(&worker->lock);
    if (ending) return NULL;
    publish(worker, worker->host->plan(worker->host->self, &words, compare, &worker->stop), request);
  }
}

enum spp_status spp_worker_start(const struct spp_tui_host *host, int wake_fd, struct spp_worker **out,
                                 struct spp_diag *diag) {
  struct spp_worker *worker = calloc(1, sizeof *worker);
  sigset_t all, before;
  if (!worker) return spp_diag_oom(diag);
  worker->host = host;
  worker->wake_fd = wake_fd;
  pthread_mutex_init(&worker->lock, NULL);
  pthread_cond_init(&worker->asked, NULL);
  atomic_init(&worker->stop, false);
  sigfillset(&all); /* signals are for the thread that owns the terminal */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&worker->thread, NULL, work, worker);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    free(worker);
    return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, "raise the limit of threads",
                        "no thread can be started");
  }
  *out = worker;
  return SPP_OK;
}

void spp_worker_ask(struct spp_worker *worker, int64_t request, const struct spp_words *words, bool compare) {
  pthread_mutex_lock(&worker->lock);
  worker->request = request;
  worker->words = *words;
  worker->compare = compare;
  worker->waiting = true;
  atomic_store(&worker->stop, true);
  pthread_cond_signal(&worker->asked);
  pthread_mutex_unlock(&worker->lock);
}

void spp_worker_cancel(struct spp_worker *worker) {
  pthread_mutex_lock(&worker->lock);
  worker->waiting = false;
  atomic_store(&worker->stop, true);
  pthread_mutex_unlock(&worker->lock);
}

struct spp_tui_outcome *spp_worker_take(struct spp_worker *worker) {
  pthread_mutex_lock(&worker->lock);
  struct spp_tui_outcome *outcome = worker->ready;
  worker->ready = NULL;
  pthread_mutex_unlock(&worker->lock);
  return outcome;
}

void spp_worker_end(struct spp_worker *worker) {
  pthread_mutex_lock(&worker->lock);
  worker->ending = true;
  atomic_store(&worker->stop, true);
  pthread_cond_signal(&worker->asked);
  pthread_mutex_unlock(&worker->lock);
  pthread_join(worker->thread, NULL);
  if (worker->ready) worker->host->release(worker->host->self, worker->ready);
  pthread_cond_destroy(&worker->asked);
  pthread_mutex_destroy(&worker->lock);
  free(worker);
}
