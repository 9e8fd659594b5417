#include "exec/plan.h"

#include <string.h>

#include "exec/try.h"

static enum spp_status check_rules(const struct spp_exec_plan *plan, struct spp_diag *diag) {
  struct spp_violation violation;
  if (spp_rules_check(&plan->job, &plan->layout, &violation, 1) == 0) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_USAGE, violation.rule, violation.source, "%s", violation.text);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b > 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Tokens that are together on every rank, however it holds its part of the sequences. */
static int64_t own_group(const struct spp_exec_plan *plan) {
  const struct spp_geometry *g = &plan->geometry;
  int64_t tokens = g->padded_tokens / g->sp;
  if (g->sr > 1 && plan->job.ring_order == SPP_RING_ZIGZAG)
    tokens = common_divisor(tokens, g->padded_tokens / (2 * g->sr));
  return plan->layout.megatron_sp ? common_divisor(tokens, g->stream_tokens) : tokens;
}

enum spp_status spp_exec_plan_open(const char *config_dir, const struct spp_exec_setting *setting,
                                   struct spp_exec_plan *plan, struct spp_diag *diag) {
  const struct spp_framework *framework;
  struct spp_job_spec spec;
  memset(plan, 0, sizeof *plan);
  spp_arena_init(&plan->arena);
  plan->layout = setting->layout;
  if (setting->arch->experts == 0) plan->layout.etp = setting->layout.tp;
  plan->gpu.capacity_bytes = INT64_MAX / 2;
  plan->gpu.flops_per_s[SPP_DTYPE_FP32] = 1; /* it computes in both; how fast, a probe tells */
  plan->gpu.flops_per_s[SPP_DTYPE_BF16] = 1;
  plan->cluster.gpus_per_node = (int)spp_layout_world(&setting->layout);
  SPP_TRY(spp_framework_load(config_dir, "spplan", &plan->arena, &framework, diag));
  spp_job_spec_clear(&spec);
  spec.arch = setting->arch;
  spec.gpu = &plan->gpu;
  spec.cluster = &plan->cluster;
  spec.calib = &plan->calib;
  spec.gpus = spp_layout_world(&setting->layout);
  spec.seq_tokens = setting->seq_tokens;
  spec.global_batch = setting->layout.micro_batch * setting->layout.grad_accum * setting->layout.dp;
  spec.dtype = (int)setting->dtype;
  spec.expert_capacity = setting->expert_capacity;
  if (setting->contiguous) spec.ring_order = SPP_RING_CONTIGUOUS;
  if (setting->doc_count > 0) {
    spec.packing = 1;
    spp_documents_measure(setting->doc_lengths, setting->doc_count, setting->seq_tokens, &spec.documents);
  }
  SPP_TRY(spp_job_resolve(&spec, framework, &plan->job, diag));
  SPP_TRY(check_rules(plan, diag));
  spp_geometry_resolve(&plan->job, &plan->layout, &plan->geometry);
  plan->expert_group_tokens =
      setting->expert_group_tokens > 0 ? setting->expert_group_tokens : own_group(plan);
  return SPP_OK;
}

void spp_exec_plan_close(struct spp_exec_plan *plan) {
  spp_arena_free(&plan->arena);
}
