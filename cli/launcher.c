#include "cli/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the libraries and launchers call themselves: `mpirun --version` of Open MPI 4 and 5, `mpiexec
 * --version` of Hydra, MPI_Get_library_version of each. */
static const struct {
  const char *word;
  enum spp_mpi mpi;
} words_of[] = {{"Open MPI", SPP_MPI_OPEN},     {"OpenRTE", SPP_MPI_OPEN}, {"PRRTE", SPP_MPI_OPEN},
                {"HYDRA", SPP_MPI_MPICH},       {"MPICH", SPP_MPI_MPICH},  {"MVAPICH", SPP_MPI_MPICH},
                {"Intel(R) MPI", SPP_MPI_MPICH}};

enum spp_mpi spp_mpi_of(const char *words) {
  for (size_t i = 0; i < sizeof words_of / sizeof words_of[0]; i++)
    if (strstr(words, words_of[i].word)) return words_of[i].mpi;
  return SPP_MPI_UNKNOWN;
}

bool spp_launcher_on_path(const char *name) {
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

static enum spp_mpi ask(const char *launcher) {
  char command[128], words[1024];
  snprintf(command, sizeof command, "%s --version 2>/dev/null", launcher);
  FILE *f = popen(command, "r");
  if (!f) return SPP_MPI_UNKNOWN;
  words[fread(words, 1, sizeof words - 1, f)] = '\0';
  pclose(f);
  return spp_mpi_of(words);
}

/* mpirun first: it is what a user puts on the path. The others are how Debian names them side by side. */
static const char *const names[] = {"mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"};

enum spp_status spp_launcher_find(const char *library, char *name, size_t size, struct spp_diag *diag) {
  const enum spp_mpi wanted = spp_mpi_of(library);
  const char *silent = NULL, *other = NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (!spp_launcher_on_path(names[i])) continue;
    enum spp_mpi mpi = ask(names[i]);
    if (mpi == wanted || wanted == SPP_MPI_UNKNOWN) {
      snprintf(name, size, "%s", names[i]);
      return SPP_OK;
    }
    if (mpi == SPP_MPI_UNKNOWN && !silent) silent = names[i];
    if (mpi != SPP_MPI_UNKNOWN && !other) other = names[i];
  }
  if (silent) {
    snprintf(name, size, "%s", silent);
    return SPP_OK;
  }
  const char *wish = wanted == SPP_MPI_MPICH ? "MPICH" : "Open MPI";
  if (!other)
    return spp_diag_set(diag, SPP_ERR_ABSENT, "mpirun", "install Open MPI or MPICH", "cannot start it");
  return spp_diag_set(diag, SPP_ERR_ABSENT, other, "put the launcher of the MPI this was built with on PATH",
                      "it belongs to another MPI than %s", wish);
}

static const struct {
  const char *ranks, *rank;
} variables[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  char *end;
  if (!text || !*text) return otherwise;
  long n = strtol(text, &end, 10);
  return *end || n < 0 || n > 1 << 20 ? otherwise : (int)n;
}

int spp_launcher_rank(void) {
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
    if (getenv(variables[i].ranks)) return number(variables[i].rank, -1);
  return -1;
}
int spp_launcher_ranks(void) {
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
    if (getenv(variables[i].ranks)) return number(variables[i].ranks, 1);
  return 1;
}
