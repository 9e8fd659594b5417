/* Framework files: one table of keys, strict reading. */
#include "model/framework_read.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "model/launch.h"
#include "model/layout.h"
#include "model/words.h"

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
    BOOL(kv_replication),
    BOOL(ring_needs_packing),
    WORD(ring_impl, RING_IMPL),
    BOOL(ring_zigzag),
    {"expert_capacity", KIND_BOOL, AT(expert_capacity), 0, true},
    {"ring_orders", KIND_SET, AT(ring_orders), SPP_WORDS_RING_ORDER, true},
    BOOL(ulysses_overlap),
    BOOL(allgather_overlap),
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
    {"plain_segments", KIND_BOOL, AT(plain_segments), 0, true},
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
    BOOL(loss_gathers_sequence),
    BOOL(keeps_logits_reference),
    {"keeps_logits_in_step", KIND_BOOL, AT(keeps_logits_in_step), 0, true},
    I64(vocab_multiple),
    REAL(lora_dropout_default),
    BOOL(lora_fp32_adapters),
    BOOL(lora_autocast),
    {"own_layers", KIND_BOOL, AT(own_layers), 0, true},
    {"joined_qkv", KIND_BOOL, AT(joined_qkv), 0, true},
    {"quantises_head", KIND_BOOL, AT(quantises_head), 0, true},
    {"quantises_half", KIND_BOOL, AT(quantises_half), 0, true},
    {"quantised_keeps_input", KIND_BOOL, AT(quantised_keeps_input), 0, true},
    {"states", KIND_STATES, AT(states), 0, false},
    WORD(sharding, SHARDING),
    {"sharding_weights", KIND_WORD, AT(sharding_weights), SPP_WORDS_SHARDING, true},
    {"gathers_on_own_stream", KIND_BOOL, AT(gathers_on_own_stream), 0, true},
    I64(reduce_bucket_elements),
    I64(allgather_bucket_elements),
    I64(prefetch_elements),
    I64(max_live_parameters),
    BOOL(bucket_auto),
    INT(bucket_copies),
    {"grads_reuse_weights", KIND_BOOL, AT(grads_reuse_weights), 0, true},
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
    I64(nccl_p2p_channels),
    {"nccl_all_groups", KIND_BOOL, AT(nccl_all_groups), 0, true},
    BOOL(position_ids_gather),
    BOOL(vision_on_every_sp_rank),
    {"step_tokens", KIND_I64, AT(step_tokens), 0, true},
    {"step_tokens_large", KIND_I64, AT(step_tokens_large), 0, true},
    {"profiled_sequences", KIND_I64, AT(profiled_sequences), 0, true},
    {"profiled_sequences_large", KIND_I64, AT(profiled_sequences_large), 0, true},
    {"budget_is_torch_only", KIND_BOOL, AT(budget_is_torch_only), 0, true},
    {"loads_whole_model", KIND_BOOL, AT(loads_whole_model), 0, true},
    {"reentrant_checkpoint", KIND_BOOL, AT(reentrant_checkpoint), 0, true},
    {"tiles_mlp", KIND_BOOL, AT(tiles_mlp), 0, true},
    {"fp8_params", KIND_BOOL, AT(fp8_params), 0, true},
    BOOL(checkpoint_offload_native),
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
    {"fp4_tail_share", KIND_REAL, AT(fp4_tail_share), 0, true},
    {"fp8_remakes_inputs", KIND_BOOL, AT(fp8_remakes_inputs), 0, true},
    {"fp8_cast_bytes", KIND_REAL, AT(fp8_cast_bytes), 0, true},
    {"fp8_casts_weights", KIND_BOOL, AT(fp8_casts_weights), 0, true},
    {"gathers_once_under_pp", KIND_BOOL, AT(gathers_once_under_pp), 0, true},
    REAL(host_s_per_layer),
    {"launches_per_layer", KIND_REAL, AT(launches_per_layer), 0, true},
    {"launches_per_gather", KIND_REAL, AT(launches_per_gather), 0, true},
    REAL(host_s_per_step),
    REAL(comm_sm_slowdown),
    WORD(reports, REPORTER),
    REAL(memory_sigma),
    REAL(time_sigma),
    {"rules_drop", KIND_RULES_DROP, 0, 0, true},
    {"rules", KIND_RULES, 0, 0, false},
    {"launch", KIND_LAUNCH, 0, 0, false},
    {"sources", KIND_SOURCES, 0, 0, false},
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

