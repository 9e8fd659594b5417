#include "model/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/calib.h"
#include "model/words.h"

/* huggingface/peft LoraConfig.r and modelscope/ms-swift lora_rank; ms-swift galore_rank and num_generations.
 */
enum { LORA_RANK_DEFAULT = 8, GALORE_RANK_DEFAULT = 128, GRPO_COMPLETIONS_DEFAULT = 8 };

bool spp_job_hidden_fp32(const struct spp_job *job) {
  return job->framework->kbit_fp32 && job->method == SPP_METHOD_QLORA && job->mode != SPP_MODE_INFER;
}

bool spp_job_casts_weights(const struct spp_job *job) {
  bool narrow = job->dtype == SPP_DTYPE_BF16 || job->dtype == SPP_DTYPE_FP16;
  return job->framework->loads_fp32 && narrow && job->method != SPP_METHOD_QLORA &&
         job->mode != SPP_MODE_INFER;
}

bool spp_job_keeps_fp8_only(const struct spp_job *job) {
  const bool keeps = job->fp8_params == SPP_UNSET ? job->framework->fp8_params
                                                  : job->fp8_params == 1 && spp_job_runs_te(job);
  return keeps && job->dtype == SPP_DTYPE_FP8 && job->mode != SPP_MODE_INFER;
}

bool spp_job_has_adapters(const struct spp_job *job) {
  return job->method == SPP_METHOD_LORA || job->method == SPP_METHOD_QLORA;
}
bool spp_job_compares(const struct spp_job *job) {
  bool rewarded = job->mode == SPP_MODE_GRPO || job->mode == SPP_MODE_PPO;
  return (job->mode == SPP_MODE_DPO || rewarded) && !job->no_reference;
}
int spp_job_forwards(const struct spp_job *job) {
  int scored = job->mode == SPP_MODE_PPO ? 2 : 0;
  return 1 + scored + (spp_job_compares(job) ? 1 : 0);
}
bool spp_job_has_reference_copy(const struct spp_job *job) {
  return spp_job_compares(job) && (!spp_job_has_adapters(job) || job->own_reference);
}
bool spp_job_quantises(const struct spp_job *job) {
  return job->method == SPP_METHOD_QLORA || job->serves_quantised;
}
bool spp_job_has_projected_gradients(const struct spp_job *job) {
  return job->method == SPP_METHOD_GALORE || job->method == SPP_METHOD_Q_GALORE;
}
double spp_job_fp4_share(const struct spp_job *job) {
  return (double)job->fp4_layers / (double)spp_max64(1, job->arch->layers);
}
int64_t spp_job_narrow_bytes(const struct spp_job *job, int64_t elements) {
  if (job->fp4) return spp_ceil_div(spp_sat_mul(9, elements), 16);
  return spp_sat_mul(job->dtype == SPP_DTYPE_FP8 ? 1 : 2, elements);
}
enum spp_dtype spp_job_format(const struct spp_job *job) {
  return job->fp4 ? SPP_DTYPE_NVFP4 : job->dtype;
}

bool spp_job_has_kv_cache(const struct spp_job *job) {
  return job->mode == SPP_MODE_GRPO || job->mode == SPP_MODE_INFER;
}

void spp_job_spec_clear(struct spp_job_spec *spec) {
  int *unset[] = {&spec->mode,
                  &spec->method,
                  &spec->optimizer,
                  &spec->dtype,
                  &spec->kv_dtype,
                  &spec->attention,
                  &spec->kernels,
                  &spec->ring_impl,
                  &spec->ring_order,
                  &spec->allocator,
                  &spec->loss,
                  &spec->quant,
                  &spec->packing,
                  &spec->overlap,
                  &spec->grads_bytes,
                  &spec->fp8_params,
                  &spec->vision_trainable,
                  &spec->train_embeddings,
                  &spec->reference};
  memset(spec, 0, sizeof *spec);
  for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
    *unset[i] = SPP_UNSET;
  spec->bucket_elements = SPP_UNSET;
  spec->lora_dropout = -1;
  spec->usd_per_gpu_hour = -1;
}

int64_t spp_documents_padded(const struct spp_documents *documents, int64_t unit) {
  int64_t total = 0;
  if (spp_is_pow2(unit))
    for (int i = 0; i < SPP_PAD_TABLE; i++)
      if (unit == INT64_C(1) << i && documents->padded_tokens[i] > 0) return documents->padded_tokens[i];
  if (!documents->lengths) /* lengths unknown: as if all were equal */
    return spp_sat_mul(documents->count,
                       spp_round_up(spp_ceil_div(documents->tokens, documents->count), unit));
  for (int64_t i = 0; i < documents->count; i++)
    total =
        spp_sat_add(total, spp_round_up(spp_min64(documents->lengths[i], documents->longest_tokens), unit));
  return total;
}

