/* The rows of the table, one per isa_*.c. Internal to kernels/. */
#ifndef SPP_KERNELS_ISA_H
#define SPP_KERNELS_ISA_H

#include "kernels/table.h"

/* Initialiser of a struct spp_ops whose functions are called as its fields. */
#define SPP_OPS_BY_NAME                                                                                      \
  {                                                                                                          \
    .rmsnorm_forward = rmsnorm_forward, .rmsnorm_backward = rmsnorm_backward,                                \
    .layernorm_forward = layernorm_forward, .layernorm_backward = layernorm_backward, .rope = rope,          \
    .embedding_forward = embedding_forward, .embedding_backward = embedding_backward,                        \
    .cross_entropy_local = cross_entropy_local, .cross_entropy_backward = cross_entropy_backward,            \
    .adamw = adamw, .activation_forward = activation_forward, .activation_backward = activation_backward,    \
    .glu_forward = glu_forward, .glu_backward = glu_backward, .softcap = softcap, .softmax = softmax,        \
    .row_dots = row_dots, .convert = convert, .add = add, .accumulate = accumulate, .scale = scale,          \
    .sum_squares = sum_squares,                                                                              \
  }

extern const struct spp_ops spp_ops_reference;
extern const struct spp_kernels spp_kernels_reference;
extern const struct spp_kernels spp_kernels_portable;
extern const struct spp_kernels spp_kernels_neon;
extern const struct spp_kernels spp_kernels_avx2;
extern const struct spp_kernels spp_kernels_avx512;
extern const struct spp_kernels spp_kernels_avx512bf16;

/* What avx512bf16 shares with avx512. */
extern const struct spp_ops spp_ops_avx512;
extern const struct spp_tile_ops spp_tile_avx512;

#endif
