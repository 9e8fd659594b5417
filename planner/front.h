/* What can be traded for what: plans that no other beats in step time, memory, GPUs and cost at once. */
#ifndef SPP_PLANNER_FRONT_H
#define SPP_PLANNER_FRONT_H

#include <stddef.h>
#include <stdint.h>

enum { SPP_MAX_ALLOCATIONS = 32 }; /* counts of GPUs that are tried of one type */

struct spp_front_point {
  double step_s;
  int64_t device_bytes, gpus;
  double usd_per_million_tokens; /* 0 of all where one has no price */
  size_t plan;                   /* whose it is; breaks ties */
};
/* Plans of the points that no other point beats: one at least as good in all four and better in one. Of equal
 * points the first. Fastest first, thinned evenly to `max` with both ends kept. Sorts the points. */
int spp_front(struct spp_front_point *points, size_t count, size_t *plans, int max);

/* Counts of GPUs to try where up to `gpus` may be used: those of 1 to 8, then of whole nodes in counts of 2^a
 * and 3 x 2^a, that are a 64th of `gpus` or more, and `gpus` itself; ascending. Returns how many, at most
 * SPP_MAX_ALLOCATIONS. */
int spp_allocations(int64_t gpus, int64_t gpus_per_node, int64_t counts[SPP_MAX_ALLOCATIONS]);
/* The count after `gpus` in that order, from 0 on. */
int64_t spp_allocation_next(int64_t gpus, int64_t gpus_per_node);

#endif
