/* The weight rows of a model. Shapes: the modeling_*.py of huggingface/transformers, family by family; how a
 * row is cut by tensor parallelism: NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py and
 * megatron/core/transformer/multi_latent_attention.py (the down-projections of MLA are duplicated). */
#include <string.h>

#include "model/arch_read.h"

struct rows {
  struct spp_weight *list;
  int *count;
};

static void add_copies(struct rows *rows, const char *name, enum spp_weight_role role,
                       enum spp_tp_split split, int64_t out, int64_t in, int64_t copies) {
  if (*rows->count == SPP_MAX_LAYER_WEIGHTS) return; /* the caller refuses a full list */
  rows->list[(*rows->count)++] = (struct spp_weight){.name = name,
                                                     .role = role,
                                                     .split = split,
                                                     .rows = out,
                                                     .cols = in,
                                                     .copies = copies,
                                                     .linear = in > 1};
}

static void add(struct rows *rows, const char *name, enum spp_weight_role role, enum spp_tp_split split,
                int64_t out, int64_t in) {
  add_copies(rows, name, role, split, out, in, 1);
}

static void add_norm(struct rows *rows, const struct spp_arch *a, const char *name, const char *bias_name) {
  if (a->norm == SPP_NORM_NO_WEIGHT) return;
  add(rows, name, SPP_ROLE_NORM, SPP_SPLIT_NONE, a->hidden, 1);
  if (a->norm == SPP_NORM_LAYER) add(rows, bias_name, SPP_ROLE_NORM, SPP_SPLIT_NONE, a->hidden, 1);
}

static void add_layer_norms(struct rows *rows, const struct spp_arch *a) {
  static const char *const names[4][2] = {{"input_layernorm", "input_layernorm.bias"},
                                          {"post_attention_layernorm", "post_attention_layernorm.bias"},
                                          {"pre_mlp_layernorm", "pre_mlp_layernorm.bias"},
                                          {"post_mlp_layernorm", "post_mlp_layernorm.bias"}};
  for (int i = 0; i < a->norms_per_layer; i++)
    add_norm(rows, a, names[i][0], names[i][1]);
}

static void add_qkv(struct rows *rows, const struct spp_arch *a, bool fused) {
  const enum spp_weight_role role = SPP_ROLE_ATTENTION;
  int64_t q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
  if (fused) {
    add(rows, "qkv_proj", role, SPP_SPLIT_OUTPUT, q + 2 * kv, a->hidden);
    if (a->qkv_bias) add(rows, "qkv_proj.bias", role, SPP_SPLIT_OUTPUT, q + 2 * kv, 1);
    return;
  }
  add(rows, "q_proj", role, SPP_SPLIT_OUTPUT, q, a->hidden);
  add(rows, "k_proj", role, SPP_SPLIT_OUTPUT, kv, a->hidden);
  add(rows, "v_proj", role, SPP_SPLIT_OUTPUT, kv, a->hidden);
  if (!a->qkv_bias) return;
  add(rows, "q_proj.bias", role, SPP_SPLIT_OUTPUT, q, 1);
  add(rows, "k_proj.bias", role, SPP_SPLIT_OUTPUT, kv, 1);
  add(rows, "v_proj.bias", role, SPP_SPLIT_OUTPUT, kv, 1);
}

static void add_qk_norm(struct rows *rows, const struct spp_arch *a) {
  if (a->qk_norm == SPP_QK_NORM_NONE) return;
  bool full = a->qk_norm == SPP_QK_NORM_FULL;
  int64_t q = full ? a->heads * a->head_dim : a->head_dim, k = full ? a->kv_heads * a->head_dim : a->head_dim;
  add(rows, "q_norm", SPP_ROLE_ATTENTION, SPP_SPLIT_NONE, q, 1);
  add(rows, "k_norm", SPP_ROLE_ATTENTION, SPP_SPLIT_NONE, k, 1);
}

