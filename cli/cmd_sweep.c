/* sweep: the best layout at every point of one or two ranges. A point is the command line with the option set
 * there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/setup.h"
#include "cli/watch.h"

enum { MAX_VALUES = 256, MAX_POINTS = 1024 };

struct variable {
  const struct spp_option *option;
  const char *values[MAX_VALUES];
  int count;
};
struct swept {
  struct spp_report report;
  struct spp_sweep sweep;
  struct spp_text_style style;
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct swept *swept = what;
  (void)cli;
  spp_text_sweep(&swept->report, &swept->sweep, &swept->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct swept *swept = what;
  spp_json_sweep(&swept->report, &swept->sweep, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  spp_csv_sweep(&((const struct swept *)what)->sweep, out);
}

static void as_svg(const void *what, struct spp_str *out) {
  spp_svg_sweep(&((const struct swept *)what)->sweep, out);
}

static const char form[] = "write OPTION=FROM:TO:xK, OPTION=FROM:TO:+K or OPTION=A,B,C, such as seq=4k:1m:x2";

static enum spp_status refuse(struct spp_diag *diag, const char *text) {
  return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", form, "'%.100s' is no range", text);
}

/* Options whose value shapes the job or its layout. */
static bool can_vary(const struct spp_option *option) {
  return (option->commands & SPP_CMD_SWEEP) && option->type.kind != SPP_KIND_FLAG &&
         option->type.kind != SPP_KIND_LIST && option->group != SPP_GROUP_OPT_OUTPUT &&
         option->group != SPP_GROUP_OPT_QUESTION;
}

static enum spp_status find_option(const char *text, size_t length, const struct spp_option **found,
                                   struct spp_diag *diag) {
  const char *names[SPP_MAX_OPTIONS], *near;
  char name[64], hint[96];
  int count = 0;
  snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), text);
  for (int i = 0; i < spp_option_count; i++) {
    if (!can_vary(&spp_options[i])) continue;
    names[count++] = spp_options[i].name;
    if (strcmp(spp_options[i].name, name) == 0) {
      *found = &spp_options[i];
      return SPP_OK;
    }
  }
  near = spp_suggest(name, names, count);
  snprintf(hint, sizeof hint, near ? "did you mean %s=?" : "'spplan help sweep' lists the options%s",
           near ? near : "");
  return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", hint, "'%s' cannot be varied", name);
}

static enum spp_status add_value(struct variable *variable, const char *text, struct spp_diag *diag) {
  if (!text) return spp_diag_oom(diag);
  if (variable->count == MAX_VALUES)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", "use larger steps", "more than %d values", MAX_VALUES);
  variable->values[variable->count++] = text;
  return SPP_OK;
}

/* One number of a range, by the option's own parser. */
static enum spp_status bound(const struct spp_option *option, const char *text, size_t length, int64_t *value,
                             struct spp_diag *diag) {
  struct spp_args scratch;
  char copy[64];
  enum spp_status status;
  if (length == 0 || length >= sizeof copy) return refuse(diag, text);
  memcpy(copy, text, length);
  copy[length] = '\0';
  spp_args_clear(&scratch);
  status = spp_option_store(option, copy, "--vary", &scratch, diag);
  if (status == SPP_OK) *value = spp_option_i64(option, &scratch);
  return status;
}

/* "x2" or "+4k"; x2 when left out. */
static enum spp_status read_step(const struct variable *variable, const char *text, bool *times,
                                 int64_t *step, struct spp_diag *diag) {
  *times = true;
  *step = 2;
  if (!*text) return SPP_OK;
  *times = text[0] == 'x';
  if (!*times && text[0] != '+') return refuse(diag, text);
  if (*times) return spp_count_parse(text + 1, "--vary", 2, 1 << 20, step, diag);
  return variable->option->type.kind == SPP_KIND_TOKENS
             ? spp_tokens_parse(text + 1, "--vary", 1, INT64_C(1) << 40, step, diag)
         : variable->option->type.kind == SPP_KIND_BYTES
             ? spp_bytes_parse(text + 1, "--vary", step, diag)
             : spp_count_parse(text + 1, "--vary", 1, INT64_C(1) << 40, step, diag);
}

