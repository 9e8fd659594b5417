/* Runs a training case for real and puts what was measured beside what is predicted: numbers against one
 * rank, memory part by part, bytes and messages op by op, time. */
#ifndef SPP_EXEC_VALIDATE_H
#define SPP_EXEC_VALIDATE_H

#include "exec/backend.h"
#include "exec/plan.h"
#include "exec/tally.h"

enum {
  SPP_VALIDATE_STEPS = 3,
  SPP_VALIDATE_MAX_STEPS = 16,
  SPP_VALIDATE_TRAFFIC = 96,
  SPP_VALIDATE_WORD = 40
};

/* The machine as measured by calibrate; without a gpu the time of a case is not judged, and `absent` says
 * why. */
struct spp_validate_hardware {
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  const struct spp_calib *calib;
  const char *absent;
};

struct spp_validate_case {
  const char *name;
  struct spp_exec_setting setting;
  int64_t steps;                                /* 1 to SPP_VALIDATE_MAX_STEPS */
  const struct spp_validate_hardware *hardware; /* may be NULL: time is measured, not judged */
  const struct spp_device *device; /* that all ranks work on, but the one they are compared with; NULL: the
                                      processor */
};

/* One kind of traffic, over all ranks and steps. */
struct spp_validate_traffic {
  enum spp_collective op;
  enum spp_group group;
  enum spp_pass pass;
  char what[SPP_VALIDATE_WORD];
  int64_t predicted_bytes, measured_bytes;
  int64_t predicted_messages, measured_messages;
};

struct spp_validate_result {
  struct {
    double loss, loss_rel_error; /* of the last step; the worst of all steps */
    double grad_rel_error;       /* worst element of any weight, against the weight's largest gradient */
    double output_rel_error;     /* same for the weights after the last step */
    uint64_t weights_digest;     /* of their bits on all ranks: equal runs have equal ones */
    double tolerance;
    bool ok;
  } numerics;
  struct {
    int64_t predicted_bytes, measured_bytes; /* most that is allocated at once on the worst rank */
    int64_t predicted_parts[SPP_PART_COUNT], measured_parts[SPP_PART_COUNT];
    enum spp_moment predicted_moment, measured_moment;
    /* of the leading process: most that its heaps held, and by how much what the system had given it grew;
     * 0: too little to tell, or unknown here */
    int64_t counted_bytes, resident_bytes;
    bool ok;
  } memory;
  struct {
    int64_t predicted_sent_bytes, measured_sent_bytes; /* all ranks and steps */
    int64_t predicted_messages, measured_messages;
    int count;
    struct spp_validate_traffic rows[SPP_VALIDATE_TRAFFIC];
    bool ok;
  } comm;
  struct {
    double predicted_s, low_s, high_s; /* of a step, and its 80 % interval; 0 without a profile */
    double measured_s;                 /* median over the steps after the first */
    double predicted_work_s; /* of a step: without waiting for other pipeline stages or for a processor */
    double measured_work_s;  /* processor time of the busiest rank, median: says more on a shared machine */
    bool inside;             /* the interval */
    bool judged;             /* false: the machine was not quiet, or no profile; then ok is true */
    bool ok;
    char why[96]; /* not judged */
  } time;
};

/* What of the case the backend cannot carry, in words; NULL: nothing. spp_validate_run refuses it. */
const char *spp_validate_lack(const struct spp_backend *backend, const struct spp_validate_case *c);

/* Runs the case on `backend`. Under a backend of several processes every process calls this and all get a
 * status, but only the leading one a result. The result is complete whether or not the checks in it are ok.
 */
enum spp_status spp_validate_run(const char *config_dir, const struct spp_backend *backend,
                                 const struct spp_validate_case *c, struct spp_validate_result *result,
                                 struct spp_diag *diag);

static inline bool spp_validate_ok(const struct spp_validate_result *r) {
  return r->numerics.ok && r->memory.ok && r->comm.ok && r->time.ok;
}

#endif
