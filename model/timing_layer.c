/* Device time of one decoder layer: matrix products by shape, attention, memory-bound kernels by bytes moved.
 */
#include "model/activations.h"
#include "model/timing_internal.h"

/* Bytes per element a memory-bound operation moves (16-bit activations), and kernels it launches.
 * Fused: what Liger, Apex or Transformer Engine read and write. Eager: torch operator by operator; norms run
 * in fp32 (huggingface/transformers LlamaRMSNorm: upcast, square, mean, rsqrt, two products, cast). Derived
 * from those operator lists. */
struct op_bytes {
  double forward, backward, launches;
};
static const struct op_bytes norm_ops[2] = {
    [SPP_KERNELS_EAGER] = {22, 34, 7}, [SPP_KERNELS_FUSED] = {4, 8, 1}};
static const struct op_bytes rope_ops[2] = {
    [SPP_KERNELS_EAGER] = {16, 16, 5}, [SPP_KERNELS_FUSED] = {4, 4, 1}};
static const struct op_bytes gated_ops[2] = {
    [SPP_KERNELS_EAGER] = {10, 18, 2}, [SPP_KERNELS_FUSED] = {6, 10, 1}};
static const struct op_bytes plain_ops = {4, 6, 1};
static const struct op_bytes residual_ops = {6, 6, 1};
enum {
  ULYSSES_COPY_BYTES = 8,   /* one permuted copy before and one after each all-to-all */
  EXPERT_BIAS_FORWARD = 28, /* bias of the last product times fp32 probability, expert by expert: product,
                               sum, join, cast (NVIDIA/Megatron-LM core 0.15.0 transformer/moe/experts.py
                               TEGroupedMLP._apply_bias) */
  EXPERT_BIAS_BACKWARD =
      36,                 /* casts of both gradients; products and sums for those of bias and probability */
  PERMUTE_BYTES = 8,      /* routed token read and written on the way to its expert and back */
  ROUTER_BYTES = 24,      /* softmax, top-k and their masks on fp32 scores */
  CAST_BYTES = 6,         /* an element between fp32 and 16 bit: one read, the other written */
  FP32_STREAM_BYTES = 20, /* what a layer moves more per hidden element when its stream is fp32: two norms 28
                             in place of 22, two sums 10 in place of 6 */
  FP8_CAST_BYTES = 4,     /* 16-bit operand read, 8-bit and transposed 8-bit written (Transformer Engine) */
  FP4_CAST_KERNELS = 3,   /* maxima, rowwise codes, columnwise codes of the transform: see fp4_cast_bytes */
  LORA_KERNELS = 7,       /* cast, dropout, A, B, scale, cast back, add (huggingface/peft lora/layer.py) */
  LORA_LAUNCHES =
      11, /* host time of one adapted module, in launches: tests/oracle/host.py, 8 to 16 in four runs */
  CHECKPOINT_LAUNCHES =
      40, /* same of a recomputed layer's bookkeeping, in each of its three passes: 18 to 50 */
  ULYSSES_LAUNCHES =
      6, /* same of one all-to-all with its copies: 2 to 4 in tests/oracle/host_exchanges.py, and 3 that a
            NCCL call takes (event, wait, kernel; pytorch/pytorch ProcessGroupNCCL.cpp) */
  TP_LAUNCHES = 5,   /* same of one gather, scatter or sum over tensor-parallel ranks: 2 in
                        tests/oracle/host_megatron.py, and   NCCL's 3 */
  RING_LAUNCHES = 9, /* same of one step of a ring, its messages, block and merge: 5 to 6 there, attention's
                        launch and 3 */
  ULYSSES_EXCHANGES = 4, /* q, k, v, output */
  LAYER_KERNELS = 55,    /* launches of one eager decoder layer */
  MLA_KERNELS =
      30, /* two more projections and a norm, splits, rope of two parts, expanded and joined keys and queries
             (NVIDIA/Megatron-LM megatron/core/transformer/multi_latent_attention.py, counted roughly) */
  MOE_KERNELS = 250, /* NVIDIA/Megatron-LM megatron/core/transformer/moe: router and its losses, permutation,
                        splits and exchanges of the dispatcher, grouped products, combine (counted roughly) */
  EXPERT_LAUNCHES =
      15, /* host time of one expert of a python loop and pass, in launches: tests/oracle/host.py, 13 to 17 in
             two runs: where, its copy to the host, index, three products, activation, product, index of the
             weights, scale, cast, index_add */
  FP8_EXPERT_KERNELS =
      3 /* maximum, scale and cast of one expert's rows; launched from C++, where three cost the
           host about what one costs from Python (assumption). transformer-engine-torch 2.9.0
           csrc/extensions/cast.cpp multi_tensor_quantize_impl: one kernel for all experts under
           delayed scaling alone; csrc/quantizer.cpp Float8CurrentScalingQuantizer */
};
/* NVFP4: the 16-bit operand is read for its maximum and that of its Hadamard transform, again for the rowwise
 * codes and again for the columnwise ones (transformer-engine-torch 2.9.0 csrc/quantizer.cpp
 * NVFP4Quantizer::quantize_impl). */
