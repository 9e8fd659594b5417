/* Ranks as processes of an MPI job (Open MPI, MPICH). The only file that sees mpi.h. A rank that fails sends
 * its diagnostic to all others under a tag of its own; every wait looks for it, so that all ranks stop. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/backend.h"
#include "kernels/processor.h"

enum { FAILURE_TAG = 32001, BARRIER_TAG = 32002 };
enum { SPINS_BEFORE_YIELD = 200 };

struct mpi_world {
  MPI_Comm comm;
  bool failed;
  struct spp_diag why;
};

/* MPI_Request is a pointer in one library and an int in the other: it is kept as bytes. */
_Static_assert(sizeof(MPI_Request) <= sizeof(void *) * 2, "an MPI_Request fits a transfer's handle");
static MPI_Request request_of(const struct spp_transfer *t) {
  MPI_Request request;
  memcpy(&request, t->handle, sizeof request);
  return request;
}
static void keep_request(struct spp_transfer *t, MPI_Request request) {
  memcpy(t->handle, &request, sizeof request);
}

static enum spp_status mpi_failed(struct spp_diag *diag, const char *call, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return spp_diag_set(diag, SPP_ERR_INTERNAL, call, NULL, "MPI failed: %s", text);
}

static enum spp_status check_size(int64_t bytes, struct spp_diag *diag) {
  if (bytes <= INT_MAX) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, "use a smaller model",
                      "a message of %lld bytes is too long", (long long)bytes);
}

static enum spp_status mpi_isend(struct spp_endpoint *end, int to, int tag, const void *data, int64_t bytes,
                                 struct spp_transfer *t, struct spp_diag *diag) {
  struct mpi_world *w = end->world;
  MPI_Request request = MPI_REQUEST_NULL;
  enum spp_status status = check_size(bytes, diag);
  if (status != SPP_OK) return status;
  *t = (struct spp_transfer){.from = end->rank, .to = to, .tag = tag, .bytes = bytes};
  int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, w->comm, &request);
  keep_request(t, request);
  return code == MPI_SUCCESS ? SPP_OK : mpi_failed(diag, "MPI_Isend", code);
}

static enum spp_status mpi_irecv(struct spp_endpoint *end, int from, int tag, void *data, int64_t bytes,
                                 struct spp_transfer *t, struct spp_diag *diag) {
  struct mpi_world *w = end->world;
  MPI_Request request = MPI_REQUEST_NULL;
  enum spp_status status = check_size(bytes, diag);
  if (status != SPP_OK) return status;
  *t = (struct spp_transfer){.from = from, .to = end->rank, .tag = tag, .bytes = bytes};
  int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, w->comm, &request);
  keep_request(t, request);
  return code == MPI_SUCCESS ? SPP_OK : mpi_failed(diag, "MPI_Irecv", code);
}

/* Has another rank given up? */
static bool others_failed(struct mpi_world *w) {
  int there = 0;
  MPI_Status status;
  if (w->failed) return true;
  MPI_Iprobe(MPI_ANY_SOURCE, FAILURE_TAG, w->comm, &there, &status);
  if (!there) return false;
  MPI_Recv(&w->why, (int)sizeof w->why, MPI_BYTE, status.MPI_SOURCE, FAILURE_TAG, w->comm, MPI_STATUS_IGNORE);
  w->failed = true;
  return true;
}

static enum spp_status failure(const struct mpi_world *w, struct spp_diag *diag) {
  if (diag) *diag = w->why;
  return w->why.status;
}

static enum spp_status received_length(const struct spp_transfer *t, const MPI_Status *status, int me,
                                       struct spp_diag *diag) {
  int bytes = 0;
  if (t->to != me) return SPP_OK;
  MPI_Get_count(status, MPI_BYTE, &bytes);
  if (bytes == t->bytes) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL,
                      "rank %d sends %d bytes to rank %d, which expects %lld (tag %d)", t->from, bytes, t->to,
                      (long long)t->bytes, t->tag);
}

static enum spp_status timed_out(const struct spp_endpoint *end, const struct spp_transfer *t,
                                 struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL,
                      "rank %d waited %g s in vain for a message from rank %d to rank %d (tag %d)", end->rank,
                      end->timeout_s, t->from, t->to, t->tag);
}

static enum spp_status mpi_wait(struct spp_endpoint *end, struct spp_transfer *t, struct spp_diag *diag) {
  struct mpi_world *w = end->world;
  MPI_Request request = request_of(t);
  MPI_Status status;
  double deadline = 0;
  for (int64_t spins = 1;; spins++) {
    int done = 0, code = MPI_Test(&request, &done, &status);
    if (code != MPI_SUCCESS) return mpi_failed(diag, "MPI_Test", code);
    if (done) return received_length(t, &status, end->rank, diag);
    if (spins % SPINS_BEFORE_YIELD != 0) continue;
    if (others_failed(w)) return failure(w, diag);
    double now = spp_monotonic_s();
    if (deadline == 0) deadline = now + end->timeout_s;
    if (now > deadline) return timed_out(end, t, diag);
    sched_yield();
  }
}

