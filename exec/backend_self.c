/* Ranks as threads of this process. A message is copied once, from the sender's buffer to the receiver's, by
 * whichever of the two comes second; nothing is buffered, so a program that would deadlock on a real network
 * without buffers deadlocks here too, and is told so at once. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/backend.h"
#include "kernels/processor.h"

enum transfer_state { POSTED, COPYING, DONE };

/* Transfers that no one has met yet, oldest first. */
struct queue {
  struct spp_transfer *first, *last;
};

struct self_rank {
  pthread_cond_t wake;
  struct queue sends; /* to this rank */
  struct queue receives;
  const struct spp_transfer *waits_for; /* NULL: not blocked on a message */
  bool in_barrier;
  struct spp_endpoint end;
  pthread_t thread;
  struct self_world *world;
};

struct self_world {
  pthread_mutex_t lock;
  int ranks, alive, arrived; /* arrived: ranks in the barrier */
  int64_t barrier_round;
  bool failed;
  struct spp_diag why; /* first failure */
  spp_rank_main *rank_main;
  void *context;
  struct self_rank *rank;
};

static void wake_all(struct self_world *w) {
  for (int i = 0; i < w->ranks; i++)
    pthread_cond_signal(&w->rank[i].wake);
}

/* Under the lock. The first failure is the one that is told. */
static void fail(struct self_world *w, const struct spp_diag *why) {
  if (w->failed) return;
  w->failed = true;
  w->why = *why;
  wake_all(w);
}

static enum spp_status failure(const struct self_world *w, struct spp_diag *diag) {
  if (diag) *diag = w->why;
  return w->why.status;
}

static void append(struct queue *q, struct spp_transfer *t) {
  t->next = NULL;
  if (q->last)
    q->last->next = t;
  else
    q->first = t;
  q->last = t;
}

/* Takes the oldest transfer with the same ends and tag, or NULL. */
static struct spp_transfer *take(struct queue *q, const struct spp_transfer *like) {
  struct spp_transfer *before = NULL;
  for (struct spp_transfer *t = q->first; t; before = t, t = t->next) {
    if (t->from != like->from || t->to != like->to || t->tag != like->tag) continue;
    if (before)
      before->next = t->next;
    else
      q->first = t->next;
    if (q->last == t) q->last = before;
    return t;
  }
  return NULL;
}

static bool blocked(const struct self_rank *r) {
  return r->in_barrier || (r->waits_for && r->waits_for->state == POSTED);
}

/* Under the lock, when a rank begins to wait or ends: does anyone still move? */
static void check_deadlock(struct self_world *w) {
  struct spp_diag diag;
  int stuck = 0, one = 0;
  for (int i = 0; i < w->ranks; i++)
    if (blocked(&w->rank[i])) {
      stuck++;
      one = i;
    }
  if (w->failed || stuck == 0 || stuck < w->alive) return;
  const struct spp_transfer *t = w->rank[one].waits_for;
  if (t)
    spp_diag_set(&diag, SPP_ERR_INTERNAL, NULL, NULL,
                 "deadlock: every rank waits; rank %d for a message from rank %d to rank %d (tag %d)", one,
                 t->from, t->to, t->tag);
  else
    spp_diag_set(&diag, SPP_ERR_INTERNAL, NULL, NULL, "deadlock: rank %d waits in a barrier", one);
  fail(w, &diag);
}

/* Under the lock, which is released during the copy: both ends are held by the state COPYING. */
static void deliver(struct self_world *w, struct spp_transfer *send, struct spp_transfer *receive) {
  struct spp_diag diag;
  if (send->bytes != receive->bytes) {
    spp_diag_set(&diag, SPP_ERR_INTERNAL, NULL, NULL,
                 "rank %d sends %lld bytes to rank %d, which expects %lld (tag %d)", send->from,
                 (long long)send->bytes, send->to, (long long)receive->bytes, send->tag);
    fail(w, &diag);
    return;
  }
  send->state = receive->state = COPYING;
  pthread_mutex_unlock(&w->lock);
  if (send->bytes > 0) memcpy(receive->data, send->data, (size_t)send->bytes);
  pthread_mutex_lock(&w->lock);
  send->state = receive->state = DONE;
  pthread_cond_signal(&w->rank[send->from].wake);
  pthread_cond_signal(&w->rank[send->to].wake);
}

