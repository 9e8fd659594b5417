/* The words of the enums, as the command line, the JSON and the framework files spell them: one table each.
 */
#include <string.h>

#include "model/framework.h"
#include "model/job.h"
#include "model/words.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const char *const allocators[SPP_ALLOCATOR_COUNT] = {"plain", "expandable"};
static const char *const segments[SPP_SEGMENTS_COUNT] = {"in-factor", "counted", "expandable"};
static const char *const graphs[SPP_GRAPH_COUNT] = {"attn", "mlp"};
static const char *const nccl_groups[SPP_NCCL_GROUP_COUNT] = {"data", "statistics", "model", "embedding",
                                                              "experts"};
static const char *const sp_kinds[SPP_SP_KIND_COUNT] = {"none", "ulysses", "ring", "allgather", "hybrid"};
static const char *const ring_impls[SPP_RING_IMPL_COUNT] = {"zhuzilin", "swift", "te"};
static const char *const ring_orders[SPP_RING_ORDER_COUNT] = {"contiguous", "zigzag"};
static const char *const kernels[] = {"eager", "fused"};
static const char *const attentions[SPP_ATTN_IMPL_COUNT] = {"eager", "sdpa", "fa2", "fa3", "te", "fa1"};
static const char *const loss_paths[SPP_LOSS_PATH_COUNT] = {
    "hf-full",      "sp-16bit",    "sp-chunked",   "vocab-parallel",     "fused-linear",
    "tiled",        "chunked",     "fp32-logits",  "hf-shifted",         "loss-parallel",
    "in-place",     "chunks-kept", "chunked-head", "chunked-head-eager", "vocab-parallel-compiled",
    "chunks-16bit", "xentropy",    "pairs-16bit",  "pairs-autocast",     "pairs-fp32",
    "fpdt"};
