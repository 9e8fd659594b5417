/* Each silent trap of docs/planner.md on a job that has it, and its absence on one that does not. */
#include "planner/advise.h"
#include "tests/planner/jobs.h"

struct setting {
  const char *model, *framework, *gpu;
  int64_t gpus, seq_tokens;
  int method, dtype, mode, packing;
  int64_t sp, tp;
  int zero, recompute, offload;
};

static void plan_of(const struct setting *s, struct spp_plan *plan) {
  struct spp_job_spec spec;
  struct spp_request request;
  struct spp_diag diag;
  jobs_spec(s->model, s->gpu, s->gpus, s->seq_tokens, &spec);
  spec.method = s->method;
  spec.dtype = s->dtype;
  spec.mode = s->mode;
  spec.packing = s->packing;
  jobs_need(spp_job_resolve(&spec, jobs_framework(s->framework), &plan->job, &diag), &diag);
  spp_request_clear(&request);
  if (s->sp > 0) request.sp = s->sp;
  if (s->tp > 0) request.tp = s->tp;
  request.zero = s->zero;
  request.recompute = s->recompute;
  request.offload = s->offload;
  jobs_need(spp_layout_complete(&plan->job, &request, &plan->layout, &diag), &diag);
  spp_predict(&plan->job, &plan->layout, NULL, &plan->prediction);
}

static const struct spp_advice *find(const struct spp_advice *advice, int count, const char *code) {
  for (int i = 0; i < count; i++)
    if (strcmp(advice[i].code, code) == 0) return &advice[i];
  return NULL;
}

/* -1 = unset in every int field */
#define PLAIN                                                                                                \
  .method = SPP_UNSET, .dtype = SPP_UNSET, .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET,  \
  .offload = SPP_UNSET

