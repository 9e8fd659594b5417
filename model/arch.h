/* Transformer shapes: what a Hugging Face config.json says about a model.
 * An arch is immutable after loading and owned by the caller's arena. */
#ifndef SPP_MODEL_ARCH_H
#define SPP_MODEL_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/activation.h"
#include "base/arena.h"
#include "base/status.h"

enum { SPP_MAX_LAYERS = 4096, SPP_MAX_LAYER_KINDS = 8, SPP_MAX_LAYER_WEIGHTS = 40, SPP_MAX_ARCH_NOTES = 8 };
enum { SPP_MAX_ROUTER_GROUPS = 64 };

enum spp_attention_kind { SPP_ATTENTION_GQA, SPP_ATTENTION_MLA };
enum spp_norm_kind { SPP_NORM_RMS, SPP_NORM_LAYER, SPP_NORM_LAYER_NO_BIAS, SPP_NORM_NO_WEIGHT };
enum spp_mlp_kind { SPP_MLP_GATED, SPP_MLP_PLAIN }; /* gate, up, down | up, down */
/* Norm on q and k: one vector of head_dim each, or one over the whole projection (OLMo 2). */
enum spp_qk_norm { SPP_QK_NORM_NONE, SPP_QK_NORM_HEAD, SPP_QK_NORM_FULL };
enum spp_vision_kind {
  SPP_VISION_NONE,
  SPP_VISION_QWEN2,
  SPP_VISION_QWEN2_5,
  SPP_VISION_QWEN3,
  SPP_VISION_LLAMA4
};

/* What the family's Hugging Face code keeps for backward beyond the plain operators, with eager kernels. */
enum spp_keeps {
  SPP_KEEPS_NORM_FP32 = 1 << 0,   /* the norm scales before it casts back: its normalised copy stays fp32
                                     (LayerNorm: written out in fp32, with a centred copy too) */
  SPP_KEEPS_QKV_WHOLE = 1 << 1,   /* v is a view of the joined q, k, v product, all of which stays */
  SPP_KEEPS_OUTPUT_COPY = 1 << 2, /* q is joined from a rotated and a plain part: o_proj's input is a copy */
  SPP_KEEPS_GELU_STEPS = 1 << 3,  /* tanh GELU written out: four tensors instead of its input */
  SPP_KEEPS_ROUTER_FP32 = 1 << 4, /* the router multiplies an fp32 copy of its input */
  SPP_KEEPS_GLU_STEPS = 1 << 5,   /* clamped gate written out: three tensors more */
  SPP_KEEPS_SOFTMAX_16 = 1 << 6,  /* eager attention's softmax stays in 16 bit */
  SPP_KEEPS_KV_SPREAD = 1 << 7,   /* several KV heads are spread over the query heads before attention */
  SPP_KEEPS_MASK = 1 << 8         /* the causal mask is written out always */
};

/* One weight tensor of a layer (or of the model outside the layers). Everything that depends on
 * parameters (counts, TP shards, LoRA, quantisation, optimizer states) is a sum over such rows. */
enum spp_weight_role {
  SPP_ROLE_EMBEDDING,
  SPP_ROLE_POSITION,
  SPP_ROLE_HEAD,
  SPP_ROLE_NORM,
  SPP_ROLE_ATTENTION,
  SPP_ROLE_MLP,
  SPP_ROLE_ROUTER,
  SPP_ROLE_EXPERT,
  SPP_ROLE_SHARED_EXPERT,
  SPP_ROLE_VISION,
  SPP_ROLE_MTP,
  SPP_ROLE_COUNT
};
enum spp_tp_split {
  SPP_SPLIT_NONE,
  SPP_SPLIT_OUTPUT,
  SPP_SPLIT_INPUT
}; /* replicated | column | row parallel */
struct spp_weight {
  const char *name; /* "q_proj", "experts.gate_proj", ...; static storage */
  enum spp_weight_role role;
  enum spp_tp_split split;
  int64_t rows;   /* output features (vectors: length) */
  int64_t cols;   /* input features (vectors: 1) */
  int64_t copies; /* experts: number of experts; else 1 */
  bool linear;    /* a matrix tokens are multiplied by: LoRA "all-linear" target, GEMM parameter */
};

