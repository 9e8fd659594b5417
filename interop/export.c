#include "interop/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "interop/export_internal.h"
#include "model/launch.h"

/* ---- words ---- */

/* Words at blanks; one in quotes or brackets stays whole. */
int spp_export_words(struct spp_arena *arena, const char *text, const char **words, int max) {
  int count = 0;
  while (*(text += strspn(text, " ")) && count < max) {
    size_t n = strcspn(text, " ");
    words[count] = spp_arena_printf(arena, "%.*s", (int)n, text);
    if (!words[count++]) return -1;
    text += n;
  }
  return count;
}

/* A word that begins a line of its own: a flag, an override, a variable, a script. */
static bool begins_line(const char *word) {
  size_t n = strlen(word);
  return word[0] == '-' || strchr(word, '=') || (n > 3 && strcmp(word + n - 3, ".py") == 0);
}

/* One flag a line, continued with backslashes. */
void spp_export_command(struct spp_str *out, const char *const *words, int count) {
  bool in_front = true; /* variables stand in front without indent */
  for (int i = 0; i < count; i++) {
    bool variable = in_front && strchr(words[i], '=') && words[i][0] != '-';
    if (i > 0 && (begins_line(words[i]) || in_front != variable))
      spp_str_add(out, variable || in_front ? " \\\n" : " \\\n    ");
    else if (i > 0)
      spp_str_addc(out, ' ');
    in_front = variable;
    spp_str_add(out, words[i]);
  }
  spp_str_addc(out, '\n');
}

/* ---- what the reader should know ---- */

static void describe(struct spp_str *out, const struct spp_job *job, const struct spp_layout *layout) {
  char text[256];
  spp_str_addf(out, "# %s, %" PRId64 " tokens, %" PRId64 " x %s, %s\n", job->arch->display, job->seq_tokens,
               job->gpus, job->gpu ? job->gpu->display : "GPU", job->framework->version);
  spp_str_addf(out, "# %s, global batch %" PRId64 "\n", spp_layout_describe(job, layout, text, sizeof text),
               job->global_batch);
}

static void list_lost(struct spp_str *out, const struct spp_exported *e) {
  for (int i = 0; i < e->lost_count; i++)
    spp_str_addf(out, "# not said below: %s %s (read back: %s)\n", e->lost[i].name, e->lost[i].value,
                 e->lost[i].read_back);
}

/* ---- files ---- */

static enum spp_status add_file(struct spp_exported *e, struct spp_arena *arena, const char *name,
                                const struct spp_str *text, struct spp_diag *diag) {
  struct spp_export_file *file = &e->files[e->file_count];
  *file = (struct spp_export_file){name, spp_arena_strdup(arena, spp_str_text(text))};
  if (text->failed || !file->text) return spp_diag_oom(diag);
  e->file_count++;
  return SPP_OK;
}

/* The command line in front of " # NAME: TEXT", and that file. */
static enum spp_status cut_file(struct spp_exported *e, struct spp_arena *arena, char *line,
                                struct spp_diag *diag) {
  char *mark = strstr(line, " # "), *colon = mark ? strstr(mark, ": ") : NULL;
  struct spp_str text;
  if (!mark) return SPP_OK;
  *mark = '\0';
  if (!colon) return SPP_OK;
  *colon = '\0';
  const char *name = spp_arena_strdup(arena, mark + 3);
  if (!name) return spp_diag_oom(diag);
  spp_str_init(&text);
  spp_str_addf(&text, "%s\n", colon + 2);
  enum spp_status status = add_file(e, arena, name, &text, diag);
  spp_str_free(&text);
  return status;
}

/* DeepSpeed files that the words name. */
static enum spp_status add_presets(struct spp_exported *e, struct spp_arena *arena,
                                   const struct spp_layout *layout, const char *const *words, int count,
                                   struct spp_diag *diag) {
  enum spp_status status = SPP_OK;
  struct spp_str text;
  spp_str_init(&text);
  for (int i = 0; i < count && status == SPP_OK; i++) {
    bool preset = strncmp(words[i], "ds_", 3) == 0 && strstr(words[i], ".json");
    for (int f = 0; f < e->file_count; f++)
      preset = preset && !(e->files[f].name && strcmp(e->files[f].name, words[i]) == 0);
    if (!preset || e->file_count == SPP_MAX_EXPORT_FILES) continue;
    spp_str_clear(&text);
    spp_export_deepspeed(&text, layout);
    status = add_file(e, arena, words[i], &text, diag);
  }
  spp_str_free(&text);
  return status;
}

