#include "model/hw.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "model/catalog.h"

static const struct spp_catalog gpus = {"gpus", "GPU", NULL};
static const struct spp_catalog clusters = {"clusters", "cluster", NULL};

static const struct {
  const char *name;
  int64_t bytes;
} dtypes[SPP_DTYPE_COUNT] = {
    [SPP_DTYPE_FP32] = {"fp32", 4},   [SPP_DTYPE_TF32] = {"tf32", 4},   [SPP_DTYPE_FP16] = {"fp16", 2},
    [SPP_DTYPE_BF16] = {"bf16", 2},   [SPP_DTYPE_FP8] = {"fp8", 1},     [SPP_DTYPE_INT8] = {"int8", 1},
    [SPP_DTYPE_NF4] = {"nf4", 0},     [SPP_DTYPE_INT64] = {"int64", 8}, [SPP_DTYPE_BOOL] = {"bool", 1},
    [SPP_DTYPE_NVFP4] = {"nvfp4", 0},
};

const char *spp_dtype_name(enum spp_dtype dtype) {
  return dtypes[dtype].name;
}
int64_t spp_dtype_bytes(enum spp_dtype dtype) {
  return dtypes[dtype].bytes;
}

/* Reading with one sticky status. Bounds are wide: they catch slips of unit and digit, not tomorrow's
 * hardware. */
struct reader {
  struct spp_json root;
  struct spp_diag *diag;
  enum spp_status status;
};
static const int64_t max_bytes = INT64_C(1) << 50;
static const double max_rate = 1e15, max_flops = 1e18;

static double rate(struct reader *r, const char *key, double max, bool required) {
  double value = 0;
  struct spp_json v = spp_json_get(r->root, key);
  if (r->status == SPP_OK)
    r->status = required ? spp_json_real(v, 0, max, &value, r->diag)
                         : spp_json_real_or(v, 0, max, 0, &value, r->diag);
  return value;
}

static int64_t whole(struct reader *r, const char *key, int64_t min, int64_t max, int64_t fallback) {
  int64_t value = fallback;
  struct spp_json v = spp_json_get(r->root, key);
  if (r->status == SPP_OK)
    r->status = fallback < 0 ? spp_json_i64(v, min, max, &value, r->diag)
                             : spp_json_i64_or(v, min, max, fallback, &value, r->diag);
  return value;
}

static void text(struct reader *r, const char *key, const char *fallback, char *out, size_t size) {
  const char *value = "";
  if (r->status == SPP_OK)
    r->status = spp_json_string_or(spp_json_get(r->root, key), fallback, &value, r->diag);
  if (r->status == SPP_OK && strlen(value) >= size)
    r->status = spp_json_refuse(spp_json_get(r->root, key), "shorten it", r->diag,
                                "text of %zu characters or more", size);
  snprintf(out, size, "%s", value);
}

/* "9.0" is 90, "12.0" is 120; absent is 0. */
static int compute_capability(struct reader *r) {
  char words[16];
  int major = 0, minor = 0;
  char end;
  text(r, "compute_capability", "", words, sizeof words);
  if (r->status != SPP_OK || !words[0]) return 0;
  if (sscanf(words, "%2d.%1d%c", &major, &minor, &end) != 2 || major < 1 || minor < 0)
    r->status = spp_json_refuse(spp_json_get(r->root, "compute_capability"), "write it like \"9.0\"", r->diag,
                                "not a compute capability");
  return major * 10 + minor;
}

static void read_flops(struct reader *r, struct spp_gpu *gpu) {
  struct spp_json table = spp_json_get(r->root, "flops_per_s");
  if (r->status == SPP_OK) r->status = spp_json_expect(table, SPP_JSON_OBJECT, r->diag);
  double most = 0;
  for (int d = 0; r->status == SPP_OK && d < SPP_DTYPE_COUNT; d++) {
    double *flops = &gpu->flops_per_s[d];
    const char *key = d == SPP_DTYPE_NVFP4 ? "fp4" : dtypes[d].name;
    r->status = spp_json_real_or(spp_json_get(table, key), 0, max_flops, 0, flops, r->diag);
    if (*flops > most) most = *flops;
  }
  if (r->status == SPP_OK && most <= 0)
    r->status = spp_json_refuse(table, "give fp32, fp16, bf16, ...", r->diag, "no rate of any known type");
}

