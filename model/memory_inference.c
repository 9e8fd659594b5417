#include <string.h>

#include "model/memory_parts.h"

/* Serving: weights, KV cache, and the working set of one scheduler step. */
static const struct spp_tensor cache = {"KV cache", SPP_PART_KV_CACHE,
                                        "keys and values of every token so far"};
static const struct spp_tensor latent_cache = {"KV cache", SPP_PART_KV_CACHE,
                                               "latent and rope key of every token so far"};
static const struct spp_tensor former_cache = {"KV cache of the step before", SPP_PART_KV_CACHE,
                                               "joined with the new token's into another"};
static const struct spp_tensor cache_scales = {"scales of the KV cache", SPP_PART_KV_CACHE,
                                               "scale and zero point of each head's 8-bit values"};
static const struct spp_tensor unpacked_keys = {"unpacked keys", SPP_PART_TRANSIENT,
                                                "less their zero point, and scaled; one layer's"};
static const struct spp_tensor scores = {"attention scores", SPP_PART_TRANSIENT,
                                         "16-bit scores and what their fp32 softmax makes, one layer's"};
static const struct spp_tensor repeated = {"repeated keys and values", SPP_PART_TRANSIENT,
                                           "to all query heads, one layer's"};
static const struct spp_tensor hidden = {"hidden states", SPP_PART_TRANSIENT, "one turn of the scheduler"};
static const struct spp_tensor mlp_work = {"MLP work", SPP_PART_TRANSIENT, "gate, up and their product"};
static const struct spp_tensor expert_rows = {"experts' output", SPP_PART_TRANSIENT, "before it is summed"};
static const struct spp_tensor logits = {"logits", SPP_PART_LOGITS, "one token per sequence"};
static const struct spp_tensor prompt_logits = {"logits of the prompt", SPP_PART_LOGITS,
                                                "of its every token"};
static const struct spp_tensor prompt_logits32 = {"logits of the prompt, fp32", SPP_PART_LOGITS,
                                                  "cast by the model"};
static const struct spp_tensor logits32 = {"logits, fp32", SPP_PART_LOGITS, "of the sampler"};
static const struct spp_tensor sorted = {"sorted logits", SPP_PART_LOGITS, "values and their int64 indices"};
static const struct spp_tensor sort_work = {"work of the sort", SPP_PART_LOGITS,
                                            "reversed indices, second buffers of keys and values"};

enum { FULL_LOGIT_WORDS = 3, SORT_WORDS = 5 };             /* 4-byte words a logit: 4 + 8, and 8 + 4 + 8 */
static const int64_t large_card_bytes = INT64_C(70) << 30; /* vllm/engine/arg_utils.py device_memory */
static const int64_t long_context_tokens = 32768;          /* the same: use_long_context, 0.5.3 to 0.7.2 */

static int64_t on_this_card(const struct spp_job *job, int64_t any, int64_t large) {
  return large > 0 && job->gpu->capacity_bytes >= large_card_bytes ? large : any;
}

/* Tokens of a sequence that the first pass runs; the others are made one by one. A server learns its peak
 * from sequences of the full length, whatever it is asked later. */
static int64_t prompt_of(const struct spp_memory_view *v) {
  int64_t asked = v->job->framework->profiled_sequences > 0 ? 0 : v->job->prompt_tokens;
  return asked > 0 ? spp_min64(asked, v->g->padded_tokens) : v->g->padded_tokens;
}

/* Tokens of one scheduler step at most; 0: whole sequences. */
static int64_t step_of(const struct spp_job *job) {
  const struct spp_framework *f = job->framework;
  if (f->step_tokens_long > 0 && job->seq_tokens > long_context_tokens) return f->step_tokens_long;
  return on_this_card(job, f->step_tokens, f->step_tokens_large);
}

/* Keys a layer still needs: a sliding window forgets the rest. */
static int64_t cached_tokens(int64_t tokens, const struct spp_layer_kind *kind) {
  if (kind->window_tokens <= 0 || kind->window_chunked) return tokens;
  return spp_min64(tokens, kind->window_tokens);
}

/* The cache of one kind of layer after so many tokens a sequence. */
struct cache_view {
  const struct spp_memory_view *v;
  const struct spp_layer_kind *kind;
  struct spp_memory_sum *sum;
};

static void add_cached(const struct cache_view *c, const struct spp_tensor *tensor, unsigned live,
                       int64_t tokens, int64_t width, int64_t copies) {
  int64_t rows = spp_sat_mul(c->v->g->sequences, cached_tokens(tokens, c->kind));
  spp_memory_add(c->sum, tensor, live, c->v->job->kv_dtype, rows, width, copies);
}

