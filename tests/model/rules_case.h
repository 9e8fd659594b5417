/* Layouts whose sequences are split one way or another, for tests of what rules say. */
#ifndef SPP_TESTS_MODEL_RULES_CASE_H
#define SPP_TESTS_MODEL_RULES_CASE_H

#include "tests/model/framework_case.h"

enum { MANY = 96 }; /* violations that a layout can have at most */

static inline void set_sp(struct spp_layout *l, enum spp_sp_kind kind, int64_t su, int64_t sr) {
  l->sp_kind = kind;
  l->ulysses = su;
  l->ring = sr;
}
static inline void ulysses(struct spp_layout *l, int64_t n) {
  set_sp(l, SPP_SP_ULYSSES, n, 1);
}
static inline void ring(struct spp_layout *l, int64_t n) {
  set_sp(l, SPP_SP_RING, 1, n);
}
static inline void gather(struct spp_layout *l, int64_t n) {
  set_sp(l, SPP_SP_ALLGATHER, 1, n);
}
static inline void hybrid(struct spp_layout *l, int64_t su, int64_t sr) {
  set_sp(l, SPP_SP_HYBRID, su, sr);
}

#endif