static const double fp4_cast_bytes = 3 * 2 + 2 * 9.0 / 16;
/* Bytes an adapter moves per element of (in + out), mean of the two sides (huggingface/peft lora/layer.py):
 * in: A reads x; out: B writes, scaling reads and writes, the sum reads two and writes one. Dropout reads,
 * writes and keeps a mask. fp32 adapters under autocast: x to fp32 and back. Backward mirrors them and adds
 * to dx. */
static const double lora_bytes[2] = {7, 9.5}, lora_dropout_bytes[2] = {2.5, 2}, lora_fp32_bytes[2] = {6, 4};
/* Bytes a weight costs to unpack in forward, and again in backward: 4 bits read and 16 written
 * (bitsandbytes). auto-gptq 0.4.2 qlinear_cuda_old.py unpacks through 32- and 8-bit tensors, operator by
 * operator: 16.5 bytes, in kernels of one byte an element that broadcast and reach about half the rate of
 * others; 30 is the length-independent part of QwenLM/Qwen README's Q-LoRA rows, 18 ps a weight on A100 for
 * 7B, 14B and 72B. Its product keeps the unpacked weight for backward. */
static const struct {
  double forward, backward;
} unpack_bytes[SPP_QUANT_COUNT] = {[SPP_QUANT_NF4] = {2.5, 2.5},
                                   [SPP_QUANT_NF4_DOUBLE] = {2.5, 2.5},
                                   [SPP_QUANT_GPTQ4] = {30, 0},
                                   [SPP_QUANT_INT8] = {3, 3},
                                   [SPP_QUANT_GPTQ8] = {30, 0}}; /* the same code */
/* Host time of a quantised linear beyond a plain one's, in launches: of the pass that unpacks the weight, and
 * of backward. bitsandbytes 0.43.1 autograd/_functions.py MatMul4Bit and functional.py dequantize_4bit: an
 * autograd function in Python, output, call, transposed view, casts, again in backward; two scales:
 * dequantize_blockwise, its output, sum. auto-gptq 0.4.2 qlinear_cuda_old.py: shift, cast, mask, sum of the
 * zeros, shift, cast, mask of the weight, difference, scale, casts and views; autograd keeps the product for
 * backward. */
static const struct {
  double forward, backward;
} unpack_launches[SPP_QUANT_COUNT] = {[SPP_QUANT_NF4] = {4, 4},
                                      [SPP_QUANT_NF4_DOUBLE] = {7, 7},
                                      [SPP_QUANT_GPTQ4] = {18, 0},
                                      [SPP_QUANT_INT8] = {6, 4},
                                      [SPP_QUANT_GPTQ8] = {18, 0}};

static void add_op(const struct spp_timing_context *c, struct spp_layer_time *t, const struct op_bytes *op,
                   enum spp_memory_kernel kind, double elements, double times) {
  double scale = (double)c->g->element_bytes / 2 * elements * times;
  double launch = c->rates->launch_s * op->launches * times;
  t->forward.memory_s += spp_memory_s(c->rates, kind, op->forward * scale) + launch;
  t->backward.memory_s += spp_memory_s(c->rates, kind, op->backward * scale) + launch;
}

