/* The answers that are tables: compare, sweep, degrees, alloc, list. */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/units.h"
#include "base/utf8.h"
#include "report/text.h"

enum { NARROW = 90 }; /* below, tables leave out their less telling columns */

/* Memory, speed and, where there is room, what a GPU sends in a step and the share of the step that waits for
 * it; "OOM" stands beside a need that does not fit. */
static void plan_cells(struct spp_table *table, const struct spp_plan *plan,
                       const struct spp_text_style *style) {
  const struct spp_memory *memory = &plan->prediction.memory;
  const struct spp_time *time = &plan->prediction.time;
  char gib[32], rate[32], sent[32], exposed[32];
  double hidden =
      time->sp_exposed_s + time->tp_exposed_s + time->pp_exposed_s + time->dp_exposed_s + time->ep_exposed_s;
  spp_table_cellf(table, "%s%s", spp_text_gib(memory->device_bytes, gib),
                  memory->fits && memory->host_fits ? "" : " OOM");
  spp_table_cell(table, spp_text_rate(time->tokens_per_s_per_gpu, rate));
  if (style->width < NARROW) return;
  spp_table_cell(table, spp_bytes_print_decimal(plan->prediction.comm.sent_bytes_per_step, sent));
  spp_table_cellf(table, "%s %%", spp_text_percent(time->step_s > 0 ? hidden / time->step_s : 0, exposed));
}

static void print_and_free(struct spp_table *table, const struct spp_text_style *style, struct spp_str *out) {
  spp_table_print(table, 0, style->width, out);
  spp_table_free(table);
}

static void legend(const struct spp_report *report, const struct spp_text_style *style, struct spp_str *out) {
  if (style->width >= NARROW && !style->quiet)
    spp_text_line(
        style, NULL, SPP_TONE_DIM,
        report->spec->mode == SPP_MODE_INFER
            ? "sent: bytes that leave a GPU in a pass; exposed: share of the pass that waits for them"
            : "sent: bytes that leave a GPU in a step; exposed: share of the step that waits for them",
        out);
}

static const struct spp_compare_row *first_legal(const struct spp_compare_result *result) {
  for (int i = 0; i < result->count; i++)
    if (result->rows[i].legal) return &result->rows[i];
  return NULL;
}

/* "illegal" and empty cells up to the last column, which says why. */
static void illegal_cells(struct spp_table *table, int cells, const char *why_not) {
  for (int i = 0; i < cells; i++)
    spp_table_cell(table, i == 0 ? "illegal" : "");
  spp_table_cell(table, why_not);
}

static void compare_row(struct spp_table *table, const struct spp_compare_row *row,
                        const struct spp_text_style *style) {
  const char *name = style->width < NARROW ? row->name : "", *colon = style->width < NARROW ? ": " : "";
  char described[320], words[700];
  if (style->width >= NARROW) spp_table_cell(table, row->name);
  if (!row->legal) {
    snprintf(words, sizeof words, "%s%s%s", name, colon, row->why_not);
    illegal_cells(table, style->width < NARROW ? 2 : 4, words);
    return;
  }
  plan_cells(table, &row->plan, style);
  spp_table_cellf(table, "%s%s%s · %s", name, colon, row->plan.job.framework->name,
                  spp_layout_describe(&row->plan.job, &row->plan.layout, described, sizeof described));
}

void spp_text_compare(const struct spp_report *report, const struct spp_compare_result *result,
                      const struct spp_text_style *style, struct spp_str *out) {
  static const char *const wide[] = {"strategy", "GiB", "tok/s/GPU", "sent", "exposed", "layout, or why not"};
  static const char *const narrow[] = {"GiB", "tok/s/GPU", "strategy: layout, or why not"};
  const struct spp_compare_row *any = first_legal(result);
  struct spp_table table;
  char seq[32], line[200];
  if (any) spp_text_headline(report, &any->plan.job, style, out);
  spp_text_warnings(report, NULL, style, out);
  spp_str_addc(out, '\n');
  spp_table_init(&table, style->width < NARROW ? "rrl" : "lrrrrl");
  spp_table_header(&table, style->width < NARROW ? narrow : wide);
  for (int i = 0; i < result->count; i++)
    compare_row(&table, &result->rows[i], style);
  print_and_free(&table, style, out);
  legend(report, style, out);
  if (result->crossover_count) spp_str_addc(out, '\n');
  for (int i = 0; i < result->crossover_count; i++) {
    snprintf(line, sizeof line, "from %s tokens on, %s is faster than %s",
             spp_int_print(result->crossovers[i].seq_tokens, seq), result->crossovers[i].to,
             result->crossovers[i].from);
    spp_text_line(style, NULL, SPP_TONE_PLAIN, line, out);
  }
}

