#include "model/loss.h"

#include "base/num.h"
#include "model/activations.h"
#include "model/loss_pairs.h"

#define TENSOR(text, reason)                                                                                 \
  { text, SPP_PART_LOGITS, reason }
static const struct spp_tensor logits16 = TENSOR("logits", "output of the head");
static const struct spp_tensor logits_reference =
    TENSOR("logits", "still referenced by the caller's outputs");
static const struct spp_tensor logits32 = TENSOR("logits, fp32", "still referenced by the caller's outputs");
static const struct spp_tensor logits_block = {"block of the freed logits", SPP_PART_ALLOCATOR,
                                               "smaller than what the loss asks next"};
static const struct spp_tensor split_segment = {"split block of earlier logits", SPP_PART_ALLOCATOR,
                                                "layer inputs of a longer batch lie in it"};
static const struct spp_tensor loss_work = TENSOR("log-softmax backward", "exponentials, sum and product");
static const struct spp_tensor log_softmax = TENSOR("log-softmax", "kept by cross entropy");
static const struct spp_tensor nll_gradient =
    TENSOR("gradient of the log-probabilities", "cross entropy backward");
static const struct spp_tensor logits_gradient = TENSOR("gradient of the logits", "cross entropy backward");
static const struct spp_tensor exponentials =
    TENSOR("exponentials, fp32", "made in place of the fp32 logits");
static const struct spp_tensor softmax_copy = TENSOR("softmax, fp32", "a copy, less one at the target");
static const struct spp_tensor hidden_gradient =
    TENSOR("gradient of the hidden states", "made in the loss's forward");
static const struct spp_tensor hidden_input =
    TENSOR("gathered hidden states", "sequence-parallel head, weight gradient");
static const struct spp_tensor head_temporary =
    TENSOR("new gradient of the head", "before it is accumulated, or its placeholder");
static const struct spp_tensor head_gradient = TENSOR("gradient of the head", "made in the loss's forward");
static const struct spp_tensor head_product =
    TENSOR("one chunk's gradient of the head", "16-bit product and its fp32 sum");
static const struct spp_tensor chunk_logits = TENSOR("logits of one chunk", "chunked loss");
static const struct spp_tensor chunk_block = {"block of the last chunk's logits", SPP_PART_ALLOCATOR,
                                              "smaller than what the loss asks next"};
static const struct spp_tensor head_sum =
    TENSOR("gradient of the head over chunks", "whole, reduced with the last chunk");
static const struct spp_tensor hidden_chunks = TENSOR("hidden states in chunks", "contiguous copies");
static const struct spp_tensor metric_copy = TENSOR("logits of a metric, fp32", "copy that autocast makes");
static const struct spp_tensor metric_softmax =
    TENSOR("log-softmax of a metric", "cross entropy, no gradient");
static const struct spp_tensor chunk_work =
    TENSOR("loss temporaries of one chunk", "log-softmax and its gradients");

enum element { ACT, FP32 };
enum extent { TOKENS_VOCAB, CHUNK_VOCAB, TOKENS_HIDDEN, VOCAB_HIDDEN };
enum condition { ALWAYS, HEAD_TRAINED, HEAD_FROZEN, HEAD_SHARDED, REFERENCED, NOT_REFERENCED };
struct loss_row {
  enum spp_loss_path path;
  const struct spp_tensor *tensor;
  enum element element;
  enum extent extent;
  int copies;
  enum condition condition;
};

