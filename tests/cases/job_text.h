/* A job and a layout from one line of words: "model=qwen2.5-7b framework=ms-swift gpu=h100-80gb seq=32k
 * gpus=8 sp=8". */
#ifndef SPP_TESTS_CASES_JOB_TEXT_H
#define SPP_TESTS_CASES_JOB_TEXT_H

#include <stdlib.h>

#include "tests/expect.h"

#include "model/calib.h"
#include "model/predict.h"
#include "model/setting.h"

#define JOB_CONFIGS SPP_SOURCE_DIR "/configs"

struct text_job {
  struct spp_arena arena;
  struct spp_job_spec spec;
  struct spp_request request;
  const struct spp_framework *framework;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_prediction prediction;
  struct spp_violation violation; /* first rule broken; rule empty when legal */
  struct spp_ledger ledger;
};

/* One word of the line. Names of things are loaded, the rest are settings. host=BYTES replaces the node's
 * RAM. */
static void text_job_word(struct text_job *t, const char *key, const char *value) {
  struct spp_diag diag = {0};
  enum spp_status status;
  if (!strcmp(key, "model"))
    status = spp_arch_load(JOB_CONFIGS, value, &t->arena, &t->spec.arch, &diag);
  else if (!strcmp(key, "framework")) {
    char own[512]; /* "easycontext.json": a file of tests/cases/frameworks */
    snprintf(own, sizeof own, "%s/tests/cases/frameworks/%s", SPP_SOURCE_DIR, value);
    status = spp_framework_load(JOB_CONFIGS, strstr(value, ".json") ? own : value, &t->arena, &t->framework,
                                &diag);
  } else if (!strcmp(key, "gpu"))
    status = spp_gpu_load(JOB_CONFIGS, value, &t->arena, &t->spec.gpu, &diag);
  else
    status = spp_setting_apply(key, value, &t->spec, &t->request, &diag);
  expect_status(status, SPP_OK, &diag);
}

static void text_job_read(struct text_job *t, const char *line, int64_t host_bytes) {
  char key[64], value[96];
  spp_arena_init(&t->arena);
  spp_job_spec_clear(&t->spec);
  spp_request_clear(&t->request);
  text_job_word(t, "gpu", "h100-80gb");
  for (const char *at = line; *at;) {
    int used = 0;
    if (sscanf(at, " %63[^= ]=%95[^ ]%n", key, value, &used) != 2) fail_msg("bad job text '%s'", at);
    text_job_word(t, key, value);
    at += used + (at[used] == ' ');
  }
  struct spp_diag diag = {0};
  const struct spp_cluster *cluster = NULL;
  expect_status(spp_cluster_load(JOB_CONFIGS, NULL, t->spec.gpu, &t->arena, &cluster, &diag), SPP_OK, &diag);
  struct spp_cluster *own = spp_arena_alloc(&t->arena, sizeof *own);
  assert_non_null(own);
  *own = *cluster;
  if (host_bytes > 0) own->host_bytes = host_bytes;
  t->spec.cluster = own;
  expect_status(spp_calib_load(JOB_CONFIGS, t->spec.gpu, own, &t->arena, &t->spec.calib, &diag), SPP_OK,
                &diag);
}

/* Resolve, judge and, when legal, predict. */
static struct text_job *text_job_run(const char *line, int64_t host_bytes) {
  struct text_job *t = calloc(1, sizeof *t);
  struct spp_diag diag = {0};
  assert_non_null(t);
  text_job_read(t, line, host_bytes);
  expect_status(spp_job_resolve(&t->spec, t->framework, &t->job, &diag), SPP_OK, &diag);
  expect_status(spp_layout_complete(&t->job, &t->request, &t->layout, &diag), SPP_OK, &diag);
  if (spp_rules_check(&t->job, &t->layout, &t->violation, 1) > 0) return t;
  t->violation.rule[0] = '\0';
  spp_predict(&t->job, &t->layout, &t->ledger, &t->prediction);
  return t;
}

static void text_job_free(struct text_job *t) {
  spp_arena_free(&t->arena);
  free(t);
}

#endif
