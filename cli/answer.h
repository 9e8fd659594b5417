/* How every command ends: the answer in the form asked for, and the assertions on it. */
#ifndef SPP_CLI_ANSWER_H
#define SPP_CLI_ANSWER_H

#include "cli/command.h"

/* One answer in its forms; `what` is the command's own. */
struct spp_answer {
  const void *what;
  void (*text)(const void *what, const struct spp_cli *cli, struct spp_str *out);
  void (*json)(const void *what, struct spp_str *out);
  void (*csv)(const void *what, struct spp_str *out);
  void (*svg)(const void *what,
              struct spp_str *out); /* NULL where there is no picture: --svg is not an option there */
};
/* Appends to cli->out as --json, --csv, --svg or text, then checks each --assert against the JSON. */
enum spp_status spp_answer_give(struct spp_cli *cli, const struct spp_answer *answer, struct spp_diag *diag);

/* cli->out to --output or standard output. A reader that went away is no error. */
enum spp_status spp_answer_deliver(const struct spp_cli *cli, struct spp_diag *diag);
/* `out` to a file, whole or not at all, whatever interrupts. */
enum spp_status spp_answer_write_file(const char *path, const struct spp_str *out, struct spp_diag *diag);
/* Before a long computation: can --output and --trace be written? */
enum spp_status spp_answer_check_output(const struct spp_cli *cli, struct spp_diag *diag);

/* An answer that could not be written. Of a measurement it is lost for want of a place, not wrong input:
 * SPP_ERR_ABSENT. */
enum spp_status spp_answer_lost(const struct spp_cli *cli, enum spp_status status, struct spp_diag *diag);

#endif
