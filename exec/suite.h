/* The cases that `spplan validate` runs when no layout is named: one table, from which suites take a part. */
#ifndef SPP_EXEC_SUITE_H
#define SPP_EXEC_SUITE_H

#include "exec/plan.h"

enum spp_suite { SPP_SUITE_QUICK, SPP_SUITE_CI, SPP_SUITE_FULL, SPP_SUITE_TIME, SPP_SUITE_COUNT };
const char *spp_suite_name(enum spp_suite suite); /* "quick", "ci", "full", "time"; NULL outside */

struct spp_suite_case {
  char name[64];
  const char *model; /* config.json text */
  struct spp_layout layout;
  int64_t seq_tokens;
  const int64_t *doc_lengths; /* packed; NULL: none */
  int64_t doc_count;
  bool bf16;
  bool contiguous;        /* pieces of a ring or all-gather rank */
  double expert_capacity; /* tokens choose experts by score; 0: balanced by position */
  int64_t steps;          /* 0: the usual number */
};
/* Case i of the suite "time", degrees of 0 standing for 1; see spp_suite_get. */
bool spp_suite_time_get(int i, struct spp_suite_case *c);
/* Case i of the grid, which the suites "ci" and "full" end with; `many`: with those of more than four ranks.
 */
bool spp_suite_grid_get(bool many, int i, struct spp_suite_case *c);
/* Case i of a suite into *c; false after the last. */
bool spp_suite_get(enum spp_suite suite, int i, struct spp_suite_case *c);
/* What it asks of the engine, but for the arch, which is the caller's to parse. */
struct spp_exec_setting spp_suite_setting(const struct spp_suite_case *c);

/* Lengths of packed documents. */
enum { SPP_SUITE_DOCUMENTS = 6 };
extern const int64_t spp_suite_documents[SPP_SUITE_DOCUMENTS];

/* The model of a single case when the user names none. */
extern const char spp_suite_model[];

#endif
