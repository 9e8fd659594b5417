#include <string.h>

#include "model/collective.h"
#include "model/predict.h"
#include "model/timing_internal.h"
#include "tests/model/timing_machines.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

/* A job on hand-made hardware with shipped frameworks; everything is copied, so that a test may bend any
 * constant. */
struct bench {
  struct spp_arena arena;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_calib calib;
  struct spp_framework framework;
  struct spp_arch arch;
  struct spp_job job;
};
struct result {
  struct spp_geometry geometry;
  struct spp_comm comm;
  struct spp_time time;
};

static void bench_open(struct bench *b, const char *framework, int64_t gpus, int64_t seq, int64_t batch) {
  struct spp_diag diag;
  const struct spp_framework *f = NULL;
  memset(b, 0, sizeof *b);
  spp_arena_init(&b->arena);
  b->gpu = h100_gpu();
  b->cluster = switched_cluster(50e9, true);
  b->calib = shipped_calib(&b->gpu);
  expect_status(spp_framework_load(CONFIGS, framework, &b->arena, &f, &diag), SPP_OK, &diag);
  b->framework = *f;
  b->job.gpus = gpus;
  b->job.seq_tokens = seq;
  b->job.global_batch = batch;
}

static void bench_job(struct bench *b) {
  struct spp_diag diag;
  struct spp_job_spec spec;
  spp_job_spec_clear(&spec);
  spec.arch = &b->arch;
  spec.gpu = &b->gpu;
  spec.cluster = &b->cluster;
  spec.calib = &b->calib;
  spec.gpus = b->job.gpus;
  spec.seq_tokens = b->job.seq_tokens;
  spec.global_batch = b->job.global_batch;
  expect_status(spp_job_resolve(&spec, &b->framework, &b->job, &diag), SPP_OK, &diag);
}

static void bench_model(struct bench *b, const char *name) {
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  expect_status(spp_arch_load(CONFIGS, name, &b->arena, &arch, &diag), SPP_OK, &diag);
  b->arch = *arch;
  bench_job(b);
}

static void bench_close(struct bench *b) {
  spp_arena_free(&b->arena);
}

static struct spp_request request_of(int64_t tp, int64_t pp, int64_t ulysses, int64_t ring) {
  struct spp_request r;
  spp_request_clear(&r);
  r.tp = tp;
  r.pp = pp;
  r.ulysses = ulysses;
  r.ring = ring;
  r.micro_batch = 1;
  return r;
}

static struct spp_layout layout_of(const struct bench *b, const struct spp_request *request) {
  struct spp_layout layout;
  struct spp_diag diag;
  expect_status(spp_layout_complete(&b->job, request, &layout, &diag), SPP_OK, &diag);
  return layout;
}

static struct result run(const struct bench *b, const struct spp_layout *layout) {
  struct result r;
  spp_geometry_resolve(&b->job, layout, &r.geometry);
  spp_comm_predict(&b->job, layout, &r.geometry, &r.comm);
  spp_timing_predict(&b->job, layout, &r.geometry, &r.comm, &r.time);
  return r;
}

static double parts_sum(const struct spp_time *t) {
  return t->compute_s + t->attention_s + t->sp_exposed_s + t->tp_exposed_s + t->pp_bubble_s +
         t->pp_exposed_s + t->dp_exposed_s + t->ep_exposed_s + t->offload_exposed_s + t->optimizer_s +
         t->host_s;
}

/* Only products and attention cost anything, at given rates; no latencies, no host, memory for nothing. */
static void make_ideal(struct bench *b, double flops_per_s) {
  struct spp_calib *c = &b->calib;
  memset(c, 0, sizeof *c);
  b->gpu.flops_per_s[SPP_DTYPE_BF16] = flops_per_s;
  c->gemm = (struct spp_gemm_fit){.efficiency = 1};
  c->sustained = c->clock_share = c->wgrad_ratio = c->dgrad_ratio = c->grouped_gemm_ratio = c->fp8_ratio = 1;
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    for (int w = 0; w < 2; w++)
      c->attention[i][w].forward.efficiency = c->attention[i][w].backward.efficiency = 1;
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    c->link[op].link_share = c->network[op].link_share = c->pcie[op].link_share = 1;
  b->cluster.nic_latency_s = 1e-15;
  b->framework.host_s_per_layer = b->framework.host_s_per_step = b->framework.comm_sm_slowdown = 0;
  b->framework.nccl_channels = 0;
}

