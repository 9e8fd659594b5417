#include "planner/front.h"

#include <stdbool.h>
#include <stdlib.h>

enum { PART = 64 };

static int order(double a, double b) {
  return (a > b) - (a < b);
}

static int compare_points(const void *a, const void *b) {
  const struct spp_front_point *x = a, *y = b;
  if (x->step_s != y->step_s) return order(x->step_s, y->step_s);
  if (x->device_bytes != y->device_bytes) return x->device_bytes < y->device_bytes ? -1 : 1;
  if (x->gpus != y->gpus) return x->gpus < y->gpus ? -1 : 1;
  if (x->usd_per_million_tokens != y->usd_per_million_tokens)
    return order(x->usd_per_million_tokens, y->usd_per_million_tokens);
  return (x->plan > y->plan) - (x->plan < y->plan);
}

/* x comes before y, so it is at least as fast. */
static bool beats(const struct spp_front_point *x, const struct spp_front_point *y) {
  return x->device_bytes <= y->device_bytes && x->gpus <= y->gpus &&
         x->usd_per_million_tokens <= y->usd_per_million_tokens;
}

int spp_front(struct spp_front_point *points, size_t count, size_t *plans, int max) {
  size_t members = 0;
  qsort(points, count, sizeof *points, compare_points);
  for (size_t i = 0; i < count; i++) { /* members move to the front of the array */
    bool beaten = false;
    for (size_t j = 0; j < members && !beaten; j++)
      beaten = beats(&points[j], &points[i]);
    if (!beaten) points[members++] = points[i];
  }
  size_t kept = members < (size_t)max ? members : (size_t)max;
  for (size_t i = 0; i < kept; i++)
    plans[i] = points[kept < 2 ? i : i * (members - 1) / (kept - 1)].plan;
  return (int)kept;
}

int64_t spp_allocation_next(int64_t gpus, int64_t gpus_per_node) {
  int64_t node = gpus_per_node > 0 ? gpus_per_node : 1;
  if (gpus < 8) return gpus + 1;
  for (int64_t nodes = gpus / node + 1;; nodes++) {
    int64_t odd = nodes;
    while (odd % 2 == 0)
      odd /= 2;
    if (odd <= 3) return nodes * node;
  }
}

int spp_allocations(int64_t gpus, int64_t gpus_per_node, int64_t counts[SPP_MAX_ALLOCATIONS]) {
  int count = 0;
  for (int64_t n = 1; n < gpus && count < SPP_MAX_ALLOCATIONS - 1; n = spp_allocation_next(n, gpus_per_node))
    if (n >= gpus / PART) counts[count++] = n;
  counts[count++] = gpus;
  return count;
}
