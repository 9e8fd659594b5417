/* Communication volumes against hand-worked numbers. Sources of the formulas stand in model/comm_*.c. */
#include "tests/expect.h"

#include "model/comm.h"

/* A case: everything the volumes depend on, filled by hand so that the arithmetic below is the whole story.
 */
struct fixture {
  struct spp_arch arch;
  struct spp_framework framework;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry g;
  struct spp_stage stage;
  struct spp_comm comm;
};

static void fixture_init(struct fixture *f, int64_t tokens, int64_t q_width, int64_t k_width,
                         int64_t hidden) {
  memset(f, 0, sizeof *f);
  f->arch.kind_count = 1;
  f->arch.hidden = hidden;
  f->arch.heads = 8;
  f->arch.kv_heads = 2;
  f->framework.kernels = SPP_KERNELS_FUSED;
  for (int z = 0; z < 4; z++)
    f->framework.states[z] = (struct spp_states){.weight_bytes = 2, .gather_bytes = 2, .grad_bytes = 2};
  for (int z = 1; z < 4; z++)
    f->framework.states[z].shard_optimizer = true;
  f->framework.states[2].shard_grads = f->framework.states[3].shard_grads = true;
  f->framework.states[3].shard_weights = true;
  f->job = (struct spp_job){.arch = &f->arch,
                            .framework = &f->framework,
                            .dtype = SPP_DTYPE_BF16,
                            .overlap = SPP_UNSET,
                            .grads_bytes = SPP_UNSET,
                            .fp8_params = SPP_UNSET,
                            .ring_impl = SPP_RING_ZHUZILIN};
  f->layout = spp_layout_plain();
  f->g = (struct spp_geometry){.tp = 1,
                               .pp = 1,
                               .vpp = 1,
                               .dp = 1,
                               .ep = 1,
                               .etp = 1,
                               .su = 1,
                               .sr = 1,
                               .sp = 1,
                               .m = 1,
                               .pieces = 1,
                               .head_groups = 1,
                               .tokens = tokens,
                               .piece_tokens = tokens,
                               .stream_tokens = tokens,
                               .kv_repeat = 1,
                               .shard_group = 1,
                               .dense_group = 1,
                               .expert_group = 1,
                               .q_width = q_width,
                               .o_width = q_width,
                               .k_width = k_width,
                               .v_width = k_width,
                               .ring_block_bytes = 2 * 2 * tokens * k_width};
  f->stage = (struct spp_stage){.first = true, .last = true, .layers = 1, .kind_layers = {1}};
}
static void run(struct fixture *f) {
  spp_comm_predict_stage(&f->job, &f->layout, &f->g, &f->stage, &f->comm);
}
static void set_ulysses(struct fixture *f, int64_t su) {
  f->g.su = f->layout.ulysses = su;
}
static void set_ring(struct fixture *f, int64_t sr, enum spp_ring_impl impl) {
  f->g.sr = f->layout.ring = sr;
  f->job.ring_impl = impl;
}
static const struct spp_comm_op *find(const struct fixture *f, const char *what, enum spp_pass pass) {
  for (int i = 0; i < f->comm.count; i++)
    if (!strcmp(f->comm.ops[i].what, what) && f->comm.ops[i].pass == pass) return &f->comm.ops[i];
  expect_note("no op '%s' in pass %d", what, (int)pass);
  expect_true(false);
  return NULL;
}
static int64_t sum(const struct fixture *f, enum spp_group group, enum spp_pass pass) {
  int64_t bytes = 0;
  for (int i = 0; i < f->comm.count; i++)
    if (f->comm.ops[i].group == group && f->comm.ops[i].pass == pass)
      bytes += f->comm.ops[i].sent_bytes * f->comm.ops[i].count_per_step;
  return bytes;
}

/* Qwen2.5-7B: dq = 3584, dk = 512, S = 32768, 16-bit; one layer, one rank. Arithmetic in the comment of each
 * row. */
