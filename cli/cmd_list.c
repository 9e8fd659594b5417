/* list WHAT: one table of row makers, one per kind of thing. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/version.h"
#include "cli/answer.h"
#include "cli/setup.h"
#include "exec/backend.h"
#include "interop/format.h"
#include "kernels/device.h"
#include "kernels/table.h"

enum { MAX_NAMES = 4096 };

static struct spp_echo text_cell(const char *text) {
  return (struct spp_echo){.kind = text && *text ? SPP_ECHO_TEXT : SPP_ECHO_NULL, .text = text};
}
static struct spp_echo i64_cell(int64_t value) {
  return (struct spp_echo){.kind = value > 0 ? SPP_ECHO_I64 : SPP_ECHO_NULL, .i64 = value};
}
static struct spp_echo count_cell(int64_t value) {
  return (struct spp_echo){.kind = SPP_ECHO_I64, .i64 = value};
}
static struct spp_echo real_cell(double value) {
  return (struct spp_echo){.kind = value > 0 ? SPP_ECHO_REAL : SPP_ECHO_NULL, .real = value};
}
static struct spp_echo bool_cell(bool value) {
  return (struct spp_echo){.kind = SPP_ECHO_BOOL, .i64 = value};
}

static enum spp_status model_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                 struct spp_diag *diag) {
  const struct spp_arch *arch;
  struct spp_params params;
  enum spp_status status = spp_arch_load(cli->config_dir, name, &cli->arena, &arch, diag);
  if (status != SPP_OK) return status;
  spp_params_count(arch, &params);
  cells[0] = text_cell(name);
  cells[1] = text_cell(arch->display);
  cells[2] = text_cell(arch->hf_id);
  cells[3] = i64_cell(params.total);
  cells[4] = i64_cell(params.active);
  cells[5] = i64_cell(arch->layers);
  cells[6] = i64_cell(arch->hidden);
  cells[7] = i64_cell(arch->heads);
  cells[8] = i64_cell(arch->kv_heads);
  cells[9] = count_cell(arch->experts);
  cells[10] = i64_cell(arch->max_positions);
  return SPP_OK;
}

static enum spp_status gpu_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                               struct spp_diag *diag) {
  const struct spp_gpu *gpu;
  enum spp_status status = spp_gpu_load(cli->config_dir, name, &cli->arena, &gpu, diag);
  if (status != SPP_OK) return status;
  cells[0] = text_cell(name);
  cells[1] = text_cell(gpu->display);
  cells[2] = i64_cell(gpu->capacity_bytes);
  cells[3] = real_cell(gpu->memory_bytes_per_s);
  cells[4] = real_cell(gpu->flops_per_s[SPP_DTYPE_BF16]);
  cells[5] = real_cell(gpu->link_bytes_per_s);
  cells[6] = real_cell(gpu->usd_per_hour);
  cells[7] = text_cell(gpu->default_cluster);
  return SPP_OK;
}

static enum spp_status cluster_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                   struct spp_diag *diag) {
  const struct spp_cluster *cluster;
  enum spp_status status = spp_cluster_load(cli->config_dir, name, NULL, &cli->arena, &cluster, diag);
  if (status != SPP_OK) return status;
  cells[0] = text_cell(name);
  cells[1] = text_cell(cluster->display);
  cells[2] = i64_cell(cluster->gpus_per_node);
  cells[3] = i64_cell(cluster->domain_gpus);
  cells[4] = count_cell(cluster->nics_per_node);
  cells[5] = real_cell(cluster->nic_bytes_per_s);
  cells[6] = i64_cell(cluster->host_bytes);
  return SPP_OK;
}

static enum spp_status framework_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                     struct spp_diag *diag) {
  const struct spp_framework *framework;
  enum spp_status status = spp_framework_load(cli->config_dir, name, &cli->arena, &framework, diag);
  struct spp_str kinds;
  if (status != SPP_OK) return status;
  spp_str_init(&kinds);
  for (int kind = 1; kind < SPP_SP_KIND_COUNT; kind++)
    if (framework->sp_kinds[kind])
      spp_str_addf(&kinds, "%s%s", kinds.len ? " " : "", spp_sp_kind_name((enum spp_sp_kind)kind));
  cells[0] = text_cell(name);
  cells[1] = text_cell(framework->display);
  cells[2] = text_cell(spp_arena_strdup(&cli->arena, spp_str_text(&kinds)));
  cells[3] = bool_cell(framework->tp);
  cells[4] = bool_cell(framework->pp);
  cells[5] = bool_cell(framework->ep);
  cells[6] = bool_cell(framework->trains);
  cells[7] = text_cell(framework->version);
  spp_str_free(&kinds);
  return SPP_OK;
}

static const char *const kind_summaries[SPP_SP_KIND_COUNT] = {
    [SPP_SP_NONE] = "each GPU holds whole sequences",
    [SPP_SP_ULYSSES] = "all-to-all turns sequence shards into head shards; limited by the KV heads",
    [SPP_SP_RING] = "KV blocks go round point to point, hidden behind attention; any degree",
    [SPP_SP_ALLGATHER] = "keys and values are gathered over the group",
    [SPP_SP_HYBRID] = "Ulysses inside, ring outside",
};
static enum spp_status strategy_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                    struct spp_diag *diag) {
  (void)cli, (void)diag;
  cells[0] = text_cell(name);
  for (int kind = 0; kind < SPP_SP_KIND_COUNT; kind++)
    if (strcmp(name, spp_sp_kind_name((enum spp_sp_kind)kind)) == 0)
      cells[1] = text_cell(kind_summaries[kind]);
  return SPP_OK;
}

static enum spp_status exporter_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                    struct spp_diag *diag) {
  const struct spp_format *format = spp_format_find(name);
  (void)cli, (void)diag;
  cells[0] = text_cell(name);
  cells[1] = text_cell(format->display);
  cells[2] = text_cell(format->framework);
  cells[3] = text_cell(format->file_name ? format->file_name : "the command alone");
  cells[4] = text_cell(format->source);
  return SPP_OK;
}

static enum spp_status feature_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                   struct spp_diag *diag) {
  int count;
  const struct spp_feature *features = spp_features(&count);
  (void)cli, (void)diag;
  for (int i = 0; i < count; i++) {
    if (strcmp(features[i].name, name) != 0) continue;
    cells[0] = text_cell(name);
    cells[1] = bool_cell(features[i].built);
    cells[2] = text_cell(features[i].gives);
  }
  return SPP_OK;
}

static void kernel_cells(struct spp_echo *cells, const char *name, const char *absent, bool usable,
                         const char *description, const char *why_not) {
  cells[0] = text_cell(name);
  cells[1] = bool_cell(!absent);
  cells[2] = bool_cell(usable);
  cells[3] = text_cell(description);
  cells[4] = text_cell(absent ? absent : usable ? NULL : why_not);
}

/* Rows of the processor, then of devices. */
static enum spp_status kernel_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                  struct spp_diag *diag) {
  int count, devices;
  const struct spp_kernels *const *all = spp_kernels_all(&count);
  const struct spp_device *const *device = spp_devices_all(&devices);
  (void)diag;
  for (int i = 0; i < count; i++)
    if (strcmp(all[i]->name, name) == 0)
      kernel_cells(cells, name, all[i]->absent, spp_kernels_usable(all[i]), all[i]->description,
                   "this processor lacks the instructions");
  for (int i = 0; i < devices; i++) {
    struct spp_diag why = {0};
    if (strcmp(device[i]->name, name) != 0) continue;
    bool usable = spp_device_usable(device[i], &why);
    kernel_cells(cells, name, device[i]->absent, usable, device[i]->description,
                 spp_arena_strdup(&cli->arena, why.what));
  }
  return SPP_OK;
}

