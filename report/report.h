/* A result as text, JSON or CSV. Nothing here computes: numbers come from model and planner. Every function
 * appends to a string and cannot fail otherwise than by out->failed. */
#ifndef SPP_REPORT_REPORT_H
#define SPP_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "model/goodput.h"
#include "planner/advise.h"
#include "planner/alloc.h"
#include "planner/compare.h"
#include "planner/degrees.h"
#include "planner/machines.h"
#include "planner/sensitivity.h"

/* One parsed input, echoed under "inputs". */
enum spp_echo_kind {
  SPP_ECHO_NULL,
  SPP_ECHO_I64,
  SPP_ECHO_REAL,
  SPP_ECHO_BOOL,
  SPP_ECHO_TEXT,
  SPP_ECHO_TEXTS,
  SPP_ECHO_REALS
};
struct spp_echo {
  const char *key;
  enum spp_echo_kind kind;
  int64_t i64; /* also BOOL */
  double real;
  const char *text;
  const char *const *texts;
  const double *reals;
  int text_count; /* of texts or reals */
  bool given;     /* by a person, not a default */
};

/* What every report shows besides the answer. All borrowed. */
struct spp_report {
  const struct spp_echo *inputs;
  int input_count;
  const struct spp_job_spec *spec;
  const char *gpu_note;                    /* "no GPU found here", NULL when --gpu was given */
  int searched_frameworks;                 /* how many were searched; 0 = the framework was given */
  int64_t dataset_tokens, dataset_samples; /* or SPP_UNSET */
  struct spp_failures failures;            /* gpu_mtbf_s not above 0: not asked */
  const struct spp_advice *idle;           /* options that were given and change nothing */
  int idle_count;
  const struct spp_advice *assumed; /* beside what the job itself assumes: defaults of a file that was read */
  int assumed_count;
};

/* How text looks. */
struct spp_text_style {
  int width; /* 60 .. 100 */
  bool utf8, color, quiet, verbose;
};

/* import: what a framework's command or configuration said. */
struct spp_read_setting {
  const char *name, *value, *flag; /* flag NULL: nothing said it, it follows from others */
  int line;                        /* 0: it stands nowhere */
  bool assumed;                    /* the framework's default */
};
struct spp_read_message {
  const char *what, *flag, *nearest, *text; /* "unknown", as typed, a name or NULL, a sentence */
  int line;
};
struct spp_read_report {
  const char *file, *format;
  const struct spp_read_setting *settings;
  const struct spp_read_message *messages;
  int setting_count, message_count;
};

/* predict, and import where `read` is not NULL. `violations` are the rules an illegal layout breaks: then
 * `prediction` is NULL. `layout` may be NULL when the degrees do not even multiply. */
struct spp_predict_report {
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_prediction *prediction;
  const struct spp_ledger *ledger;
  const struct spp_violation *violations;
  int violation_count;
  const struct spp_sensitivity *sensitivities; /* NULL: not asked */
  int sensitivity_count;
  bool tensors;                       /* JSON lists the ledger */
  const struct spp_read_report *read; /* the job was read from a framework's command; NULL: it was not */
};
void spp_text_predict(const struct spp_report *report, const struct spp_predict_report *answer,
                      const struct spp_text_style *style, struct spp_str *out);
void spp_json_predict(const struct spp_report *report, const struct spp_predict_report *answer,
                      struct spp_str *out);
void spp_csv_predict(const struct spp_predict_report *answer, struct spp_str *out);

/* --explain: the ledgers behind a legal answer. memory: tensor by tensor; comm: op by op; time: part by part;
 * layer: what the decoder layers keep and need while they work; sensitivity: what one thing more would
 * change, which is not part of all. */
enum spp_explain {
  SPP_EXPLAIN_ALL,
  SPP_EXPLAIN_MEMORY,
  SPP_EXPLAIN_COMM,
  SPP_EXPLAIN_TIME,
  SPP_EXPLAIN_LAYER,
  SPP_EXPLAIN_SENSITIVITY
};
void spp_text_explain(enum spp_explain part, const struct spp_predict_report *answer,
                      const struct spp_text_style *style, struct spp_str *out);

