#include "planner/search.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/units.h"
#include "planner/search_internal.h"

enum {
  SPP_MAX_THREADS = 64,
  SPP_FRONT = 24, /* members unless asked otherwise */
  SPP_MAX_FRONT = 64,
  CELLS_PER_THREAD = 4, /* a cell takes about as long as starting a thread */
  CELLS_PER_LESSON = 16 /* after so many, what was found prunes the next */
};

/* ---- spaces ---- */

static int compare_refs(const void *a, const void *b) {
  const struct spp_cell_ref *x = a, *y = b;
  if (x->divided != y->divided) return x->divided < y->divided ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->framework != y->framework) return x->framework < y->framework ? -1 : 1;
  return (x->cell > y->cell) - (x->cell < y->cell);
}

static bool order_cells(struct spp_hunt *hunt) {
  static const int kinds[SPP_SP_KIND_COUNT] = {[SPP_SP_NONE] = 1,
                                               [SPP_SP_ULYSSES] = 0,
                                               [SPP_SP_ALLGATHER] = 0,
                                               [SPP_SP_HYBRID] = 2,
                                               [SPP_SP_RING] = 2};
  int64_t count = 0;
  hunt->order = malloc((size_t)(hunt->cell_count + 1) * sizeof *hunt->order);
  if (!hunt->order) return false;
  for (int f = 0; f < hunt->options->framework_count; f++)
    for (int c = 0; c < hunt->spaces[f].cell_count; c++) {
      const struct spp_cell *cell = &hunt->spaces[f].cells[c];
      hunt->order[count++] = (struct spp_cell_ref){cell->tp * cell->pp, kinds[cell->sp_kind], f, c};
    }
  qsort(hunt->order, (size_t)count, sizeof *hunt->order, compare_refs);
  return true;
}

/* Does the framework have what the user fixed at all? Its refusal then tells more than that it has not. */
static bool offers(const struct spp_framework *framework, const struct spp_request *fixed) {
  bool kind = fixed->sp_kind == SPP_UNSET || framework->sp_kinds[fixed->sp_kind];
  return kind && (fixed->tp <= 1 || framework->tp) && (fixed->pp <= 1 || framework->pp) &&
         (fixed->ep <= 1 || framework->ep);
}

/* Why none of the frameworks can: the reason of the first that has what was asked at all, and how many others
 * there are, with the same reason or another. instead: what does as asked, where all broke one rule that
 * knows it; else empty. */
static enum spp_status refuse_all(const struct spp_search_options *options, char (*refusals)[160],
                                  const char *instead, struct spp_diag *diag) {
  static const char free_one[] = "free one degree, or change --gpus";
  const char *hint = instead[0] ? instead : free_one;
  int first = -1, others = 0, told = 0;
  for (int f = 0; f < options->framework_count; f++) {
    bool has = offers(options->frameworks[f], &options->fixed);
    if (!refusals[f][0]) continue;
    if (first < 0 || (has && !offers(options->frameworks[first], &options->fixed))) first = f;
    told++;
  }
  if (first < 0) return spp_diag_set(diag, SPP_ERR_USAGE, NULL, free_one, "no layout is legal");
  others = told - 1;
  if (others == 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, options->frameworks[first]->display, hint, "%s",
                        refusals[first]);
  if (!instead[0])
    hint = "free one degree or change --gpus; --framework NAME says what that one has against it";
  return spp_diag_set(diag, SPP_ERR_USAGE, options->frameworks[first]->display, hint,
                      "%s; %d other framework%s cannot either", refusals[first], others,
                      others == 1 ? "" : "s");
}

/* The most bytes that may be as likely to fit as asked: the likelihood falls as bytes grow. */
static int64_t risky_bytes(const struct spp_job *job, double min_fit) {
  int64_t low = 0, high = INT64_C(1) << 52;
  if (min_fit <= 0) return INT64_MAX;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (spp_memory_fit_probability(job, middle, 0) < min_fit)
      high = middle;
    else
      low = middle;
  }
  return low;
}

