/* The rows of devices whose kernels are not part of this build. */
#include "kernels/device.h"

#ifndef SPP_HAVE_CUDA
const struct spp_device spp_device_cuda = {
    .name = "cuda",
    .description = "NVIDIA GPUs",
    .absent = "no CUDA compiler, or -DSPP_CUDA=OFF, when this was configured"};
#else
typedef int spp_no_device_is_absent; /* a translation unit holds a declaration */
#endif
