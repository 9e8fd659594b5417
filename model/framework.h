/* What a training framework keeps, sends, overlaps and refuses: loaded from configs/frameworks/<name>.json,
 * where every figure carries its source. No code asks for a framework by name. */
#ifndef SPP_MODEL_FRAMEWORK_H
#define SPP_MODEL_FRAMEWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "model/hw.h"

enum spp_sp_kind {
  SPP_SP_NONE,
  SPP_SP_ULYSSES,   /* all-to-all: sequence shards become head shards */
  SPP_SP_RING,      /* KV blocks passed point to point */
  SPP_SP_ALLGATHER, /* KV gathered over the group */
  SPP_SP_HYBRID,    /* Ulysses inside, ring outside */
  SPP_SP_KIND_COUNT
};
/* Which tokens a ring or all-gather rank holds: one piece, or two that make causal work equal. */
enum spp_ring_order { SPP_RING_CONTIGUOUS, SPP_RING_ZIGZAG, SPP_RING_ORDER_COUNT };
enum spp_ring_impl { SPP_RING_ZHUZILIN, SPP_RING_SWIFT, SPP_RING_TE, SPP_RING_IMPL_COUNT };
/* Segments of torch's caching allocator: of their own size, or one address range that grows and gives pages
 * back (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True). */
enum spp_allocator { SPP_ALLOCATOR_PLAIN, SPP_ALLOCATOR_EXPANDABLE, SPP_ALLOCATOR_COUNT };
/* What a framework's segments do: plain ones, of which blocks that serve no request are in its
 * allocator_factor or counted one by one; or expandable ones, whose free pages go back to the driver before
 * the allocator fails.
 */
