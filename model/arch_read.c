#include "model/arch_read.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names in the config classes of huggingface/transformers; the usual one first. The limit refuses absurd
 * values long before any product of them could leave int64. */
static const struct {
  int64_t limit;
  const char *names[6];
} fields[SPP_FIELD_COUNT] = {
    [SPP_FIELD_LAYERS] = {SPP_MAX_LAYERS, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    [SPP_FIELD_HIDDEN] = {1 << 20, {"hidden_size", "n_embd", "d_model"}},
    [SPP_FIELD_FFN] = {1 << 23, {"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner"}},
    [SPP_FIELD_HEADS] = {1 << 14, {"num_attention_heads", "n_head", "n_heads"}},
    [SPP_FIELD_KV_HEADS] = {1 << 14,
                            {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}},
    [SPP_FIELD_HEAD_DIM] = {1 << 14, {"head_dim", "kv_channels", "attention_head_dim"}},
    [SPP_FIELD_VOCAB] = {1 << 26, {"padded_vocab_size", "vocab_size"}},
    [SPP_FIELD_POSITIONS] = {INT64_C(1) << 32,
                             {"max_position_embeddings", "n_positions", "max_seq_len", "model_max_length",
                              "seq_length"}},
    [SPP_FIELD_EXPERTS] = {1 << 14, {"num_local_experts", "n_routed_experts", "num_experts"}},
    [SPP_FIELD_EXPERTS_PER_TOKEN] = {1 << 14, {"num_experts_per_tok", "experts_per_token", "moe_topk"}},
    [SPP_FIELD_EXPERT_FFN] = {1 << 23, {"moe_intermediate_size"}},
    [SPP_FIELD_SHARED_EXPERTS] = {1 << 10, {"n_shared_experts", "num_shared_experts"}},
};

struct spp_json spp_arch_field_json(const struct spp_arch_reader *reader, enum spp_arch_field field) {
  const char *const *names = fields[field].names;
  for (int i = 0; i < 6 && names[i]; i++) {
    struct spp_json v = spp_json_get(reader->text, names[i]);
    enum spp_json_kind kind = spp_json_kind(v);
    if (kind != SPP_JSON_ABSENT && kind != SPP_JSON_NULL) return v;
  }
  /* "vocab_size" is the name a reader knows. */
  return spp_json_get(reader->text, field == SPP_FIELD_VOCAB ? names[1] : names[0]);
}

int64_t spp_arch_require_i64(struct spp_arch_reader *reader, struct spp_json v, int64_t min, int64_t max) {
  int64_t value = min;
  if (reader->status == SPP_OK) reader->status = spp_json_i64(v, min, max, &value, reader->diag);
  return value;
}

int64_t spp_arch_read_i64(struct spp_arch_reader *reader, struct spp_json v, int64_t min, int64_t max,
                          int64_t fallback) {
  int64_t value = fallback;
  if (reader->status == SPP_OK) reader->status = spp_json_i64_or(v, min, max, fallback, &value, reader->diag);
  return value;
}

/* The figures that may be said instead of the file. */
static const struct {
  const char *name;
  enum spp_arch_field field;
  size_t offset;
} scaled[] = {
#define SCALED(name, field, member)                                                                          \
  { name, SPP_FIELD_##field, offsetof(struct spp_arch_scale, member) }
    SCALED("layers", LAYERS, layers),
    SCALED("hidden", HIDDEN, hidden),
    SCALED("ffn", FFN, ffn),
    SCALED("heads", HEADS, heads),
    SCALED("kv-heads", KV_HEADS, kv_heads),
    SCALED("head-dim", HEAD_DIM, head_dim),
    SCALED("vocab", VOCAB, vocab),
    SCALED("experts", EXPERTS, experts),
    SCALED("experts-per-token", EXPERTS_PER_TOKEN, experts_per_token),
    SCALED("expert-ffn", EXPERT_FFN, expert_ffn),
    SCALED("shared-experts", SHARED_EXPERTS, shared_experts),
#undef SCALED
};
enum { SCALED_COUNT = sizeof scaled / sizeof scaled[0] };

static int64_t scaled_value(const struct spp_arch_scale *scale, enum spp_arch_field field) {
  for (int i = 0; scale && i < SCALED_COUNT; i++)
    if (scaled[i].field == field) return *(const int64_t *)((const char *)scale + scaled[i].offset);
  return 0;
}

static enum spp_status refuse_scale(const char *text, const char *what, struct spp_diag *diag) {
  char hint[256] = "it takes NAME=N, joined by commas:";
  for (int i = 0; i < SCALED_COUNT; i++) {
    size_t used = strlen(hint);
    snprintf(hint + used, sizeof hint - used, " %s", scaled[i].name);
  }
  return spp_diag_set(diag, SPP_ERR_USAGE, "--scale", hint, "'%.100s' %s", text, what);
}

enum spp_status spp_arch_scale_parse(const char *text, struct spp_arch_scale *scale, struct spp_diag *diag) {
  struct spp_arch_scale s = {0};
  for (const char *at = text; *at;) {
    size_t length = strcspn(at, "=");
    int i = 0;
    while (i < SCALED_COUNT &&
           !(strlen(scaled[i].name) == length && strncmp(scaled[i].name, at, length) == 0))
      i++;
    if (i == SCALED_COUNT || at[length] != '=') return refuse_scale(at, "is no figure of a model", diag);
    char *end;
    long long value = strtoll(at + length + 1, &end, 10);
    if (end == at + length + 1 || value < 1 || value > fields[scaled[i].field].limit || (*end && *end != ','))
      return refuse_scale(at, "has no number, or one out of range", diag);
    *(int64_t *)((char *)&s + scaled[i].offset) = value;
    at = *end ? end + 1 : end;
  }
  *scale = s;
  return SPP_OK;
}

int64_t spp_arch_read_field(struct spp_arch_reader *reader, enum spp_arch_field field) {
  int64_t said = scaled_value(reader->scale, field);
  return said > 0 ? said
                  : spp_arch_require_i64(reader, spp_arch_field_json(reader, field), 1, fields[field].limit);
}

int64_t spp_arch_read_field_or(struct spp_arch_reader *reader, enum spp_arch_field field, int64_t fallback) {
  int64_t said = scaled_value(reader->scale, field);
  return said > 0 ? said
                  : spp_arch_read_i64(reader, spp_arch_field_json(reader, field), 0, fields[field].limit,
                                      fallback);
}

bool spp_arch_read_bool(struct spp_arch_reader *reader, struct spp_json v, bool fallback) {
  bool value = fallback;
  if (reader->status == SPP_OK) reader->status = spp_json_bool_or(v, fallback, &value, reader->diag);
  return value;
}

bool spp_arch_read_switch(struct spp_arch_reader *reader, const struct spp_arch_switch *s) {
  if (!s->key) return s->fallback;
  bool value = spp_arch_read_bool(reader, spp_json_get(reader->text, s->key), s->fallback != s->negated);
  return value != s->negated;
}

static bool is_scaled(const struct spp_arch_reader *reader) {
  for (int i = 0; i < SCALED_COUNT; i++)
    if (scaled_value(reader->scale, scaled[i].field) > 0) return true;
  return false;
}

void spp_arch_refuse(struct spp_arch_reader *reader, struct spp_json v, const char *hint, const char *what) {
  if (reader->status == SPP_OK) reader->status = spp_json_refuse(v, hint, reader->diag, "%s", what);
}

void spp_arch_refuse_figures(struct spp_arch_reader *reader, enum spp_arch_field field, const char *hint,
                             const char *what) {
  if (!is_scaled(reader))
    spp_arch_refuse(reader, spp_arch_field_json(reader, field), hint, what);
  else if (reader->status == SPP_OK)
    reader->status = spp_diag_set(reader->diag, SPP_ERR_USAGE, "--scale", "give other figures", "%s", what);
}

void spp_arch_note(struct spp_arch *arch, const char *fmt, ...) {
  if (arch->note_count == SPP_MAX_ARCH_NOTES) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(arch->notes[arch->note_count++], sizeof arch->notes[0], fmt, args);
  va_end(args);
}
