/* The page of `report`: one plan with everything behind it. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "model/calib.h"
#include "model/launch.h"
#include "report/html.h"
#include "report/text.h"

static void head(const struct spp_html_report *r, const struct spp_plan *plan, struct spp_str *out) {
  const struct spp_job *job = &plan->job;
  char text[640], layout[320], seq[32];
  snprintf(text, sizeof text, "%s, %s tokens, %lld x %s", job->arch->display,
           spp_int_print(job->seq_tokens, seq), (long long)job->gpus, job->gpu->display);
  spp_html_element(out, "h1", NULL, text);
  snprintf(text, sizeof text, "%s · %s · %s fine-tune, %s%s", job->framework->display,
           spp_layout_describe(job, &plan->layout, layout, sizeof layout), spp_method_name(job->method),
           spp_dtype_name(spp_job_format(job)),
           r->report->searched_frameworks > 1 ? " · the best of all frameworks searched" : "");
  spp_html_element(out, "p", "dim", text);
}

static void figure(struct spp_str *out, const char *value, const char *what) {
  spp_str_add(out, "<div>");
  spp_html_element(out, "b", NULL, value);
  spp_html_element(out, "span", NULL, what);
  spp_str_add(out, "</div>\n");
}

static void verdict(const struct spp_plan *plan, struct spp_str *out) {
  const struct spp_memory *m = &plan->prediction.memory;
  const struct spp_time *t = &plan->prediction.time;
  bool fits = m->fits && m->host_fits;
  char value[96], what[160], a[32], b[32];
  spp_html_element(out, "p", fits ? "good" : "bad",
                   fits ? "FITS" : "DOES NOT FIT: the nearest layout is shown");
  spp_str_add(out, "<div class=\"figures\">\n");
  snprintf(what, sizeof what, "of %s a GPU; 80 %%: %s to %.1f", spp_bytes_print(m->capacity_bytes, a),
           spp_text_gib(m->low_bytes, b), (double)m->high_bytes / SPP_GIB);
  figure(out, spp_bytes_print(m->device_bytes, value), what);
  snprintf(value, sizeof value, "%s tok/s", spp_text_rate(t->tokens_per_s_per_gpu, a));
  snprintf(what, sizeof what, "a GPU; %s in all", spp_text_rate(t->tokens_per_s, b));
  figure(out, value, what);
  snprintf(what, sizeof what, "a %s; 80 %%: %s to %s", spp_job_round(&plan->job),
           spp_seconds_print(t->low_s, a), spp_seconds_print(t->high_s, b));
  figure(out, spp_seconds_print(t->step_s, value), what);
  snprintf(value, sizeof value, "%s %%", spp_text_percent(t->mfu_causal, a));
  snprintf(what, sizeof what, "MFU, causal; %s %% with full attention counted",
           spp_text_percent(t->mfu_full, b));
  figure(out, value, what);
  spp_str_add(out, "</div>\n");
}

static void memory(const struct spp_html_report *r, const struct spp_plan *plan, struct spp_str *out) {
  static const char *const heads[] = {"part", "at the peak", "bytes", "share", "resident"};
  const struct spp_memory *m = &plan->prediction.memory;
  char a[32], b[32], c[32], d[32], text[160];
  struct spp_html_table t;
  snprintf(text, sizeof text, "Memory of the fullest GPU (rank %lld), phase by phase",
           (long long)m->worst_rank);
  spp_html_section(out, text);
  spp_html_memory(&plan->job, m, r->ledger, out);
  snprintf(text, sizeof text, "The red mark is the card: %s. The peak is in: %s.",
           spp_bytes_print(m->capacity_bytes, a), spp_moment_name(m->peak_moment));
  spp_html_element(out, "p", "dim", text);
  spp_html_table(&t, "lrrrr", heads, out);
  for (int p = 0; p < SPP_PART_COUNT; p++) {
    if (m->parts[p] <= 0 && m->resident[p] <= 0) continue;
    spp_html_cell(&t, "%s", spp_part_label((enum spp_part)p));
    spp_html_cell(&t, "%s", spp_bytes_print(m->parts[p], a));
    spp_html_cell(&t, "%s", spp_int_print(m->parts[p], b));
    spp_html_cell(&t, "%s %%",
                  spp_text_percent((double)m->parts[p] / (double)spp_max64(1, m->device_bytes), c));
    spp_html_cell(&t, "%s", m->resident[p] > 0 ? spp_bytes_print(m->resident[p], d) : "");
  }
  spp_html_table_end(&t);
  spp_html_section_end(out);
}

/* Indices of the largest entries, largest first (stable). */
static int largest(const struct spp_ledger *ledger, int *at, int most) {
  int count = 0;
  for (int i = 0; i < ledger->count; i++) {
    int k = count < most ? count : most;
    while (k > 0 && ledger->entries[at[k - 1]].bytes < ledger->entries[i].bytes)
      k--;
    if (k == most) continue;
    if (count < most) count++;
    memmove(&at[k + 1], &at[k], (size_t)(count - k - 1) * sizeof *at);
    at[k] = i;
  }
  return count;
}

