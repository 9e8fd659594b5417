/* The score against measured runs, as text, JSON and CSV. */
#ifndef SPP_REPORT_ACCURACY_H
#define SPP_REPORT_ACCURACY_H

#include "planner/score.h"
#include "report/report.h"

struct spp_accuracy_report {
  const struct spp_scoreboard *board;
  int worst; /* runs listed by error, memory and time each; text only */
};
void spp_text_accuracy(const struct spp_accuracy_report *answer, const struct spp_text_style *style,
                       struct spp_str *out);
void spp_json_accuracy(const struct spp_report *report, const struct spp_accuracy_report *answer,
                       struct spp_str *out);
/* A picture: predicted against measured on log axes. */
void spp_svg_accuracy(const struct spp_accuracy_report *answer, struct spp_str *out);
void spp_csv_accuracy(const struct spp_accuracy_report *answer, struct spp_str *out);

#endif
