/* Every allocation quoted in the threads of docs/cases.md, by the size the user saw: the tensor it was must
 * come first. GiB figures are those torch printed; the tensors are what the threads (or their maintainers)
 * found.
 */
#include "planner/alloc.h"
#include "planner/alloc_internal.h"

#include <math.h>
#include <stdlib.h>

#include "tests/planner/jobs.h"

struct quote {
  const char *thread;
  const char *model;
  int64_t vocab; /* 0: the model's own; else the one in the thread, whose model is not shipped */
  const char *framework;
  int64_t gpus, seq_tokens, tp, sp, zero;
  int mode;
  double size;
  int64_t unit;
  const char *tensor; /* words the first match's name holds */
  const char *why;    /* words its reason holds, or "" */
};

#define GIB (INT64_C(1) << 30)
#define MIB (INT64_C(1) << 20)

static const struct quote quotes[] = {
    /* chosen + rejected: 2 x 32,768 x 152,064 x 4 B */
    {"hiyouga/LlamaFactory#7938", "qwen2.5-7b", 0, "llama-factory", 64, 32768, 1, 1, 3, SPP_MODE_DPO, 37.1,
     GIB, "logits", ""},
    {"hiyouga/LlamaFactory#4642", "qwen2-7b", 0, "llama-factory", 1, 32768, 1, 1, 3, SPP_UNSET, 18.6, GIB,
     "logits", ""},
    /* 32,768 x 152,064 x 2 B: the logits before the upcast */
    {"hiyouga/LlamaFactory#4642, bf16", "qwen2-7b", 0, "llama-factory", 1, 32768, 1, 1, 3, SPP_UNSET, 9.3,
     GIB, "logits, 16-bit", "the tokens of one rank"},
    /* 8,192 x 128,256 x 4 B = 3.91 GiB, quoted as 4; 32 heads of 8,192 x 8,192 scores in bf16 are 4.00
     * exactly, but flash attention keeps none */
    {"modelscope/ms-swift#2432", "llama3-8b", 0, "ms-swift", 4, 8192, 1, 1, 3, SPP_UNSET, 4, GIB,
     "logits, fp32", "the tokens of one rank"},
    /* 13.9e9 x 4 / 4: one fp32 state shard of four */
    {"hiyouga/LlamaFactory#1158", "baichuan2-13b", 0, "llama-factory", 4, 1536, 1, 1, 2, SPP_UNSET, 12.94,
     GIB, "fp32", ""},
    {"hiyouga/LlamaFactory#1158, world unknown", "baichuan2-13b", 0, "llama-factory", 1, 1536, 1, 1, 2,
     SPP_UNSET, 12.94, GIB, "fp32 state shard", "/ 4 ranks"},
    /* 4,096 x 151,936 x 4 B: the shifted copy of the logits; the thread does not say the length */
    {"hiyouga/LlamaFactory#2744", "qwen2.5-1.5b", 0, "llama-factory", 5, 2048, 1, 1, 3, SPP_UNSET, 2.32, GIB,
     "logits", "4,096 tokens x 151,936 x 4 B"},
    {"modelscope/ms-swift#6966", "qwen3-30b-a3b", 0, "ms-swift", 64, 32768, 1, 1, 3, SPP_UNSET, 49, GIB,
     "logits, fp32", "86,572 tokens x 151,936 x 4 B"},
    {"modelscope/ms-swift#6966, expected", "qwen3-30b-a3b", 0, "ms-swift", 64, 32768, 1, 1, 3, SPP_UNSET,
     18.5, GIB, "logits, fp32", "the tokens of one rank"},
    /* dense mask of the data loader: 131,072^2 x 4 B */
    {"NVIDIA/Megatron-LM#1025", "gpt2-xl", 0, "megatron-lm", 4, 131072, 1, 4, 1, SPP_UNSET, 64, GIB,
     "attention mask", ""},
    {"NVIDIA/Megatron-LM#1025, half", "gpt2-xl", 0, "megatron-lm", 4, 65536, 1, 4, 1, SPP_UNSET, 16, GIB,
     "attention mask", ""},
    /* 9,216 x 248,320 / 2 x 2 B */
    {"verl-project/verl#7826", "qwen3-30b-a3b", 248320, "megatron-lm", 8, 9216, 2, 1, 1, SPP_UNSET, 2.13, GIB,
     "logits", ""},
    /* 205k and 104k tokens where 9,216 were meant, vocabulary 152,064 / 2 */
    {"THUDM/slime#1951", "qwen2.5-7b", 0, "megatron-lm", 8, 9216, 2, 1, 1, SPP_UNSET, 58.15, GIB,
     "logits, fp32", "tokens x 76,032 x 4 B"},
    {"THUDM/slime#1951, second", "qwen2.5-7b", 0, "megatron-lm", 8, 9216, 2, 1, 1, SPP_UNSET, 29.39, GIB,
     "logits, fp32", "tokens x 76,032 x 4 B"},
    {"THUDM/slime#1951, no job", "qwen2.5-7b", 0, "ms-swift", 1, 32768, 1, 1, 3, SPP_UNSET, 58.15, GIB,
     "logits, fp32", "tokens x 152,064 x 4 B"},
    {"verl-project/verl#5840", "qwen3-30b-a3b", 248320, "megatron-lm", 16, 63488, 2, 1, 1, SPP_UNSET, 23.93,
     GIB, "logits, fp32", "tokens x 124,160 x 4 B"},
    /* 14,000 x 262,208 x 4 B */
    {"unslothai/unsloth#2366", "gemma3-12b", 0, "llama-factory", 1, 14000, 1, 1, 0, SPP_UNSET, 13.7, GIB,
     "logits", ""},
    /* 48 x 2 x 4 x 128 x 2 B x 262,144 */
    {"vllm-project/vllm#34076", "qwen3-coder-30b-a3b", 0, "vllm", 1, 262144, 1, 1, 0, SPP_MODE_INFER, 24.0,
     GIB, "KV cache", ""},
    /* 230,528 and 221,000 x 48 x 2 x 4 x 128 x 1 B */
    {"vllm-project/vllm#25350", "qwen3-30b-a3b", 0, "vllm", 1, 230528, 1, 1, 0, SPP_MODE_INFER, 10.55, GIB,
     "KV cache", "x 1 B"},
    {"vllm-project/vllm#25350, asked", "qwen3-30b-a3b", 0, "vllm", 1, 221000, 1, 1, 0, SPP_MODE_INFER, 10.12,
     GIB, "KV cache", "x 1 B"},
    /* 138 blocks of 340 MiB = 34,816 x 5,120 x 2 B: the whole token budget, not an eighth of it */
    {"verl-project/verl#7476, blocks", "qwen3-32b", 0, "ms-swift", 8, 32768, 1, 8, 3, SPP_UNSET, 340, MIB,
     "layer input", "34,816 tokens x 5,120 x 2 B"},
    {"verl-project/verl#7476, expected", "qwen3-32b", 0, "ms-swift", 8, 32768, 1, 8, 3, SPP_UNSET, 40, MIB,
     "layer input", ""},
    /* 32,768 x 5,120 x 2 B where sequence parallelism 8 should have left an eighth: 138 such blocks */
    {"verl-project/verl#7476", "qwen2.5-32b", 0, "ms-swift", 8, 32768, 1, 8, 3, SPP_UNSET, 320, MIB,
     "layer input", "did not divide"},
    /* 36 x 131,072 x 4,096 x 2 B */
    {"huggingface/transformers#48444", "qwen3-8b", 0, "ms-swift", 1, 131072, 1, 1, 3, SPP_UNSET, 36, GIB,
     "layer input", ""},
    /* 65,536 x 128,256 x 4 B */
    {"hiyouga/LlamaFactory#3638", "llama3-8b", 0, "llama-factory", 1, 65536, 1, 1, 0, SPP_UNSET, 31.3, GIB,
     "logits", ""},
    /* Qwen3-1.7B: what a chunked loss no longer makes */
    {"huggingface/trl#5575", "qwen3-1.7b", 0, "fsdp2", 1, 16384, 1, 1, 3, SPP_UNSET, 9.27, GIB, "logits", ""},
};