enum spp_segments {
  SPP_SEGMENTS_IN_FACTOR,
  SPP_SEGMENTS_COUNTED,
  SPP_SEGMENTS_EXPANDABLE,
  SPP_SEGMENTS_COUNT
};
/* Modules of a layer that CUDA graphs capture, as bits (Megatron's cuda_graph_scope). */
enum { SPP_GRAPH_ATTN = 1 << 0, SPP_GRAPH_MLP = 1 << 1, SPP_GRAPH_COUNT = 2 };
enum spp_kernel_style { SPP_KERNELS_EAGER, SPP_KERNELS_FUSED };
enum spp_attention_impl {
  SPP_ATTN_EAGER, /* S x S matrices are kept */
  SPP_ATTN_SDPA,
  SPP_ATTN_FA2,
  SPP_ATTN_FA3,
  SPP_ATTN_TE,  /* cuDNN fused attention */
  SPP_ATTN_FA1, /* FlashAttention 1 and its Triton version: kernels of before August 2023 */
  SPP_ATTN_IMPL_COUNT
};
enum spp_method {
  SPP_METHOD_FULL,
  SPP_METHOD_LORA,
  SPP_METHOD_QLORA,
  SPP_METHOD_GALORE,
  SPP_METHOD_Q_GALORE,
  SPP_METHOD_COUNT
};
/* Groups of ranks with a communicator of their own, beside those of exchanges. */
enum spp_nccl_group {
  SPP_NCCL_GROUP_DATA,       /* data parallel ranks, though they are all ranks */
  SPP_NCCL_GROUP_STATISTICS, /* all ranks once more, for the gradients' norm */
  SPP_NCCL_GROUP_MODEL,      /* ranks of one model: flags */
  SPP_NCCL_GROUP_EMBEDDING,  /* the stages that share tied weights */
  SPP_NCCL_GROUP_EXPERTS,    /* ranks with the same experts, and those of all experts: counts of tokens */
  SPP_NCCL_GROUP_COUNT
};
enum spp_mode { SPP_MODE_TRAIN, SPP_MODE_DPO, SPP_MODE_GRPO, SPP_MODE_INFER, SPP_MODE_PPO, SPP_MODE_COUNT };
/* How the loss treats the logits; one row each in model/loss.c. */
enum spp_loss_path {
  SPP_LOSS_HF_FULL,        /* bf16 logits, fp32 copy, cross_entropy */
  SPP_LOSS_SP_16BIT,       /* ms-swift with sequence parallelism: cross entropy on 16-bit logits */
  SPP_LOSS_SP_CHUNKED,     /* same with CELOSS_PARALLEL_SIZE */
  SPP_LOSS_VOCAB_PARALLEL, /* Megatron vocab-parallel cross entropy */
  SPP_LOSS_FUSED_LINEAR,   /* Liger fused linear cross entropy: no full logits */
  SPP_LOSS_TILED,          /* ALST TiledFusedLogitsLoss */
  SPP_LOSS_CHUNKED,        /* logits and loss chunk by chunk, recomputed in backward */
  SPP_LOSS_FP32_LOGITS,    /* torchtitan: logits upcast to fp32, compiled cross entropy */
  SPP_LOSS_HF_SHIFTED,     /* transformers before 4.45: logits and labels shifted by a copy */
  SPP_LOSS_PARALLEL, /* torch DTensor loss_parallel: log-softmax over vocabulary shards, operator by operator
                      */
  SPP_LOSS_IN_PLACE, /* one matrix: the gradient overwrites the logits; statistics reduced over TP */
  SPP_LOSS_CHUNKS_KEPT,  /* Lightning: a list of fp32 chunks of logits, cross entropy chunk by chunk, all kept
                          */
  SPP_LOSS_CHUNKED_HEAD, /* torchtitan: head, loss and their backward chunk by chunk, gradients summed in fp32
                          */
  SPP_LOSS_CHUNKED_HEAD_EAGER, /* the same, its cross entropy not compiled */
  SPP_LOSS_VOCAB_COMPILED,     /* Megatron's fused cross entropy: vocab-parallel, its steps compiled */
  SPP_LOSS_CHUNKS_16BIT, /* torchtune: a list of 16-bit chunks of logits, compiled cross entropy chunk by
                            chunk */
  SPP_LOSS_XENTROPY,    /* flash-attn: one kernel over 16-bit logits, their gradient in a matrix of its own */
  SPP_LOSS_PAIRS_16BIT, /* trl: log-probabilities of two answers, row by row from 16-bit logits */
  SPP_LOSS_PAIRS_AUTOCAST, /* the same where autocast hands out fp32 logits */
  SPP_LOSS_PAIRS_FP32,     /* fp32 logits that the loop holds, their log-softmax whole */
  SPP_LOSS_FPDT, /* DeepSpeed FPDT_LogitsLoss: chunk by chunk in fp32, head and softmax again in backward */
  SPP_LOSS_PATH_COUNT
};
enum spp_loss_choice {
  SPP_LOSS_CHOICE_FULL,
  SPP_LOSS_CHOICE_CHUNKED,
  SPP_LOSS_CHOICE_FUSED,
  SPP_LOSS_CHOICE_VOCAB,
  SPP_LOSS_CHOICE_COUNT
};
enum spp_recompute { SPP_RECOMPUTE_NONE, SPP_RECOMPUTE_SELECTIVE, SPP_RECOMPUTE_FULL, SPP_RECOMPUTE_COUNT };
enum spp_recompute_module {
  SPP_RC_CORE_ATTN = 1 << 0,
  SPP_RC_MOE_ACT = 1 << 1,
  SPP_RC_LAYERNORM = 1 << 2,
  SPP_RC_MLA_UP_PROJ = 1 << 3,
  SPP_RC_MLP = 1 << 4,
  SPP_RC_MOE = 1 << 5,
  SPP_RC_SHARED_EXPERTS = 1 << 6
};
enum spp_offload {
  SPP_OFFLOAD_NONE,
  SPP_OFFLOAD_OPTIMIZER,
  SPP_OFFLOAD_OPTIMIZER_PARAMS,
  SPP_OFFLOAD_ACTIVATIONS,                  /* layer inputs kept by recompute */
  SPP_OFFLOAD_OPTIMIZER_ACTIVATIONS,        /* "optimizer+activations" */
  SPP_OFFLOAD_OPTIMIZER_PARAMS_ACTIVATIONS, /* "optimizer+params+activations" */
  SPP_OFFLOAD_COUNT
};
static inline bool spp_offload_optimizer(enum spp_offload o) {
  return o != SPP_OFFLOAD_NONE && o != SPP_OFFLOAD_ACTIVATIONS;
}
static inline bool spp_offload_params(enum spp_offload o) {
  return o == SPP_OFFLOAD_OPTIMIZER_PARAMS || o == SPP_OFFLOAD_OPTIMIZER_PARAMS_ACTIVATIONS;
}
static inline bool spp_offload_activations(enum spp_offload o) {
  return o >= SPP_OFFLOAD_ACTIVATIONS;
}
/* Who chooses Ulysses x ring of a degree given alone: the user; the framework, and nobody can say otherwise;
 * the framework, by a rule that degrees given one by one override. */
