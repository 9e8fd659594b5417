/* What Slurm's directives say: "#SBATCH --nodes=4" at the head of a script. */
#ifndef SPP_INTEROP_SLURM_H
#define SPP_INTEROP_SLURM_H

#include <stdbool.h>
#include <stddef.h>

/* The variables that Slurm sets in a job of this directive: "SLURM_NNODES=4" and the like into
 * assignments[max]; how many. `line` begins at '#' and has `length` bytes. */
enum { SPP_SLURM_NAMES = 2, SPP_SLURM_BYTES = 64 };
int spp_slurm_read(const char *line, size_t length, char assignments[][SPP_SLURM_BYTES], int max);

#endif
