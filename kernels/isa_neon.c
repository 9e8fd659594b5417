#include "kernels/isa.h"

#if defined(__aarch64__) && defined(__ARM_NEON)

#include "kernels/vec_neon.h"

#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

#define TILE_Q_BLOCK  64
#define TILE_KV_BLOCK 64
#include "kernels/isa_rows.h"

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
