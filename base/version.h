/* What this build is: the first thing asked in every bug report. */
#ifndef SPP_BASE_VERSION_H
#define SPP_BASE_VERSION_H

#include <stdbool.h>

const char *spp_version(void);          /* "0.1.0" */
const char *spp_version_commit(void);   /* short commit, "+" after it when files were changed, or "unknown" */
const char *spp_version_compiler(void); /* "gcc 12.2.0" */

/* An optional part of the program. */
struct spp_feature {
  const char *name;
  bool built;
  const char *gives; /* what it is good for */
};

/* All optional parts, built or not; *n their number. */
const struct spp_feature *spp_features(int *n);

#endif
