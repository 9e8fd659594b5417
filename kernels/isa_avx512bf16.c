/* Compiled with the AVX-512 and AVX512_BF16 flags of cmake/folders.cmake; runs only where available() says
 * so. */
#include "kernels/isa.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) &&       \
    defined(__AVX512BF16__)

#include "kernels/vec_avx512.h"

#include "kernels/body_operand_bf16.h"
#include "kernels/body_tile.h"

static const struct spp_tile_ops tile_ops = {.q_block = 128, .kv_block = 128, SPP_TILE_BY_NAME};

static bool available(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}

const struct spp_kernels spp_kernels_avx512bf16 = {
    .name = "avx512bf16",
    .description = "avx512, and bf16 attention by AVX512_BF16 dot products",
    .available = available,
    .ops = &spp_ops_avx512,
    .tile = &spp_tile_avx512,
    .tile_bf16 = &tile_ops};

#else

const struct spp_kernels spp_kernels_avx512bf16 = {
    .name = "avx512bf16",
    .description = "avx512, and bf16 attention by AVX512_BF16 dot products",
    .absent = "the compiler does not target AVX512_BF16"};

#endif
