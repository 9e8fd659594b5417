/* OpenBLAS, loaded when it is first asked for: it starts its threads as soon as it is loaded, and most
 * commands multiply nothing. */
#ifndef SPP_KERNELS_BLAS_H
#define SPP_KERNELS_BLAS_H

#include <cblas.h>

struct spp_blas {
  __typeof__(cblas_sgemm) *sgemm;
  __typeof__(openblas_get_num_threads) *get_threads;
  __typeof__(openblas_set_num_threads) *set_threads;
  __typeof__(openblas_get_config) *config;
};

/* NULL where the library that was there at configuration is gone. Thread-safe; stays loaded. */
const struct spp_blas *spp_blas_load(void);

#endif
