/* What the interface asks of the program around it: what the options are, and the answers. The command line
 * gives the real one, tests a made-up one. */
#ifndef SPP_TUI_HOST_H
#define SPP_TUI_HOST_H

#include <stdatomic.h>

#include "planner/advise.h"
#include "planner/compare.h"
#include "tui/words.h"

/* Speed of one strategy of the comparison, its layout held, at other sequence lengths. */
enum { SPP_CURVE_POINTS = 10, SPP_CURVES_MAX = 16 };
struct spp_curve {
  int row;                                       /* of the comparison */
  double tokens_per_s_per_gpu[SPP_CURVE_POINTS]; /* 0 = it does not fit, or is not legal there */
};

/* An answer. Immutable once published; everything in it lives until host->release. */
struct spp_tui_outcome {
  int64_t request;        /* the number of the question */
  enum spp_status status; /* OK or NOFIT: search is filled; else diag says what is wrong */
  struct spp_diag diag;
  struct spp_search_result search;
  bool has_compare;
  struct spp_compare_result compare;
  int64_t curve_seq_tokens[SPP_CURVE_POINTS];
  struct spp_curve curves[SPP_CURVES_MAX];
  int curve_count;
  void *owner; /* the host's */
};

/* What is worked out for one plan when it is looked at. */
struct spp_plan_details {
  const struct spp_plan *plan; /* NULL: nothing yet */
  struct spp_ledger ledger;
  struct spp_advice warnings[SPP_MAX_ADVICE], next[SPP_MAX_ADVICE], why_not[SPP_MAX_ADVICE];
  int warning_count, next_count, why_not_count;
};

struct spp_tui_host {
  void *self;
  /* Would this text do for the option? SPP_ERR_USAGE or SPP_ERR_INPUT with the reason. A flag takes "". */
  enum spp_status (*check)(void *self, const char *option, const char *text, struct spp_diag *diag);
  /* Option i of the command line, NULL after the last; then its values where they are words. */
  const char *(*option)(void *self, int i);
  const char *(*choice)(void *self, const char *option, int i);
  /* The answer to a question, in a worker thread; never NULL but out of memory. Gives up early when *stop
   * becomes true. `compare`: the strategies side by side too. */
  struct spp_tui_outcome *(*plan)(void *self, const struct spp_words *words, bool compare, atomic_bool *stop);
  void (*release)(void *self, struct spp_tui_outcome *outcome);
  /* In the drawing thread: microseconds to a few milliseconds. */
  void (*details)(void *self, const struct spp_plan *plan, struct spp_plan_details *details);
  /* The outcome as JSON into a file. */
  enum spp_status (*save)(void *self, const struct spp_words *words, const struct spp_tui_outcome *outcome,
                          const char *path, struct spp_diag *diag);
};

#endif
