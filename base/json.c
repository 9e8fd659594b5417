#include "base/json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/file.h"
#include "base/json_scan.h"
#include "base/units.h"

struct spp_json_doc {
  cJSON *root;
  char *name;
};

/* ---- Walking the tree without recursion. ---- */

/* The nodes from the root to the current one, with their places among their siblings. */
struct walk {
  const cJSON *node[SPP_JSON_MAX_DEPTH + 2];
  int index[SPP_JSON_MAX_DEPTH + 2];
  int depth; /* of the current node; -1 when the walk is over */
};

static void walk_start(struct walk *w, const cJSON *root) {
  w->node[0] = root;
  w->index[0] = 0;
  w->depth = 0;
}

/* Next node in file order. */
static void walk_next(struct walk *w) {
  const cJSON *node = w->node[w->depth];
  if (node->child && w->depth <= SPP_JSON_MAX_DEPTH) {
    w->depth++;
    w->node[w->depth] = node->child;
    w->index[w->depth] = 0;
    return;
  }
  while (w->depth > 0 && !w->node[w->depth]->next)
    w->depth--;
  if (w->depth == 0) {
    w->depth = -1;
    return;
  }
  w->node[w->depth] = w->node[w->depth]->next;
  w->index[w->depth]++;
}

/* ---- Paths. ---- */

struct path {
  char *buf;
  size_t size, len;
};

static void path_add(struct path *p, const char *key, int index) {
  if (p->len + 1 >= p->size) return;
  bool plain = key && key[0];
  for (const char *c = key; plain && *c; c++)
    plain = *c == '_' || *c == '-' || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z');
  char *at = p->buf + p->len;
  size_t room = p->size - p->len;
  int n = !key    ? snprintf(at, room, "[%d]", index)
          : plain ? snprintf(at, room, ".%s", key)
                  : snprintf(at, room, "[\"%s\"]", key);
  if (n > 0) p->len = (size_t)n < room ? p->len + (size_t)n : p->size - 1;
}

const char *spp_json_path(struct spp_json v, char *buf, size_t size) {
  struct path p = {buf, size, 0};
  if (size == 0) return buf;
  snprintf(buf, size, "$");
  p.len = strlen(buf);
  const cJSON *target = v.node ? v.node : v.base;
  if (v.doc && target) {
    struct walk w;
    walk_start(&w, v.doc->root);
    while (w.depth >= 0 && w.node[w.depth] != target)
      walk_next(&w);
    for (int i = 1; i <= w.depth; i++)
      path_add(&p, w.node[i]->string, w.index[i]);
  }
  for (int i = 0; i < v.missing_count; i++)
    path_add(&p, v.missing[i].key, v.missing[i].index);
  return buf;
}

/* "FILE: PATH" */
static void place(struct spp_json v, char *buf, size_t size) {
  char path[256];
  snprintf(buf, size, "%s: %s", v.doc ? v.doc->name : "", spp_json_path(v, path, sizeof path));
}

enum spp_status spp_json_refuse(struct spp_json v, const char *hint, struct spp_diag *diag,
                                const char *what_fmt, ...) {
  if (!diag) return SPP_ERR_INPUT;
  char where[320], what[320];
  place(v, where, sizeof where);
  va_list args;
  va_start(args, what_fmt);
  vsnprintf(what, sizeof what, what_fmt, args);
  va_end(args);
  return spp_diag_set(diag, SPP_ERR_INPUT, where, hint, "%s", what);
}

/* ---- Loading. ---- */

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A key that stands twice in the object, else NULL. *keys is scratch that grows; *oom is set when it cannot.
 */
