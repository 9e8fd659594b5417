/* Logits and loss: bytes of each path's largest moment. */
#include "model/loss.h"
#include "tests/model/jobs.h"

/* Qwen2.5-7B: V 152,064, h 3,584; 4,096 tokens on the rank. */
enum { N = 4096, V = 152064, H = 3584 };

static int64_t loss_bytes(enum spp_loss_path path, int64_t chunk_tokens, bool head_trained, bool reference) {
  const struct spp_loss_view view = {.path = path,
                                     .tokens = N,
                                     .vocab = V,
                                     .hidden = H,
                                     .chunk_tokens = chunk_tokens,
                                     .act = SPP_DTYPE_BF16,
                                     .head_trained = head_trained,
                                     .keeps_reference = reference};
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  spp_loss_add(&view, &sum);
  return sum.moment[SPP_PART_LOGITS][SPP_MOMENT_LOSS];
}

static void each_path_has_its_bytes_per_logit(void **state) {
  (void)state;
  const int64_t nv = (int64_t)N * V;
  expect_i64(2 * nv, 1245708288);
  expect_i64(loss_bytes(SPP_LOSS_HF_FULL, 0, true, false), 12 * nv); /* measured: resident-set peak 12.00 */
  expect_i64(loss_bytes(SPP_LOSS_HF_FULL, 0, true, true), 14 * nv);  /* measured 14.00 */
  expect_i64(loss_bytes(SPP_LOSS_SP_16BIT, 0, true, false), 3737124864); /* 6 NV, measured 6.01 */
  expect_i64(loss_bytes(SPP_LOSS_VOCAB_PARALLEL, 0, true, false), 6 * nv);
  /* tests/oracle/compiled_loss.py: the softmax, its copy, and the 16-bit gradient */
  expect_i64(loss_bytes(SPP_LOSS_VOCAB_COMPILED, 0, true, false), 10 * nv);
  expect_i64(loss_bytes(SPP_LOSS_FP32_LOGITS, 0, true, false), 4 * nv);
}

/* Largest moment of `path`: bytes of a part at a moment. */
static int64_t part_bytes(enum spp_loss_path path, bool reference, enum spp_part part,
                          enum spp_moment moment) {
  const struct spp_loss_view view = {.path = path,
                                     .tokens = N,
                                     .vocab = V,
                                     .hidden = H,
                                     .act = SPP_DTYPE_BF16,
                                     .head_trained = true,
                                     .head_temporary = true,
                                     .keeps_reference = reference};
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  spp_loss_add(&view, &sum);
  return sum.moment[part][moment];
}

static void older_paths_hold_shifted_copies_and_shards_hold_every_step(void **state) {
  (void)state;
  const int64_t nv = (int64_t)N * V;
  const enum spp_moment loss = SPP_MOMENT_LOSS;
  /* log-softmax, its gradient and the logits' in fp32; the caller's fp32 logits on top */
  expect_i64(part_bytes(SPP_LOSS_HF_SHIFTED, false, SPP_PART_LOGITS, loss), 12 * nv);
  expect_i64(part_bytes(SPP_LOSS_HF_SHIFTED, true, SPP_PART_LOGITS, loss), 16 * nv);
  /* (grad_input + exp(x)) * grad_output: x, grad_input, the sum and the product */
  expect_i64(part_bytes(SPP_LOSS_PARALLEL, false, SPP_PART_LOGITS, loss), 16 * nv);
  /* freed 16-bit logits serve no fp32 tensor; one sequence is shifted by a view */
  expect_i64(part_bytes(SPP_LOSS_HF_FULL, false, SPP_PART_ALLOCATOR, loss), 2 * nv);
  expect_i64(part_bytes(SPP_LOSS_HF_FULL, true, SPP_PART_ALLOCATOR, loss), 0);
  expect_i64(part_bytes(SPP_LOSS_HF_SHIFTED, false, SPP_PART_ALLOCATOR, loss), 2 * nv);
}