static void qwen7b_volumes_at_32k(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t su, sr;
    enum spp_ring_impl impl;
    int64_t tokens, ulysses, ring_forward, ring_backward;
  } rows[] = {
      /* 2*T*(su-1)/su*(2*3584+2*512) = 2*16384/2*8192 */
      {"ulysses 2", 2, 1, SPP_RING_ZHUZILIN, 16384, 134217728, 0, 0},
      {"ulysses 4", 4, 1, SPP_RING_ZHUZILIN, 8192, 100663296, 0, 0}, /* 2*8192*3/4*8192 */
      /* KVB = 4*8192*512 = 16777216; 3 KVB; te backward 6 KVB; zhuzilin 3 KVB + 4*2 KVB */
      {"ring 4 te", 1, 4, SPP_RING_TE, 8192, 0, 50331648, 100663296},
      {"ring 4 zhuzilin", 1, 4, SPP_RING_ZHUZILIN, 8192, 0, 50331648, 184549376},
      {"ring 8 te", 1, 8, SPP_RING_TE, 4096, 0, 58720256, 117440512},             /* KVB 8388608: 7, 14 */
      {"ring 8 zhuzilin", 1, 8, SPP_RING_ZHUZILIN, 4096, 0, 58720256, 192937984}, /* 7 + 8*2 = 23 KVB */
      /* ms-swift 8 = 4x2: a2a 2*4096*3/4*8192; ring KVB, backward 2*1 + 2*2 = 6 KVB */
      {"swift 4x2", 4, 2, SPP_RING_SWIFT, 4096, 50331648, 8388608, 50331648},
      {"te 4x2", 4, 2, SPP_RING_TE, 4096, 50331648, 8388608, 16777216},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    expect_note("%s", rows[i].name);
    fixture_init(&f, rows[i].tokens, 3584, 512, 3584);
    set_ulysses(&f, rows[i].su);
    set_ring(&f, rows[i].sr, rows[i].impl);
    run(&f);
    expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_ULYSSES], rows[i].ulysses);
    expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_ULYSSES], rows[i].ulysses);
    expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_RING], rows[i].ring_forward);
    expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_RING], rows[i].ring_backward);
    /* ops say the same as the per-layer figures */
    expect_i64(sum(&f, SPP_GROUP_ULYSSES, SPP_PASS_BACKWARD), rows[i].ulysses);
    expect_i64(sum(&f, SPP_GROUP_RING, SPP_PASS_FORWARD), rows[i].ring_forward);
    expect_i64(sum(&f, SPP_GROUP_RING, SPP_PASS_BACKWARD), rows[i].ring_backward);
  }
}

/* TINY: T = 32, dq = 128, dk = 32. */
static void tiny_ulysses_messages(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  set_ulysses(&f, 2);
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_ULYSSES], 10240); /* 64*1/2*(256+64) */
  static const struct {
    const char *what;
    int64_t bytes;
  } one_peer[] = {{"q", 4096}, {"k", 1024}, {"v", 1024}, {"attention output", 4096}};
  for (size_t i = 0; i < 4; i++) {
    const struct spp_comm_op *op = find(&f, one_peer[i].what, SPP_PASS_FORWARD);
    expect_i64(op->messages, 1);
    expect_i64(op->message_bytes, one_peer[i].bytes);
  }
}

static void tiny_ring_and_allgather(void **state) {
  (void)state;
  static const struct {
    enum spp_ring_impl impl;
    int64_t backward, backward_messages;
  } rows[] = {{SPP_RING_ZHUZILIN, 45056, 2 * 3 + 2 * 4}, /* KVB 4096: 3 KVB + 4*2 KVB */
              {SPP_RING_TE, 24576, 4},                   /* 6 KVB in sr messages */
              {SPP_RING_SWIFT, 57344, 4 * 3 + 2 * 4}};   /* 3 + 3 + 8 KVB */
  for (size_t i = 0; i < 3; i++) {
    struct fixture f;
    expect_note("%s", spp_ring_impl_name(rows[i].impl));
    fixture_init(&f, 32, 128, 32, 64);
    set_ring(&f, 4, rows[i].impl);
    run(&f);
    expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_RING], 12288);
    expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_RING], rows[i].backward);
    int64_t messages = 0;
    for (int k = 0; k < f.comm.count; k++)
      if (f.comm.ops[k].pass == SPP_PASS_BACKWARD && f.comm.ops[k].group == SPP_GROUP_RING)
        messages += f.comm.ops[k].messages;
    expect_i64(messages, rows[i].backward_messages);
  }
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  set_ring(&f, 4, SPP_RING_TE);
  f.layout.sp_kind = SPP_SP_ALLGATHER;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_RING], 12288);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_RING], 24576);
  expect_i64(sum(&f, SPP_GROUP_RING, SPP_PASS_BACKWARD), 24576);
}

