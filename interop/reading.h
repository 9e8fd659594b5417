/* A command on its way to settings: shared by the steps of an import. */
#ifndef SPP_INTEROP_READING_H
#define SPP_INTEROP_READING_H

#include "interop/entry.h"
#include "interop/import.h"
#include "model/arch.h"
#include "model/framework.h"

/* A value of the job that the command gives: by a name of model/values.h. */
struct spp_binding {
  const char *name, *value;
  const struct spp_entry *entry;
  int strength; /* how many words of the file say so */
};
enum { SPP_MAX_BINDINGS = 256 };
struct spp_reading {
  struct spp_arena *arena;
  const struct spp_import_options *options;
  const struct spp_format *format;
  const struct spp_framework *framework;
  const struct spp_arch *arch; /* NULL: not known */
  struct spp_entries entries;
  struct spp_binding bindings[SPP_MAX_BINDINGS];
  int binding_count;
  struct spp_imported *out;
  enum spp_status status; /* the first thing that went wrong; later steps do nothing */
  struct spp_diag *diag;
};

/* ---- match.c: entries -> bindings ---- */

/* Old names become the new ones, and what the framework assumes is added. */
void spp_reading_complete(struct spp_reading *reading);
/* Rows of the format, then launch words of the framework: each that the entries say. */
void spp_reading_match(struct spp_reading *reading);
/* Entries that no row took: unknown, passed over, not modelled, not understood. */
void spp_reading_leftovers(struct spp_reading *reading);

void spp_reading_bind(struct spp_reading *reading, const char *name, const char *value,
                      const struct spp_entry *entry);
void spp_reading_unbind(struct spp_reading *reading, const char *name);
const struct spp_binding *spp_reading_find(const struct spp_reading *reading, const char *name);
/* The whole number bound to a name, at least 1 (refused otherwise, by file and line); `fallback` when there
 * is none. */
int64_t spp_reading_number(struct spp_reading *reading, const char *name, int64_t fallback);
/* One that may be written as a word of some length; NULL when there is none. */
const char *spp_reading_word(const struct spp_reading *reading, const char *name);
/* The value of an entry of the command or configuration that is there, or NULL. */
const char *spp_reading_flag(const struct spp_reading *reading, const char *name);
void spp_reading_say(struct spp_reading *reading, enum spp_import_said said, const struct spp_entry *entry,
                     const char *nearest, const char *text_fmt, ...) SPP_PRINTF(5, 6);

/* ---- agree.c ---- */

/* What a DeepSpeed configuration and the Trainer's arguments say of the batch: a difference is said, and what
 * the command types counts. */
void spp_reading_agree(struct spp_reading *reading);

/* ---- sizes.c ---- */

/* The model that a Megatron-LM command gives by its sizes, with `vocab` rows; NULL: not of a kind that is
 * known (hybrids, windows) or a size is missing. Lives in the arena. */
const struct spp_arch *spp_reading_sized_model(struct spp_reading *reading, int64_t vocab);

/* ---- settle.c: bindings -> settings ---- */

void spp_reading_settle(struct spp_reading *reading);
/* GPUs of the job: said elsewhere, or by the command; 0: nobody said. */
int64_t spp_reading_gpus(struct spp_reading *reading);

#endif