static void add_o_proj(struct rows *rows, const struct spp_arch *a) {
  add(rows, "o_proj", SPP_ROLE_ATTENTION, SPP_SPLIT_INPUT, a->hidden, spp_arch_o_width(a));
  if (a->o_bias) add(rows, "o_proj.bias", SPP_ROLE_ATTENTION, SPP_SPLIT_NONE, a->hidden, 1);
}

static void add_gqa(struct rows *rows, const struct spp_arch *a, bool fused) {
  add_qkv(rows, a, fused);
  add_qk_norm(rows, a);
  add_o_proj(rows, a);
  if (a->attention_sinks) add(rows, "sinks", SPP_ROLE_ATTENTION, SPP_SPLIT_OUTPUT, a->heads, 1);
}

static void add_mla(struct rows *rows, const struct spp_arch *a) {
  const enum spp_weight_role role = SPP_ROLE_ATTENTION;
  int64_t q = spp_arch_q_width(a), latent = a->kv_lora_rank + a->qk_rope_dim;
  if (a->q_lora_rank > 0) {
    add(rows, "q_a_proj", role, SPP_SPLIT_NONE, a->q_lora_rank, a->hidden);
    if (a->qkv_bias) add(rows, "q_a_proj.bias", role, SPP_SPLIT_NONE, a->q_lora_rank, 1);
    add(rows, "q_a_layernorm", role, SPP_SPLIT_NONE, a->q_lora_rank, 1);
    add(rows, "q_b_proj", role, SPP_SPLIT_OUTPUT, q, a->q_lora_rank);
  } else {
    add(rows, "q_proj", role, SPP_SPLIT_OUTPUT, q, a->hidden);
  }
  add(rows, "kv_a_proj", role, SPP_SPLIT_NONE, latent, a->hidden);
  if (a->qkv_bias) add(rows, "kv_a_proj.bias", role, SPP_SPLIT_NONE, latent, 1);
  add(rows, "kv_a_layernorm", role, SPP_SPLIT_NONE, a->kv_lora_rank, 1);
  add(rows, "kv_b_proj", role, SPP_SPLIT_OUTPUT, a->heads * (a->qk_nope_dim + a->v_head_dim),
      a->kv_lora_rank);
  add_o_proj(rows, a);
}

/* One MLP of width ffn, or `copies` of them. */
struct mlp_shape {
  enum spp_weight_role role;
  int64_t ffn, copies;
  bool bias, fused;
};

static void add_mlp(struct rows *rows, const struct spp_arch *a, const struct mlp_shape *m) {
  bool gated = a->mlp == SPP_MLP_GATED, fused = gated && m->fused;
  int64_t up = fused ? 2 * m->ffn : m->ffn;
  const char *name = fused ? "gate_up_proj" : "up_proj";
  if (gated && !fused) {
    add_copies(rows, "gate_proj", m->role, SPP_SPLIT_OUTPUT, m->ffn, a->hidden, m->copies);
    if (m->bias) add_copies(rows, "gate_proj.bias", m->role, SPP_SPLIT_OUTPUT, m->ffn, 1, m->copies);
  }
  add_copies(rows, name, m->role, SPP_SPLIT_OUTPUT, up, a->hidden, m->copies);
  if (m->bias)
    add_copies(rows, fused ? "gate_up_proj.bias" : "up_proj.bias", m->role, SPP_SPLIT_OUTPUT, up, 1,
               m->copies);
  add_copies(rows, "down_proj", m->role, SPP_SPLIT_INPUT, a->hidden, m->ffn, m->copies);
  if (m->bias) add_copies(rows, "down_proj.bias", m->role, SPP_SPLIT_NONE, a->hidden, 1, m->copies);
}

