#include "model/layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/words.h"

struct spp_layout spp_layout_plain(void) {
  return (struct spp_layout){.tp = 1,
                             .pp = 1,
                             .vpp = 1,
                             .dp = 1,
                             .ep = 1,
                             .etp = 1,
                             .ulysses = 1,
                             .ring = 1,
                             .sp_kind = SPP_SP_NONE,
                             .dp_replicate = 1,
                             .recompute = SPP_RECOMPUTE_NONE,
                             .recompute_layers = SPP_UNSET,
                             .recompute_unit = 1,
                             .offload = SPP_OFFLOAD_NONE,
                             .schedule = SPP_SCHEDULE_1F1B,
                             .micro_batch = 1,
                             .grad_accum = 1};
}

void spp_request_clear(struct spp_request *request) {
  *request = (struct spp_request){.tp = SPP_UNSET,
                                  .pp = SPP_UNSET,
                                  .vpp = SPP_UNSET,
                                  .dp = SPP_UNSET,
                                  .ep = SPP_UNSET,
                                  .etp = SPP_UNSET,
                                  .sp = SPP_UNSET,
                                  .ulysses = SPP_UNSET,
                                  .ring = SPP_UNSET,
                                  .sp_kind = SPP_UNSET,
                                  .megatron_sp = SPP_UNSET,
                                  .zero = SPP_UNSET,
                                  .dp_replicate = SPP_UNSET,
                                  .recompute = SPP_UNSET,
                                  .recompute_modules = SPP_UNSET,
                                  .recompute_layers = SPP_UNSET,
                                  .recompute_unit = SPP_UNSET,
                                  .offload = SPP_UNSET,
                                  .fpdt_chunk = SPP_UNSET,
                                  .fpdt_offload = SPP_UNSET,
                                  .offload_layers = SPP_UNSET,
                                  .schedule = SPP_UNSET,
                                  .first_stage_layers = SPP_UNSET,
                                  .last_stage_layers = SPP_UNSET,
                                  .micro_batch = SPP_UNSET};
}

static int64_t or_else(int64_t value, int64_t fallback) {
  return value == SPP_UNSET ? fallback : value;
}

int64_t spp_own_ulysses(const struct spp_job *job, int64_t sp) {
  int64_t ulysses = spp_gcd(spp_max64(spp_arch_kv_heads(job->arch), 1), spp_max64(sp, 1));
  int64_t node = job->cluster ? job->cluster->gpus_per_node : 0;
  if (job->framework->sp_split != SPP_SPLIT_DIVISOR_KV_NODE || node < 1 || ulysses <= node) return ulysses;
  for (int64_t most = node; most > 1; most--)
    if (ulysses % most == 0) return most;
  return 1;
}

/* The Ulysses part of a hybrid of `sp` ranks that cuts no KV head of a TP rank; when that is all of sp, the
 * largest proper divisor. */
static int64_t hybrid_ulysses(const struct spp_job *job, int64_t tp, int64_t sp) {
  int64_t kv = spp_max64(spp_arch_kv_heads(job->arch) / spp_max64(tp, 1), 1);
  int64_t su = spp_gcd(kv, sp);
  if (su < sp || sp < 2) return su;
  for (int64_t divisor = 2; divisor <= sp; divisor++)
    if (sp % divisor == 0) return sp / divisor;
  return su;
}

/* Ulysses and ring degrees of a total degree given alone. */
static void split_total(const struct spp_job *job, int64_t tp, int64_t sp, int kind, struct spp_layout *l) {
  const struct spp_framework *f = job->framework;
  enum spp_sp_kind want = kind == SPP_UNSET ? f->sp_kind_default : (enum spp_sp_kind)kind;
  bool own_split = kind == SPP_UNSET && f->sp_split != SPP_SPLIT_FREE;
  l->ulysses = 1;
  if (own_split)
    l->ulysses = spp_own_ulysses(job, sp);
  else if (want == SPP_SP_HYBRID)
    l->ulysses = hybrid_ulysses(job, tp, sp);
  if (!own_split && want == SPP_SP_ULYSSES) l->ulysses = sp;
  l->ring = sp / l->ulysses;
}