/* 8 layers, MHA with head width 128 unless kv says less; a tiny vocabulary, so that stages are equal. */
static void synthetic_model(struct bench *b, int64_t hidden, int64_t heads, int64_t kv_heads) {
  char text[640];
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  snprintf(text, sizeof text,
           "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":8,"
           "\"hidden_size\":%d,"
           "\"intermediate_size\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":128,"
           "\"vocab_size\":8,"
           "\"tie_word_embeddings\":false,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"max_position_"
           "embeddings\":4096}",
           (int)hidden, (int)(4 * hidden), (int)heads, (int)kv_heads);
  expect_status(spp_arch_parse(text, strlen(text), "synthetic", &b->arena, &arch, &diag), SPP_OK, &diag);
  b->arch = *arch;
  bench_job(b);
}

/* 4 stages, 8 micro-batches, forward 1, backward 2: 8 x 3 + 3 x 3 = 33 units, bubble 9 of 33; two chunks per
 * rank halve the bubble: 28.5. ZB-H1 fills with F + B - W = 1 + 1 - 1 and ZB-H2 with 1 + 1 - 2 (weight
 * gradients are half the backward). */
static void pipeline_bubbles_are_the_textbook_ones(void **state) {
  static const struct {
    enum spp_schedule schedule;
    int64_t vpp;
    double total;
  } rows[] = {{SPP_SCHEDULE_1F1B, 1, 33},
              {SPP_SCHEDULE_GPIPE, 1, 33},
              {SPP_SCHEDULE_INTERLEAVED, 2, 28.5},
              {SPP_SCHEDULE_ZB_H1, 1, 27},
              {SPP_SCHEDULE_ZB_H2, 1, 24}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, "megatron-lm", 4, 512, 8);
    make_ideal(&b, 1e15);
    synthetic_model(&b, 4096, 32, 32);
    for (int a = 0; a < SPP_ATTN_IMPL_COUNT;
         a++) /* attention for nothing: its backward is 2.5 forwards, not 2 */
      b.calib.attention[a][1].forward.efficiency = b.calib.attention[a][1].backward.efficiency = 1e9;
    struct spp_request request = request_of(1, 4, 1, 1);
    request.recompute = SPP_RECOMPUTE_NONE;
    struct spp_layout layout = layout_of(&b, &request);
    layout.vpp = rows[i].vpp;
    layout.schedule = rows[i].schedule;
    struct result r = run(&b, &layout);
    expect_note("schedule %d", (int)rows[i].schedule);
    expect_rel((r.time.compute_s + r.time.pp_bubble_s) / r.time.compute_s, rows[i].total / 24, 1e-3);
    bench_close(&b);
  }
}

/* A contiguous causal ring waits for its last rank: efficiency sr / (2 sr - 1) = 8/15 = 53.3 %;
 * zhuzilin/ring-flash-attention README measures 51.4-53.9 % on 8 GPUs. */
static void a_contiguous_ring_reaches_eight_fifteenths(void **state) {
  struct bench b;
  double attention[2];
  (void)state;
  bench_open(&b, "megatron-lm", 8, 65536, 1);
  make_ideal(&b, 1e15);
  synthetic_model(&b, 4096, 32, 32);
  struct spp_request request = request_of(1, 1, 1, 8);
  struct spp_layout layout = layout_of(&b, &request);
  for (int zigzag = 0; zigzag < 2; zigzag++) {
    b.job.ring_order = zigzag ? SPP_RING_ZIGZAG : SPP_RING_CONTIGUOUS;
    attention[zigzag] = run(&b, &layout).time.attention_s;
  }
  expect_rel(attention[1] / attention[0], 8.0 / 15, 1e-9);
  bench_close(&b);
}

/* Ring hops vanish under zigzag attention from c = (F/B)(dk/dq) tokens a chunk on (16-bit): F = 500e12
 * FLOP/s, NVLink 360e9 and one seventh of the heads (Qwen2.5-7B): 198.4; NIC 45e9: 1,587.3; NIC and MHA:
 * 11,111. Forward passes; a rank holds 2 c tokens. Three of the four steps are not masked and run 1.05 times
 * as fast, so that a chunk must be 4 / (1 + 3 / 1.05) = 1.037 times as long. */
