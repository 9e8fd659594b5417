#include "base/num.h"
#include "model/activations.h"

#define KEPT(text, reason)                                                                                   \
  { text, SPP_PART_ACTIVATIONS, reason }
static const struct spp_tensor query = KEPT("q after RoPE", "attention backward");
static const struct spp_tensor key = KEPT("k after RoPE", "attention backward");
static const struct spp_tensor value = KEPT("v", "attention backward");
static const struct spp_tensor out = KEPT("attention output", "attention backward and o_proj");
static const struct spp_tensor lse = KEPT("attention log-sum-exp", "attention backward");
static const struct spp_tensor out_sharded =
    KEPT("o_proj input", "sequence-sharded copy made by the all-to-all");
static const struct spp_tensor out_low = KEPT("o_proj input in few bits", "gradient of o_proj");
static const struct spp_tensor out_cut = KEPT("o_proj input", "copy without the padding of v");
static const struct spp_tensor out_copied = KEPT("o_proj input", "copy into the order of tokens");
static const struct spp_tensor masks =
    KEPT("ring half-index masks", "two bool masks of the packed sequences");
static const struct spp_tensor probs32 = KEPT("attention probabilities, fp32", "softmax backward");
static const struct spp_tensor probs = KEPT("attention probabilities", "product with v");
static const struct spp_tensor capped = KEPT("attention scores, soft-capped", "tanh backward");
static const struct spp_tensor mask16 =
    KEPT("attention mask", "made 16-bit in every layer, attention backward");
static const struct spp_tensor qk_input = KEPT("q/k norm: input", "norm backward");
static const struct spp_tensor qk_scaled = KEPT("q/k norm: normalised", "gradient of the norm weight");
static const struct spp_tensor qk_stats = KEPT("q/k norm: statistics", "norm backward");
static const struct spp_tensor q_latent_input = KEPT("q latent norm: input", "norm backward");
static const struct spp_tensor q_latent_scaled =
    KEPT("q latent norm: normalised", "gradient of the norm weight");
static const struct spp_tensor q_latent_stats = KEPT("q latent norm: statistics", "norm backward");
static const struct spp_tensor q_latent = KEPT("q latent", "input of q_b");
static const struct spp_tensor kv_latent_input = KEPT("kv latent norm: input", "norm backward");
static const struct spp_tensor kv_latent_scaled =
    KEPT("kv latent norm: normalised", "gradient of the norm weight");
static const struct spp_tensor kv_latent_stats = KEPT("kv latent norm: statistics", "norm backward");
static const struct spp_tensor kv_latent = KEPT("kv latent", "input of kv_b");

static const struct spp_norm_tensors qk_norm = {&qk_input, &qk_scaled, &qk_stats};
static const struct spp_norm_tensors q_latent_norm = {&q_latent_input, &q_latent_scaled, &q_latent_stats};
static const struct spp_norm_tensors kv_latent_norm = {&kv_latent_input, &kv_latent_scaled, &kv_latent_stats};

static void keep(const struct spp_layer_view *v, const struct spp_tensor *tensor, unsigned modules,
                 int64_t width) {
  spp_kept_append(v, tensor, SPP_BLOCK_ATTENTION, modules, v->act, v->g->tokens, width);
}

static bool keeps_o_input(const struct spp_layer_view *v) {
  return spp_keeps_input(v->job, v->layout, SPP_LORA_O);
}

/* The all-to-all changes storage: flash attention keeps the head-sharded output, o_proj the sequence-sharded
 * one (ms-swift ulysses.py; TransformerEngine AttnFuncWithCPAndQKVOA2A saves the output before its a2a). What
 * o_proj alone keeps goes when its backward has run, with the norm behind it and before attention's. */
static void keep_output(const struct spp_layer_view *v, int64_t width) {
  bool exchanged = v->g->su > 1, low = v->gemm_in != v->act;
  struct spp_layer_view codes = *v;
  keep(v, &out, exchanged ? SPP_RC_CORE_ATTN : 0, width);
  codes.in = SPP_KEPT_IN_FP4;
  if (v->job->fp4)
    spp_kept_append(&codes, &out_low, SPP_BLOCK_NORM2, 0, SPP_DTYPE_INT8, v->g->tokens,
                    spp_ceil_div(9 * v->g->o_width, 16));
  else if (low)
    spp_kept_append(v, &out_low, SPP_BLOCK_NORM2, spp_remade_input(v), v->gemm_in, v->g->tokens,
                    v->g->o_width);
  else if (exchanged && keeps_o_input(v))
    spp_kept_append(v, &out_sharded, SPP_BLOCK_NORM2, 0, v->act, v->g->tokens, v->g->o_width);
}

bool spp_kept_is_of_output(const struct spp_kept *kept) {
  return kept->tensor == &out_low || kept->tensor == &out_sharded;
}