enum spp_sp_split {
  SPP_SPLIT_FREE,
  SPP_SPLIT_GCD_KV,         /* Ulysses = gcd(KV heads, degree); forced */
  SPP_SPLIT_DIVISOR_KV_NODE /* Ulysses = largest common divisor of both that fits a node; a default */
};
enum spp_sharding {
  SPP_SHARDING_NONE,
  SPP_SHARDING_DEEPSPEED,
  SPP_SHARDING_FSDP,
  SPP_SHARDING_MEGATRON,
  SPP_SHARDING_UNITS /* embedding, each layer, head: gathered for use and reduced one by one, nothing ahead */
};
enum spp_schedule {
  SPP_SCHEDULE_1F1B,
  SPP_SCHEDULE_INTERLEAVED,
  SPP_SCHEDULE_GPIPE,
  SPP_SCHEDULE_ZB_H1,
  SPP_SCHEDULE_ZB_H2,
  SPP_SCHEDULE_COUNT
};

/* How a training log counts the FLOPs of a step; formulas and sources in model/flops_reported.c. */
enum spp_reporter {
  SPP_REPORTER_NONE, /* prints no FLOP/s */
  SPP_REPORTER_MEGATRON,
  SPP_REPORTER_TORCHTITAN,
  SPP_REPORTER_FOUNDRY,
  SPP_REPORTER_SC21, /* older Megatron-LM, InternEvo, bigscience */
  SPP_REPORTER_VERL,
  SPP_REPORTER_TRANSFORMERS,
  SPP_REPORTER_COUNT
};

/* What is padded to the framework's sequence multiple. */
enum spp_pad_scope {
  SPP_PAD_SEQUENCE,           /* the whole sequence, packed or not */
  SPP_PAD_DOCUMENT_WITH_RING, /* each packed document, but only when there is a ring part */
  SPP_PAD_DOCUMENT,           /* each packed document */
  SPP_PAD_SCOPE_COUNT
};
/* Which pipeline stages get the layers left over by an equal split. */
enum spp_stage_split {
  SPP_STAGE_REMAINDER_LAST,
  SPP_STAGE_REMAINDER_FIRST,
  SPP_STAGE_REMAINDER_INNER,
  SPP_STAGE_SPLIT_COUNT
};

/* Bytes per trainable parameter at one ZeRO stage, before division by the shard group. */
struct spp_states {
  int weight_bytes; /* copy the GEMMs read; at a stage that shards weights: the resident shard */
  int gather_bytes; /* element size on the wire when weights are gathered (stage 3) */
  int grad_bytes;
  int reduce_bytes;     /* gradient element on the wire; 0 = grad_bytes */
  int master_bytes;     /* 0 when the resident weights are the master */
  int moment_bytes;     /* both Adam moments together */
  int step_extra_bytes; /* temporary per parameter of the local partition during the step (fp32 gradient copy)
                         */
  bool shard_weights, shard_grads, shard_optimizer;
  bool supported;
};

enum { SPP_MAX_RULES = 48, SPP_MAX_LAUNCH = 64, SPP_MAX_SOURCES = 96, SPP_MAX_REFUSED_TYPES = 8 };

struct spp_framework_rule {
  char id[48];      /* row of the table in model/rules.c */
  char version[64]; /* "ms-swift 3602360a" */
  char source[160];
  int index; /* in the rule table, resolved by the loader */
};
struct spp_framework_source { /* where a field of the file was read */
  char key[48];
  char text[200];
};
struct spp_launch_word {
  char when[64];  /* condition on layout/job fields, empty = always; e.g. "sp>1" */
  char text[200]; /* with {placeholders} */
};