static void ring_hops_hide_from_the_derived_chunk_length_on(void **state) {
  static const struct {
    double bytes_per_s;
    int64_t kv_heads, across_nodes;
    double chunk;
  } rows[] = {{360e9, 4, 0, 198.4}, {45e9, 4, 1, 1587.3}, {45e9, 28, 1, 11111.1}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int above = 0; above < 2; above++) {
      int64_t chunk = (int64_t)(rows[i].chunk * 4 / (1 + 3 / 1.05) * (above ? 1.01 : 0.99));
      struct bench b;
      bench_open(&b, "megatron-lm", 4, chunk * 8, 1);
      make_ideal(&b, 500e12);
      b.gpu.link_bytes_per_s = rows[i].bytes_per_s;
      b.cluster.nic_bytes_per_s = b.cluster.nic_bytes_per_s_per_gpu = rows[i].bytes_per_s;
      if (rows[i].across_nodes) b.cluster.gpus_per_node = b.cluster.domain_gpus = 1;
      synthetic_model(&b, 3584, 28, rows[i].kv_heads);
      b.job.ring_impl = SPP_RING_TE;
      struct spp_request request = request_of(1, 1, 1, 4);
      request.recompute = SPP_RECOMPUTE_NONE;
      struct spp_layout layout = layout_of(&b, &request);
      layout.sp_kind = SPP_SP_RING;
      struct result r = run(&b, &layout);
      double exposed = 0;
      for (int k = 0; k < r.comm.count; k++)
        if (r.comm.ops[k].group == SPP_GROUP_RING && r.comm.ops[k].pass == SPP_PASS_FORWARD)
          exposed += r.comm.ops[k].exposed_s;
      expect_note("row %zu, chunk %d: %g s exposed", i, (int)chunk, exposed);
      expect_true(above ? exposed == 0 : exposed > 0);
      bench_close(&b);
    }
}

/* 7.6e9 parameters over 8 ranks, 30 bytes each (p, m, v read and written, 4-byte gradient read, 16-bit weight
 * written) at 3.35e12 x 0.85 bytes/s: 10.0 ms; norm clipping moves 12 more bytes, 14.0 ms in all. */
static void the_optimizer_step_is_bound_by_its_bytes(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-lm", 8, 4096, 8);
  bench_model(&b, "llama3.1-8b");
  b.framework.states[1] = (struct spp_states){.weight_bytes = 2,
                                              .grad_bytes = 4,
                                              .master_bytes = 4,
                                              .moment_bytes = 8,
                                              .shard_optimizer = true,
                                              .supported = true};
  b.framework.optimizer_foreach = false;
  b.job.sums = (struct spp_model_sums){.head.split = 7600000000};
  struct spp_geometry g = {.tp = 1, .ep = 1, .etp = 1, .shard_group = 8, .expert_shard_group = 8};
  struct spp_layout layout = {.zero = 1};
  const struct spp_kernel_rates rates = {.memory_s_per_byte[SPP_MEMORY_OPTIMIZER] = 1 / (3.35e12 * 0.85)};
  struct spp_timing_context c = {
      .job = &b.job, .layout = &layout, .g = &g, .rates = &rates, .trains = true, .base_trainable = true};
  struct spp_stage stage = {.first = true, .last = true};
  expect_rel(spp_optimizer_s(&c, &stage), 10.0e-3 * 42 / 30, 2e-3);
  bench_close(&b);
}

/* Layouts of one model over 16 GPUs in two nodes that the laws below walk. */
static const struct {
  const char *framework;
  int64_t tp, pp, ulysses, ring;
} walks[] = {{"megatron-lm", 1, 1, 1, 1}, {"megatron-lm", 8, 1, 1, 1},  {"megatron-lm", 2, 4, 1, 2},
             {"megatron-lm", 1, 2, 4, 2}, {"megatron-lm", 1, 1, 1, 16}, {"ms-swift", 1, 1, 8, 1},
             {"ms-swift", 1, 1, 8, 2},    {"deepspeed", 1, 1, 8, 1}};

