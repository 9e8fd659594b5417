#include "planner/corpus_reading.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/setting.h"

bool spp_text_contains(const char *text, const char *part) {
  size_t n = strlen(part);
  for (; *text; text++) {
    size_t i = 0;
    while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
      i++;
    if (i == n) return true;
  }
  return n == 0;
}

/* The same, but letters and digits on either side make it part of another word: "te" is not in "attention".
 */
static bool contains_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; *at; at++) {
    size_t i = 0;
    while (i < n && at[i] && tolower((unsigned char)at[i]) == tolower((unsigned char)word[i]))
      i++;
    bool starts = at == text || !isalnum((unsigned char)at[-1]);
    if (i == n && starts && !isalnum((unsigned char)at[n])) return true;
  }
  return n == 0;
}

/* The same over letters and digits alone: "RTX 4090", "RTX-4090" and "RTX4090-24GB" all hold "RTX4090". */
static bool contains_squeezed(const char *text, const char *part) {
  for (; *text; text++) {
    const char *have = text, *want = part;
    if (!isalnum((unsigned char)*have)) continue;
    while (*want) {
      while (*have && !isalnum((unsigned char)*have))
        have++;
      while (*want && !isalnum((unsigned char)*want))
        want++;
      if (!*want || tolower((unsigned char)*have) != tolower((unsigned char)*want)) break;
      have++;
      want++;
    }
    if (!*want) return true;
  }
  return !*part;
}

const char *spp_record_text(struct spp_json record, const char *key) {
  const char *text = "";
  struct spp_json v = spp_json_get(record, key);
  if (spp_json_kind(v) == SPP_JSON_STRING) (void)spp_json_string(v, &text, NULL);
  return text;
}

double spp_record_number(struct spp_json record, const char *outer, const char *key, double fallback) {
  struct spp_json v = spp_json_get(outer ? spp_json_get(record, outer) : record, key);
  enum spp_json_kind kind = spp_json_kind(v);
  double number = fallback;
  if (kind == SPP_JSON_INT || kind == SPP_JSON_REAL) (void)spp_json_real(v, -1e300, 1e300, &number, NULL);
  return number;
}

void spp_run_fill(struct spp_run *run, const char *fmt, ...) {
  if (run->fill_count == SPP_RUN_FILLS) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(run->fills[run->fill_count++], sizeof run->fills[0], fmt, args);
  va_end(args);
}

/* Number of the thread a source names ("vllm-project/vllm issue #2031"): threads are numbered in time. */
static double issue_of(struct spp_json record) {
  const char *at = strchr(spp_record_text(record, "source"), '#');
  double number = at ? strtod(at + 1, NULL) : 0;
  return number > 0 ? number : 1e12;
}

static double has_adapters(struct spp_json record) {
  return spp_json_kind(spp_json_get(record, "lora")) == SPP_JSON_OBJECT;
}

/* What a rule may ask of a record: a text that is there, whatever the case, or how large a number is. */
static const struct condition {
  const char *key;
  enum { IS, HOLDS, HOLDS_WORD, HOLDS_SQUEEZED, AT_LEAST, AT_MOST } how;
  const char *outer, *member;               /* where the record says it */
  double absent;                            /* a number that is not there */
  double (*number)(struct spp_json record); /* one that is worked out */
} conditions[] = {
    {"group", IS, NULL, "group", 0, NULL}, /* "swift" is not "swift-sp" */
    {"source", HOLDS, NULL, "source", 0, NULL},
    {"notes", HOLDS, NULL, "notes", 0, NULL},
    {"precision", HOLDS, NULL, "precision", 0, NULL},
    {"attention", HOLDS_WORD, NULL, "attention", 0, NULL},
    {"recompute", HOLDS, NULL, "recompute", 0, NULL},
    {"offload", HOLDS, NULL, "offload", 0, NULL},
    {"kind", HOLDS, NULL, "kind", 0, NULL},
    {"name", HOLDS, "model", "name", 0, NULL},
    {"gpu", HOLDS_SQUEEZED, "hardware", "gpu", 0, NULL},
    {"inter", HOLDS, "hardware", "inter", 0, NULL},
    {"min_tp", AT_LEAST, "parallel", "tp", 1, NULL},
    {"min_pp", AT_LEAST, "parallel", "pp", 1, NULL},
    {"min_zero", AT_LEAST, "parallel", "zero", 0, NULL},
    {"min_fsdp", AT_LEAST, "parallel", "fsdp", 0, NULL},
    {"min_cp", AT_LEAST, "parallel", "cp", 1, NULL},
    {"max_cp", AT_MOST, "parallel", "cp", 1, NULL},
    {"min_micro_batch", AT_LEAST, NULL, "micro_batch", 1, NULL},
    {"min_lora", AT_LEAST, NULL, NULL, 0, has_adapters},
    {"max_lora", AT_MOST, NULL, NULL, 0, has_adapters},
    {"max_issue", AT_MOST, NULL, NULL, 0, issue_of},
};

static bool text_holds(const struct condition *c, struct spp_json wanted, struct spp_json record) {
  const char *want = "";
  if (spp_json_string(wanted, &want, NULL) != SPP_OK) return false;
  const char *have = spp_record_text(c->outer ? spp_json_get(record, c->outer) : record, c->member);
  switch (c->how) {
  case IS: return !strcmp(have, want);
  case HOLDS_WORD: return contains_word(have, want);
  case HOLDS_SQUEEZED: return contains_squeezed(have, want);
  default: return spp_text_contains(have, want);
  }
}

