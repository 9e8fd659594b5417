/* The peak of a stage: pipeline, allocator, what graphs hold, host memory, and whether it fits. */
#include "tests/model/tiny.h"

static void fsdp_under_a_pipeline_holds_the_stage_whole(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.2-1b"), 4096);
  f.framework.sharding = SPP_SHARDING_FSDP;
  f.framework.gathers_once_under_pp = true;
  f.framework.states[3] = (struct spp_states){.weight_bytes = 4,
                                              .gather_bytes = 2,
                                              .grad_bytes = 4,
                                              .reduce_bytes = 4,
                                              .moment_bytes = 8,
                                              .shard_weights = true,
                                              .shard_grads = true,
                                              .shard_optimizer = true,
                                              .supported = true};
  f.layout.zero = 3;
  f.layout.dp = 2;
  f.layout.pp = 2;
  f.layout.grad_accum = 4;
  jobs_predict(&f);
  /* 16-bit weights gathered once, fp32 gradients whole until the last micro-batch: 2 and 4 bytes of one set
   */
  int64_t gathered = jobs_ledger(&f, "gathered model", SPP_MOMENT_BACKWARD_MLP);
  expect_true(gathered > 0);
  expect_i64(jobs_ledger(&f, "gradients of the stage", SPP_MOMENT_BACKWARD_MLP), 2 * gathered);
  f.layout.pp = 1;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "gathered model", SPP_MOMENT_BACKWARD_MLP), 0);
  jobs_close(&f);
}

static void a_trained_embedding_beside_adapters_is_a_second_copy(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.job.method = SPP_METHOD_LORA;
  f.job.lora_rank = 4;
  jobs_predict(&f);
  int64_t frozen = jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP),
          trained = jobs_ledger(&f, "weights", SPP_MOMENT_STEP);
  f.job.train_embeddings = true;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP), frozen);
  expect_i64(jobs_ledger(&f, "weights", SPP_MOMENT_STEP) - trained, 2 * 2 * 256 * H); /* embedding and head */
  jobs_close(&f);
}

/* 2 KV heads over 4 ranks of 8 tokens each: kv_buffer and its copy hold one head's K and V of all 32,
 * dkv_buffer its gradients; dk and dv of the own tokens are whole (ring_flash_attn
 * llama3_flash_attn_varlen.py). */
static void heads_gathered_one_by_one_need_less(void **state) {
  (void)state;
  struct jobs_fixture f;
  const enum spp_moment attention = SPP_MOMENT_BACKWARD_ATTENTION;
  open_tiny(&f);
  f.layout.sp_kind = SPP_SP_ALLGATHER;
  f.layout.ring = 4;
  for (int heads = 0; heads < 2; heads++) { /* 0: all at once */
    const int64_t groups = heads ? 2 : 1;
    f.framework.allgather_heads = heads;
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "gathered K and V", SPP_MOMENT_FORWARD), 2 * 2 * T * 2 * DK / groups);
    expect_i64(jobs_ledger(&f, "gradients of gathered K and V", attention), 2 * T * 2 * DK / groups);
    expect_i64(jobs_ledger(&f, "gradients of q, k, v", attention),
               2 * (T / 4) * DQ + 2 * (heads ? T / 4 : T) * 2 * DK);
    expect_i64(jobs_ledger(&f, "dk, dv expanded to all query heads", attention), 2 * 2 * T * DQ / groups);
    expect_i64(jobs_ledger(&f, "fp32 accumulator of dq", attention), 4 * (T / 4) * DQ / groups);
    expect_i64(jobs_ledger(&f, "outputs of head groups", SPP_MOMENT_FORWARD), heads ? 2 * (T / 4) * DQ : 0);
  }
  jobs_close(&f);
}

/* FSDP keeps trained weights in fp32, frozen ones in 16 bits or packed: what leaves the GPU arrives on the
 * host. */
static void frozen_weights_take_on_the_host_what_they_took(void **state) {
  (void)state;
  static const enum spp_method methods[] = {SPP_METHOD_LORA, SPP_METHOD_QLORA};
  int64_t here[2], there[2];
  for (int i = 0; i < 2; i++) {
    struct jobs_fixture f;
    open_tiny(&f);
    f.framework.sharding = SPP_SHARDING_FSDP;
    f.framework.states[3].weight_bytes = 4;
    f.layout.zero = 3;
    f.job.method = methods[i];
    f.job.quant = i ? SPP_QUANT_NF4 : f.job.quant;
    f.job.lora_rank = 4;
    jobs_predict(&f);
    here[i] = jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP);
    f.layout.offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "frozen weights", SPP_MOMENT_STEP), 0);
    there[i] = f.memory.host_bytes_per_node;
    jobs_close(&f);
  }
  expect_true(here[1] > 0 && here[1] < here[0]);
  expect_i64(there[0] - there[1], here[0] - here[1]);
}

