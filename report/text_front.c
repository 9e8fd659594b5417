/* What can be traded for what (--find pareto): a row for each count of GPUs, or each member of the front. */
#include <stdio.h>

#include "base/units.h"
#include "report/text.h"

static bool same_gpus(const struct spp_plan *a, const struct spp_plan *b) {
  return a->job.gpu == b->job.gpu && a->job.gpus == b->job.gpus;
}

/* The fastest of its GPUs: members come fastest first. */
static bool leads(const struct spp_search_result *search, int member) {
  for (int i = 0; i < member; i++)
    if (same_gpus(&search->plans[search->pareto[i]], &search->plans[search->pareto[member]])) return false;
  return true;
}

bool spp_front_counts_cost(const struct spp_plan_report *answer) {
  const struct spp_machines_result *machines = answer->machines;
  bool pareto = answer->find && answer->find->what == SPP_FIND_PARETO;
  if (!machines && !pareto) return false;
  for (int i = 0; machines && i < machines->count; i++)
    if (!(machines->answers[i].usd_per_gpu_hour > 0)) return false;
  return answer->search->count > 0 && answer->search->plans[0].prediction.time.usd_per_million_tokens > 0;
}

static void front_row(struct spp_table *table, const struct spp_plan *plan, bool types, bool cost) {
  const struct spp_time *time = &plan->prediction.time;
  char gpus[32], step[32], rate[32], gib[32], described[320];
  spp_table_cell(table, spp_int_print(plan->job.gpus, gpus));
  spp_table_cell(table, spp_seconds_print(time->step_s, step));
  spp_table_cell(table, spp_text_rate(time->tokens_per_s, rate));
  spp_table_cell(table, spp_text_gib(plan->prediction.memory.device_bytes, gib));
  if (cost) spp_table_cellf(table, "%.3g", time->usd_per_million_tokens);
  spp_table_cellf(table, "%s%s%s · %s", types ? plan->job.gpu->name : "", types ? " · " : "",
                  plan->job.framework->name,
                  spp_layout_describe(&plan->job, &plan->layout, described, sizeof described));
}

void spp_text_front(const struct spp_plan_report *answer, const struct spp_text_style *style,
                    struct spp_str *out) {
  static const char *const with_cost[] = {"GPUs", "step", "tok/s", "GiB", "USD/Mtok", "plan"};
  static const char *const without[] = {"GPUs", "step", "tok/s", "GiB", "plan"};
  const struct spp_search_result *search = answer->search;
  bool cost = spp_front_counts_cost(answer);
  struct spp_table table;
  int shown = 0;
  spp_str_addc(out, '\n');
  spp_table_init(&table, cost ? "rrrrrl" : "rrrrl");
  spp_table_header(&table, cost ? with_cost : without);
  for (int i = 0; i < search->pareto_count; i++) {
    if (!style->verbose && !leads(search, i)) continue;
    front_row(&table, &search->plans[search->pareto[i]], answer->machines && answer->machines->count > 1,
              cost);
    shown++;
  }
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  char line[160];
  if (shown < search->pareto_count)
    snprintf(line, sizeof line, "the fastest of each count of GPUs; %d more trade speed for memory: -v\n",
             search->pareto_count - shown);
  else
    snprintf(line, sizeof line, "no plan here is beaten in step time, memory, GPUs%s at once\n",
             cost ? " and cost" : "");
  spp_text_paint(style, SPP_TONE_DIM, line, out);
}
