/* GPUs and machines: the files load, are sane, and name a source for each figure. */
#include "model/hw.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/expect.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"
#define GIB     (INT64_C(1) << 30)

static const struct spp_gpu *load_gpu(const char *name, struct spp_arena *arena) {
  const struct spp_gpu *gpu = NULL;
  struct spp_diag diag;
  expect_note("%s", name);
  expect_status(spp_gpu_load(CONFIGS, name, arena, &gpu, &diag), SPP_OK, &diag);
  return gpu;
}

/* Datasheet figures: NVIDIA H100 SXM5, A100 SXM4, V100, GeForce RTX 4090. */
static void well_known_gpus_have_their_datasheet_figures(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  const struct spp_gpu *h100 = load_gpu("h100-80gb", &arena);
  expect_rel(h100->memory_bytes_per_s, 3.35e12, 0);
  expect_rel(h100->flops_per_s[SPP_DTYPE_BF16], 989e12, 0);
  expect_rel(h100->flops_per_s[SPP_DTYPE_FP8], 1979e12, 0);
  expect_rel(h100->link_bytes_per_s, 450e9, 0);
  expect_true(h100->has_fast_link);
  expect_i64(h100->sms, 132);
  expect_i64(h100->compute_capability, 90);
  expect_i64(h100->capacity_bytes, INT64_C(84932978278)); /* 79.10 x 2^30, whole bytes */
  expect_rel(load_gpu("a100-40gb", &arena)->memory_bytes_per_s, 1555e9, 0);
  const struct spp_gpu *v100 = load_gpu("v100-32gb", &arena);
  expect_rel(v100->flops_per_s[SPP_DTYPE_BF16], 0, 0); /* Volta has no bf16 */
  expect_i64(v100->compute_capability, 70);
  const struct spp_gpu *geforce = load_gpu("rtx-4090", &arena);
  expect_false(geforce->has_fast_link);
  expect_rel(geforce->link_bytes_per_s, geforce->pcie_bytes_per_s, 0);
  expect_i64(load_gpu("rtx-5090", &arena)->compute_capability, 120);
  spp_arena_free(&arena);
}

static void every_gpu_is_sane_and_has_a_machine(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const char *const *names;
  int count = 0;
  spp_arena_init(&arena);
  expect_status(spp_gpu_list(CONFIGS, &arena, &names, &count, &diag), SPP_OK, &diag);
  expect_true(count >= 31);
  for (int i = 0; i < count; i++) {
    const struct spp_cluster *cluster = NULL;
    const struct spp_gpu *g = load_gpu(names[i], &arena);
    expect_true(g->capacity_bytes <= g->nominal_bytes && g->capacity_bytes > g->nominal_bytes / 10 * 9);
    expect_true(g->memory_bytes_per_s >= 2e11 && g->memory_bytes_per_s < 1e14);
    expect_true(g->flops_per_s[SPP_DTYPE_FP16] >= 5e13 && g->flops_per_s[SPP_DTYPE_FP16] < 1e16);
    expect_true(g->link_bytes_per_s >= g->pcie_bytes_per_s || g->has_fast_link);
    expect_status(spp_cluster_load(CONFIGS, NULL, g, &arena, &cluster, &diag), SPP_OK, &diag);
    /* Ridge points of shipped GPUs lie between 35 and 600 FLOP per byte. */
    double ridge = g->flops_per_s[SPP_DTYPE_FP16] / g->memory_bytes_per_s;
    expect_true(ridge > 35 && ridge < 600);
  }
  spp_arena_free(&arena);
}

static void every_cluster_is_sane(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const char *const *names;
  int count = 0;
  spp_arena_init(&arena);
  expect_status(spp_cluster_list(CONFIGS, &arena, &names, &count, &diag), SPP_OK, &diag);
  expect_true(count >= 20);
  const struct spp_gpu *gpu = load_gpu("h100-80gb", &arena);
  for (int i = 0; i < count; i++) {
    const struct spp_cluster *c = NULL;
    expect_note("%s", names[i]);
    expect_status(spp_cluster_load(CONFIGS, names[i], gpu, &arena, &c, &diag), SPP_OK, &diag);
    expect_true(c->gpus_per_node >= 1 && c->gpus_per_node <= 16);
    expect_true(c->fabric != SPP_FABRIC_SWITCH || c->domain_gpus >= c->gpus_per_node);
    expect_true(c->nic_bytes_per_s_per_gpu <= c->nic_bytes_per_s * (double)c->nics_per_node);
    expect_true(c->nic_bytes_per_s_per_gpu > 5e8 && c->nic_bytes_per_s_per_gpu <= 1e11);
    expect_true(c->host_bytes >= 64 * GIB && c->host_bytes <= 4096 * GIB);
    expect_true(c->nic_latency_s >= c->link_latency_s);
  }
  spp_arena_free(&arena);
}

