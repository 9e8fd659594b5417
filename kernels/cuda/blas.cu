#include "kernels/cuda/blas.cuh"

#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstring>

#define TEXT(x)     #x
#define EXPANDED(x) TEXT(x)
#define LIBRARY     "libcublas.so." EXPANDED(CUBLAS_VER_MAJOR)

static struct spp_cuda_blas blas;
static bool loaded;
static char reason[256];

/* POSIX has dlsym() return functions as data pointers. */
template <class F> static bool find(void *library, const char *name, F *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load() {
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(SPP_CUDA_LIBRARIES "/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
  loaded = library && find(library, "cublasCreate_v2", &blas.create) &&
           find(library, "cublasDestroy_v2", &blas.destroy) &&
           find(library, "cublasSetStream_v2", &blas.set_stream) &&
           find(library, "cublasGemmEx", &blas.gemm) && find(library, "cublasGetStatusString", &blas.words);
  const char *error = loaded ? NULL : dlerror();
  snprintf(reason, sizeof reason, "%s", error ? error : LIBRARY " lacks a function");
}

const struct spp_cuda_blas *spp_cuda_blas_load(const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  *why = reason;
  return loaded ? &blas : NULL;
}
