#include "interop/unwrap.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

/* Texts within texts, one after the other: more are left as they stand. */
enum { MAX_TEXTS = 32 };

static bool is_one_of(const char *word, const char *const *list) {
  for (int i = 0; list[i]; i++)
    if (strcmp(spp_base_name(word), list[i]) == 0) return true;
  return false;
}
static bool is_shell(const char *word) {
  static const char *const shells[] = {"bash", "sh", "zsh", "dash", NULL};
  return is_one_of(word, shells);
}
/* What a starter starts here: its own words end in front of it. */
static bool is_program(const char *word) {
  static const char *const programs[] = {"torchrun", "accelerate", "deepspeed",        "python",  "python3",
                                         "swift",    "megatron",   "llamafactory-cli", "axolotl", "trl",
                                         "srun",     "mpirun",     "mpiexec",          "eval",    NULL};
  return is_shell(word) || is_one_of(word, programs);
}
/* Containers, remote shells, profilers, environments: their own words say nothing of the job. */
static bool is_starter(const char *word) {
  static const char *const starters[] = {
      "docker", "podman",  "nerdctl", "singularity", "apptainer", "enroot", "ssh", "kubectl",
      "nsys",   "ncu",     "numactl", "taskset",     "conda",     "mamba",  "uv",  "pixi",
      "poetry", "timeout", "stdbuf",  "unbuffer",    "setsid",    "nice",   "env", "xargs",
      "sbatch", "salloc",  "script",  "nohup",       "sudo",      NULL};
  return is_one_of(word, starters);
}
static bool is_assignment(const char *word) {
  size_t n = 0;
  if (isdigit((unsigned char)word[0])) return false;
  while (isalnum((unsigned char)word[n]) || word[n] == '_')
    n++;
  return n > 0 && word[n] == '=';
}

struct unwrapper {
  struct spp_script *script;
  const char *file;
  struct spp_arena *arena;
  int texts;
  enum spp_status status;
  struct spp_diag *diag;
};

/* Where the words of a starter begin in a command, and where what it starts does; false: there is none. */
static bool find_starter(const struct spp_command_line *c, int *from, int *to) {
  *from = -1;
  for (int i = 0; i < c->count; i++) {
    const char *word = c->words[i].text;
    if (*from < 0 && is_starter(word))
      *from = i;
    else if (is_program(word) && *from >= 0)
      return *to = i, true;
    else if (is_program(word) && strcmp(spp_base_name(word), "srun") != 0)
      return false;
  }
  return false;
}

/* Without the starter's own words; variables that it sets (-e NAME=VALUE, --env NAME=VALUE) go in front. */
static void drop_starter(struct unwrapper *u, struct spp_command_line *c, int from, int to) {
  struct spp_word *words = spp_arena_array(u->arena, (size_t)c->count + 1, sizeof *words);
  int count = 0;
  if (!words) {
    u->status = spp_diag_oom(u->diag);
    return;
  }
  for (int i = 0; i < to; i++) {
    const char *text = c->words[i].text;
    const char *value = strncmp(text, "--env=", 6) == 0 ? text + 6 : text;
    if ((i < from || i > from) && is_assignment(value))
      words[count++] = (struct spp_word){value, c->words[i].line};
  }
  for (int i = 0; i < c->count; i++)
    if ((i < from || i >= to) && !(i < from && is_assignment(c->words[i].text))) words[count++] = c->words[i];
  c->words = words, c->count = count;
}

/* The word that holds the text of "bash -lc TEXT" or "eval TEXT", and the one the shell stands at; -1: none.
 */
static int find_text(const struct spp_command_line *c, int *at) {
  for (int i = 0; i < c->count; i++) {
    if (strcmp(c->words[i].text, "eval") == 0 && i + 1 < c->count) return *at = i, i + 1;
    if (!is_shell(c->words[i].text)) continue;
    for (int k = i + 1; k + 1 < c->count && c->words[k].text[0] == '-'; k++)
      if (c->words[k].text[1] != '-' && strchr(c->words[k].text, 'c')) return *at = i, k + 1;
  }
  return -1;
}

/* eval joins its words with blanks (POSIX 1003.1, 2.14 eval). */
static const char *text_at(struct unwrapper *u, const struct spp_command_line *c, int at, int first) {
  struct spp_str text;
  const bool evaluated = strcmp(c->words[at].text, "eval") == 0;
  spp_str_init(&text);
  for (int i = first; i < (evaluated ? c->count : first + 1); i++) {
    if (i > first) spp_str_addc(&text, ' ');
    spp_str_add(&text, c->words[i].text);
  }
  const char *copy = text.failed ? NULL : spp_arena_strdup(u->arena, spp_str_text(&text));
  if (!copy) u->status = spp_diag_oom(u->diag);
  spp_str_free(&text);
  return copy;
}

