#include "base/version.h"

#include "base/commit.h" /* written by the build: SPP_COMMIT */

#ifdef SPP_HAVE_CURSES
#define HAVE_CURSES true
#else
#define HAVE_CURSES false
#endif
#ifdef SPP_HAVE_GSL
#define HAVE_GSL true
#else
#define HAVE_GSL false
#endif
#ifdef SPP_HAVE_YAML
#define HAVE_YAML true
#else
#define HAVE_YAML false
#endif
#ifdef SPP_HAVE_BLAS
#define HAVE_BLAS true
#else
#define HAVE_BLAS false
#endif
#ifdef SPP_HAVE_MPI
#define HAVE_MPI true
#else
#define HAVE_MPI false
#endif
#ifdef SPP_HAVE_CUDA
#define HAVE_CUDA true
#else
#define HAVE_CUDA false
#endif
#ifdef SPP_HAVE_NCCL
#define HAVE_NCCL true
#else
#define HAVE_NCCL false
#endif

static const struct spp_feature features[] = {
    {"mpi", HAVE_MPI, "ranks as processes (Open MPI)"},
    {"cuda", HAVE_CUDA, "kernels on NVIDIA GPUs: checked by emulation, not yet run on a device"},
    {"nccl", HAVE_NCCL, "collectives between NVIDIA GPUs"},
    {"blas", HAVE_BLAS, "fast matrix products on the CPU (OpenBLAS)"},
    {"gsl", HAVE_GSL, "fits of measured constants (GNU Scientific Library)"},
    {"yaml", HAVE_YAML, "reading YAML files (libyaml)"},
    {"curses", HAVE_CURSES, "the terminal interface (ncurses)"},
};

const char *spp_version(void) {
  return SPP_VERSION;
}

const char *spp_version_commit(void) {
  return SPP_COMMIT;
}

#define TEXT(x)     #x
#define EXPANDED(x) TEXT(x)

const char *spp_version_compiler(void) {
#if defined(__clang__)
  return "clang " EXPANDED(__clang_major__) "." EXPANDED(__clang_minor__) "." EXPANDED(__clang_patchlevel__);
#elif defined(__GNUC__)
  return "gcc " EXPANDED(__GNUC__) "." EXPANDED(__GNUC_MINOR__) "." EXPANDED(__GNUC_PATCHLEVEL__);
#else
  return "unknown compiler";
#endif
}

const struct spp_feature *spp_features(int *n) {
  *n = (int)(sizeof features / sizeof features[0]);
  return features;
}
