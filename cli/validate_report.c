#include "cli/validate_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/stats.h"
#include "report/json_parts.h"

static const char *verdict(const struct spp_validated *v) {
  return v->skipped ? "skipped" : spp_validate_ok(&v->result) ? "ok" : "FAILED";
}

static double ratio(double predicted, double measured) {
  return measured > 0 ? predicted / measured : 0;
}

static void text_differences(const struct spp_validated *v, struct spp_str *out) {
  const struct spp_validate_result *r = &v->result;
  if (!r->numerics.ok)
    spp_str_addf(out, "    numbers: loss %.1e, gradients %.1e, weights %.1e off; %.0e allowed\n",
                 r->numerics.loss_rel_error, r->numerics.grad_rel_error, r->numerics.output_rel_error,
                 r->numerics.tolerance);
  for (int p = 0; p < SPP_PART_COUNT && !r->memory.ok; p++)
    if (r->memory.predicted_parts[p] != r->memory.measured_parts[p])
      spp_str_addf(out, "    memory: %s predicted %" PRId64 ", measured %" PRId64 " B\n",
                   spp_part_label((enum spp_part)p), r->memory.predicted_parts[p],
                   r->memory.measured_parts[p]);
  if (!r->memory.ok && r->memory.counted_bytes > 0)
    spp_str_addf(out, "    memory: heaps of this process %" PRId64 ", resident %" PRId64 " B\n",
                 r->memory.counted_bytes, r->memory.resident_bytes);
  for (int i = 0; i < r->comm.count && !r->comm.ok; i++) {
    const struct spp_validate_traffic *t = &r->comm.rows[i];
    if (t->predicted_bytes == t->measured_bytes && t->predicted_messages == t->measured_messages) continue;
    spp_str_addf(out,
                 "    %s %s, %s: predicted %" PRId64 " B in %" PRId64 " messages, measured %" PRId64
                 " in %" PRId64 "\n",
                 spp_collective_name(t->op), t->what, spp_pass_name(t->pass), t->predicted_bytes,
                 t->predicted_messages, t->measured_bytes, t->measured_messages);
  }
  if (!r->time.ok)
    spp_str_addf(out, "    time: predicted %.2f ms (80 %%: %.2f to %.2f), measured %.2f ms a step\n",
                 1e3 * r->time.predicted_s, 1e3 * r->time.low_s, 1e3 * r->time.high_s,
                 1e3 * r->time.measured_s);
}

static void text_row(const struct spp_validated *v, struct spp_table *table) {
  const struct spp_validate_result *r = &v->result;
  spp_table_cell(table, verdict(v));
  spp_table_cell(table, v->name);
  spp_table_cellf(table, "%" PRId64, v->ranks);
  if (v->skipped) {
    spp_table_end_row(table);
    return;
  }
  spp_table_cellf(table, "%.1e", r->numerics.grad_rel_error);
  spp_table_cellf(table, "%" PRId64, r->memory.predicted_bytes);
  spp_table_cellf(table, "%+" PRId64, r->memory.measured_bytes - r->memory.predicted_bytes);
  spp_table_cellf(table, "%" PRId64, r->comm.predicted_sent_bytes);
  spp_table_cellf(table, "%+" PRId64, r->comm.measured_sent_bytes - r->comm.predicted_sent_bytes);
  spp_table_cellf(table, "%.2f", 1e3 * r->time.measured_s);
  if (r->time.predicted_s > 0)
    spp_table_cellf(table, "%+.0f %%%s", 100 * (ratio(r->time.predicted_s, r->time.measured_s) - 1),
                    r->time.judged ? "" : " ?");
  else
    spp_table_cell(table, "");
}

static void text_table(const struct spp_validate_answer *a, struct spp_str *out) {
  static const char *const names[] = {"",     "case",   "ranks", "grads off", "memory B",
                                      "diff", "sent B", "diff",  "step ms",   "predicted"};
  struct spp_table table;
  spp_table_init(&table, "llrrrrrrrr");
  spp_table_header(&table, names);
  for (int i = 0; i < a->count; i++)
    text_row(&a->cases[i], &table);
  spp_table_print(&table, 0, a->style.width, out);
  spp_table_free(&table);
}

/* How well time was predicted, over the cases that could be judged; and what stood in the way of the others.
 */
struct time_summary {
  int judged, inside, left_out;
  double median_error;
  const char *why; /* of the first left out */
};

