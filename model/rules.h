/* One row per rule. Rows marked general hold for every framework; the others where a framework file lists
 * them. */
#ifndef SPP_MODEL_RULES_H
#define SPP_MODEL_RULES_H

#include "model/layout.h"

struct spp_rule {
  const char *id;
  bool (*broken)(const struct spp_job *job, const struct spp_layout *layout);
  const char *text; /* template of model/values.h */
  unsigned axes;    /* enum spp_axis bits: degrees it is about */
  size_t vary; /* offset of the int64_t layout field whose legal values are worth listing, or SPP_VARY_NONE */
  const char *source; /* general rules: where it was read; others carry it in the framework file */
};
#define SPP_VARY_NONE   ((size_t)-1)
#define SPP_VARY(field) offsetof(struct spp_layout, field)

/* The general rules, checked in this order, and those that frameworks list. */
extern const struct spp_rule spp_rules_general[];
extern const int spp_rules_general_count;
extern const struct spp_rule spp_rules_listed[];
extern const int spp_rules_listed_count;

#endif