static const char *repeated_key(const cJSON *object, const char ***keys, size_t *cap, bool *oom) {
  size_t n = 0;
  for (const cJSON *c = object->child; c; c = c->next)
    n++;
  if (n > *cap) {
    const char **more = realloc(*keys, n * sizeof *more);
    *oom = !more;
    if (!more) return NULL;
    *keys = more;
    *cap = n;
  }
  n = 0;
  for (const cJSON *c = object->child; c; c = c->next)
    (*keys)[n++] = c->string;
  if (n > 1) qsort(*keys, n, sizeof **keys, by_text);
  for (size_t i = 1; i < n; i++)
    if (strcmp((*keys)[i - 1], (*keys)[i]) == 0) return (*keys)[i];
  return NULL;
}

static enum spp_status check_keys(const struct spp_json_doc *doc, struct spp_diag *diag) {
  const char **keys = NULL;
  size_t cap = 0;
  enum spp_status status = SPP_OK;
  struct walk w;
  for (walk_start(&w, doc->root); w.depth >= 0 && status == SPP_OK; walk_next(&w)) {
    const cJSON *node = w.node[w.depth];
    if (!cJSON_IsObject(node)) continue;
    bool oom = false;
    const char *twice = repeated_key(node, &keys, &cap, &oom);
    struct spp_json v = {.node = node, .doc = doc};
    if (oom)
      status = spp_diag_oom(diag);
    else if (twice)
      status = spp_json_refuse(v, "remove one of the two", diag, "key \"%s\" stands twice", twice);
  }
  free(keys);
  return status;
}

enum spp_status spp_json_parse(const char *text, size_t len, const char *name, struct spp_json_doc **doc,
                               struct spp_diag *diag) {
  enum spp_status status = spp_json_scan(text, len, name, SPP_JSON_MAX_DEPTH, diag);
  if (status != SPP_OK) return status;
  if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
    text += 3;
    len -= 3;
  }
  struct spp_json_doc *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return spp_diag_oom(diag);
  fresh->name = strdup(name);
  /* The scan accepted the text, so the parser can only run out of memory. */
  fresh->root = cJSON_ParseWithLengthOpts(text, len, NULL, false);
  status = fresh->name && fresh->root ? check_keys(fresh, diag) : spp_diag_oom(diag);
  if (status != SPP_OK) {
    spp_json_free(fresh);
    return status;
  }
  *doc = fresh;
  return SPP_OK;
}

enum spp_status spp_json_load_limit(const char *path, int64_t max_bytes, struct spp_json_doc **doc,
                                    struct spp_diag *diag) {
  char *text;
  size_t len;
  if (max_bytes > SPP_JSON_LIMIT_BYTES) max_bytes = SPP_JSON_LIMIT_BYTES;
  enum spp_status status = spp_file_read(path, max_bytes, &text, &len, diag);
  if (status != SPP_OK) return status;
  status = spp_json_parse(text, len, strcmp(path, "-") == 0 ? "standard input" : path, doc, diag);
  free(text);
  return status;
}

enum spp_status spp_json_load(const char *path, struct spp_json_doc **doc, struct spp_diag *diag) {
  return spp_json_load_limit(path, SPP_JSON_MAX_BYTES, doc, diag);
}

void spp_json_free(struct spp_json_doc *doc) {
  if (!doc) return;
  cJSON_Delete(doc->root);
  free(doc->name);
  free(doc);
}

const char *spp_json_name(const struct spp_json_doc *doc) {
  return doc->name;
}

/* ---- Finding values. ---- */

static struct spp_json present(struct spp_json v, const cJSON *node) {
  return (struct spp_json){.node = node, .doc = v.doc};
}

/* Absent below v. A path longer than the memory keeps its first steps. */
static struct spp_json absent(struct spp_json v, const char *key, int index) {
  if (v.node) v = (struct spp_json){.doc = v.doc, .base = v.node};
  if (v.missing_count < SPP_JSON_MAX_MISSING) {
    v.missing[v.missing_count].key = key;
    v.missing[v.missing_count].index = index;
    v.missing_count++;
  }
  return v;
}

