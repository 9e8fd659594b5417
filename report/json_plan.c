#include "base/num.h"
#include "model/launch.h"
#include "report/facts.h"
#include "report/json_parts.h"

const char *spp_find_name(enum spp_find what) {
  switch (what) {
  case SPP_FIND_MAX_SEQ: return "max-seq";
  case SPP_FIND_MIN_GPUS: return "min-gpus";
  case SPP_FIND_MAX_BATCH: return "max-batch";
  case SPP_FIND_PARETO: return "pareto";
  }
  return "?";
}

static void plan_row(struct spp_jo *jo, const struct spp_report *report, const struct spp_plan_report *answer,
                     int index) {
  const struct spp_plan *plan = &answer->search->plans[index];
  struct spp_str line;
  spp_str_init(&line);
  spp_jo_obj(jo, NULL);
  /* Behind the top it is here only as the best of its framework. */
  spp_jo_i64_if(jo, "rank", index + 1, index < answer->search->top_count);
  spp_jo_str(jo, "framework", plan->job.framework->name);
  spp_jo_bool(jo, "best_of_framework", spp_fact_best_of_framework(answer, index));
  spp_jp_plan(jo, report, plan);
  spp_framework_launch(&plan->job, &plan->layout, &line);
  spp_jo_str(jo, "command", line.len ? spp_str_text(&line) : NULL);
  spp_jo_str(jo, "gpu", plan->job.gpu->name);
  spp_jo_i64(jo, "gpus", plan->job.gpus);
  spp_jo_bool(jo, "likely_fits", !spp_plan_risky(answer->options, &plan->prediction.memory));
  spp_jo_end(jo);
  spp_str_free(&line);
}

