/* Jobs for the planner's tests: shipped models, GPUs and frameworks by name. */
#ifndef SPP_TESTS_PLANNER_JOBS_H
#define SPP_TESTS_PLANNER_JOBS_H

#include "model/calib.h"
#include "planner/search.h"
#include "tests/expect.h"

#define JOBS_CONFIG_DIR SPP_SOURCE_DIR "/configs"

static struct spp_arena jobs_arena;
static const struct spp_framework *jobs_frameworks[SPP_MAX_FRAMEWORKS];
static int jobs_framework_count;

__attribute__((unused)) static void jobs_need(enum spp_status status, const struct spp_diag *diag) {
  expect_status(status, SPP_OK, diag);
}

/* All frameworks that "any" searches. */
__attribute__((unused)) static void jobs_load_frameworks(void) {
  const char *const *names;
  struct spp_diag diag;
  int count;
  if (jobs_framework_count > 0) return;
  jobs_need(spp_framework_list(JOBS_CONFIG_DIR, &jobs_arena, &names, &count, &diag), &diag);
  for (int i = 0; i < count && jobs_framework_count < SPP_MAX_FRAMEWORKS; i++) {
    const struct spp_framework *framework;
    jobs_need(spp_framework_load(JOBS_CONFIG_DIR, names[i], &jobs_arena, &framework, &diag), &diag);
    if (framework->trains && framework->searched) jobs_frameworks[jobs_framework_count++] = framework;
  }
}

__attribute__((unused)) static const struct spp_framework *jobs_framework(const char *name) {
  const struct spp_framework *framework = NULL;
  struct spp_diag diag;
  jobs_need(spp_framework_load(JOBS_CONFIG_DIR, name, &jobs_arena, &framework, &diag), &diag);
  return framework;
}

__attribute__((unused)) static const struct spp_arch *jobs_arch(const char *name) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag;
  jobs_need(spp_arch_load(JOBS_CONFIG_DIR, name, &jobs_arena, &arch, &diag), &diag);
  return arch;
}

__attribute__((unused)) static void jobs_spec(const char *model, const char *gpu, int64_t gpus,
                                              int64_t seq_tokens, struct spp_job_spec *spec) {
  struct spp_diag diag;
  spp_job_spec_clear(spec);
  spec->arch = jobs_arch(model);
  jobs_need(spp_gpu_load(JOBS_CONFIG_DIR, gpu, &jobs_arena, &spec->gpu, &diag), &diag);
  jobs_need(spp_cluster_load(JOBS_CONFIG_DIR, NULL, spec->gpu, &jobs_arena, &spec->cluster, &diag), &diag);
  jobs_need(spp_calib_load(JOBS_CONFIG_DIR, spec->gpu, spec->cluster, &jobs_arena, &spec->calib, &diag),
            &diag);
  spec->gpus = gpus;
  spec->seq_tokens = seq_tokens;
}

/* A search over every framework, on one thread. */
__attribute__((unused)) static void jobs_options(const char *model, const char *gpu, int64_t gpus,
                                                 int64_t seq_tokens, struct spp_search_options *options) {
  memset(options, 0, sizeof *options);
  jobs_load_frameworks();
  jobs_spec(model, gpu, gpus, seq_tokens, &options->spec);
  spp_request_clear(&options->fixed);
  options->frameworks = jobs_frameworks;
  options->framework_count = jobs_framework_count;
  options->objective = SPP_OBJECTIVE_THROUGHPUT;
  options->top = 5;
  options->threads = 1;
}

__attribute__((unused)) static int jobs_setup(void **state) {
  (void)state;
  spp_arena_init(&jobs_arena);
  return 0;
}

__attribute__((unused)) static int jobs_teardown(void **state) {
  (void)state;
  spp_arena_free(&jobs_arena);
  jobs_framework_count = 0;
  return 0;
}

#endif