static void the_parts_sum_to_the_step_and_bound_it(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof walks / sizeof walks[0]; i++) {
    struct bench b;
    bench_open(&b, walks[i].framework, 16, 32768, 16);
    bench_model(&b, "llama3.1-8b");
    struct spp_request request = request_of(walks[i].tp, walks[i].pp, walks[i].ulysses, walks[i].ring);
    struct spp_layout layout = layout_of(&b, &request);
    struct result r = run(&b, &layout);
    const struct spp_time *t = &r.time;
    double comm = 0, peak = 16 * 989e12;
    expect_note("walk %zu", i);
    expect_rel(parts_sum(t), t->step_s, 1e-12);
    for (int k = 0; k < r.comm.count; k++) {
      const struct spp_comm_op *op = &r.comm.ops[k];
      expect_true(op->time_s > 0 && op->exposed_s >= 0 && op->exposed_s <= op->time_s * (1 + 1e-12));
      if (op->overlap == SPP_OVERLAP_NONE) expect_rel(op->exposed_s, op->time_s, 0);
      comm += op->time_s;
    }
    expect_true(t->step_s >= t->hardware_flops / peak);      /* nothing beats the peak */
    expect_true(t->step_s >= t->compute_s + t->attention_s); /* nor its own compute */
    expect_true(t->step_s <=
                t->compute_s + t->attention_s + comm + t->pp_bubble_s + t->optimizer_s + t->host_s + 1e-12);
    expect_true(t->low_s < t->step_s && t->step_s < t->high_s);
    expect_rel(t->tokens_per_s * t->step_s, 16 * 32768.0, 1e-9);
    expect_rel(t->tokens_per_s_per_gpu * 16, t->tokens_per_s, 1e-12);
    expect_rel(t->mfu_causal, t->model_flops_causal / t->step_s / peak, 1e-12);
    expect_true(t->mfu_causal < t->mfu_full && t->mfu_full < 1 && t->hfu < 1);
    bench_close(&b);
  }
}

static void better_hardware_is_never_slower(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof walks / sizeof walks[0]; i++)
    for (int which = 0; which < 5; which++) {
      struct bench b;
      bench_open(&b, walks[i].framework, 16, 16384, 16);
      bench_model(&b, "llama3.1-8b");
      struct spp_request request = request_of(walks[i].tp, walks[i].pp, walks[i].ulysses, walks[i].ring);
      struct spp_layout layout = layout_of(&b, &request);
      double before = run(&b, &layout).time.step_s;
      if (which == 0) b.gpu.flops_per_s[SPP_DTYPE_BF16] *= 2;
      if (which == 1) b.gpu.memory_bytes_per_s *= 2;
      if (which == 2) b.gpu.link_bytes_per_s *= 2;
      if (which == 3) b.cluster.nic_bytes_per_s *= 2, b.cluster.nic_bytes_per_s_per_gpu *= 2;
      if (which == 4) b.framework.host_s_per_layer /= 2;
      expect_note("walk %zu, improvement %d", i, which);
      expect_true(run(&b, &layout).time.step_s <= before * (1 + 1e-12));
      bench_close(&b);
    }
}

/* 1e15 FLOP/s in 16 bit and 1e14 in fp32: attention takes ten times as long, and so do the head's two
 * products (forward, gradient of the input; it is frozen) of 1,024 tokens, 2,048 and 128,256; packed matrices
 * are multiplied in 16 bit. */
static void a_base_prepared_in_fp32_pays_for_attention_and_head(void **state) {
  (void)state;
  struct bench b;
  bench_open(&b, "hf-peft", 1, 1024, 1);
  bench_model(&b, "llama3.2-1b");
  b.job.method = SPP_METHOD_QLORA;
  make_ideal(&b, 1e15);
  b.gpu.flops_per_s[SPP_DTYPE_FP32] = 1e14;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  struct spp_time wide = run(&b, &layout).time;
  b.framework.kbit_fp32 = false;
  struct spp_time narrow = run(&b, &layout).time;
  double head_s = 2 * 2.0 * 1024 * 2048 * 128256;
  expect_rel(wide.attention_s / narrow.attention_s, 10, 1e-9);
  expect_rel(wide.compute_s - narrow.compute_s, head_s * (1e-14 - 1e-15), 1e-6);
  bench_close(&b);
}

/* Rank 16 on q, k, v, o of 16 layers: widths 4,096, 2,560, 2,560, 4,096; A and B once forward and twice
 * backward at 1e14 FLOP/s, when no autocast makes them 16 bit, too narrow to count. */
static void fp32_adapters_multiply_in_fp32_without_autocast(void **state) {
  (void)state;
  struct bench b;
  bench_open(&b, "hf-peft", 1, 1024, 1);
  bench_model(&b, "llama3.2-1b");
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 16;
  b.job.lora_targets = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V | SPP_LORA_O;
  spp_model_sums_count(b.job.arch, b.job.lora_targets, &b.job.sums);
  make_ideal(&b, 1e15);
  b.gpu.flops_per_s[SPP_DTYPE_FP32] = 1e14;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.zero = 0;
  layout.recompute = SPP_RECOMPUTE_NONE;
  struct spp_time wide = run(&b, &layout).time;
  b.framework.lora_autocast = true;
  struct spp_time narrow = run(&b, &layout).time;
  expect_rel(wide.compute_s - narrow.compute_s, 16 * 3 * 2.0 * 1024 * 16 * (2 * 4096 + 2 * 2560) / 1e14,
             1e-6);
  bench_close(&b);
}