enum spp_status spp_hunt_open(const struct spp_search_options *options, struct spp_hunt *hunt,
                              struct spp_diag *diag) {
  struct spp_diag refusal = {.status = SPP_OK};
  memset(hunt, 0, sizeof *hunt);
  hunt->options = options;
  if (options->framework_count < 1 || options->framework_count > SPP_MAX_FRAMEWORKS)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--framework", NULL,
                        "between 1 and %d frameworks can be searched", (int)SPP_MAX_FRAMEWORKS);
  for (int i = 0; i < options->framework_count; i++) {
    struct spp_space *space = &hunt->spaces[i];
    enum spp_status status =
        spp_space_build(&options->spec, options->frameworks[i], &options->fixed, space, &refusal);
    if (status == SPP_ERR_INTERNAL) {
      spp_hunt_close(hunt);
      return spp_diag_oom(diag);
    }
    if (status != SPP_OK)
      snprintf(hunt->refusals[i], sizeof hunt->refusals[i], "%.159s", refusal.what);
    else
      spp_bound_prepare(&space->jobs[0], &hunt->bounds[i]);
    hunt->risky_bytes[i] = status == SPP_OK ? risky_bytes(&space->jobs[0], options->min_fit) : INT64_MAX;
    hunt->cell_count += space->cell_count;
  }
  if (hunt->cell_count > 0 && order_cells(hunt)) return SPP_OK;
  bool refused = hunt->cell_count == 0;
  spp_hunt_close(hunt);
  if (!refused) return spp_diag_oom(diag);
  if (options->framework_count > 1) return refuse_all(options, hunt->refusals, "", diag);
  if (diag) *diag = refusal; /* its own words, place and hint */
  return refusal.status;
}

void spp_hunt_close(struct spp_hunt *hunt) {
  for (int i = 0; i < SPP_MAX_FRAMEWORKS; i++)
    spp_space_free(&hunt->spaces[i]);
  for (int i = 0; i < hunt->evaluator_count; i++)
    spp_evaluator_free(hunt->evaluators[i]);
  free(hunt->evaluators);
  free(hunt->order);
  free(hunt->known.front_s);
  free(hunt->known.front_bytes);
}

const struct spp_job *spp_hunt_layout(const struct spp_hunt *hunt, const struct spp_place *place,
                                      struct spp_layout *layout) {
  const struct spp_space *space = &hunt->spaces[place->framework];
  struct spp_walk walk;
  spp_walk_begin(&walk, space, &space->cells[place->cell]);
  spp_walk_seek(&walk, place->number, place->micro);
  *layout = walk.layout;
  if (spp_walk_by_layers(&walk))
    layout->recompute_layers =
        spp_max64(layout->vpp, spp_fewest_layers(walk.job, &walk.layout, hunt->options->min_fit));
  return walk.job;
}

/* ---- workers ---- */

struct worker {
  const struct spp_hunt *hunt;
  struct spp_evaluator *evaluator;
  struct spp_tally *tally;
  atomic_llong *next;
  int64_t end;
  bool tells; /* the thread that asked */
};

static bool stopped(const struct spp_hunt *hunt) {
  return hunt->options->stop && atomic_load(hunt->options->stop);
}

static void *work(void *arg) {
  struct worker *worker = arg;
  const struct spp_search_options *options = worker->hunt->options;
  while (!stopped(worker->hunt)) {
    long long number = atomic_fetch_add(worker->next, 1);
    if (number >= worker->end) return NULL;
    if (worker->tells && options->watch)
      options->watch(options->watcher, (int64_t)number, worker->hunt->cell_count);
    struct spp_cell_ref ref = worker->hunt->order[number];
    spp_cell_search(worker->hunt, ref.framework, ref.cell, worker->evaluator, worker->tally);
  }
  return NULL;
}

/* Cells [begin, end) over the workers, merged into *tally. */
static enum spp_status run_cells(const struct spp_hunt *hunt, int64_t begin, int64_t end, int threads,
                                 struct spp_tally *tally) {
  pthread_t ids[SPP_MAX_THREADS];
  struct worker workers[SPP_MAX_THREADS];
  struct spp_tally *own = calloc((size_t)threads, sizeof *own);
  atomic_llong next;
  int started = 0;
  if (!own) return SPP_ERR_INTERNAL;
  atomic_init(&next, begin);
  for (int i = 0; i < threads; i++)
    workers[i] = (struct worker){hunt, hunt->evaluators[i], &own[i], &next, end, i == 0};
  for (int i = 1; i < threads; i++)
    if (pthread_create(&ids[started], NULL, work, &workers[i]) == 0) started++;
  work(&workers[0]); /* also all there is when no thread could be started */
  for (int i = 0; i < started; i++)
    pthread_join(ids[i], NULL);
  for (int i = 0; i < threads; i++)
    spp_tally_merge(tally, &own[i]);
  free(own);
  if (stopped(hunt)) return SPP_INTERRUPTED;
  return tally->out_of_memory ? SPP_ERR_INTERNAL : SPP_OK;
}

