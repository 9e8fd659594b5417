#include "model/nccl.h"

#include "base/num.h"

/* A receiving connection of one channel: LL 8*512*8*16, LL128 120*640*8*8 and SIMPLE 4 MiB with a header,
 * rounded up to 2 MiB; a sending one has a header alone (src/init.cc computeBuffSizes, src/include/device.h,
 * src/transport/p2p.cc p2pSendSetup, p2pRecvSetup: CUDA_IPC_MIN). Where Ampere's peers read instead, SIMPLE
 * moves to the sender: 6 MiB each, the same sum. Over a network with GPUDirect a sender has buffers as well,
 * LL apart (src/transport/net.cc sendProxyConnect). */
static const int64_t page_bytes = 2097152, receive_bytes = 10485760, send_bytes = 2097152;
static const int64_t network_send_bytes = 10485760;

/* NCCL_CUMEM_ENABLE is on where the driver can since 2.19 [recalled]: each table is a mapping of its own of
 * whole pages (src/include/alloc.h ncclCuMemAlloc). NCCL_RUNTIME_CONNECT came with 2.22 and needs it
 * (src/init.cc initTransportsRank). NVLS has had chunks of 128 KiB since NCCL_NVLS_CHUNKSIZE, which 2.18.1
 * lacks and 2.21.5 has. */
enum { VERSION_PAGES = 21900, VERSION_LAZY = 22200, VERSION_SWITCH = 21900, VERSION_LINK_CHUNK = 21800 };
enum { CHANNELS_MAX = 64, DOMAIN_DEFAULT = 8, BATCH_PEERS = 8 };

static bool knows_gpu(const struct spp_nccl *n) {
  return n->gpu && n->cluster && n->gpu->compute_capability > 0;
}
static bool used_here(const struct spp_nccl *n, const struct spp_placement *p) {
  return p->ranks > 1 && n->framework->nccl_channels > 0;
}
static bool in_pages(const struct spp_nccl *n) {
  return knows_gpu(n) && n->framework->nccl_version >= VERSION_PAGES && !n->framework->nccl_cumem_off;
}
static bool connects_late(const struct spp_nccl *n) {
  return in_pages(n) && n->framework->nccl_version >= VERSION_LAZY;
}
static bool has_switch(const struct spp_nccl *n, const struct spp_placement *p) {
  return in_pages(n) && n->framework->nccl_version >= VERSION_SWITCH && !n->framework->nccl_nvls_off &&
         n->cluster->in_switch_reduction && n->gpu->compute_capability >= 90 && p->fast && p->local > 1;
}

struct spp_placement spp_nccl_place(const struct spp_nccl *n, int64_t ranks, int64_t stride) {
  struct spp_placement p = {.ranks = ranks, .fast = true};
  if (n->gpu && n->cluster) {
    spp_placement_resolve(n->gpu, n->cluster, ranks, stride, &p);
    return p;
  }
  p.local = spp_max64(1, spp_min64(ranks, stride > 0 ? DOMAIN_DEFAULT / stride : DOMAIN_DEFAULT));
  p.domains = spp_ceil_div(ranks, p.local);
  return p;
}

static int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n && power < CHANNELS_MAX)
    power *= 2;
  return power;
}

