#include "planner/space.h"
#include <stdlib.h>

#include "tests/planner/jobs.h"

static void divisors_come_in_order(void **state) {
  int64_t d[16];
  (void)state;
  expect_i64(spp_divisors(12, d, 16), 6); /* 1 2 3 4 6 12 */
  expect_i64(d[0], 1);
  expect_i64(d[3], 4);
  expect_i64(d[5], 12);
  expect_i64(spp_divisors(16, d, 16), 5); /* the square root once */
  expect_i64(d[2], 4);
  expect_i64(spp_divisors(1, d, 16), 1);
  expect_i64(spp_divisors(12, d, 4), 4);
}

static bool same_layout(const struct spp_layout *a, const struct spp_layout *b) {
  return a->tp == b->tp && a->pp == b->pp && a->vpp == b->vpp && a->dp == b->dp && a->ep == b->ep &&
         a->etp == b->etp && a->ulysses == b->ulysses && a->ring == b->ring && a->sp_kind == b->sp_kind &&
         a->megatron_sp == b->megatron_sp && a->zero == b->zero && a->dp_replicate == b->dp_replicate &&
         a->recompute == b->recompute && a->recompute_layers == b->recompute_layers &&
         a->offload == b->offload && a->fpdt_chunk == b->fpdt_chunk && a->schedule == b->schedule &&
         a->micro_batch == b->micro_batch;
}

static bool same_cell(const struct spp_cell *a, const struct spp_cell *b) {
  return a->tp == b->tp && a->pp == b->pp && a->dp == b->dp && a->ulysses == b->ulysses &&
         a->ring == b->ring && a->ep == b->ep && a->etp == b->etp && a->sp_kind == b->sp_kind &&
         a->fpdt_chunk == b->fpdt_chunk;
}

struct seen {
  struct spp_layout layout;
  enum spp_loss_choice loss;
};

/* No layout twice, every product right, and seeking a place brings back what stood there. */
static void each_layout_is_listed_once(void **state) {
  enum { MAX = 60000 };
  struct seen *seen = malloc(MAX * sizeof *seen);
  (void)state;
  assert_non_null(seen);
  jobs_load_frameworks();
  for (int f = 0; f < jobs_framework_count; f++) {
    struct spp_job_spec spec;
    struct spp_request fixed;
    struct spp_space space;
    struct spp_diag diag;
    int count = 0;
    jobs_spec("qwen3-30b-a3b", "h100-80gb", 4, 8192, &spec);
    spp_request_clear(&fixed);
    expect_note("%s", jobs_frameworks[f]->name);
    if (spp_space_build(&spec, jobs_frameworks[f], &fixed, &space, &diag) != SPP_OK) continue;
    for (int c = 0; c < space.cell_count; c++) {
      struct spp_walk walk, again;
      spp_walk_begin(&walk, &space, &space.cells[c]);
      spp_walk_begin(&again, &space, &space.cells[c]);
      int first = count;
      int64_t walked = 0, all = spp_walk_layouts(&walk);
      while (spp_walk_next(&walk)) {
        walked++;
        expect_i64(spp_layout_world(&walk.layout), 4);
        spp_walk_seek(&again, walk.number, walk.micro);
        expect_true(same_layout(&again.layout, &walk.layout) && again.job == walk.job);
        for (int i = first; i < count; i++) /* within a cell; cells differ in their degrees */
          expect_false(same_layout(&seen[i].layout, &walk.layout) && seen[i].loss == walk.job->loss);
        if (count < MAX) seen[count++] = (struct seen){walk.layout, walk.job->loss};
      }
      expect_i64(walked, all);
      for (int other = 0; other < c; other++)
        expect_false(same_cell(&space.cells[c], &space.cells[other]));
    }
    expect_true(count > 0);
    spp_space_free(&space);
  }
  expect_note("%s", "");
  free(seen);
}