/* Learn from what was found, and forget what can no longer matter. */
static bool take_stock(struct spp_hunt *hunt, struct spp_tally *tally) {
  size_t kept = 0;
  int top = hunt->options->top > 0 ? hunt->options->top : 1;
  qsort(tally->candidates, tally->count, sizeof *tally->candidates, spp_candidate_compare);
  free(hunt->known.front_s);
  free(hunt->known.front_bytes);
  if (!spp_known_fill(&hunt->known, tally->candidates, tally->count, top)) return false;
  for (size_t i = 0; i < tally->count; i++) {
    const struct spp_candidate *c = &tally->candidates[i];
    if (!spp_known_hopeless(&hunt->known, c->place.framework, c->risky, c->score, c->step_s, c->device_bytes))
      tally->candidates[kept++] = *c;
  }
  tally->count = kept;
  return true;
}

static enum spp_status find_nearest(struct spp_hunt *hunt, int threads, struct spp_tally *tally) {
  struct spp_tally again = {0};
  hunt->nearest_matters = true;
  enum spp_status status = run_cells(hunt, 0, hunt->cell_count, threads, &again);
  tally->has_nearest = again.has_nearest;
  tally->nearest = again.nearest;
  tally->nearest_over_bytes = again.nearest_over_bytes;
  spp_tally_free(&again);
  return status;
}

static bool same_group(const struct spp_cell_ref *a, const struct spp_cell_ref *b) {
  return a->divided == b->divided && a->kind == b->kind;
}

static bool create_evaluators(struct spp_hunt *hunt, int threads) {
  hunt->evaluators = calloc((size_t)threads, sizeof *hunt->evaluators);
  for (int i = 0; hunt->evaluators && i < threads; i++) {
    hunt->evaluators[i] = spp_evaluator_create();
    if (!hunt->evaluators[i]) return false;
    hunt->evaluator_count++;
  }
  return hunt->evaluators != NULL;
}

enum spp_status spp_hunt_run(struct spp_hunt *hunt, int threads, struct spp_tally *tally) {
  if (!create_evaluators(hunt, threads)) return SPP_ERR_INTERNAL;
  if (hunt->options->exhaustive) return run_cells(hunt, 0, hunt->cell_count, threads, tally);
  int64_t begin = 0;
  while (begin < hunt->cell_count) {
    int64_t end = begin;
    while (end < hunt->cell_count && end - begin < CELLS_PER_LESSON &&
           same_group(&hunt->order[begin], &hunt->order[end]))
      end++;
    enum spp_status status = run_cells(hunt, begin, end, threads, tally);
    if (status != SPP_OK) return status;
    if (tally->count > 0 && !take_stock(hunt, tally)) return SPP_ERR_INTERNAL;
    begin = end;
  }
  return tally->count > 0 ? SPP_OK : find_nearest(hunt, threads, tally);
}

static int thread_count(const struct spp_search_options *options, int64_t cells) {
  long online = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
  if (online < 1) online = 1;
  if (online > SPP_MAX_THREADS) online = SPP_MAX_THREADS;
  return (int)spp_min64(online, spp_ceil_div(cells, CELLS_PER_THREAD));
}

/* ---- results ---- */

static void fill_plan(const struct spp_hunt *hunt, const struct spp_place *place, struct spp_plan *plan) {
  plan->job = *spp_hunt_layout(hunt, place, &plan->layout);
  spp_predict(&plan->job, &plan->layout, NULL, &plan->prediction);
}

static int plan_of(const size_t *chosen, int count, size_t candidate) {
  for (int i = 0; i < count; i++)
    if (chosen[i] == candidate) return i;
  return -1;
}

static int add_chosen(size_t *chosen, int *count, size_t candidate) {
  int index = plan_of(chosen, *count, candidate);
  if (index >= 0) return index;
  chosen[*count] = candidate;
  return (*count)++;
}

static int front_most(const struct spp_search_options *options) {
  return options->front <= 0 ? SPP_FRONT : options->front < SPP_MAX_FRONT ? options->front : SPP_MAX_FRONT;
}

