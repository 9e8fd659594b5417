/* What this machine does: products, attention, memory-bound kernels and messages are measured by all ranks of
 * a backend at once, and the constants of the time model (docs/time.md) fitted to them. Kernels are timed by
 * the processor time of the thread that runs them, so that a program beside them costs little accuracy;
 * messages by the clock on the wall. */
#ifndef SPP_EXEC_CALIB_H
#define SPP_EXEC_CALIB_H

#include "exec/backend.h"
#include "model/calib.h"

enum { SPP_MEASURED_MAX = 256, SPP_FIT_ROWS = 32, SPP_FIT_CONSTANTS = 12, SPP_HOST_NAME = 64 };

enum spp_measured_what {
  SPP_MEASURED_GEMM,      /* size: m, n, k; variant 0 forward (B transposed), 1 dgrad, 2 wgrad (adds up) */
  SPP_MEASURED_ATTENTION, /* size: tokens, heads, head_dim; variant 0 forward, 1 backward; causal */
  SPP_MEASURED_MEMORY,    /* size: rows, width; variant: enum spp_memory_kernel, forward and backward */
  SPP_MEASURED_MESSAGE,   /* size: bytes one rank sends, ranks, 1 when each is on a host of its own; variant:
                             enum spp_collective */
  SPP_MEASURED_COUNT
};
const char *spp_measured_name(enum spp_measured_what what);

/* One point: `samples` times of one call, warm-up apart. */
struct spp_measured {
  enum spp_measured_what what;
  int variant;
  int64_t size[3];
  int samples;
  double median_s, mad_s; /* mad: median distance from the median */
};

/* Called by rank 0 while points are measured; done out of total. */
typedef void spp_calibrate_progress(void *context, int done, int total);

struct spp_calibrate_options {
  bool quick; /* fewer points: a second or so, for a check before a run */
  int ranks;
  double timeout_s;
  double max_spread; /* refuse to conclude when mad / median of a quarter of the points is above; 0: never */
  spp_calibrate_progress *progress; /* may be NULL */
  void *progress_context;
};

/* Constants of one form, fitted together. */
struct spp_fit_row {
  char section[24], name[32];
  int count, points;
  const char *keys[SPP_FIT_CONSTANTS];                         /* static */
  double values[SPP_FIT_CONSTANTS], errors[SPP_FIT_CONSTANTS]; /* error: one standard error; NAN: unknown */
  double median_error, p90_error;                              /* |fitted / measured - 1| over the points */
};

/* A machine as the model sees it: what `--cluster FILE` reads. */
struct spp_profile {
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_calib calib;
  int ranks, hosts;
  double spread;       /* upper quartile of mad / median */
  double others_share; /* of this host's processors, used by other programs meanwhile; negative: unknown */
  int point_count, fit_count;
  struct spp_measured points[SPP_MEASURED_MAX];
  struct spp_fit_row fits[SPP_FIT_ROWS];
};

/* Measures and fits. Under a backend of several processes all call this; only the leading one gets the
 * profile. SPP_ERR_TOLERANCE: the machine is not quiet enough to conclude. SPP_ERR_ABSENT: built without GSL.
 */
enum spp_status spp_calibrate(const struct spp_backend *backend, const struct spp_calibrate_options *options,
                              struct spp_profile *profile, struct spp_diag *diag);

#endif
