/* Help, manual page and completion, all printed from the command and option tables. */
#ifndef SPP_CLI_HELP_H
#define SPP_CLI_HELP_H

#include "cli/command.h"

/* A dozen lines with examples: what a run without arguments shows. */
void spp_help_short(struct spp_str *out);
/* Everything; or one command when it is not NULL. Wrapped at `width`. */
void spp_help_full(const struct spp_command *command, int width, struct spp_str *out);
/* The manual page spplan(1) as roff. */
void spp_help_man(struct spp_str *out);
void spp_help_version(struct spp_str *out);

/* One option a line, with dashes; those of `command`, or the command names and those of plan when NULL. */
void spp_complete_options(const struct spp_command *command, struct spp_str *out);
/* One value a line of an option named with or without dashes; nothing when it has no fixed set. */
enum spp_status spp_complete_values(struct spp_cli *cli, const char *option, struct spp_str *out,
                                    struct spp_diag *diag);

/* The exit codes with their meaning, one table for help and manual. */
struct spp_exit_code {
  int code;
  const char *means;
};
extern const struct spp_exit_code spp_exit_codes[];
extern const int spp_exit_code_count;

#endif
