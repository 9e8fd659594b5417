/* Free blocks that serve nothing where segments do not expand (torch c10/cuda/CUDACachingAllocator, default
 * settings): a request takes the smallest free block that holds it and splits it. */
#include "model/loss.h"
#include "model/memory_parts.h"

#define ROW(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_ALLOCATOR, reason}
ROW(remainders, "remainders beside layer inputs", "they split blocks of the MLP's width");
ROW(mlp_blocks, "free blocks of the MLP's width", "of the last forward; logits are larger");

/* The layers' forward runs without grad, so each layer's tensors are free when the next one's input is made:
 * that one lands in a block of the MLP's width, of which the part left is too small for another. In the loss
 * the last layer's gate and product are free as well, and too small. */
void spp_memory_add_plain(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_layer_kind *kind = v->kind[SPP_LAYER_DENSE];
  int64_t inputs = s->recomputed[SPP_LAYER_DENSE], hidden = v->job->arch->hidden;
  if (!v->job->plain_segments || !kind || inputs == 0 || v->layout->recompute_unit > 1 ||
      spp_offload_activations(v->layout->offload))
    return;
  int64_t width = spp_mlp_width(v->g, kind, SPP_ROLE_MLP), fit = width / hidden;
  int64_t rows = v->g->stream_tokens, element = spp_dtype_bytes(v->act);
  if (fit == 0) return;
  int64_t left = spp_sat_mul(spp_sat_mul(rows, width - fit * hidden), element);
  int64_t remain = spp_sat_mul(left, spp_memory_in_flight(s->stage, inputs)) / fit;
  spp_memory_add_free(sum, &remainders, SPP_LIVE(SPP_MOMENT_FORWARD) | SPP_LIVE_LOSS | SPP_LIVE_BACKWARD,
                      remain);
  sum->pinned = spp_sat_add(sum->pinned, remain);
  if (s->stage->last && v->g->vocab_local > width)
    spp_memory_add_free(sum, &mlp_blocks, SPP_LIVE_LOSS, spp_sat_mul(spp_sat_mul(rows, width), 2 * element));
}