static void sweep_row(struct spp_table *table, const struct spp_sweep *sweep,
                      const struct spp_sweep_point *point, const struct spp_text_style *style) {
  char described[320];
  for (int v = 0; v < sweep->variable_count; v++)
    spp_table_cell(table, point->values[v]);
  if (!point->plan) {
    illegal_cells(table, style->width < NARROW ? 2 : 4, point->why_not);
    return;
  }
  plan_cells(table, point->plan, style);
  spp_table_cellf(table, "%s · %s", point->plan->job.framework->name,
                  spp_layout_describe(&point->plan->job, &point->plan->layout, described, sizeof described));
}

void spp_text_sweep(const struct spp_report *report, const struct spp_sweep *sweep,
                    const struct spp_text_style *style, struct spp_str *out) {
  static const char *const wide[] = {"GiB", "tok/s/GPU", "sent", "exposed", "layout, or why not"};
  static const char *const narrow[] = {"GiB", "tok/s/GPU", "layout, or why not"};
  bool is_narrow = style->width < NARROW;
  const char *header[SPP_SWEEP_MAX_VARIABLES + 5] = {0};
  char align[SPP_SWEEP_MAX_VARIABLES + 6] = "";
  struct spp_table table;
  int n = sweep->variable_count;
  for (int v = 0; v < n; v++)
    header[v] = sweep->variables[v];
  memcpy(header + n, is_narrow ? narrow : wide, is_narrow ? sizeof narrow : sizeof wide);
  memset(align, 'r', (size_t)n + (is_narrow ? 2 : 4));
  align[n + (is_narrow ? 2 : 4)] = 'l';
  spp_table_init(&table, align);
  spp_table_header(&table, header);
  for (int i = 0; i < sweep->count; i++)
    sweep_row(&table, sweep, &sweep->points[i], style);
  print_and_free(&table, style, out);
  legend(report, style, out);
}

static bool shown_illegal(const struct spp_degree *degree, const struct spp_text_style *style) {
  bool power_of_two = (degree->degree & (degree->degree - 1)) == 0; /* the ones people try */
  return !degree->legal && (power_of_two || style->verbose);
}

/* "3, 5-7, 9": degrees that fell to the rule of the first, marked done. */
static void same_rule(const struct spp_degree *degrees, int first, int count,
                      const struct spp_text_style *style, bool *done, struct spp_str *out) {
  for (int i = first; i < count; i++) {
    int last = i;
    if (done[i] || !shown_illegal(&degrees[i], style) || strcmp(degrees[i].rule, degrees[first].rule) != 0)
      continue;
    while (last + 1 < count && degrees[last + 1].degree == degrees[last].degree + 1 &&
           shown_illegal(&degrees[last + 1], style) &&
           strcmp(degrees[last + 1].rule, degrees[first].rule) == 0)
      last++;
    for (int k = i; k <= last; k++)
      done[k] = true;
    spp_str_addf(out, i > first ? ", %lld" : "%lld", (long long)degrees[i].degree);
    if (last > i) spp_str_addf(out, last > i + 1 ? "-%lld" : ", %lld", (long long)degrees[last].degree);
    i = last;
  }
}

/* Illegal degrees: those of one rule together, with the words of the first. */
static void illegal_rows(const struct spp_degree *degrees, int count, const struct spp_text_style *style,
                         struct spp_str *out) {
  bool done[SPP_MAX_DEGREES] = {false};
  for (int i = 0; i < count; i++) {
    struct spp_str same;
    struct spp_para para;
    if (done[i] || !shown_illegal(&degrees[i], style)) continue;
    spp_str_init(&same);
    same_rule(degrees, i, count, style, done, &same);
    spp_para_begin(&para, style, "", out);
    spp_para_item(&para, SPP_TONE_PLAIN, "not %s: %s: %s", spp_str_text(&same), degrees[i].rule,
                  degrees[i].text);
    spp_para_end(&para);
    spp_str_free(&same);
  }
}

static bool is_split(const struct spp_degree *degree) {
  return degree->ulysses > 1 && degree->ring > 1;
}

