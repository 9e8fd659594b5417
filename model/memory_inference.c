#include "model/memory_parts.h"

/* Serving: weights, KV cache, and the working set of one scheduler step. */
static const struct spp_tensor cache = {"KV cache", SPP_PART_KV_CACHE,
                                        "keys and values of every token so far"};
static const struct spp_tensor latent_cache = {"KV cache", SPP_PART_KV_CACHE,
                                               "latent and rope key of every token so far"};
static const struct spp_tensor hidden = {"hidden states", SPP_PART_TRANSIENT, "one scheduler step"};
static const struct spp_tensor mlp_work = {"MLP work", SPP_PART_TRANSIENT, "gate, up and their product"};
static const struct spp_tensor expert_rows = {"experts' output", SPP_PART_TRANSIENT, "before it is summed"};
static const struct spp_tensor logits = {"logits", SPP_PART_LOGITS, "one token per sequence"};
static const struct spp_tensor logits32 = {"logits, fp32", SPP_PART_LOGITS, "of the sampler"};
static const struct spp_tensor sorted = {"sorted logits", SPP_PART_LOGITS, "values and their int64 indices"};
static const struct spp_tensor sort_work = {"work of the sort", SPP_PART_LOGITS,
                                            "reversed indices, second buffers of keys and values"};

enum { FULL_LOGIT_WORDS = 3, SORT_WORDS = 5 }; /* 4-byte words a logit: 4 + 8, and 8 + 4 + 8 */
static const int64_t large_card_bytes = INT64_C(70) << 30; /* vllm/engine/arg_utils.py device_memory */

static int64_t on_this_card(const struct spp_job *job, int64_t any, int64_t large) {
  return large > 0 && job->gpu->capacity_bytes >= large_card_bytes ? large : any;
}

/* Keys a layer still needs: a sliding window forgets the rest. */
static int64_t cached_tokens(const struct spp_geometry *g, const struct spp_layer_kind *kind) {
  if (kind->window_tokens <= 0 || kind->window_chunked) return g->padded_tokens;
  return spp_min64(g->padded_tokens, kind->window_tokens);
}

/* 2 L dk e per token; MLA keeps the latent and the shared rope key, whole on every tensor-parallel rank. */
static void add_cache(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_arch *a = v->job->arch;
  bool mla = a->attention == SPP_ATTENTION_MLA;
  for (int k = 0; k < a->kind_count; k++) {
    int64_t rows = spp_sat_mul(v->g->sequences, cached_tokens(v->g, &a->kinds[k]));
    int64_t layers = s->stage->kind_layers[k];
    if (layers == 0) continue;
    if (mla)
      spp_memory_add(sum, &latent_cache, SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD), v->job->kv_dtype, rows,
                     a->kv_lora_rank + a->qk_rope_dim, layers);
    else
      spp_memory_add(sum, &cache, SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD), v->job->kv_dtype, rows,
                     v->g->k_width + v->g->v_width, layers);
  }
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

void spp_memory_add_inference(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_arch *a = v->job->arch;
  const unsigned live = SPP_LIVE(SPP_MOMENT_FORWARD);
  const struct spp_framework *f = v->job->framework;
  int64_t step = on_this_card(v->job, f->step_tokens, f->step_tokens_large);
  int64_t profiled = on_this_card(v->job, f->profiled_sequences, f->profiled_sequences_large);
  int64_t rows = step > 0 ? spp_min64(v->g->tokens, step) : v->g->tokens;
  if (profiled > 0 && step > 0) rows = step; /* the run it learns its peak from is as long as a step can be */
  bool moe = s->layers[SPP_LAYER_MOE] > 0;
  int64_t width =
      moe ? spp_sat_mul(a->experts_per_token, spp_mlp_width(v->g, v->kind[SPP_LAYER_MOE], SPP_ROLE_EXPERT))
          : spp_mlp_width(v->g, v->kind[SPP_LAYER_DENSE], SPP_ROLE_MLP);
  add_cache(s, sum);
  spp_memory_add(sum, &hidden, live, v->act, rows, spp_sat_add(2 * a->hidden, v->g->q_width), 1);
  spp_memory_add(sum, &mlp_work, live, v->act, rows, width, 3);
  if (moe) /* vllm 0.9.2 model_executor/layers/fused_moe/fused_moe.py intermediate_cache3 */
    spp_memory_add(sum, &expert_rows, live, v->act, spp_sat_mul(rows, a->experts_per_token), a->hidden, 1);
  if (s->stage->last && profiled > 0)
    add_sampler(v, profiled, sum);
  else if (s->stage->last)
    spp_memory_add(sum, &logits, SPP_LIVE(SPP_MOMENT_LOSS), SPP_DTYPE_FP32, v->g->sequences,
                   v->g->vocab_local, 2);
}
