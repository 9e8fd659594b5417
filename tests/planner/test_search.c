/* Properties of the search over many jobs; the judge is the exhaustive search. */
#include "planner/space.h"
#include "tests/planner/jobs.h"
#include "tests/planner/random.h"

static bool fits(const struct spp_plan *plan) {
  return plan->prediction.memory.fits && plan->prediction.memory.host_fits;
}

static void expect_same_plan(const struct spp_plan *a, const struct spp_plan *b) {
  char x[256], y[256];
  expect_str(a->job.framework->name, b->job.framework->name);
  expect_str(spp_layout_describe(&a->job, &a->layout, x, sizeof x),
             spp_layout_describe(&b->job, &b->layout, y, sizeof y));
  expect_i64(a->job.loss, b->job.loss);
  expect_i64(a->prediction.memory.device_bytes, b->prediction.memory.device_bytes);
  expect_rel(a->prediction.time.step_s, b->prediction.time.step_s, 0);
}

static void expect_same_result(const struct spp_search_result *a, const struct spp_search_result *b) {
  expect_i64(a->count, b->count);
  expect_i64(a->top_count, b->top_count);
  for (int i = 0; i < a->count; i++)
    expect_same_plan(&a->plans[i], &b->plans[i]);
  expect_i64(a->pareto_count, b->pareto_count);
  for (int i = 0; i < a->pareto_count; i++)
    expect_i64(a->pareto[i], b->pareto[i]);
  expect_i64(a->layouts, b->layouts);
  expect_i64(a->has_nearest, b->has_nearest);
  if (a->has_nearest) expect_same_plan(&a->nearest, &b->nearest);
}

/* A plan is legal, its degrees make the GPUs, its batch comes out, and predicting it again says the same. */
static void expect_sound(const struct spp_search_options *options, const struct spp_plan *plan) {
  struct spp_prediction again;
  const struct spp_layout *l = &plan->layout;
  expect_true(fits(plan));
  expect_i64(spp_rules_first(&plan->job, l), -1);
  expect_i64(spp_layout_world(l), options->spec.gpus);
  expect_i64(l->micro_batch * l->grad_accum * l->dp, plan->job.global_batch);
  spp_predict(&plan->job, l, NULL, &again);
  expect_i64(again.memory.device_bytes, plan->prediction.memory.device_bytes);
  expect_rel(again.time.step_s, plan->prediction.time.step_s, 0);
}

static bool risky(const struct spp_search_options *options, const struct spp_plan *plan) {
  return spp_plan_risky(options, &plan->prediction.memory);
}

static void expect_sound_result(const struct spp_search_options *options,
                                const struct spp_search_result *result) {
  expect_i64(result->layouts, result->evaluated + result->pruned);
  for (int i = 0; i < result->count; i++)
    expect_sound(options, &result->plans[i]);
  for (int i = 1; i < result->pareto_count; i++) {
    const struct spp_prediction *fast = &result->plans[result->pareto[i - 1]].prediction;
    const struct spp_prediction *slow = &result->plans[result->pareto[i]].prediction;
    expect_true(slow->time.step_s >= fast->time.step_s);
    expect_true(slow->memory.device_bytes < fast->memory.device_bytes);
  }
  for (int i = 0; i < result->count && result->top_count > 0; i++)
    expect_true(risky(options, &result->plans[i]) > risky(options, &result->plans[0]) ||
                result->plans[i].prediction.time.tokens_per_s <=
                    1.001 * result->plans[0].prediction.time.tokens_per_s * (1 + 1e-12));
}

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

/* Every legal layout of every framework, predicted by itself: none that fits, as likely as the best plan
 * does or is asked to, is faster than it by more than a tie. */