/* The words before the shell, then those of the command it runs, whose own variables come first of all. */
static struct spp_command_line joined(struct unwrapper *u, const struct spp_command_line *outer, int before,
                                      const struct spp_command_line *inner) {
  struct spp_word *words =
      spp_arena_array(u->arena, (size_t)before + (size_t)inner->count + 1, sizeof *words);
  int front = 0, own = 0, count = 0;
  if (!words) {
    u->status = spp_diag_oom(u->diag);
    return *inner;
  }
  while (front < before && is_assignment(outer->words[front].text))
    words[count++] = outer->words[front++];
  while (own < inner->count && is_assignment(inner->words[own].text))
    words[count++] = inner->words[own++];
  for (; front < before; front++)
    words[count++] = outer->words[front];
  for (; own < inner->count; own++)
    words[count++] = inner->words[own];
  return (struct spp_command_line){words, count, inner->cut_line};
}

static void splice(struct unwrapper *u, int at, int before, const struct spp_script *inner) {
  struct spp_script *s = u->script;
  const struct spp_command_line outer = s->commands[at];
  if (s->count - 1 + inner->count > SPP_MAX_COMMANDS) {
    u->status = spp_diag_set(u->diag, SPP_ERR_INPUT, u->file, "give the launch script only",
                             "more than %d commands", SPP_MAX_COMMANDS);
    return;
  }
  memmove(s->commands + at + inner->count, s->commands + at + 1,
          (size_t)(s->count - at - 1) * sizeof *s->commands);
  s->count += inner->count - 1;
  for (int i = 0; i < inner->count && u->status == SPP_OK; i++)
    s->commands[at + i] = joined(u, &outer, before, &inner->commands[i]);
}

/* What the text exports holds for the whole script too: it has one job. */
static void add_exported(struct unwrapper *u, const struct spp_script *inner) {
  struct spp_script *s = u->script;
  struct spp_word *list =
      spp_arena_array(u->arena, (size_t)(s->exported_count + inner->exported_count) + 1, sizeof *list);
  if (!list) {
    u->status = spp_diag_oom(u->diag);
    return;
  }
  if (s->exported_count) memcpy(list, s->exported, (size_t)s->exported_count * sizeof *list);
  if (inner->exported_count)
    memcpy(list + s->exported_count, inner->exported, (size_t)inner->exported_count * sizeof *list);
  s->exported = list, s->exported_count += inner->exported_count;
}

/* Whether the command at `at` was one with a text: it is replaced then. */
static bool unwrap_text(struct unwrapper *u, int at) {
  const struct spp_command_line *c = &u->script->commands[at];
  int shell, first = find_text(c, &shell);
  const char *text = first >= 0 && u->texts < MAX_TEXTS ? text_at(u, c, shell, first) : NULL;
  struct spp_script *inner = text ? spp_arena_alloc(u->arena, sizeof *inner) : NULL;
  struct spp_diag diag = {0};
  if (!text) return false;
  if (!inner) return u->status = spp_diag_oom(u->diag), false;
  u->texts++;
  int line = c->words[first].line;
  for (const char *n = text; *n; n++)
    line -= *n == '\n';
  struct spp_word *given =
      spp_arena_array(u->arena, (size_t)(u->script->exported_count + shell) + 1, sizeof *given);
  int count = u->script->exported_count;
  if (!given) return u->status = spp_diag_oom(u->diag), false;
  if (count) memcpy(given, u->script->exported, (size_t)count * sizeof *given);
  for (int i = 0; i < shell && is_assignment(c->words[i].text); i++)
    given[count++] = c->words[i];
  const struct spp_shell_start start = {given, count, line > 0 ? line : 1};
  if (spp_shell_read(text, strlen(text), u->file, &start, u->arena, inner, &diag) != SPP_OK) return false;
  splice(u, at, shell, inner);
  if (u->status == SPP_OK) add_exported(u, inner);
  return u->status == SPP_OK;
}

enum spp_status spp_shell_unwrap(struct spp_script *script, const char *file, struct spp_arena *arena,
                                 struct spp_diag *diag) {
  struct unwrapper u = {.script = script, .file = file, .arena = arena, .diag = diag};
  for (int at = 0; at < script->count && u.status == SPP_OK;) {
    int from, to;
    if (find_starter(&script->commands[at], &from, &to))
      drop_starter(&u, &script->commands[at], from, to);
    else if (!unwrap_text(&u, at))
      at++;
  }
  return u.status;
}