static struct time_summary summarise(const struct spp_validate_answer *a) {
  enum { CASES_MOST = 256 };
  struct time_summary s = {.why = ""};
  double errors[CASES_MOST];
  for (int i = 0; i < a->count; i++) {
    const struct spp_validated *v = &a->cases[i];
    if (v->skipped) continue;
    if (!v->result.time.judged || s.judged == CASES_MOST) {
      if (s.left_out++ == 0) s.why = v->result.time.why;
      continue;
    }
    errors[s.judged++] = fabs(ratio(v->result.time.predicted_s, v->result.time.measured_s) - 1);
    s.inside += v->result.time.inside;
  }
  if (s.judged == 0) return s;
  spp_sort_reals(errors, s.judged);
  s.median_error = spp_quantile(errors, s.judged, 0.5);
  return s;
}

static void text_time(const struct spp_validate_answer *a, struct spp_str *out) {
  struct time_summary s = summarise(a);
  if (s.judged > 0)
    spp_str_addf(out, "time: %d judged, off by %.0f %% (median), %d inside the 80 %% interval; rates %s\n",
                 s.judged, 100 * s.median_error, s.inside, a->profile);
  if (s.left_out > 0) spp_str_addf(out, "time: %d not judged (marked ?): %s\n", s.left_out, s.why);
}

void spp_text_validate(const struct spp_validate_answer *a, bool verbose, bool quiet, struct spp_str *out) {
  if (!quiet) {
    spp_str_addf(out, "%s backend · %" PRId64 " processors\n", a->backend, a->processors);
    spp_text_line(&a->style, "runs on", SPP_TONE_DIM, a->kernels, out);
    if (a->left_out) spp_text_line(&a->style, "left out", SPP_TONE_DIM, a->left_out, out);
    spp_str_addc(out, '\n');
    text_table(a, out);
    spp_str_addc(out, '\n');
    for (int i = 0; i < a->count; i++) {
      const struct spp_validated *v = &a->cases[i];
      if (v->skipped && verbose) spp_str_addf(out, "%s: skipped: %s\n", v->name, v->why.what);
      if (v->skipped || spp_validate_ok(&v->result)) continue;
      spp_str_addf(out, "%s:\n", v->name);
      text_differences(v, out);
    }
  }
  if (!quiet) text_time(a, out);
  spp_str_addf(out, "%d passed, %d failed, %d skipped\n", a->passed, a->failed, a->skipped);
}

static void json_numerics(struct spp_jo *jo, const struct spp_validate_result *r) {
  char digest[17];
  snprintf(digest, sizeof digest, "%016" PRIx64, r->numerics.weights_digest);
  spp_jo_obj(jo, "numerics");
  spp_jo_real(jo, "loss", r->numerics.loss);
  spp_jo_real(jo, "loss_rel_error", r->numerics.loss_rel_error);
  spp_jo_real(jo, "grad_rel_error", r->numerics.grad_rel_error);
  spp_jo_real(jo, "output_rel_error", r->numerics.output_rel_error);
  spp_jo_real(jo, "tolerance", r->numerics.tolerance);
  spp_jo_bool(jo, "ok", r->numerics.ok);
  spp_jo_str(jo, "weights_digest", digest);
  spp_jo_end(jo);
}

static void json_memory(struct spp_jo *jo, const struct spp_validate_result *r) {
  spp_jo_obj(jo, "memory");
  spp_jo_i64(jo, "predicted_bytes", r->memory.predicted_bytes);
  spp_jo_i64(jo, "measured_bytes", r->memory.measured_bytes);
  spp_jo_arr(jo, "parts");
  for (int p = 0; p < SPP_PART_COUNT; p++) {
    if (r->memory.predicted_parts[p] == 0 && r->memory.measured_parts[p] == 0) continue;
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "part", spp_part_name((enum spp_part)p));
    spp_jo_i64(jo, "predicted_bytes", r->memory.predicted_parts[p]);
    spp_jo_i64(jo, "measured_bytes", r->memory.measured_parts[p]);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  spp_jo_i64_if(jo, "process_counted_bytes", r->memory.counted_bytes, r->memory.counted_bytes > 0);
  spp_jo_i64_if(jo, "process_resident_bytes", r->memory.resident_bytes, r->memory.counted_bytes > 0);
  spp_jo_bool(jo, "ok", r->memory.ok);
  spp_jo_end(jo);
}

