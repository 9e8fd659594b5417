/* How a job is spread over GPUs. A layout is complete and resolved; a request leaves fields at SPP_UNSET. */
#ifndef SPP_MODEL_LAYOUT_H
#define SPP_MODEL_LAYOUT_H

#include "base/num.h"
#include "model/job.h"

struct spp_layout {
  int64_t tp, pp, vpp, dp, ep, etp;
  int64_t ulysses, ring; /* sp = ulysses * ring; ring also counts all-gather ranks */
  enum spp_sp_kind sp_kind;
  bool megatron_sp;
  int zero;             /* 0..3; FSDP full shard = 3, SHARD_GRAD_OP = 2, Megatron distributed optimizer = 1 */
  int64_t dp_replicate; /* HSDP: copies of the sharded states; 1 = shard over the whole group */
  enum spp_recompute recompute;
  unsigned recompute_modules; /* SPP_RC_*, when selective */
  int64_t recompute_layers;   /* full: layers of a stage recomputed, SPP_UNSET = all */
  int64_t recompute_unit;     /* full: layers per checkpointed unit, 1 by default */
  enum spp_offload offload;
  int64_t fpdt_chunk; /* tokens of a sequence that pass attention, MLP and loss at a time (DeepSpeed FPDT); 0
                         = all */
  bool fpdt_offload;  /* chunks that wait are in host memory */
  int64_t offload_layers; /* of a stage, those whose tensors move; 0 = all but one */
  enum spp_schedule schedule;
  int64_t first_stage_layers,
      last_stage_layers;           /* of an uneven pipeline; 0 = as the others, the framework's split */
  int64_t micro_batch, grad_accum; /* sequences per DP replica per micro-batch; micro-batches per step */
};

/* One rank, nothing split, sharded, recomputed or offloaded: where every layout starts from. */
struct spp_layout spp_layout_plain(void);

/* Same fields, each SPP_UNSET where the user said nothing. sp: total degree given alone. */
struct spp_request {
  int64_t tp, pp, vpp, dp, ep, etp, sp, ulysses, ring;
  int sp_kind, megatron_sp, zero;
  int64_t dp_replicate;
  int recompute;
  int64_t recompute_modules, recompute_layers, recompute_unit;
  int offload, schedule;
  int64_t fpdt_chunk;
  int fpdt_offload;
  int64_t offload_layers;
  int64_t first_stage_layers, last_stage_layers;
  int64_t micro_batch;
};
void spp_request_clear(struct spp_request *request);

static inline int64_t spp_layout_sp(const struct spp_layout *layout) {
  return spp_sat_mul(layout->ulysses, layout->ring);
}
static inline int64_t spp_layout_world(const struct spp_layout *layout) {
  return spp_sat_mul(spp_sat_mul(layout->tp, layout->pp), spp_sat_mul(spp_layout_sp(layout), layout->dp));
}

/* Whether the first or last pipeline stage has a number of layers of its own. */
static inline bool spp_layout_uneven(const struct spp_layout *layout) {
  return layout->first_stage_layers > 0 || layout->last_stage_layers > 0;
}

/* The Ulysses part of `sp` ranks under a framework that splits the degree itself; the ring gets the rest.
 * gcd-kv: gcd(KV heads, sp) (modelscope/ms-swift swift/sequence_parallel/sequence_parallel.py).
 * divisor-kv-node: the largest divisor of sp that divides the KV heads and is no larger than a node
 * (axolotl-ringmaster 0.2.7 ringmaster/strategies/usp.py auto_select). */
int64_t spp_own_ulysses(const struct spp_job *job, int64_t sp);

/* Fill a layout from a request: framework defaults, the framework's own split of `sp`, dp = gpus / (tp pp
 * sp), grad_accum = global_batch / (micro_batch dp). Does not judge legality beyond what it needs to divide:
 * SPP_ERR_USAGE when the degrees do not multiply to the GPUs. */
