#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/suggest.h"
#include "base/units.h"
#include "interop/reading.h"

enum { MAX_PATTERN_WORDS = 48, MAX_NAMES = 4096 };

/* ---- bindings and messages ---- */

/* What fewer words said gives way to what more of them say. */
static void bind(struct spp_reading *r, const char *name, const char *value, const struct spp_entry *entry,
                 int strength) {
  struct spp_binding *b = NULL;
  for (int i = 0; i < r->binding_count; i++)
    if (strcmp(r->bindings[i].name, name) == 0) b = &r->bindings[i];
  if (!b && r->binding_count == SPP_MAX_BINDINGS) return;
  if (b && strength < b->strength) return;
  if (!b) b = &r->bindings[r->binding_count++];
  *b = (struct spp_binding){spp_arena_strdup(r->arena, name), spp_arena_strdup(r->arena, value), entry,
                            strength};
  if (b->name && b->value) return;
  b->name = b->value = "";
  r->status = spp_diag_oom(r->diag);
}

void spp_reading_bind(struct spp_reading *r, const char *name, const char *value,
                      const struct spp_entry *entry) {
  bind(r, name, value, entry, INT_MAX);
}

void spp_reading_unbind(struct spp_reading *r, const char *name) {
  for (int i = 0; i < r->binding_count; i++)
    if (strcmp(r->bindings[i].name, name) == 0) r->bindings[i] = r->bindings[--r->binding_count];
}

const struct spp_binding *spp_reading_find(const struct spp_reading *r, const char *name) {
  for (int i = 0; i < r->binding_count; i++)
    if (strcmp(r->bindings[i].name, name) == 0) return &r->bindings[i];
  return NULL;
}

const char *spp_reading_word(const struct spp_reading *r, const char *name) {
  const struct spp_binding *b = spp_reading_find(r, name);
  return b ? b->value : NULL;
}

int64_t spp_reading_number(struct spp_reading *r, const char *name, int64_t fallback) {
  const struct spp_binding *b = spp_reading_find(r, name);
  char where[300];
  int64_t value = fallback;
  if (!b || r->status != SPP_OK) return fallback;
  if (b->entry)
    snprintf(where, sizeof where, "%.200s:%d: %.60s", b->entry->file, b->entry->line, b->entry->typed);
  else
    snprintf(where, sizeof where, "%.60s", name);
  enum spp_status status = spp_count_parse(b->value, where, 1, INT64_C(1) << 40, &value, r->diag);
  if (status == SPP_OK) return value;
  if (r->diag) r->diag->status = SPP_ERR_INPUT;
  r->status = SPP_ERR_INPUT;
  return fallback;
}

const char *spp_reading_flag(const struct spp_reading *r, const char *name) {
  struct spp_entry *entry = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, name);
  if (!entry) return NULL;
  entry->used = true;
  return entry->value ? entry->value : "true";
}

void spp_reading_say(struct spp_reading *r, enum spp_import_said said, const struct spp_entry *entry,
                     const char *nearest, const char *text_fmt, ...) {
  char text[400];
  va_list args;
  if (r->out->message_count == SPP_MAX_IMPORT_MESSAGES) return;
  va_start(args, text_fmt);
  vsnprintf(text, sizeof text, text_fmt, args);
  va_end(args);
  struct spp_import_message *m = &r->out->messages[r->out->message_count];
  *m = (struct spp_import_message){.said = said, .nearest = spp_arena_strdup(r->arena, nearest)};
  m->flag = entry ? entry->typed : NULL;
  m->file = entry ? entry->file : r->out->file;
  m->line = entry ? entry->line : 0;
  m->text = spp_arena_strdup(r->arena, text);
  if (!m->text || (nearest && !m->nearest))
    r->status = spp_diag_oom(r->diag);
  else
    r->out->message_count++;
}

/* ---- aliases and defaults ---- */

/* By itself, or by what it stands below: "optimizer.*". */
static bool is_known(const struct spp_format *f, const char *name) {
  char above[80];
  snprintf(above, sizeof above, "%.60s", name);
  char *dot = strchr(above, '.');
  if (dot) snprintf(dot, sizeof above - (size_t)(dot - above), ".*");
  for (int i = 0; i < SPP_MAX_FORMAT_ROWS && f->known[i]; i++)
    if (spp_lines_have(f->known[i], name) || (dot && spp_lines_have(f->known[i], above))) return true;
  return spp_names_have(f->files, name);
}

