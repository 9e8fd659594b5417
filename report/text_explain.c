/* --explain: the ledgers behind a prediction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "report/text.h"

static void title(const char *text, const struct spp_text_style *style, struct spp_str *out) {
  spp_str_addc(out, '\n');
  spp_text_line(style, NULL, SPP_TONE_TITLE, text, out);
}

enum { NARROW = 90 }; /* below, tables leave out their less telling columns */

/* "4096 x 3584 bf16"; rows that are plain bytes have no shape. */
static const char *shape_words(const struct spp_ledger_entry *entry, char *buf, size_t size) {
  const char *dtype = spp_dtype_name(entry->dtype);
  long long rows = entry->rows, cols = entry->cols, copies = entry->copies;
  if (entry->dtype == SPP_DTYPE_INT8 && cols <= 1 && copies == 1)
    snprintf(buf, size, "bytes");
  else if (cols <= 1)
    snprintf(buf, size, copies == 1 ? "%lld %s" : "%lld %s, x %lld", rows, dtype, copies);
  else
    snprintf(buf, size, copies == 1 ? "%lld x %lld %s" : "%lld x %lld %s, x %lld", rows, cols, dtype, copies);
  return buf;
}

/* "always", "loss", "loss..step": phases follow one another, and so do those a tensor lives in. */
static const char *lives_words(const struct spp_job *job, unsigned live, char *buf, size_t size) {
  int first = SPP_PHASE_COUNT, last = -1;
  for (int moment = 0; moment < SPP_MOMENT_COUNT; moment++) {
    int phase = (int)spp_moment_phase((enum spp_moment)moment);
    if (!(live & SPP_LIVE(moment)) || !spp_phase_words(job, (enum spp_phase)phase)) continue;
    if (phase < first) first = phase;
    if (phase > last) last = phase;
  }
  if ((live & SPP_LIVE_ALWAYS) == SPP_LIVE_ALWAYS || last < 0)
    snprintf(buf, size, last < 0 ? "never" : "always");
  else if (first == last)
    snprintf(buf, size, "%s", spp_phase_words(job, (enum spp_phase)first));
  else
    snprintf(buf, size, "%s..%s", spp_phase_words(job, (enum spp_phase)first),
             spp_phase_words(job, (enum spp_phase)last));
  return buf;
}

/* Rows of one stage that `keep` accepts, largest first (stable). */
static int pick(const struct spp_ledger *ledger, int64_t stage, bool (*keep)(const struct spp_ledger_entry *),
                int *rows) {
  int count = 0;
  for (int i = 0; i < ledger->count; i++) {
    int at = count;
    if (ledger->entries[i].stage != stage || !keep(&ledger->entries[i])) continue;
    for (; at > 0 && llabs(ledger->entries[rows[at - 1]].bytes) < llabs(ledger->entries[i].bytes); at--)
      rows[at] = rows[at - 1];
    rows[at] = i;
    count++;
  }
  return count;
}

static bool any_bytes(const struct spp_ledger_entry *entry) {
  return entry->bytes != 0;
}
static bool in_layer(const struct spp_ledger_entry *entry) {
  enum spp_part part = entry->tensor->part;
  return entry->bytes != 0 &&
         (part == SPP_PART_ACTIVATIONS || part == SPP_PART_LAYER_INPUTS || part == SPP_PART_TRANSIENT);
}

static void ledger_row(struct spp_table *table, const struct spp_job *job,
                       const struct spp_ledger_entry *entry, unsigned peak,
                       const struct spp_text_style *style) {
  char bytes[32], shape[96], lives[64];
  spp_table_cell(table, entry->live & peak ? "*" : "");
  spp_table_cell(table,
                 style->verbose ? spp_int_print(entry->bytes, bytes) : spp_bytes_print(entry->bytes, bytes));
  spp_table_cell(table, spp_part_words(job, entry->tensor->part));
  if (style->width >= NARROW) {
    spp_table_cell(table, shape_words(entry, shape, sizeof shape));
    spp_table_cell(table, lives_words(job, entry->live, lives, sizeof lives));
  }
  spp_table_cellf(table, "%s: %s", entry->tensor->name, entry->tensor->why ? entry->tensor->why : "");
}

