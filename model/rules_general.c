/* Rules of every framework: arithmetic of degrees, and what the framework file says it has. */
#include <string.h>

#include "base/num.h"
#include "model/geometry.h"
#include "model/rules.h"

typedef const struct spp_job job_arg;
typedef const struct spp_layout layout_arg;
#define RULE(name)                                                                                           \
  static bool name(__attribute__((unused)) job_arg *job, __attribute__((unused)) layout_arg *layout)

RULE(degree_below_one) {
  return layout->tp < 1 || layout->pp < 1 || layout->vpp < 1 || layout->dp < 1 || layout->ep < 1 ||
         layout->etp < 1 || layout->ulysses < 1 || layout->ring < 1 || layout->micro_batch < 1 ||
         layout->grad_accum < 1 || layout->dp_replicate < 1 || layout->recompute_unit < 1;
}
RULE(world_product) {
  int64_t model = spp_sat_mul(layout->tp, layout->pp), data = spp_sat_mul(spp_layout_sp(layout), layout->dp);
  return job->gpus > 0 && spp_sat_mul(model, data) != job->gpus;
}

RULE(no_tp) {
  return layout->tp > 1 && !job->framework->tp;
}
RULE(no_pp) {
  return layout->pp > 1 && !job->framework->pp;
}
RULE(no_vpp) {
  return layout->vpp > 1 && !job->framework->vpp;
}
RULE(no_ep) {
  return layout->ep > 1 && !job->framework->ep;
}
RULE(no_etp) {
  return layout->etp != layout->tp && !job->framework->etp;
}
RULE(no_megatron_sp) {
  return layout->megatron_sp && !job->framework->megatron_sp;
}
RULE(megatron_sp_without_tp) {
  return layout->megatron_sp && layout->tp == 1;
}

RULE(no_sp_kind) {
  return !job->framework->sp_kinds[layout->sp_kind];
}
RULE(sp_kind_degrees) {
  switch (layout->sp_kind) {
  case SPP_SP_NONE: return spp_layout_sp(layout) != 1;
  case SPP_SP_ULYSSES: return layout->ring != 1;
  case SPP_SP_RING:
  case SPP_SP_ALLGATHER: return layout->ulysses != 1;
  default: return false;
  }
}
RULE(hybrid_one_level) {
  return layout->sp_kind == SPP_SP_HYBRID && (layout->ulysses < 2 || layout->ring < 2);
}
/* The framework chooses Ulysses itself. */
RULE(sp_split) {
  int64_t sp = spp_layout_sp(layout);
  return job->framework->sp_split == SPP_SPLIT_GCD_KV && sp > 1 &&
         layout->ulysses != spp_own_ulysses(job, sp);
}
RULE(ring_unpacked) {
  return job->framework->ring_needs_packing && layout->ring > 1 && !job->packing;
}

