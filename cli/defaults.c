/* Values the command line left out: SPPLAN_SEQ and the like, then config.json of the user. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/suggest.h"
#include "cli/command.h"

/* Rows that share a field (--overlap, --no-overlap) count together. */
static bool is_saved(const struct spp_cli *cli, const struct spp_option *option) {
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].offset == option->offset && cli->saved[i]) return true;
  return false;
}

/* An option takes a default when it belongs to the command and nobody with more say has set its field. */
static bool wants_default(const struct spp_cli *cli, const struct spp_option *option) {
  return !option->no_default && (option->commands & (unsigned)cli->command->bit) &&
         spp_cli_set_by(cli, option->name) == SPP_SET_BY_NOBODY && !is_saved(cli, option);
}

static void environment_name(const struct spp_option *option, char *buf, size_t size) {
  size_t used = (size_t)snprintf(buf, size, "SPPLAN_");
  for (const char *c = option->name; *c && used + 1 < size; c++)
    buf[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
  buf[used] = '\0';
}

static enum spp_status from_environment(struct spp_cli *cli, const struct spp_option *option,
                                        struct spp_diag *diag) {
  char name[64];
  const char *text;
  environment_name(option, name, sizeof name);
  text = getenv(name);
  if (!text || !*text) return SPP_OK;
  cli->set_by[spp_option_index(option)] = SPP_SET_BY_ENVIRONMENT;
  return spp_option_store(option, text, name, &cli->args, diag);
}

const char *spp_cli_value_text(struct spp_json value, struct spp_arena *arena) {
  const char *text;
  int64_t number;
  double real;
  bool yes;
  switch (spp_json_kind(value)) {
  case SPP_JSON_STRING:
    return spp_json_string(value, &text, NULL) == SPP_OK ? spp_arena_strdup(arena, text) : NULL;
  case SPP_JSON_INT:
    if (spp_json_i64(value, INT64_MIN, INT64_MAX, &number, NULL) != SPP_OK) return NULL;
    return spp_arena_printf(arena, "%" PRId64, number);
  case SPP_JSON_REAL:
    if (spp_json_real(value, -1e300, 1e300, &real, NULL) != SPP_OK) return NULL;
    return spp_arena_printf(arena, "%.17g", real);
  case SPP_JSON_BOOL: return spp_json_bool(value, &yes, NULL) == SPP_OK ? (yes ? "true" : "false") : NULL;
  default: return NULL;
  }
}

static enum spp_status unknown_key(struct spp_json value, const char *key, struct spp_diag *diag) {
  const char *names[SPP_MAX_OPTIONS], *near;
  char hint[120];
  int count = 0;
  for (int i = 0; i < spp_option_count; i++)
    if (!spp_options[i].no_default) names[count++] = spp_options[i].name;
  near = spp_suggest(key, names, count);
  snprintf(hint, sizeof hint,
           near ? "did you mean \"%s\"?" : "keys are option names without dashes in front%s",
           near ? near : "");
  return spp_json_refuse(value, hint, diag, "unknown key \"%.60s\"", key);
}

static enum spp_status from_member(struct spp_cli *cli, struct spp_json value, struct spp_diag *diag) {
  const char *key = spp_json_own_key(value), *text;
  const struct spp_option *option = spp_option_find(key);
  char path[120], *where;
  enum spp_status status;
  if (!option || option->no_default) return unknown_key(value, key, diag);
  if (!wants_default(cli, option)) return SPP_OK;
  if (!(text = spp_cli_value_text(value, &cli->arena)))
    return spp_json_refuse(value, "write a string, a number, true or false", diag, "no such value for \"%s\"",
                           key);
  where = spp_arena_printf(&cli->arena, "%s: %s", spp_json_name(value.doc),
                           spp_json_path(value, path, sizeof path));
  if (!where) return spp_diag_oom(diag);
  cli->set_by[spp_option_index(option)] = SPP_SET_BY_FILE;
  status = spp_option_store(option, text, where, &cli->args, diag);
  if (status == SPP_ERR_USAGE) {
    status = SPP_ERR_INPUT; /* the file is at fault, not the command line */
    if (diag) diag->status = status;
  }
  return status;
}

static const char *config_path(struct spp_cli *cli) {
  const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  if (xdg && *xdg == '/') return spp_arena_printf(&cli->arena, "%s/spplan/config.json", xdg);
  if (home && *home == '/') return spp_arena_printf(&cli->arena, "%s/.config/spplan/config.json", home);
  return NULL;
}

static enum spp_status from_file(struct spp_cli *cli, struct spp_diag *diag) {
  const char *path = config_path(cli);
  struct spp_json_doc *doc;
  enum spp_status status;
  if (!path || !spp_path_exists(path)) return SPP_OK;
  if ((status = spp_json_load(path, &doc, diag)) != SPP_OK) return status;
  status = spp_json_expect(spp_json_root(doc), SPP_JSON_OBJECT, diag);
  for (struct spp_json value = spp_json_first(spp_json_root(doc));
       status == SPP_OK && spp_json_kind(value) != SPP_JSON_ABSENT; value = spp_json_next(value))
    status = from_member(cli, value, diag);
  spp_json_free(doc);
  return status;
}

enum spp_status spp_cli_defaults(struct spp_cli *cli, struct spp_diag *diag) {
  for (int i = 0; i < spp_option_count; i++) {
    enum spp_status status = SPP_OK;
    if (wants_default(cli, &spp_options[i])) status = from_environment(cli, &spp_options[i], diag);
    if (status != SPP_OK) return status;
  }
  return from_file(cli, diag);
}
