#include <math.h>
#include <stdio.h>

#include "base/units.h"
#include "planner/advise.h"
#include "report/text.h"

static void layout_line(const struct spp_plan *plan, const struct spp_text_style *style,
                        struct spp_str *out) {
  char described[320];
  struct spp_para para;
  spp_para_begin(&para, style, "layout", out);
  spp_para_item(&para, SPP_TONE_TITLE, "%s", plan->job.framework->display);
  spp_para_item(&para, SPP_TONE_TITLE, "%s",
                spp_layout_describe(&plan->job, &plan->layout, described, sizeof described));
  spp_para_end(&para);
}

static void found_line(const struct spp_find_result *find, const struct spp_text_style *style,
                       struct spp_str *out) {
  static const char *const what[] = {"longest sequence", "fewest GPUs", "largest batch"};
  char value[32];
  struct spp_para para;
  if (!find || find->what == SPP_FIND_PARETO) return;
  spp_para_begin(&para, style, "found", out);
  spp_para_item(&para, SPP_TONE_GOOD, "%s %s%s", what[find->what], spp_int_print(find->value, value),
                find->what == SPP_FIND_MAX_SEQ ? " tokens" : "");
  spp_para_item(&para, SPP_TONE_PLAIN, "limit: %s", find->limit);
  spp_para_end(&para);
}

enum { NARROW = 90 }; /* below, the table leaves out its less telling columns */

/* One table row: rank, memory, speed against the best, framework and layout. */
static void plan_row(struct spp_table *table, const char *rank, const struct spp_plan *plan,
                     const struct spp_plan *best, const struct spp_text_style *style) {
  char described[320], gib[32], rate[32], change[32];
  double ratio = plan->prediction.time.tokens_per_s_per_gpu / best->prediction.time.tokens_per_s_per_gpu;
  spp_table_cell(table, rank);
  spp_table_cell(table, spp_text_gib(plan->prediction.memory.device_bytes, gib));
  spp_table_cell(table, spp_text_rate(plan->prediction.time.tokens_per_s_per_gpu, rate));
  if (style->width >= NARROW)
    spp_table_cell(table, plan == best ? "" : spp_text_signed_percent(ratio, change));
  spp_table_cellf(table, "%s%s%s · %s", plan->job.gpu == best->job.gpu ? "" : plan->job.gpu->name,
                  plan->job.gpu == best->job.gpu ? "" : " · ", plan->job.framework->name,
                  spp_layout_describe(&plan->job, &plan->layout, described, sizeof described));
}

static void start_table(struct spp_table *table, const struct spp_text_style *style) {
  static const char *const wide[] = {"", "GiB", "tok/s/GPU", "vs best", "layout"};
  static const char *const narrow[] = {"", "GiB", "tok/s/GPU", "layout"};
  spp_table_init(table, style->width >= NARROW ? "rrrrl" : "rrrl");
  spp_table_header(table, style->width >= NARROW ? wide : narrow);
}

static bool on_front(const struct spp_search_result *search, int index) {
  for (int i = 0; i < search->pareto_count; i++)
    if (search->pareto[i] == index) return true;
  return false;
}

/* The overall ranking; when verbose also the best of each framework and the Pareto front. */
static void next_plans(const struct spp_plan_report *answer, const struct spp_text_style *style,
                       struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  struct spp_table table;
  int shown = style->verbose ? search->count : search->top_count;
  char rank[16];
  if (shown < 2) return;
  spp_str_addc(out, '\n');
  start_table(&table, style);
  for (int i = 0; i < shown; i++) {
    if (i < search->top_count)
      snprintf(rank, sizeof rank, "%d%s", i + 1, style->verbose && on_front(search, i) ? "*" : "");
    else
      snprintf(rank, sizeof rank, "-%s", on_front(search, i) ? "*" : "");
    plan_row(&table, rank, &search->plans[i], &search->plans[0], style);
  }
  spp_table_print(&table, 0, style->width, out);
  spp_table_free(&table);
  if (style->verbose) spp_text_paint(style, SPP_TONE_DIM, "* no plan is both faster and smaller\n", out);
}

