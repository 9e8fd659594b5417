/* Constants of the time model, with their errors and sources: configs/calib/<name>.json. One set per GPU and kernel family,
 * never per run or model. */
#ifndef SPP_MODEL_CALIB_H
#define SPP_MODEL_CALIB_H

#include "base/arena.h"
#include "base/status.h"
#include "model/comm.h"

/* t = t0 + max(F / (e P fm fn fk), bytes / (b BW)), fm = m / (m + m_half) ...: form D of the kernel fits. */
struct spp_gemm_fit {
  double t0_s, efficiency, memory_efficiency, m_half, n_half, k_half;
};
/* t = t0 + F / (e P) + tile_s (S/1024)(D/128) + bytes / (b BW). */
struct spp_attention_fit {
  double t0_s, efficiency, tile_s, memory_efficiency;
  double backward_ratio; /* backward time / forward time at long length, on top of nothing: t_bwd = ratio * t_fwd */
};
/* t = a0 + a1 (n-1) + V/B (1 + sqrt(V0/V)), V = bytes x bus factor. */
struct spp_collective_fit {
  double a0_s, a1_s, bytes_per_s, half_bytes;
};
struct spp_calib {
  char name[48];
  bool measured; /* false: datasheet ratios of a sibling GPU */
  struct spp_gemm_fit gemm;
  double wgrad_ratio, dgrad_ratio;   /* GEMM time of the backward halves over forward */
  double grouped_gemm_ratio;         /* grouped (MoE) efficiency over dense */
  struct spp_attention_fit attention[SPP_ATTN_IMPL_COUNT][2]; /* head dim <= 64, > 64 */
  struct spp_collective_fit intra[SPP_COLLECTIVE_COUNT];
  struct spp_collective_fit inter[SPP_COLLECTIVE_COUNT]; /* per GPU share of the NICs applied by the caller */
  double memory_efficiency;          /* plain streaming kernels, share of datasheet bandwidth */
  double norm_efficiency, activation_efficiency, residual_efficiency, eager_efficiency;
  double launch_s;                   /* one kernel launch on the device side */
  double pcie_efficiency, host_memory_efficiency;
};
enum spp_status spp_calib_load(const char *config_dir, const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                               struct spp_arena *arena, const struct spp_calib **calib, struct spp_diag *diag);

#endif
