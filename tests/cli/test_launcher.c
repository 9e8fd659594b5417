/* Which launcher belongs to which MPI library, by what they call themselves. */
#include "cli/launcher.h"

#include "tests/cli/run.h"

/* First lines of MPI_Get_library_version and of `--version`, as the libraries print them. */
static const struct {
  const char *words;
  enum spp_mpi mpi;
} rows[] = {
    {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022", SPP_MPI_OPEN},
    {"mpirun (Open MPI) 5.0.3\n\nReport bugs to https://www.open-mpi.org/community/help/\n", SPP_MPI_OPEN},
    {"MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7 12:34:45 CDT 2022\n", SPP_MPI_MPICH},
    {"HYDRA build details:\n    Version:                                 4.0.2\n", SPP_MPI_MPICH},
    {"MVAPICH Version         : 3.0\n", SPP_MPI_MPICH},
    {"Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n", SPP_MPI_MPICH},
    {"flux-mpirun 1.0", SPP_MPI_UNKNOWN},
    {"", SPP_MPI_UNKNOWN}};

static void libraries_and_launchers_are_known_by_their_words(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    expect_note("%s", rows[i].words);
    expect_i64(spp_mpi_of(rows[i].words), rows[i].mpi);
  }
}

/* A launcher that only tells its version; an empty text says nothing. */
static void put_launcher(const char *name, const char *version) {
  char text[256], path[512];
  snprintf(text, sizeof text, "#!/bin/sh\nexec /bin/echo '%s'\n", version);
  run_put(name, text);
  snprintf(path, sizeof path, "%s/%s", run_folder, name);
  expect_i64(chmod(path, 0755), 0);
}

static void find_for(const char *library, enum spp_status expected, const char *words) {
  struct spp_diag diag = {0};
  char name[32] = "";
  expect_status(spp_launcher_find(library, name, sizeof name, &diag), expected, &diag);
  if (expected == SPP_OK)
    expect_str(name, words);
  else
    expect_has(diag.what, words);
}

static void the_launcher_of_the_same_library_is_found(void **state) {
  static const char open[] = "Open MPI v4.1.4", mpich[] = "MPICH Version: 4.0.2";
  (void)state;
  setenv("PATH", run_folder, 1);
  find_for(open, SPP_ERR_ABSENT, "cannot start");
  put_launcher("mpirun", "mpirun (Open MPI) 4.1.4");
  find_for(open, SPP_OK, "mpirun");
  find_for(mpich, SPP_ERR_ABSENT, "another MPI than MPICH");
  put_launcher("mpiexec.hydra", "HYDRA build details:");
  find_for(open, SPP_OK, "mpirun");
  find_for(mpich, SPP_OK, "mpiexec.hydra");
  put_launcher("mpirun", "");
  find_for(open, SPP_OK, "mpirun"); /* a wrapper that tells nothing is better than Hydra */
  find_for(mpich, SPP_OK, "mpiexec.hydra");
}

static void a_rank_is_known_by_what_its_launcher_set(void **state) {
  (void)state;
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    unsetenv(names[i]);
  expect_i64(spp_launcher_rank(), -1);
  expect_i64(spp_launcher_ranks(), 1);
  setenv("PMI_SIZE", "4", 1);
  setenv("PMI_RANK", "3", 1);
  expect_i64(spp_launcher_rank(), 3);
  expect_i64(spp_launcher_ranks(), 4);
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  setenv("OMPI_COMM_WORLD_RANK", "seven", 1);
  expect_i64(spp_launcher_ranks(), 8);
  expect_i64(spp_launcher_rank(), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(libraries_and_launchers_are_known_by_their_words),
      cmocka_unit_test(the_launcher_of_the_same_library_is_found),
      cmocka_unit_test(a_rank_is_known_by_what_its_launcher_set),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