static void more_tokens_take_longer_and_fewer_seconds_each(void **state) {
  double last = 0, last_rate = 0;
  (void)state;
  for (int64_t batch = 16; batch <= 128; batch *= 2) {
    struct bench b;
    bench_open(&b, "megatron-lm", 16, 4096, batch);
    bench_model(&b, "llama3.1-8b");
    struct spp_request request = request_of(2, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    struct spp_time t = run(&b, &layout).time;
    expect_true(t.step_s > last && t.tokens_per_s > last_rate);
    last = t.step_s;
    last_rate = t.tokens_per_s;
    bench_close(&b);
  }
  last = 0;
  for (int64_t seq = 1024; seq <= 262144; seq *= 4) {
    struct bench b;
    bench_open(&b, "ms-swift", 8, seq, 8);
    bench_model(&b, "qwen2.5-7b");
    struct spp_request request = request_of(1, 1, 4, 1);
    struct spp_layout layout = layout_of(&b, &request);
    struct spp_time t = run(&b, &layout).time;
    double step = t.step_s; /* a step that waits for the host all along takes the same */
    expect_true(step > last || (step >= last * (1 - 1e-9) && t.host_s > 0.2 * step));
    last = step;
    bench_close(&b);
  }
}

/* A degree of one is no sequence parallelism, whatever its kind. */
static void degree_one_of_any_kind_is_none(void **state) {
  static const enum spp_sp_kind kinds[] = {SPP_SP_NONE, SPP_SP_ULYSSES, SPP_SP_RING, SPP_SP_ALLGATHER,
                                           SPP_SP_HYBRID};
  double first = 0;
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    struct bench b;
    bench_open(&b, "megatron-lm", 8, 8192, 8);
    bench_model(&b, "llama3.1-8b");
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.sp_kind = kinds[i];
    struct spp_time t = run(&b, &layout).time;
    if (i == 0) first = t.step_s;
    expect_rel(t.step_s, first, 0);
    expect_rel(t.sp_exposed_s, 0, 0);
    bench_close(&b);
  }
}

static void recompute_costs_a_forward_and_lora_saves_weight_gradients(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 4096, 8);
  bench_model(&b, "llama3.1-8b");
  struct spp_request request = request_of(1, 1, 1, 1);
  request.zero = 2;
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  double plain = run(&b, &layout).time.compute_s;
  layout.recompute = SPP_RECOMPUTE_FULL;
  double full = run(&b, &layout).time.compute_s;
  expect_true(full > plain * 1.2 &&
              full < plain * 1.4); /* forward, backward twice that, one more forward of the layers */
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 8;
  double lora = run(&b, &layout).time.compute_s;
  expect_true(lora < full);
  bench_close(&b);
}

/* ms-swift's ring repeats its forward inside backward; zhuzilin's does not. */
static void the_swift_ring_is_slower_than_zhuzilins(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "ms-swift", 8, 131072, 8);
  bench_model(&b, "qwen2.5-7b");
  struct spp_request request = request_of(1, 1, 4, 2);
  struct spp_layout layout = layout_of(&b, &request);
  b.job.ring_impl = SPP_RING_SWIFT;
  double swift = run(&b, &layout).time.attention_s;
  b.job.ring_impl = SPP_RING_ZHUZILIN;
  double zhuzilin = run(&b, &layout).time.attention_s;
  /* with full recompute: 1 + 1 + 2.5 + 1 forwards against 1 + 1 + 2.5, merges aside: at most 5.5 / 4.5 */
  expect_true(swift > zhuzilin * 1.1 && swift < zhuzilin * 5.6 / 4.5);
  bench_close(&b);
}

/* A host that takes a second for each launch, 32 layers, one forward and one backward: 9 launches for each of
 * 8 ring steps, 6 for each of 4 all-to-alls, 40 for each module recomputed by itself. */