static void rename_old(struct spp_reading *r) {
  char pair[160];
  for (const char *list = r->format->aliases ? r->format->aliases : "";
       spp_names_next(&list, pair, sizeof pair);) {
    char *equals = strchr(pair, '=');
    if (!equals) continue;
    *equals = '\0';
    for (int i = 0; i < r->entries.count; i++) {
      struct spp_entry *e = &r->entries.list[i];
      if (e->kind == SPP_ENTRY_FLAG && strcmp(e->name, pair) == 0)
        e->name = spp_arena_strdup(r->arena, equals + 1);
      if (!e->name) {
        e->name = "", r->status = spp_diag_oom(r->diag);
        return;
      }
    }
  }
}

/* "--no_remove_unused_columns": the field is false, unless a field is called so ("no_cuda"). */
static void turn_negations(struct spp_reading *r) {
  for (int i = 0; i < r->entries.count && r->format->negates && r->status == SPP_OK; i++) {
    struct spp_entry *e = &r->entries.list[i];
    if (e->kind != SPP_ENTRY_FLAG || e->value || e->launcher || strncmp(e->name, "no_", 3) != 0 ||
        is_known(r->format, e->name))
      continue;
    e->name = spp_arena_strdup(r->arena, e->name + 3);
    e->value = "false";
    if (e->name) continue;
    e->name = "", r->status = spp_diag_oom(r->diag);
  }
}

/* Words of a table's text, cut at blanks. */
static int cut_words(struct spp_arena *arena, const char *text, struct spp_word *words, int max) {
  char word[200];
  int count = 0;
  while (count < max && spp_names_next(&text, word, sizeof word)) {
    if (strcmp(word, "#") == 0) break;
    words[count] = (struct spp_word){spp_arena_strdup(arena, word), 0};
    if (!words[count++].text) return -1;
  }
  return count;
}

/* Words of a table as entries of their own. */
static bool pattern_of(struct spp_reading *r, const char *text, struct spp_entries *pattern) {
  struct spp_word words[MAX_PATTERN_WORDS];
  int count = cut_words(r->arena, text, words, MAX_PATTERN_WORDS);
  pattern->count = 0;
  if (count >= 0) r->status = spp_entries_command(pattern, words, count, r->diag);
  if (count < 0) r->status = spp_diag_oom(r->diag);
  return r->status == SPP_OK;
}

static void add_defaults(struct spp_reading *r, struct spp_entries *scratch) {
  if (!r->format->defaults || !pattern_of(r, r->format->defaults, scratch)) return;
  for (int i = 0; i < scratch->count && r->status == SPP_OK; i++) {
    const struct spp_entry *e = &scratch->list[i];
    const char *name = e->kind == SPP_ENTRY_FLAG ? e->name : e->typed;
    if (e->kind == SPP_ENTRY_WORD || spp_entries_find(&r->entries, e->kind, name)) continue;
    r->status = spp_entries_add(&r->entries, e->kind, e->typed, e->value, 0, r->diag);
    if (r->status == SPP_OK) r->entries.list[r->entries.count - 1].assumed = true;
  }
}

void spp_reading_complete(struct spp_reading *r) {
  struct spp_entries scratch;
  rename_old(r);
  turn_negations(r);
  if (r->status == SPP_OK)
    r->status = spp_entries_init(&scratch, r->arena, r->format->name, MAX_PATTERN_WORDS, r->diag);
  if (r->status == SPP_OK) add_defaults(r, &scratch);
}

/* ---- patterns ---- */

/* "{name}": its length, and the name; 0 for text. */
static size_t placeholder(const char *text, char *name, size_t size) {
  size_t n = text[0] == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;
  if (n == 0 || text[n + 1] != '}') return 0;
  snprintf(name, size, "%.*s", (int)n, text + 1);
  return n + 2;
}
static bool is_fixed(const char *value) {
  return !value || !strpbrk(value, "{$");
}

/* A preset is known by its name wherever it lies: "zero3.json". */
static bool same_file(const char *said, const char *wanted) {
  size_t n = strlen(wanted);
  return said && n > 5 && strcmp(wanted + n - 5, ".json") == 0 &&
         strcmp(spp_base_name(said), spp_base_name(wanted)) == 0;
}

