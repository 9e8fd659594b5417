#include "interop/tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"

bool spp_path_push(struct spp_path *path, const char *key) {
  size_t used = strlen(path->text);
  if (path->depth == SPP_MAX_KEY_DEPTH || used + strlen(key) + 2 > sizeof path->text) return false;
  path->marks[path->depth++] = used;
  snprintf(path->text + used, sizeof path->text - used, "%s%s", used ? "." : "", key);
  return true;
}
void spp_path_pop(struct spp_path *path) {
  if (path->depth > 0) path->text[path->marks[--path->depth]] = '\0';
}

enum spp_status spp_tree_add(struct spp_entries *entries, int first, const char *name, const char *value,
                             int line, struct spp_diag *diag) {
  for (int i = first; i < entries->count; i++)
    if (strcmp(entries->list[i].typed, name) == 0)
      return spp_entries_refuse(entries, line, "keep one of them", diag, "the key %.80s is there twice",
                                name);
  return spp_entries_add(entries, SPP_ENTRY_FLAG, name, value, line, diag);
}

/* ---- JSON ---- */

/* A scalar as a command would say it; NULL for null, objects and lists. */
static const char *scalar_text(struct spp_json v, char *buf, size_t size) {
  const char *text;
  int64_t n;
  double real;
  bool yes;
  switch (spp_json_kind(v)) {
  case SPP_JSON_STRING: return spp_json_string(v, &text, NULL) == SPP_OK ? text : NULL;
  case SPP_JSON_BOOL: return spp_json_bool(v, &yes, NULL) == SPP_OK && yes ? "true" : "false";
  case SPP_JSON_INT:
    if (spp_json_i64(v, -SPP_JSON_EXACT_MAX, SPP_JSON_EXACT_MAX, &n, NULL) != SPP_OK) return NULL;
    snprintf(buf, size, "%" PRId64, n);
    return buf;
  case SPP_JSON_REAL:
    if (spp_json_real(v, -1e300, 1e300, &real, NULL) != SPP_OK) return NULL;
    snprintf(buf, size, "%.15g", real);
    return buf;
  default: return NULL;
  }
}

static bool is_list_of_scalars(struct spp_json v) {
  if (spp_json_kind(v) != SPP_JSON_ARRAY) return false;
  for (struct spp_json e = spp_json_first(v); spp_json_kind(e) != SPP_JSON_ABSENT; e = spp_json_next(e))
    if (spp_json_kind(e) == SPP_JSON_OBJECT || spp_json_kind(e) == SPP_JSON_ARRAY) return false;
  return true;
}

static enum spp_status add_list(struct spp_entries *entries, const char *name, struct spp_json list,
                                struct spp_diag *diag) {
  struct spp_str value;
  char buf[40];
  spp_str_init(&value);
  for (struct spp_json e = spp_json_first(list); spp_json_kind(e) != SPP_JSON_ABSENT; e = spp_json_next(e)) {
    const char *text = scalar_text(e, buf, sizeof buf);
    if (value.len) spp_str_addc(&value, ' ');
    spp_str_add(&value, text ? text : "null");
  }
  enum spp_status status =
      value.failed ? spp_diag_oom(diag)
                   : spp_entries_add(entries, SPP_ENTRY_FLAG, name, spp_str_text(&value), 1, diag);
  spp_str_free(&value);
  return status;
}

static enum spp_status too_deep(const struct spp_entries *entries, int line, struct spp_diag *diag) {
  return spp_entries_refuse(entries, line, "give the framework's own configuration", diag,
                            "keys nest too deep");
}

/* What stands under the path as one entry; false when it is to be walked. */
static bool add_value(struct spp_entries *entries, const struct spp_path *path, struct spp_json v,
                      enum spp_status *status, struct spp_diag *diag) {
  char buf[40];
  const char *text = scalar_text(v, buf, sizeof buf);
  if (is_list_of_scalars(v)) {
    *status = add_list(entries, path->text, v, diag);
    return true;
  }
  if (spp_json_kind(v) == SPP_JSON_ARRAY || spp_json_kind(v) == SPP_JSON_OBJECT) return false;
  if (text) *status = spp_entries_add(entries, SPP_ENTRY_FLAG, path->text, text, 1, diag);
  return true;
}

