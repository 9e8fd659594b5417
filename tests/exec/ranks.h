/* Checks inside ranks: cmocka's jump out of a failed check must not cross threads, so a rank returns a status
 * with the place and the values, and run_ranks() reports it. SPPLAN_TEST_BACKEND=mpi runs the same tests
 * under mpirun. */
#ifndef SPP_TESTS_EXEC_RANKS_H
#define SPP_TESTS_EXEC_RANKS_H

#include "tests/expect.h"

#include <stdlib.h>

#include "exec/backend.h"
#include "exec/try.h"

#define rank_expect_i64(actual, expected)                                                                    \
  do {                                                                                                       \
    int64_t rank_actual = (actual), rank_expected = (expected);                                              \
    if (rank_actual != rank_expected)                                                                        \
      return spp_diag_set(diag, SPP_ERR_TOLERANCE, NULL, NULL, "%s:%d: %s is %lld, expected %lld", __FILE__, \
                          __LINE__, #actual, (long long)rank_actual, (long long)rank_expected);              \
  } while (0)

#define rank_expect_near(actual, expected, bound)                                                            \
  do {                                                                                                       \
    double rank_actual = (double)(actual), rank_expected = (double)(expected);                               \
    if (!(fabs(rank_actual - rank_expected) <= (double)(bound)))                                             \
      return spp_diag_set(diag, SPP_ERR_TOLERANCE, NULL, NULL, "%s:%d: %s is %.9g, expected %.9g", __FILE__, \
                          __LINE__, #actual, rank_actual, rank_expected);                                    \
  } while (0)

__attribute__((unused)) static const struct spp_backend *test_backend(void) {
  const char *name = getenv("SPPLAN_TEST_BACKEND");
  const struct spp_backend *backend = NULL;
  struct spp_diag diag;
  if (spp_backend_find(name ? name : "self", &backend, &diag) != SPP_OK) exit(77);
  return backend;
}

/* Ranks a test may use: up to `most`. */
__attribute__((unused)) static int test_ranks(int most) {
  struct spp_diag diag;
  int job = 0;
  expect_status(test_backend()->start(&job, &diag), SPP_OK, &diag);
  return job > 0 && job < most ? job : most;
}

__attribute__((unused)) static void run_ranks(int ranks, spp_rank_main *rank_main, void *context) {
  struct spp_diag diag = {.status = SPP_OK};
  expect_status(test_backend()->run(ranks, 20.0, rank_main, context, &diag), SPP_OK, &diag);
}

/* End of main: under MPI every process must have passed. */
__attribute__((unused)) static int test_end(int failed) {
  test_backend()->stop(failed ? SPP_ERR_TOLERANCE : SPP_OK);
  return failed != 0;
}

#endif
