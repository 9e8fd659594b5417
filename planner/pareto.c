#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search_internal.h"

int spp_place_compare(const struct spp_place *a, const struct spp_place *b) {
  if (a->framework != b->framework) return a->framework < b->framework ? -1 : 1;
  if (a->cell != b->cell) return a->cell < b->cell ? -1 : 1;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  return (a->micro > b->micro) - (a->micro < b->micro);
}

int spp_candidate_compare(const void *a, const void *b) {
  const struct spp_candidate *x = a, *y = b;
  if (x->risky != y->risky) return x->risky ? 1 : -1;
  if (x->score != y->score) return x->score < y->score ? -1 : 1;
  if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
  if (x->device_bytes != y->device_bytes) return x->device_bytes < y->device_bytes ? -1 : 1;
  if (x->complexity != y->complexity) return x->complexity < y->complexity ? -1 : 1;
  return spp_place_compare(&x->place, &y->place);
}

/* Is x the one to take rather than y, scores being equal enough? */
static bool simpler(const struct spp_candidate *x, const struct spp_candidate *y) {
  if (x->complexity != y->complexity) return x->complexity < y->complexity;
  if (x->device_bytes != y->device_bytes) return x->device_bytes < y->device_bytes;
  return spp_candidate_compare(x, y) < 0;
}

/* Somebody in [first, end) is faster and smaller than candidate i. */
static bool beaten(const struct spp_candidate *candidates, size_t first, size_t end, size_t i,
                   const bool *taken, int framework) {
  for (size_t j = first; j < end; j++) {
    if (taken[j] || (framework >= 0 && candidates[j].place.framework != framework)) continue;
    if (candidates[j].step_s < candidates[i].step_s &&
        candidates[j].device_bytes < candidates[i].device_bytes)
      return true;
  }
  return false;
}

/* The best of those left from `first` on; n when none is left. */
static size_t take_best(const struct spp_candidate *candidates, size_t n, int framework, size_t first,
                        const bool *taken) {
  size_t best = n, end = first;
  double limit = candidates[first].score * (1 + SPP_TIE);
  while (end < n && candidates[end].risky == candidates[first].risky && candidates[end].score <= limit)
    end++;
  for (size_t i = first; i < end; i++) {
    if (taken[i] || (framework >= 0 && candidates[i].place.framework != framework)) continue;
    if (best < n && !simpler(&candidates[i], &candidates[best])) continue;
    if (!beaten(candidates, first, end, i, taken, framework)) best = i;
  }
  return best;
}

int spp_rank(const struct spp_candidate *candidates, size_t n, int framework, int count, size_t *out,
             bool *taken) {
  size_t first = 0;
  int picked = 0;
  while (picked < count) {
    while (first < n && (taken[first] || (framework >= 0 && candidates[first].place.framework != framework)))
      first++;
    if (first == n) break;
    size_t best = take_best(candidates, n, framework, first, taken);
    if (best == n) break;
    taken[best] = true;
    out[picked++] = best;
  }
  return picked;
}

static int compare_time(const void *a, const void *b) {
  const struct spp_candidate *x = *(const struct spp_candidate *const *)a,
                             *y = *(const struct spp_candidate *const *)b;
  if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
  if (x->device_bytes != y->device_bytes) return x->device_bytes < y->device_bytes ? -1 : 1;
  if (x->complexity != y->complexity) return x->complexity < y->complexity ? -1 : 1;
  return spp_place_compare(&x->place, &y->place);
}

/* All indices of the front, fastest first; NULL when out of memory. */
static size_t *whole_front(const struct spp_candidate *candidates, size_t n, int *count) {
  const struct spp_candidate **order = malloc((n + 1) * sizeof *order);
  size_t *front = malloc((n + 1) * sizeof *front);
  int64_t smallest = INT64_MAX;
  *count = 0;
  if (!order || !front) {
    free(order);
    free(front);
    return NULL;
  }
  for (size_t i = 0; i < n; i++)
    order[i] = &candidates[i];
  size_t sorted = 1; /* by score is by time already, unless the objective is memory */
  while (sorted < n && compare_time(&order[sorted - 1], &order[sorted]) <= 0)
    sorted++;
  if (sorted < n) qsort(order, n, sizeof *order, compare_time);
  for (size_t i = 0; i < n; i++) {
    if (order[i]->device_bytes >= smallest) continue;
    smallest = order[i]->device_bytes;
    front[(*count)++] = (size_t)(order[i] - candidates);
  }
  free(order);
  return front;
}

static int thin(size_t *front, int count, size_t *out, int max) {
  if (count <= max) {
    memcpy(out, front, (size_t)count * sizeof *out);
    return count;
  }
  for (int i = 0; i < max; i++)
    out[i] = front[(int64_t)i * (count - 1) / (max - 1)];
  return max;
}

int spp_pareto(const struct spp_candidate *candidates, size_t n, size_t *out, int max) {
  int count;
  size_t *front = whole_front(candidates, n, &count);
  if (!front) return -1;
  count = thin(front, count, out, max);
  free(front);
  return count;
}

/* ---- what earlier cells teach later ones ---- */

bool spp_known_fill(struct spp_known *known, const struct spp_candidate *candidates, size_t n, int top) {
  int count;
  size_t *front = whole_front(candidates, n, &count);
  known->front_s = malloc((size_t)(count + 1) * sizeof *known->front_s);
  known->front_bytes = malloc((size_t)(count + 1) * sizeof *known->front_bytes);
  bool filled = front && known->front_s && known->front_bytes;
  for (int i = 0; filled && i < count; i++) {
    known->front_s[i] = candidates[front[i]].step_s;
    known->front_bytes[i] = candidates[front[i]].device_bytes;
  }
  free(front);
  known->front_count = filled ? count : 0;
  const struct spp_candidate *last = n >= (size_t)top && top > 0 ? &candidates[top - 1] : NULL;
  known->worst_top[0] = last && !last->risky ? last->score : INFINITY;
  known->worst_top[1] = !last ? INFINITY : last->risky ? last->score : -INFINITY;
  for (int f = 0; f < SPP_MAX_FRAMEWORKS; f++)
    known->best[0][f] = known->best[1][f] = INFINITY;
  for (size_t i = n; i-- > 0;) {
    int f = candidates[i].place.framework;
    known->best[1][f] = candidates[i].risky ? candidates[i].score : -INFINITY;
    if (!candidates[i].risky) known->best[0][f] = candidates[i].score;
  }
  return filled;
}

static bool behind(double score, double known) {
  return known == -INFINITY || score > known * (1 + SPP_TIE);
}

bool spp_known_hopeless(const struct spp_known *known, int framework, bool risky, double score, double step_s,
                        int64_t device_bytes) {
  int low = 0, high = known->front_count; /* members below low are faster than step_s */
  if (!behind(score, known->worst_top[risky]) || !behind(score, known->best[risky][framework])) return false;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (known->front_s[middle] < step_s)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && known->front_bytes[low - 1] <= device_bytes;
}
