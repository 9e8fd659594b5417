/* Public threads with known outcomes, as jobs. Ids and sources: docs/cases.md. */
#include <stdlib.h>

#include "model/launch.h"
#include "tests/cases/job_text.h"

/* Quantities a case speaks of, in bytes unless the name says otherwise. */
static double checkpoint(const struct text_job *t) {
  return (double)t->prediction.memory.checkpoint_bytes[0];
}
static double all_checkpoints(const struct text_job *t) {
  return checkpoint(t) * (double)t->job.arch->layers;
}
static double kept_all_layers(const struct text_job *t) {
  return (double)t->prediction.memory.kept_bytes[0] * (double)t->job.arch->layers;
}
static double kept(const struct text_job *t) {
  return (double)t->prediction.memory.kept_bytes[0];
}
static double device(const struct text_job *t) {
  return (double)t->prediction.memory.device_bytes;
}
static double peak(const struct text_job *t) {
  return (double)t->prediction.memory.peak_bytes;
}
static double kv_cache(const struct text_job *t) {
  return (double)t->prediction.memory.parts[SPP_PART_KV_CACHE];
}
static double weights(const struct text_job *t) {
  return (double)t->prediction.memory.resident[SPP_PART_WEIGHTS];
}
static double states(const struct text_job *t) {
  const int64_t *r = t->prediction.memory.resident;
  return (double)(r[SPP_PART_WEIGHTS] + r[SPP_PART_GRADIENTS] + r[SPP_PART_MASTER] + r[SPP_PART_OPTIMIZER]);
}
static double step_s(const struct text_job *t) {
  return t->prediction.time.step_s;
}
static double load(const struct text_job *t) {
  return (double)t->prediction.memory.phase_bytes[SPP_PHASE_LOAD];
}
static double ulysses(const struct text_job *t) {
  return (double)t->layout.ulysses;
}
static double samples_per_pass(const struct text_job *t) {
  return (double)(t->layout.dp * t->layout.micro_batch);
}
static double padded_tokens(const struct text_job *t) {
  return (double)t->prediction.geometry.padded_tokens;
}
/* One fp32 copy of every logit the rank makes. */
static double fp32_logits(const struct text_job *t) {
  return 4.0 * (double)t->prediction.geometry.tokens * (double)t->prediction.geometry.vocab_local;
}
static double logits(const struct text_job *t) {
  return (double)t->prediction.memory.logits_bytes;
}

#define GIB 1073741824.0
#define MIB 1048576.0

/* least <= value <= most, and not NaN. */
static void expect_in(double value, double least, double most) {
  expect_near(value, (least + most) / 2, (most - least) / 2 + 1e-9 * most);
}

