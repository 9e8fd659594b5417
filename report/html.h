/* Building blocks of the HTML report. Every text is escaped; the page is well-formed XML too. */
#ifndef SPP_REPORT_HTML_H
#define SPP_REPORT_HTML_H

#include "report/facts.h"
#include "report/svg_memory.h"
#include "report/timeline.h"

/* <html> up to the body with the style sheet, and its end. */
void spp_html_open(struct spp_str *out, const char *title);
void spp_html_close(struct spp_str *out);
void spp_html_section(struct spp_str *out, const char *heading);
void spp_html_section_end(struct spp_str *out);
/* An element around escaped text; class may be NULL. */
void spp_html_element(struct spp_str *out, const char *element, const char *class, const char *text);

/* A table: columns named in `head`, "r" or "l" a column in `align`; cells row by row. */
struct spp_html_table {
  struct spp_str *out;
  const char *align;
  const char *const *head;
  int columns, column;
};
void spp_html_table(struct spp_html_table *table, const char *align, const char *const *head,
                    struct spp_str *out);
void spp_html_cell(struct spp_html_table *table, const char *fmt, ...) SPP_PRINTF(2, 3);
void spp_html_table_end(struct spp_html_table *table);

/* A row of a chart: words at the left, a strip of [0, 1000] x 20 that stretches, words at the right. */
void spp_html_strip(struct spp_str *out, const char *label);
void spp_html_strip_bar(struct spp_str *out, double from, double to, const char *colour, const char *title);
void spp_html_strip_mark(struct spp_str *out, double at);
void spp_html_strip_end(struct spp_str *out, const char *value);
void spp_html_legend(struct spp_str *out, const char *const *names, const char *const *colours, int count);

/* Charts of html_charts.c. `ledger` holds the tensors of the worst rank. */
void spp_html_memory(const struct spp_job *job, const struct spp_memory *memory,
                     const struct spp_ledger *ledger, struct spp_str *out);
void spp_html_timeline(const struct spp_timeline *timeline, struct spp_str *out);
void spp_html_front(const struct spp_search_result *search, struct spp_str *out);

#endif
