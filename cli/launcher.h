/* Which mpirun starts ranks of the MPI library that this program was built with: a launcher of another one
 * starts processes that do not know of each other. */
#ifndef SPP_CLI_LAUNCHER_H
#define SPP_CLI_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Libraries whose launchers understand each other's processes. MPICH stands for all that start ranks by
 * Hydra: MVAPICH and Intel MPI too. */
enum spp_mpi { SPP_MPI_UNKNOWN, SPP_MPI_OPEN, SPP_MPI_MPICH };

/* By what MPI_Get_library_version or the launcher's --version says. */
enum spp_mpi spp_mpi_of(const char *words);

/* Is there a program of this name on the path? */
bool spp_launcher_on_path(const char *name);

/* The first of mpirun, mpiexec and the names that distributions give them beside another MPI which belongs to
 * `library`, into `name`; one that tells nothing (a wrapper) is taken when no other is there. SPP_ERR_ABSENT:
 * none, or all belong to another library. */
enum spp_status spp_launcher_find(const char *library, char *name, size_t size, struct spp_diag *diag);

/* The job's launcher gave this process a rank, and the job more than one: which rank; -1 where none did.
 * Tells the same of Open MPI and of Hydra, and of Slurm's PMI. */
int spp_launcher_rank(void);
int spp_launcher_ranks(void);

#endif