static void add_scales(const struct cache_view *c, unsigned live, int64_t tokens, int64_t layers) {
  const struct spp_framework *f = c->v->job->framework;
  if (f->kv_scale_bytes <= 0 || c->v->job->kv_dtype != SPP_DTYPE_INT8) return;
  int64_t heads = spp_sat_mul(2 * c->v->g->kv_heads_local, layers);
  int64_t rows = spp_sat_mul(c->v->g->sequences, cached_tokens(tokens, c->kind));
  spp_memory_add_bytes(c->sum, &cache_scales, live, spp_sat_mul(spp_sat_mul(rows, heads), f->kv_scale_bytes));
}

/* A cache in its own room is there from the start. One that is joined with each new token holds the prompt in
 * the first pass; when the last token is made, the cache of the step before is there as well: whole
 * (transformers 4.35.2 models/llama/modeling_llama.py LlamaAttention.forward torch.cat, generation/utils.py
 * _update_model_kwargs_for_generation; QwenLM's code in modelscope 1.9.5 models/nlp/qwen/backbone.py
 * QWenAttention.forward), or one layer's keys or values (transformers 4.44.2 cache_utils.py
 * DynamicCache.update). */
static void add_kind(const struct cache_view *c, const struct spp_tensor *tensor, int64_t width,
                     int64_t widest, int64_t layers) {
  const unsigned first = SPP_LIVE(SPP_MOMENT_FORWARD) | SPP_LIVE(SPP_MOMENT_LOSS),
                 last = SPP_LIVE(SPP_MOMENT_STEP);
  enum spp_cache_growth growth = c->v->job->framework->cache_growth;
  int64_t all = c->v->g->padded_tokens;
  if (growth == SPP_CACHE_IN_PLACE) {
    add_cached(c, tensor, SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD), all, width, layers);
    add_scales(c, SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD), all, layers);
    return;
  }
  bool whole = growth == SPP_CACHE_JOINS_ALL;
  add_cached(c, tensor, first, prompt_of(c->v), width, layers);
  add_scales(c, first, prompt_of(c->v), layers);
  add_cached(c, tensor, last, all, width, layers);
  add_scales(c, last, all, layers);
  add_cached(c, &former_cache, last, all - 1, whole ? width : widest, whole ? layers : 1);
  if (whole) add_scales(c, last, all - 1, layers);
}

/* 2 L dk e per token; MLA keeps the latent and the shared rope key, whole on every tensor-parallel rank. */
static void add_cache(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_arch *a = v->job->arch;
  bool mla = a->attention == SPP_ATTENTION_MLA;
  for (int k = 0; k < a->kind_count; k++) {
    const struct cache_view c = {v, &a->kinds[k], sum};
    int64_t width = mla ? a->kv_lora_rank + a->qk_rope_dim : v->g->k_width + v->g->v_width;
    int64_t widest = mla ? width : spp_max64(v->g->k_width, v->g->v_width);
    if (s->stage->kind_layers[k] > 0)
      add_kind(&c, mla ? &latent_cache : &cache, width, widest, s->stage->kind_layers[k]);
  }
}

/* One score of eager attention. torch's softmax in fp32 takes a copy of bf16 scores in fp32 and gives another
 * matrix; on a GPU it reads fp16 ones as they are, and what it gives is cast beside them
 * (aten/src/ATen/native/ SoftMax.cpp softmax; counted with the profiler of torch 2.15 on a CPU). */
static int64_t score_bytes(enum spp_dtype dtype) {
  if (dtype == SPP_DTYPE_FP32) return 4 + 4;
  return dtype == SPP_DTYPE_BF16 ? 2 + 4 + 4 : 2 + 4 + 2;
}

/* What attention makes of one layer's cache, in the first pass over the prompt and for the last token. Eager
 * attention and SDPA repeat K and V to all query heads (transformers models/llama/modeling_llama.py
 * repeat_kv). */
static void add_attention(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const unsigned first = SPP_LIVE(SPP_MOMENT_FORWARD), last = SPP_LIVE(SPP_MOMENT_STEP);
  const struct spp_framework *f = v->job->framework;
  bool eager = v->job->attention == SPP_ATTN_EAGER, sdpa = v->job->attention == SPP_ATTN_SDPA;
  int64_t prompt = prompt_of(v), all = v->g->padded_tokens;
  if (f->cache_growth == SPP_CACHE_IN_PLACE) return; /* a server's kernels read the cache where it is */
  if ((eager || sdpa) && v->g->heads_local > v->g->kv_heads_local) {
    spp_memory_add(sum, &repeated, first, v->act, spp_sat_mul(v->g->sequences, prompt), v->g->q_width, 2);
    spp_memory_add(sum, &repeated, last, v->act, spp_sat_mul(v->g->sequences, all), v->g->q_width, 2);
  }
  if (f->kv_scale_bytes > 0 && v->job->kv_dtype == SPP_DTYPE_INT8)
    spp_memory_add(sum, &unpacked_keys, last, v->act, spp_sat_mul(v->g->sequences, all), v->g->k_width, 2);
  if (!eager) return;
  int64_t rows = spp_sat_mul(v->g->sequences, v->g->heads_local), bytes = score_bytes(v->act);
  spp_memory_add_bytes(sum, &scores, first,
                       spp_sat_mul(spp_sat_mul(rows, bytes), spp_sat_mul(prompt, prompt)));
  spp_memory_add_bytes(sum, &scores, last, spp_sat_mul(spp_sat_mul(rows, bytes), all));
}

