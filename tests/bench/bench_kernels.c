/* Attention against this machine's SGEMM, measured in turns in the same run:
 * bench_kernels [--variant NAME] [--threads N] [--repeats N] [--seq N] [--head-dim N] [--heads N] [--kv-heads
 * N] Prints medians with minimum and maximum; ratios are of medians. */
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/table.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setup {
  const struct spp_kernels *kernels;
  int threads, repeats;
  int64_t seq, head_dim, heads, kv_heads;
};

struct stats {
  double median, low, high; /* GFLOP/s */
};

static struct stats summarise(double *rates, int n) {
  qsort(rates, (size_t)n, sizeof *rates, compare);
  return (struct stats){n % 2 ? rates[n / 2] : (rates[n / 2 - 1] + rates[n / 2]) / 2, rates[0], rates[n - 1]};
}

static void *must_alloc(int64_t bytes) {
  void *p = malloc((size_t)(bytes > 0 ? bytes : 1));
  if (!p) {
    fprintf(stderr, "bench_kernels: out of memory\n");
    exit(1);
  }
  return p;
}

/* Uniform in [-1, 1), a fixed sequence. */
static void fill(void *p, enum spp_storage storage, int64_t n) {
  uint32_t state = 1;
  for (int64_t i = 0; i < n; i++) {
    state = state * 1664525U + 1013904223U; /* Numerical Recipes */
    spp_store(p, storage, i, (float)((double)state / 2147483648.0 - 1.0));
  }
}

static struct spp_rows tensor(int64_t tokens, int64_t width, enum spp_storage storage) {
  struct spp_rows x = {must_alloc(tokens * width * spp_storage_bytes(storage)), width, storage};
  fill(x.data, storage, tokens * width);
  return x;
}

struct problem {
  struct spp_attn_forward forward;
  struct spp_attn_backward backward;
  void *workspace;
};

static struct problem make_problem(const struct setup *s, struct spp_attn_mask mask,
                                   enum spp_storage storage) {
  struct problem p = {0};
  struct spp_attn_shape shape = {.q_tokens = s->seq,
                                 .kv_tokens = s->seq,
                                 .q_heads = s->heads,
                                 .kv_heads = s->kv_heads,
                                 .head_dim = s->head_dim,
                                 .scale = 1.0F / sqrtf((float)s->head_dim),
                                 .mask = mask};
  int64_t qw = s->heads * s->head_dim, kw = s->kv_heads * s->head_dim;
  struct spp_row_stats lse = {must_alloc(s->heads * s->seq * 4), s->seq};
  struct spp_row_stats delta = {must_alloc(s->heads * s->seq * 4), s->seq};
  p.forward = (struct spp_attn_forward){.shape = shape,
                                        .options = {.threads = s->threads},
                                        .q = tensor(s->seq, qw, storage),
                                        .k = tensor(s->seq, kw, storage),
                                        .v = tensor(s->seq, kw, storage),
                                        .out = tensor(s->seq, qw, storage),
                                        .lse = lse};
  p.backward = (struct spp_attn_backward){.shape = shape,
                                          .options = p.forward.options,
                                          .q = p.forward.q,
                                          .k = p.forward.k,
                                          .v = p.forward.v,
                                          .dout = tensor(s->seq, qw, storage),
                                          .lse = lse,
                                          .delta = delta,
                                          .dq = tensor(s->seq, qw, storage),
                                          .dk = tensor(s->seq, kw, storage),
                                          .dv = tensor(s->seq, kw, storage)};
  int64_t need = spp_attn_forward_workspace_bytes(s->kernels, &p.forward);
  int64_t more = spp_attn_backward_workspace_bytes(s->kernels, &p.backward);
  p.workspace = must_alloc(need > more ? need : more);
  return p;
}

static void free_problem(struct problem *p) {
  free(p->forward.q.data);
  free(p->forward.k.data);
  free(p->forward.v.data);
  free(p->forward.out.data);
  free(p->forward.lse.data);
  free(p->backward.dout.data);
  free(p->backward.delta.data);
  free(p->backward.dq.data);
  free(p->backward.dk.data);
  free(p->backward.dv.data);
  free(p->workspace);
}

static double gemm_rate(const struct setup *s, struct spp_gemm *g) {
  double start = now_s();
  if (spp_gemm(g, NULL, NULL) != SPP_OK) exit(1);
  (void)s;
  return 2e-9 * (double)g->m * (double)g->n * (double)g->k / (now_s() - start);
}

static double forward_rate(const struct setup *s, const struct problem *p) {
  double start = now_s();
  if (spp_attn_forward(s->kernels, &p->forward, p->workspace, NULL) != SPP_OK) exit(1);
  return 1e-9 * (double)spp_attn_forward_flops(&p->forward.shape) / (now_s() - start);
}