static enum spp_status fill_range(struct spp_cli *cli, struct variable *variable, const char *text,
                                  struct spp_diag *diag) {
  const char *colon = strchr(text, ':'), *end = colon + 1 + strcspn(colon + 1, ":");
  int64_t from, to, step;
  bool times;
  enum spp_status status;
  if (variable->option->type.kind != SPP_KIND_COUNT && variable->option->type.kind != SPP_KIND_TOKENS &&
      variable->option->type.kind != SPP_KIND_BYTES)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", "list the values: A,B,C", "%s has no range",
                        variable->option->name);
  if ((status = bound(variable->option, text, (size_t)(colon - text), &from, diag)) != SPP_OK) return status;
  if ((status = bound(variable->option, colon + 1, (size_t)(end - colon - 1), &to, diag)) != SPP_OK)
    return status;
  if ((status = read_step(variable, *end ? end + 1 : end, &times, &step, diag)) != SPP_OK) return status;
  if (from > to || step <= 0 || (times && from <= 0)) return refuse(diag, text);
  for (int64_t value = from; value <= to && status == SPP_OK; value = times ? value * step : value + step)
    status = add_value(variable, spp_arena_printf(&cli->arena, "%" PRId64, value), diag);
  return status;
}

static enum spp_status fill_list(struct spp_cli *cli, struct variable *variable, const char *text,
                                 struct spp_diag *diag) {
  enum spp_status status = SPP_OK;
  while (status == SPP_OK) {
    size_t length = strcspn(text, ",");
    if (length == 0) return refuse(diag, text);
    status = add_value(variable, spp_arena_printf(&cli->arena, "%.*s", (int)length, text), diag);
    if (!text[length]) break;
    text += length + 1;
  }
  return status;
}

static enum spp_status read_variable(struct spp_cli *cli, const char *text, struct variable *variable,
                                     struct spp_diag *diag) {
  const char *equals = strchr(text, '=');
  enum spp_status status;
  variable->count = 0;
  if (!equals || !equals[1]) return refuse(diag, text);
  if ((status = find_option(text, (size_t)(equals - text), &variable->option, diag)) != SPP_OK) return status;
  return strchr(equals + 1, ':') ? fill_range(cli, variable, equals + 1, diag)
                                 : fill_list(cli, variable, equals + 1, diag);
}

