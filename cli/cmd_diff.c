/* diff A B: which settings differ, and what each of them alone makes of A. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/from.h"
#include "cli/setup.h"
#include "interop/fields.h"
#include "model/setting.h"
#include "report/json_parts.h"
#include "report/text.h"

/* One of the two jobs. */
struct side {
  struct spp_cli cli; /* as if it were the only one; its own arena */
  struct spp_setup setup;
  const struct spp_framework *framework;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_prediction prediction;
};
/* A setting, and A with that setting as in B. */
struct difference {
  const char *name, *a, *b;
  bool known; /* it could be laid out alone */
  char why_not[200];
  int64_t device_bytes;
  double step_s;
};
enum { MAX_DIFFERENCES = SPP_MAX_FIELD_PAIRS + 4 };
struct diffing {
  struct side a, b;
  struct spp_report report;
  struct spp_text_style style;
  struct difference list[MAX_DIFFERENCES];
  int count;
  struct spp_prediction trial; /* the one under way */
};

/* ---- the two ---- */

static enum spp_status read_side(const struct spp_cli *cli, const char *path, struct side *side,
                                 struct spp_diag *diag) {
  struct spp_violation violation;
  side->cli = *cli;
  spp_arena_init(&side->cli.arena);
  enum spp_status status = spp_cli_from(&side->cli, path, diag);
  if (status == SPP_OK)
    status = spp_setup_job(&side->cli, &side->cli.args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS,
                           &side->setup, diag);
  if (status == SPP_OK) status = spp_setup_one_framework(&side->setup, &side->framework, diag);
  if (status == SPP_OK) status = spp_job_resolve(&side->cli.args.spec, side->framework, &side->job, diag);
  if (status == SPP_OK)
    status = spp_layout_complete(&side->job, &side->cli.args.request, &side->layout, diag);
  if (status == SPP_OK && spp_rules_check(&side->job, &side->layout, &violation, 1) > 0)
    status = spp_diag_set(diag, SPP_ERR_USAGE, path, "'spplan import' or 'predict --from' says more",
                          "illegal layout: %s", violation.text);
  if (status == SPP_OK) spp_predict(&side->job, &side->layout, NULL, &side->prediction);
  return status;
}

/* ---- one at a time ---- */

/* A's job with one thing of B's: names that go together move together. */
struct trial {
  struct spp_job_spec spec;
  struct spp_request request;
  const struct spp_framework *framework;
};

static void predict_trial(const struct trial *trial, struct spp_prediction *prediction,
                          struct difference *d) {
  struct spp_violation violation = {.text = ""};
  struct spp_diag diag = {0};
  struct spp_layout layout;
  struct spp_job job;
  enum spp_status status = spp_job_resolve(&trial->spec, trial->framework, &job, &diag);
  if (status == SPP_OK) status = spp_layout_complete(&job, &trial->request, &layout, &diag);
  if (status != SPP_OK) {
    snprintf(d->why_not, sizeof d->why_not, "%s", diag.what);
  } else if (spp_rules_check(&job, &layout, &violation, 1) > 0) {
    snprintf(d->why_not, sizeof d->why_not, "%s", violation.text);
  } else {
    spp_predict(&job, &layout, NULL, prediction);
    d->known = true;
    d->device_bytes = prediction->memory.device_bytes;
    d->step_s = prediction->time.step_s;
  }
}

/* A's layout as it is, but for what follows from the GPUs. */
static struct trial trial_of(const struct side *a) {
  struct trial trial = {.spec = a->cli.args.spec, .framework = a->framework};
  spp_request_of(&a->layout, &trial.request);
  trial.request.dp = trial.request.sp = SPP_UNSET;
  trial.spec.gpus = a->job.gpus;
  trial.spec.global_batch = a->job.global_batch;
  return trial;
}

/* How the sequence is split is one difference, whichever of its fields it shows in. */
static bool is_split(const char *name) {
  return strcmp(name, "sp-kind") == 0 || strcmp(name, "ulysses") == 0 || strcmp(name, "ring") == 0;
}

static void try_field(struct diffing *d, struct difference *row) {
  struct trial trial = trial_of(&d->a);
  struct spp_diag diag = {0};
  enum spp_status status = SPP_OK;
  if (strcmp(row->name, "sp") == 0) {
    trial.request.sp_kind = (int)d->b.layout.sp_kind;
    trial.request.ulysses = d->b.layout.ulysses;
    trial.request.ring = d->b.layout.ring;
  } else if (strcmp(row->b, spp_field_unset) == 0) {
    snprintf(row->why_not, sizeof row->why_not, "B leaves it to the framework");
    return;
  } else {
    status = spp_setting_apply(row->name, row->b, &trial.spec, &trial.request, &diag);
  }
  if (strcmp(row->name, "tp") == 0) trial.request.megatron_sp = SPP_UNSET;
  if (strcmp(row->name, "pp") == 0) trial.request.schedule = SPP_UNSET;
  if (strcmp(row->name, "recompute") == 0)
    trial.request.recompute_modules = trial.request.recompute_layers = trial.request.recompute_unit =
        SPP_UNSET;
  if (strcmp(row->name, "offload") == 0) trial.request.offload_layers = SPP_UNSET;
  if (status == SPP_OK)
    predict_trial(&trial, &d->trial, row);
  else
    snprintf(row->why_not, sizeof row->why_not, "%s", diag.what);
}

