/* Commands whose ranks are processes of an MPI job: inside one they take part, outside they start their own.
 */
#ifndef SPP_CLI_MPIRUN_H
#define SPP_CLI_MPIRUN_H

#include "cli/command.h"
#include "exec/backend.h"

/* Was this process started by mpirun or srun? */
bool spp_mpirun_inside(void);

/* Runs the same command line again under the launcher that belongs to the library of `backend`, with this
 * many ranks: its answer goes to cli->out, what it complained of has been printed, or is in diag; the
 * launcher's own words are dropped. A job that dies is SPP_ERR_TOLERANCE; no launcher is SPP_ERR_ABSENT. */
enum spp_status spp_mpirun_start(struct spp_cli *cli, int64_t ranks, const struct spp_backend *backend,
                                 struct spp_diag *diag);

/* After the job has begun: does it have the ranks that were asked for? SPP_ERR_ABSENT when each process is
 * alone, as under a launcher of another MPI; in all but one of them with nothing to say. */
enum spp_status spp_mpirun_check(int job_ranks, struct spp_diag *diag);

#endif
