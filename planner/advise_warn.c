/* Silent traps: one small function each, one line each, always with the number that matters. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "model/states.h"
#include "planner/advise_internal.h"
#include "planner/search_internal.h"

typedef void warner(const struct spp_plan *plan, struct spp_advice_list *list);

/* The plan with another sequence-parallel degree, all else equal. */
static bool without_sp(const struct spp_plan *plan, struct spp_outcome *outcome) {
  struct spp_request request;
  spp_request_of(&plan->layout, &request);
  request.ulysses = request.ring = SPP_UNSET;
  request.sp_kind = SPP_UNSET;
  request.sp = 1;
  return spp_outcome_try(plan, &plan->job, &request, outcome) && outcome->legal;
}

/* What grows with the tokens of a rank. */
static int64_t token_bytes(const struct spp_memory *memory) {
  return memory->parts[SPP_PART_ACTIVATIONS] + memory->parts[SPP_PART_LAYER_INPUTS] +
         memory->parts[SPP_PART_TRANSIENT] + memory->parts[SPP_PART_LOGITS];
}

static void warn_fit(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_memory *memory = &plan->prediction.memory;
  char high[32], capacity[32];
  if (!memory->fits || memory->fit_probability >= 0.9) return;
  spp_advice_add(list, "tight-fit",
                 "tight: %.0f %% likely to fit: one run in ten would need %s or more, and the GPU has %s",
                 100 * memory->fit_probability, spp_bytes_print(memory->high_bytes, high),
                 spp_bytes_print(memory->capacity_bytes, capacity));
}

static void warn_dp(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_memory *memory = &plan->prediction.memory;
  char tokens[32], bytes[32];
  bool short_of_room = !memory->fits || memory->fit_probability < 0.9; /* as in warn_fit */
  bool matters = short_of_room && token_bytes(memory) > memory->device_bytes / 4;
  if (plan->layout.dp < 2 || spp_layout_sp(&plan->layout) > 1 || !matters) return;
  spp_advice_add(
      list, "dp-does-not-split-sequence",
      "DP %lld does not split a sequence: every GPU holds its %s tokens (%s of activations and logits)",
      (long long)plan->layout.dp, spp_int_print(plan->prediction.geometry.padded_tokens, tokens),
      spp_bytes_print(token_bytes(memory), bytes));
}

/* deepspeedai/DeepSpeed, modelscope/ms-swift: dp = world / sp. */
static void warn_sp_cost(const struct spp_plan *plan, struct spp_advice_list *list) {
  struct spp_outcome none;
  const struct spp_layout *layout = &plan->layout;
  int64_t sp = spp_layout_sp(layout);
  char bytes[32], speed[32];
  if (sp < 2 || !without_sp(plan, &none)) return;
  long long passes = (long long)(layout->dp * layout->micro_batch),
            passes_without = (long long)(none.layout.dp * none.layout.micro_batch);
  double ratio =
      none.prediction.time.step_s > 0 ? plan->prediction.time.step_s / none.prediction.time.step_s : 1;
  if (spp_outcome_likely(plan, &none) && none.speed > 0) {
    spp_advice_add(list, "sp-not-needed", "SP is not needed: without it the step takes %s, %s",
                   spp_bytes_print(none.prediction.memory.device_bytes, bytes),
                   spp_speed_words(none.speed, speed));
    return;
  }
  spp_advice_add(
      list, "sp-divides-dp",
      "SP %lld divides DP: %lld sample%s a pass instead of %lld; an epoch takes %.2f times that of no SP%s",
      (long long)sp, passes, passes == 1 ? "" : "s", passes_without, ratio,
      none.feasible ? "" : ", which does not fit");
}