/* Each numeric member of a GPU or cluster file has a line in "sources". */
static void every_figure_names_its_source(void **state) {
  (void)state;
  static const char *const folders[] = {"gpus", "clusters"};
  static const char *const bare[] = {"pcie_generation", "switch_levels"};
  for (int f = 0; f < 2; f++) {
    struct spp_names files;
    struct spp_diag diag;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", CONFIGS, folders[f]);
    expect_status(spp_dir_list(folder, ".json", &files, &diag), SPP_OK, &diag);
    for (int i = 0; i < files.count; i++) {
      char path[1024];
      struct spp_json_doc *doc;
      snprintf(path, sizeof path, "%s/%s", folder, files.names[i]);
      expect_status(spp_json_load(path, &doc, &diag), SPP_OK, &diag);
      struct spp_json root = spp_json_root(doc), sources = spp_json_get(root, "sources");
      for (int m = 0; m < spp_json_size(root); m++) {
        const char *key = spp_json_key(root, m), *source = "";
        enum spp_json_kind kind = spp_json_kind(spp_json_member(root, m));
        bool figure = kind == SPP_JSON_INT || kind == SPP_JSON_REAL || strcmp(key, "flops_per_s") == 0;
        if (!figure || strcmp(key, bare[0]) == 0 || strcmp(key, bare[1]) == 0) continue;
        expect_note("%s %s", files.names[i], key);
        expect_status(spp_json_string(spp_json_get(sources, key), &source, &diag), SPP_OK, &diag);
        expect_true(strlen(source) > 5);
      }
      spp_json_free(doc);
    }
    spp_names_free(&files);
  }
}

/* arXiv 2407.21783, section 3.3.1: pods of 3,072 GPUs, 1:7 between them. */
static void a_cluster_may_have_pods(void **state) {
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_cluster *c = NULL;
  (void)state;
  spp_arena_init(&arena);
  expect_status(spp_cluster_load(CONFIGS, "h100-llama3", NULL, &arena, &c, &diag), SPP_OK, &diag);
  expect_i64(c->level_count, 1);
  expect_str(c->levels[0].name, "pod");
  expect_i64(c->levels[0].gpus, 3072);
  expect_rel(c->levels[0].oversubscription, 7, 0);
  expect_status(spp_cluster_load(CONFIGS, "h100-sxm", NULL, &arena, &c, &diag), SPP_OK, &diag);
  expect_i64(c->level_count, 0);
  spp_arena_free(&arena);
}

