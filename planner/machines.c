#include "planner/machines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "planner/front.h"
#include "planner/search_internal.h"

enum {
  FRONT = 24,
  FRONT_OF_ONE = 64, /* of each count of GPUs, where several are asked */
  TOP_OF_ONE = 3
};

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
  if (machine->gpus > 0) own.spec.gpus = machine->gpus;
  return own;
}

static bool answered(const struct asked *asked) {
  return asked->status == SPP_OK || asked->status == SPP_ERR_NOFIT;
}

static void ask(const struct spp_search_options *options, const struct spp_machine *machine, int find,
                struct asked *asked) {
  struct spp_search_options own = options_of(options, machine);
  memset(asked, 0, sizeof *asked);
  if (find == SPP_FIND_NOTHING || find == SPP_FIND_PARETO)
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
  search->pareto = malloc(SPP_MAX_POOL_FRONT * sizeof *search->pareto);
  for (int f = 0; f < SPP_MAX_FRAMEWORKS; f++)
    search->best_of_framework[f] = -1;
  return all->from && search->plans && search->pareto;
}

/* Leaders: members that are the fastest of their GPUs. */
static void mark_leaders(const struct pool *pool, const size_t *front, int members, bool *leads) {
  for (int i = 0; i < members; i++) {
    leads[i] = true;
    for (int j = 0; j < i && leads[i]; j++)
      leads[i] = pool->plans[front[j]]->job.gpu != pool->plans[front[i]]->job.gpu ||
                 pool->plans[front[j]]->job.gpus != pool->plans[front[i]]->job.gpus;
  }
}

/* At most `most` of the members: the last one, the leaders as far as there is room, and every n-th of the
 * others. */
static void add_members(const struct pool *pool, const size_t *front, int members, int most,
                        const bool *leads, struct gathering *all) {
  struct spp_search_result *search = all->search;
  int leaders = 0;
  for (int i = 0; i < members; i++)
    leaders += leads[i] || i == members - 1;
  int others = members - leaders, room = (int)spp_max64(0, most - leaders), passed = 0;
  for (int i = 0; i < members && search->pareto_count < most; i++) {
    bool keep = leads[i] || i == members - 1;
    if (!keep) { /* spread evenly: the n-th is kept where n room / others passes a whole number */
      keep = (int64_t)(passed + 1) * room / others > (int64_t)passed * room / others;
      passed++;
    }
    if (keep) search->pareto[search->pareto_count++] = add_plan(all, pool->plans[front[i]]);
  }
}

static size_t list_points(const struct pool *pool, bool with_risky, struct spp_front_point *points) {
  size_t count = 0;
  bool priced = true;
  for (size_t i = 0; i < pool->count; i++)
    priced &= pool->plans[i]->prediction.time.usd_per_million_tokens > 0;
  for (size_t i = 0; i < pool->count; i++) {
    const struct spp_plan *plan = pool->plans[i];
    if (pool->candidates[i].risky && !with_risky) continue;
    points[count++] = (struct spp_front_point){plan->prediction.time.step_s,
                                               plan->prediction.memory.device_bytes, plan->job.gpus,
                                               priced ? plan->prediction.time.usd_per_million_tokens : 0, i};
  }
  return count;
}

/* Plans that no other beats in step time, memory, GPUs and, where every machine has a price, cost. Plans that
 * may well not fit count where asked, or where there is no other. */
static bool add_front(const struct pool *pool, bool with_risky, int most, struct gathering *all) {
  struct spp_front_point *points = malloc((pool->count + 1) * sizeof *points);
  size_t *front = malloc((pool->count + 1) * sizeof *front);
  bool *leads = calloc(pool->count + 1, sizeof *leads), made = points && front && leads;
  with_risky |= pool->count > 0 && pool->candidates[0].risky; /* sorted: then all are */
  if (made) {
    int members = spp_front(points, list_points(pool, with_risky, points), front, (int)pool->count);
    mark_leaders(pool, front, members, leads);
    add_members(pool, front, members, most, leads, all);
  }
  free(points);
  free(front);
  free(leads);
  return made;
}

