/* What only the first or the last pipeline stage runs: embedding, head, loss, vision tower. */
#include "model/timing_internal.h"

/* Bytes per logit moved beside the head's products, derived from each path's operator list (docs/time.md).
 * recomputed: the head's product runs again in backward. */
static const struct {
  double forward_bytes, backward_bytes;
  bool recomputed, by_rows; /* one fused kernel, a program a row */
} loss_paths[SPP_LOSS_PATH_COUNT] = {
    [SPP_LOSS_HF_FULL] = {16, 24, false, false},  /* upcast, log-softmax, nll; nll, log-softmax, cast back */
    [SPP_LOSS_SP_16BIT] = {4, 8, false, false},   /* the same on 16-bit logits */
    [SPP_LOSS_SP_CHUNKED] = {4, 8, false, false}, /* chunks of 16-bit logits, gradient in place */
    [SPP_LOSS_VOCAB_PARALLEL] = {20, 12, false,
                                 false}, /* fp32 copy, maximum, subtract, exp, sum; scale, cast */
    [SPP_LOSS_VOCAB_COMPILED] = {22, 18, false,
                                 false}, /* fp32 copy; exp in place; divide; copy, update; scale, cast */
    [SPP_LOSS_FUSED_LINEAR] = {8, 0, false,
                               true}, /* one fused kernel per chunk; gradients made in the forward */
    [SPP_LOSS_TILED] = {16, 24, true, false},
    [SPP_LOSS_CHUNKED] = {16, 24, true, false},
    [SPP_LOSS_FPDT] = {22, 28, true, false},   /* upcast, softmax, log; upcast, softmax, scale, cast */
    [SPP_LOSS_IN_PLACE] = {8, 8, false, true}, /* read for maximum and sum; read and written */
    [SPP_LOSS_FP32_LOGITS] = {10, 10, false,
                              false}, /* compiled: one pass each way over 16- and 32-bit logits */
    [SPP_LOSS_CHUNKED_HEAD] = {10, 10, false, true},       /* as fp32-logits, chunk by chunk */
    [SPP_LOSS_CHUNKED_HEAD_EAGER] = {16, 24, false, true}, /* as hf-full, chunk by chunk */
    [SPP_LOSS_CHUNKS_KEPT] = {16, 24, false, false},       /* as hf-full, chunk by chunk */
    [SPP_LOSS_CHUNKS_16BIT] = {10, 10, false, false},      /* as fp32-logits, chunk by chunk */
    [SPP_LOSS_XENTROPY] = {4, 4, false, false},            /* read for maximum and sum; read and written */
    [SPP_LOSS_HF_SHIFTED] = {24, 32, false, false},        /* hf-full and the shifted copy each way */
    [SPP_LOSS_PAIRS_16BIT] = {6, 12, false,
                              false}, /* log-softmax, mean; its gradient, zeros to gather into, stack */
    [SPP_LOSS_PAIRS_AUTOCAST] = {30, 46, false,
                                 false}, /* upcast, exponentials row by row; the same, stack, sum, cast */
    [SPP_LOSS_PAIRS_FP32] = {14, 42, false,
                             false}, /* upcast, log-softmax; zeros, gradient, twice padded, sum, cast */
    [SPP_LOSS_PARALLEL] = {36, 36, false, false}, /* upcast, maximum, subtract, exp, sum, subtract; scatter,
                                              exp, add, multiply, cast */
};
/* One metric: fp32 copy of 16-bit logits, log-softmax. */
enum { METRIC_BYTES = 14 };
enum { EMBEDDING_FORWARD_BYTES = 4, EMBEDDING_BACKWARD_BYTES = 12 };

void spp_embedding_time_count(const struct spp_timing_context *c, struct spp_layer_time *t) {
  double elements = (double)c->g->tokens * (double)c->job->arch->hidden;
  *t = (struct spp_layer_time){0};
  t->forward.memory_s = spp_memory_s(c->rates, SPP_MEMORY_EAGER, EMBEDDING_FORWARD_BYTES * elements);
  if (c->trains && c->base_trainable)
    t->backward.memory_s = spp_memory_s(c->rates, SPP_MEMORY_EAGER, EMBEDDING_BACKWARD_BYTES * elements);
}