/* Indices of the best plan of each framework but the winner's, fastest first (stable). */
static int other_frameworks(const struct spp_plan_report *answer, int *others) {
  const struct spp_plan *plans = answer->search->plans;
  int count = 0;
  for (int i = 1; i < answer->search->count; i++) {
    double speed = plans[i].prediction.time.tokens_per_s_per_gpu;
    int at = count;
    if (!spp_fact_best_of_framework(answer, i) || plans[i].job.framework == plans[0].job.framework) continue;
    for (; at > 0 && plans[others[at - 1]].prediction.time.tokens_per_s_per_gpu < speed; at--)
      others[at] = others[at - 1];
    others[at] = i;
    count++;
  }
  return count;
}

static void others_line(const struct spp_plan_report *answer, const struct spp_text_style *style,
                        struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  const double best = search->plans[0].prediction.time.tokens_per_s_per_gpu;
  int others[SPP_MAX_FRAMEWORKS], count = other_frameworks(answer, others);
  int most = style->verbose ? count : count < 4 ? count : 4;
  char gib[32], rate[32], change[32];
  struct spp_para para;
  if (count == 0) return;
  spp_para_begin(&para, style, "others", out);
  for (int i = 0; i < most; i++) {
    const struct spp_plan *plan = &search->plans[others[i]];
    double speed = plan->prediction.time.tokens_per_s_per_gpu;
    spp_para_item(&para, SPP_TONE_PLAIN, "%s %s tok/s (%s), %s GiB", plan->job.framework->name,
                  spp_text_rate(speed, rate), spp_text_signed_percent(speed / best, change),
                  spp_text_gib(plan->prediction.memory.device_bytes, gib));
  }
  if (most < count) spp_para_item(&para, SPP_TONE_DIM, "%d more: -v", count - most);
  spp_para_end(&para);
}

/* The fastest layout of all, where the ranking passes it over because it may well not fit. */
static void risky_line(const struct spp_plan_report *answer, const struct spp_text_style *style,
                       struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  int riskier = spp_search_riskier(answer->options, search);
  if (riskier < 0) return;
  const struct spp_plan *best = &search->plans[0], *fast = &search->plans[riskier];
  double ratio = fast->prediction.time.tokens_per_s / best->prediction.time.tokens_per_s;
  char described[320], change[32], gib[32];
  struct spp_para para;
  spp_para_begin(&para, style, "riskier", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s, but only %.0f %% likely to fit at %s GiB",
                spp_text_signed_percent(ratio, change), floor(100 * fast->prediction.memory.fit_probability),
                spp_text_gib(fast->prediction.memory.device_bytes, gib));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s", fast->job.framework->display);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s",
                spp_layout_describe(&fast->job, &fast->layout, described, sizeof described));
  spp_para_item(&para, SPP_TONE_DIM, "first with --min-fit 0");
  spp_para_end(&para);
}

/* What less memory costs: points of the front, each at least a tenth smaller than the one before. */
static void trade_line(const struct spp_search_result *search, const struct spp_text_style *style,
                       struct spp_str *out) {
  const struct spp_plan *best = &search->plans[0];
  double last_bytes = (double)best->prediction.memory.device_bytes;
  char gib[32], change[32];
  struct spp_para para;
  bool any = false;
  for (int i = 0; i < search->pareto_count; i++) {
    const struct spp_plan *plan = &search->plans[search->pareto[i]];
    double bytes = (double)plan->prediction.memory.device_bytes;
    double ratio = plan->prediction.time.tokens_per_s_per_gpu / best->prediction.time.tokens_per_s_per_gpu;
    bool same = plan->job.gpu == best->job.gpu && plan->job.gpus == best->job.gpus;
    if (!same || bytes > 0.75 * last_bytes) continue;
    if (!any) spp_para_begin(&para, style, "smaller", out);
    spp_para_item(&para, SPP_TONE_PLAIN, any ? "%s at %s GiB" : "speed %s at %s GiB",
                  spp_text_signed_percent(ratio, change),
                  spp_text_gib(plan->prediction.memory.device_bytes, gib));
    any = true;
    last_bytes = bytes;
  }
  if (!any) return;
  spp_para_item(&para, SPP_TONE_DIM, "which: -v");
  spp_para_end(&para);
}

