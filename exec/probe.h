/* What this machine does, measured by the ranks of a run just before it, all at once so that ranks that share
 * a core share it here too: the constants of the time model for a case. */
#ifndef SPP_EXEC_PROBE_H
#define SPP_EXEC_PROBE_H

#include "exec/rank.h"
#include "model/calib.h"

struct spp_probe {
  double gemm_flops_per_s, gemm_t0_s;
  double attention_flops_per_s[2], attention_t0_s[2]; /* forward, backward */
  double memory_bytes_per_s;
  double hop_s, hop_bytes_per_s; /* a message to the next rank while each sends one */
};

/* Some milliseconds. Nothing is counted in the rank's tally or heap. */
enum spp_status spp_probe_run(struct spp_rank *rank, struct spp_probe *probe);

/* The GPU and the constants that stand for one rank. */
void spp_probe_describe(const struct spp_probe *probe, struct spp_gpu *gpu, struct spp_calib *calib);

#endif
