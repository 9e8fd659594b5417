/* The answer of validate, as text, JSON, CSV and JUnit XML. */
#ifndef SPP_CLI_VALIDATE_REPORT_H
#define SPP_CLI_VALIDATE_REPORT_H

#include "base/strbuf.h"
#include "exec/validate.h"
#include "report/report.h"
#include "report/text.h"

struct spp_validated {
  char name[96];
  struct spp_layout layout;
  int64_t ranks, seq_tokens;
  bool contiguous; /* order of a ring or all-gather */
  bool skipped;    /* then only why counts */
  struct spp_diag why;
  struct spp_validate_result result;
};

struct spp_validate_answer {
  struct spp_report report;
  struct spp_text_style style;
  const char *backend;
  const struct spp_device *device; /* NULL: the processor */
  char kernels[256];               /* what its kernels run on */
  int64_t processors;
  const struct spp_framework *framework;
  int count, passed, failed, skipped;
  const char *left_out; /* parts of the named model that do not run; NULL: none */
  const char *profile;  /* where the rates come from: a file, or "measured before the cases" */
  struct spp_validated *cases;
};

void spp_text_validate(const struct spp_validate_answer *answer, bool verbose, bool quiet,
                       struct spp_str *out);
void spp_json_validate(const struct spp_validate_answer *answer, struct spp_str *out);
void spp_csv_validate(const struct spp_validate_answer *answer, struct spp_str *out);
void spp_junit_validate(const struct spp_validate_answer *answer, struct spp_str *out);

#endif