/* flash-attn 1.0.9 SoftmaxCrossEntropyLossFn: the 16-bit logits are saved, inplace_backward is off. */
static void a_fused_kernel_saves_the_logits_and_makes_their_gradient_in_16_bit(void **state) {
  (void)state;
  const int64_t nv = (int64_t)N * V;
  const enum spp_moment loss = SPP_MOMENT_LOSS, mlp = SPP_MOMENT_BACKWARD_MLP;
  expect_i64(part_bytes(SPP_LOSS_XENTROPY, false, SPP_PART_LOGITS, loss), 4 * nv);
  expect_i64(part_bytes(SPP_LOSS_XENTROPY, true, SPP_PART_LOGITS, loss), 4 * nv);
  expect_i64(part_bytes(SPP_LOSS_XENTROPY, false, SPP_PART_LOGITS, mlp), 0);
  expect_i64(part_bytes(SPP_LOSS_XENTROPY, true, SPP_PART_LOGITS, mlp), 2 * nv);
}

/* mosaicml 0.16.4 _eval_train_metrics: cross entropy under autocast copies the 16-bit logits to fp32 and
 * takes their log-softmax; 2 + 4 + 4 bytes a logit when layers keep nothing any more. */
static void metrics_of_the_logits_need_fp32_copies_after_backward(void **state) {
  (void)state;
  const int64_t nv = (int64_t)N * V;
  struct spp_loss_view view = {.path = SPP_LOSS_XENTROPY,
                               .tokens = N,
                               .vocab = V,
                               .hidden = H,
                               .act = SPP_DTYPE_BF16,
                               .head_trained = true,
                               .keeps_reference = true,
                               .keeps_in_step = true};
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  spp_loss_add(&view, &sum);
  expect_i64(sum.moment[SPP_PART_LOGITS][SPP_MOMENT_STEP], 2 * nv);
  view.metrics = true;
  memset(&sum, 0, sizeof sum);
  spp_loss_add(&view, &sum);
  expect_i64(sum.moment[SPP_PART_LOGITS][SPP_MOMENT_STEP], 10 * nv);
  expect_i64(sum.moment[SPP_PART_LOGITS][SPP_MOMENT_LOSS], 4 * nv);
}

static void the_head_makes_its_gradient_beside_that_of_the_logits(void **state) {
  (void)state;
  /* 16-bit gradient of the logits, of the hidden states, and a new one of the head */
  expect_i64(part_bytes(SPP_LOSS_IN_PLACE, false, SPP_PART_LOGITS, SPP_MOMENT_BACKWARD_HEAD),
             2 * (int64_t)N * V + 2 * (int64_t)N * H + 2 * (int64_t)V * H);
  expect_i64(part_bytes(SPP_LOSS_FUSED_LINEAR, false, SPP_PART_LOGITS, SPP_MOMENT_BACKWARD_HEAD), 0);
}

static void chunked_cross_entropy_keeps_the_logits_and_one_chunk(void **state) {
  (void)state;
  /* 2NV + 6*2048*V: CELOSS_PARALLEL_SIZE 2048 */
  expect_i64(loss_bytes(SPP_LOSS_SP_CHUNKED, 2048, true, false), 3114270720);
}

static void liger_rounds_its_chunk_to_a_power_of_two(void **state) {
  (void)state;
  /* inc = ceil(152064/3584) = 43, ceil(4096/43) = 96 -> 128 */
  expect_i64(spp_liger_chunk_tokens(N, V, H), 128);
  expect_i64(spp_ceil_div(N, 128), 32);
  expect_i64(spp_liger_chunk_tokens(1, V, H), 1);
  expect_i64(spp_liger_chunk_tokens(100, 64, 128), 128); /* one chunk: the next power of two */
}

static void fused_linear_cross_entropy_makes_the_head_gradient_in_forward(void **state) {
  (void)state;
  const int64_t hidden = 2 * (int64_t)N * H, chunk = 38928384; /* 2*128*V */
  expect_i64(loss_bytes(SPP_LOSS_FUSED_LINEAR, 128, false, false), hidden + chunk);
  expect_i64(loss_bytes(SPP_LOSS_FUSED_LINEAR, 128, true, false), hidden + chunk + 4359979008); /* 8VH */
}