static void offloaded_inputs_leave_two_on_the_gpu(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen3-8b"), 131072);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  /* huggingface/transformers#48444: 36 layers * 131,072 * 4,096 * 2 B = 36 GiB leave the GPU, exact to 0.1 MB
   */
  const int64_t input = INT64_C(131072) * 4096 * 2;
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), 36 * input);
  f.layout.offload = SPP_OFFLOAD_ACTIVATIONS;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), 2 * input);
  expect_i64(f.memory.host_bytes_per_node, 36 * input);
  jobs_close(&f);
}

/* TransformerEngine moves what whole layers keep: of 36 layers the one in front and one on its way are on the
 * GPU, or with 10 away 26 and one. */
static void offloaded_layers_leave_their_tensors_to_the_host(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen3-8b"), 4096);
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.attention = SPP_ATTN_TE;
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  jobs_predict(&f);
  const int64_t all = kept(&f, SPP_MOMENT_LOSS), one = f.memory.checkpoint_bytes[0];
  expect_i64(all, 36 * one);
  const int64_t cases[][3] = {{0, 2, 35}, {10, 27, 10}, {36, 2, 35}}; /* asked for, on the GPU, on the host */
  f.layout.offload = SPP_OFFLOAD_ACTIVATIONS;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    f.layout.offload_layers = cases[i][0];
    jobs_predict(&f);
    expect_i64(kept(&f, SPP_MOMENT_LOSS), cases[i][1] * one);
    expect_i64(f.memory.host_bytes_per_node, cases[i][2] * one);
  }
  jobs_close(&f);
}

static void stages_hold_several_micro_batches(void **state) {
  (void)state;
  struct {
    enum spp_schedule schedule;
    int64_t vpp, copies; /* layers of the worst stage times micro-batches in flight */
    int64_t stage;
  } cases[] = {
      {SPP_SCHEDULE_1F1B, 1, 4 * 4, 0},     /* 4 micro-batches of 4 layers */
      {SPP_SCHEDULE_INTERLEAVED, 2, 22, 0}, /* 11 chunks of 2 layers = 5.5 stages */
      {SPP_SCHEDULE_GPIPE, 1, 16 * 4, 3},   /* all 16 on every stage; the last has the loss too */
      {SPP_SCHEDULE_ZB_H2, 1, 7 * 4, 0},    /* 2 pp - 1 */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, jobs_load(&f, "llama3.2-1b"), 4096); /* 16 layers */
    f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR;
    f.job.method = SPP_METHOD_LORA; /* so that the first stage is the fullest */
    f.layout.pp = 4;
    f.layout.vpp = cases[i].vpp;
    f.layout.schedule = cases[i].schedule;
    f.layout.grad_accum = 16;
    f.layout.recompute = SPP_RECOMPUTE_FULL;
    jobs_predict(&f);
    expect_i64(f.memory.worst_stage, cases[i].stage);
    expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), cases[i].copies * 2 * 4096 * 2048);
    jobs_close(&f);
  }
}

/* 40 parts in 1,000 of the reserve are given back, 1 in 100 of what is allocated lies beside blocks in use.
 */
static void expandable_segments_give_free_pages_back(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 4096);
  f.framework.allocator_factor = 1.05;
  f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR;
  jobs_predict(&f);
  int64_t reserved = f.memory.reserved_bytes, headroom = f.memory.headroom_bytes;
  f.job.allocator = SPP_ALLOCATOR_EXPANDABLE;
  jobs_predict(&f);
  expect_i64(f.memory.reserved_bytes, reserved);
  expect_rel((double)(reserved - f.memory.reclaimable_bytes), 1.01 * (double)f.memory.peak_bytes, 1e-3);
  expect_i64(f.memory.headroom_bytes - headroom, f.memory.reclaimable_bytes);
  f.framework.allocator_factor = 1.0; /* a ledger that counts what is allocated has nothing to give */
  jobs_predict(&f);
  expect_i64(f.memory.reclaimable_bytes, 0);
  jobs_close(&f);
}

/* What the graphs of a layer's MLP hold: the norm's input 2Th and statistics 4T, its output 2Th, gate and up
 * 4Ti, their product 2Ti, and the output that they write, the next layer's input, 2Th. All layers of the one
 * micro-batch in flight hold it at the step, when nothing else of the pass is left; reserved in segments of 2
 * MiB. */
