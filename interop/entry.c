#include "interop/entry.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/strbuf.h"

enum spp_status spp_entries_init(struct spp_entries *entries, struct spp_arena *arena, const char *file,
                                 int capacity, struct spp_diag *diag) {
  *entries =
      (struct spp_entries){.arena = arena, .file = spp_arena_strdup(arena, file), .capacity = capacity};
  entries->list = spp_arena_array(arena, (size_t)capacity, sizeof *entries->list);
  return entries->list && entries->file ? SPP_OK : spp_diag_oom(diag);
}

/* Dashes in front are no part of a name, and those inside are as good as underscores: argparse, click and
 * OmegaConf all read --micro-batch-size and --micro_batch_size alike. */
static char *plain_name(struct spp_arena *arena, const char *typed) {
  char *name = spp_arena_strdup(arena, typed + strspn(typed, "-+"));
  for (char *c = name; c && *c; c++)
    if (*c == '-') *c = '_';
  return name;
}

enum spp_status spp_entries_add(struct spp_entries *entries, enum spp_entry_kind kind, const char *name,
                                const char *value, int line, struct spp_diag *diag) {
  if (entries->count == entries->capacity)
    return spp_entries_refuse(entries, line, "give the launch command and its configuration only", diag,
                              "more than %d settings", entries->capacity);
  struct spp_entry entry = {.kind = kind, .line = line, .file = entries->file};
  entry.typed = spp_arena_strdup(entries->arena, name);
  entry.name = kind == SPP_ENTRY_FLAG ? plain_name(entries->arena, name) : entry.typed;
  entry.value = spp_arena_strdup(entries->arena, value);
  if (!entry.name || !entry.typed || (value && !entry.value)) return spp_diag_oom(diag);
  entries->list[entries->count++] = entry;
  return SPP_OK;
}

struct spp_entry *spp_entries_find(const struct spp_entries *entries, enum spp_entry_kind kind,
                                   const char *name) {
  for (int i = entries->count - 1; i >= 0; i--)
    if (entries->list[i].kind == kind && strcmp(entries->list[i].name, name) == 0) return &entries->list[i];
  return NULL;
}

enum spp_status spp_entries_refuse(const struct spp_entries *entries, int line, const char *hint,
                                   struct spp_diag *diag, const char *what_fmt, ...) {
  char where[300], what[300];
  va_list args;
  va_start(args, what_fmt);
  vsnprintf(what, sizeof what, what_fmt, args);
  va_end(args);
  snprintf(where, sizeof where, "%.250s:%d", entries->file, line);
  return spp_diag_set(diag, SPP_ERR_INPUT, where, hint, "%s", what);
}

bool spp_value_is_true(const char *value) {
  return !value || strcasecmp(value, "true") == 0 || strcasecmp(value, "yes") == 0 ||
         strcasecmp(value, "on") == 0 || strcmp(value, "1") == 0;
}
bool spp_value_is_false(const char *value) {
  return value && (strcasecmp(value, "false") == 0 || strcasecmp(value, "no") == 0 ||
                   strcasecmp(value, "off") == 0 || strcmp(value, "0") == 0 || !*value ||
                   strcasecmp(value, "none") == 0 || strcasecmp(value, "null") == 0);
}
const char *spp_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* ---- a command ---- */

/* The length of NAME in "NAME=value"; 0 when the word is no assignment. */
static size_t assigned(const char *word) {
  size_t n = 0;
  if (isdigit((unsigned char)word[0])) return 0;
  while (isalnum((unsigned char)word[n]) || word[n] == '_')
    n++;
  return word[n] == '=' ? n : 0;
}

/* "-1" and "-0.5" are values. */
static bool is_flag(const char *word) {
  return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.' && word[1] != ' ';
}
static bool is_script(const char *word) {
  size_t n = strlen(word);
  return n > 3 && strcmp(word + n - 3, ".py") == 0;
}
/* "key.path=value", as Hydra takes it, "+" or "++" before it. */
static size_t overridden(const char *word) {
  size_t n = strspn(word, "+~"), start = n;
  while (isalnum((unsigned char)word[n]) || word[n] == '_' || word[n] == '.' || word[n] == '@' ||
         word[n] == '/')
    n++;
  return n > start && word[n] == '=' ? n : 0;
}

