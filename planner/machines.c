#include "planner/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search_internal.h"

enum { FRONT = 24 };

/* One machine's own answer, before they are put together. */
struct asked {
  struct spp_find_result found;
  enum spp_status status;
  struct spp_diag diag;
};

static struct spp_search_options options_of(const struct spp_search_options *options,
                                            const struct spp_machine *machine) {
  struct spp_search_options own = *options;
  own.spec.gpu = machine->gpu;
  own.spec.cluster = machine->cluster;
  own.spec.calib = machine->calib;
  own.spec.usd_per_gpu_hour = machine->usd_per_gpu_hour;
  return own;
}

static bool answered(const struct asked *asked) {
  return asked->status == SPP_OK || asked->status == SPP_ERR_NOFIT;
}

static void ask(const struct spp_search_options *options, const struct spp_machine *machine, int find,
                struct asked *asked) {
  struct spp_search_options own = options_of(options, machine);
  memset(asked, 0, sizeof *asked);
  if (find == SPP_FIND_NOTHING)
    asked->status = spp_search(&own, &asked->found.search, &asked->diag);
  else
    asked->status = spp_find(&own, (enum spp_find)find, &asked->found, &asked->diag);
}

/* ---- all plans in one pool ---- */

struct pool {
  const struct spp_plan **plans;
  struct spp_candidate *candidates; /* place: framework, machine, index of the plan there */
  size_t count;
  bool *taken;
};

static int framework_index(const struct spp_search_options *options, const struct spp_plan *plan) {
  for (int f = 0; f < options->framework_count; f++)
    if (options->frameworks[f] == plan->job.framework) return f;
  return 0;
}

static void pool_free(struct pool *pool) {
  free(pool->plans);
  free(pool->candidates);
  free(pool->taken);
}

static bool pool_fill(const struct spp_search_options *options, const struct asked *asked, int count,
                      struct pool *pool) {
  size_t total = 0;
  memset(pool, 0, sizeof *pool);
  for (int m = 0; m < count; m++)
    total += (size_t)asked[m].found.search.count;
  pool->plans = malloc((total + 1) * sizeof *pool->plans);
  pool->candidates = malloc((total + 1) * sizeof *pool->candidates);
  pool->taken = calloc(total + 1, sizeof *pool->taken);
  if (!pool->plans || !pool->candidates || !pool->taken) return false;
  for (int m = 0; m < count; m++)
    for (int i = 0; i < asked[m].found.search.count; i++) {
      const struct spp_plan *plan = &asked[m].found.search.plans[i];
      pool->candidates[pool->count++] =
          spp_candidate_of(options, &plan->job, &plan->layout, &plan->prediction,
                           &(struct spp_place){framework_index(options, plan), m, i, 0});
    }
  qsort(pool->candidates, pool->count, sizeof *pool->candidates, spp_candidate_compare);
  for (size_t i = 0; i < pool->count; i++) {
    const struct spp_place *place = &pool->candidates[i].place;
    pool->plans[i] = &asked[place->cell].found.search.plans[place->number];
  }
  return true;
}

/* ---- putting plans together ---- */

/* The result under construction: each plan once, and where it was copied from. */
struct gathering {
  struct spp_search_result *search;
  const struct spp_plan **from;
};

static int plan_from(const struct gathering *all, const struct spp_plan *plan) {
  for (int i = 0; i < all->search->count; i++)
    if (all->from[i] == plan) return i;
  return -1;
}

static int add_plan(struct gathering *all, const struct spp_plan *plan) {
  int index = plan_from(all, plan);
  if (index >= 0) return index;
  all->from[all->search->count] = plan;
  all->search->plans[all->search->count] = *plan;
  return all->search->count++;
}

static bool gathering_open(struct spp_search_result *search, size_t most, struct gathering *all) {
  all->search = search;
  all->from = malloc((most + 1) * sizeof *all->from);
  search->plans = malloc((most + 1) * sizeof *search->plans);
  search->pareto = malloc(FRONT * sizeof *search->pareto);
  for (int f = 0; f < SPP_MAX_FRAMEWORKS; f++)
    search->best_of_framework[f] = -1;
  return all->from && search->plans && search->pareto;
}

/* As the search itself does for one machine: the ranking, the best of each framework, the front. */
static bool rank_pool(const struct spp_search_options *options, struct pool *pool, struct gathering *all) {
  struct spp_search_result *search = all->search;
  int top = options->top > 0 ? options->top : 1;
  size_t *ranked = malloc((size_t)top * sizeof *ranked), best, front[FRONT];
  if (!ranked) return false;
  int count = spp_rank(pool->candidates, pool->count, -1, top, ranked, pool->taken);
  for (int i = 0; i < count; i++)
    add_plan(all, pool->plans[ranked[i]]);
  free(ranked);
  search->top_count = search->count;
  for (int f = 0; f < options->framework_count; f++) {
    memset(pool->taken, 0, pool->count * sizeof *pool->taken);
    if (spp_rank(pool->candidates, pool->count, f, 1, &best, pool->taken) == 1)
      search->best_of_framework[f] = add_plan(all, pool->plans[best]);
  }
  int members = spp_pareto(pool->candidates, pool->count, front, FRONT);
  for (int i = 0; i < members; i++)
    search->pareto[search->pareto_count++] = add_plan(all, pool->plans[front[i]]);
  return members >= 0;
}

