/* The JSON objects that several answers share; docs/schema/ describes them. Keys and their order are an
 * interface. */
#ifndef SPP_REPORT_JSON_PARTS_H
#define SPP_REPORT_JSON_PARTS_H

#include "base/json_out.h"
#include "report/report.h"

/* {"schema":…,"version":…,"inputs":{…}: the caller goes on and closes the object. */
void spp_jp_open(struct spp_jo *jo, struct spp_str *out, const char *schema, const struct spp_report *report);
void spp_jp_echo(struct spp_jo *jo, const char *key, const struct spp_echo *echo);
void spp_jp_model(struct spp_jo *jo, const struct spp_job *job);
void spp_jp_layout(struct spp_jo *jo, const struct spp_job *job, const struct spp_layout *layout);
void spp_jp_memory(struct spp_jo *jo, const struct spp_job *job, const struct spp_memory *memory);
void spp_jp_comm(struct spp_jo *jo, const struct spp_layout *layout, const struct spp_comm *comm);
void spp_jp_time(struct spp_jo *jo, const struct spp_report *report, const struct spp_job *job,
                 const struct spp_layout *layout, const struct spp_prediction *prediction);
void spp_jp_cost(struct spp_jo *jo, const struct spp_time *time);
/* layout, memory, comm, time, cost of one plan, inside an object the caller opened. */
void spp_jp_plan(struct spp_jo *jo, const struct spp_report *report, const struct spp_plan *plan);
/* "sensitivity":[…], null where it was not asked. */
void spp_jp_sensitivity(struct spp_jo *jo, const struct spp_sensitivity *rows, int count);
/* Same keys, all null: a row that is not legal. */
void spp_jp_no_plan(struct spp_jo *jo);
/* "tensors":[…]: the ledger of the worst stage, null when it was not asked for (NULL). Rows at the peak sum
 * to device_bytes. */
void spp_jp_tensors(struct spp_jo *jo, const struct spp_ledger *ledger, const struct spp_memory *memory);
/* "warnings":[…] of an answer that is no plan: options without effect. */
void spp_jp_warnings(struct spp_jo *jo, const struct spp_report *report);
/* "warnings":[…] and "assumed":[…] of a plan; empty arrays when plan is NULL. */
void spp_jp_words(struct spp_jo *jo, const struct spp_report *report, const struct spp_plan *plan);

#endif
