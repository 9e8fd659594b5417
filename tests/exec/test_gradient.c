/* The engine's gradients against differences of its loss: what one rank computes is right, so that other
 * layouts may be held to it. */
#include <math.h>

#include "exec/engine.h"
#include "exec/suite.h"
#include "exec/try.h"
#include "tests/exec/ranks.h"

#define SHAPE                                                                                                \
  "\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,\"num_attention_heads\":4,"           \
  "\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":64,"
static const int64_t documents[] = {9, 4, 11, 6};

static const struct gradient_case {
  const char *name, *model;
  const int64_t *doc_lengths;
  int64_t doc_count;
} cases[] = {
    {"biases", "{\"model_type\":\"qwen2\"," SHAPE "\"tie_word_embeddings\":false}", NULL, 0},
    {"norms of q and k, tied, packed", "{\"model_type\":\"qwen3\"," SHAPE "\"tie_word_embeddings\":true}",
     documents, 4},
    {"experts",
     "{\"model_type\":\"qwen3_moe\"," SHAPE "\"moe_intermediate_size\":24,\"num_experts\":4,\"num_experts_"
     "per_tok\":2,\"tie_word_embeddings\":false}",
     NULL, 0},
    {"a window, one layer full, q, k and v joined",
     "{\"model_type\":\"phi3\"," SHAPE "\"sliding_window\":5,\"layer_types\":[\"sliding_attention\","
     "\"full_attention\"],\"tie_word_embeddings\":false}",
     documents, 4},
    {"biases everywhere",
     "{\"model_type\":\"llama\"," SHAPE "\"attention_bias\":true,\"mlp_bias\":true,"
     "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"a quarter of the head turned, layers without",
     "{\"model_type\":\"smollm3\"," SHAPE "\"partial_rotary_factor\":0.25,\"no_rope_layer_interval\":2,"
     "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"half of the head turned in neighbours",
     "{\"model_type\":\"glm\"," SHAPE "\"tie_word_embeddings\":false}", documents, 4},
    {"linear biases of positions", "{\"model_type\":\"baichuan\"," SHAPE "\"tie_word_embeddings\":false}",
     documents, 4},
    {"capped scores, another factor, other angles in windows",
     "{\"model_type\":\"llama\"," SHAPE "\"attn_logit_softcapping\":1.5,\"attention_multiplier\":0.9,"
     "\"rope_local_base_freq\":50.0,\"sliding_window\":5,\"layer_types\":[\"sliding_attention\",\"full_"
     "attention\"],"
     "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"norms over all of q and k",
     "{\"model_type\":\"olmoe\"," SHAPE
     "\"num_experts\":4,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}",
     NULL, 0},
    {"latents of q and of k and v, with biases",
     "{\"model_type\":\"llama\"," SHAPE "\"q_lora_rank\":12,\"kv_lora_rank\":20,\"qk_nope_head_dim\":16,"
     "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"attention_bias\":true,\"tie_word_embeddings\":false}",
     documents, 4},
    {"latents of k and v alone, v wider",
     "{\"model_type\":\"llama\"," SHAPE "\"kv_lora_rank\":20,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,"
     "\"v_head_dim\":24,\"tie_word_embeddings\":false}",
     NULL, 0},
    {"layer norms of q and k",
     "{\"model_type\":\"cohere\"," SHAPE "\"use_qk_norm\":true,\"logit_scale\":0.5}", NULL, 0},
    {"sinks",
     "{\"model_type\":\"gpt_oss\"," SHAPE
     "\"sliding_window\":5,\"num_local_experts\":4,\"num_experts_per_tok\":2,"
     "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"a router of sigmoids",
     "{\"model_type\":\"glm4_moe\"," SHAPE "\"moe_intermediate_size\":24,\"n_routed_experts\":4,"
     "\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"tie_word_embeddings\":false}",
     NULL, 0},
    {"a dense layer, then experts and a shared one behind a gate",
     "{\"model_type\":\"qwen2_moe\"," SHAPE "\"moe_intermediate_size\":24,\"num_experts\":4,"
     "\"num_experts_per_tok\":2,\"shared_expert_intermediate_size\":40,\"mlp_only_layers\":[0],"
     "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"LayerNorms, no gate, learned positions, tied, packed",
     "{\"model_type\":\"gpt2\"," SHAPE "\"n_positions\":40}", documents, 4},
    {"ReLU, positions that begin at 2", "{\"model_type\":\"opt\"," SHAPE "\"max_position_embeddings\":16}",
     NULL, 0},
    {"ReLU^2, no biases of products", "{\"model_type\":\"nemotron\"," SHAPE "\"tie_word_embeddings\":false}",
     NULL, 0},
    {"parallel branches, one norm, a bias of the head",
     "{\"model_type\":\"gptj\"," SHAPE "\"tie_word_embeddings\":false}", NULL, 0},
    {"parallel branches, a norm each, GELU",
     "{\"model_type\":\"gpt_neox\"," SHAPE "\"hidden_act\":\"gelu\",\"tie_word_embeddings\":false}", NULL, 0},
    {"parallel branches, norms without bias, scaled logits",
     "{\"model_type\":\"cohere\"," SHAPE "\"logit_scale\":0.5}", NULL, 0},
    {"norms without weights", "{\"model_type\":\"olmo\"," SHAPE "\"tie_word_embeddings\":false}", documents,
     4},
    {"norms before and behind, GeGLU, scaled embedding, capped logits",
     "{\"model_type\":\"gemma2\"," SHAPE "\"final_logit_softcapping\":2.0,\"attn_logit_softcapping\":null}",
     NULL, 0},
    {"norms behind alone", "{\"model_type\":\"exaone4\"," SHAPE "\"tie_word_embeddings\":false}", NULL, 0},
    {"factors on embedding, branches and logits",
     "{\"model_type\":\"granite\"," SHAPE "\"embedding_multiplier\":3.0,\"residual_multiplier\":0.4,"
     "\"logits_scaling\":2.0}",
     NULL, 0},
};

