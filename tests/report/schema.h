/* A validator for the JSON Schema (draft 2020-12) keywords that docs/schema/ uses: type, const, enum,
 * minimum, maximum, properties, required, items, anyOf, $ref (to "#/$defs/x" and "file.json#/$defs/x"). A
 * keyword it does not know fails, and so does a property that the schema does not describe: a key added to
 * the answer is added to its schema. */
#ifndef SPP_TESTS_REPORT_SCHEMA_H
#define SPP_TESTS_REPORT_SCHEMA_H

#include "tests/expect.h"

#include "base/json.h"

struct schema_set {
  struct spp_json_doc *own, *common;
};
struct schema_fault {
  char path[400], what[200];
};

__attribute__((unused)) static bool schema_fail(struct schema_fault *fault, struct spp_json value,
                                                const char *what, const char *more) {
  if (!fault) return false;
  spp_json_path(value, fault->path, sizeof fault->path);
  snprintf(fault->what, sizeof fault->what, "%s%s%.100s", what, more ? ": " : "", more ? more : "");
  return false;
}

static const char *schema_text(struct spp_json v) {
  const char *text = NULL;
  return spp_json_string(v, &text, NULL) == SPP_OK ? text : "";
}

static bool schema_is(struct spp_json value, const char *type) {
  switch (spp_json_kind(value)) {
  case SPP_JSON_NULL: return strcmp(type, "null") == 0;
  case SPP_JSON_BOOL: return strcmp(type, "boolean") == 0;
  case SPP_JSON_INT: return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
  case SPP_JSON_REAL: return strcmp(type, "number") == 0;
  case SPP_JSON_STRING: return strcmp(type, "string") == 0;
  case SPP_JSON_ARRAY: return strcmp(type, "array") == 0;
  case SPP_JSON_OBJECT: return strcmp(type, "object") == 0;
  case SPP_JSON_ABSENT: return false;
  }
  return false;
}

static bool schema_type(struct spp_json value, struct spp_json types) {
  if (spp_json_kind(types) == SPP_JSON_STRING) return schema_is(value, schema_text(types));
  for (struct spp_json t = spp_json_first(types); spp_json_kind(t) != SPP_JSON_ABSENT; t = spp_json_next(t))
    if (schema_is(value, schema_text(t))) return true;
  return false;
}

/* Strings and null are all that const and enum hold here. */
static bool schema_equal(struct spp_json value, struct spp_json wanted) {
  if (spp_json_kind(wanted) == SPP_JSON_NULL) return spp_json_kind(value) == SPP_JSON_NULL;
  return spp_json_kind(value) == SPP_JSON_STRING && strcmp(schema_text(value), schema_text(wanted)) == 0;
}

static bool schema_in(struct spp_json value, struct spp_json words) {
  for (struct spp_json w = spp_json_first(words); spp_json_kind(w) != SPP_JSON_ABSENT; w = spp_json_next(w))
    if (schema_equal(value, w)) return true;
  return false;
}

static bool schema_bound(struct spp_json value, struct spp_json bound, int sign) {
  double number = 0, limit = 0;
  if (spp_json_real(value, -1e300, 1e300, &number, NULL) != SPP_OK)
    return true; /* bounds speak of numbers only */
  return spp_json_real(bound, -1e300, 1e300, &limit, NULL) == SPP_OK && sign * (number - limit) >= 0;
}

static struct spp_json schema_ref(const struct schema_set *set, struct spp_json schema, const char *ref) {
  const struct spp_json_doc *doc = strncmp(ref, "common.json#", 12) == 0 ? set->common : schema.doc;
  const char *name = strstr(ref, "#/$defs/");
  return name ? spp_json_get(spp_json_get(spp_json_root(doc), "$defs"), name + 8) : spp_json_get(schema, "?");
}

static bool schema_check(const struct schema_set *set, struct spp_json schema, struct spp_json value,
                         struct schema_fault *fault);

static bool schema_object(const struct schema_set *set, struct spp_json properties, struct spp_json value,
                          struct schema_fault *fault) {
  for (struct spp_json v = spp_json_first(value); spp_json_kind(v) != SPP_JSON_ABSENT; v = spp_json_next(v)) {
    struct spp_json own = spp_json_get(properties, spp_json_own_key(v));
    if (spp_json_kind(own) == SPP_JSON_ABSENT) return schema_fail(fault, v, "not in the schema", NULL);
    if (!schema_check(set, own, v, fault)) return false;
  }
  return true;
}

