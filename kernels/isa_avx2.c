/* Compiled with the AVX2 flags of kernels.cmake; runs only where available() says so. */
#include "kernels/isa.h"

#if defined(__AVX2__) && defined(__FMA__)

#include "kernels/vec_avx2.h"

#include "kernels/body_operand_f32.h"
#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

/* Half the tiles of AVX-512: L2 is 256 to 512 KiB on many of these processors. */
static const struct spp_tile_ops tile_ops = {.q_block = 64, .kv_block = 64, SPP_TILE_BY_NAME};

static const struct spp_ops vector_ops = SPP_OPS_BY_NAME;

static bool available(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct spp_kernels spp_kernels_avx2 = {.name = "avx2",
                                             .description = "x86-64 with AVX2 and FMA",
                                             .available = available,
                                             .ops = &vector_ops,
                                             .tile = &tile_ops};

#else

const struct spp_kernels spp_kernels_avx2 = {
    .name = "avx2", .description = "x86-64 with AVX2 and FMA", .absent = "the compiler does not target AVX2"};

#endif