/* FP8: inputs of a product, and gradients of its output, are cast on their way in. */
static void add_casts(const struct spp_timing_context *c, struct spp_layer_time *t, double input,
                      double output, double launches) {
  const struct spp_framework *f = c->job->framework;
  const struct spp_kernel_rates *r = c->rates;
  double each = f->fp8_cast_bytes > 0 ? f->fp8_cast_bytes : FP8_CAST_BYTES;
  if (c->job->dtype != SPP_DTYPE_FP8) return;
  if (c->job->fp4 && spp_job_runs_te(c->job)) {
    each = fp4_cast_bytes;
    launches *= FP4_CAST_KERNELS;
  }
  double launch = launches * r->launch_s;
  t->forward.memory_s += spp_memory_s(r, SPP_MEMORY_ACTIVATION, each * input) + launch;
  t->backward.memory_s += spp_memory_s(r, SPP_MEMORY_ACTIVATION, each * output) + launch;
}

static void add_gemm(const struct spp_timing_context *c, struct spp_layer_time *t, double m, double n,
                     double k) {
  const struct spp_kernel_rates *r = c->rates;
  t->forward.gemm_s += spp_gemm_s(r, m, n, k);
  t->backward.gemm_s += r->dgrad_ratio * spp_gemm_s(r, m, k, n);
  add_casts(c, t, m * k + (c->job->framework->fp8_casts_weights ? n * k : 0), m * n, 1);
  if (c->base_trainable) t->wgrad_s += r->wgrad_ratio * spp_gemm_s(r, n, k, m);
}

/* Rows of experts, over k a token. */
static double fill(const struct spp_timing_context *c) {
  return c->job->expert_capacity > 0 ? c->job->expert_capacity : 1;
}

static void add_expert_gemm(const struct spp_timing_context *c, struct spp_layer_time *t, double n,
                            double k) {
  const struct spp_arch *a = c->job->arch;
  const struct spp_geometry *g = c->g;
  double groups = (double)spp_max64(1, a->experts / g->ep);
  double rows = (double)(g->tokens * a->experts_per_token * g->etp) * fill(c) / (double)g->tp / groups;
  t->forward.gemm_s += spp_grouped_gemm_s(c->rates, groups, rows, n, k);
  t->backward.gemm_s += c->rates->grouped_dgrad_ratio * spp_grouped_gemm_s(c->rates, groups, rows, k, n);
  double weight = c->job->framework->fp8_casts_weights ? n * k : 0;
  add_casts(c, t, groups * (rows * k + weight), groups * rows * n, groups * FP8_EXPERT_KERNELS);
  if (c->base_trainable)
    t->wgrad_s += c->rates->grouped_wgrad_ratio * spp_grouped_gemm_s(c->rates, groups, n, k, rows);
}

static void add_weights(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                        struct spp_layer_time *t) {
  double m = (double)c->g->tokens, tp = (double)c->g->tp, etp = (double)c->g->etp;
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    if (!w->linear) continue;
    double rows = (double)w->rows, cols = (double)w->cols;
    while (!c->eager && i + 1 < kind->weight_count && spp_weights_join(w, w + 1)) {
      rows += (double)(++w)->rows;
      i++;
    }
    bool expert = w->role == SPP_ROLE_EXPERT;
    double cut = expert ? etp : tp;
    if (w->split == SPP_SPLIT_OUTPUT) rows /= cut;
    if (w->split == SPP_SPLIT_INPUT) cols /= cut;
    if (expert)
      add_expert_gemm(c, t, rows, cols);
    else
      add_gemm(c, t, w->role == SPP_ROLE_ROUTER ? (double)c->g->stream_tokens : m, rows, cols);
  }
}

/* huggingface/transformers loops over the experts in Python. */
static bool loops(const struct spp_timing_context *c, const struct spp_layer_kind *kind) {
  return kind->moe && c->eager && c->g->ep == 1;
}

