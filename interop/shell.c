#include "interop/shell.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "interop/arith.h"
#include "interop/slurm.h"

enum { MAX_VARIABLES = 512, MAX_WORD_BYTES = 1 << 16 };

struct variable {
  const char *name;
  const struct spp_word *words; /* one, or those of an array */
  int count;
  bool exported;
};

struct reader {
  const char *text;
  size_t length, at;
  int line;
  struct spp_entries place; /* for messages */
  struct spp_arena *arena;
  struct spp_script *script;
  struct variable variables[MAX_VARIABLES];
  int variable_count;
  struct spp_word *words; /* all words there are; those of the command begin at `first` */
  int word_count, first;
  size_t expanded_bytes;
  struct spp_str word; /* the one being read */
  bool in_word, continued, skip_word, exporting;
  int cut_line, array_first; /* array_first: where the words of NAME=( begin; -1 outside */
  char heredoc[64];
  enum spp_status status;
  struct spp_diag *diag;
};

static void refuse(struct reader *r, int line, const char *what, const char *hint) {
  if (r->status == SPP_OK) r->status = spp_entries_refuse(&r->place, line, hint, r->diag, "%s", what);
}

/* ---- words ---- */

static void put(struct reader *r, const char *bytes, size_t n) {
  r->in_word = true;
  if (r->word.len + n > MAX_WORD_BYTES) {
    refuse(r, r->line, "a word is longer than 64 KiB", "give the launch script only");
    return;
  }
  spp_str_addn(&r->word, bytes, n);
}

static void end_word(struct reader *r) {
  if (!r->in_word || r->status != SPP_OK) return;
  r->in_word = false;
  if (r->skip_word) {
    r->skip_word = false;
  } else if (r->word_count == SPP_MAX_SHELL_WORDS) {
    refuse(r, r->line, "more than 8192 words", "give the launch script only");
  } else {
    const char *text = spp_arena_strdup(r->arena, spp_str_text(&r->word));
    if (!text) r->status = spp_diag_oom(r->diag);
    r->words[r->word_count++] = (struct spp_word){text, r->line};
  }
  spp_str_clear(&r->word);
}

/* ---- variables ---- */

static struct variable *find(struct reader *r, const char *name, size_t length) {
  for (int i = 0; i < r->variable_count; i++)
    if (strncmp(r->variables[i].name, name, length) == 0 && !r->variables[i].name[length])
      return &r->variables[i];
  return NULL;
}

static size_t name_length(const char *text) {
  size_t n = 0;
  if (isdigit((unsigned char)text[0])) return 0;
  while (isalnum((unsigned char)text[n]) || text[n] == '_')
    n++;
  return n;
}

/* "NAME=value" or "NAME+=value": the lengths of the name and of the operator; false for any other word. */
static bool is_assignment(const char *word, size_t *name, size_t *op) {
  *name = name_length(word);
  *op = *name == 0 ? 0 : word[*name] == '=' ? 1 : word[*name] == '+' && word[*name + 1] == '=' ? 2 : 0;
  return *op > 0;
}

static void set(struct reader *r, const char *word, const struct spp_word *values, int count, bool exported) {
  size_t length, op;
  if (r->status != SPP_OK || !is_assignment(word, &length, &op)) return;
  struct variable *v = find(r, word, length);
  if (!v) {
    if (r->variable_count == MAX_VARIABLES) {
      refuse(r, r->line, "more than 512 variables", "give the launch script only");
      return;
    }
    v = &r->variables[r->variable_count++];
    *v = (struct variable){.name = spp_arena_printf(r->arena, "%.*s", (int)length, word)};
  }
  struct spp_word *all = spp_arena_array(r->arena, (size_t)(count + v->count) + 1, sizeof *all);
  if (!v->name || !all) {
    v->name = "";
    r->status = spp_diag_oom(r->diag);
    return;
  }
  int kept = op == 2 ? v->count : 0;
  if (kept) memcpy(all, v->words, (size_t)kept * sizeof *all);
  if (count) memcpy(all + kept, values, (size_t)count * sizeof *all);
  v->words = all, v->count = kept + count, v->exported |= exported;
}

/* The value in place of $NAME: cut at blanks outside of quotes. */
static void put_value(struct reader *r, const struct variable *v, bool quoted) {
  for (int i = 0; i < v->count && r->status == SPP_OK; i++) {
    const char *text = v->words[i].text;
    size_t n = strlen(text);
    if ((r->expanded_bytes += n + 1) > SPP_MAX_INTEROP_BYTES) {
      refuse(r, r->line, "variables expand to more than 1 MiB", "give the launch script only");
      return;
    }
    if (i) end_word(r);
    if (quoted) {
      put(r, text, n);
      continue;
    }
    for (size_t at = 0; at < n && r->status == SPP_OK;) {
      size_t word = strcspn(text + at, " \t\n"), blank = strspn(text + at + word, " \t\n");
      if (word) put(r, text + at, word);
      if (blank) end_word(r);
      at += word + blank;
    }
  }
}

