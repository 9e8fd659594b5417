#include "interop/import.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "interop/reading.h"
#include "interop/shell.h"
#include "interop/tree.h"
#include "interop/unwrap.h"

const char *spp_import_said_name(enum spp_import_said said) {
  static const char *const names[SPP_IMPORT_SAID_COUNT] = {"unknown", "unmodelled", "value",
                                                           "unset",   "note",       "passed"};
  return names[said];
}

const struct spp_import_setting *spp_imported_find(const struct spp_imported *imported, const char *name) {
  for (int i = 0; i < imported->setting_count; i++)
    if (strcmp(imported->settings[i].name, name) == 0) return &imported->settings[i];
  return NULL;
}

/* ---- what a text is ---- */

enum text_kind { TEXT_SHELL, TEXT_JSON, TEXT_YAML, TEXT_TOML };

static bool ends_in(const char *name, const char *tail) {
  size_t n = strlen(name), m = strlen(tail);
  return n >= m && strcasecmp(name + n - m, tail) == 0;
}

/* The first line that says something: "key: value" or "key:" is YAML, "[table]" is TOML. */
static enum text_kind kind_of_line(const char *text) {
  while (*text) {
    size_t blanks = strspn(text, " \t\r\n");
    text += blanks;
    if (*text != '#' && strncmp(text, "---", 3) != 0) break;
    text += strcspn(text, "\n");
  }
  size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (*text == '{') return TEXT_JSON;
  if (key > 0 && text[key] == ':' && (!text[key + 1] || strchr(" \r\n", text[key + 1]))) return TEXT_YAML;
  if (*text == '[' && strcspn(text, "]") < strcspn(text, " \n")) return TEXT_TOML;
  return TEXT_SHELL;
}

static enum text_kind kind_of(const char *text, const char *name) {
  if (ends_in(name, ".json")) return TEXT_JSON;
  if (ends_in(name, ".yaml") || ends_in(name, ".yml")) return TEXT_YAML;
  if (ends_in(name, ".toml")) return TEXT_TOML;
  if (ends_in(name, ".sh")) return TEXT_SHELL;
  return kind_of_line(text);
}

/* ---- whose it is ---- */

/* Whether one of the '|' separated patterns fits. */
static bool fits(const char *signs, const char *text) {
  char sign[96];
  while (signs && *signs) {
    size_t n = strcspn(signs, "|");
    snprintf(sign, sizeof sign, "%.*s", (int)n, signs);
    signs += n + (signs[n] == '|');
    if (fnmatch(sign, text, 0) == 0) return true;
  }
  return false;
}

static bool is_signed(const struct spp_format *f, const struct spp_command_line *c) {
  char pair[300];
  for (int i = 0; i < c->count; i++) {
    const char *word = c->words[i].text;
    snprintf(pair, sizeof pair, "%.140s %.140s", spp_base_name(word),
             i + 1 < c->count ? c->words[i + 1].text : "");
    if (fits(f->signs, word) || fits(f->signs, spp_base_name(word)) || fits(f->signs, pair)) return true;
  }
  return false;
}

static const struct spp_format *format_of_command(const struct spp_reading *r,
                                                  const struct spp_command_line *c) {
  for (int i = 0; i < spp_format_count; i++)
    if ((!r->options->format || r->options->format == spp_formats[i]) && is_signed(spp_formats[i], c))
      return spp_formats[i];
  return NULL;
}

/* A key is there, or keys below it. */
static bool has_key(const struct spp_entries *entries, const char *key) {
  size_t n = strlen(key);
  for (int i = 0; i < entries->count; i++)
    if (strncmp(entries->list[i].name, key, n) == 0 &&
        (!entries->list[i].name[n] || entries->list[i].name[n] == '.'))
      return true;
  return false;
}

