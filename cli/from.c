#include "cli/from.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/paths.h"
#include "interop/import.h"
#include "interop/shell.h"

struct saved {
  struct spp_cli *cli;
  struct spp_json root, inputs, given;
};

/* A field of the file gives way to a flag that says the same in another way, or decides it. */
static bool gives_way(const struct spp_cli *cli, const char *option) {
  static const struct {
    const char *option, *to;
  } rows[] = {{"sp", "sp-kind"},
              {"sp", "ulysses"},
              {"sp", "ring"},
              {"sp-kind", "sp"},
              {"sp-kind", "ulysses"},
              {"sp-kind", "ring"},
              {"ulysses", "sp"},
              {"ulysses", "sp-kind"},
              {"ring", "sp"},
              {"ring", "sp-kind"},
              {"recompute-modules", "recompute"},
              {"recompute-layers", "recompute"},
              {"recompute-unit", "recompute"},
              {"vpp", "pp"},
              {"schedule", "pp"},
              {"megatron-sp", "tp"},
              {"etp", "ep"},
              {"dp-replicate", "zero"},
              {"attention", "gpu"},
              {"attention", "framework"},
              {"kernels", "framework"},
              {"ring-impl", "framework"},
              {"ring-order", "framework"},
              {"loss", "framework"}};
  if (spp_cli_set_by(cli, option) == SPP_SET_BY_FLAG) return true;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].option, option) == 0 && spp_cli_set_by(cli, rows[i].to) == SPP_SET_BY_FLAG)
      return true;
  return false;
}

static const struct spp_option *option_of_key(const struct spp_cli *cli, const char *key) {
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].key && strcmp(spp_options[i].key, key) == 0 &&
        (spp_options[i].commands & (unsigned)cli->command->bit))
      return &spp_options[i];
  return NULL;
}

/* Lists as the command line joins them: "q,v". */
static const char *text_of(struct spp_json value, struct spp_arena *arena) {
  const char *all = "";
  if (spp_json_kind(value) != SPP_JSON_ARRAY) return spp_cli_value_text(value, arena);
  for (struct spp_json v = spp_json_first(value); all && spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v)) {
    const char *one = spp_cli_value_text(v, arena);
    all = one ? spp_arena_printf(arena, "%s%s%s", all, *all ? "," : "", one) : NULL;
  }
  return all;
}

static enum spp_status store_text(struct saved *saved, const struct spp_option *option, struct spp_json value,
                                  const char *text, struct spp_diag *diag) {
  struct spp_cli *cli = saved->cli;
  char path[160];
  if (!text)
    return spp_json_refuse(value, "write a string, a number, true, false or a list", diag,
                           "no such value for %s", option->key);
  const char *where = spp_arena_printf(&cli->arena, "%s: %s", spp_json_name(value.doc),
                                       spp_json_path(value, path, sizeof path));
  if (!where) return spp_diag_oom(diag);
  enum spp_status status = spp_option_store(option, text, where, &cli->args, diag);
  if (status == SPP_ERR_USAGE) {
    status = SPP_ERR_INPUT; /* the file is at fault, not the command line */
    if (diag) diag->status = status;
  }
  return status;
}

/* A value of the file into its option, unless a flag has the last word. */
static enum spp_status take(struct saved *saved, const struct spp_option *option, struct spp_json value,
                            struct spp_diag *diag) {
  struct spp_cli *cli = saved->cli;
  enum spp_status status = SPP_OK;
  if (gives_way(cli, option->name)) return SPP_OK;
  cli->set_by[spp_option_index(option)] = SPP_SET_BY_SAVED;
  if (option->type.kind != SPP_KIND_LIST)
    return store_text(saved, option, value, text_of(value, &cli->arena), diag);
  for (struct spp_json v = spp_json_first(value); status == SPP_OK && spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v))
    status = store_text(saved, option, v, spp_cli_value_text(v, &cli->arena), diag);
  return status;
}

/* ---- the inputs ---- */

