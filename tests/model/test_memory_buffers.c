/* What comes and goes beside what layers keep: gradients on their way, blocks of rings, exchanges and
 * gathers. */
#include "tests/model/tiny.h"

/* 8 GPUs, Llama 3 8B: embedding and head 525,336,576 elements each, a layer 218,112,000, gathered in 16 bit.
 */
static void gathers_leave_blocks_on_their_stream(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3-8b"), 4096);
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  f.layout.zero = 3;
  f.layout.dp = 8;
  jobs_predict(&f);
  expect_i64(f.memory.peak_moment, SPP_MOMENT_LOSS);
  expect_i64(jobs_ledger(&f, "gathered root unit", SPP_MOMENT_LOSS), INT64_C(4) * 525336576);
  int64_t before = f.memory.reserved_bytes, needed = before - f.memory.reclaimable_bytes;
  f.framework.gathers_into_buffers = true;
  jobs_predict(&f);
  expect_rel((double)(f.memory.reserved_bytes - before), 4.0 * 525336576 + 2.0 * 218112000, 0.002);
  expect_i64(f.memory.reserved_bytes - f.memory.reclaimable_bytes, needed); /* given back when asked for */
  f.framework.outer_units_apart = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gathered head", SPP_MOMENT_LOSS), INT64_C(2) * 525336576);
  expect_i64(jobs_ledger(&f, "gathered root unit", SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_ledger(&f, "prefetched weights", SPP_MOMENT_LOSS), 0); /* the last layer is resharded too */
  jobs_close(&f);
}

/* torchtitan's ChunkedLossWrapper turns gradient synchronisation off until the last chunk: the head's
 * gradient is whole, in fp32, unless nothing is sharded. */
static void a_loss_in_chunks_sums_the_gradient_of_the_head(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.framework.loss_shards = 8;
  f.job.loss_path_forced = SPP_LOSS_CHUNKED_HEAD;
  f.layout.zero = 3;
  f.layout.dp = 2;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gradient of the head over chunks", SPP_MOMENT_LOSS), 4 * 256 * H);
  f.layout.dp = 1;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gradient of the head over chunks", SPP_MOMENT_LOSS), 0);
  jobs_close(&f);
}

static void fused_accumulation_leaves_one_placeholder_a_shape(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.framework.placeholder_grads = true;
  f.framework.workspace_bytes = 1000;
  jobs_predict(&f);
  /* q with k and v, o, gate with up, down; both layers share them */
  expect_i64(jobs_ledger(&f, "placeholder gradients", SPP_MOMENT_LOSS),
             2 * ((DQ + 2 * DK) * H + H * DQ + 2 * I * H + H * I));
  expect_i64(jobs_ledger(&f, "matrix product workspaces", SPP_MOMENT_STEP), 1000);
  expect_i64(jobs_ledger(&f, "matrix product workspaces", SPP_MOMENT_LOAD), 0);
  f.job.method = SPP_METHOD_LORA;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "placeholder gradients", SPP_MOMENT_LOSS), 0);
  jobs_close(&f);
}

static void a_tiled_mlp_keeps_its_input_and_one_tile(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.job.seq_tokens = 10 * H; /* ten tiles of H tokens */
  f.framework.tiles_mlp = true;
  jobs_predict(&f);
  const int64_t whole = f.memory.checkpoint_bytes[0];
  expect_i64(whole, 10 * H * (16 * H + 4 * DQ + 4 * DK + 4 * NQ + 8));
  expect_i64(kept(&f, SPP_MOMENT_LOSS), 2 * whole);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_MLP), 2 * whole + 8 * H * I);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, SPP_MOMENT_BACKWARD_MLP),
             4 * H * I + 2 * 2 * 10 * H * H); /* residual gradient and that of the tiled MLP, whole */
  jobs_close(&f);
}

