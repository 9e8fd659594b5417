#include <math.h>
#include <string.h>

#include "report/accuracy.h"
#include "report/json_parts.h"

static void error_stats(struct spp_jo *jo, const char *key, const struct spp_error_stats *s) {
  bool known = s->scored > 0;
  spp_jo_obj(jo, key);
  spp_jo_i64(jo, "n", s->n);
  spp_jo_i64(jo, "scored", s->scored);
  spp_jo_real_if(jo, "median_abs_error", s->median_abs, known);
  spp_jo_real_if(jo, "mean_abs_error", s->mean_abs, known);
  spp_jo_real_if(jo, "p90_abs_error", s->p90_abs, known);
  spp_jo_real_if(jo, "bias", s->bias, known);
  spp_jo_real_if(jo, "interval_coverage", s->coverage, known);
  spp_jo_real_if(jo, "median_beyond_tolerance", s->median_beyond, known && !strcmp(key, "memory"));
  spp_jo_real_if(jo, "p90_beyond_tolerance", s->p90_beyond, known && !strcmp(key, "memory"));
  spp_jo_end(jo);
}

static void fit_stats(struct spp_jo *jo, const struct spp_fit_stats *s) {
  spp_jo_obj(jo, "fit");
  spp_jo_i64(jo, "n", s->n);
  spp_jo_i64(jo, "scored", s->scored);
  spp_jo_i64(jo, "correct", s->correct);
  spp_jo_i64(jo, "false_fit", s->false_fit);
  spp_jo_i64(jo, "false_oom", s->false_oom);
  spp_jo_end(jo);
}

static void whole_score(struct spp_jo *jo, const struct spp_score *score) {
  error_stats(jo, "memory", &score->memory);
  error_stats(jo, "time", &score->time);
  fit_stats(jo, &score->fit);
  spp_jo_obj(jo, "max_seq");
  spp_jo_i64(jo, "n", score->max_seq.n);
  spp_jo_i64(jo, "scored", score->max_seq.scored);
  spp_jo_i64(jo, "within_2x", score->max_seq.within_2x);
  spp_jo_i64(jo, "not_below_stated", score->max_seq.not_below_stated);
  spp_jo_end(jo);
}

static void run_row(struct spp_jo *jo, const struct spp_run_score *r) {
  static const char *const kinds[] = {"allocated", "reserved", "device", "unstated",
                                      "capacity",  "kv_cache", "logged"};
  const struct spp_run *run = r->run;
  bool scored = !r->skip;
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "id", run->id);
  spp_jo_str(jo, "group", run->group);
  spp_jo_str(jo, "source", run->source);
  spp_jo_bool(jo, "core", run->core);
  spp_jo_str(jo, "model", run->spec.arch ? run->spec.arch->display : NULL);
  spp_jo_str(jo, "framework", run->framework ? run->framework->name : NULL);
  spp_jo_obj(jo, "predicted");
  spp_jo_real_if(jo, "memory_bytes", r->predicted_memory_bytes, scored);
  spp_jo_real_if(jo, "low_bytes", r->low_bytes, scored && r->low_bytes > 0);
  spp_jo_real_if(jo, "high_bytes", r->high_bytes, scored && r->high_bytes > 0);
  spp_jo_real_if(jo, "step_s", r->predicted_step_s, scored);
  spp_jo_real_if(jo, "low_s", r->low_s, scored);
  spp_jo_real_if(jo, "high_s", r->high_s, scored);
  spp_jo_bool_if(jo, "fits", r->predicted_fits, scored);
  spp_jo_real_if(jo, "fit_probability", r->fit_probability, scored);
  spp_jo_real_if(jo, "memory_sigma", r->memory_sigma, scored);
  spp_jo_real_if(jo, "time_sigma", r->time_sigma, scored);
  spp_jo_real_if(jo, "waits_share", r->waits_share, scored);
  spp_jo_i64_if(jo, "max_seq_tokens", r->predicted_max_seq, r->predicted_max_seq > 0);
  spp_jo_end(jo);
  spp_jo_obj(jo, "measured");
  bool measured = r->measured_memory_bytes > 0;
  spp_jo_real_if(jo, "memory_bytes", r->measured_memory_bytes, measured);
  spp_jo_str(jo, "memory_kind", measured ? kinds[run->memory_kind] : NULL);
  spp_jo_real_if(jo, "memory_tolerance", run->memory_tolerance, measured);
  spp_jo_real_if(jo, "step_s", r->measured_step_s, r->measured_step_s > 0);
  spp_jo_bool_if(jo, "oom", run->oom != 0, run->oom != SPP_UNSET);
  spp_jo_i64_if(jo, "max_seq_tokens", run->max_seq_tokens, run->max_seq_tokens > 0);
  spp_jo_end(jo);
  spp_jo_real(jo, "memory_error", r->memory_error);
  spp_jo_real(jo, "memory_error_beyond_tolerance", r->memory_error_beyond_tolerance);
  spp_jo_real(jo, "time_error", r->time_error);
  spp_jo_str(jo, "skipped", r->skip);
  spp_jo_arr(jo, "filled_in");
  for (int i = 0; i < run->fill_count; i++)
    spp_jo_str(jo, NULL, run->fills[i]);
  spp_jo_end(jo);
  spp_jo_end(jo);
}

void spp_json_accuracy(const struct spp_report *report, const struct spp_accuracy_report *answer,
                       struct spp_str *out) {
  const struct spp_scoreboard *board = answer->board;
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.accuracy/1", report);
  whole_score(&jo, &board->all);
  spp_jo_obj(&jo, "by_group_mean");
  error_stats(&jo, "memory", &board->memory_by_group);
  error_stats(&jo, "time", &board->time_by_group);
  spp_jo_end(&jo);
  spp_jo_i64(&jo, "runs_total", board->all.runs);
  spp_jo_i64(&jo, "runs_skipped", board->all.skipped);
  spp_jo_arr(&jo, "groups");
  for (int i = 0; i < board->group_count; i++) {
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "group", board->groups[i].group);
    whole_score(&jo, &board->groups[i].score);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "runs");
  for (int i = 0; i < board->count; i++)
    run_row(&jo, &board->runs[i]);
  spp_jo_end(&jo);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}
