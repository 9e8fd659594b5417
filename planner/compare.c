#include "planner/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "planner/search_internal.h"

enum { MAX_ROWS = 40, MAX_CROSSOVERS = 16 };
/* A lead that counts: strategies within a per cent of each other trade places all the way. */
#define LEAD 0.01

/* One strategy: what is fixed for it, and which frameworks may answer. */
struct strategy {
  char name[48];
  struct spp_request fixed;
  const struct spp_framework *frameworks[SPP_MAX_FRAMEWORKS];
  int framework_count;
};
struct strategies {
  struct strategy items[MAX_ROWS];
  int count;
};

/* ---- the rows ---- */

static struct strategy *add_strategy(struct strategies *list, const struct spp_search_options *options,
                                     enum spp_sp_kind kind, int64_t ulysses, int64_t ring) {
  struct strategy *row = &list->items[list->count++];
  memset(row, 0, sizeof *row);
  row->fixed = options->fixed;
  row->fixed.sp_kind = (int)kind;
  row->fixed.sp = ulysses * ring;
  row->fixed.ulysses = ulysses;
  row->fixed.ring = ring;
  return row;
}

static void take_frameworks(struct strategy *row, const struct spp_search_options *options,
                            bool (*offers)(const struct spp_framework *)) {
  for (int i = 0; i < options->framework_count; i++)
    if (offers(options->frameworks[i])) row->frameworks[row->framework_count++] = options->frameworks[i];
}

static bool offers_anything(const struct spp_framework *f) {
  (void)f;
  return true;
}
static bool offers_megatron_sp(const struct spp_framework *f) {
  return f->tp && f->megatron_sp;
}
static bool offers_ulysses(const struct spp_framework *f) {
  return f->sp_kinds[SPP_SP_ULYSSES];
}
static bool offers_allgather(const struct spp_framework *f) {
  return f->sp_kinds[SPP_SP_ALLGATHER];
}
static bool offers_hybrid(const struct spp_framework *f) {
  return f->sp_kinds[SPP_SP_HYBRID];
}

static void add_none(struct strategies *list, const struct spp_search_options *options) {
  struct strategy *row = add_strategy(list, options, SPP_SP_NONE, 1, 1);
  row->fixed.megatron_sp = 0;
  snprintf(row->name, sizeof row->name, "none");
  take_frameworks(row, options, offers_anything);
}

static void add_tp(struct strategies *list, const struct spp_search_options *options, int64_t degree) {
  struct strategy *row = add_strategy(list, options, SPP_SP_NONE, 1, 1);
  row->fixed.megatron_sp = 1;
  row->fixed.tp = degree;
  snprintf(row->name, sizeof row->name, "tp %lld + sp", (long long)degree);
  take_frameworks(row, options, offers_megatron_sp);
}

static void add_ulysses(struct strategies *list, const struct spp_search_options *options, int64_t degree) {
  struct strategy *row = add_strategy(list, options, SPP_SP_ULYSSES, degree, 1);
  snprintf(row->name, sizeof row->name, "ulysses %lld", (long long)degree);
  take_frameworks(row, options, offers_ulysses);
}

/* One row per implementation and token order that any framework has. */
static void add_rings(struct strategies *list, const struct spp_search_options *options, int64_t degree) {
  for (int impl = 0; impl < SPP_RING_IMPL_COUNT; impl++)
    for (int zigzag = 1; zigzag >= 0; zigzag--) {
      struct strategy *row = add_strategy(list, options, SPP_SP_RING, 1, degree);
      for (int i = 0; i < options->framework_count; i++) {
        const struct spp_framework *f = options->frameworks[i];
        int own = options->spec.ring_impl == SPP_UNSET ? (int)f->ring_impl : options->spec.ring_impl;
        bool order = options->spec.ring_order == SPP_UNSET ? f->ring_zigzag
                                                           : options->spec.ring_order == SPP_RING_ZIGZAG;
        if (f->sp_kinds[SPP_SP_RING] && own == impl && order == (zigzag != 0))
          row->frameworks[row->framework_count++] = f;
      }
      snprintf(row->name, sizeof row->name, "ring %lld %s (%s)", (long long)degree,
               zigzag ? "zigzag" : "contiguous", spp_ring_impl_name((enum spp_ring_impl)impl));
      if (row->framework_count == 0) list->count--;
    }
}

