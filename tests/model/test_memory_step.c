/* What the optimizer step makes, and blocks that the step cannot have. Llama-3.2-1B: 1,235,814,400
 * parameters, of them 262,668,288 of the tied embedding; a layer 2*2048^2 + 2*2048*512 + 3*2048*8192 + 2*2048
 * = 60,821,504. */
#include "tests/model/jobs.h"

static const int64_t all = 1235814400, embedding = 262668288, layer = 60821504, segments = 4194304;

static void open_one_billion(struct jobs_fixture *f) {
  jobs_open(f);
  jobs_train(f, jobs_load(f, "llama3.2-1b"), 32);
  f->framework.sharding = SPP_SHARDING_MEGATRON;
}

static void joined(struct jobs_fixture *f, int lists) {
  f->framework.states[0].step_extra_bytes = 6;
  f->framework.optimizer_fused = false;
  f->framework.optimizer_foreach = true;
  f->framework.optimizer_lists = lists;
}

static void lists_of_the_optimizer_follow_the_joined_gradients(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  joined(&f, 2);
  jobs_predict(&f);
  /* at the update: weights 2, master and moments 12, fp32 gradients 4, two lists 8; the 16-bit gradients are
   * gone */
  expect_i64(f.memory.peak_moment, SPP_MOMENT_STEP);
  expect_i64(f.memory.peak_bytes, 26 * all);
  joined(&f, 1);
  jobs_predict(&f);
  /* joining: weights 2, 12, gradients 2 and their copy 2, fp32 4; one list is no more than the freed 4 */
  expect_i64(f.memory.peak_bytes, 22 * all);
  jobs_close(&f);
}

static void lists_lie_beside_gradients_that_are_not_joined(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  joined(&f, 2);
  f.framework.states[0].step_extra_bytes = 4;
  jobs_predict(&f);
  expect_i64(f.memory.peak_bytes, 28 * all); /* 2 + 2 + 12 + fp32 gradients 4 + 8 */
  f.framework.optimizer_lists = 0;
  jobs_predict(&f);
  expect_i64(f.memory.peak_bytes, 24 * all);
  jobs_close(&f);
}

static void joined_tensors_find_no_freed_block(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  joined(&f, 2);
  f.job.plain_segments = true;
  jobs_predict(&f);
  /* weights 2, gradients 2, 12 stay as they lay; new: joined 2, fp32 4, two lists 4 each */
  int64_t pass = f.memory.phase_bytes[SPP_PHASE_BACKWARD];
  if (f.memory.phase_bytes[SPP_PHASE_LOSS] > pass) pass = f.memory.phase_bytes[SPP_PHASE_LOSS];
  expect_true(pass >= 16 * all);
  expect_near((double)f.memory.reserved_bytes, (double)(pass + 14 * all), (double)segments);
  expect_i64(f.memory.peak_bytes, 26 * all); /* none of it is asked for at once */
  jobs_close(&f);
}

static void copies_for_the_norm_leave_blocks_that_fit_no_joined_tensor(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  joined(&f, 2);
  f.job.plain_segments = f.framework.norm_copies_grads = true;
  f.framework.reduce_bucket_elements = 500000000;
  jobs_predict(&f);
  /* beside 16 bytes: two full buckets in fp32 and the 16-bit copy of the last; then 14 bytes of joined
   * tensors */
  const int64_t last = all - 1000000000, norm = INT64_C(4) * 1000000000 + 2 * last;
  expect_near((double)f.memory.reserved_bytes, (double)(30 * all + norm), (double)segments);
  f.framework.reduce_bucket_elements = 2 * all; /* one bucket: its gradients in fp32, nothing on its way */
  jobs_predict(&f);
  expect_near((double)f.memory.reserved_bytes, (double)(34 * all), (double)segments);
  expect_i64(f.memory.peak_bytes, 26 * all);
  jobs_close(&f);
}

static void free_blocks_are_not_held_beyond_the_card(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  joined(&f, 2);
  f.job.plain_segments = true;
  jobs_predict(&f);
  int64_t needed = f.memory.device_bytes - f.memory.reclaimable_bytes;
  f.gpu.capacity_bytes = needed + 64 * segments;
  jobs_predict(&f);
  expect_true(f.memory.fits);
  expect_near((double)f.memory.device_bytes, (double)f.gpu.capacity_bytes, (double)segments);
  expect_i64(f.memory.device_bytes - f.memory.reclaimable_bytes, needed);
  f.gpu.capacity_bytes = needed - 64 * segments;
  jobs_predict(&f);
  expect_false(f.memory.fits);
  expect_i64(f.memory.device_bytes, needed);
  jobs_close(&f);
}

static void full_buckets_are_joined_copies(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.joins_buckets = true;
  f.framework.bucket_copies = 2;
  f.framework.reduce_bucket_elements = 536870912;
  jobs_predict(&f);
  /* two of 1 GiB on their way at once, one rank or many */
  expect_i64(jobs_ledger(&f, "joined gradients of a bucket", SPP_MOMENT_BACKWARD_MLP), INT64_C(2) << 30);
  f.framework.reduce_bucket_elements = INT64_C(1000000000);
  jobs_predict(&f); /* the second has what is left */
  expect_i64(jobs_ledger(&f, "joined gradients of a bucket", SPP_MOMENT_BACKWARD_MLP), 2 * all);
  jobs_close(&f);
}

