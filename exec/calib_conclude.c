/* From points to constants: each form of docs/time.md is fitted to its points, and what comes out is written
 * as the model's description of a device, a machine and their constants. Rates are kept as shares of the best
 * one measured. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/stats.h"
#include "exec/calib_parts.h"
#include "exec/host.h"
#include "exec/try.h"
#include "kernels/table.h"

/* Form with its constants' names and where the search begins. */
struct form {
  int count;
  const char *keys[SPP_FIT_CONSTANTS];
  double start[SPP_FIT_CONSTANTS];
};
static const struct form gemm_form = {
    8,
    {"t0_us", "gflops_per_s", "memory_gbytes_per_s", "m_half", "n_half", "k_half", "dgrad", "wgrad"},
    {0.5, 50, 20, 8, 8, 8, 1, 1}};
static const struct form attention_form = {
    4, {"t0_us", "gflops_per_s", "tile_us", "memory_gbytes_per_s"}, {2, 30, 1, 5}};
static const struct form memory_form = {SPP_MEMORY_KERNEL_COUNT + 1,
                                        {"launch_us", "stream_gbytes_per_s", "norm_gbytes_per_s",
                                         "activation_gbytes_per_s", "eager_gbytes_per_s",
                                         "permute_gbytes_per_s", "row_loss_gbytes_per_s",
                                         "optimizer_gbytes_per_s", "rope_gbytes_per_s", "merge_gbytes_per_s"},
                                        {0.2, 20, 10, 5, 10, 10, 3, 10, 10, 5}};
static const struct form message_form = {4, {"a0_us", "a1_us", "gbytes_per_s", "half_kbytes"}, {10, 3, 4, 4}};

/* Points of one form. */
struct selection {
  const struct spp_profile *profile;
  enum spp_measured_what what;
  int variant; /* negative: any */
  int wide;    /* attention: head dim above 64; messages: between hosts */
  int count;
  const struct spp_measured *points[SPP_MEASURED_MAX];
  double measured_s[SPP_MEASURED_MAX];
  double sharing; /* ranks of a host over its share of processors, at least 1: times of messages are divided
                     by it */
};

static bool belongs(const struct selection *s, const struct spp_measured *p) {
  if (p->what != s->what || p->samples == 0 || p->median_s <= 0) return false;
  if (s->variant >= 0 && p->variant != s->variant) return false;
  if (p->what == SPP_MEASURED_ATTENTION) return (p->size[2] > 64) == (s->wide != 0);
  if (p->what == SPP_MEASURED_MESSAGE) return p->size[2] == s->wide;
  return true;
}

static void select_points(const struct spp_profile *profile, enum spp_measured_what what, int variant,
                          int wide, struct selection *s) {
  s->profile = profile;
  s->what = what;
  s->variant = variant;
  s->wide = wide;
  s->count = 0;
  s->sharing = 1;
  if (what == SPP_MEASURED_MESSAGE && profile->cluster.processors_per_node > 0)
    s->sharing = fmax(1, (double)profile->cluster.gpus_per_node / profile->cluster.processors_per_node);
  for (int i = 0; i < profile->point_count; i++) {
    const struct spp_measured *p = &profile->points[i];
    if (!belongs(s, p)) continue;
    s->measured_s[s->count] = p->median_s / s->sharing;
    s->points[s->count++] = p;
  }
}

static double gemm_s(const void *context, int i, const double *c) {
  const struct spp_measured *p = ((const struct selection *)context)->points[i];
  double m = (double)p->size[0], n = (double)p->size[1], k = (double)p->size[2];
  double flops_s = 2 * (m + c[3]) * (n + c[4]) * (k + c[5]) / (c[1] * 1e9);
  double bytes_s = sizeof(float) * (m * k + k * n + m * n) / (c[2] * 1e9);
  double ratio = p->variant == 1 ? c[6] : p->variant == 2 ? c[7] : 1;
  return ratio * (c[0] * 1e-6 + fmax(flops_s, bytes_s));
}

static double attention_s(const void *context, int i, const double *c) {
  const struct spp_measured *p = ((const struct selection *)context)->points[i];
  double s = (double)p->size[0], h = (double)p->size[1], d = (double)p->size[2];
  double flops = 2 * s * s * h * d * (p->variant ? 2.5 : 1), bytes = 4 * sizeof(float) * s * h * d;
  return c[0] * 1e-6 + flops / (c[1] * 1e9) + c[2] * 1e-6 * (s / 1024) * (d / 128) + bytes / (c[3] * 1e9);
}

