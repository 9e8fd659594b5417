/* One step of a prediction as slices on lanes: the trace and the picture of a report are drawn from it. Every
 * second is one of the time model's: nothing is measured, and nothing is added. */
#ifndef SPP_REPORT_TIMELINE_H
#define SPP_REPORT_TIMELINE_H

#include "model/predict.h"
#include "report/pipeline_run.h"

enum spp_lane {
  SPP_LANE_SCHEDULE, /* forward and backward of micro-batches, bubbles */
  SPP_LANE_COMPUTE,
  SPP_LANE_ATTENTION,
  SPP_LANE_COMM, /* + enum spp_group */
  SPP_LANE_OFFLOAD = SPP_LANE_COMM + SPP_GROUP_COUNT,
  SPP_LANE_OPTIMIZER,
  SPP_LANE_HOST,
  SPP_LANE_COUNT
};
const char *spp_lane_name(enum spp_lane lane);

struct spp_slice {
  int process; /* index into process_stage */
  enum spp_lane lane;
  const char *what;    /* "forward", "bubble", "q"; static */
  int64_t micro_batch; /* -1: none */
  int64_t layer;       /* of those of the chunk; -1: all, or none */
  int piece, pieces;   /* ring hop or attention block; pieces 0: undivided */
  double start_s, dur_s;
  double exposed_s; /* what of it nothing hides: communication lanes */
};
enum { SPP_TIMELINE_PROCESSES = 4 };
struct spp_timeline {
  struct spp_slice *slices;
  int64_t count, capacity;
  int process_count;
  int64_t process_stage[SPP_TIMELINE_PROCESSES]; /* pipeline ranks drawn, ascending */
  int slowest;                                   /* the process whose lanes sum to the predicted parts */
  enum spp_order order;
  double speed; /* of the other stages: see struct spp_pipeline_run */
  int64_t stages,
      layered;     /* pipeline ranks in all; micro-batches drawn layer by layer, the rest pass by pass */
  double length_s; /* step_s */
};
/* The pipeline ranks drawn are the first, one in the middle, the last and the slowest. At most about `most`
 * slices come of drawing layers one by one. Errors: out of memory; SPP_ERR_USAGE, too many micro-batches to
 * draw. */
enum spp_status spp_timeline_build(const struct spp_job *job, const struct spp_layout *layout,
                                   const struct spp_prediction *prediction, int64_t most,
                                   struct spp_timeline *timeline, struct spp_diag *diag);
void spp_timeline_free(struct spp_timeline *timeline);

#endif