void spp_documents_measure(const int64_t *lengths, int64_t count, int64_t seq_tokens,
                           struct spp_documents *documents) {
  struct spp_documents d = {.count = count, .lengths = lengths};
  int64_t fill = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t length = spp_min64(lengths[i], seq_tokens);
    d.tokens = spp_sat_add(d.tokens, length);
    d.sum_squares += (double)length * (double)length;
    d.longest_tokens = spp_max64(d.longest_tokens, length);
    if (d.sequences == 0 || fill + length > seq_tokens) {
      d.sequences++;
      fill = 0;
    }
    fill += length;
    d.fullest_tokens = spp_max64(d.fullest_tokens, fill);
    for (int k = 0; k < SPP_PAD_TABLE; k++)
      d.padded_tokens[k] = spp_sat_add(d.padded_tokens[k], spp_round_up(length, INT64_C(1) << k));
  }
  *documents = d;
}

/* "ms-swift cannot ...: full, lora, qlora". `allowed` is indexed like the words of the table. */
static enum spp_status require(const struct spp_framework *framework, const char *option,
                               enum spp_words_table table, int value, const bool *allowed,
                               struct spp_diag *diag) {
  const struct spp_words *words = spp_words_of(table);
  char hint[256] = "it knows:";
  size_t used = strlen(hint);
  if (value >= 0 && value < words->count && allowed[value]) return SPP_OK;
  for (int i = 0; i < words->count && used < sizeof hint - 1; i++)
    if (allowed[i]) {
      int n = snprintf(hint + used, sizeof hint - used, " %s", words->names[i]);
      if (n > 0) used += (size_t)n;
    }
  return spp_diag_set(diag, SPP_ERR_USAGE, option, hint, "%s does not do %s %s (%s)", framework->display,
                      option + strspn(option, "-"), spp_words_name(table, value), framework->version);
}

static bool gpu_has_dtype(const struct spp_gpu *gpu, enum spp_dtype dtype) {
  return !gpu || gpu->flops_per_s[dtype] > 0;
}

/* Blackwell and later (torchtitan 0.3.0 components/quantization/nvfp4.py has_cuda_capability(10, 0)). */
static bool gpu_has_fp4(const struct spp_gpu *gpu) {
  return !gpu || gpu->compute_capability >= 100;
}

/* bf16 where framework and GPU have it, else fp16, else fp32. */
static enum spp_dtype default_dtype(const struct spp_framework *framework, const struct spp_gpu *gpu) {
  static const enum spp_dtype order[] = {SPP_DTYPE_BF16, SPP_DTYPE_FP16, SPP_DTYPE_FP32};
  for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
    if (framework->dtypes[order[i]] && gpu_has_dtype(gpu, order[i])) return order[i];
  return SPP_DTYPE_BF16;
}

/* The framework's kernel, unless the GPU is older than the kernel: FlashAttention-2 and the fused cuDNN
 * kernels need compute capability 8.0, FlashAttention-3 needs 9.0 (Dao-AILab/flash-attention README). 0 = not
 * an NVIDIA GPU: taken as new. */
static enum spp_attention_impl default_attention(const struct spp_framework *framework,
                                                 const struct spp_gpu *gpu) {
  enum spp_attention_impl attention = framework->attention;
  int cc = gpu ? gpu->compute_capability : 0;
  if (cc == 0 || cc >= (attention == SPP_ATTN_FA3 ? 90 : 80)) return attention;
  if (attention == SPP_ATTN_FA3 && cc >= 80 && framework->attentions[SPP_ATTN_FA2]) return SPP_ATTN_FA2;
  return framework->attentions[SPP_ATTN_SDPA] ? SPP_ATTN_SDPA : attention;
}

static int or_else(int value, int fallback) {
  return value == SPP_UNSET ? fallback : value;
}

static int64_t or_else64(int64_t value, int64_t fallback) {
  return value > 0 ? value : fallback;
}

/* 16-bit moments where the framework's own recipe of this family of models has them. */
static enum spp_optimizer default_optimizer(const struct spp_framework *f, const struct spp_arch *arch) {
  for (int i = 0; arch && i < SPP_MAX_REFUSED_TYPES && f->bf16_moments_types[i][0]; i++)
    if (strcmp(f->bf16_moments_types[i], arch->model_type) == 0) return SPP_OPTIMIZER_ADAMW_BF16;
  return SPP_OPTIMIZER_ADAMW;
}

