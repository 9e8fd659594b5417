#include "planner/degrees.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

static void judge(const struct spp_job *job, const struct spp_layout *layout, unsigned axis,
                  struct spp_degree *d) {
  int index = spp_rules_first_of(job, layout, axis);
  d->legal = index < 0;
  if (d->legal && job->gpus > 0 && job->gpus % d->degree != 0) {
    d->legal = false;
    snprintf(d->rule, sizeof d->rule, "world-product");
    snprintf(d->text, sizeof d->text, "%" PRId64 " does not divide %" PRId64 " GPUs", d->degree, job->gpus);
  }
  if (index < 0) return;
  struct spp_violation violation;
  spp_rule_explain(job, layout, index, &violation);
  snprintf(d->rule, sizeof d->rule, "%s", violation.rule);
  snprintf(d->text, sizeof d->text, "%s", violation.text);
}

/* The framework's own split of a total degree, from the completion of a request (a job without GPUs: no
 * product to meet). */
static struct spp_layout split(const struct spp_job *job, int sp_kind, int64_t degree) {
  struct spp_job free_job = *job;
  struct spp_request request;
  struct spp_layout completed, layout = spp_layout_plain();
  struct spp_diag diag;
  free_job.gpus = 0;
  spp_request_clear(&request);
  request.sp = degree;
  request.sp_kind = sp_kind;
  if (spp_layout_complete(&free_job, &request, &completed, &diag) != SPP_OK) return layout;
  layout.ulysses = completed.ulysses;
  layout.ring = completed.ring;
  layout.sp_kind = completed.sp_kind;
  return layout;
}

static void list_sp(const struct spp_job *job, int sp_kind, int64_t limit, struct spp_degrees *out) {
  for (int64_t n = 1; n <= limit; n++) {
    struct spp_layout layout = split(job, sp_kind, n);
    struct spp_degree *d = &out->sp[out->sp_count++];
    *d = (struct spp_degree){.degree = n, .ulysses = layout.ulysses, .ring = layout.ring};
    judge(job, &layout, SPP_AXIS_SP, d);
  }
}

static void list_tp(const struct spp_job *job, int64_t limit, struct spp_degrees *out) {
  for (int64_t n = 1; n <= limit; n++) {
    struct spp_layout layout = spp_layout_plain();
    struct spp_degree *d = &out->tp[out->tp_count++];
    layout.tp = layout.etp = n;
    *d = (struct spp_degree){.degree = n, .ulysses = 1, .ring = 1};
    judge(job, &layout, SPP_AXIS_TP, d);
  }
}

static void list_ep(const struct spp_job *job, int64_t limit, struct spp_degrees *out) {
  for (int64_t n = 1; n <= limit; n++) {
    struct spp_layout layout = spp_layout_plain();
    struct spp_degree *d = &out->ep[out->ep_count++];
    layout.ep = n;
    layout.dp = job->gpus > 0 ? job->gpus : n; /* room for the experts: EP lives on data-parallel ranks */
    *d = (struct spp_degree){.degree = n, .ulysses = 1, .ring = 1};
    judge(job, &layout, SPP_AXIS_EP, d);
  }
}

void spp_degrees_list(const struct spp_job *job, int sp_kind, struct spp_degrees *degrees) {
  int64_t limit = job->gpus > 0 ? spp_min64(job->gpus, SPP_MAX_DEGREES) : SPP_MAX_DEGREES;
  memset(degrees, 0, sizeof *degrees);
  list_sp(job, sp_kind, limit, degrees);
  list_tp(job, limit, degrees);
  list_ep(job, limit, degrees);
}
