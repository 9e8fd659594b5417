/* CSV (RFC 4180): a header line, '.' decimals, no units inside cells. Plans, comparisons and sweeps share the
 * columns. */
#include <inttypes.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json_out.h"
#include "report/facts.h"

static void cell_text(struct spp_str *out, const char *text) {
  if (!text) text = "";
  if (!strpbrk(text, ",\"\r\n")) {
    spp_str_add(out, text);
    return;
  }
  spp_str_addc(out, '"');
  for (; *text; text++) {
    if (*text == '"') spp_str_addc(out, '"');
    spp_str_addc(out, *text);
  }
  spp_str_addc(out, '"');
}
static void cell_i64(struct spp_str *out, int64_t value) {
  spp_str_addf(out, "%" PRId64, value);
}
static void cell_real(struct spp_str *out, double value) {
  char buf[32];
  if (value - value == 0)
    spp_str_add(out, spp_decimal_print(value, 6, buf)); /* NaN and infinity: unknown, empty */
}

/* One column of a plan: a number at an offset, or a word worked out from it. */
enum column_kind { I64, INT, REAL, YES_NO, WORD };
struct column {
  const char *name;
  enum column_kind kind;
  size_t offset;
  const char *(*word)(const struct spp_plan *plan);
};
static const char *gpu_of(const struct spp_plan *plan) {
  return plan->job.gpu->name;
}
static const char *framework_of(const struct spp_plan *plan) {
  return plan->job.framework->name;
}
static const char *sp_kind_of(const struct spp_plan *plan) {
  return spp_sp_kind_name(plan->layout.sp_kind);
}
static const char *recompute_of(const struct spp_plan *plan) {
  return spp_recompute_name(plan->layout.recompute);
}
static const char *offload_of(const struct spp_plan *plan) {
  return spp_offload_name(plan->layout.offload);
}

