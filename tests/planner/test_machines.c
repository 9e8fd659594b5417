/* One question over several GPU types; the judge is each type asked alone. */
#include "planner/machines.h"
#include "tests/planner/jobs.h"

static int list_machines(const char *const *gpus, int count, struct spp_machine *machines) {
  for (int i = 0; i < count; i++) {
    struct spp_job_spec spec;
    jobs_spec("qwen2.5-7b", gpus[i], 8, 32768, &spec);
    machines[i] = (struct spp_machine){spec.gpu, spec.cluster, spec.calib, -1, 0};
  }
  return count;
}

static void expect_plan_of(const struct spp_plan *plan, const struct spp_plan *alone) {
  char x[256], y[256];
  expect_str(plan->job.gpu->name, alone->job.gpu->name);
  expect_str(plan->job.framework->name, alone->job.framework->name);
  expect_str(spp_layout_describe(&plan->job, &plan->layout, x, sizeof x),
             spp_layout_describe(&alone->job, &alone->layout, y, sizeof y));
}

static const struct spp_machine *machine_of(const struct spp_machine *machines, const struct spp_gpu *gpu) {
  while (machines->gpu != gpu)
    machines++;
  return machines;
}

static void each_type_answers_as_if_asked_alone(void **state) {
  static const char *const gpus[] = {"a100-80gb", "h100-80gb", "l4-24gb"};
  struct spp_machine machines[3];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  list_machines(gpus, 3, machines);
  expect_status(spp_search_machines(&options, machines, 3, SPP_FIND_NOTHING, &result, &diag), SPP_OK, &diag);
  expect_i64(result.count, 3);
  double before = INFINITY;
  for (int i = 0; i < 3; i++) {
    const struct spp_machine_answer *answer = &result.answers[i];
    const struct spp_machine *machine = machine_of(machines, answer->gpu);
    struct spp_search_options own = options;
    struct spp_search_result alone;
    own.spec.gpu = machine->gpu;
    own.spec.cluster = machine->cluster;
    own.spec.calib = machine->calib;
    expect_status(spp_search(&own, &alone, &diag), SPP_OK, &diag);
    expect_plan_of(&result.found.search.plans[answer->best], &alone.plans[0]);
    expect_true(alone.plans[0].prediction.time.tokens_per_s <= before);
    before = alone.plans[0].prediction.time.tokens_per_s;
    spp_search_free(&alone);
  }
  expect_i64(result.answers[0].best, 0);
  expect_str(result.found.search.plans[0].job.gpu->name, "h100-80gb");
  spp_search_free(&result.found.search);
}

/* All of a ranking by one objective: no plan of a type is better than one ranked before it, but for ties. */
static void the_ranking_goes_across_types(void **state) {
  static const char *const gpus[] = {"l40s-48gb", "h100-80gb", "b200-180gb"};
  struct spp_machine machines[3];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-8b", "h100-80gb", 8, 8192, &options);
  options.objective = SPP_OBJECTIVE_COST;
  options.top = 20;
  list_machines(gpus, 3, machines);
  expect_status(spp_search_machines(&options, machines, 3, SPP_FIND_NOTHING, &result, &diag), SPP_OK, &diag);
  const struct spp_search_result *search = &result.found.search;
  expect_i64(search->top_count, 20);
  for (int i = 1; i < search->top_count; i++)
    expect_true(search->plans[i].prediction.time.usd_per_million_tokens >=
                search->plans[i - 1].prediction.time.usd_per_million_tokens * (1 - 2e-3));
  for (int i = 0; i < result.count; i++)
    expect_true(search->plans[result.answers[i].best].prediction.time.usd_per_million_tokens * (1 + 2e-3) >=
                search->plans[0].prediction.time.usd_per_million_tokens);
  spp_search_free(&result.found.search);
}

