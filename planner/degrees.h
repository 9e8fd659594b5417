/* Legal SP, TP and EP degrees of a model under a framework, each illegal one with its rule. */
#ifndef SPP_PLANNER_DEGREES_H
#define SPP_PLANNER_DEGREES_H

#include "model/layout.h"

struct spp_degree {
  int64_t degree, ulysses, ring; /* ulysses x ring: the framework's own split (SP only) */
  bool legal;
  char rule[48];
  char text[320];
};
enum { SPP_MAX_DEGREES = 64 };
struct spp_degrees {
  int sp_count, tp_count, ep_count;
  struct spp_degree sp[SPP_MAX_DEGREES], tp[SPP_MAX_DEGREES], ep[SPP_MAX_DEGREES];
};
/* job->gpus 0: head rules only, degrees 1..64; else world size counts too and degrees stop at the GPUs. kind:
 * SPP_UNSET = the framework's. */
void spp_degrees_list(const struct spp_job *job, int sp_kind, struct spp_degrees *degrees);

#endif
