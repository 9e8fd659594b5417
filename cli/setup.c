#include "cli/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/suggest.h"
#include "cli/machine.h"
#include "interop/import.h"
#include "model/calib.h"
#include "model/vision.h"

enum { MAX_DOCUMENTS = 4000000 };
#define DOCUMENT_FILE_BYTES (INT64_C(64) << 20)
static const char default_gpu[] = "h100-80gb", default_framework[] = "ms-swift", default_server[] = "vllm",
                  driver_folder[] = "/proc/driver/nvidia/gpus";

static enum spp_status missing(const char *option, const char *example, struct spp_diag *diag) {
  char what[64];
  snprintf(what, sizeof what, "--%s is missing", option);
  return spp_diag_set(diag, SPP_ERR_USAGE, "command line", example, "%s", what);
}

static enum spp_status check_needs(const struct spp_args *args, unsigned needs, struct spp_diag *diag) {
  if ((needs & SPP_NEED_MODEL) && !args->model)
    return missing("model", "give one, such as --model qwen7b ('spplan list models' names them)", diag);
  if ((needs & SPP_NEED_SEQ) && args->spec.seq_tokens <= 0)
    return missing("seq", "give a length, such as --seq 32k", diag);
  if ((needs & SPP_NEED_GPUS) && args->spec.gpus <= 0)
    return missing("gpus", "give a number, such as --gpus 8", diag);
  return SPP_OK;
}

/* A name that was not found says where it was given. */
static enum spp_status placed(enum spp_status status, const char *option, struct spp_diag *diag) {
  if (status == SPP_ERR_USAGE && diag && !diag->where[0])
    snprintf(diag->where, sizeof diag->where, "--%s", option);
  return status;
}

/* ---- hardware ---- */

static enum spp_status choose_gpu(struct spp_cli *cli, const char **name, struct spp_setup *setup,
                                  struct spp_diag *diag) {
  char model[128];
  const char *const *names;
  const char *match;
  enum spp_status status;
  int count;
  *name = default_gpu;
  setup->gpu_note = "no GPU found here";
  if (!spp_machine_gpu(driver_folder, model, sizeof model)) return SPP_OK;
  if ((status = spp_gpu_list(cli->config_dir, &cli->arena, &names, &count, diag)) != SPP_OK) return status;
  match = spp_machine_match(model, names, count);
  setup->gpu_note =
      spp_arena_printf(&cli->arena, match ? "found here: %s" : "the GPU here is unknown: %s", model);
  if (match) *name = match;
  return setup->gpu_note ? SPP_OK : spp_diag_oom(diag);
}

/* --gpus-per-node: the same machine with fewer or more GPUs; what one GPU gets of the network stays. */
static enum spp_status resize_node(struct spp_cli *cli, struct spp_args *args, struct spp_diag *diag) {
  struct spp_cluster *cluster;
  bool domain_is_node = args->spec.cluster->domain_gpus <= args->spec.cluster->gpus_per_node;
  if (args->gpus_per_node <= 0 || args->gpus_per_node == args->spec.cluster->gpus_per_node) return SPP_OK;
  cluster = spp_arena_alloc(&cli->arena, sizeof *cluster);
  if (!cluster) return spp_diag_oom(diag);
  *cluster = *args->spec.cluster;
  cluster->nics_per_node =
      spp_ceil_div(spp_sat_mul(cluster->nics_per_node, args->gpus_per_node), cluster->gpus_per_node);
  cluster->gpus_per_node = args->gpus_per_node;
  if (domain_is_node) cluster->domain_gpus = args->gpus_per_node;
  args->spec.cluster = cluster;
  return SPP_OK;
}

/* A profile that 'spplan calibrate' wrote brings its own device. */
static enum spp_status load_profile(struct spp_cli *cli, struct spp_args *args, struct spp_setup *setup,
                                    bool *is_profile, struct spp_diag *diag) {
  if (!args->cluster || !*args->cluster) return SPP_OK;
  enum spp_status status =
      placed(spp_cluster_load(cli->config_dir, args->cluster, NULL, &cli->arena, &args->spec.cluster, diag),
             "cluster", diag);
  *is_profile = status == SPP_OK && args->spec.cluster->profile;
  if (!*is_profile) return status;
  if (args->gpu && spp_cli_set_by(cli, "gpu") != SPP_SET_BY_NOBODY)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", "leave it out, or name another --cluster",
                        "this cluster is a profile, measured on a device of its own");
  setup->gpu_note = "as measured";
  return spp_cluster_device(args->spec.cluster, &cli->arena, &args->spec.gpu, diag);
}

