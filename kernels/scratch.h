/* Cutting a caller's workspace into aligned pieces. Internal to kernels/. */
#ifndef SPP_KERNELS_SCRATCH_H
#define SPP_KERNELS_SCRATCH_H

#include "base/num.h"
#include "kernels/tile.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes: a cache line, and the widest vector; a workspace is this much larger. */
#define SPP_SCRATCH_ALIGN 64

/* First aligned float of the caller's workspace. */
static inline float *spp_scratch_align(void *workspace) {
  uintptr_t past = (uintptr_t)workspace % SPP_SCRATCH_ALIGN;
  return (float *)(void *)((char *)workspace + (past ? SPP_SCRATCH_ALIGN - past : 0));
}

/* Hands out pieces of a scratch area; with base NULL it only counts. */
struct spp_carver {
  float *base;
  int64_t used; /* floats */
};

/* n floats, rounded up so that the next piece is aligned too. */
static inline float *spp_carve(struct spp_carver *c, int64_t n) {
  float *piece = c->base ? c->base + c->used : NULL;
  c->used += spp_tile_pad(n);
  return piece;
}

#endif
