/* Every layout a framework can run on the job's GPUs: the outer half (how the GPUs are divided) as a list of
 * cells, the inner half (sharding stage, recompute, offload, schedule, loss, micro-batch) as lists of choices
 * per cell.
 *
 * Generation goes by divisors and by the framework's flags only; whether a combination is legal is the
 * business of spp_rules_first(). What the user fixed replaces a list by one value, flags or not, so that the
 * rule that refuses it is named. */
#ifndef SPP_PLANNER_SPACE_H
#define SPP_PLANNER_SPACE_H

#include "model/evaluator.h"
#include "model/layout.h"

enum {
  SPP_MAX_RULES_LISTED = 128,
  SPP_MAX_DIVISORS = 256,
  SPP_MAX_PIPES = 40,
  SPP_MAX_SHARDINGS = 96,
  SPP_MAX_MICRO_BATCHES = 48,
  SPP_MAX_RECOMPUTES = SPP_RECOMPUTE_COUNT + 1
};

/* How the GPUs are divided. */
struct spp_cell {
  int64_t tp, pp, dp, ulysses, ring, ep, etp;
  enum spp_sp_kind sp_kind;
  int64_t fpdt_chunk; /* 0 = whole sequences */
};

struct spp_space {
  const struct spp_framework *framework;
  struct spp_request fixed;
  struct spp_job *jobs; /* one per loss choice searched; they differ in nothing else */
  int job_count;
  struct spp_cell *cells;
  int cell_count, cell_capacity;
  int64_t gpu_divisors[SPP_MAX_DIVISORS], batch_divisors[SPP_MAX_DIVISORS];
  int gpu_divisor_count, batch_divisor_count;
  struct spp_rule_list {
    int rules[SPP_MAX_RULES_LISTED], count;
  } cell_rules, choice_rules, batch_rules; /* those that look at the division only; at choices inside it, but
                                              not at the batch; at the batch */
};

/* The choices inside one cell; each list has at least one member. */
struct spp_choices {
  struct spp_pipe pipes[SPP_MAX_PIPES];
  bool megatron_sp[2];
  struct {
    int zero;
    int64_t dp_replicate;
    bool twin; /* keeps its states in the same types as an earlier stage of the list */
  } shardings[SPP_MAX_SHARDINGS];
  enum spp_offload offloads[SPP_OFFLOAD_COUNT];
  enum spp_recompute recomputes[SPP_MAX_RECOMPUTES]; /* most recompute first, by layers last */
  bool by_layers[SPP_MAX_RECOMPUTES]; /* full recompute of the fewest layers that fit; spp_fewest_layers */
  int losses[SPP_LOSS_CHOICE_COUNT];  /* indices of jobs; those of one loss path count once */
  int64_t micro_batches[SPP_MAX_MICRO_BATCHES]; /* ascending */
  int pipe_count, megatron_sp_count, sharding_count, offload_count, recompute_count, loss_count,
      micro_batch_count;
  bool one_holder; /* a single rank holds the dense states: sharding stages differ only in the types they
                      keep, in buffers, and in what they can offload */
};

/* One member of each list but the micro-batch, by index. */
struct spp_variant {
  int pipe, megatron_sp, sharding, offload, recompute, loss;
};

/* Resolve the job against the framework (once per loss choice) and list the cells. SPP_ERR_USAGE when the
 * framework cannot do the job or no product of degrees makes the GPUs; SPP_ERR_INTERNAL when out of memory.
 * Free on success. */
enum spp_status spp_space_build(const struct spp_job_spec *spec, const struct spp_framework *framework,
                                const struct spp_request *fixed, struct spp_space *space,
                                struct spp_diag *diag);
void spp_space_free(struct spp_space *space);

void spp_space_choices(const struct spp_space *space, const struct spp_cell *cell,
                       struct spp_choices *choices);
