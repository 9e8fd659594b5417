#include "model/calib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { PATH_BYTES = 4096 };

/* A file may borrow the sections it lacks from another ("borrows": "a40"): GPUs of one generation. */
struct device_files {
  struct spp_json_doc *own_doc, *lender_doc;
  struct spp_json own, lender;
};

static const char *const collective_keys[SPP_COLLECTIVE_COUNT] = {
    [SPP_ALL_TO_ALL] = "all_to_all",         [SPP_SEND_RECV] = "send_recv",   [SPP_ALL_GATHER] = "all_gather",
    [SPP_REDUCE_SCATTER] = "reduce_scatter", [SPP_ALL_REDUCE] = "all_reduce",
};
static const char *const memory_keys[SPP_MEMORY_KERNEL_COUNT] = {
    [SPP_MEMORY_STREAM] = "stream",         [SPP_MEMORY_NORM] = "norm",
    [SPP_MEMORY_ACTIVATION] = "activation", [SPP_MEMORY_EAGER] = "eager",
    [SPP_MEMORY_PERMUTE] = "permute",       [SPP_MEMORY_ROW_LOSS] = "row_loss",
    [SPP_MEMORY_OPTIMIZER] = "optimizer",   [SPP_MEMORY_ROPE] = "rope",
    [SPP_MEMORY_MERGE] = "merge",
};

const char *spp_memory_kernel_name(enum spp_memory_kernel kind) {
  return memory_keys[kind];
}

/* Kinds a file may leave out, and what they then are. */
static const struct {
  enum spp_memory_kernel kind, general;
} special_kinds[] = {{SPP_MEMORY_OPTIMIZER, SPP_MEMORY_STREAM},
                     {SPP_MEMORY_ROPE, SPP_MEMORY_ACTIVATION},
                     {SPP_MEMORY_MERGE, SPP_MEMORY_EAGER}};
static const char *const attention_keys[SPP_ATTN_IMPL_COUNT] = {
    [SPP_ATTN_EAGER] = "eager", [SPP_ATTN_SDPA] = "sdpa", [SPP_ATTN_FA2] = "fa2",
    [SPP_ATTN_FA3] = "fa3",     [SPP_ATTN_TE] = "te",     [SPP_ATTN_FA1] = "fa1",
};
/* Whose shares a GPU without a file of its own borrows: the newest generation not newer than itself. */
static const struct {
  int compute_capability;
  const char *calib;
} siblings[] = {{100, "b200"}, {90, "h100"}, {89, "l40s"}, {86, "a40"}, {0, "a100"}};

static const char *sibling(const struct spp_gpu *gpu) {
  size_t i = 0;
  while (gpu->compute_capability < siblings[i].compute_capability)
    i++;
  return siblings[i].calib;
}

/* A number in [min, max] under `key`; microseconds and the like are scaled. Stops at the first fault: *status
 * keeps it. */
static double number(struct spp_json object, const char *key, double min, double max, double scale,
                     enum spp_status *status, struct spp_diag *diag) {
  double value = 0;
  if (*status == SPP_OK) *status = spp_json_real(spp_json_get(object, key), min, max, &value, diag);
  return value * scale;
}

static double number_or(struct spp_json object, const char *key, double min, double max, double fallback,
                        enum spp_status *status, struct spp_diag *diag) {
  double value = fallback;
  if (*status == SPP_OK)
    *status = spp_json_real_or(spp_json_get(object, key), min, max, fallback, &value, diag);
  return value;
}

static void read_gemm(struct spp_json v, struct spp_gemm_fit *fit, enum spp_status *status,
                      struct spp_diag *diag) {
  fit->t0_s = number(v, "t0_us", 0, 1e4, 1e-6, status, diag);
  fit->efficiency = number(v, "efficiency", 1e-3, 1.2, 1, status, diag);
  fit->memory_efficiency = number(v, "memory_efficiency", 1e-3, 2, 1, status, diag);
  fit->m_half = number(v, "m_half", 0, 1e5, 1, status, diag);
  fit->n_half = number(v, "n_half", 0, 1e5, 1, status, diag);
  fit->k_half = number(v, "k_half", 0, 1e5, 1, status, diag);
}

static void read_pass(struct spp_json v, struct spp_attention_pass *fit, enum spp_status *status,
                      struct spp_diag *diag) {
  fit->t0_s = number(v, "t0_us", 0, 1e4, 1e-6, status, diag);
  fit->efficiency = number(v, "efficiency", 1e-4, 1.2, 1, status, diag);
  fit->tile_s = number(v, "tile_us", 0, 1e4, 1e-6, status, diag);
  fit->memory_efficiency = number(v, "memory_efficiency", 1e-3, 4, 1, status, diag);
}

