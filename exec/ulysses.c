/* The all-to-all between "some tokens, all heads" and "more tokens, some heads". A piece for one peer is
 * [tokens][heads of the peer]; pieces from all peers, token sequence by token sequence, are the rows. */
#include <string.h>

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

/* Row, inside attention, of token i of sequence s of a peer's piece. */
static int64_t row_of(const struct exchange *x, int64_t peer, int64_t s, int64_t i) {
  int64_t each = x->a->tokens / x->a->cut.sequences;
  return s * each * x->a->cut.ulysses + peer * each + i;
}

static size_t bytes_of(const struct exchange *x, int64_t elements) {
  return (size_t)(elements * spp_storage_bytes(x->a->store));
}
static void *at(const struct exchange *x, void *data, int64_t i) {
  return spp_at(data, x->a->store, i);
}
static const void *in(const struct exchange *x, const void *data, int64_t i) {
  return spp_at_const(data, x->a->store, i);
}

static void cut_heads(const struct exchange *x, const void *data, void *pieces) {
  int64_t width = x->heads * x->head_dim, to = 0;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t t = 0; t < x->a->tokens; t++, to += x->piece_width)
      memcpy(at(x, pieces, to), in(x, data, t * width + head_offset(x, peer)), bytes_of(x, x->piece_width));
}

/* Inverse of cut_heads; pieces that came from the same head add up. */
static void join_heads(const struct exchange *x, const struct spp_ops *ops, const void *pieces, void *data) {
  int64_t width = x->heads * x->head_dim, from = 0;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t t = 0; t < x->a->tokens; t++, from += x->piece_width) {
      void *to = at(x, data, t * width + head_offset(x, peer));
      if (peer % x->repeat == 0)
        memcpy(to, in(x, pieces, from), bytes_of(x, x->piece_width));
      else
        ops->add(x->piece_width, x->a->store, to, in(x, pieces, from), to);
    }
}

static void join_rows(const struct exchange *x, const void *pieces, void *rows) {
  int64_t each = x->a->tokens / x->a->cut.sequences, from = 0;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t s = 0; s < x->a->cut.sequences; s++, from += each * x->piece_width)
      memcpy(at(x, rows, row_of(x, peer, s, 0) * x->piece_width), in(x, pieces, from),
             bytes_of(x, each * x->piece_width));
}

static void cut_rows(const struct exchange *x, const void *rows, void *pieces) {
  int64_t each = x->a->tokens / x->a->cut.sequences, to = 0;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t s = 0; s < x->a->cut.sequences; s++, to += each * x->piece_width)
      memcpy(at(x, pieces, to), in(x, rows, row_of(x, peer, s, 0) * x->piece_width),
             bytes_of(x, each * x->piece_width));
}

static enum spp_status buffer(struct spp_rank *rank, const struct exchange *x, void **data) {
  return spp_attention_block(rank, x->a, SPP_PART_TRANSIENT, "all-to-all buffers",
                             x->piece_elements * x->a->cut.ulysses, data);
}

/* Sends `pieces`, which is freed, and returns what came. */
static enum spp_status swap(struct spp_rank *rank, const struct exchange *x, struct spp_label label,
                            void *pieces, void **received) {
  SPP_TRY(buffer(rank, x, received));
  SPP_TRY(spp_group_all_to_all(x->a->ulysses, label, pieces, *received,
                               (int64_t)bytes_of(x, x->piece_elements), rank->diag));
  spp_heap_free(&rank->heap, pieces);
  return SPP_OK;
}

enum spp_status spp_ulysses_to_heads(struct spp_rank *rank, const struct spp_attention *a,
                                     struct spp_label label, const struct spp_exchanged *e, void **data) {
  const struct exchange x = exchange_of(a, e);
  void *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_heads(&x, *data, pieces);
  spp_heap_free(&rank->heap, *data);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_attention_block(rank, a, e->part, e->name, x.piece_elements * a->cut.ulysses, data));
  join_rows(&x, received, *data);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}

enum spp_status spp_ulysses_to_tokens(struct spp_rank *rank, const struct spp_attention *a,
                                      struct spp_label label, const struct spp_exchanged *e, const void *data,
                                      void **result) {
  const struct exchange x = exchange_of(a, e);
  void *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_rows(&x, data, pieces);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_attention_block(rank, a, e->part, e->name, a->tokens * e->heads * e->head_dim, result));
  join_heads(&x, rank->kernels->ops, received, *result);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}
