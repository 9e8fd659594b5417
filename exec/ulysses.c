/* The all-to-all between "some tokens, all heads" and "more tokens, some heads". A piece for one peer is
 * [tokens][heads of the peer]; pieces from all peers, token sequence by token sequence, are the rows. */
#include <string.h>

#include "exec/attention_pieces.h"
#include "exec/try.h"

/* How one tensor is cut: `heads` real heads, each sent to `repeat` peers. */
struct exchange {
  const struct spp_attention *a;
  int64_t heads, repeat;
  int64_t piece_heads; /* a peer's */
  int64_t piece_width; /* floats of one token in a piece */
  int64_t piece_floats;
};

static struct exchange exchange_of(const struct spp_attention *a, int64_t heads, int64_t repeat) {
  struct exchange x = {.a = a, .heads = heads, .repeat = repeat};
  x.piece_heads = heads * repeat / a->cut.ulysses;
  x.piece_width = x.piece_heads * a->head_dim;
  x.piece_floats = a->tokens * x.piece_width;
  return x;
}

/* First float of the heads of `peer` within a token. */
static int64_t head_offset(const struct exchange *x, int64_t peer) {
  return peer * x->piece_heads / x->repeat * x->a->head_dim;
}

/* Row, inside attention, of token i of sequence s of a peer's piece. */
static int64_t row_of(const struct exchange *x, int64_t peer, int64_t s, int64_t i) {
  int64_t each = x->a->tokens / x->a->cut.sequences;
  return s * each * x->a->cut.ulysses + peer * each + i;
}

static void cut_heads(const struct exchange *x, const float *data, float *pieces) {
  int64_t width = x->heads * x->a->head_dim;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t t = 0; t < x->a->tokens; t++, pieces += x->piece_width)
      memcpy(pieces, data + t * width + head_offset(x, peer), (size_t)x->piece_width * sizeof(float));
}

/* Inverse of cut_heads; pieces that came from the same head add up. */
static void join_heads(const struct exchange *x, const float *pieces, float *data) {
  int64_t width = x->heads * x->a->head_dim;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t t = 0; t < x->a->tokens; t++, pieces += x->piece_width) {
      float *to = data + t * width + head_offset(x, peer);
      bool first = peer % x->repeat == 0;
      for (int64_t i = 0; i < x->piece_width; i++)
        to[i] = first ? pieces[i] : to[i] + pieces[i];
    }
}

static void join_rows(const struct exchange *x, const float *pieces, float *rows) {
  int64_t each = x->a->tokens / x->a->cut.sequences;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t s = 0; s < x->a->cut.sequences; s++, pieces += each * x->piece_width)
      memcpy(rows + row_of(x, peer, s, 0) * x->piece_width, pieces,
             (size_t)(each * x->piece_width) * sizeof(float));
}

static void cut_rows(const struct exchange *x, const float *rows, float *pieces) {
  int64_t each = x->a->tokens / x->a->cut.sequences;
  for (int64_t peer = 0; peer < x->a->cut.ulysses; peer++)
    for (int64_t s = 0; s < x->a->cut.sequences; s++, pieces += each * x->piece_width)
      memcpy(pieces, rows + row_of(x, peer, s, 0) * x->piece_width,
             (size_t)(each * x->piece_width) * sizeof(float));
}

static enum spp_status buffer(struct spp_rank *rank, const struct exchange *x, float **data) {
  return spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "all-to-all buffers",
                         x->piece_floats * x->a->cut.ulysses, data, rank->diag);
}

/* Sends `pieces`, which is freed, and returns what came. */
static enum spp_status swap(struct spp_rank *rank, const struct exchange *x, struct spp_label label,
                            float *pieces, float **received) {
  SPP_TRY(buffer(rank, x, received));
  SPP_TRY(spp_group_all_to_all(x->a->ulysses, label, pieces, *received,
                               x->piece_floats * (int64_t)sizeof(float), rank->diag));
  spp_heap_free(&rank->heap, pieces);
  return SPP_OK;
}

/* *data, [tokens][heads], is freed and replaced by [rows][piece_heads] under the name given. */
enum spp_status spp_ulysses_to_heads(struct spp_rank *rank, const struct spp_attention *a,
                                     struct spp_label label, int64_t heads, int64_t repeat, const char *name,
                                     enum spp_part part, float **data) {
  const struct exchange x = exchange_of(a, heads, repeat);
  float *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_heads(&x, *data, pieces);
  spp_heap_free(&rank->heap, *data);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_heap_floats(&rank->heap, part, name, x.piece_floats * a->cut.ulysses, data, rank->diag));
  join_rows(&x, received, *data);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}

/* [rows][piece_heads], which stays, to [tokens][heads] under the name given. */
enum spp_status spp_ulysses_to_tokens(struct spp_rank *rank, const struct spp_attention *a,
                                      struct spp_label label, int64_t heads, int64_t repeat, const char *name,
                                      enum spp_part part, const float *data, float **result) {
  const struct exchange x = exchange_of(a, heads, repeat);
  float *pieces, *received;
  SPP_TRY(buffer(rank, &x, &pieces));
  cut_rows(&x, data, pieces);
  SPP_TRY(swap(rank, &x, label, pieces, &received));
  SPP_TRY(spp_heap_floats(&rank->heap, part, name, a->tokens * heads * a->head_dim, result, rank->diag));
  join_heads(&x, received, *result);
  spp_heap_free(&rank->heap, received);
  return SPP_OK;
}