static void traps_are_named_with_their_number(void **state) {
  static const struct {
    const char *code, *words;
    struct setting setting;
  } cases[] = {
      {"dp-does-not-split-sequence",
       "131,072",
       {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 131072, PLAIN, .zero = 3}},
      {"sp-divides-dp",
       "SP 8",
       {"llama3.1-8b", "deepspeed", "h100-80gb", 8, 131072, PLAIN, .sp = 8, .zero = 3}},
      {"sp-not-needed",
       "without it",
       {"llama3.1-8b", "deepspeed", "h100-80gb", 8, 2048, PLAIN, .sp = 8, .zero = 3}},
      {"lora-activations",
       "does not shrink",
       {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 8192, .method = SPP_METHOD_LORA, .dtype = SPP_UNSET,
        .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET, .offload = SPP_UNSET, .zero = 2}},
      {"zero-2-frozen",
       "stage 3",
       {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 8192, .method = SPP_METHOD_LORA, .dtype = SPP_UNSET,
        .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET, .offload = SPP_UNSET, .zero = 2}},
      {"beyond-positions",
       "262,144 tokens",
       {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 262144, PLAIN, .zero = 3}},
      /* 8.19e9 parameters x (2 + 2 + 4 + 8) B = 122 GiB, as in the thread: whatever the length */
      {"zero-shards-nothing", "on this GPU", {"qwen3-8b", "ms-swift", "h20-96gb", 1, 3000, PLAIN, .zero = 3}},
      {"host-memory",
       "killed",
       {"qwen2.5-72b", "ms-swift", "rtx-4090", 1, 2048, .method = SPP_UNSET, .dtype = SPP_UNSET,
        .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET,
        .offload = SPP_OFFLOAD_OPTIMIZER_PARAMS, .zero = 3}},
      {"ring-repeats-forward",
       "forward",
       {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 65536, .method = SPP_UNSET, .dtype = SPP_UNSET,
        .mode = SPP_UNSET, .packing = 1, .recompute = SPP_UNSET, .offload = SPP_UNSET, .sp = 8, .zero = 3}},
      /* gcd(2 KV heads, 4) = 2; the 12 heads would go over 4 with each KV head repeated */
      {"own-split",
       "Ulysses 2 x ring 2, the only split of ms-swift",
       {"qwen2.5-1.5b", "ms-swift", "h100-80gb", 8, 32768, .method = SPP_UNSET, .dtype = SPP_UNSET,
        .mode = SPP_UNSET, .packing = 1, .recompute = SPP_UNSET, .offload = SPP_UNSET, .sp = 4, .zero = 3}},
      /* a GB200 node has 4 GPUs, its NVLink domain 72: Ulysses stops at 4 of 8 though 8 KV heads allow 8 */
      {"own-split",
       "ask for that",
       {"llama3.1-8b", "ringmaster", "gb200-186gb", 16, 131072, PLAIN, .sp = 8, .zero = 3}},
      {"dpo-doubles",
       "65,536 tokens",
       {"qwen2.5-7b", "llama-factory", "h100-80gb", 8, 32768, .method = SPP_UNSET, .dtype = SPP_UNSET,
        .mode = SPP_MODE_DPO, .packing = SPP_UNSET, .recompute = SPP_UNSET, .offload = SPP_UNSET, .zero = 3}},
      /* Transformer Engine keeps FP8 weights and their transposes beside those of 16 bits; torchao's float8
         casts what it multiplies and keeps nothing */
      {"fp8-both-copies",
       "beside its copies: weights +",
       {"llama3.1-8b", "megatron-lm", "h100-80gb", 8, 8192, .method = SPP_UNSET, .dtype = SPP_DTYPE_FP8,
        .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET, .offload = SPP_UNSET, .zero = 1}},
      {"fp8-both-copies",
       "FP8 does not shrink the weights",
       {"llama3.1-8b", "torchtitan", "h100-80gb", 8, 8192, .method = SPP_UNSET, .dtype = SPP_DTYPE_FP8,
        .mode = SPP_UNSET, .packing = SPP_UNSET, .recompute = SPP_UNSET, .offload = SPP_UNSET, .zero = 3}},
      {"no-fp32-master", "ZeRO-0", {"qwen2.5-3b", "ms-swift", "h100-80gb", 8, 4096, PLAIN, .zero = 0}},
      {"uneven-nodes",
       "9 GPUs do not spread evenly over 2 nodes of 8",
       {"qwen2.5-3b", "ms-swift", "h100-80gb", 9, 4096, PLAIN, .zero = 3}},
      {"loss-dominates", "%", {"qwen2.5-7b", "llama-factory", "h100-80gb", 8, 32768, PLAIN, .zero = 3}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct spp_plan plan;
    struct spp_advice advice[SPP_MAX_ADVICE];
    expect_note("%s", cases[i].code);
    plan_of(&cases[i].setting, &plan);
    int count = spp_advise_warnings(&plan, advice, SPP_MAX_ADVICE);
    const struct spp_advice *found = find(advice, count, cases[i].code);
    expect_true(found != NULL);
    expect_has(found->text, cases[i].words);
    expect_true(strlen(found->text) <= 140);
  }
  expect_note("%s", "");
}

/* FPDT_FFN has two matrices: 131,072 / 8 tokens of 14,336 columns in 16 bit are 448 MiB. */
static void a_gated_mlp_under_fpdt_is_said_to_run_whole(void **state) {
  static const struct setting setting = {"llama3.1-8b", "megatron-deepspeed", "h100-80gb", 8, 131072, PLAIN,
                                         .zero = 3};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  expect_true(find(advice, spp_advise_warnings(&plan, advice, SPP_MAX_ADVICE), "fpdt-gated-mlp") == NULL);
  plan.prediction.geometry.pieces = 2;
  plan.prediction.geometry.tokens = 131072 / 8;
  const struct spp_advice *found =
      find(advice, spp_advise_warnings(&plan, advice, SPP_MAX_ADVICE), "fpdt-gated-mlp");
  expect_true(found != NULL);
  expect_has(found->text, "448 MiB");
  expect_true(strlen(found->text) <= 140);
}

static void a_short_plain_job_has_no_warnings(void **state) {
  static const struct setting setting = {"llama3.1-8b", "megatron-lm", "h100-80gb", 8,
                                         2048,          PLAIN,         .zero = 1};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  int count = spp_advise_warnings(&plan, advice, SPP_MAX_ADVICE);
  static const char *const absent[] = {
      "sp-divides-dp",    "sp-not-needed",       "lora-activations",
      "beyond-positions", "zero-shards-nothing", "host-memory",
      "padding",          "own-split",           "dpo-doubles",
      "no-fp32-master",   "uneven-nodes",        "dp-does-not-split-sequence", /* true, but there is room */
  };
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    expect_note("%s", absent[i]);
    expect_true(find(advice, count, absent[i]) == NULL);
  }
  expect_note("%s", "");
}

