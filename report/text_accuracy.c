#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/accuracy.h"
#include "report/text.h"

static void percent_cell(struct spp_table *table, double share, bool known) {
  if (known)
    spp_table_cellf(table, "%.1f", 100 * share);
  else
    spp_table_cell(table, "-");
}

static void error_cells(struct spp_table *table, const struct spp_error_stats *s) {
  bool known = s->scored > 0;
  spp_table_cellf(table, "%d/%d", s->scored, s->n);
  percent_cell(table, s->median_abs, known);
  percent_cell(table, s->mean_abs, known);
  percent_cell(table, s->p90_abs, known);
  percent_cell(table, s->bias, known);
}

static void group_row(struct spp_table *table, const char *name, const struct spp_score *score) {
  spp_table_cell(table, name);
  error_cells(table, &score->memory);
  error_cells(table, &score->time);
  spp_table_cellf(table, "%d/%d", score->fit.correct, score->fit.scored);
  spp_table_end_row(table);
}

static void groups_table(const struct spp_scoreboard *board, const struct spp_text_style *style,
                         struct spp_str *out) {
  static const char *const names[] = {"group", "memory", "median", "mean", "p90",  "bias",
                                      "time",  "median", "mean",   "p90",  "bias", "fit right"};
  struct spp_table table;
  spp_table_init(&table, "lrrrrrrrrrrr");
  spp_table_header(&table, names);
  for (int i = 0; i < board->group_count; i++)
    group_row(&table, board->groups[i].group, &board->groups[i].score);
  group_row(&table, "all runs", &board->all);
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
}

static double size_of(double error) {
  return isnan(error) ? -1 : fabs(error);
}
static int by_memory(const void *a, const void *b) {
  const struct spp_run_score *const *x = a, *const *y = b;
  double p = size_of((*x)->memory_error), q = size_of((*y)->memory_error);
  return p < q ? 1 : p > q ? -1 : (*x > *y) - (*x < *y);
}
static int by_time(const void *a, const void *b) {
  const struct spp_run_score *const *x = a, *const *y = b;
  double p = size_of((*x)->time_error), q = size_of((*y)->time_error);
  return p < q ? 1 : p > q ? -1 : (*x > *y) - (*x < *y);
}

static void worst_rows(struct spp_table *table, const struct spp_run_score *const *sorted, int most,
                       bool memory) {
  for (int i = 0; i < most; i++) {
    const struct spp_run_score *r = sorted[i];
    double error = memory ? r->memory_error : r->time_error;
    if (isnan(error)) return;
    spp_table_cell(table, r->run->id);
    spp_table_cell(table, r->run->spec.arch->display);
    if (memory) {
      spp_table_cellf(table, "%.1f GiB", r->predicted_memory_bytes / 1073741824.0);
      spp_table_cellf(table, "%.1f GiB", r->measured_memory_bytes / 1073741824.0);
    } else {
      spp_table_cellf(table, "%.3f s", r->predicted_step_s);
      spp_table_cellf(table, "%.3f s", r->measured_step_s);
    }
    spp_table_cellf(table, "%+.1f %%", 100 * error);
    spp_table_end_row(table);
  }
}

static void worst_table(const struct spp_scoreboard *board, int most, bool memory,
                        const struct spp_text_style *style, struct spp_str *out) {
  static const char *const names[] = {"worst", "model", "predicted", "measured", "error"};
  const struct spp_run_score **sorted = calloc((size_t)board->count + 1, sizeof *sorted);
  if (!sorted) {
    out->failed = true;
    return;
  }
  for (int i = 0; i < board->count; i++)
    sorted[i] = &board->runs[i];
  qsort(sorted, (size_t)board->count, sizeof *sorted, memory ? by_memory : by_time);
  struct spp_table table;
  spp_table_init(&table, "llrrr");
  spp_table_header(&table, names);
  worst_rows(&table, sorted, most < board->count ? most : board->count, memory);
  spp_str_addf(out, "\n%s\n", memory ? "memory" : "time");
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  free(sorted);
}

static void skipped_list(const struct spp_scoreboard *board, const struct spp_text_style *style,
                         struct spp_str *out) {
  struct spp_table table;
  spp_table_init(&table, "ll");
  for (int i = 0; i < board->count; i++) {
    if (!board->runs[i].skip) continue;
    spp_table_cell(&table, board->runs[i].run->id);
    spp_table_cell(&table, board->runs[i].skip);
  }
  spp_str_add(out, "\nnot scored\n");
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
}

static void filled_list(const struct spp_scoreboard *board, const struct spp_text_style *style,
                        struct spp_str *out) {
  struct spp_table table;
  spp_table_init(&table, "ll");
  for (int i = 0; i < board->count; i++)
    for (int k = 0; k < board->runs[i].run->fill_count; k++) {
      spp_table_cell(&table, k == 0 ? board->runs[i].run->id : "");
      spp_table_cell(&table, board->runs[i].run->fills[k]);
    }
  spp_str_add(out, "\nfilled in\n");
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
}

static const char *error_words(const struct spp_error_stats *s, const char *unit, char *buf, size_t size) {
  if (s->scored == 0)
    snprintf(buf, size, "not scored");
  else
    snprintf(buf, size, "%.1f %%%s (p90 %.1f, bias %+.1f)", 100 * s->median_abs, unit, 100 * s->p90_abs,
             100 * s->bias);
  return buf;
}

static void headline(const struct spp_scoreboard *board, const struct spp_text_style *style,
                     struct spp_str *out) {
  const struct spp_score *all = &board->all;
  char line[256], memory[80], time[80];
  snprintf(line, sizeof line, "memory %s · time %s",
           error_words(&all->memory, " median error", memory, sizeof memory),
           error_words(&all->time, "", time, sizeof time));
  spp_text_paint(style, SPP_TONE_TITLE, line, out);
  spp_str_addf(out, "\nfit %d of %d right", all->fit.correct, all->fit.scored);
  if (all->max_seq.n > 0)
    spp_str_addf(out, " · longest sequence %d of %d not below the stated one", all->max_seq.not_below_stated,
                 all->max_seq.scored);
  spp_str_addf(out, "\n%d published run%s, %d not scored", all->runs, all->runs == 1 ? "" : "s",
               all->skipped);
  if (all->memory.scored > 0 && all->time.scored > 0)
    spp_str_addf(out, " · 80 %% intervals hold %.0f %% of memory, %.0f %% of time figures",
                 100 * all->memory.coverage, 100 * all->time.coverage);
  spp_str_add(out, "\n");
}

void spp_text_accuracy(const struct spp_accuracy_report *answer, const struct spp_text_style *style,
                       struct spp_str *out) {
  const struct spp_scoreboard *board = answer->board;
  headline(board, style, out);
  if (style->quiet) return;
  spp_str_add(out, "\n");
  groups_table(board, style, out);
  spp_str_add(out, "errors in percent of the measured figure; bias: mean of signed errors\n");
  if (answer->worst > 0) {
    worst_table(board, answer->worst, true, style, out);
    worst_table(board, answer->worst, false, style, out);
  }
  if (board->all.skipped > 0 && style->verbose) skipped_list(board, style, out);
  if (style->verbose) filled_list(board, style, out);
}