/* The text to the closing bracket that belongs to the one at r->at, as it stands. */
static void put_balanced(struct reader *r, char open, char close) {
  size_t start = r->at;
  int depth = 0, line = r->line;
  for (; r->at < r->length; r->at++) {
    char c = r->text[r->at];
    r->line += c == '\n';
    depth += c == open ? 1 : c == close ? -1 : 0;
    if (depth > 0 || c != close) continue;
    r->at++;
    put(r, r->text + start, r->at - start);
    return;
  }
  refuse(r, line, "a bracket after $ is not closed", "close it");
}

/* ${NAME}, ${NAME[@]}, ${NAME:-default}; anything else stays. */
static void expand_braces(struct reader *r, bool quoted) {
  const char *name = r->text + r->at + 1;
  size_t n = name_length(name), rest;
  const char *close = memchr(name, '}', r->length - r->at - 1);
  if (!close) {
    refuse(r, r->line, "${ is not closed", "close it with }");
    return;
  }
  const struct variable *v = find(r, name, n);
  const char *after = name + n;
  if (strncmp(after, "[@]", 3) == 0 || strncmp(after, "[*]", 3) == 0) after += 3;
  rest = (size_t)(close - after);
  bool has_default =
      n > 0 && rest > 0 &&
      (after[0] == '-' || (rest > 1 && (after[0] == ':' && (after[1] == '-' || after[1] == '='))));
  size_t skip = has_default ? (after[0] == ':' ? 2 : 1) : 0;
  if (n == 0 || (rest > 0 && !has_default) || memchr(after, '{', rest)) {
    put(r, "$", 1);
    put_balanced(r, '{', '}');
    return;
  }
  if (v)
    put_value(r, v, quoted);
  else if (has_default)
    put(r, after + skip, rest - skip);
  else
    put(r, r->text + r->at - 1, (size_t)(close - (r->text + r->at)) + 2);
  for (const char *c = name; c < close; c++)
    r->line += *c == '\n';
  r->at = (size_t)(close - r->text) + 1;
}

static bool number_of(void *context, const char *name, size_t length, int64_t *value) {
  const struct variable *v = find(context, name, length);
  const char *text = v && v->count == 1 ? v->words[0].text : "";
  size_t n = strspn(text, "0123456789");
  *value = 0;
  if (n == 0 || n > 18 || text[n]) return false;
  for (; *text; text++)
    *value = *value * 10 + (*text - '0');
  return true;
}

/* At the first '(' of $((...)): its value, when every name in it has one; false leaves all as it is. */
static bool put_arithmetic(struct reader *r) {
  const char *text = r->text + r->at;
  const size_t left = r->length - r->at;
  char number[32];
  int64_t value;
  int depth = 0;
  size_t n = 0;
  if (left < 2 || text[1] != '(') return false;
  do
    depth += text[n] == '(' ? 1 : text[n] == ')' ? -1 : 0;
  while (++n < left && depth > 0);
  if (depth > 0 || text[n - 2] != ')' || memchr(text, '\n', n)) return false;
  if (!spp_arith(text + 2, n - 4, number_of, r, &value)) return false;
  put(r, number, (size_t)snprintf(number, sizeof number, "%" PRId64, value));
  r->at += n;
  return true;
}

/* At '$'. */
static void expand(struct reader *r, bool quoted) {
  const char *name = r->text + r->at + 1;
  size_t n = r->at + 1 < r->length ? name_length(name) : 0;
  char next = r->at + 1 < r->length ? *name : '\0';
  if (next == '{' || next == '(') {
    r->at++;
    if (next == '{') {
      expand_braces(r, quoted);
    } else if (!put_arithmetic(r)) {
      put(r, "$", 1);
      put_balanced(r, '(', ')');
    }
    return;
  }
  const struct variable *v = n ? find(r, name, n) : NULL;
  if (v)
    put_value(r, v, quoted);
  else
    put(r, r->text + r->at, n + 1);
  r->at += n + 1;
}

/* ---- quotes ---- */