static bool has_keys(const struct spp_entries *entries, const char *keys) {
  char key[80];
  while (*(keys += strspn(keys, " ")) && *keys != '|') {
    size_t n = strcspn(keys, " |");
    snprintf(key, sizeof key, "%.*s", (int)n, keys);
    if (!has_key(entries, key)) return false;
    keys += n;
  }
  return true;
}

static const struct spp_format *format_of_keys(const struct spp_reading *r) {
  if (r->options->format) return r->options->format;
  for (int i = 0; i < spp_format_count; i++)
    for (const char *keys = spp_formats[i]->keys; keys && *keys;) {
      if (has_keys(&r->entries, keys)) return spp_formats[i];
      keys += strcspn(keys, "|");
      keys += *keys == '|';
    }
  return NULL;
}

static void no_format(struct spp_reading *r, const char *hint) {
  r->status = spp_diag_set(r->diag, SPP_ERR_INPUT, r->entries.file, hint,
                           "no framework's command or configuration was recognised");
}

/* ---- files that a command refers to ---- */

/* Beside the script, else where we are. */
static const char *place_of(struct spp_reading *r, const char *name) {
  const char *slash = strrchr(r->out->file, '/');
  const char *beside =
      name[0] == '/' || !slash
          ? name
          : spp_arena_printf(r->arena, "%.*s/%s", (int)(slash - r->out->file), r->out->file, name);
  if (beside && spp_path_exists(beside) && !spp_path_is_dir(beside)) return beside;
  return spp_path_exists(name) && !spp_path_is_dir(name) ? name : NULL;
}

static enum spp_status read_tree(struct spp_reading *r, const char *text, size_t length,
                                 enum text_kind kind) {
  switch (kind) {
  case TEXT_JSON: return spp_tree_json(&r->entries, text, length, r->diag);
  case TEXT_YAML: return spp_tree_yaml(&r->entries, text, length, r->diag);
  default: return spp_tree_toml(&r->entries, text, length, r->diag);
  }
}

/* "auto" leaves it to the flags of the trainer (transformers integrations/deepspeed.py
 * HfTrainerDeepSpeedConfig). */
static void drop_auto(struct spp_entries *entries, int first) {
  int kept = first;
  for (int i = first; i < entries->count; i++)
    if (!entries->list[i].value || strcmp(entries->list[i].value, "auto") != 0)
      entries->list[kept++] = entries->list[i];
  entries->count = kept;
}

/* The entries from `first` on, moved to the front: what is said later, on the command line, has its way. */
static void move_to_front(struct spp_reading *r, int first) {
  struct spp_entries *e = &r->entries;
  int moved = e->count - first;
  struct spp_entry *copy = spp_arena_array(r->arena, (size_t)moved + 1, sizeof *copy);
  if (!copy) {
    r->status = spp_diag_oom(r->diag);
    return;
  }
  memcpy(copy, e->list + first, (size_t)moved * sizeof *copy);
  memmove(e->list + moved, e->list, (size_t)first * sizeof *copy);
  memcpy(e->list, copy, (size_t)moved * sizeof *copy);
}

static const struct spp_import_text *text_called(const struct spp_reading *r, const char *name) {
  for (int i = 0; i < r->options->text_count; i++)
    if (strcmp(r->options->texts[i].name, name) == 0) return &r->options->texts[i];
  return NULL;
}

static bool is_here(struct spp_reading *r, const char *name) {
  return text_called(r, name) || place_of(r, name);
}

/* The entries of one more file, before those there are. */
static void add_tree(struct spp_reading *r, const char *path, const char *text, size_t length) {
  const char *before = r->entries.file;
  const int first = r->entries.count;
  r->entries.file = spp_arena_strdup(r->arena, path);
  if (!r->entries.file) r->entries.file = before;
  r->status = read_tree(r, text, length, kind_of(text, path));
  r->entries.file = before;
  if (r->status != SPP_OK) return;
  drop_auto(&r->entries, first);
  move_to_front(r, first);
}