static void exchanges_and_checkpoints_cost_the_host_their_launches(void **state) {
  static const struct {
    int64_t ulysses, ring;
    unsigned modules;
    double launches;
  } rows[] = {{1, 1, 0, 55},
              {1, 8, 0, 55 + 8 * 9},
              {8, 1, 0, 55 + 4 * 6},
              {4, 2, 0, 55 + 2 * 9 + 4 * 6},
              {1, 1, SPP_RC_CORE_ATTN | SPP_RC_MLP | SPP_RC_MOE, 55 + 2 * 40}};
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 8192, 8);
  b.framework.ring_needs_packing = false;
  bench_model(&b, "llama3.1-8b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = rows[i].modules ? SPP_RECOMPUTE_SELECTIVE : SPP_RECOMPUTE_NONE;
    layout.recompute_modules = rows[i].modules;
    layout.zero = 0;
    layout.ulysses = rows[i].ulysses;
    layout.ring = rows[i].ring;
    layout.dp = 8 / rows[i].ulysses / rows[i].ring;
    layout.grad_accum = rows[i].ulysses * rows[i].ring;
    layout.sp_kind = rows[i].ring > 1 ? rows[i].ulysses > 1 ? SPP_SP_HYBRID : SPP_SP_RING : SPP_SP_ULYSSES;
    double micro_batches = (double)layout.grad_accum;
    expect_note("Ulysses %d, ring %d", (int)rows[i].ulysses, (int)rows[i].ring);
    expect_rel(run(&b, &layout).time.step_s, micro_batches * 2 * 32 * rows[i].launches, 0.02);
  }
  bench_close(&b);
}

/* As above, in launches of a layer: 11 for each adapted linear of 7, as many for q and v alone as there are
 * two; unpacking a 4-bit weight 4 each way, 7 with two scales, 18 and none where autograd keeps it. */
static void adapters_and_packed_weights_cost_the_host_by_the_module(void **state) {
  static const struct {
    enum spp_method method;
    enum spp_quant quant;
    unsigned targets;
    double forward, backward;
  } rows[] = {{SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_ALL_LINEAR, 55 + 7 * 11, 55 + 7 * 11},
              {SPP_METHOD_LORA, SPP_QUANT_NF4, SPP_LORA_Q | SPP_LORA_V, 55 + 2 * 11, 55 + 2 * 11},
              {SPP_METHOD_QLORA, SPP_QUANT_NF4, SPP_LORA_Q, 55 + 11 + 7 * 4, 55 + 11 + 7 * 4},
              {SPP_METHOD_QLORA, SPP_QUANT_NF4_DOUBLE, SPP_LORA_Q, 55 + 11 + 7 * 7, 55 + 11 + 7 * 7},
              {SPP_METHOD_QLORA, SPP_QUANT_GPTQ4, SPP_LORA_Q, 55 + 11 + 7 * 18, 55 + 11}};
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 512, 8);
  bench_model(&b, "llama3.1-8b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = SPP_RECOMPUTE_NONE;
    layout.zero = 0;
    b.job.method = rows[i].method;
    b.job.quant = rows[i].quant;
    b.job.lora_rank = 8;
    spp_model_sums_count(b.job.arch, rows[i].targets, &b.job.sums);
    expect_note("row %d", (int)i);
    expect_rel(run(&b, &layout).time.step_s, 32 * (rows[i].forward + rows[i].backward), 0.02);
    layout.recompute = SPP_RECOMPUTE_FULL; /* a checkpoint's 40 in each of three passes */
    expect_rel(run(&b, &layout).time.step_s, 32 * (2 * rows[i].forward + rows[i].backward + 120), 0.02);
  }
  bench_close(&b);
}

/* In launches of a second: 60 for the unit of FSDP that a layer is, in each of two passes, as many for each A
 * and B of 7 adapted linears where they are units; 5 for each of 9 gradients handed to ZeRO-2, in backward
 * alone. */
static void hooks_of_sharded_states_cost_the_host_their_launches(void **state) {
  static const struct {
    const char *framework;
    int zero;
    bool adapters, units;
    double both_passes;
  } rows[] = {{"fsdp2", 0, false, false, 2 * 55},
              {"fsdp2", 3, false, false, 2 * (55 + 60)},
              {"fsdp2", 3, true, false, 2 * (55 + 77 + 60)},
              {"fsdp2", 3, true, true, 2 * (55 + 77 + 60 * 15)},
              {"deepspeed", 2, false, false, 2 * 55 + 5 * 9},
              {"deepspeed", 2, true, false, 2 * (55 + 77) + 5 * 14}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, rows[i].framework, 8, 512, 8);
    bench_model(&b, "llama3.1-8b");
    b.framework.host_s_per_layer = 55;
    b.framework.host_s_per_step = 0;
    b.framework.adapters_are_units = rows[i].units;
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    layout.recompute = SPP_RECOMPUTE_NONE;
    layout.zero = rows[i].zero;
    b.job.method = rows[i].adapters ? SPP_METHOD_LORA : SPP_METHOD_FULL;
    b.job.lora_rank = 8;
    spp_model_sums_count(b.job.arch, rows[i].adapters ? SPP_LORA_ALL_LINEAR : 0, &b.job.sums);
    expect_note("row %d", (int)i);
    expect_rel(run(&b, &layout).time.step_s, 32 * rows[i].both_passes, 0.02);
    bench_close(&b);
  }
}

