/* A Hugging Face config.json becomes an arch: scalars here, then layers, vision and weight rows. */
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "model/arch_families.h"
#include "model/catalog.h"

static const struct spp_catalog models = {"models", "model", "config.json"};

static void copy_text(char *out, size_t size, const char *text) {
  snprintf(out, size, "%s", text);
}

/* Architectures whose layers are not softmax attention plus MLP: known by members no other config has. */
static void refuse_other_architectures(struct spp_arch_reader *r) {
  static const char *const members[] = {"linear_num_value_heads", "hybrid_override_pattern",
                                        "ssm_state_size",         "mamba_num_heads",
                                        "mamba_d_state",          "is_encoder_decoder"};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    struct spp_json v = spp_json_get(r->text, members[i]);
    bool flag = true;
    if (spp_json_kind(v) == SPP_JSON_ABSENT || spp_json_kind(v) == SPP_JSON_NULL) continue;
    if (spp_json_kind(v) == SPP_JSON_BOOL && spp_json_bool(v, &flag, NULL) == SPP_OK && !flag) continue;
    spp_arch_refuse(r, v, "decoder-only transformers with softmax attention can be described",
                    "state-space, linear-attention and encoder-decoder models are not known");
  }
}

/* Where the language model is described: nested in a multimodal config, else at the top. */
static struct spp_json language_model(struct spp_json root) {
  static const char *const members[] = {"text_config", "llm_config", "language_config"};
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    struct spp_json nested = spp_json_get(root, members[i]);
    if (spp_json_kind(nested) == SPP_JSON_OBJECT) return nested;
  }
  return root;
}

static const char *read_type(struct spp_arch_reader *r, struct spp_json object) {
  const char *type = "";
  if (r->status == SPP_OK)
    r->status = spp_json_string_or(spp_json_get(object, "model_type"), "", &type, r->diag);
  return type;
}

/* The family of model_type, or of the language model inside; an unknown one is read like Llama, and said so.
 */
static void choose_family(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  const char *type = read_type(r, r->root), *inner = read_type(r, r->text);
  if (r->status != SPP_OK) return;
  r->family = spp_arch_family_find(type);
  if (!r->family) r->family = spp_arch_family_find(inner);
  copy_text(a->model_type, sizeof a->model_type, type[0] ? type : inner[0] ? inner : "llama");
  if (r->family) return;
  r->family = spp_arch_family_find("llama");
  if (type[0])
    spp_arch_note(a, "model_type '%.40s' is not known: read like llama (RMSNorm, gated MLP, biases as given)",
                  type);
  else
    spp_arch_note(a, "model_type is absent: read like llama (RMSNorm, gated MLP, biases as given)");
}

/* A quantised checkpoint: its weights are counted as the job keeps them (--method qlora, --dtype fp8). */
static void note_quantisation(struct spp_arch_reader *r) {
  struct spp_json config = spp_json_get(r->root, "quantization_config"),
                  method = spp_json_get(config, "quant_method");
  const char *name = "unnamed";
  if (spp_json_kind(config) != SPP_JSON_OBJECT) return;
  if (spp_json_kind(method) == SPP_JSON_STRING) r->status = spp_json_string(method, &name, r->diag);
  spp_arch_note(r->arch,
                "quantization_config (%.40s) is not read: weights are counted in the job's number format",
                name);
}

static void read_mla(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  if (!r->family->mla && spp_json_kind(spp_json_get(r->text, "kv_lora_rank")) != SPP_JSON_INT) return;
  const int64_t limit = 1 << 20;
  a->attention = SPP_ATTENTION_MLA;
  a->q_lora_rank = spp_arch_read_i64(r, spp_json_get(r->text, "q_lora_rank"), 0, limit, 0);
  a->kv_lora_rank = spp_arch_require_i64(r, spp_json_get(r->text, "kv_lora_rank"), 1, limit);
  a->qk_nope_dim = spp_arch_require_i64(r, spp_json_get(r->text, "qk_nope_head_dim"), 1, limit);
  a->qk_rope_dim = spp_arch_require_i64(r, spp_json_get(r->text, "qk_rope_head_dim"), 0, limit);
  a->v_head_dim = spp_arch_require_i64(r, spp_json_get(r->text, "v_head_dim"), 1, limit);
  a->head_dim = a->qk_nope_dim + a->qk_rope_dim;
  a->kv_heads = a->heads;
}

