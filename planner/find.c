/* The largest or smallest value for which something fits.
 *
 * Sequence and batch: each layout has its own threshold (memory never shrinks as tokens are added to a rank,
 * so doubling and halving find it), and the answer is the largest over all layouts; a layout that does not
 * even reach the best so far costs one prediction. Micro-batch 1 is enough for the longest sequence, for the
 * same reason. GPU counts are not ordered that way (7 GPUs divide neither heads nor batch), so they are tried
 * one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "planner/front.h"
#include "planner/search_internal.h"

enum { MAX_SEQ_TOKENS = 1 << 28, MAX_BATCH = 1 << 20, MAX_GPUS = 16384 };

struct best {
  int64_t value;
  int64_t micro_batch, dp; /* max-batch: of the layout that holds it */
  char limit[48];
};

/* ---- one layout ---- */

enum verdict { FITS, NO_DEVICE_MEMORY, NO_HOST_MEMORY, RULE };

static enum verdict judge(const struct spp_job *job, const struct spp_layout *layout, double likely,
                          int *rule) {
  struct spp_geometry geometry;
  struct spp_memory memory;
  *rule = spp_rules_first(job, layout);
  if (*rule >= 0) return RULE;
  spp_geometry_resolve(job, layout, &geometry);
  spp_memory_predict(job, layout, &geometry, NULL, &memory);
  if (!memory.fits || memory.fit_probability < likely) return NO_DEVICE_MEMORY;
  return memory.host_fits ? FITS : NO_HOST_MEMORY;
}

static void say_limit(enum verdict verdict, int rule, char *limit, size_t size) {
  static const char *const words[] = {"none", "memory", "host-memory"};
  snprintf(limit, size, "%s", verdict == RULE ? spp_rule_id(rule) : words[verdict]);
}

/* A question with one unknown: put a value into job and layout. */
struct question {
  void (*set)(int64_t value, struct spp_job *job, struct spp_layout *layout);
  int64_t cap;
  double likely; /* how likely the answer must be to fit */
};

static void set_seq(int64_t value, struct spp_job *job, struct spp_layout *layout) {
  (void)layout;
  job->seq_tokens = value;
}

/* All sequences of the step in one pass: no gradient accumulation. */
static void set_batch(int64_t value, struct spp_job *job, struct spp_layout *layout) {
  job->global_batch = value;
  layout->micro_batch = value / layout->dp;
  layout->grad_accum = 1;
}

static enum verdict ask(const struct question *question, int64_t value, struct spp_job *job,
                        struct spp_layout *layout, int *rule) {
  question->set(value, job, layout);
  return judge(job, layout, question->likely, rule);
}

/* Raise *best if this layout reaches further, in steps of `unit`. */
static bool improve(const struct question *question, struct spp_job *job, struct spp_layout *layout,
                    int64_t unit, struct best *best) {
  int rule, stop_rule = -1;
  int64_t low = best->value / unit + 1, high; /* in units: low fits, high does not */
  if (low * unit > question->cap || ask(question, low * unit, job, layout, &rule) != FITS) return false;
  enum verdict stop = FITS;
  for (high = 2 * low; high * unit <= question->cap; high *= 2) {
    stop = ask(question, high * unit, job, layout, &stop_rule);
    if (stop != FITS) break;
    low = high;
  }
  high = spp_min64(high, question->cap / unit + 1);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    enum verdict verdict = ask(question, middle * unit, job, layout, &rule);
    if (verdict == FITS) {
      low = middle;
    } else {
      high = middle;
      stop = verdict;
      stop_rule = rule;
    }
  }
  question->set(low * unit, job, layout);
  best->value = low * unit;
  best->dp = layout->dp;
  best->micro_batch = layout->micro_batch;
  say_limit(stop, stop_rule, best->limit, sizeof best->limit);
  return true;
}

/* ---- longest sequence ---- */

/* Smallest step of the sequence length this layout takes: what the framework pads to, and what its rules ask.
 */
static int64_t seq_unit(struct spp_job *job, const struct spp_layout *layout) {
  int64_t sp = spp_layout_sp(layout), factors[] = {1, sp, 2 * sp, 2 * sp * layout->tp, 128 * sp * layout->tp};
  struct spp_geometry geometry;
  spp_geometry_resolve(job, layout, &geometry);
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
    int64_t unit = spp_lcm_sat(spp_max64(1, geometry.pad_tokens), factors[i]);
    job->seq_tokens = unit;
    if (unit < MAX_SEQ_TOKENS && spp_rules_first(job, layout) < 0) return unit;
  }
  return 0;
}

static void longest_of_cell(const struct spp_space *space, const struct spp_cell *cell, double likely,
                            struct best *best) {
  const struct question question = {set_seq, MAX_SEQ_TOKENS, likely};
  struct spp_walk walk;
  int seen = -1;
  spp_walk_begin(&walk, space, cell);
  while (spp_walk_next(&walk)) {
    if (walk.number == seen && walk.micro + 1 < walk.choices.micro_batch_count) continue;
    if (spp_walk_by_layers(&walk)) continue; /* full recompute reaches at least as far */
    struct spp_job job = *walk.job;
    int64_t unit = seq_unit(&job, &walk.layout);
    if (unit == 0) continue;
    seen = walk.number;
    improve(&question, &job, &walk.layout, unit, best);
  }
}

/* ---- largest batch ---- */