static void read_file(struct spp_reading *r, const char *name) {
  const struct spp_import_text *given = text_called(r, name);
  const char *path = given ? NULL : place_of(r, name);
  char *text;
  size_t length;
  if (given) add_tree(r, name, given->text, strlen(given->text));
  if (!path) return;
  r->status = spp_file_read(path, SPP_MAX_INTEROP_BYTES, &text, &length, r->diag);
  if (r->status != SPP_OK) return;
  add_tree(r, path, text, length);
  free(text);
}

/* Whether a name is a file with more settings. */
static bool is_configuration(const char *name) {
  return ends_in(name, ".json") || ends_in(name, ".yaml") || ends_in(name, ".yml") || ends_in(name, ".toml");
}

/* Whether an entry names a file with more settings: a flag that may, or a configuration that stands as a word
 * ("axolotl train FILE"). */
static const char *file_of(const struct spp_reading *r, const struct spp_entry *e) {
  const char *name = e->kind == SPP_ENTRY_WORD ? e->name : e->value;
  if (e->kind == SPP_ENTRY_ENV || e->opened || !name || !is_configuration(name)) return NULL;
  return e->kind == SPP_ENTRY_WORD || spp_names_have(r->format->files, e->name) ? name : NULL;
}

/* Files may name files in turn: a configuration its DeepSpeed file. */
static void read_files(struct spp_reading *r) {
  enum { MAX_FILES = 16 };
  for (int count = 0; count < MAX_FILES && r->status == SPP_OK; count++) {
    const char *name = NULL;
    for (int i = 0; i < r->entries.count && !name; i++) {
      struct spp_entry *e = &r->entries.list[i];
      if (!(name = file_of(r, e))) continue;
      e->opened = true;
      e->used = is_here(r, name);
      if (!e->used && (e->kind == SPP_ENTRY_WORD || strcmp(e->name, "deepspeed") != 0))
        spp_reading_say(r, SPP_IMPORT_NOTE, e, NULL, "%s is not here: what it says is not known", name);
    }
    if (!name) return;
    read_file(r, name);
  }
}

/* ---- steps ---- */

static void load_framework(struct spp_reading *r) {
  if (r->status == SPP_OK)
    r->status =
        spp_framework_load(r->options->config_dir, r->format->framework, r->arena, &r->framework, r->diag);
}

/* A path that is not here is known by its last part. */
static void settle_model(struct spp_reading *r) {
  const struct spp_binding *b = spp_reading_find(r, "hf_id");
  const char *name = r->options->model ? r->options->model : b ? b->value : NULL;
  char trimmed[256];
  if (!name || r->status != SPP_OK) return;
  snprintf(trimmed, sizeof trimmed, "%s", name);
  while (strlen(trimmed) > 1 && trimmed[strlen(trimmed) - 1] == '/')
    trimmed[strlen(trimmed) - 1] = '\0';
  const char *base = spp_base_name(trimmed);
  if (r->out->arch) r->arch = r->out->arch;
  enum spp_status status =
      r->arch ? SPP_OK : spp_arch_load(r->options->config_dir, trimmed, r->arena, &r->arch, NULL);
  if (status != SPP_OK) status = spp_arch_load(r->options->config_dir, base, r->arena, &r->arch, NULL);
  if (r->options->model) return;
  struct spp_import_setting *s = &r->out->settings[r->out->setting_count];
  *s = (struct spp_import_setting){.name = "model", .flag = b->entry ? b->entry->typed : NULL};
  s->value = spp_arena_strdup(r->arena, status == SPP_OK && spp_path_exists(trimmed) ? trimmed
                                        : status == SPP_OK                           ? r->arch->name
                                                                                     : base);
  if (b->entry) s->file = b->entry->file, s->line = b->entry->line;
  if (!s->value)
    r->status = spp_diag_oom(r->diag);
  else
    r->out->setting_count++;
}