static void add_mlp_kernels(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                            struct spp_layer_time *t) {
  const struct spp_arch *a = c->job->arch;
  const struct spp_geometry *g = c->g;
  double tokens = (double)g->tokens, tp = (double)g->tp;
  const struct op_bytes *act =
      a->mlp == SPP_MLP_PLAIN ? &plain_ops : &gated_ops[c->eager ? SPP_KERNELS_EAGER : SPP_KERNELS_FUSED];
  enum spp_memory_kernel kernel = c->eager ? SPP_MEMORY_EAGER : SPP_MEMORY_ACTIVATION;
  if (!kind->moe) {
    add_op(c, t, act, kernel, tokens * (double)a->ffn / tp, 1);
    return;
  }
  double routed = tokens * (double)(a->experts_per_token * g->etp) * fill(c) / tp;
  const struct op_bytes permute = {PERMUTE_BYTES, PERMUTE_BYTES, 4}, router = {ROUTER_BYTES, ROUTER_BYTES, 8};
  add_op(c, t, act, kernel, routed * (double)a->expert_ffn / (double)g->etp, 1);
  add_op(c, t, act, kernel, tokens * (double)(a->shared_experts * a->shared_expert_ffn) / tp,
         a->shared_experts > 0);
  add_op(c, t, &permute, SPP_MEMORY_PERMUTE, routed * (double)a->hidden, 1);
  if (a->expert_bias && !loops(c, kind)) {
    const struct op_bytes bias = {EXPERT_BIAS_FORWARD, EXPERT_BIAS_BACKWARD,
                                  3.0 * (double)spp_max64(1, a->experts / g->ep)};
    add_op(c, t, &bias, SPP_MEMORY_EAGER, routed * (double)a->hidden, 1);
  }
  add_op(c, t, &router, SPP_MEMORY_EAGER, (double)(g->stream_tokens * a->experts), 1);
}

static void add_memory_kernels(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                               struct spp_layer_time *t) {
  const struct spp_arch *a = c->job->arch;
  const struct spp_geometry *g = c->g;
  enum spp_kernel_style k = c->eager ? SPP_KERNELS_EAGER : SPP_KERNELS_FUSED;
  enum spp_memory_kernel norm = c->eager ? SPP_MEMORY_EAGER : SPP_MEMORY_NORM;
  enum spp_memory_kernel rope = c->eager ? SPP_MEMORY_EAGER : SPP_MEMORY_ROPE;
  double stream = (double)(g->stream_tokens * a->hidden), tokens = (double)g->tokens;
  double qk = tokens * (double)(g->q_width + g->k_width);
  add_op(c, t, &norm_ops[k], norm, stream, (double)a->norms_per_layer);
  add_op(c, t, &residual_ops, SPP_MEMORY_STREAM, stream, 2);
  if (a->qk_norm != SPP_QK_NORM_NONE) add_op(c, t, &norm_ops[k], norm, qk, 1);
  if (a->rotary_dim > 0) add_op(c, t, &rope_ops[k], rope, qk, 1);
  add_mlp_kernels(c, kind, t);
  if (g->su > 1) {
    const struct op_bytes copies = {ULYSSES_COPY_BYTES, ULYSSES_COPY_BYTES, 8};
    double width = (double)(g->q_width + g->o_width + (g->k_width + g->v_width) * g->kv_repeat);
    add_op(c, t, &copies, SPP_MEMORY_STREAM, tokens * width, 1);
  }
}

static double adapted_modules(const struct spp_timing_context *c, const struct spp_weight_sums *s) {
  return (double)(c->eager ? s->lora_modules : s->lora_joined);
}

/* A packed product of fp32 hidden states casts its input to 16 bit and its output back, and the gradients the
 * other way (bitsandbytes nn/modules.py Linear4bit.forward). */