/* A figure that must be there, or in 1..limit when the family has a default. */
static int64_t read_defaulted(struct spp_arch_reader *r, enum spp_arch_field field, int64_t fallback) {
  int64_t value = fallback > 0 ? spp_arch_read_field_or(r, field, fallback) : 0;
  return value > 0 ? value : spp_arch_read_field(r, field);
}

static void read_heads(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  a->heads = read_defaulted(r, SPP_FIELD_HEADS, r->family->heads);
  a->kv_heads = spp_arch_read_field_or(r, SPP_FIELD_KV_HEADS, r->family->kv_heads);
  if (a->kv_heads == 0) a->kv_heads = a->heads;
  a->head_dim = spp_arch_read_field_or(r, SPP_FIELD_HEAD_DIM, r->family->head_dim);
  if (r->status != SPP_OK) return;
  read_mla(r);
  if (r->status == SPP_OK && a->head_dim == 0) {
    if (a->hidden % a->heads != 0)
      spp_arch_refuse_figures(r, SPP_FIELD_HEADS, "give head_dim",
                              "hidden size is not a multiple of the number of heads");
    a->head_dim = a->hidden / a->heads;
  }
}

/* After the adjustments of the family, which may change the KV heads. */
static void check_heads(struct spp_arch_reader *r) {
  const struct spp_arch *a = r->arch;
  if (r->status == SPP_OK && (a->kv_heads > a->heads || a->heads % a->kv_heads != 0))
    spp_arch_refuse_figures(r, SPP_FIELD_KV_HEADS, NULL,
                            "the number of heads is not a multiple of the number of KV heads");
}

/* Names in the config classes; the default of most of them. */
static double read_eps(struct spp_arch_reader *r) {
  static const char *const names[] = {"rms_norm_eps",      "layer_norm_eps", "layer_norm_epsilon",
                                      "layernorm_epsilon", "norm_epsilon",   "norm_eps"};
  double eps = r->family->norm == SPP_NORM_RMS ? 1e-6 : 1e-5;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && r->status == SPP_OK; i++)
    r->status = spp_json_real_or(spp_json_get(r->text, names[i]), 0, 1, eps, &eps, r->diag);
  return eps;
}

/* tie_word_embeddings stands at the top or beside the language model; the outer one counts. */
static bool read_tied(struct spp_arch_reader *r) {
  bool inner = spp_arch_read_bool(r, spp_json_get(r->text, "tie_word_embeddings"), r->family->tied);
  return spp_arch_read_bool(r, spp_json_get(r->root, "tie_word_embeddings"), inner);
}

static void read_scalars(struct spp_arch_reader *r) {
  const struct spp_arch_family *f = r->family;
  struct spp_arch *a = r->arch;
  a->layers = spp_arch_read_field(r, SPP_FIELD_LAYERS);
  a->hidden = spp_arch_read_field(r, SPP_FIELD_HIDDEN);
  a->vocab = read_defaulted(r, SPP_FIELD_VOCAB, f->vocab);
  a->max_positions = spp_arch_read_field_or(r, SPP_FIELD_POSITIONS, 0);
  a->ffn = spp_arch_read_field_or(r, SPP_FIELD_FFN, 0);
  if (a->ffn == 0 && f->ffn_factor > 0) a->ffn = f->ffn_factor * a->hidden;
  if (a->ffn == 0) a->ffn = spp_arch_read_field(r, SPP_FIELD_FFN);
  r->dense_ffn = a->ffn;
  read_heads(r);
  a->norm = f->norm;
  a->norm_eps = read_eps(r);
  a->norms_per_layer = f->norms_per_layer;
  a->parallel_block = f->parallel;
  a->norms_behind = f->norms_behind;
  a->mlp = f->mlp;
  a->keeps = spp_arch_keeps(f->model_type);
  a->tied = read_tied(r);
  a->qkv_bias = spp_arch_read_switch(r, &f->qkv_bias);
  a->o_bias = spp_arch_read_switch(r, &f->o_bias);
  a->mlp_bias = spp_arch_read_switch(r, &f->mlp_bias);
  if (!f->qk_norm_key || spp_arch_read_bool(r, spp_json_get(r->text, f->qk_norm_key), false))
    a->qk_norm = f->qk_norm;
  spp_arch_read_block(r);
  a->learned_positions = f->learned_positions ? a->max_positions : 0;
  a->mtp_layers = spp_arch_read_i64(r, spp_json_get(r->text, "num_nextn_predict_layers"), 0, 64, 0);
  r->fused_qkv = f->fused_qkv;
  r->fused_gate_up = f->fused_gate_up;
  r->head_bias = f->head_bias;
}

