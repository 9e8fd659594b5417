/* NCCL's rules over MPI, for exec/backend_nccl.c over the emulator: no tags; a group is work of its stream,
 * which stands still until all of the group has been met; a communicator that does not block is in progress
 * when it is asked first, and a group that was begun must be ended. */
#include "tests/simt/nccl.h"

#define OMPI_SKIP_MPICXX  1 /* their C++ */
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <string.h>

#include <vector>

#include "tests/simt/cuda_runtime.h"

extern "C" {
#include "exec/backend_nccl.h"
}

struct ncclComm {
  MPI_Comm ranks;
  bool asked;
};

namespace {

enum { ID_MARK = 0x6e63636c };

struct message {
  void *data;
  size_t bytes;
  int peer;
  bool sends;
  ncclComm_t comm;
};
std::vector<message> group;
cudaStream_t group_stream;
bool in_group;

void run(const std::vector<message> &all) {
  std::vector<MPI_Request> requests(all.size());
  for (size_t i = 0; i < all.size(); i++) {
    const message &m = all[i];
    if (m.sends)
      MPI_Isend(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, m.comm->ranks, &requests[i]);
    else
      MPI_Irecv(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, m.comm->ranks, &requests[i]);
  }
  MPI_Waitall((int)all.size(), requests.data(), MPI_STATUSES_IGNORE);
}

ncclResult_t add(void *data, size_t bytes, int peer, bool sends, ncclComm_t comm, cudaStream_t stream) {
  if (!in_group || (!group.empty() && stream != group_stream)) return ncclInvalidUsage;
  group.push_back(message{data, bytes, peer, sends, comm});
  group_stream = stream;
  return ncclSuccess;
}

} // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  int mark = ID_MARK;
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &mark, sizeof mark);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  int mark, range[3] = {0, ranks - 1, 1}, me;
  MPI_Group world, some;
  memcpy(&mark, id.internal, sizeof mark);
  if (mark != ID_MARK || config->blocking) return ncclInvalidUsage;
  *comm = new ncclComm{MPI_COMM_NULL, false};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, &range, &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, 77, &(*comm)->ranks);
  MPI_Comm_rank((*comm)->ranks, &me);
  return me == rank ? ncclInProgress : ncclInvalidUsage;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  *state = comm->asked ? ncclSuccess : ncclInProgress;
  comm->asked = true;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->asked = false;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  MPI_Comm_free(&comm->ranks);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  if (in_group) return ncclInvalidUsage;
  in_group = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  if (!in_group) return ncclInvalidUsage;
  in_group = false;
  std::vector<message> all;
  all.swap(group);
  simt::put_off(group_stream, [=]() { run(all); });
  return ncclSuccess;
}
ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(const_cast<void *>(data), count, peer, true, comm, stream);
}
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(data, count, peer, false, comm, stream);
}
const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "no error";
}

static const struct spp_nccl functions = {ncclGetUniqueId,  ncclCommInitRankConfig, ncclCommGetAsyncError,
                                          ncclCommFinalize, ncclCommDestroy,        ncclCommAbort,
                                          ncclGroupStart,   ncclGroupEnd,           ncclSend,
                                          ncclRecv,         ncclGetErrorString};

extern "C" const struct spp_nccl *spp_nccl_load(const char **why) {
  *why = "";
  return &functions;
}