static void add_packed_casts(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                             struct spp_layer_time *t) {
  double widths = 0;
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    bool packed = w->linear && w->role != SPP_ROLE_ROUTER && w->role != SPP_ROLE_EXPERT;
    if (packed) widths += (double)(w->rows + w->cols) / (double)c->g->tp;
  }
  double cast_s = spp_memory_s(c->rates, SPP_MEMORY_EAGER, CAST_BYTES * (double)c->g->tokens * widths);
  t->forward.memory_s += cast_s;
  t->backward.memory_s += cast_s;
}

/* Autocast casts fp32 weights once a forward, and again where that is recomputed. The embedding is fp32, and
 * so are the residual stream and the norms: each product that reads a norm casts it for itself, and back in
 * backward. */
static void add_weight_casts(const struct spp_timing_context *c, int kind, struct spp_layer_time *t) {
  const struct spp_weight_sums *s = &c->job->sums.kinds[kind];
  const struct spp_geometry *g = c->g;
  double linear = (double)(s->quantised / g->tp + s->quantised_expert / (g->ep * g->etp));
  if (!spp_job_casts_weights(c->job)) return;
  double readers = 0, stream = (double)(g->stream_tokens * c->job->arch->hidden);
  const struct spp_layer_kind *k = &c->job->arch->kinds[kind];
  for (int i = 0; i < k->weight_count; i++)
    readers += k->weights[i].linear && k->weights[i].split == SPP_SPLIT_OUTPUT && k->weights[i].copies == 1;
  double stream_s =
      spp_memory_s(c->rates, SPP_MEMORY_EAGER, (CAST_BYTES * readers + FP32_STREAM_BYTES) * stream);
  t->forward.memory_s += spp_memory_s(c->rates, SPP_MEMORY_EAGER, CAST_BYTES * linear) + stream_s;
  t->backward.memory_s += stream_s;
}

/* fp32 adapters that no autocast casts multiply in fp32, without tensor cores (torch allows TF32 for products
 * only where it is asked to): A and B once a forward, their gradients and their inputs' in backward. */
static void add_fp32_adapters(const struct spp_timing_context *c, double width, struct spp_layer_time *t) {
  const struct spp_calib *k = c->job->calib;
  double per_s =
      k->gemm.efficiency * k->sustained * k->clock_share * spp_peak_flops(c->job->gpu, SPP_DTYPE_FP32);
  double flops = 2 * (double)(c->g->tokens * c->job->lora_rank) * width;
  if (per_s <= 0) return;
  t->forward.gemm_s += flops / per_s;
  t->backward.gemm_s += 2 * flops / per_s;
}

/* Adapters are narrow: their products move bytes, they do not compute. */
static void add_adapters(const struct spp_timing_context *c, int kind, struct spp_layer_time *t) {
  const struct spp_weight_sums *s = &c->job->sums.kinds[kind];
  const struct spp_geometry *g = c->g;
  if (!spp_job_has_adapters(c->job)) return;
  double width = (double)(s->lora_split / g->tp + s->lora_replicated);
  const struct spp_framework *f = c->job->framework; /* a DeepSpeed engine makes the adapters 16-bit too */
  bool casts =
      f->lora_fp32_adapters && (f->lora_autocast || c->layout->zero == 0) && !spp_job_hidden_fp32(c->job);
  double each[2];
  for (int i = 0; i < 2; i++)
    each[i] = lora_bytes[i] + (c->job->lora_dropout > 0 ? lora_dropout_bytes[i] : 0) +
              (casts ? lora_fp32_bytes[i] : 0);
  const struct op_bytes adapter = {each[0], each[1], LORA_KERNELS * adapted_modules(c, s)};
  add_op(c, t, &adapter, SPP_MEMORY_EAGER, (double)g->tokens * width, 1);
  bool engine_casts = f->sharding == SPP_SHARDING_DEEPSPEED && c->layout->zero > 0;
  if (f->lora_fp32_adapters && !f->lora_autocast && !engine_casts) add_fp32_adapters(c, width, t);
}

/* Quantised weights are unpacked for every pass, but by servers, whose products read GPTQ as it is packed
 * (vllm model_executor/layers/quantization/gptq_marlin.py, recalled). */