/* huggingface/peft: adapters add kept inputs; the frozen layers' own stay. */
static void warn_lora(const struct spp_plan *plan, struct spp_advice_list *list) {
  static const double notable_share = 0.8; /* less than this is a saving that one expects */
  struct spp_plan full = *plan;
  struct spp_memory memory;
  char lora_bytes[32], full_bytes[32];
  if (!spp_job_has_adapters(&plan->job)) return;
  full.job.method = SPP_METHOD_FULL;
  full.job.lora_rank = 0;
  full.job.lora_dropout = 0;
  full.job.lora_targets = 0;
  spp_model_sums_count(full.job.arch, 0, &full.job.sums);
  spp_memory_predict(&full.job, &full.layout, &plan->prediction.geometry, NULL, &memory);
  int64_t kept = plan->prediction.memory.kept_bytes[0];
  if ((double)kept < notable_share * (double)memory.kept_bytes[0]) return;
  spp_advice_add(list, "lora-activations",
                 "LoRA %s activations: one layer keeps %s, against %s under full fine-tuning",
                 kept < memory.kept_bytes[0] ? "hardly shrinks" : "does not shrink",
                 spp_bytes_print(kept, lora_bytes), spp_bytes_print(memory.kept_bytes[0], full_bytes));
}

static void warn_positions(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_arch *arch = plan->job.arch;
  char seq[32], positions[32];
  if (arch->max_positions <= 0 || plan->job.seq_tokens <= arch->max_positions) return;
  spp_advice_add(list, "beyond-positions", "%s tokens exceed the %s positions of %s: %s",
                 spp_int_print(plan->job.seq_tokens, seq), spp_int_print(arch->max_positions, positions),
                 arch->display,
                 arch->learned_positions > 0 ? "its table of positions ends there" : "RoPE must be scaled");
}

static void warn_zero_one(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_memory *memory = &plan->prediction.memory;
  int64_t states = 0;
  char bytes[32];
  if (plan->layout.zero < 1 || plan->prediction.geometry.shard_group > 1 ||
      plan->job.mode == SPP_MODE_INFER || plan->job.framework->sharding == SPP_SHARDING_MEGATRON)
    return;
  for (int p = SPP_PART_WEIGHTS; p <= SPP_PART_OPTIMIZER; p++)
    states += memory->resident[p];
  if (states == 0) return; /* all of them are on the host */
  spp_advice_add(list, "zero-shards-nothing",
                 "ZeRO-%d over one rank shards nothing: states take %s on this GPU", plan->layout.zero,
                 spp_bytes_print(states, bytes));
}

/* deepspeedai/DeepSpeed runtime/zero/stage_1_and_2.py: only trainable parameters are in the flat groups. */
static void warn_zero_frozen(const struct spp_plan *plan, struct spp_advice_list *list) {
  struct spp_layout sharded = plan->layout;
  struct spp_geometry geometry;
  struct spp_memory memory;
  char bytes[32], less[32];
  const struct spp_framework *framework = plan->job.framework;
  if (!spp_job_has_adapters(&plan->job) || plan->layout.zero < 1 || plan->layout.zero > 2 ||
      !framework->states[3].supported)
    return;
  sharded.zero = 3;
  spp_geometry_resolve(&plan->job, &sharded, &geometry);
  if (geometry.shard_group < 2) return;
  spp_memory_predict(&plan->job, &sharded, &geometry, NULL, &memory);
  spp_advice_add(
      list, "zero-2-frozen", "ZeRO-%d does not shard frozen weights: %s on every GPU, %s under stage 3",
      plan->layout.zero, spp_bytes_print(plan->prediction.memory.resident[SPP_PART_WEIGHTS], bytes),
      spp_bytes_print(memory.resident[SPP_PART_WEIGHTS], less));
}

static void warn_host(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_memory *memory = &plan->prediction.memory;
  char bytes[32], capacity[32];
  if (memory->host_bytes_per_node <= 0 || plan->layout.offload == SPP_OFFLOAD_NONE) return;
  spp_advice_add(list, memory->host_fits ? "offload-host-memory" : "host-memory",
                 "offload takes %s of a node's %s host memory%s",
                 spp_bytes_print(memory->host_bytes_per_node, bytes),
                 spp_bytes_print(memory->host_capacity_bytes, capacity),
                 memory->host_fits ? "" : ": the run would be killed");
}

