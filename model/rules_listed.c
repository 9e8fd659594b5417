/* Rules some frameworks enforce: a file in configs/frameworks lists those that hold, with version and source.
 */
#include "base/num.h"
#include "model/geometry.h"
#include "model/rules.h"

typedef const struct spp_job job_arg;
typedef const struct spp_layout layout_arg;
#define RULE(name)                                                                                           \
  static bool name(__attribute__((unused)) job_arg *job, __attribute__((unused)) layout_arg *layout)

static bool flash(job_arg *job) {
  return job->attention == SPP_ATTN_FA2 || job->attention == SPP_ATTN_FA3;
}
static bool has_window(job_arg *job) {
  for (int i = 0; i < job->arch->kind_count; i++)
    if (job->arch->kinds[i].window_tokens > 0) return true;
  return false;
}
/* KV heads of one TP rank; TP above the KV heads leaves one, repeated. */
static int64_t kv_local(job_arg *job, layout_arg *layout) {
  return spp_max64(spp_arch_kv_heads(job->arch) / layout->tp, 1);
}

RULE(kv_tp_strict) {
  return layout->tp > 1 && spp_arch_kv_heads(job->arch) % layout->tp != 0;
}
RULE(kv_tp) {
  int64_t kv = spp_arch_kv_heads(job->arch);
  return layout->tp > 1 && kv % layout->tp != 0 && layout->tp % kv != 0;
}
RULE(ulysses_heads) {
  return layout->ulysses > 1 && spp_max64(job->arch->heads / layout->tp, 1) % layout->ulysses != 0;
}
RULE(ulysses_kv) {
  return layout->ulysses > 1 && kv_local(job, layout) % layout->ulysses != 0;
}
RULE(ulysses_kv_repeat) {
  if (layout->ulysses == 1) return false;
  int64_t kv = kv_local(job, layout);
  return kv % layout->ulysses != 0 && layout->ulysses % kv != 0;
}
RULE(seq_multiple) {
  return job->seq_tokens % spp_layout_pad_tokens(job, layout) != 0;
}
RULE(grpo_groups) {
  return job->mode == SPP_MODE_GRPO && job->grpo_completions > 1 &&
         job->global_batch % job->grpo_completions != 0;
}
RULE(layers_pp) {
  return layout->pp > 1 && !spp_layout_uneven(layout) &&
         job->arch->layers % spp_sat_mul(layout->pp, layout->vpp) != 0;
}
RULE(micro_batches_pp) {
  return layout->schedule == SPP_SCHEDULE_INTERLEAVED && layout->pp > 1 &&
         layout->grad_accum % layout->pp != 0;
}
RULE(moe_tp_sp) {
  return job->arch->experts > 0 && layout->tp > 1 && !layout->megatron_sp;
}
RULE(ep_shard) {
  int64_t ranks =
      spp_sat_mul(layout->dp / layout->dp_replicate, spp_sat_mul(spp_layout_sp(layout), layout->tp));
  return layout->ep > 1 && ranks % layout->ep != 0;
}
RULE(world_with_ep) {
  int64_t model = spp_sat_mul(spp_sat_mul(layout->tp, layout->pp), spp_layout_sp(layout));
  return job->gpus > 0 && job->gpus % spp_sat_mul(model, layout->ep) != 0;
}
RULE(tied_pp) {
  return layout->pp > 1 && job->arch->tied;
}

