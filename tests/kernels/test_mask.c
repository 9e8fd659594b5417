/* Masks against intervals worked out by hand, and against the definition pair by pair. */
#include "kernels/mask.h"
#include "tests/expect.h"

static const int64_t docs[] = {0, 3, 3, 8};

/* Zigzag of 2 ranks over 8 tokens, chunks of 2: rank 0 holds 0,1,6,7 and rank 1 holds 2,3,4,5. */
static const struct spp_pos_run rank0[] = {{0, 2}, {6, 2}};
static const struct spp_pos_run rank1[] = {{2, 2}, {4, 2}};

static void expect_interval(struct spp_interval got, int64_t lo, int64_t hi) {
  expect_i64(got.lo, lo);
  expect_i64(got.hi, hi);
}

static void causal_rows_see_keys_up_to_their_position(void **state) {
  (void)state;
  struct spp_attn_mask m = spp_mask_causal(10, 8);
  expect_interval(spp_mask_row(&m, 0, 100), 0, 3); /* position 10 sees 8, 9, 10 */
  expect_interval(spp_mask_row(&m, 5, 4), 0, 4);   /* no more than there are */
  m = spp_mask_causal(0, 8);
  expect_interval(spp_mask_row(&m, 7, 100), 0, 0); /* position 7 is before the first key */
}

static void packed_rows_see_their_own_document(void **state) {
  (void)state;
  struct spp_attn_mask m = spp_mask_packed(docs, 3);
  expect_interval(spp_mask_row(&m, 2, 8), 0, 3);
  expect_interval(spp_mask_row(&m, 3, 8), 3, 4); /* the empty document in between is skipped */
  expect_interval(spp_mask_row(&m, 7, 8), 3, 8);
  expect_interval(spp_mask_row(&m, 8, 9), 0, 0); /* beyond the last document */
  m.kind = SPP_MASK_FULL;
  expect_interval(spp_mask_row(&m, 4, 8), 3, 8);
}

/* What a zigzag ring computes in each step (zhuzilin/ring-flash-attention zigzag_ring_flash_attn.py): own
 * keys causally; keys of an earlier rank: all rows see the first half; of a later rank: only the second half
 * of the rows, all keys. */
static void zigzag_positions_give_the_ring_steps(void **state) {
  (void)state;
  struct spp_attn_mask own = {.kind = SPP_MASK_CAUSAL, .q = {0, rank0, 2}, .kv = {0, rank0, 2}};
  for (int64_t i = 0; i < 4; i++)
    expect_interval(spp_mask_row(&own, i, 4), 0, i + 1);
  struct spp_attn_mask earlier = {.kind = SPP_MASK_CAUSAL, .q = {0, rank1, 2}, .kv = {0, rank0, 2}};
  for (int64_t i = 0; i < 4; i++)
    expect_interval(spp_mask_row(&earlier, i, 4), 0, 2);
  struct spp_attn_mask later = {.kind = SPP_MASK_CAUSAL, .q = {0, rank0, 2}, .kv = {0, rank1, 2}};
  for (int64_t i = 0; i < 2; i++)
    expect_interval(spp_mask_row(&later, i, 4), 0, 0);
  for (int64_t i = 2; i < 4; i++)
    expect_interval(spp_mask_row(&later, i, 4), 0, 4);
}

static bool visible(const struct spp_attn_mask *m, int64_t i, int64_t j) {
  int64_t q = spp_position(&m->q, i), k = spp_position(&m->kv, j);
  int64_t window = m->window_tokens, first = 0;
  if (m->kind == SPP_MASK_CAUSAL && k > q) return false;
  for (int64_t d = 0; m->cu_seqlens && d < m->n_docs; d++)
    if (m->cu_seqlens[d] <= q && q < m->cu_seqlens[d + 1]) {
      if (k < m->cu_seqlens[d] || k >= m->cu_seqlens[d + 1]) return false;
      first = m->cu_seqlens[d];
    }
  if (m->cu_seqlens && (q < m->cu_seqlens[0] || q >= m->cu_seqlens[m->n_docs])) return false;
  if (window == 0) return true;
  return m->window_chunked ? (k - first) / window == (q - first) / window : q - k < window;
}

static void intervals_hold_exactly_the_visible_pairs(void **state) {
  (void)state;
  const struct spp_attn_mask masks[] = {
      spp_mask_full(),
      spp_mask_causal(0, 0),
      spp_mask_causal(3, 1),
      spp_mask_packed(docs, 3),
      {.kind = SPP_MASK_CAUSAL, .q = {0, rank1, 2}, .kv = {0, rank0, 2}, .cu_seqlens = docs, .n_docs = 3},
      {.kind = SPP_MASK_FULL, .q = {0, rank0, 2}, .kv = {0, rank1, 2}, .cu_seqlens = docs, .n_docs = 3}};
  for (size_t c = 0; c < sizeof masks / sizeof masks[0]; c++)
    for (int64_t window = 0; window < 4; window++)
      for (int chunked = 0; chunked < 2; chunked++) {
        struct spp_attn_mask m = masks[c];
        int64_t pairs = 0;
        if (window > 0 && m.kind != SPP_MASK_CAUSAL) continue;
        m.window_tokens = window;
        m.window_chunked = chunked != 0;
        for (int64_t i = 0; i < 4; i++)
          for (int64_t j = 0; j < 4; j++) {
            struct spp_interval see = spp_mask_row(&m, i, 4);
            bool want = visible(&m, i, j);
            expect_note("mask %d, window %d, row %d, key %d", (int)c, (int)window, (int)i, (int)j);
            expect_true((see.lo <= j && j < see.hi) == want);
            pairs += want;
          }
        expect_i64(spp_mask_pairs(&m, 4, 4), pairs);
      }
}

static void a_block_knows_what_any_and_all_of_its_rows_see(void **state) {
  (void)state;
  struct spp_attn_mask causal = spp_mask_causal(0, 0);
  struct spp_interval rows[4];
  struct spp_block_view view = spp_mask_block(&causal, 4, 4, 100, rows);
  expect_interval(view.any, 0, 8);
  expect_interval(view.all, 0, 5);
  expect_interval(rows[3], 0, 8);
  struct spp_attn_mask packed = spp_mask_packed(docs, 3);
  view = spp_mask_block(&packed, 1, 4, 8, NULL); /* rows 1,2 see [0,..), rows 3,4 see [3,..) */
  expect_interval(view.any, 0, 5);
  expect_interval(view.all, 0, 0);
}

static void malformed_masks_are_named(void **state) {
  (void)state;
  static const int64_t falling[] = {0, 5, 4};
  struct spp_attn_mask m = {.kind = SPP_MASK_CAUSAL, .q = {0, rank0, 2}};
  assert_null(spp_mask_fault(&m, 4, 4));
  expect_has(spp_mask_fault(&m, 5, 4), "fewer");
  expect_has(spp_mask_fault(&m, 3, 4), "more");
  m = spp_mask_packed(falling, 2);
  expect_has(spp_mask_fault(&m, 4, 4), "decrease");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(causal_rows_see_keys_up_to_their_position),
      cmocka_unit_test(packed_rows_see_their_own_document),
      cmocka_unit_test(zigzag_positions_give_the_ring_steps),
      cmocka_unit_test(intervals_hold_exactly_the_visible_pairs),
      cmocka_unit_test(a_block_knows_what_any_and_all_of_its_rows_see),
      cmocka_unit_test(malformed_masks_are_named),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