/* What the words say as a configuration: the flags leave the command, which names the file instead. */
static enum spp_status add_configuration(struct spp_exported *e, const struct spp_export_config *config,
                                         struct spp_arena *arena, const char **words, int *count,
                                         struct spp_diag *diag) {
  struct spp_str text;
  if (!config->file || (config->syntax != SPP_SYNTAX_YAML && config->syntax != SPP_SYNTAX_TOML))
    return SPP_OK;
  spp_str_init(&text);
  *count = spp_export_configuration(&text, arena, config, words, *count);
  enum spp_status status = *count < 0 ? spp_diag_oom(diag) : add_file(e, arena, config->file, &text, diag);
  spp_str_free(&text);
  return status;
}

static enum spp_status add_configurations(struct spp_exported *e, const struct spp_format *format,
                                          struct spp_arena *arena, const char **words, int *count,
                                          struct spp_diag *diag) {
  const struct spp_export_config of_launcher = {format->launcher_file, "--config_file", true, SPP_SYNTAX_YAML,
                                                format->aliases},
                                 own = {format->file_name, format->file_flag, false, format->syntax,
                                        format->aliases};
  enum spp_status status = add_configuration(e, &of_launcher, arena, words, count, diag);
  return status == SPP_OK ? add_configuration(e, &own, arena, words, count, diag) : status;
}

/* What only the user knows. */
static bool add_open_words(const struct spp_format *format, struct spp_arena *arena, const char **words,
                           int *count, int max) {
  for (int i = 0; i < *count && format->unless; i++)
    if (strcmp(words[i], format->unless) == 0) return true;
  int more = format->otherwise ? spp_export_words(arena, format->otherwise, words + *count, max - *count) : 0;
  *count += more > 0 ? more : 0;
  return more >= 0;
}

static enum spp_status write_command(const struct spp_format *format, const struct spp_job *job,
                                     const struct spp_layout *layout, struct spp_arena *arena, char *line,
                                     struct spp_exported *e, struct spp_diag *diag) {
  enum { MAX_WORDS = 512 };
  const char **words = spp_arena_array(arena, MAX_WORDS + 4, sizeof *words);
  struct spp_str text;
  if (!words) return spp_diag_oom(diag);
  spp_str_init(&text);
  e->files[0] = (struct spp_export_file){NULL, NULL}; /* the command, filled in last */
  e->file_count = 1;
  enum spp_status status = cut_file(e, arena, line, diag);
  int count = spp_export_words(arena, line, words, MAX_WORDS);
  if (status == SPP_OK && (count < 0 || !add_open_words(format, arena, words, &count, MAX_WORDS)))
    status = spp_diag_oom(diag);
  if (status == SPP_OK) status = add_presets(e, arena, layout, words, count, diag);
  if (status == SPP_OK) status = add_configurations(e, format, arena, words, &count, diag);
  spp_str_add(&text, "#!/bin/sh\n");
  describe(&text, job, layout);
  list_lost(&text, e);
  if (status == SPP_OK) spp_export_command(&text, words, count);
  e->files[0] = (struct spp_export_file){"train.sh", spp_arena_strdup(arena, spp_str_text(&text))};
  if (status == SPP_OK && (text.failed || !e->files[0].text)) status = spp_diag_oom(diag);
  spp_str_free(&text);
  return status;
}

static enum spp_status write_files(const struct spp_format *format, const struct spp_job *job,
                                   const struct spp_layout *layout, struct spp_arena *arena,
                                   struct spp_exported *e, struct spp_diag *diag) {
  struct spp_str line;
  enum spp_status status;
  spp_str_init(&line);
  spp_framework_launch(job, layout, &line);
  if (line.failed)
    status = spp_diag_oom(diag);
  else if (line.len == 0)
    status = spp_diag_set(diag, SPP_ERR_USAGE, "--to", "choose another framework", "%s has no launch command",
                          job->framework->name);
  else
    status = write_command(format, job, layout, arena, line.data, e, diag);
  spp_str_free(&line);
  return status;
}

enum spp_status spp_export(const struct spp_format *format, const char *config_dir, const struct spp_job *job,
                           const struct spp_layout *layout, struct spp_arena *arena,
                           const struct spp_exported **exported, struct spp_diag *diag) {
  struct spp_exported *e = spp_arena_alloc(arena, sizeof *e);
  if (!e) return spp_diag_oom(diag);
  enum spp_status status = write_files(format, job, layout, arena, e, diag);
  if (status == SPP_OK) status = spp_export_read_back(format, config_dir, job, layout, arena, e, diag);
  if (status == SPP_OK) status = write_files(format, job, layout, arena, e, diag); /* now with what is lost */
  if (status == SPP_OK) *exported = e;
  return status;
}
