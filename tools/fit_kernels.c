/* Fits the constants of configs/calib from kernel measurements and says how far the shipped ones are from
 * them. Usage: fit_kernels CONFIG_DIR [DATA.jsonl] [--check] Prints JSON: per set of measurements the fitted
 * constants with standard errors, the error they leave, and the error of the shipped constants on the same
 * points. --check fails where shipped times are off by more than `tolerance`. Residuals are logarithms of
 * predicted over measured time under a soft-L1 loss (iteratively reweighted Levenberg-Marquardt of GSL
 * multifit_nlinear). Forms: docs/time.md. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/stats.h"
#include "model/calib.h"

enum { POINTS_MAX = 1024, PARAMETERS_MAX = 6, ROUNDS = 8, ITERATIONS = 200, DATA_MAX_BYTES = 64 << 20 };
static const double soft_l1_scale = 0.1; /* residuals above 10 % count linearly */
/* Few points say nothing about some constants: a residual of 5 % for each factor of e from its start keeps
 * every one finite and moves no constant that the points determine. */
static const double prior_weight = 0.05;
static const double tolerance = 0.06; /* of the shipped median error above the fitted one */

enum form { GEMM, ATTENTION, ATTENTION_BACKWARD, COLLECTIVE };
static const struct {
  int count;
  const char *names[PARAMETERS_MAX];
  double start[PARAMETERS_MAX];
} forms[] = {
    [GEMM] = {6,
              {"t0_us", "efficiency", "memory_efficiency", "m_half", "n_half", "k_half"},
              {3, 0.8, 0.7, 60, 60, 120}},
    [ATTENTION] = {4, {"t0_us", "efficiency", "tile_us", "memory_efficiency"}, {12, 0.6, 10, 0.4}},
    [ATTENTION_BACKWARD] = {4, {"t0_us", "efficiency", "tile_us", "memory_efficiency"}, {15, 0.5, 10, 0.4}},
    [COLLECTIVE] = {4, {"a0_us", "a1_us", "link_share", "half_mb"}, {8, 1, 0.75, 5}},
};