/* "Open MPI v4.1.4", "MPICH Version: 4.0.2": its first words, in the caller's arena. */
static const char *library_of(const struct spp_backend *backend, struct spp_arena *arena) {
  char words[256];
  size_t n = 0;
  if (!backend->library) return NULL;
  backend->library(words, sizeof words);
  words[strcspn(words, ",\n")] = '\0';
  for (size_t i = 0; words[i]; i++)
    if (!isspace((unsigned char)words[i]))
      words[n++] = words[i];
    else if (n > 0 && words[n - 1] != ' ')
      words[n++] = ' ';
  words[n] = '\0';
  return spp_arena_strdup(arena, words);
}

static enum spp_status backend_row(struct spp_cli *cli, const char *name, struct spp_echo *cells,
                                   struct spp_diag *diag) {
  int count;
  const struct spp_backend *const *all = spp_backends_all(&count);
  (void)diag;
  for (int i = 0; i < count; i++) {
    if (strcmp(all[i]->name, name) != 0) continue;
    cells[0] = text_cell(name);
    cells[1] = bool_cell(!all[i]->absent);
    cells[2] = text_cell(all[i]->description);
    cells[3] = text_cell(library_of(all[i], &cli->arena));
    cells[4] = text_cell(all[i]->absent);
  }
  return SPP_OK;
}

