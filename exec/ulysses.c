/* The all-to-all between "some tokens, all heads" and "more tokens, some heads". A piece for one peer is
 * [tokens][heads of the peer]; pieces from all peers, token sequence by token sequence, are the rows. */
#include "exec/attention_pieces.h"
#include "exec/try.h"

/* How one tensor is cut: `heads` real heads, each sent to `repeat` peers. */
struct exchange {
  const struct spp_attention *a;
  int64_t heads, repeat, head_dim;
  int64_t piece_heads; /* a peer's */
  int64_t piece_width; /* elements of one token in a piece */
  int64_t piece_elements;
};

static struct exchange exchange_of(const struct spp_attention *a, const struct spp_exchanged *e) {
  struct exchange x = {.a = a, .heads = e->heads, .repeat = e->repeat, .head_dim = e->head_dim};
  x.piece_heads = e->heads * e->repeat / a->cut.ulysses;
  x.piece_width = x.piece_heads * e->head_dim;
  x.piece_elements = a->tokens * x.piece_width;
  return x;
}

/* First element of the heads of `peer` within a token. */
static int64_t head_offset(const struct exchange *x, int64_t peer) {
  return peer * x->piece_heads / x->repeat * x->head_dim;
}

static int64_t bytes_of(const struct exchange *x, int64_t elements) {
  return elements * spp_storage_bytes(x->a->store);
}
static void *at(const struct exchange *x, void *data, int64_t i) {
  return spp_at(data, x->a->store, i);
}
static const void *in(const struct exchange *x, const void *data, int64_t i) {
  return spp_at_const(data, x->a->store, i);
}

static void cut_heads(struct spp_rank *rank, const struct exchange *x, const void *data, void *pieces) {
  int64_t piece = bytes_of(x, x->piece_width), token = bytes_of(x, x->heads * x->head_dim);
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    rank->device->copy_rows(rank->queue, x->a->tokens, piece, at(x, pieces, peer * x->piece_elements), piece,
                            in(x, data, head_offset(x, peer)), token);
}

/* Inverse of cut_heads; pieces that came from the same head add up. */
static void join_heads(struct spp_rank *rank, const struct exchange *x, const void *pieces, void *data) {
  int64_t width = x->heads * x->head_dim;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++) {
    const void *from = in(x, pieces, peer * x->piece_elements);
    void *to = at(x, data, head_offset(x, peer));
    if (peer % x->repeat == 0)
      rank->device->copy_rows(rank->queue, x->a->tokens, bytes_of(x, x->piece_width), to, bytes_of(x, width),
                              from, bytes_of(x, x->piece_width));
    else
      for (int64_t t = 0; t < x->a->tokens; t++)
        rank->ops->add(rank->queue, x->piece_width, x->a->store, at(x, to, t * width),
                       in(x, from, t * x->piece_width), at(x, to, t * width));
  }
}

/* Token sequences of a peer's piece, as they lie there and among the rows. */
static void join_rows(struct spp_rank *rank, const struct exchange *x, const void *pieces, void *rows) {
  int64_t each = x->a->tokens / x->a->cut.sequences * x->piece_width;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    rank->device->copy_rows(rank->queue, x->a->cut.sequences, bytes_of(x, each), at(x, rows, peer * each),
                            bytes_of(x, each * x->a->cut.ulysses), in(x, pieces, peer * x->piece_elements),
                            bytes_of(x, each));
}

static void cut_rows(struct spp_rank *rank, const struct exchange *x, const void *rows, void *pieces) {
  int64_t each = x->a->tokens / x->a->cut.sequences * x->piece_width;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    rank->device->copy_rows(rank->queue, x->a->cut.sequences, bytes_of(x, each),
                            at(x, pieces, peer * x->piece_elements), bytes_of(x, each),
                            in(x, rows, peer * each), bytes_of(x, each * x->a->cut.ulysses));
}

static enum spp_status buffer(struct spp_rank *rank, const struct exchange *x, void **data) {
  return spp_attention_block(rank, x->a, SPP_PART_TRANSIENT, "all-to-all buffers",
                             x->piece_elements * x->a->cut.ulysses, data);
}

/* Sends `pieces`, which is freed, and returns what came. */
static enum spp_status swap(struct spp_rank *rank, const struct exchange *x, struct spp_label label,
                            void *pieces, void **received) {
  SPP_TRY(buffer(rank, x, received));
  SPP_TRY(spp_group_all_to_all(x->a->ulysses, label, pieces, *received, bytes_of(x, x->piece_elements),
                               rank->diag));
  spp_heap_free(&rank->heap, pieces);
  return SPP_OK;
}

enum spp_status spp_ulysses_to_heads(struct spp_rank *rank, const struct spp_attention *a,
                                     struct spp_label label, const struct spp_exchanged *e, void **data) {
  const struct exchange x = exchange_of(a, e);
  void *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_heads(rank, &x, *data, pieces);
  spp_heap_free(&rank->heap, *data);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_attention_block(rank, a, e->part, e->name, x.piece_elements * a->cut.ulysses, data));
  join_rows(rank, &x, received, *data);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}

enum spp_status spp_ulysses_to_tokens(struct spp_rank *rank, const struct spp_attention *a,
                                      struct spp_label label, const struct spp_exchanged *e, const void *data,
                                      void **result) {
  const struct exchange x = exchange_of(a, e);
  void *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_rows(rank, &x, data, pieces);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_attention_block(rank, a, e->part, e->name, a->tokens * e->heads * e->head_dim, result));
  join_heads(rank, &x, received, *result);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}
