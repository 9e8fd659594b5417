/* Pieces shared by flash attention forward and backward. Internal to kernels/. */
#ifndef SPP_KERNELS_FLASH_H
#define SPP_KERNELS_FLASH_H

#include "kernels/attention.h"
#include "kernels/scratch.h"
#include "kernels/tile.h"

#include <stdint.h>

#define SPP_FLASH_LOG2E 1.44269504088896340736F
#define SPP_FLASH_LN2   0.69314718055994530942

#define SPP_FLASH_INTERVAL_FLOATS (int64_t)(sizeof(struct spp_interval) / sizeof(float))

/* Keys per tile where the mask cuts: short tiles waste less on invisible pairs. */
#define SPP_FLASH_EDGE 32

/* Rows per tile: what was asked, else what suits the processor, no more than there are; padded. */
int64_t spp_flash_block(int64_t asked, int64_t suits, int64_t tokens);

/* Address of row t, head h. */
void *spp_flash_at(const struct spp_rows *x, int64_t head_dim, int64_t t, int64_t h);

/* The next tile of a walk over `view`: keys [kv, kv + cols), at most `block`; `masked` when some row does not
 * see all of them. */
struct spp_flash_tile {
  int64_t kv, cols;
  bool masked;
};
struct spp_flash_tile spp_flash_next(const struct spp_block_view *view, int64_t kv, int64_t block);

/* The part of `rows` that sees any of the tile's keys, cut at multiples of SPP_TILE_PAD: products write whole
 * register tiles, and what lies behind the part must be rows that softmax has zeroed, or padding. The rows'
 * intervals relative to the tile go into lo and hi, empty for the padding behind. */
struct spp_interval spp_flash_tile_rows(const struct spp_interval *see, int64_t rows, int64_t kv,
                                        int64_t cols, float *lo, float *hi);

/* The part of the tile's `cols` keys that any of the rows sees, cut in the same way. */
struct spp_interval spp_flash_tile_cols(const float *lo, const float *hi, int64_t rows, int64_t cols);

/* Makes the intervals of rows `q` relative to key `kv` and moves them to the front. */
void spp_flash_shift(float *lo, float *hi, struct spp_interval q, int64_t kv);

/* Are scores more than scaled products? */
static inline bool spp_flash_bends(const struct spp_attn_shape *s) {
  return s->cap > 0.0F || s->slopes;
}
/* Cap and slope of one head in units of the product; no positions. */
struct spp_tile_bend spp_flash_bend(const struct spp_attn_shape *s, int64_t head);

/* Positions of rows [row, row + rows) less `base`, as floats, zeros in the padding: a difference of less than
 * 2^24 is exact. */
void spp_flash_positions(const struct spp_positions *p, int64_t row, int64_t rows, int64_t base, float *at);

#endif