/* One job and one number, within 1 %. */
static const struct {
  const char *id, *job;
  double (*quantity)(const struct text_job *t);
  double expected;
} sizes[] = {
    /* a layer input at SP 8 is 4096*5120*2 = 40 MiB; the thread's 64 layers x 5120 */
    {"U002", "model=qwen3-32b framework=verl seq=32k gpus=8 ulysses=8 recompute=full", checkpoint, 40 * MIB},
    {"U005",
     "model=qwen2.5-7b framework=llama-factory gpu=a100-80gb seq=32k gpus=64 mode=dpo method=lora "
     "lora_rank=32 zero=3",
     fp32_logits, 37.1 * GIB},
    {"U006", "model=qwen2-7b framework=llama-factory gpu=a800-80gb seq=32k gpus=8 method=lora zero=3",
     fp32_logits, 18.6 * GIB},
    {"U008",
     "model=llama3-8b framework=llama-factory gpu=a100-80gb seq=64k gpus=1 method=qlora lora_targets=q+v "
     "zero=0",
     fp32_logits, 31.3 * GIB},
    /* 32.76e9 * 16 B / 8 */
    {"U026", "model=qwen2.5-32b framework=ms-swift gpu=h20-96gb seq=16384 gpus=8 zero=3", states, 65.5e9},
    {"U029", "model=llama3-8b framework=ms-swift gpu=rtx-4090 seq=8192 gpus=4 method=lora zero=3",
     fp32_logits, 3.914 * GIB},
    {"U057", "model=qwen3-8b framework=fsdp2 seq=128k gpus=1 recompute=full", all_checkpoints, 36 * GIB},
    {"U064", "model=llama2-7b framework=axolotl seq=2999 gpus=4 sp_kind=ring ring=4", padded_tokens, 3000},
    /* 13.7 GiB per fp32 copy */
    {"U085", "model=gemma3-12b framework=fsdp2 seq=14000 gpus=1 method=lora", fp32_logits, 13.7 * GIB},
    /* the thread names no model; 48 layers of 4 KV heads of 128 in one byte give its 49,152 bytes a token
       twice over */
    {"U094 needed", "model=qwen3-30b-a3b framework=vllm seq=221000 gpus=1 mode=infer kv_dtype=fp8", kv_cache,
     10.12 * GIB},
    {"U094 available", "model=qwen3-30b-a3b framework=vllm seq=230528 gpus=1 mode=infer kv_dtype=fp8",
     kv_cache, 10.55 * GIB},
    /* 4 KV heads and SP 6: Ulysses 2 x ring 3 */
    {"U021 split", "model=qwen3-30b-a3b framework=ms-swift seq=12000 gpus=6 sp=6 packing=true zero=3",
     ulysses, 2},
    {"U093", "model=qwen3-coder-30b-a3b framework=vllm seq=262144 gpus=1 mode=infer", kv_cache, 24.0 * GIB},
    /* the estimator's 2 + 18/N bytes a parameter with N = 8 (DeepSpeed PR 5099): resident 2 + 14/8, the
     * step's fp32 gradient copy 4/8 apart */
    {"U078", "model=llama3.1-8b framework=deepspeed seq=4096 gpus=8 zero=2", states,
     8030261248.0 * (2 + 14 / 8.0)},
    {"U095", "model=llama3.1-8b framework=vllm seq=1024 gpus=1 mode=infer", kv_cache, 1024 * 131072.0},
};

static void sizes_are_within_one_percent(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    expect_note("%s: %s", sizes[i].id, sizes[i].job);
    struct text_job *t = text_job_run(sizes[i].job, 0);
    expect_str(t->violation.rule, "");
    expect_rel(sizes[i].quantity(t), sizes[i].expected, 0.01);
    text_job_free(t);
  }
}

