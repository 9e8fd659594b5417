#include "model/collective.h"

#include <math.h>

#include "base/num.h"

/* NVLS is chosen from this many GPUs on (NCCL 2.27 on an H200 box; see docs/time.md). */
enum { NVLS_MIN_RANKS = 5 };
/* Message latency (NCCL send/recv of 2 KiB) of the InfiniBand machines the hops were read for:
 * microsoft/vidur h100_dgx. */
static const double hop_fit_message_s = 17e-6;

static double larger(double a, double b) {
  return a > b ? a : b;
}
static double smaller(double a, double b) {
  return a < b ? a : b;
}

/* Members of a group that share one domain of `size` GPUs; groups are aligned blocks, as every launcher lays
 * them out. */
static int64_t members_in(int64_t size, int64_t ranks, int64_t stride) {
  int64_t local = stride >= size ? 1 : size / stride;
  return spp_max64(1, spp_min64(local, ranks));
}

void spp_placement_resolve(const struct spp_gpu *gpu, const struct spp_cluster *cluster, int64_t ranks,
                           int64_t stride, struct spp_placement *p) {
  int64_t node = spp_max64(1, spp_max64(cluster->gpus_per_node, cluster->domain_gpus));
  p->ranks = ranks;
  p->local = members_in(node, ranks, spp_max64(1, stride));
  p->domains = spp_ceil_div(ranks, p->local);
  p->fast = gpu->has_fast_link && cluster->fabric != SPP_FABRIC_PCIE &&
            (cluster->fabric != SPP_FABRIC_PAIRS || (p->local <= 2 && stride <= 1));
}

/* The saturating line of docs/time.md; steps: latency steps beyond the base. */
static double line_s(const struct spp_collective_fit *fit, double steps, double bytes, double bytes_per_s) {
  double rate = fit->link_share * bytes_per_s;
  if (rate <= 0) return 0;
  return fit->a0_s + fit->a1_s * steps + (bytes + sqrt(fit->half_bytes * bytes)) / rate;
}

static double inside_s(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                       const struct spp_calib *calib, enum spp_collective op, const struct spp_placement *p,
                       double bytes) {
  double steps = op == SPP_SEND_RECV ? 0 : (double)(p->local - 1);
  double ring;
  if (p->local <= 1) return 0;
  if (!p->fast) { /* a machine whose pairs are slower than a good host's send_recv is slower in every
                     operation */
    double good = calib->pcie[SPP_SEND_RECV].link_share * gpu->pcie_bytes_per_s,
           pair = cluster->link_bytes_per_s;
    double slow = cluster->fabric == SPP_FABRIC_PCIE && pair > 0 && pair < good ? pair / good : 1;
    return line_s(&calib->pcie[op], steps, bytes, slow * gpu->pcie_bytes_per_s);
  }
  ring = line_s(&calib->link[op], steps, bytes, gpu->link_bytes_per_s);
  if (op != SPP_ALL_REDUCE || p->local < NVLS_MIN_RANKS || !cluster->in_switch_reduction ||
      calib->reduce_in_switch.link_share <= 0)
    return ring;
  return smaller(ring, line_s(&calib->reduce_in_switch, 0, bytes, gpu->link_bytes_per_s));
}

/* Bytes that cross one GPU's share of a boundary, and the share itself. The group has q members in each of k
 * units; all GPUs of a unit are at it at once, each in a group of its own or this one, so q members own q
 * shares. share: of one GPU; lone: what a single sender reaches when its neighbours are idle. */
struct boundary {
  double q, k, share, lone;
};

static double boundary_s(const struct spp_calib *calib, enum spp_collective op, double n,
                         const struct boundary *b, double bytes) {
  const struct spp_collective_fit *fit = &calib->network[op];
  double share = b->share, crossing = bytes, rate;
  switch (op) {
  case SPP_ALL_TO_ALL: /* every remote rank is reached over the own share: (n-q)/n of the tensor */
    crossing = bytes * (n - b->q) / (n - 1);
    break;
  case SPP_SEND_RECV: /* one pair crosses per boundary: it may use the idle shares of its neighbours, up to
                         one NIC */
    share = smaller(larger(b->lone, share), share * b->q);
    break;
  case SPP_ALL_GATHER:
  case SPP_REDUCE_SCATTER: /* multi-rail ring: (n-1)/n of the tensor crosses each boundary over q shares */
    share *= b->q;
    break;
  case SPP_ALL_REDUCE: /* reduced inside the unit first: 2 (k-1)/k of 1/q of the tensor per GPU */
    crossing = bytes * n / (n - 1) * (b->k - 1) / b->k / b->q;
    break;
  case SPP_COLLECTIVE_COUNT: break;
  }
  rate = fit->link_share * share;
  if (rate <= 0) return 0;
  return (crossing + sqrt(fit->half_bytes * crossing)) / rate;
}

/* Where the group's members sit among units of `gpus` GPUs. False: all in one. */
static bool spans(const struct spp_placement *p, int64_t gpus, int64_t stride, struct boundary *b) {
  int64_t members = members_in(gpus, p->ranks, spp_max64(1, stride));
  b->q = (double)members;
  b->k = (double)spp_ceil_div(p->ranks, members);
  return b->k > 1;
}

static double network_hops(enum spp_collective op, double units) {
  return op == SPP_ALL_REDUCE ? 2 * log2(units) : units - 1;
}

/* Latency of a trip over the network: one message for send_recv; for all-to-all one, and a1 for each other
 * that the same rank posts; ring steps between nodes for gather-like operations, a tree for all-reduce. The
 * hop of the fit is scaled on slower fabrics by their message latency. */
