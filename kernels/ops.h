/* The operators of a transformer beside attention and matrix products, as one table of functions per kernel
 * variant (kernels/table.h). All run on the calling thread, in a fixed order: the same inputs give the same
 * bits. Arrays are contiguous unless a stride is named; `storage` is the type of the void pointers beside it.
 * Results may be written over inputs of the same shape where a line says "in place". */
#ifndef SPP_KERNELS_OPS_H
#define SPP_KERNELS_OPS_H

#include "base/activation.h"
#include "kernels/bf16.h"

#include <stdbool.h>
#include <stdint.h>

/* y = weight * x * rstd, rstd = 1/sqrt(mean(x^2) + eps). Zhang, Sennrich (arXiv 1910.07467); in the order of
 * huggingface/transformers modeling_qwen2.py Qwen2RMSNorm. x, y [rows][width], weight [width], rstd [rows].
 */
struct spp_rmsnorm {
  int64_t rows, width;
  float eps;
  enum spp_storage storage; /* of x, weight, y, dy, dx */
  const void *x, *weight;
  void *y;
  float *rstd;    /* written by the forward, read by the backward */
  const void *dy; /* from here on: backward */
  void *dx;       /* in place of dy or of x */
  float *dweight; /* added to, rows in increasing order */
  float offset;   /* added to each weight where it is used: 1 for Gemma, whose weights are small */
};

/* y = weight * (x - mean) * rstd + bias, rstd = 1/sqrt(var(x) + eps). Ba et al. (arXiv 1607.06450). Without
 * a weight it is 1, without a bias 0; then dweight, dbias are not touched. */
struct spp_layernorm {
  int64_t rows, width;
  float eps;
  enum spp_storage storage;
  const void *x, *weight, *bias; /* weight, bias: may be NULL */
  void *y;
  float *mean, *rstd;
  const void *dy;
  void *dx;               /* in place of dy or of x */
  float *dweight, *dbias; /* added to */
  float offset;           /* added to each weight where it is used: 1 for Nemotron */
};

/* Rotation of `width` elements of each head, from element `first` on (width 0: the whole head), in pairs by
 * angle position * base^(-2i/width): cos and sin are [tokens][width/2] from spp_rope_table. Pair i is (i, i +
 * width/2) as in huggingface/transformers models/llama apply_rotary_pos_emb, or of neighbours (2i, 2i + 1) as
 * in models/gptj apply_rotary_pos_emb. `sign` +1 rotates, -1 rotates back: the gradient. In place. */
struct spp_rope {
  int64_t tokens, heads, head_dim;
  enum spp_storage storage;
  void *x; /* [tokens][heads][head_dim], row_stride elements between tokens */
  int64_t row_stride;
  const float *cos, *sin;
  float sign;
  int64_t first, width;
  bool neighbours;
};
static inline int64_t spp_rope_width(const struct spp_rope *a) {
  return a->width > 0 ? a->width : a->head_dim;
}

/* out[t] = table[ids[t] - first], zeros when the id is not among the `rows` held here (vocab-parallel, as
 * NVIDIA/Megatron-LM tensor_parallel/layers.py VocabParallelEmbedding). The backward adds dout into the fp32
 * dtable, tokens in increasing order. */
struct spp_embedding {
  int64_t tokens, width, first, rows;
  enum spp_storage storage; /* of table, out, dout */
  const int32_t *ids;
  const void *table;
  void *out;
  const void *dout;
  float *dtable;
};

/* Cross-entropy over the `vocab` columns held here, starting at column `first` of the whole vocabulary.
 * Chunks over tokens are calls with fewer tokens; vocab-parallel ranks call `local`, reduce the three
 * statistics, and go on (kernels/cross_entropy.h). A target below 0 is ignored. */
struct spp_cross_entropy {
  int64_t tokens, vocab, first;
  enum spp_storage storage; /* of logits, dlogits */
  const void *logits;       /* [tokens][vocab], row_stride elements between rows */
  int64_t row_stride;
  const int32_t *targets; /* [tokens], columns of the whole vocabulary */
  float *max, *sum;       /* [tokens]: maximum, sum of exp(logit - max) */
  float *target_logit;    /* [tokens]: 0 when the target is not held here */
  const float *grad;      /* [tokens]: d(total loss)/d(loss of the token) */
  void *dlogits;          /* like logits, in place: (softmax - onehot) * grad, 0 when ignored */
  float softcap;          /* of the logits, which stand behind it: dlogits is of what came in; 0: none */
};