static bool unpacks(const struct spp_job *job) {
  bool gptq = job->quant == SPP_QUANT_GPTQ4 || job->quant == SPP_QUANT_GPTQ8;
  bool server = job->mode == SPP_MODE_INFER && job->framework->profiled_sequences > 0;
  return spp_job_quantises(job) && !(server && gptq);
}

static void add_unpacking(const struct spp_timing_context *c, int kind, struct spp_layer_time *t) {
  const struct spp_weight_sums *s = &c->job->sums.kinds[kind];
  if (!unpacks(c->job)) return;
  double packed = (double)(s->quantised / c->g->tp + s->quantised_expert / (c->g->ep * c->g->etp));
  double forward = unpack_bytes[c->job->quant].forward, backward = unpack_bytes[c->job->quant].backward;
  t->forward.memory_s += spp_memory_s(c->rates, SPP_MEMORY_EAGER, forward * packed);
  t->backward.memory_s += spp_memory_s(c->rates, SPP_MEMORY_EAGER, backward * packed);
  if (spp_job_hidden_fp32(c->job)) add_packed_casts(c, &c->job->arch->kinds[kind], t);
}

static double layer_launches(const struct spp_framework *f) {
  return f->launches_per_layer > 0 ? f->launches_per_layer : LAYER_KERNELS;
}
double spp_launch_host_s(const struct spp_framework *f) {
  return f->host_s_per_layer / layer_launches(f);
}

/* Modules of a layer that hold weights, of its experts or the others: what DeepSpeed's hooks fetch one by
 * one.
 */
static double weight_modules(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                             bool experts) {
  double modules = experts ? 0 : (double)c->job->arch->norms_per_layer;
  for (int i = 0; i < kind->weight_count; i++)
    if (kind->weights[i].linear && (kind->weights[i].role == SPP_ROLE_EXPERT) == experts)
      modules += (double)kind->weights[i].copies;
  return modules;
}

static double fetch_launches(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                             bool experts) {
  const struct spp_framework *f = c->job->framework;
  bool fetched = f->states[c->layout->zero].shard_weights && f->launches_per_gather > 0;
  return fetched ? f->launches_per_gather * weight_modules(c, kind, experts) : 0;
}

static double expert_launches(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                              const struct spp_weight_sums *s) {
  double fp8 = c->job->dtype == SPP_DTYPE_FP8, each = EXPERT_LAUNCHES;
  if (!kind->moe) return 0;
  if (!loops(c, kind)) { /* one grouped product for gate and up, one for down */
    double groups = (double)spp_max64(1, c->job->arch->experts / c->g->ep);
    return MOE_KERNELS + LORA_LAUNCHES * (double)s->lora_expert_modules + fp8 * 2 * groups;
  }
  each += LORA_LAUNCHES * (double)s->lora_expert_modules;
  return each * (double)c->job->arch->experts + fetch_launches(c, kind, true);
}

/* What the device waits for beside the host's pace. The dispatcher copies the experts' token counts to the
 * host and waits (NVIDIA/Megatron-LM token_dispatcher.py _maybe_dtoh_and_synchronize): the device then idles
 * until the second half of the layer's kernels arrives. A loop asks the device for the tokens of every expert
 * (torch.where; transformers 4.51.3 models/qwen3_moe/modeling_qwen3_moe.py Qwen3MoeSparseMoeBlock), so its
 * kernels run one expert after the host launched them, and never beside it. The backward knows the counts. */
static double expert_wait_s(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                            const struct spp_weight_sums *s) {
  double launch_s = spp_launch_host_s(c->job->framework);
  if (loops(c, kind)) return launch_s * expert_launches(c, kind, s);
  return kind->moe && !c->eager ? launch_s * MOE_KERNELS / 2.0 : 0;
}

/* Modules of one layer that are recomputed by themselves: each is a checkpoint of its own, with its saved and
 * restored states of random numbers (NVIDIA/Megatron-LM megatron/core/tensor_parallel/random.py
 * CheckpointFunction, CheckpointWithoutOutput). torchtitan's operators are not. */