/* "fa2": {"64": {...}, "128": {...}}, or "sdpa": {"same_as": "fa2"}, slower by "rate" where given. */
static void read_attention(struct spp_json kernels, int impl, struct spp_attention_fit fit[2],
                           enum spp_status *status, struct spp_diag *diag) {
  static const char *const widths[2] = {"64", "128"};
  struct spp_json v = spp_json_get(kernels, attention_keys[impl]);
  const char *same = NULL;
  if (*status != SPP_OK) return;
  *status = spp_json_string_or(spp_json_get(v, "same_as"), NULL, &same, diag);
  if (*status != SPP_OK) return;
  double share = 1;
  *status = spp_json_real_or(spp_json_get(v, "rate"), 0.01, 2, 1, &share, diag);
  if (same) v = spp_json_get(kernels, same);
  for (int i = 0; i < 2; i++) {
    struct spp_json width = spp_json_get(v, widths[i]);
    read_pass(spp_json_get(width, "forward"), &fit[i].forward, status, diag);
    read_pass(spp_json_get(width, "backward"), &fit[i].backward, status, diag);
    fit[i].forward.efficiency *= share;
    fit[i].backward.efficiency *= share;
  }
}

static void read_collective(struct spp_json v, struct spp_collective_fit *fit, enum spp_status *status,
                            struct spp_diag *diag) {
  fit->a0_s = number(v, "a0_us", 0, 1e5, 1e-6, status, diag);
  fit->a1_s = number(v, "a1_us", 0, 1e5, 1e-6, status, diag);
  fit->link_share = number(v, "link_share", 0, 1.5, 1, status, diag);
  fit->half_bytes = number(v, "half_mb", 0, 1e4, 1e6, status, diag);
}

static void read_collectives(struct spp_json v, struct spp_collective_fit fits[SPP_COLLECTIVE_COUNT],
                             enum spp_status *status, struct spp_diag *diag) {
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    read_collective(spp_json_get(v, collective_keys[op]), &fits[op], status, diag);
}

static void read_fabric(struct spp_json root, struct spp_calib *calib, enum spp_status *status,
                        struct spp_diag *diag) {
  read_collectives(spp_json_get(root, "pcie"), calib->pcie, status, diag);
  read_collectives(spp_json_get(root, "network"), calib->network, status, diag);
  calib->pcie_share = number(spp_json_get(root, "host_copy"), "pcie_share", 0.05, 1, 1, status, diag);
  calib->host_memory_share =
      number(spp_json_get(root, "host_copy"), "host_memory_share", 0.05, 1, 1, status, diag);
}

static void read_spread(struct spp_json root, struct spp_spread *spread, enum spp_status *status,
                        struct spp_diag *diag) {
  struct spp_json v = spp_json_get(root, "spread");
  if (*status == SPP_OK)
    *status = spp_json_i64(spp_json_get(v, "least_runs"), 1, 1000, &spread->least_runs, diag);
  spread->memory = number(v, "memory", 0, 10, 1, status, diag);
  spread->memory_open = number(v, "memory_open", 0, 10, 1, status, diag);
  spread->time_open = number(v, "time_open", 0, 10, 1, status, diag);
  spread->waits = number(v, "waits", 0, 10, 1, status, diag);
}

static bool lists(struct spp_json names, const char *wanted) {
  for (struct spp_json v = spp_json_first(names); v.node; v = spp_json_next(v)) {
    const char *name = NULL;
    if (spp_json_string(v, &name, NULL) == SPP_OK && strcmp(name, wanted) == 0) return true;
  }
  return false;
}

/* Section `key` of a file, or of the file it borrows from. */
static struct spp_json section(const struct device_files *files, const char *key) {
  struct spp_json own = spp_json_get(files->own, key);
  return own.node || !files->lender.node ? own : spp_json_get(files->lender, key);
}

/* Dynamic power goes with f V^2 and V with f, so the clock goes with its cube root. fixed_share of the
 * measured card's limit feeds memory, links and leakage whatever the clock. */
static double clock_share(double limit_w, double measured_limit_w, double fixed_share) {
  double fixed_w = measured_limit_w * fixed_share, dynamic_w = limit_w - fixed_w;
  return cbrt((dynamic_w > fixed_w ? dynamic_w : fixed_w) / (measured_limit_w - fixed_w));
}

static double at_most(double x, double limit) {
  return x < limit ? x : limit;
}