/* Inference has no backward pass: nothing to reduce, whatever --overlap would do to a training job. */
static void inference_is_not_told_to_overlap_gradients(void **state) {
  static const struct setting setting = {"llama3.1-8b",
                                         "vllm",
                                         "h100-80gb",
                                         4,
                                         32768,
                                         .method = SPP_UNSET,
                                         .dtype = SPP_UNSET,
                                         .mode = SPP_MODE_INFER,
                                         .packing = SPP_UNSET,
                                         .recompute = SPP_UNSET,
                                         .offload = SPP_UNSET,
                                         .tp = 4,
                                         .zero = SPP_UNSET};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  int count = spp_advise_next(&plan, advice, SPP_MAX_ADVICE);
  for (int i = 0; i < count; i++)
    expect_true(strstr(advice[i].text, "gradient") == NULL);
}

static void a_job_that_does_not_fit_is_told_what_would(void **state) {
  static const struct setting setting = {"qwen2.5-7b", "ms-swift", "h100-80gb", 8, 65536, PLAIN, .zero = 3};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  expect_false(plan.prediction.memory.fits);
  int count = spp_advise_next(&plan, advice, SPP_MAX_ADVICE);
  expect_true(count > 0);
  expect_has(advice[0].text, "fits");
}

/* No single change is enough, and the largest step towards it is still worth a line. */
static void a_job_that_nothing_saves_is_told_what_helps_most(void **state) {
  static const struct setting setting = {"qwen2.5-14b", "deepspeed", "h100-80gb", 8,
                                         131072,        PLAIN,       .zero = 2};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  expect_false(plan.prediction.memory.fits);
  int count = spp_advise_next(&plan, advice, SPP_MAX_ADVICE);
  expect_true(count > 0);
  expect_has(advice[0].text, "chunked loss: -");
  expect_has(advice[0].text, "GiB over");
}

static void alternatives_lose_for_a_reason_with_a_number(void **state) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag diag;
  (void)state;
  jobs_options("qwen2.5-7b", "h100-80gb", 8, 65536, &options);
  expect_status(spp_search(&options, &result, &diag), SPP_OK, &diag);
  for (int i = 0; i < result.count; i++) {
    struct spp_advice advice[SPP_MAX_ADVICE];
    int count = spp_advise_why_not(&result.plans[i], advice, SPP_MAX_ADVICE);
    for (int j = 0; j < count; j++) {
      expect_note("%s: %s", result.plans[i].job.framework->name, advice[j].text);
      expect_true(strchr(advice[j].text, ':') != NULL);
      expect_true(strpbrk(advice[j].text, "0123456789") != NULL || strstr(advice[j].text, "same speed"));
    }
    count = spp_advise_next(&result.plans[i], advice, 3);
    expect_true(count <= 3);
  }
  expect_note("%s", "");
  spp_search_free(&result);
}

