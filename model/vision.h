/* Image tokens of vision-language models. Source: huggingface/transformers
 * qwen2_vl/image_processing_qwen2_vl.py. */
#ifndef SPP_MODEL_VISION_H
#define SPP_MODEL_VISION_H

#include "model/arch.h"

struct spp_image_tokens {
  int64_t resized_height, resized_width;
  int64_t patches; /* rows that go through the tower */
  int64_t tokens;  /* rows that enter the language model */
};
/* One image of height x width pixels (frames = 1), or a clip of `frames` frames. SPP_ERR_USAGE when the tower
 * refuses the shape. */
enum spp_status spp_vision_tokens(const struct spp_vision *vision, int64_t height, int64_t width,
                                  int64_t frames, struct spp_image_tokens *tokens, struct spp_diag *diag);
#endif