/* The tensors alive together at the loss's largest moment, in its backward where it has one.
 * Sources: HF_FULL transformers loss/loss_utils.py; SP_* modelscope/ms-swift swift/trainers/utils.py
 * per_token_loss_func_sp, ChunkedCrossEntropyLoss; VOCAB_PARALLEL NVIDIA/Megatron-LM tensor_parallel/
 * cross_entropy.py; VOCAB_COMPILED the same operators under torch.compile, fusions/fused_cross_entropy.py:
 * forward in place, backward in a copy of the softmax, of which the 16-bit gradient is made (what inductor
 * makes of it: tests/oracle/compiled_loss.py); FUSED_LINEAR linkedin/Liger-Kernel
 * ops/fused_linear_cross_entropy.py; TILED deepspeedai/DeepSpeed runtime/sequence_parallel/ulysses_sp.py
 * TiledFusedLogitsLoss; CHUNKED the HF path chunk by chunk; FP32_LOGITS pytorch/torchtitan components/loss.py
 * under torch.compile, which fuses the upcast [read in inductor's output]; HF_SHIFTED transformers
 * before 4.45 models/llama/modeling_llama.py LlamaForCausalLM.forward: fp32 logits, shifted (a view of one
 * sequence), cross entropy [4.35.2]; TE_FUSED NVIDIA/TransformerEngine common/triton/cross_entropy.py
 * [recalled]; PARALLEL torch distributed/tensor/parallel/loss.py: backward is (grad_input + exp(x)) *
 * grad_output; CHUNKS_KEPT Lightning-AI/litgpt 0.4.0 utils.py chunked_cross_entropy over the list that the
 * model returns, which lightning 2.2.5 fabric/plugins/precision/half.py convert_output casts to fp32:
 * gradients of the chunks take the place of their log-softmax; CHUNKED_HEAD pytorch/torchtitan 0.3.0
 * components/loss.py ChunkedLossWrapper, GradAccumulator: the head's gradient is summed whole in the reduce
 * type until the last chunk (torch _fsdp_param.py to_accumulated_grad_if_needed); compiled cross entropy, or
 * operator by operator with the 16-bit logits referenced by the loop; CHUNKS_16BIT torchtune 0.3.1
 * modules/loss/ce_chunked_output_loss.py, recipes (the list is deleted before backward): compiled chunks keep
 * their 16-bit logits; autograd runs later nodes first, so that all chunks have their gradients, in place of
 * the logits, before the first product of the head, whose gradient is summed over chunks (torch
 * csrc/autograd/engine.cpp, input_buffer.cpp accumulate); XENTROPY Dao-AILab/flash-attention 1.0.9
 * flash_attn/losses/cross_entropy.py SoftmaxCrossEntropyLossFn, csrc/xentropy: the kernel reads and saves the
 * 16-bit logits, inplace_backward is off by default; FPDT deepspeed 0.19.8 sequence/fpdt_layer.py
 * FPDT_LogitsLoss.backward: fp32 logits, softmax and its 16-bit gradient of one chunk. A freed block stays
 * with the allocator, and the 16-bit logits' block is too small for any fp32 one: it counts as reserved.
 * Resident-set peaks of the first two were measured on a CPU: 12.00 and 6.01 bytes per logit. */
