/* Experts and attention windows: what each layer is, and the layers gathered into kinds of equal shape. */
#include <string.h>

#include "model/arch_read.h"

static int64_t shape_i64(struct spp_arch_reader *r, const char *key, int64_t fallback) {
  return spp_arch_read_i64(r, spp_json_get(r->text, key), 0, INT64_C(1) << 40, fallback);
}

static bool list_holds(struct spp_json list, int64_t value) {
  for (struct spp_json v = spp_json_first(list); spp_json_kind(v) != SPP_JSON_ABSENT; v = spp_json_next(v)) {
    int64_t element;
    if (spp_json_i64(v, 0, SPP_MAX_LAYERS, &element, NULL) == SPP_OK && element == value) return true;
  }
  return false;
}

/* Which layers have experts. Sources: huggingface/transformers modeling_qwen2_moe.py (decoder_sparse_step,
 * mlp_only_layers), deepseek-ai modeling_deepseek.py (first_k_dense_replace, moe_layer_freq),
 * configuration_llama4.py (moe_layers, interleave_moe_layer_step), configuration_glm4_moe_lite.py
 * (mlp_layer_types). */
struct expert_rule {
  int64_t first, every, sparse_step;
  struct spp_json dense_list, moe_list, types;
};

static bool layer_has_experts(const struct expert_rule *rule, int64_t layer) {
  const char *type = "";
  if (spp_json_string(spp_json_at(rule->types, (int)layer), &type, NULL) == SPP_OK)
    return strcmp(type, "sparse") == 0;
  if (spp_json_size(rule->moe_list) > 0) return list_holds(rule->moe_list, layer);
  if (list_holds(rule->dense_list, layer)) return false;
  return layer >= rule->first && layer % rule->every == 0 && (layer + 1) % rule->sparse_step == 0;
}

static void read_shared_experts(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  a->shared_experts = spp_arch_read_field_or(r, SPP_FIELD_SHARED_EXPERTS, a->shared_experts);
  int64_t width = shape_i64(r, "shared_expert_intermediate_size", 0);
  if (width > 0 && a->shared_experts == 0) {
    a->shared_experts = 1; /* Qwen2-MoE: one shared expert behind a sigmoid gate */
    a->shared_expert_gate = true;
  }
  if (a->shared_experts > 0) a->shared_expert_ffn = width > 0 ? width : a->expert_ffn;
}

/* Group-limited choice (arXiv 2405.04434, 2.2.2): DeepSeek-V2 where topk_method says so
 * (modeling_deepseek_v2.py DeepseekV2TopkRouter), its successors always (modeling_deepseek_v3.py). Groups
 * that a scaled model has too few experts for limit nothing. */
static void read_router(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  const char *method = "";
  a->router_normalise =
      spp_arch_read_bool(r, spp_json_get(r->text, "norm_topk_prob"), !r->family->topk_as_is);
  a->routed_scale = 1;
  if (r->status == SPP_OK)
    r->status = spp_json_real_or(spp_json_get(r->text, "routed_scaling_factor"), 0, 1e6, 1, &a->routed_scale,
                                 r->diag);
  if (r->status == SPP_OK)
    r->status = spp_json_string_or(spp_json_get(r->text, "topk_method"), "", &method, r->diag);
  int64_t groups = shape_i64(r, "n_group", 0), open = shape_i64(r, "topk_group", 0);
  bool limits = open > 0 && open < groups && groups <= SPP_MAX_ROUTER_GROUPS && a->experts % groups == 0;
  if (!limits || a->experts / groups * open < a->experts_per_token || strcmp(method, "greedy") == 0) return;
  a->router_groups = groups;
  a->router_open = open;
}

static void read_experts(struct spp_arch_reader *r, struct expert_rule *rule) {
  struct spp_arch *a = r->arch;
  bool given = spp_json_kind(spp_arch_field_json(r, SPP_FIELD_EXPERTS)) >= SPP_JSON_BOOL;
  if (!r->family->moe && !given) return;
  a->experts = r->family->moe ? spp_arch_read_field(r, SPP_FIELD_EXPERTS)
                              : spp_arch_read_field_or(r, SPP_FIELD_EXPERTS, 0);
  if (a->experts == 0 || r->status != SPP_OK) return;
  a->experts_per_token = spp_arch_read_field(r, SPP_FIELD_EXPERTS_PER_TOKEN);
  if (a->experts_per_token > a->experts)
    spp_arch_refuse(r, spp_arch_field_json(r, SPP_FIELD_EXPERTS_PER_TOKEN), NULL,
                    "a token cannot visit more experts than there are");
  a->expert_ffn = spp_arch_read_field_or(r, SPP_FIELD_EXPERT_FFN, a->ffn);
  read_router(r);
  read_shared_experts(r);
  rule->first = shape_i64(r, "first_k_dense_replace", 0);
  rule->every = spp_arch_read_i64(r, spp_json_get(r->text, "moe_layer_freq"), 1, SPP_MAX_LAYERS, 1);
  rule->sparse_step =
      spp_arch_read_i64(r, spp_json_get(r->text, "decoder_sparse_step"), 1, SPP_MAX_LAYERS, 1);
  rule->sparse_step = spp_arch_read_i64(r, spp_json_get(r->text, "interleave_moe_layer_step"), 1,
                                        SPP_MAX_LAYERS, rule->sparse_step);
  rule->dense_list = spp_json_get(r->text, "mlp_only_layers");
  rule->moe_list = spp_json_get(r->text, "moe_layers");
  rule->types = spp_json_get(r->text, "mlp_layer_types");
}