/* 32 layers of 218,103,808 weights, 4 bits read and 16 written before each product; vLLM's GPTQ products read
 * the packed weights. */
static void weights_that_are_served_packed_are_unpacked_where_the_code_does(void **state) {
  static const struct {
    const char *framework;
    enum spp_quant quant;
    double bytes;
  } rows[] = {
      {"hf-generate", SPP_QUANT_NF4, 2.5}, {"vllm", SPP_QUANT_NF4, 2.5}, {"vllm", SPP_QUANT_GPTQ4, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct bench b;
    bench_open(&b, rows[i].framework, 1, 512, 1);
    bench_model(&b, "llama3.1-8b");
    b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
    b.job.quant = rows[i].quant;
    struct spp_request request = request_of(1, 1, 1, 1);
    struct spp_layout layout = layout_of(&b, &request);
    double plain = run(&b, &layout).time.compute_s;
    b.job.serves_quantised = true;
    double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_EAGER];
    expect_note("%s, row %d", rows[i].framework, (int)i);
    expect_near(run(&b, &layout).time.compute_s - plain, 32 * 218103808.0 * rows[i].bytes / bandwidth, 1e-9);
    bench_close(&b);
  }
}

/* Each of 32 layers gathers 14 matrices of adapters more, one by one: 8 x 4,096 elements of 16 bit, 7/8 of them from
 * other ranks. */
static void adapters_that_are_units_are_gathered_one_by_one(void **state) {
  struct bench b;
  double gather_s[2] = {0, 0};
  (void)state;
  bench_open(&b, "fsdp2", 8, 512, 8);
  bench_model(&b, "llama3.1-8b");
  b.job.method = SPP_METHOD_LORA;
  b.job.lora_rank = 8;
  spp_model_sums_count(b.job.arch, SPP_LORA_ALL_LINEAR, &b.job.sums);
  struct spp_request request = request_of(1, 1, 1, 1);
  request.zero = 3;
  struct spp_layout layout = layout_of(&b, &request);
  for (int units = 0; units < 2; units++) {
    b.framework.adapters_are_units = units;
    struct result r = run(&b, &layout);
    for (int i = 0; i < r.comm.count; i++)
      if (r.comm.ops[i].op == SPP_ALL_GATHER && r.comm.ops[i].pass == SPP_PASS_FORWARD)
        gather_s[units] += r.comm.ops[i].time_s;
  }
  double each = spp_collective_s(&b.gpu, &b.cluster, &b.calib, SPP_ALL_GATHER, 8, 1, 8 * 4096 * 2 * 7.0 / 8);
  expect_rel(gather_s[1] - gather_s[0], 32 * 14 * each, 1e-9);
  bench_close(&b);
}

/* 48 layers of 128 experts, 15 launches of a second for each expert; under ZeRO-3 30 more for each of its
 * three linears. The device waits for those of the forward, one expert after the other: it is busy for as
 * long. */
static void a_loop_over_experts_makes_the_device_wait(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "deepspeed", 8, 512, 8);
  bench_model(&b, "qwen3-30b-a3b");
  b.framework.host_s_per_layer = 55;
  b.framework.host_s_per_step = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  for (int zero = 0; zero <= 3; zero += 3) {
    /* two norms, q, k, v, o and the router beside the experts */
    double expert = 15 + (zero == 3 ? 3 * 30 : 0), rest = 55 + (zero == 3 ? 7 * 30 : 0);
    layout.zero = zero;
    struct spp_time t = run(&b, &layout).time;
    expect_rel(t.step_s, 48 * 2 * (rest + 128 * expert), 0.02);
    expect_rel(t.compute_s, 48 * 128 * expert, 0.02);
  }
  bench_close(&b);
}

/* Without experts' casts FP8 would cost a layer of experts nothing beyond its products: 4 bytes an element of
 * the rows that go into three products and of the gradients that come back from them. */
