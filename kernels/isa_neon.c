#include "kernels/isa.h"

#if defined(__aarch64__) && defined(__ARM_NEON)

#include "kernels/vec_neon.h"

#include "kernels/body_operand_f32.h"
#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

static const struct spp_tile_ops tile_ops = {.q_block = 64, .kv_block = 64, SPP_TILE_BY_NAME};

static const struct spp_ops vector_ops = SPP_OPS_BY_NAME;

static bool available(void) {
  return true; /* part of every AArch64 processor */
}

const struct spp_kernels spp_kernels_neon = {.name = "neon",
                                             .description = "AArch64 with Advanced SIMD",
                                             .available = available,
                                             .ops = &vector_ops,
                                             .tile = &tile_ops};

#else

const struct spp_kernels spp_kernels_neon = {
    .name = "neon", .description = "AArch64 with Advanced SIMD", .absent = "not an AArch64 build"};

#endif
