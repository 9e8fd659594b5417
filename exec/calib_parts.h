/* The parts of calib.c; not for others. */
#ifndef SPP_EXEC_CALIB_PARTS_H
#define SPP_EXEC_CALIB_PARTS_H

#include "exec/calib.h"
#include "exec/rank.h"

/* One rank's measuring. */
struct spp_meter {
  struct spp_rank *rank;
  const struct spp_kernels *kernels;
  const struct spp_calibrate_options *options;
  int ranks_here;  /* of one host; ranks follow each other host by host, as launchers lay them out */
  int done, total; /* points, for progress */
  int count;
  struct spp_measured *points; /* SPP_MEASURED_MAX */
};

/* What is timed; returns after `calls` calls. */
typedef enum spp_status spp_meter_call(void *context, int calls);
/* Adds a point. Kernels (`together` false): processor time of this thread. Messages: all ranks begin
 * together, wall time. */
enum spp_status spp_meter_time(struct spp_meter *m, struct spp_measured point, bool together,
                               spp_meter_call *call, void *context);

enum spp_status spp_meter_kernels(struct spp_meter *m);
enum spp_status spp_meter_messages(struct spp_meter *m);
int spp_meter_kernel_count(bool quick);
int spp_meter_message_count(const struct spp_meter *m);

/* Bytes per element that the time model counts for a kind of memory-bound kernel, forward and backward
 * together, fp32, and kernels it launches; elements are rows x width of the point. */
double spp_measured_bytes(int memory_kernel);
double spp_measured_launches(int memory_kernel);

/* Least squares of log(predicted / measured) under a soft-L1 loss. Constants are positive. */
struct spp_fit_problem {
  int constants, points;
  double start[SPP_FIT_CONSTANTS];
  const double *measured_s;
  double (*predicted_s)(const void *context, int point, const double *constants);
  const void *context;
};
/* SPP_ERR_ABSENT without GSL; SPP_ERR_INTERNAL when there are too few points. */
enum spp_status spp_fit_solve(const struct spp_fit_problem *problem, double *constants, double *errors,
                              struct spp_diag *diag);

/* Fills gpu, cluster, calib and fits from the points. */
enum spp_status spp_calib_conclude(struct spp_profile *profile, struct spp_diag *diag);

#endif
