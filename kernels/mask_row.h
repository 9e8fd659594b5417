/* Which keys one query sees: the rule itself, for processors and, compiled as CUDA, for devices. Internal to
 * kernels/; callers use mask.h. */
#ifndef SPP_KERNELS_MASK_ROW_H
#define SPP_KERNELS_MASK_ROW_H

#include "kernels/mask.h"

#ifdef __CUDACC__
#define SPP_HERE static inline __host__ __device__
#else
#define SPP_HERE static inline
#endif

SPP_HERE int64_t spp_position_of(const struct spp_positions *p, int64_t i) {
  if (p->n_runs == 0) return p->first + i;
  int64_t r = 0;
  while (r + 1 < p->n_runs && i >= p->runs[r].count)
    i -= p->runs[r++].count;
  return p->runs[r].first + i;
}

/* Rows among the first n whose position is below `position`: positions increase, so these are a prefix. */
SPP_HERE int64_t spp_rows_below(const struct spp_positions *p, int64_t position, int64_t n) {
  int64_t rows = 0;
  if (p->n_runs == 0) rows = position - p->first;
  for (int64_t r = 0; r < p->n_runs && p->runs[r].first < position; r++) {
    int64_t in_run = position - p->runs[r].first;
    rows += in_run < p->runs[r].count ? in_run : p->runs[r].count;
  }
  if (rows < 0) return 0;
  return rows < n ? rows : n;
}

/* Index of the document that holds `position`, -1 when none does. */
SPP_HERE int64_t spp_document_of(const struct spp_attn_mask *m, int64_t position) {
  if (m->n_docs == 0 || position < m->cu_seqlens[0] || position >= m->cu_seqlens[m->n_docs]) return -1;
  int64_t lo = 0, hi = m->n_docs;
  while (hi - lo > 1) {
    int64_t mid = lo + (hi - lo) / 2;
    if (m->cu_seqlens[mid] <= position)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

SPP_HERE int64_t spp_window_first(const struct spp_attn_mask *m, int64_t position, int64_t document) {
  int64_t start = document > INT64_MIN ? document : 0;
  int64_t first =
      m->window_chunked ? position - (position - start) % m->window_tokens : position - m->window_tokens + 1;
  return first > document ? first : document;
}

SPP_HERE struct spp_interval spp_interval_of(const struct spp_attn_mask *m, int64_t row, int64_t kv_tokens) {
  struct spp_interval none = {0, 0}, view = {0, kv_tokens};
  if (m->kind == SPP_MASK_FULL && !m->cu_seqlens) return view;
  int64_t position = spp_position_of(&m->q, row);
  int64_t first = INT64_MIN; /* position of the first key that is seen */
  if (m->kind == SPP_MASK_CAUSAL) view.hi = spp_rows_below(&m->kv, position + 1, kv_tokens);
  if (m->cu_seqlens) {
    int64_t doc = spp_document_of(m, position);
    if (doc < 0) return none;
    first = m->cu_seqlens[doc];
    int64_t end = spp_rows_below(&m->kv, m->cu_seqlens[doc + 1], kv_tokens);
    if (end < view.hi) view.hi = end;
  }
  if (m->window_tokens > 0) first = spp_window_first(m, position, first);
  if (first > INT64_MIN) view.lo = spp_rows_below(&m->kv, first, kv_tokens);
  return view.lo < view.hi ? view : none;
}

#endif
