/* All-gather of K and V over the ring ranks, put in order of position; backward gathers again and scatters
 * the sums of their gradients (NVIDIA/TransformerEngine context_parallel.py AttnFuncWithCPAndKVAllGather). */
#include "exec/attention_pieces.h"
#include "exec/try.h"

struct gather {
  const struct spp_attention *a;
  int64_t width;    /* elements of a token */
  int64_t elements; /* of one rank */
};

static struct gather gather_k(const struct spp_attention *a) {
  return (struct gather){a, a->kv_heads_here * a->head_dim, spp_attention_k_elements(a)};
}
static struct gather gather_v(const struct spp_attention *a) {
  return (struct gather){a, a->kv_heads_here * a->v_head_dim, spp_attention_v_elements(a)};
}

/* This rank's part of what all ranks hold. */
static void *own(const struct gather *g, void *by_rank) {
  return spp_at(by_rank, g->a->store, g->a->ring->me * g->elements);
}
static int64_t own_bytes(const struct gather *g) {
  return g->elements * spp_storage_bytes(g->a->store);
}
static struct spp_span span_of(const struct gather *g, void *by_rank) {
  return (struct spp_span){by_rank, g->elements * g->a->cut.ring, g->a->store};
}

static enum spp_status whole(struct spp_rank *rank, const struct gather *g, const char *name, void **data) {
  return spp_attention_block(rank, g->a, SPP_PART_TRANSIENT, name, g->elements * g->a->cut.ring, data);
}

/* Between rank after rank and position after position. */
static void reorder(struct spp_rank *rank, const struct gather *g, void *by_rank, void *by_position,
                    bool to_position) {
  const enum spp_storage store = g->a->store;
  int64_t at = 0;
  for (int64_t r = 0; r < g->a->cut.ring; r++) {
    const struct spp_positions *p = &g->a->positions[r];
    for (int64_t i = 0; i < p->n_runs; i++) {
      int64_t elements = p->runs[i].count * g->width;
      void *there = spp_at(by_position, store, p->runs[i].first * g->width),
           *here = spp_at(by_rank, store, at);
      rank->device->copy(rank->queue, to_position ? there : here, to_position ? here : there,
                         elements * spp_storage_bytes(store));
      at += elements;
    }
  }
}

static enum spp_status fetch(struct spp_rank *rank, const struct gather *g, struct spp_label label,
                             const void *mine, void **ordered) {
  void *by_rank;
  SPP_TRY(whole(rank, g, "gathered K and V", &by_rank));
  rank->device->copy(rank->queue, own(g, by_rank), mine, own_bytes(g));
  SPP_TRY(spp_group_all_gather_span(g->a->ring, label, span_of(g, by_rank), rank->diag));
  SPP_TRY(whole(rank, g, "gathered K and V", ordered));
  reorder(rank, g, by_rank, *ordered, true);
  spp_heap_free(&rank->heap, by_rank);
  return SPP_OK;
}

static enum spp_status fetch_both(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                  const struct spp_attention_kept *kept, struct spp_kv *kv) {
  const struct gather k = gather_k(a), v = gather_v(a);
  SPP_TRY(fetch(rank, &k, (struct spp_label){"k", pass}, kept->k, &kv->k));
  return fetch(rank, &v, (struct spp_label){"v", pass}, kept->v, &kv->v);
}

static struct spp_kv_block block_of(const struct spp_attention *a, struct spp_kv kv) {
  return (struct spp_kv_block){.k = kv.k, .v = kv.v, .rows = a->rows * a->cut.ring};
}

enum spp_status spp_gather_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                   struct spp_attention_kept *kept) {
  struct spp_kv kv;
  SPP_TRY(fetch_both(rank, a, pass, kept, &kv));
  const struct spp_kv_block block = block_of(a, kv);
  SPP_TRY(spp_attention_block_forward(rank, a, kept->q, &block,
                                      &(struct spp_block_result){kept->out, a->store, kept->lse, true}));
  spp_heap_free(&rank->heap, kv.k);
  spp_heap_free(&rank->heap, kv.v);
  return SPP_OK;
}

/* `ordered` is freed; this rank's share of the sum is returned. */
static enum spp_status scatter(struct spp_rank *rank, const struct gather *g, const char *what, void *ordered,
                               void **mine) {
  const struct spp_label label = {what, SPP_PASS_BACKWARD};
  void *by_rank;
  SPP_TRY(whole(rank, g, "gradients of gathered K and V", &by_rank));
  reorder(rank, g, by_rank, ordered, false);
  spp_heap_free(&rank->heap, ordered);
  SPP_TRY(spp_group_reduce_scatter_span(g->a->ring, label, span_of(g, by_rank), rank->diag));
  SPP_TRY(spp_attention_block(rank, g->a, SPP_PART_TRANSIENT, "gradients of q, k, v", g->elements, mine));
  rank->device->copy(rank->queue, *mine, own(g, by_rank), own_bytes(g));
  spp_heap_free(&rank->heap, by_rank);
  return SPP_OK;
}

enum spp_status spp_gather_backward(struct spp_rank *rank, const struct spp_attention *a,
                                    const struct spp_attention_kept *kept, const void *dout,
                                    const float *delta, struct spp_attention_grads *grads) {
  const struct gather of_k = gather_k(a), of_v = gather_v(a);
  struct spp_kv kv, dkv;
  SPP_TRY(fetch_both(rank, a, SPP_PASS_BACKWARD, kept, &kv));
  SPP_TRY(spp_attention_block(rank, a, SPP_PART_TRANSIENT, "gradients of q, k, v",
                              spp_attention_q_elements(a), &grads->q));
  SPP_TRY(whole(rank, &of_k, "gradients of gathered K and V", &dkv.k));
  SPP_TRY(whole(rank, &of_v, "gradients of gathered K and V", &dkv.v));
  const struct spp_kv_block block = block_of(a, kv);
  const struct spp_block_backward work = {kept->q, dout, kept->lse, delta, grads->q, dkv, a->store};
  SPP_TRY(spp_attention_block_backward(rank, a, &block, &work));
  spp_heap_free(&rank->heap, kv.k);
  spp_heap_free(&rank->heap, kv.v);
  SPP_TRY(scatter(rank, &of_k, "dk", dkv.k, &grads->k));
  return scatter(rank, &of_v, "dv", dkv.v, &grads->v);
}
