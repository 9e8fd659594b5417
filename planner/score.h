/* Predicted against measured: the score that the model's claims rest on. */
#ifndef SPP_PLANNER_SCORE_H
#define SPP_PLANNER_SCORE_H

#include "model/predict.h"
#include "planner/corpus.h"

struct spp_run_score {
  const struct spp_run *run;
  const char *skip; /* why not scored, NULL when it was */
  struct spp_layout layout;
  double predicted_memory_bytes, memory_error; /* error: predicted / measured - 1; NAN when not measured */
  double measured_memory_bytes;         /* as printed, or from the tokens of a KV cache; 0 = not measured */
  double memory_error_beyond_tolerance; /* what the record's unit and rounding slack leaves of the error */
  double predicted_step_s, time_error;
  double measured_step_s;
  double low_s, high_s, low_bytes, high_bytes; /* 80 % interval, as the measured figure is counted */
  bool memory_in_interval, time_in_interval;
  bool predicted_fits, fit_scored, fit_right;
  double fit_probability;                       /* of the GPU's memory */
  double memory_sigma, time_sigma, waits_share; /* what the intervals are made of: of the job, of the step */
  int64_t predicted_max_seq;                    /* 0 when not asked */
};

/* n: runs with a measured figure; scored: of these, predicted. */
struct spp_error_stats {
  int n, scored;
  double median_abs, mean_abs, p90_abs, bias, coverage;
  double median_beyond, p90_beyond; /* absolute errors beyond the records' tolerance (memory) */
};
struct spp_fit_stats {
  int n, scored, correct, false_fit, false_oom;
};
struct spp_max_seq_stats {
  int n, scored, within_2x, not_below_stated;
};
struct spp_score {
  struct spp_error_stats memory, time;
  struct spp_fit_stats fit;
  struct spp_max_seq_stats max_seq;
  int runs, skipped;
};
struct spp_group_score {
  const char *group;
  struct spp_score score;
};
struct spp_scoreboard {
  struct spp_run_score *runs; /* in corpus order, those selected */
  int count;
  struct spp_score all;
  struct spp_group_score *groups; /* in order of first appearance */
  int group_count;
  struct spp_error_stats memory_by_group, time_by_group; /* averaged inside groups first, then over groups */
};
/* Score the runs of a corpus: all, or the core ones, or one group (NULL = all). Lives in `arena`. */
enum spp_status spp_score_corpus(const struct spp_corpus *corpus, bool core_only, const char *group,
                                 struct spp_arena *arena, struct spp_scoreboard *board,
                                 struct spp_diag *diag);

#endif
