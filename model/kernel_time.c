#include "model/kernel_time.h"

#include <string.h>

double spp_peak_flops(const struct spp_gpu *gpu, enum spp_dtype dtype) {
  static const enum spp_dtype narrow[] = {SPP_DTYPE_FP8, SPP_DTYPE_BF16, SPP_DTYPE_FP16, SPP_DTYPE_FP32};
  if (dtype == SPP_DTYPE_FP32 || dtype == SPP_DTYPE_TF32) {
    double tf32 = gpu->flops_per_s[SPP_DTYPE_TF32];
    return dtype == SPP_DTYPE_TF32 && tf32 > 0 ? tf32 : gpu->flops_per_s[SPP_DTYPE_FP32];
  }
  for (size_t i = dtype == SPP_DTYPE_FP8 ? 0 : 1; i < sizeof narrow / sizeof narrow[0]; i++)
    if (gpu->flops_per_s[narrow[i]] > 0) return gpu->flops_per_s[narrow[i]];
  return 0;
}

static double inverse(double rate) {
  return rate > 0 ? 1 / rate : 0;
}

static struct spp_attention_rate attention_rate(const struct spp_attention_pass *fit, double peak,
                                                double bytes_per_s) {
  struct spp_attention_rate rate;
  rate.t0_s = fit->t0_s;
  rate.s_per_flop = inverse(fit->efficiency * peak);
  rate.s_per_span = fit->tile_s / (1024.0 * 128.0);
  rate.s_per_byte = inverse(fit->memory_efficiency * bytes_per_s);
  return rate;
}

/* A kernel without tensor cores: its products run at the share of the fp32 peak that matrix products reach,
 * and what is not products takes what it takes in 16 bit, where the fit says how much that is. Eager
 * attention multiplies whole S x S matrices for causal FLOPs. */
static double fp32_s_per_flop(double s_per_flop, const struct spp_calib *calib, double wide_peak,
                              double narrow_peak, double causal_share) {
  double share = calib->gemm.efficiency * calib->sustained * causal_share;
  double rest_s = s_per_flop - inverse(share * narrow_peak);
  return inverse(share * wide_peak) + (rest_s > 0 ? rest_s : 0);
}

static void without_tensor_cores(const struct spp_gpu *gpu, const struct spp_calib *calib, bool eager,
                                 struct spp_kernel_rates *rates) {
  double wide = spp_peak_flops(gpu, SPP_DTYPE_FP32) * calib->clock_share;
  double narrow = spp_peak_flops(gpu, SPP_DTYPE_BF16) * calib->clock_share, share = eager ? 0.5 : 1;
  rates->forward.s_per_flop = fp32_s_per_flop(rates->forward.s_per_flop, calib, wide, narrow, share);
  rates->backward.s_per_flop = fp32_s_per_flop(rates->backward.s_per_flop, calib, wide, narrow, share);
}

static struct spp_gemm_rate gemm_rate(const struct spp_gemm_fit *fit, const struct spp_calib *calib,
                                      double peak, double bytes_per_s, double operand_bytes) {
  return (struct spp_gemm_rate){.t0_s = fit->t0_s,
                                .s_per_flop =
                                    inverse(fit->efficiency * calib->sustained * calib->clock_share * peak),
                                .s_per_byte = inverse(fit->memory_efficiency * bytes_per_s),
                                .m_half = fit->m_half,
                                .n_half = fit->n_half,
                                .k_half = fit->k_half,
                                .operand_bytes = operand_bytes,
                                .result_bytes = operand_bytes};
}

static struct spp_gemm_rate wide_rate(const struct spp_gpu *gpu, const struct spp_calib *calib,
                                      enum spp_dtype dtype) {
  double bytes = dtype == SPP_DTYPE_FP32 || dtype == SPP_DTYPE_TF32 ? 4 : 2;
  return gemm_rate(&calib->gemm, calib, spp_peak_flops(gpu, dtype), gpu->memory_bytes_per_s, bytes);
}

/* 8-bit operands, a 16-bit result. */
static struct spp_gemm_rate fp8_rate(const struct spp_gpu *gpu, const struct spp_calib *calib) {
  struct spp_gemm_rate rate =
      gemm_rate(&calib->gemm_fp8, calib, gpu->flops_per_s[SPP_DTYPE_FP8], gpu->memory_bytes_per_s, 1);
  rate.result_bytes = 2;
  return rate;
}