struct spp_json spp_json_root(const struct spp_json_doc *doc) {
  return (struct spp_json){.node = doc->root, .doc = doc};
}

struct spp_json spp_json_get(struct spp_json v, const char *key) {
  const cJSON *node = v.node;
  const cJSON *found = cJSON_IsObject(node) ? cJSON_GetObjectItemCaseSensitive(node, key) : NULL;
  return found ? present(v, found) : absent(v, key, 0);
}

static const cJSON *child_at(const cJSON *node, int i) {
  if (i < 0) return NULL;
  const cJSON *child = node->child;
  while (child && i-- > 0)
    child = child->next;
  return child;
}

struct spp_json spp_json_at(struct spp_json v, int i) {
  const cJSON *found = cJSON_IsArray(v.node) ? child_at(v.node, i) : NULL;
  return found ? present(v, found) : absent(v, NULL, i);
}

static bool is_container(const cJSON *node) {
  return cJSON_IsArray(node) || cJSON_IsObject(node);
}

struct spp_json spp_json_first(struct spp_json v) {
  const cJSON *node = v.node;
  return is_container(node) && node->child ? present(v, node->child) : absent(v, NULL, 0);
}

struct spp_json spp_json_next(struct spp_json v) {
  const cJSON *node = v.node;
  return node && node->next ? present(v, node->next) : (struct spp_json){.doc = v.doc};
}

int spp_json_size(struct spp_json v) {
  return is_container(v.node) ? cJSON_GetArraySize(v.node) : 0;
}

struct spp_json spp_json_member(struct spp_json obj, int i) {
  const cJSON *found = cJSON_IsObject(obj.node) ? child_at(obj.node, i) : NULL;
  return found ? present(obj, found) : absent(obj, NULL, i);
}

const char *spp_json_key(struct spp_json obj, int i) {
  return spp_json_own_key(spp_json_member(obj, i));
}

const char *spp_json_own_key(struct spp_json v) {
  const cJSON *node = v.node;
  return node ? node->string : NULL;
}

/* ---- Kinds and typed reads. ---- */

static bool is_exact_integer(double value) {
  return value == floor(value) && fabs(value) <= (double)SPP_JSON_EXACT_MAX;
}

enum spp_json_kind spp_json_kind(struct spp_json v) {
  const cJSON *node = v.node;
  if (!node) return SPP_JSON_ABSENT;
  if (cJSON_IsNull(node)) return SPP_JSON_NULL;
  if (cJSON_IsBool(node)) return SPP_JSON_BOOL;
  if (cJSON_IsNumber(node)) return is_exact_integer(node->valuedouble) ? SPP_JSON_INT : SPP_JSON_REAL;
  if (cJSON_IsString(node)) return SPP_JSON_STRING;
  return cJSON_IsArray(node) ? SPP_JSON_ARRAY : SPP_JSON_OBJECT;
}

const char *spp_json_kind_name(enum spp_json_kind kind) {
  switch (kind) {
  case SPP_JSON_ABSENT: return "missing";
  case SPP_JSON_NULL: return "null";
  case SPP_JSON_BOOL: return "true or false";
  case SPP_JSON_INT: return "an integer";
  case SPP_JSON_REAL: return "a number";
  case SPP_JSON_STRING: return "a string";
  case SPP_JSON_ARRAY: return "an array";
  case SPP_JSON_OBJECT: return "an object";
  }
  return "unknown";
}

static enum spp_status wrong_kind(struct spp_json v, enum spp_json_kind wanted, struct spp_diag *diag) {
  const cJSON *node = v.node;
  if (!node) return spp_json_refuse(v, NULL, diag, "missing: %s expected", spp_json_kind_name(wanted));
  char found[96];
  if (cJSON_IsString(node))
    snprintf(found, sizeof found, "the string \"%.40s\"", node->valuestring);
  else if (cJSON_IsNumber(node))
    spp_decimal_print(node->valuedouble, 17, found);
  else
    snprintf(found, sizeof found, "%s", spp_json_kind_name(spp_json_kind(v)));
  return spp_json_refuse(v, NULL, diag, "%s expected, found %s", spp_json_kind_name(wanted), found);
}

