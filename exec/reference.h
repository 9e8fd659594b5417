/* Gradients and weights of a whole model, kept by element number, and how far a rank's are from them. */
#ifndef SPP_EXEC_REFERENCE_H
#define SPP_EXEC_REFERENCE_H

#include "exec/engine.h"

struct spp_reference {
  const struct spp_arch *arch;
  int64_t total;
  float *gradients; /* of the first step */
  float *weights;   /* after the last */
};

enum spp_status spp_reference_open(const struct spp_arch *arch, struct spp_arena *arena,
                                   struct spp_reference *reference, struct spp_diag *diag);

/* Fills `values` (gradients or weights) from an engine of one rank. */
enum spp_status spp_reference_take(const struct spp_engine *e, bool gradients, float *values);

/* Of the bits of all weights this rank answers for, in any order: digests of ranks add up. */
enum spp_status spp_reference_digest(const struct spp_engine *e, uint64_t *digest);

/* Worst |value - reference| of any element that the rank answers for, relative to the largest |reference| of
 * the element's weight; infinite when a value is no number. */
enum spp_status spp_reference_error(const struct spp_engine *e, bool gradients, const float *values,
                                    double *error);

#endif