static const struct loss_row rows[] = {
    {SPP_LOSS_HF_FULL, &log_softmax, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_FULL, &nll_gradient, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_FULL, &logits_gradient, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_FULL, &logits_reference, ACT, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_HF_FULL, &logits_block, ACT, TOKENS_VOCAB, 1, NOT_REFERENCED},
    {SPP_LOSS_HF_SHIFTED, &log_softmax, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_SHIFTED, &nll_gradient, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_SHIFTED, &logits_gradient, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_HF_SHIFTED, &logits32, FP32, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_HF_SHIFTED, &logits_block, ACT, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_HF_SHIFTED, &logits_block, ACT, TOKENS_VOCAB, 1, NOT_REFERENCED},
    {SPP_LOSS_PARALLEL, &log_softmax, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_PARALLEL, &logits_gradient, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_PARALLEL, &loss_work, FP32, TOKENS_VOCAB, 2, ALWAYS},
    {SPP_LOSS_PARALLEL, &logits_block, ACT, TOKENS_VOCAB, 1, NOT_REFERENCED},
    {SPP_LOSS_SP_16BIT, &log_softmax, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_SP_16BIT, &nll_gradient, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_SP_16BIT, &logits_gradient, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_SP_16BIT, &logits_reference, ACT, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_SP_CHUNKED, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_SP_CHUNKED, &chunk_work, ACT, CHUNK_VOCAB, 3, ALWAYS},
    {SPP_LOSS_VOCAB_PARALLEL, &exponentials, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_VOCAB_PARALLEL, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_VOCAB_COMPILED, &exponentials, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_VOCAB_COMPILED, &softmax_copy, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_VOCAB_COMPILED, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_FUSED_LINEAR, &hidden_gradient, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_FUSED_LINEAR, &chunk_logits, ACT, CHUNK_VOCAB, 1, ALWAYS},
    {SPP_LOSS_FUSED_LINEAR, &head_gradient, ACT, VOCAB_HIDDEN, 1, HEAD_TRAINED},
    {SPP_LOSS_FUSED_LINEAR, &head_product, ACT, VOCAB_HIDDEN, 1, HEAD_TRAINED},
    {SPP_LOSS_FUSED_LINEAR, &head_product, FP32, VOCAB_HIDDEN, 1, HEAD_TRAINED},
    {SPP_LOSS_TILED, &hidden_gradient, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_TILED, &chunk_work, FP32, CHUNK_VOCAB, 3, ALWAYS},
    {SPP_LOSS_CHUNKED, &hidden_gradient, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED, &chunk_work, FP32, CHUNK_VOCAB, 3, ALWAYS},
    {SPP_LOSS_FP32_LOGITS, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_FP32_LOGITS, &logits_gradient, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKS_KEPT, &log_softmax, FP32, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKS_KEPT, &logits32, FP32, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_CHUNKS_KEPT, &chunk_work, FP32, CHUNK_VOCAB, 2, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD, &hidden_chunks, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD, &hidden_gradient, FP32, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD, &hidden_gradient, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD, &chunk_logits, ACT, CHUNK_VOCAB, 2, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD, &head_sum, FP32, VOCAB_HIDDEN, 1, HEAD_SHARDED},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &hidden_chunks, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &hidden_gradient, FP32, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &hidden_gradient, ACT, TOKENS_HIDDEN, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &chunk_logits, ACT, CHUNK_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &chunk_work, FP32, CHUNK_VOCAB, 3, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &chunk_block, ACT, CHUNK_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKED_HEAD_EAGER, &head_sum, FP32, VOCAB_HIDDEN, 1, HEAD_SHARDED},
    {SPP_LOSS_FPDT, &hidden_gradient, ACT, TOKENS_HIDDEN, 2, ALWAYS}, /* chunks and their join */
    {SPP_LOSS_FPDT, &chunk_work, FP32, CHUNK_VOCAB, 2, ALWAYS},
    {SPP_LOSS_FPDT, &chunk_logits, ACT, CHUNK_VOCAB, 1, ALWAYS},
    {SPP_LOSS_FPDT, &head_sum, FP32, VOCAB_HIDDEN, 1, HEAD_TRAINED},
    {SPP_LOSS_IN_PLACE, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_XENTROPY, &logits16, ACT, TOKENS_VOCAB, 1, NOT_REFERENCED},
    {SPP_LOSS_XENTROPY, &logits_reference, ACT, TOKENS_VOCAB, 1, REFERENCED},
    {SPP_LOSS_XENTROPY, &logits_gradient, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKS_16BIT, &logits16, ACT, TOKENS_VOCAB, 1, ALWAYS},
    {SPP_LOSS_CHUNKS_16BIT, &chunk_logits, ACT, CHUNK_VOCAB, 1, HEAD_FROZEN},
    {SPP_LOSS_CHUNKS_16BIT, &head_gradient, ACT, VOCAB_HIDDEN, 1, HEAD_TRAINED},
    {SPP_LOSS_CHUNKS_16BIT, &head_temporary, ACT, VOCAB_HIDDEN, 1, HEAD_TRAINED},
};

/* Whole logits exist, and with them their gradient when the head's backward runs. */
static bool has_logits(enum spp_loss_path path) {
  return path != SPP_LOSS_FUSED_LINEAR && path != SPP_LOSS_TILED && path != SPP_LOSS_CHUNKED &&
         path != SPP_LOSS_CHUNKED_HEAD && path != SPP_LOSS_CHUNKED_HEAD_EAGER && path != SPP_LOSS_FPDT;
}

bool spp_loss_exchanges(enum spp_loss_path path) {
  return path == SPP_LOSS_VOCAB_PARALLEL || path == SPP_LOSS_VOCAB_COMPILED || path == SPP_LOSS_IN_PLACE;
}

bool spp_loss_sums_head(const struct spp_framework *f) {
  for (int c = 0; c < SPP_LOSS_CHOICE_COUNT; c++)
    if (f->loss_path[c] == SPP_LOSS_CHUNKED_HEAD || f->loss_path[c] == SPP_LOSS_CHUNKED_HEAD_EAGER)
      return true;
  return false;
}

int64_t spp_liger_chunk_tokens(int64_t tokens, int64_t vocab, int64_t hidden) {
  if (tokens <= 0 || hidden <= 0) return 0;
  return spp_next_pow2(spp_ceil_div(tokens, spp_max64(1, spp_ceil_div(vocab, hidden))));
}

