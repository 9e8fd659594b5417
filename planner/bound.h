/* Lower bounds of a layout's step time and device memory, from far less than a prediction: what the search's
 * pruning rests on. Each is proven beside its code. */
#ifndef SPP_PLANNER_BOUND_H
#define SPP_PLANNER_BOUND_H

#include "model/layout.h"

/* What bounds take from a job once; the job's losses share it. */
struct spp_bound {
  const struct spp_job *job;
  double device_s[SPP_RECOMPUTE_COUNT][2]; /* matrix products and attention of a step, spread evenly over all
                                              GPUs; [1]: with attention in a ring */
  double host_s_per_byte; /* of optimizer states that one GPU of a node keeps in host memory */
  double real_tokens;     /* of a step */
};
void spp_bound_prepare(const struct spp_job *job, struct spp_bound *bound);

/* Seconds no prediction of this layout falls below. */
double spp_bound_step_s(const struct spp_bound *bound, const struct spp_layout *layout);
/* Of them, those of an optimizer step on the host: it adds to whatever layers and pipeline take. */
double spp_bound_host_s(const struct spp_bound *bound, const struct spp_layout *layout);
/* Device bytes no prediction of this layout falls below. */
int64_t spp_bound_device_bytes(const struct spp_bound *bound, const struct spp_layout *layout);
/* Device bytes that the layout's offload frees at most, against the same layout without; INT64_MAX = unknown.
 */
int64_t spp_bound_freed_bytes(const struct spp_bound *bound, const struct spp_layout *layout);

#endif
