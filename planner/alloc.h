/* Which tensor of a job has this many bytes. */
#ifndef SPP_PLANNER_ALLOC_H
#define SPP_PLANNER_ALLOC_H

#include "model/predict.h"

struct spp_alloc_match {
  char tensor[96];
  int64_t shape[4];
  int dims;
  enum spp_dtype dtype;
  int64_t bytes;
  double ratio;  /* asked / bytes */
  char when[32]; /* phase */
  char why[240]; /* "fp32 logits of 86,600 tokens: 2.64 times the 32,768 expected" */
};
/* Nearest first: tensors of the ledger under the layout, then candidate families solved for the unknown
 * dimension (tokens of a logits copy, parameters of a state shard). Returns the count. */
int spp_alloc_explain(const struct spp_job *job, const struct spp_layout *layout, int64_t bytes,
                      struct spp_alloc_match *matches, int max);
/* The same for a size known to +-tolerance_bytes, as its text says: "4.00 GiB" is more exact than "4 GiB". */
int spp_alloc_explain_within(const struct spp_job *job, const struct spp_layout *layout, int64_t bytes,
                             double tolerance_bytes, struct spp_alloc_match *matches, int max);

#endif
