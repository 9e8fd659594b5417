/* One row per model family: how its config.json is read. To add a family, add a row, then a model file with
 * its parameter total; tests/model/test_params.c walks both. Source of every row: the configuration_*.py and
 * modeling_*.py of that family in huggingface/transformers, or the remote code beside the checkpoint for
 * qwen, internlm, internlm2, baichuan and chatglm. */
#include "model/arch_families.h"

#include <string.h>

#define NEVER                                                                                                \
  { NULL, false, false }
#define ALWAYS                                                                                               \
  { NULL, true, false }
#define IF(key, fallback)                                                                                    \
  { key, fallback, false }
#define UNLESS(key)                                                                                          \
  { key, false, true }

/* Qwen (1): intermediate_size is the sum of both gated halves. */
static void adjust_qwen1(struct spp_arch_reader *r) {
  r->arch->ffn /= 2;
  r->dense_ffn = r->arch->ffn;
}

static void adjust_gpt_oss(struct spp_arch_reader *r) {
  r->arch->attention_sinks = r->arch->router_bias = r->arch->expert_bias = true;
  r->arch->activation = SPP_SILU_CLAMPED;
}

/* The dense layers of Llama 4 are wider than its experts; the router takes a sigmoid, of what an
 * expert reads, and every token also
 * visits one shared expert. */
static void adjust_llama4(struct spp_arch_reader *r) {
  r->dense_ffn =
      spp_arch_read_i64(r, spp_json_get(r->text, "intermediate_size_mlp"), 1, 1 << 23, r->dense_ffn);
  r->arch->qk_unit = spp_arch_read_bool(r, spp_json_get(r->text, "use_qk_norm"), true);
  r->arch->router_sigmoid = r->arch->routes_input = true;
  r->arch->shared_experts = 1;
}

static void adjust_deepseek(struct spp_arch_reader *r) {
  const char *scoring = "";
  if (r->status == SPP_OK)
    r->status = spp_json_string_or(spp_json_get(r->text, "scoring_func"), "softmax", &scoring, r->diag);
  r->arch->router_sigmoid = strcmp(scoring, "sigmoid") == 0;
}

static void adjust_sigmoid(struct spp_arch_reader *r) {
  r->arch->router_sigmoid = true;
}

/* Two offset rows stand before the positions. Models with do_layer_norm_before false (350M) differ in more.
 */
static void adjust_opt(struct spp_arch_reader *r) {
  struct spp_json narrow = spp_json_get(r->text, "word_embed_proj_dim");
  r->arch->first_position = 2;
  r->arch->learned_positions += r->arch->first_position;
  bool scaled = r->scale && r->scale->hidden > 0;
  if (!scaled && spp_arch_read_i64(r, narrow, 1, 1 << 20, r->arch->hidden) != r->arch->hidden)
    spp_arch_refuse(r, narrow, "only OPT models with word_embed_proj_dim = hidden_size can be described",
                    "projected embeddings are not known");
}

/* Shared K and V of the first generation; grouped ones, and a norm each for attention and MLP, of the second.
 */
static void adjust_falcon(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  bool modern = spp_arch_read_bool(r, spp_json_get(r->text, "new_decoder_architecture"), false);
  bool multi_query = spp_arch_read_bool(r, spp_json_get(r->text, "multi_query"), true);
  bool parallel = spp_arch_read_bool(r, spp_json_get(r->text, "parallel_attn"), true);
  int64_t norms =
      spp_arch_read_i64(r, spp_json_get(r->text, "num_ln_in_parallel_attn"), 1, 2, modern ? 2 : 1);
  if (!modern) a->kv_heads = multi_query ? 1 : a->heads;
  a->parallel_block = modern || parallel;
  a->norms_per_layer = (modern && norms == 2) || !parallel ? 2 : 1;
}

static void adjust_gpt_bigcode(struct spp_arch_reader *r) {
  r->arch->kv_heads = spp_arch_read_bool(r, spp_json_get(r->text, "multi_query"), true) ? 1 : r->arch->heads;
}

/* Norms with a bias on q and k: no published checkpoint has them. */
static void refuse_qk_layernorm(struct spp_arch_reader *r, struct spp_json v) {
  if (spp_arch_read_bool(r, v, false))
    spp_arch_refuse(r, v, "set it to false to ignore it",
                    "layer norms on q and k are not described for this family");
}

/* no_bias drops the biases of the norms too; attn_config holds grouped heads and ALiBi; the repository
 * mosaicml/llm-foundry also knows learned positions (learned_pos_emb). */