static void rejected(struct spp_jo *jo, const struct spp_search_result *search) {
  spp_jo_arr(jo, "rejected");
  for (int i = 0; i < search->rejection_count; i++) {
    const struct spp_rejection *rejection = &search->rejections[i];
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "reason", rejection->reason);
    spp_jo_i64(jo, "count", rejection->count);
    spp_jo_str(jo, "example", rejection->example[0] ? rejection->example : NULL);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

static void refused_frameworks(struct spp_jo *jo, const struct spp_plan_report *answer) {
  spp_jo_arr(jo, "frameworks_refused");
  for (int i = 0; i < answer->options->framework_count; i++) {
    if (!answer->search->framework_refusals[i][0]) continue;
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "framework", answer->options->frameworks[i]->name);
    spp_jo_str(jo, "text", answer->search->framework_refusals[i]);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

static void nearest(struct spp_jo *jo, const struct spp_report *report,
                    const struct spp_search_result *search) {
  const struct spp_memory *memory = &search->nearest.prediction.memory;
  bool host = memory->fits && !memory->host_fits;
  if (!search->has_nearest) {
    spp_jo_null(jo, "nearest");
    return;
  }
  spp_jo_obj(jo, "nearest");
  spp_jo_str(jo, "framework", search->nearest.job.framework->name);
  spp_jo_str(jo, "gpu", search->nearest.job.gpu->name);
  spp_jo_str(jo, "limit", host ? "host-memory" : "memory");
  spp_jo_i64(jo, "over_bytes",
             host ? spp_max64(0, memory->host_bytes_per_node - memory->host_capacity_bytes)
                  : spp_max64(0, -memory->headroom_bytes));
  spp_jp_plan(jo, report, &search->nearest);
  spp_jo_end(jo);
}

/* What a plan of the front is not beaten in by any other at once. */
static void front_of(struct spp_jo *jo, const struct spp_plan_report *answer) {
  bool pooled = answer->machines || (answer->find && answer->find->what == SPP_FIND_PARETO);
  spp_jo_arr(jo, "pareto_over");
  spp_jo_str(jo, NULL, "step_s");
  spp_jo_str(jo, NULL, "device_bytes");
  if (pooled) spp_jo_str(jo, NULL, "gpus");
  if (spp_front_counts_cost(answer)) spp_jo_str(jo, NULL, "usd_per_million_tokens");
  spp_jo_end(jo);
}

/* The fastest plan that the ranking passes over, and what it would gain at which odds. */
static void riskier(struct spp_jo *jo, const struct spp_plan_report *answer) {
  const struct spp_search_result *search = answer->search;
  int index = spp_search_riskier(answer->options, search);
  if (index < 0) {
    spp_jo_null(jo, "riskier");
    return;
  }
  const struct spp_prediction *fast = &search->plans[index].prediction, *best = &search->plans[0].prediction;
  spp_jo_obj(jo, "riskier");
  spp_jo_i64(jo, "plan", index);
  spp_jo_real(jo, "speed_ratio", fast->time.tokens_per_s / best->time.tokens_per_s);
  spp_jo_real(jo, "fit_probability", fast->memory.fit_probability);
  spp_jo_real(jo, "min_fit", answer->options->min_fit);
  spp_jo_end(jo);
}

static void totals(struct spp_jo *jo, const struct spp_search_result *search) {
  spp_jo_obj(jo, "search");
  spp_jo_i64(jo, "layouts", search->layouts);
  spp_jo_i64(jo, "evaluated", search->evaluated);
  spp_jo_i64(jo, "pruned", search->pruned);
  spp_jo_real(jo, "seconds", search->seconds);
  spp_jo_i64(jo, "threads", search->threads);
  spp_jo_end(jo);
}

static void found(struct spp_jo *jo, const struct spp_find_result *find) {
  if (!find) {
    spp_jo_null(jo, "find");
    return;
  }
  spp_jo_obj(jo, "find");
  spp_jo_str(jo, "what", spp_find_name(find->what));
  spp_jo_i64(jo, "value", find->value);
  spp_jo_str(jo, "limit", find->limit);
  spp_jo_end(jo);
}

/* What each type of --gpu came to, best first; empty where one was asked. */
static void machines(struct spp_jo *jo, const struct spp_plan_report *answer) {
  spp_jo_arr(jo, "gpus");
  for (int i = 0; answer->machines && i < answer->machines->count; i++) {
    const struct spp_machine_answer *machine = &answer->machines->answers[i];
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "gpu", machine->gpu->name);
    spp_jo_real_if(jo, "usd_per_gpu_hour", machine->usd_per_gpu_hour, machine->usd_per_gpu_hour > 0);
    spp_jo_i64_if(jo, "plan", machine->best, machine->best >= 0);
    spp_jo_i64_if(jo, "value", machine->value, answer->find && answer->find->what != SPP_FIND_PARETO);
    spp_jo_str(jo, "limit", machine->limit[0] ? machine->limit : NULL);
    spp_jo_str(jo, "why_not", machine->why_not[0] ? machine->why_not : NULL);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_json_plan(const struct spp_report *report, const struct spp_plan_report *answer,
                   struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  const struct spp_plan *first = search->count         ? &search->plans[0]
                                 : search->has_nearest ? &search->nearest
                                                       : NULL;
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.plan/1", report);
  if (first)
    spp_jp_model(&jo, &first->job);
  else
    spp_jo_null(&jo, "model");
  spp_jo_arr(&jo, "plans");
  for (int i = 0; i < search->count; i++)
    plan_row(&jo, report, answer, i);
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "pareto");
  for (int i = 0; i < search->pareto_count; i++)
    spp_jo_i64(&jo, NULL, search->pareto[i]);
  spp_jo_end(&jo);
  front_of(&jo, answer);
  riskier(&jo, answer);
  rejected(&jo, search);
  nearest(&jo, report, search);
  totals(&jo, search);
  found(&jo, answer->find);
  refused_frameworks(&jo, answer);
  machines(&jo, answer);
  spp_jp_sensitivity(&jo, answer->sensitivities, answer->sensitivity_count);
  spp_jp_tensors(&jo, answer->ledger, first ? &first->prediction.memory : NULL);
  spp_jp_words(&jo, report, first);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}