static void json_comm(struct spp_jo *jo, const struct spp_validate_result *r) {
  spp_jo_obj(jo, "comm");
  spp_jo_i64(jo, "predicted_sent_bytes", r->comm.predicted_sent_bytes);
  spp_jo_i64(jo, "measured_sent_bytes", r->comm.measured_sent_bytes);
  spp_jo_i64(jo, "predicted_messages", r->comm.predicted_messages);
  spp_jo_i64(jo, "measured_messages", r->comm.measured_messages);
  spp_jo_arr(jo, "ops");
  for (int i = 0; i < r->comm.count; i++) {
    const struct spp_validate_traffic *t = &r->comm.rows[i];
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "op", spp_collective_name(t->op));
    spp_jo_str(jo, "what", t->what);
    spp_jo_str(jo, "group", spp_group_name(t->group));
    spp_jo_str(jo, "pass", spp_pass_name(t->pass));
    spp_jo_i64(jo, "predicted_sent_bytes", t->predicted_bytes);
    spp_jo_i64(jo, "measured_sent_bytes", t->measured_bytes);
    spp_jo_i64(jo, "predicted_messages", t->predicted_messages);
    spp_jo_i64(jo, "measured_messages", t->measured_messages);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  spp_jo_bool(jo, "ok", r->comm.ok);
  spp_jo_end(jo);
}

static void json_time(struct spp_jo *jo, const struct spp_validate_result *r) {
  spp_jo_obj(jo, "time");
  spp_jo_real(jo, "predicted_s", r->time.predicted_s);
  spp_jo_real(jo, "measured_s", r->time.measured_s);
  spp_jo_real(jo, "low_s", r->time.low_s);
  spp_jo_real(jo, "high_s", r->time.high_s);
  spp_jo_real(jo, "ratio", ratio(r->time.predicted_s, r->time.measured_s));
  spp_jo_real(jo, "predicted_work_s", r->time.predicted_work_s);
  spp_jo_real(jo, "measured_work_s", r->time.measured_work_s);
  spp_jo_bool(jo, "inside", r->time.inside);
  spp_jo_bool(jo, "judged", r->time.judged);
  spp_jo_str(jo, "why", r->time.judged ? NULL : r->time.why);
  spp_jo_bool(jo, "ok", r->time.ok);
  spp_jo_end(jo);
}

static void json_layout(struct spp_jo *jo, const struct spp_validated *v) {
  const struct spp_layout *l = &v->layout;
  spp_jo_obj(jo, "layout");
  const struct {
    const char *key;
    int64_t value;
  } degrees[] = {{"tp", l->tp},           {"pp", l->pp},    {"vpp", l->vpp},
                 {"dp", l->dp},           {"ep", l->ep},    {"sp", spp_layout_sp(l)},
                 {"ulysses", l->ulysses}, {"ring", l->ring}};
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
    spp_jo_i64(jo, degrees[i].key, degrees[i].value);
  spp_jo_str(jo, "sp_kind", spp_sp_kind_name(l->sp_kind));
  spp_jo_str(jo, "ring_order",
             l->ring > 1 ? spp_ring_order_name(v->contiguous ? SPP_RING_CONTIGUOUS : SPP_RING_ZIGZAG) : NULL);
  spp_jo_bool(jo, "megatron_sp", l->megatron_sp);
  spp_jo_i64(jo, "zero", l->zero);
  spp_jo_str(jo, "recompute", spp_recompute_name(l->recompute));
  spp_jo_i64(jo, "micro_batch", l->micro_batch);
  spp_jo_i64(jo, "grad_accum", l->grad_accum);
  spp_jo_i64(jo, "global_batch", l->micro_batch * l->grad_accum * l->dp);
  spp_jo_end(jo);
}

static void json_case(struct spp_jo *jo, const struct spp_validate_answer *a, const struct spp_validated *v) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "name", v->name);
  json_layout(jo, v);
  spp_jo_str(jo, "backend", a->backend);
  spp_jo_i64(jo, "ranks", v->ranks);
  spp_jo_i64(jo, "seq_tokens", v->seq_tokens);
  if (v->skipped) {
    spp_jo_null(jo, "numerics");
    spp_jo_null(jo, "memory");
    spp_jo_null(jo, "comm");
    spp_jo_null(jo, "time");
  } else {
    json_numerics(jo, &v->result);
    json_memory(jo, &v->result);
    json_comm(jo, &v->result);
    json_time(jo, &v->result);
  }
  spp_jo_str(jo, "skipped", v->skipped ? v->why.what : NULL);
  spp_jo_end(jo);
}

