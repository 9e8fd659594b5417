/* What one thing more would change: the judge is the search or the prediction of that very thing. */
#include "planner/sensitivity.h"

#include "planner/advise.h"
#include "tests/planner/jobs.h"

struct case_of {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_sensitivity rows[SPP_MAX_SENSITIVITIES];
  int count;
};
static const struct spp_framework *megatron;

static void ask(const char *model, int64_t gpus, int64_t seq_tokens, struct case_of *c) {
  struct spp_diag diag;
  jobs_options(model, "h100-80gb", gpus, seq_tokens, &c->options);
  megatron = jobs_framework("megatron-lm");
  c->options.frameworks = &megatron;
  c->options.framework_count = 1;
  c->options.min_fit = 0.8;
  expect_status(spp_search(&c->options, &c->result, &diag), SPP_OK, &diag);
  c->count = spp_sensitivities(&c->options, &c->result.plans[0], c->rows, SPP_MAX_SENSITIVITIES);
  expect_true(c->count > 6);
}

static const struct spp_sensitivity *row_of(const struct case_of *c, const char *code) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->rows[i].code, code) == 0) return &c->rows[i];
  return NULL;
}

static void more_is_never_worse_and_less_never_better(void **state) {
  static const char *const more[] = {"memory-more", "nic", "link"};
  struct case_of c;
  (void)state;
  ask("llama3.1-70b", 64, 16384, &c);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    expect_note("%s", more[i]);
    expect_true(row_of(&c, more[i])->possible);
    expect_true(row_of(&c, more[i])->speed >= -2e-3); /* ties within 0.1 % go to the simpler plan */
  }
  expect_true(row_of(&c, "memory-less")->speed <= 2e-3);
  expect_true(row_of(&c, "gpus-twice")->speed > 0.5);
  expect_true(row_of(&c, "gpus-half")->speed < 0);
  spp_search_free(&c.result);
}

static void a_row_is_what_a_search_of_that_machine_finds(void **state) {
  struct spp_search_result then;
  struct spp_cluster faster;
  struct spp_diag diag;
  struct case_of c;
  (void)state;
  ask("llama3.1-70b", 64, 16384, &c);
  struct spp_search_options own = c.options;
  faster = *own.spec.cluster;
  faster.nic_bytes_per_s *= 2;
  faster.nic_bytes_per_s_per_gpu *= 2;
  own.spec.cluster = &faster;
  expect_status(spp_search(&own, &then, &diag), SPP_OK, &diag);
  expect_rel(row_of(&c, "nic")->tokens_per_s, then.plans[0].prediction.time.tokens_per_s, 0);
  spp_search_free(&then);
  own.spec.cluster = c.options.spec.cluster;
  own.spec.gpus = 128; /* nobody gave a batch: one sequence a GPU here too */
  expect_status(spp_search(&own, &then, &diag), SPP_OK, &diag);
  expect_rel(row_of(&c, "gpus-twice")->tokens_per_s, then.plans[0].prediction.time.tokens_per_s, 0);
  spp_search_free(&then);
  spp_search_free(&c.result);
}

static void one_node_has_no_network_to_make_faster(void **state) {
  struct case_of c;
  (void)state;
  ask("qwen2.5-7b", 8, 32768, &c);
  expect_true(row_of(&c, "nic") == NULL);
  expect_true(row_of(&c, "link") != NULL);
  spp_search_free(&c.result);
}

static void recompute_alone_is_the_same_layout_predicted(void **state) {
  struct spp_prediction then;
  struct case_of c;
  (void)state;
  ask("qwen2.5-7b", 8, 32768, &c);
  struct spp_plan plan = c.result.plans[0];
  expect_i64(plan.layout.recompute, SPP_RECOMPUTE_NONE);
  plan.layout.recompute = SPP_RECOMPUTE_FULL;
  spp_predict(&plan.job, &plan.layout, NULL, &then);
  const struct spp_sensitivity *row = row_of(&c, "recompute-full");
  expect_false(row->searched);
  expect_i64(row->device_bytes, then.memory.device_bytes);
  expect_rel(row->tokens_per_s, then.time.tokens_per_s, 0);
  expect_rel(row->speed, then.time.tokens_per_s / c.result.plans[0].prediction.time.tokens_per_s - 1, 1e-12);
  spp_search_free(&c.result);
}

/* A layout that is given does not change with the machine. */
static void a_fixed_layout_stays(void **state) {
  struct case_of c;
  (void)state;
  ask("llama3.1-70b", 64, 16384, &c);
  spp_request_of(&c.result.plans[0].layout, &c.options.fixed);
  c.options.spec.loss = (int)c.result.plans[0].job.loss;
  c.count = spp_sensitivities(&c.options, &c.result.plans[0], c.rows, SPP_MAX_SENSITIVITIES);
  expect_true(row_of(&c, "memory-more")->same_layout);
  expect_rel(row_of(&c, "memory-more")->tokens_per_s, c.result.plans[0].prediction.time.tokens_per_s, 0);
  expect_true(row_of(&c, "nic")->same_layout);
  expect_true(row_of(&c, "nic")->speed >= 0);
  spp_search_free(&c.result);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(more_is_never_worse_and_less_never_better),
      cmocka_unit_test(a_row_is_what_a_search_of_that_machine_finds),
      cmocka_unit_test(one_node_has_no_network_to_make_faster),
      cmocka_unit_test(recompute_alone_is_the_same_layout_predicted),
      cmocka_unit_test(a_fixed_layout_stays),
  };
  return cmocka_run_group_tests(tests, jobs_setup, jobs_teardown) != 0;
}
