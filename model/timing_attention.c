/* Time of one attention layer: one kernel call, or the steps of a ring with their merges.
 * Sources: zhuzilin/ring-flash-attention zigzag_ring_flash_attn.py (every zigzag step costs two c x c
 * blocks), NVIDIA/TransformerEngine context_parallel.py, modelscope/ms-swift zigzag_ring_attn.py (backward
 * repeats the forward ring). */
#include "model/timing_internal.h"

/* Bytes that merging a step's output into the running one moves per element. zhuzilin and ms-swift, operator
 * by operator: block cast to fp32 (6), difference (12), scaled (8), subtracted (12)
 * (zhuzilin/ring-flash-attention ring_flash_attn/utils.py _update_out_and_lse). te: one fused kernel, fp32
 * running output read and written, block read (NVIDIA/TransformerEngine context_parallel.py
 * flash_attn_fwd_out_correction). */
static const double merge_bytes[SPP_RING_IMPL_COUNT] = {
    [SPP_RING_ZHUZILIN] = 38, [SPP_RING_SWIFT] = 38, [SPP_RING_TE] = 12};
enum {
  CAST_BYTES = 12, /* the first block's output to fp32 and the last sum back to 16 bit */
  GRAD_ADD_BYTES =
      12, /* fp32 gradient (of q; of the travelling k and v) read and written, a step's block read */
  BACKWARD_FLOPS_X2 = 5 /* flash backward runs 5 products for the forward's 2 */
};

/* Blocks without a causal mask run faster per FLOP: asymptotes of the FlashAttention README charts without
 * over with mask, forward 1.08 and 1.06 (FA2), 1.02 and 1.01 (FA3), 1.08 and 1.05 (cuDNN); forward and
 * backward 1.06, 1.01, 1.03, 1.03 (FA2): means, the backward's from both. */
static const double unmasked_forward_rate = 1.05, unmasked_backward_rate = 1.02;

double spp_ring_attention_share(enum spp_pass pass) {
  return 1 / (pass == SPP_PASS_BACKWARD ? unmasked_backward_rate : unmasked_forward_rate);
}

double spp_window_pairs(const struct spp_geometry *g, const struct spp_layer_kind *kind) {
  double tokens = (double)g->sequences * (double)g->padded_tokens;
  double window = (double)kind->window_tokens;
  double length = tokens > 0 ? g->attention_pairs / tokens : 0; /* mean document length a token sees */
  if (window <= 0 || length <= window) return g->attention_pairs;
  return kind->window_chunked ? tokens * window : tokens * (2 * window - window * window / length);
}

/* Span: keys the longest query tile walks. */
static double span_tokens(const struct spp_geometry *g, const struct spp_layer_kind *kind) {
  double tokens = (double)g->sequences * (double)g->padded_tokens;
  double length = tokens > 0 ? g->attention_pairs / tokens : 0;
  return kind->window_tokens > 0 ? spp_least(length, (double)kind->window_tokens) : length;
}

static double head_width(const struct spp_arch *a) {
  return a->attention == SPP_ATTENTION_MLA ? (double)(a->qk_nope_dim + a->qk_rope_dim) : (double)a->head_dim;
}

/* Lock-step of a contiguous causal ring: the last rank computes sr - 1/2 full blocks where the mean is sr/2.
 */
static double ring_imbalance(const struct spp_timing_context *c) {
  double sr = (double)c->g->sr;
  return c->job->ring_order == SPP_RING_ZIGZAG ? 1 : (2 * sr - 1) / sr;
}

/* sr kernel calls of `flops` each, the first masked; steps: masked ones that would keep the tensor cores as
 * busy. */
static double ring_steps_s(const struct spp_attention_rate *rate, double flops, double steps, double sr,
                           double span, double head, double bytes) {
  return sr * spp_attention_s(rate, flops * steps / sr, span, head, bytes);
}

void spp_attention_time_count(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                              double *forward_s, double *backward_s) {
  const struct spp_geometry *g = c->g;
  const struct spp_kernel_rates *r = c->rates;
  double e = (double)g->element_bytes, t = (double)g->tokens, sr = (double)g->sr, rep = (double)g->kv_repeat;
  double width = (double)(g->q_width + g->o_width), kv = (double)(g->k_width + g->v_width) * rep;
  double flops = spp_window_pairs(g, kind) * width / (double)(g->su * g->sr);
  double span = span_tokens(g, kind), head = head_width(c->job->arch), bytes = e * t * (width + kv);
  if (g->pieces > 1) {
    spp_chunked_attention_time_count(c, flops, span, head, forward_s, backward_s);
    return;
  }
  if (g->sr == 1) {
    *forward_s = spp_attention_s(&r->forward, flops, span, head, bytes);
    *backward_s = spp_attention_s(&r->backward, flops * BACKWARD_FLOPS_X2 / 2.0, span, head, bytes);
    return;
  }
  if (c->layout->sp_kind ==
      SPP_SP_ALLGATHER) {       /* two chunks per rank, each against a prefix of the gathered K and V */
    flops *= ring_imbalance(c); /* contiguous shards: the last rank sees every key */
    double gathered = e * t * sr * kv, groups = (double)g->head_groups;
    double calls = spp_most(2, groups * (c->job->ring_order == SPP_RING_ZIGZAG ? 2 : 1));
    /* reordered when gathered, both ways in backward; by groups of heads (ring_flash_attn 0.1.8
     * llama3_flash_attn_varlen.py) only the own part is cut out, and zeros wait for the gathered gradients */
    double copied = groups > 1 ? 2 * e * t * kv : 2 * gathered, zeros = groups > 1 ? gathered : 0;
    double copies = spp_memory_s(r, SPP_MEMORY_STREAM, copied),
           zeros_s = spp_memory_s(r, SPP_MEMORY_STREAM, zeros);
    bytes += gathered;
    *forward_s =
        (calls - 1) * r->forward.t0_s + copies + spp_attention_s(&r->forward, flops, span, head, bytes);
    *backward_s = (calls - 1) * r->backward.t0_s + 2 * copies + zeros_s +
                  spp_attention_s(&r->backward, flops * BACKWARD_FLOPS_X2 / 2.0, span, head, bytes);
    return;
  }
  double step_flops = flops / sr * ring_imbalance(c), out = t * (double)g->o_width;
  double merge_s = spp_memory_s(r, SPP_MEMORY_MERGE, out * merge_bytes[c->job->ring_impl]) + r->launch_s;
  double cast_s = spp_memory_s(r, SPP_MEMORY_MERGE, out * CAST_BYTES) + 2 * r->launch_s;
  double grads = t * ((double)g->q_width + kv);
  double add_s = spp_memory_s(r, SPP_MEMORY_MERGE, grads * GRAD_ADD_BYTES) + 3 * r->launch_s;
  double forward_steps = 1 + (sr - 1) / unmasked_forward_rate,
         backward_steps = 1 + (sr - 1) / unmasked_backward_rate;
  *forward_s = ring_steps_s(&r->forward, step_flops, forward_steps, sr, span / sr, head, bytes) +
               (sr - 1) * merge_s + cast_s;
  *backward_s = ring_steps_s(&r->backward, step_flops * BACKWARD_FLOPS_X2 / 2.0, backward_steps, sr,
                             span / sr, head, bytes) +
                sr * add_s;
  if (c->job->ring_impl == SPP_RING_SWIFT) *backward_s += *forward_s;
}
