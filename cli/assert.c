#include "cli/assert.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json.h"
#include "base/units.h"

enum { MAX_PATH = 200, MAX_VALUE = 100, MAX_STEPS = 16 };
enum op { LESS, AT_MOST, MORE, AT_LEAST, EQUAL, DIFFERENT };
static const struct {
  const char *text;
  enum op op;
} ops[] = {{"<=", AT_MOST}, {">=", AT_LEAST}, {"==", EQUAL}, {"!=", DIFFERENT}, {"<", LESS}, {">", MORE}};

struct expression {
  char path[MAX_PATH], value[MAX_VALUE];
  enum op op;
};

static const char *const where = "--assert", *const form =
                                                 "write PATH OP VALUE, such as 'memory.peak_bytes<80GiB'";

/* Copies without the blanks around. */
static bool copy_trimmed(const char *from, size_t n, char *to, size_t size) {
  while (n > 0 && *from == ' ')
    from++, n--;
  while (n > 0 && from[n - 1] == ' ')
    n--;
  if (n == 0 || n >= size) return false;
  memcpy(to, from, n);
  to[n] = '\0';
  return true;
}

static enum spp_status parse(const char *text, struct expression *e, struct spp_diag *diag) {
  size_t at = strcspn(text, "<>=!");
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    size_t n = strlen(ops[i].text);
    if (strncmp(text + at, ops[i].text, n) != 0) continue;
    e->op = ops[i].op;
    if (!copy_trimmed(text, at, e->path, sizeof e->path) ||
        !copy_trimmed(text + at + n, strlen(text + at + n), e->value, sizeof e->value) ||
        strpbrk(e->value, "<>=!"))
      break;
    return SPP_OK;
  }
  return spp_diag_set(diag, SPP_ERR_USAGE, where, form, "'%.100s' is no comparison", text);
}

enum spp_status spp_assert_parse(const char *expression, struct spp_diag *diag) {
  struct expression e;
  return parse(expression, &e, diag);
}

/* The member of `from` with the n bytes at word as its key. Found by walking, because a value keeps the keys
 * it was asked for, and these are gone soon. */
static struct spp_json member(struct spp_json from, const char *word, size_t n) {
  struct spp_json next = spp_json_first(from);
  while (spp_json_kind(next) != SPP_JSON_ABSENT) {
    const char *key = spp_json_own_key(next);
    if (key && strlen(key) == n && memcmp(key, word, n) == 0) break;
    next = spp_json_next(next);
  }
  return next;
}

/* Follows keys and [i] from `from`; absent when the path leads nowhere. */
static struct spp_json walk(struct spp_json from, const char *word) {
  for (int step = 0; *word && step < MAX_STEPS; step++) {
    size_t n = strcspn(word, ".[");
    if (*word == '[') {
      char *end;
      long index = strtol(word + 1, &end, 10);
      from = spp_json_at(from, *end == ']' && index >= 0 && index < 1000000 ? (int)index : -1);
      word = *end ? end + 1 : end;
    } else {
      from = member(from, word, n);
      word += n;
    }
    if (*word == '.') word++;
  }
  return from;
}

static bool ends_in(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* The right side in the unit the key names. */
static enum spp_status wanted_number(const struct expression *e, double *wanted, struct spp_diag *diag) {
  int64_t whole;
  enum spp_status status;
  if (spp_decimal_parse(e->value, strlen(e->value), wanted)) return SPP_OK;
  if (ends_in(e->path, "_s")) return spp_seconds_parse(e->value, where, wanted, diag);
  if (ends_in(e->path, "_tokens"))
    status = spp_tokens_parse(e->value, where, 0, INT64_MAX, &whole, diag);
  else if (strstr(e->path, "_bytes"))
    status = spp_bytes_parse(e->value, where, &whole, diag);
  else
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "write a number", "'%s' is no number for %s", e->value,
                        e->path);
  if (status == SPP_OK) *wanted = (double)whole;
  return status;
}

static bool compare(double found, enum op op, double wanted) {
  switch (op) {
  case LESS: return found < wanted;
  case AT_MOST: return found <= wanted;
  case MORE: return found > wanted;
  case AT_LEAST: return found >= wanted;
  case EQUAL: return !(found < wanted) && !(found > wanted);
  case DIFFERENT: return found < wanted || found > wanted;
  }
  return false;
}

static const char *op_text(enum op op) {
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (ops[i].op == op) return ops[i].text;
  return "?";
}

static enum spp_status verdict(const struct expression *e, bool holds, const char *found,
                               struct spp_diag *diag) {
  char hint[160];
  if (holds) return SPP_OK;
  snprintf(hint, sizeof hint, "--assert asks for %s %s", op_text(e->op), e->value);
  return spp_diag_set(diag, SPP_ERR_TOLERANCE, e->path, hint, "assertion is false: it is %s", found);
}

static enum spp_status check_number(const struct expression *e, struct spp_json value,
                                    struct spp_diag *diag) {
  double found = 0, wanted = 0;
  char text[32];
  enum spp_status status = spp_json_real(value, -1e300, 1e300, &found, diag);
  if (status != SPP_OK || (status = wanted_number(e, &wanted, diag)) != SPP_OK) return status;
  return verdict(e, compare(found, e->op, wanted), spp_decimal_print(found, 15, text), diag);
}

static enum spp_status check_word(const struct expression *e, const char *found, struct spp_diag *diag) {
  bool same = strcmp(found, e->value) == 0;
  if (e->op != EQUAL && e->op != DIFFERENT)
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "use == or !=", "%s is no number", e->path);
  return verdict(e, same == (e->op == EQUAL), found, diag);
}

static enum spp_status check(const struct expression *e, struct spp_json root, struct spp_diag *diag) {
  struct spp_json value = walk(root, e->path);
  const char *text;
  bool yes;
  if (spp_json_kind(value) == SPP_JSON_ABSENT)
    value = walk(spp_json_at(spp_json_get(root, "plans"), 0), e->path);
  switch (spp_json_kind(value)) {
  case SPP_JSON_INT:
  case SPP_JSON_REAL: return check_number(e, value, diag);
  case SPP_JSON_BOOL:
    return spp_json_bool(value, &yes, diag) == SPP_OK ? check_word(e, yes ? "true" : "false", diag)
                                                      : SPP_ERR_INTERNAL;
  case SPP_JSON_STRING:
    return spp_json_string(value, &text, diag) == SPP_OK ? check_word(e, text, diag) : SPP_ERR_INTERNAL;
  case SPP_JSON_NULL: return check_word(e, "null", diag);
  default:
    return spp_diag_set(diag, SPP_ERR_USAGE, where, "--json shows the paths", "the answer has no value '%s'",
                        e->path);
  }
}

enum spp_status spp_assert_check(const char *expression, const char *json, struct spp_diag *diag) {
  struct spp_json_doc *doc;
  struct expression e;
  enum spp_status status = parse(expression, &e, diag);
  if (status != SPP_OK) return status;
  if (spp_json_parse(json, strlen(json), "answer", &doc, diag) != SPP_OK) return SPP_ERR_INTERNAL;
  status = check(&e, spp_json_root(doc), diag);
  spp_json_free(doc);
  return status;
}
