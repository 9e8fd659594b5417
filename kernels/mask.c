#include "kernels/mask.h"

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
  if (p->n_runs == 0) return p->first + i;
  int64_t r = 0;
  while (r + 1 < p->n_runs && i >= p->runs[r].count)
    i -= p->runs[r++].count;
  return p->runs[r].first + i;
}

/* Rows among the first n whose position is below `position`: positions increase, so these are a prefix. */
static int64_t rows_below(const struct spp_positions *p, int64_t position, int64_t n) {
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
static int64_t find_document(const struct spp_attn_mask *m, int64_t position) {
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

static int64_t window_first(const struct spp_attn_mask *m, int64_t position, int64_t document) {
  int64_t start = document > INT64_MIN ? document : 0;
  int64_t first =
      m->window_chunked ? position - (position - start) % m->window_tokens : position - m->window_tokens + 1;
  return first > document ? first : document;
}

struct spp_interval spp_mask_row(const struct spp_attn_mask *m, int64_t row, int64_t kv_tokens) {
  struct spp_interval none = {0, 0}, view = {0, kv_tokens};
  if (m->kind == SPP_MASK_FULL && !m->cu_seqlens) return view;
  int64_t position = spp_position(&m->q, row);
  int64_t first = INT64_MIN; /* position of the first key that is seen */
  if (m->kind == SPP_MASK_CAUSAL) view.hi = rows_below(&m->kv, position + 1, kv_tokens);
  if (m->cu_seqlens) {
    int64_t doc = find_document(m, position);
    if (doc < 0) return none;
    first = m->cu_seqlens[doc];
    int64_t end = rows_below(&m->kv, m->cu_seqlens[doc + 1], kv_tokens);
    if (end < view.hi) view.hi = end;
  }
  if (m->window_tokens > 0) first = window_first(m, position, first);
  if (first > INT64_MIN) view.lo = rows_below(&m->kv, first, kv_tokens);
  return view.lo < view.hi ? view : none;
}

struct spp_block_view spp_mask_block(const struct spp_attn_mask *m, int64_t row, int64_t rows,
                                     int64_t kv_tokens, struct spp_interval *row_view) {
  struct spp_block_view view = {{kv_tokens, 0}, {0, kv_tokens}};
  for (int64_t i = 0; i < rows; i++) {
    struct spp_interval one = spp_mask_row(m, row + i, kv_tokens);
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
    struct spp_interval one = spp_mask_row(m, i, kv_tokens);
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