static void cuda_graphs_keep_what_they_captured(void **state) {
  (void)state;
  const double tokens = 4096, hidden = 896, width = 4864, layers = 24;
  const double mlp = layers * tokens * (6 * hidden + 6 * width + 4);
  /* attention: input 2Th and statistics 4T, norm's output 2Th, q, k, v and output 2T(2dq + 2dk), log-sum-exp
   * 4T nq */
  const double attention = layers * tokens * (4 * hidden + 4 + 4 * 896 + 4 * 128 + 4 * 14);
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 4096);
  f.framework.allocator_factor = 1.0;
  f.job.kernels = SPP_KERNELS_FUSED;
  f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR;
  jobs_predict(&f);
  double step = (double)f.memory.phase_bytes[SPP_PHASE_STEP];
  int64_t first = f.memory.first_step_peak_bytes;
  f.job.graphs = SPP_GRAPH_MLP;
  jobs_predict(&f);
  expect_rel((double)f.memory.phase_bytes[SPP_PHASE_STEP] - step, mlp, 4e-3);
  expect_i64(f.memory.first_step_peak_bytes, first); /* captured after a few steps */
  f.job.graphs = SPP_GRAPH_ATTN;
  jobs_predict(&f);
  expect_rel((double)f.memory.phase_bytes[SPP_PHASE_STEP] - step, attention, 4e-3);
  /* together the layer's input is held once */
  f.job.graphs = SPP_GRAPH_ATTN | SPP_GRAPH_MLP;
  jobs_predict(&f);
  expect_rel((double)f.memory.phase_bytes[SPP_PHASE_STEP] - step,
             mlp + attention - layers * tokens * (2 * hidden + 4), 4e-3);
  jobs_close(&f);
}

static void the_allocator_holds_back_a_share_in_whole_segments(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 4096);
  f.framework.allocator_factor = 1.05;
  jobs_predict(&f);
  /* and the block of the freed 16-bit logits, 2NV, which no fp32 copy fits in */
  expect_rel((double)f.memory.reclaimable_bytes, 2.0 * 4096 * 151936, 2e-3); /* segments of 2 MiB */
  expect_i64(f.memory.reserved_bytes % 2097152, 0);
  expect_rel((double)(f.memory.reserved_bytes - f.memory.reclaimable_bytes),
             1.05 * (double)f.memory.peak_bytes, 1e-3);
  f.job.loss_path_forced = SPP_LOSS_FUSED_LINEAR; /* no whole logits, no such block */
  jobs_predict(&f);
  expect_i64(f.memory.reclaimable_bytes, 0);
  f.job.method = SPP_METHOD_LORA; /* frozen weights are loaded once and never freed */
  jobs_predict(&f);
  expect_rel((double)f.memory.reserved_bytes,
             1.05 * (double)f.memory.peak_bytes - 0.05 * (double)f.memory.parts[SPP_PART_WEIGHTS], 1e-3);
  jobs_close(&f);
}

static void gradients_of_a_single_micro_batch_come_as_inputs_go(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 512);
  f.layout.grad_accum = 1;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_STEP), 2 * INT64_C(494032768));
  /* a gigabyte of gradients against 22 MB of inputs: the peak is the end of backward, one input left */
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_BACKWARD_MLP), 2 * INT64_C(494032768));
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_BACKWARD_MLP), 2 * 512 * 896);
  f.layout.grad_accum = 2; /* the first micro-batch's gradients are there in the second's loss */
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_GRADIENTS, SPP_MOMENT_LOSS), 2 * INT64_C(494032768));
  jobs_close(&f);
}

static void host_memory_is_a_limit_of_its_own(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-32b"), 4096);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.layout.zero = 3;
  f.layout.offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  f.cluster.host_bytes =
      INT64_C(744) * 1000000000; /* hiyouga/LLaMA-Factory#6755: killed, 744 GB of host memory */
  jobs_predict(&f);
  expect_i64(f.memory.host_bytes_per_node, INT64_C(32763876352) * 27); /* 18 * 1.5 */
  expect_false(f.memory.host_fits);
  f.layout.offload = SPP_OFFLOAD_NONE;
  jobs_predict(&f);
  expect_i64(f.memory.host_bytes_per_node, 0);
  expect_true(f.memory.host_fits);
  jobs_close(&f);
}