static void backward_transients_follow_the_kernels(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  jobs_predict(&f);
  const enum spp_moment mlp = SPP_MOMENT_BACKWARD_MLP, norm = SPP_MOMENT_BACKWARD_NORM,
                        attention = SPP_MOMENT_BACKWARD_ATTENTION;
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, mlp), 4 * T * I + 2 * T * H); /* measured 4.01 Ti */
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, norm),
             16 * T * H + 2 * T * H); /* measured 16.01 Th; the residual's */
  /* FlashAttention-2, grouped: 12dq + 4dk and row sums over 128 padded rows */
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, attention), T * (12 * DQ + 4 * DK) + 4 * 128 * NQ + 2 * T * H);
  f.job.attention = SPP_ATTN_FA3; /* dq in fp32, dk and dv in fp32 but not expanded, two row vectors */
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, attention),
             T * (2 * DQ + 2 * DQ + 4 * DK + 4 * DQ + 8 * DK) + 8 * 128 * NQ + 2 * T * H);
  f.job.kernels = SPP_KERNELS_FUSED;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, mlp), 2 * T * I + 2 * T * H); /* Liger writes in place */
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, mlp), 4 * T * I + 2 * T * H); /* 6Ti less fc2's input */
  jobs_close(&f);
}

static void the_running_layer_frees_as_backward_goes(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  jobs_predict(&f);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_NORM), 2 * TINY_KEPT - 8 * T * I);
  expect_i64(kept(&f, SPP_MOMENT_BACKWARD_ATTENTION), 2 * TINY_KEPT - 8 * T * I - 8 * T * H - 4 * T);
  jobs_close(&f);
}

static void the_replayed_ring_does_not_shrink_with_its_degree(void **state) {
  (void)state;
  struct jobs_fixture f;
  static const char *const names[] = {"ring: fp32 output accumulator", "ring: outputs of all steps",
                                      "ring: fp32 gradients of block outputs"};
  struct {
    int64_t ulysses, ring, bytes;
  } cases[] = {
      {8, 2, 838860800}, {1, 16, INT64_C(6710886400)}, {1, 8, INT64_C(6710886400)}}; /* 10 b S dq / su */
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, "qwen2.5-32b"), 131072); /* dq 5,120 */
    f.job.ring_impl = SPP_RING_SWIFT;
    f.layout.ulysses = cases[i].ulysses;
    f.layout.ring = cases[i].ring;
    f.layout.sp_kind = SPP_SP_HYBRID;
    f.layout.recompute = SPP_RECOMPUTE_FULL;
    jobs_predict(&f);
    int64_t bytes = 0;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
      bytes += jobs_ledger(&f, names[n], SPP_MOMENT_BACKWARD_ATTENTION);
    expect_i64(bytes, cases[i].bytes);
    jobs_close(&f);
  }
}

static void ring_buffers_are_those_of_the_implementation(void **state) {
  (void)state;
  struct jobs_fixture f;
  const int64_t kvb = 4 * T * DK;
  const enum spp_moment forward = SPP_MOMENT_FORWARD, backward = SPP_MOMENT_BACKWARD_ATTENTION;
  open_tiny(&f);
  f.job.seq_tokens = 4 * T;
  f.layout.ring = 4;
  f.layout.sp_kind = SPP_SP_RING;
  f.job.ring_impl = SPP_RING_ZHUZILIN;
  jobs_predict(&f);
  expect_i64(f.geometry.ring_block_bytes, kvb);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, forward), 2 * kvb + 10 * T * DQ);
  expect_i64(jobs_ledger(&f, "ring: fp32 dk, dv", backward), 6 * kvb);
  expect_i64(jobs_ledger(&f, "ring: KV blocks", backward), 2 * kvb);
  expect_i64(jobs_ledger(&f, "ring: fp32 dq", backward), 4 * T * DQ);
  f.job.ring_impl = SPP_RING_TE;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, forward), 4 * kvb + 4 * 2 * T * DQ);
  expect_i64(jobs_ledger(&f, "ring: KV with their gradients", backward), 4 * kvb);
  f.layout.sp_kind = SPP_SP_ALLGATHER;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, forward), 2 * 4 * kvb);
  jobs_close(&f);
}