static void job_of(const struct quote *quote, struct spp_arch *arch, struct spp_job *job,
                   struct spp_layout *layout) {
  struct spp_job_spec spec;
  struct spp_request request;
  struct spp_diag diag;
  jobs_spec(quote->model, "h100-80gb", quote->gpus, quote->seq_tokens, &spec);
  *arch = *spec.arch;
  for (int i = 0; quote->vocab > 0 && i < arch->outer_weight_count; i++)
    if (arch->outer_weights[i].rows == arch->vocab) arch->outer_weights[i].rows = quote->vocab;
  if (quote->vocab > 0) arch->vocab = quote->vocab;
  spec.arch = arch;
  spec.mode = quote->mode;
  jobs_need(spp_job_resolve(&spec, jobs_framework(quote->framework), job, &diag), &diag);
  spp_request_clear(&request);
  request.tp = quote->tp;
  request.sp = quote->sp;
  request.zero = (int)quote->zero;
  jobs_need(spp_layout_complete(job, &request, layout, &diag), &diag);
}

static void the_quoted_tensor_comes_first(void **state) {
  struct spp_arch *arch = malloc(sizeof *arch);
  (void)state;
  assert_non_null(arch);
  for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
    const struct quote *quote = &quotes[i];
    struct spp_alloc_match matches[8];
    struct spp_job job;
    struct spp_layout layout;
    expect_note("%s", quote->thread);
    job_of(quote, arch, &job, &layout);
    int64_t bytes = (int64_t)(quote->size * (double)quote->unit + 0.5);
    int count = spp_alloc_explain(&job, &layout, bytes, matches, 8);
    expect_true(count > 0);
    expect_note("%s: first is %s, %s, ratio %.4f", quote->thread, matches[0].tensor, matches[0].why,
                matches[0].ratio);
    expect_has(matches[0].tensor, quote->tensor);
    expect_has(matches[0].why, quote->why);
    expect_rel(matches[0].ratio, 1, fmax(0.02, spp_alloc_tolerance(bytes) / (double)bytes));
    int64_t product = spp_dtype_bytes(matches[0].dtype);
    for (int d = 0; d < matches[0].dims; d++)
      product *= matches[0].shape[d];
    expect_i64(product, matches[0].bytes);
  }
  expect_note("%s", "");
  free(arch);
}