static void read_configuration(struct spp_reading *r, const char *text, size_t length, enum text_kind kind) {
  r->status = read_tree(r, text, length, kind);
  if (r->status != SPP_OK) return;
  drop_auto(&r->entries, 0);
  r->format = format_of_keys(r);
  if (!r->format) no_format(r, "--framework NAME says whose it is ('spplan list exporters')");
}

static void take_command(struct spp_reading *r, const struct spp_script *script, int at) {
  const struct spp_command_line *c = &script->commands[at];
  r->status = spp_entries_command(&r->entries, script->exported, script->exported_count, r->diag);
  if (r->status == SPP_OK) r->status = spp_entries_command(&r->entries, c->words, c->count, r->diag);
  if (c->cut_line)
    spp_reading_say(r, SPP_IMPORT_NOTE, NULL, NULL,
                    "line %d: a comment inside the command ends it: the shell never passes on what follows",
                    c->cut_line);
  for (int i = at + 1; i < script->count; i++)
    if (format_of_command(r, &script->commands[i])) {
      spp_reading_say(r, SPP_IMPORT_NOTE, NULL, NULL,
                      "line %d starts another job: the first of the file is read",
                      script->commands[i].words[0].line);
      return;
    }
}

static void read_script(struct spp_reading *r, const char *text, size_t length) {
  struct spp_script *script = spp_arena_alloc(r->arena, sizeof *script);
  int at = 0;
  if (!script) {
    r->status = spp_diag_oom(r->diag);
    return;
  }
  r->status = spp_shell_read(text, length, r->entries.file, NULL, r->arena, script, r->diag);
  if (r->status == SPP_OK) r->status = spp_shell_unwrap(script, r->entries.file, r->arena, r->diag);
  if (r->status != SPP_OK) return;
  while (at < script->count && !(r->format = format_of_command(r, &script->commands[at])))
    at++;
  if (r->format)
    take_command(r, script, at);
  else
    no_format(r, "give the command that starts the training ('spplan list exporters' names the frameworks)");
}

static void read_all(struct spp_reading *r, const char *text, size_t length) {
  enum text_kind kind = kind_of(text, r->entries.file);
  if (kind == TEXT_SHELL)
    read_script(r, text, length);
  else
    read_configuration(r, text, length, kind);
  if (r->status == SPP_OK) read_files(r);
  load_framework(r);
  if (r->status == SPP_OK) spp_reading_complete(r);
  spp_reading_match(r);
  spp_reading_agree(r);
  if (r->status == SPP_OK && r->format->settle) r->format->settle(r);
  settle_model(r);
  spp_reading_settle(r);
  spp_reading_leftovers(r);
}

enum spp_status spp_import_text(const char *text, size_t length, const char *name,
                                const struct spp_import_options *options, struct spp_arena *arena,
                                const struct spp_imported **imported, struct spp_diag *diag) {
  struct spp_reading *r = spp_arena_alloc(arena, sizeof *r);
  struct spp_imported *out = spp_arena_alloc(arena, sizeof *out);
  if (!r || !out) return spp_diag_oom(diag);
  *r = (struct spp_reading){.arena = arena, .options = options, .out = out, .diag = diag};
  r->status = spp_entries_init(&r->entries, arena, name, SPP_MAX_ENTRIES, diag);
  if (r->status != SPP_OK) return r->status;
  out->file = r->entries.file;
  read_all(r, text, length);
  out->format = r->format;
  if (r->status == SPP_OK) *imported = out;
  return r->status;
}

enum spp_status spp_import_file(const char *path, const struct spp_import_options *options,
                                struct spp_arena *arena, const struct spp_imported **imported,
                                struct spp_diag *diag) {
  char *text;
  size_t length;
  enum spp_status status = spp_file_read(path, SPP_MAX_INTEROP_BYTES, &text, &length, diag);
  if (status != SPP_OK) return status;
  status = spp_import_text(text, length, strcmp(path, "-") == 0 ? "standard input" : path, options, arena,
                           imported, diag);
  free(text);
  return status;
}
