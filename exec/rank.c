#include "exec/rank.h"

#include <string.h>

#include "exec/staged.h"
#include "exec/try.h"
#include "kernels/processor.h"

static void work_on(struct spp_rank *rank, struct spp_runner runner) {
  rank->device = runner.device;
  rank->queue = runner.queue;
  rank->ops = runner.device->ops;
}

static enum spp_status open_device(struct spp_rank *rank, const struct spp_device *device) {
  struct spp_runner runner = {.device = device};
  struct spp_diag *diag = rank->diag;
  if (!spp_device_usable(device, diag)) return SPP_ERR_ABSENT;
  SPP_TRY(device->open(rank->end->node_rank % device->count(diag), &runner.queue, diag));
  work_on(rank, runner);
  rank->heap.memory = runner;
  return (rank->end->ops->link ? rank->end->ops->link : spp_staged_open)(rank->end, runner, &rank->tensors,
                                                                         diag);
}

enum spp_status spp_rank_open(struct spp_rank *rank, struct spp_endpoint *end,
                              const struct spp_device *device, struct spp_diag *diag) {
  memset(rank, 0, sizeof *rank);
  rank->end = rank->tensors = end;
  rank->threads = 1;
  rank->diag = diag;
  spp_heap_init(&rank->heap);
  spp_tally_clear(&rank->tally);
  work_on(rank, spp_processor_runner(spp_kernels_best()));
  return device ? open_device(rank, device) : SPP_OK;
}

void spp_rank_close(struct spp_rank *rank) {
  spp_heap_close(&rank->heap);
  if (!spp_rank_is_processor(rank)) rank->tensors->ops->close(rank->tensors);
  rank->device->close(rank->queue);
}