static double checkpoints(const struct spp_timing_context *c, const struct spp_layer_kind *kind) {
  const struct spp_arch *a = c->job->arch;
  unsigned m = c->layout->recompute_modules;
  if (c->layout->recompute == SPP_RECOMPUTE_FULL) return 1;
  if (c->layout->recompute != SPP_RECOMPUTE_SELECTIVE || c->job->framework->selective_is_op_level) return 0;
  return ((m & SPP_RC_CORE_ATTN) != 0) + ((m & SPP_RC_LAYERNORM) != 0) +
         ((m & SPP_RC_MLA_UP_PROJ) != 0 && a->attention == SPP_ATTENTION_MLA) +
         ((m & SPP_RC_MLP) != 0 && !kind->moe) +
         kind->moe * (((m & SPP_RC_MOE) != 0) + ((m & SPP_RC_MOE_ACT) != 0));
}

/* Collectives of one forward of a layer over tensor-parallel ranks (model/comm_tp.c): two parts, each with a
 * gather and a scatter or one sum; latents travel in three. Experts under sequence parallelism have their own
 * exchange in place of a part, but for those that are shared. */
static double tp_exchanges(const struct spp_timing_context *c, const struct spp_layer_kind *kind) {
  const struct spp_arch *a = c->job->arch;
  if (c->g->tp <= 1) return 0;
  if (!c->layout->megatron_sp) return 2;
  bool part = !kind->moe || a->shared_experts > 0;
  return (a->attention == SPP_ATTENTION_MLA ? 4 : 2) + (part ? 2 : 0);
}

static double host_s(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                     const struct spp_weight_sums *s) {
  const struct spp_job *job = c->job;
  double launches = layer_launches(job->framework) + LORA_LAUNCHES * adapted_modules(c, s);
  if (job->arch->attention == SPP_ATTENTION_MLA) launches += MLA_KERNELS;
  launches += expert_launches(c, kind, s) + fetch_launches(c, kind, false);
  if (job->framework->states[c->layout->zero].shard_grads)
    launches += job->framework->launches_per_unit * spp_fsdp_units(job, s);
  if (!loops(c, kind)) launches += fetch_launches(c, kind, true);
  launches += CHECKPOINT_LAUNCHES * checkpoints(c, kind);
  launches += TP_LAUNCHES * tp_exchanges(c, kind);
  if (c->g->su > 1) launches += ULYSSES_EXCHANGES * ULYSSES_LAUNCHES * (double)c->g->pieces;
  if (c->g->sr > 1 && c->layout->sp_kind != SPP_SP_ALLGATHER) launches += RING_LAUNCHES * (double)c->g->sr;
  return spp_launch_host_s(job->framework) * launches;
}

/* Backward hands each finished gradient to the hooks of ZeRO-2: host time of that pass alone. */
static void add_gradient_host(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                              const struct spp_weight_sums *s, struct spp_layer_time *t) {
  const struct spp_framework *f = c->job->framework;
  const struct spp_states *states = &f->states[c->layout->zero];
  double gradients = 2 * adapted_modules(c, s);
  if (!states->shard_grads || states->shard_weights || f->launches_per_gradient <= 0) return;
  if (c->base_trainable) {
    gradients = 0;
    for (int i = 0; i < kind->weight_count; i++)
      gradients += kind->weights[i].role == SPP_ROLE_EXPERT ? (double)kind->weights[i].copies : 1;
  }
  double extra_s = spp_launch_host_s(f) * f->launches_per_gradient * gradients;
  t->host_s += extra_s;
  t->forward_host_s -= extra_s;
}

/* Host time of unpacking a layer's weights: into the launches of both directions, or of the forward alone. */
static void add_unpacking_host(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                               const struct spp_weight_sums *s, struct spp_layer_time *t) {
  double modules = (double)s->quantised_modules, launch_s = spp_launch_host_s(c->job->framework);
  if (!unpacks(c->job)) return;
  double experts = loops(c, kind) ? (double)c->job->arch->experts : 1;
  modules += (double)s->quantised_expert_modules * experts;
  double forward = unpack_launches[c->job->quant].forward, backward = unpack_launches[c->job->quant].backward;
  t->host_s += launch_s * modules * backward;
  t->forward_host_s += launch_s * modules * (forward - backward);
}