/* A message of no bytes to each rank's neighbour at distances 1, 2, 4, ... (dissemination barrier). */
static enum spp_status mpi_barrier(struct spp_endpoint *end, struct spp_diag *diag) {
  for (int distance = 1; distance < end->size; distance *= 2) {
    struct spp_transfer send, receive;
    int to = (end->rank + distance) % end->size, from = (end->rank - distance + end->size) % end->size;
    enum spp_status status = mpi_isend(end, to, BARRIER_TAG, NULL, 0, &send, diag);
    if (status == SPP_OK) status = mpi_irecv(end, from, BARRIER_TAG, NULL, 0, &receive, diag);
    if (status == SPP_OK) status = mpi_wait(end, &send, diag);
    if (status == SPP_OK) status = mpi_wait(end, &receive, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

static void tell_all(struct mpi_world *w, const struct spp_diag *why) {
  int rank, size;
  MPI_Comm_rank(w->comm, &rank);
  MPI_Comm_size(w->comm, &size);
  w->failed = true;
  w->why = *why;
  for (int i = 0; i < size; i++) {
    MPI_Request request;
    if (i == rank) continue;
    MPI_Isend(&w->why, (int)sizeof w->why, MPI_BYTE, i, FAILURE_TAG, w->comm, &request);
    MPI_Request_free(&request);
  }
}

static void mpi_abort(struct spp_endpoint *end, const struct spp_diag *why) {
  struct mpi_world *w = end->world;
  if (!w->failed) tell_all(w, why);
}

static enum spp_status mpi_check(struct spp_endpoint *end, struct spp_diag *diag) {
  struct mpi_world *w = end->world;
  return others_failed(w) ? failure(w, diag) : SPP_OK;
}

static const struct spp_endpoint_ops ops = {.isend = mpi_isend,
                                            .irecv = mpi_irecv,
                                            .wait = mpi_wait,
                                            .barrier = mpi_barrier,
                                            .abort = mpi_abort,
                                            .check = mpi_check,
                                            .clock = spp_monotonic_s};

static enum spp_status mpi_start(int *job_ranks, struct spp_diag *diag) {
  int started = 0, provided;
  MPI_Initialized(&started);
  int code = started ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) return mpi_failed(diag, "MPI_Init_thread", code);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, job_ranks);
  return SPP_OK;
}

/* All processes meet here, those without work too, and agree: the world after a failure is not used again. */
static enum spp_status agree(struct spp_endpoint *all, enum spp_status mine, struct spp_diag *diag) {
  struct mpi_world *w = all->world;
  if (mine != SPP_OK) {
    if (!w->failed) tell_all(w, diag);
    return mine;
  }
  enum spp_status status = mpi_barrier(all, diag);
  if (status != SPP_OK && !w->failed) tell_all(w, diag);
  return status;
}

static int place_on_node(MPI_Comm comm) {
  MPI_Comm node;
  int place = 0;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) != MPI_SUCCESS) return 0;
  MPI_Comm_rank(node, &place);
  MPI_Comm_free(&node);
  return place;
}

/* Failure messages may still be read from the world when this returns: it is freed only after success. */
static enum spp_status run_in(struct mpi_world *w, int ranks, double timeout_s, spp_rank_main *rank_main,
                              void *context, struct spp_diag *diag) {
  int size, rank;
  enum spp_status status = SPP_OK;
  MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(w->comm, &rank);
  MPI_Comm_size(w->comm, &size);
  struct spp_endpoint mine = {.ops = &ops,
                              .rank = rank,
                              .size = ranks,
                              .timeout_s = timeout_s,
                              .world = w,
                              .memory = spp_processor_runner(spp_kernels_best()),
                              .node_rank = place_on_node(w->comm)};
  if (rank < ranks) status = rank_main(&mine, context, diag);
  if (status != SPP_OK) diag->status = status;
  /* Ranks without work wait here for as long as the others need. */
  struct spp_endpoint all = mine;
  all.size = size;
  if (rank >= ranks) all.timeout_s = 1e9;
  status = agree(&all, status, diag);
  if (status != SPP_OK) return status;
  MPI_Comm_free(&w->comm);
  free(w);
  return SPP_OK;
}

static enum spp_status mpi_run(int ranks, double timeout_s, spp_rank_main *rank_main, void *context,
                               struct spp_diag *diag) {
  int size;
  enum spp_status status = mpi_start(&size, diag);
  if (status != SPP_OK) return status;
  if (ranks < 1 || ranks > size)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "start more: mpirun -n N",
                        "%d ranks asked for, the MPI job has %d", ranks, size);
  struct mpi_world *w = calloc(1, sizeof *w);
  if (!w) return spp_diag_oom(diag);
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
  if (code == MPI_SUCCESS) return run_in(w, ranks, timeout_s, rank_main, context, diag);
  free(w);
  return mpi_failed(diag, "MPI_Comm_dup", code);
}

static bool mpi_leads(void) {
  int rank = 0, started = 0;
  MPI_Initialized(&started);
  if (started) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
}

/* Messages may still be under way after a failure: MPI_Finalize would wait for them. The leader has a moment
 * to print, the job then ends with its status. */
static void mpi_stop(enum spp_status status) {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (!started || ended) return;
  if (status != SPP_OK && status != SPP_ERR_TOLERANCE) {
    const struct timespec moment = {.tv_sec = 1};
    if (!mpi_leads()) nanosleep(&moment, NULL);
    MPI_Abort(MPI_COMM_WORLD, (int)status);
  }
  MPI_Finalize();
}

/* One of the few calls that are allowed before MPI_Init (MPI 3.1, 8.7). */
static void mpi_library(char *words, size_t size) {
  char all[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(all, &length);
  snprintf(words, size, "%s", all);
}

const struct spp_backend spp_backend_mpi = {.name = "mpi",
                                            .description = "one process a rank, over MPI",
                                            .start = mpi_start,
                                            .run = mpi_run,
                                            .leads = mpi_leads,
                                            .library = mpi_library,
                                            .starts_job = true,
                                            .stop = mpi_stop};