static void fp8_casts_the_rows_of_experts(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-lm", 8, 4096, 8);
  bench_model(&b, "qwen3-30b-a3b");
  b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
  b.gpu.flops_per_s[SPP_DTYPE_FP8] = b.gpu.flops_per_s[SPP_DTYPE_BF16];
  b.calib.fp8_ratio = 1;
  b.calib.launch_s = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  request.ep = 8;
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  double plain = run(&b, &layout).time.compute_s;
  b.job.dtype = SPP_DTYPE_FP8; /* at the rate of 16 bit, so that only casts are added */
  double fp8 = run(&b, &layout).time.compute_s;
  /* rows of 8 experts a token: 2048 in and 1536 out of gate and up, 768 and 2048 of down; q, k, v: 2048 and
   * 5120; o: 4096 and 2048; router: 2048 and 128 */
  double elements = 4096.0 * (8 * (2048 + 1536 + 768 + 2048) + 2048 + 5120 + 4096 + 2048 + 2048 + 128);
  double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_ACTIVATION];
  expect_rel(fp8 - plain, 48 * 4 * elements / bandwidth, 0.01);
  bench_close(&b);
}

/* 65,536 routed rows of 2,880: 28 bytes an element forward and 36 backward for the bias of the last product.
 */
static void biases_of_experts_are_added_apart(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-bridge", 8, 16384, 8);
  bench_model(&b, "gpt-oss-120b");
  b.framework.host_s_per_layer = b.framework.host_s_per_step = 0;
  b.calib.launch_s = 0;
  struct spp_request request = request_of(1, 1, 1, 1);
  request.ep = 8;
  struct spp_layout layout = layout_of(&b, &request);
  layout.recompute = SPP_RECOMPUTE_NONE;
  double with = run(&b, &layout).time.compute_s;
  b.arch.expert_bias = false;
  double elements = 4.0 * 16384 * 2880;
  double bandwidth = b.gpu.memory_bytes_per_s * b.calib.memory_share[SPP_MEMORY_EAGER];
  expect_rel(with - run(&b, &layout).time.compute_s, 36 * (28 + 36) * elements / bandwidth, 1e-6);
  bench_close(&b);
}

/* A published run with every knob printed: Llama-3 8B in FP8 on 8 H100, context parallel 2, 128 sequences of
 * 8192, 13,812 tokens per second and GPU (NVIDIA/Megatron-LM examples/llama/README.md). The band is the
 * model's own 80 % interval for it. */
static void a_published_run_is_met_within_a_fifth(void **state) {
  struct bench b;
  (void)state;
  bench_open(&b, "megatron-lm", 8, 8192, 128);
  bench_model(&b, "llama3.1-8b");
  b.job.dtype = SPP_DTYPE_FP8;
  struct spp_request request = request_of(1, 1, 1, 2);
  request.recompute = SPP_RECOMPUTE_NONE;
  struct spp_layout layout = layout_of(&b, &request);
  expect_rel(run(&b, &layout).time.tokens_per_s_per_gpu, 13812, 0.2);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pipeline_bubbles_are_the_textbook_ones),
      cmocka_unit_test(a_contiguous_ring_reaches_eight_fifteenths),
      cmocka_unit_test(ring_hops_hide_from_the_derived_chunk_length_on),
      cmocka_unit_test(the_optimizer_step_is_bound_by_its_bytes),
      cmocka_unit_test(the_parts_sum_to_the_step_and_bound_it),
      cmocka_unit_test(better_hardware_is_never_slower),
      cmocka_unit_test(more_tokens_take_longer_and_fewer_seconds_each),
      cmocka_unit_test(degree_one_of_any_kind_is_none),
      cmocka_unit_test(recompute_costs_a_forward_and_lora_saves_weight_gradients),
      cmocka_unit_test(the_swift_ring_is_slower_than_zhuzilins),
      cmocka_unit_test(exchanges_and_checkpoints_cost_the_host_their_launches),
      cmocka_unit_test(adapters_and_packed_weights_cost_the_host_by_the_module),
      cmocka_unit_test(hooks_of_sharded_states_cost_the_host_their_launches),
      cmocka_unit_test(adapters_that_are_units_are_gathered_one_by_one),
      cmocka_unit_test(weights_that_are_served_packed_are_unpacked_where_the_code_does),
      cmocka_unit_test(a_loop_over_experts_makes_the_device_wait),
      cmocka_unit_test(fp8_casts_the_rows_of_experts),
      cmocka_unit_test(biases_of_experts_are_added_apart),
      cmocka_unit_test(a_base_prepared_in_fp32_pays_for_attention_and_head),
      cmocka_unit_test(fp32_adapters_multiply_in_fp32_without_autocast),
      cmocka_unit_test(a_published_run_is_met_within_a_fifth),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