/* Attention windows of the layers. Source: the layer_types each configuration_*.py of
 * huggingface/transformers derives from the members named here. */
struct window_rule {
  struct spp_json types; /* layer_types, when written out */
  struct spp_json rope;  /* no_rope_layers of Llama 4: 1 = RoPE */
  int64_t window_tokens, chunk_tokens, first, period;
  bool use;
};

static void read_window(struct spp_arch_reader *r, struct window_rule *rule) {
  enum spp_window_pattern pattern = r->family->window;
  rule->types = spp_json_get(r->text, "layer_types");
  rule->rope = spp_json_get(r->text, "no_rope_layers");
  rule->window_tokens = shape_i64(r, "sliding_window", 0);
  rule->chunk_tokens = shape_i64(r, "attention_chunk_size", 0);
  rule->first = shape_i64(r, "max_window_layers", 0);
  rule->period = spp_arch_read_i64(r, spp_json_get(r->text, "sliding_window_pattern"), 1, SPP_MAX_LAYERS,
                                   r->family->window_period > 0 ? r->family->window_period : 6);
  rule->use = spp_arch_read_bool(r, spp_json_get(r->text, "use_sliding_window"), pattern != SPP_WINDOW_UPPER);
  if (pattern == SPP_WINDOW_CHUNKED_ROPE)
    rule->period =
        spp_arch_read_i64(r, spp_json_get(r->text, "no_rope_layer_interval"), 1, SPP_MAX_LAYERS, 4);
}

/* *chunked tells blocks from sliding; returns 0 for full attention. */
static int64_t window_of_type(struct spp_arch_reader *r, const struct window_rule *rule, int layer,
                              bool *chunked) {
  struct spp_json entry = spp_json_at(rule->types, layer);
  const char *type = "";
  if (r->status == SPP_OK) r->status = spp_json_string(entry, &type, r->diag);
  if (r->status != SPP_OK || strcmp(type, "full_attention") == 0) return 0;
  *chunked = strcmp(type, "chunked_attention") == 0;
  if (*chunked) return rule->chunk_tokens;
  if (strcmp(type, "sliding_attention") == 0) return rule->window_tokens;
  spp_arch_refuse(r, entry, "only full, sliding and chunked softmax attention can be described",
                  "this kind of layer is not known");
  return 0;
}

static bool layer_uses_rope(const struct window_rule *rule, int layer) {
  int64_t flag;
  if (spp_json_i64(spp_json_at(rule->rope, layer), 0, 1, &flag, NULL) == SPP_OK) return flag == 1;
  return (layer + 1) % rule->period != 0;
}

static int64_t layer_window(struct spp_arch_reader *r, const struct window_rule *rule, int layer,
                            bool *chunked) {
  if (spp_json_size(rule->types) > 0) return window_of_type(r, rule, layer, chunked);
  switch (r->family->window) {
  case SPP_WINDOW_NONE: return 0;
  case SPP_WINDOW_ALL: return rule->use ? rule->window_tokens : 0;
  case SPP_WINDOW_UPPER: return rule->use && layer >= rule->first ? rule->window_tokens : 0;
  case SPP_WINDOW_ALTERNATE: return layer % 2 == 0 ? rule->window_tokens : 0;
  case SPP_WINDOW_PATTERN: return (layer + 1) % rule->period != 0 ? rule->window_tokens : 0;
  case SPP_WINDOW_CHUNKED_ROPE:
    *chunked = layer_uses_rope(rule, layer);
    return *chunked ? rule->chunk_tokens : 0;
  }
  return 0;
}

static void place_layer(struct spp_arch_reader *r, int layer, const struct spp_layer_kind *wanted) {
  struct spp_arch *a = r->arch;
  int k = 0;
  while (k < a->kind_count &&
         !(a->kinds[k].moe == wanted->moe && a->kinds[k].window_tokens == wanted->window_tokens &&
           a->kinds[k].window_chunked == wanted->window_chunked))
    k++;
  if (k == a->kind_count) a->kinds[a->kind_count++] = *wanted; /* at most 2 x 3 kinds exist */
  a->kinds[k].count++;
  a->kind_of_layer[layer] = (uint8_t)k;
}

void spp_arch_read_layers(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  struct expert_rule experts = {.every = 1, .sparse_step = 1};
  struct window_rule window = {0};
  read_experts(r, &experts);
  read_window(r, &window);
  int types = spp_json_size(window.types);
  if (types > 0 && types < a->layers)
    spp_arch_refuse(r, window.types, "one entry per layer", "layer_types is shorter than the model");
  for (int layer = 0; r->status == SPP_OK && layer < a->layers; layer++) {
    struct spp_layer_kind wanted = {.moe = a->experts > 0 && layer_has_experts(&experts, layer)};
    wanted.window_tokens = layer_window(r, &window, layer, &wanted.window_chunked);
    a->layer_rotates[layer] = spp_arch_layer_rotates(r, layer, wanted.window_tokens);
    /* A window no sequence can leave is full attention. */
    if (wanted.window_tokens == 0 || (a->max_positions > 0 && wanted.window_tokens >= a->max_positions))
      wanted.window_tokens = 0, wanted.window_chunked = false;
    place_layer(r, layer, &wanted);
  }
}
