/* What the interactive planner asks of the command line: the options, and answers in a worker thread. */
#include "cli/tui_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/suggest.h"
#include "cli/setup.h"
#include "cli/tui_trial.h"
#include "model/calib.h"
#include "model/launch.h"

enum { DEFAULT_TOP = 40, TIMELINE_SLICES = 4000 };

struct host {
  char config_dir[4096];
  struct spp_arena arena; /* of the names */
  struct {
    const char *const *names;
    int count;
  } lists[SPP_VALUES_FRAMEWORK + 1];
};

/* An answer and all it points at. */
struct owned {
  struct spp_tui_outcome outcome;
  struct spp_cli cli;
  struct spp_setup setup;
  struct spp_words words;
  struct spp_search_options options;
  bool searched;
};

/* ---- the options ---- */

/* Options that say what to plan; the others are the command line's own business. */
static bool offered(const struct spp_option *option) {
  return (option->commands & SPP_CMD_TUI) && !option->no_default && option->group != SPP_GROUP_OPT_OUTPUT &&
         option->type.kind != SPP_KIND_LIST;
}

static const struct spp_option *option_of(const char *name, struct spp_diag *diag) {
  const struct spp_option *option = spp_option_find(name);
  const char *names[SPP_MAX_OPTIONS], *near;
  char hint[96];
  int count = 0;
  if (option && offered(option)) return option;
  for (int i = 0; i < spp_option_count; i++)
    if (offered(&spp_options[i])) names[count++] = spp_options[i].name;
  near = spp_suggest(name, names, count);
  snprintf(hint, sizeof hint, near ? "did you mean %s?" : "Tab lists them%s", near ? near : "");
  spp_diag_set(diag, SPP_ERR_USAGE, NULL, hint, "no option '%.40s'", name);
  return NULL;
}

static enum spp_status store(const struct spp_option *option, const char *text, struct spp_args *args,
                             struct spp_diag *diag) {
  if (option->type.kind != SPP_KIND_FLAG) return spp_option_store(option, text, option->name, args, diag);
  if (*text)
    return spp_diag_set(diag, SPP_ERR_USAGE, option->name, "write it alone", "%s takes no value",
                        option->name);
  *(int *)((char *)args + option->offset) = option->type.value;
  return SPP_OK;
}

/* Names that stand for files are looked up. */
static enum spp_status look_up(const char *config_dir, const struct spp_option *option, const char *text,
                               struct spp_diag *diag) {
  const struct spp_arch *arch;
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  const struct spp_framework *framework;
  struct spp_arena arena;
  enum spp_status status = SPP_OK;
  spp_arena_init(&arena);
  switch (option->source) {
  case SPP_VALUES_MODEL: status = spp_arch_load(config_dir, text, &arena, &arch, diag); break;
  case SPP_VALUES_GPU: status = spp_gpu_load(config_dir, text, &arena, &gpu, diag); break;
  case SPP_VALUES_CLUSTER: status = spp_cluster_load(config_dir, text, NULL, &arena, &cluster, diag); break;
  case SPP_VALUES_FRAMEWORK:
    if (strcmp(text, "any") != 0) status = spp_framework_load(config_dir, text, &arena, &framework, diag);
    break;
  default: break;
  }
  spp_arena_free(&arena);
  return status;
}

static enum spp_status check(void *self, const char *name, const char *text, struct spp_diag *diag) {
  struct host *host = self;
  const struct spp_option *option = option_of(name, diag);
  struct spp_args args;
  enum spp_status status;
  if (!option) return SPP_ERR_USAGE;
  spp_args_clear(&args);
  if ((status = store(option, text, &args, diag)) != SPP_OK) return status;
  return look_up(host->config_dir, option, text, diag);
}

static const char *option_name(void *self, int i) {
  (void)self;
  for (int o = 0; o < spp_option_count; o++)
    if (offered(&spp_options[o]) && i-- == 0) return spp_options[o].name;
  return NULL;
}

static const char *choice(void *self, const char *name, int i) {
  const struct host *host = self;
  const struct spp_option *option = spp_option_find(name);
  int value;
  if (!option || i < 0) return NULL;
  if (option->type.word) return option->type.word(i, &value);
  return i < host->lists[option->source].count ? host->lists[option->source].names[i] : NULL;
}