/* Dollars per token are price over speed: a type k times slower wins when it costs less than 1/k. */
static void a_price_decides_under_the_cost_objective(void **state) {
  static const char *const gpus[] = {"h100-80gb", "a100-80gb"};
  struct spp_machine machines[2];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  list_machines(gpus, 2, machines);
  expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_NOTHING, &result, &diag), SPP_OK, &diag);
  double faster = result.found.search.plans[result.answers[0].best].prediction.time.tokens_per_s /
                  result.found.search.plans[result.answers[1].best].prediction.time.tokens_per_s;
  spp_search_free(&result.found.search);
  options.objective = SPP_OBJECTIVE_COST;
  for (int cheap = 0; cheap < 2; cheap++) {
    machines[0].usd_per_gpu_hour = 4;
    machines[1].usd_per_gpu_hour = 4 / faster * (cheap ? 0.95 : 1.05);
    expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_NOTHING, &result, &diag), SPP_OK,
                  &diag);
    expect_str(result.answers[0].gpu->name, gpus[cheap]);
    expect_rel(result.answers[0].usd_per_gpu_hour, machines[cheap].usd_per_gpu_hour, 0);
    spp_search_free(&result.found.search);
  }
}

static void fewer_gpus_win_unless_cost_is_the_objective(void **state) {
  static const char *const gpus[] = {"a100-40gb", "h100-80gb"};
  const struct spp_framework *framework = jobs_framework("deepspeed");
  struct spp_machine machines[2];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 8192, &options);
  options.frameworks = &framework;
  options.framework_count = 1;
  options.fixed.offload = SPP_OFFLOAD_NONE;
  list_machines(gpus, 2, machines);
  expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_MIN_GPUS, &result, &diag), SPP_OK, &diag);
  expect_str(result.answers[0].gpu->name, "h100-80gb");
  expect_true(result.answers[0].value < result.answers[1].value); /* twice the memory each */
  expect_i64(result.found.value, result.answers[0].value);
  expect_i64(result.found.search.plans[0].job.gpus, result.found.value);
  expect_i64(result.found.search.plans[result.answers[1].best].job.gpus, result.answers[1].value);
  double ratio = (double)result.answers[1].value / (double)result.answers[0].value;
  spp_search_free(&result.found.search);
  options.objective = SPP_OBJECTIVE_COST;
  machines[1].usd_per_gpu_hour = 4;
  machines[0].usd_per_gpu_hour = 0.9 * 4 / ratio; /* all of them cost 0.9 of the H100s */
  expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_MIN_GPUS, &result, &diag), SPP_OK, &diag);
  expect_str(result.answers[0].gpu->name, "a100-40gb");
  spp_search_free(&result.found.search);
}

/* 32.8e9 parameters x 12 bytes and more over 8 x 24 GB, without offload. */
static void a_type_that_is_too_small_does_not_stop_the_others(void **state) {
  static const char *const gpus[] = {"rtx-4090", "h100-80gb"};
  struct spp_machine machines[2];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-32b", "h100-80gb", 8, 8192, &options);
  options.fixed.offload = SPP_OFFLOAD_NONE;
  list_machines(gpus, 2, machines);
  expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_NOTHING, &result, &diag), SPP_OK, &diag);
  expect_str(result.answers[0].gpu->name, "h100-80gb");
  expect_str(result.answers[1].gpu->name, "rtx-4090");
  expect_i64(result.answers[1].best, -1);
  expect_has(result.answers[1].why_not, "nothing fits");
  expect_false(result.found.search.has_nearest);
  spp_search_free(&result.found.search);
}

static void where_nothing_fits_the_nearest_of_all_is_shown(void **state) {
  static const char *const gpus[] = {"rtx-4090", "a100-40gb", "l4-24gb"};
  struct spp_machine machines[3];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-72b", "h100-80gb", 2, 8192, &options);
  options.fixed.offload = SPP_OFFLOAD_NONE; /* 16-bit states fit a host */
  list_machines(gpus, 3, machines);
  expect_status(spp_search_machines(&options, machines, 3, SPP_FIND_NOTHING, &result, &diag), SPP_ERR_NOFIT,
                &diag);
  expect_i64(result.found.search.count, 0);
  expect_true(result.found.search.has_nearest);
  expect_str(result.found.search.nearest.job.gpu->name, "a100-40gb");
  spp_search_free(&result.found.search);
}

static void an_order_of_names_changes_nothing(void **state) {
  static const char *const gpus[] = {"a100-80gb", "h100-80gb", "l40s-48gb"};
  struct spp_machine machines[3], turned[3];
  struct spp_search_options options;
  struct spp_machines_result a, b;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 16384, &options);
  list_machines(gpus, 3, machines);
  for (int i = 0; i < 3; i++)
    turned[i] = machines[2 - i];
  expect_status(spp_search_machines(&options, machines, 3, SPP_FIND_NOTHING, &a, &diag), SPP_OK, &diag);
  expect_status(spp_search_machines(&options, turned, 3, SPP_FIND_NOTHING, &b, &diag), SPP_OK, &diag);
  expect_i64(a.found.search.count, b.found.search.count);
  for (int i = 0; i < a.found.search.count; i++)
    expect_plan_of(&a.found.search.plans[i], &b.found.search.plans[i]);
  for (int i = 0; i < 3; i++)
    expect_str(a.answers[i].gpu->name, b.answers[i].gpu->name);
  spp_search_free(&a.found.search);
  spp_search_free(&b.found.search);
}