static void add_experts(struct rows *rows, const struct spp_arch *a, bool fused) {
  add(rows, "router", SPP_ROLE_ROUTER, SPP_SPLIT_NONE, a->experts, a->hidden);
  if (a->router_bias) add(rows, "router.bias", SPP_ROLE_ROUTER, SPP_SPLIT_NONE, a->experts, 1);
  add_mlp(rows, a, &(struct mlp_shape){SPP_ROLE_EXPERT, a->expert_ffn, a->experts, a->expert_bias, fused});
  if (a->shared_experts == 0) return;
  /* Several shared experts are one MLP as wide as all of them. */
  add_mlp(rows, a,
          &(struct mlp_shape){SPP_ROLE_SHARED_EXPERT, a->shared_experts * a->shared_expert_ffn, 1,
                              a->expert_bias, fused});
  if (a->shared_expert_gate)
    add(rows, "shared_expert_gate", SPP_ROLE_SHARED_EXPERT, SPP_SPLIT_NONE, 1, a->hidden);
}

static void build_kind(const struct spp_arch_reader *r, struct spp_layer_kind *kind) {
  const struct spp_arch *a = r->arch;
  struct rows rows = {kind->weights, &kind->weight_count};
  add_layer_norms(&rows, a);
  if (a->attention == SPP_ATTENTION_MLA)
    add_mla(&rows, a);
  else
    add_gqa(&rows, a, r->fused_qkv);
  if (kind->moe)
    add_experts(&rows, a, r->fused_gate_up);
  else
    add_mlp(&rows, a, &(struct mlp_shape){SPP_ROLE_MLP, r->dense_ffn, 1, a->mlp_bias, r->fused_gate_up});
}

/* DeepSeek's multi-token-prediction modules: one more layer like the last, a 2h -> h projection and three
 * norms (its copies of embedding and head are shared). Source: deepseek-ai/DeepSeek-V3 README_WEIGHTS.md. */
static void add_mtp(struct spp_arch *a) {
  if (a->mtp_layers == 0) return;
  struct rows rows = {a->outer_weights, &a->outer_weight_count};
  const struct spp_layer_kind *last = &a->kinds[a->kind_of_layer[a->layers - 1]];
  for (int i = 0; i < last->weight_count; i++) {
    const struct spp_weight *w = &last->weights[i];
    add_copies(&rows, w->name, SPP_ROLE_MTP, w->split, w->rows, w->cols, w->copies * a->mtp_layers);
  }
  add_copies(&rows, "eh_proj", SPP_ROLE_MTP, SPP_SPLIT_NONE, a->hidden, 2 * a->hidden, a->mtp_layers);
  add_copies(&rows, "mtp_norms", SPP_ROLE_MTP, SPP_SPLIT_NONE, 3 * a->hidden, 1, a->mtp_layers);
}

struct spp_weight *spp_arch_add_outer(struct spp_arch *a, const char *name, enum spp_weight_role role,
                                      enum spp_tp_split split, int64_t out, int64_t in) {
  struct rows rows = {a->outer_weights, &a->outer_weight_count};
  add(&rows, name, role, split, out, in);
  return &a->outer_weights[a->outer_weight_count - 1];
}

void spp_arch_build_weights(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  for (int k = 0; k < a->kind_count; k++)
    build_kind(r, &a->kinds[k]);
  struct rows outer = {a->outer_weights, &a->outer_weight_count};
  spp_arch_add_outer(a, "embed_tokens", SPP_ROLE_EMBEDDING, SPP_SPLIT_OUTPUT, a->vocab, a->hidden)->linear =
      false;
  if (a->learned_positions > 0)
    spp_arch_add_outer(a, "embed_positions", SPP_ROLE_POSITION, SPP_SPLIT_NONE, a->learned_positions,
                       a->hidden)
        ->linear = false;
  add_norm(&outer, a, "norm", "norm.bias");
  if (!a->tied) spp_arch_add_outer(a, "lm_head", SPP_ROLE_HEAD, SPP_SPLIT_OUTPUT, a->vocab, a->hidden);
  if (r->head_bias) spp_arch_add_outer(a, "lm_head.bias", SPP_ROLE_HEAD, SPP_SPLIT_OUTPUT, a->vocab, 1);
  spp_arch_vision_weights(a);
  add_mtp(a);
}
