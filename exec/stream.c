/* Moving between the residual stream of a rank and the tokens its tensor-parallel group works on together. */
#include "exec/engine.h"
#include "exec/try.h"

int64_t spp_stream_elements(const struct spp_engine *e) {
  return e->g->stream_tokens * e->arch->hidden;
}

enum spp_status spp_engine_block(struct spp_engine *e, enum spp_part part, const char *name, int64_t elements,
                                 void **data) {
  return spp_heap_elements(&e->rank->heap, part, name, elements, e->store, data, e->rank->diag);
}

enum spp_status spp_engine_floats(struct spp_engine *e, enum spp_part part, const char *name, int64_t floats,
                                  float **data) {
  return spp_heap_floats(&e->rank->heap, part, name, floats, data, e->rank->diag);
}

static int64_t own_bytes(const struct spp_engine *e, int64_t width) {
  return e->g->stream_tokens * width * spp_storage_bytes(e->store);
}
static void *own_part(const struct spp_engine *e, void *whole, int64_t width) {
  return spp_engine_at(e, whole, e->groups.tp_rank * e->g->stream_tokens * width);
}

enum spp_status spp_stream_gather(struct spp_engine *e, struct spp_label label, const void *stream,
                                  const void **whole, void **block) {
  return spp_stream_gather_width(e, label, stream, e->arch->hidden, whole, block);
}

enum spp_status spp_stream_gather_width(struct spp_engine *e, struct spp_label label, const void *stream,
                                        int64_t width, const void **whole, void **block) {
  int64_t elements = e->g->tokens * width;
  *block = NULL;
  *whole = stream;
  if (!e->plan->layout.megatron_sp || e->g->tp == 1) return SPP_OK;
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "gathered stream", elements, block));
  spp_engine_copy(e, own_part(e, *block, width), stream, own_bytes(e, width));
  *whole = *block;
  return spp_group_all_gather_span(&e->groups.tp, label, spp_engine_span(e, *block, elements), e->rank->diag);
}

enum spp_status spp_stream_reduce(struct spp_engine *e, struct spp_label label, void **data) {
  return spp_stream_reduce_width(e, label, e->arch->hidden, data);
}

enum spp_status spp_stream_reduce_width(struct spp_engine *e, struct spp_label label, int64_t width,
                                        void **data) {
  const struct spp_span whole = spp_engine_span(e, *data, e->g->tokens * width);
  void *stream;
  if (e->g->tp == 1) return SPP_OK;
  if (!e->plan->layout.megatron_sp)
    return spp_group_all_reduce_span(&e->groups.tp, label, whole, e->rank->diag);
  SPP_TRY(spp_group_reduce_scatter_span(&e->groups.tp, label, whole, e->rank->diag));
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "stream", e->g->stream_tokens * width, &stream));
  spp_engine_copy(e, stream, own_part(e, *data, width), own_bytes(e, width));
  spp_heap_free(&e->rank->heap, *data);
  *data = stream;
  return SPP_OK;
}
