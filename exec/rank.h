/* What one rank works with; passed to everything that computes, allocates or sends. */
#ifndef SPP_EXEC_RANK_H
#define SPP_EXEC_RANK_H

#include "exec/backend.h"
#include "exec/heap.h"
#include "exec/tally.h"
#include "kernels/table.h"

struct spp_rank {
  struct spp_endpoint *end;
  const struct spp_kernels *kernels;
  int threads; /* of kernels and products */
  struct spp_heap heap;
  struct spp_tally tally;
  struct spp_diag *diag; /* where a failure is told */
};

#endif
