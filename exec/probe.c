#include "exec/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "exec/group.h"
#include "exec/try.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"

/* Two sizes of each: the difference gives the rate, the small one the fixed cost. */
enum { SMALL = 32, LARGE = 128, HEAD = 16, HEADS = 2, SHORT = 32, LONG = 128 };
enum { HOP_SMALL = 256, HOP_LARGE = 65536, FLOATS = 1 << 18, REPEATS = 5 };

struct bench {
  struct spp_rank *rank;
  float *data; /* FLOATS, zeros */
  void *work;
  int64_t size;
  int pass; /* attention: 0 forward, 1 backward */
};
typedef enum spp_status bench_call(const struct bench *b);

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median time of some calls, each begun by all ranks together. */
static enum spp_status time_of(const struct bench *b, bench_call *call, double *seconds) {
  struct spp_endpoint *end = b->rank->end;
  double times[REPEATS];
  for (int i = 0; i < REPEATS; i++) {
    enum { CALLS = 2 };
    SPP_TRY(end->ops->barrier(end, b->rank->diag));
    double start_s = end->ops->clock();
    for (int k = 0; k < CALLS; k++)
      SPP_TRY(call(b));
    times[i] = (end->ops->clock() - start_s) / CALLS;
  }
  qsort(times, REPEATS, sizeof times[0], by_size);
  *seconds = times[REPEATS / 2];
  return SPP_OK;
}

static enum spp_status run_gemm(const struct bench *b) {
  int64_t n = b->size;
  const struct spp_matrix a = {b->data, n, SPP_STORE_F32}, c = {b->data + FLOATS / 2, n, SPP_STORE_F32};
  const struct spp_gemm g = {
      .trans_b = true, .m = n, .n = n, .k = n, .alpha = 1, .a = a, .b = a, .c = c, .threads = 1};
  return spp_gemm(&g, b->work, b->rank->diag);
}

static enum spp_status run_attention(const struct bench *b) {
  const struct spp_attn_shape shape = {b->size, b->size, HEADS, HEADS, HEAD, 0.25F, spp_mask_causal(0, 0)};
  const struct spp_rows in = {b->data, HEADS * HEAD, SPP_STORE_F32};
  const struct spp_row_stats stats = {b->data + FLOATS / 4, b->size};
  float *out = b->data + FLOATS / 2;
  struct spp_rows to[3];
  for (int i = 0; i < 3; i++)
    to[i] = (struct spp_rows){out + i * LONG * HEADS * HEAD, HEADS * HEAD, SPP_STORE_F32};
  if (b->pass == 0) {
    const struct spp_attn_forward f = {shape, {.threads = 1}, in, in, in, to[0], {out + FLOATS / 4, b->size}};
    return spp_attn_forward(b->rank->kernels, &f, b->work, b->rank->diag);
  }
  const struct spp_attn_backward k = {shape, {.threads = 1}, in,    in,    in,   in,
                                      stats, stats,          to[0], to[1], to[2]};
  return spp_attn_backward(b->rank->kernels, &k, b->work, b->rank->diag);
}

static enum spp_status run_memory(const struct bench *b) {
  b->rank->kernels->ops->add(FLOATS / 2, SPP_STORE_F32, b->data, b->data + FLOATS / 2, b->data + FLOATS / 2);
  return SPP_OK;
}

static enum spp_status run_hop(const struct bench *b) {
  struct spp_rank_group all;
  struct spp_shift shift;
  spp_group_make(&all, b->rank->end, NULL, SPP_GROUP_DP, 0, 1, b->rank->end->size);
  const struct spp_label label = {"probe", SPP_PASS_STEP};
  SPP_TRY(spp_group_shift_start(&all, label, b->data, b->data + FLOATS / 2, b->size, &shift, b->rank->diag));
  return spp_group_shift_wait(&all, &shift, b->rank->diag);
}

/* work_small and work_large in any unit: rate in that unit a second, t0 what is left of the small one. */
static enum spp_status fit(struct bench *b, bench_call *call, int64_t small, int64_t large, double work_small,
                           double work_large, double *rate, double *t0) {
  double t_small, t_large;
  b->size = small;
  SPP_TRY(time_of(b, call, &t_small));
  b->size = large;
  SPP_TRY(time_of(b, call, &t_large));
  double slope = fmax(t_large - t_small, 0.1 * t_large) / (work_large - work_small);
  *rate = 1 / slope;
  *t0 = fmax(0, t_small - slope * work_small);
  return SPP_OK;
}

