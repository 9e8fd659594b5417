#include "model/memory_parts.h"

#define ROW(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_TRANSIENT, reason}
ROW(residual_grad, "gradient of the residual stream", "flows past the block");
ROW(norm_work, "norm backward", "gradient, its fp32 copy and products");
ROW(mlp_grads, "gradients inside the MLP", "activation backward");
ROW(mlp_tile_grad, "gradient of the tiled MLP's input", "filled tile by tile");
ROW(routed_grads, "gradients of routed tokens", "experts' input and output");
ROW(tp_gather, "gathered layer input", "sequence-parallel linear, weight gradient");
ROW(tp_grad, "gathered output gradient", "sequence-parallel linear backward");
ROW(dequantised, "dequantised weight", "one matrix at a time");
ROW(experts_whole, "a layer's experts", "unpacked or adapted whole, saved by their products");
ROW(experts_grad, "gradient of adapted experts", "of the copy that adapters are folded into");
ROW(dequantised_head, "dequantised head", "for the gradient of the hidden states");
ROW(attn_grads, "gradients of q, k, v", "attention backward");
ROW(attn_out_grad, "gradient of the attention output", "attention backward");
ROW(attn_dq32, "fp32 accumulator of dq", "flash attention backward");
ROW(attn_expanded, "dk, dv expanded to all query heads", "FlashAttention-2 backward of grouped queries");
ROW(attn_dkv32, "fp32 accumulators of dk, dv", "FlashAttention-3 backward of grouped queries");
ROW(attn_rows, "softmax row statistics", "flash attention backward");
ROW(attn_scores, "score matrices", "softmax backward");
ROW(a2a, "all-to-all buffers", "sent, received and reordered copies");
ROW(ring_kv, "ring: KV blocks", "received and in flight");
ROW(ring_out, "ring: fp32 output accumulator", "blocks are merged in fp32");
ROW(ring_block, "ring: block output", "before it is merged");
ROW(ring_dq, "ring: fp32 dq", "accumulated over the steps");
ROW(ring_dkv, "ring: fp32 dk, dv", "own, received and sent");
ROW(ring_kv_dkv, "ring: KV with their gradients", "two buffers travel");
ROW(ring_outs, "ring: outputs of all steps", "kept until they are merged");
ROW(ring_block_grads, "ring: fp32 gradients of block outputs", "merge backward");
ROW(gather_kv, "gathered K and V", "and their reordered copy");
ROW(gather_dkv, "gradients of gathered K and V", "and their reordered copy");
ROW(gather_outs, "outputs of head groups", "listed until they are joined");
ROW(pipeline, "pipeline buffers", "stage input and output on the wire");

enum {
  FORWARD = 1 << SPP_MOMENT_FORWARD,
  MLP = 1 << SPP_MOMENT_BACKWARD_MLP,
  NORM = 1 << SPP_MOMENT_BACKWARD_NORM,
  ATTENTION = 1 << SPP_MOMENT_BACKWARD_ATTENTION
};
enum {
  FLASH_ROW_BLOCK = 128
}; /* query rows are padded to it: csrc/flash_attn/flash_api.cpp seqlen_q_rounded */

struct transient_view {
  const struct spp_memory_view *v;
  const struct spp_geometry *g;
  struct spp_memory_sum *sum;
};

static void add(const struct transient_view *t, const struct spp_tensor *tensor, unsigned live,
                enum spp_dtype dtype, int64_t rows, int64_t cols, int64_t copies) {
  if (rows > 0 && cols > 0 && copies > 0) spp_memory_add(t->sum, tensor, live, dtype, rows, cols, copies);
}
static void add_act(const struct transient_view *t, const struct spp_tensor *tensor, unsigned live,
                    int64_t rows, int64_t cols, int64_t copies) {
  add(t, tensor, live, t->v->act, rows, cols, copies);
}

static bool eager_rms(const struct spp_job *job) {
  return job->kernels == SPP_KERNELS_EAGER && job->arch->norm == SPP_NORM_RMS;
}

/* Eager SwiGLU holds two i-wide gradients at a time (measured: 4.01 T i bytes); Liger writes both into its
 * inputs; Megatron makes the gradient of the product and of the joined fc1 output, when the product itself is
 * free again. */
static int64_t mlp_copies(const struct spp_job *job) {
  if (job->kernels == SPP_KERNELS_EAGER || job->arch->mlp == SPP_MLP_PLAIN) return 2;
  return job->framework->sharding == SPP_SHARDING_MEGATRON ? 2 : 1;
}