static void add_allgather(struct strategies *list, const struct spp_search_options *options, int64_t degree) {
  struct strategy *row = add_strategy(list, options, SPP_SP_ALLGATHER, 1, degree);
  snprintf(row->name, sizeof row->name, "allgather %lld", (long long)degree);
  take_frameworks(row, options, offers_allgather);
}

static void add_hybrids(struct strategies *list, const struct spp_search_options *options, int64_t degree) {
  for (int64_t ulysses = 2; ulysses < degree && list->count < MAX_ROWS - 8; ulysses++) {
    if (degree % ulysses) continue;
    struct strategy *row = add_strategy(list, options, SPP_SP_HYBRID, ulysses, degree / ulysses);
    snprintf(row->name, sizeof row->name, "hybrid %lldx%lld", (long long)ulysses,
             (long long)(degree / ulysses));
    take_frameworks(row, options, offers_hybrid);
  }
}

static void list_strategies(const struct spp_search_options *options, int64_t degree,
                            struct strategies *list) {
  list->count = 0;
  add_none(list, options);
  if (degree < 2) return;
  add_tp(list, options, degree);
  add_ulysses(list, options, degree);
  add_rings(list, options, degree);
  add_allgather(list, options, degree);
  add_hybrids(list, options, degree);
}

/* ---- one row ---- */

static void explain(const struct strategy *strategy, const struct spp_diag *diag,
                    struct spp_compare_row *row) {
  if (strategy->framework_count == 0)
    snprintf(row->why_not, sizeof row->why_not, "none of the frameworks searched has it");
  else if (diag->where[0] && strncmp(diag->what, diag->where, strlen(diag->where)) != 0) /* named once */
    snprintf(row->why_not, sizeof row->why_not, "%.60s: %.250s", diag->where, diag->what);
  else
    snprintf(row->why_not, sizeof row->why_not, "%s", diag->what);
}

/* Best plan of one strategy. A legal one that does not fit keeps its nearest plan. */
static enum spp_status run_row(const struct spp_search_options *options, const struct strategy *strategy,
                               struct spp_compare_row *row, struct spp_diag *diag) {
  struct spp_search_options own = *options;
  struct spp_search_result result;
  struct spp_diag refusal = {.status = SPP_OK};
  memset(row, 0, sizeof *row);
  snprintf(row->name, sizeof row->name, "%s", strategy->name);
  own.frameworks = strategy->frameworks;
  own.framework_count = strategy->framework_count;
  own.fixed = strategy->fixed;
  own.top = 1;
  enum spp_status status = own.framework_count ? spp_search(&own, &result, &refusal) : SPP_ERR_USAGE;
  if (status == SPP_ERR_INTERNAL) return spp_diag_oom(diag);
  if (status == SPP_INTERRUPTED) return spp_diag_set(diag, status, NULL, NULL, "%s", refusal.what);
  if (status != SPP_OK) explain(strategy, &refusal, row);
  if (status != SPP_OK && status != SPP_ERR_NOFIT) return SPP_OK;
  row->legal = true;
  row->plan = status == SPP_OK ? result.plans[0] : result.nearest;
  spp_search_free(&result);
  return SPP_OK;
}

static bool runs(const struct spp_compare_row *row) {
  return row->legal && spp_memory_feasible(&row->plan.prediction.memory);
}

static bool risky(const struct spp_search_options *options, const struct spp_compare_row *row) {
  return spp_plan_risky(options, &row->plan.prediction.memory);
}

static double speed(const struct spp_compare_row *row) {
  return runs(row) ? row->plan.prediction.time.tokens_per_s : 0;
}

