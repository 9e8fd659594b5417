/* Arrays of one call, here and on the device: what the files of staged.h share. */
#ifndef SPP_TESTS_KERNELS_STAGE_H
#define SPP_TESTS_KERNELS_STAGE_H

#include <stdlib.h>

#include "tests/expect.h"
#include "tests/kernels/staged.h"

struct stage {
  struct item {
    void *here, *there, *block;
    int64_t bytes;
    bool results;
  } items[16];
  int n;
};

/* The array on the device; the same array twice is one there, too. NULL stays NULL. */
void *stage_take(struct stage *s, const void *here, int64_t bytes, bool results);
void *stage_both(struct stage *s, void *here, int64_t bytes);
void *stage_in(struct stage *s, const void *here, int64_t bytes);
/* Brings results back. What was only read must not have changed. */
void stage_finish(struct stage *s);

static inline int64_t stage_bytes(int64_t n, enum spp_storage storage) {
  return n * spp_storage_bytes(storage);
}

#endif
