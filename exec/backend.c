#include "exec/backend.h"

#include <string.h>
#include <time.h>

#if !defined(SPP_HAVE_MPI)
const struct spp_backend spp_backend_mpi = {
    .name = "mpi", .description = "one process a rank, over MPI", .absent = "no MPI when this was built"};
#endif
#if !defined(SPP_HAVE_NCCL)
const struct spp_backend spp_backend_nccl = {
    .name = "nccl",
    .description = "one process and one GPU a rank, over NCCL and MPI",
    .absent = "no NCCL, no MPI or no CUDA compiler when this was built"};
#endif

static const struct spp_backend *const backends[] = {&spp_backend_self, &spp_backend_mpi, &spp_backend_nccl};
enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

const struct spp_backend *const *spp_backends_all(int *count) {
  *count = BACKEND_COUNT;
  return backends;
}

enum spp_status spp_backend_find(const char *name, const struct spp_backend **backend,
                                 struct spp_diag *diag) {
  for (int i = 0; i < BACKEND_COUNT; i++) {
    if (strcmp(backends[i]->name, name) != 0) continue;
    if (backends[i]->absent)
      return spp_diag_set(diag, SPP_ERR_ABSENT, name, "use --backend self", "%s", backends[i]->absent);
    *backend = backends[i];
    return SPP_OK;
  }
  return spp_diag_set(diag, SPP_ERR_USAGE, name, "self, mpi or nccl", "no such backend");
}

double spp_monotonic_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
