/* What a command or a configuration says, whatever its syntax: names and values in the order they stand. */
#ifndef SPP_INTEROP_ENTRY_H
#define SPP_INTEROP_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum spp_entry_kind {
  SPP_ENTRY_ENV,  /* a variable of the environment */
  SPP_ENTRY_WORD, /* a word of the command: program, script, sub-command */
  SPP_ENTRY_FLAG  /* a flag of the command, or a key of a file */
};
struct spp_entry {
  enum spp_entry_kind kind;
  const char *name;  /* without leading dashes, '-' as '_'; a key by its path, "zero_optimization.stage" */
  const char *value; /* words joined by blanks; NULL: a switch */
  const char *typed; /* the name as it stands in the file */
  const char *file;  /* where it stands */
  int line;
  bool assumed;  /* the framework's default: it stands nowhere */
  bool launcher; /* of torchrun, accelerate launch and the like, before the script */
  bool used;     /* a row of a table took it */
  bool opened;   /* a file of that name was looked for */
};

enum { SPP_MAX_ENTRIES = 4096, SPP_MAX_INTEROP_BYTES = 1 << 20, SPP_MAX_KEY_DEPTH = 32 };

/* Everything lives in the arena. */
struct spp_entries {
  struct spp_arena *arena;
  const char *file; /* the one that is being read */
  struct spp_entry *list;
  int count, capacity;
};
/* Room for `capacity` entries, at most SPP_MAX_ENTRIES. */
enum spp_status spp_entries_init(struct spp_entries *entries, struct spp_arena *arena, const char *file,
                                 int capacity, struct spp_diag *diag);
/* Copies name and value. SPP_ERR_INPUT: too many. */
enum spp_status spp_entries_add(struct spp_entries *entries, enum spp_entry_kind kind, const char *name,
                                const char *value, int line, struct spp_diag *diag);
/* The last entry of that kind and name, or NULL. */
struct spp_entry *spp_entries_find(const struct spp_entries *entries, enum spp_entry_kind kind,
                                   const char *name);

/* "FILE:LINE" in where. Returns SPP_ERR_INPUT. */
enum spp_status spp_entries_refuse(const struct spp_entries *entries, int line, const char *hint,
                                   struct spp_diag *diag, const char *what_fmt, ...) SPP_PRINTF(5, 6);

/* One word of a command, with the line it stands in. */
struct spp_word {
  const char *text;
  int line;
};
/* Words of one command, "NAME=value" in front of it included, as entries. */
enum spp_status spp_entries_command(struct spp_entries *entries, const struct spp_word *words, int count,
                                    struct spp_diag *diag);

/* Whether a value says yes (or no), as Python and YAML parsers read it. */
bool spp_value_is_true(const char *value);
bool spp_value_is_false(const char *value);
/* "a/b/c.py" -> "c.py". */
const char *spp_base_name(const char *path);

#endif