static void json_time_summary(struct spp_jo *jo, const struct spp_validate_answer *a) {
  struct time_summary s = summarise(a);
  spp_jo_obj(jo, "time_summary");
  spp_jo_str(jo, "profile", a->profile);
  spp_jo_i64(jo, "judged", s.judged);
  spp_jo_i64(jo, "inside", s.inside);
  spp_jo_i64(jo, "left_out", s.left_out);
  spp_jo_real_if(jo, "median_error", s.median_error, s.judged > 0);
  spp_jo_end(jo);
}

void spp_json_validate(const struct spp_validate_answer *a, struct spp_str *out) {
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.validate/1", &a->report);
  spp_jo_obj(&jo, "machine");
  spp_jo_i64(&jo, "processors", a->processors);
  spp_jo_str(&jo, "kernels", a->kernels);
  spp_jo_str(&jo, "device", a->device ? a->device->name : "cpu");
  spp_jo_end(&jo);
  spp_jo_str(&jo, "left_out", a->left_out);
  spp_jo_arr(&jo, "cases");
  for (int i = 0; i < a->count; i++)
    json_case(&jo, a, &a->cases[i]);
  spp_jo_end(&jo);
  json_time_summary(&jo, a);
  spp_jo_i64(&jo, "passed", a->passed);
  spp_jo_i64(&jo, "failed", a->failed);
  spp_jo_i64(&jo, "skipped", a->skipped);
  spp_jo_end(&jo);
}

void spp_csv_validate(const struct spp_validate_answer *a, struct spp_str *out) {
  spp_str_add(
      out, "case,ranks,result,loss_rel_error,grad_rel_error,output_rel_error,predicted_bytes,measured_bytes,"
           "predicted_sent_bytes,measured_sent_bytes,predicted_messages,measured_messages,predicted_s,"
           "measured_s\n");
  for (int i = 0; i < a->count; i++) {
    const struct spp_validated *v = &a->cases[i];
    const struct spp_validate_result *r = &v->result;
    spp_str_addf(out, "\"%s\",%" PRId64 ",%s", v->name, v->ranks,
                 v->skipped           ? "skipped"
                 : spp_validate_ok(r) ? "passed"
                                      : "failed");
    if (v->skipped) {
      spp_str_add(out, ",,,,,,,,,,,\n");
      continue;
    }
    spp_str_addf(out, ",%.6g,%.6g,%.6g", r->numerics.loss_rel_error, r->numerics.grad_rel_error,
                 r->numerics.output_rel_error);
    spp_str_addf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64,
                 r->memory.predicted_bytes, r->memory.measured_bytes, r->comm.predicted_sent_bytes,
                 r->comm.measured_sent_bytes, r->comm.predicted_messages, r->comm.measured_messages);
    spp_str_addf(out, ",%.6g,%.6g\n", r->time.predicted_s, r->time.measured_s);
  }
}

static void xml_text(const char *text, struct spp_str *out) {
  for (; *text; text++) {
    const char *entity = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '"' ? "&quot;" : NULL;
    if (entity)
      spp_str_add(out, entity);
    else
      spp_str_addc(out, *text);
  }
}

void spp_junit_validate(const struct spp_validate_answer *a, struct spp_str *out) {
  spp_str_addf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"spplan validate\" tests=\"%d\" "
               "failures=\"%d\" skipped=\"%d\">\n",
               a->count, a->failed, a->skipped);
  for (int i = 0; i < a->count; i++) {
    const struct spp_validated *v = &a->cases[i];
    spp_str_add(out, "  <testcase name=\"");
    xml_text(v->name, out);
    spp_str_addf(out, "\" classname=\"%s\" time=\"%.6f\">", a->backend,
                 v->skipped ? 0 : v->result.time.measured_s);
    if (v->skipped) {
      spp_str_add(out, "<skipped message=\"");
      xml_text(v->why.what, out);
      spp_str_add(out, "\"/>");
    } else if (!spp_validate_ok(&v->result)) {
      struct spp_str text;
      spp_str_init(&text);
      text_differences(v, &text);
      spp_str_add(out, "<failure message=\"predicted and measured differ\">");
      xml_text(spp_str_text(&text), out);
      spp_str_add(out, "</failure>");
      spp_str_free(&text);
    }
    spp_str_add(out, "</testcase>\n");
  }
  spp_str_add(out, "</testsuite>\n");
}
