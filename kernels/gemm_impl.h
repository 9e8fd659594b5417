/* What matrix products on processors and devices share. Internal to kernels/. */
#ifndef SPP_KERNELS_GEMM_IMPL_H
#define SPP_KERNELS_GEMM_IMPL_H

#include "kernels/gemm.h"

/* The rule that the sizes break; NULL: none. */
const char *spp_gemm_fault(const struct spp_gemm *g);

#endif