static void add_mlp(const struct transient_view *t, enum spp_layer_class active) {
  const struct spp_job *job = t->v->job;
  const struct spp_layer_kind *kind = t->v->kind[active];
  if (!kind) return;
  if (active == SPP_LAYER_DENSE && spp_mlp_in_chunks(job, t->g)) {
    spp_memory_add_chunked_mlp(t->v, spp_mlp_width(t->g, kind, SPP_ROLE_MLP), t->sum);
    return;
  }
  if (active == SPP_LAYER_DENSE) {
    add_act(t, &mlp_grads, MLP, spp_mlp_rows(job, t->g), spp_mlp_width(t->g, kind, SPP_ROLE_MLP),
            mlp_copies(job));
    if (job->framework->tiles_mlp) add_act(t, &mlp_tile_grad, MLP, t->g->tokens, job->arch->hidden, 1);
    return;
  }
  int64_t rows = spp_expert_rows(job, t->g);
  add_act(t, &mlp_grads, MLP, rows, spp_mlp_width(t->g, kind, SPP_ROLE_EXPERT), mlp_copies(job));
  add_act(t, &routed_grads, MLP, rows, job->arch->hidden, 2);
}

/* Eager RMSNorm backward: 16 bytes an element with the incoming gradient (measured 16.01); one kernel: 4. */
static void add_stream(const struct transient_view *t) {
  const struct spp_job *job = t->v->job;
  int64_t rows = t->g->stream_tokens, h = job->arch->hidden;
  add_act(t, &residual_grad, MLP | NORM | ATTENTION, rows, h, 1);
  if (eager_rms(job))
    add(t, &norm_work, NORM, SPP_DTYPE_FP32, rows, h, 4);
  else
    add_act(t, &norm_work, NORM, rows, h, 2);
  if (t->g->tp > 1 && t->v->layout->megatron_sp) {
    add_act(t, &tp_gather, MLP | ATTENTION, t->g->tokens, h, 1);
    add_act(t, &tp_grad, MLP | ATTENTION, t->g->tokens, h, 1);
  }
}

/* Widths of the attention kernel over all heads of the rank: under Ulysses T tokens times all heads equal su
 * T tokens times 1/su of the heads. */
struct attention_widths {
  int64_t q, k, v, out, kv_rows;
  bool grouped;
};
static struct attention_widths widths_of(const struct spp_memory_view *view) {
  const struct spp_geometry *g = view->g;
  bool mla = view->job->arch->attention == SPP_ATTENTION_MLA;
  bool padded = mla && view->job->attention == SPP_ATTN_FA2;
  struct attention_widths w = {g->q_width,
                               g->k_width * g->kv_repeat,
                               g->v_width * g->kv_repeat,
                               g->o_width,
                               g->tokens,
                               g->kv_heads_local * g->kv_repeat < g->heads_local};
  if (padded) {
    w.v = g->k_width;
    w.out = g->q_width;
  }
  if (view->layout->sp_kind == SPP_SP_ALLGATHER) w.kv_rows = spp_sat_mul(g->tokens, g->sr);
  return w;
}

static int64_t flash_rows(const struct spp_geometry *g) {
  int64_t sequences = spp_max64(1, g->sequences);
  return spp_sat_mul(sequences, spp_round_up(spp_ceil_div(g->attention_tokens, sequences), FLASH_ROW_BLOCK));
}

/* csrc/flash_attn/flash_api.cpp mha_bwd, hopper/flash_api.cpp. */
static void add_flash(const struct transient_view *t, const struct attention_widths *w) {
  const struct spp_geometry *g = t->g;
  enum spp_attention_impl impl = t->v->job->attention;
  bool v2 = impl == SPP_ATTN_FA2 || impl == SPP_ATTN_SDPA;
  int64_t heads = spp_ceil_div(g->heads_local, g->su);
  bool wide = t->v->act == SPP_DTYPE_FP32; /* gradients are their own accumulators */
  int64_t groups = g->head_groups, q = spp_ceil_div(w->q, groups), kv = spp_ceil_div(w->k + w->v, groups);
  heads = spp_ceil_div(heads, groups);
  add(t, &attn_dq32, ATTENTION, SPP_DTYPE_FP32, g->tokens, q, wide ? 0 : 1);
  add(t, &attn_rows, ATTENTION, SPP_DTYPE_FP32, flash_rows(g), heads, impl == SPP_ATTN_FA3 ? 2 : 1);
  if (!w->grouped) return;
  if (v2)
    add_act(t, &attn_expanded, ATTENTION, w->kv_rows, q, 2);
  else
    add(t, &attn_dkv32, ATTENTION, SPP_DTYPE_FP32, w->kv_rows, kv, 1);
}

