/* What training logs call the FLOPs of a step. */
#include "model/kernel_time.h"
#include "model/timing.h"

/* Which peak a log divides by to print MFU. */
enum peak { PEAK_NOT_PRINTED, PEAK_BF16, PEAK_OF_DTYPE };

static const struct {
  const char *name, *field, *source;
  enum peak peak;
} reporters[SPP_REPORTER_COUNT] = {
    [SPP_REPORTER_MEGATRON] =
        {"Megatron-LM", "throughput per GPU (TFLOP/s/GPU)",
         "NVIDIA/Megatron-LM megatron/training/training.py num_floating_point_operations: causal "
         "half of attention, head in, embedding out; NeMo and Megatron-Bridge follow it",
         PEAK_NOT_PRINTED},
    [SPP_REPORTER_TORCHTITAN] =
        {"torchtitan", "tflops, mfu",
         "pytorch/torchtitan torchtitan/models/utils.py get_dense_model_nparams_and_flops: whole "
         "attention, no input embedding unless tied; tools/utils.py get_peak_flops: 16-bit peak",
         PEAK_BF16},
    [SPP_REPORTER_FOUNDRY] =
        {"llm-foundry", "throughput/device/flops_per_sec, throughput/device/mfu",
         "mosaicml/llm-foundry llmfoundry/models/mpt/modeling_mpt.py flops_per_batch: whole "
         "attention of the hidden width, every active parameter; mosaicml/composer "
         "callbacks/speed_monitor.py: peak of the precision",
         PEAK_OF_DTYPE},
    [SPP_REPORTER_SC21] = {"SC21", "TFLOPs",
                           "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, "
                           "appendix: 72 or, recomputing, 96 B s l h^2 (1 + s/6h + V/16lh)",
                           PEAK_NOT_PRINTED},
    [SPP_REPORTER_VERL] =
        {"verl", "perf/mfu/actor",
         "verl-project/verl verl/utils/flops_counter.py: causal half of attention, embedding and head "
         "both counted, 16-bit peak",
         PEAK_BF16},
    [SPP_REPORTER_TRANSFORMERS] =
        {"transformers", "total_flos over train_runtime",
         "huggingface/transformers modeling_utils.py floating_point_ops: 6 times all "
         "parameters but embeddings, no attention, every expert, frozen or not",
         PEAK_NOT_PRINTED},
};

/* Logs count rows as full: tokens = sequences x length, documents or not. */
static double row_tokens(const struct spp_geometry *g) {
  return (double)g->sequences * (double)g->m * (double)g->dp * (double)g->padded_tokens;
}

static double sc21(const struct spp_arch *a, const struct spp_layout *layout, const struct spp_geometry *g) {
  double layers = (double)a->layers, h = (double)a->hidden, length = (double)g->padded_tokens;
  bool recomputes = layout->recompute == SPP_RECOMPUTE_FULL;
  return row_tokens(g) * (recomputes ? 96 : 72) * layers * h * h *
         (1 + length / (6 * h) + (double)a->vocab / (16 * layers * h));
}

double spp_flops_reported(enum spp_reporter reporter, const struct spp_job *job,
                          const struct spp_layout *layout, const struct spp_geometry *g) {
  const struct spp_arch *a = job->arch;
  const struct spp_params *p = &job->params;
  double causal, full, hardware, layers = (double)a->layers, tokens = row_tokens(g);
  double length = (double)g->padded_tokens, table = (double)p->embedding;
  double heads = (double)(spp_arch_q_width(a) + spp_arch_o_width(a)) / 2; /* heads times mean head width */
  switch (reporter) {
  case SPP_REPORTER_TORCHTITAN:
    return tokens * (6 * ((double)p->active - (a->tied ? 0 : table)) + 12 * layers * heads * length);
  case SPP_REPORTER_FOUNDRY:
    return tokens * (6 * (double)p->active + 12 * layers * (double)a->hidden * length);
  case SPP_REPORTER_SC21: return sc21(a, layout, g);
  case SPP_REPORTER_VERL:
    return tokens * (6 * ((double)p->gemm_per_token + table) + 6 * layers * heads * length);
  case SPP_REPORTER_TRANSFORMERS: return tokens * 6 * ((double)p->total - table);
  case SPP_REPORTER_MEGATRON: spp_flops_count(job, layout, g, &causal, &full, &hardware); return causal;
  case SPP_REPORTER_NONE:
  case SPP_REPORTER_COUNT: break;
  }
  return 0;
}

void spp_log_figures(enum spp_reporter reporter, const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_geometry *geometry, const struct spp_time *time,
                     struct spp_log_figures *figures) {
  *figures = (struct spp_log_figures){.convention = reporters[reporter].name,
                                      .field = reporters[reporter].field,
                                      .source = reporters[reporter].source};
  double gpu_seconds = time->step_s * (double)spp_layout_world(layout);
  enum peak peak = reporters[reporter].peak;
  if (reporter == SPP_REPORTER_NONE || gpu_seconds <= 0) return;
  figures->flops = spp_flops_reported(reporter, job, layout, geometry);
  figures->tflops_per_gpu = figures->flops / gpu_seconds / 1e12;
  if (peak == PEAK_NOT_PRINTED) return;
  double per_s = spp_peak_flops(job->gpu, peak == PEAK_BF16 ? SPP_DTYPE_BF16 : job->dtype);
  if (per_s > 0) figures->mfu = figures->flops / gpu_seconds / per_s;
}