/* Names of a table in the program, by a function that gives the i-th. */
static enum spp_status names_of(const char *(*name)(int i), int count, struct spp_arena *arena,
                                const char *const **names, int *total, struct spp_diag *diag) {
  const char **words = spp_arena_array(arena, (size_t)count + 1, sizeof *words);
  if (!words) return spp_diag_oom(diag);
  for (int i = 0; i < count; i++)
    words[i] = name(i);
  *names = words;
  *total = count;
  return SPP_OK;
}

/* Rows of the processor, then of devices. */
static const char *kernel_name(int i) {
  int rows, devices;
  const struct spp_kernels *const *all = spp_kernels_all(&rows);
  return i < rows ? all[i]->name : spp_devices_all(&devices)[i - rows]->name;
}
static enum spp_status kernel_names(const char *config_dir, struct spp_arena *arena,
                                    const char *const **names, int *count, struct spp_diag *diag) {
  int rows, devices;
  (void)config_dir;
  spp_kernels_all(&rows);
  spp_devices_all(&devices);
  return names_of(kernel_name, rows + devices, arena, names, count, diag);
}

static const char *backend_name(int i) {
  int count;
  return spp_backends_all(&count)[i]->name;
}
static enum spp_status backend_names(const char *config_dir, struct spp_arena *arena,
                                     const char *const **names, int *count, struct spp_diag *diag) {
  (void)config_dir;
  spp_backends_all(count);
  return names_of(backend_name, *count, arena, names, count, diag);
}

static const char *strategy_name(int i) {
  return spp_sp_kind_name((enum spp_sp_kind)i);
}
static enum spp_status strategy_names(const char *config_dir, struct spp_arena *arena,
                                      const char *const **names, int *count, struct spp_diag *diag) {
  (void)config_dir;
  return names_of(strategy_name, SPP_SP_KIND_COUNT, arena, names, count, diag);
}

static enum spp_status exporter_names(const char *config_dir, struct spp_arena *arena,
                                      const char *const **names, int *count, struct spp_diag *diag) {
  (void)config_dir;
  return names_of(spp_format_name, spp_format_count, arena, names, count, diag);
}

static const char *feature_name(int i) {
  int count;
  return spp_features(&count)[i].name;
}
static enum spp_status feature_names(const char *config_dir, struct spp_arena *arena,
                                     const char *const **names, int *count, struct spp_diag *diag) {
  (void)config_dir;
  spp_features(count);
  return names_of(feature_name, *count, arena, names, count, diag);
}