static void resolve_choices(const struct spp_job_spec *spec, const struct spp_framework *f,
                            struct spp_job *job) {
  job->mode = (enum spp_mode)or_else(spec->mode, f->trains ? SPP_MODE_TRAIN : SPP_MODE_INFER);
  job->method = (enum spp_method)or_else(spec->method, SPP_METHOD_FULL);
  job->optimizer = (enum spp_optimizer)or_else(spec->optimizer, (int)default_optimizer(f, spec->arch));
  job->dtype = (enum spp_dtype)or_else(spec->dtype, (int)default_dtype(f, spec->gpu));
  job->fp4 = job->dtype == SPP_DTYPE_NVFP4;
  if (job->fp4) { /* cast as FP8; its products: spp_kernel_rates_narrow */
    double tail = f->fp4_tail_share * (double)spec->arch->layers;
    job->dtype = SPP_DTYPE_FP8;
    job->fp4_layers = spec->arch->layers - (int64_t)ceil(tail);
  }
  job->kv_dtype =
      (enum spp_dtype)or_else(spec->kv_dtype, job->dtype == SPP_DTYPE_FP8 ? SPP_DTYPE_BF16 : (int)job->dtype);
  job->attention = (enum spp_attention_impl)or_else(spec->attention, (int)default_attention(f, spec->gpu));
  job->kernels = (enum spp_kernel_style)or_else(spec->kernels, (int)f->kernels);
  job->ring_impl = (enum spp_ring_impl)or_else(spec->ring_impl, (int)f->ring_impl);
  job->ring_order =
      (enum spp_ring_order)or_else(spec->ring_order, f->ring_zigzag ? SPP_RING_ZIGZAG : SPP_RING_CONTIGUOUS);
  job->allocator = (enum spp_allocator)or_else(spec->allocator, f->segments == SPP_SEGMENTS_EXPANDABLE
                                                                    ? SPP_ALLOCATOR_EXPANDABLE
                                                                    : SPP_ALLOCATOR_PLAIN);
  job->plain_segments = job->allocator == SPP_ALLOCATOR_PLAIN && f->segments != SPP_SEGMENTS_IN_FACTOR;
  job->graphs = job->mode == SPP_MODE_INFER ? 0 : spec->graphs;
  bool path = spec->loss >= (int)SPP_LOSS_CHOICE_COUNT;
  job->loss = (enum spp_loss_choice)or_else(path ? SPP_UNSET : spec->loss, (int)f->loss_default);
  job->loss_path_forced = path ? spec->loss - (int)SPP_LOSS_CHOICE_COUNT : SPP_UNSET;
  job->quant = (enum spp_quant)or_else(spec->quant, SPP_QUANT_NF4_DOUBLE);
  job->serves_quantised = job->mode == SPP_MODE_INFER && spec->quant != SPP_UNSET;
  job->expert_capacity = spec->arch && spec->arch->experts > 0 ? spec->expert_capacity : 0;
  job->packing = or_else(spec->packing, 0) != 0;
  job->train_embeddings = or_else(spec->train_embeddings, 0) != 0;
  job->vision_trainable = or_else(spec->vision_trainable, 0) != 0;
  job->no_reference = spec->reference == 0;
  job->own_reference = spec->reference == 1;
  job->overlap = spec->overlap;
  job->grads_bytes = spec->grads_bytes;
  job->fp8_params = spec->fp8_params;
}

static void resolve_sizes(const struct spp_job_spec *spec, const struct spp_framework *f,
                          struct spp_job *job) {
  bool lora = spp_job_has_adapters(job);
  bool galore = job->method == SPP_METHOD_GALORE || job->method == SPP_METHOD_Q_GALORE;
  job->gpus = spec->gpus;
  job->seq_tokens = spec->seq_tokens;
  job->prompt_tokens = job->mode == SPP_MODE_INFER ? spp_min64(spec->prompt_tokens, spec->seq_tokens) : 0;
  job->loss_chunk_tokens = or_else64(spec->loss_chunk_tokens, f->loss_chunk_tokens);
  job->lora_rank = lora ? or_else64(spec->lora_rank, LORA_RANK_DEFAULT) : 0;
  job->lora_dropout = lora ? (spec->lora_dropout >= 0 ? spec->lora_dropout : f->lora_dropout_default) : 0;
  job->lora_targets = lora ? (spec->lora_targets ? spec->lora_targets : SPP_LORA_ALL_LINEAR) : 0;
  job->galore_rank = galore ? or_else64(spec->galore_rank, GALORE_RANK_DEFAULT) : 0;
  job->grpo_completions = or_else64(spec->grpo_completions, GRPO_COMPLETIONS_DEFAULT);
  int64_t group = job->mode == SPP_MODE_GRPO ? spp_max64(job->grpo_completions, 1) : 1; /* whole prompts */
  job->global_batch = or_else64(spec->global_batch, spp_round_up(spp_max64(spec->gpus, 1), group));
  job->images_per_sequence = spec->images_per_sequence;
  job->image_patches = spec->image_patches;
  job->image_tokens = spec->image_tokens;
  job->bucket_elements = spec->bucket_elements;
  job->max_memory_bytes = spec->max_memory_bytes;
  if (spec->gpu && spec->gpu->capacity_bytes > 0) /* a budget makes no card larger */
    job->max_memory_bytes = spp_min64(spec->max_memory_bytes, spec->gpu->capacity_bytes);
  job->usd_per_gpu_hour = spec->usd_per_gpu_hour >= 0 ? spec->usd_per_gpu_hour
                          : spec->gpu                 ? spec->gpu->usd_per_hour
                                                      : 0;
  job->documents = spec->documents;
  if (job->documents.lengths && job->documents.padded_tokens[0] == 0)
    spp_documents_measure(spec->documents.lengths, spec->documents.count, spec->seq_tokens, &job->documents);
}