static enum spp_status list_names(struct host *host, struct spp_diag *diag) {
  static const struct {
    enum spp_value_source source;
    enum spp_status (*list)(const char *, struct spp_arena *, const char *const **, int *, struct spp_diag *);
  } sources[] = {{SPP_VALUES_MODEL, spp_arch_list},
                 {SPP_VALUES_GPU, spp_gpu_list},
                 {SPP_VALUES_CLUSTER, spp_cluster_list},
                 {SPP_VALUES_FRAMEWORK, spp_framework_list}};
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
    enum spp_status status =
        sources[i].list(host->config_dir, &host->arena, &host->lists[sources[i].source].names,
                        &host->lists[sources[i].source].count, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

/* ---- the command line's own words ---- */

const char *spp_tui_first_words(const struct spp_args *args, struct spp_words *words) {
  static const char *const example[][2] = {{"model", "qwen2.5-7b"}, {"seq", "32k"}, {"gpus", "8"}};
  const char *greeting = NULL;
  char text[SPP_WORD_TEXT];
  words->count = 0;
  for (int i = 0; i < spp_option_count; i++) {
    if (!offered(&spp_options[i]) || !spp_option_text(&spp_options[i], args, text, sizeof text)) continue;
    spp_words_set(words, spp_options[i].name, text);
  }
  for (int i = 0; i < 3; i++) {
    if (spp_words_get(words, example[i][0])) continue;
    spp_words_set(words, example[i][0], example[i][1]);
    greeting = "an example to begin with: Left and Right change a field, ? lists the keys";
  }
  return greeting;
}

/* ---- answers ---- */

static enum spp_status answer(struct owned *owned, bool compare, atomic_bool *stop, struct spp_diag *diag) {
  struct spp_args *args = &owned->cli.args;
  enum spp_status status;
  spp_args_clear(args);
  for (int i = 0; i < owned->words.count; i++) {
    const struct spp_option *option = option_of(owned->words.items[i].name, diag);
    if (!option) return SPP_ERR_USAGE;
    if ((status = store(option, owned->words.items[i].text, args, diag)) != SPP_OK) return status;
    owned->cli.set_by[spp_option_index(option)] = SPP_SET_BY_FLAG;
  }
  status =
      spp_setup_job(&owned->cli, args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, &owned->setup, diag);
  if (status != SPP_OK) return status;
  if (args->top == SPP_UNSET) args->top = DEFAULT_TOP;
  spp_setup_search(args, &owned->setup, &owned->options);
  owned->options.stop = stop;
  status = spp_search(&owned->options, &owned->outcome.search, diag);
  if (status != SPP_OK && status != SPP_ERR_NOFIT) return status;
  owned->searched = true;
  if (!compare) return status;
  owned->outcome.has_compare = spp_compare(&owned->options, 0, &owned->outcome.compare, NULL) == SPP_OK;
  return status;
}

static struct spp_tui_outcome *plan(void *self, const struct spp_words *words, bool compare,
                                    atomic_bool *stop) {
  const struct host *host = self;
  struct owned *owned = calloc(1, sizeof *owned);
  if (!owned) return NULL;
  owned->outcome.owner = owned;
  owned->words = *words;
  owned->cli.command = spp_command_find("plan"); /* every framework by default, as plan has it */
  memcpy(owned->cli.config_dir, host->config_dir, sizeof owned->cli.config_dir);
  spp_arena_init(&owned->cli.arena);
  owned->outcome.status = answer(owned, compare, stop, &owned->outcome.diag);
  owned->options.stop = NULL;
  return &owned->outcome;
}

static void release(void *self, struct spp_tui_outcome *outcome) {
  struct owned *owned = outcome->owner;
  (void)self;
  if (owned->searched) spp_search_free(&outcome->search);
  if (outcome->has_compare) spp_compare_free(&outcome->compare);
  spp_arena_free(&owned->cli.arena);
  free(owned);
}

static void details(void *self, const struct spp_plan *plan, struct spp_plan_details *details) {
  struct spp_prediction prediction;
  (void)self;
  memset(details, 0, sizeof *details);
  details->plan = plan;
  spp_predict(&plan->job, &plan->layout, &details->ledger, &prediction);
  details->warning_count = spp_advise_warnings(plan, details->warnings, SPP_MAX_ADVICE);
  details->next_count = spp_advise_next(plan, details->next, SPP_MAX_ADVICE);
  details->why_not_count = spp_advise_why_not(plan, details->why_not, SPP_MAX_ADVICE);
}

static void timeline(void *self, const struct spp_plan *plan, struct spp_timeline *timeline) {
  (void)self;
  *timeline = (struct spp_timeline){.count = 0};
  (void)spp_timeline_build(&plan->job, &plan->layout, &plan->prediction, TIMELINE_SLICES, timeline, NULL);
}

static void trial(void *self, spp_trial_tell *tell, void *to, atomic_bool *stop) {
  const struct host *host = self;
  spp_tui_validate(host->config_dir, tell, to, stop);
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static enum spp_status save(void *self, const struct spp_tui_outcome *outcome, const struct spp_plan *plan,
                            const char *path, struct spp_diag *diag) {
  struct owned *owned = outcome->owner;
  const struct spp_search_result *search = &outcome->search;
  struct spp_report report;
  struct spp_str out;
  (void)self;
  enum spp_status status = spp_setup_report(&owned->cli, &owned->setup, plan ? &plan->job : NULL,
                                            !owned->setup.any_framework, &report, diag);
  if (status != SPP_OK) return status;
  spp_str_init(&out);
  if (ends_with(path, ".html") && plan)
    status = spp_cli_page(&report, search, plan, &out, diag);
  else if (ends_with(path, ".sh") && plan)
    spp_framework_launch(&plan->job, &plan->layout, &out), spp_str_addc(&out, '\n');
  else if (ends_with(path, ".html") || ends_with(path, ".sh"))
    status = spp_diag_set(diag, SPP_ERR_USAGE, path, "select one", "no plan is selected");
  else
    spp_json_plan(&report, &(struct spp_plan_report){.search = search, .options = &owned->options}, &out);
  if (status == SPP_OK)
    status = out.failed ? spp_diag_oom(diag) : spp_file_write_atomic(path, spp_str_text(&out), out.len, diag);
  spp_str_free(&out);
  return status;
}

/* ---- the table ---- */

enum spp_status spp_tui_host_open(const char *config_dir, struct spp_tui_host *table, struct spp_diag *diag) {
  struct host *host = calloc(1, sizeof *host);
  if (!host) return spp_diag_oom(diag);
  snprintf(host->config_dir, sizeof host->config_dir, "%s", config_dir);
  spp_arena_init(&host->arena);
  enum spp_status status = list_names(host, diag);
  *table = (struct spp_tui_host){.self = host,
                                 .check = check,
                                 .option = option_name,
                                 .choice = choice,
                                 .plan = plan,
                                 .release = release,
                                 .details = details,
                                 .timeline = timeline,
                                 .save = save,
                                 .trial = trial};
  if (status != SPP_OK) spp_tui_host_close(table);
  return status;
}

void spp_tui_host_close(struct spp_tui_host *table) {
  struct host *host = table->self;
  spp_arena_free(&host->arena);
  free(host);
}
