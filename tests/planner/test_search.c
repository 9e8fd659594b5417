/* The search: the default job, what is likely to fit, what the user fixes and what cannot be. */
#include "tests/planner/sound.h"

/* ---- the default job ---- */

static void the_default_job_has_a_plan_from_every_framework_that_can_do_it(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  expect_i64(result.top_count, 5);
  expect_sound_result(&options, &result);
  for (int f = 0; f < options.framework_count; f++) {
    expect_note("%s: %s", options.frameworks[f]->name, result.framework_refusals[f]);
    if (result.framework_refusals[f][0]) continue;
    expect_true(result.best_of_framework[f] >= 0);
    expect_str(result.plans[result.best_of_framework[f]].job.framework->name, options.frameworks[f]->name);
  }
  spp_search_free(&result);
}

static void nothing_feasible_beats_the_plan_by_more_than_a_tie(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  expect_none_faster(&options, &result.plans[0]);
  spp_search_free(&result);
}

/* ---- likely to fit ---- */

/* A job whose fastest layout fills the GPU: it stands behind every likely one, unless nobody minds. */
static void a_fast_plan_that_may_not_fit_stands_behind_the_likely_ones(void **state) {
  const struct spp_framework *framework = jobs_framework("deepspeed");
  struct spp_search_options options;
  struct spp_search_result safe, bold;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-8b", "h100-80gb", 8, 65536, &options);
  options.frameworks = &framework;
  options.framework_count = 1;
  options.top = 400;
  expect_status(spp_search(&options, &bold, &diag), SPP_OK, &diag);
  const struct spp_memory *tight = &bold.plans[0].prediction.memory;
  options.spec.max_memory_bytes = tight->device_bytes - tight->reclaimable_bytes + 1; /* even odds, just */
  spp_search_free(&bold);
  expect_status(spp_search(&options, &bold, &diag), SPP_OK, &diag);
  expect_true(bold.plans[0].prediction.memory.fit_probability < 0.6);
  options.min_fit = 0.8;
  expect_status(spp_search(&options, &safe, &diag), SPP_OK, &diag);
  expect_false(risky(&options, &safe.plans[0]));
  expect_true(safe.plans[0].prediction.time.tokens_per_s <=
              bold.plans[0].prediction.time.tokens_per_s * (1 + 1e-3));
  for (int i = 1; i < safe.top_count; i++)
    expect_true(risky(&options, &safe.plans[i - 1]) <= risky(&options, &safe.plans[i]));
  expect_rel(safe.plans[safe.pareto[0]].prediction.time.step_s,
             bold.plans[bold.pareto[0]].prediction.time.step_s, 0); /* still shown */
  double gain = bold.plans[0].prediction.time.tokens_per_s / safe.plans[0].prediction.time.tokens_per_s;
  expect_i64(spp_search_riskier(&options, &safe), gain >= 1.01 ? safe.pareto[0] : -1);
  expect_true(gain >= 1.01);
  options.min_fit = 0;
  expect_i64(spp_search_riskier(&options, &bold), -1); /* nobody minds: nothing is passed over */
  spp_search_free(&safe);
  spp_search_free(&bold);
}

/* Student's quantile with two degrees of freedom, (2p - 1) sqrt(2 / (4p (1 - p))), is 1.06066 for p = 0.8
 * and 1.88562 for 0.9, which stands for 1.28155 sigma: what takes capacity / (1 + 0.72087 sigma) is 0.8
 * likely to fit. */
static void likelihood_falls_as_bytes_grow(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  const struct spp_job *job = &result.plans[0].job;
  double capacity = (double)job->gpu->capacity_bytes,
         bytes = capacity / (1 + 0.72087275561 * job->memory_sigma);
  expect_rel(spp_memory_fit_probability(job, (int64_t)bytes, 0), 0.8, 1e-6);
  expect_rel(spp_memory_fit_probability(job, (int64_t)capacity, 0), 0.5, 1e-6);
  for (int64_t gib = 1; gib < 200; gib++)
    expect_true(spp_memory_fit_probability(job, gib << 30, 0) >=
                spp_memory_fit_probability(job, (gib + 1) << 30, 0));
  spp_search_free(&result);
}

/* ---- one GPU ---- */

/* Nothing is shared on one GPU: of stages equally fast the lowest is taken, and offload only where the rest
 * does not fit. DeepSpeed's stage 1 is not equal to 0: its engine casts fp32 adapters to 16 bits. */