enum { TENSORS = 15 };
static void tensors(const struct spp_ledger *ledger, struct spp_str *out) {
  static const char *const heads[] = {"tensor", "shape", "copies", "size", "why"};
  int at[TENSORS], count = largest(ledger, at, TENSORS);
  char bytes[32];
  struct spp_html_table t;
  spp_html_section(out, "The largest tensors on that GPU");
  spp_html_table(&t, "llrrl", heads, out);
  for (int i = 0; i < count; i++) {
    const struct spp_ledger_entry *e = &ledger->entries[at[i]];
    spp_html_cell(&t, "%s", e->tensor->name);
    spp_html_cell(&t, "%lld x %lld %s", (long long)e->rows, (long long)e->cols, spp_dtype_name(e->dtype));
    spp_html_cell(&t, "%lld", (long long)e->copies);
    spp_html_cell(&t, "%s", spp_bytes_print(e->bytes, bytes));
    spp_html_cell(&t, "%s", e->tensor->why);
  }
  spp_html_table_end(&t);
  spp_html_section_end(out);
}

static void communication(const struct spp_comm *comm, struct spp_str *out) {
  static const char *const heads[] = {"operation", "what",     "group", "pass",   "a step",
                                      "sent each", "messages", "time",  "exposed"};
  char a[32], b[32], c[32];
  struct spp_html_table t;
  spp_html_section(out, "Communication of one GPU");
  spp_html_table(&t, "llllrrrrr", heads, out);
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    spp_html_cell(&t, "%s", spp_collective_name(op->op));
    spp_html_cell(&t, "%s", op->what);
    spp_html_cell(&t, "%s of %lld", spp_group_name(op->group), (long long)op->ranks);
    spp_html_cell(&t, "%s", spp_pass_name(op->pass));
    spp_html_cell(&t, "%lld", (long long)op->count_per_step);
    spp_html_cell(&t, "%s", spp_bytes_print_decimal(op->sent_bytes, a));
    spp_html_cell(&t, "%lld", (long long)op->messages);
    spp_html_cell(&t, "%s", spp_seconds_print(op->time_s, b));
    spp_html_cell(&t, "%s", spp_seconds_print(op->exposed_s, c));
  }
  spp_html_table_end(&t);
  if (comm->count == 0) spp_html_element(out, "p", "dim", "Nothing is sent.");
  spp_html_section_end(out);
}

static void step(const struct spp_html_report *r, const struct spp_plan *plan, struct spp_str *out) {
  static const char *const heads[] = {"part of the step", "time", "share"};
  const struct spp_time *time = &plan->prediction.time;
  char a[32], b[32];
  struct spp_html_table t;
  spp_html_section(out, plan->job.mode == SPP_MODE_INFER ? "One pass" : "One step");
  if (r->timeline)
    spp_html_timeline(r->timeline, out);
  else
    spp_html_element(out, "p", "dim", "Too many micro-batches to draw.");
  spp_html_table(&t, "lrr", heads, out);
  for (int i = 0; i < spp_time_part_count; i++) {
    double part = spp_fact_time_part(time, i);
    if (!(part > 0)) continue;
    spp_html_cell(&t, "%s", spp_time_parts[i].label);
    spp_html_cell(&t, "%s", spp_seconds_print(part, a));
    spp_html_cell(&t, "%s %%", spp_text_percent(part / time->step_s, b));
  }
  spp_html_table_end(&t);
  spp_html_section_end(out);
}