static double memory_s(const void *context, int i, const double *c) {
  const struct spp_measured *p = ((const struct selection *)context)->points[i];
  double elements = (double)p->size[0] * (double)p->size[1];
  return c[0] * 1e-6 * fmax(1, spp_measured_launches(p->variant)) +
         elements * spp_measured_bytes(p->variant) / (c[1 + p->variant] * 1e9);
}

/* Between hosts: latencies as model/collective.c has them. */
static double message_s(const void *context, int i, const double *c) {
  const struct selection *s = context;
  const struct spp_measured *p = s->points[i];
  double bytes = (double)p->size[0], n = (double)p->size[1], steps = n - 1;
  if (p->variant == SPP_SEND_RECV) steps = 0;
  if (s->wide && p->variant == SPP_ALL_TO_ALL) steps = n - 2; /* messages after the first */
  if (s->wide && p->variant == SPP_ALL_REDUCE) steps = 2 * log2(n);
  return (c[0] + c[1] * steps) * 1e-6 + (bytes + sqrt(c[3] * 1e3 * bytes)) / (c[2] * 1e9);
}

static void note_errors(const struct selection *s, double (*predicted_s)(const void *, int, const double *),
                        struct spp_fit_row *row) {
  double sizes[SPP_MEASURED_MAX];
  for (int i = 0; i < s->count; i++)
    sizes[i] = fabs(predicted_s(s, i, row->values) / s->measured_s[i] - 1);
  spp_sort_reals(sizes, s->count);
  row->points = s->count;
  row->median_error = sizes[s->count / 2];
  row->p90_error = sizes[s->count * 9 / 10];
}

/* One more row of fits. */
static enum spp_status fit(struct spp_profile *profile, const struct selection *s, const struct form *form,
                           double (*predicted_s)(const void *, int, const double *), const char *section,
                           const char *name, struct spp_fit_row **made, struct spp_diag *diag) {
  struct spp_fit_row *row = &profile->fits[profile->fit_count];
  struct spp_fit_problem problem = {.constants = form->count,
                                    .points = s->count,
                                    .measured_s = s->measured_s,
                                    .predicted_s = predicted_s,
                                    .context = s};
  if (profile->fit_count == SPP_FIT_ROWS)
    return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "more fits than rows");
  memcpy(problem.start, form->start, sizeof problem.start);
  snprintf(row->section, sizeof row->section, "%s", section);
  snprintf(row->name, sizeof row->name, "%s", name);
  row->count = form->count;
  memcpy(row->keys, form->keys, sizeof row->keys);
  SPP_TRY(spp_fit_solve(&problem, row->values, row->errors, diag));
  note_errors(s, predicted_s, row);
  profile->fit_count++;
  *made = row;
  return SPP_OK;
}

static double bounded(double value, double low, double high) {
  return fmin(high, fmax(low, value));
}

static enum spp_status conclude_gemm(struct spp_profile *p, struct selection *s, struct spp_diag *diag) {
  struct spp_fit_row *row = NULL;
  select_points(p, SPP_MEASURED_GEMM, -1, 0, s);
  SPP_TRY(fit(p, s, &gemm_form, gemm_s, "gemm", "fp32", &row, diag));
  const double *c = row->values;
  p->calib.gemm = (struct spp_gemm_fit){c[0] * 1e-6, c[1], c[2], c[3], c[4], c[5]}; /* rates: shared later */
  p->calib.dgrad_ratio = bounded(c[6], 0.5, 3);
  p->calib.wgrad_ratio = bounded(c[7], 0.5, 3);
  return SPP_OK;
}

static enum spp_status conclude_attention(struct spp_profile *p, struct selection *s, struct spp_diag *diag) {
  static const char *const rows[2][2] = {{"forward, head dim to 64", "backward, head dim to 64"},
                                         {"forward, head dim above 64", "backward, head dim above 64"}};
  for (int wide = 0; wide < 2; wide++)
    for (int pass = 0; pass < 2; pass++) {
      struct spp_fit_row *row = NULL;
      select_points(p, SPP_MEASURED_ATTENTION, pass, wide, s);
      SPP_TRY(fit(p, s, &attention_form, attention_s, "attention", rows[wide][pass], &row, diag));
      const double *c = row->values;
      const struct spp_attention_pass made = {c[0] * 1e-6, c[1], c[2] * 1e-6, c[3]};
      for (int impl = 0; impl < SPP_ATTN_IMPL_COUNT; impl++) {
        struct spp_attention_fit *f = &p->calib.attention[impl][wide];
        *(pass ? &f->backward : &f->forward) = made;
      }
    }
  return SPP_OK;
}

