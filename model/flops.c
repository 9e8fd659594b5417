/* FLOPs of one step of the whole job. Weights: 2 per weight and token forward, 4 backward (2 when frozen);
 * attention: causal half (NVIDIA/Megatron-LM megatron/training/training.py num_floating_point_operations,
 * which counts the embedding lookup as nothing and the head once) or full (PaLM appendix B,
 * pytorch/torchtitan models/utils.py). Executed: recompute repeated, and flash backward 2.5 times its
 * forward. */
#include "model/timing_internal.h"

/* Causal attention FLOPs of one forward over a micro-batch, all layers, whole model (heads of all ranks). */
static double attention_forward(const struct spp_job *job, const struct spp_geometry *g) {
  const struct spp_arch *a = job->arch;
  double width = (double)(spp_arch_q_width(a) + spp_arch_o_width(a)), sum = 0;
  for (int k = 0; k < a->kind_count; k++)
    sum += (double)a->kinds[k].count * spp_window_pairs(g, &a->kinds[k]) * width;
  return sum;
}

/* Weights of a kind's products a token meets: all, and those whose product op-level recompute runs again
 * (torchtitan 0.3.0 distributed/activation_checkpoint.py SelectiveAC: every second product, from the second
 * on, the router's always; grouped ones are not on its list). Lists before 0.3.0 name no FP8 product, none
 * names FP4 ones, and what is not named is run again; where FP8 products are named, all of them stay. */
static void op_level_weights(const struct spp_job *job, const struct spp_layer_kind *kind, double *all,
                             double *again) {
  const struct spp_framework *f = job->framework;
  bool narrow = job->dtype == SPP_DTYPE_FP8, none = narrow && f->selective_keeps_fp8 && !job->fp4;
  int64_t nth = 0;
  *all = *again = 0;
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    if (!w->linear) continue;
    bool expert = w->role == SPP_ROLE_EXPERT, router = w->role == SPP_ROLE_ROUTER;
    double visited = expert ? (double)job->arch->experts_per_token : 1;
    double weight = (double)w->rows * (double)w->cols * visited;
    bool joined = f->fuses_qkv && nth > 0 && w->role == SPP_ROLE_ATTENTION && spp_weights_join(w - 1, w);
    if (!expert && !router && !joined) nth++;
    bool rerun = expert || router || (narrow ? !none : nth % 2 == 0);
    *all += weight;
    *again += rerun ? weight : 0;
  }
}

double spp_op_level_share(const struct spp_job *job, const struct spp_layer_kind *kind) {
  double all, again;
  op_level_weights(job, kind, &all, &again);
  return all > 0 ? again / all : 0;
}

static double op_level_recompute(const struct spp_job *job) {
  double all = 0, again = 0;
  for (int k = 0; k < job->arch->kind_count; k++) {
    double whole, part, layers = (double)job->arch->kinds[k].count;
    op_level_weights(job, &job->arch->kinds[k], &whole, &part);
    all += layers * whole;
    again += layers * part;
  }
  return all > 0 ? again / all : 0;
}

/* Times of the forward FLOPs of weights that run again inside backward. */
static double weight_recompute(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_params *p = &job->params;
  double attention = (double)p->per_layer_attention,
         mlp = (double)spp_max64(p->per_dense_mlp, p->per_moe_mlp_active), share = 0;
  if (layout->recompute == SPP_RECOMPUTE_FULL) {
    double layers = (double)job->arch->layers / (double)layout->pp;
    return layout->recompute_layers == SPP_UNSET ? 1
                                                 : spp_least(1, (double)layout->recompute_layers / layers);
  }
  if (layout->recompute != SPP_RECOMPUTE_SELECTIVE) return 0;
  if (job->framework->selective_is_op_level) return op_level_recompute(job);
  if (layout->recompute_modules & (SPP_RC_MLP | SPP_RC_MOE)) share += mlp / (attention + mlp);
  if (layout->recompute_modules & SPP_RC_MLA_UP_PROJ) share += attention / 2 / (attention + mlp);
  return share;
}

static double attention_recompute(const struct spp_job *job, const struct spp_layout *layout) {
  if (layout->recompute == SPP_RECOMPUTE_FULL) return weight_recompute(job, layout);
  return layout->recompute == SPP_RECOMPUTE_SELECTIVE && !job->framework->selective_is_op_level &&
                 (layout->recompute_modules & SPP_RC_CORE_ATTN)
             ? 1
             : 0;
}

static double adapter_elements(const struct spp_job *job) {
  const struct spp_arch *a = job->arch;
  double sum = 0;
  for (int k = 0; k < a->kind_count; k++) {
    const struct spp_weight_sums *s = &job->sums.kinds[k];
    double visited = a->experts > 0 ? (double)a->experts_per_token / (double)a->experts : 0;
    sum += (double)a->kinds[k].count *
           ((double)(s->lora_split + s->lora_replicated) + visited * (double)s->lora_expert) *
           (double)job->lora_rank;
  }
  return sum;
}

void spp_flops_count(const struct spp_job *job, const struct spp_layout *layout, const struct spp_geometry *g,
                     double *causal, double *full, double *hardware) {
  bool lora = spp_job_has_adapters(job), trains = job->mode != SPP_MODE_INFER;
  double tokens = (double)g->real_tokens, batches = (double)g->m * (double)g->dp;
  double forwards = spp_job_forwards(job);
  double weights = 2 * (double)job->params.gemm_per_token * tokens,
         attention = attention_forward(job, g) * batches;
  double adapters = lora ? 2 * adapter_elements(job) * tokens : 0;
  double tower = 2 * (double)spp_sums_dense(&job->sums.vision, 1) * (double)job->image_patches *
                 (double)g->sequences * batches * (job->vision_trainable && trains ? 3 : 1);
  double weight_times = forwards + (trains ? (lora ? 1 : 2) : 0),
         attention_times = forwards + (trains ? 2 : 0);
  double ring = job->ring_impl == SPP_RING_SWIFT && g->sr > 1 && layout->sp_kind != SPP_SP_ALLGATHER ? 1 : 0;
  *causal =
      weights * weight_times + adapters * (forwards + (trains ? 2 : 0)) + attention * attention_times + tower;
  *full = *causal + attention * attention_times;
  *hardware = *causal;
  if (!trains) return;
  double head =
      (double)job->arch->vocab * (double)job->arch->hidden / (double)spp_max64(1, job->params.gemm_per_token);
  *hardware += weight_recompute(job, layout) * (weights * (1 - spp_least(1, head)) + adapters) +
               attention * (0.5 + ring + attention_recompute(job, layout));
}
