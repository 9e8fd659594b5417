/* Time of one collective: GPUs on a fast link (or PCIe) inside a domain, NICs between domains, and, where the
 * cluster has them, wider units with less bandwidth between them (rail groups, pods). Form inside: t = a0 +
 * a1 (n-1) + V/B (1 + sqrt(V0/V)), fitted on nccl-tests tables (ai-dynamo/aiconfigurator). Between nodes: the
 * NIC term of the hierarchical algorithm of NVIDIA/nccl src/graph/tuning.cc, each GPU owning its share of the
 * node's NICs. */
#ifndef SPP_MODEL_COLLECTIVE_H
#define SPP_MODEL_COLLECTIVE_H

#include "model/calib.h"

/* Where the members of a group sit: `ranks` of them, `stride` apart in global rank order. */
struct spp_placement {
  int64_t ranks;
  int64_t local;   /* members in one fast domain (at least 1) */
  int64_t domains; /* domains the group touches */
  bool fast;       /* the members of one domain talk over the fast link */
};
void spp_placement_resolve(const struct spp_gpu *gpu, const struct spp_cluster *cluster, int64_t ranks,
                           int64_t stride, struct spp_placement *placement);

/* Seconds of one event. sent_bytes leave each GPU: all-gather and reduce-scatter (n-1)/n of the whole tensor,
 * all-reduce 2 (n-1)/n, all-to-all (n-1)/n of the local tensor, send_recv the message. One rank costs
 * nothing. */
double spp_collective_s(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                        const struct spp_calib *calib, enum spp_collective op, int64_t ranks, int64_t stride,
                        double sent_bytes);

/* All-to-all of routed tokens by a dispatcher that sends a token once to each node and forwards it there to
 * the experts that want it (deepseek-ai/DeepEP). copies: experts per token, spread evenly: of k nodes each is
 * reached by 1 - (1 - 1/k)^copies of the tokens. sent_bytes as above. */
double spp_relayed_exchange_s(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                              const struct spp_calib *calib, int64_t ranks, int64_t stride, double sent_bytes,
                              double copies);

#endif
