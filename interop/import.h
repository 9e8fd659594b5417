/* A framework's launch command or configuration -> settings of ours (the names and values that options take).
 */
#ifndef SPP_INTEROP_IMPORT_H
#define SPP_INTEROP_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "interop/format.h"
#include "model/arch.h"

struct spp_import_setting {
  const char *name;  /* of an option: "seq", "zero", "model", "framework" */
  const char *value; /* as it could be typed */
  const char *flag;  /* what said it, as typed */
  const char *file;
  int line;     /* 0: nowhere; derived, or a default of the framework */
  bool assumed; /* the framework's default */
};
enum spp_import_said {
  SPP_IMPORT_UNKNOWN,    /* no flag of the framework has this name */
  SPP_IMPORT_UNMODELLED, /* it has, and what it does is not in the prediction */
  SPP_IMPORT_VALUE,      /* a value that is not understood: the flag changes nothing here */
  SPP_IMPORT_UNSET,      /* a variable that the file does not set */
  SPP_IMPORT_NOTE,       /* anything else to know */
  SPP_IMPORT_PASSED,     /* known to change no prediction */
  SPP_IMPORT_SAID_COUNT
};
const char *spp_import_said_name(enum spp_import_said said);
struct spp_import_message {
  enum spp_import_said said;
  const char *flag;    /* as typed; NULL: of no flag */
  const char *nearest; /* of an unknown one; or NULL */
  const char *text;    /* one line for a person */
  const char *file;
  int line;
};
enum { SPP_MAX_IMPORT_SETTINGS = 96, SPP_MAX_IMPORT_MESSAGES = 512 };
struct spp_imported {
  const struct spp_format *format;
  const char *file;
  const struct spp_arch *arch; /* made of sizes that the command gives, and called as the setting "model"
                                  says; NULL: a known model, or none */
  struct spp_import_setting settings[SPP_MAX_IMPORT_SETTINGS];
  int setting_count;
  struct spp_import_message messages[SPP_MAX_IMPORT_MESSAGES];
  int message_count;
};
struct spp_import_text { /* a file that is not on disk */
  const char *name, *text;
};
struct spp_import_options {
  const char *config_dir;
  const struct spp_format *format;     /* NULL: found out */
  const char *model;                   /* said elsewhere; NULL: the file's */
  int64_t gpus;                        /* said elsewhere; 0: the file's */
  const struct spp_import_text *texts; /* looked at before the disk */
  int text_count;
};
/* Reads `path` ("-": standard input) and the files it refers to; everything lives in the arena.
 * SPP_ERR_INPUT: no framework's, or malformed, with file and line; SPP_ERR_ABSENT: YAML without libyaml. */
enum spp_status spp_import_file(const char *path, const struct spp_import_options *options,
                                struct spp_arena *arena, const struct spp_imported **imported,
                                struct spp_diag *diag);
/* The same from text, NUL-terminated at text[length]; `name` stands for the file. */
enum spp_status spp_import_text(const char *text, size_t length, const char *name,
                                const struct spp_import_options *options, struct spp_arena *arena,
                                const struct spp_imported **imported, struct spp_diag *diag);
const struct spp_import_setting *spp_imported_find(const struct spp_imported *imported, const char *name);

#endif
