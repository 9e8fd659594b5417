/* Nonlinear functions between the products of an MLP. */
#ifndef SPP_BASE_ACTIVATION_H
#define SPP_BASE_ACTIVATION_H

enum spp_activation {
  SPP_SILU,      /* x / (1 + e^-x) (arXiv 1702.03118) */
  SPP_GELU,      /* x * Phi(x), the normal distribution (arXiv 1606.08415) */
  SPP_GELU_TANH, /* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), ibid. */
  SPP_RELU,      /* max(x, 0) */
  SPP_RELU2,     /* max(x, 0)^2 (arXiv 2109.08668) */
  /* x / (1 + e^-1.702x) of x at most 7, and where a second input multiplies it, of that between -7 and 7 and
   * plus 1 (huggingface/transformers modeling_gpt_oss.py GptOssExperts) */
  SPP_SILU_CLAMPED,
  SPP_ACTIVATION_COUNT
};

#define SPP_CLAMP_LIMIT 7.0
#define SPP_CLAMP_SLOPE 1.702

#endif
