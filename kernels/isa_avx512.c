/* Compiled with the AVX-512 flags of kernels.cmake; runs only where available() says so. */
#include "kernels/isa.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include "kernels/vec_avx512.h"

#include "kernels/body_ops.h"
#include "kernels/body_tile.h"

/* Working set of the forward at head dimension 128: 320 KiB, within the 1 MiB L2 of these processors. */
#define TILE_Q_BLOCK  128
#define TILE_KV_BLOCK 128
#include "kernels/isa_rows.h"

static bool available(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct spp_kernels spp_kernels_avx512 = {.name = "avx512",
                                               .description = "x86-64 with AVX-512 F/BW/DQ/VL",
                                               .available = available,
                                               .ops = &vector_ops,
                                               .tile = &tile_ops};

#else

const struct spp_kernels spp_kernels_avx512 = {.name = "avx512",
                                               .description = "x86-64 with AVX-512 F/BW/DQ/VL",
                                               .absent = "the compiler does not target AVX-512"};

#endif