/* Variants number 0 .. spp_choices_count() - 1, loss fastest. */
int spp_choices_count(const struct spp_choices *choices);
struct spp_variant spp_choices_variant(const struct spp_choices *choices, int number);
/* The variant of the next number. */
void spp_choices_step(const struct spp_choices *choices, struct spp_variant *variant);
/* A variant that says the same as another one, and is left out: sharding stages of a single holder, where
 * none can offload. Where one can, its plain layout must be seen to fit for offload to be left out. */
bool spp_choices_redundant(const struct spp_choices *choices, const struct spp_variant *variant);
void spp_space_layout(const struct spp_space *space, const struct spp_cell *cell,
                      const struct spp_choices *choices, const struct spp_variant *variant,
                      int64_t micro_batch, struct spp_layout *layout);

/* One pass over the layouts of a cell, variant by variant, micro-batches ascending inside each. */
struct spp_walk {
  const struct spp_space *space;
  const struct spp_cell *cell;
  const struct spp_job *job; /* the job of the current variant's loss */
  struct spp_layout layout;  /* the current layout */
  int number, micro;         /* where it stands: variant and index of the micro-batch */
  int count;
  bool judged;     /* the division has been */
  int cell_rule;   /* rule of the division that is broken, -1 = none */
  int ruled, rule; /* variant whose choices were judged, and the rule they broke, -1 = none */
  bool batches_judged[SPP_MAX_PIPES];
  int16_t batch_rule[SPP_MAX_PIPES][SPP_MAX_MICRO_BATCHES]; /* by pipe and micro-batch */
  int16_t legal_batches[SPP_MAX_PIPES];                     /* how many of them break none */
  struct spp_variant variant;
  struct spp_choices choices;
};
void spp_walk_begin(struct spp_walk *walk, const struct spp_space *space, const struct spp_cell *cell);
/* Step to the next layout; false when there is none. */
bool spp_walk_next(struct spp_walk *walk);
/* A rule that the current layout breaks, or -1: one of the division of the GPUs, then of the choices inside
 * it, then of the batch, each in order and asked as seldom as what it looks at changes. */
int spp_walk_rule(struct spp_walk *walk);
/* One that refuses the whole cell, or every micro-batch of the variant, or -1. A layout must be current. */
int spp_walk_cell_rule(struct spp_walk *walk);
int spp_walk_choice_rule(struct spp_walk *walk);
/* Rule of the batch that a micro-batch breaks under a pipeline of the cell, or -1. */
int spp_walk_batch_rule(struct spp_walk *walk, int pipe, int micro);
/* How many micro-batches of the variant the rules of the batch allow. */
int spp_walk_legal_batches(struct spp_walk *walk);
/* All layouts of the cell. */
int64_t spp_walk_layouts(const struct spp_walk *walk);
/* The layout recomputes a number of layers that is still to be chosen: recompute_layers is the least, one a
 * chunk. */
bool spp_walk_by_layers(const struct spp_walk *walk);
/* Fewest recomputed layers of a stage, as many of each of its chunks, with which the layout is at least
 * `likely` to fit, up to one less than all of each; 0 = none are enough. Memory never grows with them. */
int64_t spp_fewest_layers(const struct spp_job *job, const struct spp_layout *layout, double likely);
/* The layout fits, and with at least this likelihood. */
bool spp_layout_likely(const struct spp_job *job, const struct spp_layout *layout, double likely);
/* Leave out the micro-batches after the current one. */
void spp_walk_skip(struct spp_walk *walk);
/* Go straight to a layout seen before. */
void spp_walk_seek(struct spp_walk *walk, int number, int micro);

/* How much machinery a layout asks for: breaks ties between plans of equal speed. 0 = plain data parallelism.
 */
int spp_layout_complexity(const struct spp_job *job, const struct spp_layout *layout);

/* Divisors of n, ascending, at most `max`; returns the count. n > 0. */
int spp_divisors(int64_t n, int64_t *divisors, int max);

#endif
