/* Commands whose ranks are processes of an MPI job: inside one they take part, outside they start their own.
 */
#ifndef SPP_CLI_MPIRUN_H
#define SPP_CLI_MPIRUN_H

#include "cli/command.h"

/* Was this process started by mpirun or srun? */
bool spp_mpirun_inside(void);

/* Runs the same command line again under `mpirun -n ranks` and passes its answer on. *status: that of the
 * job; what it complained of has been printed, or is in diag. The launcher's own words are dropped. A job
 * that dies is SPP_ERR_TOLERANCE; no launcher is SPP_ERR_ABSENT. */
enum spp_status spp_mpirun_start(const struct spp_cli *cli, int64_t ranks, struct spp_diag *diag);

/* After the job has begun: does it have the ranks that spp_mpirun_start asked for? SPP_ERR_ABSENT when each
 * process is alone, as under a launcher of another MPI. */
enum spp_status spp_mpirun_check(int job_ranks, struct spp_diag *diag);

#endif
