/* Attention of sequences that pass in chunks: every chunk of queries against itself and those before it,
 * block by block, while the next block's operands come from host memory. Source: deepspeed 0.19.8
 * deepspeed/sequence/fpdt_layer.py _FPDTGPUOffloadingAttentionImpl_. */
#include "model/activations.h"
#include "model/timing_internal.h"

/* Bytes an element: block cast to fp32 (6), both sides scaled (8 each), summed (12) (_update_out_and_lse);
 * first block cast to fp32, sum cast back (12); zeros for a block's gradient and its sum into the fp32 one (2
 * + 10). */
enum { MERGE_BYTES = 34, CAST_BYTES = 12, GRAD_ADD_BYTES = 12, FP32_BYTES = 4 };
enum {
  MERGE_KERNELS = 8,
  ADD_KERNELS = 6,
  /* the host waits for each block before it launches the next: copies of its operands, zeros, the kernel
     (assumption) */
  WAIT_LAUNCHES = 4,
  BACKWARD_FLOPS_X2 = 5 /* flash backward runs 5 products for the forward's 2 */
};

/* Blocks of one direction. */
struct blocks {
  double diagonal_s, full_s; /* one block: with a causal mask, without */
};

/* A block without a mask has twice a diagonal block's FLOPs. */
static struct blocks blocks_of(const struct spp_timing_context *c, const struct spp_attention_rate *rate,
                               enum spp_pass pass, double diagonal_flops, double span, double head) {
  const struct spp_geometry *g = c->g;
  double rows = (double)g->piece_tokens, e = (double)g->element_bytes;
  double bytes = e * rows * (double)(g->q_width + g->k_width + g->v_width + g->o_width);
  struct blocks b = {
      spp_attention_s(rate, diagonal_flops, span, head, bytes),
      spp_attention_s(rate, 2 * diagonal_flops * spp_ring_attention_share(pass), span, head, bytes)};
  double wait_s = WAIT_LAUNCHES * spp_launch_host_s(c->job->framework);
  b.diagonal_s += wait_s;
  b.full_s += wait_s;
  return b;
}

/* Keys and values of the chunks before come back one pair of chunks at a time, under the block before theirs;
 * the new chunk's q, k and v leave under its first block. The other copies have the whole pass. */
static double forward_waits_s(const struct spp_timing_context *c, const struct blocks *b) {
  const struct spp_geometry *g = c->g;
  double rows = (double)g->piece_tokens, e = (double)g->element_bytes, wire = c->rates->pcie_s_per_byte;
  double keys_s = e * rows * (double)(g->k_width + g->v_width) * wire;
  double leave_s = e * rows * (double)g->q_width * wire + keys_s, chunks = (double)g->pieces;
  double first = spp_positive(leave_s - b->diagonal_s);
  double second = spp_positive(leave_s - b->full_s) + spp_positive(keys_s - b->diagonal_s);
  double others = spp_positive(leave_s + keys_s - b->full_s) + spp_positive(keys_s - b->diagonal_s);
  /* chunk i has i - 2 more blocks under which keys come, i from 2 */
  double middle = (chunks - 2) * (chunks - 3) / 2 * spp_positive(keys_s - b->full_s);
  return first + second + (chunks - 2) * others + middle;
}

/* Every block waits for a chunk's q, output, gradient of it and fp32 dq, and for the last block's dq to
 * leave, on one stream. */
static double backward_waits_s(const struct spp_timing_context *c, const struct blocks *b) {
  const struct spp_geometry *g = c->g;
  double rows = (double)g->piece_tokens, e = (double)g->element_bytes, chunks = (double)g->pieces;
  double width = (2.0 * FP32_BYTES + e) * (double)g->q_width + 2 * e * (double)g->o_width;
  double copy_s = rows * (width + FP32_BYTES * (double)g->heads_local) * c->rates->pcie_s_per_byte;
  return chunks * spp_positive(copy_s - b->diagonal_s) +
         chunks * (chunks - 1) / 2 * spp_positive(copy_s - b->full_s);
}

void spp_chunked_attention_time_count(const struct spp_timing_context *c, double flops, double span_tokens,
                                      double head_dim, double *forward_s, double *backward_s) {
  const struct spp_geometry *g = c->g;
  const struct spp_kernel_rates *r = c->rates;
  double chunks = (double)g->pieces, pairs = chunks * (chunks - 1) / 2, span = span_tokens / chunks;
  double diagonal = flops / (chunks * chunks), out = (double)(g->piece_tokens * g->o_width);
  double grads = (double)(g->piece_tokens * (g->q_width + g->k_width + g->v_width));
  struct blocks f = blocks_of(c, &r->forward, SPP_PASS_FORWARD, diagonal, span, head_dim);
  struct blocks b =
      blocks_of(c, &r->backward, SPP_PASS_BACKWARD, diagonal * BACKWARD_FLOPS_X2 / 2.0, span, head_dim);
  f.full_s += spp_memory_s(r, SPP_MEMORY_MERGE, out * MERGE_BYTES) + MERGE_KERNELS * r->launch_s;
  f.diagonal_s += spp_memory_s(r, SPP_MEMORY_MERGE, out * CAST_BYTES) + 2 * r->launch_s;
  double add_s = spp_memory_s(r, SPP_MEMORY_MERGE, grads * GRAD_ADD_BYTES) + ADD_KERNELS * r->launch_s;
  b.full_s += add_s;
  b.diagonal_s += add_s;
  *forward_s = chunks * f.diagonal_s + pairs * f.full_s;
  *backward_s = chunks * b.diagonal_s + pairs * b.full_s;
  if (!spp_attention_is_parked(c->layout, g)) return;
  *forward_s += forward_waits_s(c, &f);
  *backward_s += backward_waits_s(c, &b);
}
