#include "exec/engine.h"
#include "exec/try.h"

/* The products only read a and b. */
static struct spp_matrix matrix(const void *data, int64_t ld, enum spp_storage store) {
  union {
    const void *read;
    void *any;
  } pointer = {.read = data};
  return (struct spp_matrix){pointer.any, ld, store};
}

static enum spp_status run(struct spp_rank *rank, struct spp_gemm g) {
  void *work;
  g.alpha = 1.0F;
  g.threads = rank->threads;
  SPP_TRY(spp_heap_bytes(&rank->heap, SPP_PART_CONTEXT, "product workspace",
                         rank->ops->gemm_bytes(rank->queue, &g), &work, rank->diag));
  SPP_TRY(rank->ops->gemm(rank->queue, &g, work, rank->diag));
  spp_heap_free(&rank->heap, work);
  return SPP_OK;
}

enum spp_status spp_linear_forward(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                   struct spp_linear_storage store, const void *x, const void *w, void *y) {
  return run(rank, (struct spp_gemm){.trans_b = true,
                                     .m = tokens,
                                     .n = out,
                                     .k = in,
                                     .a = matrix(x, in, store.x),
                                     .b = matrix(w, in, store.x),
                                     .c = matrix(y, out, store.y)});
}

enum spp_status spp_linear_input(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                 struct spp_linear_storage store, const void *dy, const void *w, bool add,
                                 void *dx) {
  return run(rank, (struct spp_gemm){.m = tokens,
                                     .n = in,
                                     .k = out,
                                     .beta = add ? 1.0F : 0.0F,
                                     .a = matrix(dy, out, store.y),
                                     .b = matrix(w, in, store.x),
                                     .c = matrix(dx, in, store.x)});
}

enum spp_status spp_linear_weight(struct spp_rank *rank, int64_t tokens, int64_t in, int64_t out,
                                  struct spp_linear_storage store, const void *dy, const void *x, float *dw) {
  return run(rank, (struct spp_gemm){.trans_a = true,
                                     .m = out,
                                     .n = in,
                                     .k = tokens,
                                     .beta = 1.0F,
                                     .a = matrix(dy, out, store.y),
                                     .b = matrix(x, in, store.x),
                                     .c = matrix(dw, in, SPP_STORE_F32)});
}
