/* What GPU this machine has, without any GPU library. */
#ifndef SPP_CLI_MACHINE_H
#define SPP_CLI_MACHINE_H

#include <stddef.h>

/* The model line of the first GPU the NVIDIA driver lists under `root` ("/proc/driver/nvidia/gpus"), such as
 * "NVIDIA H100 80GB HBM3", into buf; NULL when there is none. */
const char *spp_machine_gpu(const char *root, char *buf, size_t size);

/* The name among `names` ("h100-80gb", ...) that fits the driver's model line: its words up to the first with
 * a digit must all be there; further words count for it when they are there and against it when not. NULL
 * when none fits. */
const char *spp_machine_match(const char *model, const char *const *names, int count);

#endif