/* The kind a pair of degrees amounts to; a ring part may be a KV all-gather. */
static enum spp_sp_kind kind_of(const struct spp_framework *f, const struct spp_layout *l) {
  if (l->ulysses > 1 && l->ring > 1) return SPP_SP_HYBRID;
  if (l->ulysses > 1) return SPP_SP_ULYSSES;
  if (l->ring <= 1) return SPP_SP_NONE;
  bool gathers = f->sp_kind_default == SPP_SP_ALLGATHER || !f->sp_kinds[SPP_SP_RING];
  return gathers && f->sp_kinds[SPP_SP_ALLGATHER] ? SPP_SP_ALLGATHER : SPP_SP_RING;
}

static enum spp_status complete_sp(const struct spp_job *job, const struct spp_request *r,
                                   struct spp_layout *l, struct spp_diag *diag) {
  int64_t su = r->ulysses, sr = r->ring, sp = r->sp;
  if (sp != SPP_UNSET && sp < 1)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--sp", "give 1 or more",
                        "a degree of %" PRId64 " makes no sense", sp);
  if (sp != SPP_UNSET && su == SPP_UNSET && sr == SPP_UNSET) {
    split_total(job, l->tp, sp, r->sp_kind, l);
  } else {
    if (sp != SPP_UNSET && su == SPP_UNSET && sr > 0) su = sp / sr;
    if (sp != SPP_UNSET && sr == SPP_UNSET && su > 0) sr = sp / su;
    l->ulysses = or_else(su, 1);
    l->ring = or_else(sr, 1);
    if (l->ulysses < 1 || l->ring < 1)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--sp", "give --sp a multiple of its parts",
                          "SP %" PRId64 " is less than its Ulysses or ring part", sp);
    if (sp != SPP_UNSET && spp_sat_mul(l->ulysses, l->ring) != sp)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--sp", "give two of --sp, --ulysses and --ring",
                          "Ulysses %" PRId64 " x ring %" PRId64 " is not %" PRId64, l->ulysses, l->ring, sp);
  }
  l->sp_kind = r->sp_kind == SPP_UNSET ? kind_of(job->framework, l) : (enum spp_sp_kind)r->sp_kind;
  if (spp_layout_sp(l) == 1) l->sp_kind = SPP_SP_NONE; /* degree 1 of any kind is none */
  return SPP_OK;
}

/* Largest degree at most `value` that divides n. */
static int64_t divisor_below(int64_t n, int64_t value) {
  for (int64_t d = spp_min64(value, n); d > 1; d--)
    if (n % d == 0) return d;
  return 1;
}

static enum spp_status complete_dp(const struct spp_job *job, const struct spp_request *r,
                                   struct spp_layout *l, struct spp_diag *diag) {
  int64_t sp = spp_sat_mul(l->ulysses, l->ring);
  int64_t inner = spp_sat_mul(spp_sat_mul(l->tp, l->pp), sp);
  char hint[160];
  if (l->tp < 1 || l->pp < 1 || l->vpp < 1 || l->ulysses < 1 || l->ring < 1 || l->ep < 1 || l->etp < 1 ||
      (r->dp != SPP_UNSET && r->dp < 1) || l->micro_batch < 1)
    return spp_diag_set(diag, SPP_ERR_USAGE, "layout", "every degree is at least 1", "a degree is below 1");
  l->dp = r->dp != SPP_UNSET ? r->dp : job->gpus > 0 ? spp_max64(job->gpus / inner, 1) : 1;
  if (job->gpus <= 0 || spp_sat_mul(inner, l->dp) == job->gpus) return SPP_OK;
  if (r->dp != SPP_UNSET)
    snprintf(hint, sizeof hint, "their product must be --gpus; leave --dp out to have it filled in");
  else
    snprintf(hint, sizeof hint, "their product must divide the GPUs: nearest below is %" PRId64,
             divisor_below(job->gpus, inner));
  return spp_diag_set(diag, SPP_ERR_USAGE, "layout", hint,
                      "TP %" PRId64 " x PP %" PRId64 " x SP %" PRId64 "%s%" PRId64 "%s %" PRId64 " GPUs",
                      l->tp, l->pp, sp, r->dp != SPP_UNSET ? " x DP " : " = ",
                      r->dp != SPP_UNSET ? l->dp : inner, r->dp != SPP_UNSET ? " is not" : " does not divide",
                      job->gpus);
}