/* How a KV cache takes up a token: in room it has; joined with it layer by layer, so that one layer's keys or
 * values exist twice; or in a new cache that is whole before the old one goes. */
enum spp_cache_growth { SPP_CACHE_IN_PLACE, SPP_CACHE_JOINS_LAYER, SPP_CACHE_JOINS_ALL };

struct spp_framework {
  char name[32], display[64], version[96];
  bool trains;   /* false: inference only (vllm) */
  bool searched; /* among "any" frameworks; false: planned only when asked for by name */

  /* what may be searched */
  bool sp_kinds[SPP_SP_KIND_COUNT];
  enum spp_sp_split sp_split;
  enum spp_sp_kind sp_kind_default; /* when the user gives a degree alone */
  bool ring_needs_packing;
  enum spp_ring_impl ring_impl;
  bool ring_zigzag;                       /* balanced; false = contiguous */
  bool expert_capacity;                   /* experts may have room for a fixed number of rows */
  bool ring_orders[SPP_RING_ORDER_COUNT]; /* orders it can be told beside that */
  bool ulysses_overlap;                   /* q/k/v all-to-alls overlap projections */
  bool allgather_overlap;
  int64_t allgather_heads; /* KV heads whose K and V are gathered at a time, the next behind them; 0 = all */
  bool ring_waits;         /* hops do not run beside attention: one thread computes and moves messages */
  bool tp, pp, vpp, ep, etp, megatron_sp, hsdp;
  bool dp_shard_includes_sp; /* ZeRO/FSDP shard group is dp x sp */
  bool offloads[SPP_OFFLOAD_COUNT];
  bool recomputes[SPP_RECOMPUTE_COUNT];
  unsigned selective_modules; /* default module list of selective recompute */
  bool selective_is_op_level; /* torchtitan: keeps matmul outputs instead of dropping modules */
  bool schedules[SPP_SCHEDULE_COUNT];
  bool losses[SPP_LOSS_CHOICE_COUNT];
  bool methods[SPP_METHOD_COUNT];
  bool modes[SPP_MODE_COUNT];
  bool dtypes[SPP_DTYPE_COUNT];
  bool attentions[SPP_ATTN_IMPL_COUNT];
  char sp_refused_types[SPP_MAX_REFUSED_TYPES]
                       [32]; /* HF model_type prefixes without any sequence parallelism */
  char ring_refused_types[SPP_MAX_REFUSED_TYPES][32]; /* without a ring part (linear attention layers) */
  char engine_loss_types[SPP_MAX_REFUSED_TYPES]
                        [32]; /* HF model_types whose code leaves logits as they are: without
                               * autocast, in a DeepSpeed engine, the loss is in 16 bit */
  char bf16_moments_types[SPP_MAX_REFUSED_TYPES]
                         [32]; /* HF model_types whose recipes keep Adam's moments in 16 bit */

  /* padding: a sequence (or each packed document) is padded to a multiple of pad_ulysses * sp without a ring
   * or all-gather part, pad_ring * sp with one, times tp under Megatron SP where pad_tp; 0 = not at all */
  int64_t pad_ulysses, pad_ring;
  int64_t pad_ring_contiguous; /* in place of pad_ring where a rank holds one piece; 0: the same */
  bool pad_tp;
  enum spp_pad_scope pad_scope;
  enum spp_stage_split stage_split;
  bool recompute_by_layers;   /* full recompute of the first n layers of a stage, the others not at all */
  bool stage_uneven;          /* takes numbers of layers for the first and the last stage */
  bool stage_outer_if_uneven; /* embedding and head count as one layer each when the layers do not divide */
  int64_t stage_outer_layers; /* layers that embedding and head each count for when layers are split over
                                 stages */