/* "Qwen2.5-7B" of "models/Qwen2.5-7B/config.json"; else the last part of the path. */
static void name_of_file(const char *where, char *out, size_t size) {
  const char *end = where + strlen(where), *base = strrchr(where, '/'), *start = base ? base + 1 : where;
  if (base && base > where && strcmp(base, "/config.json") == 0) {
    end = base;
    for (start = end; start > where && start[-1] != '/';)
      start--;
  }
  snprintf(out, size, "%.*s", (int)(end - start), start);
}

/* Our own member: how to show the model. */
static void read_names(struct spp_arch_reader *r, const char *where) {
  struct spp_arch *a = r->arch;
  struct spp_json own = spp_json_get(r->root, "_spplan");
  const char *display = "", *hf_id = "";
  char fallback[sizeof a->display];
  copy_text(a->name, sizeof a->name, where);
  name_of_file(where, fallback, sizeof fallback);
  if (r->status == SPP_OK)
    r->status = spp_json_string_or(spp_json_get(own, "display"), fallback, &display, r->diag);
  if (r->status == SPP_OK) r->status = spp_json_string_or(spp_json_get(own, "hf_id"), "", &hf_id, r->diag);
  copy_text(a->display, sizeof a->display, display);
  copy_text(a->hf_id, sizeof a->hf_id, hf_id);
}

/* Products of figures within their limits can still pass int64: refuse before anyone sums them. A layer has
 * fewer than 16 matrices, none larger than in x out; an eighth of the range is left for positions and the
 * vision tower. */
static void check_size(struct spp_arch_reader *r) {
  const struct spp_arch *a = r->arch;
  int64_t in = spp_max64(a->hidden, spp_max64(a->q_lora_rank, a->kv_lora_rank + a->qk_rope_dim));
  int64_t out = spp_max64(r->dense_ffn, a->heads * (a->head_dim + a->v_head_dim));
  out = spp_max64(out, spp_sat_mul(a->expert_ffn, a->experts));
  out = spp_max64(out, a->shared_experts * a->shared_expert_ffn);
  out = spp_sat_add(spp_max64(out, 2 * in), a->vocab);
  if (spp_sat_mul(spp_sat_mul(in, out), 16 * (a->layers + a->mtp_layers)) > INT64_MAX / 8)
    spp_arch_refuse(r, r->text, "check the sizes for extra digits",
                    "the model is larger than can be counted");
}

/* The lists stop growing when full. */
static bool weights_fit(const struct spp_arch *a) {
  bool fit = a->outer_weight_count < SPP_MAX_LAYER_WEIGHTS;
  for (int k = 0; k < a->kind_count; k++)
    fit = fit && a->kinds[k].weight_count < SPP_MAX_LAYER_WEIGHTS;
  return fit;
}

static void parse_document(struct spp_arch_reader *r, const char *where) {
  r->status = spp_json_expect(r->root, SPP_JSON_OBJECT, r->diag);
  r->text = language_model(r->root);
  if (r->status == SPP_OK) choose_family(r);
  if (r->status == SPP_OK) refuse_other_architectures(r);
  if (r->status == SPP_OK) read_scalars(r);
  if (r->status == SPP_OK && r->family->adjust) r->family->adjust(r);
  check_heads(r);
  if (r->status == SPP_OK) spp_arch_read_positions(r);
  if (r->status == SPP_OK) spp_arch_read_layers(r);
  if (r->status == SPP_OK) spp_arch_read_vision(r);
  if (r->status == SPP_OK) note_quantisation(r);
  if (r->status == SPP_OK) check_size(r);
  read_names(r, where);
  if (r->status == SPP_OK) spp_arch_build_weights(r);
  if (r->status == SPP_OK && !weights_fit(r->arch))
    spp_arch_refuse(r, r->root, NULL, "more kinds of weights than can be described");
}

