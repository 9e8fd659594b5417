#include "report/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define PART(name, label, words)                                                                             \
  { #name, label, words, offsetof(struct spp_time, name##_s) }
const struct spp_time_part spp_time_parts[] = {
    PART(compute, "matrix products and the rest of the layers", "compute"),
    PART(attention, "attention kernels", "attention"),
    PART(sp_exposed, "sequence parallel traffic, not hidden", "SP not hidden"),
    PART(tp_exposed, "tensor parallel traffic, not hidden", "TP not hidden"),
    PART(pp_bubble, "pipeline bubble", "pipeline bubble"),
    PART(pp_exposed, "pipeline traffic, not hidden", "PP not hidden"),
    PART(dp_exposed, "data parallel and ZeRO traffic, not hidden", "DP not hidden"),
    PART(ep_exposed, "expert parallel traffic, not hidden", "EP not hidden"),
    PART(offload_exposed, "offload traffic, not hidden", "offload not hidden"),
    PART(optimizer, "optimizer step", "optimizer"),
    PART(host, "host: Python and kernel launches", "host"),
};
#undef PART
const int spp_time_part_count = (int)(sizeof(spp_time_parts) / sizeof(spp_time_parts[0]));

double spp_fact_time_part(const struct spp_time *time, int i) {
  return *(const double *)((const char *)time + spp_time_parts[i].offset);
}

bool spp_fact_has_ring(const struct spp_layout *layout) {
  return layout->ring > 1 && (layout->sp_kind == SPP_SP_RING || layout->sp_kind == SPP_SP_HYBRID);
}

int spp_fact_common_kind(const struct spp_arch *arch) {
  int common = 0;
  for (int i = 1; i < arch->kind_count; i++)
    if (arch->kinds[i].count > arch->kinds[common].count) common = i;
  return common;
}

double spp_fact_epoch_s(const struct spp_report *report, const struct spp_prediction *prediction) {
  if (report->dataset_tokens > 0 && prediction->time.tokens_per_s > 0)
    return (double)report->dataset_tokens / prediction->time.tokens_per_s;
  if (report->dataset_samples > 0 && prediction->time.samples_per_s > 0)
    return (double)report->dataset_samples / prediction->time.samples_per_s;
  return 0;
}

int spp_fact_warnings(const struct spp_report *report, const struct spp_plan *plan, struct spp_advice *advice,
                      int max) {
  int count = (int)spp_min64(report->idle_count, max);
  if (count > 0) memcpy(advice, report->idle, (size_t)count * sizeof *advice);
  return plan ? count + spp_advise_warnings(plan, advice + count, max - count) : count;
}

int spp_fact_assumed(const struct spp_report *report, const struct spp_plan *plan, bool intervals,
                     struct spp_advice *advice, int max) {
  int count = 0;
  if (report->gpu_note && max > 0) {
    snprintf(advice[0].code, sizeof advice[0].code, "gpu");
    snprintf(advice[0].text, sizeof advice[0].text, "%s (%s)", plan->job.gpu->display, report->gpu_note);
    count = 1;
  }
  for (int i = 0; i < report->assumed_count && count < max; i++)
    advice[count++] = report->assumed[i];
  count += spp_advise_assumed(report->spec, plan, advice + count, max - count);
  return intervals ? count + spp_advise_intervals(plan, advice + count, max - count) : count;
}

static struct spp_comm_sum *sum_of(struct spp_comm_sum *sums, int *count, int max,
                                   const struct spp_comm_op *op) {
  for (int i = 0; i < *count; i++)
    if (sums[i].op == op->op && sums[i].group == op->group) return &sums[i];
  if (*count == max) return NULL;
  sums[*count] = (struct spp_comm_sum){.op = op->op, .group = op->group, .ranks = op->ranks};
  return &sums[(*count)++];
}

int spp_fact_comm_sums(const struct spp_comm *comm, struct spp_comm_sum *sums, int max) {
  int count = 0;
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    struct spp_comm_sum *sum = sum_of(sums, &count, max, op);
    if (!sum) continue;
    sum->step_bytes = spp_sat_add(sum->step_bytes, spp_sat_mul(op->sent_bytes, op->count_per_step));
    sum->count = spp_sat_add(sum->count, op->count_per_step);
    sum->time_s += op->time_s;
    sum->exposed_s += op->exposed_s;
  }
  for (int i = 1; i < count; i++) { /* insertion sort: a handful of rows, stable */
    struct spp_comm_sum moved = sums[i];
    int at = i;
    for (; at > 0 && sums[at - 1].exposed_s < moved.exposed_s; at--)
      sums[at] = sums[at - 1];
    sums[at] = moved;
  }
  return count;
}

bool spp_fact_best_of_framework(const struct spp_plan_report *answer, int index) {
  for (int i = 0; i < answer->options->framework_count; i++)
    if (answer->search->best_of_framework[i] == index) return true;
  return false;
}