static void one_gpu_takes_the_simplest_of_equal_layouts(void **state) {
  static const int methods[] = {SPP_METHOD_QLORA, SPP_METHOD_LORA, SPP_METHOD_FULL};
  static const struct {
    const char *model, *gpu;
    int64_t seq_tokens;
  } cases[] = {{"qwen2.5-7b", "rtx-4090", 8192},
               {"qwen2.5-1.5b", "h100-80gb", 4096},
               {"qwen2.5-7b", "h100-80gb", 8192}};
  (void)state;
  for (int m = 0; m < 3; m++)
    for (int c = 0; c < 3; c++) {
      struct spp_search_options options;
      struct spp_search_result result;
      struct spp_diag diag;
      jobs_options(cases[c].model, cases[c].gpu, 1, cases[c].seq_tokens, &options);
      options.spec.method = methods[m];
      options.min_fit = 0.8;
      options.top = 1;
      enum spp_status status = spp_search(&options, &result, &diag);
      if (status == SPP_ERR_NOFIT) spp_search_free(&result);
      if (status != SPP_OK) continue;
      expect_note("%s %s %s", cases[c].model, cases[c].gpu, spp_method_name((enum spp_method)methods[m]));
      struct spp_plan *best = &result.plans[0], plain = *best;
      plain.layout.offload = SPP_OFFLOAD_NONE;
      spp_predict(&plain.job, &plain.layout, NULL, &plain.prediction);
      expect_true(best->layout.offload == SPP_OFFLOAD_NONE || !fits(&plain) || risky(&options, &plain));
      for (int zero = 0; zero < best->layout.zero; zero++) {
        struct spp_plan lower = *best;
        lower.layout.zero = zero;
        if (spp_rules_first(&lower.job, &lower.layout) >= 0) continue;
        spp_predict(&lower.job, &lower.layout, NULL, &lower.prediction);
        expect_true(!fits(&lower) || risky(&options, &lower) ||
                    lower.prediction.time.step_s > best->prediction.time.step_s);
      }
      spp_search_free(&result);
    }
  expect_note("%s", "");
}

/* ---- some layers recomputed ---- */

static bool likely_with(const struct spp_search_options *options, const struct spp_plan *plan,
                        int64_t layers) {
  struct spp_plan other = *plan;
  other.layout.recompute_layers = layers;
  spp_predict(&other.job, &other.layout, NULL, &other.prediction);
  return fits(&other) && !risky(options, &other);
}

/* A pipeline of chunks, and an optimizer that must leave the GPU, recompute some layers too. */
static void some_layers_are_recomputed_beside_chunks_and_offload(void **state) {
  static const struct {
    const char *model;
    int64_t gpus, seq_tokens, batch, pp, vpp;
    int offload;
  } jobs[] = {{"llama3.1-70b", 32, 8192, 32, 4, 4, SPP_UNSET},
              {"llama3.1-8b", 1, 8192, 8, SPP_UNSET, SPP_UNSET, SPP_OFFLOAD_OPTIMIZER}};
  const struct spp_framework *framework = jobs_framework("megatron-lm");
  (void)state;
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    int found = 0;
    jobs_options(jobs[i].model, "h100-80gb", jobs[i].gpus, jobs[i].seq_tokens, &options);
    options.spec.global_batch = jobs[i].batch;
    options.frameworks = &framework;
    options.framework_count = 1;
    options.fixed.recompute = SPP_RECOMPUTE_FULL;
    options.fixed.pp = jobs[i].pp;
    options.fixed.vpp = jobs[i].vpp;
    options.fixed.offload = jobs[i].offload;
    options.min_fit = 0.8;
    options.top = 200;
    expect_note("%s", jobs[i].model);
    expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
    for (int p = 0; p < result.count; p++)
      found += result.plans[p].layout.recompute_layers != SPP_UNSET;
    expect_true(found > 0);
    spp_search_free(&result);
  }
  expect_note("%s", "");
}

static void no_more_layers_are_recomputed_than_must_be(void **state) {
  const struct spp_framework *framework = jobs_framework("megatron-lm");
  static const int64_t seqs[] = {8192, 16384, 32768, 65536};
  int found = 0;
  (void)state;
  for (size_t i = 0; i < sizeof seqs / sizeof *seqs; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    jobs_options("llama3.1-8b", "h100-80gb", 4, seqs[i], &options);
    options.frameworks = &framework;
    options.framework_count = 1;
    options.fixed.recompute = SPP_RECOMPUTE_FULL;
    options.min_fit = 0.8;
    options.top = 40;
    expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
    for (int p = 0; p < result.count; p++) {
      const struct spp_plan *plan = &result.plans[p];
      if (plan->layout.recompute_layers == SPP_UNSET) continue;
      found++;
      expect_true(likely_with(&options, plan, plan->layout.recompute_layers));
      expect_i64(plan->layout.recompute_layers % plan->layout.vpp, 0); /* counted by chunk */
      if (plan->layout.recompute_layers > plan->layout.vpp)
        expect_false(likely_with(&options, plan, plan->layout.recompute_layers - plan->layout.vpp));
      struct spp_plan all = *plan;
      all.layout.recompute_layers = SPP_UNSET;
      spp_predict(&all.job, &all.layout, NULL, &all.prediction);
      expect_true(all.prediction.time.step_s >= plan->prediction.time.step_s);
    }
    spp_search_free(&result);
  }
  expect_true(found > 0);
}

/* ---- what the user fixes, and what cannot be ---- */

