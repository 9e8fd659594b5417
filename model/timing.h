/* Step time: roofline kernels, two-level collectives, ring overlap, pipeline bubble, optimizer, host. */
#ifndef SPP_MODEL_TIMING_H
#define SPP_MODEL_TIMING_H

#include "model/comm.h"

struct spp_time {
  double step_s, low_s, high_s; /* 80 % interval */
  double waits_share; /* of step_s: set by the host, its memory and other GPUs' states, not by the GPU's own
                         rates */
  /* parts, seconds of one step; they sum to step_s */
  double compute_s, attention_s, sp_exposed_s, tp_exposed_s, pp_bubble_s, pp_exposed_s, dp_exposed_s,
      ep_exposed_s, offload_exposed_s, optimizer_s, host_s;
  double tokens_per_s, tokens_per_s_per_gpu, samples_per_s;
  double model_flops_causal, model_flops_full, hardware_flops; /* of one step, whole job */
  double mfu_causal, mfu_full, hfu;
  double tflops_per_gpu_causal, tflops_per_gpu_full;
  double usd_per_million_tokens; /* 0 = no price */
};
/* Fills comm->ops[].time_s and exposed_s too. */
void spp_timing_predict(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_geometry *geometry, struct spp_comm *comm, struct spp_time *time);

/* One micro-batch on the slowest pipeline stage, pass by pass: what a picture of the step is drawn from. The
 * parts of spp_time are these times the micro-batches, plus what happens once a step. */
struct spp_time_shape {
  int64_t stage; /* the slowest */
  double layers; /* it holds */
  double
      share; /* of the communication counted in comm->ops (another stage's, when that holds other layers) */
  double compute_s[SPP_PASS_STEP], attention_s[SPP_PASS_STEP];
  double host_wait_s[SPP_PASS_STEP]; /* device idle until the host has launched, before communication slows
                                        what it runs beside; of recompute: 0, in backward */
  double wgrad_s; /* of compute_s[SPP_PASS_BACKWARD]: weight gradients, which a zero-bubble schedule moves */
};
void spp_timing_shape(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *geometry, struct spp_time_shape *shape);

/* Time of attention in a ring over that of as many FLOPs under a causal mask, at least. */
double spp_ring_attention_share(enum spp_pass pass);

/* Model FLOPs of one step of the whole job by both conventions, and what the hardware executes (recompute,
 * flash backward). Sources: NVIDIA/Megatron-LM megatron/training/training.py (causal half), PaLM appendix B
 * (full). */
void spp_flops_count(const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_geometry *geometry, double *causal, double *full, double *hardware);

/* What a training log prints for a step. field: the words to look for there. */
struct spp_log_figures {
  const char *convention, *field, *source;
  double flops;          /* of one step, whole job, by the log's formula */
  double tflops_per_gpu; /* divided by time and GPUs */
  double mfu;            /* over the peak the log divides by; 0 where it prints none */
};
/* Reporters from 1 on; NONE gives NULLs and zeros. time: of this job and layout. */
void spp_log_figures(enum spp_reporter reporter, const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_geometry *geometry, const struct spp_time *time,
                     struct spp_log_figures *figures);
double spp_flops_reported(enum spp_reporter reporter, const struct spp_job *job,
                          const struct spp_layout *layout, const struct spp_geometry *geometry);

#endif
