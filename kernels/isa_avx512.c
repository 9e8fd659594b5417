/* Compiled with the AVX-512 flags of kernels.cmake; runs only where available() says so. */
#include "kernels/isa.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include "kernels/vec_avx512.h"

#include "kernels/body_operand_f32.h"
#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

/* Working set of the forward at head dimension 128: 320 KiB, within the 1 MiB L2 of these processors. */
const struct spp_tile_ops spp_tile_avx512 = {.q_block = 128, .kv_block = 128, SPP_TILE_BY_NAME};

const struct spp_ops spp_ops_avx512 = SPP_OPS_BY_NAME;

static bool available(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct spp_kernels spp_kernels_avx512 = {.name = "avx512",
                                               .description = "x86-64 with AVX-512 F/BW/DQ/VL",
                                               .available = available,
                                               .ops = &spp_ops_avx512,
                                               .tile = &spp_tile_avx512};

#else

const struct spp_kernels spp_kernels_avx512 = {.name = "avx512",
                                               .description = "x86-64 with AVX-512 F/BW/DQ/VL",
                                               .absent = "the compiler does not target AVX-512"};

#endif
