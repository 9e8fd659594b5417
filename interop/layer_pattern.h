/* Which layers of a model have experts, as Megatron-LM's --moe-layer-freq says it. */
#ifndef SPP_INTEROP_LAYER_PATTERN_H
#define SPP_INTEROP_LAYER_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* "2": every second layer from the first on; "([0]*3+[1]*58)": lists joined by + and repeated by *, within
 * brackets or not. Sets with_experts[0..layers). False: something else, or of another length.
 * megatron-core 0.19.2 megatron/training/arguments.py moe_freq_type, megatron/core/models/gpt/
 * gpt_layer_specs.py get_gpt_decoder_layer_specs. */
bool spp_layer_pattern(const char *text, int64_t layers, bool *with_experts);

#endif
