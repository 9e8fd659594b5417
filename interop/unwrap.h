/* Commands that only start another: bash -c '...', eval, docker run ... COMMAND, nsys profile, ssh. */
#ifndef SPP_INTEROP_UNWRAP_H
#define SPP_INTEROP_UNWRAP_H

#include "interop/shell.h"

/* In place of each such command those that it starts, with the variables set in front of it and the words of
 * srun or mpirun; a text that is no script in turn (an unclosed quote) is left as it stands. Everything lives
 * in the arena. SPP_ERR_INPUT: more than SPP_MAX_COMMANDS. */
enum spp_status spp_shell_unwrap(struct spp_script *script, const char *file, struct spp_arena *arena,
                                 struct spp_diag *diag);

#endif