void spp_loss_time_count(const struct spp_timing_context *c, struct spp_layer_time *t) {
  const struct spp_kernel_rates *r = c->rates;
  double rows = (double)c->g->tokens, vocab = (double)c->g->vocab_local, h = (double)c->job->arch->hidden;
  enum spp_loss_path path = c->g->loss_path;
  if (c->job->framework->loss_gathers_sequence) rows *= (double)c->g->sp;
  *t = (struct spp_layer_time){0};
  /* no 8-bit recipe casts the head: NVIDIA/Megatron-LM core 0.15.0 models/gpt/gpt_model.py makes it a plain
   * ColumnParallelLinear, torchtitan 0.1.0 and 0.3.0 filter_fqns output, lm_head */
  t->forward.gemm_s = spp_wide_gemm_s(r, rows, vocab, h);
  enum spp_memory_kernel kernel = loss_paths[path].by_rows ? SPP_MEMORY_ROW_LOSS : SPP_MEMORY_STREAM;
  t->forward.memory_s = spp_memory_s(r, kernel, loss_paths[path].forward_bytes * rows * vocab);
  if (!c->trains) return;
  t->backward.gemm_s = r->dgrad_ratio * spp_wide_gemm_s(r, rows, h, vocab);
  if (c->base_trainable) t->wgrad_s = r->wgrad_ratio * spp_wide_gemm_s(r, vocab, h, rows);
  t->backward.gemm_s += t->wgrad_s;
  t->backward.memory_s = spp_memory_s(r, kernel, loss_paths[path].backward_bytes * rows * vocab);
  double metric_bytes = METRIC_BYTES * (double)c->job->framework->logit_metrics;
  t->backward.memory_s += spp_memory_s(r, SPP_MEMORY_STREAM, metric_bytes * rows * vocab);
  if (loss_paths[path].recomputed) t->backward.gemm_s += t->forward.gemm_s;
}

/* Pairs of patches the tower's attention visits for one image of p patches, summed over its blocks. */
static double tower_pairs(const struct spp_vision *v, double p) {
  double full = (double)v->depth, windowed = 0;
  if (v->kind == SPP_VISION_QWEN2_5 && v->window_px > 0) {
    double side = (double)(v->window_px / spp_max64(1, v->patch));
    full = (double)v->full_attention_blocks;
    windowed = ((double)v->depth - full) * p * side * side;
  }
  return full * p * p + windowed;
}

void spp_vision_time_count(const struct spp_timing_context *c, struct spp_layer_time *t) {
  const struct spp_job *job = c->job;
  const struct spp_vision *v = &job->arch->vision;
  double images = (double)job->images_per_sequence, patches = (double)job->image_patches;
  *t = (struct spp_layer_time){0};
  if (v->kind == SPP_VISION_NONE || images <= 0) return;
  double share = (double)c->g->sequences / (job->framework->vision_on_every_sp_rank ? 1 : (double)c->g->sp);
  double weights = (double)spp_sums_dense(&job->sums.vision, 1);
  double scale = images * share;
  t->forward.gemm_s = 2 * weights * patches * share * c->rates->gemm.s_per_flop;
  t->forward.attention_s =
      4 * tower_pairs(v, patches / images) * (double)v->hidden * scale * c->rates->forward.s_per_flop;
  if (!c->trains || !job->vision_trainable) return;
  t->backward.gemm_s = (c->rates->dgrad_ratio + c->rates->wgrad_ratio) * t->forward.gemm_s;
  t->wgrad_s = c->rates->wgrad_ratio * t->forward.gemm_s;
  t->backward.attention_s =
      2.5 * t->forward.attention_s * c->rates->backward.s_per_flop / c->rates->forward.s_per_flop;
}
