#include "model/loss_pairs.h"

#define TENSOR(id, text, why) static const struct spp_tensor id = {text, SPP_PART_LOGITS, why}
TENSOR(logits16, "logits", "of the policy");
TENSOR(logits32, "logits, fp32", "of the policy, held by the training loop");
TENSOR(log_softmax, "log-softmax", "of the policy, until its backward");
TENSOR(halves, "log-softmax and gradient of one answer", "while the other's are padded");
TENSOR(padded, "gradients of the logits, fp32", "of each answer, padded to both");
TENSOR(logits_saved, "logits, fp32", "of the policy, saved by their exponentials");
TENSOR(row_gradients, "gradients of the logits, fp32", "row by row, before they are stacked");
TENSOR(row_work, "exponentials of one row", "the difference and its exponential");
TENSOR(reference16, "logits of the reference", "16 bit");
TENSOR(reference32, "logits of the reference, fp32", "cast by the model");
TENSOR(former32, "logits of the last reference, fp32", "held by the training loop until these replace them");
static const struct spp_tensor reference_cache = {"KV cache of the reference", SPP_PART_KV_CACHE,
                                                  "made by a forward that is not told to make none"};

bool spp_loss_is_pairs(enum spp_loss_path path) {
  return path == SPP_LOSS_PAIRS_16BIT || path == SPP_LOSS_PAIRS_AUTOCAST || path == SPP_LOSS_PAIRS_FP32;
}

/* One candidate for the peak: matrices of tokens times the vocabulary, and the reference's cache. */
struct block {
  const struct spp_tensor *tensor;
  enum spp_dtype dtype;
  int64_t tokens;
  int copies;
};
enum { BLOCKS_MAX = 6 };
struct moment {
  const struct spp_loss_view *v;
  struct block blocks[BLOCKS_MAX];
  int count;
  int64_t cache_bytes;
};

static void add_rows(struct moment *m, const struct spp_tensor *tensor, enum spp_dtype dtype, int64_t tokens,
                     int copies) {
  if (copies > 0) m->blocks[m->count++] = (struct block){tensor, dtype, tokens, copies};
}
static void add_block(struct moment *m, const struct spp_tensor *tensor, enum spp_dtype dtype, int copies) {
  add_rows(m, tensor, dtype, m->v->tokens, copies);
}

static int64_t bytes_of(const struct moment *m) {
  int64_t bytes = m->cache_bytes;
  for (int i = 0; i < m->count; i++) {
    const struct block *b = &m->blocks[i];
    int64_t elements = spp_sat_mul(b->tokens, m->v->vocab);
    bytes = spp_sat_add(bytes, spp_sat_mul(elements, b->copies * spp_dtype_bytes(b->dtype)));
  }
  return bytes;
}

/* The loss's own passes. What the loop holds is counted with what outlives them. */
static void own_passes(struct moment *m) {
  const struct spp_loss_view *v = m->v;
  switch (v->path) {
  case SPP_LOSS_PAIRS_FP32:
    add_block(m, &padded, SPP_DTYPE_FP32, 2);
    add_block(m, &halves, SPP_DTYPE_FP32, 1);
    break;
  case SPP_LOSS_PAIRS_AUTOCAST:
    add_block(m, &logits_saved, SPP_DTYPE_FP32, 1);
    add_block(m, &row_gradients, SPP_DTYPE_FP32, 1);
    add_rows(m, &row_work, SPP_DTYPE_FP32, v->row_tokens, 2);
    break;
  default: add_block(m, &logits16, v->act, 1); add_block(m, &log_softmax, v->act, 1);
  }
}

static void reference_pass(struct moment *m) {
  const struct spp_loss_view *v = m->v;
  m->cache_bytes = v->reference_cache_bytes;
  switch (v->path) {
  case SPP_LOSS_PAIRS_FP32:
    add_block(m, &log_softmax, SPP_DTYPE_FP32, 1);
    add_block(m, &reference16, v->act, 1);
    add_block(m, v->keeps_in_step ? &former32 : &reference32, SPP_DTYPE_FP32, 1);
    break;
  case SPP_LOSS_PAIRS_AUTOCAST:
    add_block(m, &logits_saved, SPP_DTYPE_FP32, 1);
    add_block(m, &reference32, SPP_DTYPE_FP32, 1);
    add_rows(m, &row_work, SPP_DTYPE_FP32, v->row_tokens, 2);
    break;
  default: add_block(m, &log_softmax, v->act, 1); add_block(m, &reference16, v->act, 1);
  }
}

/* Held by the loop from the forward on, and through the step where its variables outlive it. */
static void add_held(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  const unsigned away = SPP_LIVE(SPP_MOMENT_STEP) | SPP_LIVE(SPP_MOMENT_FORWARD);
  unsigned live = SPP_LIVE_LOSS | SPP_LIVE_BACKWARD | (v->keeps_in_step ? away : 0u);
  if (v->path != SPP_LOSS_PAIRS_FP32) return;
  spp_memory_add(sum, &logits32, live, SPP_DTYPE_FP32, v->tokens, v->vocab, 1);
  if (v->compares && v->keeps_in_step)
    spp_memory_add(sum, &reference32, live, SPP_DTYPE_FP32, v->tokens, v->vocab, 1);
}

void spp_loss_pairs_add(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  struct moment own = {.v = v}, reference = {.v = v};
  own_passes(&own);
  if (v->compares) reference_pass(&reference);
  const struct moment *worst = bytes_of(&reference) > bytes_of(&own) ? &reference : &own;
  for (int i = 0; i < worst->count; i++) {
    const struct block *b = &worst->blocks[i];
    spp_memory_add(sum, b->tensor, SPP_LIVE(SPP_MOMENT_LOSS), b->dtype, b->tokens, v->vocab, b->copies);
  }
  spp_memory_add_bytes(sum, &reference_cache, SPP_LIVE(SPP_MOMENT_LOSS), worst->cache_bytes);
  add_held(v, sum);
}
