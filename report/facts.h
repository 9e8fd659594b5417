/* Small facts about an answer that text, JSON and CSV all need. */
#ifndef SPP_REPORT_FACTS_H
#define SPP_REPORT_FACTS_H

#include "planner/advise.h"
#include "report/report.h"

enum { SPP_FACT_MODULES = 7 }; /* bits of SPP_RC_* */

/* The parts of a step, in the order they are shown; they sum to step_s. */
struct spp_time_part {
  const char *name;  /* "sp_exposed" */
  const char *label; /* "sequence parallel traffic, not hidden" */
  const char *words; /* "SP not hidden" */
  size_t offset;     /* of the double in struct spp_time */
};
extern const struct spp_time_part spp_time_parts[];
extern const int spp_time_part_count;
double spp_fact_time_part(const struct spp_time *time, int i);

bool spp_fact_has_ring(const struct spp_layout *layout);
/* Index of the layer kind with most layers. */
int spp_fact_common_kind(const struct spp_arch *arch);
/* Seconds for one pass over the data set named in the report; 0 when none was. */
double spp_fact_epoch_s(const struct spp_report *report, const struct spp_prediction *prediction);
/* Options without effect, then what is to be feared of the plan (may be NULL). */
int spp_fact_warnings(const struct spp_report *report, const struct spp_plan *plan, struct spp_advice *advice,
                      int max);
/* What nobody said: the planner's list after the GPU this machine was taken to have; with `intervals`, then
 * why these are wide. */
int spp_fact_assumed(const struct spp_report *report, const struct spp_plan *plan, bool intervals,
                     struct spp_advice *advice, int max);

/* Plan `index` is the best of a framework. */
bool spp_fact_best_of_framework(const struct spp_plan_report *answer, int index);

/* Communication of one kind over one kind of group, summed over a step. */
struct spp_comm_sum {
  enum spp_collective op;
  enum spp_group group;
  int64_t ranks;
  int64_t step_bytes, count;
  double time_s, exposed_s;
};
/* At most `max` sums, longest exposed first. Returns the count. */
int spp_fact_comm_sums(const struct spp_comm *comm, struct spp_comm_sum *sums, int max);

#endif