static void keep_lse(const struct spp_layer_view *v) {
  spp_kept_append(v, &lse, SPP_BLOCK_ATTENTION, SPP_RC_CORE_ATTN, SPP_DTYPE_FP32, v->g->tokens,
                  v->g->heads_local);
}

/* What the model code of transformers keeps beyond plain operators; Megatron's does not, and an all-to-all
 * makes its own copies. */
static bool family_keeps(const struct spp_layer_view *v, unsigned flag) {
  return (v->job->arch->keeps & flag) && v->g->su == 1 &&
         v->job->framework->sharding != SPP_SHARDING_MEGATRON && !v->job->framework->own_layers;
}

/* transformers eager_attention_forward: softmax in fp32, cast to 16 bit for the product with v; Megatron's
 * fused softmax keeps the 16-bit matrix only. K and V are repeated to all query heads first. */
static void keep_score_matrices(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  int64_t heads = spp_ceil_div(g->heads_local, g->su);
  int64_t rows = spp_sat_mul(spp_sat_mul(g->sequences, heads), g->padded_tokens);
  bool casts = v->act != SPP_DTYPE_FP32 && !(v->job->arch->keeps & SPP_KEEPS_SOFTMAX_16);
  if (v->job->kernels == SPP_KERNELS_EAGER && casts)
    spp_kept_append(v, &probs32, SPP_BLOCK_ATTENTION, SPP_RC_CORE_ATTN, SPP_DTYPE_FP32, rows,
                    g->padded_tokens);
  spp_kept_append(v, &probs, SPP_BLOCK_ATTENTION, SPP_RC_CORE_ATTN, v->act, rows, g->padded_tokens);
  if (v->job->arch->attention_softcap > 0) /* modeling_gemma2.py: tanh keeps its result */
    spp_kept_append(v, &capped, SPP_BLOCK_ATTENTION, SPP_RC_CORE_ATTN, v->act, rows, g->padded_tokens);
}

/* torch sdpa runs without a mask only when attention is plainly causal: a window shorter than the sequence
 * (transformers masking_utils.py _ignore_causal_mask_sdpa), and Falcon always, bring one. */
static bool masked(const struct spp_layer_view *v) {
  int64_t window = v->kind->window_tokens;
  if (v->job->attention != SPP_ATTN_SDPA) return false;
  return (window > 0 && v->g->padded_tokens >= window) || family_keeps(v, SPP_KEEPS_MASK);
}

/* With a mask, transformers repeats K and V to all query heads (integrations/sdpa_attention.py
 * use_gqa_in_sdpa), and torch makes the bool mask a bias of 16 bit in every layer. */
static bool spreads_kv(const struct spp_layer_view *v) {
  bool window = masked(v) && !family_keeps(v, SPP_KEEPS_MASK);
  return window || (family_keeps(v, SPP_KEEPS_KV_SPREAD) && v->g->kv_heads_local > 1);
}

static void keep_mask(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  if (masked(v))
    spp_kept_append(v, &mask16, SPP_BLOCK_ATTENTION, SPP_RC_CORE_ATTN, v->act,
                    spp_sat_mul(g->sequences, g->padded_tokens), g->padded_tokens);
}

/* v as a view keeps the storage it looks at: the joined q, k, v product, or kv_b's output with the keys'
 * part. */
static int64_t value_width(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  const struct spp_arch *a = v->job->arch;
  bool mla = a->attention == SPP_ATTENTION_MLA;
  bool copies = v->job->framework->sharding == SPP_SHARDING_MEGATRON || v->job->framework->own_layers;
  if (mla && g->su == 1 && !copies) return g->heads_local * (a->qk_nope_dim + a->v_head_dim);
  if (family_keeps(v, SPP_KEEPS_QKV_WHOLE) || (v->job->framework->joined_qkv && g->su == 1))
    return g->q_width + g->k_width + g->v_width;
  return g->v_width * g->kv_repeat;
}

static void keep_eager(const struct spp_layer_view *v, int64_t o_width) {
  bool repeats = v->g->kv_heads_local < v->g->heads_local;
  keep(v, &query, 0, v->g->q_width);
  keep(v, &key, 0, repeats ? v->g->q_width : v->g->k_width);
  bool copied = repeats || (v->g->sequences > 1 && v->job->arch->attention == SPP_ATTENTION_MLA);
  keep(v, &value, 0, copied ? v->g->o_width : value_width(v));
  keep_score_matrices(v);
  if (v->gemm_in != v->act || keeps_o_input(v))
    spp_kept_append(v, &out, SPP_BLOCK_ATTENTION, 0, v->gemm_in, v->g->tokens, o_width);
}

/* Heads normalised one by one (Qwen3; Cohere and StableLM, each by weights of its own) or the whole
 * projection at once (OLMo 2). */
