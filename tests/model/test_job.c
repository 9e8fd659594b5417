#include "model/calib.h"
#include "tests/model/framework_case.h"

static void a_spec_with_nothing_gives_the_fields_defaults(void **state) {
  (void)state;
  struct spp_job job = case_job(case_heads(28, 4), "ms-swift", 8, 4096);
  expect_i64(job.global_batch, 8);
  expect_i64(job.dtype, SPP_DTYPE_BF16);
  expect_i64(job.method, SPP_METHOD_FULL);
  expect_i64(job.optimizer, SPP_OPTIMIZER_ADAMW);
  expect_i64(job.mode, SPP_MODE_TRAIN);
  expect_i64(job.attention, SPP_ATTN_FA2);
  expect_i64(job.kernels, SPP_KERNELS_EAGER);
  expect_i64(job.ring_impl, SPP_RING_SWIFT);
  expect_i64(job.loss, SPP_LOSS_CHOICE_FULL);
  expect_i64(job.loss_path_forced, SPP_UNSET);
  expect_i64(job.lora_rank, 0);
  expect_i64(job.lora_targets, 0);
  expect_i64(job.overlap, SPP_UNSET);
  expect_false(job.packing);
}

static void lora_takes_the_frameworks_dropout(void **state) {
  static const struct {
    const char *framework;
    double dropout;
  } rows[] = {{"ms-swift", 0.05}, {"deepspeed", 0}, {"llama-factory", 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job_spec spec;
    struct spp_job job;
    struct spp_diag diag;
    spp_job_spec_clear(&spec);
    spec.arch = case_heads(28, 4);
    spec.gpus = 8, spec.seq_tokens = 4096, spec.method = SPP_METHOD_LORA;
    expect_status(spp_job_resolve(&spec, case_framework(rows[i].framework), &job, &diag), SPP_OK, &diag);
    expect_i64(job.lora_rank, 8);
    expect_true(job.lora_targets == SPP_LORA_ALL_LINEAR);
    expect_rel(job.lora_dropout, rows[i].dropout, 0);
    spec.lora_dropout = 0.5, spec.lora_rank = 64;
    expect_status(spp_job_resolve(&spec, case_framework(rows[i].framework), &job, &diag), SPP_OK, &diag);
    expect_rel(job.lora_dropout, 0.5, 0);
    expect_i64(job.lora_rank, 64);
  }
}

static void kernels_and_dtype_follow_the_gpu(void **state) {
  /* compute capability, has bf16; framework; expected dtype and attention */
  static const struct {
    int cc;
    bool bf16;
    const char *framework;
    enum spp_dtype dtype;
    enum spp_attention_impl attention;
  } rows[] = {{90, true, "ms-swift", SPP_DTYPE_BF16, SPP_ATTN_FA2},
              {70, false, "ms-swift", SPP_DTYPE_FP16, SPP_ATTN_SDPA},
              {80, true, "megatron-lm", SPP_DTYPE_BF16, SPP_ATTN_TE},
              {0, true, "deepspeed", SPP_DTYPE_BF16, SPP_ATTN_FA2},
              {90, true, "spplan", SPP_DTYPE_BF16, SPP_ATTN_FA2},
              {80, false, "spplan", SPP_DTYPE_FP32, SPP_ATTN_FA2}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_gpu gpu = {.compute_capability = rows[i].cc, .display = "a GPU", .usd_per_hour = 2.5};
    struct spp_job_spec spec;
    struct spp_job job;
    struct spp_diag diag;
    gpu.flops_per_s[SPP_DTYPE_FP32] = 1e13;
    gpu.flops_per_s[SPP_DTYPE_FP16] = 1e14;
    gpu.flops_per_s[SPP_DTYPE_BF16] = rows[i].bf16 ? 1e14 : 0;
    spp_job_spec_clear(&spec);
    spec.arch = case_heads(28, 4);
    spec.gpu = &gpu, spec.gpus = 8, spec.seq_tokens = 4096;
    expect_note("row %d", (int)i);
    expect_status(spp_job_resolve(&spec, case_framework(rows[i].framework), &job, &diag), SPP_OK, &diag);
    expect_i64(job.dtype, rows[i].dtype);
    expect_i64(job.attention, rows[i].attention);
    expect_rel(job.usd_per_gpu_hour, 2.5, 0);
    spec.dtype = SPP_DTYPE_BF16;
    if (rows[i].bf16) continue;
    expect_status(spp_job_resolve(&spec, case_framework(rows[i].framework), &job, &diag), SPP_ERR_USAGE,
                  &diag);
    expect_has(diag.what, "no bf16 units");
  }
  expect_note("%s", "");
}

/* A product at an unknown rate takes an unknown time, not none: MFU 0 % at the best speed of all. */
static void a_format_without_a_known_rate_is_refused(void **state) {
  struct spp_gpu gpu = {.compute_capability = 80, .display = "a GPU"};
  struct spp_job_spec spec;
  struct spp_job job;
  struct spp_diag diag;
  (void)state;
  gpu.flops_per_s[SPP_DTYPE_FP16] = 1e14;
  spp_job_spec_clear(&spec);
  spec.arch = case_heads(28, 4);
  spec.gpu = &gpu, spec.gpus = 8, spec.seq_tokens = 4096;
  spec.dtype = SPP_DTYPE_FP32;
  expect_status(spp_job_resolve(&spec, case_framework("ms-swift"), &job, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "no fp32 units of known speed");
  spec.dtype = SPP_DTYPE_FP16;
  expect_status(spp_job_resolve(&spec, case_framework("ms-swift"), &job, &diag), SPP_OK, &diag);
}

static void what_a_framework_cannot_do_is_refused_with_what_it_can(void **state) {
  static const struct {
    const char *framework;
    int mode, method, dtype, attention, loss;
    const char *what, *hint;
  } rows[] = {
      {"megatron-lm", SPP_UNSET, SPP_METHOD_QLORA, SPP_UNSET, SPP_UNSET, SPP_UNSET,
       "does not do method qlora", "full"},
      {"torchtitan", SPP_MODE_DPO, SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_UNSET, "mode dpo", "train"},
      {"vllm", SPP_MODE_TRAIN, SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_UNSET, "mode train", "infer"},
      {"ms-swift", SPP_UNSET, SPP_UNSET, SPP_DTYPE_FP8, SPP_UNSET, SPP_UNSET, "dtype fp8", "bf16"},
      {"ms-swift", SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_ATTN_TE, SPP_UNSET, "attention te", "fa2"},
      {"torchtitan", SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_UNSET, SPP_LOSS_CHOICE_FUSED, "loss fused",
       "chunked"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_job_spec spec;
    struct spp_job job = {.gpus = -7};
    struct spp_diag diag;
    spp_job_spec_clear(&spec);
    spec.arch = case_heads(28, 4);
    spec.gpus = 8, spec.seq_tokens = 4096;
    spec.mode = rows[i].mode, spec.method = rows[i].method, spec.dtype = rows[i].dtype;
    spec.attention = rows[i].attention, spec.loss = rows[i].loss;
    expect_status(spp_job_resolve(&spec, case_framework(rows[i].framework), &job, &diag), SPP_ERR_USAGE,
                  &diag);
    expect_has(diag.what, rows[i].what);
    expect_has(diag.hint, rows[i].hint);
    expect_i64(job.gpus, -7); /* written on success only */
  }
}

/* Lengths 10, 21, 40, 7 into sequences of 32, in order: {10, 21} = 31, {40 cut to 32}, {7}: three sequences.
 */
static void documents_are_packed_in_their_order(void **state) {
  static const int64_t lengths[] = {10, 21, 40, 7};
  struct spp_documents d;
  (void)state;
  spp_documents_measure(lengths, 4, 32, &d);
  expect_i64(d.sequences, 3);
  expect_i64(d.tokens, 10 + 21 + 32 + 7);
  expect_i64(d.longest_tokens, 32);
  expect_i64(d.fullest_tokens, 32);
  expect_rel(d.sum_squares, 100 + 441 + 1024 + 49, 0);
  expect_i64(spp_documents_padded(&d, 1), 70);
  expect_i64(spp_documents_padded(&d, 16), 16 + 32 + 32 + 16);
  expect_i64(spp_documents_padded(&d, 12), 12 + 24 + 36 + 12); /* not a power of two */
  d.lengths = NULL;                                            /* lengths unknown: four of 18 */
  expect_i64(spp_documents_padded(&d, 12), 4 * 24);
}

/* Terms in squares, of Pythagorean triples: 0.06 and 0.08 are 0.1, 0.05 and 0.12 are 0.13, and 0.13 and 0.84
 * are 0.85. */
static void widths_grow_where_too_few_runs_stand_behind_them(void **state) {
  (void)state;
  const struct spp_calib calib = {
      .sigma = 0.12, .spread = {.least_runs = 5, .memory = 0.08, .memory_open = 0.8, .time_open = 0.84}};
  static const struct {
    int64_t runs;
    bool open;
    double memory, time;
  } rows[] = {
      {5, false, 0.06, 0.13}, {5, true, 0.06, 0.13}, {4, false, 0.1, 0.13}, {0, true, 0.8022468, 0.85}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_framework f = {
        .memory_sigma = 0.06, .time_sigma = 0.05, .memory_runs = rows[i].runs, .time_runs = rows[i].runs};
    struct spp_job job = {.framework = &f, .calib = &calib, .settings_open = rows[i].open};
    spp_job_widths(&job);
    expect_rel(job.memory_sigma, rows[i].memory, 1e-6);
    expect_rel(job.time_sigma, rows[i].time, 1e-6);
    job.calib = NULL;
    spp_job_widths(&job);
    expect_rel(job.memory_sigma, 0.06, 0);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(a_spec_with_nothing_gives_the_fields_defaults),
      TEST(lora_takes_the_frameworks_dropout),
      TEST(kernels_and_dtype_follow_the_gpu),
      TEST(a_format_without_a_known_rate_is_refused),
      TEST(what_a_framework_cannot_do_is_refused_with_what_it_can),
      TEST(documents_are_packed_in_their_order),
      TEST(widths_grow_where_too_few_runs_stand_behind_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