/* modelscope/ms-swift swift/sequence_parallel/zigzag_ring_attn.py: backward runs the forward ring again. */
static void warn_ring_repeat(const struct spp_plan *plan, struct spp_advice_list *list) {
  struct spp_plan other = *plan;
  if (plan->job.ring_impl != SPP_RING_SWIFT || plan->layout.ring < 2 ||
      plan->layout.sp_kind == SPP_SP_ALLGATHER)
    return;
  other.job.ring_impl = SPP_RING_ZHUZILIN;
  spp_predict(&other.job, &other.layout, NULL, &other.prediction);
  double cost = plan->prediction.time.step_s / other.prediction.time.step_s - 1;
  int64_t more = plan->prediction.memory.device_bytes - other.prediction.memory.device_bytes;
  char bytes[32];
  spp_bytes_print(spp_max64(0, more), bytes);
  spp_advice_add(list, "ring-repeats-forward",
                 "this ring's backward runs its forward again: %.1f %% of the step%s%s%s", 100 * cost,
                 more > 0 ? ", " : "", more > 0 ? bytes : "", more > 0 ? " more memory than zhuzilin's" : "");
}

/* Could the heads of a TP rank be spread over that many? */
static bool heads_spread(const struct spp_geometry *g, int64_t ulysses) {
  return g->heads_local % ulysses == 0 &&
         (g->kv_heads_local % ulysses == 0 || ulysses % g->kv_heads_local == 0);
}

static void set_split(struct spp_plan *plan, int64_t ulysses) {
  int64_t sp = spp_layout_sp(&plan->layout);
  plan->layout.ulysses = ulysses;
  plan->layout.ring = sp / ulysses;
  plan->layout.sp_kind = ulysses == sp ? SPP_SP_ULYSSES : ulysses == 1 ? SPP_SP_RING : SPP_SP_HYBRID;
  spp_predict(&plan->job, &plan->layout, NULL, &plan->prediction);
}

/* The fastest split of the plan's degree, that fits where the plan does: of those the framework takes, or,
 * where it takes no other than its own, of those the heads allow. */
static struct spp_plan fastest_split(const struct spp_plan *plan) {
  struct spp_plan best = *plan;
  int64_t sp = spp_layout_sp(&plan->layout);
  bool forced = plan->job.framework->sp_split == SPP_SPLIT_GCD_KV;
  for (int64_t u = 1; u <= sp; u++) {
    struct spp_plan other = *plan;
    if (sp % u || !heads_spread(&plan->prediction.geometry, u)) continue;
    set_split(&other, u);
    if (!forced && spp_rules_first(&other.job, &other.layout) >= 0) continue;
    bool fits = other.prediction.memory.fits || !plan->prediction.memory.fits;
    if (fits && other.prediction.time.step_s < best.prediction.time.step_s) best = other;
  }
  return best;
}

/* A framework that splits a degree by a rule of its own, where the rule costs time: against the fastest
 * split, or, where the plan asks for another one, what the rule would have made of it. */
static void warn_own_split(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_framework *framework = plan->job.framework;
  const struct spp_layout *layout = &plan->layout;
  int64_t sp = spp_layout_sp(layout), own = spp_own_ulysses(&plan->job, sp);
  char slow_words[96], fast_words[96], lost[32];
  bool gathers = layout->sp_kind == SPP_SP_ALLGATHER;
  if (framework->sp_split == SPP_SPLIT_FREE || sp < 2 || gathers) return;
  struct spp_plan slow = *plan, fast = *plan;
  if (layout->ulysses == own)
    fast = fastest_split(plan);
  else
    set_split(&slow, own);
  double slow_s = slow.prediction.time.step_s, fast_s = fast.prediction.time.step_s;
  if (slow_s / fast_s - 1 < 0.01) return;
  const char *slow_text = spp_sp_words(&slow.layout, slow_words, sizeof slow_words),
             *fast_text = spp_sp_words(&fast.layout, fast_words, sizeof fast_words);
  spp_seconds_print(slow_s - fast_s, lost);
  if (layout->ulysses != own)
    spp_advice_add(list, "own-split", "ask for this split: %s by itself takes %s, %.1f %% slower (%s a step)",
                   framework->display, slow_text, 100 * (1 - fast_s / slow_s), lost);
  else
    spp_advice_add(list, "own-split", "%s, the %s of %s, is %.1f %% slower (%s a step) than %s%s", slow_text,
                   framework->sp_split == SPP_SPLIT_GCD_KV ? "only split" : "own split", framework->display,
                   100 * (1 - fast_s / slow_s), lost, fast_text,
                   framework->sp_split == SPP_SPLIT_GCD_KV ? "" : ": ask for that");
}