/* Gradient of the probabilities and of the scores, in the softmax's type (fp32 in transformers). */
static void add_scores(const struct transient_view *t) {
  const struct spp_geometry *g = t->g;
  int64_t rows =
      spp_sat_mul(spp_sat_mul(g->sequences, spp_ceil_div(g->heads_local, g->su)), g->padded_tokens);
  enum spp_dtype dtype = t->v->job->kernels == SPP_KERNELS_EAGER ? SPP_DTYPE_FP32 : t->v->act;
  add(t, &attn_scores, ATTENTION, dtype, rows, g->padded_tokens, 2);
}

static void add_attention(const struct transient_view *t, const struct attention_widths *w) {
  add_act(t, &attn_out_grad, ATTENTION, t->g->tokens, w->out, 1);
  add_act(t, &attn_grads, ATTENTION, t->g->tokens, w->q, 1);
  int64_t rows = t->g->head_groups > 1 ? t->g->tokens : w->kv_rows; /* of all tokens: the gathered ones' */
  add_act(t, &attn_grads, ATTENTION, rows, w->k + w->v, 1);
  if (t->v->job->attention == SPP_ATTN_EAGER)
    add_scores(t);
  else
    add_flash(t, w);
}

/* ring_flash_attn/zigzag_ring_flash_attn.py; ms-swift runs the same and, in backward, runs the forward ring
 * again with autograd on every step's output (zigzag_ring_attn.py). Worst rank: the last. */
static void add_ring_blocks(const struct transient_view *t, const struct attention_widths *w) {
  const struct spp_geometry *g = t->g;
  add_act(t, &ring_kv, FORWARD | ATTENTION, g->tokens, w->k + w->v, 2);
  add(t, &ring_out, FORWARD, SPP_DTYPE_FP32, g->tokens, w->out, 2);
  add_act(t, &ring_block, FORWARD, g->tokens, w->out, 1);
  add(t, &ring_dq, ATTENTION, SPP_DTYPE_FP32, g->tokens, w->q, 1);
  add(t, &ring_dkv, ATTENTION, SPP_DTYPE_FP32, g->tokens, w->k + w->v, 3);
}
static void add_ring_replay(const struct transient_view *t, const struct attention_widths *w) {
  const struct spp_geometry *g = t->g;
  add(t, &ring_out, ATTENTION, SPP_DTYPE_FP32, g->tokens, w->out, g->sr);
  add_act(t, &ring_outs, ATTENTION, g->tokens, w->out, g->sr);
  add(t, &ring_block_grads, ATTENTION, SPP_DTYPE_FP32, g->tokens, w->out, g->sr);
}
/* TransformerEngine context_parallel.py AttnFuncWithCPAndKVP2P: every received block and every step's output
 * live until the forward returns. */
static void add_ring_te(const struct transient_view *t, const struct attention_widths *w) {
  const struct spp_geometry *g = t->g;
  add_act(t, &ring_kv, FORWARD, g->tokens, w->k + w->v, g->sr);
  add_act(t, &ring_outs, FORWARD, g->tokens, w->out, g->sr);
  add_act(t, &ring_kv_dkv, ATTENTION, g->tokens, w->k + w->v, 4);
  add_act(t, &ring_dq, ATTENTION, g->tokens, w->q, 1);
}
/* AttnFuncWithCPAndKVAllGather. By groups of heads: the one at work, the next on its way, and one's
 * gradients; outputs of groups are joined (ring_flash_attn 0.1.8 llama3_flash_attn_varlen.py kv_buffer,
 * kv_buffer_copy, dkv_buffer, out_list). */
static void add_gather(const struct transient_view *t, const struct attention_widths *w) {
  int64_t groups = t->g->head_groups, kv = spp_ceil_div(w->k + w->v, groups);
  add_act(t, &gather_kv, FORWARD | ATTENTION, w->kv_rows, kv, 2);
  add_act(t, &gather_dkv, ATTENTION, w->kv_rows, kv, 1);
  add_act(t, &gather_outs, FORWARD, t->g->tokens, w->out, groups > 1 ? 1 : 0);
}