  /* defaults */
  enum spp_kernel_style kernels;
  enum spp_attention_impl attention;
  int zero_default;
  enum spp_recompute recompute_default;
  enum spp_loss_choice loss_default;
  enum spp_loss_path loss_path[SPP_LOSS_CHOICE_COUNT];    /* without sequence parallelism */
  enum spp_loss_path loss_path_sp[SPP_LOSS_CHOICE_COUNT]; /* with */
  int64_t loss_chunk_tokens, loss_shards;
  int loss_path_tp;    /* enum spp_loss_path of the full loss under tensor parallelism; hf-full: as without */
  int loss_path_pairs; /* enum spp_loss_path of the full loss in modes dpo and ppo; hf-full: as in training */
  bool pairs_whole_vocabulary; /* tensor parallel ranks gather the logits of that loss */
  bool reference_caches;       /* a reference's forward makes a KV cache, being told nothing of it */
  bool loss_gathers_sequence;  /* logits of the whole sequence on every rank (RL log-probs in some frameworks)
                                */
  bool keeps_logits_reference; /* outputs.logits stays alive through backward */
  bool keeps_logits_in_step;   /* and until the next forward returns: the training loop holds the outputs */
  int logit_metrics;      /* cross entropies that the training loop computes from them after backward, without
                             gradient */
  int64_t vocab_multiple; /* vocabulary padded to a multiple of this x tp; 1 = not padded */
  double lora_dropout_default;
  bool lora_fp32_adapters; /* unless a DeepSpeed engine (zero > 0 there) casts the whole module to 16 bit */
  bool lora_autocast;
  bool own_layers;      /* layers are the framework's own: what transformers' families keep does not apply */
  bool joined_qkv;      /* q, k, v are one product and v a view of it */
  bool joined_adapters; /* q, k, v are one linear with one adapter, gate and up another (Megatron's) */
  bool shared_expert_adapters; /* a rank's experts of a layer have one adapter in common */
  bool quantises_head;         /* the head is quantised too, and unpacked whole for the logits */
  bool shards_scales;          /* scales are part of a quantised parameter and sharded with it */
  bool quantises_half;         /* quantised from fp16: in bf16 an unpacked weight is made twice */
  bool fused_experts; /* experts are one tensor a projection, unpacked whole and adapted as one (transformers
                         5) */
  bool loads_fp32; /* weights stay in fp32 and autocast casts them in every pass (transformers' Trainer over
                    * from_pretrained's default type) */
  bool zeroes_gradients; /* zero_grad(set_to_none=False): gradients stay from step to step */
  bool unpacked_experts; /* those are no Linear modules, the only ones that are packed (bitsandbytes in
                            transformers 5) */
  bool kbit_fp32; /* what is not packed is cast to fp32 before training, and hidden states with it (peft
                   * prepare_model_for_kbit_training) */
  bool quantised_keeps_input; /* a quantised product saves its input though the weight is frozen */

