#include "tests/expect.h"

#include <stdlib.h>

#include "exec/suite.h"
#include "exec/weights.h"

static struct spp_arena arena;
static struct spp_exec_plan plan;

static const struct spp_arch *open_plan(int64_t tp, int64_t pp, int64_t vpp) {
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_exec_setting s = {.layout = spp_layout_plain(), .seq_tokens = 32};
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(spp_suite_model, strlen(spp_suite_model), "test", &arena, &s.arch, &diag),
                SPP_OK, &diag);
  s.layout.tp = tp;
  s.layout.pp = pp;
  s.layout.vpp = vpp;
  s.layout.grad_accum = 4;
  if (vpp > 1) s.layout.schedule = SPP_SCHEDULE_INTERLEAVED;
  expect_status(spp_exec_plan_open(SPP_SOURCE_DIR "/configs", &s, &plan, &diag), SPP_OK, &diag);
  return s.arch;
}

static void close_plan(void) {
  spp_exec_plan_close(&plan);
  spp_arena_free(&arena);
}

static void mark(const struct spp_stage_weights *w, int *seen) {
  for (int64_t u = 0; u < w->unit_count; u++)
    for (int slot = 0; slot < SPP_SLOT_COUNT; slot++) {
      const struct spp_held *h = &w->units[u].held[slot];
      for (int64_t i = 0; h->weight && i < h->rows * h->cols; i++)
        seen[spp_held_number(h, i)]++;
    }
}

/* Over all tensor-parallel ranks and stages every element is held: split ones once, replicated ones tp times.
 */
static void shards_cover_the_model(void **state) {
  static const int64_t degrees[][3] = {{1, 1, 1}, {2, 1, 1}, {4, 2, 1}, {2, 2, 2}};
  (void)state;
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
    const struct spp_arch *arch = open_plan(degrees[i][0], degrees[i][1], degrees[i][2]);
    struct spp_diag diag;
    int64_t total = spp_weights_total(arch), elements = 0;
    int *seen = calloc((size_t)total, sizeof *seen);
    expect_i64(total, plan.job.params.total);
    for (int64_t stage = 0; stage < degrees[i][1]; stage++)
      for (int64_t rank = 0; rank < degrees[i][0]; rank++) {
        struct spp_stage_weights w;
        expect_status(spp_weights_place(&plan, &(struct spp_weights_rank){stage, rank, 0}, &arena, &w, &diag),
                      SPP_OK, &diag);
        mark(&w, seen);
        elements += w.floats;
      }
    int64_t sum = 0;
    for (int64_t n = 0; n < total; n++) {
      expect_true(seen[n] == 1 || seen[n] == (int)degrees[i][0]);
      sum += seen[n];
    }
    expect_i64(sum, elements);
    free(seen);
    close_plan();
  }
}

/* Values depend on the number only, and stay in the range their kind has. */
static void first_values_are_fixed_by_the_number(void **state) {
  const struct spp_arch *arch = open_plan(1, 1, 1);
  (void)state;
  for (int i = 0; i < arch->kinds[0].weight_count; i++) {
    const struct spp_weight *w = &arch->kinds[0].weights[i];
    double most = w->linear ? sqrt(3.0 / (double)w->cols) : 1.1, sum = 0;
    for (int64_t n = 0; n < 1000; n++) {
      float value = spp_weight_initial(arch, w, n);
      expect_true(value == spp_weight_initial(arch, w, n));
      expect_true(fabs((double)value) <= most);
      sum += (double)value;
    }
    if (w->linear)
      expect_near(sum / 1000, 0, 4 * most / sqrt(3.0 * 1000)); /* four sigma of a mean of uniforms */
  }
  close_plan();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shards_cover_the_model),
      cmocka_unit_test(first_values_are_fixed_by_the_number),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