static void the_step_cannot_have_the_blocks_of_gathered_weights(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.sharding_weights = SPP_SHARDING_FSDP;
  f.layout.zero = 3;
  f.layout.dp = 2;
  jobs_predict(&f);
  int64_t step = f.memory.phase_bytes[SPP_PHASE_STEP];
  /* units are gathered, though the other stages' scheme is another */
  expect_i64(jobs_ledger(&f, "gathered layer weights", SPP_MOMENT_BACKWARD_MLP), 2 * layer);
  f.framework.gathers_on_own_stream = true;
  jobs_predict(&f);
  /* embedding (and head), two layers, in 16 bit; a half of the embedding's gradient */
  expect_near((double)(f.memory.phase_bytes[SPP_PHASE_STEP] - step),
              (double)(2 * (embedding + 2 * layer) + embedding), (double)segments);
  f.framework.gathers_on_own_stream = false;
  f.layout.dp = 5; /* 262,668,288 is no multiple: a padded copy of the whole beside a fifth */
  jobs_predict(&f);
  step = f.memory.phase_bytes[SPP_PHASE_STEP];
  f.framework.gathers_on_own_stream = true;
  jobs_predict(&f);
  expect_near((double)(f.memory.phase_bytes[SPP_PHASE_STEP] - step),
              (double)(2 * (embedding + 2 * layer) + 2 * (embedding + embedding / 5)), (double)segments);
  jobs_close(&f);
}

static void logits_wait_for_the_next_forward_where_the_loop_holds_them(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.job.loss_path_forced = SPP_LOSS_HF_SHIFTED;
  f.framework.keeps_logits_reference = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "logits, fp32", SPP_MOMENT_STEP), 0);
  f.framework.keeps_logits_in_step = true;
  jobs_predict(&f);
  const int64_t logits = INT64_C(32) * 128256 * 4;
  expect_i64(jobs_ledger(&f, "logits, fp32", SPP_MOMENT_BACKWARD_MLP), logits);
  expect_i64(jobs_ledger(&f, "logits, fp32", SPP_MOMENT_STEP), logits);
  expect_i64(jobs_ledger(&f, "logits, fp32", SPP_MOMENT_FORWARD), logits);
  jobs_close(&f);
}

static void gradients_stay_where_the_offloaded_optimizer_fetches_them(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.layout.zero = 2;
  f.layout.dp = 2;
  f.layout.offload = SPP_OFFLOAD_OPTIMIZER;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_GRADIENTS], 0);
  f.framework.offload_keeps_grads = true;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_GRADIENTS], all); /* 2 bytes of a half */
  expect_i64(f.memory.resident[SPP_PART_MASTER] + f.memory.resident[SPP_PART_OPTIMIZER], 0);
  jobs_close(&f);
}

static void gradients_take_the_place_of_weights_without_accumulation(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.framework.grads_reuse_weights = true;
  f.layout.zero = 3;
  f.layout.dp = 2;
  f.layout.grad_accum = 1;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_GRADIENTS], 0);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], all);
  f.layout.grad_accum = 2;
  jobs_predict(&f);
  expect_i64(f.memory.resident[SPP_PART_GRADIENTS], all);
  jobs_close(&f);
}

/* tied: the head's gradient is complete, and stepped with, when the embedding's backward is through */
static void gradients_are_freed_as_the_step_goes_along(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.framework.steps_in_backward = true;
  f.framework.states[0].grad_bytes = 2;
  f.layout.grad_accum = 1;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gradients", SPP_MOMENT_BACKWARD_MLP), 2 * layer);
  expect_i64(jobs_ledger(&f, "gradient of the head", SPP_MOMENT_BACKWARD_MLP), 2 * embedding);
  expect_i64(jobs_ledger(&f, "gradients", SPP_MOMENT_STEP), 0);
  f.framework.steps_in_backward = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gradients", SPP_MOMENT_STEP), 2 * all);
  jobs_close(&f);
}

static void a_whole_model_is_cut_where_it_lies(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_one_billion(&f);
  f.framework.loads_whole_model = true;
  f.layout.zero = 3;
  f.layout.dp = 5;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_WEIGHTS, SPP_MOMENT_LOAD), 2 * all);
  expect_i64(jobs_part(&f, SPP_PART_WEIGHTS, SPP_MOMENT_STEP), 2 * all / 5);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_of_the_optimizer_follow_the_joined_gradients),
      cmocka_unit_test(lists_lie_beside_gradients_that_are_not_joined),
      cmocka_unit_test(joined_tensors_find_no_freed_block),
      cmocka_unit_test(copies_for_the_norm_leave_blocks_that_fit_no_joined_tensor),
      cmocka_unit_test(free_blocks_are_not_held_beyond_the_card),
      cmocka_unit_test(full_buckets_are_joined_copies),
      cmocka_unit_test(the_step_cannot_have_the_blocks_of_gathered_weights),
      cmocka_unit_test(logits_wait_for_the_next_forward_where_the_loop_holds_them),
      cmocka_unit_test(gradients_stay_where_the_offloaded_optimizer_fetches_them),
      cmocka_unit_test(a_whole_model_is_cut_where_it_lies),
      cmocka_unit_test(gradients_take_the_place_of_weights_without_accumulation),
      cmocka_unit_test(gradients_are_freed_as_the_step_goes_along),
  };
  int failed = cmocka_run_group_tests_name("memory of the step", tests, NULL, NULL);
  return failed != 0;
}
