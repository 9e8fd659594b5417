#include "kernels/flash.h"

int64_t spp_flash_block(int64_t asked, int64_t suits, int64_t tokens) {
  return spp_min64(spp_tile_pad(asked > 0 ? asked : suits), spp_max64(spp_tile_pad(tokens), SPP_TILE_PAD));
}

void *spp_flash_at(const struct spp_rows *x, int64_t head_dim, int64_t t, int64_t h) {
  return (char *)x->data + (t * x->row_stride + h * head_dim) * spp_storage_bytes(x->storage);
}

struct spp_flash_tile spp_flash_next(const struct spp_block_view *view, int64_t kv, int64_t block) {
  int64_t clear = kv >= view->all.lo ? view->all.hi - kv : 0;
  if (clear >= spp_min64(SPP_FLASH_EDGE, view->any.hi - kv))
    return (struct spp_flash_tile){kv, spp_min64(block, clear), false};
  int64_t stop = kv < view->all.lo ? spp_min64(view->all.lo, view->any.hi) : view->any.hi;
  return (struct spp_flash_tile){kv, spp_min64(spp_min64(SPP_FLASH_EDGE, block), stop - kv), true};
}

struct spp_interval spp_flash_tile_rows(const struct spp_interval *see, int64_t rows, int64_t kv,
                                        int64_t cols, float *lo, float *hi) {
  struct spp_interval seeing = {rows, 0};
  for (int64_t r = 0; r < rows; r++) {
    int64_t first = spp_max64(see[r].lo - kv, 0), end = spp_min64(see[r].hi - kv, cols);
    bool any = first < end;
    lo[r] = any ? (float)first : 0.0F;
    hi[r] = any ? (float)end : 0.0F;
    if (any && r < seeing.lo) seeing.lo = r;
    if (any) seeing.hi = r + 1;
  }
  for (int64_t r = rows; r < spp_tile_pad(rows); r++)
    lo[r] = hi[r] = 0.0F;
  seeing.lo = seeing.lo / SPP_TILE_PAD * SPP_TILE_PAD;
  seeing.hi = spp_min64(spp_tile_pad(seeing.hi), rows);
  return seeing;
}

struct spp_interval spp_flash_tile_cols(const float *lo, const float *hi, int64_t rows, int64_t cols) {
  struct spp_interval seen = {INT64_MAX, 0};
  for (int64_t r = 0; r < rows; r++) {
    if (lo[r] >= hi[r]) continue;
    seen.lo = spp_min64(seen.lo, (int64_t)lo[r]);
    seen.hi = spp_max64(seen.hi, (int64_t)hi[r]);
  }
  seen.lo = seen.lo / SPP_TILE_PAD * SPP_TILE_PAD;
  seen.hi = spp_min64(spp_tile_pad(seen.hi), cols);
  return seen;
}

void spp_flash_shift(float *lo, float *hi, struct spp_interval q, int64_t kv) {
  for (int64_t r = 0; r < q.hi - q.lo; r++) {
    lo[r] = lo[q.lo + r] - (float)kv;
    hi[r] = hi[q.lo + r] - (float)kv;
  }
}

struct spp_tile_bend spp_flash_bend(const struct spp_attn_shape *s, int64_t head) {
  return (struct spp_tile_bend){.cap = s->cap / s->scale,
                                .slope = s->slopes ? s->slopes[head] / s->scale : 0.0F};
}

void spp_flash_positions(const struct spp_positions *p, int64_t row, int64_t rows, int64_t base, float *at) {
  for (int64_t r = 0; r < rows; r++)
    at[r] = (float)(spp_position(p, row + r) - base);
  for (int64_t r = rows; r < spp_tile_pad(rows); r++)
    at[r] = 0.0F;
}
