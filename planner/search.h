/* Which layout: enumerate every legal one under each framework, predict, rank. */
#ifndef SPP_PLANNER_SEARCH_H
#define SPP_PLANNER_SEARCH_H

#include <stdatomic.h>

#include "model/predict.h"

enum { SPP_MAX_REJECTIONS = 64 };

/* How far a search is; called now and then by the thread that asked. */
typedef void spp_search_watch(void *watcher, int64_t done, int64_t total);
struct spp_search_options {
  struct spp_job_spec spec;
  const struct spp_framework *const *frameworks; /* those to search */
  int framework_count;
  struct spp_request fixed; /* fields the user fixed cut the space */
  enum spp_objective objective;
  double min_fit;          /* plans less likely than this to fit rank behind all others; 0 = none do */
  double find_min_fit;     /* spp_find: how likely its answer must be to fit; 0 = it fits as predicted */
  int top;                 /* plans to return, best first */
  int front;               /* members of the Pareto front to return at most, up to 64; 0 = 24 */
  int threads;             /* 0 = all cores */
  bool exhaustive;         /* no pruning: the judge */
  atomic_bool *stop;       /* set by another thread: give up soon, with SPP_INTERRUPTED; may be NULL */
  spp_search_watch *watch; /* may be NULL */
  void *watcher;
};

struct spp_plan {
  struct spp_job job; /* resolved for its framework (job.framework) */
  struct spp_layout layout;
  struct spp_prediction prediction;
};

/* Less likely to fit than asked. */
bool spp_plan_risky(const struct spp_search_options *options, const struct spp_memory *memory);

struct spp_rejection { /* one reason and how many layouts fell to it */
  char reason[48];     /* rule id, "memory", "host-memory"; most frequent first */
  int64_t count;
  char example[200]; /* described layout and by how much */
};

struct spp_search_result {
  struct spp_plan *plans; /* ranked; at most options.top, then the best of each framework, then the Pareto
                             front, each plan once */
  int count;
  int top_count;                             /* how many of plans[] are the overall ranking */
  int best_of_framework[SPP_MAX_FRAMEWORKS]; /* index into plans by options.frameworks order, -1 = nothing
                                                fits */
  int *pareto; /* indices into plans, fastest first: no layout found is at least as fast and smaller. At most
                  24, both ends among them */
  int pareto_count;
  struct spp_rejection rejections[SPP_MAX_REJECTIONS];
  int rejection_count;
  bool has_nearest;
  struct spp_plan nearest; /* when nothing fits: fewest bytes over, a GPU's plus its share of the host's */
  char framework_refusals[SPP_MAX_FRAMEWORKS][160]; /* why a framework was not searched, empty if it was */
  int64_t layouts;                                  /* legal ones: evaluated + pruned */
  int64_t evaluated;                                /* memory, communication and time all computed */
  int64_t pruned; /* known not to fit, or to be beaten, from less than that */
  double seconds;
  int threads;
};
/* SPP_OK with plans, SPP_ERR_NOFIT (result filled, nearest set) when none fits, SPP_ERR_USAGE when no layout
 * is legal. Free with spp_search_free. Deterministic for any thread count: ties break by framework order,
 * then layout fields. */
enum spp_status spp_search(const struct spp_search_options *options, struct spp_search_result *result,
                           struct spp_diag *diag);
void spp_search_free(struct spp_search_result *result);

/* Index of the fastest plan that the ranking passes over because it is less likely to fit than asked, where
 * it is faster than the best by 1 % or more; -1 = none. */
int spp_search_riskier(const struct spp_search_options *options, const struct spp_search_result *result);

/* The largest (max-seq, max-batch) or smallest (min-gpus) value for which something fits. */
enum spp_find {
  SPP_FIND_MAX_SEQ,
  SPP_FIND_MIN_GPUS,
  SPP_FIND_MAX_BATCH,
  SPP_FIND_PARETO /* of spp_search_machines() only */
};
struct spp_find_result {
  enum spp_find what;
  int64_t value;
  char limit[48];                  /* what stops the next larger value: "memory", a rule id, "positions" */
  struct spp_search_result search; /* plans at that value */
};
enum spp_status spp_find(const struct spp_search_options *options, enum spp_find what,
                         struct spp_find_result *result, struct spp_diag *diag);

#endif
