/* What one thing more, or less, would change: which limit of a plan is worth money. */
#ifndef SPP_PLANNER_SENSITIVITY_H
#define SPP_PLANNER_SENSITIVITY_H

#include "planner/search.h"

enum { SPP_MAX_SENSITIVITIES = 16 };

struct spp_sensitivity {
  char code[24]; /* "memory-more", "nic", "gpus-twice", "loss-fused" */
  char what[64]; /* "1 GiB more on each GPU" */
  bool searched; /* the best layout then; false: the plan's with this change alone */
  bool possible; /* there is a plan that fits then */
  char why_not[160];
  double speed;        /* tokens per second of the job then over now, minus 1 */
  double tokens_per_s; /* then */
  int64_t device_bytes;
  double usd_per_million_tokens; /* 0 = no price known */
  bool same_layout;
  char layout[240]; /* described */
};

/* Machine and limits are varied one at a time and the plan's framework is searched anew, under what the user
 * fixed; then the plan's own layout with another loss or recompute. For a layout that is given and not
 * searched, fix all of it in the options. A batch that follows the GPU count goes on following it. Rows that
 * make no sense for the plan are left out. Returns the count, at most `max`. */
int spp_sensitivities(const struct spp_search_options *options, const struct spp_plan *plan,
                      struct spp_sensitivity *rows, int max);

#endif
