/* The model of a record: a shipped one when the record agrees with it, else one built from the record's
 * dimensions. */
#include <ctype.h>
#include <string.h>

#include "base/json_out.h"
#include "planner/corpus_reading.h"

static int64_t dim(struct spp_json model, const char *key) {
  return (int64_t)spp_record_number(model, NULL, key, 0);
}

/* Every dimension that the record gives must be the model's. */
static bool agrees(struct spp_json model, const struct spp_arch *arch) {
  const struct {
    const char *key;
    int64_t have;
  } dims[] = {{"layers", arch->layers},
              {"hidden", arch->hidden},
              {"ffn", arch->ffn},
              {"heads", arch->heads},
              {"vocab", arch->vocab}};
  for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
    int64_t want = dim(model, dims[i].key);
    bool expert_width = !strcmp(dims[i].key, "ffn") && arch->experts > 0; /* MoE records give either width */
    if (want > 0 && want != dims[i].have && !expert_width) return false;
  }
  int64_t kv = dim(model, "kv_heads");
  return kv == 0 || kv == arch->kv_heads || arch->attention == SPP_ATTENTION_MLA;
}

/* "Qwen2.5-7B-Instruct" -> "qwen2.5-7b-instruct" */
static const char *lower_name(struct spp_arena *arena, const char *name) {
  char *copy = spp_arena_strdup(arena, name);
  for (char *c = copy; c && *c; c++)
    *c = (char)tolower((unsigned char)*c);
  return copy ? copy : "";
}

static bool write_moe(struct spp_jo *jo, struct spp_json model) {
  struct spp_json moe = spp_json_get(model, "moe");
  if (spp_json_kind(moe) != SPP_JSON_OBJECT) return false;
  spp_jo_i64(jo, "num_experts", dim(moe, "experts"));
  spp_jo_i64(jo, "num_experts_per_tok", dim(moe, "topk"));
  spp_jo_i64(jo, "moe_intermediate_size", dim(moe, "expert_ffn"));
  return true;
}

/* Dense gated models as Llama (Qwen2 with biases), ungated ones as GPT-2, MoE as Qwen3-MoE without q/k norm
 * (Mixtral shape). */
static void write_config(struct spp_str *out, struct spp_json model, int64_t seq_tokens) {
  struct spp_jo jo;
  bool gated = true, flag = false;
  (void)spp_json_bool_or(spp_json_get(model, "gated_mlp"), true, &gated, NULL);
  bool moe = spp_json_kind(spp_json_get(model, "moe")) == SPP_JSON_OBJECT;
  (void)spp_json_bool_or(spp_json_get(model, "qkv_bias"), false, &flag, NULL);
  spp_jo_begin(&jo, out, false);
  spp_jo_obj(&jo, NULL);
  spp_jo_str(&jo, "model_type", moe ? "qwen3_moe" : !gated ? "gpt2" : flag ? "qwen2" : "llama");
  if (!gated && !moe) {
    spp_jo_i64(&jo, "n_embd", dim(model, "hidden"));
    spp_jo_i64(&jo, "n_layer", dim(model, "layers"));
    spp_jo_i64(&jo, "n_head", dim(model, "heads"));
    spp_jo_i64(&jo, "n_inner", dim(model, "ffn"));
    spp_jo_i64(&jo, "n_positions", seq_tokens > 0 ? seq_tokens : 2048);
  } else {
    spp_jo_i64(&jo, "hidden_size", dim(model, "hidden"));
    spp_jo_i64(&jo, "num_hidden_layers", dim(model, "layers"));
    spp_jo_i64(&jo, "num_attention_heads", dim(model, "heads"));
    spp_jo_i64(&jo, "num_key_value_heads",
               dim(model, "kv_heads") > 0 ? dim(model, "kv_heads") : dim(model, "heads"));
    spp_jo_i64(&jo, "intermediate_size", dim(model, "ffn"));
    if (dim(model, "head_dim") > 0) spp_jo_i64(&jo, "head_dim", dim(model, "head_dim"));
    spp_jo_i64(&jo, "max_position_embeddings", seq_tokens > 0 ? seq_tokens : 2048);
  }
  spp_jo_i64(&jo, "vocab_size", dim(model, "vocab"));
  flag = !gated;
  (void)spp_json_bool_or(spp_json_get(model, "tied"), flag, &flag, NULL);
  spp_jo_bool(&jo, "tie_word_embeddings", flag);
  (void)write_moe(&jo, model);
  spp_jo_end(&jo);
}

