/* One expert of a mixture: the rows that were sent to it, from the input of gate and up to the output of
 * down. */
#ifndef SPP_EXEC_EXPERT_ROWS_H
#define SPP_EXEC_EXPERT_ROWS_H

#include "exec/expert_choice.h"

/* A mixture at work: rows [local expert][rows / local]. */
struct spp_experts {
  struct spp_engine *e;
  const struct spp_device_ops *ops;
  struct spp_queue *q;
  const struct spp_unit_use *use;
  enum spp_pass pass;
  struct spp_layer_kept *kept;
  struct spp_expert_choice choice;
  float *routing; /* kept->routing as the processor sees it, while it is looked at */
  int64_t tokens, experts, top_k, hidden, ffn;
  int64_t rows;  /* routed: sent, and received */
  int64_t ranks; /* that share the experts */
  int64_t local; /* experts of this rank */
};

/* Routing weights on what experts read (modeling_llama4.py Llama4TextMoe), not on what they give. */
static inline bool spp_experts_weigh_input(const struct spp_experts *x) {
  return x->e->arch->routes_input;
}

/* kept->expert_input of expert i through it into out, [routed rows][hidden]; fills kept->gate_up and product.
 */
enum spp_status spp_expert_forward(const struct spp_experts *x, int64_t i, void *out);
/* The activation of one expert, as much of each row as its routing weight says. */
void spp_expert_activate(const struct spp_experts *x, int64_t i);
/* a[r] . b[r] of n rows of `width` elements of the engine's storage; b_stride 0: of one row of b. The blocks
 * are workspace. */
enum spp_status spp_engine_row_dots(struct spp_engine *e, int64_t n, int64_t width, const void *a,
                                    const void *b, int64_t b_stride, float **dots);

/* down and the weighted activation of one expert: gate and up become their gradients, the routing weights
 * theirs. d(weight) = sum of d(product) * product / weight. */
enum spp_status spp_expert_activation_back(const struct spp_experts *x, int64_t i, const void *dout,
                                           void *dproduct);
/* Gate and up of one expert, whose gradients lie in gate_up. */
enum spp_status spp_expert_inputs_back(const struct spp_experts *x, int64_t i, void *drows);

#endif
