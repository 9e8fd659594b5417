/* Logits and loss: what each path keeps and makes, as a table of tensors. */
#ifndef SPP_MODEL_LOSS_H
#define SPP_MODEL_LOSS_H

#include "model/memory.h"

struct spp_loss_view {
  enum spp_loss_path path;
  int64_t tokens; /* N: tokens whose logits exist on the rank */
  int64_t vocab;  /* columns on the rank */
  int64_t hidden;
  int64_t chunk_tokens; /* of the chunked paths */
  enum spp_dtype act;
  bool head_trained;
  bool head_sharded;    /* its gradient is whole only until it is reduced */
  bool head_temporary;  /* the head's gradient is added to one that exists */
  bool splits_segments; /* a block of an earlier batch's logits is in use */
  bool frees_at_once;   /* memory_units.c has what the head's backward holds */
  bool gathers_input;   /* the head reads hidden states that sequence parallelism keeps in shards */
  bool keeps_reference; /* the logits stay referenced through backward */
  bool keeps_in_step;   /* and from there until the next forward returns */
  bool compares;        /* a reference takes log-probabilities of the same rows behind the policy's forward */
  int64_t row_tokens;   /* of one sequence, which some losses take one by one */
  int64_t reference_cache_bytes; /* of the keys and values its forward keeps */
  bool metrics;                  /* cross entropies without gradient are computed from them before the step */
};
struct spp_loss_view spp_loss_view_of(const struct spp_job *job, const struct spp_geometry *g);
/* Are the vocabulary's shards joined by exchanges of row statistics? */
bool spp_loss_exchanges(enum spp_loss_path path);
/* Does a loss of the framework sum the head's gradient over chunks? Then sharding matters to it. */
bool spp_loss_sums_head(const struct spp_framework *f);
/* Tensors of the loss's largest moment, alive at SPP_MOMENT_LOSS (and longer where a reference keeps them).
 */
void spp_loss_add(const struct spp_loss_view *view, struct spp_memory_sum *sum);

/* Liger-Kernel ops/fused_linear_cross_entropy.py: chunks = ceil(V / H), tokens of one = next power of two of
 * ceil(N / chunks). */
int64_t spp_liger_chunk_tokens(int64_t tokens, int64_t vocab, int64_t hidden);

#endif
