/* A model from the sizes that a Megatron-LM command gives: no name, no config.json. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_out.h"
#include "base/num.h"
#include "interop/reading.h"

struct sizes {
  int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, positions, experts, chosen;
  bool gated, rotary, qkv_bias, qk_norm, bias, tied;
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
  s.chosen = number_of(r, "moe_router_topk", 2);
  if (s.experts > 0) s.ffn = number_of(r, "moe_ffn_hidden_size", s.ffn);
  return s;
}

/* Whether the sizes are of a kind there is a family for. */
static bool has_family(const struct spp_reading *r, const struct sizes *s) {
  static const char *const others[] = {"multi_latent_attention",
                                       "squared_relu",
                                       "hybrid_override_pattern",
                                       "hybrid_layer_pattern",
                                       "is_hybrid_model",
                                       "moe_layer_freq",
                                       "mtp_num_layers",
                                       "moe_shared_expert_intermediate_size",
                                       "window_size",
                                       "experimental_attention_variant"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (is_on(r, others[i])) return false;
  const bool whole = s->layers > 0 && s->hidden > 0 && s->heads > 0 && s->head_dim > 0 && s->vocab > 0 &&
                     s->hidden < INT64_C(1) << 20 && s->layers < SPP_MAX_LAYERS;
  if (!whole || s->heads % spp_max64(s->kv_heads, 1) != 0) return false;
  if (s->gated) return !(s->experts > 0 && (s->qkv_bias || s->qk_norm));
  return s->experts == 0 && s->kv_heads == s->heads && s->head_dim * s->heads == s->hidden;
}

static const char *family_of(const struct sizes *s) {
  if (!s->gated) return s->rotary ? "gpt_neox" : "gpt2";
  if (s->experts > 0) return "mixtral";
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

static void put_others(struct spp_jo *jo, const struct sizes *s) {
  spp_jo_i64(jo, "hidden_size", s->hidden);
  spp_jo_i64(jo, "num_hidden_layers", s->layers);
  spp_jo_i64(jo, "num_attention_heads", s->heads);
  spp_jo_i64(jo, "intermediate_size", s->ffn);
  spp_jo_i64(jo, "max_position_embeddings", s->positions);
  spp_jo_str(jo, "hidden_act", s->gated ? "silu" : "gelu");
  if (s->gated) {
    spp_jo_i64(jo, "num_key_value_heads", s->kv_heads);
    spp_jo_i64(jo, "head_dim", s->head_dim);
  } else {
    spp_jo_bool(jo, "use_parallel_residual", false);
    spp_jo_bool(jo, "attention_bias", s->bias);
  }
  if (s->experts == 0) return;
  spp_jo_i64(jo, "num_local_experts", s->experts);
  spp_jo_i64(jo, "num_experts_per_tok", s->chosen);
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