/* A machine was loaded into args->spec: number `at` of those asked for. */
static enum spp_status note_machine(struct spp_cli *cli, struct spp_args *args, int at,
                                    struct spp_setup *setup, struct spp_diag *diag) {
  struct spp_job_spec *spec = &args->spec;
  enum spp_status status = resize_node(cli, args, diag);
  if (status != SPP_OK) return status;
  status = spp_calib_load(cli->config_dir, spec->gpu, spec->cluster, &cli->arena, &spec->calib, diag);
  double usd = args->prices.count > 1 ? args->prices.value[at] : spec->usd_per_gpu_hour;
  setup->gpu_names[at] = spec->gpu->name;
  setup->machines[at] = (struct spp_machine){spec->gpu, spec->cluster, spec->calib, usd, 0};
  return status;
}

/* The GPU of that name in its machine, into args->spec and machine number `at`. */
static enum spp_status load_machine(struct spp_cli *cli, struct spp_args *args, const char *name, int at,
                                    struct spp_setup *setup, struct spp_diag *diag) {
  struct spp_job_spec *spec = &args->spec;
  enum spp_status status;
  if ((status = placed(spp_gpu_load(cli->config_dir, name, &cli->arena, &spec->gpu, diag), "gpu", diag)) !=
      SPP_OK)
    return status;
  status =
      placed(spp_cluster_load(cli->config_dir, args->cluster, spec->gpu, &cli->arena, &spec->cluster, diag),
             "cluster", diag);
  return status == SPP_OK ? note_machine(cli, args, at, setup, diag) : status;
}

/* Names joined by commas: their count, and each cut out. */
static enum spp_status split_gpus(struct spp_cli *cli, const char *text, const char **names, int *count,
                                  struct spp_diag *diag) {
  for (*count = 0;; text++) {
    size_t length = strcspn(text, ",");
    if (length == 0)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", "write NAME,NAME", "a name in the list is empty");
    if (*count == SPP_MAX_MACHINES)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", "give fewer", "more than %d GPU types",
                          (int)SPP_MAX_MACHINES);
    const char *name = spp_arena_printf(&cli->arena, "%.*s", (int)length, text);
    if (!name) return spp_diag_oom(diag);
    for (int i = 0; i < *count; i++)
      if (strcmp(names[i], name) == 0)
        return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", "name each type once", "%s is there twice", name);
    names[(*count)++] = name;
    text += length;
    if (!*text) return SPP_OK;
  }
}

/* Several types are a question of plan; each brings its own machine. */
static enum spp_status check_machines(const struct spp_cli *cli, const struct spp_args *args, int count,
                                      struct spp_diag *diag) {
  if (args->prices.count > 1 && args->prices.count != count)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--price-per-gpu-hour", "give one price, or one for each type",
                        "%d prices for %d GPU type%s", args->prices.count, count, count == 1 ? "" : "s");
  if (count == 1) return SPP_OK;
  if (!(cli->command->bit & SPP_CMD_PLAN))
    return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", "name one, or ask plan, which compares them",
                        "'%s' takes one GPU type", cli->command->name);
  if (args->cluster)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--cluster", "leave it out: each type has its usual machine",
                        "one cluster does not hold %d GPU types", count);
  return SPP_OK;
}

/* Dollars cannot rank what has no price. */
static enum spp_status check_prices(const struct spp_cli *cli, const struct spp_args *args,
                                    const struct spp_setup *setup, struct spp_diag *diag) {
  const unsigned ranking = SPP_CMD_PLAN | SPP_CMD_COMPARE | SPP_CMD_SWEEP | SPP_CMD_TUI | SPP_CMD_REPORT;
  if (args->objective != (int)SPP_OBJECTIVE_COST || !(cli->command->bit & ranking)) return SPP_OK;
  for (int i = 0; i < setup->machine_count; i++)
    if (!(spp_machine_price(&setup->machines[i]) > 0))
      return spp_diag_set(diag, SPP_ERR_USAGE, "--objective cost", "give --price-per-gpu-hour USD",
                          "no price is known for %s", setup->machines[i].gpu->display);
  return SPP_OK;
}