static struct difference *add(struct diffing *d, const char *name, const char *a, const char *b) {
  struct difference *row = &d->list[d->count++];
  *row = (struct difference){.name = name, .a = a, .b = b};
  return row;
}

/* Model, machine and framework: names, not settings. */
static void compare_names(struct diffing *d) {
  struct trial trial;
  if (strcmp(d->a.job.arch->name, d->b.job.arch->name) != 0) {
    trial = trial_of(&d->a);
    trial.spec.arch = d->b.job.arch;
    predict_trial(&trial, &d->trial, add(d, "model", d->a.job.arch->name, d->b.job.arch->name));
  }
  if (strcmp(d->a.job.gpu->name, d->b.job.gpu->name) != 0) {
    trial = trial_of(&d->a);
    trial.spec.gpu = d->b.job.gpu, trial.spec.cluster = d->b.job.cluster, trial.spec.calib = d->b.job.calib;
    predict_trial(&trial, &d->trial, add(d, "gpu", d->a.job.gpu->name, d->b.job.gpu->name));
  }
  if (strcmp(d->a.framework->name, d->b.framework->name) != 0) {
    trial = trial_of(&d->a);
    trial.framework = d->b.framework;
    predict_trial(&trial, &d->trial, add(d, "framework", d->a.framework->name, d->b.framework->name));
  }
}

static enum spp_status compare(struct spp_cli *cli, struct diffing *d, struct spp_diag *diag) {
  struct spp_field_pair pairs[SPP_MAX_FIELD_PAIRS];
  char words[2][128];
  int count;
  bool split = false;
  enum spp_status status = spp_fields_compare(&d->a.job, &d->a.layout, &d->b.job, &d->b.layout, &cli->arena,
                                              pairs, SPP_MAX_FIELD_PAIRS, &count, diag);
  if (status != SPP_OK) return status;
  compare_names(d);
  for (int i = 0; i < count; i++) {
    if (strcmp(pairs[i].name, "dp") == 0) continue; /* follows from the others */
    if (is_split(pairs[i].name)) {
      split = true;
      continue;
    }
    try_field(d, add(d, pairs[i].name, pairs[i].a, pairs[i].b));
  }
  if (!split) return SPP_OK;
  for (int i = 0; i < 2; i++) {
    const struct spp_layout *l = i ? &d->b.layout : &d->a.layout;
    snprintf(words[i], sizeof words[i], "%lld %s (%lld x %lld)", (long long)spp_layout_sp(l),
             spp_sp_kind_name(l->sp_kind), (long long)l->ulysses, (long long)l->ring);
  }
  const char *a = spp_arena_strdup(&cli->arena, words[0]), *b = spp_arena_strdup(&cli->arena, words[1]);
  if (!a || !b) return spp_diag_oom(diag);
  try_field(d, add(d, "sp", a, b));
  return SPP_OK;
}

/* ---- the answer ---- */

static double ratio(double now, double before) {
  return before > 0 ? now / before : NAN;
}

/* What a row's setting does, in figures right below the header's words, or why it cannot be tried. */
static void row_text(const struct diffing *d, const char *name, const char *a, const char *b, bool known,
                     int64_t bytes, double step_s, const char *why_not, struct spp_table *table) {
  const struct spp_prediction *base = &d->a.prediction;
  char gib[32], share[32];
  double change = (double)(bytes - base->memory.device_bytes) / SPP_GIB;
  spp_table_cell(table, name);
  spp_table_cell(table, a);
  spp_table_cell(table, b);
  if (!known) {
    spp_table_cellf(table, "not alone: %s", why_not);
    return;
  }
  snprintf(gib, sizeof gib, "%+.1f GiB", change);
  spp_table_cellf(table, "%11s %9s", fabs(change) < 0.05 ? "same" : gib,
                  spp_text_signed_percent(ratio(step_s, base->time.step_s), share));
}

