/* How attention knows positions, family by family: how much of a head turns, by which angles, in which
 * layers, or linear biases instead; and what the product of q and k is multiplied by. Source:
 * configuration_*.py and modeling_*.py of huggingface/transformers 5.24; for chatglm, baichuan and qwen the
 * remote code beside the checkpoints. */
#include <math.h>
#include <string.h>

#include "model/arch_read.h"

/* Which layers turn q and k. */
enum pattern {
  EVERY_LAYER,
  LISTED_LAYERS,  /* no_rope_layers, or all but each no_rope_layer_interval-th */
  WINDOWED_LAYERS /* those with a window; all where there is none */
};

/* Families that differ from "the whole head, in halves, in every layer". */
static const struct position_rule {
  const char *model_type;
  double part; /* of the head, where the config does not say */
  bool neighbours;
  enum pattern pattern;
  double local_theta; /* base of angles in layers with a window, where the config does not say; 0: the same */
} rules[] = {
    {"chatglm", 0.5, true, EVERY_LAYER, 0},     {"cohere", 1, true, EVERY_LAYER, 0},
    {"cohere2", 1, true, WINDOWED_LAYERS, 0},   {"deepseek_v2", 1, true, EVERY_LAYER, 0},
    {"deepseek_v3", 1, true, EVERY_LAYER, 0},   {"ernie4_5", 1, true, EVERY_LAYER, 0},
    {"exaone4", 1, false, WINDOWED_LAYERS, 0},  {"glm", 0.5, true, EVERY_LAYER, 0},
    {"glm4", 0.5, true, EVERY_LAYER, 0},        {"glm4_moe", 0.5, false, EVERY_LAYER, 0},
    {"glm4_moe_lite", 1, true, EVERY_LAYER, 0}, {"gpt2", 0, false, EVERY_LAYER, 0},
    {"gpt_bigcode", 0, false, EVERY_LAYER, 0},  {"gpt_neox", 0.25, false, EVERY_LAYER, 0},
    {"gemma3", 1, false, EVERY_LAYER, 10000},   {"gemma3_text", 1, false, EVERY_LAYER, 10000},
    {"gptj", 1, true, EVERY_LAYER, 0},          {"kimi_k2", 1, true, EVERY_LAYER, 0},
    {"llama4", 1, true, LISTED_LAYERS, 0},      {"llama4_text", 1, true, LISTED_LAYERS, 0},
    {"mpt", 0, false, EVERY_LAYER, 0},          {"nemotron", 0.5, false, EVERY_LAYER, 0},
    {"olmo3", 1, false, EVERY_LAYER, 500000},   {"opt", 0, false, EVERY_LAYER, 0},
    {"phi", 0.5, false, EVERY_LAYER, 0},        {"smollm3", 1, false, LISTED_LAYERS, 0},
    {"stablelm", 0.25, false, EVERY_LAYER, 0},
};

static const struct position_rule *rule_of(const struct spp_arch_reader *r) {
  static const struct position_rule plain = {"", 1, false, EVERY_LAYER, 0};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (strcmp(rules[i].model_type, r->family->model_type) == 0) return &rules[i];
  return &plain;
}

static double read_real(struct spp_arch_reader *r, struct spp_json v, double most, double fallback) {
  double value = fallback;
  if (r->status == SPP_OK) r->status = spp_json_real_or(v, 0, most, fallback, &value, r->diag);
  return value;
}

/* A member of the config, of its rope_parameters (transformers 5, modeling_rope_utils.py RopeParameters) or
 * of attn_config (llm-foundry). */
static double read_rope(struct spp_arch_reader *r, const char *key, double most, double fallback) {
  static const char *const inside[] = {"attn_config", "rope_parameters"};
  for (int i = 0; i < 2; i++)
    fallback = read_real(r, spp_json_get(spp_json_get(r->text, inside[i]), key), most, fallback);
  return read_real(r, spp_json_get(r->text, key), most, fallback);
}

/* The base of angles is at least 1. */
static double read_theta(struct spp_arch_reader *r) {
  double theta = read_rope(r, "rotary_emb_base", 1e15, read_rope(r, "rope_theta", 1e15, 10000));
  return theta < 1 ? 1 : theta;
}

static struct spp_json scaling_of(const struct spp_arch_reader *r) {
  struct spp_json v = spp_json_get(r->text, "rope_scaling");
  return spp_json_kind(v) == SPP_JSON_OBJECT ? v : spp_json_get(r->text, "rope_parameters");
}

