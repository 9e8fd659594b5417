#ifdef SPP_HAVE_BLAS

#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static struct spp_blas blas;
static bool loaded;

/* POSIX has dlsym() return functions as data pointers. */
static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load(void) {
  void *library = dlopen(SPP_BLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  loaded = library && find(library, "cblas_sgemm", &blas.sgemm) &&
           find(library, "openblas_get_num_threads", &blas.get_threads) &&
           find(library, "openblas_set_num_threads", &blas.set_threads) &&
           find(library, "openblas_get_config", &blas.config);
}

const struct spp_blas *spp_blas_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return loaded ? &blas : NULL;
}

#else
typedef int spp_blas_is_absent; /* a translation unit holds a declaration */
#endif
