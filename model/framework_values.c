/* Values of framework files: words and lists of words, states by stage, rules, launch lines. */
#include "model/framework_values.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "model/launch.h"

#define STATE(member)                                                                                        \
  { #member, offsetof(struct spp_states, member) }
static const struct {
  const char *key;
  size_t offset;
} state_fields[] = {STATE(weight_bytes), STATE(gather_bytes), STATE(grad_bytes),      STATE(reduce_bytes),
                    STATE(master_bytes), STATE(moment_bytes), STATE(step_extra_bytes)};
enum { STATE_FIELD_COUNT = sizeof state_fields / sizeof state_fields[0] };

typedef enum spp_status status;

/* Refuse a word that is not in a list, naming the nearest one that is. */
enum spp_status spp_refuse_word(struct spp_json at, const char *what, const char *word,
                                const char *const *names, int count, struct spp_diag *diag) {
  char hint[160] = "see docs/frameworks.md for the list";
  const char *near = spp_suggest(word, names, count);
  if (near) snprintf(hint, sizeof hint, "did you mean \"%s\"?", near);
  return spp_json_refuse(at, hint, diag, "%s \"%s\" is not known", what, word);
}

enum spp_status spp_read_text(struct spp_json value, char *out, size_t size, struct spp_diag *diag) {
  const char *text;
  status s = spp_json_string(value, &text, diag);
  if (s != SPP_OK) return s;
  if (strlen(text) >= size)
    return spp_json_refuse(value, "shorten it", diag, "the text is longer than %zu bytes", size - 1);
  memset(out, 0, size);
  memcpy(out, text, strlen(text));
  return SPP_OK;
}

enum spp_status spp_read_word(struct spp_json value, enum spp_words_table table, int *out,
                              struct spp_diag *diag) {
  const char *word;
  status s = spp_json_string(value, &word, diag);
  if (s != SPP_OK) return s;
  int found = spp_words_find(table, word);
  if (found < 0)
    return spp_refuse_word(value, "the word", word, spp_words_of(table)->names, spp_words_of(table)->count,
                           diag);
  *out = found;
  return SPP_OK;
}

/* A list of words as one flag per word. */
enum spp_status spp_read_set(struct spp_json list, enum spp_words_table table, bool *flags,
                             struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  memset(flags, 0, sizeof(bool) * (size_t)spp_words_of(table)->count);
  for (SPP_EACH(item, list)) {
    int value = 0;
    s = spp_read_word(item, table, &value, diag);
    if (s != SPP_OK) return s;
    flags[value] = true;
  }
  return SPP_OK;
}

enum spp_status spp_read_bits(struct spp_json list, enum spp_words_table table, unsigned *bits,
                              struct spp_diag *diag) {
  bool flags[32] = {false};
  status s = spp_read_set(list, table, flags, diag);
  if (s != SPP_OK) return s;
  *bits = 0;
  for (int i = 0; i < spp_words_of(table)->count; i++)
    *bits |= flags[i] ? 1u << i : 0;
  return SPP_OK;
}

enum spp_status spp_read_types(struct spp_json list, char (*types)[32], struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  if (spp_json_size(list) > SPP_MAX_REFUSED_TYPES)
    return spp_json_refuse(list, "use shorter prefixes", diag, "more than %d model types",
                           SPP_MAX_REFUSED_TYPES);
  memset(types, 0, sizeof(char[32]) * SPP_MAX_REFUSED_TYPES);
  for (int i = 0; s == SPP_OK && i < spp_json_size(list); i++)
    s = spp_read_text(spp_json_at(list, i), types[i], 32, diag);
  return s;
}

enum spp_status spp_read_paths(struct spp_json object, enum spp_loss_path *paths, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  const struct spp_words *choices = spp_words_of(SPP_WORDS_LOSS_CHOICE);
  for (SPP_EACH(member, object)) {
    const char *key = spp_json_own_key(member);
    int choice = spp_words_find(SPP_WORDS_LOSS_CHOICE, key), path = 0;
    if (choice < 0) return spp_refuse_word(member, "the loss", key, choices->names, choices->count, diag);
    s = spp_read_word(member, SPP_WORDS_LOSS_PATH, &path, diag);
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
    if (k == 3) return spp_refuse_word(spp_json_at(list, i), "the state", word, names, 3, diag);
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
  for (SPP_EACH(value, object)) {
    const char *key = spp_json_own_key(value);
    int k = 0;
    int64_t number;
    while (k < STATE_FIELD_COUNT && strcmp(state_fields[k].key, key) != 0)
      k++;
    if (k == STATE_FIELD_COUNT && strcmp(key, "shard") != 0)
      return spp_refuse_word(value, "the key", key, keys, STATE_FIELD_COUNT + 1, diag);
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

enum spp_status spp_read_states(struct spp_json object, struct spp_states *states, struct spp_diag *diag) {
  static const char *const stages[] = {"0", "1", "2", "3"};
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  for (int i = 0; s == SPP_OK && i < spp_json_size(object); i++) {
    int stage = 0;
    while (stage < 4 && strcmp(stages[stage], spp_json_key(object, i)) != 0)
      stage++;
    if (stage == 4)
      return spp_refuse_word(spp_json_member(object, i), "the stage", spp_json_key(object, i), stages, 4,
                             diag);
    s = read_state(spp_json_member(object, i), &states[stage], diag);
  }
  return s;
}

/* Members of an object must be among `keys`. */
static status check_keys(struct spp_json object, const char *const *keys, int count, struct spp_diag *diag) {
  status s = spp_json_expect(object, SPP_JSON_OBJECT, diag);
  for (SPP_EACH(member, object)) {
    int k = 0;
    while (k < count && strcmp(keys[k], spp_json_own_key(member)) != 0)
      k++;
    if (k == count) return spp_refuse_word(member, "the key", spp_json_own_key(member), keys, count, diag);
  }
  return s;
}

static status refuse_rule(struct spp_json at, const char *id, struct spp_diag *diag) {
  const char *ids[256];
  int count = spp_rule_count() < 256 ? spp_rule_count() : 256;
  for (int i = 0; i < count; i++)
    ids[i] = spp_rule_id(i);
  return spp_refuse_word(at, "the rule", id, ids, count, diag);
}

static status read_rule(struct spp_json object, const char *version, struct spp_framework_rule *out,
                        struct spp_diag *diag) {
  static const char *const keys[] = {"id", "version", "source"};
  struct spp_framework_rule rule = {.index = -1};
  status s = check_keys(object, keys, 3, diag);
  if (s == SPP_OK) s = spp_read_text(spp_json_get(object, "id"), rule.id, sizeof rule.id, diag);
  if (s == SPP_OK) s = spp_read_text(spp_json_get(object, "source"), rule.source, sizeof rule.source, diag);
  if (s != SPP_OK) return s;
  snprintf(rule.version, sizeof rule.version, "%.63s", version);
  if (spp_json_kind(spp_json_get(object, "version")) != SPP_JSON_ABSENT)
    s = spp_read_text(spp_json_get(object, "version"), rule.version, sizeof rule.version, diag);
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
enum spp_status spp_read_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  int inherited = f->rule_count;
  for (SPP_EACH(item, list)) {
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
enum spp_status spp_drop_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  for (SPP_EACH(item, list)) {
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
    s = spp_read_text(item, word->text, sizeof word->text, diag);
  } else {
    s = check_keys(item, keys, 2, diag);
    if (s == SPP_OK) s = spp_read_text(spp_json_get(item, "when"), word->when, sizeof word->when, diag);
    if (s == SPP_OK) s = spp_read_text(spp_json_get(item, "text"), word->text, sizeof word->text, diag);
  }
  if (s != SPP_OK) return s;
  if (spp_launch_check(word, wrong, sizeof wrong)) return SPP_OK;
  return spp_json_refuse(item, "see the list of names in docs/frameworks.md", diag, "%s", wrong);
}

enum spp_status spp_read_launch(struct spp_json list, struct spp_framework *f, struct spp_diag *diag) {
  status s = spp_json_expect(list, SPP_JSON_ARRAY, diag);
  if (s != SPP_OK) return s;
  if (spp_json_size(list) > SPP_MAX_LAUNCH)
    return spp_json_refuse(list, "join some", diag, "more than %d launch words", SPP_MAX_LAUNCH);
  f->launch_count = 0;
  for (SPP_EACH(item, list))
    s = read_launch_word(item, &f->launch[f->launch_count++], diag);
  return s;
}
