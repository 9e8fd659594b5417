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
static const struct spp_tensor attention_input = KEPT("attention input", "input of q, k, v");
static const struct spp_tensor mlp_input = KEPT("MLP input", "input of the MLP");
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

/* The first norm's input, where one kernel keeps that; attention's, where no norm stands before it. */
bool spp_kept_is_layer_input(const struct spp_job *job, const struct spp_kept *k) {
  return k->block == SPP_BLOCK_INPUT && k->dtype == spp_stream_dtype(job) && k->cols == job->arch->hidden &&
         (spp_norm_keeps_input(job) || job->arch->norms_behind);
}

/* Eager RMSNorm (transformers modeling_llama.py): fp32 copy of the input (pow and mul), rsqrt, and the
 * normalised x when the weight is trained. One fused kernel (torch layer_norm, Liger, TE): the input itself
 * and fp32 statistics: rstd, and the mean for LayerNorm. */
void spp_kept_norm(const struct spp_layer_view *v, const struct spp_norm_tensors *names, enum spp_block block,
                   unsigned modules, int64_t rows, int64_t width, int64_t vectors) {
  const struct spp_arch *arch = v->job->arch;
  bool whole = one_kernel(v->job);
  enum spp_dtype stream = spp_job_casts_weights(v->job) ? SPP_DTYPE_FP32 : v->act;
  enum spp_dtype scaled = scales_in_fp32(arch) ? SPP_DTYPE_FP32 : stream;
  enum spp_block of_input = block == SPP_BLOCK_NORM1 ? SPP_BLOCK_INPUT : block;
  spp_kept_append(v, names->input, of_input, modules, spp_norm_keeps_input(v->job) ? stream : SPP_DTYPE_FP32,
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

/* NVFP4 codes of a norm's output that TransformerEngine keeps: one product reads it, and its weight gradient
 * the columnwise codes alone; those of a shard that is gathered again keep the rowwise ones as well
 * (transformer-engine 2.9.0 and 2.15.0 pytorch/module/layernorm_linear.py forward: update_usage). */
static int te_codes(const struct spp_layer_view *v) {
  return v->g->tp > 1 && v->layout->megatron_sp ? 2 : 1;
}

enum { QKV = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V, WIDENING = SPP_LORA_GATE | SPP_LORA_UP };

/* What the products named by `targets` read; chunks that wait in host memory are not here. */
static void read_by(const struct spp_layer_view *v, const struct spp_tensor *name, enum spp_block block,
                    unsigned modules, unsigned targets) {
  if (!spp_keeps_input(v->job, v->layout, targets)) return;
  if (targets == QKV && spp_attention_is_parked(v->layout, v->g)) return;
  int readers = targets & SPP_LORA_GATE ? 2 : 0; /* products that read it */
  if (targets & SPP_LORA_Q) readers += v->job->framework->fuses_qkv ? 1 : 3;
  if (spp_job_runs_te(v->job)) readers = te_codes(v);
  /* autocast casts an fp32 input for each product that reads it: its cache holds leaves only */
  bool each = spp_job_casts_weights(v->job) && !spp_job_has_adapters(v->job) && readers > 1;
  for (int i = 0; i < (each ? readers : 1); i++)
    spp_kept_append_input(v, name, block, modules, output_rows(v), v->job->arch->hidden, readers);
}

/* Does each part of backward free what it has read at once (exec/layer_backward.c)? */
static bool frees_early(const struct spp_layer_view *v) {
  return v->job->framework->sharding == SPP_SHARDING_UNITS;
}
static enum spp_block of_mlp_input(const struct spp_layer_view *v) {
  /* FPDT_FFN.backward returns its input, overwritten by the gradient: behind it the norm's output is not
   * there */
  if (!v->kind->moe && spp_mlp_in_chunks(v->job, v->g)) return SPP_BLOCK_MLP_INPUT;
  if (!frees_early(v)) return SPP_BLOCK_NORM2;
  return v->kind->moe ? SPP_BLOCK_MLP : SPP_BLOCK_MLP_INPUT;
}

/* The recomputed modules that drop what norms before attention [0] and before the MLP [1] give. Only latent
 * attention and mixtures have norms of their own; others are part of the product behind, q, k and v's or the
 * dense MLP's first in Megatron (megatron-core 0.19.2 models/gpt/gpt_layer_specs.py
 * get_gpt_layer_with_transformer_engine_submodules, transformer_layer.py recompute_input_layernorm). */
static unsigned drops_norm(const struct spp_layer_view *v, int norm) {
  if (frees_early(v)) return SPP_RC_LAYERNORM; /* exec/layer_forward.c: each norm is a step of its own */
  if (norm == 0) return v->job->arch->kv_lora_rank > 0 ? SPP_RC_LAYERNORM : 0;
  return v->kind->moe ? SPP_RC_LAYERNORM : SPP_RC_MLP;
}

/* The outputs of attention and of the MLP. Attention's holds the gradient while attention works, where it is
 * not freed early. */
static void keep_behind(const struct spp_layer_view *v) {
  int64_t rows = v->g->stream_tokens, h = v->job->arch->hidden;
  spp_kept_norm(v, &after, frees_early(v) ? SPP_BLOCK_ATTENTION : SPP_BLOCK_NORM2, 0, rows, h, 1);
  spp_kept_norm(v, &after, SPP_BLOCK_MLP, 0, rows, h, 1);
}

/* Attention and MLP read one norm's output, or norms of their own of the same input. */
static void keep_parallel(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  int64_t rows = v->g->stream_tokens, h = a->hidden;
  bool single = a->norms_per_layer < 2;
  spp_kept_norm(v, &norm1, SPP_BLOCK_NORM1, 0, rows, h, 1);
  if (single) {
    read_by(v, &norm1_output, frees_early(v) ? SPP_BLOCK_NORM1 : SPP_BLOCK_ATTENTION, SPP_RC_LAYERNORM,
            QKV | WIDENING);
    return;
  }
  read_by(v, &norm1_output, SPP_BLOCK_ATTENTION, SPP_RC_LAYERNORM, QKV);
  if (spp_norm_keeps_input(v->job)) /* the second norm reads the same storage */
    spp_kept_append(v, &norm2_stats, SPP_BLOCK_NORM2, 0, SPP_DTYPE_FP32, rows, rms(a) ? 1 : 2);
  else
    spp_kept_norm(v, &norm2, SPP_BLOCK_NORM2, 0, rows, h, 1);
  read_by(v, &norm2_output, of_mlp_input(v), SPP_RC_LAYERNORM, WIDENING);
}

/* Norms before attention and MLP, and behind them too (Gemma 2), or behind alone (OLMo 2): then the stream
 * itself is what the products read. */
void spp_kept_norms(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  int64_t rows = v->g->stream_tokens, h = a->hidden;
  if (a->norms_behind) {
    read_by(v, &attention_input, SPP_BLOCK_INPUT, 0, QKV);
    read_by(v, &mlp_input, of_mlp_input(v), 0, WIDENING);
    keep_behind(v);
    return;
  }
  if (a->parallel_block) {
    keep_parallel(v);
    return;
  }
  spp_kept_norm(v, &norm1, SPP_BLOCK_NORM1, 0, rows, h, 1);
  read_by(v, &norm1_output, SPP_BLOCK_ATTENTION, drops_norm(v, 0), QKV);
  spp_kept_norm(v, &norm2, SPP_BLOCK_NORM2, 0, rows, h, 1);
  read_by(v, &norm2_output, of_mlp_input(v), drops_norm(v, 1), WIDENING);
  if (a->norms_per_layer >= 4) keep_behind(v);
}
