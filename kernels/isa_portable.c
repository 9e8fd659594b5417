#include "kernels/isa.h"
#include "kernels/vec_portable.h"

#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

#define TILE_Q_BLOCK  64
#define TILE_KV_BLOCK 64
#include "kernels/isa_rows.h"

static bool available(void) {
  return true;
}

const struct spp_kernels spp_kernels_portable = {.name = "portable",
                                                 .description = "plain C, any processor",
                                                 .available = available,
                                                 .ops = &vector_ops,
                                                 .tile = &tile_ops};