/* GeForce cards run products that accumulate in fp32 at half the rate per multiprocessor and clock of the
 * same chip sold for servers, so a kernel that keeps a share of the full rate busy there keeps twice that
 * share of the halved one, up to what tensor-bound kernels reach. Unfused attention, bound by memory, never
 * comes near that limit. */
static void slow_tensor_cores(struct spp_calib *calib, double rate, double limit) {
  calib->gemm.efficiency = at_most(calib->gemm.efficiency * calib->sustained / rate, limit);
  calib->gemm_fp8.efficiency = at_most(calib->gemm_fp8.efficiency * calib->sustained / rate, limit);
  calib->sustained = 1;
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    for (int width = 0; width < 2; width++) {
      struct spp_attention_fit *fit = &calib->attention[i][width];
      fit->forward.efficiency = at_most(fit->forward.efficiency / rate, limit);
      fit->backward.efficiency = at_most(fit->backward.efficiency / rate, limit);
    }
}

static void read_memory(struct spp_json memory, struct spp_calib *calib, enum spp_status *status,
                        struct spp_diag *diag) {
  for (int i = 0; i < SPP_MEMORY_OPTIMIZER; i++)
    calib->memory_share[i] = number(memory, memory_keys[i], 0.01, 1.2, 1, status, diag);
  for (size_t i = 0; i < sizeof special_kinds / sizeof special_kinds[0]; i++)
    calib->memory_share[special_kinds[i].kind] =
        number_or(memory, memory_keys[special_kinds[i].kind], 0.01, 1.2,
                  calib->memory_share[special_kinds[i].general], status, diag);
}

/* Attention of a card that borrows its forms, at `attention_rate` of the lender's shares. */
static void rescale_attention(struct spp_json own, struct spp_calib *calib, enum spp_status *status,
                              struct spp_diag *diag) {
  double rate = number_or(own, "attention_rate", 0.1, 3, 1, status, diag);
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    for (int width = 0; width < 2; width++) {
      calib->attention[i][width].forward.efficiency *= rate;
      calib->attention[i][width].backward.efficiency *= rate;
    }
}

/* 8-bit products: a fit of their own, or `fp8` of the share that 16-bit ones reach. */
static void read_fp8(const struct device_files *files, struct spp_json ratios, struct spp_calib *calib,
                     enum spp_status *status, struct spp_diag *diag) {
  struct spp_json share = spp_json_get(ratios, "fp8");
  calib->gemm_fp8 = calib->gemm;
  if (share.node)
    calib->gemm_fp8.efficiency *= number(ratios, "fp8", 0.1, 1.2, 1, status, diag);
  else
    read_gemm(section(files, "gemm_fp8"), &calib->gemm_fp8, status, diag);
}

static void read_device(const struct device_files *files, struct spp_json fabric, const struct spp_gpu *gpu,
                        struct spp_calib *calib, enum spp_status *status, struct spp_diag *diag) {
  struct spp_json ratios = section(files, "ratios"), memory = section(files, "memory");
  struct spp_json attention = section(files, "attention"), nvls = section(files, "reduce_in_switch");
  calib->measured = lists(spp_json_get(files->own, "measured_on"), gpu->name);
  if (*status == SPP_OK)
    *status = spp_json_real(section(files, calib->measured ? "sigma" : "sigma_borrowed"), 0.01, 1,
                            &calib->sigma, diag);
  double power_w = 0; /* limit of the card measured */
  if (*status == SPP_OK)
    *status = spp_json_real_or(spp_json_get(files->own, "power_w"), 0, 1e5, 0, &power_w, diag);
  double fixed_share =
      power_w > 0 ? number(spp_json_get(fabric, "card"), "fixed_power_share", 0, 0.9, 1, status, diag) : 0;
  calib->clock_share = power_w > 0 && gpu->power_w > 0 ? clock_share(gpu->power_w, power_w, fixed_share) : 1;
  read_gemm(section(files, "gemm"), &calib->gemm, status, diag);
  calib->sustained = number(ratios, "sustained", 0.1, 1.5, 1, status, diag);
  calib->wgrad_ratio = number(ratios, "wgrad", 0.5, 3, 1, status, diag);
  calib->dgrad_ratio = number(ratios, "dgrad", 0.5, 3, 1, status, diag);
  calib->grouped_gemm_ratio = number(ratios, "grouped", 0.05, 1.2, 1, status, diag);
  calib->grouped_wgrad_ratio = number_or(ratios, "grouped_wgrad", 0.5, 5, 1, status, diag);
  calib->grouped_dgrad_ratio = number_or(ratios, "grouped_dgrad", 0.5, 5, 1, status, diag);
  read_fp8(files, ratios, calib, status, diag);
  calib->fp4_ratio = number_or(ratios, "fp4", 0.1, 1.2, 1, status, diag);
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    read_attention(attention, i, calib->attention[i], status, diag);
  rescale_attention(files->own, calib, status, diag);
  struct spp_json tensor = spp_json_get(files->own, "tensor_cores");
  if (spp_json_kind(tensor) == SPP_JSON_OBJECT) {
    double rate = number(tensor, "rate", 0.1, 1, 1, status, diag),
           limit = number(tensor, "limit", 0.1, 1, 1, status, diag);
    if (*status == SPP_OK) slow_tensor_cores(calib, rate, limit);
  }
  read_memory(memory, calib, status, diag);
  calib->launch_s = number(memory, "launch_us", 0, 1e3, 1e-6, status, diag);
  read_collectives(section(files, "link"), calib->link, status, diag);
  memset(&calib->reduce_in_switch, 0, sizeof calib->reduce_in_switch);
  if (spp_json_kind(nvls) == SPP_JSON_OBJECT) read_collective(nvls, &calib->reduce_in_switch, status, diag);
}