static enum spp_status parse_doc(const struct spp_json_doc *doc, const char *where,
                                 const struct spp_arch_scale *scale, struct spp_arena *arena,
                                 struct spp_arch **arch, struct spp_diag *diag) {
  struct spp_arch *a = spp_arena_alloc(arena, sizeof *a);
  if (!a) return spp_diag_oom(diag);
  struct spp_arch_reader reader = {.scale = scale, .root = spp_json_root(doc), .arch = a, .diag = diag};
  parse_document(&reader, where);
  if (reader.status == SPP_OK) *arch = a;
  return reader.status;
}

enum spp_status spp_arch_parse(const char *text, size_t length, const char *where, struct spp_arena *arena,
                               const struct spp_arch **arch, struct spp_diag *diag) {
  struct spp_json_doc *doc;
  struct spp_arch *parsed;
  enum spp_status status = spp_json_parse(text, length, where, &doc, diag);
  if (status != SPP_OK) return status;
  status = parse_doc(doc, where, NULL, arena, &parsed, diag);
  spp_json_free(doc);
  if (status == SPP_OK) *arch = parsed;
  return status;
}

/* preprocessor_config.json beside a config.json: the pixel limits its images are resized to. */
static enum spp_status read_preprocessor(const char *config_path, struct spp_vision *v,
                                         struct spp_diag *diag) {
  char path[1200];
  const char *slash = strrchr(config_path, '/');
  int folder = slash ? (int)(slash - config_path + 1) : 0;
  snprintf(path, sizeof path, "%.*spreprocessor_config.json", folder, config_path);
  if (v->max_pixels == 0 || !spp_path_exists(path)) return SPP_OK;
  struct spp_json_doc *doc;
  enum spp_status status = spp_json_load(path, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_json root = spp_json_root(doc), size = spp_json_get(root, "size");
  const int64_t limit = INT64_C(1) << 40;
  int64_t least = v->min_pixels, most = v->max_pixels;
  status = spp_json_i64_or(spp_json_get(size, "shortest_edge"), 1, limit, least, &least, diag);
  if (status == SPP_OK)
    status = spp_json_i64_or(spp_json_get(size, "longest_edge"), 1, limit, most, &most, diag);
  if (status == SPP_OK)
    status = spp_json_i64_or(spp_json_get(root, "min_pixels"), 1, limit, least, &least, diag);
  if (status == SPP_OK)
    status = spp_json_i64_or(spp_json_get(root, "max_pixels"), 1, limit, most, &most, diag);
  if (status == SPP_OK && least > most)
    status = spp_json_refuse(root, NULL, diag, "min_pixels is above max_pixels");
  if (status == SPP_OK) v->min_pixels = least, v->max_pixels = most;
  spp_json_free(doc);
  return status;
}

enum spp_status spp_arch_load(const char *config_dir, const char *name, struct spp_arena *arena,
                              const struct spp_arch **arch, struct spp_diag *diag) {
  return spp_arch_load_scaled(config_dir, name, NULL, arena, arch, diag);
}

enum spp_status spp_arch_load_scaled(const char *config_dir, const char *name,
                                     const struct spp_arch_scale *scale, struct spp_arena *arena,
                                     const struct spp_arch **arch, struct spp_diag *diag) {
  const char *path, *entry;
  enum spp_status status = spp_catalog_find(&models, config_dir, name, arena, &path, &entry, diag);
  if (status != SPP_OK) return status;
  struct spp_json_doc *doc;
  status = spp_json_load(path, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_arch *loaded;
  status = parse_doc(doc, entry, scale, arena, &loaded, diag);
  spp_json_free(doc);
  if (status == SPP_OK) status = read_preprocessor(path, &loaded->vision, diag);
  if (status == SPP_OK) *arch = loaded;
  return status;
}

enum spp_status spp_arch_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                              int *count, struct spp_diag *diag) {
  return spp_catalog_list(&models, config_dir, arena, names, count, diag);
}
