/* Which keys a query sees, as data. Every mask here gives each query row one interval of key rows, so a
 * kernel asks for the interval of a block of rows and skips the tiles outside. */
#ifndef SPP_KERNELS_MASK_H
#define SPP_KERNELS_MASK_H

#include <stdbool.h>
#include <stdint.h>

/* `count` rows at consecutive positions from `first`. */
struct spp_pos_run {
  int64_t first, count;
};

/* Positions of the rows of a tensor in the whole sequence: row i is at first + i when n_runs is 0, else the
 * runs follow each other, in increasing position and without overlap. A rank of a zigzag ring has two runs
 * (chunks r and 2*ranks-1-r), one pair per document when packed. Borrowed. */
struct spp_positions {
  int64_t first;
  const struct spp_pos_run *runs;
  int64_t n_runs;
};

enum spp_mask_kind {
  SPP_MASK_FULL,  /* a query sees all keys (of its document) */
  SPP_MASK_CAUSAL /* ... whose position is not after its own */
};

/* Visible: same document, and for causal masks key position <= query position. cu_seqlens: n_docs + 1
 * increasing positions, document d is [cu_seqlens[d], cu_seqlens[d+1]); NULL: one document. A position
 * outside every document sees nothing. Borrowed. */
struct spp_attn_mask {
  enum spp_mask_kind kind;
  struct spp_positions q, kv;
  const int64_t *cu_seqlens;
  int64_t n_docs;
  int64_t window_tokens; /* causal: a query sees the last so many keys, its own among them; 0: all */
  bool window_chunked;   /* ... or those of its block of so many, counted from the document's first */
};

/* Key rows [lo, hi); empty when lo >= hi. */
struct spp_interval {
  int64_t lo, hi;
};

/* What a block of query rows sees together. `any`: smallest interval that holds every row's; `all`: the
 * intersection, keys that every row sees. Both empty as {0, 0}. */
struct spp_block_view {
  struct spp_interval any, all;
};

struct spp_attn_mask spp_mask_full(void);

/* Causal with position = offset + row on each side. */
struct spp_attn_mask spp_mask_causal(int64_t q_offset, int64_t kv_offset);

/* Causal inside each packed document, positions from 0. */
struct spp_attn_mask spp_mask_packed(const int64_t *cu_seqlens, int64_t n_docs);

/* Position of row i. */
int64_t spp_position(const struct spp_positions *p, int64_t i);

/* The keys that query row `row` sees among kv_tokens; time grows with the runs. */
struct spp_interval spp_mask_row(const struct spp_attn_mask *mask, int64_t row, int64_t kv_tokens);

/* The same for rows [row, row + rows), each into row_view[0..rows) when not NULL. */
struct spp_block_view spp_mask_block(const struct spp_attn_mask *mask, int64_t row, int64_t rows,
                                     int64_t kv_tokens, struct spp_interval *row_view);

/* Number of visible (query, key) pairs. */
int64_t spp_mask_pairs(const struct spp_attn_mask *mask, int64_t q_tokens, int64_t kv_tokens);

/* NULL when the mask is well formed for these lengths, else what is wrong. */
const char *spp_mask_fault(const struct spp_attn_mask *mask, int64_t q_tokens, int64_t kv_tokens);

#endif