static void warn_padding(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_geometry *g = &plan->prediction.geometry;
  double padded = (double)g->sequences * (double)g->padded_tokens * (double)g->m * (double)g->dp;
  double waste = padded > 0 ? 1 - (double)g->real_tokens / padded : 0;
  if (waste < 0.01) return;
  spp_advice_add(list, "padding",
                 "%.1f %% of the tokens are padding (documents short of the sequence, multiples of %lld)",
                 100 * waste, (long long)spp_max64(1, g->pad_tokens));
}

/* NVIDIA/TransformerEngine: 16-bit weights stay beside their 8-bit copies unless fp8_param_gather. Alone,
 * two copies before Blackwell are as large as a 16-bit one. */
static void warn_fp8(const struct spp_plan *plan, struct spp_advice_list *list) {
  struct spp_plan half = *plan;
  char more[32];
  if (plan->job.dtype != SPP_DTYPE_FP8) return;
  half.job.dtype = SPP_DTYPE_BF16;
  half.job.fp4 = false;
  spp_memory_predict(&half.job, &half.layout, &plan->prediction.geometry, NULL, &half.prediction.memory);
  int64_t bytes =
      plan->prediction.memory.resident[SPP_PART_WEIGHTS] - half.prediction.memory.resident[SPP_PART_WEIGHTS];
  const char *name = plan->job.fp4 ? "FP4" : "FP8";
  if (bytes < 0) return;
  if (bytes == 0 && spp_job_keeps_fp8_only(&plan->job))
    spp_advice_add(list, "fp8-both-copies",
                   "%s does not shrink the weights: the two 8-bit copies take what a 16-bit one does", name);
  else if (bytes == 0)
    spp_advice_add(list, "fp8-both-copies", "%s does not shrink the weights: they are kept as under bf16",
                   name);
  else
    spp_advice_add(list, "fp8-both-copies",
                   "%s keeps 16-bit weights beside its copies: weights %s against bf16", name,
                   spp_change_bytes(bytes, more));
}

static void warn_dpo(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_geometry *g = &plan->prediction.geometry;
  char tokens[32];
  if (plan->job.mode != SPP_MODE_DPO) return;
  spp_advice_add(list, "dpo-doubles", "DPO runs chosen and rejected together: %s tokens a pass",
                 spp_int_print(spp_sat_mul(g->sequences, g->padded_tokens), tokens));
}

static void warn_loss(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_memory *memory = &plan->prediction.memory;
  char bytes[32];
  if (memory->logits_bytes < memory->device_bytes / 3 || memory->device_bytes <= 0) return;
  spp_advice_add(list, "loss-dominates", "%s takes %s: %.0f %% of the peak",
                 plan->job.mode == SPP_MODE_INFER ? "sampling from logits" : "the loss alone",
                 spp_bytes_print(memory->logits_bytes, bytes),
                 100 * (double)memory->logits_bytes / (double)memory->device_bytes);
}