static void degree_rows(const char *axis, const struct spp_degree *degrees, int count,
                        const struct spp_text_style *style, struct spp_str *out) {
  enum { LONG_RUN = 4 }; /* consecutive degrees that read better as a range */
  struct spp_para legal;
  spp_para_begin(&legal, style, axis, out);
  for (int i = 0; i < count; i++) {
    int last = i;
    if (!degrees[i].legal) continue;
    if (is_split(&degrees[i])) {
      spp_para_item(&legal, SPP_TONE_GOOD, "%lld = %lld x %lld", (long long)degrees[i].degree,
                    (long long)degrees[i].ulysses, (long long)degrees[i].ring);
      continue;
    }
    while (last + 1 < count && degrees[last + 1].legal && !is_split(&degrees[last + 1]) &&
           degrees[last + 1].degree == degrees[last].degree + 1)
      last++;
    if (last < i + LONG_RUN) last = i;
    spp_para_item(&legal, SPP_TONE_GOOD, last > i ? "%lld-%lld" : "%lld", (long long)degrees[i].degree,
                  (long long)degrees[last].degree);
    i = last;
  }
  spp_para_end(&legal);
  if (!style->quiet) illegal_rows(degrees, count, style, out);
}

void spp_text_degrees(const struct spp_report *report, const struct spp_job *job,
                      const struct spp_degrees *degrees, const struct spp_text_style *style,
                      struct spp_str *out) {
  const struct spp_arch *arch = job->arch;
  struct spp_para para;
  spp_para_begin(&para, style, NULL, out);
  spp_para_item(&para, SPP_TONE_TITLE, "%s", arch->display);
  spp_para_item(&para, SPP_TONE_PLAIN, "%lld heads, %lld KV heads", (long long)arch->heads,
                (long long)arch->kv_heads);
  if (arch->experts) spp_para_item(&para, SPP_TONE_PLAIN, "%lld experts", (long long)arch->experts);
  if (job->gpus > 0) spp_para_item(&para, SPP_TONE_PLAIN, "%lld GPUs", (long long)job->gpus);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s", job->framework->display);
  spp_para_end(&para);
  spp_text_warnings(report, NULL, style, out);
  spp_text_line(style, NULL, SPP_TONE_DIM,
                "legal degrees (Ulysses x ring where the framework splits), and the rule against the others",
                out);
  degree_rows("sp", degrees->sp, degrees->sp_count, style, out);
  degree_rows("tp", degrees->tp, degrees->tp_count, style, out);
  if (arch->experts) degree_rows("ep", degrees->ep, degrees->ep_count, style, out);
}

/* Two decimals, as torch prints what it was asked for: "58.15 GiB". */
static const char *torch_size(int64_t bytes, char buf[32]) {
  static const struct {
    int64_t bytes;
    const char *name;
  } units[] = {{INT64_C(1) << 30, "GiB"}, {INT64_C(1) << 20, "MiB"}, {INT64_C(1) << 10, "KiB"}};
  char digits[32];
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (bytes < units[i].bytes) continue;
    snprintf(buf, 32, "%s %s", spp_decimal_fixed((double)bytes / (double)units[i].bytes, 2, digits),
             units[i].name);
    return buf;
  }
  return spp_bytes_print(bytes, buf);
}

static void alloc_row(struct spp_table *table, const struct spp_alloc_match *match,
                      const struct spp_text_style *style) {
  char size[32], ratio[32], shape[96] = "";
  size_t used = 0;
  for (int d = 0; d < match->dims && used < sizeof shape; d++)
    used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", d ? " x " : "",
                             (long long)match->shape[d]);
  spp_table_cell(table, spp_decimal_fixed(match->ratio, 3, ratio));
  spp_table_cell(table, torch_size(match->bytes, size));
  if (style->width < NARROW) {
    spp_table_cellf(table, "%s (%s %s): %s", match->tensor, shape, spp_dtype_name(match->dtype), match->why);
    return;
  }
  spp_table_cellf(table, "%s %s", shape, spp_dtype_name(match->dtype));
  spp_table_cell(table, match->when);
  spp_table_cellf(table, "%s: %s", match->tensor, match->why);
}

void spp_text_alloc(const struct spp_report *report, const struct spp_predict_report *job, int64_t bytes,
                    const struct spp_alloc_match *matches, int count, const struct spp_text_style *style,
                    struct spp_str *out) {
  static const char *const wide[] = {"ratio", "bytes", "shape", "in", "tensor: why"};
  static const char *const narrow[] = {"ratio", "bytes", "tensor: why"};
  char size[32], exact[32];
  struct spp_table table;
  spp_text_headline(report, job->job, style, out);
  spp_text_warnings(report, NULL, style, out);
  spp_str_addf(out, "%s (%s bytes) is nearest to\n\n", torch_size(bytes, size), spp_int_print(bytes, exact));
  spp_table_init(&table, style->width < NARROW ? "rrl" : "rrlll");
  spp_table_header(&table, style->width < NARROW ? narrow : wide);
  for (int i = 0; i < count; i++)
    alloc_row(&table, &matches[i], style);
  print_and_free(&table, style, out);
  if (count == 0) spp_str_add(out, "no tensor of this job comes near\n");
}

