/* The table of model families. */
#ifndef SPP_MODEL_ARCH_FAMILIES_H
#define SPP_MODEL_ARCH_FAMILIES_H

#include "model/arch_read.h"

/* The i-th row; NULL past the end. */
const struct spp_arch_family *spp_arch_family_at(int i);
/* The row of a model_type; NULL when there is none. */
const struct spp_arch_family *spp_arch_family_find(const char *model_type);

#endif
