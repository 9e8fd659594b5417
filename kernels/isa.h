/* The rows of the table, one per isa_*.c. Internal to kernels/. */
#ifndef SPP_KERNELS_ISA_H
#define SPP_KERNELS_ISA_H

#include "kernels/table.h"

extern const struct spp_kernels spp_kernels_reference;
extern const struct spp_kernels spp_kernels_portable;
extern const struct spp_kernels spp_kernels_neon;
extern const struct spp_kernels spp_kernels_avx2;
extern const struct spp_kernels spp_kernels_avx512;

#endif