/* ALST with 8 ranks on 2 KV heads: rep 4; T = 8: 16*7/8*(256+256). */
/* Two groups of heads: as many bytes in twice the gathers (ring_flash_attn llama3_flash_attn_varlen.py). */
static void groups_of_heads_are_gathered_one_by_one(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  f.layout.sp_kind = SPP_SP_ALLGATHER;
  f.g.sr = f.layout.ring = 4;
  run(&f);
  int64_t bytes = f.comm.layer_forward_bytes[SPP_GROUP_RING],
          message = find(&f, "k", SPP_PASS_FORWARD)->message_bytes;
  int64_t scattered = sum(&f, SPP_GROUP_RING, SPP_PASS_BACKWARD);
  expect_i64(message, 2048); /* 32 tokens of 32 columns in 16 bit */
  f.g.head_groups = 2;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_RING], bytes);
  expect_i64(sum(&f, SPP_GROUP_RING, SPP_PASS_BACKWARD), scattered);
  expect_i64(find(&f, "k", SPP_PASS_FORWARD)->message_bytes, message / 2);
  expect_i64(find(&f, "dk", SPP_PASS_BACKWARD)->count_per_step, 2);
}

static void replicated_kv_heads_travel_too(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 8, 128, 32, 64);
  set_ulysses(&f, 8);
  f.g.kv_repeat = 4;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_ULYSSES], 7168);
}

static void full_recompute_repeats_the_forward_exchange(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  set_ulysses(&f, 2);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  run(&f);
  expect_i64(sum(&f, SPP_GROUP_ULYSSES, SPP_PASS_RECOMPUTE), 10240);
  expect_i64(f.comm.sent_bytes_per_step, 3 * 10240);
  f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  f.layout.recompute_modules = SPP_RC_MLP;
  run(&f);
  expect_i64(sum(&f, SPP_GROUP_ULYSSES, SPP_PASS_RECOMPUTE), 0);
  f.layout.recompute_modules = SPP_RC_CORE_ATTN;
  run(&f);
  expect_i64(sum(&f, SPP_GROUP_ULYSSES, SPP_PASS_RECOMPUTE), 10240);
}

/* tp = 4, T = 4096, h = 3584: X = 3/4 * 2 * 4096 * 3584 = 22,020,096. Without SP 4X each way; with SP 4X and
 * 6X. */
static void tensor_parallel_volumes(void **state) {
  (void)state;
  const int64_t x = 22020096;
  struct fixture f;
  fixture_init(&f, 4096, 896, 128, 3584);
  f.g.tp = f.layout.tp = 4;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 4 * x);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 4 * x);
  f.layout.megatron_sp = true;
  f.g.stream_tokens = 1024;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 4 * x);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 6 * x);
  f.job.method = SPP_METHOD_LORA; /* frozen weights: no second gather for a weight gradient */
  run(&f);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 4 * x);
}

/* x as above. FP8: a gather moves half of x, a scatter all: forward 2 (x/2 + x), backward 2 (x/2 + x + x/2).
 * NVFP4: 9/16 byte an element, 9/32 of x; its gathers run beside no product. */
static void narrow_products_gather_their_codes(void **state) {
  (void)state;
  const int64_t x = 22020096;
  struct fixture f;
  fixture_init(&f, 4096, 896, 128, 3584);
  f.framework.sharding = SPP_SHARDING_MEGATRON;
  f.framework.overlap_tp = true;
  f.g.tp = f.layout.tp = 4;
  f.layout.megatron_sp = true;
  f.job.dtype = SPP_DTYPE_FP8;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 3 * x);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 4 * x);
  expect_i64(find(&f, "mlp input", SPP_PASS_FORWARD)->overlap, SPP_OVERLAP_GEMM);
  f.job.fp4 = true;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 2 * x + 2 * (9 * x / 32));
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 2 * x + 4 * (9 * x / 32));
  expect_i64(find(&f, "mlp input", SPP_PASS_FORWARD)->overlap, SPP_OVERLAP_NONE);
  f.framework.sharding = SPP_SHARDING_FSDP; /* DTensor gathers before it casts */
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 4 * x);
}

/* DeepSeek-V3: tp = 4, T = 4096: 3/4 * 2 * 4096 = 6144 an element of width; h = 7168: x = 44,040,192; latents
 * of 1536 and 512, shared part of the key 64: 9,437,184 + 3,145,728 + 393,216 = 12,976,128. Without SP
 * attention's output and the MLP's are summed, 4x; backward the latents and the MLP's input, 2 * 12,976,128 +
 * 2x. With SP the latents are gathered, 3x + 12,976,128; backward scattered, and gathered again but for the
 * shared part: 4x + 12,976,128 + 12,582,912. */
static void latents_travel_instead_of_the_stream(void **state) {
  (void)state;
  const int64_t x = 44040192, latents = 12976128;
  struct fixture f;
  fixture_init(&f, 4096, 896, 128, 7168);
  f.arch.attention = SPP_ATTENTION_MLA;
  f.arch.q_lora_rank = 1536;
  f.arch.kv_lora_rank = 512;
  f.arch.qk_rope_dim = 64;
  f.g.tp = f.layout.tp = 4;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 4 * x);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 2 * latents + 2 * x);
  f.layout.megatron_sp = true;
  f.g.stream_tokens = 1024;
  run(&f);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 3 * x + latents);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 4 * x + latents + 12582912);
}