enum spp_status spp_tree_json(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag) {
  struct spp_json stack[SPP_MAX_KEY_DEPTH + 1];
  int numbers[SPP_MAX_KEY_DEPTH + 1] = {0};
  struct spp_path path = {.depth = 0};
  struct spp_json_doc *doc;
  int depth = 0;
  char number[16];
  enum spp_status status = spp_json_parse(text, length, entries->file, &doc, diag);
  if (status != SPP_OK) return status;
  status = spp_json_expect(spp_json_root(doc), SPP_JSON_OBJECT, diag);
  stack[0] = spp_json_first(spp_json_root(doc));
  while (status == SPP_OK && depth >= 0) {
    struct spp_json v = stack[depth];
    if (spp_json_kind(v) == SPP_JSON_ABSENT) { /* the end of an object or list */
      depth--;
      spp_path_pop(&path);
      continue;
    }
    stack[depth] = spp_json_next(v);
    snprintf(number, sizeof number, "%d", numbers[depth]++);
    if (!spp_path_push(&path, spp_json_own_key(v) ? spp_json_own_key(v) : number)) {
      status = too_deep(entries, 1, diag);
    } else if (add_value(entries, &path, v, &status, diag)) {
      spp_path_pop(&path);
    } else if (depth == SPP_MAX_KEY_DEPTH) {
      status = too_deep(entries, 1, diag);
    } else {
      stack[++depth] = spp_json_first(v), numbers[depth] = 0;
    }
  }
  spp_json_free(doc);
  return status;
}

/* ---- TOML ---- */

struct toml {
  struct spp_entries *entries;
  int first, line;
  char table[200];
  enum spp_status status;
  struct spp_diag *diag;
};

static void toml_refuse(struct toml *t, const char *what) {
  if (t->status == SPP_OK)
    t->status = spp_entries_refuse(t->entries, t->line, "write key = value", t->diag, "%s", what);
}

/* The text up to a comment outside of quotes, blanks cut off both ends. */
static char *toml_trim(char *text) {
  char quote = '\0', *end = text;
  for (; *end && !(*end == '#' && !quote); end++)
    if (*end == '"' || *end == '\'') quote = quote == *end ? '\0' : quote ? quote : *end;
  while (end > text && strchr(" \t\r", end[-1]))
    end--;
  *end = '\0';
  return text + strspn(text, " \t");
}

/* A string without its quotes, a list as words; anything else as it is. */
static bool toml_value(char *value) {
  size_t n = strlen(value), used = 0;
  if (n == 0) return false;
  if (strncmp(value, "\"\"\"", 3) == 0 || strncmp(value, "'''", 3) == 0 || value[0] == '{') return false;
  if (value[0] == '"' || value[0] == '\'') {
    if (n < 2 || value[n - 1] != value[0]) return false;
    memmove(value, value + 1, n - 2);
    value[n - 2] = '\0';
    return true;
  }
  if (value[0] != '[') return true;
  if (value[n - 1] != ']' || strchr(value + 1, '[')) return false;
  for (size_t i = 1; i + 1 < n; i++) {
    char c = value[i] == ',' || value[i] == '\t' ? ' ' : value[i];
    if (c == '"' || c == '\'' || (c == ' ' && (used == 0 || value[used - 1] == ' '))) continue;
    value[used++] = c;
  }
  while (used > 0 && value[used - 1] == ' ')
    used--;
  value[used] = '\0';
  return true;
}

static void toml_line(struct toml *t, char *line) {
  char name[420], *text = toml_trim(line), *equals, *key;
  size_t n = strlen(text);
  if (n == 0) return;
  if (text[0] == '[') {
    if (n < 3 || text[n - 1] != ']' || text[1] == '[' || n > sizeof t->table) {
      toml_refuse(t, "this is no [table]");
      return;
    }
    snprintf(t->table, sizeof t->table, "%.*s", (int)n - 2, text + 1);
    return;
  }
  equals = strchr(text, '=');
  if (!equals || equals == text) {
    toml_refuse(t, "this is no key = value");
    return;
  }
  *equals = '\0';
  key = toml_trim(text);
  char *value = equals + 1 + strspn(equals + 1, " \t");
  if (!toml_value(value)) {
    toml_refuse(t, "a value that is not closed, empty, or of a kind that is not read");
    return;
  }
  snprintf(name, sizeof name, "%s%s%.200s", t->table, t->table[0] ? "." : "", key);
  t->status = spp_tree_add(t->entries, t->first, name, value, t->line, t->diag);
}

enum spp_status spp_tree_toml(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag) {
  enum { MAX_LINE = 4096 };
  struct toml t = {.entries = entries, .first = entries->count, .line = 1, .diag = diag};
  char line[MAX_LINE];
  if (strlen(text) != length) return spp_entries_refuse(entries, 1, "give a text file", diag, "a NUL byte");
  while (*text && t.status == SPP_OK) {
    size_t n = strcspn(text, "\n");
    if (n >= sizeof line) {
      toml_refuse(&t, "a line is longer than 4 KiB");
      break;
    }
    memcpy(line, text, n);
    line[n] = '\0';
    toml_line(&t, line);
    text += n + (text[n] == '\n');
    t.line++;
  }
  return t.status;
}