static bool schema_required(struct spp_json keys, struct spp_json value, struct schema_fault *fault) {
  for (struct spp_json k = spp_json_first(keys); spp_json_kind(k) != SPP_JSON_ABSENT; k = spp_json_next(k))
    if (spp_json_kind(spp_json_get(value, schema_text(k))) == SPP_JSON_ABSENT)
      return schema_fail(fault, value, "lacks", schema_text(k));
  return true;
}

static bool schema_items(const struct schema_set *set, struct spp_json items, struct spp_json value,
                         struct schema_fault *fault) {
  for (struct spp_json v = spp_json_first(value); spp_json_kind(v) != SPP_JSON_ABSENT; v = spp_json_next(v))
    if (!schema_check(set, items, v, fault)) return false;
  return true;
}

static bool schema_any(const struct schema_set *set, struct spp_json schemas, struct spp_json value,
                       struct schema_fault *fault) {
  for (struct spp_json s = spp_json_first(schemas); spp_json_kind(s) != SPP_JSON_ABSENT; s = spp_json_next(s))
    if (schema_check(set, s, value, fault)) return true;
  return false; /* the fault of the last */
}

static bool schema_keyword(const struct schema_set *set, const char *key, struct spp_json rule,
                           struct spp_json schema, struct spp_json value, struct schema_fault *fault) {
  static const char *const notes[] = {"$schema", "$id", "$defs", "title", "description"};
  bool is_object = spp_json_kind(value) == SPP_JSON_OBJECT, is_array = spp_json_kind(value) == SPP_JSON_ARRAY;
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
    if (strcmp(key, notes[i]) == 0) return true;
  if (strcmp(key, "$ref") == 0)
    return schema_check(set, schema_ref(set, schema, schema_text(rule)), value, fault);
  if (strcmp(key, "type") == 0)
    return schema_type(value, rule) || schema_fail(fault, value, "wrong type", NULL);
  if (strcmp(key, "const") == 0)
    return schema_equal(value, rule) || schema_fail(fault, value, "is not", schema_text(rule));
  if (strcmp(key, "enum") == 0)
    return schema_in(value, rule) || schema_fail(fault, value, "none of the words", schema_text(value));
  if (strcmp(key, "minimum") == 0)
    return schema_bound(value, rule, 1) || schema_fail(fault, value, "too small", NULL);
  if (strcmp(key, "maximum") == 0)
    return schema_bound(value, rule, -1) || schema_fail(fault, value, "too large", NULL);
  if (strcmp(key, "properties") == 0) return !is_object || schema_object(set, rule, value, fault);
  if (strcmp(key, "required") == 0) return !is_object || schema_required(rule, value, fault);
  if (strcmp(key, "items") == 0) return !is_array || schema_items(set, rule, value, fault);
  if (strcmp(key, "anyOf") == 0) return schema_any(set, rule, value, fault);
  return schema_fail(fault, rule, "unknown keyword", key);
}

/* Recursion is bounded by the depth of the documents, which the loader bounds. */
static bool schema_check(const struct schema_set *set, struct spp_json schema, struct spp_json value,
                         struct schema_fault *fault) {
  if (spp_json_kind(schema) != SPP_JSON_OBJECT) return schema_fail(fault, value, "no such schema", NULL);
  for (struct spp_json rule = spp_json_first(schema); spp_json_kind(rule) != SPP_JSON_ABSENT;
       rule = spp_json_next(rule))
    if (!schema_keyword(set, spp_json_own_key(rule), rule, schema, value, fault)) return false;
  return true;
}

/* Checks text against docs/schema/NAME.json. */
__attribute__((unused)) static void expect_schema(const char *text, const char *name) {
  struct schema_set set;
  struct schema_fault fault = {"", ""};
  struct spp_json_doc *doc;
  struct spp_diag diag = {0};
  char path[512];
  snprintf(path, sizeof path, "%s/docs/schema/%s.json", SPP_SOURCE_DIR, name);
  expect_status(spp_json_load(path, &set.own, &diag), SPP_OK, &diag);
  snprintf(path, sizeof path, "%s/docs/schema/common.json", SPP_SOURCE_DIR);
  expect_status(spp_json_load(path, &set.common, &diag), SPP_OK, &diag);
  expect_status(spp_json_parse(text, strlen(text), name, &doc, &diag), SPP_OK, &diag);
  if (!schema_check(&set, spp_json_root(set.own), spp_json_root(doc), &fault))
    expect_fail_at(__FILE__, __LINE__, "%s: %s: %s", name, fault.path, fault.what);
  spp_json_free(doc);
  spp_json_free(set.common);
  spp_json_free(set.own);
}

#endif