/* deepspeed 0.19.8 sequence/fpdt_layer.py FPDT_FFN: two matrices and a GELU. */
static void warn_fpdt(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_geometry *g = &plan->prediction.geometry;
  const struct spp_arch *arch = plan->job.arch;
  bool gated = arch->ffn > 0 && arch->mlp != SPP_MLP_PLAIN && !plan->job.framework->fpdt_gated_mlp;
  char bytes[32];
  if (g->pieces < 2 || !gated) return;
  int64_t width = spp_sat_mul(g->tokens, arch->ffn / spp_max64(1, g->tp));
  spp_advice_add(list, "fpdt-gated-mlp",
                 "FPDT chunks plain MLPs only: the gated one runs whole, %s a matrix and rank (a framework "
                 "file with fpdt_gated_mlp says otherwise)",
                 spp_bytes_print(spp_sat_mul(width, g->element_bytes), bytes));
}

static void warn_eager(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_geometry *g = &plan->prediction.geometry;
  char bytes[32];
  if (plan->job.attention != SPP_ATTN_EAGER || plan->job.mode == SPP_MODE_INFER) return;
  int64_t square = spp_sat_mul(spp_sat_mul(g->padded_tokens, g->padded_tokens),
                               spp_sat_mul(spp_max64(1, g->heads_local / g->su), 2 * g->sequences));
  spp_advice_add(list, "eager-attention", "eager attention keeps scores of every pair of tokens: %s a layer",
                 spp_bytes_print(square, bytes));
}

/* The time model runs whole sequences: it knows no decoding. */
static void warn_generation(const struct spp_plan *plan, struct spp_advice_list *list) {
  int64_t prompt = plan->job.prompt_tokens;
  if (prompt <= 0 || prompt >= plan->job.seq_tokens) return;
  spp_advice_add(list, "generation-time",
                 "the time is that of one pass over %lld tokens: made one by one, %lld of them take longer",
                 (long long)plan->job.seq_tokens, (long long)(plan->job.seq_tokens - prompt));
}

/* Weights, moments and updates all in 16 bits: an update below 2^-9 of a bf16 weight rounds away. */
static void warn_no_master(const struct spp_plan *plan, struct spp_advice_list *list) {
  const struct spp_states now = spp_states_in_dtype(&plan->job, plan->layout.zero), *states = &now;
  bool trains_weights = plan->job.mode != SPP_MODE_INFER && plan->job.method == SPP_METHOD_FULL;
  if (!trains_weights || states->weight_bytes != 2 || states->master_bytes != 0) return;
  spp_advice_add(list, "no-fp32-master",
                 "ZeRO-%d here keeps no fp32 weights: 16-bit AdamW loses small updates", plan->layout.zero);
}

/* Launchers start the same number of processes on every node. */
static void warn_nodes(const struct spp_plan *plan, struct spp_advice_list *list) {
  int64_t node = plan->job.cluster ? plan->job.cluster->gpus_per_node : 0;
  if (node < 1 || plan->job.gpus <= node || plan->job.gpus % spp_ceil_div(plan->job.gpus, node) == 0) return;
  spp_advice_add(
      list, "uneven-nodes",
      "%lld GPUs do not spread evenly over %lld nodes of %lld: launchers start as many on each node",
      (long long)plan->job.gpus, (long long)spp_ceil_div(plan->job.gpus, node), (long long)node);
}

static void warn_arch(const struct spp_plan *plan, struct spp_advice_list *list) {
  for (int i = 0; i < plan->job.arch->note_count; i++)
    spp_advice_add(list, "model-assumption", "%s", plan->job.arch->notes[i]);
}

int spp_advise_warnings(const struct spp_plan *plan, struct spp_advice *advice, int max) {
  static warner *const warners[] = {warn_fit,         warn_sp_cost,     warn_dp,        warn_loss,
                                    warn_eager,       warn_generation,  warn_zero_one,  warn_lora,
                                    warn_zero_frozen, warn_host,        warn_dpo,       warn_positions,
                                    warn_padding,     warn_ring_repeat, warn_own_split, warn_fp8,
                                    warn_no_master,   warn_nodes,       warn_arch,      warn_fpdt};
  struct spp_advice_list list = {advice, 0, max};
  for (size_t i = 0; i < sizeof warners / sizeof *warners; i++)
    warners[i](plan, &list);
  return list.count;
}
