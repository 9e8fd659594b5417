#include "model/memory_parts.h"

/* Vision tower of the first stage. A frozen tower keeps nothing: autograd saves no tensor where no input asks
 * for a gradient. A trained one keeps its blocks' inputs under full recompute, else every block's tensors
 * (transformers qwen2_5_vl, qwen3_vl, llama4 vision blocks). */
#define ROW(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_VISION, reason}
ROW(embeddings, "image embeddings", "merged into the text sequence");
ROW(block_input, "vision block input", "start of a recomputed block");
ROW(norms, "vision norms", "inputs and outputs of both norms");
ROW(norms32, "vision norms, fp32", "upcast inputs of both norms");
ROW(stats, "vision norm statistics", "norm backward");
ROW(qkv, "vision q, k, v", "attention backward");
ROW(out, "vision attention output", "attention backward and projection");
ROW(lse, "vision log-sum-exp", "attention backward");
ROW(mlp, "vision MLP", "activation backward and second product");
ROW(work, "vision backward work", "gradients inside one block");

static const unsigned text_pass = SPP_LIVE(SPP_MOMENT_FORWARD) | SPP_LIVE_LOSS | SPP_LIVE_BACKWARD;

struct tower {
  const struct spp_vision *shape;
  enum spp_dtype act;
  int64_t patches;
  bool rms_eager, gated, fused;
};

static void add_block(const struct tower *t, unsigned live, int64_t copies, struct spp_memory_sum *sum) {
  const struct spp_vision *s = t->shape;
  int64_t rows = t->patches, d = s->hidden;
  int64_t mlp_widths = !t->gated ? 2 : t->fused ? 3 : 4; /* as in the text layers */
  if (t->rms_eager) spp_memory_add(sum, &norms32, live, SPP_DTYPE_FP32, rows, 2 * d, copies);
  spp_memory_add(sum, &norms, live, t->act, rows, 4 * d, copies);
  spp_memory_add(sum, &stats, live, SPP_DTYPE_FP32, rows, s->kind == SPP_VISION_QWEN2_5 ? 2 : 4, copies);
  spp_memory_add(sum, &qkv, live, t->act, rows, 3 * d, copies);
  spp_memory_add(sum, &out, live, t->act, rows, d, copies);
  spp_memory_add(sum, &lse, live, SPP_DTYPE_FP32, rows, s->heads, copies);
  spp_memory_add(sum, &mlp, live, t->act, rows, mlp_widths * s->ffn, copies);
}

static void add_trained(const struct spp_memory_view *v, const struct tower *t, struct spp_memory_sum *sum) {
  const struct spp_vision *s = t->shape;
  if (v->layout->recompute == SPP_RECOMPUTE_FULL) {
    spp_memory_add(sum, &block_input, text_pass, t->act, t->patches, s->hidden, s->depth);
    add_block(t, SPP_LIVE(SPP_MOMENT_BACKWARD_VISION), 1, sum);
  } else {
    add_block(t, text_pass, s->depth, sum);
  }
  spp_memory_add(sum, &work, SPP_LIVE(SPP_MOMENT_BACKWARD_VISION), t->act, t->patches,
                 spp_max64(2 * s->ffn, 8 * s->hidden), 1);
}

void spp_memory_add_vision(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  const struct spp_vision *shape = &job->arch->vision;
  if (shape->kind == SPP_VISION_NONE || job->image_patches <= 0 || !s->stage->first) return;
  int64_t ranks = job->framework->vision_on_every_sp_rank ? 1 : spp_max64(1, v->g->sp);
  bool rms = shape->kind == SPP_VISION_QWEN2_5, fused = job->kernels == SPP_KERNELS_FUSED;
  struct tower t = {
      shape,         v->act, spp_ceil_div(spp_sat_mul(v->g->sequences, job->image_patches), ranks),
      rms && !fused, rms,    fused};
  int64_t tokens = spp_ceil_div(spp_sat_mul(v->g->sequences, job->image_tokens), ranks);
  spp_memory_add(sum, &embeddings, text_pass, v->act, tokens, job->arch->hidden, 1);
  bool trained = job->vision_trainable && !spp_job_has_adapters(job) && v->trains;
  if (trained) add_trained(v, &t, sum);
}
