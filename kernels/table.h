/* The table of kernel variants: one row per processor family plus the reference. Nothing is chosen behind the
 * caller's back and nothing global changes: calls take the row they run on. */
#ifndef SPP_KERNELS_TABLE_H
#define SPP_KERNELS_TABLE_H

#include "base/status.h"
#include "kernels/ops.h"
#include "kernels/tile.h"

#include <stdbool.h>
#include <stddef.h>

struct spp_kernels {
  const char *name;                     /* "reference", "portable", "avx2", ... */
  const char *description;              /* one line for a listing */
  const char *absent;                   /* why it was not built; NULL when it was */
  bool (*available)(void);              /* does this processor have the instructions */
  const struct spp_ops *ops;            /* every row that was built has them */
  const struct spp_tile_ops *tile;      /* attention tiles; NULL: plain double-precision loops */
  const struct spp_tile_ops *tile_bf16; /* instead of tile when all inputs are bf16; NULL: the same */
};

/* All rows in rising order of preference, built or not. */
const struct spp_kernels *const *spp_kernels_all(int *count);

/* Attention tiles for these inputs; NULL: the reference. */
const struct spp_tile_ops *spp_kernels_tile(const struct spp_kernels *kernels, bool all_bf16);

/* One line: the variant that runs, and which matrix product. */
void spp_kernels_describe(const struct spp_kernels *kernels, char *text, size_t size);

/* Built, and the processor can run it. */
bool spp_kernels_usable(const struct spp_kernels *kernels);

/* The fastest usable row. */
const struct spp_kernels *spp_kernels_best(void);

/* The row of this name; SPP_ERR_INPUT with the known names when there is none, SPP_ERR_ABSENT when this build
 * or processor lacks it. */
enum spp_status spp_kernels_find(const char *name, const struct spp_kernels **kernels, struct spp_diag *diag);

#endif
