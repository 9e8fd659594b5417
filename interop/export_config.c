/* A command's flags as a configuration: YAML for those of a script or of accelerate's launcher, TOML for
 * torchtitan. */
#include <stdio.h>
#include <string.h>

#include "interop/entry.h"
#include "interop/export_internal.h"

struct item {
  const char *group; /* "" at the top */
  const char *key, *value;
};
struct items {
  struct item *list;
  int count;
};

/* ---- what goes where ---- */

static const char shard_variables[] = "PARALLELISM_CONFIG_";

static bool open_for_the_shell(const struct spp_entry *e) {
  return e->value && strchr(e->value, '$');
}

/* Whether an entry leaves the command for the file: the shell's variables stay, only it can fill them in. */
static bool moves(const struct spp_entry *e, bool launcher) {
  if (e->kind == SPP_ENTRY_ENV)
    return launcher && (strncmp(e->name, shard_variables, sizeof shard_variables - 1) == 0 ||
                        strcmp(e->name, "ACCELERATE_USE_PARALLELISM_CONFIG") == 0);
  return e->kind == SPP_ENTRY_FLAG && e->launcher == launcher && !open_for_the_shell(e);
}

/* The path of a key that a format's aliases know by its flag: "fsdp_config.fsdp_version=fsdp_version". */
static const char *path_of(struct spp_arena *arena, const char *aliases, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = aliases; at && (at = strstr(at, name)) != NULL; at += n) {
    const char *start = at;
    if (at == aliases || at[-1] != '=' || (at[n] && at[n] != ' ')) continue;
    while (start > aliases && start[-1] != ' ')
      start--;
    const char *path = spp_arena_printf(arena, "%.*s", (int)(at - 1 - start), start);
    if (!path || strchr(path, '.')) return path;
  }
  return name;
}

static bool add_item(struct spp_arena *arena, struct items *items, const char *path, const char *value) {
  const char *dot = strrchr(path, '.');
  struct item *item = &items->list[items->count++];
  item->group = dot ? spp_arena_printf(arena, "%.*s", (int)(dot - path), path) : "";
  item->key = spp_arena_strdup(arena, dot ? dot + 1 : path);
  item->value = value;
  return item->group && item->key;
}

/* ---- accelerate's launcher ---- */

/* accelerate 1.15.0 commands/launch.py _validate_launch_command: the kind of the configuration stands for
 * these switches. */
static const char *launcher_kind(const char *name) {
  if (strcmp(name, "use_fsdp") == 0) return "FSDP";
  if (strcmp(name, "use_deepspeed") == 0) return "DEEPSPEED";
  return strcmp(name, "multi_gpu") == 0 ? "MULTI_GPU" : NULL;
}

