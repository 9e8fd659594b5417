/* All-gather of K and V over the ring ranks, put in order of position; backward gathers again and scatters
 * the sums of their gradients (NVIDIA/TransformerEngine context_parallel.py AttnFuncWithCPAndKVAllGather). */
#include <string.h>

#include "exec/attention_pieces.h"
#include "exec/try.h"

struct gather {
  const struct spp_attention *a;
  int64_t width;  /* floats of a token */
  int64_t floats; /* of one rank */
};

static struct gather gather_of(const struct spp_attention *a) {
  return (struct gather){a, a->kv_heads_here * a->head_dim, spp_attention_kv_floats(a)};
}

static enum spp_status whole(struct spp_rank *rank, const struct gather *g, const char *name, float **data) {
  return spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, name, g->floats * g->a->cut.ring, data, rank->diag);
}

/* Between rank after rank and position after position. */
static void reorder(const struct gather *g, float *by_rank, float *by_position, bool to_position) {
  for (int64_t r = 0; r < g->a->cut.ring; r++) {
    const struct spp_positions *p = &g->a->positions[r];
    for (int64_t i = 0; i < p->n_runs; i++) {
      size_t bytes = (size_t)(p->runs[i].count * g->width) * sizeof(float);
      float *there = by_position + p->runs[i].first * g->width;
      memcpy(to_position ? there : by_rank, to_position ? by_rank : there, bytes);
      by_rank += p->runs[i].count * g->width;
    }
  }
}

static enum spp_status fetch(struct spp_rank *rank, const struct gather *g, struct spp_label label,
                             const float *mine, float **ordered) {
  float *by_rank;
  SPP_TRY(whole(rank, g, "gathered K and V", &by_rank));
  memcpy(by_rank + g->a->ring->me * g->floats, mine, (size_t)g->floats * sizeof(float));
  SPP_TRY(spp_group_all_gather(g->a->ring, label, by_rank, g->floats * g->a->cut.ring, rank->diag));
  SPP_TRY(whole(rank, g, "gathered K and V", ordered));
  reorder(g, by_rank, *ordered, true);
  spp_heap_free(&rank->heap, by_rank);
  return SPP_OK;
}

static enum spp_status fetch_both(struct spp_rank *rank, const struct gather *g, enum spp_pass pass,
                                  const struct spp_attention_kept *kept, struct spp_kv *kv) {
  SPP_TRY(fetch(rank, g, (struct spp_label){"k", pass}, kept->k, &kv->k));
  return fetch(rank, g, (struct spp_label){"v", pass}, kept->v, &kv->v);
}

static struct spp_kv_block block_of(const struct gather *g, struct spp_kv kv) {
  return (struct spp_kv_block){.k = kv.k, .v = kv.v, .rows = g->a->rows * g->a->cut.ring};
}

enum spp_status spp_gather_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                   struct spp_attention_kept *kept) {
  const struct gather g = gather_of(a);
  struct spp_kv kv;
  SPP_TRY(fetch_both(rank, &g, pass, kept, &kv));
  const struct spp_kv_block block = block_of(&g, kv);
  SPP_TRY(spp_attention_block_forward(rank, a, kept->q, &block, kept->out, kept->lse));
  spp_heap_free(&rank->heap, kv.k);
  spp_heap_free(&rank->heap, kv.v);
  return SPP_OK;
}

/* `ordered` is freed; this rank's share of the sum is returned. */
static enum spp_status scatter(struct spp_rank *rank, const struct gather *g, const char *what,
                               float *ordered, float **mine) {
  const struct spp_label label = {what, SPP_PASS_BACKWARD};
  float *by_rank;
  SPP_TRY(whole(rank, g, "gradients of gathered K and V", &by_rank));
  reorder(g, by_rank, ordered, false);
  spp_heap_free(&rank->heap, ordered);
  SPP_TRY(spp_group_reduce_scatter(g->a->ring, label, by_rank, g->floats * g->a->cut.ring, rank->diag));
  SPP_TRY(
      spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "gradients of q, k, v", g->floats, mine, rank->diag));
  memcpy(*mine, by_rank + g->a->ring->me * g->floats, (size_t)g->floats * sizeof(float));
  spp_heap_free(&rank->heap, by_rank);
  return SPP_OK;
}

enum spp_status spp_gather_backward(struct spp_rank *rank, const struct spp_attention *a,
                                    const struct spp_attention_kept *kept, const float *dout,
                                    const float *delta, struct spp_attention_grads *grads) {
  const struct gather g = gather_of(a);
  struct spp_kv kv, dkv;
  SPP_TRY(fetch_both(rank, &g, SPP_PASS_BACKWARD, kept, &kv));
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "gradients of q, k, v", spp_attention_q_floats(a),
                          &grads->q, rank->diag));
  SPP_TRY(whole(rank, &g, "gradients of gathered K and V", &dkv.k));
  SPP_TRY(whole(rank, &g, "gradients of gathered K and V", &dkv.v));
  const struct spp_kv_block block = block_of(&g, kv);
  const struct spp_block_backward work = {kept->q, dout, kept->lse, delta, grads->q, dkv};
  SPP_TRY(spp_attention_block_backward(rank, a, &block, &work));
  spp_heap_free(&rank->heap, kv.k);
  spp_heap_free(&rank->heap, kv.v);
  SPP_TRY(scatter(rank, &g, "dk", dkv.k, &grads->k));
  return scatter(rank, &g, "dv", dkv.v, &grads->v);
}