static bool condition_holds(const struct condition *c, struct spp_json wanted, struct spp_json record) {
  double limit = 0;
  if (c->how < AT_LEAST) return text_holds(c, wanted, record);
  if (spp_json_real(wanted, -1e9, 1e9, &limit, NULL) != SPP_OK) return false;
  double have = c->number ? c->number(record) : spp_record_number(record, c->outer, c->member, c->absent);
  return c->how == AT_LEAST ? have >= limit : have <= limit;
}

/* Every condition of the rule holds for the record. */
static bool matches(struct spp_json rule, struct spp_json record) {
  for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++) {
    struct spp_json wanted = spp_json_get(rule, conditions[i].key);
    if (spp_json_kind(wanted) != SPP_JSON_ABSENT && !condition_holds(&conditions[i], wanted, record))
      return false;
  }
  return true;
}

struct spp_json spp_reading_first(const struct spp_corpus_reader *reader, const char *list,
                                  struct spp_json record) {
  struct spp_json rule = spp_json_first(spp_json_get(spp_json_root(reader->rules), list));
  while (spp_json_kind(rule) != SPP_JSON_ABSENT && !matches(rule, record))
    rule = spp_json_next(rule);
  return rule;
}

enum spp_status spp_reading_set(struct spp_json rule, struct spp_run *run, struct spp_diag *diag) {
  struct spp_json set = spp_json_get(rule, "set");
  for (struct spp_json v = spp_json_first(set); spp_json_kind(v) != SPP_JSON_ABSENT; v = spp_json_next(v)) {
    const char *text = "";
    enum spp_status status = spp_json_string(v, &text, diag);
    if (status == SPP_OK)
      status = spp_setting_apply(spp_json_own_key(v), text, &run->spec, &run->request, diag);
    if (status != SPP_OK) return status;
    if (spp_json_kind(spp_json_get(rule, "assumed")) == SPP_JSON_BOOL)
      spp_run_fill(run, "%s %s (reading rule)", spp_json_own_key(v), text);
  }
  return SPP_OK;
}

enum spp_status spp_reading_settings(const struct spp_corpus_reader *reader, struct spp_json record,
                                     struct spp_run *run, struct spp_diag *diag) {
  struct spp_json rule = spp_json_first(spp_json_get(spp_json_root(reader->rules), "settings"));
  for (; spp_json_kind(rule) != SPP_JSON_ABSENT; rule = spp_json_next(rule)) {
    if (!matches(rule, record)) continue;
    enum spp_status status = spp_reading_set(rule, run, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

/* One shelf per kind of thing: linear, since a corpus names a few dozen. */
static struct spp_shelf_item *shelf_find(struct spp_shelf_item *items, const char *name) {
  for (int i = 0; i < SPP_SHELF_MAX; i++)
    if (!items[i].name || !strcmp(items[i].name, name)) return &items[i];
  return NULL;
}

typedef enum spp_status loader(struct spp_corpus_reader *reader, const char *name, const void **value,
                               struct spp_diag *diag);

static const void *shelf_load(struct spp_corpus_reader *reader, struct spp_shelf_item *items,
                              const char *name, loader *load, struct spp_diag *diag) {
  struct spp_shelf_item *item = shelf_find(items, name);
  if (!item) return NULL;
  if (item->name) return item->value;
  const void *value = NULL;
  if (load(reader, name, &value, diag) != SPP_OK) value = NULL;
  item->name = spp_arena_strdup(reader->arena, name);
  item->value = value;
  return value;
}

static enum spp_status load_framework(struct spp_corpus_reader *r, const char *name, const void **value,
                                      struct spp_diag *diag) {
  const struct spp_framework *framework = NULL;
  enum spp_status status = spp_framework_load(r->config_dir, name, r->arena, &framework, diag);
  *value = framework;
  return status;
}
static enum spp_status load_gpu(struct spp_corpus_reader *r, const char *name, const void **value,
                                struct spp_diag *diag) {
  const struct spp_gpu *gpu = NULL;
  enum spp_status status = spp_gpu_load(r->config_dir, name, r->arena, &gpu, diag);
  *value = gpu;
  return status;
}
static enum spp_status load_arch(struct spp_corpus_reader *r, const char *name, const void **value,
                                 struct spp_diag *diag) {
  const struct spp_arch *arch = NULL;
  enum spp_status status = spp_arch_load(r->config_dir, name, r->arena, &arch, diag);
  *value = arch;
  return status;
}
const struct spp_framework *spp_shelf_framework(struct spp_corpus_reader *reader, const char *name,
                                                struct spp_diag *diag) {
  return shelf_load(reader, reader->frameworks, name, load_framework, diag);
}
const struct spp_gpu *spp_shelf_gpu(struct spp_corpus_reader *reader, const char *name,
                                    struct spp_diag *diag) {
  return shelf_load(reader, reader->gpus, name, load_gpu, diag);
}
const struct spp_arch *spp_shelf_arch(struct spp_corpus_reader *reader, const char *name,
                                      struct spp_diag *diag) {
  return shelf_load(reader, reader->archs, name, load_arch, diag);
}