static void fixed_fields_are_kept(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  const struct spp_framework *megatron = jobs_framework("megatron-lm");
  (void)state;
  jobs_options("llama3.1-8b", "h100-80gb", 8, 32768, &options);
  options.frameworks = &megatron;
  options.framework_count = 1;
  options.fixed.tp = 2;
  options.fixed.sp = 2;
  options.fixed.sp_kind = SPP_SP_RING;
  options.fixed.recompute = SPP_RECOMPUTE_FULL;
  options.fixed.micro_batch = 1;
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  for (int i = 0; i < result.count; i++) {
    const struct spp_layout *l = &result.plans[i].layout;
    expect_i64(l->tp, 2);
    expect_i64(l->ring, 2);
    expect_i64(l->ulysses, 1);
    expect_i64(l->sp_kind, SPP_SP_RING);
    expect_i64(l->recompute, SPP_RECOMPUTE_FULL);
    expect_i64(l->micro_batch, 1);
  }
  spp_search_free(&result);
}

static void degrees_that_make_no_layout_are_a_usage_error(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  options.fixed.sp = 3;
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_true(diag.what[0] != '\0');
}

/* Of ten frameworks that refuse, one that has tensor parallelism speaks, and the others are counted. */
static void a_refusal_by_all_is_not_one_framework_s_alone(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 12, 32768, &options);
  options.fixed.tp = 3; /* divides the GPUs, and not the 28 heads */
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "28");
  expect_has(diag.what, "other frameworks cannot either");
  bool has_tp = false;
  for (int f = 0; f < options.framework_count; f++)
    has_tp |= options.frameworks[f]->tp && strcmp(options.frameworks[f]->display, diag.where) == 0;
  expect_true(has_tp);
  options.spec.gpus = 8; /* not even that: no framework has cells */
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "other frameworks cannot either");
}

/* Of FPDT one rule speaks for all, and it knows who has it: megatron-deepspeed, which is not searched. */
static void what_one_other_framework_has_is_named_instead(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  options.fixed.fpdt_chunk = 16384;
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "other frameworks cannot either");
  expect_str(diag.hint, "--framework megatron-deepspeed");
  options.framework_count = 1;
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_str(diag.hint, "--framework megatron-deepspeed");
}

/* 28 query heads: no framework runs Ulysses 8 (spplan degrees; formats of DeepSpeed, TE and ms-swift). */
static void an_illegal_degree_names_the_rule(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  options.fixed.sp = 8;
  options.fixed.sp_kind = SPP_SP_ULYSSES;
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "28");
}

/* 72.7e9 parameters x 16 bytes over 8 x 24 GB never fit, whatever the length. */
static void a_hopeless_job_says_how_far_off_it_is(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-72b", "rtx-4090", 2, 8192, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_ERR_NOFIT, &diag);
  expect_i64(result.count, 0);
  expect_true(result.has_nearest);
  expect_false(fits(&result.nearest));
  expect_true(result.rejection_count > 0);
  spp_search_free(&result);
}

static void a_rejection_counts_and_shows_one_example(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  int64_t over = 0;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 131072, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  for (int i = 0; i < result.rejection_count; i++) {
    expect_true(result.rejections[i].count > 0);
    expect_true(result.rejections[i].example[0] != '\0');
    if (strcmp(result.rejections[i].reason, "memory") == 0) over = result.rejections[i].count;
    if (i > 0) expect_true(result.rejections[i].count <= result.rejections[i - 1].count);
  }
  expect_true(over > 0);
  spp_search_free(&result);
}

static void a_stopped_search_says_so_and_leaves_the_result_alone(void **state) {
  struct spp_search_options options;
  struct spp_search_result result = {.count = 7};
  struct spp_diag diag;
  atomic_bool stop;
  (void)state;
  atomic_init(&stop, true);
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  options.stop = &stop;
  expect_status(spp_search(&options, &result, &diag), SPP_INTERRUPTED, &diag);
  expect_i64(result.count, 7);
  atomic_store(&stop, false);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  spp_search_free(&result);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_default_job_has_a_plan_from_every_framework_that_can_do_it),
      cmocka_unit_test(nothing_feasible_beats_the_plan_by_more_than_a_tie),
      cmocka_unit_test(a_fast_plan_that_may_not_fit_stands_behind_the_likely_ones),
      cmocka_unit_test(likelihood_falls_as_bytes_grow),
      cmocka_unit_test(one_gpu_takes_the_simplest_of_equal_layouts),
      cmocka_unit_test(no_more_layers_are_recomputed_than_must_be),
      cmocka_unit_test(some_layers_are_recomputed_beside_chunks_and_offload),
      cmocka_unit_test(fixed_fields_are_kept),
      cmocka_unit_test(degrees_that_make_no_layout_are_a_usage_error),
      cmocka_unit_test(what_one_other_framework_has_is_named_instead),
      cmocka_unit_test(a_refusal_by_all_is_not_one_framework_s_alone),
      cmocka_unit_test(an_illegal_degree_names_the_rule),
      cmocka_unit_test(a_hopeless_job_says_how_far_off_it_is),
      cmocka_unit_test(a_rejection_counts_and_shows_one_example),
      cmocka_unit_test(a_stopped_search_says_so_and_leaves_the_result_alone),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
