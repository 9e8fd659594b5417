#include "model/goodput.h"

#include <math.h>

#include "base/num.h"
#include "model/states.h"

int64_t spp_checkpoint_bytes(const struct spp_job *job, const struct spp_layout *layout) {
  static const enum spp_outer outer[] = {SPP_OUTER_EMBEDDING, SPP_OUTER_POSITION, SPP_OUTER_HEAD,
                                         SPP_OUTER_OTHER, SPP_OUTER_VISION};
  struct spp_layout whole = spp_layout_plain(); /* one rank that holds everything once */
  struct spp_state_counts all = {0}, part;
  struct spp_geometry g;
  whole.zero = layout->zero;
  spp_geometry_resolve(job, &whole, &g);
  struct spp_states regime = spp_states_regime(job, &whole);
  for (int k = 0; k < job->arch->kind_count; k++) {
    spp_states_count_layer(job, &whole, &g, k, &part);
    spp_states_accumulate(&all, &part, job->arch->kinds[k].count);
  }
  for (size_t i = 0; i < sizeof outer / sizeof *outer; i++) {
    spp_states_count_outer(job, &whole, &g, outer[i], &part);
    spp_states_accumulate(&all, &part, 1);
  }
  int64_t trained = spp_sat_add(all.trainable, all.trainable_expert);
  return spp_sat_add(spp_sat_mul(trained, regime.weight_bytes + regime.master_bytes),
                     spp_sat_add(all.optimizer_bytes, all.optimizer_expert_bytes));
}

double spp_checkpoint_interval_s(double checkpoint_s, double mtbf_s) {
  double half = checkpoint_s / (2 * mtbf_s);
  if (half >= 1) return mtbf_s;
  return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(half) / 3 + half / 9) - checkpoint_s;
}

double spp_goodput_share(double interval_s, double checkpoint_s, double restart_s, double mtbf_s) {
  double lost = exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s);
  return interval_s / (mtbf_s * lost);
}

bool spp_goodput_predict(const struct spp_failures *failures, const struct spp_job *job,
                         const struct spp_layout *layout, const struct spp_time *time,
                         struct spp_goodput *goodput) {
  double gpus = (double)spp_max64(1, job->gpus);
  int64_t per_node = job->cluster ? spp_max64(1, job->cluster->gpus_per_node) : 1;
  double nodes = (double)spp_ceil_div(spp_max64(1, job->gpus), per_node);
  if (job->mode == SPP_MODE_INFER || !(time->step_s > 0) || !(failures->gpu_mtbf_s > 0)) return false;
  struct spp_goodput g = {.job_mtbf_s = failures->gpu_mtbf_s / gpus,
                          .checkpoint_bytes = spp_checkpoint_bytes(job, layout)};
  g.checkpoint_s = (double)g.checkpoint_bytes / (nodes * failures->checkpoint_bytes_per_s);
  g.restart_s = failures->restart_s + g.checkpoint_s;
  double steps = round(spp_checkpoint_interval_s(g.checkpoint_s, g.job_mtbf_s) / time->step_s);
  g.interval_steps = steps < 1 ? 1 : steps < 1e15 ? (int64_t)steps : INT64_C(1000000000000000);
  g.interval_s = (double)g.interval_steps * time->step_s;
  g.share = spp_goodput_share(g.interval_s, g.checkpoint_s, g.restart_s, g.job_mtbf_s);
  g.tokens_per_s = g.share * time->tokens_per_s;
  *goodput = g;
  return true;
}