/* Does it fit? host_gib 0: the usual node. */
static const struct {
  const char *id, *job;
  double host_gib;
  bool fits;
} verdicts[] = {
    {"U005",
     "model=qwen2.5-7b framework=llama-factory gpu=a100-80gb seq=32k gpus=64 mode=dpo method=lora "
     "lora_rank=32 zero=3 "
     "offload=optimizer+params",
     0, false},
    {"U005 SP 4",
     "model=qwen2.5-7b framework=llama-factory gpu=a100-80gb seq=32k gpus=64 mode=dpo method=lora "
     "lora_rank=32 zero=3 "
     "offload=optimizer+params ulysses=4",
     0, true},
    {"U006 fused",
     "model=qwen2-7b framework=llama-factory gpu=a800-80gb seq=32k gpus=8 method=lora zero=3 loss=fused "
     "offload=optimizer+params",
     0, true},
    {"U008",
     "model=llama3-8b framework=llama-factory gpu=a100-80gb seq=102400 gpus=1 method=qlora lora_targets=q+v "
     "zero=0",
     0, false},
    {"U011",
     "model=qwen-72b framework=llama-factory-2024 gpu=a100-80gb seq=12288 gpus=96 global_batch=96 mode=dpo "
     "zero=3 "
     "offload=optimizer+params",
     0, false},
    {"U011 6k",
     "model=qwen-72b framework=llama-factory-2024 gpu=a100-80gb seq=6144 gpus=96 global_batch=96 mode=dpo "
     "zero=3 "
     "offload=optimizer+params",
     0, true},
    /* 744 GB of RAM against 32.8e9 * 18 * 1.5 = 885 GB */
    {"U013",
     "model=qwen2.5-32b framework=llama-factory gpu=h100-94gb-nvl seq=2048 gpus=1 zero=3 "
     "offload=optimizer+params",
     692.9, false},
    {"U006",
     "model=qwen2-7b framework=llama-factory-2024 gpu=a800-80gb seq=32k gpus=8 method=lora zero=3 "
     "offload=optimizer+params",
     0, false},
    {"U014", "model=qwen2.5-3b framework=llama-factory-2024 gpu=rtx-3090 seq=512 gpus=4 zero=2", 0, false},
    {"U014 then zero3", "model=qwen2.5-3b framework=llama-factory-2024 gpu=rtx-3090 seq=512 gpus=4 zero=3", 0,
     true},
    {"U014 zero3", "model=qwen2.5-3b framework=llama-factory gpu=rtx-3090 seq=512 gpus=4 zero=3", 0, true},
    {"U015", "model=baichuan2-13b framework=llama-factory gpu=a800-80gb seq=1536 gpus=4 zero=2", 0, false},
    {"U015 zero3", "model=baichuan2-13b framework=llama-factory gpu=a800-80gb seq=1536 gpus=4 zero=3", 0,
     true},
    {"U026", "model=qwen2.5-32b framework=ms-swift gpu=h20-96gb seq=16384 gpus=2 zero=3", 0, false},
    {"U027", "model=qwen3-8b framework=ms-swift gpu=h20-96gb seq=3000 gpus=1 zero=3", 0, false},
    {"U027 8k", "model=qwen3-8b framework=ms-swift gpu=h20-96gb seq=8000 gpus=1 zero=3", 0, false},
    {"U029 SP 4",
     "model=llama3-8b framework=ms-swift gpu=rtx-4090 seq=8192 gpus=4 method=lora zero=3 sp=4 "
     "loss=hf-shifted",
     0, true},
    {"U062", "model=llama3.1-8b framework=axolotl seq=256k gpus=8 zero=3", 0, false},
    {"U079", "model=qwen2.5-32b framework=deepspeed seq=8192 gpus=2 zero=3 ulysses=2", 0, false},
    {"U082",
     "model=mistral-7b-v0.3 framework=deepspeed seq=128k gpus=8 mode=dpo zero=3 ulysses=8 loss=fused "
     "recompute=full "
     "offload=optimizer+activations",
     0, true},
    {"U087", "model=llama3-8b framework=fsdp2 gpu=rtx-4090 seq=2048 gpus=1 method=lora zero=0", 0, true},
    {"U087 8k", "model=llama3-8b framework=fsdp2 gpu=rtx-4090 seq=8192 gpus=1 method=lora zero=0", 0, false},
    {"U088",
     "model=qwen3-4b framework=ms-swift gpu=a100-80gb seq=13000 gpus=1 method=lora zero=0 recompute=none", 0,
     false},
    {"U105", "model=llama2-70b framework=hf-deepspeed gpu=a100-40gb seq=2048 gpus=8 method=qlora zero=2", 0,
     false},
    {"U105 zero3",
     "model=llama2-70b framework=hf-deepspeed gpu=a100-40gb seq=2048 gpus=8 method=qlora zero=3", 0, true},
};

static void verdicts_are_right(void **state) {
  int wrong = 0;
  (void)state;
  for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
    struct text_job *t = text_job_run(verdicts[i].job, (int64_t)(verdicts[i].host_gib * GIB));
    const struct spp_memory *m = &t->prediction.memory;
    expect_note("%s: %s", verdicts[i].id, verdicts[i].job);
    expect_str(t->violation.rule, "");
    if ((m->fits && m->host_fits) != verdicts[i].fits) {
      print_error("%s: %s: %.1f of %.1f GiB, host %.0f of %.0f GiB\n", verdicts[i].id, verdicts[i].job,
                  (double)m->device_bytes / GIB, (double)m->capacity_bytes / GIB,
                  (double)m->host_bytes_per_node / GIB, (double)m->host_capacity_bytes / GIB);
      wrong++;
    }
    text_job_free(t);
  }
  expect_i64(wrong, 0);
}