static int64_t chunk_tokens(const struct spp_job *job, enum spp_loss_path path, int64_t tokens,
                            int64_t vocab) {
  const struct spp_framework *f = job->framework;
  int64_t asked = job->loss_chunk_tokens > 0 ? job->loss_chunk_tokens : f->loss_chunk_tokens;
  switch (path) {
  case SPP_LOSS_FUSED_LINEAR: return spp_liger_chunk_tokens(tokens, vocab, job->arch->hidden);
  case SPP_LOSS_FPDT: /* chunks: twice vocabulary over hidden size (arXiv 2408.16978, recalled) */
    return spp_ceil_div(tokens, spp_max64(1, 2 * spp_ceil_div(vocab, spp_max64(1, job->arch->hidden))));
  case SPP_LOSS_CHUNKED_HEAD:
  case SPP_LOSS_CHUNKED_HEAD_EAGER:
  case SPP_LOSS_CHUNKS_16BIT:
  case SPP_LOSS_TILED: return spp_ceil_div(tokens, spp_max64(1, f->loss_shards));
  case SPP_LOSS_CHUNKS_KEPT:
    if (asked <= 0 && f->loss_shards > 0) return spp_ceil_div(tokens, f->loss_shards);
    return asked > 0 ? spp_min64(asked, tokens) : tokens;
  case SPP_LOSS_SP_CHUNKED:
  case SPP_LOSS_CHUNKED: return asked > 0 ? spp_min64(asked, tokens) : tokens;
  default: return 0;
  }
}

/* Keys and values of all layers, or latents, as the model's cache holds them. */
static int64_t reference_cache(const struct spp_job *job, const struct spp_geometry *g) {
  bool mla = job->arch->attention == SPP_ATTENTION_MLA;
  int64_t width = mla ? job->arch->kv_lora_rank + job->arch->qk_rope_dim : g->k_width + g->v_width;
  if (!job->framework->reference_caches) return 0;
  int64_t layers = spp_ceil_div(job->arch->layers, spp_max64(1, g->pp));
  return spp_sat_mul(spp_sat_mul(g->tokens, width), layers * spp_dtype_bytes(spp_activation_dtype(job)));
}

struct spp_loss_view spp_loss_view_of(const struct spp_job *job, const struct spp_geometry *g) {
  struct spp_loss_view v = {0};
  v.path = g->loss_path;
  v.tokens = job->framework->loss_gathers_sequence ? spp_sat_mul(g->tokens, g->sp) : g->tokens;
  bool gathered = job->framework->pairs_whole_vocabulary && spp_loss_is_pairs(v.path);
  v.vocab = gathered ? spp_sat_mul(g->vocab_local, g->tp) : g->vocab_local;
  v.hidden = job->arch->hidden;
  v.chunk_tokens = chunk_tokens(job, v.path, v.tokens, v.vocab);
  v.act = spp_autocast_dtype(job);
  v.head_trained = !spp_job_has_adapters(job) || job->train_embeddings;
  v.keeps_reference = job->framework->keeps_logits_reference;
  v.keeps_in_step = v.keeps_reference && job->framework->keeps_logits_in_step;
  v.compares = job->mode == SPP_MODE_DPO && spp_job_compares(job);
  v.row_tokens = spp_ceil_div(v.tokens, spp_max64(1, g->sequences));
  v.reference_cache_bytes = v.compares ? reference_cache(job, g) : 0;
  v.metrics = job->framework->logit_metrics > 0;
  v.splits_segments = job->framework->splits_segments && !job->packing;
  v.frees_at_once = job->framework->sharding == SPP_SHARDING_UNITS;
  v.gathers_input = g->stream_tokens < g->tokens;
  v.head_temporary = job->framework->sharding == SPP_SHARDING_MEGATRON ||
                     (job->framework->sharding != SPP_SHARDING_FSDP && g->m > 1);
  return v;
}

static bool holds(const struct spp_loss_view *v, enum condition condition) {
  if (condition == HEAD_TRAINED) return v->head_trained;
  if (condition == HEAD_FROZEN) return !v->head_trained;
  if (condition == HEAD_SHARDED) return v->head_trained && v->head_sharded;
  if (condition == REFERENCED) return v->keeps_reference;
  if (condition == NOT_REFERENCED) return !v->keeps_reference;
  return true;
}