static void complete_states(const struct spp_job *job, const struct spp_request *r, struct spp_layout *l) {
  const struct spp_framework *f = job->framework;
  bool trains = job->mode != SPP_MODE_INFER;
  l->megatron_sp = or_else(r->megatron_sp, f->megatron_sp && trains) != 0 && l->tp > 1;
  l->zero = (int)or_else(r->zero, trains ? f->zero_default : 0);
  l->dp_replicate = or_else(r->dp_replicate, 1);
  l->recompute =
      (enum spp_recompute)or_else(r->recompute, trains ? (int)f->recompute_default : SPP_RECOMPUTE_NONE);
  l->recompute_modules = 0;
  if (l->recompute == SPP_RECOMPUTE_SELECTIVE)
    l->recompute_modules = (unsigned)or_else(r->recompute_modules, f->selective_modules);
  l->recompute_layers = r->recompute_layers;
  l->recompute_unit = or_else(r->recompute_unit, 1);
  l->offload = (enum spp_offload)or_else(r->offload, SPP_OFFLOAD_NONE);
  l->fpdt_chunk = or_else(r->fpdt_chunk, 0);
  l->fpdt_offload = l->fpdt_chunk > 0 && or_else(r->fpdt_offload, 1) != 0;
  l->offload_layers = or_else(r->offload_layers, 0);
  if (l->offload_layers == job->arch->layers / spp_max64(1, l->pp) - 1) l->offload_layers = 0;
  l->first_stage_layers = or_else(r->first_stage_layers, 0);
  l->last_stage_layers = or_else(r->last_stage_layers, 0);
  l->schedule = (enum spp_schedule)or_else(r->schedule, l->pp > 1 && l->vpp > 1 ? SPP_SCHEDULE_INTERLEAVED
                                                                                : SPP_SCHEDULE_1F1B);
}

enum spp_status spp_layout_complete(const struct spp_job *job, const struct spp_request *request,
                                    struct spp_layout *layout, struct spp_diag *diag) {
  struct spp_layout l = {.tp = or_else(request->tp, 1),
                         .pp = or_else(request->pp, 1),
                         .vpp = or_else(request->vpp, 1),
                         .ep = or_else(request->ep, 1),
                         .micro_batch = or_else(request->micro_batch, 1)};
  l.etp = or_else(request->etp, l.tp); /* NVIDIA/Megatron-LM: expert TP defaults to TP */
  enum spp_status status = complete_sp(job, request, &l, diag);
  if (status == SPP_OK) status = complete_dp(job, request, &l, diag);
  if (status != SPP_OK) return status;
  complete_states(job, request, &l);
  l.grad_accum = spp_max64(job->global_batch / spp_sat_mul(l.micro_batch, l.dp), 1);
  *layout = l;
  return SPP_OK;
}

/* Appends to a fixed buffer; cuts instead of overflowing. */
static void SPP_PRINTF(4, 5) put(char *buf, size_t size, size_t *used, const char *fmt, ...) {
  va_list args;
  if (*used + 1 >= size) return;
  va_start(args, fmt);
  int n = vsnprintf(buf + *used, size - *used, fmt, args);
  va_end(args);
  if (n > 0) *used += (size_t)n;
  if (*used >= size) *used = size - 1;
}

static void describe_sp(const struct spp_job *job, const struct spp_layout *l, char *buf, size_t size,
                        size_t *used) {
  int64_t sp = spp_layout_sp(l);
  if (sp <= 1) return;
  put(buf, size, used, " · SP %" PRId64 " (", sp);
  if (l->ulysses > 1) put(buf, size, used, "Ulysses %" PRId64, l->ulysses);
  if (l->ulysses > 1 && l->ring > 1) put(buf, size, used, " x ");
  if (l->ring > 1)
    put(buf, size, used, "%s %" PRId64, l->sp_kind == SPP_SP_ALLGATHER ? "all-gather" : "ring", l->ring);
  if (l->ring > 1 && (job->ring_order == SPP_RING_ZIGZAG) != job->framework->ring_zigzag)
    put(buf, size, used, ", %s", spp_ring_order_name(job->ring_order));
  put(buf, size, used, ")");
}

static void describe_chunks(const struct spp_layout *l, char *buf, size_t size, size_t *used) {
  if (l->fpdt_chunk <= 0) return;
  put(buf, size, used, " · FPDT chunks of %" PRId64 "%s", l->fpdt_chunk,
      l->fpdt_offload ? "" : " on the GPU");
}

