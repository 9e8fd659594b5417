#include "cli/mpirun.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

static const char ranks_variable[] = "SPPLAN_UNDER_MPIRUN"; /* how many were asked for */

bool spp_mpirun_inside(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS",
                                      ranks_variable};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (getenv(names[i])) return true;
  return false;
}

/* Is there a program of this name on the path? */
static bool on_path(const char *name) {
  const char *path = getenv("PATH");
  char file[4096];
  for (const char *at = path ? path : ""; *at;) {
    size_t length = strcspn(at, ":");
    snprintf(file, sizeof file, "%.*s/%s", (int)length, at, name);
    if (access(file, X_OK) == 0) return true;
    at += length + (at[length] == ':');
  }
  return false;
}

/* Ranks of one machine, as root too, more of them than processors. Open MPI is told by its environment, of
 * which MPICH (Hydra) takes no notice: it allows both anyhow. Open MPI 4 wants a remote shell to exist even
 * when it needs none. */
static void set_environment(const char *ranks) {
  static const char *const set[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                    "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_orte_execute_quiet"};
  setenv(ranks_variable, ranks, 1);
  for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
    setenv(set[i], "1", 1);
  setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0); /* Open MPI 5 */
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0); /* two ranks must not be tied to one processor */
  if (!on_path("ssh") && !on_path("rsh")) setenv("OMPI_MCA_plm_rsh_agent", "sh", 0);
}

/* In the child: becomes mpirun with the same command line. Never returns. */
static void become_mpirun(const struct spp_cli *cli, const char *ranks) {
  char program[4096];
  char **words = calloc((size_t)cli->argc + 4, sizeof *words);
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  char mpirun[] = "mpirun", n[] = "-n", count[32];
  if (!words) _exit(SPP_ERR_INTERNAL);
  if (length < 0) length = snprintf(program, sizeof program, "%s", cli->argv[0]);
  program[length] = '\0';
  snprintf(count, sizeof count, "%s", ranks);
  set_environment(ranks);
  words[0] = mpirun;
  words[1] = n;
  words[2] = count;
  words[3] = program;
  for (int i = 1; i < cli->argc; i++)
    words[3 + i] = cli->argv[i];
  execvp(mpirun, words);
  _exit(127);
}

/* Passes on the lines that are ours; true when there was one. */
static bool relay_errors(int from, bool all) {
  FILE *f = fdopen(from, "r");
  char *line = NULL;
  size_t size = 0;
  bool ours = false;
  if (!f) {
    close(from);
    return false;
  }
  while (getline(&line, &size, f) > 0) {
    bool mine = strncmp(line, "spplan: ", 8) == 0;
    if (mine || all) fputs(line, stderr);
    ours = ours || mine;
  }
  free(line);
  fclose(f);
  return ours;
}

static enum spp_status start_child(const struct spp_cli *cli, int64_t ranks, pid_t *child, int *errors,
                                   struct spp_diag *diag) {
  char count[32];
  int ends[2];
  snprintf(count, sizeof count, "%lld", (long long)ranks);
  if (pipe(ends) != 0)
    return spp_diag_set(diag, SPP_ERR_INTERNAL, "pipe", NULL, "cannot start mpirun: %s", strerror(errno));
  if ((*child = fork()) < 0) {
    close(ends[0]);
    close(ends[1]);
    return spp_diag_set(diag, SPP_ERR_INTERNAL, "fork", NULL, "cannot start mpirun: %s", strerror(errno));
  }
  if (*child == 0) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun ends its ranks when this command is killed */
#endif
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    become_mpirun(cli, count);
  }
  close(ends[1]);
  *errors = ends[0];
  return SPP_OK;
}

/* What the end of mpirun means. A rank that ends by itself has told why. */
static enum spp_status meaning(int ended, bool told, struct spp_diag *diag) {
  int code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  if (code == 127 && !told)
    return spp_diag_set(diag, SPP_ERR_ABSENT, "mpirun", "install Open MPI or MPICH", "cannot start it");
  if (code == SPP_OK || code == SPP_ERR_TOLERANCE || (told && code <= SPP_ERR_ABSENT))
    return (enum spp_status)code;
  if (code == SPP_INTERRUPTED) return SPP_INTERRUPTED;
  if (told) return SPP_ERR_TOLERANCE;
  char how[64];
  if (code > 128)
    snprintf(how, sizeof how, "signal %d", code - 128);
  else
    snprintf(how, sizeof how, "exit %d", code);
  return spp_diag_set(diag, SPP_ERR_TOLERANCE, "mpirun", "-v shows what it said",
                      "a rank or mpirun itself died (%s): nothing was concluded", how);
}

enum spp_status spp_mpirun_start(const struct spp_cli *cli, int64_t ranks, struct spp_diag *diag) {
  pid_t child = -1;
  int errors = -1, ended = 0;
  if (!on_path("mpirun"))
    return spp_diag_set(diag, SPP_ERR_ABSENT, "mpirun", "install Open MPI or MPICH", "cannot start it");
  enum spp_status status = start_child(cli, ranks, &child, &errors, diag);
  if (status != SPP_OK) return status;
  bool told = relay_errors(errors, cli->args.verbose > 0);
  while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
    continue;
  return meaning(ended, told, diag);
}

enum spp_status spp_mpirun_check(int job_ranks, struct spp_diag *diag) {
  const char *asked = getenv(ranks_variable);
  if (!asked || strcmp(asked, "1") == 0 || job_ranks != 1) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_ABSENT, "mpirun",
                      "put the mpirun of the MPI this was built with first on PATH",
                      "%s ranks were started and each is alone: it belongs to another MPI", asked);
}
