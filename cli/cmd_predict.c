/* predict, import and alloc: one layout under one framework. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/imported.h"
#include "cli/setup.h"
#include "cli/trace.h"

enum { MAX_VIOLATIONS = 16, MAX_MATCHES = 100 };

/* Big (the ledger), so on the heap; one for the life of the command. */
struct predicted {
  struct spp_report report;
  struct spp_text_style style;
  int explain;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_prediction prediction;
  struct spp_ledger ledger;
  struct spp_violation violations[MAX_VIOLATIONS];
  struct spp_predict_report answer;
  struct spp_sensitivity sensitivities[SPP_MAX_SENSITIVITIES];
  /* alloc */
  int64_t bytes;
  int match_count;
  struct spp_alloc_match matches[MAX_MATCHES];
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct predicted *p = what;
  if (cli->command->bit == SPP_CMD_IMPORT && cli->imported && !p->style.quiet) spp_imported_text(cli, out);
  spp_text_predict(&p->report, &p->answer, &p->style, out);
  if (p->explain >= 0 && p->answer.prediction)
    spp_text_explain((enum spp_explain)p->explain, &p->answer, &p->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct predicted *p = what;
  spp_json_predict(&p->report, &p->answer, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  const struct predicted *p = what;
  spp_csv_predict(&p->answer, out);
}

/* The first broken rule, as an error. */
static enum spp_status illegal(const struct predicted *p, struct spp_diag *diag) {
  const struct spp_violation *first = &p->violations[0];
  const unsigned degrees = SPP_AXIS_SP | SPP_AXIS_TP | SPP_AXIS_EP;
  const bool of_degrees = (spp_rule_axes(spp_rule_find(first->rule)) & degrees) != 0;
  const char *hint = of_degrees ? "'spplan degrees' lists the legal degrees"
                                : "'spplan plan' with the same job finds a legal layout";
  char where[128];
  snprintf(where, sizeof where, "%s rule %s", p->job.framework->name, first->rule);
  return spp_diag_set(diag, SPP_ERR_USAGE, where, first->instead[0] ? first->instead : hint,
                      "illegal layout: %s", first->text);
}

static enum spp_status no_fit(const struct predicted *p, struct spp_diag *diag) {
  const struct spp_memory *memory = &p->prediction.memory;
  bool host = memory->fits && !memory->host_fits;
  char where[64], need[32], have[32];
  snprintf(where, sizeof where, "rank %lld, %s", (long long)memory->worst_rank,
           host ? "host" : spp_phase_words(&p->job, spp_moment_phase(memory->peak_moment)));
  return spp_diag_set(diag, SPP_ERR_NOFIT, where, "'spplan plan' with the same job finds what fits",
                      "does not fit: %s of %s%s",
                      spp_bytes_print(host ? memory->host_bytes_per_node : memory->device_bytes, need),
                      spp_bytes_print(host ? memory->host_capacity_bytes : memory->capacity_bytes, have),
                      host ? " of host memory on a node" : "");
}

/* Degrees that do not multiply to the GPUs are a broken rule too: an answer without a layout. */
static enum spp_status lay_out(struct predicted *p, const struct spp_request *request,
                               struct spp_diag *diag) {
  struct spp_diag fault = {0};
  enum spp_status status = spp_layout_complete(&p->job, request, &p->layout, &fault);
  if (status == SPP_ERR_USAGE) {
    struct spp_violation *violation = &p->violations[0];
    snprintf(violation->rule, sizeof violation->rule, "degrees");
    snprintf(violation->text, sizeof violation->text, "%.150s%s%.150s", fault.what, fault.hint[0] ? ": " : "",
             fault.hint);
    p->answer.violation_count = 1;
    return SPP_OK;
  }
  if (status != SPP_OK) {
    if (diag) *diag = fault;
    return status;
  }
  p->answer.layout = &p->layout;
  p->answer.violation_count =
      (int)spp_min64(MAX_VIOLATIONS, spp_rules_check(&p->job, &p->layout, p->violations, MAX_VIOLATIONS));
  return SPP_OK;
}

/* Of this layout, with nothing searched: every field of it is fixed but the replicas, which follow the GPUs.
 */
static void vary(const struct spp_cli *cli, const struct spp_setup *setup, struct predicted *p) {
  const struct spp_plan plan = {p->job, p->layout, p->prediction};
  struct spp_search_options options;
  spp_setup_search(&cli->args, setup, &options);
  spp_request_of(&p->layout, &options.fixed);
  options.spec.loss = (int)p->job.loss;
  options.min_fit = 0;
  p->answer.sensitivities = p->sensitivities;
  p->answer.sensitivity_count = spp_sensitivities(&options, &plan, p->sensitivities, SPP_MAX_SENSITIVITIES);
}

static enum spp_status predict(struct spp_cli *cli, unsigned needs, struct predicted *p,
                               struct spp_diag *diag) {
  const struct spp_framework *framework;
  struct spp_setup setup;
  enum spp_status status;
  if ((status = spp_setup_job(cli, &cli->args, needs, &setup, diag)) != SPP_OK) return status;
  if ((status = spp_setup_one_framework(&setup, &framework, diag)) != SPP_OK) return status;
  if ((status = spp_job_resolve(&cli->args.spec, framework, &p->job, diag)) != SPP_OK) return status;
  p->answer = (struct spp_predict_report){
      .job = &p->job, .violations = p->violations, .ledger = &p->ledger, .read = p->answer.read};
  if ((status = lay_out(p, &cli->args.request, diag)) != SPP_OK) return status;
  if (p->answer.violation_count == 0) {
    spp_predict(&p->job, &p->layout, &p->ledger, &p->prediction);
    p->answer.prediction = &p->prediction;
    if (cli->args.explain == (int)SPP_EXPLAIN_SENSITIVITY) vary(cli, &setup, p);
  }
  p->style = spp_setup_style(cli);
  p->explain = cli->args.explain;
  p->answer.tensors = p->explain == (int)SPP_EXPLAIN_ALL || p->explain == (int)SPP_EXPLAIN_MEMORY;
  status = spp_setup_report(cli, &setup, &p->job, true, &p->report, diag);
  if (status != SPP_OK || !p->answer.prediction) return status;
  return spp_setup_idle(cli, &p->job, &p->layout, &p->report, diag);
}

static enum spp_status run_predict(struct spp_cli *cli, struct predicted *p, struct spp_diag *diag) {
  const struct spp_memory *memory = &p->prediction.memory;
  enum spp_status status = predict(cli, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, p, diag);
  if (status != SPP_OK) return status;
  if (!p->answer.prediction && !cli->args.json) return illegal(p, diag);
  status = spp_answer_give(cli, &(struct spp_answer){p, as_text, as_json, as_csv, NULL}, diag);
  if (!p->answer.prediction) return illegal(p, diag);
  if (status == SPP_OK) status = spp_cli_trace(cli, &p->job, &p->layout, &p->prediction, diag);
  if (status == SPP_OK && !(memory->fits && memory->host_fits)) return no_fit(p, diag);
  return status;
}

static void alloc_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct predicted *p = what;
  (void)cli;
  spp_text_alloc(&p->report, &p->answer, p->bytes, p->matches, p->match_count, &p->style, out);
}
static void alloc_json(const void *what, struct spp_str *out) {
  const struct predicted *p = what;
  spp_json_alloc(&p->report, p->bytes, p->matches, p->match_count, out);
}
static void alloc_csv(const void *what, struct spp_str *out) {
  const struct predicted *p = what;
  spp_csv_alloc(p->bytes, p->matches, p->match_count, out);
}

/* The GPUs that the degrees ask for, when --gpus was not given. */
static int64_t implied_gpus(const struct spp_request *request) {
  const int64_t degrees[] = {request->tp, request->pp, request->dp,
                             request->sp > 0
                                 ? request->sp
                                 : spp_sat_mul(spp_max64(1, request->ulysses), spp_max64(1, request->ring))};
  int64_t gpus = 1;
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
    gpus = spp_sat_mul(gpus, spp_max64(1, degrees[i]));
  return spp_min64(gpus, 1 << 20);
}

/* How exactly a size was written: half of its last digit's place. "58.15GiB" is +-0.005 GiB, "49GiB" +-0.5.
 */
static double written_tolerance(const char *text) {
  char one[64] = "1";
  size_t digits = strspn(text, "0123456789_."), fraction = strcspn(text, ".");
  int64_t unit = 1;
  double tolerance = 0.5;
  snprintf(one + 1, sizeof one - 1, "%s", text + digits);
  if (spp_bytes_parse(one, "unit", &unit, NULL) != SPP_OK) return 0;
  for (size_t i = fraction + 1; i < digits; i++)
    if (text[i] != '_') tolerance /= 10;
  return tolerance * (double)unit;
}

static enum spp_status run_alloc(struct spp_cli *cli, struct predicted *p, struct spp_diag *diag) {
  enum spp_status status;
  if (!cli->positional)
    return spp_diag_set(diag, SPP_ERR_USAGE, "command line",
                        "write the size first: spplan alloc 58.15GiB --model ...", "alloc needs a size");
  if ((status = spp_bytes_parse(cli->positional, "alloc BYTES", &p->bytes, diag)) != SPP_OK) return status;
  if (p->bytes <= 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "alloc BYTES", "write the size the allocator asked for",
                        "a size of 0");
  if (cli->args.spec.gpus <= 0) cli->args.spec.gpus = implied_gpus(&cli->args.request);
  if ((status = predict(cli, SPP_NEED_MODEL | SPP_NEED_SEQ, p, diag)) != SPP_OK) return status;
  if (!p->answer.layout) return illegal(p, diag);
  int room = cli->args.top > 0 ? (int)spp_min64(cli->args.top, MAX_MATCHES) : 10;
  p->match_count = spp_alloc_explain_within(&p->job, &p->layout, p->bytes, written_tolerance(cli->positional),
                                            p->matches, room);
  return spp_answer_give(cli, &(struct spp_answer){p, alloc_text, alloc_json, alloc_csv, NULL}, diag);
}

static enum spp_status with_room(struct spp_cli *cli,
                                 enum spp_status (*run)(struct spp_cli *, struct predicted *,
                                                        struct spp_diag *),
                                 struct spp_diag *diag) {
  struct predicted *p = calloc(1, sizeof *p);
  enum spp_status status;
  if (!p) return spp_diag_oom(diag);
  status = run(cli, p, diag);
  free(p);
  return status;
}

enum spp_status spp_run_predict(struct spp_cli *cli, struct spp_diag *diag) {
  return with_room(cli, run_predict, diag);
}

static enum spp_status run_import(struct spp_cli *cli, struct predicted *p, struct spp_diag *diag) {
  if (!cli->positional)
    return spp_diag_set(diag, SPP_ERR_USAGE, "command line",
                        "name it, or - for standard input: spplan import train.sh", "import needs a file");
  if (!cli->imported)
    return spp_diag_set(diag, SPP_ERR_INPUT, cli->positional, "'spplan predict --from FILE' reads it",
                        "this is an answer of spplan, not a framework's");
  if (!(p->answer.read = spp_imported_report(cli))) return spp_diag_oom(diag);
  return run_predict(cli, p, diag);
}
enum spp_status spp_run_import(struct spp_cli *cli, struct spp_diag *diag) {
  return with_room(cli, run_import, diag);
}
enum spp_status spp_run_alloc(struct spp_cli *cli, struct spp_diag *diag) {
  return with_room(cli, run_alloc, diag);
}
