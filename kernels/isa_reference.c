#include "kernels/isa.h"

static bool available(void) {
  return true;
}

const struct spp_kernels spp_kernels_reference = {.name = "reference",
                                                  .description = "plain loops in double precision: the judge",
                                                  .available = available,
                                                  .ops = &spp_ops_reference};