/* A number, a truth or a word; nested members describe what a cut model does not change. */
static void write_member(struct spp_jo *jo, const char *key, struct spp_json v) {
  double number = 0;
  bool flag = false;
  const char *word = "";
  switch (spp_json_kind(v)) {
  case SPP_JSON_INT:
  case SPP_JSON_REAL:
    (void)spp_json_real(v, -1e300, 1e300, &number, NULL);
    spp_jo_real_exact(jo, key, number);
    break;
  case SPP_JSON_BOOL:
    (void)spp_json_bool(v, &flag, NULL);
    spp_jo_bool(jo, key, flag);
    break;
  case SPP_JSON_STRING:
    (void)spp_json_string(v, &word, NULL);
    spp_jo_str(jo, key, word);
    break;
  default: break;
  }
}

/* A shipped config with members replaced, as a rule of reading.json says ("cut to 4 layers"). */
static enum spp_status edited_model(struct spp_corpus_reader *reader, struct spp_json rule, const char *base,
                                    const char *name, const struct spp_arch **arch, struct spp_diag *diag) {
  struct spp_json_doc *doc = NULL;
  char *path = spp_arena_printf(reader->arena, "%s/models/%s.json", reader->config_dir, base);
  enum spp_status status = path ? spp_json_load(path, &doc, diag) : SPP_ERR_INTERNAL;
  if (status != SPP_OK) return status;
  struct spp_str text;
  struct spp_jo jo;
  spp_str_init(&text);
  spp_jo_begin(&jo, &text, false);
  spp_jo_obj(&jo, NULL);
  struct spp_json set = spp_json_get(rule, "set");
  struct spp_json member = spp_json_first(spp_json_root(doc));
  for (; spp_json_kind(member) != SPP_JSON_ABSENT; member = spp_json_next(member)) {
    const char *key = spp_json_own_key(member);
    struct spp_json replaced = spp_json_get(set, key);
    write_member(&jo, key, spp_json_kind(replaced) == SPP_JSON_ABSENT ? member : replaced);
  }
  spp_jo_end(&jo);
  status = spp_arch_parse(text.data, text.len, name, reader->arena, arch, diag);
  spp_str_free(&text);
  spp_json_free(doc);
  return status;
}

static enum spp_status built_model(struct spp_corpus_reader *reader, struct spp_json record, const char *name,
                                   const struct spp_arch **arch, struct spp_diag *diag) {
  struct spp_str text;
  spp_str_init(&text);
  write_config(&text, spp_json_get(record, "model"), (int64_t)spp_record_number(record, NULL, "seq", 0));
  enum spp_status status = spp_arch_parse(text.data, text.len, name, reader->arena, arch, diag);
  spp_str_free(&text);
  return status;
}

enum spp_status spp_corpus_model(struct spp_corpus_reader *reader, struct spp_json record,
                                 struct spp_run *run, struct spp_diag *diag) {
  struct spp_json model = spp_json_get(record, "model");
  const char *name = spp_record_text(model, "name");
  const char *base = lower_name(reader->arena, name);
  struct spp_json rule = spp_reading_first(reader, "models", record);
  if (spp_json_kind(rule) != SPP_JSON_ABSENT) {
    base = spp_record_text(rule, "base");
    if (spp_json_kind(spp_json_get(rule, "skip")) == SPP_JSON_STRING) {
      run->skip = spp_arena_strdup(reader->arena, spp_record_text(rule, "skip"));
      return SPP_OK;
    }
  }
  if (spp_json_kind(spp_json_get(rule, "set")) == SPP_JSON_OBJECT)
    return edited_model(reader, rule, base, name, &run->spec.arch, diag);
  const struct spp_arch *shipped = spp_shelf_arch(reader, base, NULL);
  if (shipped && agrees(model, shipped)) {
    run->spec.arch = shipped;
    return SPP_OK;
  }
  if (dim(model, "hidden") == 0 || dim(model, "layers") == 0) {
    run->skip = shipped ? "model dimensions disagree with the shipped model of that name"
                        : "the record gives no model dimensions";
    return SPP_OK;
  }
  spp_run_fill(run, "model built from the record's dimensions");
  return built_model(reader, record, name, &run->spec.arch, diag);
}
