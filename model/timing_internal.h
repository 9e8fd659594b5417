/* Shared by the files of the time model; not for callers. Seconds are of one GPU unless said otherwise. */
#ifndef SPP_MODEL_TIMING_INTERNAL_H
#define SPP_MODEL_TIMING_INTERNAL_H

#include "base/num.h"
#include "model/kernel_time.h"
#include "model/timing.h"

/* Everything the parts read, so that each takes one argument. */
struct spp_timing_context {
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_geometry *g;
  const struct spp_kernel_rates *rates;
  bool eager;          /* norms, activations and rope as separate elementwise kernels */
  bool trains;         /* there is a backward */
  bool base_trainable; /* weight gradients of the base model */
  double forwards;     /* forward passes per micro-batch: a DPO or GRPO reference model adds one */
};

/* Device time of one pass, by what runs. */
struct spp_pass_time {
  double gemm_s, memory_s, attention_s;
};
/* Rates of the job's products, attention and memory-bound kernels. */
void spp_timing_rates(const struct spp_job *job, struct spp_kernel_rates *rates);
/* rates: of spp_timing_rates(), as long as the context is used. */
struct spp_timing_context spp_timing_context_make(const struct spp_job *job, const struct spp_layout *layout,
                                                  const struct spp_geometry *geometry,
                                                  const struct spp_kernel_rates *rates);

/* One decoder layer, one micro-batch. backward holds dgrad and wgrad, without recompute. */
struct spp_layer_time {
  struct spp_pass_time forward, backward, recompute;
  double wgrad_s;        /* part of backward.gemm_s */
  double host_s;         /* what the host needs to launch one pass, forward or backward */
  double forward_host_s; /* beyond it, what it needs for a forward alone */
};
/* FSDP units of a layer: itself, and each A and B of its adapters where they are units. */
static inline double spp_fsdp_units(const struct spp_job *job, const struct spp_weight_sums *s) {
  return 1 + (job->framework->adapters_are_units ? 2.0 * (double)s->lora_modules : 0);
}

/* Share of a kind's product FLOPs that op-level recompute runs again. */
double spp_op_level_share(const struct spp_job *job, const struct spp_layer_kind *kind);
void spp_layer_time_count(const struct spp_timing_context *c, int kind, struct spp_layer_time *time);

/* Attention of one layer: forward and backward kernels of all ring steps, merges included. */
void spp_attention_time_count(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                              double *forward_s, double *backward_s);
/* The same where sequences pass in chunks (FPDT): blocks, their merges, and copies that they do not hide.
 * flops: of the whole forward; span_tokens, head_dim: as for spp_attention_s(). */
void spp_chunked_attention_time_count(const struct spp_timing_context *c, double flops, double span_tokens,
                                      double head_dim, double *forward_s, double *backward_s);
/* What the host takes to launch one kernel. */
double spp_launch_host_s(const struct spp_framework *framework);
/* Sum of squared lengths a layer's window leaves of the micro-batch's (sliding: 2 L w - w^2 of L^2; chunked:
 * L w). */
double spp_window_pairs(const struct spp_geometry *g, const struct spp_layer_kind *kind);

/* Embedding (first stage), head and loss (last stage), vision tower (first stage). */
void spp_embedding_time_count(const struct spp_timing_context *c, struct spp_layer_time *time);
void spp_loss_time_count(const struct spp_timing_context *c, struct spp_layer_time *time);
void spp_vision_time_count(const struct spp_timing_context *c, struct spp_layer_time *time);

/* One pipeline stage, one micro-batch, by pass: forward (all forward passes), recompute, backward. */
struct spp_stage_time {
  struct spp_pass_time pass[SPP_PASS_STEP];
  double wgrad_s;
  double forward_host_s, backward_host_s; /* the host's time to launch them; recompute counts as backward */
  double layers;
};

/* Of a micro-batch: forward, and backward with recompute. */
enum spp_side { SPP_SIDE_FORWARD, SPP_SIDE_BACKWARD, SPP_SIDE_COUNT };

/* Exposed communication. pass_s: one micro-batch of the stage the communication was counted for (SP, TP, EP
 * and the pipeline's sends); step_s: once a step (sharded states of all micro-batches, tied embedding). */
struct spp_exposed {
  double pass_s[SPP_PASS_STEP][SPP_GROUP_COUNT];
  double step_s[SPP_GROUP_COUNT];
  double hidden_s[SPP_SIDE_COUNT]; /* whole step: slows the compute it runs beside */
};
/* Seconds of one event of an op. */
double spp_comm_event_s(const struct spp_timing_context *c, const struct spp_comm_op *op, double layers);
/* time_s of every op. layers: of the stage the ops belong to. */
void spp_comm_time_count(const struct spp_timing_context *c, double layers, struct spp_comm *comm);
/* exposed_s of the ops inside layers. */
void spp_layer_exposure_count(const struct spp_timing_context *c, const struct spp_stage_time *stage,
                              struct spp_comm *comm, struct spp_exposed *exposed);
