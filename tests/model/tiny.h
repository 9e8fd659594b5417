/* The tiny decoder of jobs.h on one rank: its sizes, what a layer of it keeps, and the bytes that layers
 * keep. */
#ifndef SPP_TESTS_MODEL_TINY_H
#define SPP_TESTS_MODEL_TINY_H

#include "tests/model/jobs.h"

enum { T = 32, H = 64, I = 160, DQ = 128, DK = 32, NQ = 8, NK = 2, TINY_KEPT = 95488, TINY_FUSED = 68864 };

static inline void open_tiny(struct jobs_fixture *f) {
  jobs_open(f);
  jobs_train(f, jobs_parse(f, JOBS_TINY), T);
}

static inline int64_t kept(const struct jobs_fixture *f, enum spp_moment moment) {
  /* activations without what is kept outside the layers */
  return jobs_part(f, SPP_PART_ACTIVATIONS, moment) + jobs_part(f, SPP_PART_LAYER_INPUTS, moment) -
         jobs_ledger(f, "token ids, labels, positions", moment) - jobs_ledger(f, "rotary table", moment) -
         jobs_ledger(f, "final norm: input", moment) - jobs_ledger(f, "final norm: normalised", moment) -
         jobs_ledger(f, "final norm: statistics", moment) - jobs_ledger(f, "final norm: output", moment);
}

#endif