static bool add_launcher_item(struct spp_arena *arena, struct items *items, const char *aliases,
                              const struct spp_entry *e, const char **kind, bool *precision) {
  char name[80];
  snprintf(name, sizeof name, "%.79s", e->name);
  for (char *c = name; e->kind == SPP_ENTRY_ENV && *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  if (launcher_kind(name)) {
    *kind = launcher_kind(name);
    return true;
  }
  if (strcmp(name, "use_parallelism_config") == 0 || strcmp(name, "accelerate_use_parallelism_config") == 0)
    return true; /* the group says so */
  if (strcmp(name, "mixed_precision") == 0) *precision = true;
  const char *path = path_of(arena, aliases, name);
  return path && add_item(arena, items, path, e->value);
}

/* accelerate 1.15.0 commands/config/config_args.py ClusterConfig: what it asks for. */
static bool head_launcher(struct spp_arena *arena, struct items *items, const char *kind, bool precision) {
  return add_item(arena, items, "compute_environment", "LOCAL_MACHINE") &&
         add_item(arena, items, "distributed_type", kind) &&
         (precision || add_item(arena, items, "mixed_precision", "no"));
}

/* ---- text ---- */

/* A word that YAML reads as itself. */
static bool is_plain(const char *value) {
  return *value && !strpbrk(value, ":#{}[]&*!|>'\"%@`,$ ") && strcmp(value, "no") != 0 &&
         strcmp(value, "NO") != 0;
}

static void put_list(struct spp_str *out, const char *value, const char *quote) {
  spp_str_addf(out, "[%s", quote);
  for (const char *c = value; *c; c++)
    *c == ' ' ? spp_str_addf(out, "%s, %s", quote, quote) : spp_str_addc(out, *c);
  spp_str_addf(out, "%s]\n", quote);
}

static void put_yaml(struct spp_str *out, const char *value) {
  if (!value)
    spp_str_add(out, "true\n");
  else if (is_plain(value))
    spp_str_addf(out, "%s\n", value);
  else if (strchr(value, ' '))
    put_list(out, value, "");
  else
    spp_str_addf(out, "\"%s\"\n", value);
}

/* torchtitan 0.2.2 config/job_config.py: converters is a list, however many there are. */
static void put_toml(struct spp_str *out, const char *key, const char *value) {
  const bool number = value && value[strspn(value, "-0123456789.")] == '\0';
  if (!value || spp_value_is_true(value) || strcmp(value, "false") == 0)
    spp_str_addf(out, "%s\n", !value ? "true" : number ? value : spp_value_is_true(value) ? "true" : "false");
  else if (number)
    spp_str_addf(out, "%s\n", value);
  else if (strchr(value, ' ') || strcmp(key, "converters") == 0)
    put_list(out, value, "\"");
  else
    spp_str_addf(out, "\"%s\"\n", value);
}

static void put_item(struct spp_str *out, const struct item *item, enum spp_syntax syntax) {
  if (syntax == SPP_SYNTAX_TOML) {
    spp_str_addf(out, "%s = ", item->key);
    put_toml(out, item->key, item->value);
    return;
  }
  spp_str_addf(out, "%s%s: ", *item->group ? "  " : "", item->key);
  put_yaml(out, item->value);
}

/* Those of no group first, then each group once. */
static void put_items(struct spp_str *out, const struct items *items, enum spp_syntax syntax) {
  for (int i = 0; i < items->count; i++)
    if (!*items->list[i].group) put_item(out, &items->list[i], syntax);
  for (int i = 0; i < items->count; i++) {
    const char *group = items->list[i].group;
    bool before = !*group;
    for (int k = 0; k < i; k++)
      before = before || strcmp(items->list[k].group, group) == 0;
    if (before) continue;
    if (syntax == SPP_SYNTAX_TOML && out->len > 0) spp_str_addc(out, '\n');
    spp_str_addf(out, syntax == SPP_SYNTAX_TOML ? "[%s]\n" : "%s:\n", group);
    for (int k = i; k < items->count; k++)
      if (strcmp(items->list[k].group, group) == 0) put_item(out, &items->list[k], syntax);
  }
}

/* ---- the command that is left ---- */

static bool follows_m(const char *const *words, int count, const char *word) {
  for (int i = 1; i < count; i++)
    if (strcmp(words[i - 1], "-m") == 0 && strcmp(words[i], word) == 0) return true;
  return false;
}

/* A module goes after -m, as it came; where no flag names the file, overrides beside it are key=value. */
static int stay(const struct spp_entry *e, struct spp_arena *arena, const char **words, int left, bool module,
                bool pairs) {
  if (e->kind == SPP_ENTRY_ENV || (pairs && e->kind == SPP_ENTRY_FLAG)) {
    words[left++] = spp_arena_printf(arena, "%s=%s", e->name, e->value);
    return left;
  }
  if (e->kind == SPP_ENTRY_WORD && module) words[left++] = "-m";
  if (e->kind == SPP_ENTRY_WORD) words[left++] = spp_arena_strdup(arena, e->name);
  if (e->kind == SPP_ENTRY_FLAG) words[left++] = spp_arena_strdup(arena, e->typed);
  if (e->kind == SPP_ENTRY_FLAG && e->value) words[left++] = spp_arena_strdup(arena, e->value);
  return left;
}

struct cut {
  const struct spp_export_config *config;
  const char **kept;
  int left;
};

static void name_file(struct cut *cut) {
  if (cut->config->flag) cut->kept[cut->left++] = cut->config->flag;
  cut->kept[cut->left++] = cut->config->file;
}

/* The file is named after "accelerate launch", or at the end of the command but before what stays open. */
static void keep_rest(struct spp_arena *arena, const struct spp_entries *entries, const char *const *words,
                      int count, struct cut *cut) {
  const bool launcher = cut->config->launcher;
  bool named = false;
  for (int i = 0; i < entries->count; i++) {
    const struct spp_entry *e = &entries->list[i];
    const bool word = e->kind == SPP_ENTRY_WORD, open = e->kind == SPP_ENTRY_FLAG && !e->launcher;
    if (moves(e, launcher) || (word && strcmp(e->name, cut->config->file) == 0)) continue;
    if (!launcher && !named && open) name_file(cut), named = true;
    cut->left = stay(e, arena, cut->kept, cut->left, word && follows_m(words, count, e->name),
                     !launcher && !cut->config->flag && open);
    if (launcher && !named && word && strcmp(e->name, "launch") == 0) name_file(cut), named = true;
  }
  if (!named) name_file(cut);
}

int spp_export_configuration(struct spp_str *out, struct spp_arena *arena,
                             const struct spp_export_config *config, const char **words, int count) {
  const char **kept = spp_arena_array(arena, (size_t)(2 * count) + 4, sizeof *kept);
  struct spp_word *copy = spp_arena_array(arena, (size_t)count + 1, sizeof *copy);
  struct items items = {spp_arena_array(arena, (size_t)count + 4, sizeof *items.list), 0};
  struct cut cut = {config, kept, 0};
  struct spp_entries entries;
  const char *kind = "NO";
  bool precision = false, ok = true;
  if (!copy || !kept || !items.list ||
      spp_entries_init(&entries, arena, config->file, count + 1, NULL) != SPP_OK)
    return -1;
  for (int i = 0; i < count; i++)
    copy[i].text = words[i];
  if (spp_entries_command(&entries, copy, count, NULL) != SPP_OK) return -1;
  for (int i = 0; i < entries.count && ok; i++) {
    const struct spp_entry *e = &entries.list[i];
    if (!moves(e, config->launcher)) continue;
    ok = config->launcher ? add_launcher_item(arena, &items, config->aliases, e, &kind, &precision)
                          : add_item(arena, &items, e->name, e->value);
  }
  if (config->launcher && ok) ok = head_launcher(arena, &items, kind, precision);
  put_items(out, &items, config->syntax);
  keep_rest(arena, &entries, words, count, &cut);
  for (int i = 0; i < cut.left; i++)
    ok = ok && kept[i];
  if (!ok || cut.left > count + 2 || out->failed) return -1;
  memcpy(words, kept, (size_t)cut.left * sizeof *kept);
  return cut.left;
}