enum spp_status spp_json_expect(struct spp_json v, enum spp_json_kind kind, struct spp_diag *diag) {
  enum spp_json_kind found = spp_json_kind(v);
  if (found == kind || (kind == SPP_JSON_REAL && found == SPP_JSON_INT)) return SPP_OK;
  return wrong_kind(v, kind, diag);
}

enum spp_status spp_json_i64(struct spp_json v, int64_t min, int64_t max, int64_t *out,
                             struct spp_diag *diag) {
  const cJSON *node = v.node;
  if (!cJSON_IsNumber(node) || node->valuedouble != floor(node->valuedouble))
    return wrong_kind(v, SPP_JSON_INT, diag);
  double number = node->valuedouble;
  char low[32], high[32], found[32];
  if (!is_exact_integer(number))
    return spp_json_refuse(v, NULL, diag, "integer %s is 2^53 or more and cannot be read exactly",
                           spp_decimal_print(number, 17, found));
  int64_t value = (int64_t)number;
  if (value < min || value > max)
    return spp_json_refuse(v, NULL, diag, "%s is outside %s to %s", spp_int_print(value, found),
                           spp_int_print(min, low), spp_int_print(max, high));
  *out = value;
  return SPP_OK;
}

enum spp_status spp_json_real(struct spp_json v, double min, double max, double *out, struct spp_diag *diag) {
  const cJSON *node = v.node;
  if (!cJSON_IsNumber(node)) return wrong_kind(v, SPP_JSON_REAL, diag);
  char low[32], high[32], found[32];
  if (node->valuedouble < min || node->valuedouble > max)
    return spp_json_refuse(v, NULL, diag, "%s is outside %s to %s",
                           spp_decimal_print(node->valuedouble, 6, found), spp_decimal_print(min, 6, low),
                           spp_decimal_print(max, 6, high));
  *out = node->valuedouble;
  return SPP_OK;
}

enum spp_status spp_json_bool(struct spp_json v, bool *out, struct spp_diag *diag) {
  if (!cJSON_IsBool(v.node)) return wrong_kind(v, SPP_JSON_BOOL, diag);
  *out = cJSON_IsTrue(v.node);
  return SPP_OK;
}

enum spp_status spp_json_string(struct spp_json v, const char **out, struct spp_diag *diag) {
  const cJSON *node = v.node;
  if (!cJSON_IsString(node)) return wrong_kind(v, SPP_JSON_STRING, diag);
  *out = node->valuestring;
  return SPP_OK;
}

static bool is_unset(struct spp_json v) {
  return !v.node || cJSON_IsNull(v.node);
}

enum spp_status spp_json_i64_or(struct spp_json v, int64_t min, int64_t max, int64_t fallback, int64_t *out,
                                struct spp_diag *diag) {
  if (!is_unset(v)) return spp_json_i64(v, min, max, out, diag);
  *out = fallback;
  return SPP_OK;
}

enum spp_status spp_json_real_or(struct spp_json v, double min, double max, double fallback, double *out,
                                 struct spp_diag *diag) {
  if (!is_unset(v)) return spp_json_real(v, min, max, out, diag);
  *out = fallback;
  return SPP_OK;
}

enum spp_status spp_json_bool_or(struct spp_json v, bool fallback, bool *out, struct spp_diag *diag) {
  if (!is_unset(v)) return spp_json_bool(v, out, diag);
  *out = fallback;
  return SPP_OK;
}

enum spp_status spp_json_string_or(struct spp_json v, const char *fallback, const char **out,
                                   struct spp_diag *diag) {
  if (!is_unset(v)) return spp_json_string(v, out, diag);
  *out = fallback;
  return SPP_OK;
}
