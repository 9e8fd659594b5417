/* Causal self-attention over a sequence that several ranks share, forward and backward, in fp32 or
 * bf16 with fp32 sums.
 *
 * Outside attention a rank holds `tokens` rows of all heads. Ulysses turns them into `rows` = tokens *
 * ulysses rows of heads/ulysses heads and back (deepspeedai/DeepSpeed deepspeed/sequence/layer.py); where
 * there are fewer KV heads than Ulysses ranks, each is sent to several
 * (runtime/sequence_parallel/ulysses_sp.py). The ring part passes KV blocks round and merges block results by
 * their log-sum-exp; backward, fp32 gradients of K and V travel with them and end at their owner after as
 * many hops as there are ranks (zhuzilin/ring-flash-attention). The all-gather part fetches K and V of all
 * ranks and scatters their gradients (NVIDIA/TransformerEngine context_parallel.py
 * AttnFuncWithCPAndKVAllGather). Documents packed into the sequences do not see each other. */
#ifndef SPP_EXEC_ATTENTION_PARALLEL_H
#define SPP_EXEC_ATTENTION_PARALLEL_H

#include "base/arena.h"
#include "exec/group.h"
#include "exec/rank.h"
#include "exec/sequence.h"
#include "kernels/attention.h"

struct spp_attention {
  /* the caller's */
  struct spp_sequence_cut cut;
  int64_t window_tokens; /* of the layer at work: kernels/mask.h; 0: none */
  bool window_chunked;
  bool gathers;                      /* the ring part gathers K and V instead of passing them round */
  enum spp_storage store;            /* of q, k, v, the result and their gradients */
  int64_t heads, kv_heads, head_dim; /* of this tensor-parallel rank, before Ulysses; head_dim of q and k */
  int64_t v_head_dim;                /* of v and the result; 0: head_dim */
  double scale;                      /* of the product of q and k; 0: 1 / sqrt(head_dim) */
  double cap;                        /* soft cap of scores; 0: none */
  double alibi;                      /* factor on the slopes of linear biases; 0: none */
  int64_t first_head, all_heads;     /* this rank's first, and those of the model: slopes depend on it */
  bool has_sinks;
  const struct spp_rank_group *ulysses, *ring; /* NULL: one rank */
  const int64_t *cu_seqlens; /* n_docs + 1 bounds over all positions; NULL: each sequence is a document */
  int64_t n_docs;

  /* worked out by spp_attention_open */
  struct spp_arena arena;
  int64_t tokens, rows;              /* a rank's, outside and inside attention */
  int64_t kv_repeat;                 /* Ulysses ranks that get the same KV head */
  int64_t heads_here, kv_heads_here; /* inside attention */
  int64_t first_here;                /* heads_here from this one of `heads` */
  float *slopes;                     /* [heads_here], as the sinks a block of the heap; NULL: none */
  float *sinks;                    /* [heads_here], of the layer at work: the caller fills them; NULL: none */
  struct spp_positions *positions; /* of each ring rank's rows */
};

/* Checks the fields above and fills the rest. SPP_ERR_INPUT: heads or tokens that cannot be cut so. */
enum spp_status spp_attention_open(struct spp_rank *rank, struct spp_attention *a);
void spp_attention_close(struct spp_rank *rank, struct spp_attention *a);

/* What forward keeps for backward; heap blocks of the rank. */
struct spp_attention_kept {
  void *q, *k, *v; /* [rows][heads_here * head_dim], [rows][kv_heads_here * (v_)head_dim] */
  void *out;       /* [rows][heads_here * v_head_dim] */
  float *lse;      /* [heads_here][rows] */
  void *o_input;   /* [tokens][heads * v_head_dim]: the result; without Ulysses the same block as out */
};

/* kept->q, k, v: [tokens][heads * head_dim] heap blocks, which are taken over; on return all of `kept` is
 * filled. again: it will run once more before backward, so that what Ulysses exchanged is freed at once. */
enum spp_status spp_attention_forward(struct spp_rank *rank, const struct spp_attention *a,
                                      enum spp_pass pass, bool again, struct spp_attention_kept *kept);

/* Selective recompute. The exchange of Ulysses takes q, k, v over, so they are copied before a forward pass;
 * after it `reduce` leaves q, k, v as they were and o_input, and frees the rest. Before backward `again` runs
 * the attention once more, exchanges included. */
enum spp_status spp_attention_copy_inputs(struct spp_rank *rank, const struct spp_attention *a,
                                          const struct spp_attention_kept *kept,
                                          struct spp_attention_kept *inputs);
void spp_attention_reduce(struct spp_rank *rank, const struct spp_attention *a,
                          const struct spp_attention_kept *inputs, struct spp_attention_kept *kept);
/* o_input, when a block of its own, has been freed. */
enum spp_status spp_attention_again(struct spp_rank *rank, const struct spp_attention *a,
                                    struct spp_attention_kept *kept);

struct spp_attention_grads {
  void *q, *k, *v; /* [tokens][...] heap blocks that the caller frees */
  float *sinks;    /* the caller's, [heads_here]: added to; NULL: none */
};
/* dout: [tokens][heads * v_head_dim], a heap block that is taken over. Frees what was kept, but not o_input
 * when that is a block of its own. */
enum spp_status spp_attention_backward(struct spp_rank *rank, const struct spp_attention *a,
                                       struct spp_attention_kept *kept, void *dout,
                                       struct spp_attention_grads *grads);

/* Frees all that was kept. */
void spp_attention_release(struct spp_rank *rank, struct spp_attention_kept *kept);

#endif