static void the_fit_has_a_probability(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-0.5b"), 4096);
  jobs_predict(&f);
  int64_t device = f.memory.device_bytes - f.memory.reclaimable_bytes;
  f.job.max_memory_bytes = device; /* even odds at the prediction itself */
  jobs_predict(&f);
  expect_true(f.memory.fits);
  expect_near(f.memory.fit_probability, 0.5, 1e-9);
  f.job.max_memory_bytes =
      f.memory.high_bytes - f.memory.reclaimable_bytes; /* 80 % interval: one in ten lies above */
  jobs_predict(&f);
  expect_near(f.memory.fit_probability, 0.9, 1e-6);
  /* three such halves of the interval: t = 3 * 1.88562 and 1/2 + t / (2 sqrt(2 + t^2)) = 0.98507, where the
   * normal distribution would say 0.99994 and published runs failed once in a hundred */
  f.job.max_memory_bytes = device + 3 * (f.memory.high_bytes - f.memory.device_bytes);
  jobs_predict(&f);
  expect_near(f.memory.fit_probability, 0.98507, 1e-5);
  f.job.max_memory_bytes = f.memory.low_bytes - f.memory.reclaimable_bytes;
  jobs_predict(&f);
  expect_false(f.memory.fits);
  expect_near(f.memory.fit_probability, 0.1, 1e-6);
  jobs_close(&f);
}

static void a_vision_tower_keeps_something_only_when_trained(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-vl-7b"), 8192);
  f.job.image_patches = 5476;
  f.job.image_tokens = 1369;
  f.framework.vision_on_every_sp_rank = true;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_VISION, SPP_MOMENT_LOSS), 1369 * 3584 * 2);
  f.job.vision_trainable = true;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_VISION, SPP_MOMENT_LOSS),
             1369 * 3584 * 2 + INT64_C(32) * 5476 * 1280 * 2);
  f.layout.ulysses = 4;
  f.layout.sp_kind = SPP_SP_ULYSSES;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "vision block input", SPP_MOMENT_LOSS), INT64_C(32) * 5476 * 1280 * 2);
  f.framework.vision_on_every_sp_rank = false;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "vision block input", SPP_MOMENT_LOSS), INT64_C(32) * 5476 / 4 * 1280 * 2);
  jobs_close(&f);
}

static void loading_can_be_the_peak(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "qwen2.5-32b"), 512);
  f.framework.sharding = SPP_SHARDING_DEEPSPEED;
  f.layout.zero = 3;
  f.layout.dp = 64;
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  jobs_predict(&f);
  expect_true(f.memory.peak_moment != SPP_MOMENT_LOAD);
  f.framework.loads_whole_model = true; /* deepspeedai/DeepSpeed#7458: from_pretrained before ZeRO-3 init */
  jobs_predict(&f);
  expect_i64(f.memory.peak_moment, SPP_MOMENT_LOAD);
  jobs_close(&f);
}

static void an_expert_parallel_rank_holds_its_experts(void **state) {
  (void)state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "mixtral-8x7b"), 4096);
  f.layout.dp = 8;
  f.layout.ep = 8;
  f.framework.ep = true;
  jobs_predict(&f);
  /* one of eight experts: 32 layers * 3*4096*14336; all else whole */
  const int64_t experts = INT64_C(32) * 3 * 4096 * 14336 * 8, total = INT64_C(46702792704);
  expect_i64(f.memory.resident[SPP_PART_WEIGHTS], 2 * (total - experts + experts / 8));
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fsdp_under_a_pipeline_holds_the_stage_whole),
      cmocka_unit_test(a_trained_embedding_beside_adapters_is_a_second_copy),
      cmocka_unit_test(heads_gathered_one_by_one_need_less),
      cmocka_unit_test(frozen_weights_take_on_the_host_what_they_took),
      cmocka_unit_test(offloaded_inputs_leave_two_on_the_gpu),
      cmocka_unit_test(offloaded_layers_leave_their_tensors_to_the_host),
      cmocka_unit_test(stages_hold_several_micro_batches),
      cmocka_unit_test(expandable_segments_give_free_pages_back),
      cmocka_unit_test(cuda_graphs_keep_what_they_captured),
      cmocka_unit_test(the_allocator_holds_back_a_share_in_whole_segments),
      cmocka_unit_test(gradients_of_a_single_micro_batch_come_as_inputs_go),
      cmocka_unit_test(host_memory_is_a_limit_of_its_own),
      cmocka_unit_test(the_fit_has_a_probability),
      cmocka_unit_test(a_vision_tower_keeps_something_only_when_trained),
      cmocka_unit_test(loading_can_be_the_peak),
      cmocka_unit_test(an_expert_parallel_rank_holds_its_experts),
  };
  int failed = cmocka_run_group_tests_name("memory", tests, NULL, NULL);
  return failed != 0;
}