static enum spp_status post(struct self_world *w, struct spp_transfer *t, struct queue *partners,
                            struct queue *own, struct spp_diag *diag) {
  pthread_mutex_lock(&w->lock);
  enum spp_status status = SPP_OK;
  if (w->failed) {
    status = failure(w, diag);
  } else {
    struct spp_transfer *partner = take(partners, t);
    bool sends = own == &w->rank[t->to].sends;
    if (!partner)
      append(own, t);
    else
      deliver(w, sends ? t : partner, sends ? partner : t);
    if (w->failed) status = failure(w, diag);
  }
  pthread_mutex_unlock(&w->lock);
  return status;
}

static enum spp_status self_isend(struct spp_endpoint *end, int to, int tag, const void *data, int64_t bytes,
                                  struct spp_transfer *t, struct spp_diag *diag) {
  struct self_world *w = end->world;
  void *readable; /* the copy only reads it */
  memcpy(&readable, &data, sizeof readable);
  *t = (struct spp_transfer){
      .from = end->rank, .to = to, .tag = tag, .state = POSTED, .data = readable, .bytes = bytes};
  return post(w, t, &w->rank[to].receives, &w->rank[to].sends, diag);
}

static enum spp_status self_irecv(struct spp_endpoint *end, int from, int tag, void *data, int64_t bytes,
                                  struct spp_transfer *t, struct spp_diag *diag) {
  struct self_world *w = end->world;
  *t = (struct spp_transfer){
      .from = from, .to = end->rank, .tag = tag, .state = POSTED, .data = data, .bytes = bytes};
  return post(w, t, &w->rank[end->rank].sends, &w->rank[end->rank].receives, diag);
}

static struct timespec deadline_of(const struct spp_endpoint *end) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t ns = t.tv_nsec + (int64_t)(end->timeout_s * 1e9);
  t.tv_sec += (time_t)(ns / 1000000000);
  t.tv_nsec = (long)(ns % 1000000000);
  return t;
}

/* Sleeps until woken; at the deadline everything fails. */
static void nap(struct spp_endpoint *end, const struct timespec *deadline, const char *what) {
  struct self_world *w = end->world;
  struct spp_diag diag;
  if (pthread_cond_timedwait(&w->rank[end->rank].wake, &w->lock, deadline) != ETIMEDOUT) return;
  spp_diag_set(&diag, SPP_ERR_INTERNAL, NULL, NULL, "rank %d waited %g s in vain for %s", end->rank,
               end->timeout_s, what);
  fail(w, &diag);
}

static enum spp_status self_wait(struct spp_endpoint *end, struct spp_transfer *t, struct spp_diag *diag) {
  struct self_world *w = end->world;
  struct self_rank *me = &w->rank[end->rank];
  enum spp_status status = SPP_OK;
  pthread_mutex_lock(&w->lock);
  if (t->state == POSTED && !w->failed) {
    struct timespec deadline = deadline_of(end);
    me->waits_for = t;
    check_deadlock(w);
    while (t->state == POSTED && !w->failed)
      nap(end, &deadline, t->to == end->rank ? "a message" : "a receiver");
    me->waits_for = NULL;
  }
  while (t->state == COPYING)
    pthread_cond_wait(&me->wake, &w->lock);
  if (t->state != DONE) status = failure(w, diag);
  pthread_mutex_unlock(&w->lock);
  return status;
}

static enum spp_status self_barrier(struct spp_endpoint *end, struct spp_diag *diag) {
  struct self_world *w = end->world;
  struct self_rank *me = &w->rank[end->rank];
  pthread_mutex_lock(&w->lock);
  int64_t round = w->barrier_round;
  if (++w->arrived == w->ranks) {
    w->arrived = 0;
    w->barrier_round++;
    for (int i = 0; i < w->ranks; i++)
      w->rank[i].in_barrier = false;
    wake_all(w);
  } else {
    struct timespec deadline = deadline_of(end);
    me->in_barrier = true;
    check_deadlock(w);
    while (w->barrier_round == round && !w->failed)
      nap(end, &deadline, "the others in a barrier");
    me->in_barrier = false;
  }
  enum spp_status status = w->failed ? failure(w, diag) : SPP_OK;
  pthread_mutex_unlock(&w->lock);
  return status;
}

