/* Inside spp_alloc_explain: matches are ordered by how likely they are to be a coincidence. */
#ifndef SPP_PLANNER_ALLOC_INTERNAL_H
#define SPP_PLANNER_ALLOC_INTERNAL_H

#include "planner/alloc.h"

enum { SPP_ALLOC_MAX = 64 };

struct spp_alloc_hunt {
  const struct spp_job *job;
  const struct spp_layout *layout;
  struct spp_geometry geometry;
  int64_t asked_bytes;
  double tolerance_bytes; /* half of the last digit the question was quoted to */
  int count, max;
  struct spp_alloc_match matches[SPP_ALLOC_MAX];
  double surprise[SPP_ALLOC_MAX]; /* ascending */
};

/* Half a unit of the last digit somebody quoted: "49 GiB" is +-0.5 GiB, "58.15 GiB" +-0.005 GiB (torch prints
 * GiB, MiB or KiB with two decimals), a byte count +-256 (the allocator rounds to 512). */
double spp_alloc_tolerance(int64_t bytes);

/* Consider a tensor whose size the job knows. candidates: how many others of its sort were tried at once,
 * each of which could have hit by chance; prior: more than 1 for sorts that are rarely the answer. Far-off
 * ones are kept last, by ratio.
 */
void spp_alloc_offer(struct spp_alloc_hunt *hunt, const struct spp_alloc_match *match, double candidates,
                     double prior);

/* Consider a tensor whose size was solved for; chance: as spp_alloc_solve says. */
void spp_alloc_offer_solved(struct spp_alloc_hunt *hunt, const struct spp_alloc_match *match, double chance,
                            double prior);

/* Tensors with a dimension nobody told us: solve for it. `unit` bytes per step of that dimension. Returns the
 * nearest whole number, or a strongly round one inside the tolerance, and the chance that one as round lies
 * there; 0 when no whole number does. */
int64_t spp_alloc_solve(const struct spp_alloc_hunt *hunt, int64_t unit, double *chance);

/* The two sources of candidates. */
void spp_alloc_try_ledger(struct spp_alloc_hunt *hunt, struct spp_ledger *ledger);
void spp_alloc_try_families(struct spp_alloc_hunt *hunt);

#endif
