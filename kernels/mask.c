#include "kernels/mask_row.h"

#include <stddef.h>

struct spp_attn_mask spp_mask_full(void) {
  return (struct spp_attn_mask){.kind = SPP_MASK_FULL};
}

struct spp_attn_mask spp_mask_causal(int64_t q_offset, int64_t kv_offset) {
  return (struct spp_attn_mask){
      .kind = SPP_MASK_CAUSAL, .q = {.first = q_offset}, .kv = {.first = kv_offset}};
}

struct spp_attn_mask spp_mask_packed(const int64_t *cu_seqlens, int64_t n_docs) {
  return (struct spp_attn_mask){.kind = SPP_MASK_CAUSAL, .cu_seqlens = cu_seqlens, .n_docs = n_docs};
}

int64_t spp_position(const struct spp_positions *p, int64_t i) {
  return spp_position_of(p, i);
}

struct spp_interval spp_mask_row(const struct spp_attn_mask *mask, int64_t row, int64_t kv_tokens) {
  return spp_interval_of(mask, row, kv_tokens);
}

struct spp_block_view spp_mask_block(const struct spp_attn_mask *m, int64_t row, int64_t rows,
                                     int64_t kv_tokens, struct spp_interval *row_view) {
  struct spp_block_view view = {{kv_tokens, 0}, {0, kv_tokens}};
  for (int64_t i = 0; i < rows; i++) {
    struct spp_interval one = spp_interval_of(m, row + i, kv_tokens);
    if (row_view) row_view[i] = one;
    if (one.lo < one.hi) {
      if (one.lo < view.any.lo) view.any.lo = one.lo;
      if (one.hi > view.any.hi) view.any.hi = one.hi;
    }
    if (one.lo > view.all.lo) view.all.lo = one.lo;
    if (one.hi < view.all.hi) view.all.hi = one.hi;
  }
  if (view.any.lo >= view.any.hi) view.any = (struct spp_interval){0, 0};
  if (view.all.lo >= view.all.hi) view.all = (struct spp_interval){0, 0};
  return view;
}

int64_t spp_mask_pairs(const struct spp_attn_mask *m, int64_t q_tokens, int64_t kv_tokens) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < q_tokens; i++) {
    struct spp_interval one = spp_interval_of(m, i, kv_tokens);
    pairs += one.hi - one.lo;
  }
  return pairs;
}

static const char *positions_fault(const struct spp_positions *p, int64_t tokens) {
  if (p->n_runs == 0) return NULL;
  if (p->n_runs < 0 || !p->runs) return "position runs are missing";
  int64_t sum = 0;
  for (int64_t r = 0; r < p->n_runs; r++) {
    if (p->runs[r].count < 0 || p->runs[r].count > tokens - sum)
      return "position runs cover more rows than there are";
    sum += p->runs[r].count;
    if (r > 0 && p->runs[r].first < p->runs[r - 1].first + p->runs[r - 1].count)
      return "position runs overlap or go backwards";
  }
  return sum == tokens ? NULL : "position runs cover fewer rows than there are";
}

const char *spp_mask_fault(const struct spp_attn_mask *m, int64_t q_tokens, int64_t kv_tokens) {
  const char *fault = positions_fault(&m->q, q_tokens);
  if (!fault) fault = positions_fault(&m->kv, kv_tokens);
  if (!fault && m->window_tokens < 0) return "the window is negative";
  if (fault || !m->cu_seqlens) return fault;
  if (m->n_docs < 0) return "the number of documents is negative";
  for (int64_t d = 0; d < m->n_docs; d++)
    if (m->cu_seqlens[d + 1] < m->cu_seqlens[d]) return "cu_seqlens decrease";
  return NULL;
}