static enum spp_status load_hardware(struct spp_cli *cli, struct spp_args *args, struct spp_setup *setup,
                                     struct spp_diag *diag) {
  const char *names[SPP_MAX_MACHINES] = {args->gpu};
  bool profile = false;
  int count = 1;
  if (args->prices.count == 1) args->spec.usd_per_gpu_hour = args->prices.value[0];
  enum spp_status status = load_profile(cli, args, setup, &profile, diag);
  if (status != SPP_OK) return status;
  if (profile) {
    setup->machine_count = 1;
    return note_machine(cli, args, 0, setup, diag);
  }
  if (args->gpu && spp_cli_set_by(cli, "gpu") == SPP_SET_BY_NOBODY)
    setup->gpu_note = "as in the saved answer";
  if (args->gpu)
    status = split_gpus(cli, args->gpu, names, &count, diag);
  else
    status = choose_gpu(cli, &names[0], setup, diag);
  if (status == SPP_OK) status = check_machines(cli, args, count, diag);
  for (int i = count - 1; i >= 0 && status == SPP_OK; i--) /* the first last: it stays in the spec */
    status = load_machine(cli, args, names[i], i, setup, diag);
  setup->machine_count = count;
  return status == SPP_OK ? check_prices(cli, args, setup, diag) : status;
}

/* ---- data ---- */

static enum spp_status measure_images(struct spp_args *args, struct spp_diag *diag) {
  struct spp_image_tokens one;
  enum spp_status status;
  if (args->image.count <= 0) return SPP_OK;
  if (args->spec.arch->vision.kind == SPP_VISION_NONE)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--image", "leave it out or choose a vision model",
                        "%s has no vision tower", args->spec.arch->display);
  status = spp_vision_tokens(&args->spec.arch->vision, args->image.height, args->image.width, 1, &one, diag);
  if (status != SPP_OK) return status;
  args->spec.images_per_sequence = args->image.count;
  args->spec.image_patches = spp_sat_mul(args->image.count, one.patches);
  args->spec.image_tokens = spp_sat_mul(args->image.count, one.tokens);
  if (args->spec.seq_tokens > 0 && args->spec.image_tokens > args->spec.seq_tokens)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--image", "fewer or smaller images, or a longer --seq",
                        "the images take %lld tokens of a sequence of %lld",
                        (long long)args->spec.image_tokens, (long long)args->spec.seq_tokens);
  return SPP_OK;
}

static enum spp_status bad_length(const char *path, int line, const char *what, struct spp_diag *diag) {
  char where[256];
  snprintf(where, sizeof where, "%.200s:%d", path, line);
  return spp_diag_set(diag, SPP_ERR_INPUT, where, "one token count a line, such as 4096", "%s", what);
}

/* Whole numbers apart by blanks, commas or new lines, into `lengths` of room for one a character. */
static enum spp_status read_lengths(const char *path, const char *text, size_t size, int64_t *lengths,
                                    int64_t *count, struct spp_diag *diag) {
  int line = 1;
  for (size_t at = 0; at < size;) {
    int64_t value = 0;
    char c = text[at];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',') {
      line += c == '\n';
      at++;
      continue;
    }
    for (; at < size && text[at] >= '0' && text[at] <= '9'; at++)
      if ((value = value * 10 + (text[at] - '0')) > INT64_C(1) << 30)
        return bad_length(path, line, "a length is too large", diag);
    if (value == 0 || (at < size && !strchr(" \t\r\n,", text[at])))
      return bad_length(path, line, "this is no token count", diag);
    if (*count == MAX_DOCUMENTS) return bad_length(path, line, "more than 4,000,000 documents", diag);
    lengths[(*count)++] = value;
  }
  return *count > 0 ? SPP_OK : bad_length(path, line, "no token count in the file", diag);
}

enum spp_status spp_setup_documents(struct spp_cli *cli, struct spp_args *args, struct spp_diag *diag) {
  int64_t *lengths, count = 0;
  enum spp_status status;
  size_t size;
  char *text;
  if (!args->doc_lengths) return SPP_OK;
  if (args->spec.packing == 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--no-packing", "leave out one of the two",
                        "--doc-lengths are those of packed documents");
  if (args->spec.seq_tokens <= 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--doc-lengths", "give --seq",
                        "documents are packed into sequences of a known length");
  if ((status = spp_file_read(args->doc_lengths, DOCUMENT_FILE_BYTES, &text, &size, diag)) != SPP_OK)
    return status;
  lengths = spp_arena_array(&cli->arena, size / 2 + 1, sizeof *lengths);
  status = lengths ? read_lengths(args->doc_lengths, text, size, lengths, &count, diag) : spp_diag_oom(diag);
  free(text);
  if (status != SPP_OK) return status;
  spp_documents_measure(lengths, count, args->spec.seq_tokens, &args->spec.documents);
  if (args->spec.packing == SPP_UNSET) args->spec.packing = 1;
  return SPP_OK;
}

