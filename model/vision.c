#include "model/vision.h"

#include <math.h>

#include "base/num.h"

enum { MAX_ASPECT = 200, MAX_TILES = 16, MAX_SIDE = 1 << 20, MAX_FRAMES = 1 << 20 };

/* Nearest multiple of f, ties to the even multiple, as Python's round does. */
static int64_t round_to_multiple(int64_t n, int64_t f) {
  int64_t q = n / f, twice = 2 * (n % f);
  if (twice > f || (twice == f && q % 2 == 1)) q++;
  return q * f;
}

/* smart_resize: both sides multiples of f, their product within the limits. */
static void smart_resize(const struct spp_vision *v, int64_t height, int64_t width, int64_t f, int64_t *h,
                         int64_t *w) {
  double area = (double)height * (double)width, factor = (double)f;
  *h = round_to_multiple(height, f);
  *w = round_to_multiple(width, f);
  if (*h * *w > v->max_pixels) {
    double beta = sqrt(area / (double)v->max_pixels);
    *h = spp_max64(f, (int64_t)floor((double)height / beta / factor) * f);
    *w = spp_max64(f, (int64_t)floor((double)width / beta / factor) * f);
  } else if (*h * *w < v->min_pixels) {
    double beta = sqrt((double)v->min_pixels / area);
    *h = (int64_t)ceil((double)height * beta / factor) * f;
    *w = (int64_t)ceil((double)width * beta / factor) * f;
  }
}

static enum spp_status qwen_tokens(const struct spp_vision *v, int64_t height, int64_t width, int64_t frames,
                                   struct spp_image_tokens *out, struct spp_diag *diag) {
  int64_t h, w;
  if (spp_max64(height, width) > MAX_ASPECT * spp_min64(height, width))
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "crop it",
                        "an image may be at most %d times longer than wide", MAX_ASPECT);
  smart_resize(v, height, width, v->patch * v->merge, &h, &w);
  out->resized_height = h;
  out->resized_width = w;
  out->patches = spp_ceil_div(frames, v->temporal_patch) * (h / v->patch) * (w / v->patch);
  out->tokens = out->patches / (v->merge * v->merge);
  return SPP_OK;
}

/* Rows and columns of the grid of tiles: the smallest enlargement that needs no distortion, else the least
 * reduction; of equals the fewest tiles. Source: get_best_fit, huggingface/transformers
 * llama4/image_processing_llama4.py. */
static int64_t best_tiles(int64_t tile, int64_t height, int64_t width) {
  double best = 0;
  int64_t tiles = 1;
  for (int64_t rows = 1; rows <= MAX_TILES; rows++)
    for (int64_t cols = 1; rows * cols <= MAX_TILES; cols++) {
      double scale_h = (double)(rows * tile) / (double)height,
             scale_w = (double)(cols * tile) / (double)width;
      double scale = scale_h < scale_w ? scale_h : scale_w;
      bool better = best == 0 || (best >= 1 ? scale >= 1 && scale < best : scale > best);
      if (better || (scale == best && rows * cols < tiles)) best = scale, tiles = rows * cols;
    }
  return tiles;
}

/* Every tile, and the whole image once more when there are several. */
static void llama4_tokens(const struct spp_vision *v, int64_t height, int64_t width, int64_t frames,
                          struct spp_image_tokens *out) {
  int64_t tiles = best_tiles(v->tile_px, height, width), side = v->tile_px / v->patch;
  tiles += tiles > 1 ? 1 : 0;
  out->resized_height = out->resized_width = v->tile_px;
  out->patches = frames * tiles * (side * side + 1); /* and a class token a tile */
  out->tokens = frames * tiles * (side / v->merge) * (side / v->merge);
}

enum spp_status spp_vision_tokens(const struct spp_vision *v, int64_t height, int64_t width, int64_t frames,
                                  struct spp_image_tokens *tokens, struct spp_diag *diag) {
  struct spp_image_tokens result = {0};
  enum spp_status status = SPP_OK;
  if (v->kind == SPP_VISION_NONE)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "choose a vision-language model",
                        "this model has no vision tower");
  if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE || frames < 1 || frames > MAX_FRAMES)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, NULL,
                        "an image has sides of 1 to %d pixels and 1 to %d frames", MAX_SIDE, MAX_FRAMES);
  if (v->kind == SPP_VISION_LLAMA4)
    llama4_tokens(v, height, width, frames, &result);
  else
    status = qwen_tokens(v, height, width, frames, &result, diag);
  if (status == SPP_OK) *tokens = result;
  return status;
}
