/* One question asked of several kinds of GPU: which of them, and with which layout. */
#ifndef SPP_PLANNER_MACHINES_H
#define SPP_PLANNER_MACHINES_H

#include "planner/search.h"

enum { SPP_MAX_MACHINES = 16, SPP_FIND_NOTHING = -1 };

/* What differs between the machines compared; everything else is the options' job. */
struct spp_machine {
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  const struct spp_calib *calib;
  double usd_per_gpu_hour; /* negative = what the GPU's file says */
  int64_t gpus;            /* how many of them, 0 = as the options say */
};

/* USD an hour of one of its GPUs; 0 = unknown. */
double spp_machine_price(const struct spp_machine *machine);

/* What one kind of GPU came to. */
struct spp_machine_answer {
  const struct spp_gpu *gpu;
  double usd_per_gpu_hour; /* 0 = unknown */
  int best;                /* index of its best plan, -1 = it has none */
  int64_t value;           /* --find: 0 where nothing fits */
  char limit[48];          /* --find: what stops the next value */
  char why_not[200];       /* empty where there is a plan */
};

struct spp_machines_result {
  struct spp_find_result found; /* found.search holds the plans of all machines; what, value and limit are the
                                   winner's, and mean nothing where nothing was to be found */
  struct spp_machine_answer answers[SPP_MAX_MACHINES]; /* best first */
  int count;                                           /* of answers; 0 where one machine was asked alone */
};

enum { SPP_MAX_POOL_FRONT = 128 };

/* Ask `find` (SPP_FIND_NOTHING = a plain search) of each machine, and rank what they answer together.
 *
 * A plain search ranks all plans by the objective, as if they were one space: throughput counts tokens per
 * second of the whole job, so that GPU counts being equal the faster type wins, and cost counts dollars per
 * token. A search for a limit ranks the machines by the value they reach (--find min-gpus under the cost
 * objective: by what the GPUs cost an hour), equal ones by the objective; its plans are the winner's, then
 * the best of each other machine.
 *
 * SPP_FIND_PARETO asks the plain question of every count of GPUs up to the options' (spp_allocations()),
 * under the batch that all of them would have, and answers with the plans that are likely to fit and that no
 * other beats in step time, memory, GPUs and cost: found.search.pareto, found.value of them. The ranking is
 * of all plans together.
 *
 * Statuses as those of spp_search: a machine that cannot do the job does not stop the others. Free
 * result->found.search with spp_search_free. */
enum spp_status spp_search_machines(const struct spp_search_options *options,
                                    const struct spp_machine *machines, int count, int find,
                                    struct spp_machines_result *result, struct spp_diag *diag);

#endif