static double sum_in_squares(double a, double b) {
  return sqrt(a * a + b * b);
}

void spp_job_widths(struct spp_job *job) {
  const struct spp_framework *f = job->framework;
  const struct spp_calib *calib = job->calib;
  job->memory_sigma = f->memory_sigma;
  job->time_sigma = f->time_sigma;
  if (!calib) return;
  const struct spp_spread *spread = &calib->spread;
  job->time_sigma = sum_in_squares(job->time_sigma, calib->sigma);
  if (f->memory_runs < spread->least_runs)
    job->memory_sigma =
        sum_in_squares(job->memory_sigma, job->settings_open ? spread->memory_open : spread->memory);
  if (f->time_runs < spread->least_runs && job->settings_open)
    job->time_sigma = sum_in_squares(job->time_sigma, spread->time_open);
}

enum spp_status spp_job_resolve(const struct spp_job_spec *spec, const struct spp_framework *framework,
                                struct spp_job *job, struct spp_diag *diag) {
  struct spp_job j = {.arch = spec->arch,
                      .gpu = spec->gpu,
                      .cluster = spec->cluster,
                      .framework = framework,
                      .calib = spec->calib,
                      .settings_open = spec->settings_open};
  resolve_choices(spec, framework, &j);
  resolve_sizes(spec, framework, &j);
  if (j.expert_capacity > 0 && !framework->expert_capacity)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--moe-capacity", "leave it out",
                        "experts of a fixed capacity are not modelled for %s", framework->display);
  for (int i = 0; i < SPP_GRAPH_COUNT; i++)
    if (j.graphs >> i & 1 && !framework->graphs[i])
      return spp_diag_set(diag, SPP_ERR_USAGE, "--cuda-graphs", "leave it out",
                          "CUDA graphs of %s are not modelled for %s", spp_words_name(SPP_WORDS_GRAPH, i),
                          framework->display);
  const bool orders[SPP_RING_ORDER_COUNT] = {
      [SPP_RING_CONTIGUOUS] = !framework->ring_zigzag || framework->ring_orders[SPP_RING_CONTIGUOUS],
      [SPP_RING_ZIGZAG] = framework->ring_zigzag || framework->ring_orders[SPP_RING_ZIGZAG]};
  const struct {
    const char *option;
    enum spp_words_table table;
    int value;
    const bool *allowed;
  } needs[] = {{"--mode", SPP_WORDS_MODE, (int)j.mode, framework->modes},
               {"--method", SPP_WORDS_METHOD, (int)j.method, framework->methods},
               {"--dtype", SPP_WORDS_DTYPE, (int)spp_job_format(&j), framework->dtypes},
               {"--ring-order", SPP_WORDS_RING_ORDER, (int)j.ring_order, orders},
               {"--attention", SPP_WORDS_ATTENTION, (int)j.attention, framework->attentions},
               {"--loss", SPP_WORDS_LOSS_CHOICE, (int)j.loss, framework->losses}};
  for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
    enum spp_status status =
        require(framework, needs[i].option, needs[i].table, needs[i].value, needs[i].allowed, diag);
    if (status != SPP_OK) return status;
  }
  if (!gpu_has_dtype(j.gpu, j.dtype) || (j.fp4 && !gpu_has_fp4(j.gpu)))
    return spp_diag_set(diag, SPP_ERR_USAGE, "--dtype", "choose another dtype or GPU",
                        "%s has no %s units of known speed", j.gpu->display,
                        spp_words_name(SPP_WORDS_DTYPE, (int)spp_job_format(&j)));
  spp_params_count(spec->arch, &j.params);
  spp_model_sums_count(spec->arch, j.lora_targets, &j.sums);
  if (framework->joined_adapters) spp_model_sums_join(&j.sums);
  for (int k = 0; framework->unpacked_experts && k < spec->arch->kind_count; k++)
    j.sums.kinds[k].quantised_expert = j.sums.kinds[k].quantised_expert_modules = 0;
  spp_job_widths(&j);
  *job = j;
  return SPP_OK;
}
