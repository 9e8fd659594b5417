/* What is to be trained, on what, with what: everything but the layout. */
#ifndef SPP_MODEL_JOB_H
#define SPP_MODEL_JOB_H

#include "model/arch.h"
#include "model/framework.h"
#include "model/hw.h"
#include "model/params.h"
#include "model/shards.h"

struct spp_calib;

enum spp_optimizer {
  SPP_OPTIMIZER_ADAMW,      /* moments as the framework keeps them */
  SPP_OPTIMIZER_ADAMW_BF16, /* 16-bit moments */
  SPP_OPTIMIZER_ADAMW_8BIT, /* bitsandbytes blockwise */
  SPP_OPTIMIZER_ADAFACTOR,
  SPP_OPTIMIZER_MUON,
  SPP_OPTIMIZER_SGD,
  SPP_OPTIMIZER_COUNT
};
enum spp_objective {
  SPP_OBJECTIVE_THROUGHPUT,
  SPP_OBJECTIVE_MEMORY,
  SPP_OBJECTIVE_COST,
  SPP_OBJECTIVE_COUNT
};
enum spp_quant {
  SPP_QUANT_NF4,
  SPP_QUANT_NF4_DOUBLE,
  SPP_QUANT_GPTQ4,
  SPP_QUANT_INT8,
  SPP_QUANT_GPTQ8,
  SPP_QUANT_COUNT
};

enum { SPP_UNSET = -1 };
#define SPP_LORA_ALL_LINEAR 0xffffffffu
enum {
  SPP_LORA_Q = 1,
  SPP_LORA_K = 2,
  SPP_LORA_V = 4,
  SPP_LORA_O = 8,
  SPP_LORA_GATE = 16,
  SPP_LORA_UP = 32,
  SPP_LORA_DOWN = 64
};

/* Lengths of the documents packed into one sequence of seq_tokens; count 0 = one document of full length. */
enum { SPP_PAD_TABLE = 18 };
struct spp_documents {
  int64_t count;      /* documents over all packed sequences described */
  int64_t sequences;  /* packed sequences they fill */
  int64_t tokens;     /* real tokens */
  double sum_squares; /* sum of squared lengths, real */
  int64_t longest_tokens;
  int64_t fullest_tokens; /* real tokens of the fullest packed sequence */
  const int64_t *lengths; /* count of them, for padding to 2*cp each; owned by the caller's arena */
  int64_t padded_tokens[SPP_PAD_TABLE]; /* tokens when each document is padded to a multiple of 2^i */
};
/* Describe `count` documents packed in their order into sequences of at most seq_tokens (longer ones are cut
 * to it): fills every field. lengths are kept, not copied, and must be positive. */
void spp_documents_measure(const int64_t *lengths, int64_t count, int64_t seq_tokens,
                           struct spp_documents *documents);
/* Tokens when each document is padded to a multiple of `unit`. */
int64_t spp_documents_padded(const struct spp_documents *documents, int64_t unit);

struct spp_job {
  const struct spp_arch *arch;
  struct spp_params params;
  struct spp_model_sums sums; /* filled by spp_job_resolve: what every rank-wise count starts from */
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  const struct spp_framework *framework;
  const struct spp_calib *calib;

  int64_t gpus, seq_tokens, global_batch; /* global_batch: sequences (DPO: pairs) per optimizer step */
  enum spp_mode mode;
  enum spp_method method;
  enum spp_optimizer optimizer;
  enum spp_dtype dtype, kv_dtype; /* dtype fp8 under NVFP4 too: */
  bool fp4;                       /* matrix products of the first fp4_layers layers are NVFP4 */
  int64_t fp4_layers;
  enum spp_attention_impl attention;
  enum spp_kernel_style kernels;
  enum spp_ring_impl ring_impl;
  enum spp_ring_order ring_order;
  double expert_capacity; /* rows an expert has room for, over its even share; 0: an even share, all used */
  enum spp_allocator allocator;
  bool plain_segments; /* blocks that plain segments strand are counted, and not in the allocator's factor */
  unsigned graphs;     /* SPP_GRAPH_*: modules that CUDA graphs capture */
  enum spp_loss_choice loss;
  int loss_path_forced; /* enum spp_loss_path or SPP_UNSET */
  int64_t loss_chunk_tokens;

  int64_t lora_rank;
  double lora_dropout;
  unsigned lora_targets;
  bool train_embeddings; /* adapters beside a trained copy of embedding and head (peft modules_to_save) */
  enum spp_quant quant;
  bool serves_quantised; /* inference from weights stored as `quant` says */
  int64_t galore_rank;
  int64_t prompt_tokens; /* inference: of seq_tokens, the others are generated one by one; 0 = not said */

  bool packing;
  struct spp_documents documents;
  int64_t images_per_sequence, image_patches,
      image_tokens; /* patches and tokens of all images of one sequence */
  bool vision_trainable;
  int64_t grpo_completions;
  bool no_reference;  /* DPO, GRPO, PPO: nothing is compared with a frozen model */
  bool own_reference; /* beside adapters, which could be switched off instead */

