/* What one rank works with; passed to everything that computes, allocates or sends. */
#ifndef SPP_EXEC_RANK_H
#define SPP_EXEC_RANK_H

#include "exec/backend.h"
#include "exec/heap.h"
#include "exec/tally.h"

struct spp_rank {
  struct spp_endpoint *end;     /* the backend's: messages of the program's own memory */
  struct spp_endpoint *tensors; /* messages of the memory that the heap hands out; `end` on the processor */
  const struct spp_device *device;
  struct spp_queue *queue;          /* of it: all of the rank's work, in its order */
  const struct spp_device_ops *ops; /* the device's */
  int threads;                      /* of kernels and products on the processor */
  struct spp_heap heap;
  struct spp_tally tally;
  struct spp_diag *diag; /* where a failure is told */
};

/* A rank that works on `device`; NULL: on the processor, with the fastest kernels. Ranks of a machine take
 * its devices in turn. SPP_ERR_ABSENT: there is none. Close also after a failure. */
enum spp_status spp_rank_open(struct spp_rank *rank, struct spp_endpoint *end,
                              const struct spp_device *device, struct spp_diag *diag);
/* Frees what the heap holds. */
void spp_rank_close(struct spp_rank *rank);

static inline bool spp_rank_is_processor(const struct spp_rank *rank) {
  return rank->tensors == rank->end;
}

/* Until all work that was handed over is done; its first fault. */
static inline enum spp_status spp_rank_finish(struct spp_rank *rank) {
  return rank->device->wait(rank->queue, rank->diag);
}

#endif