/* mrope: a text's positions are the same in each of its parts. */
static enum spp_rope_stretch stretch_of(const char *type) {
  static const struct {
    const char *type;
    enum spp_rope_stretch kind;
  } kinds[] = {{"", SPP_ROPE_AS_IS},        {"default", SPP_ROPE_AS_IS}, {"mrope", SPP_ROPE_AS_IS},
               {"linear", SPP_ROPE_LINEAR}, {"llama3", SPP_ROPE_LLAMA3}, {"yarn", SPP_ROPE_YARN}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].type, type) == 0) return kinds[i].kind;
  return SPP_ROPE_OTHER;
}

/* modeling_rope_utils.py _compute_yarn_parameters get_mscale. */
static double mscale(double factor, double times) {
  return factor > 1 ? 0.1 * times * log(factor) + 1 : 1;
}
static double read_gain(struct spp_arch_reader *r, struct spp_json v, double factor) {
  double own = read_real(r, spp_json_get(v, "mscale"), 1e3, 0),
         all = read_real(r, spp_json_get(v, "mscale_all_dim"), 1e3, 0);
  double usual = own > 0 && all > 0 ? mscale(factor, own) / mscale(factor, all) : mscale(factor, 1);
  return read_real(r, spp_json_get(v, "attention_factor"), 1e3, usual);
}

static void read_scaling(struct spp_arch_reader *r) {
  struct spp_rope_scaling *s = &r->arch->rope_scaling;
  struct spp_json v = scaling_of(r);
  const char *type = "";
  if (r->status == SPP_OK) r->status = spp_json_string_or(spp_json_get(v, "type"), "", &type, r->diag);
  if (r->status == SPP_OK) r->status = spp_json_string_or(spp_json_get(v, "rope_type"), type, &type, r->diag);
  s->kind = stretch_of(type);
  bool yarn = s->kind == SPP_ROPE_YARN;
  double usual = yarn && r->arch->max_positions > 0 ? (double)r->arch->max_positions : 8192;
  s->factor = read_real(r, spp_json_get(v, "factor"), 1e9, 1);
  s->low = read_real(r, spp_json_get(v, yarn ? "beta_slow" : "low_freq_factor"), 1e9, 1);
  s->high = read_real(r, spp_json_get(v, yarn ? "beta_fast" : "high_freq_factor"), 1e9, yarn ? 32 : 4);
  s->original = read_real(r, spp_json_get(v, "original_max_position_embeddings"), 1e12, usual);
  s->whole = spp_arch_read_bool(r, spp_json_get(v, "truncate"), true);
  s->gain = yarn ? read_gain(r, v, s->factor) : 1;
  if (!(s->factor > 0 && s->low > 0 && s->high > s->low && s->original > 0)) s->kind = SPP_ROPE_AS_IS;
}

/* Pair of the head that turns so often in the positions the model began with. */
static double pair_of(const struct spp_arch *a, double turns) {
  return (double)a->rotary_dim * log(a->rope_scaling.original / (turns * 2 * acos(-1.0))) /
         (2 * log(a->rope_theta));
}

/* How far YaRN stretches pair i: 0 not at all, 1 by the whole factor. */
static double yarn_part(const struct spp_arch *a, int64_t i) {
  const struct spp_rope_scaling *s = &a->rope_scaling;
  double first = pair_of(a, s->high), last = pair_of(a, s->low);
  first = fmax(s->whole ? floor(first) : first, 0);
  last = fmin(s->whole ? ceil(last) : last, (double)a->rotary_dim - 1);
  if (first == last) last += 0.001;
  return fmin(fmax(((double)i - first) / (last - first), 0), 1);
}

double spp_arch_rope_frequency(const struct spp_arch *a, bool local, int64_t i) {
  const struct spp_rope_scaling *s = &a->rope_scaling;
  double f = pow(local ? a->rope_local_theta : a->rope_theta, -2.0 * (double)i / (double)a->rotary_dim);
  double turns = s->original * f / (2 * acos(-1.0)); /* in the positions the model began with */
  if (local || s->kind == SPP_ROPE_AS_IS || s->kind == SPP_ROPE_OTHER) return f;
  if (s->kind == SPP_ROPE_YARN) return f * (1 + yarn_part(a, i) * (1 / s->factor - 1));
  if (s->kind == SPP_ROPE_LINEAR || turns < s->low) return f / s->factor;
  if (turns > s->high) return f;
  double part = (turns - s->low) / (s->high - s->low);
  return (1 - part) * f / s->factor + part * f;
}