/* The winner's plans, its ranking and its front. */
static void take_winner(const struct spp_search_result *won, struct gathering *all) {
  struct spp_search_result *search = all->search;
  for (int i = 0; i < won->count; i++)
    add_plan(all, &won->plans[i]);
  search->top_count = won->top_count;
  memcpy(search->best_of_framework, won->best_of_framework, sizeof search->best_of_framework);
  for (int i = 0; i < won->pareto_count; i++)
    search->pareto[search->pareto_count++] = won->pareto[i];
}

/* ---- what else a result says ---- */

static void add_rejection(struct spp_search_result *search, const struct spp_rejection *rejection) {
  int at = 0;
  while (at < search->rejection_count && strcmp(search->rejections[at].reason, rejection->reason) != 0)
    at++;
  if (at == search->rejection_count) {
    if (at == SPP_MAX_REJECTIONS) return;
    search->rejections[search->rejection_count++] = *rejection;
  } else {
    search->rejections[at].count += rejection->count;
  }
  for (; at > 0 && search->rejections[at - 1].count < search->rejections[at].count; at--) {
    struct spp_rejection moved = search->rejections[at];
    search->rejections[at] = search->rejections[at - 1];
    search->rejections[at - 1] = moved;
  }
}

/* Sums over the machines; a framework is refused when every machine refuses it. */
static void add_totals(const struct spp_search_result *own, bool first, struct spp_search_result *search) {
  search->layouts += own->layouts;
  search->evaluated += own->evaluated;
  search->pruned += own->pruned;
  search->seconds += own->seconds;
  if (own->threads > search->threads) search->threads = own->threads;
  for (int i = 0; i < own->rejection_count; i++)
    add_rejection(search, &own->rejections[i]);
  for (int f = 0; f < SPP_MAX_FRAMEWORKS; f++) {
    if (first)
      memcpy(search->framework_refusals[f], own->framework_refusals[f], sizeof own->framework_refusals[f]);
    else if (!own->framework_refusals[f][0])
      search->framework_refusals[f][0] = '\0';
  }
}

/* The nearest miss of all, when nothing fits anywhere. */
static void add_nearest(const struct spp_search_result *own, struct spp_search_result *search) {
  if (!own->has_nearest) return;
  int64_t over = spp_memory_over(&own->nearest.job, &own->nearest.prediction.memory);
  if (search->has_nearest &&
      over >= spp_memory_over(&search->nearest.job, &search->nearest.prediction.memory))
    return;
  search->has_nearest = true;
  search->nearest = own->nearest;
}

/* ---- the order of machines ---- */

double spp_machine_price(const struct spp_machine *machine) {
  return machine->usd_per_gpu_hour >= 0 ? machine->usd_per_gpu_hour : machine->gpu->usd_per_hour;
}

/* Smaller is better; machines without a plan come last. */
static double machine_score(const struct spp_search_options *options, const struct spp_machine *machine,
                            int find, const struct asked *asked) {
  double value = (double)asked->found.value;
  switch (find) {
  case SPP_FIND_MIN_GPUS:
    return options->objective == SPP_OBJECTIVE_COST ? value * spp_machine_price(machine) : value;
  case SPP_FIND_MAX_SEQ:
  case SPP_FIND_MAX_BATCH: return -value;
  default: return 0;
  }
}

static bool comes_before(const struct spp_search_options *options, const struct spp_machine *machines,
                         const struct asked *asked, int find, int a, int b) {
  const struct spp_search_result *x = &asked[a].found.search, *y = &asked[b].found.search;
  if ((x->count > 0) != (y->count > 0)) return x->count > 0;
  if (x->count == 0) return false;
  double p = machine_score(options, &machines[a], find, &asked[a]),
         q = machine_score(options, &machines[b], find, &asked[b]);
  if (p != q) return p < q;
  const struct spp_plan *best = x->plans, *other = y->plans;
  struct spp_place place = {0, 0, 0, 0};
  struct spp_candidate first =
      spp_candidate_of(options, &best->job, &best->layout, &best->prediction, &place);
  struct spp_candidate second =
      spp_candidate_of(options, &other->job, &other->layout, &other->prediction, &place);
  return spp_candidate_compare(&first, &second) < 0;
}