/* The fastest row that fits, a safe one where there is one, or `incumbent` (-1 = none) while it is as safe
 * and within LEAD of it; -1 when nothing fits. Earlier rows win ties. */
static int winner(const struct spp_search_options *options, const struct spp_compare_row *rows, int count,
                  int incumbent) {
  int best = -1;
  for (int i = 0; i < count; i++) {
    if (!(speed(&rows[i]) > 0)) continue;
    bool safer = best >= 0 && risky(options, &rows[best]) && !risky(options, &rows[i]),
         as_safe = best >= 0 && risky(options, &rows[best]) == risky(options, &rows[i]);
    if (best < 0 || safer || (as_safe && speed(&rows[i]) > speed(&rows[best]))) best = i;
  }
  if (best >= 0 && incumbent >= 0 && speed(&rows[incumbent]) * (1 + LEAD) >= speed(&rows[best]) &&
      risky(options, &rows[incumbent]) <= risky(options, &rows[best]))
    return incumbent;
  return best;
}

/* Where a degree is illegal for a kind, its largest legal divisor is worth a row of its own. */
static enum spp_status
add_smaller(const struct spp_search_options *options, struct strategies *list, int64_t degree,
            void (*add)(struct strategies *, const struct spp_search_options *, int64_t),
            struct spp_compare_result *result, struct spp_diag *diag) {
  for (int64_t d = degree / 2; d > 1; d--) {
    if (degree % d || list->count >= MAX_ROWS - 2) continue;
    add(list, options, d);
    enum spp_status status =
        run_row(options, &list->items[list->count - 1], &result->rows[result->count], diag);
    if (status != SPP_OK) return status;
    if (result->rows[result->count].legal) {
      result->count++;
      return SPP_OK;
    }
    list->count--;
  }
  return SPP_OK;
}

static enum spp_status run_rows(const struct spp_search_options *options, struct strategies *list,
                                int64_t degree, struct spp_compare_result *result, struct spp_diag *diag) {
  int planned = list->count;
  enum spp_status status = SPP_OK;
  for (int i = 0; i < planned && status == SPP_OK; i++, result->count++)
    status = run_row(options, &list->items[i], &result->rows[i], diag);
  for (int i = 1; i < 3 && i < planned && status == SPP_OK; i++) /* 1: tp + sp, 2: ulysses */
    if (!result->rows[i].legal && list->items[i].framework_count > 0)
      status = add_smaller(options, list, degree, i == 1 ? add_tp : add_ulysses, result, diag);
  return status;
}

/* ---- crossovers ---- */

struct sweep {
  const struct spp_search_options *options; /* of one search; its watch is the comparison's */
  spp_search_watch *watch;
  const struct strategies *list;
  struct spp_compare_row *rows; /* scratch, list->count of them */
  struct spp_compare_result *result;
};

/* Who wins at this length among the strategies whose bit is set. -1: nothing fits; -2: no answer (out of
 * memory, or stopped). */
static int winner_at(const struct sweep *sweep, int64_t seq_tokens, uint64_t mask, int incumbent) {
  struct spp_search_options at = *sweep->options;
  struct spp_diag diag;
  at.spec.seq_tokens = seq_tokens;
  for (int i = 0; i < sweep->list->count; i++) {
    sweep->rows[i].legal = false;
    if ((mask >> i & 1) && run_row(&at, &sweep->list->items[i], &sweep->rows[i], &diag) != SPP_OK) return -2;
  }
  return winner(&at, sweep->rows, sweep->list->count, incumbent);
}

static void note_crossover(const struct sweep *sweep, int from, int to, int64_t seq_tokens) {
  struct spp_compare_result *result = sweep->result;
  if (result->crossover_count == MAX_CROSSOVERS) return;
  struct spp_crossover *crossover = &result->crossovers[result->crossover_count++];
  memcpy(crossover->from, sweep->list->items[from].name, sizeof crossover->from);
  memcpy(crossover->to, sweep->list->items[to].name, sizeof crossover->to);
  crossover->seq_tokens = seq_tokens;
}

