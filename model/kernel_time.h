/* Time of one kernel on one GPU. Pure arithmetic without division, powers or roots: rates are inverted once
 * per prediction. Forms and constants: docs/time.md; fitted on the tables of ai-dynamo/aiconfigurator,
 * microsoft/vidur, Dao-AILab/flash-attention. */
#ifndef SPP_MODEL_KERNEL_TIME_H
#define SPP_MODEL_KERNEL_TIME_H

#include "model/calib.h"

struct spp_attention_rate {
  double t0_s, s_per_flop, s_per_span, s_per_byte; /* span: longest row of keys x head dim, elements */
};
/* Matrix products in one format. */
struct spp_gemm_rate {
  double t0_s, s_per_flop, s_per_byte, m_half, n_half, k_half;
  double operand_bytes, result_bytes; /* of one element */
};
struct spp_kernel_rates {
  struct spp_gemm_rate gemm;
  struct spp_gemm_rate wide; /* products that stay in 16 bit whatever the job's dtype, or in fp32 */
  double fp4_ratio, dgrad_ratio, wgrad_ratio, grouped_ratio, grouped_dgrad_ratio, grouped_wgrad_ratio;
  struct spp_attention_rate forward, backward; /* the job's attention kernel and head width */
  double memory_s_per_byte[SPP_MEMORY_KERNEL_COUNT];
  double launch_s;
  double pcie_s_per_byte, host_s_per_byte;
  double stolen_share; /* of the SMs: what communication takes from the compute beside it (model/timing.c) */
};

/* Peak FLOP/s of matrix products in the job's dtype: fp8 falls back to bf16, bf16 to fp16, fp16 to fp32 where
 * absent. */
double spp_peak_flops(const struct spp_gpu *gpu, enum spp_dtype dtype);
void spp_kernel_rates_resolve(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                              const struct spp_calib *calib, enum spp_dtype dtype,
                              enum spp_attention_impl attention, int64_t head_dim,
                              struct spp_kernel_rates *rates);

/* NVFP4 in `share` of the layers, 16 bit in the others: the mean rate of the layers' products. */
void spp_kernel_rates_narrow(const struct spp_gpu *gpu, double share, struct spp_kernel_rates *rates);

/* [m, k] x [k, n], times `groups` of them in one launch (1 = dense). */
double spp_gemm_s(const struct spp_kernel_rates *rates, double m, double n, double k);
/* One product in 16 bit. */
double spp_wide_gemm_s(const struct spp_kernel_rates *rates, double m, double n, double k);
double spp_grouped_gemm_s(const struct spp_kernel_rates *rates, double groups, double m, double n, double k);

/* One call of a fused attention kernel. flops: useful ones (causal half counted as half); span_tokens: the
 * longest row of keys one query tile walks; bytes: q, k, v read and output written. */
double spp_attention_s(const struct spp_attention_rate *rate, double flops, double span_tokens,
                       double head_dim, double bytes);

static inline double spp_memory_s(const struct spp_kernel_rates *rates, enum spp_memory_kernel kind,
                                  double bytes) {
  return bytes * rates->memory_s_per_byte[kind];
}

#endif
