/* A command's flags as a YAML configuration. */
#include <stdio.h>
#include <string.h>

#include "interop/entry.h"
#include "interop/export_internal.h"

/* A word that YAML reads as itself. */
static bool is_plain(const char *value) {
  return *value && !strpbrk(value, ":#{}[]&*!|>'\"%@`,$ ");
}

static void put_value(struct spp_str *out, const char *value) {
  if (!value) {
    spp_str_add(out, " true\n");
  } else if (is_plain(value)) {
    spp_str_addf(out, " %s\n", value);
  } else if (strchr(value, ' ') && !strchr(value, '$')) { /* a list */
    spp_str_add(out, " [");
    for (const char *c = value; *c; c++)
      *c == ' ' ? spp_str_add(out, ", ") : spp_str_addc(out, *c);
    spp_str_add(out, "]\n");
  } else {
    spp_str_addf(out, " \"%s\"\n", value);
  }
}

/* "a.b" stands under "a:", written once: flags of one group follow each other. */
static void put_entry(struct spp_str *out, const struct spp_entry *e, char *group, size_t size) {
  const char *dot = strchr(e->name, '.');
  size_t n = dot ? (size_t)(dot - e->name) : 0;
  if (dot && (strlen(group) != n || strncmp(group, e->name, n) != 0)) {
    snprintf(group, size, "%.*s", (int)n, e->name);
    spp_str_addf(out, "%s:\n", group);
  } else if (!dot) {
    group[0] = '\0';
  }
  spp_str_addf(out, "%s%s:", dot ? "  " : "", dot ? dot + 1 : e->name);
  put_value(out, e->value);
}

/* A module goes after -m, as it came. */
static int stay(const struct spp_entry *e, struct spp_arena *arena, const char **words, int left,
                bool module) {
  if (e->kind == SPP_ENTRY_ENV) words[left++] = spp_arena_printf(arena, "%s=%s", e->name, e->value);
  if (e->kind == SPP_ENTRY_WORD && module) words[left++] = "-m";
  if (e->kind == SPP_ENTRY_WORD) words[left++] = spp_arena_strdup(arena, e->name);
  if (e->kind == SPP_ENTRY_FLAG) words[left++] = spp_arena_strdup(arena, e->typed);
  if (e->kind == SPP_ENTRY_FLAG && e->value) words[left++] = spp_arena_strdup(arena, e->value);
  return left;
}

static bool follows_m(const char *const *words, int count, const char *word) {
  for (int i = 1; i < count; i++)
    if (strcmp(words[i - 1], "-m") == 0 && strcmp(words[i], word) == 0) return true;
  return false;
}

int spp_export_yaml(struct spp_str *out, struct spp_arena *arena, const char **words, int count,
                    const char *file) {
  struct spp_word *copy = spp_arena_array(arena, (size_t)count + 1, sizeof *copy);
  const char **kept = spp_arena_array(arena, (size_t)(2 * count) + 2, sizeof *kept);
  struct spp_entries entries;
  char group[80] = "";
  int left = 0;
  if (!copy || !kept || spp_entries_init(&entries, arena, file, count + 1, NULL) != SPP_OK) return -1;
  for (int i = 0; i < count; i++)
    copy[i].text = words[i];
  if (spp_entries_command(&entries, copy, count, NULL) != SPP_OK) return -1;
  for (int i = 0; i < entries.count; i++) {
    const struct spp_entry *e = &entries.list[i];
    if (e->kind == SPP_ENTRY_FLAG && !e->launcher)
      put_entry(out, e, group, sizeof group);
    else if (e->kind != SPP_ENTRY_WORD || strcmp(e->name, file) != 0)
      left = stay(e, arena, kept, left, e->kind == SPP_ENTRY_WORD && follows_m(words, count, e->name));
  }
  kept[left++] = file;
  for (int i = 0; i < left; i++)
    if (!kept[i]) return -1;
  if (left > count + 1 || out->failed) return -1;
  memcpy(words, kept, (size_t)left * sizeof *kept);
  return left;
}
