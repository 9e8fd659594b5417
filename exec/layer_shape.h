/* Where the norms of a decoder layer stand. */
#ifndef SPP_EXEC_LAYER_SHAPE_H
#define SPP_EXEC_LAYER_SHAPE_H

#include "exec/weights.h"

enum { SPP_BRANCH_ATTENTION, SPP_BRANCH_MLP };

/* Each branch reads the stream, or a norm of it, and adds its output, or a norm of that. SPP_SLOT_COUNT: no
 * norm. Parallel branches read the layer's input, the same norm's output where both name one. */
struct spp_layer_shape {
  enum spp_slot before[2], behind[2]; /* attention, MLP */
  bool parallel;
};

static inline struct spp_layer_shape spp_layer_shape_of(const struct spp_arch *a) {
  const enum spp_slot none = SPP_SLOT_COUNT;
  struct spp_layer_shape two = {{SPP_SLOT_NORM1, SPP_SLOT_NORM2}, {none, none}, a->parallel_block};
  if (a->norms_behind) return (struct spp_layer_shape){{none, none}, {SPP_SLOT_NORM1, SPP_SLOT_NORM2}, false};
  if (a->norms_per_layer >= 4)
    return (struct spp_layer_shape){
        {SPP_SLOT_NORM1, SPP_SLOT_NORM3}, {SPP_SLOT_NORM2, SPP_SLOT_NORM4}, false};
  if (a->norms_per_layer == 1) two.before[SPP_BRANCH_MLP] = SPP_SLOT_NORM1;
  return two;
}

/* Do both branches read one norm's output? */
static inline bool spp_layer_shares_norm(const struct spp_layer_shape *s) {
  return s->before[0] != SPP_SLOT_COUNT && s->before[0] == s->before[1];
}

#endif