RULE(window_ring) {
  return layout->ring > 1 && layout->sp_kind != SPP_SP_ALLGATHER && has_window(job);
}
RULE(sinks_a2a) {
  return layout->ring > 1 && job->arch->attention_sinks;
}
RULE(mla_flash_p2p) {
  return job->arch->attention == SPP_ATTENTION_MLA && flash(job) && spp_layout_sp(layout) > 1 &&
         layout->sp_kind != SPP_SP_RING;
}
RULE(fp8_thd) {
  return job->dtype == SPP_DTYPE_FP8 && job->packing && spp_layout_sp(layout) > 1;
}
RULE(allgather_thd) {
  return layout->sp_kind == SPP_SP_ALLGATHER && job->packing && job->attention != SPP_ATTN_FA3;
}
RULE(ring_flash) {
  return layout->ring > 1 && !flash(job);
}
RULE(sp_flash) {
  return spp_layout_sp(layout) > 1 && !flash(job);
}
RULE(sp_fa2) {
  return spp_layout_sp(layout) > 1 && job->attention != SPP_ATTN_FA2;
}
RULE(sp_not_eager) {
  return spp_layout_sp(layout) > 1 && job->attention == SPP_ATTN_EAGER;
}
RULE(packing_flash) {
  return job->packing && !flash(job);
}
RULE(cp_sdpa) {
  return layout->sp_kind == SPP_SP_ALLGATHER && job->attention != SPP_ATTN_SDPA;
}
RULE(cp_fsdp) {
  return layout->sp_kind == SPP_SP_ALLGATHER && layout->zero < 2;
}
RULE(cp_unpacked) {
  return layout->sp_kind == SPP_SP_ALLGATHER && job->packing;
}
RULE(replicas_need_shards) { /* without sharding every rank is a copy */
  if (layout->zero == 0) return layout->dp > 1 && layout->tp > 1;
  return layout->dp_replicate > 1 && layout->dp / layout->dp_replicate == 1 &&
         (layout->tp > 1 || spp_layout_sp(layout) > 1);
}

RULE(zero_pp) {
  return layout->pp > 1 && layout->zero >= 2;
}
RULE(sp_zero3) {
  return spp_layout_sp(layout) > 1 && layout->zero == 3;
}
RULE(offload_params_zero3) {
  return spp_offload_params(layout->offload) && layout->zero != 3;
}
RULE(offload_needs_sharding) {
  return spp_offload_optimizer(layout->offload) && layout->zero == 0;
}
RULE(fp8_params_sharded) {
  return job->fp8_params == 1 && spp_job_keeps_fp8_only(job) && layout->zero == 0;
}
RULE(offload_activations_plain) {
  return spp_offload_activations(layout->offload) &&
         (layout->pp > 1 || layout->recompute != SPP_RECOMPUTE_NONE);
}
RULE(offload_activations_recompute) {
  return spp_offload_activations(layout->offload) && layout->recompute == SPP_RECOMPUTE_NONE;
}
RULE(selective_layers) {
  return layout->recompute == SPP_RECOMPUTE_SELECTIVE && layout->recompute_layers != SPP_UNSET;
}
RULE(torch_fsdp2) {
  return layout->zero == 3 &&
         (layout->pp > 1 || layout->ep > 1 || job->dtype == SPP_DTYPE_FP16 || job->arch->tied);
}

RULE(grpo_fused_sp) {
  return job->mode == SPP_MODE_GRPO && job->loss == SPP_LOSS_CHOICE_FUSED && spp_layout_sp(layout) > 1;
}
RULE(fused_sp) {
  return job->loss == SPP_LOSS_CHOICE_FUSED && spp_layout_sp(layout) > 1;
}
RULE(fused_tp) {
  return job->loss == SPP_LOSS_CHOICE_FUSED && layout->tp > 1;
}
RULE(packing_micro_batch) {
  return spp_layout_sp(layout) > 1 && job->packing && layout->micro_batch > 1;
}
RULE(packing_train) {
  return job->packing && job->mode != SPP_MODE_TRAIN;
}
RULE(tp_8bit) {
  return layout->tp > 1 && job->optimizer == SPP_OPTIMIZER_ADAMW_8BIT;
}
RULE(galore_zero) {
  return layout->zero > 0 && (job->method == SPP_METHOD_GALORE || job->method == SPP_METHOD_Q_GALORE);
}

