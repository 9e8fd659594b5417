#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "exec/backend_nccl.h"

static const char soname[] = "libnccl.so.2";
static struct spp_nccl nccl;
static bool loaded;
static char reason[256];

/* POSIX has dlsym() return functions as data pointers. */
static bool find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load(void) {
  void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen(SPP_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  loaded = library && find(library, "ncclGetUniqueId", &nccl.get_unique_id) &&
           find(library, "ncclCommInitRankConfig", &nccl.init) &&
           find(library, "ncclCommGetAsyncError", &nccl.get_async_error) &&
           find(library, "ncclCommFinalize", &nccl.finalize) &&
           find(library, "ncclCommDestroy", &nccl.destroy) && find(library, "ncclCommAbort", &nccl.abort) &&
           find(library, "ncclGroupStart", &nccl.group_start) &&
           find(library, "ncclGroupEnd", &nccl.group_end) && find(library, "ncclSend", &nccl.send) &&
           find(library, "ncclRecv", &nccl.recv) && find(library, "ncclGetErrorString", &nccl.words);
  const char *error = loaded ? NULL : dlerror();
  snprintf(reason, sizeof reason, "%s", error ? error : "NCCL lacks a function");
}

const struct spp_nccl *spp_nccl_load(const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  *why = reason;
  return loaded ? &nccl : NULL;
}
