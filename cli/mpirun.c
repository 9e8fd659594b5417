#include "cli/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/strbuf.h"
#include "cli/launcher.h"

static const char ranks_variable[] = "SPPLAN_UNDER_MPIRUN"; /* how many were asked for */

bool spp_mpirun_inside(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS",
                                      ranks_variable};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (getenv(names[i])) return true;
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
  if (!spp_launcher_on_path("ssh") && !spp_launcher_on_path("rsh")) setenv("OMPI_MCA_plm_rsh_agent", "sh", 0);
}

/* What the command starts: its launcher and how many ranks. */
struct launch {
  char launcher[32], ranks[32];
};

/* In the child: becomes mpirun with the same command line. Never returns. */
static void become_mpirun(const struct spp_cli *cli, struct launch *launch) {
  char program[4096];
  char **words = calloc((size_t)cli->argc + 4, sizeof *words);
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  char n[] = "-n";
  if (!words) _exit(SPP_ERR_INTERNAL);
  if (length < 0) length = snprintf(program, sizeof program, "%s", cli->argv[0]);
  program[length] = '\0';
  set_environment(launch->ranks);
  words[0] = launch->launcher;
  words[1] = n;
  words[2] = launch->ranks;
  words[3] = program;
  for (int i = 1; i < cli->argc; i++)
    words[3 + i] = cli->argv[i];
  execvp(launch->launcher, words);
  _exit(127);
}

/* What the job says: its answer, and its complaints line by line. */
struct said {
  struct spp_str answer, line, last;
  bool all;  /* complaints of the launcher too */
  bool told; /* one was ours */
};

/* Ranks that fail alike say the same: it is passed on once. */
static void end_line(struct said *s) {
  bool ours = strncmp(spp_str_text(&s->line), "spplan: ", 8) == 0;
  bool repeated = ours && strcmp(spp_str_text(&s->line), spp_str_text(&s->last)) == 0;
  if ((ours || s->all) && !repeated) fputs(spp_str_text(&s->line), stderr);
  if (ours) {
    spp_str_clear(&s->last);
    spp_str_add(&s->last, spp_str_text(&s->line));
    s->told = true;
  }
  spp_str_clear(&s->line);
}
static void take_complaints(struct said *s, const char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    spp_str_addc(&s->line, bytes[i]);
    if (bytes[i] == '\n') end_line(s);
  }
}

/* Until both are closed. */
static void listen_to(int answer, int complaints, struct said *s) {
  struct pollfd from[] = {{.fd = answer, .events = POLLIN}, {.fd = complaints, .events = POLLIN}};
  char bytes[4096];
  while (from[0].fd >= 0 || from[1].fd >= 0) {
    if (poll(from, 2, -1) < 0 && errno != EINTR) break;
    for (int i = 0; i < 2; i++) {
      if (from[i].fd < 0 || !from[i].revents) continue;
      ssize_t n = read(from[i].fd, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        from[i].fd = -1;
      else if (i == 0)
        spp_str_addn(&s->answer, bytes, (size_t)n);
      else
        take_complaints(s, bytes, (size_t)n);
      from[i].revents = 0;
    }
  }
  if (s->line.len > 0) end_line(s);
}

struct child {
  pid_t pid;
  int answer, complaints;
};

static enum spp_status cannot_start(const char *call, struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INTERNAL, call, NULL, "cannot start mpirun: %s", strerror(errno));
}

/* mpirun must hear of an end once, by that of this command: Open MPI 4 that hears twice leaves its files
 * behind, or waits for ever while it starts ranks. Ctrl-C, a closed terminal and a supervisor's SIGTERM reach
 * a whole process group: mpirun has one of its own, and reads nothing from the terminal, which would stop it
 * there. Without a signal on the parent's death it must hear of Ctrl-C itself. */
static void stand_apart(pid_t parent) {
#ifdef __linux__
  int nothing = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun ends its ranks when this command is killed */
  if (getppid() != parent) _exit(SPP_INTERRUPTED);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (nothing > STDIN_FILENO) close(nothing);
#else
  (void)parent;
#endif
}

static enum spp_status start_child(const struct spp_cli *cli, struct launch *launch, struct child *child,
                                   struct spp_diag *diag) {
  int out[2], err[2];
  if (pipe(out) != 0) return cannot_start("pipe", diag);
  if (pipe(err) != 0) {
    close(out[0]);
    close(out[1]);
    return cannot_start("pipe", diag);
  }
  const pid_t parent = getpid();
  child->pid = fork();
  if (child->pid == 0) {
    stand_apart(parent);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    const int ends[] = {out[0], out[1], err[0], err[1]};
    for (int i = 0; i < 4; i++)
      close(ends[i]);
    become_mpirun(cli, launch);
  }
  close(out[1]);
  close(err[1]);
  *child = (struct child){child->pid, out[0], err[0]};
  if (child->pid > 0) return SPP_OK;
  close(out[0]);
  close(err[0]);
  return cannot_start("fork", diag);
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

/* Hydra writes of ranks that died where their answer would have been: only a job that came to its end has
 * one.
 */
static enum spp_status conclude(struct spp_cli *cli, int ended, struct said *s, struct spp_diag *diag) {
  enum spp_status status = meaning(ended, s->told, diag);
  bool answered =
      WIFEXITED(ended) && (WEXITSTATUS(ended) == SPP_OK || WEXITSTATUS(ended) == SPP_ERR_TOLERANCE);
  if (s->answer.failed) return spp_diag_oom(diag);
  if (answered) spp_str_addn(&cli->out, spp_str_text(&s->answer), s->answer.len);
  if (!answered && s->all) fputs(spp_str_text(&s->answer), stderr);
  return status;
}

enum spp_status spp_mpirun_start(struct spp_cli *cli, int64_t ranks, const struct spp_backend *backend,
                                 struct spp_diag *diag) {
  struct launch launch;
  struct child child = {.pid = -1};
  struct said said = {.all = cli->args.verbose > 0};
  int ended = 0;
  char library[256];
  backend->library(library, sizeof library);
  snprintf(launch.ranks, sizeof launch.ranks, "%lld", (long long)ranks);
  enum spp_status status = spp_launcher_find(library, launch.launcher, sizeof launch.launcher, diag);
  if (status == SPP_OK) status = start_child(cli, &launch, &child, diag);
  if (status != SPP_OK) return status;
  listen_to(child.answer, child.complaints, &said);
  close(child.answer);
  close(child.complaints);
  while (waitpid(child.pid, &ended, 0) < 0 && errno == EINTR)
    continue;
  status = conclude(cli, ended, &said, diag);
  spp_str_free(&said.answer);
  spp_str_free(&said.line);
  spp_str_free(&said.last);
  return status;
}

enum spp_status spp_mpirun_check(int job_ranks, struct spp_diag *diag) {
  const char *asked = getenv(ranks_variable);
  int ranks = asked ? (int)strtol(asked, NULL, 10) : spp_launcher_ranks();
  if (ranks <= 1 || job_ranks != 1) return SPP_OK;
  if (spp_launcher_rank() > 0) { /* one of them speaks */
    *diag = (struct spp_diag){.status = SPP_ERR_ABSENT};
    return SPP_ERR_ABSENT;
  }
  return spp_diag_set(diag, SPP_ERR_ABSENT, "mpirun",
                      "put the mpirun of the MPI this was built with first on PATH",
                      "%d ranks were started and each is alone: it belongs to another MPI", ranks);
}
