/* A model from the sizes that a Megatron-LM command gives: no name, no config.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/num.h"
#include "interop/layer_pattern.h"
#include "interop/reading.h"

struct sizes {
  int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, positions;
  int64_t experts, chosen, expert_ffn, shared_ffn; /* shared: all of them together */
  int64_t q_rank, kv_rank, nope_dim, rope_dim, value_dim;
  bool gated, rotary, qkv_bias, qk_norm, bias, tied, latent, shared_gate, sigmoid;
  bool known_pattern, with_experts[SPP_MAX_LAYERS];
};

static bool is_on(const struct spp_reading *r, const char *flag) {
  const char *value = spp_reading_flag(r, flag);
  return value && !spp_value_is_false(value);
}

static int64_t number_of(const struct spp_reading *r, const char *flag, int64_t fallback) {
  const char *text = spp_reading_flag(r, flag);
  char *end = NULL;
  long long value = text ? strtoll(text, &end, 10) : 0;
  return text && end != text && !*end && value > 0 && value <= INT64_C(1) << 32 ? (int64_t)value : fallback;
}

/* megatron-core 0.19.2 megatron/training/arguments.py validate_args: what follows when it is not said. */
static int64_t default_ffn(const struct sizes *s) {
  return s->gated ? spp_max64(s->hidden * 4 * 2 / 3 / 64 * 64, 64) : 4 * s->hidden;
}

/* Latent attention: megatron-core 0.19.2 megatron/training/arguments.py, the defaults of its options. */
static void read_latent(const struct spp_reading *r, struct sizes *s) {
  s->latent = is_on(r, "multi_latent_attention");
  s->q_rank = number_of(r, "q_lora_rank", 0);
  s->kv_rank = number_of(r, "kv_lora_rank", 32);
  s->nope_dim = number_of(r, "qk_head_dim", 128);
  s->rope_dim = number_of(r, "qk_pos_emb_head_dim", 64);
  s->value_dim = number_of(r, "v_head_dim", 128);
  if (!s->latent) return;
  s->rotary = true; /* multi_latent_attention.py makes a rotary embedding whatever is said of positions */
  s->kv_heads = s->heads;
  s->qk_norm = false; /* of q and k: the layer norms of the latents are a part of the family */
}

static void read_experts(struct spp_reading *r, struct sizes *s) {
  const char *pattern = spp_reading_flag(r, "moe_layer_freq"),
             *score = spp_reading_flag(r, "moe_router_score_function");
  s->chosen = number_of(r, "moe_router_topk", 2);
  s->expert_ffn = number_of(r, "moe_ffn_hidden_size", s->ffn);
  s->shared_ffn = number_of(r, "moe_shared_expert_intermediate_size", 0);
  s->shared_gate = is_on(r, "moe_shared_expert_gate");
  s->sigmoid = score && strcmp(score, "sigmoid") == 0;
  s->known_pattern =
      s->layers <= SPP_MAX_LAYERS && spp_layer_pattern(pattern ? pattern : "1", s->layers, s->with_experts);
}

static struct sizes read_sizes(struct spp_reading *r, int64_t vocab) {
  const char *kind = spp_reading_flag(r, "position_embedding_type");
  struct sizes s = {
      .layers = spp_reading_number(r, "layers", 0),
      .hidden = spp_reading_number(r, "hidden", 0),
      .heads = spp_reading_number(r, "heads", 0),
      .experts = spp_reading_number(r, "experts", 1) > 1 ? spp_reading_number(r, "experts", 1) : 0,
      .vocab = vocab,
      .gated = is_on(r, "swiglu"),
      .rotary = (kind && strcmp(kind, "rope") == 0) || is_on(r, "use_rotary_position_embeddings"),
      .qkv_bias = is_on(r, "add_qkv_bias"),
      .qk_norm = is_on(r, "qk_layernorm"),
      .bias = !is_on(r, "disable_bias_linear"),
      .tied = !is_on(r, "untie_embeddings_and_output_weights")};
  s.positions = number_of(r, "max_position_embeddings", spp_reading_number(r, "seq", 4096));
  s.kv_heads = is_on(r, "group_query_attention") ? number_of(r, "num_query_groups", 1) : s.heads;
  s.head_dim = number_of(r, "kv_channels", s.heads > 0 ? s.hidden / s.heads : 0);
  s.ffn = spp_reading_find(r, "ffn") ? spp_reading_number(r, "ffn", 1) : default_ffn(&s);
  read_latent(r, &s);
  if (s.experts > 0) read_experts(r, &s);
  return s;
}