#define FIELD(member)  offsetof(struct spp_plan, member)
#define LAYOUT(member) FIELD(layout.member)
#define MEMORY(member) FIELD(prediction.memory.member)
#define TIME(member)   FIELD(prediction.time.member)
static const struct column columns[] = {
    {"framework", WORD, 0, framework_of},
    {"seq_tokens", I64, FIELD(job.seq_tokens), NULL},
    {"gpus", I64, FIELD(job.gpus), NULL},
    {"global_batch", I64, FIELD(job.global_batch), NULL},
    {"tp", I64, LAYOUT(tp), NULL},
    {"pp", I64, LAYOUT(pp), NULL},
    {"vpp", I64, LAYOUT(vpp), NULL},
    {"dp", I64, LAYOUT(dp), NULL},
    {"ep", I64, LAYOUT(ep), NULL},
    {"sp_kind", WORD, 0, sp_kind_of},
    {"ulysses", I64, LAYOUT(ulysses), NULL},
    {"ring", I64, LAYOUT(ring), NULL},
    {"megatron_sp", YES_NO, LAYOUT(megatron_sp), NULL},
    {"zero", INT, LAYOUT(zero), NULL},
    {"recompute", WORD, 0, recompute_of},
    {"offload", WORD, 0, offload_of},
    {"micro_batch", I64, LAYOUT(micro_batch), NULL},
    {"grad_accum", I64, LAYOUT(grad_accum), NULL},
    {"peak_bytes", I64, MEMORY(peak_bytes), NULL},
    {"reserved_bytes", I64, MEMORY(reserved_bytes), NULL},
    {"device_bytes", I64, MEMORY(device_bytes), NULL},
    {"capacity_bytes", I64, MEMORY(capacity_bytes), NULL},
    {"fits", YES_NO, MEMORY(fits), NULL},
    {"sent_bytes_per_step", I64, FIELD(prediction.comm.sent_bytes_per_step), NULL},
    {"step_s", REAL, TIME(step_s), NULL},
    {"tokens_per_s_per_gpu", REAL, TIME(tokens_per_s_per_gpu), NULL},
    {"tokens_per_s", REAL, TIME(tokens_per_s), NULL},
    {"mfu_causal", REAL, TIME(mfu_causal), NULL},
    {"gpu", WORD, 0, gpu_of},
    {"usd_per_million_tokens", REAL, TIME(usd_per_million_tokens), NULL},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void plan_header(struct spp_str *out) {
  for (int i = 0; i < COLUMNS; i++) {
    if (i) spp_str_addc(out, ',');
    spp_str_add(out, columns[i].name);
  }
}

static void plan_cells(const struct spp_plan *plan, struct spp_str *out) {
  for (int i = 0; i < COLUMNS; i++) {
    const struct column *column = &columns[i];
    const void *field;
    if (i) spp_str_addc(out, ',');
    if (!plan) continue;
    field = (const char *)plan + column->offset;
    switch (column->kind) {
    case I64: cell_i64(out, *(const int64_t *)field); break;
    case INT: cell_i64(out, *(const int *)field); break;
    case REAL: cell_real(out, *(const double *)field); break;
    case YES_NO: spp_str_add(out, *(const bool *)field ? "true" : "false"); break;
    case WORD: cell_text(out, column->word(plan)); break;
    }
  }
}

void spp_csv_predict(const struct spp_predict_report *answer, struct spp_str *out) {
  struct spp_plan plan;
  plan_header(out);
  spp_str_addc(out, '\n');
  if (!answer->prediction) return;
  plan = (struct spp_plan){*answer->job, *answer->layout, *answer->prediction};
  plan_cells(&plan, out);
  spp_str_addc(out, '\n');
}

void spp_csv_plan(const struct spp_plan_report *answer, struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  spp_str_add(out, "rank,");
  plan_header(out);
  spp_str_addc(out, '\n');
  for (int i = 0; i < search->count; i++) {
    if (i < search->top_count) cell_i64(out, i + 1);
    spp_str_addc(out, ',');
    plan_cells(&search->plans[i], out);
    spp_str_addc(out, '\n');
  }
}

void spp_csv_compare(const struct spp_compare_result *result, struct spp_str *out) {
  spp_str_add(out, "name,legal,why_not,");
  plan_header(out);
  spp_str_addc(out, '\n');
  for (int i = 0; i < result->count; i++) {
    const struct spp_compare_row *row = &result->rows[i];
    cell_text(out, row->name);
    spp_str_add(out, row->legal ? ",true," : ",false,");
    cell_text(out, row->why_not);
    spp_str_addc(out, ',');
    plan_cells(row->legal ? &row->plan : NULL, out);
    spp_str_addc(out, '\n');
  }
}

void spp_csv_sweep(const struct spp_sweep *sweep, struct spp_str *out) {
  for (int v = 0; v < sweep->variable_count; v++)
    spp_str_addf(out, "vary_%s,", sweep->variables[v]);
  spp_str_add(out, "why_not,");
  plan_header(out);
  spp_str_addc(out, '\n');
  for (int i = 0; i < sweep->count; i++) {
    for (int v = 0; v < sweep->variable_count; v++) {
      cell_text(out, sweep->points[i].values[v]);
      spp_str_addc(out, ',');
    }
    cell_text(out, sweep->points[i].why_not);
    spp_str_addc(out, ',');
    plan_cells(sweep->points[i].plan, out);
    spp_str_addc(out, '\n');
  }
}

static void degree_rows(const char *axis, const struct spp_degree *degrees, int count, struct spp_str *out) {
  for (int i = 0; i < count; i++) {
    spp_str_addf(out, "%s,%" PRId64 ",%s,%" PRId64 ",%" PRId64 ",", axis, degrees[i].degree,
                 degrees[i].legal ? "true" : "false", degrees[i].ulysses, degrees[i].ring);
    cell_text(out, degrees[i].rule);
    spp_str_addc(out, ',');
    cell_text(out, degrees[i].text);
    spp_str_addc(out, '\n');
  }
}

void spp_csv_degrees(const struct spp_degrees *degrees, struct spp_str *out) {
  spp_str_add(out, "axis,degree,legal,ulysses,ring,rule,text\n");
  degree_rows("sp", degrees->sp, degrees->sp_count, out);
  degree_rows("tp", degrees->tp, degrees->tp_count, out);
  degree_rows("ep", degrees->ep, degrees->ep_count, out);
}

void spp_csv_alloc(int64_t bytes, const struct spp_alloc_match *matches, int count, struct spp_str *out) {
  spp_str_add(out, "asked_bytes,tensor,shape,dtype,bytes,ratio,when,why\n");
  for (int i = 0; i < count; i++) {
    spp_str_addf(out, "%" PRId64 ",", bytes);
    cell_text(out, matches[i].tensor);
    spp_str_addc(out, ',');
    for (int d = 0; d < matches[i].dims; d++)
      spp_str_addf(out, d ? " %" PRId64 : "%" PRId64, matches[i].shape[d]);
    spp_str_addf(out, ",%s,%" PRId64 ",", spp_dtype_name(matches[i].dtype), matches[i].bytes);
    cell_real(out, matches[i].ratio);
    spp_str_addc(out, ',');
    cell_text(out, matches[i].when);
    spp_str_addc(out, ',');
    cell_text(out, matches[i].why);
    spp_str_addc(out, '\n');
  }
}

void spp_csv_list(const struct spp_list *list, struct spp_str *out) {
  for (int c = 0; c < list->column_count; c++)
    spp_str_addf(out, c ? ",%s" : "%s", list->columns[c].key);
  spp_str_addc(out, '\n');
  for (int i = 0; i < list->count * list->column_count; i++) {
    const struct spp_echo *cell = &list->cells[i];
    switch (cell->kind) {
    case SPP_ECHO_I64: cell_i64(out, cell->i64); break;
    case SPP_ECHO_REAL: cell_real(out, cell->real); break;
    case SPP_ECHO_BOOL: spp_str_add(out, cell->i64 ? "true" : "false"); break;
    case SPP_ECHO_TEXT: cell_text(out, cell->text); break;
    case SPP_ECHO_NULL:
    case SPP_ECHO_TEXTS:
    case SPP_ECHO_REALS: break;
    }
    spp_str_addc(out, (i + 1) % list->column_count ? ',' : '\n');
  }
}
