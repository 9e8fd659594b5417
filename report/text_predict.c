#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "planner/advise.h"
#include "report/text.h"

static void phases_line(const struct spp_job *job, const struct spp_memory *memory,
                        const struct spp_text_style *style, struct spp_str *out) {
  enum spp_phase peak = spp_moment_phase(memory->peak_moment);
  char gib[32];
  struct spp_para para;
  spp_para_begin(&para, style, "phases", out);
  for (int i = 0; i < SPP_PHASE_COUNT; i++) {
    const char *words = spp_phase_words(job, (enum spp_phase)i);
    if (words)
      spp_para_item(&para, SPP_TONE_PLAIN, "%s %s%s", words, spp_text_gib(memory->phase_bytes[i], gib),
                    (int)peak == i ? " (peak)" : "");
  }
  spp_para_end(&para);
}

static void allocator_line(const struct spp_memory *memory, const struct spp_text_style *style,
                           struct spp_str *out) {
  char gib[32];
  struct spp_para para;
  spp_para_begin(&para, style, "seen as", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "torch max allocated %s", spp_text_gib(memory->peak_bytes, gib));
  spp_para_item(&para, SPP_TONE_PLAIN, "reserved %s", spp_text_gib(memory->reserved_bytes, gib));
  spp_para_item(&para, SPP_TONE_PLAIN, "nvidia-smi %s GiB", spp_text_gib(memory->device_bytes, gib));
  spp_para_item(&para, SPP_TONE_PLAIN, "worst rank %lld", (long long)memory->worst_rank);
  spp_para_end(&para);
}

static void layer_line(const struct spp_job *job, const struct spp_memory *memory,
                       const struct spp_text_style *style, struct spp_str *out) {
  char kept[32], checkpoint[32];
  struct spp_para para;
  spp_para_begin(&para, style, "layers", out);
  for (int i = 0; i < job->arch->kind_count; i++) {
    bool as_it_is = memory->kept_bytes[i] == memory->checkpoint_bytes[i];
    const struct spp_layer_kind *kind = &job->arch->kinds[i];
    spp_para_item(&para, SPP_TONE_PLAIN, "%lld %s%s keep%s %s%s%s%s", (long long)kind->count,
                  kind->count == 1 ? "layer" : "layers", kind->moe ? " with experts" : "",
                  kind->count == 1 ? "s" : "", spp_bytes_print(memory->checkpoint_bytes[i], checkpoint),
                  as_it_is ? "" : " of ", as_it_is ? "" : spp_bytes_print(memory->kept_bytes[i], kept),
                  kind->count == 1 ? "" : " each");
  }
  spp_para_end(&para);
}

static void time_line(const struct spp_time *time, const struct spp_text_style *style, struct spp_str *out) {
  char seconds[32], share[32];
  struct spp_para para;
  spp_para_begin(&para, style, "time", out);
  for (int i = 0; i < spp_time_part_count; i++) {
    double part = spp_fact_time_part(time, i);
    if (!(part > 0)) continue;
    spp_para_item(&para, SPP_TONE_PLAIN, "%s %s (%s %%)", spp_time_parts[i].words,
                  spp_seconds_print(part, seconds), spp_text_percent(part / time->step_s, share));
  }
  spp_para_end(&para);
}

static void log_item(const struct spp_predict_report *answer, struct spp_para *para) {
  const struct spp_prediction *p = answer->prediction;
  enum spp_reporter own = answer->job->framework->reports;
  struct spp_log_figures log;
  char rate[32], share[32];
  if (own == SPP_REPORTER_NONE || answer->job->mode == SPP_MODE_INFER) return;
  spp_log_figures(own, answer->job, answer->layout, &p->geometry, &p->time, &log);
  if (log.mfu > 0)
    spp_para_item(para, SPP_TONE_PLAIN, "its log: %s TFLOP/s a GPU, MFU %s %% (%s)",
                  spp_text_rate(log.tflops_per_gpu, rate), spp_text_percent(log.mfu, share), log.convention);
  else
    spp_para_item(para, SPP_TONE_PLAIN, "its log: %s TFLOP/s a GPU (%s)",
                  spp_text_rate(log.tflops_per_gpu, rate), log.convention);
}