/* Whether the sizes are of a kind there is a family for. */
static bool has_family(const struct spp_reading *r, const struct sizes *s) {
  static const char *const others[] = {"squared_relu",         "hybrid_override_pattern",
                                       "hybrid_layer_pattern", "is_hybrid_model",
                                       "window_size",          "experimental_attention_variant",
                                       "moe_latent_size",      "heterogeneous_layers_config_path"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (is_on(r, others[i])) return false;
  const bool whole = s->layers > 0 && s->hidden > 0 && s->heads > 0 && s->head_dim > 0 && s->vocab > 0 &&
                     s->hidden < INT64_C(1) << 20 && s->layers < SPP_MAX_LAYERS;
  if (!whole || s->heads % spp_max64(s->kv_heads, 1) != 0) return false;
  if (s->experts > 0 && !s->known_pattern) return false;
  if (s->gated) return !(s->qkv_bias && (s->latent || (s->experts > 0 && s->qk_norm)));
  return s->experts == 0 && !s->latent && s->kv_heads == s->heads && s->head_dim * s->heads == s->hidden;
}

static const char *family_of(const struct sizes *s) {
  if (!s->gated) return s->rotary ? "gpt_neox" : "gpt2";
  if (s->latent) return s->experts == 0 ? "llama" : s->sigmoid ? "deepseek_v3" : "deepseek_v2";
  if (s->experts > 0) return s->qk_norm ? "qwen3_moe" : s->qkv_bias ? "qwen2_moe" : "mixtral";
  return s->qk_norm ? "qwen3" : s->qkv_bias ? "qwen2" : "llama";
}

static void put_gpt2(struct spp_jo *jo, const struct sizes *s) {
  spp_jo_i64(jo, "n_embd", s->hidden);
  spp_jo_i64(jo, "n_layer", s->layers);
  spp_jo_i64(jo, "n_head", s->heads);
  spp_jo_i64(jo, "n_positions", s->positions);
  spp_jo_i64(jo, "n_inner", s->ffn);
  spp_jo_str(jo, "activation_function", "gelu_new");
}

static void put_latent(struct spp_jo *jo, const struct sizes *s) {
  if (s->q_rank > 0) spp_jo_i64(jo, "q_lora_rank", s->q_rank);
  spp_jo_i64(jo, "kv_lora_rank", s->kv_rank);
  spp_jo_i64(jo, "qk_nope_head_dim", s->nope_dim);
  spp_jo_i64(jo, "qk_rope_head_dim", s->rope_dim);
  spp_jo_i64(jo, "v_head_dim", s->value_dim);
}

static void put_experts(struct spp_jo *jo, const struct sizes *s) {
  spp_jo_i64(jo, "num_local_experts", s->experts);
  spp_jo_i64(jo, "num_experts_per_tok", s->chosen);
  spp_jo_i64(jo, "moe_intermediate_size", s->expert_ffn);
  spp_jo_str(jo, "scoring_func", s->sigmoid ? "sigmoid" : "softmax");
  spp_jo_arr(jo, "mlp_layer_types");
  for (int64_t i = 0; i < s->layers; i++)
    spp_jo_str(jo, NULL, s->with_experts[i] ? "sparse" : "dense");
  spp_jo_end(jo);
  if (s->shared_ffn == 0) return;
  spp_jo_i64(jo, "shared_expert_intermediate_size", s->shared_ffn);
  if (!s->shared_gate) spp_jo_i64(jo, "n_shared_experts", 1);
}

static void put_others(struct spp_jo *jo, const struct sizes *s) {
  spp_jo_i64(jo, "hidden_size", s->hidden);
  spp_jo_i64(jo, "num_hidden_layers", s->layers);
  spp_jo_i64(jo, "num_attention_heads", s->heads);
  spp_jo_i64(jo, "intermediate_size", s->ffn);
  spp_jo_i64(jo, "max_position_embeddings", s->positions);
  spp_jo_str(jo, "hidden_act", s->gated ? "silu" : "gelu");
  if (s->latent) {
    put_latent(jo, s);
  } else if (s->gated) {
    spp_jo_i64(jo, "num_key_value_heads", s->kv_heads);
    spp_jo_i64(jo, "head_dim", s->head_dim);
  } else {
    spp_jo_bool(jo, "use_parallel_residual", false);
    spp_jo_bool(jo, "attention_bias", s->bias);
  }
  if (s->experts > 0) put_experts(jo, s);
}

const struct spp_arch *spp_reading_sized_model(struct spp_reading *r, int64_t vocab) {
  const struct sizes s = read_sizes(r, vocab);
  const struct spp_arch *arch = NULL;
  struct spp_jo jo;
  struct spp_str text;
  char where[96];
  if (r->status != SPP_OK || !has_family(r, &s)) return NULL;
  spp_str_init(&text);
  spp_jo_begin(&jo, &text, false);
  spp_jo_obj(&jo, NULL);
  spp_jo_str(&jo, "model_type", family_of(&s));
  spp_jo_i64(&jo, "vocab_size", s.vocab);
  spp_jo_bool(&jo, "tie_word_embeddings", s.tied);
  strcmp(family_of(&s), "gpt2") == 0 ? put_gpt2(&jo, &s) : put_others(&jo, &s);
  spp_jo_end(&jo);
  snprintf(where, sizeof where, "%" PRId64 "-layers-of-%" PRId64, s.layers, s.hidden);
  if (!text.failed && spp_arch_parse(spp_str_text(&text), text.len, where, r->arena, &arch, NULL) != SPP_OK)
    arch = NULL;
  spp_str_free(&text);
  return arch;
}
