#include "base/num.h"
#include "model/activations.h"

#define KEPT(text, reason)                                                                                   \
  { text, SPP_PART_ACTIVATIONS, reason }
static const struct spp_tensor norm1_input = KEPT("input norm: input", "norm backward");
static const struct spp_tensor norm1_scaled = KEPT("input norm: normalised", "gradient of the norm weight");
static const struct spp_tensor norm1_stats = KEPT("input norm: statistics", "norm backward");
static const struct spp_tensor norm1_output = KEPT("input norm: output", "input of q, k, v");
static const struct spp_tensor norm2_input = KEPT("post-attention norm: input", "norm backward");
static const struct spp_tensor norm2_scaled =
    KEPT("post-attention norm: normalised", "gradient of the norm weight");
static const struct spp_tensor norm2_stats = KEPT("post-attention norm: statistics", "norm backward");
static const struct spp_tensor norm2_output = KEPT("post-attention norm: output", "input of the MLP");
static const struct spp_tensor after_input = KEPT("norm after a block: input", "norm backward");
static const struct spp_tensor after_scaled =
    KEPT("norm after a block: normalised", "gradient of the norm weight");
static const struct spp_tensor after_stats = KEPT("norm after a block: statistics", "norm backward");

static const struct spp_norm_tensors norm1 = {&norm1_input, &norm1_scaled, &norm1_stats};
static const struct spp_norm_tensors norm2 = {&norm2_input, &norm2_scaled, &norm2_stats};
static const struct spp_norm_tensors after = {&after_input, &after_scaled, &after_stats};

static bool rms(const struct spp_arch *arch) {
  return arch->norm == SPP_NORM_RMS;
}

/* Gemma multiplies by (1 + weight), OLMo 2 and gpt-oss by the weight, before they cast back; Cohere writes
 * LayerNorm out in fp32. */
static bool scales_in_fp32(const struct spp_arch *arch) {
  return (arch->keeps & SPP_KEEPS_NORM_FP32) != 0;
}

/* torch layer_norm is one kernel even where nothing else is fused. */
static bool one_kernel(const struct spp_job *job) {
  return job->kernels == SPP_KERNELS_FUSED || !(rms(job->arch) || scales_in_fp32(job->arch));
}

/* OLMo (1) has no norm weight and casts up before the kernel. */
bool spp_norm_keeps_input(const struct spp_job *job) {
  return one_kernel(job) && (job->arch->norm != SPP_NORM_NO_WEIGHT || job->kernels == SPP_KERNELS_FUSED);
}

/* Eager RMSNorm (transformers modeling_llama.py): fp32 copy of the input (pow and mul), rsqrt, and the
 * normalised x when the weight is trained. One fused kernel (torch layer_norm, Liger, TE): the input itself
 * and fp32 statistics: rstd, and the mean for LayerNorm. */
void spp_kept_norm(const struct spp_layer_view *v, const struct spp_norm_tensors *names, enum spp_block block,
                   unsigned modules, int64_t rows, int64_t width, int64_t vectors) {
  const struct spp_arch *arch = v->job->arch;
  bool whole = one_kernel(v->job);
  enum spp_dtype scaled = scales_in_fp32(arch) ? SPP_DTYPE_FP32 : v->act;
  spp_kept_append(v, names->input, block, modules, spp_norm_keeps_input(v->job) ? v->act : SPP_DTYPE_FP32,
                  rows, width);
  if (!whole && !rms(arch)) spp_kept_append(v, names->scaled, block, modules, SPP_DTYPE_FP32, rows, width);
  if (!whole && !spp_job_has_adapters(v->job))
    spp_kept_append(v, names->scaled, block, modules, scaled, rows, width);
  int64_t stats = rms(arch) || !whole ? 1 : 2;
  spp_kept_append(v, names->stats, block, modules, SPP_DTYPE_FP32, rows, stats * vectors);
}

/* Megatron keeps the sequence shard of a norm's output and gathers it again in backward
 * (tensor_parallel/layers.py). An adapter reads the gathered tensor (NVIDIA-NeMo/Megatron-Bridge#4581), and
 * so do DTensor linears (PrepareModuleInput gathers before the product). */
static int64_t output_rows(const struct spp_layer_view *v) {
  bool gathered = spp_job_has_adapters(v->job) || v->job->framework->sharding == SPP_SHARDING_FSDP;
  return gathered ? v->g->tokens : v->g->stream_tokens;
}

static void output(const struct spp_layer_view *v, const struct spp_tensor *name, enum spp_block block,
                   unsigned targets) {
  if (!spp_keeps_input(v->job, v->layout, targets)) return;
  int readers = targets & SPP_LORA_GATE ? 2 : 0; /* products that read it */
  if (targets & SPP_LORA_Q) readers += v->job->framework->fuses_qkv ? 1 : 3;
  spp_kept_append_input(v, name, block, SPP_RC_LAYERNORM, output_rows(v), v->job->arch->hidden, readers);
}

/* Pre-norm layers, layers with a norm after each block too, and parallel blocks, whose attention and MLP read
 * one norm's output (or two norms of the same input: Falcon's new decoder). Post-norm layers (OLMo 2) keep as
 * much as pre-norm ones: the residual stream is q, k, v's input instead of the norm's output. */
void spp_kept_norms(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  const unsigned qkv = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V, mlp = SPP_LORA_GATE | SPP_LORA_UP;
  int64_t rows = v->g->stream_tokens, h = a->hidden;
  bool single = a->parallel_block && a->norms_per_layer < 2;
  spp_kept_norm(v, &norm1, SPP_BLOCK_NORM1, 0, rows, h, 1);
  output(v, &norm1_output, SPP_BLOCK_ATTENTION, single ? qkv | mlp : qkv);
  if (single) return;
  if (a->parallel_block && spp_norm_keeps_input(v->job)) /* the second norm reads the same storage */
    spp_kept_append(v, &norm2_stats, SPP_BLOCK_NORM2, 0, SPP_DTYPE_FP32, rows, rms(a) ? 1 : 2);
  else
    spp_kept_norm(v, &norm2, SPP_BLOCK_NORM2, 0, rows, h, 1);
  bool early = v->job->framework->sharding == SPP_SHARDING_UNITS; /* exec/layer_backward.c frees it in mlp() */
  output(v, &norm2_output, early ? SPP_BLOCK_MLP : SPP_BLOCK_NORM2, mlp);
  if (a->norms_per_layer < 4) return;
  spp_kept_norm(v, &after, SPP_BLOCK_NORM2, 0, rows, h, 1);
  spp_kept_norm(v, &after, SPP_BLOCK_MLP, 0, rows, h, 1);
}
