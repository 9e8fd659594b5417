#ifndef SPP_INTEROP_EXPORT_INTERNAL_H
#define SPP_INTEROP_EXPORT_INTERNAL_H

#include "base/strbuf.h"
#include "interop/export.h"

/* Words of a command line into words[max], in the arena; -1 without memory. */
int spp_export_words(struct spp_arena *arena, const char *text, const char **words, int max);
void spp_export_command(struct spp_str *out, const char *const *words, int count);

/* Flags among words[count] as YAML, dotted names nested; what is left of the command stays in words, with
 * `file` at its end. How many are left; -1 without memory. */
int spp_export_yaml(struct spp_str *out, struct spp_arena *arena, const char **words, int count,
                    const char *file);

/* A DeepSpeed configuration for Trainer flags: the stage and what is offloaded; the rest is "auto". */
void spp_export_deepspeed(struct spp_str *out, const struct spp_layout *layout);

/* Fills exported->lost: imports the files, completes the job again, and compares it field by field. */
enum spp_status spp_export_read_back(const struct spp_format *format, const char *config_dir,
                                     const struct spp_job *job, const struct spp_layout *layout,
                                     struct spp_arena *arena, struct spp_exported *exported,
                                     struct spp_diag *diag);

#endif