static enum spp_status measure(struct bench *b, struct spp_probe *p) {
  double pairs_small = SHORT * (SHORT + 1) / 2.0, pairs_large = LONG * (LONG + 1) / 2.0, memory_s;
  SPP_TRY(fit(b, run_gemm, SMALL, LARGE, 2 * pow(SMALL, 3), 2 * pow(LARGE, 3), &p->gemm_flops_per_s,
              &p->gemm_t0_s));
  for (b->pass = 0; b->pass < 2; b->pass++) {
    double flops = (b->pass ? 10.0 : 4.0) * HEADS * HEAD; /* a visible pair */
    SPP_TRY(fit(b, run_attention, SHORT, LONG, flops * pairs_small, flops * pairs_large,
                &p->attention_flops_per_s[b->pass], &p->attention_t0_s[b->pass]));
  }
  SPP_TRY(time_of(b, run_memory, &memory_s));
  p->memory_bytes_per_s = 3.0 * sizeof(float) * (FLOATS / 2) / memory_s;
  p->hop_bytes_per_s = 1e9;
  p->hop_s = 0;
  if (b->rank->end->size == 1) return SPP_OK;
  return fit(b, run_hop, HOP_SMALL, HOP_LARGE, HOP_SMALL, HOP_LARGE, &p->hop_bytes_per_s, &p->hop_s);
}

/* Most that any of the calls above asks for. */
static int64_t workspace_bytes(const struct spp_rank *rank) {
  const struct spp_rows rows = {NULL, HEADS * HEAD, SPP_STORE_F32};
  const struct spp_attn_shape shape = {LONG, LONG, HEADS, HEADS, HEAD, 0.25F, spp_mask_causal(0, 0)};
  const struct spp_attn_forward f = {
      .shape = shape, .options = {.threads = 1}, .q = rows, .k = rows, .v = rows, .out = rows};
  const struct spp_attn_backward k = {.shape = shape,
                                      .options = {.threads = 1},
                                      .q = rows,
                                      .k = rows,
                                      .v = rows,
                                      .dout = rows,
                                      .dq = rows,
                                      .dk = rows,
                                      .dv = rows};
  const struct spp_matrix m = {NULL, LARGE, SPP_STORE_F32};
  const struct spp_gemm g = {
      .trans_b = true, .m = LARGE, .n = LARGE, .k = LARGE, .alpha = 1, .a = m, .b = m, .c = m, .threads = 1};
  int64_t most = spp_max64(spp_gemm_workspace_bytes(&g), spp_attn_forward_workspace_bytes(rank->kernels, &f));
  return spp_max64(most, spp_attn_backward_workspace_bytes(rank->kernels, &k));
}

enum spp_status spp_probe_run(struct spp_rank *rank, struct spp_probe *probe) {
  struct bench b = {.rank = rank, .data = calloc(FLOATS, sizeof(float))};
  b.work = malloc((size_t)spp_max64(workspace_bytes(rank), 64));
  enum spp_status status = b.data && b.work ? measure(&b, probe) : spp_diag_oom(rank->diag);
  free(b.data);
  free(b.work);
  return status;
}

void spp_probe_describe(const struct spp_probe *p, struct spp_gpu *gpu, struct spp_calib *calib) {
  const struct spp_collective_fit hop = {p->hop_s, p->hop_s, 1.0, 0};
  gpu->flops_per_s[SPP_DTYPE_FP32] = gpu->flops_per_s[SPP_DTYPE_BF16] = p->gemm_flops_per_s;
  gpu->memory_bytes_per_s = p->memory_bytes_per_s;
  gpu->has_fast_link = true;
  gpu->link_bytes_per_s = gpu->pcie_bytes_per_s = p->hop_bytes_per_s;
  *calib = (struct spp_calib){.name = "probe",
                              .measured = true,
                              .gemm = {.t0_s = p->gemm_t0_s, .efficiency = 1, .memory_efficiency = 1},
                              .clock_share = 1,
                              .sustained = 1,
                              .wgrad_ratio = 1,
                              .dgrad_ratio = 1,
                              .grouped_gemm_ratio = 1,
                              .grouped_wgrad_ratio = 1,
                              .grouped_dgrad_ratio = 1,
                              .fp8_ratio = 1,
                              .pcie_share = 1,
                              .host_memory_share = 1};
  for (int impl = 0; impl < SPP_ATTN_IMPL_COUNT; impl++)
    for (int width = 0; width < 2; width++)
      for (int pass = 0; pass < 2; pass++) {
        struct spp_attention_fit *f = &calib->attention[impl][width];
        *(pass ? &f->backward : &f->forward) = (struct spp_attention_pass){
            p->attention_t0_s[pass], p->attention_flops_per_s[pass] / p->gemm_flops_per_s, 0, 1};
      }
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    calib->link[op] = calib->pcie[op] = calib->network[op] = hop;
  for (int k = 0; k < SPP_MEMORY_KERNEL_COUNT; k++)
    calib->memory_share[k] = 1;
}