static double network_latency_s(const struct spp_cluster *cluster, const struct spp_calib *calib,
                                enum spp_collective op, const struct spp_placement *p, int64_t stride) {
  const struct spp_collective_fit *fit = &calib->network[op];
  double message = cluster->nic_latency_s > 0 ? cluster->nic_latency_s : hop_fit_message_s;
  bool alone = op == SPP_SEND_RECV || op == SPP_ALL_TO_ALL;
  double farther = 0;
  struct boundary b;
  for (int i = 0; i < cluster->level_count && spans(p, cluster->levels[i].gpus, stride, &b); i++)
    farther += cluster->levels[i].latency_s * (alone ? 1 : network_hops(op, b.k));
  double others = op == SPP_ALL_TO_ALL ? larger(0, (double)(p->ranks - p->local - 1)) : 0;
  if (alone) return fit->a0_s + message + fit->a1_s * others + farther;
  return fit->a0_s +
         fit->a1_s * network_hops(op, (double)p->domains) * larger(1, message / hop_fit_message_s) + farther;
}

/* Every level works at once on different parts of the tensor; the slowest sets the pace. */
static double network_s(const struct spp_cluster *cluster, const struct spp_calib *calib,
                        enum spp_collective op, const struct spp_placement *p, int64_t stride, double bytes) {
  double n = (double)p->ranks, spine = larger(1, cluster->spine_oversubscription);
  struct boundary b = {(double)p->local, (double)p->domains, cluster->nic_bytes_per_s_per_gpu / spine,
                       cluster->nic_bytes_per_s / spine};
  double slowest = boundary_s(calib, op, n, &b, bytes);
  for (int i = 0; i < cluster->level_count && spans(p, cluster->levels[i].gpus, stride, &b); i++) {
    b.share = cluster->nic_bytes_per_s_per_gpu / spine / cluster->levels[i].oversubscription;
    b.lone = cluster->nic_bytes_per_s / spine;
    slowest = larger(slowest, boundary_s(calib, op, n, &b, bytes));
  }
  return slowest;
}

/* A gather's ring visits every rank, n - 1 steps of which k - 1 cross the network (NVIDIA/nccl
 * src/graph/tuning.cc: nsteps and nInterSteps): the steps inside the other nodes, beside those of one. */
static double ring_detour_s(const struct spp_calib *calib, enum spp_collective op,
                            const struct spp_placement *p) {
  const struct spp_collective_fit *fit = p->fast ? &calib->link[op] : &calib->pcie[op];
  return fit->a1_s * (double)((p->local - 1) * (p->domains - 1));
}

double spp_collective_s(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                        const struct spp_calib *calib, enum spp_collective op, int64_t ranks, int64_t stride,
                        double sent_bytes) {
  struct spp_placement p;
  double inside, inside_bytes = sent_bytes;
  if (ranks <= 1 || sent_bytes <= 0) return 0;
  spp_placement_resolve(gpu, cluster, ranks, stride, &p);
  if (p.domains <= 1) return inside_s(gpu, cluster, calib, op, &p, sent_bytes);
  if (op == SPP_ALL_TO_ALL) inside_bytes *= (double)(p.local - 1) / (double)(ranks - 1);
  inside = op == SPP_SEND_RECV ? 0 : inside_s(gpu, cluster, calib, op, &p, inside_bytes);
  if (op == SPP_ALL_GATHER || op == SPP_REDUCE_SCATTER) inside += ring_detour_s(calib, op, &p);
  /* The links inside work at once with the network, on other parts of the tensor. */
  return network_latency_s(cluster, calib, op, &p, stride) +
         larger(inside, network_s(cluster, calib, op, &p, stride, sent_bytes));
}

/* Of `whole` bytes of copies, `copies` a token, spread evenly over k units: those that are left when each
 * token goes to a unit once. */
static double distinct_copies(double whole, double k, double copies) {
  return whole / copies * k * (1 - pow(1 - 1 / k, copies));
}

static double crossing_copies(double whole, double k, double copies) {
  return distinct_copies(whole, k, copies) * (k - 1) / k;
}

double spp_relayed_exchange_s(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                              const struct spp_calib *calib, int64_t ranks, int64_t stride, double sent_bytes,
                              double copies) {
  struct spp_placement p;
  spp_placement_resolve(gpu, cluster, ranks, stride, &p);
  if (copies <= 1 || sent_bytes <= 0)
    return spp_collective_s(gpu, cluster, calib, SPP_ALL_TO_ALL, ranks, stride, sent_bytes);
  double q = (double)p.local, n = (double)p.ranks;
  double whole = sent_bytes * n / (n - 1); /* every routed copy, those that stay included */
  /* A rank that has several of a token's experts gets it once (NVIDIA/Megatron-LM core 0.15.0
   * transformer/moe/fused_a2a.py FusedDispatch: is_token_in_rank) and copies it. */
  double inside =
      inside_s(gpu, cluster, calib, SPP_ALL_TO_ALL, &p, distinct_copies(whole, n, copies) * (q - 1) / q);
  if (p.domains <= 1) return inside;
  /* Each crossing copy uses the share of its sender, as ring traffic between nodes does. */
  double rate = calib->network[SPP_ALL_GATHER].link_share * cluster->nic_bytes_per_s_per_gpu /
                larger(1, cluster->spine_oversubscription);
  double slowest = larger(inside, rate > 0 ? crossing_copies(whole, (double)p.domains, copies) / rate : 0);
  struct boundary b;
  for (int i = 0; i < cluster->level_count && spans(&p, cluster->levels[i].gpus, stride, &b) && rate > 0; i++)
    slowest =
        larger(slowest, crossing_copies(whole, b.k, copies) * cluster->levels[i].oversubscription / rate);
  return network_latency_s(cluster, calib, SPP_ALL_TO_ALL, &p, stride) + slowest;
}