#define STATE(member)                                                                                        \
  { #member, offsetof(struct spp_states, member) }
static const struct {
  const char *key;
  size_t offset;
} state_fields[] = {STATE(weight_bytes), STATE(gather_bytes), STATE(grad_bytes),      STATE(reduce_bytes),
                    STATE(master_bytes), STATE(moment_bytes), STATE(step_extra_bytes)};
enum { STATE_FIELD_COUNT = sizeof state_fields / sizeof state_fields[0] };

typedef enum spp_status status;

/* Each element or member of a value while nothing failed. */
#define EACH(item, list)                                                                                     \
  struct spp_json item = spp_json_first(list);                                                               \
  s == SPP_OK &&spp_json_kind(item) != SPP_JSON_ABSENT;                                                      \
  item = spp_json_next(item)

const char *spp_framework_key(int index) {
  return index >= 0 && index < FIELD_COUNT ? fields[index].key : NULL;
}

static void list_keys(const char *keys[FIELD_COUNT]) {
  for (int i = 0; i < FIELD_COUNT; i++)
    keys[i] = fields[i].key;
}

static const struct field *find_field(const char *key) {
  for (int i = 0; i < FIELD_COUNT; i++)
    if (strcmp(fields[i].key, key) == 0) return &fields[i];
  return NULL;
}

/* Refuse a word that is not in a list, naming the nearest one that is. */
static status refuse_word(struct spp_json at, const char *what, const char *word, const char *const *names,
                          int count, struct spp_diag *diag) {
  char hint[160] = "see docs/frameworks.md for the list";
  const char *near = spp_suggest(word, names, count);
  if (near) snprintf(hint, sizeof hint, "did you mean \"%s\"?", near);
  return spp_json_refuse(at, hint, diag, "%s \"%s\" is not known", what, word);
}

static status read_text(struct spp_json value, char *out, size_t size, struct spp_diag *diag) {
  const char *text;
  status s = spp_json_string(value, &text, diag);
  if (s != SPP_OK) return s;
  if (strlen(text) >= size)
    return spp_json_refuse(value, "shorten it", diag, "the text is longer than %zu bytes", size - 1);
  memset(out, 0, size);
  memcpy(out, text, strlen(text));
  return SPP_OK;
}

static status read_word(struct spp_json value, enum spp_words_table table, int *out, struct spp_diag *diag) {
  const char *word;
  status s = spp_json_string(value, &word, diag);
  if (s != SPP_OK) return s;
  int found = spp_words_find(table, word);
  if (found < 0)
    return refuse_word(value, "the word", word, spp_words_of(table)->names, spp_words_of(table)->count, diag);
  *out = found;
  return SPP_OK;
}

/* A list of words as one flag per word. */
static status read_set(struct spp_json list, enum spp_words_table table, bool *flags, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  memset(flags, 0, sizeof(bool) * (size_t)spp_words_of(table)->count);
  for (EACH(item, list)) {
    int value = 0;
    s = read_word(item, table, &value, diag);
    if (s != SPP_OK) return s;
    flags[value] = true;
  }
  return SPP_OK;
}

static status read_bits(struct spp_json list, enum spp_words_table table, unsigned *bits,
                        struct spp_diag *diag) {
  bool flags[32] = {false};
  status s = read_set(list, table, flags, diag);
  if (s != SPP_OK) return s;
  *bits = 0;
  for (int i = 0; i < spp_words_of(table)->count; i++)
    *bits |= flags[i] ? 1u << i : 0;
  return SPP_OK;
}

static status read_types(struct spp_json list, char (*types)[32], struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  if (spp_json_size(list) > SPP_MAX_REFUSED_TYPES)
    return spp_json_refuse(list, "use shorter prefixes", diag, "more than %d model types",
                           SPP_MAX_REFUSED_TYPES);
  memset(types, 0, sizeof(char[32]) * SPP_MAX_REFUSED_TYPES);
  for (int i = 0; s == SPP_OK && i < spp_json_size(list); i++)
    s = read_text(spp_json_at(list, i), types[i], 32, diag);
  return s;
}

static status read_paths(struct spp_json object, enum spp_loss_path *paths, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  const struct spp_words *choices = spp_words_of(SPP_WORDS_LOSS_CHOICE);
  for (EACH(member, object)) {
    const char *key = spp_json_own_key(member);
    int choice = spp_words_find(SPP_WORDS_LOSS_CHOICE, key), path = 0;
    if (choice < 0) return refuse_word(member, "the loss", key, choices->names, choices->count, diag);
    s = read_word(member, SPP_WORDS_LOSS_PATH, &path, diag);
    if (s == SPP_OK) paths[choice] = (enum spp_loss_path)path;
  }
  return s;
}

static status read_shards(struct spp_json list, struct spp_states *st, struct spp_diag *diag) {
  static const char *const names[] = {"weights", "grads", "optimizer"};
  bool *const flags[] = {&st->shard_weights, &st->shard_grads, &st->shard_optimizer};
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  for (int i = 0; s == SPP_OK && i < spp_json_size(list); i++) {
    const char *word;
    int k = 0;
    s = spp_json_string(spp_json_at(list, i), &word, diag);
    if (s != SPP_OK) return s;
    while (k < 3 && strcmp(names[k], word) != 0)
      k++;
    if (k == 3) return refuse_word(spp_json_at(list, i), "the state", word, names, 3, diag);
    *flags[k] = true;
  }
  return s;
}

/* {"weight_bytes": 2, ..., "shard": ["optimizer"]}; null = the framework has no such stage. */
static status read_state(struct spp_json object, struct spp_states *out, struct spp_diag *diag) {
  struct spp_states st = {.supported = spp_json_kind(object) != SPP_JSON_NULL};
  status s = st.supported ? spp_json_expect(object, SPP_JSON_OBJECT, diag) : SPP_OK;
  const char *keys[STATE_FIELD_COUNT + 1] = {"shard"};
  for (int k = 0; k < STATE_FIELD_COUNT; k++)
    keys[k + 1] = state_fields[k].key;
  for (EACH(value, object)) {
    const char *key = spp_json_own_key(value);
    int k = 0;
    int64_t number;
    while (k < STATE_FIELD_COUNT && strcmp(state_fields[k].key, key) != 0)
      k++;
    if (k == STATE_FIELD_COUNT && strcmp(key, "shard") != 0)
      return refuse_word(value, "the key", key, keys, STATE_FIELD_COUNT + 1, diag);
    if (k == STATE_FIELD_COUNT) {
      s = read_shards(value, &st, diag);
      continue;
    }
    s = spp_json_i64(value, 0, 16, &number, diag);
    if (s == SPP_OK) *(int *)(void *)((char *)&st + state_fields[k].offset) = (int)number;
  }
  if (s == SPP_OK) *out = st;
  return s;
}

static status read_states(struct spp_json object, struct spp_states *states, struct spp_diag *diag) {
  static const char *const stages[] = {"0", "1", "2", "3"};
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  for (int i = 0; s == SPP_OK && i < spp_json_size(object); i++) {
    int stage = 0;
    while (stage < 4 && strcmp(stages[stage], spp_json_key(object, i)) != 0)
      stage++;
    if (stage == 4)
      return refuse_word(spp_json_member(object, i), "the stage", spp_json_key(object, i), stages, 4, diag);
    s = read_state(spp_json_member(object, i), &states[stage], diag);
  }
  return s;
}

/* Members of an object must be among `keys`. */
static status check_keys(struct spp_json object, const char *const *keys, int count, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  for (EACH(member, object)) {
    int k = 0;
    while (k < count && strcmp(keys[k], spp_json_own_key(member)) != 0)
      k++;
    if (k == count) return refuse_word(member, "the key", spp_json_own_key(member), keys, count, diag);
  }
  return s;
}

static status refuse_rule(struct spp_json at, const char *id, struct spp_diag *diag) {
  const char *ids[256];
  int count = spp_rule_count() < 256 ? spp_rule_count() : 256;
  for (int i = 0; i < count; i++)
    ids[i] = spp_rule_id(i);
  return refuse_word(at, "the rule", id, ids, count, diag);
}

static status read_rule(struct spp_json object, const char *version, struct spp_framework_rule *out,
                        struct spp_diag *diag) {
  static const char *const keys[] = {"id", "version", "source"};
  struct spp_framework_rule rule = {.index = -1};
  status s = check_keys(object, keys, 3, diag);
  if (s == SPP_OK) s = read_text(spp_json_get(object, "id"), rule.id, sizeof rule.id, diag);
  if (s == SPP_OK) s = read_text(spp_json_get(object, "source"), rule.source, sizeof rule.source, diag);
  if (s != SPP_OK) return s;
  snprintf(rule.version, sizeof rule.version, "%.63s", version);
  if (spp_json_kind(spp_json_get(object, "version")) != SPP_JSON_ABSENT)
    s = read_text(spp_json_get(object, "version"), rule.version, sizeof rule.version, diag);
  if (s != SPP_OK) return s;
  rule.index = spp_rule_find(rule.id);
  if (rule.index < 0) return refuse_rule(spp_json_get(object, "id"), rule.id, diag);
  *out = rule;
  return SPP_OK;
}

static int find_rule(const struct spp_framework *f, int index) {
  int i = 0;
  while (i < f->rule_count && f->rules[i].index != index)
    i++;
  return i;
}

/* Rules inherited from the extended file stay; one with the same id is replaced. */
static status read_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  int inherited = f->rule_count;
  for (EACH(item, list)) {
    struct spp_framework_rule rule;
    s = read_rule(item, f->version, &rule, diag);
    if (s != SPP_OK) return s;
    int at = find_rule(f, rule.index);
    if (at >= inherited && at < f->rule_count)
      return spp_json_refuse(item, "keep one", diag, "rule \"%s\" twice", rule.id);
    if (at == SPP_MAX_RULES)
      return spp_json_refuse(item, "drop some", diag, "more than %d rules", SPP_MAX_RULES);
    f->rules[at] = rule;
    if (at == f->rule_count) f->rule_count++;
  }
  return s;
}

