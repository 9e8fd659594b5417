/* How ranks reach each other: messages of bytes between two ranks, and nothing more. Everything collective is
 * built on these few operations (exec/group.h), so that every backend sends the same bytes in the same order.
 *
 * A message matches the oldest receive of the same sender, receiver and tag. Sending hands over a pointer:
 * the data must stay as it is until ops->wait returns. */
#ifndef SPP_EXEC_BACKEND_H
#define SPP_EXEC_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/device.h"

enum { SPP_EXEC_MAX_RANKS = 256 };

/* One message under way; lives at the caller until it has been waited for. The fields are the backend's. */
struct spp_transfer {
  struct spp_transfer *next;
  int from, to, tag, state;
  void *data;
  int64_t bytes;
  void *handle[2];
};

struct spp_endpoint;
struct spp_endpoint_ops {
  enum spp_status (*isend)(struct spp_endpoint *end, int to, int tag, const void *data, int64_t bytes,
                           struct spp_transfer *transfer, struct spp_diag *diag);
  enum spp_status (*irecv)(struct spp_endpoint *end, int from, int tag, void *data, int64_t bytes,
                           struct spp_transfer *transfer, struct spp_diag *diag);
  /* After a failure the buffer may be reused: no one writes to it any more. */
  enum spp_status (*wait)(struct spp_endpoint *end, struct spp_transfer *transfer, struct spp_diag *diag);
  /* Every rank of the endpoint has arrived. */
  enum spp_status (*barrier)(struct spp_endpoint *end, struct spp_diag *diag);
  /* Tells all ranks to stop: their next or running operation fails with `why`. */
  void (*abort)(struct spp_endpoint *end, const struct spp_diag *why);
  /* Seconds of a clock that never goes back. */
  double (*clock)(void);
  /* Has another rank given up? Its failure, or SPP_OK. */
  enum spp_status (*check)(struct spp_endpoint *end, struct spp_diag *diag);
  /* An endpoint over this one that sends from device to device: memory of `memory`, where `end` is for the
   * program's own. NULL: there is none, and exec/staged.h carries what a device has. All ranks call it. */
  enum spp_status (*link)(struct spp_endpoint *end, struct spp_runner memory, struct spp_endpoint **linked,
                          struct spp_diag *diag);
  /* Of an endpoint over another one alone. */
  void (*close)(struct spp_endpoint *end);
};

/* One rank's end. */
struct spp_endpoint {
  const struct spp_endpoint_ops *ops;
  int rank, size;
  double timeout_s;         /* how long a wait may take before it is a failure */
  void *world;              /* the backend's */
  struct spp_runner memory; /* what messages are read from and written to */
  int node_rank;            /* this rank among those of its machine */
};

/* What one rank does. Its status is the rank's result; a failure stops all ranks. */
typedef enum spp_status spp_rank_main(struct spp_endpoint *end, void *context, struct spp_diag *diag);

struct spp_backend {
  const char *name;        /* "self", "mpi", "nccl" */
  const char *description; /* one line for a listing */
  const char *absent;      /* why it was not built; NULL when it was */

  /* Ranks of the job that this process was started in, 0 when run() makes them itself. Starts the library. */
  enum spp_status (*start)(int *job_ranks, struct spp_diag *diag);
  /* Runs `rank_main` on `ranks` ranks and returns when all are done. `context` is shared by the ranks of one
   * process. diag tells the first failure of any rank. SPP_ERR_USAGE: more ranks than there are. */
  enum spp_status (*run)(int ranks, double timeout_s, spp_rank_main *rank_main, void *context,
                         struct spp_diag *diag);
  /* Is this the process that speaks for all? */
  bool (*leads)(void);
  /* What the library behind it calls itself; NULL: there is none. */
  void (*library)(char *words, size_t size);
  bool starts_job;    /* its ranks are processes of an MPI job */
  const char *device; /* that its ranks must work on; NULL: any */
  bool in_order; /* messages of two ranks between devices are matched in their order, whatever their tags */
  /* Ends the library; after a failure the whole job. Must be the last call. */
  void (*stop)(enum spp_status status);
};

/* All rows, built or not. */
const struct spp_backend *const *spp_backends_all(int *count);
/* The row of this name. SPP_ERR_USAGE with the nearest name when there is none, SPP_ERR_ABSENT when it was
 * not built. */
enum spp_status spp_backend_find(const char *name, const struct spp_backend **backend, struct spp_diag *diag);

extern const struct spp_backend spp_backend_self;
extern const struct spp_backend spp_backend_mpi;
extern const struct spp_backend spp_backend_nccl;

/* Seconds of CLOCK_MONOTONIC: the clock of all backends here. */
double spp_monotonic_s(void);

#endif
