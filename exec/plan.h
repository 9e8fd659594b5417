/* A training run small enough to be executed here: the job and layout as the model of this program sees them
 * under the framework file "spplan", which describes the engine of this folder. */
#ifndef SPP_EXEC_PLAN_H
#define SPP_EXEC_PLAN_H

#include "model/calib.h"
#include "model/predict.h"

struct spp_exec_setting {
  const struct spp_arch *arch;
  struct spp_layout layout;
  int64_t seq_tokens;
  enum spp_dtype dtype;        /* fp32 or bf16 */
  double expert_capacity;      /* over an even share; 0: every expert gets an even share */
  int64_t expert_group_tokens; /* of a sequence that share the room of experts; 0: what one rank holds */
  bool contiguous;             /* ring and all-gather ranks hold one piece of a sequence, not two */
  const int64_t
      *doc_lengths; /* documents packed into sequences of at most seq_tokens; NULL: one a sequence */
  int64_t doc_count;
};

/* The pointers in `job` go to the plan itself: it must not be copied. */
struct spp_exec_plan {
  struct spp_arena arena;
  struct spp_gpu gpu; /* stands for one rank of this machine */
  struct spp_cluster cluster;
  struct spp_calib calib; /* of the time model; zeros until a probe fills them */
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry geometry;
  int64_t expert_group_tokens;
};

/* SPP_ERR_USAGE: a layout that the framework file's rules forbid, with the rule. Close also after a failure.
 */
enum spp_status spp_exec_plan_open(const char *config_dir, const struct spp_exec_setting *setting,
                                   struct spp_exec_plan *plan, struct spp_diag *diag);
void spp_exec_plan_close(struct spp_exec_plan *plan);

#endif