/* Ids of inherited rules that do not hold here. */
static status drop_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  for (EACH(item, list)) {
    const char *id = "";
    s = spp_json_string(item, &id, diag);
    if (s != SPP_OK) return s;
    int index = spp_rule_find(id), at = find_rule(f, index);
    if (index < 0) return refuse_rule(item, id, diag);
    if (at == f->rule_count)
      return spp_json_refuse(item, "leave it out", diag, "rule \"%s\" is not inherited", id);
    memmove(&f->rules[at], &f->rules[at + 1], sizeof f->rules[0] * (size_t)(f->rule_count - at - 1));
    f->rule_count--;
  }
  return s;
}

/* "text" or {"when": condition, "text": words}. */
static status read_launch_word(struct spp_json item, struct spp_launch_word *word, struct spp_diag *diag) {
  static const char *const keys[] = {"when", "text"};
  char wrong[200];
  status s;
  memset(word, 0, sizeof *word);
  if (spp_json_kind(item) == SPP_JSON_STRING) {
    s = read_text(item, word->text, sizeof word->text, diag);
  } else {
    s = check_keys(item, keys, 2, diag);
    if (s == SPP_OK) s = read_text(spp_json_get(item, "when"), word->when, sizeof word->when, diag);
    if (s == SPP_OK) s = read_text(spp_json_get(item, "text"), word->text, sizeof word->text, diag);
  }
  if (s != SPP_OK) return s;
  if (spp_launch_check(word, wrong, sizeof wrong)) return SPP_OK;
  return spp_json_refuse(item, "see the list of names in docs/frameworks.md", diag, "%s", wrong);
}