/* Mixtral: T = 4096, k = 2, h = 4096, ep = 8: payload 7/8 * 2*4096*2*4096 = 58,720,256; probabilities 7/8 *
 * 4*4096*2 = 28,672. */
static void expert_dispatch_volumes(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 4096, 4096, 1024, 4096);
  f.arch.experts = 8;
  f.arch.experts_per_token = 2;
  f.arch.kinds[0].moe = true;
  f.g.ep = f.layout.ep = 8;
  run(&f);
  expect_i64(find(&f, "dispatched tokens", SPP_PASS_FORWARD)->sent_bytes, 58720256);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_EP], 2 * 58720256 + 28672);
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_EP], 2 * 58720256 + 28672);
}

/* Qwen1.5-MoE-A2.7B on TP 2 with sequence parallelism: the shared expert gathers and scatters 4096 tokens of
 * 2048 wide 16-bit elements like a dense MLP: 1/2 * 2*4096*2048 = 8,388,608 bytes a rank. In backward the
 * gradient of its output is gathered, that of its input scattered, and the input gathered again. Nothing of
 * the kind around routed experts; with shared_experts recomputed, forward's two again. */
static void shared_experts_are_cut_like_an_mlp(void **state) {
  (void)state;
  struct fixture f;
  const int64_t half = 8388608;
  fixture_init(&f, 4096, 1024, 1024, 2048);
  f.arch.experts = 60;
  f.arch.experts_per_token = 4;
  f.arch.shared_experts = 1;
  f.arch.kinds[0].moe = true;
  f.g.tp = f.layout.tp = 2;
  f.g.stream_tokens = 2048;
  f.layout.megatron_sp = true;
  f.layout.recompute = SPP_RECOMPUTE_SELECTIVE;
  f.layout.recompute_modules = SPP_RC_SHARED_EXPERTS;
  run(&f);
  static const enum spp_pass forward[] = {SPP_PASS_FORWARD, SPP_PASS_RECOMPUTE};
  for (int i = 0; i < 2; i++) {
    expect_i64(find(&f, "shared expert input", forward[i])->op, SPP_ALL_GATHER);
    expect_i64(find(&f, "shared expert input", forward[i])->sent_bytes, half);
    expect_i64(find(&f, "shared expert output", forward[i])->op, SPP_REDUCE_SCATTER);
    expect_i64(find(&f, "shared expert output", forward[i])->sent_bytes, half);
  }
  expect_i64(find(&f, "shared expert output", SPP_PASS_BACKWARD)->op, SPP_ALL_GATHER);
  for (int i = 0; i < f.comm.count; i++)
    expect_true(strcmp(f.comm.ops[i].what, "mlp input") != 0);
  expect_i64(f.comm.layer_forward_bytes[SPP_GROUP_TP], 4 * half);  /* with attention's */
  expect_i64(f.comm.layer_backward_bytes[SPP_GROUP_TP], 6 * half); /* of each three */
}

/* P = 7,615,616,512 elements, d = 8. ZeRO-2, m = 4: 7/8*2P*(4+1); ZeRO-3, m = 4: 7/8*6P*4. All in one outer
 * weight. */
static void sharded_state_volumes(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  f.job.sums.head.split = 7615616512;
  f.g.dense_group = f.g.shard_group = 8;
  f.g.m = 4;
  f.layout.zero = 2;
  run(&f);
  expect_i64(f.comm.sent_bytes_per_step, 66636644480);
  f.layout.zero = 3;
  run(&f);
  expect_i64(f.comm.sent_bytes_per_step, 159927946752);
  f.layout.zero = 1; /* one scatter, one gather, whatever m */
  run(&f);
  expect_i64(f.comm.sent_bytes_per_step, 2 * 7615616512 / 8 * 7 * 2);
  f.layout.zero = 0; /* all-reduce: 2*(d-1)/d */
  run(&f);
  expect_i64(f.comm.sent_bytes_per_step, 2 * 7615616512 / 8 * 7 * 2);
}

/* 2^20 weights, half of them of narrow products, 8 ranks. Updated ones come back in 2 bytes: 7/8 * 2^21; of
 * FP8 without a 16-bit copy in 1: 7/8 * (2^20 + 2^19); on Blackwell in 2 again; of NVFP4 in pairs: 7/8 *
 * (2^20 + 2^18). Sharded ones are gathered as they are kept, with NVFP4's scales. */