static void alternatives(const struct spp_search_result *search, struct spp_str *out) {
  static const char *const heads[] = {"", "memory", "tok/s a GPU", "step", "framework and layout"};
  char a[32], b[32], c[32], layout[320];
  struct spp_html_table t;
  if (search->count == 0) return;
  spp_html_section(out, "Alternatives");
  if (search->count > 1) spp_html_front(search, out);
  spp_html_table(&t, "rrrrl", heads, out);
  for (int i = 0; i < search->count; i++) {
    const struct spp_plan *plan = &search->plans[i];
    const struct spp_prediction *p = &plan->prediction;
    snprintf(a, sizeof a, "%d", i + 1);
    spp_html_cell(&t, "%s", i < search->top_count ? a : "");
    spp_html_cell(&t, "%s", spp_bytes_print(p->memory.device_bytes, a));
    spp_html_cell(&t, "%s", spp_text_rate(p->time.tokens_per_s_per_gpu, b));
    spp_html_cell(&t, "%s", spp_seconds_print(p->time.step_s, c));
    spp_html_cell(&t, "%s · %s", plan->job.framework->name,
                  spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
  }
  spp_html_table_end(&t);
  spp_html_section_end(out);
}

static void advice(struct spp_str *out, const char *heading, const struct spp_advice *items, int count) {
  if (count <= 0) return;
  spp_html_section(out, heading);
  spp_str_add(out, "<ul>\n");
  for (int i = 0; i < count; i++)
    spp_html_element(out, "li", NULL, items[i].text);
  spp_str_add(out, "</ul>\n");
  spp_html_section_end(out);
}

static void rejections(const struct spp_search_result *search, struct spp_str *out) {
  static const char *const heads[] = {"layouts", "fell to", "for example"};
  struct spp_html_table t;
  if (search->rejection_count == 0) return;
  spp_html_section(out, "What was in the way of the others");
  spp_html_table(&t, "rll", heads, out);
  for (int i = 0; i < search->rejection_count && i < 12; i++) {
    spp_html_cell(&t, "%lld", (long long)search->rejections[i].count);
    spp_html_cell(&t, "%s", search->rejections[i].reason);
    spp_html_cell(&t, "%s", search->rejections[i].example);
  }
  spp_html_table_end(&t);
  spp_html_section_end(out);
}

static void launch(const struct spp_plan *plan, struct spp_str *out) {
  struct spp_str command;
  spp_str_init(&command);
  spp_framework_launch(&plan->job, &plan->layout, &command);
  if (command.len > 0) {
    spp_html_section(out, "Launch");
    spp_html_element(out, "pre", NULL, spp_str_text(&command));
    spp_html_section_end(out);
  }
  if (command.failed) out->failed = true;
  spp_str_free(&command);
}

static void sources(const struct spp_plan *plan, struct spp_str *out) {
  static const char *const heads[] = {"figure", "read in"};
  const struct spp_framework *f = plan->job.framework;
  const struct spp_calib *calib = plan->job.calib;
  struct spp_html_table t;
  char text[400];
  spp_html_section(out, "Where the figures come from");
  snprintf(text, sizeof text, "Rates: calibration %s, %s; 1-sigma error of a step from them %.0f %%.",
           calib->name,
           calib->measured ? "measured on this GPU" : "shares of a sibling GPU on this one's data sheet",
           100 * calib->sigma);
  spp_html_element(out, "p", NULL, text);
  snprintf(text, sizeof text, "Behaviour: %s (%s).", f->display, f->version);
  spp_html_element(out, "p", NULL, text);
  spp_str_add(out, "<details>\n");
  snprintf(text, sizeof text, "%d figures of the framework and their sources", f->source_count);
  spp_html_element(out, "summary", NULL, text);
  spp_html_table(&t, "ll", heads, out);
  for (int i = 0; i < f->source_count; i++) {
    spp_html_cell(&t, "%s", f->sources[i].key);
    spp_html_cell(&t, "%s", f->sources[i].text);
  }
  spp_html_table_end(&t);
  spp_str_add(out, "</details>\n");
  spp_html_section_end(out);
}

void spp_html_plan(const struct spp_html_report *r, struct spp_str *out) {
  const struct spp_plan *plan = r->plan;
  struct spp_advice items[SPP_MAX_ADVICE];
  spp_html_open(out, "spplan report");
  head(r, plan, out);
  verdict(plan, out);
  advice(out, "Warnings", items, spp_fact_warnings(r->report, plan, items, SPP_MAX_ADVICE));
  memory(r, plan, out);
  tensors(r->ledger, out);
  step(r, plan, out);
  communication(&plan->prediction.comm, out);
  alternatives(r->search, out);
  advice(out, "Why not", items, spp_advise_why_not(plan, items, SPP_MAX_ADVICE));
  advice(out, "Worth knowing", items, spp_advise_next(plan, items, SPP_MAX_ADVICE));
  rejections(r->search, out);
  launch(plan, out);
  advice(out, "Assumed", items, spp_fact_assumed(r->report, plan, true, items, SPP_MAX_ADVICE));
  sources(plan, out);
  spp_html_close(out);
}