static void ledger_table(const struct spp_predict_report *answer,
                         bool (*keep)(const struct spp_ledger_entry *), const struct spp_text_style *style,
                         struct spp_str *out) {
  static const char *const wide[] = {"", "bytes", "part", "shape", "lives in", "tensor: why"};
  static const char *const narrow[] = {"", "bytes", "part", "tensor: why"};
  const struct spp_ledger *ledger = answer->ledger;
  int rows[SPP_LEDGER_MAX];
  int count = pick(ledger, answer->prediction->memory.worst_stage, keep, rows);
  struct spp_table table;
  spp_table_init(&table, style->width >= NARROW ? "lrllll" : "lrll");
  spp_table_header(&table, style->width >= NARROW ? wide : narrow);
  for (int i = 0; i < count; i++)
    ledger_row(&table, answer->job, &ledger->entries[rows[i]],
               SPP_LIVE(answer->prediction->memory.peak_moment), style);
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  if (ledger->overflow) spp_str_add(out, "(more rows than the ledger holds)\n");
}

static void explain_memory(const struct spp_predict_report *answer, const struct spp_text_style *style,
                           struct spp_str *out) {
  const struct spp_memory *memory = &answer->prediction->memory;
  char line[160];
  snprintf(line, sizeof line,
           "Memory of rank %lld (pipeline stage %lld), largest first; * is alive at the peak (%s)",
           (long long)memory->worst_rank, (long long)memory->worst_stage,
           spp_phase_words(answer->job, spp_moment_phase(memory->peak_moment)));
  title(line, style, out);
  ledger_table(answer, any_bytes, style, out);
}

static void explain_layer(const struct spp_predict_report *answer, const struct spp_text_style *style,
                          struct spp_str *out) {
  const struct spp_memory *memory = &answer->prediction->memory;
  char kept[32], checkpoint[32], line[200];
  title("What the layers keep for the backward pass, and what one layer needs while it works", style, out);
  for (int i = 0; i < answer->job->arch->kind_count; i++) {
    const struct spp_layer_kind *kind = &answer->job->arch->kinds[i];
    snprintf(line, sizeof line, "%lld %slayers each keep %s with nothing recomputed, %s as laid out",
             (long long)kind->count, kind->moe ? "MoE " : "", spp_bytes_print(memory->kept_bytes[i], kept),
             spp_bytes_print(memory->checkpoint_bytes[i], checkpoint));
    spp_text_line(style, NULL, SPP_TONE_PLAIN, line, out);
  }
  ledger_table(answer, in_layer, style, out);
}

static void comm_row(struct spp_table *table, const struct spp_comm_op *op,
                     const struct spp_text_style *style) {
  char bytes[32], time[32], exposed[32], count[32];
  spp_table_cell(table, spp_seconds_print(op->exposed_s, exposed));
  spp_table_cell(table, spp_seconds_print(op->time_s, time));
  spp_table_cell(table, spp_int_print(op->count_per_step, count));
  spp_table_cell(table, style->verbose ? spp_int_print(op->sent_bytes, bytes)
                                       : spp_bytes_print_decimal(op->sent_bytes, bytes));
  if (style->width >= NARROW) {
    spp_table_cellf(table, "%s over %s %lld", spp_collective_name(op->op), spp_group_name(op->group),
                    (long long)op->ranks);
    spp_table_cell(table, spp_pass_name(op->pass));
    spp_table_cell(table, op->overlap == SPP_OVERLAP_NONE ? "-" : spp_overlap_name(op->overlap));
  }
  spp_table_cellf(table, style->width >= NARROW ? "%s" : "%s, %s over %s %lld", op->what,
                  spp_collective_name(op->op), spp_group_name(op->group), (long long)op->ranks);
}

static void explain_comm(const struct spp_predict_report *answer, const struct spp_text_style *style,
                         struct spp_str *out) {
  static const char *const wide[] = {"exposed",    "time", "times",  "sent each",
                                     "collective", "pass", "behind", "what"};
  static const char *const narrow[] = {"exposed", "time", "times", "sent each", "what"};
  const struct spp_comm *comm = &answer->prediction->comm;
  char bytes[32], line[64];
  struct spp_table table;
  snprintf(line, sizeof line, "Communication of one GPU in one %s", spp_job_round(answer->job));
  title(line, style, out);
  spp_table_init(&table, style->width >= NARROW ? "rrrrllll" : "rrrrl");
  spp_table_header(&table, style->width >= NARROW ? wide : narrow);
  for (int i = 0; i < comm->count; i++)
    comm_row(&table, &comm->ops[i], style);
  if (comm->count) spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  if (comm->count)
    spp_str_addf(out, "sent per %s: %s\n", spp_job_round(answer->job),
                 spp_bytes_print_decimal(comm->sent_bytes_per_step, bytes));
  else
    spp_str_add(out, "none\n");
}