/* Somebody gave this input when the file was written. A file without the list gives all it has. */
static bool was_given(const struct saved *saved, const char *key) {
  const char *text;
  if (spp_json_kind(saved->given) != SPP_JSON_ARRAY) return true;
  for (struct spp_json v = spp_json_first(saved->given); spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v))
    if (spp_json_string(v, &text, NULL) == SPP_OK && strcmp(text, key) == 0) return true;
  return false;
}

/* Defaults that depend on where and by which command the file was written; the others come about again. */
static bool is_of_place(const struct spp_option *option) {
  return option->source == SPP_VALUES_GPU || option->source == SPP_VALUES_FRAMEWORK;
}

/* A search leaves open what the one layout of a predict had. */
static bool searches(const struct spp_cli *cli) {
  return !(cli->command->bit & (SPP_CMD_PREDICT | SPP_CMD_ALLOC | SPP_CMD_DEGREES | SPP_CMD_IMPORT |
                                SPP_CMD_EXPORT | SPP_CMD_DIFF));
}

static enum spp_status take_inputs(struct saved *saved, bool of_one_layout, struct spp_diag *diag) {
  struct spp_cli *cli = saved->cli;
  for (int i = 0; i < spp_option_count; i++) {
    const struct spp_option *option = &spp_options[i];
    enum spp_status status = SPP_OK;
    if (!option->key || option_of_key(cli, option->key) != option) continue;
    struct spp_json value = spp_json_get(saved->inputs, option->key);
    enum spp_json_kind kind = spp_json_kind(value);
    if (kind == SPP_JSON_ABSENT) continue;
    cli->saved[i] = true;
    if (kind == SPP_JSON_NULL || (of_one_layout && option->layout && searches(cli))) continue;
    if (was_given(saved, option->key))
      status = take(saved, option, value, diag);
    else if (is_of_place(option) && !gives_way(cli, option->name))
      status = store_text(saved, option, value, text_of(value, &cli->arena), diag);
    if (status != SPP_OK) return status;
  }
  if (cli->args.doc_lengths && strcmp(cli->args.doc_lengths, "-") == 0 &&
      cli->set_by[spp_option_index(spp_option_find("doc-lengths"))] == SPP_SET_BY_SAVED)
    return spp_json_refuse(spp_json_get(saved->inputs, "doc_lengths"), "give --doc-lengths FILE", diag,
                           "the documents came from standard input");
  return SPP_OK;
}

/* ---- one plan of a list ---- */

/* Price number i of a list that goes with the list of GPU types. */
static struct spp_json price_of(const struct saved *saved, const char *gpu) {
  struct spp_json prices = spp_json_get(saved->inputs, "usd_per_gpu_hour");
  struct spp_json names = spp_json_get(saved->inputs, "gpu");
  const char *name;
  if (spp_json_kind(prices) != SPP_JSON_ARRAY) return prices;
  for (int i = 0; i < spp_json_size(names); i++)
    if (spp_json_string(spp_json_at(names, i), &name, NULL) == SPP_OK && strcmp(name, gpu) == 0)
      return spp_json_at(prices, i);
  return spp_json_at(prices, 0);
}

/* Without --rank an export takes the best plan of its own framework, where there is one. */
static int64_t rank_for_export(const struct saved *saved, struct spp_json plans) {
  const struct spp_args *args = &saved->cli->args;
  int64_t rank = 1;
  const char *framework;
  if (saved->cli->command->bit != SPP_CMD_EXPORT || args->to < 0) return 1;
  for (struct spp_json v = spp_json_first(plans); spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v), rank++)
    if (spp_json_string(spp_json_get(v, "framework"), &framework, NULL) == SPP_OK &&
        strcmp(framework, spp_formats[args->to]->framework) == 0)
      return rank;
  return 1;
}

