/* Words about a plan: silent traps, next-best changes, why another layout lost. */
#ifndef SPP_PLANNER_ADVISE_H
#define SPP_PLANNER_ADVISE_H

#include "planner/search.h"

/* Every field of a layout as a request; dp and the accumulation follow from the rest. */
void spp_request_of(const struct spp_layout *layout, struct spp_request *request);

struct spp_advice {
  char code[48];  /* "dp-does-not-split-sequence" */
  char text[320]; /* one line with a number */
};
enum { SPP_MAX_ADVICE = 24 };
/* Warnings about the job and layout themselves (SP ignored, DP does not split a sequence, SP divides DP, LoRA
 * does not shrink activations, more positions than the model was trained for, arch assumptions ...). Returns
 * the count. */
int spp_advise_warnings(const struct spp_plan *plan, struct spp_advice *advice, int max);
/* Single changes worth knowing, each evaluated: "chunked loss: -3.2 GiB, same speed". Best first. */
int spp_advise_next(const struct spp_plan *plan, struct spp_advice *advice, int max);
/* Why the natural alternatives (no SP, more SP, other kinds, other ZeRO, no recompute) lost against the plan.
 */
int spp_advise_why_not(const struct spp_plan *plan, struct spp_advice *advice, int max);
/* Why the 80 % intervals are wide, where they are: "interval-framework", "interval-gpu", "interval-waits". */
int spp_advise_intervals(const struct spp_plan *plan, struct spp_advice *advice, int max);
/* The assumption list: values nobody gave. */
int spp_advise_assumed(const struct spp_job_spec *spec, const struct spp_plan *plan,
                       struct spp_advice *advice, int max);

#endif