void spp_kernel_rates_resolve(const struct spp_gpu *gpu, const struct spp_cluster *cluster,
                              const struct spp_calib *calib, enum spp_dtype dtype,
                              enum spp_attention_impl attention, int64_t head_dim,
                              struct spp_kernel_rates *rates) {
  double bandwidth = gpu->memory_bytes_per_s;
  /* Attention kernels compute in 16 bit under fp8 too; an fp32 job has no tensor cores to use. */
  bool fp32 = dtype == SPP_DTYPE_FP32;
  double attention_peak = spp_peak_flops(gpu, dtype == SPP_DTYPE_FP8 || fp32 ? SPP_DTYPE_BF16 : dtype);
  const struct spp_attention_fit *fit = &calib->attention[attention][head_dim > 64];
  rates->wide = wide_rate(gpu, calib, dtype == SPP_DTYPE_FP8 ? SPP_DTYPE_BF16 : dtype);
  rates->gemm =
      dtype == SPP_DTYPE_FP8 && gpu->flops_per_s[SPP_DTYPE_FP8] > 0 ? fp8_rate(gpu, calib) : rates->wide;
  rates->fp4_ratio = calib->fp4_ratio;
  rates->dgrad_ratio = calib->dgrad_ratio;
  rates->wgrad_ratio = calib->wgrad_ratio;
  rates->grouped_ratio = calib->grouped_gemm_ratio;
  rates->grouped_dgrad_ratio = calib->dgrad_ratio * calib->grouped_dgrad_ratio;
  rates->grouped_wgrad_ratio = calib->wgrad_ratio * calib->grouped_wgrad_ratio;
  rates->forward = attention_rate(&fit->forward, attention_peak * calib->clock_share, bandwidth);
  rates->backward = attention_rate(&fit->backward, attention_peak * calib->clock_share, bandwidth);
  if (fp32) without_tensor_cores(gpu, calib, attention == SPP_ATTN_EAGER, rates);
  for (int i = 0; i < SPP_MEMORY_KERNEL_COUNT; i++)
    rates->memory_s_per_byte[i] = inverse(calib->memory_share[i] * bandwidth);
  rates->launch_s = calib->launch_s;
  rates->pcie_s_per_byte = inverse(calib->pcie_share * gpu->pcie_bytes_per_s);
  rates->host_s_per_byte = inverse(calib->host_memory_share * cluster->host_memory_bytes_per_s);
}

void spp_kernel_rates_narrow(const struct spp_gpu *gpu, double share, struct spp_kernel_rates *rates) {
  double fp8 = gpu->flops_per_s[SPP_DTYPE_FP8], fp4 = gpu->flops_per_s[SPP_DTYPE_NVFP4];
  if (fp8 <= 0 || fp4 <= 0) return; /* timed as FP8 */
  rates->gemm.s_per_flop =
      share * rates->gemm.s_per_flop * fp8 / (fp4 * rates->fp4_ratio) + (1 - share) * rates->wide.s_per_flop;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

static double compute_s(const struct spp_gemm_rate *r, double m, double n, double k) {
  return 2 * (m + r->m_half) * (n + r->n_half) * (k + r->k_half) * r->s_per_flop;
}

static double traffic_s(const struct spp_gemm_rate *r, double m, double n, double k) {
  return (r->operand_bytes * (m * k + k * n) + r->result_bytes * m * n) * r->s_per_byte;
}

static double product_s(const struct spp_gemm_rate *r, double m, double n, double k) {
  return r->t0_s + larger(compute_s(r, m, n, k), traffic_s(r, m, n, k));
}

double spp_gemm_s(const struct spp_kernel_rates *r, double m, double n, double k) {
  return product_s(&r->gemm, m, n, k);
}

double spp_wide_gemm_s(const struct spp_kernel_rates *r, double m, double n, double k) {
  return product_s(&r->wide, m, n, k);
}

double spp_grouped_gemm_s(const struct spp_kernel_rates *r, double groups, double m, double n, double k) {
  if (groups <= 1) return spp_gemm_s(r, m, n, k);
  return r->gemm.t0_s +
         groups * larger(compute_s(&r->gemm, m, n, k) / r->grouped_ratio, traffic_s(&r->gemm, m, n, k));
}

double spp_attention_s(const struct spp_attention_rate *r, double flops, double span_tokens, double head_dim,
                       double bytes) {
  return r->t0_s + flops * r->s_per_flop + span_tokens * head_dim * r->s_per_span + bytes * r->s_per_byte;
}
