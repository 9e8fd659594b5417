/* GPU memory of one NCCL communicator, from what its ranks, the machine and the version of the library make
 * it allocate. Read in NVIDIA/nccl 2.29.7; what older ones do differently in ROCm/rccl 5.4.3 (NCCL 2.13), and
 * in the settings that the libraries 2.18.1, 2.21.5 and 2.27.5 know. */
#ifndef SPP_MODEL_NCCL_H
#define SPP_MODEL_NCCL_H

#include "model/collective.h"
#include "model/framework.h"

/* What a communicator is used for. Since 2.22 an algorithm's connections are made when it is first used. */
enum {
  SPP_NCCL_RING = 1,   /* bulk gathers, reduce-scatters, broadcasts */
  SPP_NCCL_SUMS = 2,   /* small all-reduces: norms, flags, barriers; between domains the tree is faster */
  SPP_NCCL_SWITCH = 4, /* large all-reduces, which a switch that reduces takes over */
};

struct spp_nccl {
  const struct spp_framework *framework;
  const struct spp_gpu *gpu;         /* NULL: the channels that the framework file states */
  const struct spp_cluster *cluster; /* NULL: domains of eight GPUs, all with fast links */
  int64_t chunk_bytes; /* of messages between domains: NCCL_P2P_NET_CHUNKSIZE; 0 = its default */
};

/* Members of a group on this machine, `stride` apart. */
struct spp_placement spp_nccl_place(const struct spp_nccl *n, int64_t ranks, int64_t stride);

struct spp_nccl_channels {
  int64_t rings;    /* for collectives */
  int64_t messages; /* for point-to-point */
  int64_t per_peer; /* of them, that two ranks which talk to each other share */
};
struct spp_nccl_channels spp_nccl_channels(const struct spp_nccl *n, const struct spp_placement *p);

/* Bytes of a communicator: its tables, and the connections of what it is used for. 0 for one rank. */
int64_t spp_nccl_communicator_bytes(const struct spp_nccl *n, const struct spp_placement *p, unsigned used);

/* Bytes of its point-to-point connections, beside these: `near` peers inside the domain are sent to and
 * received from, `far` says that others are; pools: in how many directions. */
int64_t spp_nccl_messages_bytes(const struct spp_nccl *n, const struct spp_placement *p, int64_t near,
                                bool far, int64_t directions);

/* Its device code, loaded whole with the first communicator. */
int64_t spp_nccl_code_bytes(const struct spp_nccl *n);
#endif
