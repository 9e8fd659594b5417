/* Norms and products of a decoder layer, with their gradients. */
#include "exec/layer_work.h"

#include "exec/try.h"

void spp_layer_norm(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                    const void *x, void *y, float *rstd) {
  const struct spp_rmsnorm call = {.rows = rows,
                                   .width = width,
                                   .eps = (float)w->e->arch->norm_eps,
                                   .storage = w->e->store,
                                   .x = x,
                                   .weight = spp_use_weight(w->use, slot),
                                   .y = y,
                                   .rstd = rstd};
  w->ops->rmsnorm_forward(&call);
}

void spp_layer_add_bias(const struct spp_layer_work *w, enum spp_slot bias, int64_t rows, int64_t width,
                        void *y) {
  if (!spp_use_has(w->use, bias)) return;
  for (int64_t t = 0; t < rows; t++) {
    void *row = spp_engine_at(w->e, y, t * width);
    w->ops->add(width, w->e->store, row, spp_use_weight(w->use, bias), row);
  }
}

enum spp_status spp_layer_project(const struct spp_layer_work *w, enum spp_slot slot, enum spp_slot bias,
                                  const void *x, void *y) {
  const struct spp_held *held = &w->use->unit->held[slot];
  int64_t tokens = w->e->g->tokens;
  SPP_TRY(spp_linear_forward(w->e->rank, tokens, held->cols, held->rows, spp_linear_in(w->e->store), x,
                             spp_use_weight(w->use, slot), y));
  if (bias != SPP_SLOT_COUNT) spp_layer_add_bias(w, bias, tokens, held->rows, y);
  return SPP_OK;
}

enum spp_status spp_layer_input_grad(const struct spp_layer_work *w, enum spp_slot slot, const void *dy,
                                     bool add, void *dx) {
  const struct spp_held *held = &w->use->unit->held[slot];
  return spp_linear_input(w->e->rank, w->e->g->tokens, held->cols, held->rows, spp_linear_in(w->e->store), dy,
                          spp_use_weight(w->use, slot), add, dx);
}

enum spp_status spp_layer_weight_grad(const struct spp_layer_work *w, enum spp_slot slot, enum spp_slot bias,
                                      const void *dy, const void *x) {
  const struct spp_held *held = &w->use->unit->held[slot];
  SPP_TRY(spp_linear_weight(w->e->rank, w->e->g->tokens, held->cols, held->rows, spp_linear_in(w->e->store),
                            dy, x, spp_use_grad(w->use, slot)));
  if (bias == SPP_SLOT_COUNT || !spp_use_has(w->use, bias)) return SPP_OK;
  for (int64_t t = 0; t < w->e->g->tokens; t++)
    w->ops->accumulate(held->rows, 1.0F, spp_at_const(dy, w->e->store, t * held->rows), w->e->store,
                       spp_use_grad(w->use, bias));
  return SPP_OK;
}

void spp_layer_norm_grad(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                         const void *x, float *rstd, void *dy) {
  const struct spp_rmsnorm call = {.rows = rows,
                                   .width = width,
                                   .eps = (float)w->e->arch->norm_eps,
                                   .storage = w->e->store,
                                   .x = x,
                                   .weight = spp_use_weight(w->use, slot),
                                   .rstd = rstd,
                                   .dy = dy,
                                   .dx = dy,
                                   .dweight = spp_use_grad(w->use, slot)};
  w->ops->rmsnorm_backward(&call);
}