/* plan; `find` is NULL unless --find was asked. */
struct spp_plan_report {
  const struct spp_search_result *search;
  const struct spp_search_options *options;
  const struct spp_find_result *find;
  const struct spp_machines_result *machines;  /* NULL unless several GPU types were asked */
  const struct spp_sensitivity *sensitivities; /* of the first plan; NULL: not asked */
  int sensitivity_count;
  const struct spp_ledger *ledger; /* of the first plan, for JSON; NULL: not asked */
};
void spp_text_plan(const struct spp_report *report, const struct spp_plan_report *answer,
                   const struct spp_text_style *style, struct spp_str *out);
void spp_json_plan(const struct spp_report *report, const struct spp_plan_report *answer,
                   struct spp_str *out);
void spp_csv_plan(const struct spp_plan_report *answer, struct spp_str *out);
/* Cost is a figure of the Pareto front: several GPU types, or counts of them, were asked, and all have a
 * price. */
bool spp_front_counts_cost(const struct spp_plan_report *answer);
const char *spp_find_name(enum spp_find what); /* "max-seq" */

void spp_text_compare(const struct spp_report *report, const struct spp_compare_result *result,
                      const struct spp_text_style *style, struct spp_str *out);
void spp_json_compare(const struct spp_report *report, const struct spp_compare_result *result,
                      struct spp_str *out);
void spp_csv_compare(const struct spp_compare_result *result, struct spp_str *out);
void spp_svg_compare(const struct spp_compare_result *result, struct spp_str *out);

void spp_text_degrees(const struct spp_report *report, const struct spp_job *job,
                      const struct spp_degrees *degrees, const struct spp_text_style *style,
                      struct spp_str *out);
void spp_json_degrees(const struct spp_report *report, const struct spp_job *job,
                      const struct spp_degrees *degrees, struct spp_str *out);
void spp_csv_degrees(const struct spp_degrees *degrees, struct spp_str *out);

void spp_text_alloc(const struct spp_report *report, const struct spp_predict_report *job, int64_t bytes,
                    const struct spp_alloc_match *matches, int count, const struct spp_text_style *style,
                    struct spp_str *out);
void spp_json_alloc(const struct spp_report *report, int64_t bytes, const struct spp_alloc_match *matches,
                    int count, struct spp_str *out);
void spp_csv_alloc(int64_t bytes, const struct spp_alloc_match *matches, int count, struct spp_str *out);

/* One point of a sweep. `values` are the texts given to the variables. */
enum { SPP_SWEEP_MAX_VARIABLES = 2 };
struct spp_sweep_point {
  const char *values[SPP_SWEEP_MAX_VARIABLES];
  const struct spp_plan *plan; /* the best layout there, or the nearest miss; NULL when none is legal */
  const char *why_not;         /* why there is no plan, else NULL */
};
struct spp_sweep {
  const char *variables[SPP_SWEEP_MAX_VARIABLES]; /* option names */
  int variable_count;
  struct spp_sweep_point *points;
  int count;
};
void spp_text_sweep(const struct spp_report *report, const struct spp_sweep *sweep,
                    const struct spp_text_style *style, struct spp_str *out);
void spp_json_sweep(const struct spp_report *report, const struct spp_sweep *sweep, struct spp_str *out);
void spp_csv_sweep(const struct spp_sweep *sweep, struct spp_str *out);
void spp_svg_sweep(const struct spp_sweep *sweep, struct spp_str *out);

/* One plan as a page of HTML: no script, nothing loaded, dark and light. `search` gives the alternatives. */
struct spp_timeline;
struct spp_html_report {
  const struct spp_report *report;
  const struct spp_search_result *search;
  const struct spp_plan *plan;
  const struct spp_ledger *ledger;     /* of its worst rank */
  const struct spp_timeline *timeline; /* NULL: too many micro-batches to draw */
};
void spp_html_plan(const struct spp_html_report *answer, struct spp_str *out);

/* A table of things: columns of text, numbers or yes/no. */
enum { SPP_LIST_MAX_COLUMNS = 12 };
struct spp_list_column {
  const char *key;    /* in JSON and CSV */
  const char *header; /* in text; NULL = not shown there */
};
struct spp_list {
  const char *what; /* "models" */
  struct spp_list_column columns[SPP_LIST_MAX_COLUMNS];
  int column_count;
  struct spp_echo *cells; /* row by row; an echo's key is ignored */
  int count;
};
void spp_text_list(const struct spp_list *list, const struct spp_text_style *style, struct spp_str *out);
void spp_json_list(const struct spp_list *list, struct spp_str *out);
void spp_csv_list(const struct spp_list *list, struct spp_str *out);

#endif