static bool same_value(const char *said, const char *wanted) {
  if (!wanted || spp_value_is_true(wanted)) return spp_value_is_true(said);
  if (spp_value_is_false(wanted)) return spp_value_is_false(said);
  return said && (strcasecmp(said, wanted) == 0 || same_file(said, wanted));
}

/* The entry that a piece of a pattern names, when its value is what the pattern asks. */
static struct spp_entry *entry_of(const struct spp_reading *r, const struct spp_entry *piece) {
  if (piece->kind == SPP_ENTRY_WORD) {
    for (int i = 0; i < r->entries.count; i++) {
      struct spp_entry *e = &r->entries.list[i];
      if (e->kind == SPP_ENTRY_WORD && strcmp(spp_base_name(e->name), spp_base_name(piece->name)) == 0)
        return e;
    }
    return NULL;
  }
  struct spp_entry *entry = spp_entries_find(&r->entries, piece->kind, piece->name);
  if (!entry || !is_fixed(piece->value)) return entry;
  return same_value(entry->value, piece->value) ? entry : NULL;
}

/* "{ulysses} {ring}" against "2 4"; a name alone takes the whole value. */
static void bind_value(struct spp_reading *r, const char *pattern, const struct spp_entry *entry,
                       int strength) {
  const int own = entry->assumed ? 0 : strength > 1 ? strength : 1;
  char name[64], piece[200];
  const char *said = entry->value ? entry->value : "true", *rest = said;
  size_t n = placeholder(pattern, name, sizeof name);
  if (strcasecmp(said, "auto") == 0 || strcasecmp(said, "none") == 0 || strcasecmp(said, "null") == 0 ||
      strcmp(said, "-1") == 0) /* "the rest", "as it comes" */
    return;
  if (strstr(said, "$")) {
    if (n)
      spp_reading_say(r, SPP_IMPORT_UNSET, entry, NULL, "%s %s: this variable is not set in the file",
                      entry->typed, said);
    return;
  }
  if (n && !pattern[n]) {
    bind(r, name, said, entry, own);
    return;
  }
  while (n && spp_names_next(&rest, piece, sizeof piece)) {
    bind(r, name, piece, entry, own);
    pattern += n;
    pattern += strspn(pattern, " ");
    n = placeholder(pattern, name, sizeof name);
  }
}

/* "name=value" terms of a condition say so; the others only tell when it is written. */
static void bind_condition(struct spp_reading *r, const char *when, const struct spp_entry *entry,
                           int strength) {
  char term[96];
  while (*when) {
    size_t n = strcspn(when, "&");
    snprintf(term, sizeof term, "%.*s", (int)n, when);
    when += n + (when[n] == '&');
    char *equals = strchr(term, '=');
    if (!equals || strpbrk(term, "!<>")) continue;
    *equals = '\0';
    bind(r, term, equals + 1, entry, strength);
  }
}

static void match_row(struct spp_reading *r, const char *when, const char *text,
                      struct spp_entries *pattern) {
  const struct spp_entry *first = NULL;
  bool any = false;
  int strength = 0; /* fixed pieces that the file says itself */
  if (r->status != SPP_OK || text[0] == '#' || !pattern_of(r, text, pattern)) return;
  for (int i = 0; i < pattern->count; i++) {
    const struct spp_entry *piece = &pattern->list[i], *entry = entry_of(r, piece);
    bool asked = is_fixed(piece->value);
    if (asked && !entry) return;
    any |= entry != NULL;
    strength += asked && !entry->assumed;
    if (entry && (!first || (asked && piece->kind == SPP_ENTRY_FLAG))) first = entry;
  }
  if (!any) return;
  for (int i = 0; i < pattern->count; i++) {
    struct spp_entry *entry = entry_of(r, &pattern->list[i]);
    if (!entry) continue;
    entry->used = true;
    if (!is_fixed(pattern->list[i].value)) bind_value(r, pattern->list[i].value, entry, strength);
  }
  bind_condition(r, when, first, strength);
}

/* Of words that read alike the first has its way. */
static bool said_before(const struct spp_framework *f, int at) {
  for (int i = 0; i < at; i++)
    if (strcmp(f->launch[i].text, f->launch[at].text) == 0) return true;
  return false;
}

