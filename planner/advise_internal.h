/* Inside the advisers: one change to a plan, judged and predicted. */
#ifndef SPP_PLANNER_ADVISE_INTERNAL_H
#define SPP_PLANNER_ADVISE_INTERNAL_H

#include "base/status.h"
#include "planner/advise.h"

/* A list of lines under construction. */
struct spp_advice_list {
  struct spp_advice *items;
  int count, max;
};
void spp_advice_add(struct spp_advice_list *list, const char *code, const char *fmt, ...) SPP_PRINTF(3, 4);

/* What comes of one change. */
struct spp_outcome {
  bool legal;
  struct spp_violation violation; /* when not legal */
  bool feasible;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_prediction prediction; /* when legal */
  double speed;                     /* tokens/s over the plan's, minus 1 */
  int64_t saved_bytes;              /* device bytes of the plan minus the new ones */
};

/* Complete the request on the plan's GPUs (micro-batch lowered until it divides), judge, predict. False when
 * the degrees make no layout at all. */
bool spp_outcome_try(const struct spp_plan *plan, const struct spp_job *job,
                     const struct spp_request *request, struct spp_outcome *outcome);

/* Fits with good odds (8 in 10), or better ones than the plan has. */
bool spp_outcome_likely(const struct spp_plan *plan, const struct spp_outcome *outcome);

/* The kinds of change: `apply` edits job and request for `arg` and writes words ("chunked loss"); false when
 * it does not apply to the plan. */
struct spp_change {
  const char *code;
  bool (*apply)(const struct spp_plan *plan, int64_t arg, struct spp_job *job, struct spp_request *request,
                char *words, size_t size);
  int64_t arg;
};
/* Apply and try one. */
bool spp_change_try(const struct spp_plan *plan, const struct spp_change *change, char *words, size_t size,
                    struct spp_outcome *outcome);
extern const struct spp_change spp_changes_next[];
extern const int spp_changes_next_count;
extern const struct spp_change spp_changes_natural[];
extern const int spp_changes_natural_count;

/* "SP 8 = Ulysses 4 x ring 2", "no SP", "ring 8" */
const char *spp_sp_words(const struct spp_layout *layout, char *buf, size_t size);
/* "6 % faster", "12 % slower", "same speed" */
const char *spp_speed_words(double speed, char buf[32]);
/* "+3.2 GiB", "-310 MiB", "same memory" */
const char *spp_change_bytes(int64_t delta, char buf[32]);

#endif
