#include "exec/grouped.h"

#include <stdlib.h>

enum { POSTED, DONE };

struct grouped {
  struct spp_endpoint end;
  struct spp_endpoint *carrier;
  const struct spp_grouped_ops *how;
  void *context;
  struct spp_transfer *first, *last; /* posted, the oldest first */
};

static struct grouped *of(struct spp_endpoint *end) {
  return end->world;
}

static void post(struct grouped *g, struct spp_transfer *t) {
  if (g->last)
    g->last->next = t;
  else
    g->first = t;
  g->last = t;
}

static enum spp_status grouped_isend(struct spp_endpoint *end, int to, int tag, const void *data,
                                     int64_t bytes, struct spp_transfer *t, struct spp_diag *diag) {
  union {
    const void *read;
    void *any;
  } pointer = {.read = data};
  (void)diag;
  *t = (struct spp_transfer){
      .from = end->rank, .to = to, .tag = tag, .state = POSTED, .data = pointer.any, .bytes = bytes};
  post(of(end), t);
  return SPP_OK;
}

static enum spp_status grouped_irecv(struct spp_endpoint *end, int from, int tag, void *data, int64_t bytes,
                                     struct spp_transfer *t, struct spp_diag *diag) {
  (void)diag;
  *t = (struct spp_transfer){
      .from = from, .to = end->rank, .tag = tag, .state = POSTED, .data = data, .bytes = bytes};
  post(of(end), t);
  return SPP_OK;
}

static enum spp_status grouped_wait(struct spp_endpoint *end, struct spp_transfer *t, struct spp_diag *diag) {
  struct grouped *g = of(end);
  if (t->state == DONE) return SPP_OK;
  struct spp_transfer *list = g->first;
  g->first = g->last = NULL;
  enum spp_status status = g->how->exchange(g->context, list, diag);
  for (; list && status == SPP_OK; list = list->next)
    list->state = DONE;
  return status;
}

static enum spp_status grouped_barrier(struct spp_endpoint *end, struct spp_diag *diag) {
  struct spp_endpoint *carrier = of(end)->carrier;
  return carrier->ops->barrier(carrier, diag);
}

static enum spp_status grouped_check(struct spp_endpoint *end, struct spp_diag *diag) {
  struct spp_endpoint *carrier = of(end)->carrier;
  return carrier->ops->check(carrier, diag);
}

static void grouped_abort(struct spp_endpoint *end, const struct spp_diag *why) {
  struct spp_endpoint *carrier = of(end)->carrier;
  carrier->ops->abort(carrier, why);
}

static void grouped_close(struct spp_endpoint *end) {
  struct grouped *g = of(end);
  g->how->close(g->context);
  free(g);
}

static const struct spp_endpoint_ops ops = {.isend = grouped_isend,
                                            .irecv = grouped_irecv,
                                            .wait = grouped_wait,
                                            .barrier = grouped_barrier,
                                            .abort = grouped_abort,
                                            .check = grouped_check,
                                            .clock = spp_monotonic_s,
                                            .close = grouped_close};

enum spp_status spp_grouped_open(struct spp_endpoint *carrier, struct spp_runner memory,
                                 const struct spp_grouped_ops *how, void *context, struct spp_endpoint **end,
                                 struct spp_diag *diag) {
  struct grouped *g = calloc(1, sizeof *g);
  if (!g) {
    how->close(context);
    return spp_diag_oom(diag);
  }
  *g = (struct grouped){.end = *carrier, .carrier = carrier, .how = how, .context = context};
  g->end.ops = &ops;
  g->end.world = g;
  g->end.memory = memory;
  *end = &g->end;
  return SPP_OK;
}