static void tiles_divide_the_plain_path(void **state) {
  (void)state;
  expect_i64(loss_bytes(SPP_LOSS_TILED, N / 8, true, false), 2 * (int64_t)N * H + 12 * (int64_t)(N / 8) * V);
  expect_i64(loss_bytes(SPP_LOSS_CHUNKED, 256, true, false), 2 * (int64_t)N * H + 12 * (int64_t)256 * V);
  /* torchtitan ChunkedLossWrapper: 16-bit copies, fp32 sum and 16-bit gradient of the hidden states, logits
   * of a chunk and their gradient; LitGPT: log-softmax of all, two fp32 temporaries of a chunk */
  expect_i64(loss_bytes(SPP_LOSS_CHUNKED_HEAD, 256, true, false), 8 * (int64_t)N * H + 4 * (int64_t)256 * V);
  /* not compiled: log-softmax and two gradients in fp32 beside the logits that the loop still names */
  expect_i64(loss_bytes(SPP_LOSS_CHUNKED_HEAD_EAGER, 256, true, false),
             8 * (int64_t)N * H + 14 * (int64_t)256 * V);
  expect_i64(loss_bytes(SPP_LOSS_CHUNKS_KEPT, 256, true, false), 4 * (int64_t)N * V + 8 * (int64_t)256 * V);
  /* torchtune: 16-bit logits or gradients of all chunks, the head's sum and its next product; else the first
   * chunk's gradient */
  expect_i64(loss_bytes(SPP_LOSS_CHUNKS_16BIT, 256, true, false), 2 * (int64_t)N * V + 4 * (int64_t)V * H);
  expect_i64(loss_bytes(SPP_LOSS_CHUNKS_16BIT, 256, false, false), 2 * (int64_t)N * V + 2 * (int64_t)256 * V);
}

static void a_long_sequence_without_sharding_needs_sixty_gigabytes_of_logits(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 32768);
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, 59793997824); /* 12*32768*152064 */
  f.layout.ulysses = 4;
  f.layout.ring = 2;
  f.layout.sp_kind = SPP_SP_HYBRID;
  f.job.loss_path_forced = SPP_LOSS_SP_16BIT;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, 3737124864);
  jobs_close(&f);
}

static void some_frameworks_gather_the_sequence_for_its_log_probabilities(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 32768);
  f.layout.ring = 8;
  f.layout.sp_kind = SPP_SP_RING;
  jobs_predict(&f);
  int64_t sharded = f.memory.logits_bytes;
  f.framework.loss_gathers_sequence = true;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, 8 * sharded);
  jobs_close(&f);
}

static void preference_pairs_double_the_logits(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 8192);
  jobs_predict(&f);
  int64_t one = f.memory.logits_bytes;
  f.job.mode = SPP_MODE_DPO;
  jobs_predict(&f);
  expect_i64(f.memory.logits_bytes, 2 * one);
  jobs_close(&f);
}

static void only_the_last_stage_has_logits(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 32768);
  f.layout.pp = 4;
  f.layout.grad_accum = 8;
  jobs_predict(&f);
  expect_i64(f.memory.worst_stage == 3, f.memory.logits_bytes > 0);
  jobs_close(&f);
}

/* Log-probabilities of pairs. In 16 bit: logits and their log-softmax. In fp32: what the loop holds, two
 * padded gradients, and one answer's log-softmax and gradient; behind the policy the reference's forward may
 * need more: the policy's log-softmax, 16-bit logits, its fp32 ones and those of the last step, and the cache
 * it makes. */