/* ---- frameworks ---- */

/* Frameworks that run the job's mode; with `searched_only` those a plan for "any" looks at. */
static enum spp_status load_frameworks(struct spp_cli *cli, int mode, bool searched_only,
                                       struct spp_setup *setup, struct spp_diag *diag) {
  const struct spp_framework *all[SPP_MAX_FRAMEWORKS];
  int count;
  enum spp_status status =
      spp_framework_load_all(cli->config_dir, searched_only, &cli->arena, all, &count, diag);
  for (int i = 0; status == SPP_OK && i < count; i++)
    if (all[i]->modes[mode]) setup->frameworks[setup->framework_count++] = all[i];
  return status;
}

static enum spp_status choose_frameworks(struct spp_cli *cli, const struct spp_args *args,
                                         struct spp_setup *setup, struct spp_diag *diag) {
  bool searches = (cli->command->bit & (SPP_CMD_PLAN | SPP_CMD_COMPARE | SPP_CMD_REPORT)) != 0;
  int mode = args->spec.mode == SPP_UNSET ? SPP_MODE_TRAIN : args->spec.mode;
  const char *usual = mode == SPP_MODE_INFER ? default_server : default_framework;
  const char *name = args->framework ? args->framework : searches ? "any" : usual;
  enum spp_status status = SPP_OK;
  setup->any_framework = strcmp(name, "any") == 0;
  if (!setup->any_framework) {
    setup->framework_count = 1;
    return spp_framework_load(cli->config_dir, name, &cli->arena, &setup->frameworks[0], diag);
  }
  status = load_frameworks(cli, mode, true, setup, diag);
  if (status != SPP_OK || setup->framework_count == 0)
    return status != SPP_OK
               ? status
               : spp_diag_set(diag, SPP_ERR_USAGE, "--mode", "'spplan list frameworks' shows what each does",
                              "no framework runs mode %s", spp_mode_name((enum spp_mode)mode));
  return SPP_OK;
}

enum spp_status spp_setup_one_framework(const struct spp_setup *setup, const struct spp_framework **framework,
                                        struct spp_diag *diag) {
  if (setup->any_framework)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--framework",
                        "name one ('spplan list frameworks'), or use plan",
                        "this command takes one framework");
  *framework = setup->frameworks[0];
  return SPP_OK;
}

/* ---- degrees ---- */

/* "TP 3 x SP 2", and the product, of the degrees that were fixed. */
static int64_t fixed_product(const struct spp_request *request, char *words, size_t size) {
  int64_t sp = request->sp > 0 ? request->sp
                               : spp_sat_mul(spp_max64(1, request->ulysses), spp_max64(1, request->ring));
  const struct {
    const char *name;
    int64_t degree;
  } degrees[] = {{"TP", request->tp}, {"PP", request->pp}, {"SP", sp}, {"DP", request->dp}};
  int64_t product = 1;
  size_t used = 0;
  words[0] = '\0';
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
    if (degrees[i].degree < 2) continue;
    product = spp_sat_mul(product, degrees[i].degree);
    int n = snprintf(words + used, size - used, "%s%s %lld", used ? " x " : "", degrees[i].name,
                     (long long)degrees[i].degree);
    used = n > 0 && used + (size_t)n < size ? used + (size_t)n : used;
  }
  return product;
}

/* A search would only say that there is no layout; every framework's product rule says why. */
static enum spp_status check_degrees(const struct spp_args *args, struct spp_diag *diag) {
  char words[128], hint[160];
  int64_t gpus = args->spec.gpus, product = fixed_product(&args->request, words, sizeof words),
          below = product;
  if (gpus <= 0 || product <= 1 || gpus % product == 0) return SPP_OK;
  for (below = spp_min64(product, gpus); gpus % below != 0;)
    below--;
  int64_t above = spp_round_up(gpus, product);
  snprintf(hint, sizeof hint, "a product of %lld does; or --gpus %lld", (long long)below, (long long)above);
  return spp_diag_set(diag, SPP_ERR_USAGE, "command line", hint, "%s does not divide %lld GPUs", words,
                      (long long)gpus);
}