static void read_quoted(struct reader *r, char quote) {
  const int line = r->line;
  r->in_word = true;
  for (r->at++; r->at < r->length && r->status == SPP_OK;) {
    char c = r->text[r->at];
    if (c == quote) {
      r->at++;
      return;
    }
    r->line += c == '\n';
    if (c == '$' && quote == '"') {
      expand(r, true);
    } else if (c == '\\' && quote == '"' && r->at + 1 < r->length && strchr("\"\\$`\n", r->text[r->at + 1])) {
      if (r->text[r->at + 1] != '\n') put(r, r->text + r->at + 1, 1);
      r->line += r->text[r->at + 1] == '\n';
      r->at += 2;
    } else {
      put(r, r->text + r->at++, 1);
    }
  }
  refuse(r, line,
         quote == '"'   ? "a \" is not closed"
         : quote == '`' ? "a ` is not closed"
                        : "a ' is not closed",
         "close the quote");
}

/* ---- commands ---- */

static bool is_keyword(const char *word) {
  static const char *const words[] = {"then", "do", "else", "time", "exec", "nohup", "sudo", "env", "{", "!"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(word, words[i]) == 0) return true;
  return false;
}

/* Assignments alone set variables; "export" and "declare -x" too. */
static bool take_assignments(struct reader *r, const struct spp_word *words, int count) {
  size_t name, op;
  bool exports =
      count > 0 && (strcmp(words[0].text, "export") == 0 || strcmp(words[0].text, "declare") == 0 ||
                    strcmp(words[0].text, "local") == 0 || strcmp(words[0].text, "readonly") == 0);
  for (int i = exports; i < count; i++)
    if (!is_assignment(words[i].text, &name, &op) && !(exports)) return false;
  for (int i = exports; i < count; i++) {
    if (!is_assignment(words[i].text, &name, &op)) {
      struct variable *v = exports ? find(r, words[i].text, strlen(words[i].text)) : NULL;
      if (v) v->exported = true; /* export NAME */
      continue;
    }
    struct spp_word value = {words[i].text + name + op, words[i].line};
    set(r, words[i].text, &value, 1, exports && strcmp(words[0].text, "export") == 0);
  }
  return true;
}

static void end_command(struct reader *r) {
  end_word(r);
  if (r->status != SPP_OK) return;
  while (r->first < r->word_count && is_keyword(r->words[r->first].text))
    r->first++;
  int count = r->word_count - r->first;
  const struct spp_word *words = r->words + r->first;
  if (count > 0 && !take_assignments(r, words, count)) {
    if (r->script->count == SPP_MAX_COMMANDS)
      refuse(r, r->line, "more than 512 commands", "give the launch script only");
    else
      r->script->commands[r->script->count++] = (struct spp_command_line){words, count, r->cut_line};
  }
  r->first = r->word_count;
  r->continued = r->skip_word = false;
  r->cut_line = 0;
}

/* NAME=( ... ): its words are an array. */
static void end_array(struct reader *r) {
  end_word(r);
  if (r->status != SPP_OK) return;
  const char *name = r->words[r->array_first - 1].text;
  set(r, name, r->words + r->array_first, r->word_count - r->array_first, false);
  r->word_count = r->array_first - 1; /* the words live on in the copy */
  r->array_first = -1;
}

/* <<MARK: the text to the line that is MARK is no command. */
static void skip_heredoc(struct reader *r) {
  const int line = r->line;
  size_t n = strlen(r->heredoc);
  while (r->at < r->length) {
    size_t start = r->at + strspn(r->text + r->at, "\t"), end = start;
    while (end < r->length && r->text[end] != '\n')
      end++;
    r->at = end < r->length ? end + 1 : end;
    r->line++;
    if (end - start == n && memcmp(r->text + start, r->heredoc, n) == 0) {
      r->heredoc[0] = '\0';
      return;
    }
  }
  refuse(r, line, "the end of a here-document is missing", "give the whole script");
}

/* At '<' or '>': the word after is a file, of no interest. */
static void redirect(struct reader *r) {
  if (strspn(spp_str_text(&r->word), "0123456789") == r->word.len) { /* 2> */
    spp_str_clear(&r->word);
    r->in_word = false;
  }
  end_word(r);
  if (r->at + 2 < r->length && strncmp(r->text + r->at, "<<", 2) == 0 && r->text[r->at + 2] != '<') {
    size_t n = 0;
    r->at += 2;
    r->at += strspn(r->text + r->at, "- \"'\\");
    while (r->at < r->length && n + 1 < sizeof r->heredoc &&
           (isalnum((unsigned char)r->text[r->at]) || r->text[r->at] == '_'))
      r->heredoc[n++] = r->text[r->at++];
    r->heredoc[n] = '\0';
    r->at += strspn(r->text + r->at, "\"'");
    return;
  }
  r->at += strspn(r->text + r->at, "<>&|");
  r->skip_word = true;
}

static void end_line(struct reader *r) {
  r->at++;
  if (r->array_first >= 0)
    end_word(r);
  else
    end_command(r);
  r->line++;
  if (r->heredoc[0]) skip_heredoc(r);
}