  int overlap;                     /* 0, 1 or SPP_UNSET: the framework's */
  int grads_bytes;                 /* 2, 4 or SPP_UNSET */
  int fp8_params;                  /* 0, 1 or SPP_UNSET: the framework's */
  int64_t bucket_elements;         /* or SPP_UNSET */
  int64_t max_memory_bytes;        /* budget per GPU, at most what the card has; 0 = all of it */
  double usd_per_gpu_hour;         /* 0 = unknown */
  bool settings_open;              /* as in the spec */
  double memory_sigma, time_sigma; /* 1-sigma relative errors: spp_job_widths */
};

/* What the user said: SPP_UNSET (or 0 for sizes, NULL for pointers) where nothing. Resolved against each
 * framework in turn. */
struct spp_job_spec {
  const struct spp_arch *arch;
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  const struct spp_calib *calib;
  int64_t gpus, seq_tokens, global_batch;
  int mode, method, optimizer, dtype, kv_dtype, attention, kernels, ring_impl, ring_order, allocator;
  unsigned graphs; /* 0 = none */
  int loss;        /* enum spp_loss_choice, or SPP_LOSS_CHOICE_COUNT + enum spp_loss_path: that very path */
  int64_t loss_chunk_tokens;
  int64_t lora_rank;
  double expert_capacity; /* 0 = unset */
  double lora_dropout;    /* negative = unset */
  unsigned lora_targets;  /* 0 = unset */
  int train_embeddings;
  int quant;
  int64_t galore_rank;
  int64_t prompt_tokens; /* 0 = unset */
  int packing;
  struct spp_documents documents; /* count 0 = unset */
  int64_t images_per_sequence, image_patches, image_tokens;
  int vision_trainable;
  int64_t grpo_completions;
  int reference;
  int overlap, grads_bytes, fp8_params;
  int64_t bucket_elements;
  int64_t max_memory_bytes;
  double usd_per_gpu_hour; /* negative = unset: the GPU's price if known */
  bool settings_open;      /* a record of a run that leaves more open than what was filled in */
};
void spp_job_spec_clear(struct spp_job_spec *spec);

/* What the method and mode of a job bring with them. */
bool spp_job_has_adapters(const struct spp_job *job); /* LoRA, QLoRA */
/* FP8 training keeps GEMM weights in 8 bit only: asked for, else as the framework does. */
bool spp_job_keeps_fp8_only(const struct spp_job *job);
double spp_job_fp4_share(const struct spp_job *job); /* of the layers, those whose products are NVFP4 */
/* Are its products TransformerEngine's? Megatron's layers are. */
/* What the job takes its sequences in: steps, or passes where nothing is trained. */
static inline const char *spp_job_round(const struct spp_job *job) {
  return job->mode == SPP_MODE_INFER ? "pass" : "step";
}
static inline bool spp_job_runs_te(const struct spp_job *job) {
  return job->framework->sharding == SPP_SHARDING_MEGATRON;
}
/* Bytes of `elements` 16-bit ones as its products read them: in 8 bits, or codes of 4 and a scale of 8 for 16
 * of them. */
int64_t spp_job_narrow_bytes(const struct spp_job *job, int64_t elements);
bool spp_job_compares(const struct spp_job *job); /* with a frozen reference: DPO, GRPO, PPO */
/* Forward passes of a micro-batch: its own, the reference's, under PPO those of reward model and critic. */
int spp_job_forwards(const struct spp_job *job);
bool spp_job_has_reference_copy(const struct spp_job *job); /* whose weights are there beside its own */
bool spp_job_quantises(const struct spp_job *job);          /* QLoRA, or inference from quantised weights */
/* QLoRA over a model whose unpacked weights, and with them hidden states, are fp32: the embedding gives fp32,
 * norms with fp32 weights and bitsandbytes' Linear4bit return the type they are given (nn/modules.py:
 * .to(inp_dtype)). */
bool spp_job_hidden_fp32(const struct spp_job *job);
/* Weights in fp32 that autocast casts to the job's 16-bit type, in every product of every pass. */
bool spp_job_casts_weights(const struct spp_job *job);
bool spp_job_has_projected_gradients(const struct spp_job *job); /* GaLore, Q-GaLore */
enum spp_dtype spp_job_format(const struct spp_job *job);        /* of its products: dtype, or NVFP4 */
bool spp_job_has_kv_cache(const struct spp_job *job);            /* inference, and the rollouts of GRPO */

/* memory_sigma and time_sigma: the framework's, wider where fewer runs of it were measured than tell
 * (calib->spread), and the error of the GPU's rates. From job->framework and job->calib (may be NULL). */
void spp_job_widths(struct spp_job *job);

/* A complete job: the spec, then the framework's defaults (attention kernels by GPU generation, loss path,
 * LoRA dropout...), then the field's (global_batch = gpus, bf16, AdamW, full fine-tuning). SPP_ERR_USAGE when
 * the framework cannot do what was asked (method, dtype, mode), naming what it can. */
enum spp_status spp_job_resolve(const struct spp_job_spec *spec, const struct spp_framework *framework,
                                struct spp_job *job, struct spp_diag *diag);

const char *spp_optimizer_name(enum spp_optimizer optimizer);
const char *spp_objective_name(enum spp_objective objective);
const char *spp_quant_name(enum spp_quant quant); /* "nf4", "nf4-double", "gptq4", "int8", "gptq8" */

#endif