void spp_reading_match(struct spp_reading *r) {
  struct spp_entries pattern;
  if (r->status != SPP_OK) return;
  r->status = spp_entries_init(&pattern, r->arena, r->format->name, MAX_PATTERN_WORDS, r->diag);
  for (int t = 0; t < SPP_MAX_FORMAT_ROWS && r->format->rows[t]; t++)
    for (int i = 0; r->status == SPP_OK && i < r->format->rows[t]->count; i++)
      match_row(r, r->format->rows[t]->row[i].when, r->format->rows[t]->row[i].text, &pattern);
  for (int i = 0; r->status == SPP_OK && i < r->framework->launch_count; i++)
    if (!said_before(r->framework, i))
      match_row(r, r->framework->launch[i].when, r->framework->launch[i].text, &pattern);
}

/* ---- what is left ---- */

struct names {
  const char **list, **values; /* values: of pieces of patterns */
  int count;
};

static bool make_names(struct spp_reading *r, struct names *names) {
  *names = (struct names){spp_arena_array(r->arena, MAX_NAMES, sizeof *names->list),
                          spp_arena_array(r->arena, MAX_NAMES, sizeof *names->values), 0};
  if (names->list && names->values) return true;
  r->status = spp_diag_oom(r->diag);
  return false;
}

static void add_name(struct spp_reading *r, struct names *names, const char *name, const char *value) {
  if (names->count == MAX_NAMES) return;
  const char *copy = spp_arena_strdup(r->arena, name);
  if (!copy) return;
  names->values[names->count] = value;
  names->list[names->count++] = copy;
}
static void add_names(struct spp_reading *r, struct names *names, const char *list) {
  char name[120];
  while (list && spp_names_next(&list, name, sizeof name)) {
    char *equals = strchr(name, '=');
    if (equals) *equals = '\0';
    add_name(r, names, name, "");
  }
}
static void add_pattern_names(struct spp_reading *r, struct names *names, const char *text,
                              struct spp_entries *pattern) {
  if (text[0] == '#' || !pattern_of(r, text, pattern)) return;
  for (int i = 0; i < pattern->count; i++)
    if (pattern->list[i].kind == SPP_ENTRY_FLAG)
      add_name(r, names, pattern->list[i].name, pattern->list[i].value);
}

/* Every flag of the format that there is a word about. */
static bool modelled_names(struct spp_reading *r, struct names *names) {
  struct spp_entries pattern;
  if (!make_names(r, names)) return false;
  r->status = spp_entries_init(&pattern, r->arena, r->format->name, MAX_PATTERN_WORDS, r->diag);
  for (int t = 0; t < SPP_MAX_FORMAT_ROWS && r->format->rows[t]; t++)
    for (int i = 0; r->status == SPP_OK && i < r->format->rows[t]->count; i++)
      add_pattern_names(r, names, r->format->rows[t]->row[i].text, &pattern);
  for (int i = 0; r->status == SPP_OK && i < r->framework->launch_count; i++)
    add_pattern_names(r, names, r->framework->launch[i].text, &pattern);
  if (r->status == SPP_OK) add_names(r, names, r->format->aliases);
  return r->status == SPP_OK;
}

static bool listed(const struct names *names, const char *name) {
  for (int i = 0; i < names->count; i++)
    if (strcmp(names->list[i], name) == 0) return true;
  return false;
}

/* Some row has this value, or leaves it to the user ($MASTER_ADDR), and did not apply for want of the others
 * it asks: nothing is amiss. */
static bool has_value(const struct names *names, const struct spp_entry *e) {
  for (int i = 0; i < names->count; i++) {
    const char *value = names->values[i];
    if (strcmp(names->list[i], e->name) != 0) continue;
    if ((value && value[0] == '$') || (is_fixed(value) && same_value(e->value, value))) return true;
  }
  return false;
}

static const char *note_about(const struct spp_format *f, const char *name) {
  for (int i = 0; f->notes && f->notes[i].flags; i++)
    if (spp_names_have(f->notes[i].flags, name)) return f->notes[i].why;
  return NULL;
}
/* The spelling of a near name as this command writes names: "--micro-batch-size". */
static const char *spelled_like(struct spp_reading *r, const struct spp_entry *e, const char *near) {
  size_t dashes = strspn(e->typed, "-+");
  char *text = spp_arena_printf(r->arena, "%.*s%s", (int)dashes, e->typed, near);
  for (char *c = text ? text + dashes : NULL; c && *c && strchr(e->typed + dashes, '-'); c++)
    if (*c == '_') *c = '-';
  return text;
}