static void pairs_need_most_in_their_backward_or_in_the_references_forward(void **state) {
  (void)state;
  const int64_t nv = (int64_t)N * V, rows = (int64_t)(N / 4) * V;
  struct spp_loss_view view = {.path = SPP_LOSS_PAIRS_16BIT,
                               .tokens = N,
                               .vocab = V,
                               .hidden = H,
                               .row_tokens = N / 4,
                               .act = SPP_DTYPE_BF16,
                               .keeps_in_step = true};
  const struct {
    enum spp_loss_path path;
    bool compares;
    int64_t cache_bytes, logits_bytes, cached_bytes, step_bytes;
  } cases[] = {{SPP_LOSS_PAIRS_16BIT, false, 0, 4 * nv, 0, 0},
               {SPP_LOSS_PAIRS_16BIT, true, 0, 4 * nv, 0, 0},
               {SPP_LOSS_PAIRS_AUTOCAST, false, 0, 8 * nv + 8 * rows, 0, 0},
               {SPP_LOSS_PAIRS_FP32, false, 0, 16 * nv, 0, 4 * nv},
               {SPP_LOSS_PAIRS_FP32, true, 0, 20 * nv, 0, 8 * nv},
               {SPP_LOSS_PAIRS_FP32, true, 3 * nv, 18 * nv, 3 * nv, 8 * nv}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_memory_sum sum;
    memset(&sum, 0, sizeof sum);
    view.path = cases[i].path;
    view.compares = cases[i].compares;
    view.reference_cache_bytes = cases[i].cache_bytes;
    spp_loss_add(&view, &sum);
    expect_note("case %zu", i);
    expect_i64(sum.moment[SPP_PART_LOGITS][SPP_MOMENT_LOSS], cases[i].logits_bytes);
    expect_i64(sum.moment[SPP_PART_KV_CACHE][SPP_MOMENT_LOSS], cases[i].cached_bytes);
    expect_i64(sum.moment[SPP_PART_LOGITS][SPP_MOMENT_STEP], cases[i].step_bytes);
  }
  expect_note("%s", "");
}

/* Llama-2-7B, pairs of 2,048 tokens: 32 layers of 8,192 keys and values in 16 bit, for both answers. */
static void a_reference_left_to_itself_makes_a_cache_of_every_layer(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama2-7b"), 2048);
  f.job.mode = SPP_MODE_DPO;
  f.job.loss = SPP_LOSS_CHOICE_FULL;
  f.job.loss_path_forced = SPP_UNSET;
  f.framework.loss_path_pairs = SPP_LOSS_PAIRS_FP32;
  f.framework.keeps_logits_in_step = f.framework.keeps_logits_reference = true;
  f.framework.reference_caches = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "KV cache of the reference", SPP_MOMENT_LOSS),
             INT64_C(2) * 2048 * 32 * 8192 * 2);
  f.job.no_reference = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "KV cache of the reference", SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_ledger(&f, "reference model", SPP_MOMENT_LOSS), 0);
  jobs_close(&f);
}

/* ms-swift packs both answers of a pair into one row. */
static void packed_rows_hold_both_answers(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-7b"), 8192);
  f.job.mode = SPP_MODE_DPO;
  jobs_predict(&f);
  int64_t two = f.memory.logits_bytes;
  f.job.packing = true;
  jobs_predict(&f);
  expect_i64(2 * f.memory.logits_bytes, two);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_path_has_its_bytes_per_logit),
      cmocka_unit_test(a_fused_kernel_saves_the_logits_and_makes_their_gradient_in_16_bit),
      cmocka_unit_test(metrics_of_the_logits_need_fp32_copies_after_backward),
      cmocka_unit_test(older_paths_hold_shifted_copies_and_shards_hold_every_step),
      cmocka_unit_test(the_head_makes_its_gradient_beside_that_of_the_logits),
      cmocka_unit_test(chunked_cross_entropy_keeps_the_logits_and_one_chunk),
      cmocka_unit_test(liger_rounds_its_chunk_to_a_power_of_two),
      cmocka_unit_test(fused_linear_cross_entropy_makes_the_head_gradient_in_forward),
      cmocka_unit_test(tiles_divide_the_plain_path),
      cmocka_unit_test(a_long_sequence_without_sharding_needs_sixty_gigabytes_of_logits),
      cmocka_unit_test(some_frameworks_gather_the_sequence_for_its_log_probabilities),
      cmocka_unit_test(preference_pairs_double_the_logits),
      cmocka_unit_test(pairs_need_most_in_their_backward_or_in_the_references_forward),
      cmocka_unit_test(a_reference_left_to_itself_makes_a_cache_of_every_layer),
      cmocka_unit_test(packed_rows_hold_both_answers),
      cmocka_unit_test(only_the_last_stage_has_logits),
  };
  int failed = cmocka_run_group_tests_name("loss", tests, NULL, NULL);
  return failed != 0;
}
