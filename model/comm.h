/* Communication of one GPU, op by op. Bytes are what leaves the GPU. */
#ifndef SPP_MODEL_COMM_H
#define SPP_MODEL_COMM_H

#include "model/geometry.h"

enum spp_collective {
  SPP_ALL_TO_ALL,
  SPP_SEND_RECV,
  SPP_ALL_GATHER,
  SPP_REDUCE_SCATTER,
  SPP_ALL_REDUCE,
  SPP_COLLECTIVE_COUNT
};
enum spp_group {
  SPP_GROUP_ULYSSES,
  SPP_GROUP_RING,
  SPP_GROUP_TP,
  SPP_GROUP_PP,
  SPP_GROUP_DP,
  SPP_GROUP_EP,
  SPP_GROUP_COUNT
};
enum spp_pass { SPP_PASS_FORWARD, SPP_PASS_RECOMPUTE, SPP_PASS_BACKWARD, SPP_PASS_STEP, SPP_PASS_COUNT };
enum spp_per { SPP_PER_LAYER, SPP_PER_MICRO_BATCH, SPP_PER_STEP };
enum spp_overlap {
  SPP_OVERLAP_NONE,
  SPP_OVERLAP_ATTENTION,
  SPP_OVERLAP_GEMM,
  SPP_OVERLAP_BACKWARD,
  SPP_OVERLAP_FORWARD
};
const char *spp_collective_name(enum spp_collective op);
const char *spp_group_name(enum spp_group group);
const char *spp_pass_name(enum spp_pass pass);
const char *spp_per_name(enum spp_per per);
const char *spp_overlap_name(enum spp_overlap overlap);

struct spp_comm_op {
  enum spp_collective op;
  const char *what; /* "q", "kv block", "gradients"; static */
  enum spp_group group;
  int64_t ranks;
  int64_t stride; /* distance of neighbouring group members in global rank order: places the group on nodes */
  enum spp_pass pass;
  enum spp_per per;
  int64_t count_per_step;
  int64_t sent_bytes; /* one event; where shards are uneven, an average */
  int64_t
      stage_sent_bytes; /* one event, all ranks of the stage, where that is not sent_bytes for each; or 0 */
  int64_t messages;     /* one event: point-to-point messages, or 1 per collective call */
  int64_t message_bytes;
  enum spp_overlap overlap;
  double time_s, exposed_s; /* whole step: filled by the time model */
};
enum { SPP_COMM_MAX = 96 };
struct spp_comm {
  int count;
  struct spp_comm_op ops[SPP_COMM_MAX];
  int64_t layer_forward_bytes[SPP_GROUP_COUNT];  /* one layer, one forward; ring and all-gather share
                                                    SPP_GROUP_RING */
  int64_t layer_backward_bytes[SPP_GROUP_COUNT]; /* one layer, one backward without recompute */
  int64_t sent_bytes_per_step;
};
/* Ops of one GPU of pipeline stage `stage`. Sources beside each op in model/comm_*.c. */
void spp_comm_predict_stage(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *geometry, const struct spp_stage *stage,
                            struct spp_comm *comm);
/* The two halves of that list: what layers and pipeline exchange, whatever shards the states (but where norms
 * are reduced unit by unit), and what the states exchange, whatever a micro-batch holds. */
void spp_comm_predict_layers(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *geometry, const struct spp_stage *stage,
                             struct spp_comm *comm);
void spp_comm_predict_states(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *geometry, const struct spp_stage *stage,
                             struct spp_comm *comm);
/* Same for the busiest stage: the last one unless another holds more layers. */
void spp_comm_predict(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *geometry, struct spp_comm *comm);

#endif
