/* Framework files: one table of keys, strict reading. */
#include "model/framework_read.h"

#include <stdio.h>
#include <string.h>

#include "model/framework_values.h"
#include "model/layout.h"

_Static_assert(sizeof(enum spp_sp_kind) == sizeof(int), "enum fields are written as int");

enum kind {
  KIND_TEXT, /* char[extra] */
  KIND_BOOL,
  KIND_INT,
  KIND_I64,
  KIND_REAL,
  KIND_WORD,  /* enum of word table extra */
  KIND_SET,   /* bool[] indexed by word table extra */
  KIND_BITS,  /* unsigned, bit numbers of word table extra */
  KIND_TYPES, /* char[SPP_MAX_REFUSED_TYPES][32] */
  KIND_PATHS, /* enum spp_loss_path[SPP_LOSS_CHOICE_COUNT] */
  KIND_STATES,
  KIND_RULES,
  KIND_RULES_DROP,
  KIND_LAUNCH,
  KIND_SOURCES,
  KIND_EXTENDS
};
struct field {
  const char *key;
  enum kind kind;
  size_t offset;
  int extra;
  bool optional;
};

#define AT(member) offsetof(struct spp_framework, member)
#define KEY(kind, member, extra, optional)                                                                   \
  { #member, KIND_##kind, AT(member), extra, optional }
#define TEXT(member)                 KEY(TEXT, member, (int)sizeof(((struct spp_framework *)0)->member), false)
#define BOOL(member)                 KEY(BOOL, member, 0, false)
#define INT(member)                  KEY(INT, member, 0, false)
#define I64(member)                  KEY(I64, member, 0, false)
#define REAL(member)                 KEY(REAL, member, 0, false)
#define PATHS(member)                KEY(PATHS, member, 0, false)
#define WORD(member, table)          KEY(WORD, member, SPP_WORDS_##table, false)
#define SET(member, table)           KEY(SET, member, SPP_WORDS_##table, false)
#define BITS(member, table)          KEY(BITS, member, SPP_WORDS_##table, false)
#define OPTIONAL_BOOL(member)        KEY(BOOL, member, 0, true)
#define OPTIONAL_INT(member)         KEY(INT, member, 0, true)
#define OPTIONAL_I64(member)         KEY(I64, member, 0, true)
#define OPTIONAL_REAL(member)        KEY(REAL, member, 0, true)
#define OPTIONAL_TYPES(member)       KEY(TYPES, member, 0, true)
#define OPTIONAL_WORD(member, table) KEY(WORD, member, SPP_WORDS_##table, true)
#define OPTIONAL_SET(member, table)  KEY(SET, member, SPP_WORDS_##table, true)

static const struct field fields[] = {
    {"extends", KIND_EXTENDS, 0, 0, true},
    TEXT(name),
    TEXT(display),
    TEXT(version),
    BOOL(trains),
    BOOL(searched),
    SET(sp_kinds, SP_KIND),
    WORD(sp_split, SP_SPLIT),
    WORD(sp_kind_default, SP_KIND),
    BOOL(ring_needs_packing),
    WORD(ring_impl, RING_IMPL),
    BOOL(ring_zigzag),
    OPTIONAL_BOOL(expert_capacity),
    OPTIONAL_SET(ring_orders, RING_ORDER),
    BOOL(ulysses_overlap),
    BOOL(allgather_overlap),
    OPTIONAL_I64(allgather_heads),
    OPTIONAL_BOOL(ring_waits),
    BOOL(tp),
    BOOL(pp),
    BOOL(vpp),
    BOOL(ep),
    BOOL(etp),
    BOOL(megatron_sp),
    BOOL(hsdp),
    BOOL(dp_shard_includes_sp),
    SET(offloads, OFFLOAD),
    SET(recomputes, RECOMPUTE),
    BITS(selective_modules, MODULE),
    BOOL(selective_is_op_level),
    SET(schedules, SCHEDULE),
    SET(losses, LOSS_CHOICE),
    SET(methods, METHOD),
    SET(modes, MODE),
    SET(dtypes, DTYPE),
    SET(attentions, ATTENTION),
    OPTIONAL_TYPES(sp_refused_types),
    OPTIONAL_TYPES(ring_refused_types),
    OPTIONAL_TYPES(engine_loss_types),
    OPTIONAL_TYPES(bf16_moments_types),
    OPTIONAL_BOOL(offload_keeps_grads),
    OPTIONAL_BOOL(flat_units),
    OPTIONAL_BOOL(tp_user_buffers),
    OPTIONAL_SET(graphs, GRAPH),
    OPTIONAL_WORD(segments, SEGMENTS),
    OPTIONAL_BOOL(splits_segments),
    OPTIONAL_BOOL(logs_no_memory),
    OPTIONAL_BOOL(logs_first_step),
    I64(pad_ulysses),
    I64(pad_ring),
    OPTIONAL_I64(pad_ring_contiguous),
    BOOL(pad_tp),
    WORD(pad_scope, PAD_SCOPE),
    WORD(stage_split, STAGE_SPLIT),
    OPTIONAL_BOOL(stage_uneven),
    OPTIONAL_BOOL(recompute_by_layers),
    OPTIONAL_BOOL(stage_outer_if_uneven),
    I64(stage_outer_layers),
    WORD(kernels, KERNELS),
    WORD(attention, ATTENTION),
    INT(zero_default),
    WORD(recompute_default, RECOMPUTE),
    WORD(loss_default, LOSS_CHOICE),
    PATHS(loss_path),
    PATHS(loss_path_sp),
    I64(loss_chunk_tokens),
    I64(loss_shards),
    OPTIONAL_WORD(loss_path_tp, LOSS_PATH),
    OPTIONAL_WORD(loss_path_pairs, LOSS_PATH),
    OPTIONAL_BOOL(pairs_whole_vocabulary),
    OPTIONAL_BOOL(reference_caches),
    BOOL(loss_gathers_sequence),
    BOOL(keeps_logits_reference),
    OPTIONAL_BOOL(keeps_logits_in_step),
    OPTIONAL_INT(logit_metrics),
    I64(vocab_multiple),
    REAL(lora_dropout_default),
    BOOL(lora_fp32_adapters),
    BOOL(lora_autocast),
    OPTIONAL_BOOL(own_layers),
    OPTIONAL_BOOL(joined_qkv),
    OPTIONAL_BOOL(joined_adapters),
    OPTIONAL_BOOL(shared_expert_adapters),
    OPTIONAL_BOOL(quantises_head),
    OPTIONAL_BOOL(shards_scales),
    OPTIONAL_BOOL(quantises_half),
    OPTIONAL_BOOL(fused_experts),
    OPTIONAL_BOOL(unpacked_experts),
    OPTIONAL_BOOL(loads_fp32),
    OPTIONAL_BOOL(zeroes_gradients),
    OPTIONAL_BOOL(prompt_logits_16bit),
    OPTIONAL_BOOL(kbit_fp32),
    OPTIONAL_BOOL(quantised_keeps_input),
    KEY(STATES, states, 0, false),
    WORD(sharding, SHARDING),
    OPTIONAL_WORD(sharding_weights, SHARDING),
    OPTIONAL_BOOL(gathers_on_own_stream),
    I64(reduce_bucket_elements),
    I64(prefetch_elements),
    I64(max_live_parameters),
    BOOL(bucket_auto),
    INT(bucket_copies),
    OPTIONAL_BOOL(grads_reuse_weights),
    OPTIONAL_BOOL(steps_in_backward),
    OPTIONAL_BOOL(joins_buckets),
    OPTIONAL_BOOL(placeholder_grads),
    OPTIONAL_I64(workspace_bytes),
    OPTIONAL_BOOL(norm_copies_grads),
    BOOL(optimizer_foreach),
    OPTIONAL_INT(optimizer_lists),
    BOOL(optimizer_fused),
    REAL(allocator_factor),
    I64(context_bytes),
    I64(nccl_bytes_per_group),
    I64(nccl_channels),
    OPTIONAL_I64(nccl_version),
    OPTIONAL_BOOL(nccl_cumem_off),
    OPTIONAL_BOOL(nccl_nvls_off),
    OPTIONAL_TYPES(nccl_chunk_types),
    OPTIONAL_SET(nccl_groups, NCCL_GROUP),
    OPTIONAL_BOOL(nccl_all_groups),
    BOOL(position_ids_gather),
    BOOL(vision_on_every_sp_rank),
    OPTIONAL_I64(step_tokens),
    OPTIONAL_I64(step_tokens_large),
    OPTIONAL_I64(step_tokens_long),
    OPTIONAL_I64(profiled_sequences),
    OPTIONAL_I64(profiled_sequences_large),
    OPTIONAL_WORD(cache_growth, CACHE_GROWTH),
    OPTIONAL_BOOL(prompt_logits),
    OPTIONAL_I64(kv_scale_bytes),
    OPTIONAL_BOOL(budget_is_torch_only),
    OPTIONAL_BOOL(loads_packed_whole),
    OPTIONAL_BOOL(loads_whole_model),
    OPTIONAL_BOOL(reentrant_checkpoint),
    OPTIONAL_BOOL(tiles_mlp),
    OPTIONAL_BOOL(fpdt),
    OPTIONAL_BOOL(fpdt_gated_mlp),
    OPTIONAL_BOOL(fp8_params),
    OPTIONAL_BOOL(offloads_all_inputs),
    BOOL(overlap_grad_reduce),
    BOOL(overlap_param_gather),
    BOOL(overlap_tp),
    BOOL(overlap_pp),
    BOOL(overlap_ep),
    OPTIONAL_BOOL(ep_sends_once_per_node),
    OPTIONAL_REAL(state_exposed_share),
    OPTIONAL_REAL(tp_exposed_share),
    OPTIONAL_BOOL(copies_gathered),
    OPTIONAL_BOOL(gathers_into_buffers),
    OPTIONAL_BOOL(outer_units_apart),
    OPTIONAL_BOOL(repeats_kv),
    OPTIONAL_BOOL(fuses_qkv),
    OPTIONAL_BOOL(selective_keeps_fp8),
    OPTIONAL_REAL(fp4_tail_share),
    OPTIONAL_BOOL(fp8_remakes_inputs),
    OPTIONAL_REAL(fp8_cast_bytes),
    OPTIONAL_BOOL(fp8_casts_weights),
    OPTIONAL_BOOL(gathers_once_under_pp),
    REAL(host_s_per_layer),
    OPTIONAL_REAL(launches_per_layer),
    OPTIONAL_REAL(launches_per_gather),
    OPTIONAL_REAL(launches_per_unit),
    OPTIONAL_BOOL(adapters_are_units),
    OPTIONAL_REAL(launches_per_gradient),
    REAL(host_s_per_step),
    REAL(comm_sm_slowdown),
    WORD(reports, REPORTER),
    REAL(memory_sigma),
    REAL(time_sigma),
    OPTIONAL_I64(memory_runs),
    OPTIONAL_I64(time_runs),
    {"rules_drop", KIND_RULES_DROP, 0, 0, true},
    {"rules", KIND_RULES, 0, 0, false},
    {"launch", KIND_LAUNCH, 0, 0, false},
    {"sources", KIND_SOURCES, 0, 0, false},
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

typedef enum spp_status status;

const char *spp_framework_key(int index) {
  return index >= 0 && index < FIELD_COUNT ? fields[index].key : NULL;
}

static status refuse_key(struct spp_json member, struct spp_diag *diag) {
  const char *keys[FIELD_COUNT];
  for (int i = 0; i < FIELD_COUNT; i++)
    keys[i] = fields[i].key;
  return spp_refuse_word(member, "the key", spp_json_own_key(member), keys, FIELD_COUNT, diag);
}

/* Files mostly keep the order of the table: the search begins behind the field found last, *next. */
static const struct field *find_field(const char *key, int *next) {
  for (int n = 0; n < FIELD_COUNT; n++) {
    int i = (*next + n) % FIELD_COUNT;
    if (strcmp(fields[i].key, key) != 0) continue;
    *next = i + 1;
    return &fields[i];
  }
  return NULL;
}

/* A source may name a field, or a stage of the states as "states.3". */
static bool source_key_known(const char *key, int *next) {
  if (find_field(key, next)) return true;
  return strncmp(key, "states.", 7) == 0 && key[7] >= '0' && key[7] <= '3' && key[8] == '\0';
}

static status read_sources(struct spp_json object, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  int next = 0;
  for (SPP_EACH(value, object)) {
    const char *key = spp_json_own_key(value);
    int k = 0;
    if (!source_key_known(key, &next)) return refuse_key(value, diag);
    while (k < f->source_count && strcmp(f->sources[k].key, key) != 0)
      k++;
    if (k == SPP_MAX_SOURCES)
      return spp_json_refuse(value, "join some", diag, "more than %d sources", SPP_MAX_SOURCES);
    snprintf(f->sources[k].key, sizeof f->sources[k].key, "%s", key);
    s = spp_read_text(value, f->sources[k].text, sizeof f->sources[k].text, diag);
    if (k == f->source_count) f->source_count++;
  }
  return s;
}

static status read_number(struct spp_json value, const struct field *field, void *at, struct spp_diag *diag) {
  int64_t number = 0;
  status s;
  if (field->kind == KIND_REAL) return spp_json_real(value, 0, 1e9, at, diag);
  s = spp_json_i64(value, 0, field->kind == KIND_INT ? 1024 : SPP_JSON_EXACT_MAX, &number, diag);
  if (s != SPP_OK) return s;
  if (field->kind == KIND_INT)
    *(int *)at = (int)number;
  else
    *(int64_t *)at = number;
  return SPP_OK;
}

static status read_field(struct spp_json value, const struct field *field, struct spp_framework *f,
                         struct spp_diag *diag) {
  void *at = (char *)f + field->offset;
  switch (field->kind) {
  case KIND_TEXT: return spp_read_text(value, at, (size_t)field->extra, diag);
  case KIND_BOOL: return spp_json_bool(value, at, diag);
  case KIND_WORD: return spp_read_word(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_SET: return spp_read_set(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_BITS: return spp_read_bits(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_TYPES: return spp_read_types(value, at, diag);
  case KIND_PATHS: return spp_read_paths(value, at, diag);
  case KIND_STATES: return spp_read_states(value, at, diag);
  case KIND_RULES_DROP: return spp_drop_rules(value, f, diag);
  case KIND_RULES: return spp_read_rules(value, f, diag);
  case KIND_LAUNCH: return spp_read_launch(value, f, diag);
  case KIND_SOURCES: return read_sources(value, f, diag);
  case KIND_EXTENDS: return SPP_OK;
  default: return read_number(value, field, at, diag);
  }
}

static bool is_numeric(const struct field *field) {
  return field->kind == KIND_INT || field->kind == KIND_I64 || field->kind == KIND_REAL;
}

static status need_source(struct spp_json value, struct spp_json sources, const char *key,
                          struct spp_diag *diag) {
  if (spp_json_kind(spp_json_get(sources, key)) != SPP_JSON_ABSENT) return SPP_OK;
  return spp_json_refuse(value, "add it under \"sources\"", diag, "no source for %s", key);
}

/* Every number a file gives has its source in the same file. */
static status check_sources(struct spp_json root, struct spp_diag *diag) {
  struct spp_json sources = spp_json_get(root, "sources");
  char key[16];
  status s = SPP_OK;
  int next = 0;
  for (SPP_EACH(member, root)) {
    const struct field *field = find_field(spp_json_own_key(member), &next);
    if (field && is_numeric(field)) s = need_source(member, sources, field->key, diag);
  }
  for (SPP_EACH(state, spp_json_get(root, "states"))) {
    snprintf(key, sizeof key, "states.%.1s", spp_json_own_key(state));
    if (spp_json_kind(state) != SPP_JSON_NULL) s = need_source(state, sources, key, diag);
  }
  return s;
}

/* The value of each field, absent where the file has none; keys that are no fields are refused. */
static status collect(struct spp_json root, struct spp_json values[FIELD_COUNT], struct spp_diag *diag) {
  status s = spp_json_expect(root, SPP_JSON_OBJECT, diag);
  int next = 0;
  memset(values, 0, sizeof(struct spp_json) * FIELD_COUNT);
  for (SPP_EACH(member, root)) {
    const struct field *field = find_field(spp_json_own_key(member), &next);
    if (!field) return refuse_key(member, diag);
    values[field - fields] = member;
  }
  return s;
}

enum spp_status spp_framework_read(const struct spp_json_doc *doc, bool complete, struct spp_framework *f,
                                   struct spp_diag *diag) {
  struct spp_json root = spp_json_root(doc), values[FIELD_COUNT];
  status s = collect(root, values, diag);
  f->memory_runs = f->time_runs = 0; /* runs of the file that this one extends are none of its own */
  for (int i = 0; s == SPP_OK && i < FIELD_COUNT; i++) {
    bool absent = spp_json_kind(values[i]) == SPP_JSON_ABSENT;
    if (absent && (!complete || fields[i].optional)) continue;
    s = read_field(absent ? spp_json_get(root, fields[i].key) : values[i], &fields[i], f, diag);
  }
  return s == SPP_OK ? check_sources(root, diag) : s;
}
