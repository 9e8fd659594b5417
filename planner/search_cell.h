/* One cell of the search under way, between the files that search it: search_cell.c judges layout by layout,
 * search_prune.c knows what need not be evaluated, search_layers.c looks for the fewest recomputed layers. */
#ifndef SPP_PLANNER_SEARCH_CELL_H
#define SPP_PLANNER_SEARCH_CELL_H

#include "planner/search_internal.h"

/* What the cell has taught so far, so that more of the same need not be asked.
 *
 * bytes: device bytes of the layouts of a block (one sharding, one offload, one choice of Megatron SP), exact
 * or bounded from below. Where gradients outlive a micro-batch (more than one of them, or a pipeline), so
 * that they are there at every peak, a layout takes at least as much as each of these, all else equal:
 * - a smaller micro-batch: b sequences in each of min(P, M/b) micro-batches in flight is min(bP, M), which
 * never falls as b grows; states do not depend on b.
 * - plain 1F1B, for interleaved stages: (2(d - 1) + (v - 1)p + 1)/v >= d in flight at depth d <= p, either
 * capped by M. The other flat schedules hold as many micro-batches or more.
 * - full recompute, where a stage has two layers or more: it keeps a layer's input for each of the n layers
 * alive and rebuilds one; less recompute keeps n times what a layer keeps, at least twice its input (a norm's
 * output, a projection's input or output).
 *
 * plain_bytes: what offload frees is bounded too (spp_bound_freed_bytes).
 *
 * plain: offload is a remedy. Where the layout safely fits without, it is no candidate (unless the objective
 * is memory, or the user fixed it), pruned or exhaustive: needless_offload(). */
enum spp_plain { SPP_PLAIN_UNKNOWN, SPP_PLAIN_FITS, SPP_PLAIN_DOES_NOT };
enum { SPP_CELL_BLOCK = SPP_MAX_RECOMPUTES * SPP_MAX_PIPES * SPP_LOSS_CHOICE_COUNT * SPP_MAX_MICRO_BATCHES };
struct spp_lessons {
  int block, plain_block;
  int bounded; /* variant of states_bytes */
  int64_t states_bytes;
  double host_s; /* of the same variant: optimizer step on the host */
  int64_t bytes[SPP_CELL_BLOCK];
  int64_t plain_bytes[SPP_CELL_BLOCK];  /* of the same layouts without offload */
  enum spp_plain plain[SPP_CELL_BLOCK]; /* do they safely fit */
};

/* One cell under way. */
struct spp_cell_work {
  const struct spp_hunt *hunt;
  struct spp_evaluator *evaluator;
  struct spp_tally *tally;
  struct spp_walk walk;
  struct spp_lessons lessons;
  bool begun; /* the evaluator has seen a layout of the cell */
  /* Seconds that no layout of the same pipeline, loss and micro-batch falls below, and that none at all does;
   * of one choice of Megatron SP and sharding stage. */
  int floor_half;
  double floor_s[SPP_MAX_PIPES][SPP_LOSS_CHOICE_COUNT][SPP_MAX_MICRO_BATCHES], least_floor_s;
};

/* The evaluator sees the cell's first layout; false without memory for it. */
bool spp_cell_begin(struct spp_cell_work *p);
/* Where the evaluator keeps what the current layout shares with others. */
struct spp_evaluator_place spp_cell_place(const struct spp_walk *walk);

/* Index inside a block of lessons, micro-batches fastest; and that of the current layout. */
int spp_cell_slot(const struct spp_walk *walk, int recompute, int pipe, int micro);
int spp_cell_own_slot(const struct spp_walk *walk);
void spp_cell_turn_page(const struct spp_walk *walk, struct spp_lessons *lessons);

/* Bytes that the states alone take at least; and the layout, by what the cell has taught. */
int64_t spp_cell_states_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                              const struct spp_place *place, struct spp_lessons *lessons);
int64_t spp_cell_least_bytes(const struct spp_hunt *hunt, const struct spp_walk *walk,
                             const struct spp_place *place, struct spp_lessons *lessons);

/* Can the layout be left out, if its step takes at least so long and this much memory? risky: it is known to
 * be. */
bool spp_cell_beaten(const struct spp_cell_work *p, const struct spp_place *place, double step_s,
                     int64_t device_bytes, bool risky);
/* No layout of the variant matters, whatever its micro-batch and recompute. */
bool spp_cell_variant_hopeless(struct spp_cell_work *p, const struct spp_place *place);
/* The floor of the current layout is too slow for its bytes; and its own bounds, the cheap one first. */
bool spp_cell_floor_hopeless(struct spp_cell_work *p, const struct spp_place *place, int64_t device_bytes,
                             bool risky);
bool spp_cell_hopeless(struct spp_cell_work *p, const struct spp_place *place, int64_t device_bytes,
                       bool risky);

/* The recompute that takes least time: none, where it is a choice. The layers' time by itself never falls
 * with more recompute: it adds a pass of its own, with its own exchanges, to a forward and a backward that
 * stay as they are. */
int spp_cell_least_recompute(const struct spp_choices *c);

bool spp_cell_fits_without_offload(struct spp_cell_work *p, const struct spp_place *place,
                                   const struct spp_layout *layout);

/* Full recompute of the fewest layers that are likely to fit. Its time is bounded by that with one, its bytes
 * by recompute of every layer, which comes first in the block. Where that takes no layer, or every one, it is
 * another variant: then this one adds nothing. */
void spp_cell_evaluate_by_layers(struct spp_cell_work *p, const struct spp_place *place);

#endif
