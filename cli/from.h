/* --from FILE: the job of a saved answer, of a command line of ours, or of a framework's command or
 * configuration. */
#ifndef SPP_CLI_FROM_H
#define SPP_CLI_FROM_H

#include "cli/command.h"

/* Inputs of the JSON that plan, predict, the interface and the others write, into every field that no flag
 * set; predict and alloc take the layout of its plan number --rank too. What the file says, or leaves open,
 * is not looked up in the environment or the user's config file (cli->saved). SPP_ERR_INPUT with the JSON
 * path. A command line of ours gives its options, whatever its command. Anything else is read as a
 * framework's (interop/import.h): cli->imported. `path` may be such a command itself. */
enum spp_status spp_cli_from(struct spp_cli *cli, const char *path, struct spp_diag *diag);
/* A command typed in place of a file's name: several words, and no file is called so. */
bool spp_cli_from_is_command(const char *path);

#endif
