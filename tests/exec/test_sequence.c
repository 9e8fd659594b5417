#include "tests/expect.h"

#include "exec/sequence.h"

enum { MOST = 256 };
static const struct spp_sequence_cut cuts[] = {
    {1, 32, 1, 1, false}, {3, 32, 2, 1, false}, {2, 48, 1, 4, false}, {3, 48, 1, 4, true},
    {2, 64, 2, 4, true},  {1, 48, 3, 2, true},  {5, 24, 3, 4, true},
};

/* Every position is held by exactly one rank, sequence after sequence in increasing order on a ring rank. */
static void every_token_has_one_owner(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    const struct spp_sequence_cut *c = &cuts[i];
    int64_t owners[MOST] = {0}, positions[MOST];
    int64_t each = c->sequences * c->tokens / (c->ulysses * c->ring);
    expect_note("cut %d", (int)i);
    expect_i64(c->tokens % spp_sequence_unit(c), 0);
    for (int64_t r = 0; r < c->ring; r++)
      for (int64_t u = 0; u < c->ulysses; u++) {
        spp_sequence_positions(c, u, r, positions);
        for (int64_t t = 0; t < each; t++)
          owners[positions[t]]++;
      }
    for (int64_t t = 0; t < c->sequences * c->tokens; t++)
      expect_i64(owners[t], 1);
  }
  expect_note("%s", "");
}

/* Runs list what the Ulysses ranks of a ring rank hold together. */
static void runs_are_the_positions_of_a_ring_rank(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    const struct spp_sequence_cut *c = &cuts[i];
    struct spp_pos_run runs[2 * 8];
    int64_t positions[MOST], held[MOST] = {0}, per_rank = c->sequences * c->tokens / (c->ulysses * c->ring);
    for (int64_t r = 0; r < c->ring; r++) {
      for (int64_t u = 0; u < c->ulysses; u++) {
        spp_sequence_positions(c, u, r, positions);
        for (int64_t t = 0; t < per_rank; t++)
          held[positions[t]] = r + 1;
      }
      int64_t count = spp_sequence_runs(c, r, runs), total = 0;
      for (int64_t k = 0; k < count; k++) {
        total += runs[k].count;
        if (k > 0) expect_true(runs[k].first > runs[k - 1].first + runs[k - 1].count);
        for (int64_t t = 0; t < runs[k].count; t++)
          expect_i64(held[runs[k].first + t], r + 1);
      }
      expect_i64(total, per_rank * c->ulysses);
    }
  }
}

/* 4 ring ranks, 32 tokens, chunks of 4: rank 1 has chunks 1 and 6 (zhuzilin/ring-flash-attention README,
 * zigzag). */
static void zigzag_pairs_a_chunk_with_its_mirror(void **state) {
  const struct spp_sequence_cut c = {1, 32, 1, 4, true};
  struct spp_pos_run runs[2];
  (void)state;
  expect_i64(spp_sequence_runs(&c, 1, runs), 2);
  expect_i64(runs[0].first, 4);
  expect_i64(runs[0].count, 4);
  expect_i64(runs[1].first, 24);
  expect_i64(runs[1].count, 4);
  expect_i64(spp_sequence_runs(&c, 3, runs), 1); /* chunks 3 and 4 touch */
  expect_i64(runs[0].first, 12);
  expect_i64(runs[0].count, 8);
}

/* NVIDIA/TransformerEngine pytorch/attention/dot_product_attention/context_parallel.py: after an all-to-all
 * over 2 ranks in this order the chunks stand as 0, 3, 1, 2; taking 0, 2, 3, 1 of them puts them in the
 * sequence's order. */
static void two_zigzag_ranks_hold_chunks_in_the_order_that_an_all_to_all_must_undo(void **state) {
  const struct spp_sequence_cut c = {1, 8, 1, 2, true}; /* 4 chunks of 2 tokens */
  static const int64_t held[] = {0, 3, 1, 2}, taken[] = {0, 2, 3, 1};
  int64_t chunks[4], positions[MOST];
  (void)state;
  for (int64_t r = 0; r < 2; r++) {
    spp_sequence_positions(&c, 0, r, positions);
    chunks[2 * r] = positions[0] / 2;
    chunks[2 * r + 1] = positions[2] / 2;
  }
  for (int i = 0; i < 4; i++) {
    expect_i64(chunks[i], held[i]);
    expect_i64(chunks[taken[i]], i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_token_has_one_owner),
      cmocka_unit_test(runs_are_the_positions_of_a_ring_rank),
      cmocka_unit_test(zigzag_pairs_a_chunk_with_its_mirror),
      cmocka_unit_test(two_zigzag_ranks_hold_chunks_in_the_order_that_an_all_to_all_must_undo),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
