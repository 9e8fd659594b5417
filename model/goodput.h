/* What failures cost: checkpoints written, work done again, restarts waited for.
 *
 * J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
 * Generation Computer Systems 22 (2006) 303-312: failures of a job come at random at a constant rate, during
 * checkpoints and restarts too. The whole job stops for each. */
#ifndef SPP_MODEL_GOODPUT_H
#define SPP_MODEL_GOODPUT_H

#include "model/predict.h"

struct spp_failures {
  double gpu_mtbf_s;             /* mean time between failures that stop the job, of one GPU with all that
                                    belongs to it: its share of node, network and software */
  double checkpoint_bytes_per_s; /* to storage, of one node */
  double restart_s;              /* to notice, replace and start again, before the checkpoint is read */
};
/* One node's share of 2 TB/s sustained over the 2,048 nodes of 16,384 GPUs (Llama 3, arXiv 2407.21783,
 * section 3.3.1: storage of 7,500 servers). */
#define SPP_CHECKPOINT_BYTES_PER_S 1e9
/* Assumption. The same paper's section 3.3.4: 466 interruptions in 54 days and more than 90 % of the time
 * effective, so less than 17 minutes lost to each, lost work included. */
#define SPP_RESTART_S 600.0

struct spp_goodput {
  double job_mtbf_s;        /* of the whole job */
  int64_t checkpoint_bytes; /* weights, master weights and optimizer states of what is trained, once */
  double checkpoint_s;      /* every node writes its part; training waits */
  double restart_s;         /* with the reading of a checkpoint at the rate of writing */
  double interval_s;        /* of training between checkpoints, whole steps, that loses least */
  int64_t interval_steps;
  double share;        /* of the time that trains: failure-free time over expected time */
  double tokens_per_s; /* of the job, failures counted */
};

/* Bytes of one checkpoint of the job under the states that the layout's ZeRO stage keeps. Not written: frozen
 * weights, gradients. */
int64_t spp_checkpoint_bytes(const struct spp_job *job, const struct spp_layout *layout);

/* Daly's interval: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d for a checkpoint of d seconds and a
 * mean time between failures of M > d / 2, else M. */
double spp_checkpoint_interval_s(double checkpoint_s, double mtbf_s);

/* Share of the time that trains: t / (M exp(R/M) (exp((t + d)/M) - 1)) with t seconds between checkpoints and
 * R to restart (Daly's complete model). */
double spp_goodput_share(double interval_s, double checkpoint_s, double restart_s, double mtbf_s);

/* False, and *goodput untouched, when nothing is trained or the time of a step is unknown. */
bool spp_goodput_predict(const struct spp_failures *failures, const struct spp_job *job,
                         const struct spp_layout *layout, const struct spp_time *time,
                         struct spp_goodput *goodput);

#endif
