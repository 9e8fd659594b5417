/* What calibrate found: the profile as a file that --cluster reads, and as text. */
#ifndef SPP_CLI_PROFILE_REPORT_H
#define SPP_CLI_PROFILE_REPORT_H

#include "base/strbuf.h"
#include "exec/calib.h"
#include "report/report.h"

struct spp_profile_answer {
  struct spp_report report;
  struct spp_text_style style;
  const char *backend;
  const char *file; /* where the profile went; NULL: nowhere */
  char kernels[256];
  const struct spp_profile *profile;
};

void spp_json_profile(const struct spp_profile_answer *answer, struct spp_str *out);
void spp_text_profile(const struct spp_profile_answer *answer, struct spp_str *out);
void spp_csv_profile(const struct spp_profile_answer *answer, struct spp_str *out);

#endif