/* Which rule refuses it; "" = legal. */
static const struct {
  const char *id, *job, *rule;
} rules[] = {
    {"U003", "model=qwen2.5-14b framework=verl seq=64k gpus=40 ulysses=40 global_batch=40", ""},
    {"U003 5", "model=qwen2.5-14b framework=verl seq=64000 gpus=5 ulysses=5", "ulysses-kv-repeat"},
    {"U003 20", "model=qwen2.5-14b framework=verl seq=64000 gpus=20 ulysses=20", "ulysses-kv-repeat"},
    {"U030", "model=llama3.1-8b framework=ms-swift seq=45000 gpus=6 sp=6 method=lora packing=false",
     "ring-packing"},
    {"U030 packed", "model=llama3.1-8b framework=ms-swift seq=45000 gpus=6 sp=6 method=lora packing=true",
     ""},
    {"U032", "model=qwen2.5-3b framework=megatron-lm seq=8192 gpus=8 tp=8", ""},
    {"U032 TP 3", "model=qwen2.5-3b framework=megatron-lm seq=8190 gpus=3 tp=3", "heads-tp"},
    {"U049", "model=gpt-oss-20b framework=megatron-lm seq=8192 gpus=8 sp_kind=ring ring=8", "sinks-a2a"},
    {"U049 a2a", "model=gpt-oss-20b framework=megatron-lm seq=8192 gpus=8 sp_kind=ulysses ulysses=8", ""},
    {"U081", "model=qwen2.5-7b framework=deepspeed seq=128k gpus=8 ulysses=8", "ulysses-heads"},
};

static void rules_refuse_what_the_frameworks_refuse(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    struct spp_violation broken[8];
    struct text_job *t = text_job_run(rules[i].job, 0);
    int count = spp_rules_check(&t->job, &t->layout, broken, 8);
    bool named = rules[i].rule[0] == '\0' && count == 0;
    for (int k = 0; k < count && k < 8; k++)
      named = named || !strcmp(broken[k].rule, rules[i].rule);
    expect_note("%s: %s: %d broken, first '%s'", rules[i].id, rules[i].job, count,
                count ? broken[0].rule : "");
    expect_true(named);
    text_job_free(t);
  }
}

