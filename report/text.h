/* Building blocks of the text answers: labelled, wrapped paragraphs, coloured by what they mean. */
#ifndef SPP_REPORT_TEXT_H
#define SPP_REPORT_TEXT_H

#include "base/table.h"
#include "report/facts.h"
#include "report/report.h"

/* What a piece of text means; the colours are in one table in text.c. Meaning is never by colour alone. */
enum spp_tone {
  SPP_TONE_PLAIN,
  SPP_TONE_TITLE,
  SPP_TONE_GOOD,
  SPP_TONE_BAD,
  SPP_TONE_WARN,
  SPP_TONE_DIM,
  SPP_TONE_COUNT
};
void spp_text_paint(const struct spp_text_style *style, enum spp_tone tone, const char *text,
                    struct spp_str *out);

enum { SPP_TEXT_LABEL = 11 }; /* columns of the label at the left */

/* A paragraph of items joined by " · ": "label      item · item", wrapped before items where it can, inside
 * them at spaces where it must. */
struct spp_para {
  const struct spp_text_style *style;
  struct spp_str *out;
  int column; /* where the next character goes */
  int indent;
  bool first;
};
void spp_para_begin(struct spp_para *para, const struct spp_text_style *style, const char *label,
                    struct spp_str *out);
void spp_para_item(struct spp_para *para, enum spp_tone tone, const char *fmt, ...) SPP_PRINTF(3, 4);
/* The next item begins a new line. */
void spp_para_break(struct spp_para *para);
void spp_para_end(struct spp_para *para);
/* A paragraph of one sentence. */
void spp_text_line(const struct spp_text_style *style, const char *label, enum spp_tone tone,
                   const char *text, struct spp_str *out);
/* One line an entry of `advice` under one label, at most `most`; nothing when count is 0. */
void spp_text_advice(const struct spp_text_style *style, const char *label, enum spp_tone tone,
                     const struct spp_advice *advice, int count, int most, struct spp_str *out);

/* The front of --find pareto as a table: the fastest of each count of GPUs; all of it when verbose. */
void spp_text_front(const struct spp_plan_report *answer, const struct spp_text_style *style,
                    struct spp_str *out);

/* Turns what is not ASCII into ASCII of the same width, in place. */
void spp_text_to_ascii(struct spp_str *text);

/* Numbers as people read them. */
const char *spp_text_gib(int64_t bytes, char buf[32]);           /* "58.1" */
const char *spp_text_percent(double share, char buf[32]);        /* "41" */
const char *spp_text_rate(double per_s, char buf[32]);           /* "3,410" */
const char *spp_text_signed_percent(double ratio, char buf[32]); /* "+6 %" for 1.06 */

/* The two lines at the top: what was asked, and the verdict with memory, speed and time. */
void spp_text_headline(const struct spp_report *report, const struct spp_job *job,
                       const struct spp_text_style *style, struct spp_str *out);
void spp_text_verdict(const struct spp_job *job, const struct spp_prediction *prediction,
                      const struct spp_text_style *style, struct spp_str *out);
/* [wwwggoooLL...] and what each letter stands for. */
void spp_text_memory_bar(const struct spp_job *job, const struct spp_memory *memory,
                         const struct spp_text_style *style, struct spp_str *out);
void spp_text_comm_line(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_comm *comm, const struct spp_text_style *style, struct spp_str *out);
/* What a million tokens cost, and at which price; nothing where no price is known. */
void spp_text_cost_item(const struct spp_job *job, const struct spp_time *time, struct spp_para *para);
void spp_text_epoch_line(const struct spp_report *report, const struct spp_job *job,
                         const struct spp_prediction *prediction, const struct spp_text_style *style,
                         struct spp_str *out);
/* Goodput, where --mtbf was given. */
void spp_text_failures_line(const struct spp_report *report, const struct spp_plan *plan,
                            const struct spp_text_style *style, struct spp_str *out);
/* warnings, assumed and run: the foot of plan and predict. */
/* plan may be NULL: options without effect alone. */
void spp_text_warnings(const struct spp_report *report, const struct spp_plan *plan,
                       const struct spp_text_style *style, struct spp_str *out);
void spp_text_assumed(const struct spp_report *report, const struct spp_plan *plan,
                      const struct spp_text_style *style, struct spp_str *out);
/* The launch command, wrapped with backslashes so that it can be pasted; a long one only when verbose. */
void spp_text_launch(const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_text_style *style, struct spp_str *out);

#endif
