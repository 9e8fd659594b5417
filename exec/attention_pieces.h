/* The parts of attention_parallel.h; not for others. */
#ifndef SPP_EXEC_ATTENTION_PIECES_H
#define SPP_EXEC_ATTENTION_PIECES_H

#include "exec/attention_parallel.h"

struct spp_kv {
  float *k, *v;
};

/* Elements of one rank's q, and of its k or v, inside attention. */
static inline int64_t spp_attention_q_floats(const struct spp_attention *a) {
  return a->rows * a->heads_here * a->head_dim;
}
static inline int64_t spp_attention_kv_floats(const struct spp_attention *a) {
  return a->rows * a->kv_heads_here * a->head_dim;
}

/* K and V of other tokens, and where those are. */
struct spp_kv_block {
  const float *k, *v;
  int64_t rows;
  struct spp_positions positions;
};
/* This rank's queries against one block: out like q and lse [heads_here][rows]. */
enum spp_status spp_attention_block_forward(struct spp_rank *rank, const struct spp_attention *a,
                                            const float *q, const struct spp_kv_block *block, float *out,
                                            float *lse);
/* Gradients of one block, given the merged lse and delta: overwrites dq, dkv. */
struct spp_block_backward {
  const float *q, *dout, *lse, *delta;
  float *dq;
  struct spp_kv dkv;
};
enum spp_status spp_attention_block_backward(struct spp_rank *rank, const struct spp_attention *a,
                                             const struct spp_kv_block *block,
                                             const struct spp_block_backward *b);

enum spp_status spp_ulysses_to_heads(struct spp_rank *rank, const struct spp_attention *a,
                                     struct spp_label label, int64_t heads, int64_t repeat, const char *name,
                                     enum spp_part part, float **data);
enum spp_status spp_ulysses_to_tokens(struct spp_rank *rank, const struct spp_attention *a,
                                      struct spp_label label, int64_t heads, int64_t repeat, const char *name,
                                      enum spp_part part, const float *data, float **result);

/* out and lse of `kept` from its q, k, v. */
enum spp_status spp_ring_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                 struct spp_attention_kept *kept);
enum spp_status spp_gather_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                   struct spp_attention_kept *kept);
/* grads of q, k, v inside attention from dout; all three are allocated here. */
enum spp_status spp_ring_backward(struct spp_rank *rank, const struct spp_attention *a,
                                  const struct spp_attention_kept *kept, const float *dout,
                                  const float *delta, struct spp_attention_grads *grads);
enum spp_status spp_gather_backward(struct spp_rank *rank, const struct spp_attention *a,
                                    const struct spp_attention_kept *kept, const float *dout,
                                    const float *delta, struct spp_attention_grads *grads);

#endif