/* A name, or the model that an imported command gave by its sizes. */
static enum spp_status load_model(struct spp_cli *cli, struct spp_args *args, struct spp_diag *diag) {
  const struct spp_arch *built = cli->imported ? cli->imported->arch : NULL;
  if (!built || !args->model || strcmp(args->model, built->name) != 0)
    return placed(spp_arch_load(cli->config_dir, args->model, &cli->arena, &args->spec.arch, diag), "model",
                  diag);
  args->spec.arch = built;
  return SPP_OK;
}

enum spp_status spp_setup_job(struct spp_cli *cli, struct spp_args *args, unsigned needs,
                              struct spp_setup *setup, struct spp_diag *diag) {
  enum spp_status status;
  memset(setup, 0, sizeof *setup);
  if ((status = check_needs(args, needs, diag)) != SPP_OK) return status;
  if ((status = load_model(cli, args, diag)) != SPP_OK) return status;
  if ((status = load_hardware(cli, args, setup, diag)) != SPP_OK) return status;
  if ((status = measure_images(args, diag)) != SPP_OK) return status;
  if ((status = spp_setup_documents(cli, args, diag)) != SPP_OK) return status;
  if ((cli->command->bit & (SPP_CMD_PLAN | SPP_CMD_REPORT | SPP_CMD_SWEEP)) != 0 &&
      (status = check_degrees(args, diag)) != SPP_OK)
    return status;
  return choose_frameworks(cli, args, setup, diag);
}

/* ---- search ---- */

enum spp_status spp_setup_keep(struct spp_args *args, struct spp_diag *diag) {
  for (int i = 0; i < args->keep.count; i++) {
    const char *text = args->keep.text[i], *equals = strchr(text, '=');
    const struct spp_option *option = NULL;
    const char *names[SPP_MAX_OPTIONS], *near;
    char name[64], hint[96], where[96];
    int count = 0;
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    for (int o = 0; o < spp_option_count; o++) {
      if (!spp_options[o].layout || spp_options[o].type.kind == SPP_KIND_FLAG) continue;
      names[count++] = spp_options[o].name;
      if (strcmp(spp_options[o].name, name) == 0) option = &spp_options[o];
    }
    near = spp_suggest(name, names, count);
    snprintf(hint, sizeof hint,
             near ? "did you mean %s=?" : "fields are tp, pp, sp, ulysses, zero, recompute and the like%s",
             near ? near : "");
    if (!option) return spp_diag_set(diag, SPP_ERR_USAGE, "--keep", hint, "unknown layout field '%s'", name);
    if (!equals)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--keep", "write FIELD=VALUE, such as tp=2",
                          "'%s' has no value", name);
    snprintf(where, sizeof where, "--keep %s", name);
    enum spp_status status = spp_option_store(option, equals + 1, where, args, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

/* One run in five that fails to start, or dies in its first long batch, costs more than the few per cent that
 * a tighter plan gains. */
static const double default_min_fit = 0.8;

void spp_setup_search(const struct spp_args *args, const struct spp_setup *setup,
                      struct spp_search_options *options) {
  *options = (struct spp_search_options){
      .spec = args->spec,
      .frameworks = setup->frameworks,
      .framework_count = setup->framework_count,
      .fixed = args->request,
      .objective = (enum spp_objective)args->objective,
      .find_min_fit = args->min_fit < 0 ? 0 : args->min_fit,
      .min_fit = args->min_fit < 0 ? default_min_fit : args->min_fit,
      .top = args->top == SPP_UNSET ? 3 : (int)args->top,
      .threads = args->threads == SPP_UNSET ? 0 : (int)args->threads,
      .exhaustive = args->search > 0,
  };
}

struct spp_text_style spp_setup_style(const struct spp_cli *cli) {
  int64_t width = spp_min64(100, spp_max64(60, cli->term.columns));
  bool to_file = cli->args.output && strcmp(cli->args.output, "-") != 0;
  return (struct spp_text_style){
      .width = (int)width,
      .utf8 = cli->term.utf8,
      .color = cli->term.color && !(to_file && cli->args.color != (int)SPP_COLOR_ALWAYS),
      .quiet = cli->args.quiet != 0,
      .verbose = cli->args.verbose != 0,
  };
}
