/* Constants of the time model, with their errors and sources: configs/calib/<name>.json. One set per GPU and
 * kernel family, never per run or model. Rates are shares of the datasheet figures of the GPU (efficiencies),
 * so that a GPU without measurements of its own borrows the shares of its generation. */
#ifndef SPP_MODEL_CALIB_H
#define SPP_MODEL_CALIB_H

#include "base/arena.h"
#include "base/status.h"
#include "model/comm.h"

/* t = t0 + max(2 (m + m_half)(n + n_half)(k + k_half) / (e P), bytes / (b BW)): a roofline whose compute side
 * saturates in each dimension (m / (m + m_half) ...). */
struct spp_gemm_fit {
  double t0_s, efficiency, memory_efficiency, m_half, n_half, k_half;
};
/* t = t0 + F / (e P) + tile_s (S/1024)(D/128) + bytes / (b BW); F and bytes as the kernel counts them:
 * backward F = 2.5 x forward, bytes those of the forward. */
struct spp_attention_pass {
  double t0_s, efficiency, tile_s, memory_efficiency;
};
struct spp_attention_fit {
  struct spp_attention_pass forward, backward;
};
/* t = a0 + a1 (n-1) + V/B (1 + sqrt(V0/V)), V = bytes one GPU sends, B = share x the rate of its link. */
struct spp_collective_fit {
  double a0_s, a1_s, link_share, half_bytes;
};
enum spp_memory_kernel {
  SPP_MEMORY_STREAM,     /* copies, optimizer, cross entropy operator by operator */
  SPP_MEMORY_NORM,       /* fused RMSNorm, LayerNorm */
  SPP_MEMORY_ACTIVATION, /* fused SwiGLU, rope */
  SPP_MEMORY_EAGER,      /* one elementwise kernel after another */
  SPP_MEMORY_PERMUTE,    /* MoE token permutation */
  SPP_MEMORY_ROW_LOSS,   /* fused cross entropy: one Triton program a row of logits (TE, Liger) */
  /* told apart on processors, where arithmetic sets the pace; a file that lacks one gives the kind it is of
   */
  SPP_MEMORY_OPTIMIZER, /* stream: the optimizer's step */
  SPP_MEMORY_ROPE,      /* activation: rotary embedding */
  SPP_MEMORY_MERGE,     /* eager: results of ring steps put together */
  SPP_MEMORY_KERNEL_COUNT
};
/* Its name in configs/calib: "row_loss". */
const char *spp_memory_kernel_name(enum spp_memory_kernel kind);
/* How much wider an interval is where no measurement stands behind a prediction: configs/calib/fabric.json,
 * `spread`. All are 1-sigma relative errors, added in squares. */
struct spp_spread {
  int64_t least_runs; /* of a framework, from which on its residuals say how wide its intervals are */
  double memory;      /* of a framework with fewer */
  double memory_open, time_open; /* with fewer, and settings that the description leaves open */
  double waits;                  /* of the time in which the GPU waits: spp_time.waits_share */
};

struct spp_calib {
  char name[48];
  bool measured; /* false: the shares of a sibling GPU on this GPU's datasheet */
  double sigma;  /* 1-sigma relative error of the rates that all kernels of a run share */
  struct spp_spread spread;
  struct spp_gemm_fit gemm;     /* 16 bit, shares of that peak */
  struct spp_gemm_fit gemm_fp8; /* of the 8-bit peak */
  double fp4_ratio;             /* share of the 4-bit peak reached over the share of the 8-bit one */
  double clock_share; /* clock this card sustains over that of the card measured: cube root of their power
                         limits */
  double sustained; /* rate under a training load over the rate of a short benchmark (power, clocks, data) */
  double wgrad_ratio, dgrad_ratio; /* GEMM time of the backward halves over a forward of the same shape */
  double grouped_gemm_ratio;       /* grouped (MoE) rate over dense */
  double grouped_wgrad_ratio, grouped_dgrad_ratio; /* times of grouped backward halves over dense ones */
  struct spp_attention_fit attention[SPP_ATTN_IMPL_COUNT][2]; /* head dim <= 64, > 64 */
  struct spp_collective_fit link[SPP_COLLECTIVE_COUNT]; /* NVLink, xGMI: shares of gpu->link_bytes_per_s */
  struct spp_collective_fit reduce_in_switch;           /* NVLS all-reduce; link_share 0 = none */
  struct spp_collective_fit pcie[SPP_COLLECTIVE_COUNT]; /* no fast link: shares of gpu->pcie_bytes_per_s */
  struct spp_collective_fit
      network[SPP_COLLECTIVE_COUNT];            /* a1: one hop between nodes; shares of the NIC's rate */
  double memory_share[SPP_MEMORY_KERNEL_COUNT]; /* of the datasheet bandwidth */
  double launch_s;                              /* gap one more kernel costs on the device */
  double pcie_share;                            /* host copies, of gpu->pcie_bytes_per_s */
  double host_memory_share;                     /* CPU Adam, of cluster->host_memory_bytes_per_s */
};
/* Reads <config_dir>/calib/fabric.json and the GPU's file (gpu->calib, or that of its generation when empty);
 * of a cluster that is a measured profile, the constants in that file alone. Lives in `arena`. Errors:
 * SPP_ERR_INPUT naming file and JSON path. */
enum spp_status spp_calib_load(const char *config_dir, const struct spp_gpu *gpu,
                               const struct spp_cluster *cluster, struct spp_arena *arena,
                               const struct spp_calib **calib, struct spp_diag *diag);

#endif
