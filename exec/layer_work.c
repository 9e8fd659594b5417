/* Norms and products of a decoder layer, with their gradients. */
#include "exec/layer_work.h"

#include "exec/try.h"

/* One norm at work. */
struct norm {
  const struct spp_layer_work *w;
  enum spp_slot slot;
  int64_t rows, width;
  const void *x;
  void *y;
  float *stats;
  const void *dy; /* NULL in forward */
  void *dx;
};

static const void *weight_or_null(const struct norm *n, enum spp_slot slot) {
  bool there = slot != SPP_SLOT_COUNT && spp_use_has(n->w->use, slot);
  return there ? spp_use_weight(n->w->use, slot) : NULL;
}
static float *grad_or_null(const struct norm *n, enum spp_slot slot) {
  bool there = n->dy && slot != SPP_SLOT_COUNT && spp_use_has(n->w->use, slot);
  return there ? spp_use_grad(n->w->use, slot) : NULL;
}

static void run_rms(const struct norm *n) {
  const struct spp_rmsnorm call = {.rows = n->rows,
                                   .width = n->width,
                                   .eps = (float)n->w->e->arch->norm_eps,
                                   .storage = n->w->e->store,
                                   .x = n->x,
                                   .weight = weight_or_null(n, n->slot),
                                   .y = n->y,
                                   .rstd = n->stats,
                                   .dy = n->dy,
                                   .dx = n->dx,
                                   .dweight = grad_or_null(n, n->slot),
                                   .offset = (float)n->w->e->arch->norm_offset};
  (n->dy ? n->w->ops->rmsnorm_backward : n->w->ops->rmsnorm_forward)(n->w->q, &call);
}

static void run_layer(const struct norm *n) {
  const enum spp_slot bias = spp_slot_norm_bias(n->slot);
  const struct spp_layernorm call = {.rows = n->rows,
                                     .width = n->width,
                                     .eps = (float)n->w->e->arch->norm_eps,
                                     .storage = n->w->e->store,
                                     .x = n->x,
                                     .weight = weight_or_null(n, n->slot),
                                     .bias = weight_or_null(n, bias),
                                     .y = n->y,
                                     .rstd = n->stats,
                                     .mean = n->stats + n->rows,
                                     .dy = n->dy,
                                     .dx = n->dx,
                                     .dweight = grad_or_null(n, n->slot),
                                     .dbias = grad_or_null(n, bias),
                                     .offset = (float)n->w->e->arch->norm_offset};
  (n->dy ? n->w->ops->layernorm_backward : n->w->ops->layernorm_forward)(n->w->q, &call);
}

static void run(const struct norm n) {
  if (n.w->e->arch->norm == SPP_NORM_RMS)
    run_rms(&n);
  else
    run_layer(&n);
}

void spp_layer_norm(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                    const void *x, void *y, float *stats) {
  run((struct norm){w, slot, rows, width, x, y, stats, NULL, NULL});
}

void spp_stream_norm(const struct spp_layer_work *w, enum spp_slot slot, const void *x, void *y,
                     float *stats) {
  spp_layer_norm(w, slot, w->e->g->stream_tokens, w->e->arch->hidden, x, y, stats);
}

int64_t spp_stream_norm_stats(const struct spp_engine *e) {
  return e->g->stream_tokens * (e->arch->norm == SPP_NORM_RMS ? 1 : 2);
}

void spp_layer_norm_grad(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                         const void *x, float *stats, void *dy) {
  run((struct norm){w, slot, rows, width, x, NULL, stats, dy, dy});
}

void spp_stream_norm_grad(const struct spp_layer_work *w, enum spp_slot slot, const void *x, float *stats,
                          void *dy) {
  spp_layer_norm_grad(w, slot, w->e->g->stream_tokens, w->e->arch->hidden, x, stats, dy);
}

void spp_stream_norm_grad_over(const struct spp_layer_work *w, enum spp_slot slot, void *x, float *stats,
                               const void *dy) {
  run((struct norm){w, slot, w->e->g->stream_tokens, w->e->arch->hidden, x, NULL, stats, dy, x});
}

void spp_layer_add_bias(const struct spp_layer_work *w, enum spp_slot bias, int64_t rows, int64_t width,
                        void *y) {
  if (spp_use_has(w->use, bias))
    w->ops->add_row(w->q, rows, width, w->e->store, spp_use_weight(w->use, bias), y);
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
  w->ops->sum_rows(w->q, w->e->g->tokens, held->rows, w->e->store, dy, spp_use_grad(w->use, bias));
  return SPP_OK;
}