/* The end of a path says more than its beginning; a command is called by its letter. */
static const char *label_of(const char *side, const char *letter) {
  size_t n = strlen(side);
  if (spp_cli_from_is_command(side)) return letter;
  return n > 20 ? side + n - 20 : side;
}

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct diffing *d = what;
  const struct spp_prediction *a = &d->a.prediction, *b = &d->b.prediction;
  const char *const header[] = {"setting", label_of(cli->positional, "A"), label_of(cli->second, "B"),
                                "     memory    a step"};
  char one[32], two[32], a_s[32], b_s[32];
  struct spp_table table;
  spp_table_init(&table, "llll");
  spp_table_header(&table, header);
  for (int i = 0; i < d->count; i++) {
    const struct difference *row = &d->list[i];
    row_text(d, row->name, row->a, row->b, row->known, row->device_bytes, row->step_s, row->why_not, &table);
  }
  snprintf(a_s, sizeof a_s, "%s GiB, %.3g s", spp_text_gib(a->memory.device_bytes, one), a->time.step_s);
  snprintf(b_s, sizeof b_s, "%s GiB, %.3g s", spp_text_gib(b->memory.device_bytes, two), b->time.step_s);
  row_text(d, "all together", a_s, b_s, true, b->memory.device_bytes, b->time.step_s, "", &table);
  if (d->count == 0) spp_str_add(out, "no setting differs\n");
  spp_table_print(&table, 0, d->style.width, out);
  spp_table_free(&table);
}

static void side_json(struct spp_jo *jo, const char *key, const char *file, const struct side *side) {
  spp_jo_obj(jo, key);
  spp_jo_str(jo, "file", file);
  spp_jo_str(jo, "model", side->job.arch->name);
  spp_jo_str(jo, "framework", side->framework->name);
  spp_jp_layout(jo, &side->job, &side->layout);
  spp_jo_i64(jo, "device_bytes", side->prediction.memory.device_bytes);
  spp_jo_bool(jo, "fits", side->prediction.memory.fits);
  spp_jo_real(jo, "step_s", side->prediction.time.step_s);
  spp_jo_real(jo, "tokens_per_s", side->prediction.time.tokens_per_s);
  spp_jo_end(jo);
}

static void as_json(const void *what, struct spp_str *out) {
  const struct diffing *d = what;
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.diff/1", &d->report);
  side_json(&jo, "a", d->a.cli.positional, &d->a);
  side_json(&jo, "b", d->b.cli.second, &d->b);
  spp_jo_arr(&jo, "differences");
  for (int i = 0; i < d->count; i++) {
    const struct difference *row = &d->list[i];
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "name", row->name);
    spp_jo_str(&jo, "a", row->a);
    spp_jo_str(&jo, "b", row->b);
    spp_jo_i64_if(&jo, "device_bytes", row->device_bytes, row->known);
    spp_jo_i64_if(&jo, "device_bytes_change", row->device_bytes - d->a.prediction.memory.device_bytes,
                  row->known);
    spp_jo_real_if(&jo, "step_s", row->step_s, row->known);
    spp_jo_real_if(&jo, "step_s_change", row->step_s - d->a.prediction.time.step_s, row->known);
    spp_jo_str(&jo, "why_not", row->known ? NULL : row->why_not);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}

static void as_csv(const void *what, struct spp_str *out) {
  const struct diffing *d = what;
  spp_str_add(out, "name,a,b,device_bytes,step_s\n");
  for (int i = 0; i < d->count; i++) {
    const struct difference *row = &d->list[i];
    spp_str_addf(out, "%s,\"%s\",\"%s\",", row->name, row->a, row->b);
    if (row->known)
      spp_str_addf(out, "%lld,%.6g\n", (long long)row->device_bytes, row->step_s);
    else
      spp_str_add(out, ",\n");
  }
}

static enum spp_status run(struct spp_cli *cli, struct diffing *d, struct spp_diag *diag) {
  if (!cli->second)
    return spp_diag_set(diag, SPP_ERR_USAGE, "command line", "name both: spplan diff train.sh plan.json",
                        "diff needs two files");
  enum spp_status status = read_side(cli, cli->positional, &d->a, diag);
  if (status == SPP_OK) status = read_side(cli, cli->second, &d->b, diag);
  if (status == SPP_OK) status = compare(cli, d, diag);
  if (status == SPP_OK) status = spp_setup_report(&d->a.cli, &d->a.setup, &d->a.job, true, &d->report, diag);
  d->style = spp_setup_style(cli);
  return status == SPP_OK
             ? spp_answer_give(cli, &(struct spp_answer){d, as_text, as_json, as_csv, NULL}, diag)
             : status;
}

enum spp_status spp_run_diff(struct spp_cli *cli, struct spp_diag *diag) {
  struct diffing *d = calloc(1, sizeof *d);
  if (!d) return spp_diag_oom(diag);
  enum spp_status status = run(cli, d, diag);
  spp_arena_free(&d->a.cli.arena);
  spp_arena_free(&d->b.cli.arena);
  free(d);
  return status;
}