static void efficiency_line(const struct spp_predict_report *answer, const struct spp_text_style *style,
                            struct spp_str *out) {
  const struct spp_time *time = &answer->prediction->time;
  char a[32], b[32], c[32], d[32];
  struct spp_para para;
  spp_para_begin(&para, style, "efficiency", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "MFU %s %% (causal), %s %% (full attention counted)",
                spp_text_percent(time->mfu_causal, a), spp_text_percent(time->mfu_full, b));
  spp_para_item(&para, SPP_TONE_PLAIN, "HFU %s %%", spp_text_percent(time->hfu, a));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s TFLOP/s a GPU", spp_text_rate(time->tflops_per_gpu_causal, c));
  log_item(answer, &para);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s tok/s in all", spp_text_rate(time->tokens_per_s, d));
  spp_text_cost_item(answer->job, time, &para);
  spp_para_end(&para);
}

static void rules(const struct spp_predict_report *answer, const struct spp_text_style *style,
                  struct spp_str *out) {
  struct spp_para para;
  spp_para_begin(&para, style, "rule", out);
  for (int i = 0; i < answer->violation_count; i++) {
    spp_para_break(&para);
    spp_para_item(&para, SPP_TONE_PLAIN, "%s: %s", answer->violations[i].rule, answer->violations[i].text);
    if (answer->violations[i].source[0])
      spp_para_item(&para, SPP_TONE_DIM, "%s", answer->violations[i].source);
  }
  spp_para_end(&para);
}

static void layout_line(const struct spp_predict_report *answer, const struct spp_text_style *style,
                        struct spp_str *out) {
  char described[320];
  struct spp_para para;
  spp_para_begin(&para, style, "layout", out);
  spp_para_item(&para, SPP_TONE_TITLE, "%s", answer->job->framework->display);
  if (answer->layout)
    spp_para_item(&para, SPP_TONE_TITLE, "%s",
                  spp_layout_describe(answer->job, answer->layout, described, sizeof described));
  spp_para_end(&para);
}

/* Single changes of a layout that does not fit: first those that make it fit. */
static void next_line(const struct spp_plan *plan, const struct spp_text_style *style, struct spp_str *out) {
  struct spp_advice words[SPP_MAX_ADVICE];
  spp_text_advice(style, "next", SPP_TONE_PLAIN, words, spp_advise_next(plan, words, SPP_MAX_ADVICE),
                  style->verbose ? SPP_MAX_ADVICE : 3, out);
}

void spp_text_predict(const struct spp_report *report, const struct spp_predict_report *answer,
                      const struct spp_text_style *style, struct spp_str *out) {
  struct spp_plan plan;
  spp_text_headline(report, answer->job, style, out);
  spp_str_addc(out, '\n');
  if (!answer->prediction) {
    spp_text_paint(style, SPP_TONE_BAD, "ILLEGAL\n", out);
    layout_line(answer, style, out);
    rules(answer, style, out);
    return;
  }
  plan = (struct spp_plan){*answer->job, *answer->layout, *answer->prediction};
  spp_text_verdict(answer->job, answer->prediction, style, out);
  spp_str_addc(out, '\n');
  layout_line(answer, style, out);
  if (style->quiet) return;
  spp_text_memory_bar(answer->job, &answer->prediction->memory, style, out);
  phases_line(answer->job, &answer->prediction->memory, style, out);
  allocator_line(&answer->prediction->memory, style, out);
  if (answer->job->mode != SPP_MODE_INFER) layer_line(answer->job, &answer->prediction->memory, style, out);
  spp_text_comm_line(answer->job, answer->layout, &answer->prediction->comm, style, out);
  time_line(&answer->prediction->time, style, out);
  efficiency_line(answer, style, out);
  spp_text_epoch_line(report, answer->job, answer->prediction, style, out);
  spp_text_failures_line(report, &plan, style, out);
  spp_text_warnings(report, &plan, style, out);
  if (!(plan.prediction.memory.fits && plan.prediction.memory.host_fits)) next_line(&plan, style, out);
  spp_text_assumed(report, &plan, style, out);
  spp_text_launch(answer->job, answer->layout, style, out);
}