/* The first job has `least` to `most` times as much of the quantity as the second. */
static const struct {
  const char *id, *first, *second;
  double (*quantity)(const struct text_job *t);
  double least, most;
} ratios[] = {
    {"U001",
     "model=glm-4.5-air framework=megatron-lm gpu=h200-141gb seq=64k gpus=8 sp_kind=ring ring=4 ep=8 "
     "micro_batch=1",
     "model=glm-4.5-air framework=megatron-lm gpu=h200-141gb seq=64k gpus=8 sp_kind=ulysses ulysses=4 ep=8 "
     "micro_batch=1",
     peak, 0.93, 1.07},
    /* 64 GPUs hold the logits that 8 hold */
    {"U005 DP",
     "model=qwen2.5-7b framework=llama-factory gpu=a100-80gb seq=32k gpus=64 mode=dpo method=lora "
     "lora_rank=32 zero=3",
     "model=qwen2.5-7b framework=llama-factory gpu=a100-80gb seq=32k gpus=8 mode=dpo method=lora "
     "lora_rank=32 zero=3",
     logits, 1, 1},
    /* what a load that is not sharded asks of each of two GPUs */
    {"U079 load", "model=qwen2.5-32b framework=deepspeed seq=8192 gpus=2 zero=2 ulysses=2",
     "model=qwen2.5-32b framework=deepspeed seq=8192 gpus=2 zero=3 ulysses=2", load, 1.7, 2.1},
    {"U018", "model=qwen3-8b framework=ms-swift seq=32k gpus=4 sp=4 packing=true zero=3",
     "model=qwen3-14b framework=ms-swift seq=32k gpus=4 sp=4 packing=true zero=3", device, 0, 0.99},
    {"U021", "model=qwen3-30b-a3b framework=ms-swift gpu=h100-80gb seq=12000 gpus=8 sp=4 zero=3 mode=grpo",
     "model=qwen3-30b-a3b framework=ms-swift gpu=h100-80gb seq=12000 gpus=8 sp=4 zero=3", device, 1.01, 100},
    {"U044 memory",
     "model=qwen3-30b-a3b framework=megatron-lm seq=4096 gpus=16 ep=16 micro_batch=1 recompute=selective "
     "recompute_modules=core_attn",
     "model=qwen3-30b-a3b framework=megatron-lm seq=4096 gpus=16 ep=16 micro_batch=1 recompute=none", peak,
     0.97, 1.03},
    {"U044 time",
     "model=qwen3-30b-a3b framework=megatron-lm seq=4096 gpus=16 ep=16 micro_batch=1 recompute=selective "
     "recompute_modules=core_attn",
     "model=qwen3-30b-a3b framework=megatron-lm seq=4096 gpus=16 ep=16 micro_batch=1 recompute=none", step_s,
     1.0, 1.05},
    {"U050", "model=llama3-8b framework=megatron-lm seq=4096 gpus=1 dtype=fp8",
     "model=llama3-8b framework=megatron-lm seq=4096 gpus=1", weights, 1.2, 2.01},
    {"U051",
     "model=qwen2.5-14b framework=torchtitan gpu=h200-141gb seq=16384 gpus=8 dtype=fp8 recompute=none "
     "micro_batch=1",
     "model=qwen2.5-14b framework=torchtitan gpu=h200-141gb seq=16384 gpus=8 recompute=none micro_batch=1",
     kept, 0.5, 0.95},
    /* twice the ranks hold twice the length */
    {"U053",
     "model=llama3-8b framework=torchtitan seq=128k gpus=32 sp_kind=allgather ring=4 recompute=full "
     "micro_batch=1",
     "model=llama3-8b framework=torchtitan seq=64k gpus=32 sp_kind=allgather ring=2 recompute=full "
     "micro_batch=1",
     checkpoint, 1, 1},
    {"U063",
     "model=llama2-7b framework=megatron-lm gpu=a100-80gb seq=64k gpus=8 sp_kind=ring ring=8 micro_batch=1",
     "model=llama2-7b framework=megatron-lm gpu=a100-80gb seq=64k gpus=8 sp_kind=ulysses ulysses=8 "
     "micro_batch=1",
     step_s, 1.0, 1.6},
    {"U093 stages", "model=qwen3-coder-30b-a3b framework=vllm seq=262144 gpus=2 pp=2 mode=infer",
     "model=qwen3-coder-30b-a3b framework=vllm seq=262144 gpus=1 mode=infer", kv_cache, 0.5, 0.5},
    {"U094", "model=llama3-8b framework=vllm seq=221000 gpus=1 mode=infer kv_dtype=fp8",
     "model=llama3-8b framework=vllm seq=221000 gpus=1 mode=infer", kv_cache, 0.5, 0.5},
    {"U048",
     "model=llama3-8b framework=megatron-swift seq=8192 gpus=4 tp=4 megatron_sp=true method=lora "
     "recompute=none",
     "model=llama3-8b framework=megatron-swift seq=8192 gpus=4 tp=4 megatron_sp=true recompute=none", kept,
     1.05, 3},
    {"U097", "model=qwen3-32b framework=llama-factory seq=32k gpus=32 global_batch=32 zero=3",
     "model=qwen3-32b framework=verl seq=32k gpus=32 global_batch=32 ulysses=8 zero=3", samples_per_pass, 8,
     8},
    {"U108", "model=qwen3-1.7b framework=fsdp2 seq=8192 gpus=1 loss=chunked",
     "model=qwen3-1.7b framework=fsdp2 seq=8192 gpus=1", logits, 0, 0.5},
    /* a third less in all; neither length nor GPUs are stated */
    {"U108 peak", "model=qwen3-1.7b framework=fsdp2 seq=8192 gpus=1 loss=chunked",
     "model=qwen3-1.7b framework=fsdp2 seq=8192 gpus=1", peak, 0.55, 0.8},
    {"U110",
     "model=qwen2.5-vl-7b framework=ms-swift gpu=a40-48gb seq=1024 gpus=4 zero=3 vision_trainable=true",
     "model=qwen2.5-vl-7b framework=ms-swift gpu=a40-48gb seq=1024 gpus=4 zero=3 vision_trainable=false",
     states, 1.02, 1.2},
};

