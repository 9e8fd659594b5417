#include "tests/exec/ranks.h"

#include "exec/group.h"

enum { MOST = 8, COUNT = 37 /* no multiple of any number of ranks */ };
static const struct spp_label label = {"test", SPP_PASS_FORWARD};

/* A group of every rank, counted in `tally`, with a staging buffer far smaller than a shard. */
static struct spp_rank_group everyone(struct spp_endpoint *end, struct spp_tally *tally, float *staging,
                                      int64_t floats) {
  struct spp_rank_group g;
  spp_tally_clear(tally);
  spp_group_make(&g, end, tally, SPP_GROUP_DP, 0, 1, end->size);
  g.staging = staging;
  g.staging_floats = floats;
  return g;
}

/* Small integers: their sums are exact in any order. */
static float value(int rank, int64_t i) {
  return (float)((rank + 1) * (int)(i % 7 + 1));
}
static float sum_of(int ranks, int64_t i) {
  return (float)(ranks * (ranks + 1) / 2 * (int)(i % 7 + 1));
}

static enum spp_status all_to_all(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_tally tally;
  float staging[2];
  struct spp_rank_group g = everyone(end, &tally, staging, 2);
  int32_t sent[MOST][3], got[MOST][3];
  (void)context;
  for (int to = 0; to < end->size; to++)
    for (int k = 0; k < 3; k++)
      sent[to][k] = 100 * end->rank + 10 * to + k;
  SPP_TRY(spp_group_all_to_all(&g, label, sent, got, 12, diag));
  for (int from = 0; from < end->size; from++)
    for (int k = 0; k < 3; k++)
      rank_expect_i64(got[from][k], 100 * from + 10 * end->rank + k);
  rank_expect_i64(spp_tally_bytes(&tally), 12 * (end->size - 1));
  rank_expect_i64(tally.rows[0].messages, end->size - 1);
  return SPP_OK;
}

static enum spp_status gather_and_reduce(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_tally tally;
  float staging[2], data[COUNT];
  struct spp_rank_group g = everyone(end, &tally, staging, 2);
  int64_t first = spp_shard_first(COUNT, g.size, g.me), last = spp_shard_first(COUNT, g.size, g.me + 1);
  (void)context;
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = i >= first && i < last ? (float)i : -1.0F;
  SPP_TRY(spp_group_all_gather(&g, label, data, COUNT, diag));
  for (int64_t i = 0; i < COUNT; i++)
    rank_expect_i64((int64_t)data[i], i);
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = value(end->rank, i);
  SPP_TRY(spp_group_reduce_scatter(&g, label, data, COUNT, diag));
  for (int64_t i = first; i < last; i++)
    rank_expect_near(data[i], sum_of(end->size, i), 0);
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = value(end->rank, i);
  SPP_TRY(spp_group_all_reduce(&g, label, data, COUNT, diag));
  for (int64_t i = 0; i < COUNT; i++)
    rank_expect_near(data[i], sum_of(end->size, i), 0);
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = -value(end->rank, i);
  SPP_TRY(spp_group_all_reduce_max(&g, label, data, COUNT, diag));
  for (int64_t i = 0; i < COUNT; i++)
    rank_expect_near(data[i], -value(0, i), 0);
  return SPP_OK;
}

/* 840 is divisible by 1..8: a rank sends 840 * 4 * (n-1)/n bytes in a gather or a scatter, twice that in an
 * all-reduce, each one call. */
static enum spp_status count_bytes(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  enum { EVEN = 840 };
  struct spp_tally tally;
  float staging[100], data[EVEN] = {0};
  struct spp_rank_group g = everyone(end, &tally, staging, 100);
  int64_t once = EVEN * 4 / end->size * (end->size - 1);
  (void)context;
  SPP_TRY(spp_group_all_gather(&g, label, data, EVEN, diag));
  SPP_TRY(spp_group_reduce_scatter(&g, label, data, EVEN, diag));
  SPP_TRY(spp_group_all_reduce(&g, label, data, EVEN, diag));
  rank_expect_i64(tally.row_count, end->size > 1 ? 3 : 0);
  for (int i = 0; i < tally.row_count; i++) {
    rank_expect_i64(tally.rows[i].sent_bytes, tally.rows[i].op == SPP_ALL_REDUCE ? 2 * once : once);
    rank_expect_i64(tally.rows[i].messages, 1);
    rank_expect_i64(tally.rows[i].calls, 1);
  }
  if (end->size > 1) rank_expect_i64(tally.rows[0].packets, end->size - 1);
  return SPP_OK;
}