static enum spp_status load(const char *config_dir, const char *name, struct spp_json_doc **doc,
                            struct spp_diag *diag) {
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/calib/%s.json", config_dir, name);
  if (length < 0 || (size_t)length >= sizeof path)
    return spp_diag_set(diag, SPP_ERR_INPUT, config_dir, "use a shorter configuration folder",
                        "path is too long");
  return spp_json_load(path, doc, diag);
}

/* Opens the GPU's own file and, when it borrows, the lender's (which borrows from nobody). */
static enum spp_status open_files(const char *config_dir, const char *name, struct device_files *files,
                                  struct spp_diag *diag) {
  const char *lender = NULL;
  enum spp_status status = load(config_dir, name, &files->own_doc, diag);
  if (status != SPP_OK) return status;
  files->own = spp_json_root(files->own_doc);
  status = spp_json_string_or(spp_json_get(files->own, "borrows"), NULL, &lender, diag);
  if (status != SPP_OK || !lender) return status;
  status = load(config_dir, lender, &files->lender_doc, diag);
  if (status == SPP_OK) files->lender = spp_json_root(files->lender_doc);
  return status;
}

/* The constants beside a measured cluster: sections of a device's file and of the fabric's in one object. */
static enum spp_status load_profile(const struct spp_cluster *cluster, const struct spp_gpu *gpu,
                                    struct spp_calib *calib, struct spp_diag *diag) {
  struct device_files files = {0};
  enum spp_status status = spp_json_load(cluster->profile, &files.own_doc, diag);
  if (status != SPP_OK) return status;
  files.own = spp_json_get(spp_json_root(files.own_doc), "calib");
  snprintf(calib->name, sizeof calib->name, "%s", cluster->name);
  read_fabric(files.own, calib, &status, diag);
  read_device(&files, files.own, gpu, calib, &status, diag);
  spp_json_free(files.own_doc);
  return status;
}

enum spp_status spp_calib_load(const char *config_dir, const struct spp_gpu *gpu,
                               const struct spp_cluster *cluster, struct spp_arena *arena,
                               const struct spp_calib **calib, struct spp_diag *diag) {
  const char *name = gpu->calib[0] ? gpu->calib : sibling(gpu);
  struct device_files files = {0};
  struct spp_json_doc *fabric = NULL;
  struct spp_calib *made = spp_arena_alloc(arena, sizeof *made);
  enum spp_status status;
  if (!made) return spp_diag_oom(diag);
  status = load(config_dir, "fabric", &fabric, diag);
  if (status == SPP_OK) read_spread(spp_json_root(fabric), &made->spread, &status, diag);
  if (cluster && cluster->profile) {
    if (status == SPP_OK) status = load_profile(cluster, gpu, made, diag);
    made->spread.waits = 0; /* host and links of a profile are measured, their error is in its sigma */
    spp_json_free(fabric);
    if (status == SPP_OK) *calib = made;
    return status;
  }
  if (status == SPP_OK) status = open_files(config_dir, name, &files, diag);
  if (status == SPP_OK) {
    snprintf(made->name, sizeof made->name, "%s", name);
    read_fabric(spp_json_root(fabric), made, &status, diag);
    read_device(&files, spp_json_root(fabric), gpu, made, &status, diag);
  }
  spp_json_free(fabric);
  spp_json_free(files.lender_doc);
  spp_json_free(files.own_doc);
  if (status == SPP_OK) *calib = made;
  return status;
}
