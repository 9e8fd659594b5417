#include "model/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"

enum { MAX_NAME = 200, MAX_PATH_NAME = 800, MAX_SHOWN = 6 };

static bool ends_with(const char *text, const char *tail) {
  size_t n = strlen(text), m = strlen(tail);
  return n >= m && strcmp(text + n - m, tail) == 0;
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_name(const char *a, const char *b) {
  while (*a && lower(*a) == lower(*b))
    a++, b++;
  return lower(*a) == lower(*b);
}

static bool has_prefix(const char *text, const char *prefix) {
  while (*prefix && lower(*text) == lower(*prefix))
    text++, prefix++;
  return *prefix == '\0';
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum spp_status spp_catalog_list(const struct spp_catalog *catalog, const char *config_dir,
                                 struct spp_arena *arena, const char *const **names, int *count,
                                 struct spp_diag *diag) {
  const char *folder = spp_arena_printf(arena, "%s/%s", config_dir, catalog->folder);
  if (!folder) return spp_diag_oom(diag);
  struct spp_names files;
  enum spp_status status = spp_dir_list(folder, ".json", &files, diag);
  if (status != SPP_OK) return status;
  const char **list = spp_arena_array(arena, (size_t)files.count + 1, sizeof *list);
  bool failed = !list;
  for (int i = 0; !failed && i < files.count; i++) {
    size_t stem = strlen(files.names[i]) - strlen(".json");
    list[i] = spp_arena_printf(arena, "%.*s", (int)stem, files.names[i]);
    failed = !list[i];
  }
  if (!failed) {
    /* The files were in order with their suffix: "v2-lite.json" before "v2.json". */
    qsort(list, (size_t)files.count, sizeof *list, compare_names);
    *count = files.count, *names = list;
  }
  spp_names_free(&files);
  return failed ? spp_diag_oom(diag) : SPP_OK;
}

/* The candidates of an ambiguous word, as a hint. */
static void join_candidates(char *hint, size_t size, const char *const *words, int n) {
  size_t used = (size_t)snprintf(hint, size, "say which: ");
  for (int i = 0; i < n && used < size; i++)
    used +=
        (size_t)snprintf(hint + used, size - used, "%s%s", i ? ", " : "", i == MAX_SHOWN ? "..." : words[i]);
}

static enum spp_status refuse_ambiguous(const struct spp_catalog *catalog, const char *name,
                                        const char *const *words, int n, struct spp_diag *diag) {
  char hint[300];
  join_candidates(hint, sizeof hint, words, n < MAX_SHOWN + 1 ? n : MAX_SHOWN + 1);
  return spp_diag_set(diag, SPP_ERR_USAGE, NULL, hint, "%s name '%s' is ambiguous", catalog->thing, name);
}

/* Names, then short aliases, in an array in arena: what a mistyped word may have meant. NULL when memory is
 * out. */
static const char **candidates(struct spp_json aliases, const char *const *names, int count,
                               struct spp_arena *arena, int *total) {
  const char **all = spp_arena_array(arena, (size_t)(count + spp_json_size(aliases)) + 1, sizeof *all);
  if (!all) return NULL;
  memcpy(all, names, (size_t)count * sizeof *all);
  *total = count;
  for (struct spp_json v = spp_json_first(aliases); spp_json_kind(v) != SPP_JSON_ABSENT; v = spp_json_next(v))
    if (!strchr(spp_json_own_key(v), '/')) all[(*total)++] = spp_arena_strdup(arena, spp_json_own_key(v));
  for (int i = count; i < *total; i++)
    if (!all[i]) return NULL;
  return all;
}

static enum spp_status refuse_unknown(const struct spp_catalog *catalog, const char *name,
                                      const char *const *names, int count, struct spp_json aliases,
                                      struct spp_arena *arena, struct spp_diag *diag) {
  const char *starts[MAX_SHOWN + 1];
  int n = 0, total;
  for (int i = 0; i < count && n <= MAX_SHOWN; i++)
    if (name[0] && has_prefix(names[i], name)) starts[n++] = names[i];
  if (n > 1) return refuse_ambiguous(catalog, name, starts, n, diag);
  const char **all = candidates(aliases, names, count, arena, &total);
  if (!all) return spp_diag_oom(diag);
  const char *near = n == 1 ? starts[0] : spp_suggest(name, all, total);
  char hint[300];
  if (near)
    snprintf(hint, sizeof hint, "did you mean %s? `spplan list %s` names them all", near, catalog->folder);
  else
    snprintf(hint, sizeof hint, "`spplan list %s` names them all", catalog->folder);
  return spp_diag_set(diag, SPP_ERR_USAGE, NULL, hint, "no %s named '%s'", catalog->thing, name);
}

static const char *find_name(const char *const *names, int count, const char *word) {
  for (int i = 0; i < count; i++)
    if (same_name(names[i], word)) return names[i];
  return NULL;
}

/* *found stays NULL when aliases.json has no such alias. */
static enum spp_status find_alias(const struct spp_catalog *catalog, struct spp_json aliases,
                                  const char *const *names, int count, const char *word, const char **found,
                                  struct spp_diag *diag) {
  struct spp_json entry = spp_json_first(aliases);
  while (spp_json_kind(entry) != SPP_JSON_ABSENT && !same_name(spp_json_own_key(entry), word))
    entry = spp_json_next(entry);
  if (spp_json_kind(entry) == SPP_JSON_ABSENT) return SPP_OK;
  if (spp_json_kind(entry) == SPP_JSON_ARRAY) {
    const char *words[MAX_SHOWN + 1];
    int n = 0;
    for (struct spp_json w = spp_json_first(entry); n <= MAX_SHOWN && spp_json_kind(w) != SPP_JSON_ABSENT;
         w = spp_json_next(w), n++) {
      enum spp_status status = spp_json_string(w, &words[n], diag);
      if (status != SPP_OK) return status;
    }
    return refuse_ambiguous(catalog, word, words, n, diag);
  }
  const char *target;
  enum spp_status status = spp_json_string(entry, &target, diag);
  if (status != SPP_OK) return status;
  *found = find_name(names, count, target);
  if (*found) return SPP_OK;
  return spp_json_refuse(entry, "name a file of that folder", diag, "alias of a %s that does not exist",
                         catalog->thing);
}

/* A name or alias, whole or without the "org/" before it; *found stays NULL when there is none. */
static enum spp_status find_either(const struct spp_catalog *catalog, struct spp_json aliases,
                                   const char *const *names, int count, const char *word, const char **found,
                                   struct spp_diag *diag) {
  const char *tail = strrchr(word, '/');
  *found = find_name(names, count, word);
  enum spp_status status = SPP_OK;
  if (!*found) status = find_alias(catalog, aliases, names, count, word, found, diag);
  if (status != SPP_OK || *found || !tail) return status;
  *found = find_name(names, count, tail + 1);
  return *found ? SPP_OK : find_alias(catalog, aliases, names, count, tail + 1, found, diag);
}

/* Cut one of the suffixes that do not change shapes ("-instruct", "-awq") off word; false when it has none.
 */
static bool cut_suffix(struct spp_json suffixes, char *word) {
  size_t length = strlen(word);
  for (struct spp_json v = spp_json_first(suffixes); spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v)) {
    const char *suffix;
    if (spp_json_string(v, &suffix, NULL) != SPP_OK) continue;
    size_t n = strlen(suffix);
    if (n == 0 || n >= length || !same_name(word + length - n, suffix)) continue;
    word[length - n] = '\0';
    return true;
  }
  return false;
}

/* The file name behind a name or alias. */
static enum spp_status resolve_name(const struct spp_catalog *catalog, const char *config_dir,
                                    const char *const *names, int count, const char *word,
                                    struct spp_arena *arena, const char **found, struct spp_diag *diag) {
  char path[1024], shorter[MAX_NAME + 1];
  snprintf(path, sizeof path, "%s/aliases.json", config_dir);
  struct spp_json_doc *doc;
  enum spp_status status = spp_json_load(path, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_json root = spp_json_root(doc), aliases = spp_json_get(root, catalog->folder);
  struct spp_json suffixes = spp_json_get(spp_json_get(root, "suffixes"), catalog->folder);
  snprintf(shorter, sizeof shorter, "%s", word);
  status = find_either(catalog, aliases, names, count, word, found, diag);
  while (status == SPP_OK && !*found && cut_suffix(suffixes, shorter))
    status = find_either(catalog, aliases, names, count, shorter, found, diag);
  if (status == SPP_OK && !*found) status = refuse_unknown(catalog, word, names, count, aliases, arena, diag);
  spp_json_free(doc);
  return status;
}

/* The file a path means. *found stays NULL when the word is no path. */
static enum spp_status resolve_path(const struct spp_catalog *catalog, const char *word,
                                    struct spp_arena *arena, const char **found, struct spp_diag *diag) {
  bool exists = spp_path_exists(word), folder = exists && spp_path_is_dir(word);
  if (folder && !catalog->inside_file)
    return spp_diag_set(diag, SPP_ERR_INPUT, word, "name a file", "this is a directory");
  if (!exists && !ends_with(word, ".json") && word[0] != '.' && word[0] != '/') return SPP_OK;
  *found =
      folder ? spp_arena_printf(arena, "%s/%s", word, catalog->inside_file) : spp_arena_strdup(arena, word);
  return *found ? SPP_OK : spp_diag_oom(diag);
}

enum spp_status spp_catalog_find(const struct spp_catalog *catalog, const char *config_dir, const char *name,
                                 struct spp_arena *arena, const char **path, const char **entry,
                                 struct spp_diag *diag) {
  if (!name[0] || strlen(name) > MAX_PATH_NAME)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, NULL, "a %s name is 1 to %d characters", catalog->thing,
                        MAX_PATH_NAME);
  const char *const *names;
  const char *found, *file = NULL;
  int count;
  enum spp_status status = spp_catalog_list(catalog, config_dir, arena, &names, &count, diag);
  if (status != SPP_OK) return status;
  /* A path first, unless the bare word is a name of ours: a folder called "gpt2" must not hide the model. */
  found = find_name(names, count, name);
  if (!found) status = resolve_path(catalog, name, arena, &file, diag);
  if (status == SPP_OK && !found && !file)
    status = resolve_name(catalog, config_dir, names, count, name, arena, &found, diag);
  if (status != SPP_OK) return status;
  if (found) file = spp_arena_printf(arena, "%s/%s/%s.json", config_dir, catalog->folder, found);
  if (!file) return spp_diag_oom(diag);
  *path = file;
  *entry = found ? found : file;
  return SPP_OK;
}