static void read_gpu(struct reader *r, const char *entry, struct spp_gpu *gpu) {
  char link[32];
  snprintf(gpu->name, sizeof gpu->name, "%s", entry);
  text(r, "display", entry, gpu->display, sizeof gpu->display);
  text(r, "calib", "", gpu->calib, sizeof gpu->calib);
  text(r, "default_cluster", "", gpu->default_cluster, sizeof gpu->default_cluster);
  text(r, "link", "", link, sizeof link);
  gpu->capacity_bytes = whole(r, "capacity_bytes", INT64_C(1) << 28, max_bytes, -1);
  gpu->nominal_bytes = whole(r, "nominal_bytes", gpu->capacity_bytes, max_bytes, gpu->capacity_bytes);
  gpu->memory_bytes_per_s = rate(r, "memory_bytes_per_s", max_rate, true);
  gpu->pcie_bytes_per_s = rate(r, "pcie_bytes_per_s", max_rate, true);
  gpu->has_fast_link = link[0] != '\0';
  gpu->link_bytes_per_s =
      gpu->has_fast_link ? rate(r, "link_bytes_per_s", max_rate, true) : gpu->pcie_bytes_per_s;
  gpu->sms = (int)whole(r, "sms", 1, 4096, 0);
  gpu->compute_capability = compute_capability(r);
  gpu->power_w = rate(r, "tdp_w", 1e5, false);
  gpu->usd_per_hour = rate(r, "usd_per_hour", 1e4, false);
  read_flops(r, gpu);
}

static enum spp_fabric fabric(struct reader *r) {
  static const char *const words[] = {
      [SPP_FABRIC_SWITCH] = "switch", [SPP_FABRIC_PAIRS] = "pairs", [SPP_FABRIC_PCIE] = "pcie"};
  char word[16];
  text(r, "fabric", "", word, sizeof word);
  for (int i = 0; i < 3; i++)
    if (strcmp(word, words[i]) == 0) return (enum spp_fabric)i;
  if (r->status == SPP_OK)
    r->status = spp_json_refuse(spp_json_get(r->root, "fabric"), "one of switch, pairs, pcie", r->diag,
                                "not a kind of fabric");
  return SPP_FABRIC_PCIE;
}

/* [{"unit": "pod", "gpus": 3072, "oversubscription": 7, "latency_s": 0}] */
static void read_levels(struct reader *r, struct spp_cluster *c) {
  struct spp_json list = spp_json_get(r->root, "levels");
  int64_t below = spp_max64(c->gpus_per_node, c->domain_gpus);
  if (r->status != SPP_OK || spp_json_kind(list) == SPP_JSON_ABSENT) return;
  r->status = spp_json_expect(list, SPP_JSON_ARRAY, r->diag);
  if (r->status == SPP_OK && spp_json_size(list) > SPP_MAX_NETWORK_LEVELS)
    r->status = spp_json_refuse(list, "join the narrowest", r->diag, "more than %d levels",
                                (int)SPP_MAX_NETWORK_LEVELS);
  for (int i = 0; r->status == SPP_OK && i < spp_json_size(list); i++) {
    struct spp_network_level *level = &c->levels[c->level_count++];
    struct reader one = {spp_json_at(list, i), r->diag,
                         spp_json_expect(spp_json_at(list, i), SPP_JSON_OBJECT, r->diag)};
    text(&one, "unit", "unit", level->name, sizeof level->name);
    level->gpus = whole(&one, "gpus", 1, INT64_C(1) << 30, -1);
    if (one.status == SPP_OK)
      one.status = spp_json_real_or(spp_json_get(one.root, "oversubscription"), 1, 1000, 1,
                                    &level->oversubscription, r->diag);
    level->latency_s = rate(&one, "latency_s", 1, false);
    if (one.status == SPP_OK && (level->gpus <= below || level->gpus % below))
      one.status =
          spp_json_refuse(spp_json_get(one.root, "gpus"), "narrow to wide, each a multiple of the last",
                          r->diag, "not a whole number of units of %lld GPUs", (long long)below);
    below = level->gpus;
    r->status = one.status;
  }
}

static void read_cluster(struct reader *r, const char *entry, struct spp_cluster *c) {
  struct spp_json nvls = spp_json_get(r->root, "in_switch_reduction");
  struct spp_json spine = spp_json_get(r->root, "spine_oversubscription");
  struct spp_json processors = spp_json_get(r->root, "processors_per_node");
  snprintf(c->name, sizeof c->name, "%s", entry);
  text(r, "display", entry, c->display, sizeof c->display);
  c->gpus_per_node = whole(r, "gpus_per_node", 1, 1024, -1);
  c->domain_gpus = whole(r, "domain_gpus", 1, 1 << 20, c->gpus_per_node);
  c->fabric = fabric(r);
  c->link_bytes_per_s = rate(r, "link_bytes_per_s", max_rate, false);
  c->nics_per_node = whole(r, "nics_per_node", 1, 1024, -1);
  c->nic_bytes_per_s = rate(r, "nic_bytes_per_s", max_rate, true);
  c->nic_bytes_per_s_per_gpu = rate(r, "nic_bytes_per_s_per_gpu", max_rate, false);
  if (c->nic_bytes_per_s_per_gpu <= 0 && r->status == SPP_OK)
    c->nic_bytes_per_s_per_gpu = c->nic_bytes_per_s * (double)c->nics_per_node / (double)c->gpus_per_node;
  c->nic_latency_s = rate(r, "nic_latency_s", 1, true);
  c->link_latency_s = rate(r, "link_latency_s", 1, true);
  c->host_bytes = whole(r, "host_bytes", 1, max_bytes, -1);
  c->host_memory_bytes_per_s = rate(r, "host_memory_bytes_per_s", max_rate, true);
  if (r->status == SPP_OK)
    r->status = spp_json_real_or(spine, 1, 1000, 1, &c->spine_oversubscription, r->diag);
  if (r->status == SPP_OK) r->status = spp_json_bool_or(nvls, false, &c->in_switch_reduction, r->diag);
  read_levels(r, c);
  if (r->status == SPP_OK)
    r->status = spp_json_real_or(processors, 0, 1 << 16, 0, &c->processors_per_node, r->diag);
}