static status read_launch(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  if (spp_json_size(list) > SPP_MAX_LAUNCH)
    return spp_json_refuse(list, "join some", diag, "more than %d launch words", SPP_MAX_LAUNCH);
  f->launch_count = 0;
  for (EACH(item, list))
    s = read_launch_word(item, &f->launch[f->launch_count++], diag);
  return s;
}

/* A source may name a field, or a stage of the states as "states.3". */
static bool source_key_known(const char *key) {
  if (find_field(key)) return true;
  return strncmp(key, "states.", 7) == 0 && key[7] >= '0' && key[7] <= '3' && key[8] == '\0';
}

static status read_sources(struct spp_json object, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  const char *keys[FIELD_COUNT];
  list_keys(keys);
  for (EACH(value, object)) {
    const char *key = spp_json_own_key(value);
    int k = 0;
    if (!source_key_known(key)) return refuse_word(value, "the key", key, keys, FIELD_COUNT, diag);
    while (k < f->source_count && strcmp(f->sources[k].key, key) != 0)
      k++;
    if (k == SPP_MAX_SOURCES)
      return spp_json_refuse(value, "join some", diag, "more than %d sources", SPP_MAX_SOURCES);
    snprintf(f->sources[k].key, sizeof f->sources[k].key, "%s", key);
    s = read_text(value, f->sources[k].text, sizeof f->sources[k].text, diag);
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
  case KIND_TEXT: return read_text(value, at, (size_t)field->extra, diag);
  case KIND_BOOL: return spp_json_bool(value, at, diag);
  case KIND_WORD: return read_word(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_SET: return read_set(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_BITS: return read_bits(value, (enum spp_words_table)field->extra, at, diag);
  case KIND_TYPES: return read_types(value, at, diag);
  case KIND_PATHS: return read_paths(value, at, diag);
  case KIND_STATES: return read_states(value, at, diag);
  case KIND_RULES_DROP: return drop_rules(value, f, diag);
  case KIND_RULES: return read_rules(value, f, diag);
  case KIND_LAUNCH: return read_launch(value, f, diag);
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
  for (EACH(member, root)) {
    const struct field *field = find_field(spp_json_own_key(member));
    if (field && is_numeric(field)) s = need_source(member, sources, field->key, diag);
  }
  for (EACH(state, spp_json_get(root, "states"))) {
    snprintf(key, sizeof key, "states.%.1s", spp_json_own_key(state));
    if (spp_json_kind(state) != SPP_JSON_NULL) s = need_source(state, sources, key, diag);
  }
  return s;
}

enum spp_status spp_framework_read(const struct spp_json_doc *doc, bool complete, struct spp_framework *f,
                                   struct spp_diag *diag) {
  struct spp_json root = spp_json_root(doc);
  const char *keys[FIELD_COUNT];
  list_keys(keys);
  status s = check_keys(root, keys, FIELD_COUNT, diag);
  for (int i = 0; s == SPP_OK && i < FIELD_COUNT; i++) {
    struct spp_json value = spp_json_get(root, fields[i].key);
    bool absent = spp_json_kind(value) == SPP_JSON_ABSENT;
    if (!absent || (complete && !fields[i].optional)) s = read_field(value, &fields[i], f, diag);
  }
  return s == SPP_OK ? check_sources(root, diag) : s;
}
