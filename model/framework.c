/* Finding framework files: shipped ones by name, the user's own by path, each maybe on top of a shipped one.
 */
#include "model/framework.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/suggest.h"
#include "model/framework_read.h"

enum { MAX_EXTENDS = 4 };

typedef enum spp_status status;

static bool is_path(const char *name) {
  size_t n = strlen(name);
  return strchr(name, '/') != NULL || (n > 5 && strcmp(name + n - 5, ".json") == 0);
}

static status open_shipped(const char *config_dir, const char *name, struct spp_json_doc **doc,
                           struct spp_diag *diag) {
  char path[1024];
  struct spp_names names;
  int n = snprintf(path, sizeof path, "%s/frameworks/%s.json", config_dir, name);
  if (n > 0 && (size_t)n < sizeof path && spp_path_exists(path)) return spp_json_load(path, doc, diag);
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

/* The file and those it extends, derived first. Fills docs and count also on error, for freeing. */
static status open_chain(const char *config_dir, const char *name, struct spp_json_doc **docs, int *count,
                         struct spp_diag *diag) {
  status s =
      is_path(name) ? spp_json_load(name, &docs[0], diag) : open_shipped(config_dir, name, &docs[0], diag);
  *count = s == SPP_OK ? 1 : 0;
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
    s = open_shipped(config_dir, base_name, &docs[*count], diag);
    if (s == SPP_OK) (*count)++;
  }
  return s;
}

enum spp_status spp_framework_load(const char *config_dir, const char *name, struct spp_arena *arena,
                                   const struct spp_framework **framework, struct spp_diag *diag) {
  struct spp_json_doc *docs[MAX_EXTENDS] = {NULL};
  int count = 0;
  struct spp_framework *f = spp_arena_alloc(arena, sizeof *f);
  if (!f) return spp_diag_oom(diag);
  status s = open_chain(config_dir, name, docs, &count, diag);
  for (int i = count - 1; s == SPP_OK && i >= 0; i--)
    s = spp_framework_read(docs[i], i == count - 1, f, diag);
  for (int i = 0; i < count; i++)
    spp_json_free(docs[i]);
  if (s == SPP_OK) *framework = f;
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