/* Find and open; *entry is the name, or the file when a file was named. */
static enum spp_status open_entry(const struct spp_catalog *catalog, const char *config_dir, const char *name,
                                  struct spp_arena *arena, const char **entry, struct spp_json_doc **doc,
                                  struct spp_diag *diag) {
  const char *path;
  enum spp_status status = spp_catalog_find(catalog, config_dir, name, arena, &path, entry, diag);
  if (status == SPP_OK) status = spp_json_load(path, doc, diag);
  if (status == SPP_OK) {
    status = spp_json_expect(spp_json_root(*doc), SPP_JSON_OBJECT, diag);
    if (status != SPP_OK) spp_json_free(*doc);
  }
  return status;
}

enum spp_status spp_gpu_load(const char *config_dir, const char *name, struct spp_arena *arena,
                             const struct spp_gpu **gpu, struct spp_diag *diag) {
  const char *entry;
  struct spp_json_doc *doc;
  enum spp_status status = open_entry(&gpus, config_dir, name, arena, &entry, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_gpu *loaded = spp_arena_alloc(arena, sizeof *loaded);
  struct reader r = {spp_json_root(doc), diag, loaded ? SPP_OK : spp_diag_oom(diag)};
  if (loaded) read_gpu(&r, entry, loaded);
  spp_json_free(doc);
  if (r.status == SPP_OK) *gpu = loaded;
  return r.status;
}

enum spp_status spp_cluster_load(const char *config_dir, const char *name, const struct spp_gpu *gpu,
                                 struct spp_arena *arena, const struct spp_cluster **cluster,
                                 struct spp_diag *diag) {
  const char *entry;
  struct spp_json_doc *doc;
  bool given = name && name[0];
  if (!given && !gpu->default_cluster[0])
    return spp_diag_set(diag, SPP_ERR_USAGE, gpu->name, "name one with --cluster",
                        "this GPU has no default cluster");
  enum spp_status status =
      open_entry(&clusters, config_dir, given ? name : gpu->default_cluster, arena, &entry, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_cluster *loaded = spp_arena_alloc(arena, sizeof *loaded);
  struct reader r = {spp_json_root(doc), diag, loaded ? SPP_OK : spp_diag_oom(diag)};
  if (loaded) read_cluster(&r, entry, loaded);
  if (loaded) loaded->profile = NULL;
  if (r.status == SPP_OK && spp_json_kind(spp_json_get(r.root, "calib")) == SPP_JSON_OBJECT) {
    loaded->profile = spp_arena_strdup(arena, spp_json_name(doc));
    if (!loaded->profile) r.status = spp_diag_oom(diag);
  }
  spp_json_free(doc);
  if (r.status == SPP_OK) *cluster = loaded;
  return r.status;
}

enum spp_status spp_cluster_device(const struct spp_cluster *cluster, struct spp_arena *arena,
                                   const struct spp_gpu **gpu, struct spp_diag *diag) {
  struct spp_json_doc *doc;
  *gpu = NULL;
  if (!cluster->profile) return SPP_OK;
  enum spp_status status = spp_json_load(cluster->profile, &doc, diag);
  if (status != SPP_OK) return status;
  struct spp_gpu *loaded = spp_arena_alloc(arena, sizeof *loaded);
  struct reader r = {spp_json_get(spp_json_root(doc), "device"), diag, loaded ? SPP_OK : spp_diag_oom(diag)};
  if (loaded) r.status = spp_json_expect(r.root, SPP_JSON_OBJECT, diag);
  if (r.status == SPP_OK) {
    char name[sizeof loaded->name];
    text(&r, "name", cluster->name, name, sizeof name);
    read_gpu(&r, name, loaded);
  }
  spp_json_free(doc);
  if (r.status == SPP_OK) *gpu = loaded;
  return r.status;
}

enum spp_status spp_gpu_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                             int *count, struct spp_diag *diag) {
  return spp_catalog_list(&gpus, config_dir, arena, names, count, diag);
}

enum spp_status spp_cluster_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                                 int *count, struct spp_diag *diag) {
  return spp_catalog_list(&clusters, config_dir, arena, names, count, diag);
}
