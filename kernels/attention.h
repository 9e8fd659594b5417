/* Attention on the CPU: softmax(scale * Q K^T) V, forward and backward, with the log-sum-exp handed out so
 * that block results can be merged (ring attention). Tensors are [tokens][heads][head_dim] with a free
 * distance between tokens, fp32 or bf16, always accumulated in fp32 (the reference: double). */
#ifndef SPP_KERNELS_ATTENTION_H
#define SPP_KERNELS_ATTENTION_H

#include "base/status.h"
#include "kernels/bf16.h"
#include "kernels/mask.h"

#include <stdbool.h>
#include <stdint.h>

#define SPP_ATTN_MAX_HEAD_DIM 256

struct spp_kernels;

/* One tensor of `tokens` rows; row t starts at element t * row_stride, its heads follow each other. */
struct spp_rows {
  void *data;
  int64_t row_stride; /* elements, at least heads * head_dim */
  enum spp_storage storage;
};

/* Float per head and query: lse or delta, [q_heads][head_stride]. */
struct spp_row_stats {
  float *data;
  int64_t head_stride; /* elements, at least q_tokens */
};

/* One attention problem. q_heads is a multiple of kv_heads (query head h reads key head h /
 * (q_heads/kv_heads)), head_dim a multiple of 8 up to 256, scale > 0 (usually 1/sqrt(head_dim)). A score is
 * cap(scale * q.k) + slope[head] * (key position - query position). */
struct spp_attn_shape {
  int64_t q_tokens, kv_tokens;
  int64_t q_heads, kv_heads, head_dim; /* of q and k */
  float scale;
  struct spp_attn_mask mask;
  int64_t v_head_dim;  /* of v and of the result, under the rules of head_dim; 0: head_dim */
  float cap;           /* cap(x) = cap * tanh(x / cap) (Gemma 2: arXiv 2408.00118, 2.3); 0: none */
  const float *slopes; /* [q_heads]: linear biases (ALiBi: arXiv 2108.12409); NULL: none. Borrowed. */
};

static inline int64_t spp_attn_v_dim(const struct spp_attn_shape *s) {
  return s->v_head_dim > 0 ? s->v_head_dim : s->head_dim;
}

/* How to run it. Results do not depend on `threads`. */
struct spp_attn_options {
  int threads;               /* 0: as many as OpenMP gives */
  int64_t q_block, kv_block; /* rows of a tile, multiples of 16; 0: the variant's own */
};

struct spp_attn_forward {
  struct spp_attn_shape shape;
  struct spp_attn_options options;
  struct spp_rows q, k, v;
  struct spp_rows out;      /* rows that see no key get 0 */
  struct spp_row_stats lse; /* ln sum exp(score); -infinity for rows that see no key */
  /* [q_heads]: a logit that every row of the head sees beside its keys, and whose value is 0 (openai/gpt-oss
   * gpt_oss/torch/model.py sdpa); NULL: none. It belongs to one block of a ring. Borrowed. */
  const float *sinks;
};

/* Gradients of one block of keys. For a whole attention lse is the forward's; in a ring it is the merged one
 * (and delta comes from the merged out), and the dq of the blocks add up. A row without keys has lse
 * -infinity and receives dq 0. Sinks are in lse and delta already. Formulas: Dao et al., FlashAttention-2
 * (arXiv 2307.08691), algorithm 2; the cap's slope is 1 - tanh^2. */
struct spp_attn_backward {
  struct spp_attn_shape shape;
  struct spp_attn_options options;
  struct spp_rows q, k, v, dout;
  struct spp_row_stats lse, delta; /* delta from spp_attn_delta */
  struct spp_rows dq, dk, dv;      /* overwritten */
};

/* Bytes of scratch the calls need; 0 for the reference. Counted so that a run can account for every byte. */
int64_t spp_attn_forward_workspace_bytes(const struct spp_kernels *kernels, const struct spp_attn_forward *a);
int64_t spp_attn_backward_workspace_bytes(const struct spp_kernels *kernels,
                                          const struct spp_attn_backward *a);

/* Runs on `kernels`. `workspace` holds at least the bytes asked for above and belongs to the caller. A shape
 * that breaks a rule stated above is SPP_ERR_INPUT with `diag` filled, nothing written. */
enum spp_status spp_attn_forward(const struct spp_kernels *kernels, const struct spp_attn_forward *a,
                                 void *workspace, struct spp_diag *diag);
enum spp_status spp_attn_backward(const struct spp_kernels *kernels, const struct spp_attn_backward *a,
                                  void *workspace, struct spp_diag *diag);

/* delta[h][t] = sum over d of dout * out. */
void spp_attn_delta(const struct spp_kernels *kernels, const struct spp_attn_shape *shape,
                    struct spp_rows dout, struct spp_rows out, struct spp_row_stats delta);

/* dsinks[h] += sum over t of exp(sink - lse) * -delta: what a sink takes from its row times how the loss
 * changes with the row's size. Whole rows only: lse and delta of the merged result. */
void spp_attn_sink_grad(const struct spp_attn_shape *shape, const float *sinks, struct spp_row_stats lse,
                        struct spp_row_stats delta, float *dsinks);

/* Multiply-adds counted as 2 over the visible (query, key) pairs: 4 * head_dim a pair and query head forward,
 * 10 backward (recomputes the scores: five products against two) where v is as wide as q and k. */
int64_t spp_attn_forward_flops(const struct spp_attn_shape *shape);
int64_t spp_attn_backward_flops(const struct spp_attn_shape *shape);

/* Slope of a head's linear biases: 2^(-8 (h + 1) / n) for n heads, a power of two; of another number the
 * first n have theirs and the rest every second one of 2 n (Press et al., arXiv 2108.12409;
 * huggingface/transformers models/mpt/modeling_mpt.py build_mpt_alibi_tensor). */
double spp_alibi_slope(int64_t heads, int64_t head);

/* Merges a block's (out, lse) into an accumulated pair, both fp32, [tokens][heads][head_dim] and
 * [heads][tokens]: l = max + log1p(exp(min - max)), out = sum exp(l_i - l) * out_i. A side with lse -infinity
 * leaves the other as it is. Formula: zhuzilin/ring-flash-attention ring_flash_attn/utils.py
 * (_update_out_and_lse). */
void spp_lse_merge(int64_t tokens, int64_t heads, int64_t head_dim, float *out, int64_t out_stride,
                   float *lse, int64_t lse_stride, const float *block_out, int64_t block_stride,
                   const float *block_lse, int64_t block_lse_stride);

#endif