static void rejections(const struct spp_plan_report *answer, const struct spp_text_style *style,
                       struct spp_str *out) {
  const struct spp_search_result *search = answer->search;
  char count[32];
  struct spp_para para;
  if (search->rejection_count == 0) return;
  spp_para_begin(&para, style, "rejected", out);
  for (int i = 0; i < search->rejection_count; i++) {
    const struct spp_rejection *rejection = &search->rejections[i];
    spp_para_break(&para);
    spp_para_item(&para, SPP_TONE_PLAIN, "%s x %s%s%s", spp_int_print(rejection->count, count),
                  rejection->reason, rejection->example[0] ? ": " : "", rejection->example);
  }
  for (int i = 0; i < answer->options->framework_count; i++) {
    if (!search->framework_refusals[i][0]) continue;
    spp_para_break(&para);
    spp_para_item(&para, SPP_TONE_PLAIN, "%s: %s", answer->options->frameworks[i]->name,
                  search->framework_refusals[i]);
  }
  spp_para_end(&para);
}

static void searched(const struct spp_search_result *search, const struct spp_text_style *style,
                     struct spp_str *out) {
  char layouts[32], evaluated[32], seconds[32];
  struct spp_para para;
  spp_para_begin(&para, style, "searched", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s layouts", spp_int_print(search->layouts, layouts));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s evaluated", spp_int_print(search->evaluated, evaluated));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s", spp_seconds_print(search->seconds, seconds));
  spp_para_item(&para, SPP_TONE_PLAIN, "%d thread%s", search->threads, search->threads == 1 ? "" : "s");
  spp_para_end(&para);
}

static void more_line(const struct spp_text_style *style, struct spp_str *out) {
  struct spp_para para;
  spp_para_begin(&para, style, "more", out);
  spp_para_item(&para, SPP_TONE_DIM, "all plans: --top 10");
  spp_para_item(&para, SPP_TONE_DIM, "every byte: --explain memory");
  spp_para_item(&para, SPP_TONE_DIM, "every reason: -v");
  spp_para_item(&para, SPP_TONE_DIM, "script: --json");
  spp_para_end(&para);
}

/* What each GPU type came to, the best first. */
static void machines_line(const struct spp_plan_report *answer, const struct spp_text_style *style,
                          struct spp_str *out) {
  const struct spp_machines_result *machines = answer->machines;
  char rate[32], change[32], value[32];
  struct spp_para para;
  bool valued = answer->find && answer->find->what != SPP_FIND_PARETO;
  if (!machines) return;
  spp_para_begin(&para, style, "gpus", out);
  for (int i = 0; i < machines->count; i++) {
    const struct spp_machine_answer *own = &machines->answers[i];
    if (i > 0) spp_para_break(&para);
    if (own->best < 0) {
      spp_para_item(&para, SPP_TONE_DIM, "%s: %s", own->gpu->name, own->why_not);
      continue;
    }
    const struct spp_time *time = &answer->search->plans[own->best].prediction.time,
                          *best = &answer->search->plans[0].prediction.time;
    spp_para_item(&para, SPP_TONE_PLAIN, "%s%s%s", own->gpu->name, valued ? ": " : "",
                  valued ? spp_int_print(own->value, value) : "");
    spp_para_item(&para, SPP_TONE_PLAIN, "%s tok/s in all%s%s%s", spp_text_rate(time->tokens_per_s, rate),
                  i ? " (" : "",
                  i ? spp_text_signed_percent(time->tokens_per_s / best->tokens_per_s, change) : "",
                  i ? ")" : "");
    spp_text_cost_item(&answer->search->plans[own->best].job, time, &para);
    if (!(time->usd_per_million_tokens > 0)) spp_para_item(&para, SPP_TONE_DIM, "no price known");
  }
  spp_para_end(&para);
}

/* Of the one GPU type that was asked; several stand in the line above. */
static void cost_line(const struct spp_plan_report *answer, const struct spp_text_style *style,
                      struct spp_str *out) {
  struct spp_para para;
  if (answer->machines || answer->options->objective != SPP_OBJECTIVE_COST) return;
  spp_para_begin(&para, style, "cost", out);
  spp_text_cost_item(&answer->search->plans[0].job, &answer->search->plans[0].prediction.time, &para);
  spp_para_end(&para);
}

static void advice(const struct spp_plan *plan, const struct spp_text_style *style, struct spp_str *out) {
  struct spp_advice words[SPP_MAX_ADVICE];
  int most = style->verbose ? SPP_MAX_ADVICE : 3;
  spp_text_advice(style, "next", SPP_TONE_PLAIN, words, spp_advise_next(plan, words, SPP_MAX_ADVICE), most,
                  out);
  spp_text_advice(style, "why not", SPP_TONE_PLAIN, words, spp_advise_why_not(plan, words, SPP_MAX_ADVICE),
                  most, out);
}

