/* The same job under each sequence-parallel strategy. */
#ifndef SPP_PLANNER_COMPARE_H
#define SPP_PLANNER_COMPARE_H

#include "planner/search.h"

/* Lengths the strategies are also run at, to find the crossovers: 4,096 tokens, doubled. */
enum { SPP_COMPARE_LENGTHS = 11, SPP_COMPARE_SHORTEST = 4096 };
struct spp_compare_row {
  char name[48]; /* "none", "ulysses 4", "ring 8 zigzag", "hybrid 4x2", "tp 8 + sp", "allgather 8" */
  bool legal;
  char why_not[320];
  struct spp_plan plan;
  double tokens_per_s_at[SPP_COMPARE_LENGTHS]; /* whole job; 0: does not fit, is illegal, or was not run */
};
struct spp_crossover {
  char from[48], to[48];
  int64_t seq_tokens; /* at this length and above `to` is faster */
};
struct spp_compare_result {
  struct spp_compare_row *rows;
  int count;
  struct spp_crossover crossovers[16];
  int crossover_count;
};
/* Same GPUs, same sequence-parallel degree `degree` (0 = all GPUs of a node that divide), best other knobs
 * for each. */
enum spp_status spp_compare(const struct spp_search_options *options, int64_t degree,
                            struct spp_compare_result *result, struct spp_diag *diag);
void spp_compare_free(struct spp_compare_result *result);

#endif