/* rotary_dim counts elements of the head that the file says, which a scale may have changed. */
static double part_of_head(struct spp_arch_reader *r, double fallback) {
  const int64_t limit = 1 << 20;
  double part = read_rope(r, "rotary_pct", 1, read_rope(r, "partial_rotary_factor", 1, fallback));
  int64_t turned = spp_arch_read_i64(r, spp_json_get(r->text, "rotary_dim"), 0, limit, 0);
  if (turned == 0) return part;
  int64_t hidden = spp_arch_read_i64(r, spp_arch_field_json(r, SPP_FIELD_HIDDEN), 1, limit, 1);
  int64_t heads = spp_arch_read_i64(r, spp_arch_field_json(r, SPP_FIELD_HEADS), 1, limit, 1);
  int64_t whole = spp_arch_read_i64(r, spp_arch_field_json(r, SPP_FIELD_HEAD_DIM), 1, limit, hidden / heads);
  return turned >= whole ? 1 : (double)turned / (double)whole;
}

/* Factor on the slopes of linear biases; 0: none. MPT and Falcon have a member (Falcon adds them before it
 * divides by the root of the head); of Baichuan the 7B turns, and only its config class has
 * max_position_embeddings. */
static double read_alibi(struct spp_arch_reader *r) {
  const char *type = r->family->model_type;
  if (strcmp(type, "mpt") == 0)
    return spp_arch_read_bool(r, spp_json_get(spp_json_get(r->text, "attn_config"), "alibi"), false) ? 1 : 0;
  if (strcmp(type, "falcon") == 0)
    return spp_arch_read_bool(r, spp_json_get(r->text, "alibi"), false) ? 1 / sqrt((double)r->arch->head_dim)
                                                                        : 0;
  return strcmp(type, "baichuan") == 0 &&
         spp_json_kind(spp_json_get(r->text, "max_position_embeddings")) != SPP_JSON_INT;
}

/* Gemma 2 and 3 name the square of the divisor, Granite the factor; else one over the root of a head of q. */
static double read_scale(struct spp_arch_reader *r) {
  bool gemma =
      strncmp(r->family->model_type, "gemma2", 6) == 0 || strncmp(r->family->model_type, "gemma3", 6) == 0;
  double scalar = read_real(r, spp_json_get(r->text, "query_pre_attn_scalar"), 1e9, gemma ? 256 : 0);
  double plain = scalar > 0 ? 1 / sqrt(scalar) : 1 / sqrt((double)r->arch->head_dim);
  return read_real(r, spp_json_get(r->text, "attention_multiplier"), 1e9, plain);
}

/* modeling_deepseek_v3.py yarn_apply_mscale: YaRN lengthens the whole product there, not its rotary part. */
static double read_latent_gain(struct spp_arch_reader *r) {
  double all = read_real(r, spp_json_get(scaling_of(r), "mscale_all_dim"), 1e3, 0);
  double gain = all > 0 ? mscale(r->arch->rope_scaling.factor, all) : 1;
  return gain * gain;
}

void spp_arch_read_positions(struct spp_arch_reader *r) {
  const struct position_rule *rule = rule_of(r);
  struct spp_arch *a = r->arch;
  a->attention_scale = read_scale(r);
  a->alibi = read_alibi(r);
  a->rope_theta = read_theta(r);
  a->rope_local_theta = read_rope(r, "rope_local_base_freq", 1e15, rule->local_theta);
  a->rotary_neighbours = rule->neighbours;
  read_scaling(r);
  if (a->attention == SPP_ATTENTION_MLA) a->attention_scale *= read_latent_gain(r);
  if (a->alibi > 0 || a->learned_positions > 0 || rule->part == 0) return;
  int64_t head = a->attention == SPP_ATTENTION_MLA ? a->qk_rope_dim : a->head_dim;
  double part = a->attention == SPP_ATTENTION_MLA ? 1 : part_of_head(r, rule->part);
  a->rotary_dim = (int64_t)(part * (double)head) / 2 * 2;
}

static bool listed(struct spp_arch_reader *r, int layer) {
  int64_t flag;
  struct spp_json entry = spp_json_at(spp_json_get(r->text, "no_rope_layers"), layer);
  if (spp_json_i64(entry, 0, 1, &flag, NULL) == SPP_OK) return flag == 1;
  int64_t period =
      spp_arch_read_i64(r, spp_json_get(r->text, "no_rope_layer_interval"), 1, SPP_MAX_LAYERS, 4);
  return (layer + 1) % period != 0;
}

bool spp_arch_layer_rotates(struct spp_arch_reader *r, int layer, int64_t window_tokens) {
  if (r->arch->rotary_dim == 0) return false;
  switch (rule_of(r)->pattern) {
  case EVERY_LAYER: return true;
  case LISTED_LAYERS: return listed(r, layer);
  case WINDOWED_LAYERS: break;
  }
  bool windows = spp_json_kind(spp_json_get(r->text, "sliding_window")) == SPP_JSON_INT;
  return window_tokens > 0 || !windows;
}