/* Insertion sort: stable, and there are few. */
static void order_machines(const struct spp_search_options *options, const struct spp_machine *machines,
                           const struct asked *asked, int count, int find, int *order) {
  for (int i = 0; i < count; i++) {
    int at = i;
    for (; at > 0 && comes_before(options, machines, asked, find, i, order[at - 1]); at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
}

/* The best plan of each machine is shown, ranked or not. */
static void list_answers(const struct spp_machine *machines, const struct asked *asked, const int *order,
                         int count, struct gathering *all, struct spp_machines_result *result) {
  for (int i = 0; i < count; i++) {
    const struct asked *own = &asked[order[i]];
    struct spp_machine_answer *answer = &result->answers[i];
    *answer = (struct spp_machine_answer){.gpu = machines[order[i]].gpu,
                                          .usd_per_gpu_hour = spp_machine_price(&machines[order[i]]),
                                          .best = -1,
                                          .value = own->found.value};
    memcpy(answer->limit, own->found.limit, sizeof answer->limit);
    if (own->status != SPP_OK)
      snprintf(answer->why_not, sizeof answer->why_not, "%.199s", own->diag.what);
    else
      answer->best = add_plan(all, &own->found.search.plans[0]);
  }
}

/* ---- entry ---- */

static void add_all_totals(const struct asked *asked, int count, struct spp_search_result *search) {
  bool first = true;
  for (int m = 0; m < count; m++) {
    if (!answered(&asked[m])) continue;
    add_totals(&asked[m].found.search, first, search);
    if (search->count == 0) add_nearest(&asked[m].found.search, search);
    first = false;
  }
}

static enum spp_status put_together(const struct spp_search_options *options,
                                    const struct spp_machine *machines, const struct asked *asked, int count,
                                    int find, struct spp_machines_result *result, struct spp_diag *diag) {
  struct pool pool;
  struct gathering all;
  int order[SPP_MAX_MACHINES];
  bool filled = pool_fill(options, asked, count, &pool);
  filled &= gathering_open(&result->found.search, pool.count + SPP_MAX_MACHINES, &all);
  order_machines(options, machines, asked, count, find, order);
  const struct spp_find_result *won = &asked[order[0]].found;
  if (filled && find == SPP_FIND_NOTHING) filled = rank_pool(options, &pool, &all);
  if (filled && find != SPP_FIND_NOTHING) take_winner(&won->search, &all);
  if (filled) {
    result->count = count;
    result->found.what = won->what;
    result->found.value = won->value;
    memcpy(result->found.limit, won->limit, sizeof result->found.limit);
    list_answers(machines, asked, order, count, &all, result);
    add_all_totals(asked, count, &result->found.search);
  }
  free(all.from);
  pool_free(&pool);
  return filled ? SPP_OK : spp_diag_oom(diag);
}

/* Somebody has a plan; or somebody is near one; or nobody may even try, and the first says why. */
static enum spp_status verdict(const struct asked *asked, int count, struct spp_diag *diag) {
  static const enum spp_status ranks[] = {SPP_INTERRUPTED, SPP_ERR_INTERNAL, SPP_OK, SPP_ERR_NOFIT};
  for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
    for (int m = 0; m < count; m++)
      if (asked[m].status == ranks[r]) {
        if (diag && ranks[r] != SPP_OK) *diag = asked[m].diag;
        return ranks[r];
      }
  if (diag) *diag = asked[0].diag;
  return asked[0].status;
}

enum spp_status spp_search_machines(const struct spp_search_options *options,
                                    const struct spp_machine *machines, int count, int find,
                                    struct spp_machines_result *result, struct spp_diag *diag) {
  if (count < 1 || count > SPP_MAX_MACHINES)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", NULL, "between 1 and %d GPU types can be compared",
                        (int)SPP_MAX_MACHINES);
  if (count == 1) { /* its own answer, untouched */
    struct spp_search_options own = options_of(options, &machines[0]);
    result->count = 0;
    return find == SPP_FIND_NOTHING ? spp_search(&own, &result->found.search, diag)
                                    : spp_find(&own, (enum spp_find)find, &result->found, diag);
  }
  struct spp_machines_result *made = calloc(1, sizeof *made);
  struct asked *asked = calloc((size_t)count, sizeof *asked);
  if (!made || !asked) {
    free(made);
    free(asked);
    return spp_diag_oom(diag);
  }
  for (int m = 0; m < count; m++)
    ask(options, &machines[m], find, &asked[m]);
  enum spp_status status = verdict(asked, count, diag);
  if (status == SPP_OK || status == SPP_ERR_NOFIT) {
    enum spp_status joined = put_together(options, machines, asked, count, find, made, diag);
    if (joined != SPP_OK) status = joined;
  }
  for (int m = 0; m < count; m++)
    if (answered(&asked[m])) spp_search_free(&asked[m].found.search);
  if (status == SPP_OK || status == SPP_ERR_NOFIT)
    *result = *made;
  else
    spp_search_free(&made->found.search);
  free(made);
  free(asked);
  return status;
}