static void add_sequence_parallel(const struct transient_view *t, const struct attention_widths *w) {
  const struct spp_geometry *g = t->g;
  if (g->su > 1) add_act(t, &a2a, FORWARD | ATTENTION, g->tokens, w->q, 3);
  if (g->sr <= 1) return;
  if (t->v->layout->sp_kind == SPP_SP_ALLGATHER) {
    add_gather(t, w);
  } else if (t->v->job->ring_impl == SPP_RING_TE) {
    add_ring_te(t, w);
  } else {
    add_ring_blocks(t, w);
    if (t->v->job->ring_impl == SPP_RING_SWIFT) add_ring_replay(t, w);
  }
}

/* bitsandbytes autograd/_functions.py MatMul4Bit unpacks a weight in forward and in backward, in the type it
 * was packed from, and casts that to the input's type (0.41.0, 0.43.0). */
static void add_dequantised(const struct transient_view *t, const struct spp_memory_stage *s) {
  const struct spp_framework *f = t->v->job->framework;
  int64_t copies = f->quantises_half && t->v->act == SPP_DTYPE_BF16 ? 2 : 1;
  enum spp_dtype dtype = spp_job_hidden_fp32(t->v->job) ? SPP_DTYPE_FP16 : t->v->act;
  if (t->v->job->method != SPP_METHOD_QLORA) return;
  add(t, &dequantised, FORWARD | MLP | ATTENTION, dtype, s->states.largest_rows, s->states.largest_cols,
      copies);
  if (f->quantises_head && s->stage->last && !t->v->job->arch->tied)
    add(t, &dequantised_head, SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD), dtype, t->g->vocab_local,
        t->v->job->arch->hidden, copies);
}

/* Grouped products take all experts of gate and up, or of down, as one tensor and save it for backward
 * (transformers 5.24 integrations/moe.py _grouped_linear). Packed ones are unpacked whole, to 16 bit or, from
 * int8, to fp32 (bitsandbytes 0.50.2 nn/parametrize.py, functional.py int8_vectorwise_dequant). Adapters are
 * folded into a copy, whose gradient is as large as it is: the wider of the two at a time (peft 0.21.2
 * tuners/lora/layer.py _LoraFactorsProxy). */
static void add_fused_experts(const struct transient_view *t, const struct spp_memory_stage *s,
                              const struct spp_memory_turn *turn) {
  const struct spp_job *job = t->v->job;
  const struct spp_layer_kind *kind = t->v->kind[SPP_LAYER_MOE];
  if (!job->framework->fused_experts || !kind || turn->class != SPP_LAYER_MOE || !spp_job_has_adapters(job))
    return;
  const struct spp_weight_sums *sums = &job->sums.kinds[kind - job->arch->kinds];
  bool packed = job->method == SPP_METHOD_QLORA && sums->quantised_expert > 0;
  int64_t elements =
      spp_ceil_div(packed ? sums->quantised_expert : sums->expert, spp_sat_mul(t->g->ep, t->g->etp));
  bool adapted = (job->lora_targets & (SPP_LORA_GATE | SPP_LORA_UP | SPP_LORA_DOWN)) != 0;
  enum spp_dtype dtype = packed && job->quant == SPP_QUANT_INT8 ? SPP_DTYPE_FP32 : t->v->act;
  unsigned live = FORWARD | MLP | (turn->again ? 0 : SPP_LIVE_LOSS);
  if (packed || adapted)
    add(t, &experts_whole, live, dtype, elements, 1, turn->again ? 1 : s->layers[SPP_LAYER_MOE]);
  int64_t wider = job->arch->mlp == SPP_MLP_GATED ? spp_ceil_div(spp_sat_mul(elements, 2), 3) : elements / 2;
  if (adapted) add(t, &experts_grad, MLP, dtype, wider, 1, 1);
}

void spp_memory_add_transients(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                               struct spp_memory_sum *sum) {
  if (s->view->job->framework->sharding == SPP_SHARDING_UNITS) {
    spp_memory_add_unit_transients(s, turn, sum);
    return;
  }
  const struct transient_view t = {s->view, s->view->g, sum};
  const struct attention_widths widths = widths_of(s->view);
  add_stream(&t);
  add_mlp(&t, turn->class);
  if (t.g->pieces > 1) {
    spp_memory_add_chunked_attention(s->view, sum);
  } else {
    add_attention(&t, &widths);
    add_sequence_parallel(&t, &widths);
  }
  add_dequantised(&t, s);
  add_fused_experts(&t, s, turn);
  if (t.g->pp > 1)
    add_act(&t, &pipeline, FORWARD | MLP | NORM | ATTENTION, t.g->stream_tokens, s->view->job->arch->hidden,
            2);
}