/* Whole sequences and their halves, quarters, ... down to 16,384 tokens, under Ulysses alone. */
static void a_framework_with_fpdt_tries_chunks(void **state) {
  struct spp_job_spec spec;
  struct spp_request fixed;
  struct spp_space space;
  struct spp_diag diag;
  int counts[2] = {0, 0}; /* with Ulysses 4: all, those of one chunk length */
  (void)state;
  jobs_spec("gpt3-5b", "h100-80gb", 4, 131072, &spec);
  for (int given = 0; given < 2; given++) {
    spp_request_clear(&fixed);
    fixed.fpdt_chunk = given ? 32768 : SPP_UNSET;
    jobs_need(spp_space_build(&spec, jobs_framework("megatron-deepspeed"), &fixed, &space, &diag), &diag);
    for (int c = 0; c < space.cell_count; c++) {
      const struct spp_cell *cell = &space.cells[c];
      if (cell->sp_kind == SPP_SP_NONE) expect_i64(cell->fpdt_chunk, given ? 32768 : 0);
      counts[given] += cell->ulysses == 4;
      if (given) expect_i64(cell->fpdt_chunk, 32768);
      if (cell->fpdt_chunk > 0) expect_i64(131072 % cell->fpdt_chunk, 0);
      expect_true(cell->fpdt_chunk == 0 || cell->fpdt_chunk >= 16384);
    }
    spp_space_free(&space);
  }
  expect_i64(counts[0], 4); /* whole, 65,536, 32,768, 16,384 */
  expect_i64(counts[1], 1);
}

/* Rules that look at the batch are marked as such: asking the others once per variant misses nothing. */
static void a_walk_finds_a_rule_broken_where_the_rules_do(void **state) {
  static const char *const models[] = {"qwen3-30b-a3b", "qwen2.5-7b"};
  (void)state;
  jobs_load_frameworks();
  for (int f = 0; f < 2 * jobs_framework_count; f++) {
    struct spp_job_spec spec;
    struct spp_request fixed;
    struct spp_space space;
    struct spp_diag diag;
    jobs_spec(models[f % 2], "h100-80gb", 8, 8192, &spec);
    spec.packing = f / 2 % 2 ? 1 : SPP_UNSET;
    spec.global_batch = 24;
    spp_request_clear(&fixed);
    if (spp_space_build(&spec, jobs_frameworks[f / 2], &fixed, &space, &diag) != SPP_OK) continue;
    for (int c = 0; c < space.cell_count; c++) {
      struct spp_walk walk;
      spp_walk_begin(&walk, &space, &space.cells[c]);
      while (spp_walk_next(&walk))
        expect_i64(spp_walk_rule(&walk) >= 0, spp_rules_first(walk.job, &walk.layout) >= 0);
    }
    spp_space_free(&space);
  }
}

static void plain_data_parallelism_is_the_simplest(void **state) {
  struct spp_job_spec spec;
  struct spp_job job;
  struct spp_request request;
  struct spp_layout plain, other;
  struct spp_diag diag;
  (void)state;
  jobs_spec("llama3.1-8b", "h100-80gb", 8, 8192, &spec);
  jobs_need(spp_job_resolve(&spec, jobs_framework("megatron-lm"), &job, &diag), &diag);
  spp_request_clear(&request);
  request.recompute = SPP_RECOMPUTE_NONE;
  jobs_need(spp_layout_complete(&job, &request, &plain, &diag), &diag);
  expect_i64(spp_layout_complexity(&job, &plain), 0);
  other = plain;
  other.offload = SPP_OFFLOAD_OPTIMIZER;
  int offload = spp_layout_complexity(&job, &other);
  other = plain;
  other.recompute = SPP_RECOMPUTE_FULL;
  expect_true(spp_layout_complexity(&job, &other) > 0);
  expect_true(spp_layout_complexity(&job, &other) < offload);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(divisors_come_in_order),
      cmocka_unit_test(each_layout_is_listed_once),
      cmocka_unit_test(a_framework_with_fpdt_tries_chunks),
      cmocka_unit_test(a_walk_finds_a_rule_broken_where_the_rules_do),
      cmocka_unit_test(plain_data_parallelism_is_the_simplest),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
