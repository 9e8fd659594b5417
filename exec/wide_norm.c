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

/* Views of [tokens][width], of a weight's part, of one float a token. */
static struct spp_view rows_view(const struct spp_layer_work *w, const void *x, int64_t width, unsigned use) {
  return spp_view_of(x, tokens(w) * width * spp_storage_bytes(w->e->store), use);
}
static struct spp_view weight_view(const struct spp_layer_work *w, enum spp_slot slot, int64_t width) {
  const enum spp_storage store = w->e->store;
  return spp_view_of(spp_at_const(spp_use_weight(w->use, slot), store, first(w, width)),
                     width * spp_storage_bytes(store), SPP_VIEW_READ);
}
static struct spp_view tokens_view(const struct spp_layer_work *w, const float *x, unsigned use) {
  return spp_view_floats(x, tokens(w), use);
}

enum spp_status spp_wide_norm_forward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                      const void *x, void *y, float *rstd) {
  const enum spp_storage store = w->e->store;
  float all = (float)(width * w->e->g->tp), eps = (float)w->e->arch->norm_eps;
  w->ops->row_dots(w->q, tokens(w), width, x, width, store, x, width, store, rstd, 1);
  SPP_TRY(sum(w, slot, rstd));
  struct spp_view views[] = {weight_view(w, slot, width), rows_view(w, x, width, SPP_VIEW_READ),
                             rows_view(w, y, width, SPP_VIEW_WRITE),
                             tokens_view(w, rstd, SPP_VIEW_READ | SPP_VIEW_WRITE)};
  SPP_TRY(spp_views_open(w->e->rank, views, 4));
  const void *weight = views[0].data, *from = views[1].data;
  float *scales = views[3].data;
  for (int64_t t = 0; t < tokens(w); t++) {
    scales[t] = 1.0F / sqrtf(scales[t] / all + eps);
    for (int64_t i = 0, at = t * width; i < width; i++, at++)
      spp_store(views[2].data, store, at,
                spp_load(weight, store, i) * (spp_load(from, store, at) * scales[t]));
  }
  spp_views_close(w->e->rank, views, 4);
  return SPP_OK;
}

/* The backward's tensors, as the processor sees them. */
struct back {
  enum spp_storage store;
  int64_t tokens, width;
  const void *weight, *x;
  const float *rstd;
  void *dy;
  float *dots, *dweight;
};

static void take_dots(const struct back *b) {
  for (int64_t t = 0; t < b->tokens; t++) {
    b->dots[t] = 0.0F;
    for (int64_t i = 0, at = t * b->width; i < b->width; i++, at++)
      b->dots[t] +=
          spp_load(b->weight, b->store, i) * spp_load(b->dy, b->store, at) * spp_load(b->x, b->store, at);
  }
}

/* With g = weight * dy: dx = rstd * (g - x * rstd^2 * mean(g * x)), the mean over `all` elements. */
static void take_gradients(const struct back *b, float all) {
  for (int64_t t = 0; t < b->tokens; t++) {
    float rstd = b->rstd[t], pull = rstd * rstd * b->dots[t] / all;
    for (int64_t i = 0, at = t * b->width; i < b->width; i++, at++) {
      float d = spp_load(b->dy, b->store, at), v = spp_load(b->x, b->store, at);
      b->dweight[i] += d * v * rstd;
      spp_store(b->dy, b->store, at, rstd * (spp_load(b->weight, b->store, i) * d - v * pull));
    }
  }
}

enum spp_status spp_wide_norm_backward(const struct spp_layer_work *w, enum spp_slot slot, int64_t width,
                                       const void *x, const float *rstd, void *dy) {
  const unsigned both = SPP_VIEW_READ | SPP_VIEW_WRITE;
  float *dweight = spp_use_grad(w->use, slot) + first(w, width), *dots;
  SPP_TRY(spp_engine_floats(w->e, SPP_PART_TRANSIENT, "norm backward", tokens(w), &dots));
  struct spp_view sums = tokens_view(w, dots, both);
  struct spp_view views[] = {weight_view(w, slot, width), rows_view(w, x, width, SPP_VIEW_READ),
                             rows_view(w, dy, width, both), tokens_view(w, rstd, SPP_VIEW_READ),
                             spp_view_floats(dweight, width, both)};
  SPP_TRY(spp_views_open(w->e->rank, views, 5));
  struct back b = {w->e->store,   tokens(w),     width, views[0].data, views[1].data,
                   views[3].data, views[2].data, NULL,  views[4].data};
  enum spp_status status = spp_views_open(w->e->rank, &sums, 1);
  b.dots = sums.data;
  if (status == SPP_OK) {
    take_dots(&b);
    spp_views_close(w->e->rank, &sums, 1);
    status = sum(w, slot, dots);
  }
  if (status == SPP_OK) status = spp_views_open(w->e->rank, &sums, 1);
  b.dots = sums.data;
  if (status == SPP_OK) {
    take_gradients(&b, (float)(width * w->e->g->tp));
    spp_views_close(w->e->rank, &sums, 1);
  }
  spp_views_close(w->e->rank, views, 5);
  spp_heap_free(&w->e->rank->heap, dots);
  return status;
}