  /* memory */
  struct spp_states states[4];
  enum spp_sharding sharding;
  int sharding_weights;       /* enum spp_sharding of the stages that shard weights; none: the same */
  bool gathers_on_own_stream; /* weights are gathered into blocks of a stream of their own (FSDP1) */
  int64_t reduce_bucket_elements;
  int64_t prefetch_elements, max_live_parameters;
  bool bucket_auto; /* stage 3 with HF "auto": reduce h*h, prefetch 0.9 h*h elements */
  int bucket_copies;
  bool placeholder_grads;   /* fused accumulation of weight gradients hands autograd an unused 16-bit gradient
                               per shape */
  int64_t workspace_bytes;  /* matrix product workspaces inside the allocator */
  bool grads_reuse_weights; /* stage 3 without accumulation: gradients take the place of the 16-bit weights
                               (Gemini) */
  bool steps_in_backward; /* each gradient is used up by the optimizer and freed as soon as it is complete */
  bool joins_buckets; /* gradients are copied into the reduce buckets: bucket_copies of them are on their way
                         at once */
  bool norm_copies_grads; /* the norm is taken of fp32 copies of all gradients that are reduced by then */
  bool optimizer_foreach; /* torch foreach AdamW: extra fp32 lists at the step */
  int optimizer_lists;    /* how many: 0 = 1; torch before 2.1 makes a second one for the denominators */
  bool optimizer_fused;
  double allocator_factor; /* reserved / allocated */
  int64_t context_bytes;
  int64_t nccl_bytes_per_group; /* per communicator; 0 = from channels and peers */
  int64_t nccl_channels; /* of collectives, where the machine does not say (model/nccl.h); 0 = no NCCL */
  int64_t nccl_version;  /* as NCCL_VERSION_CODE: 22703 = 2.27.3; 0 = an old one */
  bool nccl_cumem_off, nccl_nvls_off; /* NCCL_CUMEM_ENABLE=0, NCCL_NVLS_ENABLE=0 */
  char nccl_chunk_types[SPP_MAX_REFUSED_TYPES]
                       [32]; /* HF model_types whose recipes set NCCL_P2P_NET_CHUNKSIZE to 2 MiB */
  bool nccl_groups[SPP_NCCL_GROUP_COUNT]; /* communicators that other frameworks do without */
  bool tp_user_buffers; /* exchanges of tensor parallelism go through buffers of their own, one a product */
  bool nccl_all_groups; /* a communicator for every group of ranks that has a name, equal ranks or not */
  bool position_ids_gather; /* ms-swift, ALST: int64 position ids gathered in every layer */
  bool vision_on_every_sp_rank;
  bool reentrant_checkpoint; /* recompute holds a layer's output and its gradient through the layer's backward
                              */
  bool tiles_mlp; /* MLP forward and backward in tiles of about hidden_size tokens, inputs kept only (ALST) */
  bool fpdt;      /* sequences pass attention, MLP and loss in chunks, if asked (DeepSpeed FPDT) */
  bool fpdt_gated_mlp;       /* gated MLPs too, not plain ones alone */
  bool fp8_params;           /* FP8 training keeps GEMM weights in 8 bit only (fp8_param_gather) */
  int64_t step_tokens;       /* serving: tokens one scheduler step runs at most; 0 = whole sequences */
  int64_t step_tokens_large; /* the same on a card of 70 GiB and more; 0 = step_tokens */
  int64_t
      step_tokens_long; /* the same for contexts above 32,768 tokens, whose prompts are cut; 0 = as others */
  int64_t profiled_sequences;       /* sequences whose sampling the server runs to learn its peak; 0 = none */
  int64_t profiled_sequences_large; /* on a card of 70 GiB and more; 0 = profiled_sequences */
  enum spp_cache_growth cache_growth; /* serving: what a generated token does to the KV cache */
  bool prompt_logits;                 /* logits of the whole prompt are made, not of its last token alone */
  bool prompt_logits_16bit;           /* and left in the type of the weights */
  int64_t kv_scale_bytes;    /* beside each head's 8-bit keys or values of a token; they are unpacked for
                                attention */
  bool budget_is_torch_only; /* its budget leaves out what is not in torch's allocator: context, NCCL */
  bool offload_keeps_grads;  /* an offloaded optimizer takes gradients from the GPU at the step only */
  bool flat_units; /* FSDP1: units are cut on the GPU, one after the other, and gathered on a stream of their
                      own */
  enum spp_segments segments;   /* of torch's allocator, by the framework's launch line */
  bool graphs[SPP_GRAPH_COUNT]; /* modules that CUDA graphs can capture: bit numbers of SPP_GRAPH_* */
  bool splits_segments; /* no expandable segments, rows of varying length: inputs land in freed blocks of
                           logits */
  bool logs_no_memory;  /* its log has no memory figure: one that is printed without a name is the driver's */
  bool logs_first_step; /* its log prints memory once, after the first step */
  bool loads_whole_model;   /* each rank reads the whole model before it is sharded (no ZeRO-3 init, no meta
                               device) */
  bool loads_packed_whole;  /* the same of a packed model, let go of when all of it is sharded */
  bool offloads_all_inputs; /* of layer inputs on the host only the running layer's is on the GPU, none in the
                               loss */