/* Ranking, then the best of each framework, then the front: each plan once. */
static enum spp_status choose_plans(const struct spp_hunt *hunt, struct spp_tally *tally,
                                    struct spp_search_result *result) {
  const struct spp_search_options *options = hunt->options;
  int top = options->top > 0 ? options->top : 1, max = top + SPP_MAX_FRAMEWORKS + SPP_MAX_FRONT;
  size_t *chosen = malloc((size_t)max * sizeof *chosen), front[SPP_MAX_FRONT], best;
  bool *taken = calloc(tally->count + 1, sizeof *taken);
  int front_count = -1;
  if (chosen && taken) {
    qsort(tally->candidates, tally->count, sizeof *tally->candidates, spp_candidate_compare);
    result->count = result->top_count = spp_rank(tally->candidates, tally->count, -1, top, chosen, taken);
    for (int f = 0; f < options->framework_count; f++) {
      memset(taken, 0, tally->count * sizeof *taken);
      if (spp_rank(tally->candidates, tally->count, f, 1, &best, taken) == 1)
        result->best_of_framework[f] = add_chosen(chosen, &result->count, best);
    }
    front_count = spp_pareto(tally->candidates, tally->count, front, front_most(options));
    result->pareto = malloc(SPP_MAX_FRONT * sizeof *result->pareto);
    if (!result->pareto) front_count = -1;
    for (int i = 0; i < front_count; i++)
      result->pareto[i] = add_chosen(chosen, &result->count, front[i]);
    result->pareto_count = front_count < 0 ? 0 : front_count;
    result->plans = malloc(((size_t)result->count + 1) * sizeof *result->plans);
  }
  for (int i = 0; result->plans && i < result->count; i++)
    fill_plan(hunt, &tally->candidates[chosen[i]].place, &result->plans[i]);
  free(chosen);
  free(taken);
  return result->plans && front_count >= 0 ? SPP_OK : SPP_ERR_INTERNAL;
}

static void describe_example(const struct spp_hunt *hunt, const struct spp_reason *reason, char *text,
                             size_t size) {
  struct spp_layout layout;
  struct spp_memory memory;
  struct spp_geometry geometry;
  char described[320], over[32];
  const struct spp_job *job = spp_hunt_layout(hunt, &reason->example, &layout);
  spp_layout_describe(job, &layout, described, sizeof described);
  if (reason->over_bytes == 0) {
    snprintf(text, size, "%.40s %.150s", job->framework->display, described);
    return;
  }
  spp_geometry_resolve(job, &layout, &geometry);
  spp_memory_predict(job, &layout, &geometry, NULL, &memory);
  bool host = memory.fits && !memory.host_fits;
  spp_bytes_print(host ? memory.host_bytes_per_node - memory.host_capacity_bytes : -memory.headroom_bytes,
                  over);
  snprintf(text, size, "%.40s %.100s: %s over%s", job->framework->display, described, over,
           host ? " in host memory" : "");
}

static const char *reason_name(int reason) {
  if (reason == SPP_REASON_MEMORY) return "memory";
  return reason == SPP_REASON_HOST ? "host-memory" : spp_rule_id(reason);
}

/* Most frequent reason first. */
static void list_rejections(const struct spp_hunt *hunt, const struct spp_tally *tally,
                            struct spp_search_result *result) {
  bool listed[SPP_REASON_COUNT] = {false};
  while (result->rejection_count < SPP_MAX_REJECTIONS) {
    int most = -1;
    for (int i = 0; i < SPP_REASON_COUNT; i++)
      if (!listed[i] && tally->reasons[i].count > 0 &&
          (most < 0 || tally->reasons[i].count > tally->reasons[most].count))
        most = i;
    if (most < 0) return;
    listed[most] = true;
    struct spp_rejection *rejection = &result->rejections[result->rejection_count++];
    snprintf(rejection->reason, sizeof rejection->reason, "%s", reason_name(most));
    rejection->count = tally->reasons[most].count;
    describe_example(hunt, &tally->reasons[most], rejection->example, sizeof rejection->example);
  }
}

/* A framework whose every layout broke a rule says which. instead: as the rule says that all of them broke
 * first, or empty. */