static void ulysses_exchanges_need_three_copies(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.job.seq_tokens = 2 * T;
  f.layout.ulysses = 2;
  f.layout.sp_kind = SPP_SP_ULYSSES;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "all-to-all buffers", SPP_MOMENT_FORWARD), 3 * 2 * T * DQ);
  jobs_close(&f);
}

/* Without a machine: 24 channels, domains of eight, connections at once and outside pages. Of eight ranks:
 * tables 2 MiB, a ring 12 a channel, a tree that goes back along it 12, and for messages 2 for each of 32
 * channels. A peer of an exchange: 32 channels of 12. */
static void communicators_own_buffers(void **state) {
  (void)state;
  const int64_t mib = 1048576, group = (2 + 24 * 24 + 32 * 2) * mib;
  struct jobs_fixture f;
  open_tiny(&f);
  f.gpu.compute_capability = 0; /* channels as the framework file says */
  f.gpu.has_fast_link = true;
  f.framework.nccl_channels = 24;
  f.framework.context_bytes = 1000;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], 0); /* one GPU */
  f.layout.dp = 8;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], group); /* data parallel group = world */
  f.framework.nccl_groups[SPP_NCCL_GROUP_DATA] = true;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], 2 * group); /* but not where a framework makes one */
  f.framework.nccl_groups[SPP_NCCL_GROUP_DATA] = false;
  f.framework.nccl_all_groups = true;
  f.layout.zero = 1;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], 3 * group); /* world, data, states: the same ranks */
  f.layout.zero = 0;
  f.framework.nccl_all_groups = false;
  f.layout.ulysses = 8;
  f.layout.dp = 1;
  f.layout.sp_kind = SPP_SP_ULYSSES;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], 2 * group + 7 * 32 * 12 * mib);
  expect_i64(f.memory.device_bytes - f.memory.reserved_bytes, 2 * group + 7 * 32 * 12 * mib + 1000);
  f.framework.nccl_bytes_per_group = 500;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], 1000);
  jobs_close(&f);
}

/* 4,096 tokens of 4,096 columns: eight buffers that gather and four that reduce, bf16; in FP8 those that
 * gather hold one byte an element. */
static void overlapped_exchanges_have_buffers_of_their_own(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3-8b"), 4096);
  f.layout.tp = 2;
  f.layout.megatron_sp = true;
  jobs_predict(&f);
  int64_t plain = f.memory.parts[SPP_PART_NCCL];
  f.framework.tp_user_buffers = true;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL] - plain, INT64_C(4096) * 4096 * (8 * 2 + 4 * 2));
  f.job.dtype = SPP_DTYPE_FP8;
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL] - plain, INT64_C(4096) * 4096 * (8 * 1 + 4 * 2));
  f.layout.megatron_sp = false; /* nothing is split over the ranks between products */
  jobs_predict(&f);
  expect_i64(f.memory.parts[SPP_PART_NCCL], plain);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gathers_leave_blocks_on_their_stream),
      cmocka_unit_test(a_loss_in_chunks_sums_the_gradient_of_the_head),
      cmocka_unit_test(fused_accumulation_leaves_one_placeholder_a_shape),
      cmocka_unit_test(a_tiled_mlp_keeps_its_input_and_one_tile),
      cmocka_unit_test(backward_transients_follow_the_kernels),
      cmocka_unit_test(the_running_layer_frees_as_backward_goes),
      cmocka_unit_test(the_replayed_ring_does_not_shrink_with_its_degree),
      cmocka_unit_test(ring_buffers_are_those_of_the_implementation),
      cmocka_unit_test(ulysses_exchanges_need_three_copies),
      cmocka_unit_test(communicators_own_buffers),
      cmocka_unit_test(overlapped_exchanges_have_buffers_of_their_own),
  };
  int failed = cmocka_run_group_tests_name("buffers", tests, NULL, NULL);
  return failed != 0;
}