static void what_nobody_said_is_listed(void **state) {
  static const struct setting setting = {"llama3.1-8b", "ms-swift", "h100-80gb", 8, 4096, PLAIN, .zero = 3};
  struct spp_plan plan;
  struct spp_job_spec spec;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&setting, &plan);
  spp_job_spec_clear(&spec);
  int count = spp_advise_assumed(&spec, &plan, advice, SPP_MAX_ADVICE);
  expect_true(find(advice, count, "global-batch") && find(advice, count, "dtype") &&
              find(advice, count, "attention"));
  expect_has(find(advice, count, "global-batch")->text, "8");
  spec.global_batch = 8;
  spec.dtype = SPP_DTYPE_BF16;
  count = spp_advise_assumed(&spec, &plan, advice, SPP_MAX_ADVICE);
  expect_true(!find(advice, count, "global-batch") && !find(advice, count, "dtype"));
}

static void expect_said(const struct spp_advice *advice, int count, const char *code, const char *words) {
  const struct spp_advice *said = find(advice, count, code);
  expect_true(said != NULL);
  if (said) expect_has(said->text, words);
}

static void expect_said_last(const struct spp_advice *advice, int count, const char *code,
                             const char *words) {
  const struct spp_advice *said = NULL;
  for (int i = 0; i < count; i++)
    if (strcmp(advice[i].code, code) == 0) said = &advice[i];
  expect_true(said != NULL);
  if (said) expect_has(said->text, words);
}

/* Runs that stand behind a width are the framework file's own; a T4 borrows its rates; a step of PyTorch FSDP
 * over PCIe waits. */
static void a_wide_interval_says_what_was_not_measured(void **state) {
  static const struct setting few = {"llama3.1-8b", "ms-swift", "h100-80gb", 8, 4096, PLAIN, .zero = 3},
                              none = {"qwen2.5-0.5b", "fsdp2", "t4-16gb", 2, 512, PLAIN, .zero = 3},
                              many = {"llama3.1-8b", "torchtitan", "h100-80gb", 8, 8192, PLAIN, .zero = 3};
  struct spp_plan plan;
  struct spp_advice advice[SPP_MAX_ADVICE];
  (void)state;
  plan_of(&few, &plan);
  int count = spp_advise_intervals(&plan, advice, SPP_MAX_ADVICE);
  expect_said(advice, count, "interval-framework", "3 measured runs of ");
  /* configs/frameworks/ms-swift.json: time_sigma 0.13, 4 runs; configs/calib/fabric.json adds to memory alone
   */
  expect_said_last(advice, count, "interval-framework",
                   "time interval: one sigma of 13 %, assumed for ms-swift (4 measured runs)");
  plan.job.settings_open = true; /* time_open 0.4 */
  count = spp_advise_intervals(&plan, advice, SPP_MAX_ADVICE);
  expect_said_last(advice, count, "interval-framework",
                   "time interval: 4 measured runs of ms-swift, too few: one sigma of 40 % is added");
  expect_true(!find(advice, count, "interval-gpu"));
  plan_of(&none, &plan);
  count = spp_advise_intervals(&plan, advice, SPP_MAX_ADVICE);
  expect_said(advice, count, "interval-framework", "no measured run");
  expect_said(advice, count, "interval-gpu", "T4");
  expect_said(advice, count, "interval-waits", " % of a step waits");
  plan_of(&many, &plan);
  expect_i64(spp_advise_intervals(&plan, advice, SPP_MAX_ADVICE), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(traps_are_named_with_their_number),
      cmocka_unit_test(a_wide_interval_says_what_was_not_measured),
      cmocka_unit_test(a_gated_mlp_under_fpdt_is_said_to_run_whole),
      cmocka_unit_test(a_short_plain_job_has_no_warnings),
      cmocka_unit_test(inference_is_not_told_to_overlap_gradients),
      cmocka_unit_test(a_job_that_does_not_fit_is_told_what_would),
      cmocka_unit_test(a_job_that_nothing_saves_is_told_what_helps_most),
      cmocka_unit_test(alternatives_lose_for_a_reason_with_a_number),
      cmocka_unit_test(what_nobody_said_is_listed),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
