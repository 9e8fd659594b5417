#ifndef SPP_INTEROP_EXPORT_INTERNAL_H
#define SPP_INTEROP_EXPORT_INTERNAL_H

#include "base/strbuf.h"
#include "interop/export.h"

/* Words of a command line into words[max], in the arena; -1 without memory. */
int spp_export_words(struct spp_arena *arena, const char *text, const char **words, int max);
void spp_export_command(struct spp_str *out, const char *const *words, int count);

/* A configuration that takes flags off a command. */
struct spp_export_config {
  const char *file, *flag; /* flag that names it; NULL: a word */
  bool launcher;           /* the flags of accelerate's launcher, else those of the script */
  enum spp_syntax syntax;
  const char *aliases; /* of the format: where the launcher's flags stand in its file */
};
/* Flags among words[count] as a configuration, dotted names in groups; what is left of the command stays in
 * words, which have room for two more, with the file named. How many are left; -1 without memory. */
int spp_export_configuration(struct spp_str *out, struct spp_arena *arena,
                             const struct spp_export_config *config, const char **words, int count);

/* A DeepSpeed configuration for Trainer flags: the stage and what is offloaded; the rest is "auto". */
void spp_export_deepspeed(struct spp_str *out, const struct spp_layout *layout);

/* Fills exported->lost: imports the files, completes the job again, and compares it field by field. */
enum spp_status spp_export_read_back(const struct spp_format *format, const char *config_dir,
                                     const struct spp_job *job, const struct spp_layout *layout,
                                     struct spp_arena *arena, struct spp_exported *exported,
                                     struct spp_diag *diag);

#endif