/* Bandwidth of the device: the fastest kind; all other rates become shares of it. */
static enum spp_status conclude_memory(struct spp_profile *p, struct selection *s, struct spp_diag *diag) {
  struct spp_fit_row *row = NULL;
  double best = 0;
  select_points(p, SPP_MEASURED_MEMORY, -1, 0, s);
  SPP_TRY(fit(p, s, &memory_form, memory_s, "memory", "fp32", &row, diag));
  for (int i = 0; i < SPP_MEMORY_KERNEL_COUNT; i++)
    best = fmax(best, row->values[1 + i]);
  p->gpu.memory_bytes_per_s = best * 1e9;
  p->calib.launch_s = row->values[0] * 1e-6;
  for (int i = 0; i < SPP_MEMORY_KERNEL_COUNT; i++)
    p->calib.memory_share[i] = bounded(row->values[1 + i] / best, 0.01, 1.2);
  return SPP_OK;
}

/* Products and attention, fitted in 1e9/s: shares of the fastest and of the bandwidth. */
static void share_kernel_rates(struct spp_profile *p) {
  struct spp_gemm_fit *gemm = &p->calib.gemm;
  double best = gemm->efficiency, bandwidth = p->gpu.memory_bytes_per_s / 1e9;
  for (int wide = 0; wide < 2; wide++) {
    const struct spp_attention_fit *f = &p->calib.attention[0][wide];
    best = fmax(best, fmax(f->forward.efficiency, f->backward.efficiency));
  }
  p->gpu.flops_per_s[SPP_DTYPE_FP32] = best * 1e9;
  gemm->efficiency = bounded(gemm->efficiency / best, 1e-3, 1);
  gemm->memory_efficiency = bounded(gemm->memory_efficiency / bandwidth, 1e-3, 2);
  for (int impl = 0; impl < SPP_ATTN_IMPL_COUNT; impl++)
    for (int i = 0; i < 4; i++) {
      struct spp_attention_fit *f = &p->calib.attention[impl][i / 2];
      struct spp_attention_pass *pass = i % 2 ? &f->backward : &f->forward;
      pass->efficiency = bounded(pass->efficiency / best, 1e-4, 1);
      pass->memory_efficiency = bounded(pass->memory_efficiency / bandwidth, 1e-3, 4);
    }
}

/* Rates in bytes/s for now; false when nothing of the kind was measured. */
static enum spp_status conclude_level(struct spp_profile *p, struct selection *s, bool between,
                                      struct spp_collective_fit fits[SPP_COLLECTIVE_COUNT], double *best,
                                      struct spp_diag *diag) {
  static const char *const rows[SPP_COLLECTIVE_COUNT] = {[SPP_ALL_TO_ALL] = "all_to_all",
                                                         [SPP_SEND_RECV] = "send_recv",
                                                         [SPP_ALL_GATHER] = "all_gather",
                                                         [SPP_REDUCE_SCATTER] = "reduce_scatter",
                                                         [SPP_ALL_REDUCE] = "all_reduce"};
  *best = 0;
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++) {
    struct spp_fit_row *row = NULL;
    select_points(p, SPP_MEASURED_MESSAGE, op, between, s);
    if (s->count == 0) return SPP_OK;
    SPP_TRY(fit(p, s, &message_form, message_s, between ? "network" : "link", rows[op], &row, diag));
    const double *c = row->values;
    fits[op] = (struct spp_collective_fit){c[0] * 1e-6, c[1] * 1e-6, c[2] * 1e9, c[3] * 1e3};
    *best = fmax(*best, c[2] * 1e9);
  }
  return SPP_OK;
}

static void share_rates(struct spp_collective_fit fits[SPP_COLLECTIVE_COUNT], double rate) {
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    fits[op].link_share /= rate;
}

/* The model takes a message's latency from the machine, and scales hops by it (model/collective.c). */
static void split_latency(struct spp_profile *p) {
  static const double hop_fit_message_s = 17e-6; /* as there */
  struct spp_collective_fit *f = p->calib.network;
  double message_s = fmax(1e-9, f[SPP_SEND_RECV].a0_s);
  p->cluster.nic_latency_s = message_s;
  f[SPP_SEND_RECV].a0_s = 0;
  f[SPP_ALL_TO_ALL].a0_s = fmax(0, f[SPP_ALL_TO_ALL].a0_s - message_s);
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    if (op != SPP_ALL_TO_ALL) f[op].a1_s /= fmax(1, message_s / hop_fit_message_s);
}

