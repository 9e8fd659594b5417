#include "planner/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "planner/alloc_internal.h"

/* Is `bytes` what a person gets from writing it in `unit`s with this many decimals? */
static bool quoted(int64_t bytes, double unit, double scale) {
  double written = round((double)bytes / unit * scale) / scale;
  return fabs(written * unit - (double)bytes) <= 1;
}

double spp_alloc_tolerance(int64_t bytes) {
  static const double units[] = {1024.0 * 1024 * 1024, 1024.0 * 1024, 1024.0, 1e9, 1e6};
  for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
    if ((double)bytes < units[u]) continue;
    for (double scale = 1; scale <= 100; scale *= 10)
      if (quoted(bytes, units[u], scale)) return 0.5 * units[u] / scale;
  }
  return 256;
}

int64_t spp_alloc_solve(const struct spp_alloc_hunt *hunt, int64_t unit, double *chance) {
  double per = (double)unit, low = ((double)hunt->asked_bytes - hunt->tolerance_bytes) / per,
         high = ((double)hunt->asked_bytes + hunt->tolerance_bytes) / per;
  int64_t nearest = llround((double)hunt->asked_bytes / per);
  if (unit <= 0 || nearest < 1 || floor(high) < ceil(low)) return 0;
  double width = high - low;
  for (int64_t round_to = 1 << 20; round_to > 1; round_to /= 2) {
    int64_t round_one = llround((double)nearest / (double)round_to) * round_to;
    if (round_one < 1 || (double)round_one < low || (double)round_one > high) continue;
    *chance = fmin(1, width / (double)round_to);
    return *chance < 0.05 ? round_one : nearest;
  }
  *chance = 1;
  return nearest;
}

static bool same_tensor(const struct spp_alloc_match *a, const struct spp_alloc_match *b) {
  return a->bytes == b->bytes && a->dtype == b->dtype && a->dims == b->dims && a->shape[0] == b->shape[0];
}

static void remove_at(struct spp_alloc_hunt *hunt, int i) {
  size_t after = (size_t)(hunt->count - i - 1);
  memmove(&hunt->matches[i], &hunt->matches[i + 1], after * sizeof hunt->matches[0]);
  memmove(&hunt->surprise[i], &hunt->surprise[i + 1], after * sizeof hunt->surprise[0]);
  hunt->count--;
}

static void insert(struct spp_alloc_hunt *hunt, const struct spp_alloc_match *match, double surprise) {
  int at = 0;
  for (int i = 0; i < hunt->count; i++) {
    if (!same_tensor(&hunt->matches[i], match)) continue;
    if (hunt->surprise[i] <= surprise) return;
    remove_at(hunt, i);
    break;
  }
  while (at < hunt->count && hunt->surprise[at] <= surprise)
    at++;
  if (at >= hunt->max) return;
  if (hunt->count == hunt->max) hunt->count--;
  size_t after = (size_t)(hunt->count - at);
  memmove(&hunt->matches[at + 1], &hunt->matches[at], after * sizeof hunt->matches[0]);
  memmove(&hunt->surprise[at + 1], &hunt->surprise[at], after * sizeof hunt->surprise[0]);
  hunt->matches[at] = *match;
  hunt->surprise[at] = surprise;
  hunt->count++;
}

void spp_alloc_offer(struct spp_alloc_hunt *hunt, const struct spp_alloc_match *match, double candidates,
                     double prior) {
  struct spp_alloc_match offered = *match;
  if (offered.bytes <= 0) return;
  double off_bytes = fabs((double)(hunt->asked_bytes - offered.bytes)), asked = (double)hunt->asked_bytes;
  double window = 2 * hunt->tolerance_bytes / asked;
  offered.ratio = asked / (double)offered.bytes;
  double surprise = fmin(1, candidates * window) * prior;
  if (off_bytes > hunt->tolerance_bytes)
    surprise = 100 + fabs(log(offered.ratio)); /* no explanation, only a neighbour */
  else if (off_bytes <= 1)
    surprise *= 0.01; /* to the byte, though the question was rounder than that */
  else
    surprise *= 1 + off_bytes / hunt->tolerance_bytes * 0.01;
  insert(hunt, &offered, surprise);
}

void spp_alloc_offer_solved(struct spp_alloc_hunt *hunt, const struct spp_alloc_match *match, double chance,
                            double prior) {
  struct spp_alloc_match offered = *match;
  if (offered.bytes <= 0) return;
  offered.ratio = (double)hunt->asked_bytes / (double)offered.bytes;
  insert(hunt, &offered, fmin(1, chance) * prior);
}

int spp_alloc_explain(const struct spp_job *job, const struct spp_layout *layout, int64_t bytes,
                      struct spp_alloc_match *matches, int max) {
  return spp_alloc_explain_within(job, layout, bytes, spp_alloc_tolerance(bytes), matches, max);
}

int spp_alloc_explain_within(const struct spp_job *job, const struct spp_layout *layout, int64_t bytes,
                             double tolerance_bytes, struct spp_alloc_match *matches, int max) {
  struct spp_alloc_hunt *hunt = calloc(1, sizeof *hunt);
  struct spp_ledger *ledger = calloc(1, sizeof *ledger);
  int count = 0;
  if (hunt && ledger && bytes > 0 && max > 0) {
    hunt->job = job;
    hunt->layout = layout;
    hunt->asked_bytes = bytes;
    hunt->tolerance_bytes = fmax(256, tolerance_bytes);
    hunt->max = max < SPP_ALLOC_MAX ? max : SPP_ALLOC_MAX;
    spp_geometry_resolve(job, layout, &hunt->geometry);
    spp_alloc_try_families(hunt);
    spp_alloc_try_ledger(hunt, ledger);
    count = hunt->count;
    memcpy(matches, hunt->matches, (size_t)count * sizeof *matches);
  }
  free(hunt);
  free(ledger);
  return count;
}
