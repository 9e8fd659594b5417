/* The order in which a pipeline runs its micro-batches, on the clock: what pictures of a step are drawn from.
 */
#ifndef SPP_REPORT_PIPELINE_RUN_H
#define SPP_REPORT_PIPELINE_RUN_H

#include "model/layout.h"

enum spp_order { SPP_ORDER_1F1B, SPP_ORDER_INTERLEAVED, SPP_ORDER_GPIPE };
const char *spp_order_name(enum spp_order order);

/* Forward or backward of one micro-batch through one chunk of a stage's layers. */
struct spp_task {
  bool backward;
  int64_t chunk, micro_batch;
  double start_s, end_s;
};
/* What to run: pp stages of `chunks` chunks each, m micro-batches; forward_s and backward_s are one
 * micro-batch of the slowest stage; bubble_s is how long that stage waits in all. */
struct spp_pipeline {
  enum spp_order order;
  int64_t pp, chunks, m, slowest;
  double forward_s, backward_s, bubble_s;
};
struct spp_pipeline_run {
  struct spp_pipeline pipeline; /* one chunk and 1F1B where the interleaved order cannot run */
  double speed;    /* time of the other stages over the slowest one's, such that the slowest waits bubble_s */
  double length_s; /* m (forward_s + backward_s) + bubble_s */
  int64_t per_stage;
  struct spp_task *tasks; /* stage by stage, in order */
};
/* Stages wait for what they need: a forward for the one before it, a backward for the one after it. Orders:
 * NVIDIA/ Megatron-LM megatron/core/pipeline_parallel/schedules.py. A zero-bubble schedule is drawn as 1F1B
 * with its shorter bubble. SPP_ERR_USAGE when there are more tasks than can be drawn. Free with
 * spp_pipeline_run_free. */
enum spp_status spp_pipeline_run_build(const struct spp_pipeline *pipeline, struct spp_pipeline_run *schedule,
                                       struct spp_diag *diag);
void spp_pipeline_run_free(struct spp_pipeline_run *schedule);

#endif