/* huggingface/transformers#48444, the toy: 8 layers of 8,192 x 1,024 x 2 B. */
static void the_checkpoints_of_a_small_model_are_found_beside_their_lookalikes(void **state) {
  static const struct quote quote = {"toy", "qwen3-0.6b", 0,   "ms-swift", 1,  8192, 1, 1,
                                     3,     SPP_UNSET,    128, MIB,        "", ""};
  struct spp_alloc_match matches[2];
  struct spp_job job;
  struct spp_layout layout;
  struct spp_arch *arch = malloc(sizeof *arch);
  (void)state;
  assert_non_null(arch);
  job_of(&quote, arch, &job, &layout);
  arch->layers = arch->kinds[0].count = 8;
  expect_i64(spp_alloc_explain(&job, &layout, 128 * MIB, matches, 2), 2);
  expect_str(matches[0].tensor, "layer inputs, all layers");
  expect_i64(matches[0].bytes, INT64_C(8) * 8192 * 1024 * 2);
  free(arch);
}

/* NVIDIA/nccl#2363: 536,870,912 bytes for a group of one rank on B300, and on no part before it. */
static void a_communicator_of_blackwell_takes_half_a_gibibyte(void **state) {
  struct spp_alloc_match matches[2];
  struct spp_job_spec spec;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_request request;
  struct spp_diag diag;
  static const struct {
    const char *gpu;
    bool first;
  } rows[] = {{"b300", true}, {"h100-80gb", false}};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    jobs_spec("qwen2.5-7b", rows[i].gpu, 1, 4096, &spec);
    jobs_need(spp_job_resolve(&spec, jobs_framework("ms-swift"), &job, &diag), &diag);
    spp_request_clear(&request);
    jobs_need(spp_layout_complete(&job, &request, &layout, &diag), &diag);
    expect_true(spp_alloc_explain(&job, &layout, 536870912, matches, 2) > 0);
    expect_note("%s: %s", rows[i].gpu, matches[0].tensor);
    expect_true((strcmp(matches[0].tensor, "NCCL communicator") == 0) == rows[i].first);
  }
}

