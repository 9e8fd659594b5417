/* On which side of 0 what a ReLU reads was. Its slope jumps there: numbers that are all but 0 fall either way
 * where sums are taken in another order, and gradients with them. As with experts chosen by score
 * (exec/expert_choice.h), a run that is compared with another follows it, and the largest of what it so
 * moved, over the largest number of the same token, counts as an error. */
#ifndef SPP_EXEC_RELU_SIDES_H
#define SPP_EXEC_RELU_SIDES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct spp_engine;
struct spp_exec_plan;

/* One bit each: [steps][layers][sequences of a step][tokens][width], width that of the whole MLP. */
struct spp_relu_sides {
  int64_t layers, sequences, tokens, width;
  uint8_t *above;
};

/* Room for `steps` steps; *sides NULL where the model has no ReLU, or the bits would be more than 256 MiB. */
enum spp_status spp_relu_sides_open(const struct spp_exec_plan *plan, int64_t steps, struct spp_arena *arena,
                                    struct spp_relu_sides **sides, struct spp_diag *diag);
/* Writes or follows: x [tokens][width] of a layer's MLP before its activation, `first` the first column of
 * the whole width held here. */
enum spp_status spp_relu_sides_meet(struct spp_engine *e, int64_t layer, int64_t first, int64_t width,
                                    void *x);

#endif