  /* time */
  bool overlap_grad_reduce, overlap_param_gather, overlap_tp, overlap_pp, overlap_ep;
  bool ep_sends_once_per_node; /* the dispatcher forwards a token inside a node instead of sending it to each
                                  of its experts */
  double
      state_exposed_share; /* of sharded states whose exchange could hide: what stays in view all the same */
  double tp_exposed_share; /* same of tensor-parallel exchanges that overlap with products */
  bool copies_gathered;    /* gathered weights and gradients on their way out are copied once more (FSDP2) */
  bool gathers_into_buffers; /* of a stream of their own, from which they are copied (FSDP2) */
  bool outer_units_apart; /* embedding and head are sharded units of their own, not one that stays gathered */
  bool
      repeats_kv; /* K and V are repeated to all query heads before attention, and before they are gathered */
  bool selective_keeps_fp8;   /* op-level recompute names FP8 products among those that stay */
  bool fuses_qkv;             /* q, k, v are one product to op-level recompute */
  double fp4_tail_share;      /* of the layers, the last ones, that stay in 16 bit under NVFP4 */
  bool fp8_remakes_inputs;    /* compiled FP8 products keep no input: it is made and cast again from what the
                                 layer keeps */
  bool gathers_once_under_pp; /* weights stay gathered and gradients whole over the micro-batches of a
                                 pipeline */
  double host_s_per_layer; /* host time to launch one dense layer's forward; a step cannot run faster than the
                              host */
  double launches_per_layer;  /* kernels that time is for; 0 = 55, an eager layer's */
  double launches_per_gather; /* as many launches as fetching and releasing one module's sharded weights costs
                                 the host */
  double launches_per_unit;   /* the same for a unit of FSDP, a layer, in each pass */
  bool adapters_are_units;    /* of FSDP, each A and B by itself: where units may not mix trained and frozen
                                 weights */
  double launches_per_gradient; /* and for handing one finished gradient to ZeRO-1 and -2, in backward */
  double fp8_cast_bytes;        /* moved per 16-bit element of an operand that is cast to 8 bits; 0 = 4 */
  bool fp8_casts_weights;       /* for every product, not once a step */
  double host_s_per_step;
  double comm_sm_slowdown;         /* share added to compute that overlaps communication */
  enum spp_reporter reports;       /* whose FLOP/s its log prints */
  double memory_sigma, time_sigma; /* 1-sigma relative error of a prediction */
  int64_t memory_runs, time_runs;  /* measured runs of this very file behind them: "extends" passes none on */

  int rule_count;
  struct spp_framework_rule rules[SPP_MAX_RULES];
  int launch_count;
  struct spp_launch_word launch[SPP_MAX_LAUNCH];
  int source_count;
  struct spp_framework_source sources[SPP_MAX_SOURCES];
};

enum { SPP_MAX_FRAMEWORKS = 48 }; /* looked at in one search */

/* `name` is a name in config_dir/frameworks or the path of the user's own file (it has a '/' or ends in
 * ".json"), which may start from a shipped one by "extends". Every numeric field must have a source. The
 * framework lives in `arena`. SPP_ERR_INPUT: bad file, with JSON path and nearest key; SPP_ERR_USAGE: no such
 * name, with the nearest. */
enum spp_status spp_framework_load(const char *config_dir, const char *name, struct spp_arena *arena,
                                   const struct spp_framework **framework, struct spp_diag *diag);
/* The shipped ones into list[SPP_MAX_FRAMEWORKS], by name; with searched_only those a plan for "any" looks
 * at. */
enum spp_status spp_framework_load_all(const char *config_dir, bool searched_only, struct spp_arena *arena,
                                       const struct spp_framework **list, int *count, struct spp_diag *diag);
enum spp_status spp_framework_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                                   int *count, struct spp_diag *diag);

/* Source text of a field ("loss_chunk_tokens", "states.3"), or NULL. */
const char *spp_framework_source(const struct spp_framework *framework, const char *key);

/* Lower-case words of the enums, as the contract spells them ("hybrid", "swift", "optimizer+params", ...). */
const char *spp_sp_kind_name(enum spp_sp_kind kind);
const char *spp_ring_impl_name(enum spp_ring_impl impl);
const char *spp_ring_order_name(enum spp_ring_order order);
const char *spp_recompute_name(enum spp_recompute recompute);
const char *spp_offload_name(enum spp_offload offload);
const char *spp_loss_path_name(enum spp_loss_path path);
const char *spp_loss_choice_name(enum spp_loss_choice choice);
const char *spp_attention_impl_name(enum spp_attention_impl impl);
const char *spp_schedule_name(enum spp_schedule schedule);
const char *spp_recompute_module_name(int bit); /* bit number, 0 for SPP_RC_CORE_ATTN */
const char *spp_kernels_name(enum spp_kernel_style kernels);
const char *spp_method_name(enum spp_method method);
const char *spp_mode_name(enum spp_mode mode);

/* Words to values, and the lists of them: model/words.h. */

#endif
