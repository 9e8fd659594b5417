/* The front over four figures, and the counts of GPUs it is asked of. */
#include "planner/front.h"

#include "tests/expect.h"
#include "tests/planner/random.h"

enum { MOST = 300 };

static bool no_worse(const struct spp_front_point *a, const struct spp_front_point *b) {
  return a->step_s <= b->step_s && a->device_bytes <= b->device_bytes && a->gpus <= b->gpus &&
         a->usd_per_million_tokens <= b->usd_per_million_tokens;
}

static bool equal(const struct spp_front_point *a, const struct spp_front_point *b) {
  return no_worse(a, b) && no_worse(b, a);
}

/* The definition, point against point. */
static bool is_member(const struct spp_front_point *points, size_t count, size_t i) {
  for (size_t j = 0; j < count; j++) {
    bool as_good = j != i && no_worse(&points[j], &points[i]);
    if (as_good && (!equal(&points[j], &points[i]) || points[j].plan < points[i].plan)) return false;
  }
  return true;
}

static void the_front_is_what_no_point_beats(void **state) {
  (void)state;
  random_state = 4;
  for (int n = 0; n < 200; n++) {
    struct spp_front_point points[MOST] = {{0}}, sorted[MOST];
    size_t count = next_random() % MOST, found[MOST], members = 0;
    for (size_t i = 0; i < count; i++) /* few values, so that many are equal in some */
      points[i] = (struct spp_front_point){(double)(next_random() % 20), (int64_t)(next_random() % 20),
                                           (int64_t)(1 + next_random() % 4), (double)(next_random() % 3), i};
    memcpy(sorted, points, sizeof points);
    int front = spp_front(sorted, count, found, MOST);
    for (size_t i = 0; i < count; i++)
      members += is_member(points, count, i);
    expect_i64(front, (int64_t)members);
    for (int i = 0; i < front; i++) {
      expect_true(is_member(points, count, found[i]));
      if (i > 0) expect_true(points[found[i]].step_s >= points[found[i - 1]].step_s);
    }
    int thin = spp_front(sorted, count, found, 3);
    expect_i64(thin, members < 3 ? (int64_t)members : 3);
  }
}

static void both_ends_of_a_thinned_front_are_kept(void **state) {
  struct spp_front_point points[10];
  size_t found[4];
  (void)state;
  for (size_t i = 0; i < 10; i++)
    points[i] = (struct spp_front_point){(double)i, (int64_t)(10 - i), 1, 0, i};
  expect_i64(spp_front(points, 10, found, 4), 4);
  expect_i64((int64_t)found[0], 0);
  expect_i64((int64_t)found[3], 9);
  expect_i64(spp_front(points, 10, found, 1), 1);
  expect_i64((int64_t)found[0], 0);
}

static void fewer_gpus_are_small_counts_and_whole_nodes(void **state) {
  static const struct {
    int64_t gpus, node, counts[16];
  } rows[] = {{1, 8, {1}},
              {8, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
              {24, 8, {1, 2, 3, 4, 5, 6, 7, 8, 16, 24}},
              {20, 8, {1, 2, 3, 4, 5, 6, 7, 8, 16, 20}},
              {12, 4, {1, 2, 3, 4, 5, 6, 7, 8, 12}},
              {1024, 8, {16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t counts[SPP_MAX_ALLOCATIONS];
    int count = spp_allocations(rows[i].gpus, rows[i].node, counts), expected = 0;
    expect_note("%d GPUs", (int)rows[i].gpus);
    for (; expected < 16 && rows[i].counts[expected] > 0; expected++)
      if (expected < count) expect_i64(counts[expected], rows[i].counts[expected]);
    expect_i64(count, expected);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_front_is_what_no_point_beats),
      cmocka_unit_test(both_ends_of_a_thinned_front_are_kept),
      cmocka_unit_test(fewer_gpus_are_small_counts_and_whole_nodes),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
