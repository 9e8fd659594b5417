/* What two jobs and their layouts differ in, field by field. */
#ifndef SPP_INTEROP_FIELDS_H
#define SPP_INTEROP_FIELDS_H

#include "base/arena.h"
#include "model/layout.h"

struct spp_field_pair {
  const char *name;  /* of the option: "zero" */
  const char *a, *b; /* as it could be typed */
};
enum { SPP_MAX_FIELD_PAIRS = 64 };
extern const char spp_field_unset[]; /* the text of a field that nobody set */

/* Fields that matter to neither (a LoRA rank without adapters) are left out. Fills at most `max` pairs. */
enum spp_status spp_fields_compare(const struct spp_job *a_job, const struct spp_layout *a_layout,
                                   const struct spp_job *b_job, const struct spp_layout *b_layout,
                                   struct spp_arena *arena, struct spp_field_pair *pairs, int max, int *count,
                                   struct spp_diag *diag);

#endif