static const char *const loss_choices[SPP_LOSS_CHOICE_COUNT] = {"full", "chunked", "fused", "vocab-parallel"};
static const char *const recomputes[SPP_RECOMPUTE_COUNT] = {"none", "selective", "full"};
static const char *const modules[] = {"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                      "mlp",       "moe",     "shared_experts"};
static const char *const offloads[SPP_OFFLOAD_COUNT] = {"none",
                                                        "optimizer",
                                                        "optimizer+params",
                                                        "activations",
                                                        "optimizer+activations",
                                                        "optimizer+params+activations"};
static const char *const splits[] = {"free", "gcd-kv", "divisor-kv-node"};
static const char *const shardings[] = {"none", "deepspeed", "fsdp", "megatron", "units"};
static const char *const schedules[SPP_SCHEDULE_COUNT] = {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2"};
static const char *const pad_scopes[SPP_PAD_SCOPE_COUNT] = {"sequence", "document-with-ring", "document"};
static const char *const stage_splits[SPP_STAGE_SPLIT_COUNT] = {"remainder-last", "remainder-first",
                                                                "remainder-inner"};
static const char *const methods[SPP_METHOD_COUNT] = {"full", "lora", "qlora", "galore", "q-galore"};
static const char *const modes[SPP_MODE_COUNT] = {"train", "dpo", "grpo", "infer", "ppo"};
static const char *const optimizers[SPP_OPTIMIZER_COUNT] = {"adamw",     "adamw-bf16", "adamw-8bit",
                                                            "adafactor", "muon",       "sgd"};
static const char *const objectives[SPP_OBJECTIVE_COUNT] = {"throughput", "memory", "cost"};
static const char *const quants[SPP_QUANT_COUNT] = {"nf4", "nf4-double", "gptq4", "int8", "gptq8"};
static const char *const dtypes[SPP_DTYPE_COUNT] = {"fp32", "tf32", "fp16",  "bf16", "fp8",
                                                    "int8", "nf4",  "int64", "bool", "nvfp4"};

static const char *const growths[] = {"none", "layer", "all"};
static const char *const reporters[SPP_REPORTER_COUNT] = {"none", "megatron-lm", "torchtitan",  "llm-foundry",
                                                          "sc21", "verl",        "transformers"};

static const struct spp_words tables[SPP_WORDS_COUNT] = {
    [SPP_WORDS_SEGMENTS] = {segments, COUNT(segments)},
    [SPP_WORDS_ALLOCATOR] = {allocators, COUNT(allocators)},
    [SPP_WORDS_GRAPH] = {graphs, COUNT(graphs)},
    [SPP_WORDS_NCCL_GROUP] = {nccl_groups, COUNT(nccl_groups)},
    [SPP_WORDS_SP_KIND] = {sp_kinds, COUNT(sp_kinds)},
    [SPP_WORDS_RING_IMPL] = {ring_impls, COUNT(ring_impls)},
    [SPP_WORDS_RING_ORDER] = {ring_orders, COUNT(ring_orders)},
    [SPP_WORDS_KERNELS] = {kernels, COUNT(kernels)},
    [SPP_WORDS_ATTENTION] = {attentions, COUNT(attentions)},
    [SPP_WORDS_LOSS_PATH] = {loss_paths, COUNT(loss_paths)},
    [SPP_WORDS_LOSS_CHOICE] = {loss_choices, COUNT(loss_choices)},
    [SPP_WORDS_RECOMPUTE] = {recomputes, COUNT(recomputes)},
    [SPP_WORDS_MODULE] = {modules, COUNT(modules)},
    [SPP_WORDS_OFFLOAD] = {offloads, COUNT(offloads)},
    [SPP_WORDS_SP_SPLIT] = {splits, COUNT(splits)},
    [SPP_WORDS_SHARDING] = {shardings, COUNT(shardings)},
    [SPP_WORDS_SCHEDULE] = {schedules, COUNT(schedules)},
    [SPP_WORDS_PAD_SCOPE] = {pad_scopes, COUNT(pad_scopes)},
    [SPP_WORDS_STAGE_SPLIT] = {stage_splits, COUNT(stage_splits)},
    [SPP_WORDS_METHOD] = {methods, COUNT(methods)},
    [SPP_WORDS_MODE] = {modes, COUNT(modes)},
    [SPP_WORDS_OPTIMIZER] = {optimizers, COUNT(optimizers)},
    [SPP_WORDS_OBJECTIVE] = {objectives, COUNT(objectives)},
    [SPP_WORDS_QUANT] = {quants, COUNT(quants)},
    [SPP_WORDS_DTYPE] = {dtypes, COUNT(dtypes)},
    [SPP_WORDS_REPORTER] = {reporters, COUNT(reporters)},
    [SPP_WORDS_CACHE_GROWTH] = {growths, COUNT(growths)},
};

const struct spp_words *spp_words_of(enum spp_words_table table) {
  return &tables[table];
}

int spp_words_find(enum spp_words_table table, const char *word) {
  for (int i = 0; i < tables[table].count; i++)
    if (strcmp(tables[table].names[i], word) == 0) return i;
  return -1;
}

const char *spp_words_name(enum spp_words_table table, int value) {
  return value >= 0 && value < tables[table].count ? tables[table].names[value] : "?";
}

const char *spp_sp_kind_name(enum spp_sp_kind kind) {
  return spp_words_name(SPP_WORDS_SP_KIND, (int)kind);
}
const char *spp_ring_order_name(enum spp_ring_order order) {
  return spp_words_name(SPP_WORDS_RING_ORDER, (int)order);
}
const char *spp_ring_impl_name(enum spp_ring_impl impl) {
  return spp_words_name(SPP_WORDS_RING_IMPL, (int)impl);
}
const char *spp_kernels_name(enum spp_kernel_style value) {
  return spp_words_name(SPP_WORDS_KERNELS, (int)value);
}
const char *spp_attention_impl_name(enum spp_attention_impl impl) {
  return spp_words_name(SPP_WORDS_ATTENTION, (int)impl);
}
const char *spp_loss_path_name(enum spp_loss_path path) {
  return spp_words_name(SPP_WORDS_LOSS_PATH, (int)path);
}
const char *spp_loss_choice_name(enum spp_loss_choice choice) {
  return spp_words_name(SPP_WORDS_LOSS_CHOICE, (int)choice);
}
const char *spp_recompute_name(enum spp_recompute value) {
  return spp_words_name(SPP_WORDS_RECOMPUTE, (int)value);
}
const char *spp_recompute_module_name(int bit) {
  return spp_words_name(SPP_WORDS_MODULE, bit);
}
const char *spp_offload_name(enum spp_offload offload) {
  return spp_words_name(SPP_WORDS_OFFLOAD, (int)offload);
}
const char *spp_schedule_name(enum spp_schedule value) {
  return spp_words_name(SPP_WORDS_SCHEDULE, (int)value);
}
const char *spp_method_name(enum spp_method method) {
  return spp_words_name(SPP_WORDS_METHOD, (int)method);
}
const char *spp_mode_name(enum spp_mode mode) {
  return spp_words_name(SPP_WORDS_MODE, (int)mode);
}
const char *spp_optimizer_name(enum spp_optimizer value) {
  return spp_words_name(SPP_WORDS_OPTIMIZER, (int)value);
}
const char *spp_objective_name(enum spp_objective value) {
  return spp_words_name(SPP_WORDS_OBJECTIVE, (int)value);
}
const char *spp_quant_name(enum spp_quant quant) {
  return spp_words_name(SPP_WORDS_QUANT, (int)quant);
}