/* exposed_s of everything else; forward_s and backward_s: one micro-batch of the stage, exposed communication
 * included. */
void spp_state_exposure_count(const struct spp_timing_context *c, double forward_s, double backward_s,
                              double layers, struct spp_comm *comm, struct spp_exposed *exposed);

/* What the exchange of sharded states takes of the passes of one micro-batch: compute that it hides under,
 * and time that it adds. */
struct spp_states_beside {
  double hidden_s[SPP_SIDE_COUNT], exposed_s[SPP_SIDE_COUNT];           /* of every micro-batch */
  double last_hidden_s[SPP_SIDE_COUNT], last_exposed_s[SPP_SIDE_COUNT]; /* of the one beside the step */
};
/* comm: after spp_state_exposure_count(). */
void spp_states_beside_count(const struct spp_timing_context *c, const struct spp_comm *comm,
                             struct spp_states_beside *beside);

/* What the model has to offer to stages: one layer of each kind, and the two ends. */
struct spp_model_time {
  struct spp_layer_time kinds[SPP_MAX_LAYER_KINDS], embedding, loss, vision;
};
void spp_model_layers_count(const struct spp_timing_context *c,
                            struct spp_model_time *model); /* but the loss */
void spp_model_time_count(const struct spp_timing_context *c, struct spp_model_time *model);

/* The stages of a pipeline in order; neighbours that hold the same layers are one run. NULL where a list is
 * asked for: every stage is looked at. */
struct spp_stage_run {
  struct spp_stage stage; /* the first of them */
  int64_t count;
};
struct spp_stage_runs {
  int count;
  const struct spp_stage_run *run;
};

/* What neither the sharding of the states nor offload of them changes: the layers of a pipeline with their
 * exposed communication. One micro-batch of the slowest stage, unless said otherwise. */
struct spp_layers_time {
  double compute_s, attention_s, forward_s, backward_s;
  double host_wait_s[SPP_SIDE_COUNT];        /* device idle until the host has launched */
  double exposed_s[SPP_GROUP_COUNT];         /* of the stage the communication was counted for */
  double share;                              /* of that which the slowest stage has */
  double bubble_s, hidden_s[SPP_SIDE_COUNT]; /* whole step */
  double counted_layers, counted_forward_s, counted_backward_s; /* of the stage the communication is of */
  int64_t slowest;                                              /* stage */
};
/* comm: the ops inside layers of the stage `counted`, time_s filled; gets exposed_s. */
void spp_layers_time_count(const struct spp_timing_context *c, const struct spp_model_time *model,
                           const struct spp_stage_runs *runs, const struct spp_stage *counted,
                           struct spp_comm *comm, struct spp_layers_time *layers);

/* What they do change. */
struct spp_states_time {
  double step_s[SPP_GROUP_COUNT]; /* exposed */
  double hidden_s[SPP_SIDE_COUNT];
  double optimizer_s, offload_exposed_s;
};
/* The parts of a step, and their sum. */
void spp_time_parts_fill(const struct spp_timing_context *c, const struct spp_layers_time *layers,
                         const struct spp_states_time *states, struct spp_time *time);
/* Figures of a step that a search compares by. */
void spp_time_speed_fill(const struct spp_timing_context *c, struct spp_time *time);

/* Optimizer step of a stage: memory-bound on the GPU, or on the host when offloaded. */
double spp_optimizer_s(const struct spp_timing_context *c, const struct spp_stage *stage);
/* Host copies of a whole step that neither compute nor the exchange of states beside them hides. layers: of
 * the stage. */
double spp_offload_exposed_s(const struct spp_timing_context *c, const struct spp_stage *stage,
                             const struct spp_layers_time *layers, const struct spp_states_beside *beside);

static inline double spp_pass_sum(const struct spp_pass_time *t) {
  return t->gemm_s + t->memory_s + t->attention_s;
}
static inline void spp_pass_add(struct spp_pass_time *to, const struct spp_pass_time *t, double times) {
  to->gemm_s += times * t->gemm_s;
  to->memory_s += times * t->memory_s;
  to->attention_s += times * t->attention_s;
}
static inline double spp_positive(double x) {
  return x > 0 ? x : 0;
}
static inline double spp_least(double a, double b) {
  return a < b ? a : b;
}
static inline double spp_most(double a, double b) {
  return a > b ? a : b;
}

#endif