/* Layers of one kind share every shape. */
struct spp_layer_kind {
  bool moe;
  int64_t window_tokens; /* attention sees at most this many keys (sliding) or blocks of this many (chunked);
                            0 = full */
  bool window_chunked;
  int64_t count;
  int weight_count;
  struct spp_weight weights[SPP_MAX_LAYER_WEIGHTS];
};

/* How rotary frequencies are stretched beyond the lengths a model began with (transformers
 * modeling_rope_utils.py): by one factor, or the slower the more (Llama 3.1; YaRN, arXiv 2309.00071, which
 * makes q and k longer too). Others are not known. */
enum spp_rope_stretch { SPP_ROPE_AS_IS, SPP_ROPE_LINEAR, SPP_ROPE_LLAMA3, SPP_ROPE_YARN, SPP_ROPE_OTHER };
struct spp_rope_scaling {
  enum spp_rope_stretch kind;
  double factor, low, high, original; /* low and high: turns in `original` positions */
  bool whole;                         /* YaRN: between whole pairs of the head */
  double gain;                        /* on cos and sin; 1: none */
};

struct spp_vision {
  enum spp_vision_kind kind;
  int64_t depth, hidden, ffn, heads, out_hidden;
  int64_t channels, patch, temporal_patch, merge;
  int64_t window_px, full_attention_blocks; /* Qwen2.5-VL */
  int64_t position_rows, deepstack_mergers; /* Qwen3-VL */
  int64_t tile_px;                          /* Llama 4 */
  int64_t projector_in, projector_out;      /* Llama 4 */
  int64_t min_pixels, max_pixels;
};

struct spp_arch {
  char name[96];       /* configs/models name, or the file given */
  char display[96];    /* "Qwen2.5-7B" */
  char hf_id[128];     /* "Qwen/Qwen2.5-7B", empty when unknown */
  char model_type[48]; /* as in config.json */

  int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  int64_t max_positions; /* 0 = unknown */
  bool tied;
  enum spp_attention_kind attention;
  int64_t q_lora_rank, kv_lora_rank, qk_nope_dim, qk_rope_dim,
      v_head_dim; /* MLA; q_lora_rank 0 = plain q_proj */
  bool qkv_bias, o_bias, mlp_bias, attention_sinks;
  enum spp_qk_norm qk_norm;
  bool qk_unit;            /* heads of q and k are given unit size after they have turned (Llama 4) */
  int64_t rotary_dim;      /* elements of each head that turn with their position, in layers where any does */
  bool rotary_neighbours;  /* in pairs (2i, 2i + 1), not of two halves */
  double rope_theta;       /* base of the rotary frequencies */
  double rope_local_theta; /* that of layers with a window (Gemma 3); 0: the same */
  struct spp_rope_scaling rope_scaling;
  double alibi;           /* factor on the slopes of linear biases; 0: none */
  double attention_scale; /* factor on the product of q and k */
  enum spp_norm_kind norm;
  double norm_eps;
  int norms_per_layer; /* norms of width hidden in one layer: 2, 4 (Gemma 2/3), 1 (parallel attention) */
  bool parallel_block; /* attention and MLP read the same norm output */
  bool norms_behind;   /* both norms stand behind attention and MLP, none before (OLMo 2) */
  double norm_offset;  /* added to the weights of norms where they are used (Gemma: 1) */
  enum spp_mlp_kind mlp;
  enum spp_activation activation;
  unsigned keeps;            /* SPP_KEEPS_* */
  int64_t learned_positions; /* rows of a learned position table, 0 = none */
  int64_t first_position;    /* row of the table that the first token of a text reads (OPT: 2) */
  double attention_softcap;  /* 0: none */
  double logit_softcap;      /* 0: none */
  /* Factors: on the embedding, on what attention and MLP add to the stream, on the logits. */
  double embedding_scale, residual_scale, logit_scale;

  int64_t experts, experts_per_token, expert_ffn, shared_experts,
      shared_expert_ffn; /* 0 when dense; shared width: of one */
  bool shared_expert_gate, router_bias, expert_bias, router_sigmoid;
  bool router_normalise; /* the weights of the chosen experts are made to sum to 1 (norm_topk_prob) */
  double routed_scale;   /* factor on those weights */
  /* Experts are chosen from the best `router_open` of so many runs of them; 0: from all. */
  int64_t router_groups, router_open;
  bool routes_input;  /* a routing weight scales what an expert reads, not what it gives (Llama 4) */
  int64_t mtp_layers; /* multi-token-prediction modules, not counted in totals */

