/* Inside the search: what a pass over layouts gathers, and how the gathered is ranked. */
#ifndef SPP_PLANNER_SEARCH_INTERNAL_H
#define SPP_PLANNER_SEARCH_INTERNAL_H

#include "planner/bound.h"
#include "planner/search.h"
#include "planner/space.h"

/* Where a layout stands: its total order is the order of generation, which breaks every last tie. */
struct spp_place {
  int framework, cell, number, micro;
};
int spp_place_compare(const struct spp_place *a, const struct spp_place *b);

/* A layout that fits and was evaluated. */
struct spp_candidate {
  bool risky;   /* less likely to fit than asked: behind all that are not */
  double score; /* of the objective; smaller is better */
  double step_s;
  int64_t device_bytes;
  int complexity;
  struct spp_place place;
};

/* One reason for rejection. Rules first, in the order of the rule table, then the two below. */
enum { SPP_TALLY_RULES = 128, SPP_REASON_MEMORY = SPP_TALLY_RULES, SPP_REASON_HOST, SPP_REASON_COUNT };
struct spp_reason {
  int64_t count;
  int64_t over_bytes;       /* of the example: device or host bytes beyond the limit */
  struct spp_place example; /* first in order */
};

/* What one worker gathered. Sums and minima over a total order: merging does not depend on who did what. */
struct spp_tally {
  struct spp_candidate *candidates;
  size_t count, capacity;
  int64_t layouts, evaluated, pruned;
  struct spp_reason reasons[SPP_REASON_COUNT];
  int64_t framework_layouts[SPP_MAX_FRAMEWORKS]; /* legal ones */
  struct spp_reason
      framework_rule[SPP_MAX_FRAMEWORKS]; /* first illegal layout of a framework, and how many */
  bool has_nearest;
  int64_t nearest_over_bytes;
  struct spp_place nearest;
  bool out_of_memory;
};

/* What the search has found so far, against which the rest is pruned. Index 0 is for layouts that may be
 * safe, 1 for those known to be risky: a risky plan in the ranking gives way to a safe one of any score,
 * while behind a full ranking of safe plans no risky one matters. */
struct spp_known {
  double worst_top[2]; /* a worse score than this is not ranked; infinity = there is room, -infinity = none is
                          left */
  double best[2][SPP_MAX_FRAMEWORKS]; /* a worse score than this is not its framework's best */
  int front_count;                    /* step time ascending, bytes descending */
  double *front_s;
  int64_t *front_bytes;
};

struct spp_cell_ref {
  int64_t divided; /* tp x pp */
  int kind;        /* sequence parallelism, those that are usually ahead first */
  int framework, cell;
};

/* Spaces of all frameworks, and their cells in the order workers take them. */
struct spp_hunt {
  const struct spp_search_options *options;
  struct spp_space spaces[SPP_MAX_FRAMEWORKS]; /* cells NULL: refused */
  struct spp_bound bounds[SPP_MAX_FRAMEWORKS];
  char refusals[SPP_MAX_FRAMEWORKS][160];
  struct spp_cell_ref
      *order; /* by how far the model is divided: what is found early prunes what comes later */
  int64_t cell_count;
  struct spp_known known;
  int64_t risky_bytes[SPP_MAX_FRAMEWORKS]; /* what takes more than this is risky; INT64_MAX = unknown */
  struct spp_evaluator **evaluators;       /* one a worker */
  int evaluator_count;
  bool nearest_matters; /* nothing fits: the static bound must not hide the nearest miss */
};
/* SPP_ERR_USAGE with the last refusal when no framework can do the job. */
enum spp_status spp_hunt_open(const struct spp_search_options *options, struct spp_hunt *hunt,
                              struct spp_diag *diag);
void spp_hunt_close(struct spp_hunt *hunt);
/* The layout at a place, and the job it belongs to. */
const struct spp_job *spp_hunt_layout(const struct spp_hunt *hunt, const struct spp_place *place,
                                      struct spp_layout *layout);

/* Bytes over the limits: of a GPU plus a GPU's share of its node's host memory; 0 = fits. */
int64_t spp_memory_over(const struct spp_job *job, const struct spp_memory *memory);
bool spp_memory_feasible(const struct spp_memory *memory);

/* Judge and evaluate every layout of one cell. */
void spp_cell_search(const struct spp_hunt *hunt, int framework, int cell, struct spp_evaluator *evaluator,
                     struct spp_tally *tally);
double spp_objective_score(enum spp_objective objective, const struct spp_memory_figures *memory,
                           const struct spp_time_figures *time);
struct spp_candidate spp_candidate_of(const struct spp_search_options *options, const struct spp_job *job,
                                      const struct spp_layout *layout,
                                      const struct spp_prediction *prediction, const struct spp_place *place);

struct spp_candidate spp_candidate_make(const struct spp_search_options *options, const struct spp_job *job,
                                        const struct spp_layout *layout,
                                        const struct spp_memory_figures *memory, bool risky,
                                        const struct spp_time_figures *time, const struct spp_place *place);
/* Less likely to fit than asked. */
bool spp_hunt_risky(const struct spp_hunt *hunt, int framework, const struct spp_job *job,
                    const struct spp_memory_figures *memory);
void spp_reason_count(struct spp_reason *reason, const struct spp_place *place, int64_t over_bytes,
                      int64_t count);
void spp_tally_candidate(struct spp_tally *tally, const struct spp_candidate *candidate);
/* A layout that does not fit: its reason, and whether it is the nearest miss so far. */
void spp_tally_missed(const struct spp_job *job, const struct spp_memory_figures *memory,
                      const struct spp_place *place, struct spp_tally *tally);

/* All cells over `threads` workers; what they gathered ends up in *tally. */
enum spp_status spp_hunt_run(struct spp_hunt *hunt, int threads, struct spp_tally *tally);
void spp_tally_merge(struct spp_tally *into, struct spp_tally *from);
void spp_tally_free(struct spp_tally *tally);

/* Could a layout with these lower bounds still be ranked, be its framework's best, or be on the front?
 * Everything the search returns is one of those. */
bool spp_known_hopeless(const struct spp_known *known, int framework, bool risky, double score, double step_s,
                        int64_t device_bytes);

/* ---- ranking (pareto.c) ---- */

/* Scores within this share of the best count as equal: the model's own error is tens of times larger. */
#define SPP_TIE 1e-3

/* Order candidates best first and pick: out[] gets indices into candidates, at most `count`; returns how
 * many. The safe come before the risky. Round by round, among those within SPP_TIE of the best score left and
 * not beaten in both time and memory by another of them, the simplest is taken; then the smaller, the faster,
 * the earlier. framework -1 = all. candidates must be sorted by spp_candidate_compare. */
int spp_rank(const struct spp_candidate *candidates, size_t n, int framework, int count, size_t *out,
             bool *taken);
int spp_candidate_compare(const void *a, const void *b);

/* From the candidates so far (sorted by spp_candidate_compare). False when out of memory. */
bool spp_known_fill(struct spp_known *known, const struct spp_candidate *candidates, size_t n, int top);

/* Indices of the candidates that no other beats in step time and memory, fastest first, thinned to `max` with
 * both ends kept. Returns the count, -1 when out of memory. */
int spp_pareto(const struct spp_candidate *candidates, size_t n, size_t *out, int max);

#endif
