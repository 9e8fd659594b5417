/* What stands behind a number: the ledger's tensors, and sentences with formula, values and source. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "report/facts.h"
#include "tui/app.h"

void spp_app_pick_ledger(struct spp_app *app, int part) {
  const struct spp_ledger *ledger = &app->details.ledger;
  const struct spp_plan *plan = app->details.plan;
  app->ledger_count = 0;
  for (int i = 0; plan && i < ledger->count; i++) {
    const struct spp_ledger_entry *entry = &ledger->entries[i];
    int at = app->ledger_count;
    if (entry->bytes == 0 || entry->stage != plan->prediction.memory.worst_stage) continue;
    if (part >= 0 && (int)entry->tensor->part != part) continue;
    for (; at > 0 && llabs(ledger->entries[app->ledger_rows[at - 1]].bytes) < llabs(entry->bytes); at--)
      app->ledger_rows[at] = app->ledger_rows[at - 1];
    app->ledger_rows[at] = i;
    app->ledger_count++;
  }
}

static void explain_tensor(const struct spp_ledger_entry *entry, struct spp_str *out) {
  char bytes[32], exact[32];
  int said = 0;
  spp_str_addf(out, "%s: %s (%s bytes)\n\n", entry->tensor->name, spp_bytes_print(entry->bytes, bytes),
               spp_int_print(entry->bytes, exact));
  if (entry->rows > 0 && entry->cols > 1) {
    spp_str_addf(out, "formula   %lld x %lld elements of %s", (long long)entry->rows, (long long)entry->cols,
                 spp_dtype_name(entry->dtype));
    if (entry->copies != 1) spp_str_addf(out, ", %lld of them at once", (long long)entry->copies);
    spp_str_add(out, "\n");
  } else {
    spp_str_add(out, "formula   a size the library decides, no array of the model\n");
  }
  spp_str_addf(out, "part      %s\n", spp_part_label(entry->tensor->part));
  spp_str_addf(out, "why       %s\nlives in  ",
               entry->tensor->why ? entry->tensor->why : "part of the model");
  if ((entry->live & SPP_LIVE_ALWAYS) == SPP_LIVE_ALWAYS)
    spp_str_add(out, "every phase");
  else
    for (int m = 0; m < SPP_MOMENT_COUNT; m++)
      if (entry->live & SPP_LIVE(m))
        spp_str_addf(out, "%s%s", said++ ? ", " : "", spp_moment_name((enum spp_moment)m));
  spp_str_add(out, "\nsource    docs/memory.md has the formula and where it was read");
}

static void explain_memory(const struct spp_plan *plan, struct spp_str *out) {
  const struct spp_memory *m = &plan->prediction.memory;
  char a[32], b[32], c[32];
  spp_str_addf(out, "device memory %s of %s on rank %lld\n\n", spp_bytes_print(m->device_bytes, a),
               spp_bytes_print(m->capacity_bytes, b), (long long)m->worst_rank);
  spp_str_addf(out, "formula   allocator's peak %s + what it holds unused %s + NCCL and CUDA context %s\n",
               spp_bytes_print(m->peak_bytes, a), spp_bytes_print(m->reserved_bytes - m->peak_bytes, b),
               spp_bytes_print(m->device_bytes - m->reserved_bytes, c));
  spp_str_addf(out, "when      %s; 80 %% of such runs stay within %s and %s\n",
               spp_moment_name(m->peak_moment), spp_bytes_print(m->low_bytes, a),
               spp_bytes_print(m->high_bytes, b));
  spp_str_addf(out, "fits      %s, probability %.0f %%\n", m->fits ? "yes" : "no",
               floor(100 * m->fit_probability));
  spp_str_add(out, "source    docs/memory.md; Enter on a part shows its tensors");
}

static void explain_time(const struct spp_plan *plan, struct spp_str *out) {
  const struct spp_time *t = &plan->prediction.time;
  char a[32], b[32];
  spp_str_addf(out, "one step %s (80 %%: %s to %s)\n\n", spp_seconds_print(t->step_s, a),
               spp_seconds_print(t->low_s, b), spp_seconds_print(t->high_s, (char[32]){0}));
  spp_str_addf(out, "formula   tokens/s = %lld tokens of a step / %s = %s; / %lld GPUs = %s\n",
               (long long)plan->prediction.geometry.real_tokens, a,
               spp_int_print((int64_t)t->tokens_per_s, b), (long long)plan->job.gpus,
               spp_int_print((int64_t)t->tokens_per_s_per_gpu, (char[32]){0}));
  spp_str_addf(out, "MFU       %.1f %% counting the causal half of attention, %.1f %% counting all of it\n",
               100 * t->mfu_causal, 100 * t->mfu_full);
  spp_str_add(out, "source    docs/time.md; the timeline (3) has the parts, which sum to the step");
}

static void explain_plan(const struct spp_plan *plan, struct spp_str *out) {
  char layout[300];
  spp_str_addf(out, "%s · %s\n\n", plan->job.framework->display,
               spp_layout_describe(&plan->job, &plan->layout, layout, sizeof layout));
  explain_time(plan, out);
  spp_str_add(out, "\n\n");
  explain_memory(plan, out);
}

static void explain_part(const struct spp_plan *plan, int part, struct spp_str *out) {
  const struct spp_memory *m = &plan->prediction.memory;
  char a[32], b[32];
  if (part < 0) {
    explain_memory(plan, out);
    return;
  }
  spp_str_addf(out, "%s: %s at the peak, %.1f %% of the card\n\n", spp_part_label((enum spp_part)part),
               spp_bytes_print(m->parts[part], a),
               m->capacity_bytes > 0 ? 100.0 * (double)m->parts[part] / (double)m->capacity_bytes : 0.0);
  spp_str_addf(out, "formula   the sum of its tensors that live in: %s\n", spp_moment_name(m->peak_moment));
  if (m->resident[part] > m->parts[part])
    spp_str_addf(out, "resident  %s, not all of it at the peak\n", spp_bytes_print(m->resident[part], b));
  spp_str_add(out, "source    Enter lists the tensors, each with shape and reason; docs/memory.md");
}

static void explain_comm(const struct spp_plan *plan, int row, struct spp_str *out) {
  const struct spp_comm *comm = &plan->prediction.comm;
  struct spp_comm_sum sums[SPP_COLLECTIVE_COUNT * SPP_GROUP_COUNT];
  int count = spp_fact_comm_sums(comm, sums, (int)(sizeof sums / sizeof sums[0]));
  char a[32], b[32];
  if (row < 0 || row >= count) {
    spp_str_add(out, "nothing is sent");
    return;
  }
  spp_str_addf(out, "%s over %s, %lld ranks: %s a step, %s of it not hidden\n\n",
               spp_collective_name(sums[row].op), spp_group_name(sums[row].group), (long long)sums[row].ranks,
               spp_seconds_print(sums[row].time_s, a), spp_seconds_print(sums[row].exposed_s, b));
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    if (op->op != sums[row].op || op->group != sums[row].group) continue;
    spp_str_addf(out, "%-20s %s: %lld times %s sent", op->what, spp_pass_name(op->pass),
                 (long long)op->count_per_step, spp_bytes_print_decimal(op->sent_bytes, a));
    spp_str_addf(out, ", overlaps %s\n", spp_overlap_name(op->overlap));
  }
  spp_str_add(out, "\nsource    docs/time.md; bytes are what leaves one GPU");
}

static void explain_time_part(const struct spp_plan *plan, int row, struct spp_str *out) {
  const struct spp_time *t = &plan->prediction.time;
  char a[32];
  if (row < 0 || row >= spp_time_part_count) return;
  double part_s = spp_fact_time_part(t, row);
  spp_str_addf(out, "%s: %s, %.1f %% of a step\n\n", spp_time_parts[row].label, spp_seconds_print(part_s, a),
               t->step_s > 0 ? 100 * part_s / t->step_s : 0.0);
  explain_time(plan, out);
}

static void explain_row(const struct spp_app *app, struct spp_str *out) {
  const struct spp_compare_result *result = &app->outcome->compare;
  int at = app->detail[SPP_VIEW_COMPARE].cursor;
  if (!app->outcome->has_compare || at >= result->count) return;
  const struct spp_compare_row *row = &result->rows[at];
  spp_str_addf(out, "%s\n\n", row->name);
  if (row->legal)
    explain_plan(&row->plan, out);
  else
    spp_str_addf(out, "not legal: %s", row->why_not);
}

static void explain_advice(const struct spp_app *app, struct spp_str *out) {
  const struct spp_plan_details *d = &app->details;
  int at = app->detail[SPP_VIEW_WHY].cursor;
  if (at < d->warning_count)
    spp_str_add(out, d->warnings[at].text);
  else if ((at -= d->warning_count) < d->next_count)
    spp_str_add(out, d->next[at].text);
  else if ((at -= d->next_count) < d->why_not_count)
    spp_str_add(out, d->why_not[at].text);
}

static void explain_detail(const struct spp_app *app, const struct spp_plan *plan, struct spp_str *out) {
  int row = app->detail[app->view].cursor;
  switch (app->view) {
  case SPP_VIEW_MEMORY: explain_part(plan, spp_app_memory_part(plan, row), out); break;
  case SPP_VIEW_COMM: explain_comm(plan, row, out); break;
  case SPP_VIEW_TIME: explain_time_part(plan, spp_app_time_part(plan, row), out); break;
  case SPP_VIEW_COMPARE: explain_row(app, out); break;
  case SPP_VIEW_WHY: explain_advice(app, out); break;
  case SPP_VIEW_COUNT: break;
  }
}

void spp_app_explain(struct spp_app *app) {
  const struct spp_plan *plan = spp_app_selected(app);
  enum spp_overlay overlay = spp_app_overlay(app);
  struct spp_str out;
  int row = app->overlay_count > 0 ? app->overlay[app->overlay_count - 1].cursor : 0;
  if (!plan || (overlay != SPP_OVERLAY_NONE && overlay != SPP_OVERLAY_LEDGER)) return;
  spp_str_init(&out);
  if (overlay == SPP_OVERLAY_LEDGER) {
    if (row < app->ledger_count) explain_tensor(&app->details.ledger.entries[app->ledger_rows[row]], &out);
  } else if (app->focus == SPP_PANE_DETAIL) {
    explain_detail(app, plan, &out);
  } else {
    explain_plan(plan, &out);
  }
  snprintf(app->text_title, sizeof app->text_title, "Where this comes from");
  snprintf(app->text, sizeof app->text, "%s", spp_str_text(&out));
  if (out.len > 0) spp_app_open(app, SPP_OVERLAY_TEXT);
  spp_str_free(&out);
}