/* "4.00 GiB" excludes the 3.91 GiB that "4 GiB" may be. */
static void decimals_that_were_written_count(void **state) {
  struct spp_alloc_match matches[1];
  struct spp_job job;
  struct spp_layout layout;
  struct spp_arch *arch = malloc(sizeof *arch);
  const struct quote *quote = NULL;
  (void)state;
  assert_non_null(arch);
  for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++)
    if (strcmp(quotes[i].thread, "modelscope/ms-swift#2432") == 0) quote = &quotes[i];
  assert_non_null(quote);
  job_of(quote, arch, &job, &layout);
  expect_i64(spp_alloc_explain_within(&job, &layout, 4 * GIB, 0.5 * (double)GIB, matches, 1), 1);
  expect_has(matches[0].tensor, "logits");
  expect_i64(spp_alloc_explain_within(&job, &layout, 4 * GIB, 0.005 * (double)GIB, matches, 1), 1);
  expect_near(matches[0].ratio, 1, 0.002);
  free(arch);
}

static void a_quoted_size_is_as_exact_as_its_last_digit(void **state) {
  (void)state;
  expect_near(spp_alloc_tolerance(49 * GIB), 0.5 * (double)GIB, 1);
  expect_near(spp_alloc_tolerance((int64_t)(58.15 * (double)GIB + 0.5)), 0.005 * (double)GIB, 1);
  expect_near(spp_alloc_tolerance((int64_t)(37.1 * (double)GIB + 0.5)), 0.05 * (double)GIB, 1);
  expect_near(spp_alloc_tolerance(320 * MIB), 0.5 * (double)MIB, 1);
  expect_near(spp_alloc_tolerance(62431395999), 256, 0); /* a byte count: the allocator rounds to 512 */
}

static void matches_never_exceed_the_room_and_junk_finds_none(void **state) {
  struct spp_alloc_match matches[3];
  struct spp_job job;
  struct spp_layout layout;
  struct spp_arch *arch = malloc(sizeof *arch);
  (void)state;
  assert_non_null(arch);
  job_of(&quotes[0], arch, &job, &layout);
  expect_i64(spp_alloc_explain(&job, &layout, 5 * GIB, matches, 3), 3);
  expect_i64(spp_alloc_explain(&job, &layout, 0, matches, 3), 0);
  expect_i64(spp_alloc_explain(&job, &layout, -7, matches, 3), 0);
  expect_true(spp_alloc_explain(&job, &layout, INT64_MAX, matches, 3) >= 0);
  free(arch);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_quoted_tensor_comes_first),
      cmocka_unit_test(the_checkpoints_of_a_small_model_are_found_beside_their_lookalikes),
      cmocka_unit_test(a_communicator_of_blackwell_takes_half_a_gibibyte),
      cmocka_unit_test(decimals_that_were_written_count),
      cmocka_unit_test(a_quoted_size_is_as_exact_as_its_last_digit),
      cmocka_unit_test(matches_never_exceed_the_room_and_junk_finds_none),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
