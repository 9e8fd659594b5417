/* Ranks as processes of an MPI job with a GPU each, whose tensors go from GPU to GPU by NCCL; what is no
 * tensor, and the word that a rank has failed, goes by MPI. Every group of messages is waited for here, so
 * that a rank that is gone is found: by MPI, by NCCL's own errors, or by time. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "exec/backend.h"
#include "exec/backend_nccl.h"
#include "exec/grouped.h"
#include "exec/try.h"

enum { ID_TAG = 20002, CHECKS_EVERY = 64 };

struct link {
  const struct spp_nccl *nccl;
  struct spp_endpoint *carrier;
  struct spp_runner memory;
  ncclComm_t comm;
  double timeout_s;
};

static enum spp_status failed(const struct link *l, ncclResult_t result, const char *call,
                              struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INTERNAL, call, NULL, "NCCL failed: %s", l->nccl->words(result));
}

/* A communicator that does not block is asked until it has an answer. */
static enum spp_status settle(const struct link *l, ncclResult_t result, const char *call,
                              struct spp_diag *diag) {
  double deadline = spp_monotonic_s() + l->timeout_s;
  while (result == ncclInProgress || result == ncclSuccess) {
    ncclResult_t asked = l->nccl->get_async_error(l->comm, &result);
    if (asked != ncclSuccess) return failed(l, asked, "ncclCommGetAsyncError", diag);
    if (result == ncclSuccess) return SPP_OK;
    if (result != ncclInProgress) break;
    SPP_TRY(l->carrier->ops->check(l->carrier, diag));
    if (spp_monotonic_s() > deadline)
      return spp_diag_set(diag, SPP_ERR_INTERNAL, call, NULL, "rank %d waited %g s in vain for NCCL",
                          l->carrier->rank, l->timeout_s);
    sched_yield();
  }
  return failed(l, result, call, diag);
}

/* Until the queue has done all of it. */
static enum spp_status arrive(const struct link *l, struct spp_diag *diag) {
  const struct spp_runner *m = &l->memory;
  double deadline = spp_monotonic_s() + l->timeout_s;
  for (int64_t tries = 1; !m->device->is_done(m->queue); tries++) {
    ncclResult_t state = ncclSuccess;
    if (tries % CHECKS_EVERY != 0) continue;
    ncclResult_t asked = l->nccl->get_async_error(l->comm, &state);
    if (asked != ncclSuccess) return failed(l, asked, "ncclCommGetAsyncError", diag);
    if (state != ncclSuccess && state != ncclInProgress) return failed(l, state, "a message", diag);
    SPP_TRY(l->carrier->ops->check(l->carrier, diag));
    if (spp_monotonic_s() > deadline)
      return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL,
                          "rank %d waited %g s in vain for messages over NCCL", l->carrier->rank,
                          l->timeout_s);
    sched_yield();
  }
  return m->device->wait(m->queue, diag);
}

static ncclResult_t issue(const struct link *l, const struct spp_transfer *t) {
  void *stream = l->memory.device->handle(l->memory.queue);
  if (t->from == l->carrier->rank)
    return l->nccl->send(t->data, (size_t)t->bytes, ncclInt8, t->to, l->comm, (cudaStream_t)stream);
  return l->nccl->recv(t->data, (size_t)t->bytes, ncclInt8, t->from, l->comm, (cudaStream_t)stream);
}

static void give_up(struct link *l) {
  if (l->comm) l->nccl->abort(l->comm);
  l->comm = NULL;
}

static enum spp_status exchange_all(const struct link *l, const struct spp_transfer *first,
                                    struct spp_diag *diag) {
  if (!l->comm)
    return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "NCCL has been given up after a failure");
  ncclResult_t result = l->nccl->group_start(), ended;
  for (const struct spp_transfer *t = first; t && result == ncclSuccess; t = t->next)
    result = issue(l, t);
  ended = l->nccl->group_end();
  if (result != ncclSuccess && result != ncclInProgress) return failed(l, result, "a message", diag);
  SPP_TRY(settle(l, ended, "ncclGroupEnd", diag));
  return arrive(l, diag);
}

/* After a failure nothing is left on the device that waits for another rank. */
static enum spp_status nccl_exchange(void *context, const struct spp_transfer *first, struct spp_diag *diag) {
  struct link *l = context;
  enum spp_status status = exchange_all(l, first, diag);
  if (status != SPP_OK) give_up(l);
  return status;
}

