#include "kernels/isa.h"
#include "kernels/vec_portable.h"

#include "kernels/body_operand_f32.h"
#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

static const struct spp_tile_ops tile_ops = {.q_block = 64, .kv_block = 64, SPP_TILE_BY_NAME};

static const struct spp_ops vector_ops = SPP_OPS_BY_NAME;

static bool available(void) {
  return true;
}

const struct spp_kernels spp_kernels_portable = {.name = "portable",
                                                 .description = "plain C, any processor",
                                                 .available = available,
                                                 .ops = &vector_ops,
                                                 .tile = &tile_ops};
