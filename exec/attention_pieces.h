/* The parts of attention_parallel.h; not for others. */
#ifndef SPP_EXEC_ATTENTION_PIECES_H
#define SPP_EXEC_ATTENTION_PIECES_H

#include "exec/attention_parallel.h"

struct spp_kv {
  void *k, *v;
};

/* Elements of one rank's q, k, v and result, inside attention. */
static inline int64_t spp_attention_q_elements(const struct spp_attention *a) {
  return a->rows * a->heads_here * a->head_dim;
}
static inline int64_t spp_attention_k_elements(const struct spp_attention *a) {
  return a->rows * a->kv_heads_here * a->head_dim;
}
static inline int64_t spp_attention_v_elements(const struct spp_attention *a) {
  return a->rows * a->kv_heads_here * a->v_head_dim;
}
static inline int64_t spp_attention_out_elements(const struct spp_attention *a) {
  return a->rows * a->heads_here * a->v_head_dim;
}
static inline enum spp_status spp_attention_block(struct spp_rank *rank, const struct spp_attention *a,
                                                  enum spp_part part, const char *name, int64_t elements,
                                                  void **data) {
  return spp_heap_elements(&rank->heap, part, name, elements, a->store, data, rank->diag);
}

/* K and V of other tokens, and where those are. */
struct spp_kv_block {
  const void *k, *v;
  int64_t rows;
  struct spp_positions positions;
};
/* A block's result: out like kept->out, but fp32 where blocks are merged, and lse [heads_here][rows]. Sinks
 * count with the first block. */
struct spp_block_result {
  void *out;
  enum spp_storage storage;
  float *lse;
  bool first;
};
/* This rank's queries against one block. */
enum spp_status spp_attention_block_forward(struct spp_rank *rank, const struct spp_attention *a,
                                            const void *q, const struct spp_kv_block *block,
                                            const struct spp_block_result *result);
/* Gradients of one block, given the merged lse and delta: overwrites dq, dkv. */
struct spp_block_backward {
  const void *q, *dout;
  const float *lse, *delta;
  void *dq;
  struct spp_kv dkv;
  enum spp_storage storage; /* of dq, dkv */
};
enum spp_status spp_attention_block_backward(struct spp_rank *rank, const struct spp_attention *a,
                                             const struct spp_kv_block *block,
                                             const struct spp_block_backward *b);

/* A tensor that Ulysses exchanges: real heads, the ranks that each is sent to, and what the block that
 * arrives is called. */
struct spp_exchanged {
  int64_t heads, repeat, head_dim;
  enum spp_part part;
  const char *name;
};
/* *data, [tokens][heads], is freed and replaced by [rows][heads of this rank]. */
enum spp_status spp_ulysses_to_heads(struct spp_rank *rank, const struct spp_attention *a,
                                     struct spp_label label, const struct spp_exchanged *e, void **data);
/* [rows][heads of this rank], which stays, to [tokens][heads]. */
enum spp_status spp_ulysses_to_tokens(struct spp_rank *rank, const struct spp_attention *a,
                                      struct spp_label label, const struct spp_exchanged *e, const void *data,
                                      void **result);

/* out and lse of `kept` from its q, k, v. */
enum spp_status spp_ring_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                 struct spp_attention_kept *kept);
enum spp_status spp_gather_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                   struct spp_attention_kept *kept);
/* grads of q, k, v inside attention from dout; all three are allocated here. */
enum spp_status spp_ring_backward(struct spp_rank *rank, const struct spp_attention *a,
                                  const struct spp_attention_kept *kept, const void *dout, const float *delta,
                                  struct spp_attention_grads *grads);
enum spp_status spp_gather_backward(struct spp_rank *rank, const struct spp_attention *a,
                                    const struct spp_attention_kept *kept, const void *dout,
                                    const float *delta, struct spp_attention_grads *grads);

#endif
