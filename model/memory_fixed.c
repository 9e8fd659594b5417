#include "model/memory_parts.h"

/* What the device holds outside the framework's allocator. */
static const struct spp_tensor context = {"CUDA context", SPP_PART_CONTEXT,
                                          "driver, loaded kernels, library handles"};
static const struct spp_tensor world = {"NCCL: all ranks", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor data = {"NCCL: data parallel group", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor tensor = {"NCCL: tensor parallel group", SPP_PART_NCCL,
                                         "communicator buffers"};
static const struct spp_tensor shards = {"NCCL: ranks that share states", SPP_PART_NCCL,
                                         "communicator buffers"};
static const struct spp_tensor model = {"NCCL: ranks of one model", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor stages = {"NCCL: pipeline stages", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor pipe = {"NCCL: pipeline peers", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor ulysses = {"NCCL: Ulysses group", SPP_PART_NCCL, "one connection per peer"};
static const struct spp_tensor ring = {"NCCL: ring group", SPP_PART_NCCL, "one connection per neighbour"};
static const struct spp_tensor gather = {"NCCL: all-gather group", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor expert = {"NCCL: expert group", SPP_PART_NCCL, "one connection per peer"};

static const struct spp_tensor user = {"TP user buffers", SPP_PART_NCCL,
                                       "hidden states on their way to or from a product"};

int64_t spp_nccl_bytes(int64_t channels, int64_t peers) {
  /* Receive connection in write mode, per channel: LL 8*512*8*16, LL128 120*640*8*8, SIMPLE 4 MiB, header;
   * rounded up to 2 MiB (NVIDIA/nccl src/init.cc, src/include/device.h, src/transport/p2p.cc). */
  const int64_t connection_bytes = 10485760;
  return spp_sat_mul(spp_sat_mul(channels, peers), connection_bytes);
}

struct nccl_view {
  const struct spp_framework *f;
  struct spp_memory_sum *sum;
  int64_t node_gpus;
};

/* Collectives receive from one predecessor over the ring channels. */
static void add_collective(const struct nccl_view *n, const struct spp_tensor *t, int64_t ranks) {
  if (ranks <= 1) return;
  int64_t fixed = n->f->nccl_bytes_per_group;
  spp_memory_add_bytes(n->sum, t, SPP_LIVE_ALWAYS,
                       fixed > 0 ? fixed : spp_nccl_bytes(n->f->nccl_channels, 1));
}
/* Point-to-point connections are made at first use, one per peer and channel inside a node. Peers of other
 * nodes share one pool a channel: 16 steps of 128 KiB (NVIDIA/nccl src/transport/net.cc sharedNetBuffersInit,
 * NCCL_SHARED_STEPS, P2P_NET_CHUNKSIZE) [recalled]. */
static void add_peers(const struct nccl_view *n, const struct spp_tensor *t, int64_t ranks, int64_t peers) {
  const int64_t shared_bytes = INT64_C(16) * 131072;
  if (ranks <= 1) return;
  int64_t near = spp_min64(peers, spp_max64(1, n->node_gpus - 1)), fixed = n->f->nccl_bytes_per_group;
  int64_t bytes = spp_nccl_bytes(n->f->nccl_p2p_channels, near);
  if (near < peers) bytes = spp_sat_add(bytes, spp_sat_mul(n->f->nccl_p2p_channels, shared_bytes));
  spp_memory_add_bytes(n->sum, t, SPP_LIVE_ALWAYS, fixed > 0 ? fixed : bytes);
}

/* InternLM/InternEvo internlm/utils/gputest.py warmup_process_group: an all-reduce over each group that is
 * made, so that its buffers are there before training. */
static void add_all_groups(const struct nccl_view *n, const struct spp_memory_view *v) {
  const struct spp_geometry *g = v->g;
  add_collective(n, &data, g->dense_group);
  add_collective(n, &shards, v->layout->zero > 0 ? g->shard_group : 1);
  add_collective(n, &model, spp_sat_mul(g->tp, g->pp));
  add_collective(n, &stages, g->pp);
}

/* Every group of its own is a communicator with its own buffers; groups of one rank are not made, and the
 * data parallel group is the world's when nothing else splits it. */
static void add_nccl(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const struct spp_geometry *g = v->g;
  const struct spp_cluster *cluster = v->job->cluster;
  int64_t node_gpus = cluster ? spp_max64(cluster->gpus_per_node, cluster->domain_gpus) : 8;
  const struct nccl_view n = {v->job->framework, sum, node_gpus};
  int64_t ranks = spp_layout_world(v->layout);
  add_collective(&n, &world, ranks);
  if (n.f->nccl_all_groups)
    add_all_groups(&n, v);
  else if (g->dense_group < ranks)
    add_collective(&n, &data, g->dense_group);
  add_collective(&n, &tensor, g->tp);
  add_peers(&n, &pipe, g->pp, spp_min64(2, g->pp - 1));
  add_peers(&n, &ulysses, g->su, g->su - 1);
  if (v->layout->sp_kind == SPP_SP_ALLGATHER)
    add_collective(&n, &gather, g->sr);
  else
    add_peers(&n, &ring, g->sr, spp_min64(2, g->sr - 1));
  add_peers(&n, &expert, g->ep, g->ep - 1);
}

/* A buffer of a sequence's hidden states for each product whose exchange is split to overlap: eight gather,
 * in the type of the products, four reduce, in 16 bit (transformer-engine 2.9.0 pytorch/module/base.py
 * initialize_ub; megatron-bridge 0.3.1 training/initialize.py). They are no memory of torch's allocator. */
void spp_memory_add_user_buffers(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const int64_t gathers = 8, reduces = 4;
  if (!v->job->framework->tp_user_buffers || v->job->overlap == 0 || v->g->tp <= 1 || !v->layout->megatron_sp)
    return;
  if (v->job->fp4) return; /* such products exchange nothing by themselves: model/comm_tp.c */
  int64_t gathered = v->job->dtype == SPP_DTYPE_FP8 ? 1 : spp_dtype_bytes(v->act);
  int64_t bytes = gathers * gathered + reduces * spp_dtype_bytes(v->act);
  spp_memory_add_bytes(sum, &user, SPP_LIVE_ALWAYS,
                       spp_sat_mul(spp_sat_mul(v->g->tokens, v->job->arch->hidden), bytes));
}

void spp_memory_add_fixed(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  spp_memory_add_bytes(sum, &context, SPP_LIVE_ALWAYS, v->job->framework->context_bytes);
  add_nccl(v, sum);
}