static void adjust_mpt(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  struct spp_json attention = spp_json_get(r->text, "attn_config");
  a->norm = a->qkv_bias ? SPP_NORM_LAYER : SPP_NORM_LAYER_NO_BIAS;
  a->ffn = a->hidden * spp_arch_read_i64(r, spp_json_get(r->text, "expansion_ratio"), 1, 64, 4);
  r->dense_ffn = a->ffn;
  a->kv_heads = spp_arch_read_i64(r, spp_json_get(attention, "kv_n_heads"), 1, 1 << 14, a->kv_heads);
  refuse_qk_layernorm(r, spp_json_get(attention, "qk_ln"));
  bool alibi = spp_arch_read_bool(r, spp_json_get(attention, "alibi"), false);
  bool learned = spp_arch_read_bool(r, spp_json_get(r->text, "learned_pos_emb"), false);
  a->learned_positions = learned && !alibi ? a->max_positions : 0;
}

/* Shared K and V only with multi_query_attention; the qkv bias has its own member beside add_bias_linear. */
static void adjust_chatglm(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  if (!spp_arch_read_bool(r, spp_json_get(r->text, "multi_query_attention"), false)) a->kv_heads = a->heads;
  a->qkv_bias = a->o_bias || spp_arch_read_bool(r, spp_json_get(r->text, "add_qkv_bias"), false);
}

/* Two norms even when attention and MLP are parallel: both read the layer's input. */
static void adjust_neox(struct spp_arch_reader *r) {
  r->arch->parallel_block = spp_arch_read_bool(r, spp_json_get(r->text, "use_parallel_residual"), true);
}

static void adjust_phi(struct spp_arch_reader *r) {
  refuse_qk_layernorm(r, spp_json_get(r->text, "qk_layernorm"));
}

/* "gelu" in the first configs stands for the tanh form (transformers configuration_gemma.py). */
static void adjust_gemma(struct spp_arch_reader *r) {
  if (r->arch->activation == SPP_GELU) r->arch->activation = SPP_GELU_TANH;
}

static void adjust_stablelm(struct spp_arch_reader *r) {
  r->arch->parallel_block = spp_arch_read_bool(r, spp_json_get(r->text, "use_parallel_residual"), false);
  if (r->arch->parallel_block) r->arch->norms_per_layer = 1;
}

#define RMS_GATED .norm = SPP_NORM_RMS, .norms_per_layer = 2, .mlp = SPP_MLP_GATED
#define LN_PLAIN  .norm = SPP_NORM_LAYER, .norms_per_layer = 2, .mlp = SPP_MLP_PLAIN
#define QWEN2     RMS_GATED, .qkv_bias = ALWAYS, .window = SPP_WINDOW_UPPER
#define QWEN3                                                                                                \
  RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),                 \
             .qk_norm = SPP_QK_NORM_HEAD, .window = SPP_WINDOW_UPPER
#define DEEPSEEK                                                                                             \
  RMS_GATED, .mla = true, .moe = true, .qkv_bias = IF("attention_bias", false),                              \
             .o_bias = IF("attention_bias", false), .adjust = adjust_deepseek
#define GEMMA                                                                                                \
  .norm = SPP_NORM_RMS, .norms_per_layer = 4, .mlp = SPP_MLP_GATED, .tied = true, .norm_offset = 1,          \
  .scaled_embedding = true, .activation = "gelu_pytorch_tanh", .qkv_bias = IF("attention_bias", false),      \
  .o_bias = IF("attention_bias", false)

#define COHERE                                                                                               \
  .norm = SPP_NORM_LAYER_NO_BIAS, .norms_per_layer = 1, .mlp = SPP_MLP_GATED, .tied = true,                  \
  .parallel = true, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false)
#define LLAMA                                                                                                \
  RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),                 \
             .mlp_bias = IF("mlp_bias", false)

