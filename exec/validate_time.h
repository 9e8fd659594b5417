/* The clock of a case: what the model predicts on a measured machine, and whether the machine was quiet
 * enough to hold the run against it. */
#ifndef SPP_EXEC_VALIDATE_TIME_H
#define SPP_EXEC_VALIDATE_TIME_H

#include "exec/calib.h"
#include "exec/host.h"
#include "exec/validate.h"

/* What one rank tells about its time. */
struct spp_validate_clock {
  double step_s[SPP_VALIDATE_MAX_STEPS];
  double work_s[SPP_VALIDATE_MAX_STEPS]; /* processor time of the rank's thread */
  struct spp_host_use before, after;     /* the training alone */
  int64_t process;
  char host[SPP_HOST_NAME], machine[SPP_HOST_NAME];
};
void spp_validate_clock_start(struct spp_validate_clock *clock);
void spp_validate_clock_stop(struct spp_validate_clock *clock);
/* What happens between the two belongs to the step. */
void spp_validate_clock_run(struct spp_validate_clock *clock, const struct spp_endpoint *end, int64_t step);
void spp_validate_clock_pause(struct spp_validate_clock *clock, const struct spp_endpoint *end, int64_t step);

/* Fills result->time from the clocks of `ranks` ranks. */
void spp_validate_judge_time(const struct spp_exec_plan *plan, const struct spp_validate_hardware *hardware,
                             const struct spp_validate_clock *const *clocks, int ranks, int64_t steps,
                             struct spp_validate_result *result);

#endif