static enum spp_status pick_plan(const struct saved *saved, struct spp_json *plan, struct spp_diag *diag) {
  struct spp_json plans = spp_json_get(saved->root, "plans"), nearest = spp_json_get(saved->root, "nearest");
  int64_t rank = saved->cli->args.rank == SPP_UNSET ? rank_for_export(saved, plans) : saved->cli->args.rank;
  int count = spp_json_size(plans);
  bool misses = count == 0 && rank == 1 && spp_json_kind(nearest) == SPP_JSON_OBJECT;
  if (rank > count && !misses)
    return spp_json_refuse(plans, "give a smaller --rank, or plan again with --top", diag,
                           "plan %lld of %d was asked for", (long long)rank, count);
  *plan = misses ? nearest : spp_json_at(plans, (int)rank - 1);
  return spp_json_expect(spp_json_get(*plan, "layout"), SPP_JSON_OBJECT, diag);
}

/* Derived from the others, or said better by them. */
static bool is_derived(const char *key) {
  return strcmp(key, "dp") == 0 || strcmp(key, "sp") == 0 || strcmp(key, "global_batch") == 0;
}

static enum spp_status take_members(struct saved *saved, struct spp_json object, struct spp_diag *diag) {
  enum spp_status status = SPP_OK;
  for (struct spp_json v = spp_json_first(object); status == SPP_OK && spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v)) {
    const char *key = spp_json_own_key(v);
    const struct spp_option *option = is_derived(key) ? NULL : option_of_key(saved->cli, key);
    bool empty = spp_json_kind(v) == SPP_JSON_ARRAY && spp_json_size(v) == 0;
    if (!option || empty || spp_json_kind(v) == SPP_JSON_NULL || spp_json_kind(v) == SPP_JSON_OBJECT)
      continue;
    status = take(saved, option, v, diag);
  }
  return status;
}

/* What a --find looked for is a part of the job it found. */
static enum spp_status take_found(struct saved *saved, struct spp_json plan, struct spp_diag *diag) {
  struct spp_json find = spp_json_get(saved->root, "find");
  const char *what = NULL;
  if (spp_json_string(spp_json_get(find, "what"), &what, NULL) != SPP_OK) return SPP_OK;
  if (strcmp(what, "max-seq") == 0)
    return take(saved, spp_option_find("seq"), spp_json_get(find, "value"), diag);
  if (strcmp(what, "max-batch") == 0 || strcmp(what, "pareto") == 0)
    return take(saved, spp_option_find("global-batch"),
                spp_json_get(spp_json_get(plan, "layout"), "global_batch"), diag);
  return SPP_OK; /* min-gpus, and pareto too: the plan's own "gpus" */
}

static enum spp_status take_plan(struct saved *saved, struct spp_diag *diag) {
  struct spp_cli *cli = saved->cli;
  struct spp_json plan;
  const char *gpu = "";
  enum spp_status status = pick_plan(saved, &plan, diag);
  if (status == SPP_OK) status = take_members(saved, plan, diag); /* framework, gpu, gpus */
  if (status == SPP_OK) status = take_members(saved, spp_json_get(plan, "layout"), diag);
  if (status == SPP_OK) status = take_found(saved, plan, diag);
  if (status != SPP_OK || cli->args.prices.count < 2) return status;
  (void)spp_json_string_or(spp_json_get(plan, "gpu"), "", &gpu, NULL);
  return take(saved, spp_option_find("price-per-gpu-hour"), price_of(saved, gpu), diag);
}

/* ---- the file ---- */