static const struct listing {
  const char *what;
  enum spp_status (*names)(const char *, struct spp_arena *, const char *const **, int *, struct spp_diag *);
  enum spp_status (*row)(struct spp_cli *, const char *, struct spp_echo *, struct spp_diag *);
  struct spp_list_column columns[SPP_LIST_MAX_COLUMNS];
} listings[] = {
    {"models",
     spp_arch_list,
     model_row,
     {{"name", "name"},
      {"display", NULL},
      {"hf_id", NULL},
      {"params_total", "parameters"},
      {"params_active", "active"},
      {"layers", "layers"},
      {"hidden", "hidden"},
      {"heads", "heads"},
      {"kv_heads", "KV heads"},
      {"experts", "experts"},
      {"max_positions", "positions"}}},
    {"gpus",
     spp_gpu_list,
     gpu_row,
     {{"name", "name"},
      {"display", "card"},
      {"capacity_bytes", "memory"},
      {"memory_bytes_per_s", "bandwidth"},
      {"bf16_flops_per_s", "bf16"},
      {"link_bytes_per_s", "link"},
      {"usd_per_hour", "USD/h"},
      {"default_cluster", "node"}}},
    {"clusters",
     spp_cluster_list,
     cluster_row,
     {{"name", "name"},
      {"display", "machine"},
      {"gpus_per_node", "GPUs"},
      {"domain_gpus", "domain"},
      {"nics_per_node", "NICs"},
      {"nic_bytes_per_s", "a NIC"},
      {"host_bytes", "host RAM"}}},
    {"frameworks",
     spp_framework_list,
     framework_row,
     {{"name", "name"},
      {"display", NULL},
      {"sp_kinds", "sequence parallel"},
      {"tp", "TP"},
      {"pp", "PP"},
      {"ep", "EP"},
      {"trains", "trains"},
      {"version", "version read"}}},
    {"strategies", strategy_names, strategy_row, {{"name", "name"}, {"summary", "what it does"}}},
    {"exporters",
     exporter_names,
     exporter_row,
     {{"name", "name"},
      {"display", "framework"},
      {"framework", "predicted as"},
      {"configuration", "configuration"},
      {"source", "names and defaults read in"}}},
    {"kernels",
     kernel_names,
     kernel_row,
     {{"name", "name"},
      {"built", "built"},
      {"usable", "usable"},
      {"summary", "what it is"},
      {"why_not", "why not"}}},
    {"backends",
     backend_names,
     backend_row,
     {{"name", "name"},
      {"built", "built"},
      {"summary", "what it is"},
      {"library", "library"},
      {"why_not", "why not"}}},
    {"features", feature_names, feature_row, {{"name", "name"}, {"built", "built"}, {"gives", "gives"}}},
};
enum { LISTINGS = sizeof(listings) / sizeof(listings[0]) };

struct listed {
  struct spp_list list;
  struct spp_text_style style;
};
static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct listed *listed = what;
  (void)cli;
  spp_text_list(&listed->list, &listed->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  spp_json_list(&((const struct listed *)what)->list, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  spp_csv_list(&((const struct listed *)what)->list, out);
}

const char *spp_list_word(int i) {
  return i < LISTINGS ? listings[i].what : NULL;
}

static const struct listing *choose(const char *what, struct spp_diag *diag) {
  const char *names[LISTINGS], *near;
  char hint[160];
  for (int i = 0; i < LISTINGS; i++) {
    names[i] = listings[i].what;
    if (what && strcmp(names[i], what) == 0) return &listings[i];
  }
  near = what ? spp_suggest(what, names, LISTINGS) : NULL;
  snprintf(
      hint, sizeof hint,
      near
          ? "did you mean '%s'?"
          : "one of models, gpus, clusters, frameworks, strategies, exporters, kernels, backends, features%s",
      near ? near : "");
  spp_diag_set(diag, SPP_ERR_USAGE, "list", hint,
               what ? "nothing called '%.60s' to list" : "list needs to know what%s", what ? what : "");
  return NULL;
}

enum spp_status spp_run_list(struct spp_cli *cli, struct spp_diag *diag) {
  const struct listing *listing = choose(cli->positional, diag);
  struct listed listed = {.style = spp_setup_style(cli)};
  const char *const *names;
  enum spp_status status;
  int columns = 0;
  if (!listing) return SPP_ERR_USAGE;
  if ((status = listing->names(cli->config_dir, &cli->arena, &names, &listed.list.count, diag)) != SPP_OK)
    return status;
  while (columns < SPP_LIST_MAX_COLUMNS && listing->columns[columns].key)
    columns++;
  listed.list.what = listing->what;
  listed.list.column_count = columns;
  memcpy(listed.list.columns, listing->columns, sizeof listed.list.columns);
  listed.list.cells = spp_arena_array(&cli->arena, (size_t)listed.list.count * (size_t)columns + 1,
                                      sizeof *listed.list.cells);
  if (!listed.list.cells) return spp_diag_oom(diag);
  for (int i = 0; i < listed.list.count; i++)
    if ((status = listing->row(cli, names[i], &listed.list.cells[i * columns], diag)) != SPP_OK)
      return status;
  return spp_answer_give(cli, &(struct spp_answer){&listed, as_text, as_json, as_csv, NULL}, diag);
}