const struct spp_rule spp_rules_listed[] = {
    {"ulysses-heads", ulysses_heads, "Ulysses {ulysses} does not divide {heads_local} query heads",
     SPP_AXIS_SP, SPP_VARY(ulysses), NULL},
    {"ulysses-kv", ulysses_kv,
     "Ulysses {ulysses} does not divide {kv_heads_local} KV heads, and they are not repeated", SPP_AXIS_SP,
     SPP_VARY(ulysses), NULL},
    {"ulysses-kv-repeat", ulysses_kv_repeat,
     "Ulysses {ulysses} neither divides {kv_heads_local} KV heads nor is a multiple of them", SPP_AXIS_SP,
     SPP_VARY(ulysses), NULL},
    {"kv-tp", kv_tp, "TP {tp} neither divides {kv_heads} KV heads nor is a multiple of them", SPP_AXIS_TP,
     SPP_VARY(tp), NULL},
    {"kv-tp-strict", kv_tp_strict, "{kv_heads} KV heads (query groups) must be a multiple of TP {tp}",
     SPP_AXIS_TP, SPP_VARY(tp), NULL},
    {"seq-multiple", seq_multiple,
     "{seq} tokens is not a multiple of {pad_unit} (SP {sp} = Ulysses {ulysses} x ring {ring}): pad to "
     "{seq_up}",
     SPP_AXIS_MEGATRON_SP, SPP_VARY_NONE, NULL},
    {"layers-pp", layers_pp, "{layers} layers do not split evenly over PP {pp} x VPP {vpp}{uneven_hint}",
     SPP_AXIS_PIPE, SPP_VARY(pp), NULL},
    {"micro-batches-pp", micro_batches_pp,
     "the interleaved schedule takes micro-batches in groups of PP {pp}; {grad_accum} is no multiple",
     SPP_AXIS_BATCH | SPP_AXIS_PIPE, SPP_VARY_NONE, NULL},
    {"moe-tp-sp", moe_tp_sp, "experts under TP {tp} need Megatron sequence parallelism", SPP_AXIS_MEGATRON_SP,
     SPP_VARY_NONE, NULL},
    {"ep-shard", ep_shard, "EP {ep} does not divide the {dp_shard} x {sp} x {tp} ranks of dp_shard x cp x tp",
     SPP_AXIS_EP | SPP_AXIS_SHARDING, SPP_VARY(ep), NULL},
    {"world-with-ep", world_with_ep, "{gpus} GPUs is no multiple of TP {tp} x PP {pp} x CP {sp} x EP {ep}",
     SPP_AXIS_EP, SPP_VARY(ep), NULL},
    {"tied-pp", tied_pp, "tied input and output embeddings exclude PP {pp}", 0, SPP_VARY(pp), NULL},
    {"window-ring", window_ring, "sliding-window layers cannot run in a ring: use Ulysses or all-gather",
     SPP_AXIS_SP, SPP_VARY_NONE, NULL},
    {"sinks-a2a", sinks_a2a, "attention sinks (learnable softmax) run with a2a (Ulysses) only, not {sp_kind}",
     SPP_AXIS_SP, SPP_VARY_NONE, NULL},
    {"mla-flash-p2p", mla_flash_p2p, "MLA with {attention} runs with p2p (ring) only, not {sp_kind}",
     SPP_AXIS_SP, SPP_VARY_NONE, NULL},
    {"fp8-thd", fp8_thd, "fp8 attention does not take packed sequences (THD) under context parallelism", 0,
     SPP_VARY_NONE, NULL},
    {"allgather-thd", allgather_thd, "all-gather of packed sequences (THD) needs fa3, not {attention}", 0,
     SPP_VARY_NONE, NULL},
    {"ring-flash", ring_flash, "the ring part needs flash attention, not {attention}", 0, SPP_VARY_NONE,
     NULL},
    {"sp-flash", sp_flash, "SP {sp} needs flash attention, not {attention}", 0, SPP_VARY_NONE, NULL},
    {"sp-fa2", sp_fa2, "SP {sp} needs flash attention 2, not {attention}", 0, SPP_VARY_NONE, NULL},
    {"sp-not-eager", sp_not_eager, "SP {sp} refuses eager attention: use sdpa or flash attention", 0,
     SPP_VARY_NONE, NULL},
    {"packing-flash", packing_flash, "packing needs flash attention, not {attention}", 0, SPP_VARY_NONE,
     NULL},
    {"cp-sdpa", cp_sdpa, "all-gather context parallelism runs with sdpa only, not {attention}", 0,
     SPP_VARY_NONE, NULL},
    {"cp-fsdp", cp_fsdp, "context parallelism needs FSDP2 (stage 2 or 3), not stage {zero}",
     SPP_AXIS_SHARDING, SPP_VARY_NONE, NULL},
    {"cp-unpacked", cp_unpacked,
     "context parallelism takes causal attention without document masks: no packing", 0, SPP_VARY_NONE, NULL},
    {"replicas-need-shards", replicas_need_shards,
     "copies of TP {tp} x SP {sp} need a shard size above 1 as well (DP {dp}, stage {zero})",
     SPP_AXIS_SHARDING, SPP_VARY(dp_replicate), NULL},
    {"zero-pp", zero_pp, "ZeRO-{zero} does not go with PP {pp}: use ZeRO-1 or 0", SPP_AXIS_SHARDING,
     SPP_VARY(pp), NULL},
    {"sp-zero3", sp_zero3, "SP {sp} fails with ZeRO-3 in this version: use ZeRO-2 or a newer one",
     SPP_AXIS_SHARDING, SPP_VARY_NONE, NULL},
    {"offload-params-zero3", offload_params_zero3,
     "parameters move to the host under ZeRO-3 only, not stage {zero}", SPP_AXIS_SHARDING | SPP_AXIS_OFFLOAD,
     SPP_VARY_NONE, NULL},
    {"offload-sharding", offload_needs_sharding,
     "the optimizer moves to the host from ZeRO-1 on, not without sharding",
     SPP_AXIS_SHARDING | SPP_AXIS_OFFLOAD, SPP_VARY_NONE, NULL},
    {"fp8-params-zero", fp8_params_sharded, "weights in FP8 alone need sharded states: ZeRO-1 or higher",
     SPP_AXIS_SHARDING, SPP_VARY_NONE, NULL},
    {"offload-activations-plain", offload_activations_plain,
     "activation offload (cpu_offloading) excludes pipeline parallelism and any recompute",
     SPP_AXIS_OFFLOAD | SPP_AXIS_RECOMPUTE, SPP_VARY_NONE, NULL},
    {"offload-activations-recompute", offload_activations_recompute,
     "activation offload moves checkpoints: it needs recompute (gradient checkpointing)",
     SPP_AXIS_OFFLOAD | SPP_AXIS_RECOMPUTE, SPP_VARY_NONE, NULL},
    {"selective-layers", selective_layers,
     "selective recompute takes no number of layers ({recompute_layers} given)", SPP_AXIS_RECOMPUTE,
     SPP_VARY_NONE, NULL},
    {"torch-fsdp2", torch_fsdp2,
     "torch FSDP2 excludes pipeline and expert parallelism, fp16 and tied embeddings", SPP_AXIS_SHARDING,
     SPP_VARY_NONE, NULL},
    {"grpo-groups", grpo_groups,
     "{framework} counts a GRPO batch in prompts: {global_batch} sequences are no whole number of "
     "{completions} "
     "completions each; {groups_up} are",
     0, SPP_VARY_NONE, NULL},
    {"grpo-fused-sp", grpo_fused_sp, "GRPO with the fused (Liger) loss and SP {sp} is refused", SPP_AXIS_LOSS,
     SPP_VARY_NONE, NULL},
    {"fused-sp", fused_sp, "the fused (Liger) loss does not work with SP {sp}", SPP_AXIS_LOSS, SPP_VARY_NONE,
     NULL},
    {"fused-tp", fused_tp, "the fused (Liger) loss does not work with TP {tp}", SPP_AXIS_LOSS, SPP_VARY(tp),
     NULL},
    {"packing-micro-batch", packing_micro_batch,
     "packing with SP {sp} needs micro-batch 1, not {micro_batch}", SPP_AXIS_BATCH, SPP_VARY(micro_batch),
     NULL},
    {"packing-train", packing_train, "packing works for supervised fine-tuning only, not {mode}", 0,
     SPP_VARY_NONE, NULL},
    {"tp-8bit", tp_8bit, "TP {tp} excludes 8-bit optimizers", 0, SPP_VARY(tp), NULL},
    {"galore-zero", galore_zero, "{method} does not go with sharded states (stage {zero})", SPP_AXIS_SHARDING,
     SPP_VARY_NONE, NULL},
};
const int spp_rules_listed_count = (int)(sizeof spp_rules_listed / sizeof spp_rules_listed[0]);