enum spp_status spp_layout_complete(const struct spp_job *job, const struct spp_request *request,
                                    struct spp_layout *layout, struct spp_diag *diag);

/* One broken rule: which, by whose decree, and the nearest legal value. */
struct spp_violation {
  char rule[48];
  char text[320];
  char source[240];
  char instead[80]; /* what to do instead, where one thing does; else empty */
};
/* All rules of the job's framework that the layout breaks; fills at most `max` and returns how many were
 * found. violations may be NULL: then stops at the first (the search asks this way). */
int spp_rules_check(const struct spp_job *job, const struct spp_layout *layout,
                    struct spp_violation *violations, int max);
/* Index in the rule table of the first rule broken, or -1: cheap, no text. */
int spp_rules_first(const struct spp_job *job, const struct spp_layout *layout);
const char *spp_rule_id(int index);
unsigned spp_rule_axes(int index); /* SPP_AXIS_*: what the rule is about; 0 outside */
int spp_rule_count(void);
int spp_rule_find(const char *id); /* or -1 */
/* Degrees a rule is about: spp_rules_first_of looks only at rules about one of `axes`. */
enum spp_axis {
  SPP_AXIS_SP = 1 << 0,
  SPP_AXIS_TP = 1 << 1,
  SPP_AXIS_EP = 1 << 2,
  SPP_AXIS_BATCH = 1 << 3, /* this and the others: every rule that looks at micro-batch or accumulation, */
  SPP_AXIS_MEGATRON_SP = 1 << 4,
  SPP_AXIS_PIPE = 1 << 5,     /* virtual stages, schedule, layers of the end stages, */
  SPP_AXIS_SHARDING = 1 << 6, /* ZeRO stage and replicas, */
  SPP_AXIS_RECOMPUTE = 1 << 7,
  SPP_AXIS_OFFLOAD = 1 << 8,
  SPP_AXIS_LOSS = 1 << 9 /* choice of loss, of the job */
};
/* What may differ between layouts that divide the GPUs alike, besides the batch: rules about none of these
 * and not about the batch judge such layouts alike. */
enum {
  SPP_AXES_CHOICE = SPP_AXIS_MEGATRON_SP | SPP_AXIS_PIPE | SPP_AXIS_SHARDING | SPP_AXIS_RECOMPUTE |
                    SPP_AXIS_OFFLOAD | SPP_AXIS_LOSS
};
int spp_rules_first_of(const struct spp_job *job, const struct spp_layout *layout, unsigned axes);
/* The same in two steps, for a job asked about many layouts: the rules about one of `axes` (0 = all) and none
 * of `but`, in order; the first of them broken. Fills at most `max` and returns how many there are. */
int spp_rules_list(const struct spp_job *job, unsigned axes, unsigned but, int *rules, int max);
int spp_rules_first_in(const struct spp_job *job, const struct spp_layout *layout, const int *rules,
                       int count);
/* Words for rule `index`, which the layout breaks. */
void spp_rule_explain(const struct spp_job *job, const struct spp_layout *layout, int index,
                      struct spp_violation *violation);

/* "TP 2 x DP 4 · SP 4 (Ulysses 4) · ZeRO-3 · full recompute · micro-batch 1 x 4"; returns buf. */
const char *spp_layout_describe(const struct spp_job *job, const struct spp_layout *layout, char *buf,
                                size_t size);

/* Layers of `layers` whose tensors wait in host memory. */
static inline int64_t spp_layout_layers_away(const struct spp_layout *layout, int64_t layers) {
  int64_t most = spp_max64(0, layers - 1);
  return layout->offload_layers > 0 ? spp_min64(layout->offload_layers, most) : most;
}
/* Does everything that layers keep move to host memory, not the inputs of recomputed ones? */
static inline bool spp_layout_offloads_layers(const struct spp_layout *layout, const struct spp_job *job) {
  return spp_offload_activations(layout->offload) && layout->recompute == SPP_RECOMPUTE_NONE &&
         spp_job_runs_te(job);
}

#endif