static void list_refusals(const struct spp_hunt *hunt, const struct spp_tally *tally,
                          struct spp_search_result *result, char *instead, size_t size) {
  bool alike = true;
  instead[0] = '\0';
  for (int f = 0; f < hunt->options->framework_count; f++) {
    char *text = result->framework_refusals[f];
    memcpy(text, hunt->refusals[f], sizeof result->framework_refusals[f]);
    if (text[0]) alike = false;
    if (text[0] || tally->framework_layouts[f] > 0 || tally->framework_rule[f].count == 0) continue;
    struct spp_layout layout;
    struct spp_violation violation;
    const struct spp_job *job = spp_hunt_layout(hunt, &tally->framework_rule[f].example, &layout);
    if (spp_rules_check(job, &layout, &violation, 1) == 0) continue;
    snprintf(text, sizeof result->framework_refusals[f], "%.159s", violation.text);
    alike &= !instead[0] || strcmp(instead, violation.instead) == 0;
    snprintf(instead, size, "%s", violation.instead);
  }
  if (!alike) instead[0] = '\0';
}

static enum spp_status conclude(const struct spp_hunt *hunt, struct spp_tally *tally,
                                struct spp_search_result *result, struct spp_diag *diag) {
  char instead[sizeof((struct spp_violation *)NULL)->instead];
  result->layouts = tally->layouts;
  result->evaluated = tally->evaluated;
  result->pruned = tally->pruned;
  list_rejections(hunt, tally, result);
  list_refusals(hunt, tally, result, instead, sizeof instead);
  if (tally->out_of_memory || choose_plans(hunt, tally, result) != SPP_OK) return spp_diag_oom(diag);
  if (result->count > 0) return SPP_OK;
  if (!tally->has_nearest) return refuse_all(hunt->options, result->framework_refusals, instead, diag);
  result->has_nearest = true;
  fill_plan(hunt, &tally->nearest, &result->nearest);
  char over[32];
  bool host = result->nearest.prediction.memory.fits;
  return spp_diag_set(diag, SPP_ERR_NOFIT, NULL, "more GPUs, a shorter sequence, or offload",
                      "nothing fits: the nearest layout is %s over in %s memory",
                      spp_bytes_print(tally->nearest_over_bytes, over), host ? "host" : "device");
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum spp_status spp_search(const struct spp_search_options *options, struct spp_search_result *result,
                           struct spp_diag *diag) {
  double begin_s = now_s();
  struct spp_search_result found = {.threads = 1};
  struct spp_hunt *hunt = malloc(sizeof *hunt);
  if (!hunt) return spp_diag_oom(diag);
  enum spp_status status = spp_hunt_open(options, hunt, diag);
  if (status != SPP_OK) {
    free(hunt);
    return status;
  }
  for (int f = 0; f < SPP_MAX_FRAMEWORKS; f++)
    found.best_of_framework[f] = -1;
  found.threads = thread_count(options, hunt->cell_count);
  struct spp_tally *tally = calloc(1, sizeof *tally);
  status = tally ? spp_hunt_run(hunt, found.threads, tally) : SPP_ERR_INTERNAL;
  if (status == SPP_OK)
    status = conclude(hunt, tally, &found, diag);
  else if (status == SPP_INTERRUPTED)
    spp_diag_set(diag, status, NULL, NULL, "the search was stopped");
  else
    spp_diag_oom(diag);
  if (tally) spp_tally_free(tally);
  free(tally);
  spp_hunt_close(hunt);
  free(hunt);
  found.seconds = now_s() - begin_s;
  if (status == SPP_OK || status == SPP_ERR_NOFIT)
    *result = found;
  else
    spp_search_free(&found);
  return status;
}

int spp_search_riskier(const struct spp_search_options *options, const struct spp_search_result *result) {
  static const double notable = 1.01;
  if (result->pareto_count == 0 || options->objective == SPP_OBJECTIVE_MEMORY) return -1;
  const struct spp_plan *best = &result->plans[0], *fast = &result->plans[result->pareto[0]];
  bool passed_over =
      spp_plan_risky(options, &fast->prediction.memory) && !spp_plan_risky(options, &best->prediction.memory);
  bool faster = fast->prediction.time.tokens_per_s >= notable * best->prediction.time.tokens_per_s;
  return passed_over && faster ? result->pareto[0] : -1;
}

void spp_search_free(struct spp_search_result *result) {
  free(result->plans);
  free(result->pareto);
  result->plans = NULL;
  result->pareto = NULL;
  result->count = result->top_count = result->pareto_count = 0;
}
