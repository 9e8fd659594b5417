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
#define TEXT(member)                                                                                         \
  { #member, KIND_TEXT, AT(member), (int)sizeof(((struct spp_framework *)0)->member), false }
#define BOOL(member)                                                                                         \
  { #member, KIND_BOOL, AT(member), 0, false }
#define INT(member)                                                                                          \
  { #member, KIND_INT, AT(member), 0, false }
#define I64(member)                                                                                          \
  { #member, KIND_I64, AT(member), 0, false }
#define REAL(member)                                                                                         \
  { #member, KIND_REAL, AT(member), 0, false }
#define WORD(member, table)                                                                                  \
  { #member, KIND_WORD, AT(member), SPP_WORDS_##table, false }
#define SET(member, table)                                                                                   \
  { #member, KIND_SET, AT(member), SPP_WORDS_##table, false }

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
    {"expert_capacity", KIND_BOOL, AT(expert_capacity), 0, true},
    {"ring_orders", KIND_SET, AT(ring_orders), SPP_WORDS_RING_ORDER, true},
    BOOL(ulysses_overlap),
    BOOL(allgather_overlap),
    {"allgather_heads", KIND_I64, AT(allgather_heads), 0, true},
    {"ring_waits", KIND_BOOL, AT(ring_waits), 0, true},
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
    {"selective_modules", KIND_BITS, AT(selective_modules), SPP_WORDS_MODULE, false},
    BOOL(selective_is_op_level),
    SET(schedules, SCHEDULE),
    SET(losses, LOSS_CHOICE),
    SET(methods, METHOD),
    SET(modes, MODE),
    SET(dtypes, DTYPE),
    SET(attentions, ATTENTION),
    {"sp_refused_types", KIND_TYPES, AT(sp_refused_types), 0, true},
    {"ring_refused_types", KIND_TYPES, AT(ring_refused_types), 0, true},
    {"engine_loss_types", KIND_TYPES, AT(engine_loss_types), 0, true},
    {"bf16_moments_types", KIND_TYPES, AT(bf16_moments_types), 0, true},
    {"offload_keeps_grads", KIND_BOOL, AT(offload_keeps_grads), 0, true},
    {"flat_units", KIND_BOOL, AT(flat_units), 0, true},
    {"tp_user_buffers", KIND_BOOL, AT(tp_user_buffers), 0, true},
    {"graphs", KIND_SET, AT(graphs), SPP_WORDS_GRAPH, true},
    {"plain_segments", KIND_BOOL, AT(plain_segments), 0, true},
    {"expandable_segments", KIND_BOOL, AT(expandable_segments), 0, true},
    {"splits_segments", KIND_BOOL, AT(splits_segments), 0, true},
    {"logs_no_memory", KIND_BOOL, AT(logs_no_memory), 0, true},
    {"logs_first_step", KIND_BOOL, AT(logs_first_step), 0, true},
    I64(pad_ulysses),
    I64(pad_ring),
    {"pad_ring_contiguous", KIND_I64, AT(pad_ring_contiguous), 0, true},
    BOOL(pad_tp),
    WORD(pad_scope, PAD_SCOPE),
    WORD(stage_split, STAGE_SPLIT),
    {"stage_uneven", KIND_BOOL, AT(stage_uneven), 0, true},
    {"recompute_by_layers", KIND_BOOL, AT(recompute_by_layers), 0, true},
    {"stage_outer_if_uneven", KIND_BOOL, AT(stage_outer_if_uneven), 0, true},
    I64(stage_outer_layers),
    WORD(kernels, KERNELS),
    WORD(attention, ATTENTION),
    INT(zero_default),
    WORD(recompute_default, RECOMPUTE),
    WORD(loss_default, LOSS_CHOICE),
    {"loss_path", KIND_PATHS, AT(loss_path), 0, false},
    {"loss_path_sp", KIND_PATHS, AT(loss_path_sp), 0, false},
    I64(loss_chunk_tokens),
    I64(loss_shards),
    {"loss_path_tp", KIND_WORD, AT(loss_path_tp), SPP_WORDS_LOSS_PATH, true},
    {"loss_path_pairs", KIND_WORD, AT(loss_path_pairs), SPP_WORDS_LOSS_PATH, true},
    {"pairs_whole_vocabulary", KIND_BOOL, AT(pairs_whole_vocabulary), 0, true},
    {"reference_caches", KIND_BOOL, AT(reference_caches), 0, true},
    BOOL(loss_gathers_sequence),
    BOOL(keeps_logits_reference),
    {"keeps_logits_in_step", KIND_BOOL, AT(keeps_logits_in_step), 0, true},
    {"logit_metrics", KIND_INT, AT(logit_metrics), 0, true},
    I64(vocab_multiple),
    REAL(lora_dropout_default),
    BOOL(lora_fp32_adapters),
    BOOL(lora_autocast),
    {"own_layers", KIND_BOOL, AT(own_layers), 0, true},
    {"joined_qkv", KIND_BOOL, AT(joined_qkv), 0, true},
    {"quantises_head", KIND_BOOL, AT(quantises_head), 0, true},
    {"shards_scales", KIND_BOOL, AT(shards_scales), 0, true},
    {"quantises_half", KIND_BOOL, AT(quantises_half), 0, true},
    {"fused_experts", KIND_BOOL, AT(fused_experts), 0, true},
    {"loads_fp32", KIND_BOOL, AT(loads_fp32), 0, true},
    {"kbit_fp32", KIND_BOOL, AT(kbit_fp32), 0, true},
    {"quantised_keeps_input", KIND_BOOL, AT(quantised_keeps_input), 0, true},
    {"states", KIND_STATES, AT(states), 0, false},
    WORD(sharding, SHARDING),
    {"sharding_weights", KIND_WORD, AT(sharding_weights), SPP_WORDS_SHARDING, true},
    {"gathers_on_own_stream", KIND_BOOL, AT(gathers_on_own_stream), 0, true},
    I64(reduce_bucket_elements),
    I64(prefetch_elements),
    I64(max_live_parameters),
    BOOL(bucket_auto),
    INT(bucket_copies),
    {"grads_reuse_weights", KIND_BOOL, AT(grads_reuse_weights), 0, true},
    {"steps_in_backward", KIND_BOOL, AT(steps_in_backward), 0, true},
    {"joins_buckets", KIND_BOOL, AT(joins_buckets), 0, true},
    {"placeholder_grads", KIND_BOOL, AT(placeholder_grads), 0, true},
    {"workspace_bytes", KIND_I64, AT(workspace_bytes), 0, true},
    {"norm_copies_grads", KIND_BOOL, AT(norm_copies_grads), 0, true},
    BOOL(optimizer_foreach),
    {"optimizer_lists", KIND_INT, AT(optimizer_lists), 0, true},
    BOOL(optimizer_fused),
    REAL(allocator_factor),
    I64(context_bytes),
    I64(nccl_bytes_per_group),
    I64(nccl_channels),
    {"nccl_version", KIND_I64, AT(nccl_version), 0, true},
    {"nccl_cumem_off", KIND_BOOL, AT(nccl_cumem_off), 0, true},
    {"nccl_nvls_off", KIND_BOOL, AT(nccl_nvls_off), 0, true},
    {"nccl_chunk_types", KIND_TYPES, AT(nccl_chunk_types), 0, true},
    {"nccl_groups", KIND_SET, AT(nccl_groups), SPP_WORDS_NCCL_GROUP, true},
    {"nccl_all_groups", KIND_BOOL, AT(nccl_all_groups), 0, true},
    BOOL(position_ids_gather),
    BOOL(vision_on_every_sp_rank),
    {"step_tokens", KIND_I64, AT(step_tokens), 0, true},
    {"step_tokens_large", KIND_I64, AT(step_tokens_large), 0, true},
    {"step_tokens_long", KIND_I64, AT(step_tokens_long), 0, true},
    {"profiled_sequences", KIND_I64, AT(profiled_sequences), 0, true},
    {"profiled_sequences_large", KIND_I64, AT(profiled_sequences_large), 0, true},
    {"cache_growth", KIND_WORD, AT(cache_growth), SPP_WORDS_CACHE_GROWTH, true},
    {"prompt_logits", KIND_BOOL, AT(prompt_logits), 0, true},
    {"kv_scale_bytes", KIND_I64, AT(kv_scale_bytes), 0, true},
    {"budget_is_torch_only", KIND_BOOL, AT(budget_is_torch_only), 0, true},
    {"loads_packed_whole", KIND_BOOL, AT(loads_packed_whole), 0, true},
    {"loads_whole_model", KIND_BOOL, AT(loads_whole_model), 0, true},
    {"reentrant_checkpoint", KIND_BOOL, AT(reentrant_checkpoint), 0, true},
    {"tiles_mlp", KIND_BOOL, AT(tiles_mlp), 0, true},
    {"fpdt", KIND_BOOL, AT(fpdt), 0, true},
    {"fpdt_gated_mlp", KIND_BOOL, AT(fpdt_gated_mlp), 0, true},
    {"fp8_params", KIND_BOOL, AT(fp8_params), 0, true},
    {"offloads_all_inputs", KIND_BOOL, AT(offloads_all_inputs), 0, true},
    BOOL(overlap_grad_reduce),
    BOOL(overlap_param_gather),
    BOOL(overlap_tp),
    BOOL(overlap_pp),
    BOOL(overlap_ep),
    {"ep_sends_once_per_node", KIND_BOOL, AT(ep_sends_once_per_node), 0, true},
    {"state_exposed_share", KIND_REAL, AT(state_exposed_share), 0, true},
    {"tp_exposed_share", KIND_REAL, AT(tp_exposed_share), 0, true},
    {"copies_gathered", KIND_BOOL, AT(copies_gathered), 0, true},
    {"gathers_into_buffers", KIND_BOOL, AT(gathers_into_buffers), 0, true},
    {"outer_units_apart", KIND_BOOL, AT(outer_units_apart), 0, true},
    {"repeats_kv", KIND_BOOL, AT(repeats_kv), 0, true},
    {"fuses_qkv", KIND_BOOL, AT(fuses_qkv), 0, true},
    {"selective_keeps_fp8", KIND_BOOL, AT(selective_keeps_fp8), 0, true},
    {"fp4_tail_share", KIND_REAL, AT(fp4_tail_share), 0, true},
    {"fp8_remakes_inputs", KIND_BOOL, AT(fp8_remakes_inputs), 0, true},
    {"fp8_cast_bytes", KIND_REAL, AT(fp8_cast_bytes), 0, true},
    {"fp8_casts_weights", KIND_BOOL, AT(fp8_casts_weights), 0, true},
    {"gathers_once_under_pp", KIND_BOOL, AT(gathers_once_under_pp), 0, true},
    REAL(host_s_per_layer),
    {"launches_per_layer", KIND_REAL, AT(launches_per_layer), 0, true},
    {"launches_per_gather", KIND_REAL, AT(launches_per_gather), 0, true},
    {"launches_per_unit", KIND_REAL, AT(launches_per_unit), 0, true},
    {"adapters_are_units", KIND_BOOL, AT(adapters_are_units), 0, true},
    {"launches_per_gradient", KIND_REAL, AT(launches_per_gradient), 0, true},
    REAL(host_s_per_step),
    REAL(comm_sm_slowdown),
    WORD(reports, REPORTER),
    REAL(memory_sigma),
    REAL(time_sigma),
    {"memory_runs", KIND_I64, AT(memory_runs), 0, true},
    {"time_runs", KIND_I64, AT(time_runs), 0, true},
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