static void self_abort(struct spp_endpoint *end, const struct spp_diag *why) {
  struct self_world *w = end->world;
  pthread_mutex_lock(&w->lock);
  fail(w, why);
  pthread_mutex_unlock(&w->lock);
}

static enum spp_status self_check(struct spp_endpoint *end, struct spp_diag *diag) {
  struct self_world *w = end->world;
  pthread_mutex_lock(&w->lock);
  enum spp_status status = w->failed ? failure(w, diag) : SPP_OK;
  pthread_mutex_unlock(&w->lock);
  return status;
}

static const struct spp_endpoint_ops ops = {.isend = self_isend,
                                            .irecv = self_irecv,
                                            .wait = self_wait,
                                            .barrier = self_barrier,
                                            .abort = self_abort,
                                            .check = self_check,
                                            .clock = spp_monotonic_s};

static void *thread_main(void *argument) {
  struct self_rank *me = argument;
  struct self_world *w = me->world;
  struct spp_diag diag = {.status = SPP_OK};
  enum spp_status status = w->rank_main(&me->end, w->context, &diag);
  pthread_mutex_lock(&w->lock);
  w->alive--;
  if (status != SPP_OK) {
    diag.status = status;
    fail(w, &diag);
  }
  check_deadlock(w);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static enum spp_status start_threads(struct self_world *w, int *started, struct spp_diag *diag) {
  for (; *started < w->ranks; ++*started) {
    struct self_rank *r = &w->rank[*started];
    if (pthread_create(&r->thread, NULL, thread_main, r) == 0) continue;
    spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, "use fewer ranks", "cannot start thread %d", *started);
    pthread_mutex_lock(&w->lock);
    w->alive = *started;
    fail(w, diag);
    pthread_mutex_unlock(&w->lock);
    return SPP_ERR_INTERNAL;
  }
  return SPP_OK;
}

static void world_open(struct self_world *w, double timeout_s) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init(&w->lock, NULL);
  for (int i = 0; i < w->ranks; i++) {
    struct self_rank *r = &w->rank[i];
    pthread_cond_init(&r->wake, &attributes);
    r->world = w;
    r->end = (struct spp_endpoint){.ops = &ops,
                                   .rank = i,
                                   .size = w->ranks,
                                   .timeout_s = timeout_s,
                                   .world = w,
                                   .memory = spp_processor_runner(spp_kernels_best()),
                                   .node_rank = i};
  }
  pthread_condattr_destroy(&attributes);
}

static void world_close(struct self_world *w) {
  for (int i = 0; i < w->ranks; i++)
    pthread_cond_destroy(&w->rank[i].wake);
  pthread_mutex_destroy(&w->lock);
  free(w->rank);
}

static enum spp_status self_run(int ranks, double timeout_s, spp_rank_main *rank_main, void *context,
                                struct spp_diag *diag) {
  struct self_world w = {.ranks = ranks, .alive = ranks, .rank_main = rank_main, .context = context};
  if (ranks < 1 || ranks > SPP_EXEC_MAX_RANKS)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, NULL, "%d ranks: 1 to %d are possible", ranks,
                        SPP_EXEC_MAX_RANKS);
  w.rank = calloc((size_t)ranks, sizeof *w.rank);
  if (!w.rank) return spp_diag_oom(diag);
  world_open(&w, timeout_s);
  int started = 0;
  enum spp_status status = start_threads(&w, &started, diag);
  for (int i = 0; i < started; i++)
    pthread_join(w.rank[i].thread, NULL);
  if (status == SPP_OK && w.failed) status = failure(&w, diag);
  world_close(&w);
  return status;
}

static enum spp_status self_start(int *job_ranks, struct spp_diag *diag) {
  (void)diag;
  *job_ranks = 0;
  return SPP_OK;
}
static bool self_leads(void) {
  return true;
}
static void self_stop(enum spp_status status) {
  (void)status;
}

const struct spp_backend spp_backend_self = {.name = "self",
                                             .description = "ranks are threads of this process",
                                             .start = self_start,
                                             .run = self_run,
                                             .leads = self_leads,
                                             .stop = self_stop};