static void comment(struct reader *r) {
  if (r->continued && r->array_first < 0 && r->word_count > r->first) r->cut_line = r->line;
  const size_t start = r->at;
  char assignments[SPP_SLURM_NAMES][SPP_SLURM_BYTES];
  while (r->at < r->length && r->text[r->at] != '\n')
    r->at++;
  int count = spp_slurm_read(r->text + start, r->at - start, assignments, SPP_SLURM_NAMES);
  for (int i = 0; i < count; i++) {
    const struct spp_word value = {spp_arena_strdup(r->arena, strchr(assignments[i], '=') + 1), r->line};
    if (value.text)
      set(r, assignments[i], &value, 1, true);
    else
      r->status = spp_diag_oom(r->diag);
  }
}

static void backslash(struct reader *r) {
  size_t n = r->at + 1 < r->length && r->text[r->at + 1] == '\r' ? 2 : 1;
  if (r->at + n < r->length && r->text[r->at + n] == '\n') {
    r->line++, r->at += n + 1;
    r->continued = true;
    return;
  }
  if (r->at + 1 < r->length) put(r, r->text + r->at + 1, 1);
  r->at += 2;
}

static void step(struct reader *r) {
  size_t name, op;
  char c = r->text[r->at];
  if (c == '\0') {
    refuse(r, r->line, "a NUL byte", "give a text file");
  } else if (c == '\n') {
    end_line(r);
  } else if (c == ' ' || c == '\t' || c == '\r') {
    end_word(r), r->at++;
  } else if (c == '\\') {
    backslash(r);
  } else if (c == '#' && !r->in_word) {
    comment(r);
  } else if (c == '\'' || c == '"' || c == '`') {
    read_quoted(r, c);
  } else if (c == '$') {
    expand(r, false);
  } else if (c == '(' && r->in_word && r->array_first < 0 &&
             is_assignment(spp_str_text(&r->word), &name, &op) && !spp_str_text(&r->word)[name + op]) {
    end_word(r);
    r->array_first = r->word_count, r->at++;
  } else if (c == ')' && r->array_first >= 0) {
    end_array(r), r->at++;
  } else if (c == '<' || c == '>') {
    redirect(r);
  } else if (strchr(";&|()", c) && r->array_first < 0) {
    end_command(r), r->at++;
  } else {
    put(r, &c, 1), r->at++;
  }
}

static void list_exported(struct reader *r) {
  struct spp_word *list = spp_arena_array(r->arena, (size_t)r->variable_count + 1, sizeof *list);
  int count = 0;
  for (int i = 0; list && i < r->variable_count; i++) {
    const struct variable *v = &r->variables[i];
    if (!v->exported || v->count == 0) continue;
    list[count].line = v->words[0].line;
    list[count].text = spp_arena_printf(r->arena, "%s=%s", v->name, v->words[0].text);
    if (!list[count++].text) list = NULL;
  }
  if (!list) r->status = spp_diag_oom(r->diag);
  r->script->exported = list, r->script->exported_count = count;
}

static void set_given(struct reader *r, const struct spp_shell_start *start) {
  for (int i = 0; start && i < start->given_count; i++) {
    size_t name, op;
    if (!is_assignment(start->given[i].text, &name, &op)) continue;
    const struct spp_word value = {start->given[i].text + name + op, start->given[i].line};
    set(r, start->given[i].text, &value, 1, true);
  }
}

enum spp_status spp_shell_read(const char *text, size_t length, const char *file,
                               const struct spp_shell_start *start, struct spp_arena *arena,
                               struct spp_script *script, struct spp_diag *diag) {
  struct reader *r = spp_arena_alloc(arena, sizeof *r);
  struct spp_word *words = spp_arena_array(arena, SPP_MAX_SHELL_WORDS + 1, sizeof *words);
  if (!r || !words) return spp_diag_oom(diag);
  memset(script, 0, sizeof *script);
  *r = (struct reader){.text = text,
                       .length = length,
                       .line = start ? start->line : 1,
                       .arena = arena,
                       .script = script,
                       .place = {.file = file},
                       .words = words,
                       .array_first = -1,
                       .diag = diag};
  spp_str_init(&r->word);
  set_given(r, start);
  while (r->at < r->length && r->status == SPP_OK)
    step(r);
  if (r->array_first >= 0) refuse(r, r->line, "an array NAME=( is not closed", "close it with )");
  if (r->heredoc[0]) refuse(r, r->line, "the end of a here-document is missing", "give the whole script");
  end_command(r);
  if (r->status == SPP_OK) list_exported(r);
  if (r->word.failed && r->status == SPP_OK) r->status = spp_diag_oom(diag);
  spp_str_free(&r->word);
  return r->status;
}
