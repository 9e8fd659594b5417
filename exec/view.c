#include "exec/view.h"

#include <stdlib.h>

/* The address without its promise, which the one who opened the view keeps. */
static void *address(const struct spp_view *v) {
  union {
    const void *read;
    void *any;
  } pointer = {.read = v->memory};
  return pointer.any;
}

static bool is_fetched(const struct spp_rank *rank, const struct spp_view *v) {
  return !spp_rank_is_processor(rank) && v->data;
}

static bool fetch(struct spp_rank *rank, struct spp_view *v) {
  v->data = malloc(v->bytes > 0 ? (size_t)v->bytes : 1);
  if (v->data && v->use & SPP_VIEW_READ) rank->device->download(rank->queue, v->data, v->memory, v->bytes);
  return v->data != NULL;
}

enum spp_status spp_views_open(struct spp_rank *rank, struct spp_view *views, int count) {
  bool room = true, reads = false;
  for (int i = 0; i < count; i++) {
    views[i].data = spp_rank_is_processor(rank) ? address(&views[i]) : NULL;
    reads = reads || views[i].use & SPP_VIEW_READ;
  }
  if (spp_rank_is_processor(rank)) return SPP_OK;
  for (int i = 0; i < count && room; i++)
    room = fetch(rank, &views[i]);
  enum spp_status status = reads || !room ? spp_rank_finish(rank) : SPP_OK;
  if (status == SPP_OK && !room) status = spp_diag_oom(rank->diag);
  for (int i = 0; i < count && status != SPP_OK; i++)
    free(views[i].data);
  return status;
}

void spp_views_close(struct spp_rank *rank, struct spp_view *views, int count) {
  for (int i = 0; i < count; i++) {
    struct spp_view *v = &views[i];
    if (!is_fetched(rank, v)) continue;
    if (v->use & SPP_VIEW_WRITE) rank->device->upload(rank->queue, address(v), v->data, v->bytes);
    free(v->data);
    v->data = NULL;
  }
}