static bool ends_in(const char *key, const char *end) {
  size_t n = strlen(key), m = strlen(end);
  return n >= m && strcmp(key + n - m, end) == 0;
}

/* A number in the unit its key names, as people write it. */
static const char *quantity(const char *key, const struct spp_echo *cell, char buf[32]) {
  double value = cell->kind == SPP_ECHO_I64 ? (double)cell->i64 : cell->real;
  char digits[32];
  const char *unit = "";
  if (ends_in(key, "_bytes")) return spp_bytes_print(cell->i64, buf);
  if (ends_in(key, "flops_per_s"))
    value /= 1e12, unit = " TFLOP/s";
  else if (ends_in(key, "_bytes_per_s"))
    value /= 1e9, unit = " GB/s";
  else if (strncmp(key, "params_", 7) == 0)
    value /= 1e9, unit = " B";
  else if (cell->kind == SPP_ECHO_I64)
    return spp_int_print(cell->i64, buf);
  snprintf(buf, 32, "%s%s", spp_decimal_print(value, 4, digits), unit);
  return buf;
}

static void list_cell(struct spp_table *table, const char *key, const struct spp_echo *cell) {
  char number[32];
  switch (cell->kind) {
  case SPP_ECHO_I64:
  case SPP_ECHO_REAL: spp_table_cell(table, quantity(key, cell, number)); break;
  case SPP_ECHO_BOOL: spp_table_cell(table, cell->i64 ? "yes" : "no"); break;
  case SPP_ECHO_TEXT: spp_table_cell(table, cell->text); break;
  case SPP_ECHO_NULL:
  case SPP_ECHO_TEXTS:
  case SPP_ECHO_REALS: spp_table_cell(table, "-"); break;
  }
}

/* A column is aligned by its first cell that holds something. */
static char column_align(const struct spp_list *list, int column) {
  for (int i = 0; i < list->count; i++) {
    enum spp_echo_kind kind = list->cells[i * list->column_count + column].kind;
    if (kind != SPP_ECHO_NULL) return kind == SPP_ECHO_I64 || kind == SPP_ECHO_REAL ? 'r' : 'l';
  }
  return 'l';
}

/* The first `most` columns that text shows. Returns how many there were. */
static int list_table(const struct spp_list *list, int most, const struct spp_text_style *style,
                      struct spp_str *out) {
  const char *header[SPP_LIST_MAX_COLUMNS];
  int columns[SPP_LIST_MAX_COLUMNS], shown = 0;
  char align[SPP_LIST_MAX_COLUMNS + 1] = "";
  struct spp_table table;
  for (int c = 0; c < list->column_count && shown < most; c++) {
    if (!list->columns[c].header) continue;
    align[shown] = column_align(list, c);
    header[shown] = list->columns[c].header;
    columns[shown++] = c;
  }
  spp_table_init(&table, align);
  if (!style->quiet) spp_table_header(&table, header);
  for (int i = 0; i < list->count; i++)
    for (int c = 0; c < shown; c++)
      list_cell(&table, list->columns[columns[c]].key, &list->cells[i * list->column_count + columns[c]]);
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  return shown;
}

static int widest_line(const char *text) {
  char line[1024];
  int widest = 0;
  while (*text) {
    size_t n = strcspn(text, "\n"), kept = n < sizeof line ? n : sizeof line - 1;
    memcpy(line, text, kept);
    line[kept] = '\0';
    if (spp_utf8_width(line) > widest) widest = spp_utf8_width(line);
    text += n + (text[n] == '\n');
  }
  return widest;
}

/* As many columns as the width takes; all of them when verbose. */
void spp_text_list(const struct spp_list *list, const struct spp_text_style *style, struct spp_str *out) {
  struct spp_str tried;
  spp_str_init(&tried);
  for (int most = list_table(list, SPP_LIST_MAX_COLUMNS, style, &tried);
       most > 1 && !style->verbose && widest_line(spp_str_text(&tried)) > style->width; most--) {
    spp_str_clear(&tried);
    list_table(list, most - 1, style, &tried);
  }
  spp_str_add(out, spp_str_text(&tried));
  out->failed = out->failed || tried.failed;
  spp_str_free(&tried);
}