static enum spp_status one_hop(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_tally tally;
  float staging[2];
  struct spp_rank_group g = everyone(end, &tally, staging, 2);
  int64_t sent = end->rank, got = -1;
  struct spp_shift shift;
  (void)context;
  if (end->size == 1) return SPP_OK;
  SPP_TRY(spp_group_shift_start(&g, label, &sent, &got, sizeof sent, &shift, diag));
  SPP_TRY(spp_group_shift_wait(&g, &shift, diag));
  rank_expect_i64(got, (end->rank + end->size - 1) % end->size);
  return SPP_OK;
}

/* Two groups that cut the ranks in rows and columns work at the same time; each sums its own members. */
static enum spp_status rows_and_columns(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_rank_group row, column;
  float staging[4], a[3], b[3];
  int row_first = end->rank / 2 * 2;
  (void)context;
  spp_group_make(&row, end, NULL, SPP_GROUP_TP, row_first, 1, 2);
  spp_group_make(&column, end, NULL, SPP_GROUP_DP, end->rank % 2, 2, end->size / 2);
  row.staging = column.staging = staging;
  row.staging_floats = column.staging_floats = 4;
  for (int i = 0; i < 3; i++)
    a[i] = b[i] = (float)(end->rank + i);
  SPP_TRY(spp_group_all_reduce(&row, label, a, 3, diag));
  SPP_TRY(spp_group_all_reduce(&column, label, b, 3, diag));
  for (int i = 0; i < 3; i++) {
    int column_sum = 0;
    for (int k = 0; k < column.size; k++)
      column_sum += column.ranks[k] + i;
    rank_expect_near(a[i], 2 * row_first + 1 + 2 * i, 0);
    rank_expect_near(b[i], column_sum, 0);
  }
  return SPP_OK;
}

/* 1e8 + 1 - 1e8 in fp32 depends on the order; two runs give the same bits. */
static enum spp_status rounding_sum(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_tally tally;
  float staging[5], *result = context, data[COUNT];
  struct spp_rank_group g = everyone(end, &tally, staging, 5);
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = sinf((float)(i + 1) * (float)(end->rank + 1)) * powf(10.0F, (float)(end->rank % 3) * 3.0F);
  SPP_TRY(spp_group_all_reduce(&g, label, data, COUNT, diag));
  memcpy(result + COUNT * end->rank, data, sizeof data);
  return SPP_OK;
}

static void for_all_sizes(spp_rank_main *rank_main) {
  int most = test_ranks(MOST);
  for (int ranks = 1; ranks <= most; ranks++) {
    expect_note("%d ranks", ranks);
    run_ranks(ranks, rank_main, NULL);
  }
  expect_note("%s", "");
}

static void all_to_all_moves_each_piece_to_its_owner(void **state) {
  (void)state;
  for_all_sizes(all_to_all);
}
static void gathers_and_reductions_handle_uneven_shards(void **state) {
  (void)state;
  for_all_sizes(gather_and_reduce);
}
static void sent_bytes_are_those_of_the_formulas(void **state) {
  (void)state;
  for_all_sizes(count_bytes);
}
static void blocks_travel_round_the_ring_and_from_the_first(void **state) {
  (void)state;
  for_all_sizes(one_hop);
}
static void groups_that_cross_do_not_mix(void **state) {
  (void)state;
  int most = test_ranks(MOST);
  for (int ranks = 2; ranks <= most; ranks += 2)
    run_ranks(ranks, rows_and_columns, NULL);
}

static void sums_are_the_same_bits_on_every_rank_and_run(void **state) {
  float first[MOST * COUNT] = {0}, second[MOST * COUNT] = {0};
  (void)state;
  if (test_backend() != &spp_backend_self) skip(); /* ranks of other processes do not share the arrays */
  run_ranks(MOST, rounding_sum, first);
  run_ranks(MOST, rounding_sum, second);
  expect_i64(memcmp(first, second, sizeof first), 0);
  for (int rank = 1; rank < MOST; rank++)
    expect_i64(memcmp(first, first + COUNT * rank, COUNT * sizeof(float)), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_to_all_moves_each_piece_to_its_owner),
      cmocka_unit_test(gathers_and_reductions_handle_uneven_shards),
      cmocka_unit_test(sent_bytes_are_those_of_the_formulas),
      cmocka_unit_test(blocks_travel_round_the_ring_and_from_the_first),
      cmocka_unit_test(groups_that_cross_do_not_mix),
      cmocka_unit_test(sums_are_the_same_bits_on_every_rank_and_run),
  };
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