/* "spplan.plan/1" -> plan. */
static enum spp_status read_schema(const struct saved *saved, const struct spp_command **command,
                                   struct spp_diag *diag) {
  static const char hint[] = "give what 'spplan plan --json' or 'spplan predict --json' wrote";
  struct spp_json value = spp_json_get(saved->root, "schema");
  const char *schema = "", *slash;
  char name[32];
  (void)spp_json_string_or(value, "", &schema, NULL);
  slash = strchr(schema, '/');
  if (strncmp(schema, "spplan.", 7) != 0 || !slash)
    return spp_json_refuse(saved->root, hint, diag, "this is no answer of spplan");
  snprintf(name, sizeof name, "%.*s", (int)(slash - schema - 7), schema + 7);
  *command = spp_command_find(name);
  if (!*command || spp_json_kind(saved->inputs) != SPP_JSON_OBJECT)
    return spp_json_refuse(value, hint, diag, "'%.40s' holds no job", schema);
  if (strcmp(slash, "/1") != 0)
    return spp_json_refuse(value, "use the spplan that wrote it", diag, "'%.40s' is of another version",
                           schema);
  return SPP_OK;
}

static enum spp_status take_saved(struct spp_cli *cli, struct spp_json root, struct spp_diag *diag) {
  struct saved saved = {.cli = cli, .root = root};
  const struct spp_command *command = NULL;
  saved.inputs = spp_json_get(saved.root, "inputs");
  saved.given = spp_json_get(saved.root, "given");
  enum spp_status status = spp_json_expect(saved.root, SPP_JSON_OBJECT, diag);
  if (status == SPP_OK) status = read_schema(&saved, &command, diag);
  bool of_one_layout =
      status == SPP_OK && (command->bit & (SPP_CMD_PREDICT | SPP_CMD_ALLOC | SPP_CMD_IMPORT)) != 0;
  if (status == SPP_OK) status = take_inputs(&saved, of_one_layout, diag);
  if (status == SPP_OK && !searches(cli) &&
      spp_json_kind(spp_json_get(saved.root, "plans")) == SPP_JSON_ARRAY)
    status = take_plan(&saved, diag);
  return status;
}

/* ---- a framework's command or configuration ---- */

static enum spp_status take_setting(struct spp_cli *cli, const struct spp_import_setting *setting,
                                    struct spp_diag *diag) {
  const struct spp_option *option = spp_option_find(setting->name);
  const char *where =
      setting->line ? spp_arena_printf(&cli->arena, "%s:%d: %s", setting->file, setting->line, setting->flag)
      : setting->flag ? setting->flag
                      : setting->name;
  if (!where) return spp_diag_oom(diag);
  if (!option || !(option->commands & (unsigned)cli->command->bit) || gives_way(cli, option->name) ||
      (option->layout && searches(cli)))
    return SPP_OK;
  cli->set_by[spp_option_index(option)] = SPP_SET_BY_SAVED;
  enum spp_status status = spp_option_store(option, setting->value, where, &cli->args, diag);
  if (status != SPP_ERR_USAGE) return status;
  if (diag) diag->status = SPP_ERR_INPUT; /* the file is at fault, not the command line */
  return SPP_ERR_INPUT;
}

static enum spp_status take_import(struct spp_cli *cli, const char *text, size_t length, const char *name,
                                   struct spp_diag *diag) {
  char folder[4096];
  const bool named = spp_cli_set_by(cli, "framework") == SPP_SET_BY_FLAG;
  struct spp_import_options options = {.config_dir = folder, .model = cli->args.model};
  if (named) options.format = spp_format_find(cli->args.framework);
  if (spp_cli_set_by(cli, "gpus") == SPP_SET_BY_FLAG) options.gpus = cli->args.spec.gpus;
  enum spp_status status = spp_config_dir(cli->args.config_dir, folder, sizeof folder, diag);
  if (status == SPP_OK)
    status = spp_import_text(text, length, name, &options, &cli->arena, &cli->imported, diag);
  for (int i = 0; i < spp_option_count; i++)
    cli->saved[i] = spp_options[i].layout; /* what the command does not say is as the framework does it */
  for (int i = 0; status == SPP_OK && i < cli->imported->setting_count; i++)
    status = take_setting(cli, &cli->imported->settings[i], diag);
  return status;
}

/* ---- a command line of ours ---- */

