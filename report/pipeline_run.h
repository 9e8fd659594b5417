/* The order in which a pipeline runs its micro-batches, on the clock: what pictures of a step are drawn from.
 */
#ifndef SPP_REPORT_PIPELINE_RUN_H
#define SPP_REPORT_PIPELINE_RUN_H

#include "model/layout.h"

enum spp_order { SPP_ORDER_1F1B, SPP_ORDER_INTERLEAVED, SPP_ORDER_GPIPE, SPP_ORDER_ZB_H1, SPP_ORDER_ZB_H2 };
const char *spp_order_name(enum spp_order order);

/* Forward or backward of one micro-batch through one chunk of a stage's layers; of a zero-bubble order also
 * its weight gradients, which wait for nothing but that backward. */
struct spp_task {
  bool backward, weights; /* weights: then neither forward nor backward */
  int64_t chunk, micro_batch;
  double start_s, end_s;
};
/* What to run: pp stages of `chunks` chunks each, m micro-batches; forward_s and backward_s are one
 * micro-batch of the slowest stage, weights_s its weight gradients where they are apart from the backward (0
 * else); bubble_s is how long that stage waits in all. */
struct spp_pipeline {
  enum spp_order order;
  int64_t pp, chunks, m, slowest;
  double forward_s, backward_s, bubble_s, weights_s;
};
struct spp_pipeline_run {
  struct spp_pipeline pipeline; /* one chunk and 1F1B where the interleaved order cannot run */
  double speed;    /* time of the other stages over the slowest one's, such that the slowest waits bubble_s */
  double length_s; /* m (forward_s + backward_s + weights_s) + bubble_s */
  int64_t per_stage;
  struct spp_task *tasks; /* stage by stage, in order */
};
/* Stages wait for what they need: a forward for the one before it, a backward for the one after it. Orders:
 * NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py; zero bubble: sail-sg/zero-bubble-pipeline-
 * parallelism, H1 and H2 of its README: weight gradients fill the gaps, and are due when as many
 * micro-batches are held as the schedule has memory for. H2 has no barrier at the optimizer: each stage's
 * times count from the beginning of its own step. SPP_ERR_USAGE when there are more tasks than can be drawn.
 * Free with spp_pipeline_run_free. */
enum spp_status spp_pipeline_run_build(const struct spp_pipeline *pipeline, struct spp_pipeline_run *schedule,
                                       struct spp_diag *diag);
void spp_pipeline_run_free(struct spp_pipeline_run *schedule);

#endif
