/* Shipped models and frameworks for tests of jobs, layouts and rules. */
#ifndef SPP_TESTS_MODEL_FRAMEWORK_CASE_H
#define SPP_TESTS_MODEL_FRAMEWORK_CASE_H

#include <stdlib.h>

#include "tests/expect.h"

#include "model/layout.h"

#define CASE_CONFIGS SPP_SOURCE_DIR "/configs"

static struct spp_arena case_arena;
static const struct spp_framework *case_frameworks[16]; /* loaded once a test */

__attribute__((unused)) static int case_setup(void **state) {
  (void)state;
  spp_arena_init(&case_arena);
  memset(case_frameworks, 0, sizeof case_frameworks);
  return 0;
}
__attribute__((unused)) static int case_teardown(void **state) {
  (void)state;
  spp_arena_free(&case_arena);
  return 0;
}

__attribute__((unused)) static const struct spp_framework *case_framework(const char *name) {
  const struct spp_framework *framework = NULL;
  struct spp_diag diag;
  size_t i = 0;
  for (; i < 16 && case_frameworks[i]; i++)
    if (strcmp(case_frameworks[i]->name, name) == 0) return case_frameworks[i];
  expect_status(spp_framework_load(CASE_CONFIGS, name, &case_arena, &framework, &diag), SPP_OK, &diag);
  if (i < 16) case_frameworks[i] = framework;
  return framework;
}

__attribute__((unused)) static const struct spp_arch *case_arch(const char *name) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag;
  expect_status(spp_arch_load(CASE_CONFIGS, name, &case_arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

/* A model with nothing but heads and a width, for head rules. */
__attribute__((unused)) static struct spp_arch *case_heads(int64_t heads, int64_t kv_heads) {
  struct spp_arch *arch = spp_arena_alloc(&case_arena, sizeof *arch);
  assert_non_null(arch);
  arch->layers = 4;
  arch->heads = heads;
  arch->kv_heads = kv_heads;
  arch->head_dim = 16;
  arch->hidden = heads * 16;
  arch->ffn = heads * 64;
  arch->vocab = 256;
  arch->kind_count = 1;
  arch->kinds[0].count = 4;
  return arch;
}

__attribute__((unused)) static struct spp_job case_job(const struct spp_arch *arch, const char *framework,
                                                       int64_t gpus, int64_t seq_tokens) {
  struct spp_job_spec spec;
  struct spp_job job;
  struct spp_diag diag;
  spp_job_spec_clear(&spec);
  spec.arch = arch;
  spec.gpus = gpus;
  spec.seq_tokens = seq_tokens;
  memset(&job, 0, sizeof job);
  expect_status(spp_job_resolve(&spec, case_framework(framework), &job, &diag), SPP_OK, &diag);
  return job;
}

/* The layout of a total degree, the rest by default. */
__attribute__((unused)) static struct spp_layout case_layout(const struct spp_job *job, int64_t tp,
                                                             int64_t pp, int64_t sp) {
  struct spp_request request;
  struct spp_layout layout;
  struct spp_diag diag;
  spp_request_clear(&request);
  request.tp = tp;
  request.pp = pp;
  request.sp = sp;
  memset(&layout, 0, sizeof layout);
  expect_status(spp_layout_complete(job, &request, &layout, &diag), SPP_OK, &diag);
  return layout;
}

#endif