/* Programs that start another: what stands before the script is theirs. */
static bool is_launcher(const char *word) {
  static const char *const launchers[] = {"torchrun", "accelerate", "deepspeed", "python",
                                          "python3",  "srun",       "mpirun"};
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
    if (strcmp(spp_base_name(word), launchers[i]) == 0) return true;
  return false;
}

static enum spp_status add_cut(struct spp_entries *entries, enum spp_entry_kind kind, const char *word,
                               size_t length, int line, struct spp_diag *diag) {
  const char *name = spp_arena_printf(entries->arena, "%.*s", (int)length, word);
  if (!name) return spp_diag_oom(diag);
  return spp_entries_add(entries, kind, name, word + length + 1, line, diag);
}

/* The values after a flag: one word before the script, all of them after. */
static enum spp_status add_flag(struct spp_entries *entries, const struct spp_word *words, int count, int *at,
                                bool before_script, struct spp_diag *diag) {
  struct spp_word flag = words[(*at)++];
  const char *equals = strchr(flag.text, '=');
  enum spp_status status;
  if (equals)
    return add_cut(entries, SPP_ENTRY_FLAG, flag.text, (size_t)(equals - flag.text), flag.line, diag);
  struct spp_str value;
  int values = 0;
  spp_str_init(&value);
  while (*at < count && !is_flag(words[*at].text) &&
         !(before_script && (values == 1 || is_script(words[*at].text) || is_launcher(words[*at].text)))) {
    if (values++) spp_str_addc(&value, ' ');
    spp_str_add(&value, words[(*at)++].text);
  }
  status = value.failed ? spp_diag_oom(diag)
                        : spp_entries_add(entries, SPP_ENTRY_FLAG, flag.text,
                                          values ? spp_str_text(&value) : NULL, flag.line, diag);
  spp_str_free(&value);
  return status;
}

/* "ray job submit ... -- python3": what stood before is of a program that only starts the one that follows.
 */
static void drop_starter(struct spp_entries *entries) {
  int kept = 0;
  for (int i = 0; i < entries->count; i++)
    if (entries->list[i].kind == SPP_ENTRY_ENV) entries->list[kept++] = entries->list[i];
  entries->count = kept;
}

enum spp_status spp_entries_command(struct spp_entries *entries, const struct spp_word *words, int count,
                                    struct spp_diag *diag) {
  enum spp_status status = SPP_OK;
  bool launching = false;
  int at = 0;
  for (; at < count && assigned(words[at].text) && status == SPP_OK; at++)
    status = add_cut(entries, SPP_ENTRY_ENV, words[at].text, assigned(words[at].text), words[at].line, diag);
  while (at < count && status == SPP_OK) {
    const char *word = words[at].text;
    const int before = entries->count;
    if (strcmp(word, "--") == 0) {
      if (++at < count && !is_flag(words[at].text))
        drop_starter(entries);
      else
        launching = true; /* "axolotl train FILE --launcher torchrun -- --nnodes 2": the launcher's flags */
    } else if (is_flag(word) && (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0) && launching &&
               at + 1 < count) {
      status = spp_entries_add(entries, SPP_ENTRY_WORD, words[at + 1].text, NULL, words[at + 1].line, diag);
      launching = false, at += 2;
    } else if (is_flag(word)) {
      status = add_flag(entries, words, count, &at, launching, diag);
      if (status == SPP_OK) entries->list[before].launcher = launching;
    } else if (overridden(word)) {
      status = add_cut(entries, SPP_ENTRY_FLAG, word, overridden(word), words[at].line, diag), at++;
    } else {
      status = spp_entries_add(entries, SPP_ENTRY_WORD, word, NULL, words[at].line, diag);
      launching = is_launcher(word) || (launching && !is_script(word)), at++;
    }
  }
  return status;
}