static void expect_none_faster(const struct spp_search_options *options, const struct spp_plan *best) {
  struct spp_diag diag;
  bool best_risky = risky(options, best);
  double fastest = 1.0011 * best->prediction.time.tokens_per_s;
  for (int f = 0; f < options->framework_count; f++) {
    struct spp_space space;
    if (spp_space_build(&options->spec, options->frameworks[f], &options->fixed, &space, &diag) != SPP_OK)
      continue;
    for (int c = 0; c < space.cell_count; c++) {
      static struct spp_walk walk;
      spp_walk_begin(&walk, &space, &space.cells[c]);
      while (spp_walk_next(&walk)) {
        struct spp_prediction p;
        if (spp_rules_first(walk.job, &walk.layout) >= 0) continue;
        spp_predict(walk.job, &walk.layout, NULL, &p);
        if (!p.memory.fits || !p.memory.host_fits) continue;
        bool likely = !spp_plan_risky(options, &p.memory);
        if (best_risky) expect_false(likely);
        if (best_risky || likely) expect_true(p.time.tokens_per_s <= fastest);
      }
    }
    spp_space_free(&space);
  }
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

/* Student's quantile with two degrees of freedom, (2p - 1) sqrt(2 / (4p (1 - p))), is 1.06066 for p = 0.8 and 1.88562 for
 * 0.9, which stands for 1.28155 sigma: what takes capacity / (1 + 0.72087 sigma) is 0.8 likely to fit. */
static void likelihood_falls_as_bytes_grow(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  const struct spp_job *job = &result.plans[0].job;
  double capacity = (double)job->gpu->capacity_bytes,
         bytes = capacity / (1 + 0.72087275561 * job->framework->memory_sigma);
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

/* ---- random jobs ---- */

static void random_options(struct spp_search_options *options, const struct spp_framework **frameworks) {
  static const char *const models[] = {"qwen2.5-0.5b", "qwen2.5-7b",       "llama3.1-8b", "qwen3-30b-a3b",
                                       "qwen2.5-32b",  "deepseek-v2-lite", "gemma2-2b"};
  static const char *const gpus[] = {"h100-80gb", "a100-40gb", "rtx-4090"};
  static const int64_t counts[] = {1, 2, 3, 4, 6, 8, 16}, seqs[] = {512, 4096, 16384, 32768, 131072, 1000};
  static const int64_t batches[] = {0, 0, 8, 12, 32, 7};
  static const int64_t objectives[] = {SPP_OBJECTIVE_THROUGHPUT, SPP_OBJECTIVE_MEMORY, SPP_OBJECTIVE_COST};
  static const double min_fits[] = {0, 0.8, 0.95};
  static const int64_t methods[] = {SPP_UNSET, SPP_METHOD_FULL, SPP_METHOD_LORA, SPP_METHOD_QLORA};
  jobs_options(models[next_random() % 7], gpus[next_random() % 3], pick(counts, 7), pick(seqs, 6), options);
  options->spec.global_batch = pick(batches, 6);
  options->spec.method = (int)pick(methods, 4);
  options->spec.packing = next_random() % 2 ? 1 : SPP_UNSET;
  options->objective = (enum spp_objective)pick(objectives, 3);
  options->min_fit = min_fits[next_random() % 3];
  options->top = 1 + (int)(next_random() % 8);
  frameworks[0] = jobs_frameworks[next_random() % (uint64_t)jobs_framework_count];
  options->frameworks = frameworks;
  options->framework_count = 1;
}

static void pruning_changes_no_answer_on_five_hundred_random_jobs(void **state) {
  (void)state;
  random_state = 20240601;
  for (int i = 0; i < 500; i++) {
    struct spp_search_options options;
    struct spp_search_result pruned, judge;
    struct spp_diag diag = {.status = SPP_OK};
    const struct spp_framework *framework;
    random_options(&options, &framework);
    expect_note("job %d: %s %s x%d seq %d batch %d", i, framework->name, options.spec.arch->name,
                (int)options.spec.gpus, (int)options.spec.seq_tokens, (int)options.spec.global_batch);
    enum spp_status status = spp_search(&options, &pruned, &diag);
    options.exhaustive = true;
    expect_i64(spp_search(&options, &judge, &diag), status);
    if (status != SPP_OK && status != SPP_ERR_NOFIT) continue;
    expect_same_result(&pruned, &judge);
    expect_i64(judge.evaluated, judge.layouts);
    options.exhaustive = false;
    if (options.objective == SPP_OBJECTIVE_THROUGHPUT) expect_sound_result(&options, &pruned);
    spp_search_free(&pruned);
    spp_search_free(&judge);
  }
  expect_note("%s", "");
}

static void no_layout_that_fits_is_faster_than_the_answer_on_two_hundred_random_jobs(void **state) {
  int answered = 0;
  (void)state;
  random_state = 20261130;
  for (int i = 0; i < 400 && answered < 200; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    const struct spp_framework *framework;
    random_options(&options, &framework);
    options.objective = SPP_OBJECTIVE_THROUGHPUT;
    expect_note("job %d: %s %s x%d seq %d batch %d", i, framework->name, options.spec.arch->name,
                (int)options.spec.gpus, (int)options.spec.seq_tokens, (int)options.spec.global_batch);
    enum spp_status status = spp_search(&options, &result, &diag);
    if (status == SPP_OK) expect_none_faster(&options, &result.plans[0]);
    answered += status == SPP_OK;
    if (status == SPP_OK || status == SPP_ERR_NOFIT) spp_search_free(&result);
  }
  expect_i64(answered, 200);
  expect_note("%s", "");
}

static void four_threads_find_what_one_finds(void **state) {
  struct spp_search_options options;
  struct spp_search_result one, four;
  struct spp_diag diag;
  (void)state;
  jobs_options("llama3.1-70b", "h100-80gb", 32, 16384, &options);
  expect_status(spp_search(&options, &one, &diag), SPP_OK, &diag);
  options.threads = 4;
  expect_status(spp_search(&options, &four, &diag), SPP_OK, &diag);
  expect_i64(four.threads, 4);
  expect_same_result(&one, &four);
  expect_i64(one.evaluated, four.evaluated);
  expect_i64(one.rejection_count, four.rejection_count);
  for (int i = 0; i < one.rejection_count; i++) {
    expect_str(one.rejections[i].reason, four.rejections[i].reason);
    expect_i64(one.rejections[i].count, four.rejections[i].count);
    expect_str(one.rejections[i].example, four.rejections[i].example);
  }
  spp_search_free(&one);
  spp_search_free(&four);
}

static void the_order_of_frameworks_only_breaks_ties(void **state) {
  struct spp_search_options options;
  struct spp_search_result forward, backward;
  const struct spp_framework *reversed[SPP_MAX_FRAMEWORKS];
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
  expect_status(spp_search(&options, &forward, &diag), SPP_OK, &diag);
  for (int i = 0; i < options.framework_count; i++)
    reversed[i] = options.frameworks[options.framework_count - 1 - i];
  options.frameworks = reversed;
  expect_status(spp_search(&options, &backward, &diag), SPP_OK, &diag);
  expect_rel(forward.plans[0].prediction.time.step_s, backward.plans[0].prediction.time.step_s, 1e-3);
  expect_i64(forward.layouts, backward.layouts);
  for (int i = 0; i < options.framework_count; i++) {
    int a = forward.best_of_framework[i], b = backward.best_of_framework[options.framework_count - 1 - i];
    expect_i64(a < 0, b < 0);
    if (a >= 0) expect_same_plan(&forward.plans[a], &backward.plans[b]);
  }
  spp_search_free(&forward);
  spp_search_free(&backward);
}

static void more_memory_never_makes_the_best_slower(void **state) {
  static const int64_t budgets_gib[] = {30, 40, 50, 60, 70, 79};
  double before = 0;
  (void)state;
  for (size_t i = 0; i < sizeof budgets_gib / sizeof *budgets_gib; i++) {
    struct spp_search_options options;
    struct spp_search_result result;
    struct spp_diag diag;
    jobs_options("qwen2.5-7b", "h100-80gb", 8, 32768, &options);
    options.spec.max_memory_bytes = budgets_gib[i] << 30;
    enum spp_status status = spp_search(&options, &result, &diag);
    expect_note("%d GiB", (int)budgets_gib[i]);
    expect_true(status == SPP_OK || (status == SPP_ERR_NOFIT && before == 0));
    if (status == SPP_OK) {
      double speed = result.plans[0].prediction.time.tokens_per_s;
      expect_true(speed >= before * (1 - 1e-3));
      before = speed;
    }
    spp_search_free(&result);
  }
  expect_note("%s", "");
  expect_true(before > 0);
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
      cmocka_unit_test(pruning_changes_no_answer_on_five_hundred_random_jobs),
      cmocka_unit_test(no_layout_that_fits_is_faster_than_the_answer_on_two_hundred_random_jobs),
      cmocka_unit_test(four_threads_find_what_one_finds),
      cmocka_unit_test(the_order_of_frameworks_only_breaks_ties),
      cmocka_unit_test(more_memory_never_makes_the_best_slower),
      cmocka_unit_test(fixed_fields_are_kept),
      cmocka_unit_test(degrees_that_make_no_layout_are_a_usage_error),
      cmocka_unit_test(a_refusal_by_all_is_not_one_framework_s_alone),
      cmocka_unit_test(an_illegal_degree_names_the_rule),
      cmocka_unit_test(a_hopeless_job_says_how_far_off_it_is),
      cmocka_unit_test(a_rejection_counts_and_shows_one_example),
      cmocka_unit_test(a_stopped_search_says_so_and_leaves_the_result_alone),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