/* Between `low`, where `from` wins, and `high`, where `to` does: the first length (to 1/64 of it, in steps of
 * 1,024) at which `to` is ahead. */
static int64_t bisect(const struct sweep *sweep, int from, int to, int64_t low, int64_t high) {
  uint64_t pair = UINT64_C(1) << from | UINT64_C(1) << to;
  while (high - low > spp_max64(1024, high / 64)) {
    int64_t middle = (low + (high - low) / 2) / 1024 * 1024;
    if (middle <= low) break;
    if (winner_at(sweep, middle, pair, from) == from)
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* What the last winner_at saw, for the curves. */
static void note_speeds(const struct sweep *sweep, int length) {
  for (int i = 0; i < sweep->list->count && i < sweep->result->count; i++)
    sweep->result->rows[i].tokens_per_s_at[length] = speed(&sweep->rows[i]);
}

static enum spp_status find_crossovers(const struct sweep *sweep, struct spp_diag *diag) {
  uint64_t all = 0;
  int before = -1;
  for (int i = 0; i < sweep->list->count; i++)
    if (sweep->result->rows[i].legal) all |= UINT64_C(1) << i;
  for (int length = 0; length < SPP_COMPARE_LENGTHS; length++) {
    int64_t seq = (int64_t)SPP_COMPARE_SHORTEST << length;
    if (sweep->watch) sweep->watch(sweep->options->watcher, length + 1, SPP_COMPARE_LENGTHS + 1);
    int now = winner_at(sweep, seq, all, before);
    if (now == -2 && sweep->options->stop && atomic_load(sweep->options->stop))
      return spp_diag_set(diag, SPP_INTERRUPTED, NULL, NULL, "the search was stopped");
    if (now == -2) return spp_diag_oom(diag);
    note_speeds(sweep, length);
    if (now < 0 && before >= 0) break; /* nothing fits any more: nor does anything at twice the length */
    if (now < 0) continue;
    if (before >= 0 && now != before)
      note_crossover(sweep, before, now, bisect(sweep, before, now, seq / 2, seq));
    before = now;
  }
  return SPP_OK;
}

/* ---- entry ---- */

/* All GPUs of a node, or as many of them as divide the job's. */
static int64_t default_degree(const struct spp_search_options *options) {
  int64_t gpus = spp_max64(1, options->spec.gpus);
  int64_t node = options->spec.cluster ? options->spec.cluster->gpus_per_node : 8;
  int64_t degree = spp_min64(gpus, spp_max64(1, node));
  while (gpus % degree)
    degree--;
  return degree;
}

enum spp_status spp_compare(const struct spp_search_options *options, int64_t degree,
                            struct spp_compare_result *result, struct spp_diag *diag) {
  struct strategies *list = malloc(sizeof *list);
  struct spp_compare_result found = {.count = 0};
  struct spp_search_options one = *options;
  struct sweep sweep = {.options = &one, .watch = options->watch, .list = list, .result = &found};
  one.watch = NULL;
  found.rows = calloc(MAX_ROWS, sizeof *found.rows);
  sweep.rows = calloc(MAX_ROWS, sizeof *sweep.rows);
  enum spp_status status = list && found.rows && sweep.rows ? SPP_OK : spp_diag_oom(diag);
  if (degree <= 0) degree = default_degree(options);
  if (status == SPP_OK) {
    list_strategies(&one, degree, list);
    status = run_rows(&one, list, degree, &found, diag);
  }
  if (status == SPP_OK && options->spec.documents.count == 0) status = find_crossovers(&sweep, diag);
  free(list);
  free(sweep.rows);
  if (status == SPP_OK)
    *result = found;
  else
    spp_compare_free(&found);
  return status;
}

void spp_compare_free(struct spp_compare_result *result) {
  free(result->rows);
  result->rows = NULL;
  result->count = 0;
}
