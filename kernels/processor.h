/* The processor as a row of kernels/device.h: memory is the program's own, and work is done when the call
 * returns. A queue is a row of kernels/table.h; opening one takes the fastest. */
#ifndef SPP_KERNELS_PROCESSOR_H
#define SPP_KERNELS_PROCESSOR_H

#include "kernels/device.h"
#include "kernels/table.h"

/* It has no marks: its time is the caller's own. Not among spp_devices_all. */
extern const struct spp_device spp_device_processor;

/* kernels NULL: the reference, for attention and products alone. */
static inline struct spp_runner spp_processor_runner(const struct spp_kernels *kernels) {
  union {
    const struct spp_kernels *kernels;
    struct spp_queue *queue;
  } same = {.kernels = kernels};
  return (struct spp_runner){&spp_device_processor, same.queue};
}

#endif