static void weights_without_a_16_bit_copy_travel_narrow(void **state) {
  (void)state;
  const int64_t n = 1 << 20;
  const struct {
    bool fp8_params, fp4;
    int capability, zero;
    int64_t bytes;
  } rows[] = {{false, false, 90, 1, 2 * n},     {true, false, 90, 1, n + n / 2},
              {true, false, 100, 1, 2 * n},     {true, true, 100, 1, n + n / 4},
              {true, false, 100, 3, n + n / 2}, {true, true, 100, 3, n + 9 * n / 32}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    struct spp_gpu gpu = {.compute_capability = rows[i].capability};
    fixture_init(&f, 32, 128, 32, 64);
    f.job.gpu = &gpu;
    f.job.dtype = SPP_DTYPE_FP8;
    f.job.fp4 = rows[i].fp4;
    f.framework.fp8_params = rows[i].fp8_params;
    f.job.sums.kinds[0] = (struct spp_weight_sums){.split = n, .quantised = n / 2};
    f.g.dense_group = f.g.shard_group = 8;
    f.layout.zero = rows[i].zero;
    run(&f);
    enum spp_pass pass = rows[i].zero == 3 ? SPP_PASS_FORWARD : SPP_PASS_STEP;
    expect_i64(find(&f, "parameters", pass)->sent_bytes, rows[i].bytes / 8 * 7);
  }
}

static void lora_reduces_adapters_and_stage3_still_gathers_the_base(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  f.job.method = SPP_METHOD_LORA;
  f.job.lora_rank = 8;
  f.job.sums.kinds[0] = (struct spp_weight_sums){.split = 1 << 20, .lora_split = 1000, .lora_replicated = 24};
  f.g.dense_group = f.g.shard_group = 8;
  f.layout.zero = 3;
  run(&f);
  expect_i64(find(&f, "gradients", SPP_PASS_BACKWARD)->sent_bytes, 2 * 8 * 1024 / 8 * 7);
  expect_i64(find(&f, "parameters", SPP_PASS_FORWARD)->sent_bytes, (1 << 21) / 8 * 7);
}

/* Middle stages send both ways, the first only forward, the last only back; interleaving multiplies by vpp.
 */
static void pipeline_sends(void **state) {
  (void)state;
  static const struct {
    bool first, last;
    int64_t vpp, forward, backward;
  } rows[] = {{true, false, 1, 1, 0},
              {false, false, 1, 1, 1},
              {false, true, 1, 0, 1},
              {true, false, 2, 2, 1},
              {false, true, 2, 1, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct fixture f;
    fixture_init(&f, 32, 128, 32, 64);
    f.g.pp = f.layout.pp = 4;
    f.g.vpp = rows[i].vpp;
    f.g.m = 8;
    f.stage.first = rows[i].first;
    f.stage.last = rows[i].last;
    run(&f);
    expect_i64(sum(&f, SPP_GROUP_PP, SPP_PASS_FORWARD), rows[i].forward * 8 * 32 * 64 * 2);
    expect_i64(sum(&f, SPP_GROUP_PP, SPP_PASS_BACKWARD), rows[i].backward * 8 * 32 * 64 * 2);
  }
}

static void one_rank_sends_nothing(void **state) {
  (void)state;
  struct fixture f;
  fixture_init(&f, 32, 128, 32, 64);
  f.job.sums.head.split = 1 << 20;
  run(&f);
  expect_i64(f.comm.count, 0);
  expect_i64(f.comm.sent_bytes_per_step, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(qwen7b_volumes_at_32k),
      cmocka_unit_test(tiny_ulysses_messages),
      cmocka_unit_test(tiny_ring_and_allgather),
      cmocka_unit_test(groups_of_heads_are_gathered_one_by_one),
      cmocka_unit_test(replicated_kv_heads_travel_too),
      cmocka_unit_test(full_recompute_repeats_the_forward_exchange),
      cmocka_unit_test(tensor_parallel_volumes),
      cmocka_unit_test(narrow_products_gather_their_codes),
      cmocka_unit_test(latents_travel_instead_of_the_stream),
      cmocka_unit_test(expert_dispatch_volumes),
      cmocka_unit_test(shared_experts_are_cut_like_an_mlp),
      cmocka_unit_test(sharded_state_volumes),
      cmocka_unit_test(weights_without_a_16_bit_copy_travel_narrow),
      cmocka_unit_test(lora_reduces_adapters_and_stage3_still_gathers_the_base),
      cmocka_unit_test(pipeline_sends),
      cmocka_unit_test(one_rank_sends_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
