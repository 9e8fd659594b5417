#include "exec/wide_norm.h"

#include <math.h>

#include "exec/try.h"

static int64_t tokens(const struct spp_layer_work *w) {
  return w->e->g->tokens;
}
static int64_t first(const struct spp_layer_work *w, int64_t width) {
  return w->e->groups.tp_rank * width;
}
static const char *label_of(enum spp_slot slot) {
  return slot == SPP_SLOT_Q_NORM ? "q norm statistics" : "k norm statistics";
}

/* One float a token, over the ranks that have the other heads. */
static enum spp_status sum(const struct spp_layer_work *w, enum spp_slot slot, float *sums) {
  const struct spp_span span = {sums, tokens(w), SPP_STORE_F32};
  if (w->e->g->tp == 1) return SPP_OK;
  return spp_group_all_reduce_span(&w->e->groups.tp, (struct spp_label){label_of(slot), w->pass}, span,
                                   w->e->rank->diag);
}

enum spp_status spp_wide_norm_forward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                      const void *x, void *y, float *rstd) {
  const enum spp_storage store = w->e->store;
  const void *weight = spp_at_const(spp_use_weight(w->use, slot), store, first(w, width));
  float all = (float)(width * w->e->g->tp), eps = (float)w->e->arch->norm_eps;
  w->ops->row_dots(tokens(w), width, x, width, store, x, width, store, rstd, 1);
  SPP_TRY(sum(w, slot, rstd));
  for (int64_t t = 0; t < tokens(w); t++) {
    rstd[t] = 1.0F / sqrtf(rstd[t] / all + eps);
    for (int64_t i = 0, at = t * width; i < width; i++, at++)
      spp_store(y, store, at, spp_load(weight, store, i) * (spp_load(x, store, at) * rstd[t]));
  }
  return SPP_OK;
}

/* With g = weight * dy: dx = rstd * (g - x * rstd^2 * mean(g * x)). */
enum spp_status spp_wide_norm_backward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                       const void *x, const float *rstd, void *dy) {
  const enum spp_storage store = w->e->store;
  const void *weight = spp_at_const(spp_use_weight(w->use, slot), store, first(w, width));
  float *dweight = spp_use_grad(w->use, slot) + first(w, width), *dots;
  float all = (float)(width * w->e->g->tp);
  SPP_TRY(spp_engine_floats(w->e, SPP_PART_TRANSIENT, "norm backward", tokens(w), &dots));
  for (int64_t t = 0; t < tokens(w); t++) {
    dots[t] = 0.0F;
    for (int64_t i = 0, at = t * width; i < width; i++, at++)
      dots[t] += spp_load(weight, store, i) * spp_load(dy, store, at) * spp_load(x, store, at);
  }
  SPP_TRY(sum(w, slot, dots));
  for (int64_t t = 0; t < tokens(w); t++) {
    float pull = rstd[t] * rstd[t] * dots[t] / all;
    for (int64_t i = 0, at = t * width; i < width; i++, at++) {
      float d = spp_load(dy, store, at), v = spp_load(x, store, at);
      dweight[i] += d * v * rstd[t];
      spp_store(dy, store, at, rstd[t] * (spp_load(weight, store, i) * d - v * pull));
    }
  }
  spp_heap_free(&w->e->rank->heap, dots);
  return SPP_OK;
}