/* Every value must be one the option takes: found before the first search, not after an hour. */
static enum spp_status check_values(const struct variable *variable, struct spp_diag *diag) {
  for (int i = 0; i < variable->count; i++) {
    struct spp_args scratch;
    spp_args_clear(&scratch);
    enum spp_status status =
        spp_option_store(variable->option, variable->values[i], "--vary", &scratch, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

static enum spp_status keep_plan(struct spp_cli *cli, const struct spp_plan *plan,
                                 struct spp_sweep_point *point, struct spp_diag *diag) {
  struct spp_plan *copy = spp_arena_alloc(&cli->arena, sizeof *copy);
  if (!copy) return spp_diag_oom(diag);
  *copy = *plan;
  point->plan = copy;
  return SPP_OK;
}

/* A point that breaks a rule, or names what there is not, is a row that says so; a bad file ends the sweep.
 */
static enum spp_status run_point(struct spp_cli *cli, struct spp_args *args, struct spp_setup *setup,
                                 struct spp_sweep_point *point, struct spp_diag *diag) {
  struct spp_search_options options;
  struct spp_search_result result;
  struct spp_diag fault = {0};
  char words[700];
  enum spp_status status =
      spp_setup_job(cli, args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, setup, &fault);
  if (status == SPP_OK) {
    spp_setup_search(args, setup, &options);
    options.top = 1;
    status = spp_search(&options, &result, &fault);
    if (status == SPP_OK || status == SPP_ERR_NOFIT) {
      const struct spp_plan *plan = result.count         ? &result.plans[0]
                                    : result.has_nearest ? &result.nearest
                                                         : NULL;
      enum spp_status kept = plan ? keep_plan(cli, plan, point, diag) : SPP_OK;
      spp_search_free(&result);
      return kept;
    }
  }
  if (status != SPP_ERR_USAGE) {
    if (diag) *diag = fault;
    return status;
  }
  point->why_not = spp_arena_strdup(&cli->arena, spp_diag_format(&fault, words, sizeof words));
  return point->why_not ? SPP_OK : spp_diag_oom(diag);
}

/* The inputs that all points share, for the echo. */
static void share(struct spp_cli *cli, const struct spp_args *args, const struct spp_sweep *sweep) {
  cli->args.spec.arch = args->spec.arch;
  cli->args.spec.gpu = args->spec.gpu;
  cli->args.spec.cluster = args->spec.cluster;
  for (int v = 0; v < sweep->variable_count; v++) {
    if (strcmp(sweep->variables[v], "model") == 0) cli->args.spec.arch = NULL;
    if (strcmp(sweep->variables[v], "gpu") == 0) cli->args.spec.gpu = NULL;
    if (strcmp(sweep->variables[v], "gpu") == 0 || strcmp(sweep->variables[v], "cluster") == 0)
      cli->args.spec.cluster = NULL;
  }
}

static enum spp_status run_points(struct spp_cli *cli, const struct variable *variables,
                                  struct spp_sweep *sweep, struct spp_setup *setup, struct spp_diag *diag) {
  int inner = sweep->variable_count == 2 ? variables[1].count : 1;
  enum spp_status status = SPP_OK;
  struct spp_progress progress;
  spp_watch_begin(&progress, cli, "sweeping");
  for (int i = 0; i < sweep->count && status == SPP_OK; i++) {
    struct spp_sweep_point *point = &sweep->points[i];
    struct spp_args args = cli->args;
    spp_progress_step(&progress, i, sweep->count, NULL);
    for (int v = 0; v < sweep->variable_count && status == SPP_OK; v++) {
      point->values[v] = variables[v].values[v == 0 ? i / inner : i % inner];
      status = spp_option_store(variables[v].option, point->values[v], "--vary", &args, diag);
    }
    if (status == SPP_OK) status = run_point(cli, &args, setup, point, diag);
    if (status == SPP_OK) share(cli, &args, sweep);
  }
  spp_progress_end(&progress);
  return status;
}

/* The whole answer is one of the worst kind only if every point is. */
static enum spp_status verdict(const struct spp_sweep *sweep, struct spp_diag *diag) {
  bool legal = false;
  for (int i = 0; i < sweep->count; i++) {
    const struct spp_plan *plan = sweep->points[i].plan;
    if (plan && plan->prediction.memory.fits && plan->prediction.memory.host_fits) return SPP_OK;
    legal = legal || plan;
  }
  if (legal)
    return spp_diag_set(diag, SPP_ERR_NOFIT, "sweep", "fewer tokens, more GPUs, LoRA or offload",
                        "nothing fits at any point");
  return spp_diag_set(diag, SPP_ERR_USAGE, "sweep", "fix the job first with 'spplan plan'",
                      "no point is legal: %.200s", sweep->count ? sweep->points[0].why_not : "");
}

static enum spp_status set_up(struct spp_cli *cli, struct variable *variables, struct spp_sweep *sweep,
                              struct spp_diag *diag) {
  int count = 1;
  enum spp_status status = SPP_OK;
  sweep->variable_count = cli->args.vary.count;
  if (sweep->variable_count < 1 || sweep->variable_count > SPP_SWEEP_MAX_VARIABLES)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", form,
                        sweep->variable_count ? "more than two variables" : "sweep needs --vary");
  for (int v = 0; v < sweep->variable_count; v++) {
    if ((status = read_variable(cli, cli->args.vary.text[v], &variables[v], diag)) != SPP_OK) return status;
    if ((status = check_values(&variables[v], diag)) != SPP_OK) return status;
    sweep->variables[v] = variables[v].option->name;
    count *= variables[v].count;
  }
  if (sweep->variable_count == 2 && variables[0].option == variables[1].option)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", "vary two different options", "--%s is varied twice",
                        variables[0].option->name);
  if (count > MAX_POINTS)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--vary", "use larger steps", "%d points are more than %d",
                        count, MAX_POINTS);
  sweep->count = count;
  sweep->points = spp_arena_array(&cli->arena, (size_t)count, sizeof *sweep->points);
  return sweep->points ? SPP_OK : spp_diag_oom(diag);
}

enum spp_status spp_run_sweep(struct spp_cli *cli, struct spp_diag *diag) {
  struct variable *variables = spp_arena_array(&cli->arena, SPP_SWEEP_MAX_VARIABLES, sizeof *variables);
  struct swept swept = {.style = spp_setup_style(cli)};
  struct spp_setup setup = {0};
  enum spp_status status;
  if (!variables) return spp_diag_oom(diag);
  if ((status = spp_setup_keep(&cli->args, diag)) != SPP_OK) return status;
  if ((status = set_up(cli, variables, &swept.sweep, diag)) != SPP_OK) return status;
  if ((status = run_points(cli, variables, &swept.sweep, &setup, diag)) != SPP_OK) return status;
  if ((status = spp_setup_report(cli, &setup, NULL, false, &swept.report, diag)) != SPP_OK) return status;
  status = spp_answer_give(cli, &(struct spp_answer){&swept, as_text, as_json, as_csv, as_svg}, diag);
  return status != SPP_OK ? status : verdict(&swept.sweep, diag);
}