static void explain_time(const struct spp_predict_report *answer, const struct spp_text_style *style,
                         struct spp_str *out) {
  static const char *const header[] = {"part", "seconds", "share", "what"};
  const struct spp_time *time = &answer->prediction->time;
  char seconds[32], share[32];
  struct spp_table table;
  title(answer->job->mode == SPP_MODE_INFER ? "One pass" : "One step", style, out);
  spp_table_init(&table, "lrrl");
  spp_table_header(&table, header);
  for (int i = 0; i < spp_time_part_count; i++) {
    double part = spp_fact_time_part(time, i);
    if (answer->job->mode == SPP_MODE_INFER && !(part > 0)) continue; /* no optimizer, no sharded states */
    spp_table_cell(&table, spp_time_parts[i].name);
    spp_table_cell(&table, spp_seconds_print(part, seconds));
    spp_table_cellf(&table, "%s %%", spp_text_percent(time->step_s > 0 ? part / time->step_s : 0, share));
    spp_table_cell(&table, spp_time_parts[i].label);
  }
  spp_table_cell(&table, spp_job_round(answer->job));
  spp_table_cell(&table, spp_seconds_print(time->step_s, seconds));
  spp_table_end_row(&table);
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
}

static void sensitivity_row(struct spp_table *table, const struct spp_sensitivity *row, bool wide) {
  char change[32], gib[32], usd[32];
  spp_table_cell(table, row->what);
  if (!row->possible) {
    spp_table_cell(table, "-");
    spp_table_cell(table, "");
    if (wide) spp_table_cell(table, "");
    spp_table_cell(table, row->why_not);
    return;
  }
  spp_table_cell(table, spp_text_signed_percent(1 + row->speed, change));
  spp_table_cell(table, spp_text_gib(row->device_bytes, gib));
  if (wide)
    spp_table_cell(table,
                   row->usd_per_million_tokens > 0 ? spp_text_rate(row->usd_per_million_tokens, usd) : "");
  spp_table_cell(table, !row->searched     ? "nothing else changed"
                        : row->same_layout ? "same layout"
                                           : row->layout);
}

static void explain_sensitivity(const struct spp_predict_report *answer, const struct spp_text_style *style,
                                struct spp_str *out) {
  static const char *const wide[] = {"change", "tok/s", "GiB", "USD/Mtok", "best then"};
  static const char *const narrow[] = {"change", "tok/s", "GiB", "best then"};
  struct spp_table table;
  bool room = style->width >= NARROW;
  title("What one thing more, or less, would change", style, out);
  spp_table_init(&table, room ? "lrrrl" : "lrrl");
  spp_table_header(&table, room ? wide : narrow);
  for (int i = 0; i < answer->sensitivity_count; i++)
    sensitivity_row(&table, &answer->sensitivities[i], room);
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
}

static void explain_logs(const struct spp_predict_report *answer, const struct spp_text_style *style,
                         struct spp_str *out) {
  static const char *const header[] = {"a log of", "TFLOP/s a GPU", "MFU", "look for"};
  const struct spp_prediction *p = answer->prediction;
  struct spp_table table;
  char rate[32], share[32];
  title("What a training log prints", style, out);
  spp_table_init(&table, "lrrl");
  spp_table_header(&table, header);
  for (int i = SPP_REPORTER_NONE + 1; i < SPP_REPORTER_COUNT; i++) {
    struct spp_log_figures log;
    spp_log_figures((enum spp_reporter)i, answer->job, answer->layout, &p->geometry, &p->time, &log);
    bool own = answer->job->framework->reports == (enum spp_reporter)i;
    spp_table_cellf(&table, "%s%s", log.convention, own ? " *" : "");
    spp_table_cell(&table, spp_text_rate(log.tflops_per_gpu, rate));
    if (log.mfu > 0)
      spp_table_cellf(&table, "%s %%", spp_text_percent(log.mfu, share));
    else
      spp_table_cell(&table, "-");
    spp_table_cell(&table, log.field);
    spp_table_end_row(&table);
  }
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  spp_str_addf(out,
               answer->job->framework->reports == SPP_REPORTER_NONE ? "%s prints none of them\n"
                                                                    : "* what %s prints\n",
               answer->job->framework->display);
}

void spp_text_explain(enum spp_explain part, const struct spp_predict_report *answer,
                      const struct spp_text_style *style, struct spp_str *out) {
  bool all = part == SPP_EXPLAIN_ALL;
  if (all || part == SPP_EXPLAIN_MEMORY) explain_memory(answer, style, out);
  if (part == SPP_EXPLAIN_SENSITIVITY) explain_sensitivity(answer, style, out);
  if (part == SPP_EXPLAIN_LAYER) explain_layer(answer, style, out);
  if (all || part == SPP_EXPLAIN_COMM) explain_comm(answer, style, out);
  if (all || part == SPP_EXPLAIN_TIME) explain_time(answer, style, out);
  if ((all || part == SPP_EXPLAIN_TIME) && answer->job->mode != SPP_MODE_INFER)
    explain_logs(answer, style, out);
}
