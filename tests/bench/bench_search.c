/* The speed of the search, on one core, in CPU seconds:
 *   bench_search [RUNS]                         fully evaluated layouts per second (exhaustive search)
 *   bench_search scale [MODEL [SEQ]]            cost of a plan from 8 to 131,072 GPUs, as docs/performance.md
 *   bench_search plan MODEL GPUS SEQ [RUNS]     one job, as `spplan plan` asks it */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/paths.h"
#include "base/units.h"
#include "model/calib.h"
#include "planner/search_internal.h"
#include "tests/bench/bench.h"

enum { MAX_RUNS = 1000 };
static char config_dir[4096];
static const struct spp_framework *frameworks[SPP_MAX_FRAMEWORKS];
static int framework_count;

static double cpu_s(void) {
  return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

static void check(enum spp_status status, const struct spp_diag *diag) {
  char text[1024];
  if (status == SPP_OK) return;
  fprintf(stderr, "bench_search: %s\n", spp_diag_format(diag, text, sizeof text));
  exit((int)status);
}

static void load_frameworks(struct spp_arena *arena, const char *only) {
  const char *const *names;
  struct spp_diag diag;
  int listed;
  framework_count = 0;
  check(spp_framework_list(config_dir, arena, &names, &listed, &diag), &diag);
  for (int i = 0; i < listed && framework_count < SPP_MAX_FRAMEWORKS; i++) {
    const struct spp_framework *framework;
    if (only && strcmp(only, names[i]) != 0) continue;
    check(spp_framework_load(config_dir, names[i], arena, &framework, &diag), &diag);
    if (framework->trains && framework->searched) frameworks[framework_count++] = framework;
  }
}

static struct spp_search_options options_of(struct spp_arena *arena, const char *model, int64_t gpus,
                                            int64_t seq_tokens) {
  struct spp_search_options o = {
      .frameworks = frameworks, .framework_count = framework_count, .min_fit = 0.8, .top = 3, .threads = 1};
  struct spp_diag diag;
  spp_job_spec_clear(&o.spec);
  spp_request_clear(&o.fixed);
  check(spp_arch_load(config_dir, model, arena, &o.spec.arch, &diag), &diag);
  check(spp_gpu_load(config_dir, "h100-80gb", arena, &o.spec.gpu, &diag), &diag);
  check(spp_cluster_load(config_dir, NULL, o.spec.gpu, arena, &o.spec.cluster, &diag), &diag);
  check(spp_calib_load(config_dir, o.spec.gpu, o.spec.cluster, arena, &o.spec.calib, &diag), &diag);
  o.spec.gpus = gpus;
  o.spec.seq_tokens = seq_tokens;
  return o;
}

struct cost {
  int64_t combinations; /* legal layouts, and those that a rule refused */
  int64_t layouts, evaluated;
  double min_s, median_s, max_s;
};

static struct cost measure(const struct spp_search_options *options, int runs) {
  static double seconds[MAX_RUNS];
  struct cost cost = {.layouts = 0};
  for (int i = 0; i < runs; i++) {
    struct spp_search_result result;
    struct spp_diag diag;
    double begin_s = cpu_s();
    enum spp_status status = spp_search(options, &result, &diag);
    seconds[i] = cpu_s() - begin_s;
    if (status != SPP_ERR_NOFIT) check(status, &diag);
    cost.combinations = cost.layouts = result.layouts;
    for (int r = 0; r < result.rejection_count; r++)
      if (spp_rule_find(result.rejections[r].reason) >= 0) cost.combinations += result.rejections[r].count;
    cost.evaluated = result.evaluated;
    spp_search_free(&result);
  }
  qsort(seconds, (size_t)runs, sizeof *seconds, compare);
  cost.min_s = seconds[0];
  cost.median_s = seconds[runs / 2];
  cost.max_s = seconds[runs - 1];
  return cost;
}

static double peak_mib(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

/* Nothing is pruned: memory, communication and time of every legal layout. */
static void print_rate(struct spp_arena *arena, const char *what, const char *model, int64_t gpus,
                       const char *framework, int runs) {
  load_frameworks(arena, framework);
  struct spp_search_options options = options_of(arena, model, gpus, 32768);
  options.exhaustive = true;
  struct cost cost = measure(&options, runs);
  double n = (double)cost.evaluated;
  printf("%s: %s, %lld GPUs, %s: %lld layouts, %.0f min %.0f median %.0f max evaluated per second\n", what,
         model, (long long)gpus, framework ? framework : "all frameworks", (long long)cost.evaluated,
         n / cost.max_s, n / cost.median_s, n / cost.min_s);
}

static int print_rates(struct spp_arena *arena, int runs) {
  print_rate(arena, "dense", "qwen2.5-7b", 8, NULL, runs);
  print_rate(arena, "dense, PP", "llama3.1-70b", 64, NULL, runs);
  print_rate(arena, "MoE, PP", "qwen3-30b-a3b", 64, "megatron-lm", runs);
  print_rate(arena, "MoE, PP", "qwen3-30b-a3b", 64, NULL, runs);
  return 0;
}

/* Divisions of the GPUs over all frameworks, each with its choices: what the cost may grow with. */
static long long count_cells(const struct spp_search_options *options) {
  struct spp_hunt *hunt = malloc(sizeof *hunt);
  struct spp_diag diag;
  if (!hunt) exit(1);
  check(spp_hunt_open(options, hunt, &diag), &diag);
  long long cells = (long long)hunt->cell_count;
  spp_hunt_close(hunt);
  free(hunt);
  return cells;
}

static int print_scale(struct spp_arena *arena, const char *model, int64_t seq_tokens) {
  load_frameworks(arena, NULL);
  printf("| GPUs | divisions | combinations | legal | evaluated | CPU s | ns a combination |\n");
  printf("|--:|--:|--:|--:|--:|--:|--:|\n");
  for (int64_t gpus = 8; gpus <= 131072; gpus *= 2) {
    struct spp_search_options options = options_of(arena, model, gpus, seq_tokens);
    long long cells = count_cells(&options);
    struct cost cost = measure(&options, 3);
    printf("| %lld | %lld | %lld | %lld | %lld | %.3f | %.0f |\n", (long long)gpus, cells,
           (long long)cost.combinations, (long long)cost.layouts, (long long)cost.evaluated, cost.median_s,
           1e9 * cost.median_s / (double)cost.combinations);
    fflush(stdout);
  }
  printf("Peak resident set %.0f MiB.\n", peak_mib());
  return 0;
}

static int print_plan(struct spp_arena *arena, const char *model, int64_t gpus, int64_t seq_tokens,
                      int runs) {
  load_frameworks(arena, NULL);
  struct spp_search_options options = options_of(arena, model, gpus, seq_tokens);
  struct cost cost = measure(&options, runs);
  printf("%s, %lld GPUs: %lld layouts, %lld evaluated, %.4f min %.4f median %.4f max CPU seconds, %.0f MiB\n",
         model, (long long)gpus, (long long)cost.layouts, (long long)cost.evaluated, cost.min_s,
         cost.median_s, cost.max_s, peak_mib());
  return 0;
}

static int runs_of(const char *text, int otherwise) {
  int runs = text ? atoi(text) : otherwise;
  return runs < 1 ? 1 : runs > MAX_RUNS ? MAX_RUNS : runs;
}

static int64_t tokens_of(const char *text) {
  struct spp_diag diag;
  int64_t tokens = 0;
  check(spp_tokens_parse(text, "SEQ", 1, INT64_C(1) << 40, &tokens, &diag), &diag);
  return tokens;
}

static int64_t gpus_of(const char *text) {
  struct spp_diag diag;
  int64_t gpus = 0;
  check(spp_count_parse(text, "GPUS", 1, INT64_C(1) << 30, &gpus, &diag), &diag);
  return gpus;
}

int main(int argc, char **argv) {
  struct spp_arena arena;
  struct spp_diag diag;
  int status;
  check(spp_config_dir(NULL, config_dir, sizeof config_dir, &diag), &diag);
  spp_arena_init(&arena);
  if (argc > 1 && strcmp(argv[1], "scale") == 0)
    status =
        print_scale(&arena, argc > 2 ? argv[2] : "llama3.1-405b", argc > 3 ? tokens_of(argv[3]) : 131072);
  else if (argc > 4 && strcmp(argv[1], "plan") == 0)
    status = print_plan(&arena, argv[2], gpus_of(argv[3]), tokens_of(argv[4]),
                        runs_of(argc > 5 ? argv[5] : NULL, 5));
  else
    status = print_rates(&arena, runs_of(argc > 1 ? argv[1] : NULL, 11));
  spp_arena_free(&arena);
  return status;
}
