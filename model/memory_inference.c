#include "model/memory_parts.h"

/* Serving: weights, KV cache, and the working set of one scheduler step. */
static const struct spp_tensor cache = {"KV cache", SPP_PART_KV_CACHE,
                                        "keys and values of every token so far"};
static const struct spp_tensor latent_cache = {"KV cache", SPP_PART_KV_CACHE,
                                               "latent and rope key of every token so far"};
static const struct spp_tensor hidden = {"hidden states", SPP_PART_TRANSIENT, "one scheduler step"};
static const struct spp_tensor mlp_work = {"MLP work", SPP_PART_TRANSIENT, "gate, up and their product"};
static const struct spp_tensor logits = {"logits", SPP_PART_LOGITS, "one token per sequence"};

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

void spp_memory_add_inference(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_arch *a = v->job->arch;
  const unsigned live = SPP_LIVE(SPP_MOMENT_FORWARD);
  int64_t step = v->job->framework->step_tokens;
  int64_t rows = step > 0 ? spp_min64(v->g->tokens, step) : v->g->tokens;
  bool moe = s->layers[SPP_LAYER_MOE] > 0;
  int64_t width =
      moe ? spp_sat_mul(a->experts_per_token, spp_mlp_width(v->g, v->kind[SPP_LAYER_MOE], SPP_ROLE_EXPERT))
          : spp_mlp_width(v->g, v->kind[SPP_LAYER_DENSE], SPP_ROLE_MLP);
  add_cache(s, sum);
  spp_memory_add(sum, &hidden, live, v->act, rows, spp_sat_add(2 * a->hidden, v->g->q_width), 1);
  spp_memory_add(sum, &mlp_work, live, v->act, rows, width, 3);
  if (s->stage->last)
    spp_memory_add(sum, &logits, SPP_LIVE(SPP_MOMENT_LOSS), SPP_DTYPE_FP32, v->g->sequences,
                   v->g->vocab_local, 2);
}