static void names_of_people_resolve_and_ambiguous_ones_list_candidates(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_gpu *gpu = NULL;
  spp_arena_init(&arena);
  expect_str(load_gpu("H100", &arena)->name, "h100-80gb");
  expect_str(load_gpu("4090", &arena)->name, "rtx-4090");
  expect_str(load_gpu("NVIDIA H100 80GB HBM3", &arena)->name, "h100-80gb"); /* as the driver says it */
  expect_str(load_gpu("Tesla T4", &arena)->name, "t4-16gb");
  expect_note("%s", "a100");
  expect_status(spp_gpu_load(CONFIGS, "a100", &arena, &gpu, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "ambiguous");
  expect_has(diag.hint, "a100-40gb");
  expect_has(diag.hint, "a100-80gb");
  expect_note("%s", "h100-80bg");
  expect_status(spp_gpu_load(CONFIGS, "h100-80bg", &arena, &gpu, &diag), SPP_ERR_USAGE, &diag);
  expect_has(diag.hint, "h100-80gb");
  expect_true(gpu == NULL);
  spp_arena_free(&arena);
}

static void every_alias_of_a_gpu_or_cluster_leads_somewhere(void **state) {
  (void)state;
  struct spp_json_doc *doc;
  struct spp_diag diag;
  struct spp_arena arena;
  spp_arena_init(&arena);
  expect_status(spp_json_load(CONFIGS "/aliases.json", &doc, &diag), SPP_OK, &diag);
  for (int section = 0; section < 2; section++) {
    struct spp_json aliases = spp_json_get(spp_json_root(doc), section ? "clusters" : "gpus");
    expect_true(spp_json_size(aliases) > 10);
    for (int i = 0; i < spp_json_size(aliases); i++) {
      const struct spp_gpu *gpu = NULL;
      const struct spp_cluster *cluster = NULL;
      const char *key = spp_json_key(aliases, i);
      bool several = spp_json_kind(spp_json_member(aliases, i)) == SPP_JSON_ARRAY;
      enum spp_status status = section ? spp_cluster_load(CONFIGS, key, NULL, &arena, &cluster, &diag)
                                       : spp_gpu_load(CONFIGS, key, &arena, &gpu, &diag);
      expect_note("%s", key);
      expect_status(status, several ? SPP_ERR_USAGE : SPP_OK, &diag);
    }
  }
  spp_json_free(doc);
  spp_arena_free(&arena);
}

static enum spp_status load_text(const char *text, bool cluster, struct spp_diag *diag) {
  char path[] = "/tmp/spp_hw_XXXXXX";
  struct spp_arena arena;
  const struct spp_gpu *gpu;
  const struct spp_cluster *c;
  int fd = mkstemp(path);
  expect_true(fd >= 0);
  close(fd);
  spp_arena_init(&arena);
  expect_status(spp_file_write_atomic(path, text, strlen(text), diag), SPP_OK, diag);
  enum spp_status status = cluster ? spp_cluster_load(CONFIGS, path, NULL, &arena, &c, diag)
                                   : spp_gpu_load(CONFIGS, path, &arena, &gpu, diag);
  spp_arena_free(&arena);
  unlink(path);
  return status;
}

#define GPU_START "{\"capacity_bytes\":80000000000,\"memory_bytes_per_s\":1e12,\"pcie_bytes_per_s\":3e10"

#define CLUSTER_START                                                                                        \
  "{\"gpus_per_node\":8,\"fabric\":\"switch\",\"nics_per_node\":8,\"nic_bytes_per_s\":5e10,"                 \
  "\"nic_latency_s\":1e-5,\"link_latency_s\":1e-6,\"host_bytes\":1000000000000,"                             \
  "\"host_memory_bytes_per_s\":1e11"

static void a_bad_file_is_refused_with_its_path(void **state) {
  (void)state;
  static const struct {
    const char *text, *where;
    bool cluster;
  } cases[] = {
      {"[]", "$", false},
      {"{}", "$.capacity_bytes", false},
      {"{\"capacity_bytes\":5}", "$.capacity_bytes", false},
      {GPU_START "}", "$.flops_per_s", false},
      {GPU_START ",\"flops_per_s\":{\"fp128\":1e14}}", "$.flops_per_s", false},
      {GPU_START ",\"compute_capability\":\"nine\",\"flops_per_s\":{\"fp32\":1e13}}", "$.compute_capability",
       false},
      {GPU_START ",\"link\":\"nvlink4\",\"flops_per_s\":{\"fp32\":1e13}}", "$.link_bytes_per_s", false},
      {"{}", "$.gpus_per_node", true},
      {"{\"gpus_per_node\":0}", "$.gpus_per_node", true},
      {"{\"gpus_per_node\":8,\"fabric\":\"ring\"}", "$.fabric", true},
      {CLUSTER_START ",\"levels\":{}}", "$.levels", true},
      {CLUSTER_START ",\"levels\":[7]}", "$.levels[0]", true},
      {CLUSTER_START ",\"levels\":[{}]}", "$.levels[0].gpus", true},
      {CLUSTER_START ",\"levels\":[{\"gpus\":12}]}", "$.levels[0].gpus", true}, /* one and a half nodes */
      {CLUSTER_START ",\"levels\":[{\"gpus\":64},{\"gpus\":64}]}", "$.levels[1].gpus", true},
      {CLUSTER_START ",\"levels\":[{\"gpus\":64,\"oversubscription\":0.5}]}", "$.levels[0].oversubscription",
       true},
      {CLUSTER_START ",\"levels\":[{\"gpus\":16},{\"gpus\":32},{\"gpus\":64},{\"gpus\":128},{\"gpus\":256}]}",
       "$.levels", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(load_text(cases[i].text, cases[i].cluster, &diag), SPP_ERR_INPUT, &diag);
    expect_has(diag.where, cases[i].where);
  }
}

static void a_file_of_the_users_own_is_read(void **state) {
  (void)state;
  struct spp_diag diag;
  expect_note("%s", "own GPU");
  expect_status(load_text(GPU_START ",\"flops_per_s\":{\"fp32\":1e13}}", false, &diag), SPP_OK, &diag);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(well_known_gpus_have_their_datasheet_figures),
      cmocka_unit_test(every_gpu_is_sane_and_has_a_machine),
      cmocka_unit_test(every_cluster_is_sane),
      cmocka_unit_test(a_cluster_may_have_pods),
      cmocka_unit_test(every_figure_names_its_source),
      cmocka_unit_test(names_of_people_resolve_and_ambiguous_ones_list_candidates),
      cmocka_unit_test(every_alias_of_a_gpu_or_cluster_leads_somewhere),
      cmocka_unit_test(a_bad_file_is_refused_with_its_path),
      cmocka_unit_test(a_file_of_the_users_own_is_read),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