static void keep_qk_norm(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  const struct spp_geometry *g = v->g;
  if (a->qk_norm == SPP_QK_NORM_NONE) return;
  bool per_head = a->qk_norm == SPP_QK_NORM_HEAD || a->norm != SPP_NORM_RMS;
  spp_kept_norm(v, &qk_norm, SPP_BLOCK_ATTENTION, 0, g->tokens, g->q_width, per_head ? g->heads_local : 1);
  spp_kept_norm(v, &qk_norm, SPP_BLOCK_ATTENTION, 0, g->tokens, g->k_width, per_head ? g->kv_heads_local : 1);
}

/* Copies of K and V that Ulysses makes for ranks beyond the KV heads: inside the recomputed attention they
 * are made again. */
static int64_t exchanged_copies(const struct spp_layer_view *v) {
  bool again =
      v->layout->recompute == SPP_RECOMPUTE_SELECTIVE && (v->layout->recompute_modules & SPP_RC_CORE_ATTN);
  return again ? v->g->kv_repeat - 1 : 0;
}

static void keep_gqa(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  if (spp_attention_is_parked(v->layout, g)) { /* the rest waits in host memory: memory_host.c */
    spp_kept_append(v, &out_sharded, SPP_BLOCK_NORM2, 0, v->act, g->tokens, g->o_width);
    return;
  }
  keep_qk_norm(v);
  if (v->job->attention == SPP_ATTN_EAGER) {
    keep_eager(v, g->o_width);
    return;
  }
  bool spread = spreads_kv(v);
  int64_t copies = exchanged_copies(v);
  keep(v, &query, 0, g->q_width);
  keep(v, &key, 0, spread ? g->q_width : g->k_width * (g->kv_repeat - copies));
  keep(v, &value, 0, spread ? g->o_width : value_width(v) - g->v_width * copies);
  keep(v, &key, SPP_RC_CORE_ATTN, g->k_width * copies);
  keep(v, &value, SPP_RC_CORE_ATTN, g->v_width * copies);
  keep_mask(v);
  keep_output(v, g->o_width);
  if (family_keeps(v, SPP_KEEPS_OUTPUT_COPY) && keeps_o_input(v)) keep(v, &out_copied, 0, g->o_width);
  keep_lse(v);
  if (v->job->packing && g->sr > 1 && v->job->ring_impl == SPP_RING_SWIFT &&
      v->layout->sp_kind != SPP_SP_ALLGATHER) /* zigzag_ring_attn.py, more than one document */
    spp_kept_append(v, &masks, SPP_BLOCK_ATTENTION, 0, SPP_DTYPE_BOOL, g->tokens, 2);
}

/* Latents: the norm of the kv latent reads a slice of kv_a's output, whose storage also holds the rope key.
 */
static void keep_latents(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  bool one_kernel = v->job->kernels == SPP_KERNELS_FUSED;
  int64_t rows = v->g->stream_tokens, kl = a->kv_lora_rank;
  if (a->q_lora_rank > 0) {
    spp_kept_norm(v, &q_latent_norm, SPP_BLOCK_ATTENTION, 0, rows, a->q_lora_rank, 1);
    if (spp_keeps_input(v->job, v->layout, SPP_LORA_Q))
      spp_kept_append(v, &q_latent, SPP_BLOCK_ATTENTION, 0, v->gemm_in, rows, a->q_lora_rank);
  }
  spp_kept_norm(v, &kv_latent_norm, SPP_BLOCK_ATTENTION, 0, rows, kl, 1);
  if (one_kernel && !v->job->framework->own_layers) /* exec/layer_latent.c splits it off */
    spp_kept_append(v, &kv_latent_input, SPP_BLOCK_ATTENTION, 0, v->act, rows, a->qk_rope_dim);
  if (spp_keeps_input(v->job, v->layout, SPP_LORA_V))
    spp_kept_append(v, &kv_latent, SPP_BLOCK_ATTENTION, 0, v->gemm_in, rows, kl);
}

/* FlashAttention-2 wants one head width: v is padded to that of q and k, and the output cut and copied
 * (transformers integrations/flash_attention.py). Other kernels take a narrower v. */
static void keep_mla(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  bool padded = v->job->attention == SPP_ATTN_FA2 && !v->job->framework->own_layers;
  const unsigned up = SPP_RC_MLA_UP_PROJ;
  keep_latents(v);
  if (v->job->attention == SPP_ATTN_EAGER) {
    keep_eager(v, g->o_width);
    return;
  }
  keep(v, &query, up, g->q_width);
  keep(v, &key, up, g->k_width);
  keep(v, &value, up, padded ? g->k_width : value_width(v));
  if (padded) {
    keep(v, &out, 0, g->q_width);
    if (keeps_o_input(v)) keep(v, g->su > 1 ? &out_sharded : &out_cut, 0, g->o_width);
  } else {
    keep_output(v, g->o_width);
  }
  keep_lse(v);
}

void spp_kept_attention(const struct spp_layer_view *v) {
  if (v->job->arch->attention == SPP_ATTENTION_MLA)
    keep_mla(v);
  else
    keep_gqa(v);
}