static bool as_good(const struct spp_plan *a, const struct spp_plan *b) {
  const struct spp_prediction *p = &a->prediction, *q = &b->prediction;
  return p->time.step_s <= q->time.step_s && p->memory.device_bytes <= q->memory.device_bytes &&
         a->job.gpus <= b->job.gpus && p->time.usd_per_million_tokens <= q->time.usd_per_million_tokens;
}

/* Against every layout of every framework on that many GPUs of that type, exhaustively: none that is likely
 * to fit is better in one figure and as good in all. */
static void expect_unbeaten(const struct spp_search_options *options, const struct spp_machine *machine,
                            int64_t gpus, const struct spp_search_result *found) {
  struct spp_search_options own = *options;
  struct spp_search_result alone;
  struct spp_diag diag;
  own.spec.gpu = machine->gpu;
  own.spec.cluster = machine->cluster;
  own.spec.calib = machine->calib;
  own.spec.gpus = gpus;
  own.front = 64;
  own.exhaustive = true;
  enum spp_status status = spp_search(&own, &alone, &diag);
  if (status == SPP_ERR_NOFIT) spp_search_free(&alone);
  if (status != SPP_OK) return;
  for (int i = 0; i < found->pareto_count; i++)
    for (int j = 0; j < alone.count; j++) {
      const struct spp_plan *member = &found->plans[found->pareto[i]], *other = &alone.plans[j];
      if (spp_plan_risky(options, &other->prediction.memory)) continue;
      expect_false(as_good(other, member) && !as_good(member, other));
    }
  spp_search_free(&alone);
}

static void the_pareto_front_trades_time_memory_gpus_and_cost(void **state) {
  static const char *const gpus[] = {"h100-80gb", "a100-80gb"};
  struct spp_machine machines[2];
  struct spp_search_options options;
  struct spp_machines_result result;
  struct spp_diag diag;
  bool fewer = false;
  (void)state;
  jobs_options("qwen2.5-1.5b", "h100-80gb", 4, 16384, &options);
  options.spec.global_batch = 4;
  options.min_fit = 0.8;
  list_machines(gpus, 2, machines);
  expect_status(spp_search_machines(&options, machines, 2, SPP_FIND_PARETO, &result, &diag), SPP_OK, &diag);
  const struct spp_search_result *found = &result.found.search;
  expect_i64(result.found.value, found->pareto_count);
  expect_true(found->pareto_count > 4);
  for (int i = 0; i < found->pareto_count; i++) {
    const struct spp_plan *plan = &found->plans[found->pareto[i]];
    expect_false(spp_plan_risky(&options, &plan->prediction.memory));
    expect_i64(plan->job.global_batch, 4);
    fewer |= plan->job.gpus < 4;
    if (i > 0)
      expect_true(plan->prediction.time.step_s >= found->plans[found->pareto[i - 1]].prediction.time.step_s);
  }
  expect_true(fewer);
  for (int m = 0; m < 2; m++)
    for (int64_t n = 1; n <= 4; n++)
      expect_unbeaten(&options, &machines[m], n, found);
  spp_search_free(&result.found.search);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_type_answers_as_if_asked_alone),
      cmocka_unit_test(the_ranking_goes_across_types),
      cmocka_unit_test(a_price_decides_under_the_cost_objective),
      cmocka_unit_test(fewer_gpus_win_unless_cost_is_the_objective),
      cmocka_unit_test(a_type_that_is_too_small_does_not_stop_the_others),
      cmocka_unit_test(where_nothing_fits_the_nearest_of_all_is_shown),
      cmocka_unit_test(an_order_of_names_changes_nothing),
      cmocka_unit_test(the_pareto_front_trades_time_memory_gpus_and_cost),
  };
  return cmocka_run_group_tests(tests, jobs_setup, jobs_teardown) != 0;
}
