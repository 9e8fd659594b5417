/* --from FILE: the job of a saved answer, or of a framework's command or configuration. */
#ifndef SPP_CLI_FROM_H
#define SPP_CLI_FROM_H

#include "cli/command.h"

/* Inputs of the JSON that plan, predict, the interface and the others write, into every field that no flag
 * set; predict and alloc take the layout of its plan number --rank too. What the file says, or leaves open,
 * is not looked up in the environment or the user's config file (cli->saved). SPP_ERR_INPUT with the JSON
 * path. Anything else is read as a framework's (interop/import.h): cli->imported. */
enum spp_status spp_cli_from(struct spp_cli *cli, const char *path, struct spp_diag *diag);

#endif