static const struct spp_arch_family families[] = {
    {"llama", LLAMA},
    {"granite", LLAMA},
    {"smollm3", LLAMA, .tied = true},
    {"internlm3", RMS_GATED, .qkv_bias = IF("qkv_bias", false), .o_bias = IF("bias", false),
     .mlp_bias = IF("bias", false), .head_dim = 128},
    {"llama4", RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),
     .fused_gate_up = true, .moe = true, .topk_as_is = true, .window = SPP_WINDOW_CHUNKED_ROPE,
     .vision = SPP_VISION_LLAMA4, .adjust = adjust_llama4, .head_dim = 128},
    {"llama4_text", RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),
     .fused_gate_up = true, .moe = true, .topk_as_is = true, .window = SPP_WINDOW_CHUNKED_ROPE,
     .adjust = adjust_llama4, .head_dim = 128},
    {"mistral", RMS_GATED, .window = SPP_WINDOW_ALL},
    {"ministral3", RMS_GATED, .window = SPP_WINDOW_ALL, .head_dim = 128},
    {"granitemoe", RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),
     .fused_gate_up = true, .moe = true},
    {"minimax_m2", RMS_GATED, .qk_norm = SPP_QK_NORM_FULL, .moe = true, .adjust = adjust_sigmoid,
     .head_dim = 128},
    {"seed_oss", RMS_GATED, .qkv_bias = IF("attention_bias", true), .o_bias = IF("attention_out_bias", false),
     .mlp_bias = IF("mlp_bias", false), .head_dim = 128},
    {"ernie4_5", RMS_GATED, .qkv_bias = IF("use_bias", false), .o_bias = IF("use_bias", false),
     .mlp_bias = IF("use_bias", false), .tied = true, .head_dim = 128},
    {"exaone4", RMS_GATED, .norms_behind = true, .qk_norm = SPP_QK_NORM_HEAD, .window = SPP_WINDOW_PATTERN,
     .window_period = 4},
    {"mixtral", RMS_GATED, .moe = true, .window = SPP_WINDOW_ALL},
    {"qwen", RMS_GATED, .qkv_bias = ALWAYS, .o_bias = UNLESS("no_bias"), .mlp_bias = UNLESS("no_bias"),
     .fused_qkv = true, .adjust = adjust_qwen1},
    {"qwen2", QWEN2},
    {"qwen2_moe", RMS_GATED, .qkv_bias = IF("qkv_bias", true), .moe = true, .topk_as_is = true,
     .window = SPP_WINDOW_UPPER},
    {"qwen2_vl", QWEN2, .vision = SPP_VISION_QWEN2},
    {"qwen2_5_vl", QWEN2, .vision = SPP_VISION_QWEN2_5},
    {"qwen3", QWEN3, .head_dim = 128},
    {"qwen3_moe", QWEN3, .moe = true, .topk_as_is = true},
    {"qwen3_vl", QWEN3, .vision = SPP_VISION_QWEN3, .head_dim = 128},
    {"qwen3_vl_moe", QWEN3, .moe = true, .vision = SPP_VISION_QWEN3, .head_dim = 128},
    {"deepseek_v2", DEEPSEEK, .topk_as_is = true},
    {"deepseek_v3", DEEPSEEK},
    {"kimi_k2", DEEPSEEK},
    {"glm4_moe_lite", RMS_GATED, .mla = true, .moe = true, .qkv_bias = IF("attention_bias", false),
     .o_bias = IF("attention_bias", false), .adjust = adjust_sigmoid},
    {"gemma", .norm = SPP_NORM_RMS, .norms_per_layer = 2, .mlp = SPP_MLP_GATED, .tied = true,
     .norm_offset = 1, .scaled_embedding = true, .activation = "gelu_pytorch_tanh", .adjust = adjust_gemma,
     .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false), .head_dim = 256},
    {"gemma2", GEMMA, .window = SPP_WINDOW_ALTERNATE, .head_dim = 256},
    {"gemma3", GEMMA, .qk_norm = SPP_QK_NORM_HEAD, .window = SPP_WINDOW_PATTERN, .head_dim = 256, .heads = 8,
     .kv_heads = 4, .vocab = 262208},
    {"gemma3_text", GEMMA, .qk_norm = SPP_QK_NORM_HEAD, .window = SPP_WINDOW_PATTERN, .head_dim = 256},
    {"phi", .norm = SPP_NORM_LAYER, .norms_per_layer = 1, .mlp = SPP_MLP_PLAIN, .parallel = true,
     .activation = "gelu_new", .qkv_bias = ALWAYS, .o_bias = ALWAYS, .mlp_bias = ALWAYS, .head_bias = true,
     .adjust = adjust_phi},
    {"phi3", RMS_GATED, .fused_qkv = true, .fused_gate_up = true, .window = SPP_WINDOW_ALL},
    {"glm", RMS_GATED, .qkv_bias = IF("attention_bias", true), .fused_gate_up = true, .head_dim = 128},
    {"glm4", .norm = SPP_NORM_RMS, .norms_per_layer = 4, .mlp = SPP_MLP_GATED,
     .qkv_bias = IF("attention_bias", true), .fused_gate_up = true, .head_dim = 128},
    {"glm4_moe", RMS_GATED, .qkv_bias = IF("attention_bias", false), .qk_norm = SPP_QK_NORM_HEAD,
     .qk_norm_key = "use_qk_norm", .moe = true, .adjust = adjust_sigmoid},
    {"chatglm", RMS_GATED, .o_bias = IF("add_bias_linear", true), .mlp_bias = IF("add_bias_linear", true),
     .fused_qkv = true, .fused_gate_up = true, .adjust = adjust_chatglm},
    {"gpt_oss", RMS_GATED, .qkv_bias = IF("attention_bias", true), .o_bias = IF("attention_bias", true),
     .fused_gate_up = true, .moe = true, .window = SPP_WINDOW_ALTERNATE, .adjust = adjust_gpt_oss,
     .head_dim = 64},
    {"gpt2", LN_PLAIN, .activation = "gelu_new", .qkv_bias = ALWAYS, .o_bias = ALWAYS, .mlp_bias = ALWAYS,
     .tied = true, .fused_qkv = true, .learned_positions = true, .ffn_factor = 4},
    {"gpt_bigcode", LN_PLAIN, .activation = "gelu_pytorch_tanh", .qkv_bias = ALWAYS, .o_bias = ALWAYS,
     .mlp_bias = ALWAYS, .tied = true, .fused_qkv = true, .learned_positions = true, .ffn_factor = 4,
     .adjust = adjust_gpt_bigcode},
    {"gptj", .norm = SPP_NORM_LAYER, .norms_per_layer = 1, .mlp = SPP_MLP_PLAIN, .mlp_bias = ALWAYS,
     .activation = "gelu_new", .parallel = true, .head_bias = true, .ffn_factor = 4},
    {"starcoder2", LN_PLAIN, .activation = "gelu_pytorch_tanh", .qkv_bias = IF("use_bias", true),
     .o_bias = IF("use_bias", true), .mlp_bias = IF("use_bias", true), .tied = true,
     .window = SPP_WINDOW_ALL},
    {"nemotron", LN_PLAIN, .norm_offset = 1, .activation = "relu2", .qkv_bias = IF("attention_bias", false),
     .o_bias = IF("attention_bias", false), .mlp_bias = IF("mlp_bias", false)},
    {"gpt_neox", LN_PLAIN, .qkv_bias = IF("attention_bias", true), .o_bias = IF("attention_bias", true),
     .mlp_bias = ALWAYS, .fused_qkv = true, .adjust = adjust_neox},
    {"opt", LN_PLAIN, .activation = "relu", .qkv_bias = IF("enable_bias", true),
     .o_bias = IF("enable_bias", true), .mlp_bias = IF("enable_bias", true), .tied = true,
     .learned_positions = true, .adjust = adjust_opt},
    {"falcon", LN_PLAIN, .qkv_bias = IF("bias", false), .o_bias = IF("bias", false),
     .mlp_bias = IF("bias", false), .tied = true, .fused_qkv = true, .ffn_factor = 4,
     .adjust = adjust_falcon},
    {"mpt", LN_PLAIN, .qkv_bias = UNLESS("no_bias"), .o_bias = UNLESS("no_bias"),
     .mlp_bias = UNLESS("no_bias"), .tied = true, .fused_qkv = true, .ffn_factor = 4, .adjust = adjust_mpt},
    {"olmo2", RMS_GATED, .norms_behind = true, .qkv_bias = IF("attention_bias", false),
     .o_bias = IF("attention_bias", false), .qk_norm = SPP_QK_NORM_FULL},
    {"olmo3", RMS_GATED, .norms_behind = true, .qkv_bias = IF("attention_bias", false),
     .o_bias = IF("attention_bias", false), .qk_norm = SPP_QK_NORM_FULL, .window = SPP_WINDOW_PATTERN,
     .window_period = 4},
    {"olmoe", RMS_GATED, .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false),
     .qk_norm = SPP_QK_NORM_FULL, .moe = true, .topk_as_is = true},
    {"olmo", .norm = SPP_NORM_NO_WEIGHT, .norms_per_layer = 2, .mlp = SPP_MLP_GATED,
     .qkv_bias = IF("attention_bias", false), .o_bias = IF("attention_bias", false)},
    {"cohere", COHERE, .qk_norm = SPP_QK_NORM_FULL, .qk_norm_key = "use_qk_norm"},
    {"cohere2", COHERE, .window = SPP_WINDOW_PATTERN, .window_period = 4},
    {"internlm", RMS_GATED, .qkv_bias = IF("bias", true), .o_bias = IF("bias", true)},
    {"internlm2", RMS_GATED, .qkv_bias = IF("bias", true), .o_bias = IF("bias", true), .fused_qkv = true},
    {"baichuan", RMS_GATED, .fused_qkv = true},
    {"stablelm", .norm = SPP_NORM_LAYER, .norms_per_layer = 2, .mlp = SPP_MLP_GATED,
     .qkv_bias = IF("use_qkv_bias", false), .qk_norm = SPP_QK_NORM_FULL, .qk_norm_key = "qk_layernorm",
     .adjust = adjust_stablelm},
};

const struct spp_arch_family *spp_arch_family_at(int i) {
  return i >= 0 && i < (int)(sizeof families / sizeof families[0]) ? &families[i] : NULL;
}

const struct spp_arch_family *spp_arch_family_find(const char *model_type) {
  for (int i = 0; spp_arch_family_at(i); i++)
    if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
  return NULL;
}