/* Weights of one slot over all units, moved by `step` along the gradient; returns the squared length of it.
 */
static double move(struct spp_engine *e, const float *gradient, int slot, double step) {
  double squares = 0;
  for (int64_t u = 0; u < e->weights.unit_count; u++) {
    const struct spp_unit *unit = &e->weights.units[u];
    const struct spp_held *h = &unit->held[slot];
    int64_t at = h->offset + (spp_slot_is_expert(slot) ? unit->expert_offset : unit->offset);
    for (int64_t i = 0; h->weight && i < h->rows * h->cols; i++) {
      double g = (double)gradient[at + i];
      ((float *)e->states.weights)[at + i] += (float)(step * g);
      squares += g * g;
    }
  }
  return squares;
}

static enum spp_status loss_of(struct spp_engine *e, double *loss) {
  SPP_TRY(spp_engine_gradients(e));
  *loss = e->loss;
  return SPP_OK;
}

/* (L(w + s g) - L(w - s g)) / 2s = |g|^2 + O(s^2). s moves the loss by some 1e-3: fp32 sums are good to 1e-6.
 */
static enum spp_status check_slot(struct spp_engine *e, const float *gradient, const float *weights, int slot,
                                  double least) {
  double squares = move(e, gradient, slot, 0), up, down;
  if (squares <= least) return SPP_OK;
  double step = 1e-3 / squares;
  size_t bytes = (size_t)e->weights.floats * sizeof(float);
  move(e, gradient, slot, step);
  SPP_TRY(loss_of(e, &up));
  memcpy(e->states.weights, weights, bytes);
  move(e, gradient, slot, -step);
  SPP_TRY(loss_of(e, &down));
  memcpy(e->states.weights, weights, bytes);
  double difference = (up - down) / (2 * step);
  if (fabs(difference - squares) > 0.02 * squares) {
    print_message("slot %d: %g by differences, %g by backward\n", slot, difference, squares);
    return spp_diag_set(e->rank->diag, SPP_ERR_TOLERANCE, NULL, NULL, "a gradient is wrong");
  }
  return SPP_OK;
}

static enum spp_status check_engine(struct spp_engine *e) {
  size_t bytes = (size_t)e->weights.floats * sizeof(float);
  float *gradient = malloc(bytes), *weights = malloc(bytes);
  double loss;
  enum spp_status status = gradient && weights ? loss_of(e, &loss) : spp_diag_oom(e->rank->diag);
  if (status == SPP_OK) {
    memcpy(gradient, e->states.grads, bytes);
    memcpy(weights, e->states.weights, bytes);
  }
  /* A bias of keys that are not rotated has a gradient of rounding errors only. */
  double least = 0;
  for (int slot = 0; slot < SPP_SLOT_COUNT && status == SPP_OK; slot++)
    least += 1e-12 * move(e, gradient, slot, 0);
  for (int slot = 0; slot < SPP_SLOT_COUNT && status == SPP_OK; slot++)
    status = check_slot(e, gradient, weights, slot, least);
  free(gradient);
  free(weights);
  return status;
}

static enum spp_status rank_main(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  static struct spp_rank rank;
  static struct spp_engine engine;
  enum spp_status status = spp_rank_open(&rank, end, NULL, diag);
  if (status == SPP_OK) status = spp_engine_open(&rank, context, &engine);
  if (status == SPP_OK) status = check_engine(&engine);
  spp_engine_close(&engine);
  spp_rank_close(&rank);
  return status;
}

static void backward_follows_the_loss(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct gradient_case *c = &cases[i];
    struct spp_exec_setting setting = {.layout = spp_layout_plain(),
                                       .seq_tokens = 16,
                                       .doc_lengths = c->doc_lengths,
                                       .doc_count = c->doc_count};
    struct spp_arena arena;
    struct spp_diag diag = {.status = SPP_OK};
    static struct spp_exec_plan plan;
    spp_arena_init(&arena);
    setting.layout.grad_accum = 2;
    expect_note("%s", c->name);
    expect_status(spp_arch_parse(c->model, strlen(c->model), "test", &arena, &setting.arch, &diag), SPP_OK,
                  &diag);
    expect_status(spp_exec_plan_open(SPP_SOURCE_DIR "/configs", &setting, &plan, &diag), SPP_OK, &diag);
    expect_status(spp_backend_self.run(1, 60, rank_main, &plan, &diag), SPP_OK, &diag);
    spp_exec_plan_close(&plan);
    spp_arena_free(&arena);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(backward_follows_the_loss)};
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