static void orders_and_ratios_hold(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
    struct text_job *first = text_job_run(ratios[i].first, 0), *second = text_job_run(ratios[i].second, 0);
    expect_note("%s: %s against %s: rules '%s' '%s'", ratios[i].id, ratios[i].first, ratios[i].second,
                first->violation.rule, second->violation.rule);
    expect_str(first->violation.rule, "");
    expect_str(second->violation.rule, "");
    double ratio = ratios[i].quantity(first) / ratios[i].quantity(second);
    expect_in(ratio, ratios[i].least, ratios[i].most);
    text_job_free(first);
    text_job_free(second);
  }
}

/* U088: 70 GiB of activations in 36 layers x 13,000 tokens without recompute: 160 kB a token and layer. */
static void eager_activations_without_recompute_are_those_of_the_thread(void **state) {
  (void)state;
  struct text_job *t = text_job_run(
      "model=qwen3-4b framework=ms-swift gpu=a100-80gb seq=13000 gpus=1 method=lora zero=0 recompute=none",
      0);
  expect_in(kept_all_layers(t), 63 * GIB, 110 * GIB);
  text_job_free(t);
}

/* U087: "about 24 GB" at 4,096 tokens, on a card of 24. */
static void a_lora_run_at_the_edge_of_its_card_takes_what_was_reported(void **state) {
  (void)state;
  struct text_job *t =
      text_job_run("model=llama3-8b framework=fsdp2 gpu=rtx-4090 seq=4096 gpus=1 method=lora zero=0", 0);
  expect_in(peak(t), 22e9, 26e9);
  text_job_free(t);
}

/* What the reader of a thread would have needed in his command. U042: no dense mask from the data loader.
 * U099, U002: verl multiplies its budget by SP, so 40,960 tokens at SP 2 are 20,480 a GPU. */
static void commands_hold_what_the_threads_missed(void **state) {
  static const struct {
    const char *id, *job, *has;
  } rows[] = {
      {"U042", "model=gpt2-xl framework=megatron-lm gpu=a100-80gb seq=128k gpus=4 sp_kind=ring ring=4",
       "--no-create-attention-mask-in-dataloader"},
      {"U099", "model=qwen3-4b framework=verl seq=40960 gpus=2 ulysses=2",
       "data.max_token_len_per_gpu=20480"},
      {"U030", "model=llama3.1-8b framework=ms-swift seq=45000 gpus=6 sp=6 method=lora packing=true",
       "--packing true"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct text_job *t = text_job_run(rows[i].job, 0);
    struct spp_str command;
    spp_str_init(&command);
    spp_framework_launch(&t->job, &t->layout, &command);
    expect_note("%s: %s", rows[i].id, rows[i].job);
    expect_has(spp_str_text(&command), rows[i].has);
    spp_str_free(&command);
    text_job_free(t);
  }
}

/* U045: an estimate of MoE activations needs the routed terms on their own, growing with the experts of a
 * token. */
static void routed_experts_stand_apart_in_the_ledger(void **state) {
  (void)state;
  struct text_job *t =
      text_job_run("model=qwen3-30b-a3b framework=megatron-lm seq=4096 gpus=8 ep=8 recompute=none", 0);
  int64_t routed = 0;
  for (int i = 0; i < t->ledger.count; i++)
    if (strncmp(t->ledger.entries[i].tensor->name, "experts", 7) == 0) routed += t->ledger.entries[i].bytes;
  /* 48 layers x 4,096 tokens x 8 experts: input 2,048 wide, both products of 768, their product, in 16 bit */
  expect_true(routed >= INT64_C(48) * 4096 * 8 * 2 * (2048 + 2 * 768 + 768));
  text_job_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_within_one_percent),
      cmocka_unit_test(verdicts_are_right),
      cmocka_unit_test(rules_refuse_what_the_frameworks_refuse),
      cmocka_unit_test(orders_and_ratios_hold),
      cmocka_unit_test(eager_activations_without_recompute_are_those_of_the_thread),
      cmocka_unit_test(a_lora_run_at_the_edge_of_its_card_takes_what_was_reported),
      cmocka_unit_test(commands_hold_what_the_threads_missed),
      cmocka_unit_test(routed_experts_stand_apart_in_the_ledger),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