static void winner(const struct spp_report *report, const struct spp_plan_report *answer,
                   const struct spp_text_style *style, struct spp_str *out) {
  const struct spp_plan *plan = &answer->search->plans[0];
  spp_text_headline(report, &plan->job, style, out);
  found_line(answer->find, style, out);
  spp_str_addc(out, '\n');
  spp_text_verdict(&plan->job, &plan->prediction, style, out);
  spp_str_addc(out, '\n');
  layout_line(plan, style, out);
  machines_line(answer, style, out);
  cost_line(answer, style, out);
  if (style->quiet) return;
  spp_text_memory_bar(&plan->job, &plan->prediction.memory, style, out);
  spp_text_comm_line(&plan->job, &plan->layout, &plan->prediction.comm, style, out);
  spp_text_epoch_line(report, &plan->job, &plan->prediction, style, out);
  spp_text_failures_line(report, plan, style, out);
  spp_text_warnings(report, plan, style, out);
  advice(plan, style, out);
  risky_line(answer, style, out);
  others_line(answer, style, out);
  trade_line(answer->search, style, out);
  spp_text_assumed(report, plan, style, out);
  if (answer->find && answer->find->what == SPP_FIND_PARETO)
    spp_text_front(answer, style, out);
  else
    next_plans(answer, style, out);
  spp_str_addc(out, '\n');
  if (style->verbose) rejections(answer, style, out);
  searched(answer->search, style, out);
  spp_text_launch(&plan->job, &plan->layout, style, out);
  more_line(style, out);
}

static void miss_words(const struct spp_memory *memory, char *text, size_t size) {
  char gpu[32], host[32];
  spp_bytes_print(-memory->headroom_bytes, gpu);
  spp_bytes_print(memory->host_bytes_per_node - memory->host_capacity_bytes, host);
  if (!memory->fits && !memory->host_fits)
    snprintf(text, size,
             "NOTHING FITS: the nearest miss lacks %s on each GPU and %s of host memory on each node", gpu,
             host);
  else
    snprintf(text, size, "NOTHING FITS: the nearest miss lacks %s %s", memory->fits ? host : gpu,
             memory->fits ? "of host memory on each node" : "on each GPU");
}

/* What the nearest miss has not tried. */
static void beyond_line(const struct spp_plan *plan, const struct spp_text_style *style,
                        struct spp_str *out) {
  bool adapters = spp_job_has_adapters(&plan->job);
  const char *method = !adapters ? ", LoRA" : plan->job.method == SPP_METHOD_LORA ? ", QLoRA" : "";
  struct spp_advice advice = {"", ""};
  snprintf(advice.text, sizeof advice.text,
           "fewer tokens, more GPUs%s%s: --find max-seq and --find min-gpus say how far", method,
           plan->layout.offload == SPP_OFFLOAD_NONE ? ", offload" : "");
  spp_text_advice(style, "next", SPP_TONE_PLAIN, &advice, 1, 1, out);
}

/* Nothing fits: the nearest miss, by how much, and what was in the way. */
static void miss(const struct spp_report *report, const struct spp_plan_report *answer,
                 const struct spp_text_style *style, struct spp_str *out) {
  const struct spp_plan *plan = &answer->search->nearest;
  const struct spp_memory *memory = &plan->prediction.memory;
  char text[160];
  spp_text_headline(report, &plan->job, style, out);
  spp_str_addc(out, '\n');
  miss_words(memory, text, sizeof text);
  spp_text_line(style, NULL, SPP_TONE_BAD, text, out);
  spp_str_addc(out, '\n');
  spp_text_verdict(&plan->job, &plan->prediction, style, out);
  layout_line(plan, style, out);
  if (style->quiet) return;
  spp_text_memory_bar(&plan->job, memory, style, out);
  spp_text_warnings(report, plan, style, out);
  beyond_line(plan, style, out);
  spp_text_assumed(report, plan, style, out);
  rejections(answer, style, out);
  searched(answer->search, style, out);
}

void spp_text_plan(const struct spp_report *report, const struct spp_plan_report *answer,
                   const struct spp_text_style *style, struct spp_str *out) {
  if (answer->search->count > 0)
    winner(report, answer, style, out);
  else if (answer->search->has_nearest)
    miss(report, answer, style, out);
  else
    spp_str_add(out, "NOTHING FITS\n");
}