/* One AdamW step; decoupled weight decay first, bias correction by `step` (from 1). Loshchilov, Hutter (arXiv
 * 1711.05101), in the order of pytorch/pytorch torch/optim/adam.py _single_tensor_adam. */
struct spp_adamw {
  int64_t n, step;
  float lr, beta1, beta2, eps, weight_decay;
  float grad_scale; /* factor on the gradient: clipping, averaging; usually 1 */
  const void *grad;
  enum spp_storage grad_storage;
  float *master, *m, *v; /* fp32 parameters and moments, updated */
  uint16_t *param;       /* bf16 copy of the parameters; NULL: none */
};

struct spp_ops {
  void (*rmsnorm_forward)(const struct spp_rmsnorm *a);
  void (*rmsnorm_backward)(const struct spp_rmsnorm *a);
  void (*layernorm_forward)(const struct spp_layernorm *a);
  void (*layernorm_backward)(const struct spp_layernorm *a);
  void (*rope)(const struct spp_rope *a);
  void (*embedding_forward)(const struct spp_embedding *a);
  void (*embedding_backward)(const struct spp_embedding *a);
  void (*cross_entropy_local)(const struct spp_cross_entropy *a);
  void (*cross_entropy_backward)(const struct spp_cross_entropy *a);
  void (*adamw)(const struct spp_adamw *a);

  /* y = f(x). In place. */
  void (*activation_forward)(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                             void *y);
  /* dx = f'(x) * dy; in place of x or dy. */
  void (*activation_backward)(enum spp_activation f, int64_t n, enum spp_storage storage, const void *x,
                              const void *dy, void *dx);

  /* out = f(gate) * up. Shazeer (arXiv 2002.05202). In place of gate or up. */
  void (*glu_forward)(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                      const void *up, void *out);
  /* dgate, dup; in place of gate, up or dout. */
  void (*glu_backward)(enum spp_activation f, int64_t n, enum spp_storage storage, const void *gate,
                       const void *up, const void *dout, void *dgate, void *dup);

  /* x = cap * tanh(x / cap). In place. */
  void (*softcap)(int64_t n, float cap, void *x, enum spp_storage storage);

  /* Each row of x [rows][n] to probabilities, fp32, in place. */
  void (*softmax)(int64_t rows, int64_t n, const float *x, float *y);

  /* dot[r] = sum over width of a[r] * b[r]; strides in elements. */
  void (*row_dots)(int64_t rows, int64_t width, const void *a, int64_t a_stride, enum spp_storage a_storage,
                   const void *b, int64_t b_stride, enum spp_storage b_storage, float *dot,
                   int64_t dot_stride);

  /* dst = src in another storage (round to nearest even), or a copy. */
  void (*convert)(int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                  enum spp_storage dst_storage);

  /* out = a + b. In place. */
  void (*add)(int64_t n, enum spp_storage storage, const void *a, const void *b, void *out);

  /* sum += factor * x. */
  void (*accumulate)(int64_t n, float factor, const void *x, enum spp_storage storage, float *sum);

  /* x *= factor. */
  void (*scale)(int64_t n, float factor, void *x, enum spp_storage storage);

  /* Sum of x^2, by blocks of 4096 in fp32 lanes, the blocks in double. */
  double (*sum_squares)(int64_t n, const void *x, enum spp_storage storage);
};

/* cos and sin [tokens][head_dim/2] of the rotation angles, computed in double. */
void spp_rope_table(int64_t tokens, int64_t head_dim, const int64_t *positions, double base, float *cos,
                    float *sin);
/* Column i of tables of `half` columns: angles position * frequency. */
void spp_rope_column(int64_t tokens, int64_t half, int64_t i, const int64_t *positions, double frequency,
                     float *cos, float *sin);

#endif