static void largest_of_cell(const struct spp_space *space, const struct spp_cell *cell, double likely,
                            struct best *best) {
  const struct question question = {set_batch, MAX_BATCH, likely};
  struct spp_walk walk;
  int seen = -1;
  spp_walk_begin(&walk, space, cell);
  while (spp_walk_next(&walk)) {
    if (walk.number == seen || spp_walk_by_layers(&walk)) continue;
    seen = walk.number;
    struct spp_job job = *walk.job;
    improve(&question, &job, &walk.layout, cell->dp, best);
  }
}

static enum spp_status find_largest(const struct spp_search_options *options, enum spp_find what,
                                    struct best *best, struct spp_diag *diag) {
  struct spp_hunt *hunt = malloc(sizeof *hunt);
  if (!hunt) return spp_diag_oom(diag);
  enum spp_status status = spp_hunt_open(options, hunt, diag);
  for (int64_t n = 0; status == SPP_OK && n < hunt->cell_count; n++) {
    const struct spp_space *space = &hunt->spaces[hunt->order[n].framework];
    const struct spp_cell *cell = &space->cells[hunt->order[n].cell];
    if (what == SPP_FIND_MAX_SEQ)
      longest_of_cell(space, cell, options->find_min_fit, best);
    else
      largest_of_cell(space, cell, options->find_min_fit, best);
  }
  if (status == SPP_OK) spp_hunt_close(hunt);
  free(hunt);
  return status;
}

/* ---- fewest GPUs ---- */

/* Does anything fit? Else *limit says what stopped most. */
static enum spp_status anything_fits(const struct spp_search_options *options, bool *fits, char *limit,
                                     size_t size, struct spp_diag *diag) {
  struct spp_hunt *hunt = malloc(sizeof *hunt);
  if (!hunt) return spp_diag_oom(diag);
  *fits = false;
  snprintf(limit, size, "degrees");
  enum spp_status status = spp_hunt_open(options, hunt, diag);
  bool memory_stops = false;
  for (int64_t n = 0; status == SPP_OK && n < hunt->cell_count && !*fits; n++) {
    int rule, seen = -1;
    struct spp_walk walk;
    const struct spp_space *space = &hunt->spaces[hunt->order[n].framework];
    spp_walk_begin(&walk, space, &space->cells[hunt->order[n].cell]);
    while (!*fits && spp_walk_next(&walk)) {
      if (walk.number == seen && walk.micro + 1 < walk.choices.micro_batch_count) continue;
      if (spp_walk_by_layers(&walk)) continue;
      enum verdict verdict = judge(walk.job, &walk.layout, options->find_min_fit, &rule);
      if (verdict != RULE) seen = walk.number;
      *fits = verdict == FITS;
      if (verdict == RULE ? !memory_stops : verdict != FITS) say_limit(verdict, rule, limit, size);
      memory_stops |= verdict == NO_DEVICE_MEMORY || verdict == NO_HOST_MEMORY;
    }
  }
  if (status == SPP_OK) spp_hunt_close(hunt);
  free(hunt);
  return status;
}

static enum spp_status fewest_gpus(const struct spp_search_options *options, struct spp_search_options *at,
                                   struct best *best, struct spp_diag *diag) {
  int64_t node = options->spec.cluster ? spp_max64(1, options->spec.cluster->gpus_per_node) : 8;
  snprintf(best->limit, sizeof best->limit, "none");
  for (int64_t gpus = 1; gpus <= MAX_GPUS; gpus = spp_allocation_next(gpus, node)) {
    bool fits = false;
    char limit[48] = "";
    at->spec.gpus = gpus;
    enum spp_status status = anything_fits(at, &fits, limit, sizeof limit, diag);
    if (status == SPP_ERR_INTERNAL) return status;
    if (status == SPP_OK && fits) {
      best->value = gpus;
      return SPP_OK;
    }
    if (status == SPP_OK) memcpy(best->limit, limit, sizeof limit);
  }
  at->spec.gpus = MAX_GPUS; /* the search at the largest count says how far off it is */
  return SPP_OK;
}

/* ---- entry ---- */

static enum spp_status refuse(const struct spp_search_options *options, enum spp_find what,
                              struct spp_diag *diag) {
  if (what == SPP_FIND_MAX_SEQ && options->spec.documents.count > 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--find max-seq", "drop --doc-lengths",
                        "document lengths fix the sequence");
  return SPP_OK;
}

enum spp_status spp_find(const struct spp_search_options *options, enum spp_find what,
                         struct spp_find_result *result, struct spp_diag *diag) {
  struct spp_search_options at = *options;
  struct spp_find_result found = {.what = what};
  struct best best = {.value = 0};
  enum spp_status status = refuse(options, what, diag);
  if (status != SPP_OK) return status;
  snprintf(best.limit, sizeof best.limit, "none");
  if (what == SPP_FIND_MIN_GPUS) {
    status = fewest_gpus(options, &at, &best, diag);
  } else if (what == SPP_FIND_MAX_SEQ) {
    if (at.spec.seq_tokens <= 0) at.spec.seq_tokens = 1024;
    status = find_largest(&at, what, &best, diag);
    at.spec.seq_tokens = best.value > 0 ? best.value : 1024;
  } else {
    at.fixed.micro_batch = SPP_UNSET;
    at.spec.global_batch = spp_max64(1, at.spec.gpus); /* any replica count is then a divisor */
    status = find_largest(&at, what, &best, diag);
    if (best.value > 0) {
      at.spec.global_batch = best.value;
      at.fixed.micro_batch = best.micro_batch;
      at.fixed.dp = best.dp;
    }
  }
  if (status != SPP_OK) return status;
  found.value = best.value;
  memcpy(found.limit, best.limit, sizeof found.limit);
  status = spp_search(&at, &found.search, diag);
  if (status == SPP_OK || status == SPP_ERR_NOFIT) *result = found;
  return status;
}
