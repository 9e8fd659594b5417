/* The functions of NCCL that exec/backend_nccl.c calls, of a library that is loaded when it is first asked
 * for: it is large, and most commands send nothing. */
#ifndef SPP_EXEC_BACKEND_NCCL_H
#define SPP_EXEC_BACKEND_NCCL_H

#include <nccl.h>

struct spp_nccl {
  __typeof__(ncclGetUniqueId) *get_unique_id;
  __typeof__(ncclCommInitRankConfig) *init;
  __typeof__(ncclCommGetAsyncError) *get_async_error;
  __typeof__(ncclCommFinalize) *finalize;
  __typeof__(ncclCommDestroy) *destroy;
  __typeof__(ncclCommAbort) *abort;
  __typeof__(ncclGroupStart) *group_start;
  __typeof__(ncclGroupEnd) *group_end;
  __typeof__(ncclSend) *send;
  __typeof__(ncclRecv) *recv;
  __typeof__(ncclGetErrorString) *words;
};

/* NULL, and why in the loader's words, where the library or one of its functions is not there. Thread-safe;
 * stays loaded. */
const struct spp_nccl *spp_nccl_load(const char **why);

#endif