/* As the search itself does for one machine: the ranking, the best of each framework, the front. */
static bool rank_pool(const struct spp_search_options *options, struct pool *pool, bool pareto,
                      struct gathering *all) {
  struct spp_search_result *search = all->search;
  int top = options->top > 0 ? options->top : 1;
  size_t *ranked = malloc((size_t)top * sizeof *ranked), best;
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
  return add_front(pool, !pareto, pareto ? SPP_MAX_POOL_FRONT : FRONT, all);
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

/* The first `count` of `all_count` answers are of one machine each; what follows are fewer GPUs of them. */
static enum spp_status put_together(const struct spp_search_options *options,
                                    const struct spp_machine *machines, const struct asked *asked, int count,
                                    int all_count, int find, struct spp_machines_result *result,
                                    struct spp_diag *diag) {
  struct pool pool;
  struct gathering all;
  int order[SPP_MAX_MACHINES];
  bool filled = pool_fill(options, asked, all_count, &pool), plain = find == SPP_FIND_NOTHING;
  filled &= gathering_open(&result->found.search, pool.count + SPP_MAX_MACHINES, &all);
  order_machines(options, machines, asked, count, find, order);
  const struct spp_find_result *won = &asked[order[0]].found;
  if (filled && (plain || find == SPP_FIND_PARETO))
    filled = rank_pool(options, &pool, !plain, &all);
  else if (filled)
    take_winner(&won->search, &all);
  if (filled) {
    result->count = count;
    result->found.what = won->what;
    result->found.value = won->value;
    memcpy(result->found.limit, won->limit, sizeof result->found.limit);
    if (find == SPP_FIND_PARETO) {
      result->found.what = SPP_FIND_PARETO;
      result->found.value = result->found.search.pareto_count;
      snprintf(result->found.limit, sizeof result->found.limit, "none");
    }
    list_answers(machines, asked, order, count, &all, result);
    add_all_totals(asked, all_count, &result->found.search);
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

/* Every machine, then, of --find pareto, fewer GPUs of each. */
static int list_allocations(const struct spp_search_options *options, const struct spp_machine *machines,
                            int count, int find, struct spp_machine *all) {
  int total = count;
  memcpy(all, machines, (size_t)count * sizeof *all);
  for (int m = 0; m < count && find == SPP_FIND_PARETO; m++) {
    int64_t node = machines[m].cluster ? machines[m].cluster->gpus_per_node : 8, counts[SPP_MAX_ALLOCATIONS];
    int fewer = spp_allocations(options->spec.gpus, node, counts) - 1;
    for (int i = fewer; i-- > 0;) {
      all[total] = machines[m];
      all[total++].gpus = counts[i];
    }
  }
  return total;
}

/* The same batch whatever the GPUs, and few plans of each. */
static struct spp_search_options pareto_options(const struct spp_search_options *options) {
  struct spp_search_options own = *options;
  if (own.spec.global_batch <= 0) own.spec.global_batch = spp_max64(1, own.spec.gpus);
  own.top = TOP_OF_ONE;
  own.front = FRONT_OF_ONE;
  return own;
}

static enum spp_status ask_all(const struct spp_search_options *options, const struct spp_machine *machines,
                               int count, int find, struct spp_machines_result *made, struct spp_diag *diag) {
  size_t room = (size_t)count * (find == SPP_FIND_PARETO ? SPP_MAX_ALLOCATIONS : 1);
  struct spp_machine *all = calloc(room, sizeof *all);
  struct asked *asked = calloc(room, sizeof *asked);
  if (!all || !asked) {
    free(all);
    free(asked);
    return spp_diag_oom(diag);
  }
  int total = list_allocations(options, machines, count, find, all);
  struct spp_search_options own = find == SPP_FIND_PARETO ? pareto_options(options) : *options;
  for (int m = 0; m < total; m++)
    ask(&own, &all[m], find, &asked[m]);
  enum spp_status status = verdict(asked, total, diag);
  if (status == SPP_OK || status == SPP_ERR_NOFIT) {
    enum spp_status joined = put_together(options, all, asked, count, total, find, made, diag);
    if (joined != SPP_OK) status = joined;
  }
  for (int m = 0; m < total; m++)
    if (answered(&asked[m])) spp_search_free(&asked[m].found.search);
  free(all);
  free(asked);
  return status;
}

enum spp_status spp_search_machines(const struct spp_search_options *options,
                                    const struct spp_machine *machines, int count, int find,
                                    struct spp_machines_result *result, struct spp_diag *diag) {
  if (count < 1 || count > SPP_MAX_MACHINES)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--gpu", NULL, "between 1 and %d GPU types can be compared",
                        (int)SPP_MAX_MACHINES);
  if (count == 1 && find != SPP_FIND_PARETO) { /* its own answer, untouched */
    struct spp_search_options own = options_of(options, &machines[0]);
    result->count = 0;
    return find == SPP_FIND_NOTHING ? spp_search(&own, &result->found.search, diag)
                                    : spp_find(&own, (enum spp_find)find, &result->found, diag);
  }
  struct spp_machines_result *made = calloc(1, sizeof *made);
  if (!made) return spp_diag_oom(diag);
  enum spp_status status = ask_all(options, machines, count, find, made, diag);
  if (count == 1) made->count = 0;
  if (status == SPP_OK || status == SPP_ERR_NOFIT)
    *result = *made;
  else
    spp_search_free(&made->found.search);
  free(made);
  return status;
}