/* The 16-bit gradient of the logits makes the gradients of the hidden states and of the head. */
static void add_head(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  const unsigned live = SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD);
  if (v->frees_at_once || !has_logits(v->path)) return;
  spp_memory_add(sum, &logits_gradient, live, v->act, v->tokens, v->vocab, 1);
  spp_memory_add(sum, &hidden_input, live, v->act, v->tokens, v->hidden, v->gathers_input ? 1 : 0);
  spp_memory_add(sum, &hidden_gradient, live, v->act, v->tokens, v->hidden, 1);
  if (v->head_trained && v->head_temporary)
    spp_memory_add(sum, &head_temporary, live, v->act, v->vocab, v->hidden, 1);
}

/* torch's cross entropy under autocast: an fp32 copy and its log-softmax, once for each metric. The step's
 * own temporaries do not exist yet: an optimizer that goes tensor by tensor has small ones. */
static void add_metrics(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  if (!v->metrics || !has_logits(v->path)) return;
  spp_memory_add(sum, &metric_copy, SPP_LIVE(SPP_MOMENT_STEP), SPP_DTYPE_FP32, v->tokens, v->vocab, 1);
  spp_memory_add(sum, &metric_softmax, SPP_LIVE(SPP_MOMENT_STEP), SPP_DTYPE_FP32, v->tokens, v->vocab, 1);
}

static int64_t fp32_logits(const struct spp_loss_view *v) {
  return spp_sat_mul(spp_sat_mul(v->tokens, v->vocab), spp_dtype_bytes(SPP_DTYPE_FP32));
}

/* The largest tensor of a loss over whole logits. */
static int64_t largest_block(const struct spp_loss_view *v) {
  bool narrow = v->path == SPP_LOSS_PAIRS_16BIT || v->path == SPP_LOSS_SP_16BIT ||
                v->path == SPP_LOSS_SP_CHUNKED || v->path == SPP_LOSS_XENTROPY;
  return narrow ? spp_sat_mul(spp_sat_mul(v->tokens, v->vocab), spp_dtype_bytes(v->act)) : fp32_logits(v);
}

/* A batch's layer inputs take the smallest free block that holds them and split it: when they are longer than
 * the last batch's, that is a block of logits. Its segment is in use when the loss asks for blocks as large,
 * and cannot be freed (torch c10/cuda/CUDACachingAllocator get_free_block, should_split,
 * release_cached_blocks). */
static void add_split(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  int64_t bytes = fp32_logits(v);
  if (!v->splits_segments || !has_logits(v->path)) return;
  spp_memory_add_bytes(sum, &split_segment, SPP_LIVE(SPP_MOMENT_LOSS), bytes);
  sum->pinned = spp_sat_add(sum->pinned, bytes);
}

void spp_loss_add(const struct spp_loss_view *v, struct spp_memory_sum *sum) {
  const unsigned away = SPP_LIVE(SPP_MOMENT_STEP) | SPP_LIVE(SPP_MOMENT_FORWARD);
  add_head(v, sum);
  add_metrics(v, sum);
  add_split(v, sum);
  if (has_logits(v->path)) sum->pass_block_bytes = largest_block(v);
  if (spp_loss_is_pairs(v->path)) {
    spp_loss_pairs_add(v, sum);
    return;
  }
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct loss_row *r = &rows[i];
    if (r->path != v->path || !holds(v, r->condition)) continue;
    int64_t n = r->extent == CHUNK_VOCAB ? v->chunk_tokens : r->extent == VOCAB_HIDDEN ? v->vocab : v->tokens;
    int64_t width = r->extent == TOKENS_HIDDEN || r->extent == VOCAB_HIDDEN ? v->hidden : v->vocab;
    unsigned live = SPP_LIVE(SPP_MOMENT_LOSS);
    if (r->element == FP32 && r->extent == TOKENS_VOCAB) sum->pass_blocks += r->copies;
    if (r->condition == REFERENCED && r->tensor->part == SPP_PART_LOGITS)
      live |= SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD) | SPP_LIVE_BACKWARD | (v->keeps_in_step ? away : 0);
    enum spp_dtype dtype = r->element == FP32 ? SPP_DTYPE_FP32 : v->act;
    if (r->tensor->part == SPP_PART_ALLOCATOR)
      spp_memory_add_free(sum, r->tensor, live,
                          spp_sat_mul(spp_sat_mul(n, width), r->copies * spp_dtype_bytes(dtype)));
    else
      spp_memory_add(sum, r->tensor, live, dtype, n, width, r->copies);
  }
}
