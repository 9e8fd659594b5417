/* NCCL's rules over MPI, for exec/backend_nccl.c over the emulator: no tags; a group is work of its stream,
 * which stands still until all of the group has been met; a communicator that does not block is in progress
 * when it is asked first, and a group that was begun must be ended. */
#include "tests/simt/nccl.h"

#define OMPI_SKIP_MPICXX  1 /* their C++ */
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <string.h>

#include <memory>
#include <vector>

#include "tests/simt/cuda_runtime.h"

extern "C" {
#include "exec/backend_nccl.h"
}

struct ncclComm {
  MPI_Comm ranks;
  bool asked, given_up;
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

/* A group on its way. */
struct flight {
  std::vector<message> messages;
  std::vector<MPI_Request> requests; /* empty: has not begun */
};

void begin(flight &f) {
  f.requests.resize(f.messages.size());
  for (size_t i = 0; i < f.messages.size(); i++) {
    const message &m = f.messages[i];
    if (m.sends)
      MPI_Isend(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, m.comm->ranks, &f.requests[i]);
    else
      MPI_Irecv(m.data, (int)m.bytes, MPI_BYTE, m.peer, 0, m.comm->ranks, &f.requests[i]);
  }
}

/* One step of a group; a communicator that was given up lets go of its stream. */
bool get_on(flight &f) {
  int done = 0;
  if (f.messages.empty() || f.messages[0].comm->given_up) return true;
  if (f.requests.empty()) begin(f);
  MPI_Testall((int)f.requests.size(), f.requests.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
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
  *comm = new ncclComm{MPI_COMM_NULL, false, false};
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
/* Not freed: work of its stream may still ask. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->given_up = true;
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
  auto f = std::make_shared<flight>();
  f->messages.swap(group);
  simt::put_off_until(group_stream, [=]() { return get_on(*f); });
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