/* Not measured: a rank alone copies within its memory; one host's network is taken to be like its inside. */
static enum spp_status conclude_messages(struct spp_profile *p, struct selection *s, struct spp_diag *diag) {
  double link, network;
  SPP_TRY(conclude_level(p, s, false, p->calib.link, &link, diag));
  SPP_TRY(conclude_level(p, s, true, p->calib.network, &network, diag));
  const struct spp_collective_fit copy = {0, 0, p->gpu.memory_bytes_per_s, 0};
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++) {
    if (link <= 0) p->calib.link[op] = network > 0 ? p->calib.network[op] : copy;
    if (network <= 0) p->calib.network[op] = p->calib.link[op];
  }
  if (link <= 0) link = network > 0 ? network : copy.link_share;
  if (network <= 0) network = link;
  share_rates(p->calib.link, link);
  share_rates(p->calib.network, network);
  memcpy(p->calib.pcie, p->calib.link, sizeof p->calib.pcie);
  split_latency(p);
  p->gpu.link_bytes_per_s = p->gpu.pcie_bytes_per_s = p->cluster.link_bytes_per_s = link;
  p->cluster.link_latency_s = p->calib.link[SPP_SEND_RECV].a0_s;
  p->cluster.nic_bytes_per_s_per_gpu = network;
  p->cluster.nic_bytes_per_s = network * (double)p->cluster.gpus_per_node;
  return SPP_OK;
}

/* Errors of single kernels average out over a step; what the forms get wrong together does not: taken as the
 * median error of the forms, at least 5 % (assumption). */
static double shared_error(const struct spp_profile *p) {
  double sizes[SPP_FIT_ROWS];
  for (int i = 0; i < p->fit_count; i++)
    sizes[i] = p->fits[i].median_error;
  spp_sort_reals(sizes, p->fit_count);
  return bounded(sizes[p->fit_count / 2], 0.05, 1);
}

static void describe(struct spp_profile *p) {
  int64_t bytes = spp_host_bytes(), here = p->cluster.gpus_per_node;
  snprintf(p->gpu.name, sizeof p->gpu.name, "rank");
  snprintf(p->gpu.display, sizeof p->gpu.display, "one rank (%s)", spp_kernels_best()->name);
  p->gpu.capacity_bytes = p->gpu.nominal_bytes = spp_max64(bytes / here, INT64_C(1) << 28);
  p->gpu.has_fast_link = true;
  snprintf(p->cluster.name, sizeof p->cluster.name, "measured");
  snprintf(p->cluster.display, sizeof p->cluster.display, "%d host%s, %lld rank%s each, measured", p->hosts,
           p->hosts == 1 ? "" : "s", (long long)here, here == 1 ? "" : "s");
  p->cluster.domain_gpus = here;
  p->cluster.fabric = SPP_FABRIC_SWITCH;
  p->cluster.nics_per_node = 1;
  p->cluster.host_bytes = spp_max64(bytes, 1);
  p->cluster.host_memory_bytes_per_s = p->gpu.memory_bytes_per_s;
  p->cluster.spine_oversubscription = 1;
  snprintf(p->calib.name, sizeof p->calib.name, "measured");
  p->calib.measured = true;
  p->calib.clock_share = p->calib.sustained = 1;
  p->calib.grouped_gemm_ratio = p->calib.grouped_wgrad_ratio = p->calib.grouped_dgrad_ratio = 1;
  p->calib.pcie_share = p->calib.host_memory_share = 1;
}

enum spp_status spp_calib_conclude(struct spp_profile *profile, struct spp_diag *diag) {
  struct selection *s = malloc(sizeof *s);
  if (!s) return spp_diag_oom(diag);
  enum spp_status status = conclude_gemm(profile, s, diag);
  if (status == SPP_OK) status = conclude_attention(profile, s, diag);
  if (status == SPP_OK) status = conclude_memory(profile, s, diag);
  if (status == SPP_OK) share_kernel_rates(profile);
  if (status == SPP_OK) status = conclude_messages(profile, s, diag);
  free(s);
  if (status != SPP_OK) return status;
  describe(profile);
  profile->calib.sigma = shared_error(profile);
  return SPP_OK;
}
