/* Finding framework files: shipped ones by name, the user's own by path, each maybe on top of a shipped one.
 */
#include "model/framework.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/suggest.h"
#include "model/framework_read.h"

enum { MAX_EXTENDS = 4, MAX_FILES = 128 };

typedef enum spp_status status;

static bool is_path(const char *name) {
  size_t n = strlen(name);
  return strchr(name, '/') != NULL || (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

/* Files read so far: several frameworks start from the same one. */
struct shelf {
  char names[MAX_FILES][96];
  struct spp_json_doc *docs[MAX_FILES];
  int count;
};

static void shelf_free(struct shelf *shelf) {
  for (int i = 0; i < shelf->count; i++)
    spp_json_free(shelf->docs[i]);
}

static status refuse_name(const char *config_dir, const char *name, struct spp_diag *diag) {
  char path[1024];
  struct spp_names names;
  snprintf(path, sizeof path, "%s/frameworks", config_dir);
  status s = spp_dir_list(path, ".json", &names, diag);
  if (s != SPP_OK) return s;
  char hint[160] = "see `spplan list frameworks`", typed[96];
  snprintf(typed, sizeof typed, "%.80s.json", name);
  const char *near = spp_suggest(typed, (const char *const *)names.names, names.count);
  if (near) snprintf(hint, sizeof hint, "did you mean %.*s?", (int)strlen(near) - 5, near);
  spp_names_free(&names);
  return spp_diag_set(diag, SPP_ERR_USAGE, "--framework", hint, "no framework is called \"%s\"", name);
}

/* A shipped name or, where it is the user's own, a path. The shelf owns *doc. */
static status open_file(const char *config_dir, const char *name, struct shelf *shelf,
                        struct spp_json_doc **doc, struct spp_diag *diag) {
  char path[1024];
  for (int i = 0; i < shelf->count; i++)
    if (strcmp(shelf->names[i], name) == 0) return *doc = shelf->docs[i], SPP_OK;
  if (shelf->count == MAX_FILES)
    return spp_diag_set(diag, SPP_ERR_INPUT, config_dir, "remove some", "over %d framework files",
                        (int)MAX_FILES);
  int n = is_path(name) ? snprintf(path, sizeof path, "%s", name)
                        : snprintf(path, sizeof path, "%s/frameworks/%s.json", config_dir, name);
  if (!is_path(name) && (n < 0 || (size_t)n >= sizeof path || !spp_path_exists(path)))
    return refuse_name(config_dir, name, diag);
  status s = spp_json_load(is_path(name) ? name : path, doc, diag);
  if (s != SPP_OK) return s;
  snprintf(shelf->names[shelf->count], sizeof shelf->names[0], "%s", name);
  shelf->docs[shelf->count++] = *doc;
  return SPP_OK;
}

/* The file and those it extends, derived first. */
static status open_chain(const char *config_dir, const char *name, struct shelf *shelf,
                         struct spp_json_doc **docs, int *count, struct spp_diag *diag) {
  status s = open_file(config_dir, name, shelf, &docs[0], diag);
  *count = 1;
  while (s == SPP_OK) {
    struct spp_json base = spp_json_get(spp_json_root(docs[*count - 1]), "extends");
    const char *base_name;
    if (spp_json_kind(base) == SPP_JSON_ABSENT) return SPP_OK;
    s = spp_json_string(base, &base_name, diag);
    if (s != SPP_OK) return s;
    if (*count == MAX_EXTENDS)
      return spp_json_refuse(base, "start from another file", diag, "too long a chain of \"extends\"");
    if (strchr(base_name, '/'))
      return spp_json_refuse(base, "name a shipped framework", diag, "\"%s\" is a path", base_name);
    s = open_file(config_dir, base_name, shelf, &docs[(*count)++], diag);
  }
  return s;
}

static status load(const char *config_dir, const char *name, struct shelf *shelf, struct spp_arena *arena,
                   const struct spp_framework **framework, struct spp_diag *diag) {
  struct spp_json_doc *docs[MAX_EXTENDS] = {NULL};
  int count = 0;
  struct spp_framework *f = spp_arena_alloc(arena, sizeof *f);
  if (!f) return spp_diag_oom(diag);
  status s = open_chain(config_dir, name, shelf, docs, &count, diag);
  for (int i = count - 1; s == SPP_OK && i >= 0; i--)
    s = spp_framework_read(docs[i], i == count - 1, f, diag);
  if (s == SPP_OK) *framework = f;
  return s;
}

enum spp_status spp_framework_load(const char *config_dir, const char *name, struct spp_arena *arena,
                                   const struct spp_framework **framework, struct spp_diag *diag) {
  struct shelf shelf = {.count = 0};
  status s = load(config_dir, name, &shelf, arena, framework, diag);
  shelf_free(&shelf);
  return s;
}

/* Whether the file itself says that a search for any framework leaves it out: most of a file need not be
 * read then, nor what it starts from. */
static status left_out(const char *config_dir, const char *name, struct shelf *shelf, bool *out,
                       struct spp_diag *diag) {
  struct spp_json_doc *doc;
  bool searched;
  status s = open_file(config_dir, name, shelf, &doc, diag);
  if (s == SPP_OK) s = spp_json_bool_or(spp_json_get(spp_json_root(doc), "searched"), true, &searched, diag);
  if (s == SPP_OK) *out = !searched;
  return s;
}

enum spp_status spp_framework_load_all(const char *config_dir, bool searched_only, struct spp_arena *arena,
                                       const struct spp_framework **list, int *count, struct spp_diag *diag) {
  const char *const *names;
  struct shelf shelf = {.count = 0};
  int named, n = 0;
  status s = spp_framework_list(config_dir, arena, &names, &named, diag);
  for (int i = 0; s == SPP_OK && i < named && n < SPP_MAX_FRAMEWORKS; i++) {
    bool out = false;
    if (searched_only) s = left_out(config_dir, names[i], &shelf, &out, diag);
    if (s == SPP_OK && !out) s = load(config_dir, names[i], &shelf, arena, &list[n], diag);
    if (s == SPP_OK && !out && (list[n]->searched || !searched_only)) n++;
  }
  shelf_free(&shelf);
  if (s == SPP_OK) *count = n;
  return s;
}

enum spp_status spp_framework_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                                   int *count, struct spp_diag *diag) {
  char path[1024];
  struct spp_names files;
  snprintf(path, sizeof path, "%s/frameworks", config_dir);
  status s = spp_dir_list(path, ".json", &files, diag);
  if (s != SPP_OK) return s;
  const char **list = spp_arena_array(arena, (size_t)files.count + 1, sizeof *list);
  bool ok = list != NULL;
  for (int i = 0; ok && i < files.count; i++) {
    list[i] = spp_arena_printf(arena, "%.*s", (int)strlen(files.names[i]) - 5, files.names[i]);
    ok = list[i] != NULL;
  }
  if (ok) {
    *names = list;
    *count = files.count;
  }
  spp_names_free(&files);
  return ok ? SPP_OK : spp_diag_oom(diag);
}

const char *spp_framework_source(const struct spp_framework *framework, const char *key) {
  for (int i = 0; i < framework->source_count; i++)
    if (strcmp(framework->sources[i].key, key) == 0) return framework->sources[i].text;
  return NULL;
}