/* Names of a line, each below each of its places. */
static void add_line(struct spp_reading *r, struct names *all, const char *line) {
  const char *names = spp_line_names(line);
  char path[200];
  if (!names) {
    add_names(r, all, line);
    return;
  }
  for (const char *place = line; place < names;) {
    const size_t n = strcspn(place, "|:");
    char name[120];
    for (const char *list = names; spp_names_next(&list, name, sizeof name);) {
      snprintf(path, sizeof path, "%.*s.%s", (int)spp_min64((int64_t)n, 79), place, name);
      add_name(r, all, path, "");
    }
    place += n + 1;
  }
}

/* Everything that could have been meant: `all` begins as the names of patterns. */
static void add_other_names(struct spp_reading *r, struct names *all) {
  for (int i = 0; r->format->notes && r->format->notes[i].flags; i++)
    add_names(r, all, r->format->notes[i].flags);
  for (int i = 0; i < SPP_MAX_FORMAT_ROWS && r->format->known[i]; i++)
    for (int line = 0; r->format->known[i][line]; line++)
      add_line(r, all, r->format->known[i][line]);
}

static void unknown(struct spp_reading *r, const struct spp_entry *e, const struct names *all) {
  const char *near = spp_suggest(e->name, all->list, all->count);
  if (near) near = spelled_like(r, e, near);
  if (near)
    spp_reading_say(r, SPP_IMPORT_UNKNOWN, e, near, "%s is no flag of %s: did you mean %s?", e->typed,
                    r->format->display, near);
  else
    spp_reading_say(r, SPP_IMPORT_UNKNOWN, e, NULL, "%s is no flag of %s that is known here: it was left out",
                    e->typed, r->format->display);
}

/* Where the ranks meet decides nothing. */
static const char meeting_place[] = "master_addr master_port main_process_ip main_process_port node_rank "
                                    "machine_rank rdzv_backend rdzv_conf rdzv_endpoint rdzv_id";

/* The same flag further on, or in the command where this one is in a file. */
static const struct spp_entry *overriding(const struct spp_reading *r, const struct spp_entry *e) {
  const struct spp_entry *last = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, e->name);
  return last != e && last->used ? last : NULL;
}

static void leftover(struct spp_reading *r, const struct spp_entry *e, const struct names *modelled,
                     const struct names *all) {
  const char *why = note_about(r->format, e->name);
  const struct spp_entry *last = overriding(r, e);
  if (last && e->value && last->value && !same_value(e->value, last->value))
    spp_reading_say(r, SPP_IMPORT_VALUE, e, NULL, "%s %s: %s %s counts instead", e->typed, e->value,
                    last->typed, last->value);
  else if (last)
    spp_reading_say(r, SPP_IMPORT_PASSED, e, NULL, "%s", e->typed);
  else if (listed(modelled, e->name) && !spp_names_have(meeting_place, e->name) &&
           !spp_value_is_false(e->value) && !has_value(modelled, e))
    spp_reading_say(r, SPP_IMPORT_VALUE, e, NULL, "%s %s: not a value that the prediction knows", e->typed,
                    e->value ? e->value : "");
  else if (why && !spp_value_is_false(e->value))
    spp_reading_say(r, SPP_IMPORT_UNMODELLED, e, NULL, "%s: %s", e->typed, why);
  else if (why || listed(modelled, e->name) || is_known(r->format, e->name) ||
           (e->launcher && spp_lines_have(spp_known_launchers, e->name)))
    spp_reading_say(r, SPP_IMPORT_PASSED, e, NULL, "%s", e->typed);
  else
    unknown(r, e, all);
}

void spp_reading_leftovers(struct spp_reading *r) {
  struct names modelled, all;
  if (r->status != SPP_OK || !modelled_names(r, &modelled) || !modelled_names(r, &all)) return;
  add_other_names(r, &all);
  for (int i = 0; i < r->entries.count && r->status == SPP_OK; i++) {
    const struct spp_entry *e = &r->entries.list[i];
    if (r->out->message_count == SPP_MAX_IMPORT_MESSAGES) return;
    if (e->kind == SPP_ENTRY_FLAG && !e->used && !e->assumed) leftover(r, e, &modelled, &all);
  }
}
