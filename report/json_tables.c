/* The answers that are tables: compare, sweep, degrees, alloc, list. */
#include "report/json_parts.h"

static void close_all(struct spp_jo *jo, struct spp_str *out) {
  spp_jo_end(jo);
  if (!spp_jo_ok(jo)) out->failed = true;
}

static void compare_row(struct spp_jo *jo, const struct spp_report *report,
                        const struct spp_compare_row *row) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "name", row->name);
  spp_jo_bool(jo, "legal", row->legal);
  spp_jo_str(jo, "why_not", row->why_not[0] ? row->why_not : NULL);
  spp_jo_str(jo, "framework", row->legal ? row->plan.job.framework->name : NULL);
  if (row->legal)
    spp_jp_plan(jo, report, &row->plan);
  else
    spp_jp_no_plan(jo);
  spp_jo_end(jo);
}

/* Of the first legal row; every row has the same. */
static void model_of_rows(struct spp_jo *jo, const struct spp_compare_result *result) {
  for (int i = 0; i < result->count; i++) {
    if (!result->rows[i].legal) continue;
    spp_jp_model(jo, &result->rows[i].plan.job);
    return;
  }
  spp_jo_null(jo, "model");
}

void spp_json_compare(const struct spp_report *report, const struct spp_compare_result *result,
                      struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.compare/1", report);
  model_of_rows(&jo, result);
  spp_jo_arr(&jo, "rows");
  for (int i = 0; i < result->count; i++)
    compare_row(&jo, report, &result->rows[i]);
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "crossovers");
  for (int i = 0; i < result->crossover_count; i++) {
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "from", result->crossovers[i].from);
    spp_jo_str(&jo, "to", result->crossovers[i].to);
    spp_jo_i64(&jo, "seq_tokens", result->crossovers[i].seq_tokens);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jp_warnings(&jo, report);
  close_all(&jo, out);
}

void spp_json_sweep(const struct spp_report *report, const struct spp_sweep *sweep, struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.sweep/1", report);
  spp_jo_arr(&jo, "variables");
  for (int i = 0; i < sweep->variable_count; i++)
    spp_jo_str(&jo, NULL, sweep->variables[i]);
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "points");
  for (int i = 0; i < sweep->count; i++) {
    const struct spp_sweep_point *point = &sweep->points[i];
    spp_jo_obj(&jo, NULL);
    spp_jo_arr(&jo, "values");
    for (int v = 0; v < sweep->variable_count; v++)
      spp_jo_str(&jo, NULL, point->values[v]);
    spp_jo_end(&jo);
    spp_jo_bool(&jo, "legal", point->plan != NULL);
    spp_jo_str(&jo, "why_not", point->why_not);
    spp_jo_str(&jo, "framework", point->plan ? point->plan->job.framework->name : NULL);
    if (point->plan)
      spp_jp_plan(&jo, report, point->plan);
    else
      spp_jp_no_plan(&jo);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  close_all(&jo, out);
}

static void degree_list(struct spp_jo *jo, const char *key, const struct spp_degree *degrees, int count,
                        bool split) {
  spp_jo_arr(jo, key);
  for (int i = 0; i < count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_i64(jo, "degree", degrees[i].degree);
    spp_jo_bool(jo, "legal", degrees[i].legal);
    if (split) {
      spp_jo_i64(jo, "ulysses", degrees[i].ulysses);
      spp_jo_i64(jo, "ring", degrees[i].ring);
    }
    spp_jo_str(jo, "rule", degrees[i].rule[0] ? degrees[i].rule : NULL);
    spp_jo_str(jo, "text", degrees[i].text[0] ? degrees[i].text : NULL);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_json_degrees(const struct spp_report *report, const struct spp_job *job,
                      const struct spp_degrees *degrees, struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.degrees/1", report);
  spp_jo_str(&jo, "framework", job->framework->name);
  degree_list(&jo, "sp", degrees->sp, degrees->sp_count, true);
  degree_list(&jo, "tp", degrees->tp, degrees->tp_count, false);
  degree_list(&jo, "ep", degrees->ep, degrees->ep_count, false);
  spp_jp_model(&jo, job);
  spp_jp_warnings(&jo, report);
  close_all(&jo, out);
}

void spp_json_alloc(const struct spp_report *report, int64_t bytes, const struct spp_alloc_match *matches,
                    int count, struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.alloc/1", report);
  spp_jo_i64(&jo, "bytes", bytes);
  spp_jo_arr(&jo, "matches");
  for (int i = 0; i < count; i++) {
    const struct spp_alloc_match *match = &matches[i];
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "tensor", match->tensor);
    spp_jo_arr(&jo, "shape");
    for (int d = 0; d < match->dims; d++)
      spp_jo_i64(&jo, NULL, match->shape[d]);
    spp_jo_end(&jo);
    spp_jo_str(&jo, "dtype", spp_dtype_name(match->dtype));
    spp_jo_i64(&jo, "bytes", match->bytes);
    spp_jo_real(&jo, "ratio", match->ratio);
    spp_jo_str(&jo, "when", match->when);
    spp_jo_str(&jo, "why", match->why);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jp_warnings(&jo, report);
  close_all(&jo, out);
}

void spp_json_list(const struct spp_list *list, struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.list/1", NULL);
  spp_jo_str(&jo, "what", list->what);
  spp_jo_arr(&jo, "items");
  for (int i = 0; i < list->count; i++) {
    spp_jo_obj(&jo, NULL);
    for (int c = 0; c < list->column_count; c++)
      spp_jp_echo(&jo, list->columns[c].key, &list->cells[i * list->column_count + c]);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  close_all(&jo, out);
}
