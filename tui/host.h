/* What the interface asks of the program around it: what the options are, and the answers. The command line
 * gives the real one, tests a made-up one. */
#ifndef SPP_TUI_HOST_H
#define SPP_TUI_HOST_H

#include <stdatomic.h>

#include "planner/advise.h"
#include "planner/compare.h"
#include "report/timeline.h"
#include "tui/words.h"

/* An answer. Immutable once published; everything in it lives until host->release. */
struct spp_tui_outcome {
  int64_t request;        /* the number of the question */
  enum spp_status status; /* OK or NOFIT: search is filled; else diag says what is wrong */
  struct spp_diag diag;
  struct spp_search_result search;
  bool has_compare;
  struct spp_compare_result compare;
  void *owner; /* the host's */
};

/* What is worked out for one plan when it is looked at. */
struct spp_plan_details {
  const struct spp_plan *plan; /* NULL: nothing yet */
  struct spp_ledger ledger;
  struct spp_advice warnings[SPP_MAX_ADVICE], next[SPP_MAX_ADVICE], why_not[SPP_MAX_ADVICE];
  int warning_count, next_count, why_not_count;
};

/* How far a validation on this machine is: real training steps, case by case. */
enum { SPP_TRIAL_CASES = 64 };
struct spp_trial_case {
  char name[48];
  bool ok;
  char text[128]; /* what was measured, or why it failed */
};
struct spp_tui_trial {
  int count, done, failed; /* cases in all, done, of these failed */
  bool finished, stopped;  /* nothing runs any more; because it was told to stop */
  char running[48];        /* the case under way */
  struct spp_trial_case cases[SPP_TRIAL_CASES];
  struct spp_diag diag; /* what ended it early */
};
typedef void spp_trial_tell(void *to, const struct spp_tui_trial *trial);

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
  /* One step as slices, to be freed with spp_timeline_free; count 0 where it cannot be drawn. A few
   * milliseconds at most. */
  void (*timeline)(void *self, const struct spp_plan *plan, struct spp_timeline *timeline);
  /* The outcome into a file, in the form that its suffix names. `plan`: the selected one, or NULL. */
  enum spp_status (*save)(void *self, const struct spp_tui_outcome *outcome, const struct spp_plan *plan,
                          const char *path, struct spp_diag *diag);
  /* Validates this machine in a thread of its own; tells how far it is after each case, and when it has
   * ended. Gives up between cases once *stop is true. */
  void (*trial)(void *self, spp_trial_tell *tell, void *to, atomic_bool *stop);
};

#endif