/* Which measurements make a set, and whose constants they are. */
struct set {
  enum form form;
  const char *gpu;                /* configs/gpus entry whose calibration is compared */
  const char *data_gpu, *source;  /* of a record: equal, contained */
  int head_dim;                   /* attention */
  enum spp_attention_impl kernel; /* attention: shipped family */
  enum spp_collective op;         /* collectives */
  int ranks_max;                  /* collectives: the ring alone where the switch reduces beyond */
};
static const struct set sets[] = {
    {GEMM, "a100-80gb", "A100-SXM4-80GB", "a100_sxm/gemm", 0, 0, 0, 0},
    {GEMM, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/gemm", 0, 0, 0, 0},
    {GEMM, "b200-180gb", "B200-SXM", "b200_sxm/gemm", 0, 0, 0, 0},
    {GEMM, "l40s-48gb", "L40S", "l40s/gemm", 0, 0, 0, 0},
    {GEMM, "a40-48gb", "A40", "compute/a40", 0, 0, 0, 0},
    {ATTENTION, "a100-80gb", "A100-SXM4-80GB", "sglang", 128, SPP_ATTN_FA2, 0, 0},
    {ATTENTION, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/attention", 64, SPP_ATTN_FA3, 0, 0},
    {ATTENTION, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/attention", 128, SPP_ATTN_FA3, 0, 0},
    {ATTENTION, "l40s-48gb", "L40S", "l40s/attention", 64, SPP_ATTN_FA2, 0, 0},
    {ATTENTION, "l40s-48gb", "L40S", "l40s/attention", 128, SPP_ATTN_FA2, 0, 0},
    {ATTENTION, "b200-180gb", "B200-SXM", "b200_sxm/attention", 64, SPP_ATTN_TE, 0, 0},
    {ATTENTION_BACKWARD, "a100-80gb", "A100-SXM4-80GB", "flash2_a100", 64, SPP_ATTN_FA2, 0, 0},
    {ATTENTION_BACKWARD, "a100-80gb", "A100-SXM4-80GB", "flash2_a100", 128, SPP_ATTN_FA2, 0, 0},
    {ATTENTION_BACKWARD, "h100-80gb", "H100-SXM5-80GB", "flash2_h100", 64, SPP_ATTN_FA2, 0, 0},
    {ATTENTION_BACKWARD, "h100-80gb", "H100-SXM5-80GB", "flash2_h100", 128, SPP_ATTN_FA2, 0, 0},
    {ATTENTION_BACKWARD, "b200-180gb", "B200-SXM", "SimuMax", 128, SPP_ATTN_TE, 0, 0},
    {COLLECTIVE, "a100-80gb", "A100-SXM4-80GB", "a100_sxm/comm", 0, 0, SPP_ALL_REDUCE, 8},
    {COLLECTIVE, "a100-80gb", "A100-SXM4-80GB", "a100_sxm/comm", 0, 0, SPP_ALL_GATHER, 8},
    {COLLECTIVE, "a100-80gb", "A100-SXM4-80GB", "a100_sxm/comm", 0, 0, SPP_REDUCE_SCATTER, 8},
    {COLLECTIVE, "a100-80gb", "A100-SXM4-80GB", "a100_sxm/comm", 0, 0, SPP_ALL_TO_ALL, 8},
    {COLLECTIVE, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/comm", 0, 0, SPP_ALL_REDUCE, 4},
    {COLLECTIVE, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/comm", 0, 0, SPP_ALL_GATHER, 8},
    {COLLECTIVE, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/comm", 0, 0, SPP_REDUCE_SCATTER, 8},
    {COLLECTIVE, "h100-80gb", "H100-SXM5-80GB", "h100_sxm/comm", 0, 0, SPP_ALL_TO_ALL, 8},
    {COLLECTIVE, "b200-180gb", "B200-SXM", "b200_sxm/comm", 0, 0, SPP_ALL_REDUCE, 4},
    {COLLECTIVE, "b200-180gb", "B200-SXM", "b200_sxm/comm", 0, 0, SPP_ALL_GATHER, 8},
    {COLLECTIVE, "b200-180gb", "B200-SXM", "b200_sxm/comm", 0, 0, SPP_REDUCE_SCATTER, 8},
    {COLLECTIVE, "b200-180gb", "B200-SXM", "b200_sxm/comm", 0, 0, SPP_ALL_TO_ALL, 8},
};
enum { SET_COUNT = sizeof sets / sizeof sets[0], GEMM_ROWS_MIN = 512, ATTENTION_SEQ_MIN = 256 };

/* One measurement: GEMM m, n, k; attention FLOPs, span x width in units of 1024 x 128, bytes; collective
 * steps, bytes sent. */
struct point {
  double x[3], measured_s;
};
struct problem {
  const struct set *set;
  const struct spp_gpu *gpu;
  const struct spp_calib *calib;
  int count;
  struct point points[POINTS_MAX];
};

static double predicted_s(const struct problem *p, const struct point *at, const double *c) {
  double peak = p->gpu->flops_per_s[SPP_DTYPE_BF16], bandwidth = p->gpu->memory_bytes_per_s;
  const double *x = at->x;
  double flops, bytes;
  switch (p->set->form) {
  case GEMM:
    flops = 2 * (x[0] + c[3]) * (x[1] + c[4]) * (x[2] + c[5]) / (c[1] * peak);
    bytes = 2 * (x[0] * x[2] + x[2] * x[1] + x[0] * x[1]) / (c[2] * bandwidth);
    return c[0] * 1e-6 + fmax(flops, bytes);
  case ATTENTION:
  case ATTENTION_BACKWARD:
    return c[0] * 1e-6 + x[0] / (c[1] * peak) + c[2] * 1e-6 * x[1] + x[2] / (c[3] * bandwidth);
  case COLLECTIVE:
    return (c[0] + c[1] * x[0]) * 1e-6 + (x[1] + sqrt(c[3] * 1e6 * x[1])) / (c[2] * p->gpu->link_bytes_per_s);
  }
  return 0;
}

static double number(struct spp_json v, const char *key) {
  double value = 0;
  (void)spp_json_real(spp_json_get(v, key), -1e300, 1e300, &value, NULL);
  return value;
}
static const char *text(struct spp_json v, const char *key) {
  const char *value = "";
  (void)spp_json_string(spp_json_get(v, key), &value, NULL);
  return value;
}

static bool read_gemm(struct spp_json r, struct point *at) {
  at->x[0] = number(r, "m");
  at->x[1] = number(r, "n");
  at->x[2] = number(r, "k");
  bool half = !strcmp(text(r, "dtype"), "bf16") || !strcmp(text(r, "dtype"), "fp16");
  return !strcmp(text(r, "kind"), "gemm") && half && at->x[0] >= GEMM_ROWS_MIN && at->x[1] > 0 &&
         at->x[2] > 0;
}

static double attention_s(const struct spp_gpu *gpu, const struct spp_attention_pass *a, const double *x) {
  return a->t0_s + x[0] / (a->efficiency * gpu->flops_per_s[SPP_DTYPE_BF16]) + a->tile_s * x[1] +
         x[2] / (a->memory_efficiency * gpu->memory_bytes_per_s);
}

/* Backward: measured alone, or with a forward whose shipped time is taken off. FLOPs: 2.5 times the
 * forward's. */
static bool read_attention(const struct problem *p, struct spp_json r, struct point *at) {
  const struct set *set = p->set;
  double b = number(r, "batch"), s = number(r, "seqlen"), h = number(r, "heads"), kv = number(r, "kv_heads");
  double d = number(r, "head_dim"), v = number(r, "v_head_dim"), rate = number(r, "tflops") * 1e12;
  bool causal = false, backward = set->form == ATTENTION_BACKWARD, both;
  (void)spp_json_bool(spp_json_get(r, "causal"), &causal, NULL);
  both = backward && !strcmp(text(r, "kind"), "attention_fwd_bwd");
  if (kv <= 0) kv = h;
  at->x[0] = 2 * b * h * s * s * d; /* causal half of 4 S^2 d */
  at->x[1] = s / 1024 * d / 128;
  at->x[2] = 2 * b * s * d * (2 * h + 2 * kv);
  if (strcmp(text(r, "kind"), both       ? "attention_fwd_bwd"
                              : backward ? "attention_bwd"
                                         : "attention_fwd") != 0 ||
      !causal || (int)d != set->head_dim || (v > 0 && v < d) || s < ATTENTION_SEQ_MIN || b <= 0 || h <= 0)
    return false;
  if (!backward) return at->measured_s > 0;
  double forward_s = attention_s(p->gpu, &p->calib->attention[set->kernel][d > 64].forward, at->x);
  if (rate > 0) at->measured_s = (both ? 3.5 : 2.5) * at->x[0] / rate - (both ? forward_s : 0);
  at->x[0] *= 2.5;
  return at->measured_s > 0;
}

/* nccl-tests sizes: the whole tensor for gathers and scatters, the buffer of one rank otherwise. */
static bool read_collective(const struct set *set, struct spp_json r, struct point *at) {
  static const char *const names[SPP_COLLECTIVE_COUNT] = {"alltoall", "sendrecv", "all_gather",
                                                          "reduce_scatter", "all_reduce"};
  double n = number(r, "n_gpus"), bytes = number(r, "bytes");
  at->x[0] = n - 1;
  at->x[1] = bytes * (n - 1) / (n > 0 ? n : 1) * (set->op == SPP_ALL_REDUCE ? 2 : 1);
  return !strcmp(text(r, "kind"), "collective") && !strcmp(text(r, "op"), names[set->op]) && n >= 2 &&
         n <= set->ranks_max && bytes > 0;
}

static bool read_point(const struct problem *p, struct spp_json r, struct point *at) {
  const struct set *set = p->set;
  at->measured_s = number(r, "time_us") * 1e-6;
  if (strcmp(text(r, "gpu"), set->data_gpu) != 0 || !strstr(text(r, "source"), set->source)) return false;
  switch (set->form) {
  case GEMM: return at->measured_s > 0 && read_gemm(r, at);
  case ATTENTION:
  case ATTENTION_BACKWARD: return read_attention(p, r, at);
  case COLLECTIVE: return at->measured_s > 0 && read_collective(set, r, at);
  }
  return false;
}

/* Adds the points of every set that line `line` belongs to. */
static enum spp_status read_line(const char *line, size_t length, struct problem *problems,
                                 struct spp_diag *diag) {
  struct spp_json_doc *doc = NULL;
  enum spp_status status = spp_json_parse(line, length, "kernel measurements", &doc, diag);
  if (status != SPP_OK) return status;
  for (int i = 0; i < SET_COUNT; i++) {
    struct problem *p = &problems[i];
    if (p->count < POINTS_MAX && read_point(p, spp_json_root(doc), &p->points[p->count])) p->count++;
  }
  spp_json_free(doc);
  return SPP_OK;
}

static int residuals(const gsl_vector *log_constants, void *data, gsl_vector *out) {
  const struct problem *p = data;
  double c[PARAMETERS_MAX];
  for (int i = 0; i < forms[p->set->form].count; i++)
    c[i] = exp(gsl_vector_get(log_constants, (size_t)i));
  for (int i = 0; i < p->count; i++)
    gsl_vector_set(out, (size_t)i, log(predicted_s(p, &p->points[i], c) / p->points[i].measured_s));
  for (int i = 0; i < forms[p->set->form].count; i++)
    gsl_vector_set(out, (size_t)(p->count + i),
                   prior_weight *
                       (gsl_vector_get(log_constants, (size_t)i) - log(forms[p->set->form].start[i])));
  return GSL_SUCCESS;
}

/* Reweighted fit; errors of a constant: its standard error by the last round's curvature. */
static bool fit(const struct problem *p, double *constants, double *errors) {
  const size_t k = (size_t)forms[p->set->form].count,
               n = (size_t)p->count + k; /* the constants' priors last */
  if ((size_t)p->count <= k) return false;
  gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
  gsl_multifit_nlinear_workspace *w = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options, n, k);
  gsl_vector *x = gsl_vector_alloc(k), *weights = gsl_vector_alloc(n);
  gsl_matrix *covariance = gsl_matrix_alloc(k, k);
  bool done = w && x && weights && covariance;
  if (done) {
    gsl_multifit_nlinear_fdf fdf = {.f = residuals, .n = n, .p = k, .params = (void *)(size_t)p};
    for (size_t i = 0; i < k; i++)
      gsl_vector_set(x, i, log(forms[p->set->form].start[i]));
    gsl_vector_set_all(weights, 1);
    for (int round = 0; done && round < ROUNDS; round++) {
      int info = 0;
      if (gsl_multifit_nlinear_winit(x, weights, &fdf, w) != GSL_SUCCESS) done = false;
      if (done) (void)gsl_multifit_nlinear_driver(ITERATIONS, 1e-10, 1e-10, 0, NULL, NULL, &info, w);
      gsl_vector_memcpy(x, gsl_multifit_nlinear_position(w));
      gsl_vector *r = gsl_vector_alloc(n);
      if (!r) done = false;
      if (done) residuals(x, fdf.params, r);
      for (size_t i = 0; done && i < n; i++)
        gsl_vector_set(weights, i, 1 / sqrt(1 + pow(gsl_vector_get(r, i) / soft_l1_scale, 2)));
      gsl_vector_free(r);
    }
    double chi2 = 0;
    gsl_blas_ddot(gsl_multifit_nlinear_residual(w), gsl_multifit_nlinear_residual(w), &chi2);
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(w), 0, covariance);
    for (size_t i = 0; i < k; i++) {
      constants[i] = exp(gsl_vector_get(x, i));
      errors[i] = constants[i] * sqrt(gsl_matrix_get(covariance, i, i) * chi2 / (double)(n - k));
    }
  }
  gsl_matrix_free(covariance);
  gsl_vector_free(weights);
  gsl_vector_free(x);
  gsl_multifit_nlinear_free(w);
  return done;
}

static void shipped(const struct set *set, const struct spp_calib *calib, double *c) {
  const struct spp_attention_fit *both = &calib->attention[set->kernel][set->head_dim > 64];
  const struct spp_attention_pass *a = set->form == ATTENTION ? &both->forward : &both->backward;
  const struct spp_collective_fit *link = &calib->link[set->op];
  const struct spp_gemm_fit *g = &calib->gemm;
  const double values[][PARAMETERS_MAX] = {
      [GEMM] = {g->t0_s * 1e6, g->efficiency, g->memory_efficiency, g->m_half, g->n_half, g->k_half},
      [ATTENTION] = {a->t0_s * 1e6, a->efficiency, a->tile_s * 1e6, a->memory_efficiency},
      [ATTENTION_BACKWARD] = {a->t0_s * 1e6, a->efficiency, a->tile_s * 1e6, a->memory_efficiency},
      [COLLECTIVE] = {link->a0_s * 1e6, link->a1_s * 1e6, link->link_share, link->half_bytes / 1e6}};
  memcpy(c, values[set->form], sizeof values[0]);
}

struct errors {
  double median, p90, bias;
};
static struct errors measure(const struct problem *p, const double *c) {
  static double sizes[POINTS_MAX]; /* scratch of this single-threaded program */
  struct errors e = {0};
  for (int i = 0; i < p->count; i++) {
    double error = predicted_s(p, &p->points[i], c) / p->points[i].measured_s - 1;
    e.bias += error / p->count;
    sizes[i] = fabs(error);
  }
  spp_sort_reals(sizes, p->count);
  e.median = sizes[p->count / 2];
  e.p90 = sizes[p->count * 9 / 10];
  return e;
}

static void print_errors(const char *name, struct errors e, const char *after) {
  printf("\"%s\":{\"median_abs\":%.4f,\"p90_abs\":%.4f,\"bias\":%.4f}%s", name, e.median, e.p90, e.bias,
         after);
}

/* A constant the points say nothing about has no standard error. */
static void print_constant(const char *name, double value, double error, double own, bool comma) {
  printf("%s\"%s\":{\"value\":%.4g,\"standard_error\":", comma ? "," : "", name, value);
  if (isfinite(error))
    printf("%.2g", error);
  else
    printf("null");
  printf(",\"shipped\":%.4g}", own);
}

/* One set's line; false when its shipped constants are too far from its measurements. */
static bool report(const struct problem *p, bool last) {
  static const char *const names[] = {"gemm", "attention forward", "attention backward", "collective"};
  const struct spp_calib *calib = p->calib;
  double constants[PARAMETERS_MAX] = {0}, errors[PARAMETERS_MAX] = {0}, own[PARAMETERS_MAX] = {0};
  const struct set *set = p->set;
  if (!fit(p, constants, errors)) {
    fprintf(stderr, "fit_kernels: %s %s: too few points (%d)\n", calib->name, names[set->form], p->count);
    return false;
  }
  shipped(set, calib, own);
  struct errors fitted = measure(p, constants), now = measure(p, own);
  printf("  {\"calib\":\"%s\",\"form\":\"%s\",", calib->name, names[set->form]);
  if (set->form == ATTENTION || set->form == ATTENTION_BACKWARD)
    printf("\"head_dim\":%d,\"kernel\":\"%s\",", set->head_dim, spp_attention_impl_name(set->kernel));
  if (set->form == COLLECTIVE) printf("\"op\":\"%s\",", spp_collective_name(set->op));
  printf("\"points\":%d,\"constants\":{", p->count);
  for (int i = 0; i < forms[set->form].count; i++)
    print_constant(forms[set->form].names[i], constants[i], errors[i], own[i], i > 0);
  printf("},");
  print_errors("fitted", fitted, ",");
  print_errors("shipped", now, last ? "}\n" : "},\n");
  if (now.median <= fitted.median + tolerance) return true;
  fprintf(stderr, "fit_kernels: %s %s: shipped constants leave %.1f %%, a fit %.1f %%\n", calib->name,
          names[set->form], now.median * 100, fitted.median * 100);
  return false;
}

static enum spp_status run(const char *config_dir, const char *data, bool *agree, struct spp_arena *arena,
                           struct spp_diag *diag) {
  struct problem *problems = spp_arena_array(arena, SET_COUNT, sizeof *problems);
  char *lines = NULL;
  if (!problems) return spp_diag_oom(diag);
  enum spp_status status = spp_file_read(data, DATA_MAX_BYTES, &lines, NULL, diag);
  for (int i = 0; status == SPP_OK && i < SET_COUNT; i++) {
    problems[i] = (struct problem){.set = &sets[i]};
    const struct spp_cluster *cluster = NULL;
    status = spp_gpu_load(config_dir, sets[i].gpu, arena, &problems[i].gpu, diag);
    if (status == SPP_OK) status = spp_cluster_load(config_dir, NULL, problems[i].gpu, arena, &cluster, diag);
    if (status == SPP_OK)
      status = spp_calib_load(config_dir, problems[i].gpu, cluster, arena, &problems[i].calib, diag);
  }
  for (char *line = lines; status == SPP_OK && *line;) {
    size_t length = strcspn(line, "\n");
    if (length > 0) status = read_line(line, length, problems, diag);
    line += length + (line[length] == '\n');
  }
  free(lines);
  if (status == SPP_OK) printf("{\"schema\":\"spplan.kernel_fits/1\",\"fits\":[\n");
  for (int i = 0; status == SPP_OK && i < SET_COUNT; i++)
    if (!report(&problems[i], i + 1 == SET_COUNT)) *agree = false;
  if (status == SPP_OK) printf("]}\n");
  return status;
}

int main(int argc, char **argv) {
  bool check = argc > 1 && !strcmp(argv[argc - 1], "--check"), agree = true;
  int given = argc - 1 - check;
  char path[4096];
  if (given < 1 || given > 2) {
    fprintf(stderr, "usage: fit_kernels CONFIG_DIR [DATA.jsonl] [--check]\n");
    return 2;
  }
  snprintf(path, sizeof path, "%s/calib/data/kernel_perf.jsonl", argv[1]);
  struct spp_arena arena;
  struct spp_diag diag = {0};
  spp_arena_init(&arena);
  gsl_set_error_handler_off();
  enum spp_status status = run(argv[1], given == 2 ? argv[2] : path, &agree, &arena, &diag);
  spp_arena_free(&arena);
  if (status != SPP_OK) {
    fprintf(stderr, "fit_kernels: %s: %s\n", diag.where, diag.what);
    return 3;
  }
  return check && !agree ? 1 : 0;
}