static void describe_states(const struct spp_job *job, const struct spp_layout *l, char *buf, size_t size,
                            size_t *used) {
  static const char *const fsdp[] = {"DDP", "ZeRO-1", "FSDP grad-op", "FSDP"};
  static const char *const megatron[] = {"no sharding", "distributed optimizer", "FSDP optim+grads", "FSDP"};
  bool fits = l->zero >= 0 && l->zero <= 3;
  if (fits && job->framework->sharding == SPP_SHARDING_FSDP)
    put(buf, size, used, " · %s", fsdp[l->zero]);
  else if (fits && job->framework->sharding == SPP_SHARDING_MEGATRON)
    put(buf, size, used, " · %s", megatron[l->zero]);
  else
    put(buf, size, used, " · ZeRO-%d", l->zero);
  if (l->dp_replicate > 1) put(buf, size, used, " x %" PRId64 " replicas", l->dp_replicate);
}

static void describe_pipeline(const struct spp_layout *l, char *buf, size_t size, size_t *used) {
  if (l->pp <= 1) return;
  put(buf, size, used, "PP %" PRId64, l->pp);
  if (l->first_stage_layers > 0) put(buf, size, used, ", first stage %" PRId64, l->first_stage_layers);
  if (l->last_stage_layers > 0) put(buf, size, used, ", last stage %" PRId64, l->last_stage_layers);
  put(buf, size, used, l->first_stage_layers > 0 || l->last_stage_layers > 0 ? " layers x " : " x ");
}

/* Everything that two plans may differ in is said, what the framework would do anyway is not. */
static void describe_recompute(const struct spp_job *job, const struct spp_layout *l, char *buf, size_t size,
                               size_t *used) {
  put(buf, size, used, " · %s recompute",
      l->recompute == SPP_RECOMPUTE_NONE ? "no" : spp_recompute_name(l->recompute));
  if (l->recompute == SPP_RECOMPUTE_FULL && l->recompute_layers != SPP_UNSET)
    put(buf, size, used, " of %" PRId64 " layer%s a stage", l->recompute_layers,
        l->recompute_layers == 1 ? "" : "s");
  if (l->recompute != SPP_RECOMPUTE_SELECTIVE || l->recompute_modules == job->framework->selective_modules)
    return;
  const char *before = " (";
  for (int bit = 0; bit < spp_words_of(SPP_WORDS_MODULE)->count; bit++) {
    if (!(l->recompute_modules >> bit & 1)) continue;
    put(buf, size, used, "%s%s", before, spp_recompute_module_name(bit));
    before = ", ";
  }
  put(buf, size, used, ")");
}

const char *spp_layout_describe(const struct spp_job *job, const struct spp_layout *layout, char *buf,
                                size_t size) {
  const struct spp_layout *l = layout;
  size_t used = 0;
  if (size > 0) buf[0] = '\0';
  if (l->tp > 1) put(buf, size, &used, "TP %" PRId64 "%s x ", l->tp, l->megatron_sp ? "+SP" : "");
  describe_pipeline(l, buf, size, &used);
  if (l->vpp > 1) put(buf, size, &used, "VPP %" PRId64 " x ", l->vpp);
  put(buf, size, &used, "DP %" PRId64, l->dp);
  if (l->schedule != SPP_SCHEDULE_1F1B && l->schedule != SPP_SCHEDULE_INTERLEAVED)
    put(buf, size, &used, " · %s", spp_schedule_name(l->schedule));
  if (l->ep > 1) put(buf, size, &used, " · EP %" PRId64, l->ep);
  if (l->ep > 1 && l->etp != l->tp) put(buf, size, &used, " x ETP %" PRId64, l->etp);
  describe_sp(job, l, buf, size, &used);
  describe_chunks(l, buf, size, &used);
  if (job->mode != SPP_MODE_INFER) {
    describe_states(job, l, buf, size, &used);
    describe_recompute(job, l, buf, size, &used);
  }
  if (l->offload != SPP_OFFLOAD_NONE) put(buf, size, &used, " · offload %s", spp_offload_name(l->offload));
  if (job->mode != SPP_MODE_INFER && job->loss != job->framework->loss_default)
    put(buf, size, &used, " · %s loss", spp_loss_choice_name(job->loss));
  put(buf, size, &used, " · %s %" PRId64 " x %" PRId64, job->mode == SPP_MODE_INFER ? "batch" : "micro-batch",
      l->micro_batch, l->grad_accum);
  return buf;
}