/* When all ranks have got all their messages, what carried them may go. */
static enum spp_status leave(struct link *l) {
  struct spp_diag diag;
  SPP_TRY(l->carrier->ops->barrier(l->carrier, &diag));
  SPP_TRY(settle(l, l->nccl->finalize(l->comm), "ncclCommFinalize", &diag));
  l->nccl->destroy(l->comm);
  l->comm = NULL;
  return SPP_OK;
}

/* A communicator that another rank has left in the middle is not waited for. */
static void nccl_close(void *context) {
  struct link *l = context;
  if (l->comm && leave(l) != SPP_OK) give_up(l);
  free(l);
}

static const struct spp_grouped_ops grouped_ops = {nccl_exchange, nccl_close};

/* Rank 0 makes the id, the others get it by MPI. */
static enum spp_status share_id(const struct link *l, ncclUniqueId *id, struct spp_diag *diag) {
  struct spp_endpoint *c = l->carrier;
  struct spp_transfer t;
  if (c->rank != 0) {
    SPP_TRY(c->ops->irecv(c, 0, ID_TAG, id, sizeof *id, &t, diag));
    return c->ops->wait(c, &t, diag);
  }
  ncclResult_t result = l->nccl->get_unique_id(id);
  if (result != ncclSuccess) return failed(l, result, "ncclGetUniqueId", diag);
  for (int i = 1; i < c->size; i++) {
    SPP_TRY(c->ops->isend(c, i, ID_TAG, id, sizeof *id, &t, diag));
    SPP_TRY(c->ops->wait(c, &t, diag));
  }
  return SPP_OK;
}

static enum spp_status join(struct link *l, struct spp_diag *diag) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  SPP_TRY(share_id(l, &id, diag));
  ncclResult_t result = l->nccl->init(&l->comm, l->carrier->size, id, l->carrier->rank, &config);
  return settle(l, result, "ncclCommInitRankConfig", diag);
}

static enum spp_status nccl_link(struct spp_endpoint *end, struct spp_runner memory,
                                 struct spp_endpoint **linked, struct spp_diag *diag) {
  const char *why;
  const struct spp_nccl *nccl = spp_nccl_load(&why);
  int devices = memory.device->count(diag);
  if (end->node_rank >= devices)
    return spp_diag_set(diag, SPP_ERR_ABSENT, "nccl", "start as many ranks as there are GPUs",
                        "rank %d would share a GPU: this machine has %d", end->rank, devices);
  if (!nccl) return spp_diag_set(diag, SPP_ERR_ABSENT, "nccl", "use --backend mpi", "%s", why);
  struct link *l = calloc(1, sizeof *l);
  if (!l) return spp_diag_oom(diag);
  *l = (struct link){.nccl = nccl, .carrier = end, .memory = memory, .timeout_s = end->timeout_s};
  enum spp_status status = join(l, diag);
  if (status == SPP_OK) return spp_grouped_open(end, memory, &grouped_ops, l, linked, diag);
  give_up(l);
  free(l);
  return status;
}

/* A rank of an MPI job whose endpoint links devices. */
struct job {
  spp_rank_main *rank_main;
  void *context;
};
static enum spp_status rank_main(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  const struct job *job = context;
  struct spp_endpoint_ops ops = *end->ops;
  struct spp_endpoint mine = *end;
  ops.link = nccl_link;
  mine.ops = &ops;
  return job->rank_main(&mine, job->context, diag);
}

static enum spp_status nccl_run(int ranks, double timeout_s, spp_rank_main *main, void *context,
                                struct spp_diag *diag) {
  struct job job = {main, context};
  return spp_backend_mpi.run(ranks, timeout_s, rank_main, &job, diag);
}
static enum spp_status nccl_start(int *job_ranks, struct spp_diag *diag) {
  return spp_backend_mpi.start(job_ranks, diag);
}
static bool nccl_leads(void) {
  return spp_backend_mpi.leads();
}
static void nccl_library(char *words, size_t size) {
  spp_backend_mpi.library(words, size);
}
static void nccl_stop(enum spp_status status) {
  spp_backend_mpi.stop(status);
}

const struct spp_backend spp_backend_nccl = {.name = "nccl",
                                             .description =
                                                 "one process and one GPU a rank, over NCCL and MPI",
                                             .start = nccl_start,
                                             .run = nccl_run,
                                             .leads = nccl_leads,
                                             .library = nccl_library,
                                             .starts_job = true,
                                             .device = "cuda",
                                             .in_order = true,
                                             .stop = nccl_stop};