static double backward_rate(const struct setup *s, const struct problem *p) {
  double start = now_s();
  if (spp_attn_backward(s->kernels, &p->backward, p->workspace, NULL) != SPP_OK) exit(1);
  return 1e-9 * (double)spp_attn_backward_flops(&p->backward.shape) / (now_s() - start);
}

static void print_line(const char *what, struct stats x, double against) {
  printf("%-34s %8.1f GFLOP/s  [%.1f, %.1f]  %5.1f %% of SGEMM\n", what, x.median, x.low, x.high,
         100.0 * x.median / against);
}

/* Measures SGEMM, forward and backward in turns, so that a change of clock meets all three. */
static void measure(const struct setup *s, const char *name, struct spp_attn_mask mask,
                    enum spp_storage storage) {
  enum { GEMM_SIZE = 1536 };
  struct problem p = make_problem(s, mask, storage);
  float *abc = must_alloc((int64_t)3 * GEMM_SIZE * GEMM_SIZE * 4);
  fill(abc, SPP_STORE_F32, (int64_t)3 * GEMM_SIZE * GEMM_SIZE);
  struct spp_gemm g = {.m = GEMM_SIZE, .n = GEMM_SIZE, .k = GEMM_SIZE, .alpha = 1.0F, .threads = s->threads};
  g.a = (struct spp_matrix){abc, GEMM_SIZE, SPP_STORE_F32};
  g.b = (struct spp_matrix){abc + GEMM_SIZE * GEMM_SIZE, GEMM_SIZE, SPP_STORE_F32};
  g.c = (struct spp_matrix){abc + 2 * GEMM_SIZE * GEMM_SIZE, GEMM_SIZE, SPP_STORE_F32};
  double *rates[3];
  for (int i = 0; i < 3; i++)
    rates[i] = must_alloc(s->repeats * (int64_t)sizeof(double));
  forward_rate(s, &p);
  spp_attn_delta(s->kernels, &p.forward.shape, p.backward.dout, p.forward.out, p.backward.delta);
  backward_rate(s, &p);
  gemm_rate(s, &g);
  for (int i = 0; i < s->repeats; i++) {
    rates[0][i] = gemm_rate(s, &g);
    rates[1][i] = forward_rate(s, &p);
    rates[2][i] = backward_rate(s, &p);
  }
  struct stats gemm = summarise(rates[0], s->repeats);
  char line[64];
  snprintf(line, sizeof line, "%s sgemm %d", name, GEMM_SIZE);
  print_line(line, gemm, gemm.median);
  snprintf(line, sizeof line, "%s forward", name);
  print_line(line, summarise(rates[1], s->repeats), gemm.median);
  snprintf(line, sizeof line, "%s backward", name);
  print_line(line, summarise(rates[2], s->repeats), gemm.median);
  for (int i = 0; i < 3; i++)
    free(rates[i]);
  free(abc);
  free_problem(&p);
}

static void print_cpu(void) {
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, "model name", 10) == 0) {
      printf("cpu        %s", strchr(line, ':') + 2);
      break;
    }
  if (f) fclose(f);
}

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], name) == 0) return strtoll(argv[i + 1], NULL, 10);
  return otherwise;
}

static const struct spp_kernels *pick(int argc, char **argv) {
  const struct spp_kernels *kernels = spp_kernels_best();
  struct spp_diag diag = {0};
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], "--variant") == 0 && spp_kernels_find(argv[i + 1], &kernels, &diag) != SPP_OK) {
      fprintf(stderr, "bench_kernels: %s: %s: %s\n", diag.what, diag.where, diag.hint);
      exit(2);
    }
  return kernels;
}

int main(int argc, char **argv) {
  struct setup s = {.kernels = pick(argc, argv),
                    .threads = (int)option(argc, argv, "--threads", 1),
                    .repeats = (int)option(argc, argv, "--repeats", 7),
                    .seq = option(argc, argv, "--seq", 2048),
                    .head_dim = option(argc, argv, "--head-dim", 128),
                    .heads = option(argc, argv, "--heads", 4),
                    .kv_heads = option(argc, argv, "--kv-heads", 4)};
  char gemm[160];
  spp_gemm_describe(gemm, sizeof gemm);
  print_cpu();
  printf("attention  %s, %d threads, %lld tokens, %lld/%lld heads of %lld\n", s.kernels->name, s.threads,
         (long long)s.seq, (long long)s.heads, (long long)s.kv_heads, (long long)s.head_dim);
  printf("gemm       %s\n%d repeats after a warm-up: median [min, max]\n", gemm, s.repeats);
  measure(&s, "fp32 full", spp_mask_full(), SPP_STORE_F32);
  measure(&s, "fp32 causal", spp_mask_causal(0, 0), SPP_STORE_F32);
  measure(&s, "bf16 full", spp_mask_full(), SPP_STORE_BF16);
  measure(&s, "bf16 causal", spp_mask_causal(0, 0), SPP_STORE_BF16);
  return 0;
}