  struct spp_vision vision;

  int kind_count;
  struct spp_layer_kind kinds[SPP_MAX_LAYER_KINDS];
  uint8_t kind_of_layer[SPP_MAX_LAYERS];
  bool layer_rotates[SPP_MAX_LAYERS];
  int outer_weight_count; /* embedding, positions, final norm, head, vision tower (one row per part) */
  struct spp_weight outer_weights[SPP_MAX_LAYER_WEIGHTS];

  int note_count; /* what the loader assumed: shown as warnings */
  char notes[SPP_MAX_ARCH_NOTES][160];
};

/* Widths in elements. MLA: keys have nope+rope per head, values v_head_dim per head, both expanded to all
 * heads. */
static inline int64_t spp_arch_q_width(const struct spp_arch *a) {
  return a->attention == SPP_ATTENTION_MLA ? a->heads * (a->qk_nope_dim + a->qk_rope_dim)
                                           : a->heads * a->head_dim;
}
static inline int64_t spp_arch_k_width(const struct spp_arch *a) {
  return a->attention == SPP_ATTENTION_MLA ? a->heads * (a->qk_nope_dim + a->qk_rope_dim)
                                           : a->kv_heads * a->head_dim;
}
static inline int64_t spp_arch_v_width(const struct spp_arch *a) {
  return a->attention == SPP_ATTENTION_MLA ? a->heads * a->v_head_dim : a->kv_heads * a->head_dim;
}
static inline int64_t spp_arch_o_width(const struct spp_arch *a) { /* attention output, input of o_proj */
  return a->attention == SPP_ATTENTION_MLA ? a->heads * a->v_head_dim : a->heads * a->head_dim;
}
/* Heads that K/V communication and head-splitting rules see (MLA expands K and V to all heads). */
static inline int64_t spp_arch_kv_heads(const struct spp_arch *a) {
  return a->attention == SPP_ATTENTION_MLA ? a->heads : a->kv_heads;
}

/* Frequency of pair i of the rotary_dim / 2; local: of layers with a window. */
double spp_arch_rope_frequency(const struct spp_arch *arch, bool local, int64_t i);

/* Load a model: `name` is a config.json, a directory holding one, or a name or alias known in
 * config_dir/models and config_dir/aliases.json (case-insensitive). The arch lives in `arena`.
 * Errors: SPP_ERR_INPUT (bad file: JSON path named), SPP_ERR_USAGE (unknown or ambiguous name: candidates
 * named). */
enum spp_status spp_arch_load(const char *config_dir, const char *name, struct spp_arena *arena,
                              const struct spp_arch **arch, struct spp_diag *diag);
/* The same model made smaller: figures that take the place of those of its config.json; 0: as the file says.
 */
struct spp_arch_scale {
  int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, experts, experts_per_token, expert_ffn,
      shared_experts;
};
/* "layers=2,hidden=64,kv-heads=2": SPP_ERR_USAGE names what is wrong, and the names there are. */
enum spp_status spp_arch_scale_parse(const char *text, struct spp_arch_scale *scale, struct spp_diag *diag);
enum spp_status spp_arch_load_scaled(const char *config_dir, const char *name,
                                     const struct spp_arch_scale *scale, struct spp_arena *arena,
                                     const struct spp_arch **arch, struct spp_diag *diag);
/* Same from text already read; `where` names it in errors. */
enum spp_status spp_arch_parse(const char *text, size_t length, const char *where, struct spp_arena *arena,
                               const struct spp_arch **arch, struct spp_diag *diag);
/* The same without its vision tower, in `arena`; the arch itself when it has none. */
enum spp_status spp_arch_language_model(const struct spp_arch *arch, struct spp_arena *arena,
                                        const struct spp_arch **text, struct spp_diag *diag);
/* Names of the shipped models, sorted; the array and strings live in `arena`. */
enum spp_status spp_arch_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                              int *count, struct spp_diag *diag);

#endif
