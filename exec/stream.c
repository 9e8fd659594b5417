/* Moving between the residual stream of a rank and the tokens its tensor-parallel group works on together. */
#include <string.h>

#include "exec/engine.h"
#include "exec/try.h"

int64_t spp_stream_floats(const struct spp_engine *e) {
  return e->g->stream_tokens * e->arch->hidden;
}

enum spp_status spp_engine_block(struct spp_engine *e, enum spp_part part, const char *name, int64_t floats,
                                 float **data) {
  return spp_heap_floats(&e->rank->heap, part, name, floats, data, e->rank->diag);
}

enum spp_status spp_stream_gather(struct spp_engine *e, struct spp_label label, const float *stream,
                                  const float **whole, float **block) {
  int64_t floats = e->g->tokens * e->arch->hidden;
  *block = NULL;
  *whole = stream;
  if (!e->plan->layout.megatron_sp || e->g->tp == 1) return SPP_OK;
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "gathered stream", floats, block));
  memcpy(*block + e->groups.tp_rank * spp_stream_floats(e), stream,
         (size_t)spp_stream_floats(e) * sizeof(float));
  *whole = *block;
  return spp_group_all_gather(&e->groups.tp, label, *block, floats, e->rank->diag);
}

enum spp_status spp_stream_reduce(struct spp_engine *e, struct spp_label label, float **data) {
  int64_t floats = e->g->tokens * e->arch->hidden;
  float *stream;
  if (e->g->tp == 1) return SPP_OK;
  if (!e->plan->layout.megatron_sp)
    return spp_group_all_reduce(&e->groups.tp, label, *data, floats, e->rank->diag);
  SPP_TRY(spp_group_reduce_scatter(&e->groups.tp, label, *data, floats, e->rank->diag));
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "stream", spp_stream_floats(e), &stream));
  memcpy(stream, *data + e->groups.tp_rank * spp_stream_floats(e),
         (size_t)spp_stream_floats(e) * sizeof(float));
  spp_heap_free(&e->rank->heap, *data);
  *data = stream;
  return SPP_OK;
}
