/* Layouts per second of the search on one core: bench_search [MODEL [GPUS [SEQ [RUNS]]]]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/paths.h"
#include "model/calib.h"
#include "planner/search.h"

static char config_dir[4096];
static const struct spp_framework *frameworks[SPP_MAX_FRAMEWORKS];

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void check(enum spp_status status, const struct spp_diag *diag) {
  char text[1024];
  if (status == SPP_OK) return;
  fprintf(stderr, "bench_search: %s\n", spp_diag_format(diag, text, sizeof text));
  exit((int)status);
}

static int load_frameworks(struct spp_arena *arena) {
  const char *const *names;
  struct spp_diag diag;
  int listed, count = 0;
  check(spp_framework_list(config_dir, arena, &names, &listed, &diag), &diag);
  for (int i = 0; i < listed && count < SPP_MAX_FRAMEWORKS; i++) {
    const struct spp_framework *framework;
    check(spp_framework_load(config_dir, names[i], arena, &framework, &diag), &diag);
    if (framework->trains && framework->searched) frameworks[count++] = framework;
  }
  return count;
}

int main(int argc, char **argv) {
  enum { MAX_RUNS = 1000 };
  static double seconds[MAX_RUNS];
  struct spp_arena arena;
  struct spp_search_options options = {.frameworks = frameworks, .top = 5, .threads = 1};
  struct spp_diag diag;
  int runs = argc > 4 ? atoi(argv[4]) : 51;
  int64_t layouts = 0, evaluated = 0;
  if (runs < 1 || runs > MAX_RUNS) runs = 51;
  check(spp_config_dir(NULL, config_dir, sizeof config_dir, &diag), &diag);
  spp_arena_init(&arena);
  spp_job_spec_clear(&options.spec);
  spp_request_clear(&options.fixed);
  check(spp_arch_load(config_dir, argc > 1 ? argv[1] : "qwen2.5-7b", &arena, &options.spec.arch, &diag),
        &diag);
  check(spp_gpu_load(config_dir, "h100-80gb", &arena, &options.spec.gpu, &diag), &diag);
  check(spp_cluster_load(config_dir, NULL, options.spec.gpu, &arena, &options.spec.cluster, &diag), &diag);
  check(
      spp_calib_load(config_dir, options.spec.gpu, options.spec.cluster, &arena, &options.spec.calib, &diag),
      &diag);
  options.spec.gpus = argc > 2 ? atoll(argv[2]) : 8;
  options.spec.seq_tokens = argc > 3 ? atoll(argv[3]) : 32768;
  options.framework_count = load_frameworks(&arena);
  for (int i = 0; i < runs; i++) {
    struct spp_search_result result;
    double begin_s = now_s();
    enum spp_status status = spp_search(&options, &result, &diag);
    seconds[i] = now_s() - begin_s;
    if (status != SPP_ERR_NOFIT) check(status, &diag);
    layouts = result.layouts;
    evaluated = result.evaluated;
    spp_search_free(&result);
  }
  qsort(seconds, (size_t)runs, sizeof *seconds, compare);
  printf("%d runs on one core: %.2f ms min, %.2f ms median, %.2f ms max\n", runs, 1e3 * seconds[0],
         1e3 * seconds[runs / 2], 1e3 * seconds[runs - 1]);
  printf("%lld layouts, %lld evaluated: %.0f layouts/s\n", (long long)layouts, (long long)evaluated,
         (double)layouts / seconds[runs / 2]);
  spp_arena_free(&arena);
  return 0;
}