/* Words of the one command of a text that begins with "spplan", else NULL; in the arena. */
static const struct spp_command_line *own_line(struct spp_cli *cli, const char *text, size_t length,
                                               const char *name) {
  struct spp_script *script = spp_arena_alloc(&cli->arena, sizeof *script);
  if (!script || spp_shell_read(text, length, name, NULL, &cli->arena, script, NULL) != SPP_OK) return NULL;
  const struct spp_command_line *line = script->count == 1 ? &script->commands[0] : NULL;
  return line && line->count > 0 && strcmp(spp_base_name(line->words[0].text), "spplan") == 0 ? line : NULL;
}

static enum spp_status take_line(struct spp_cli *cli, const struct spp_command_line *line,
                                 struct spp_diag *diag) {
  struct spp_said said[SPP_MAX_SAID];
  int count = 0;
  char **argv = spp_arena_alloc(&cli->arena, ((size_t)line->count + 1) * sizeof *argv);
  if (!argv) return spp_diag_oom(diag);
  for (int i = 0; i < line->count; i++)
    if (!(argv[i] = spp_arena_printf(&cli->arena, "%s", line->words[i].text))) return spp_diag_oom(diag);
  argv[line->count] = NULL;
  enum spp_status status = spp_cli_read_line(line->count, argv, said, &count, diag);
  for (int i = 0; status == SPP_OK && i < count; i++) {
    const bool on = said[i].option->type.kind == SPP_KIND_FLAG;
    const struct spp_import_setting setting = {.name = said[i].option->name,
                                               .value = on ? "1" : said[i].value};
    if (said[i].option->key && setting.value) status = take_setting(cli, &setting, diag);
  }
  return status;
}

/* ---- which of them ---- */

/* Answers of ours name their schema; objects without are a framework's. */
static bool is_ours(struct spp_json root) {
  return spp_json_kind(root) != SPP_JSON_OBJECT || spp_json_size(root) == 0 ||
         spp_json_kind(spp_json_get(root, "schema")) != SPP_JSON_ABSENT;
}

bool spp_cli_from_is_command(const char *path) {
  return strpbrk(path, " \t\n") && access(path, F_OK) != 0;
}

static enum spp_status read_text(const char *path, char **text, size_t *length, struct spp_diag *diag) {
  if (!spp_cli_from_is_command(path)) return spp_file_read(path, SPP_JSON_LIMIT_BYTES, text, length, diag);
  *length = strlen(path);
  *text = malloc(*length + 1);
  if (!*text) return spp_diag_oom(diag);
  memcpy(*text, path, *length + 1);
  return SPP_OK;
}

enum spp_status spp_cli_from(struct spp_cli *cli, const char *path, struct spp_diag *diag) {
  const char *name = strcmp(path, "-") == 0          ? "standard input"
                     : spp_cli_from_is_command(path) ? "command"
                                                     : path;
  const struct spp_command_line *line = NULL;
  struct spp_json_doc *doc = NULL;
  size_t length, blank;
  char *text;
  enum spp_status status = read_text(path, &text, &length, diag);
  if (status != SPP_OK) return status;
  blank = strspn(text, "\xEF\xBB\xBF \t\r\n");
  size_t word = strcspn(text + blank, "]\n");
  bool json = text[blank] == '{' || (text[blank] == '[' && !isalpha((unsigned char)text[blank + 1]) &&
                                     word < length); /* not [table] */
  if (json) status = spp_json_parse(text, length, name, &doc, diag);
  if (status == SPP_OK && json && is_ours(spp_json_root(doc)))
    status = take_saved(cli, spp_json_root(doc), diag);
  else if (status == SPP_OK && length > SPP_JSON_MAX_BYTES)
    status = spp_diag_set(diag, SPP_ERR_INPUT, name, "give the launch command or its configuration",
                          "larger than 1 MiB");
  else if (status == SPP_OK && (line = own_line(cli, text, length, name)))
    status = take_line(cli, line, diag);
  else if (status == SPP_OK)
    status = take_import(cli, text, length, name, diag);
  spp_json_free(doc);
  free(text);
  return status;
}
