#include "exec/head_norm.h"

/* One head of one token. */
static struct spp_layernorm call_of(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads,
                                    int64_t row, const void *x, float *stats) {
  const enum spp_storage store = w->e->store;
  int64_t dim = w->e->arch->head_dim, head = w->e->groups.tp_rank * heads + row % heads;
  return (struct spp_layernorm){.rows = 1,
                                .width = dim,
                                .eps = (float)w->e->arch->norm_eps,
                                .storage = store,
                                .x = spp_at_const(x, store, row * dim),
                                .weight = spp_at_const(spp_use_weight(w->use, slot), store, head * dim),
                                .rstd = stats + row,
                                .mean = stats + w->e->g->tokens * heads + row};
}

void spp_head_norm_forward(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads, const void *x,
                           void *y, float *stats) {
  for (int64_t row = 0; row < w->e->g->tokens * heads; row++) {
    struct spp_layernorm call = call_of(w, slot, heads, row, x, stats);
    call.y = spp_engine_at(w->e, y, row * call.width);
    w->ops->layernorm_forward(w->q, &call);
  }
}

void spp_head_norm_backward(const struct spp_layer_work *w, enum spp_slot slot, int64_t heads, const void *x,
                            float *stats, void *dy) {
  for (int64_t row = 0; row < w->e->g->tokens * heads; row++) {
    struct spp_layernorm call = call_of(w, slot, heads, row, x, stats);
    int64_t head = w->e->groups.tp_rank * heads + row % heads;
    call.dy = call.dx = spp_engine_at(w->e, dy, row * call.width);
    call.dweight = spp_use_grad(w->use, slot) + head * call.width;
    w->ops->layernorm_backward(w->q, &call);
  }
}