/* What a ring may have of a link, GB/s, tried from the top (src/graph/search.cc speedArray). */
struct speeds {
  int count;
  const double *of;
};
#define SPEEDS(array) ((struct speeds){(int)(sizeof(array) / sizeof(array)[0]), array})
static struct speeds speeds_of(int compute_capability, bool between) {
  static const double intra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  static const double inter[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12};
  static const double intra90[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static const double inter90[] = {48,   45, 42, 40, 30,  24,  22,   20,  17.5,
                                   15.0, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};
  static const double intra100[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
  static const double inter100[] = {96,   80, 48, 45.1, 42, 40,  30,  24,   22,  20,
                                    17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};
  if (compute_capability >= 100) return between ? SPEEDS(inter100) : SPEEDS(intra100);
  if (compute_capability >= 90) return between ? SPEEDS(inter90) : SPEEDS(intra90);
  return between ? SPEEDS(inter) : SPEEDS(intra);
}

/* Where rings run: over links of which one carries a ring whole, and, between domains, through all GPUs of a
 * domain, whose links carry them all. GB/s. */
struct road {
  int64_t links;
  double link, inside; /* inside: 0 = no limit */
  bool between;
};

/* The rings that use the most of it (src/graph/search.cc ncclTopoCompute: the first of the best;
 * ncclTopoDupChannels). */
static int64_t rings_over(int compute_capability, const struct road *road) {
  const int64_t most = CHANNELS_MAX / 2;
  struct speeds speeds = speeds_of(compute_capability, road->between);
  double total = (double)road->links * road->link, speed = 0;
  int64_t rings = 0;
  for (int i = 0; i < speeds.count; i++) {
    double tried = speeds.of[i];
    if (tried > road->link + 1e-6) continue;
    if (rings > 0 && tried <= 0.49 * speed) break;
    int64_t fit = spp_min64(most, spp_sat_mul(road->links, (int64_t)(road->link / tried + 1e-6)));
    if (road->inside > 0) fit = spp_min64(fit, (int64_t)(road->inside / tried + 1e-6));
    if ((double)fit * tried <= (double)rings * speed) continue;
    rings = fit;
    speed = tried;
    if ((double)rings * speed >= total) break;
  }
  if (speed >= 25 && !(compute_capability > 80 && speed < 50 && rings > 4)) {
    rings = spp_min64(most, 2 * rings);
    speed /= 2;
  }
  rings = 2 * spp_max64(1, rings); /* src/graph/connect.cc ncclTopoPostset, and there for up to four rings: */
  if (road->between && compute_capability >= 90 && speed > 45 && rings < 16) rings *= 2;
  return spp_min64(CHANNELS_MAX, rings);
}

/* One NVLink, GB/s: on the datasheet, and as NCCL counts it (src/graph/topo.h). */
struct link_rate {
  double data, counted;
};
static struct link_rate link_rate_of(int compute_capability) {
  if (compute_capability >= 100) return (struct link_rate){50, 40.1};
  if (compute_capability >= 90) return (struct link_rate){25, 20.6};
  if (compute_capability == 86) return (struct link_rate){14.0625, 12};
  return (struct link_rate){25, 20};
}

static int64_t links_of(const struct spp_gpu *gpu) {
  return spp_max64(1,
                   (int64_t)(gpu->link_bytes_per_s / 1e9 / link_rate_of(gpu->compute_capability).data + 0.5));
}

static int64_t rings_of(const struct spp_nccl *n, const struct spp_placement *p) {
  const double pcie_share = 0.96; /* 25 GB/s of a NIC in a PCIe 4 slot count as 24, 50 in PCIe 5 as 48 */
  if (!knows_gpu(n)) return n->framework->nccl_channels;
  const struct spp_cluster *cluster = n->cluster;
  int cc = n->gpu->compute_capability;
  if (p->domains <= 1 && !p->fast) return 2; /* one ring through the host's PCIe, used twice */
  double inside = p->fast ? (double)links_of(n->gpu) * link_rate_of(cc).counted : 0;
  struct road road = {.links = 1, .link = inside};
  if (p->domains > 1) { /* several NICs of a GPU are one to NCCL */
    int64_t node = spp_max64(1, cluster->gpus_per_node), domain = spp_max64(node, cluster->domain_gpus);
    int64_t nics = spp_sat_mul(spp_max64(1, cluster->nics_per_node), domain / node);
    double share = cluster->nic_bytes_per_s_per_gpu, one = cluster->nic_bytes_per_s;
    road.links = spp_max64(1, spp_min64(p->local, spp_sat_mul(p->local, nics) / domain));
    road.link = pcie_share * (share > one ? share : one) / 1e9;
    road.inside = p->local > 1 ? inside : 0;
    road.between = true;
  }
  return rings_over(cc, &road);
}

/* src/graph/paths.cc ncclTopoGetNchannels, ncclTopoComputeP2pChannels: twice the links of a pair that shares
 * NVLink, of others two, or what 14 GB/s a channel ask of a NIC; fewer where all ranks would not find room.
 */
struct spp_nccl_channels spp_nccl_channels(const struct spp_nccl *n, const struct spp_placement *p) {
  struct spp_nccl_channels c = {.rings = rings_of(n, p)};
  c.messages = power_of_two_from(c.rings);
  int64_t near = p->fast ? 2 * (knows_gpu(n) ? links_of(n->gpu) : c.rings) : 2;
  if (p->domains <= 1) {
    c.per_peer = spp_min64(c.messages, power_of_two_from(near));
    return c;
  }
  int64_t far = n->cluster ? (int64_t)(n->cluster->nic_bytes_per_s / 14e9 + 0.999) : 2;
  c.per_peer = power_of_two_from(spp_max64(1, spp_min64(near, far)));
  while (c.per_peer > 1 && spp_sat_mul(c.per_peer, spp_ceil_div(p->ranks, BATCH_PEERS)) > c.messages)
    c.per_peer /= 2;
  return c;
}

/* Three tables a channel and two more: pointers to peers, peers, ranks (src/channel.cc initChannel,
 * src/init.cc devCommSetup); a peer's entry is 4 connections of 152 bytes (src/include/device.h ncclConnInfo,
 * derived). */
static int64_t tables_bytes(const struct spp_nccl *n, const struct spp_placement *p, int64_t channels) {
  const int64_t peer_bytes = 608;
  if (!in_pages(n)) return page_bytes;
  int64_t peers = spp_round_up(spp_sat_mul(peer_bytes, p->ranks), page_bytes);
  return spp_sat_add(2 * page_bytes, spp_sat_mul(channels, spp_sat_add(peers, 2 * page_bytes)));
}

/* One predecessor and one successor. A domain's way out lies on each of its ranks in turn. */
static int64_t ring_bytes(const struct spp_placement *p, int64_t rings) {
  int64_t bytes = rings * (receive_bytes + send_bytes);
  if (p->domains > 1) bytes += spp_ceil_div(rings, p->local) * (network_send_bytes - send_bytes);
  return bytes;
}

/* In a domain the ranks of a tree are a chain, in the ring's order, and both ways are used. Between domains a
 * node has on average two neighbours less its share of the ends (src/graph/connect.cc connectTrees,
 * src/graph/trees.cc), which its ranks are in turn; of two single ranks they are the ring's. */
static int64_t tree_bytes(const struct spp_placement *p, int64_t rings, bool beside_ring) {
  int64_t ways = p->local > 2 ? 2 : p->local > 1 ? 1 : 0;
  if (beside_ring && ways > 0) ways--;
  int64_t bytes = rings * ways * (receive_bytes + send_bytes);
  if (p->domains <= 1 || (beside_ring && p->ranks == 2)) return bytes;
  int64_t both = receive_bytes + network_send_bytes;
  return bytes + spp_ceil_div(rings, p->local) * 2 * both / p->domains * (p->domains - 1);
}

/* Tables and credits at once; buffers, 8 steps of 128 KiB each way for every rank of the domain, with the
 * first large all-reduce (src/transport/nvls.cc ncclNvlsSetup, ncclNvlsBufferSetup); from five ranks on, as
 * the time model has it. */
static int64_t switch_bytes(const struct spp_nccl *n, const struct spp_placement *p, unsigned used) {
  const int64_t buffer_bytes = INT64_C(8) * 131072, users = 5;
  if (!has_switch(n, p)) return 0;
  int64_t channels = n->gpu->compute_capability < 100 ? 16 : p->domains > 1 ? 32 : 24;
  int64_t bytes = (channels + 1) * page_bytes;
  if (connects_late(n) && !((used & SPP_NCCL_SWITCH) && p->local >= users)) return bytes;
  return bytes + channels * 2 * buffer_bytes * p->local;
}

/* What messages to other domains pass through: 16 steps of a chunk a channel, for all peers together, in each
 * direction (src/transport/net.cc sharedNetBuffersInit). Chunks: 128 KiB, 512 inside NVLink and at most
 * (src/init.cc). Before messages were cut so, it was half of SIMPLE (rccl 5.4.3). */
static int64_t pool_bytes(const struct spp_nccl *n, const struct spp_placement *p, int64_t channels) {
  const int64_t most = 524288, least = 131072;
  bool large = p->domains <= 1 && p->fast && n->framework->nccl_version >= VERSION_LINK_CHUNK;
  int64_t asked = p->domains > 1 && n->chunk_bytes > 0 ? n->chunk_bytes : least;
  return channels * 16 * (large ? most : spp_min64(most, asked));
}

int64_t spp_nccl_communicator_bytes(const struct spp_nccl *n, const struct spp_placement *p, unsigned used) {
  if (!used_here(n, p)) return 0;
  struct spp_nccl_channels c = spp_nccl_channels(n, p);
  int64_t bytes = tables_bytes(n, p, spp_max64(c.rings, c.messages));
  bool late = connects_late(n);
  bool tree = !late || (p->domains > 1 && (used & (SPP_NCCL_SUMS | SPP_NCCL_SWITCH)));
  bool ring = !late || (used & SPP_NCCL_RING) || ((used & SPP_NCCL_SUMS) && !tree);
  if (ring) bytes = spp_sat_add(bytes, ring_bytes(p, c.rings));
  if (tree) bytes = spp_sat_add(bytes, tree_bytes(p, c.rings, ring));
  bytes = spp_sat_add(bytes, switch_bytes(n, p, used));
  return late ? bytes : spp_sat_add(bytes, pool_bytes(n, p, c.messages));
}

int64_t spp_nccl_messages_bytes(const struct spp_nccl *n, const struct spp_placement *p, int64_t near,
                                bool far, int64_t directions) {
  if (!used_here(n, p)) return 0;
  struct spp_nccl_channels c = spp_nccl_channels(n, p);
  int64_t bytes = spp_sat_mul(spp_sat_mul(c.per_peer, near), receive_bytes + send_bytes);
  if (!far) return bytes;
  if (!connects_late(n)) directions--; /* one is there */
  return spp_sat_add(bytes, spp_max64(0, directions) * pool_bytes(n, p, c.messages));
}

/* Sections .text of libnccl 2.27.5's program for each generation (2.18.1: 57 MB for 8.0, 69 for 9.0). They
 * are loaded whole: the attributes of every kernel are asked for (src/enqueue.cc ncclInitKernelsForDevice).
 */
int64_t spp_nccl_code_bytes(const struct spp_nccl *n) {
  static const struct {
    int from;
    int64_t bytes;
  } code[] = {{120, 85900000}, {100, 96600000}, {90, 100400000}, {80, 44600000}, {70, 45500000}};
  if (!knows_gpu(n) || n->framework->nccl_channels <= 0) return 0;
  for (size_t i = 0; i < sizeof code / sizeof code[0]; i++)
    if (n->gpu->compute_capability >= code[i].from) return code[i].bytes;
  return 0;
}