/* What a selectively recomputed layer repeats. Megatron-LM names modules; torchtitan keeps products
 * (pytorch/torchtitan activation_checkpoint.py). */
static void selective_recompute(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                                struct spp_layer_time *t) {
  unsigned modules = c->layout->recompute_modules;
  const struct spp_params *p = &c->job->params;
  double mlp = (double)(p->per_dense_mlp > 0 ? p->per_dense_mlp : p->per_moe_mlp_active);
  double attention = (double)p->per_layer_attention, gemm = t->forward.gemm_s / (attention + mlp + 1);
  if (c->job->framework->selective_is_op_level) {
    t->recompute.gemm_s = t->forward.gemm_s * spp_op_level_share(c->job, kind);
    t->recompute.memory_s = t->forward.memory_s;
    return;
  }
  if (modules & SPP_RC_CORE_ATTN) t->recompute.attention_s = t->forward.attention_s;
  if (modules & (SPP_RC_MLP | SPP_RC_MOE)) t->recompute.gemm_s += gemm * mlp;
  if (modules & SPP_RC_MLA_UP_PROJ) t->recompute.gemm_s += gemm * attention / 2;
  if (modules & (SPP_RC_MLP | SPP_RC_MOE | SPP_RC_MOE_ACT)) t->recompute.memory_s += t->forward.memory_s / 4;
  if (modules & SPP_RC_LAYERNORM) t->recompute.memory_s += t->forward.memory_s / 4;
}

/* An MLP that works tile by tile keeps its input and runs again inside its own backward, whatever a
 * checkpoint of the layer ran before: ALST whole (DeepSpeed runtime/sequence_parallel/ulysses_sp.py TiledMLP:
 * "the forward occurs twice each iteration ... if you're using activation checkpointing it then occurs
 * trice"), FPDT up to its activation (sequence/fpdt_layer.py FPDT_FFN.backward). */
static void add_mlp_again(const struct spp_timing_context *c, const struct spp_layer_kind *kind,
                          struct spp_layer_time *t) {
  bool tiles = c->job->framework->tiles_mlp, chunks = spp_mlp_in_chunks(c->job, c->g);
  double m = (double)c->g->tokens, tp = (double)c->g->tp;
  if (kind->moe || !(tiles || chunks)) return;
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    bool last = w->split == SPP_SPLIT_INPUT;
    if (w->role != SPP_ROLE_MLP || !w->linear || (last && !tiles)) continue;
    double rows = (double)w->rows, cols = (double)w->cols;
    t->backward.gemm_s +=
        (double)w->copies * spp_gemm_s(c->rates, m, last ? rows : rows / tp, last ? cols / tp : cols);
  }
}

void spp_layer_time_count(const struct spp_timing_context *c, int kind_index, struct spp_layer_time *t) {
  const struct spp_layer_kind *kind = &c->job->arch->kinds[kind_index];
  *t = (struct spp_layer_time){0};
  add_weights(c, kind, t);
  add_memory_kernels(c, kind, t);
  add_adapters(c, kind_index, t);
  add_unpacking(c, kind_index, t);
  add_weight_casts(c, kind_index, t);
  spp_attention_time_count(c, kind, &t->forward.attention_s, &t->backward.attention_s);
  const struct spp_weight_sums *sums = &c->job->sums.kinds[kind_index];
  t->host_s = host_s(c, kind, sums);
  add_unpacking_host(c, kind, sums, t);
  add_gradient_host(c, kind, sums, t);
  t->forward.memory_s += expert_wait_s(c, kind, sums);
  if (!c->trains) {
    t->backward = (struct spp_pass_time){0};
    t->wgrad_s = 0;
    return;
  }
  t->backward.gemm_s += t->wgrad_s;
  add_mlp_again(c, kind, t);
  if (c->layout->recompute == SPP_RECOMPUTE_FULL) t->recompute = t->forward;
  if (c->layout->recompute == SPP_RECOMPUTE_SELECTIVE) selective_recompute(c, kind, t);
}