static bool is_one_of(const char *type, const char prefixes[SPP_MAX_REFUSED_TYPES][32]) {
  for (int i = 0; i < SPP_MAX_REFUSED_TYPES && prefixes[i][0]; i++)
    if (strncmp(type, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}
RULE(sp_model_type) {
  return spp_layout_sp(layout) > 1 && is_one_of(job->arch->model_type, job->framework->sp_refused_types);
}
RULE(ring_model_type) {
  return layout->ring > 1 && is_one_of(job->arch->model_type, job->framework->ring_refused_types);
}

RULE(heads_tp) {
  return layout->tp > 1 && job->arch->heads % layout->tp != 0;
}
RULE(ffn_tp) {
  const struct spp_arch *a = job->arch;
  return (layout->tp > 1 && a->ffn % layout->tp != 0) ||
         (layout->etp > 1 && a->expert_ffn % layout->etp != 0);
}
RULE(ep_without_experts) {
  return layout->ep > 1 && job->arch->experts == 0;
}
RULE(experts_ep) {
  return layout->ep > 1 && job->arch->experts % layout->ep != 0;
}
RULE(ep_world) {
  int64_t stage = spp_sat_mul(layout->tp, spp_sat_mul(spp_layout_sp(layout), layout->dp));
  return layout->ep > 1 && stage % spp_sat_mul(layout->ep, layout->etp) != 0;
}

RULE(stage_empty) {
  /* embedding and head may stand in for a layer each */
  int64_t outer = job->framework->stage_outer_if_uneven || spp_layout_uneven(layout) ? 2 : 0;
  return spp_sat_mul(layout->pp, layout->vpp) > job->arch->layers + outer;
}
RULE(no_uneven) {
  return spp_layout_uneven(layout) && (!job->framework->stage_uneven || layout->pp == 1);
}
/* Ends take whole chunks, or lack one layer each, where embedding and loss stand for it. */
RULE(uneven_stages) {
  if (!spp_layout_uneven(layout) || layout->pp == 1) return false;
  struct spp_stage_counts n = spp_stage_count(layout, job->arch->layers);
  bool whole = n.first % layout->vpp == 0 && n.last % layout->vpp == 0,
       one_less = n.first == n.middle - 1 && n.last == n.middle - 1;
  return !n.exact || n.middle % layout->vpp != 0 || (layout->pp > 2 && n.middle < 1) || !(whole || one_less);
}
RULE(vpp_without_pp) {
  return layout->vpp > 1 && layout->pp == 1;
}
RULE(no_schedule) {
  return layout->pp > 1 && !job->framework->schedules[layout->schedule];
}
RULE(schedule_degrees) {
  return layout->pp > 1 && (layout->vpp > 1) != (layout->schedule == SPP_SCHEDULE_INTERLEAVED);
}

RULE(no_zero) {
  return layout->zero < 0 || layout->zero > 3 || !job->framework->states[layout->zero].supported;
}
RULE(no_hsdp) {
  return layout->dp_replicate > 1 && !job->framework->hsdp;
}
RULE(hsdp_divides) {
  return layout->dp_replicate > 1 && layout->dp % layout->dp_replicate != 0;
}
RULE(no_recompute) {
  return !job->framework->recomputes[layout->recompute];
}
RULE(recompute_unit) {
  return layout->recompute_unit > 1 && layout->recompute != SPP_RECOMPUTE_FULL;
}
RULE(offload_layers) {
  int64_t fewest = job->arch->layers / spp_max64(1, layout->pp);
  return layout->offload_layers > 0 &&
         (!spp_layout_offloads_layers(layout, job) || layout->offload_layers >= fewest);
}
RULE(graphs_recompute) {
  return job->graphs != 0 && layout->recompute == SPP_RECOMPUTE_FULL;
}
/* Megatron's block method counts the layers of each model chunk. */
RULE(recompute_chunks) {
  return layout->recompute_layers != SPP_UNSET && layout->vpp > 1 &&
         layout->recompute_layers % layout->vpp != 0;
}
RULE(no_offload) {
  return !job->framework->offloads[layout->offload];
}
RULE(no_fpdt) {
  return layout->fpdt_chunk > 0 && !job->framework->fpdt;
}
RULE(fpdt_divides) {
  int64_t chunk = layout->fpdt_chunk;
  return chunk < 0 || (chunk > 0 && (job->seq_tokens % chunk != 0 || chunk % spp_layout_sp(layout) != 0));
}
RULE(fpdt_ring) {
  return layout->fpdt_chunk > 0 && layout->ring > 1;
}
/* One block of queries against one of keys at a time, with a causal mask or none. */
RULE(fpdt_attention) {
  const struct spp_arch *a = job->arch;
  if (layout->fpdt_chunk <= 0) return false;
  for (int i = 0; i < a->kind_count; i++)
    if (a->kinds[i].window_tokens > 0) return true;
  return job->attention != SPP_ATTN_FA2 || job->packing || a->attention == SPP_ATTENTION_MLA ||
         a->attention_sinks || a->qk_norm != SPP_QK_NORM_NONE;
}
RULE(fpdt_method) {
  return layout->fpdt_chunk > 0 && (job->method != SPP_METHOD_FULL || job->mode != SPP_MODE_TRAIN);
}
RULE(batch_divides) {
  return spp_sat_mul(spp_sat_mul(layout->micro_batch, layout->dp), layout->grad_accum) != job->global_batch;
}

RULE(no_mode) {
  return !job->framework->modes[job->mode];
}
RULE(no_method) {
  return !job->framework->methods[job->method];
}
RULE(no_dtype) {
  return !job->framework->dtypes[job->dtype];
}
RULE(no_attention) {
  return !job->framework->attentions[job->attention];
}
RULE(no_loss) {
  return !job->framework->losses[job->loss];
}
RULE(gpu_dtype) {
  return job->gpu && !(job->gpu->flops_per_s[job->dtype] > 0);
}
RULE(gpu_attention) {
  int cc = job->gpu ? job->gpu->compute_capability : 0;
  if (cc == 0) return false;
  if (job->attention == SPP_ATTN_FA3) return cc != 90;
  return job->attention == SPP_ATTN_FA2 && cc < 80;
}
RULE(infer_layout) {
  return job->mode == SPP_MODE_INFER && (spp_layout_sp(layout) > 1 || layout->zero > 0 ||
                                         layout->recompute != SPP_RECOMPUTE_NONE || layout->vpp > 1);
}

static const char derived[] = "derived: group arithmetic";
static const char has[] = "the framework's file in configs/frameworks";

const struct spp_rule spp_rules_general[] = {
    {"degree-positive", degree_below_one, "every degree, micro-batch and accumulation is at least 1", 0,
     SPP_VARY_NONE, derived},
    {"world-product", world_product, "TP {tp} x PP {pp} x SP {sp} x DP {dp} = {world} is not {gpus} GPUs", 0,
     SPP_VARY_NONE, "pytorch/torchtitan torchtitan/distributed/parallel_dims.py; the same in all"},
    {"tp-support", no_tp, "{framework} has no tensor parallelism (TP {tp})", SPP_AXIS_TP, SPP_VARY(tp), has},
    {"pp-support", no_pp, "{framework} has no pipeline parallelism (PP {pp})", 0, SPP_VARY(pp), has},
    {"vpp-support", no_vpp, "{framework} has no virtual pipeline stages (VPP {vpp})", SPP_AXIS_PIPE,
     SPP_VARY(vpp), has},
    {"ep-support", no_ep, "{framework} has no expert parallelism (EP {ep})", SPP_AXIS_EP, SPP_VARY(ep), has},
    {"etp-support", no_etp, "{framework} splits experts over TP {tp} as everything else, not over ETP {etp}",
     0, SPP_VARY(etp), has},
    {"megatron-sp-support", no_megatron_sp, "{framework} has no Megatron sequence parallelism inside TP",
     SPP_AXIS_MEGATRON_SP, SPP_VARY_NONE, has},
    {"megatron-sp-tp", megatron_sp_without_tp,
     "Megatron sequence parallelism needs TP above 1 (it is switched off)", SPP_AXIS_MEGATRON_SP,
     SPP_VARY_NONE, "NVIDIA/Megatron-LM megatron/training/arguments.py"},
    {"sp-kind-support", no_sp_kind,
     "{framework} has no {sp_kind} sequence parallelism (SP {sp}): it has {its_sp_kinds}", SPP_AXIS_SP,
     SPP_VARY_NONE, has},
    {"sp-kind-degrees", sp_kind_degrees, "SP kind {sp_kind} is not Ulysses {ulysses} x ring {ring}", 0,
     SPP_VARY_NONE, derived},
    {"hybrid-levels", hybrid_one_level,
     "a hybrid needs both sizes above 1, with their product the whole degree: Ulysses {ulysses} x ring "
     "{ring} is not one",
     SPP_AXIS_SP, SPP_VARY_NONE,
     "NVIDIA/Megatron-LM megatron/training/arguments.py (hierarchical-context-parallel-sizes)"},
    {"sp-split", sp_split,
     "{framework} splits SP {sp} itself, Ulysses {own_ulysses} x ring {own_ring} for {kv_heads} KV heads; "
     "Ulysses "
     "{ulysses} x ring {ring} cannot be asked for",
     0, SPP_VARY_NONE, "modelscope/ms-swift swift/sequence_parallel/sequence_parallel.py"},
    {"ring-packing", ring_unpacked,
     "the ring part of SP {sp} = Ulysses {ulysses} x ring {ring} needs padding-free batches: add --packing, "
     "or an SP "
     "that divides {kv_heads} KV heads",
     SPP_AXIS_SP, SPP_VARY_NONE, "modelscope/ms-swift swift/sequence_parallel/sequence_parallel.py"},
    {"sp-model-type", sp_model_type,
     "{framework} does not split the sequence of {model_type} models: SP {sp} saves nothing", SPP_AXIS_SP,
     SPP_VARY_NONE, has},
    {"ring-model-type", ring_model_type,
     "{model_type} has linear attention layers, which {framework} cannot run in a ring: SP {sp} must divide "
     "{kv_heads} "
     "KV heads",
     SPP_AXIS_SP, SPP_VARY_NONE, "modelscope/ms-swift swift/model/models/qwen.py"},
    {"heads-tp", heads_tp, "TP {tp} does not divide {heads} query heads", SPP_AXIS_TP, SPP_VARY(tp),
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py"},
    {"ffn-tp", ffn_tp, "TP {tp} does not divide the MLP width", SPP_AXIS_TP, SPP_VARY(tp),
     "NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py (divide)"},
    {"ep-experts", ep_without_experts, "EP {ep} needs a model with experts", SPP_AXIS_EP, SPP_VARY(ep),
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py"},
    {"experts-ep", experts_ep, "EP {ep} does not divide {experts} experts", SPP_AXIS_EP, SPP_VARY(ep),
     "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py"},
    {"ep-world", ep_world, "EP {ep} x expert TP {etp} does not divide the TP x SP x DP ranks of a stage",
     SPP_AXIS_EP, SPP_VARY(ep), "NVIDIA/Megatron-LM megatron/core/parallel_state.py"},
    {"stage-empty", stage_empty, "PP {pp} x VPP {vpp} makes {chunks} pieces of {layers} layers",
     SPP_AXIS_PIPE, SPP_VARY(pp), derived},
    {"uneven-support", no_uneven,
     "{framework} takes no layers of the first or last stage ({first_stage_layers}, {last_stage_layers}) at "
     "PP "
     "{pp}",
     SPP_AXIS_PIPE, SPP_VARY_NONE, has},
    {"uneven-stages", uneven_stages,
     "{layers} layers less {first_stage_layers} on the first and {last_stage_layers} on the last stage do "
     "not "
     "split evenly over the other stages of PP {pp} x VPP {vpp}{uneven_hint}",
     SPP_AXIS_PIPE, SPP_VARY_NONE,
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py "
     "(num_layers_in_first_pipeline_stage)"},
    {"vpp-pp", vpp_without_pp, "virtual stages (VPP {vpp}) need PP above 1", SPP_AXIS_PIPE, SPP_VARY(vpp),
     "NVIDIA/Megatron-LM megatron/training/arguments.py"},
    {"schedule-support", no_schedule,
     "{framework} has no {schedule} pipeline schedule: it has {its_schedules}", SPP_AXIS_PIPE, SPP_VARY_NONE,
     has},
    {"schedule-degrees", schedule_degrees,
     "the interleaved schedule and VPP above 1 go together ({schedule}, VPP {vpp})", SPP_AXIS_PIPE,
     SPP_VARY_NONE, "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py"},
    {"zero-support", no_zero, "{framework} has no sharding stage {zero}: it has {its_zeros}",
     SPP_AXIS_SHARDING, SPP_VARY_NONE, has},
    {"hsdp-support", no_hsdp, "{framework} cannot keep {dp_replicate} replicas of sharded states",
     SPP_AXIS_SHARDING, SPP_VARY(dp_replicate), has},
    {"hsdp-divides", hsdp_divides, "{dp_replicate} replicas do not divide DP {dp}", SPP_AXIS_SHARDING,
     SPP_VARY(dp_replicate), derived},
    {"recompute-support", no_recompute, "{framework} has no {recompute} recompute: it has {its_recomputes}",
     SPP_AXIS_RECOMPUTE, SPP_VARY_NONE, has},
    {"recompute-unit", recompute_unit, "units of {recompute_unit} layers exist under full recompute only",
     SPP_AXIS_RECOMPUTE, SPP_VARY(recompute_unit),
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py"},
    {"recompute-chunks", recompute_chunks,
     "recomputed layers count by chunk: {recompute_layers} a stage is no multiple of VPP {vpp}",
     SPP_AXIS_PIPE | SPP_AXIS_RECOMPUTE, SPP_VARY(recompute_layers),
     "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py _checkpointed_forward"},
    {"cuda-graphs-recompute", graphs_recompute,
     "CUDA graphs of single modules exclude full recompute: selective or none", SPP_AXIS_RECOMPUTE,
     SPP_VARY_NONE, "megatron-core 0.19.2 megatron/core/transformer/transformer_config.py __post_init__"},
    {"offload-support", no_offload, "{framework} cannot offload {offload}: it has {its_offloads}",
     SPP_AXIS_OFFLOAD, SPP_VARY_NONE, has},
    {"fpdt-support", no_fpdt,
     "{framework} passes no sequence in chunks (FPDT, {fpdt_chunk} tokens): Megatron-DeepSpeed does",
     SPP_AXIS_SP, SPP_VARY_NONE, has},
    {"fpdt-divides", fpdt_divides,
     "FPDT: {seq} tokens must be a multiple of a chunk of {fpdt_chunk}, and that one of SP {sp}; nearest "
     "below that is: {fpdt_chunk_down}",
     SPP_AXIS_SP, SPP_VARY_NONE, "deepspeed 0.19.8 deepspeed/sequence/fpdt_layer.py FPDT_InputConstruct"},
    {"fpdt-ring", fpdt_ring, "FPDT exchanges its chunks all-to-all: no ring ({ring})", SPP_AXIS_SP,
     SPP_VARY(ring), "deepspeed 0.19.8 deepspeed/sequence/fpdt_layer.py FPDT_Attention"},
    {"fpdt-attention", fpdt_attention,
     "FPDT runs plain causal attention with fa2 (here {attention}): no packed documents, sliding windows, "
     "sinks, latent attention or norms on q and k",
     0, SPP_VARY_NONE,
     "deepspeed 0.19.8 deepspeed/sequence/fpdt_layer.py: _flash_attn_forward, window_size (-1, -1), "
     "attention_mask None"},
    {"fpdt-method", fpdt_method,
     "FPDT multiplies by the weights themselves: no adapters, and mode train only", 0, SPP_VARY_NONE,
     "deepspeed 0.19.8 deepspeed/sequence/fpdt_layer.py: torch.matmul with qkv_linear_weight"},
    {"offload-layers", offload_layers,
     "{offload_layers} layers cannot move to the host: fewer than {layers}, with --offload activations, "
     "without "
     "recompute, in Megatron",
     SPP_AXIS_OFFLOAD | SPP_AXIS_RECOMPUTE, SPP_VARY(offload_layers),
     "megatron-core 0.19.2 megatron/core/transformer/transformer_config.py cpu_offloading_num_layers"},
    {"batch-divides", batch_divides,
     "global batch {global_batch} is not micro-batch {micro_batch} x DP {dp} x a whole accumulation: a "
     "multiple of "
     "{batch_unit}, such as {batch_up}",
     SPP_AXIS_BATCH, SPP_VARY_NONE, "modelscope/ms-swift swift/megatron/arguments/megatron_args.py"},
    {"mode-support", no_mode, "{framework} has no mode {mode}", 0, SPP_VARY_NONE, has},
    {"method-support", no_method, "{framework} does not do {method}", 0, SPP_VARY_NONE, has},
    {"dtype-support", no_dtype, "{framework} does not train in {dtype}", 0, SPP_VARY_NONE, has},
    {"attention-support", no_attention, "{framework} does not use {attention} attention", 0, SPP_VARY_NONE,
     has},
    {"loss-support", no_loss, "{framework} has no {loss} loss", SPP_AXIS_LOSS, SPP_VARY_NONE, has},
    {"gpu-dtype", gpu_dtype, "{gpu} has no {dtype} units of known speed", 0, SPP_VARY_NONE,
     "datasheet, configs/gpus"},
    {"gpu-attention", gpu_attention,
     "{attention} does not run on {gpu} (fa2: compute capability 8.0 and up, fa3: 9.0)", 0, SPP_VARY_NONE,
     "Dao-AILab/flash-attention README"},
    {"infer-layout", infer_layout,
     "inference has no sequence parallelism, sharded states, recompute or virtual stages",
     SPP_AXIS_SHARDING | SPP_AXIS_RECOMPUTE | SPP_AXIS_PIPE, SPP_VARY_NONE, "derived"},
};
const int spp_rules_general_count = (int)(sizeof spp_rules_general / sizeof spp_rules_general[0]);