/* The server learns its peak from a run of the longest step, whose sampler sorts whole rows of logits for
 * top-p: 16-bit logits, fp32 ones, sorted values with int64 indices, and the sort's own reversed indices and
 * double buffers (vllm 0.9.2 v1/worker/gpu_model_runner.py _dummy_sampler_run, v1/sample/ops/
 * topk_topp_sampler.py apply_top_k_top_p, read; torch ATen/native/cuda/Sort.cu segmented_sort_pairs
 * [recalled]). Every rank has the whole vocabulary. */
static void add_sampler(const struct spp_memory_view *v, int64_t sequences, struct spp_memory_sum *sum) {
  const unsigned live = SPP_LIVE(SPP_MOMENT_LOSS);
  int64_t vocab = v->job->arch->vocab;
  spp_memory_add(sum, &logits, live, v->act, sequences, vocab, 1);
  spp_memory_add(sum, &logits32, live, SPP_DTYPE_FP32, sequences, vocab, 1);
  spp_memory_add(sum, &sorted, live, SPP_DTYPE_FP32, sequences, vocab, FULL_LOGIT_WORDS);
  spp_memory_add(sum, &sort_work, live, SPP_DTYPE_FP32, sequences, vocab, SORT_WORDS);
}

/* Models whose code does not cast logits to fp32 are those whose loss an engine takes in 16 bit. */
static bool casts_logits(const struct spp_job *job) {
  if (job->framework->prompt_logits_16bit) return false;
  for (int i = 0; i < SPP_MAX_REFUSED_TYPES && job->framework->engine_loss_types[i][0]; i++)
    if (strcmp(job->framework->engine_loss_types[i], job->arch->model_type) == 0) return false;
  return true;
}

static void add_logits(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const struct spp_framework *f = v->job->framework;
  const unsigned prompt = SPP_LIVE(SPP_MOMENT_LOSS);
  int64_t profiled = on_this_card(v->job, f->profiled_sequences, f->profiled_sequences_large);
  if (profiled > 0) {
    add_sampler(v, profiled, sum);
    return;
  }
  unsigned live = prompt | (f->cache_growth == SPP_CACHE_IN_PLACE ? 0u : SPP_LIVE(SPP_MOMENT_STEP));
  spp_memory_add(sum, &logits, live, SPP_DTYPE_FP32, v->g->sequences, v->g->vocab_local, 2);
  if (!f->prompt_logits) return;
  int64_t rows = spp_sat_mul(v->g->sequences, prompt_of(v));
  spp_memory_add(sum, &prompt_logits, prompt, v->act, rows, v->g->vocab_local, 1);
  if (casts_logits(v->job))
    spp_memory_add(sum, &prompt_logits32, prompt, SPP_DTYPE_FP32, rows, v->g->vocab_local, 1);
}

/* The work of a layer over the tokens of a step. */
static void add_work(const struct spp_memory_stage *s, unsigned live, int64_t rows,
                     struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_arch *a = v->job->arch;
  bool moe = s->layers[SPP_LAYER_MOE] > 0;
  int64_t width =
      moe ? spp_sat_mul(a->experts_per_token, spp_mlp_width(v->g, v->kind[SPP_LAYER_MOE], SPP_ROLE_EXPERT))
          : spp_mlp_width(v->g, v->kind[SPP_LAYER_DENSE], SPP_ROLE_MLP);
  spp_memory_add(sum, &hidden, live, v->act, rows, spp_sat_add(2 * a->hidden, v->g->q_width), 1);
  spp_memory_add(sum, &mlp_work, live, v->act, rows, width, 3);
  if (moe) /* vllm 0.9.2 model_executor/layers/fused_moe/fused_moe.py intermediate_cache3 */
    spp_memory_add(sum, &expert_rows, live, v->act, spp_sat_mul(rows, a->experts_per_token), a->hidden, 1);
}

void spp_memory_add_inference(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_framework *f = v->job->framework;
  int64_t step = step_of(v->job);
  int64_t prompt = spp_sat_mul(v->g->sequences, prompt_of(v));
  int64_t rows = step > 0 ? spp_min64(prompt, step) : prompt;
  if (f->profiled_sequences > 0 && step > 0)
    rows = step; /* the run it learns its peak from is as long as a step can be */
  add_cache(s, sum);
  add_attention(v, sum);
  add_work(s, SPP_LIVE(SPP_MOMENT_FORWARD), rows, sum);
  if (f->cache_growth != SPP_CACHE_IN_PLACE) add_work(s, SPP_LIVE(SPP_MOMENT_STEP), v->g->sequences, sum);
  if (s->stage->last) add_logits(v, sum);
}
