/* Reading config.json: shapes and traits of each family. */
#include "tests/model/arch_case.h"

/* Figures of the published config.json files. */
static void each_family_is_read_from_its_own_field_names(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  } cases[] = {
      {"llama3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256},
      {"qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, 152064},
      {"qwen3-4b", 36, 2560, 9728, 32, 8, 128, 151936},
      {"qwen-7b", 32, 4096, 11008, 32, 32, 128, 151936}, /* intermediate_size 22016 is both halves */
      {"gpt2", 12, 768, 3072, 12, 12, 64, 50257},
      {"falcon-7b", 32, 4544, 18176, 71, 1, 64, 65024},
      {"falcon-40b", 60, 8192, 32768, 128, 8, 64, 65024},
      {"mpt-7b", 32, 4096, 16384, 32, 32, 128, 50368},
      {"opt-1.3b", 24, 2048, 8192, 32, 32, 64, 50272},
      {"chatglm3-6b", 28, 4096, 13696, 32, 2, 128, 65024},
      {"qwen3-vl-8b", 36, 4096, 12288, 32, 8, 128, 151936}, /* nested text_config */
      {"gemma2-9b", 42, 3584, 14336, 16, 8, 256, 256000},
      {"phi-1.5", 24, 2048, 8192, 32, 32, 64, 51200},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    spp_arena_init(&arena);
    const struct spp_arch *a = load(cases[i].name, &arena);
    expect_i64(a->layers, cases[i].layers);
    expect_i64(a->hidden, cases[i].hidden);
    expect_i64(a->ffn, cases[i].ffn);
    expect_i64(a->heads, cases[i].heads);
    expect_i64(a->kv_heads, cases[i].kv_heads);
    expect_i64(a->head_dim, cases[i].head_dim);
    expect_i64(a->vocab, cases[i].vocab);
    expect_str(a->name, cases[i].name);
    spp_arena_free(&arena);
  }
}

static void every_shipped_model_is_consistent(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const char *const *names;
  int count = 0;
  spp_arena_init(&arena);
  expect_status(spp_arch_list(CONFIGS, &arena, &names, &count, &diag), SPP_OK, &diag);
  for (int i = 0; i < count; i++) {
    const struct spp_arch *a = load(names[i], &arena);
    int64_t layers = 0;
    expect_i64(a->note_count, 0); /* nothing in our own files is guessed */
    for (int k = 0; k < a->kind_count; k++) {
      layers += a->kinds[k].count;
      expect_true(a->kinds[k].weight_count < SPP_MAX_LAYER_WEIGHTS);
      expect_true(!a->kinds[k].moe || a->experts > 0);
    }
    expect_i64(layers, a->layers);
    expect_true(a->outer_weight_count < SPP_MAX_LAYER_WEIGHTS);
    expect_true(a->display[0] != '\0');
    if (i > 0) expect_true(strcmp(names[i - 1], names[i]) < 0);
  }
  spp_arena_free(&arena);
}

/* Which layers have experts and windows: configuration_*.py of huggingface/transformers. */
static void layers_fall_into_the_kinds_their_family_says(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t layer;
    bool moe, chunked;
    int64_t window_tokens;
  } cases[] = {
      {"deepseek-v3", 2, false, false, 0},        {"deepseek-v3", 3, true, false, 0},
      {"llama4-scout", 0, true, true, 8192},      {"llama4-scout", 3, true, false, 0},
      {"llama4-maverick", 0, false, true, 8192},  {"llama4-maverick", 1, true, true, 8192},
      {"gemma2-9b", 0, false, false, 4096},       {"gemma2-9b", 1, false, false, 0},
      {"gemma3-4b", 4, false, false, 1024},       {"gemma3-4b", 5, false, false, 0},
      {"gpt-oss-20b", 0, true, false, 128},       {"gpt-oss-20b", 1, true, false, 0},
      {"mistral-7b-v0.1", 7, false, false, 4096}, {"mistral-7b-v0.3", 7, false, false, 0},
      {"phi-3-mini-128k", 0, false, false, 0}, /* its window is longer than its positions */
      {"glm-4.7-flash", 0, false, false, 0},      {"glm-4.7-flash", 1, true, false, 0},
      {"qwen2.5-7b", 27, false, false, 0},        {"qwen3-30b-a3b", 0, true, false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    spp_arena_init(&arena);
    const struct spp_arch *a = load(cases[i].name, &arena);
    const struct spp_layer_kind *kind = &a->kinds[a->kind_of_layer[cases[i].layer]];
    expect_note("%s layer %d", cases[i].name, (int)cases[i].layer);
    expect_true(kind->moe == cases[i].moe);
    expect_true(kind->window_chunked == cases[i].chunked);
    expect_i64(kind->window_tokens, cases[i].window_tokens);
    spp_arena_free(&arena);
  }
}

/* Keys are 128 + 64 wide per head and values 128, both expanded to all 128 heads. */
static void latent_attention_has_its_own_widths(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  const struct spp_arch *a = load("deepseek-v3", &arena);
  expect_true(a->attention == SPP_ATTENTION_MLA);
  expect_i64(spp_arch_q_width(a), 24576);
  expect_i64(spp_arch_k_width(a), 24576);
  expect_i64(spp_arch_v_width(a), 16384);
  expect_i64(spp_arch_o_width(a), 16384);
  expect_i64(spp_arch_kv_heads(a), 128);
  expect_i64(a->mtp_layers, 1);
  expect_true(a->router_sigmoid);
  spp_arena_free(&arena);
}

static void traits_of_a_family_are_set(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  const struct spp_arch *gpt_oss = load("gpt-oss-20b", &arena);
  expect_true(gpt_oss->attention_sinks && gpt_oss->expert_bias && gpt_oss->router_bias && gpt_oss->o_bias);
  const struct spp_arch *gemma = load("gemma2-9b", &arena);
  expect_true(gemma->tied && gemma->logit_softcap > 0 && gemma->attention_softcap > 0);
  expect_i64(gemma->norms_per_layer, 4);
  const struct spp_arch *falcon = load("falcon-7b", &arena);
  expect_true(falcon->parallel_block && falcon->norm == SPP_NORM_LAYER && falcon->mlp == SPP_MLP_PLAIN);
  expect_i64(falcon->norms_per_layer, 1);
  expect_i64(load("falcon-40b", &arena)->norms_per_layer, 2);
  expect_true(load("olmo2-7b", &arena)->qk_norm == SPP_QK_NORM_FULL);
  expect_true(load("glm-4.5", &arena)->qk_norm == SPP_QK_NORM_HEAD);
  expect_true(load("glm-4.5-air", &arena)->qk_norm == SPP_QK_NORM_NONE);
  expect_true(load("mosaicml-mpt-7b", &arena)->norm == SPP_NORM_LAYER_NO_BIAS);
  expect_i64(load("mosaicml-mpt-7b", &arena)->learned_positions, 0);
  expect_i64(load("mpt-7b", &arena)->learned_positions, 2048);
  expect_i64(load("opt-1.3b", &arena)->learned_positions, 2050); /* two offset rows */
  const struct spp_arch *shared = load("qwen2-57b-a14b", &arena);
  expect_true(shared->shared_expert_gate);
  expect_i64(shared->shared_experts * shared->shared_expert_ffn, 20480);
  const struct spp_arch *lite = load("deepseek-v2-lite", &arena);
  expect_i64(lite->shared_experts * lite->shared_expert_ffn, 2816);
  spp_arena_free(&arena);
}

/* What the modeling_*.py of each family computes between its products. Gemma's first configs say "gelu" and
 * mean the tanh form; MPT's say nothing; OPT's table begins with two rows that no token reads. */
static void blocks_compute_what_their_familys_code_does(void **state) {
  (void)state;
  static const struct {
    const char *name;
    enum spp_activation activation;
    double embedding_scale, logit_scale, logit_softcap;
    int64_t first_position;
    bool norms_behind;
  } cases[] = {
      {"llama3.1-8b", SPP_SILU, 1, 1, 0, 0, false},
      {"gpt2", SPP_GELU_TANH, 1, 1, 0, 0, false},
      {"opt-1.3b", SPP_RELU, 1, 1, 0, 2, false},
      {"falcon-7b", SPP_GELU, 1, 1, 0, 0, false},
      {"mosaicml-mpt-7b", SPP_GELU, 1, 1, 0, 0, false},
      {"pythia-1.4b", SPP_GELU, 1, 1, 0, 0, false},
      {"phi-2", SPP_GELU_TANH, 1, 1, 0, 0, false},
      {"starcoder2-3b", SPP_GELU_TANH, 1, 1, 0, 0, false},
      {"chatglm3-6b", SPP_SILU, 1, 1, 0, 0, false},
      {"command-r-32b", SPP_SILU, 1, 0.0625, 0, 0, false},
      {"gemma-2b", SPP_GELU_TANH, 45.254833995939045, 1, 0, 0, false}, /* the root of 2,048 */
      {"gemma2-2b", SPP_GELU_TANH, 48, 1, 30, 0, false},               /* of 2,304 */
      {"olmo2-7b", SPP_SILU, 1, 1, 0, 0, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    spp_arena_init(&arena);
    const struct spp_arch *a = load(cases[i].name, &arena);
    expect_note("%s", cases[i].name);
    expect_i64(a->activation, cases[i].activation);
    expect_rel(a->embedding_scale, cases[i].embedding_scale, 1e-12);
    expect_rel(a->logit_scale, cases[i].logit_scale, 1e-12);
    expect_near(a->logit_softcap, cases[i].logit_softcap, 0);
    expect_i64(a->first_position, cases[i].first_position);
    expect_true(a->norms_behind == cases[i].norms_behind);
    spp_arena_free(&arena);
  }
  expect_note("%s", "");
}

/* Granite divides its logits (modeling_granite.py). */
static void factors_and_functions_are_read_from_the_config(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *a;
  spp_arena_init(&arena);
  expect_status(parse_arch("{\"model_type\":\"granite\"," USUAL ",\"embedding_multiplier\":12.0,"
                           "\"residual_multiplier\":0.25,\"logits_scaling\":8.0,\"hidden_act\":\"relu2\"}",
                           &arena, &a, &diag),
                SPP_OK, &diag);
  expect_near(a->embedding_scale, 12, 0);
  expect_near(a->residual_scale, 0.25, 0);
  expect_near(a->logit_scale, 0.125, 0);
  expect_i64(a->activation, SPP_RELU2);
  expect_i64(a->note_count, 0);
  expect_status(
      parse_arch("{\"model_type\":\"llama\"," USUAL ",\"hidden_act\":\"xielu\"}", &arena, &a, &diag), SPP_OK,
      &diag);
  expect_i64(a->activation, SPP_SILU);
  expect_i64(a->note_count, 1);
  expect_true(strstr(a->notes[0], "xielu") != NULL);
  spp_arena_free(&arena);
}

static void eps_and_rotary_base_are_read_under_each_familys_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double eps, theta;
  } cases[] = {
      {"llama3.1-8b", 1e-5, 500000}, {"qwen2.5-7b", 1e-6, 1000000},  {"gpt-neox-20b", 1e-5, 10000},
      {"qwen-7b", 1e-6, 10000},      {"glm-4-9b", 1.5625e-7, 10000}, {"gpt2", 1e-5, 10000},
  };
  static const char *const text =
      "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":1,"
      "\"num_attention_heads\":4,\"vocab_size\":32,\"rope_parameters\":{\"rope_theta\":1234}}";
  const struct spp_arch *a = NULL;
  struct spp_diag diag;
  struct spp_arena arena;
  spp_arena_init(&arena);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    a = load(cases[i].name, &arena);
    expect_rel(a->norm_eps, cases[i].eps, 1e-9);
    expect_rel(a->rope_theta, cases[i].theta, 1e-9);
  }
  expect_status(parse_arch(text, &arena, &a, &diag), SPP_OK, &diag);
  expect_rel(a->norm_eps, 1e-6, 1e-9);
  expect_rel(a->rope_theta, 1234, 1e-9); /* as transformers 5 writes it */
  spp_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_family_is_read_from_its_own_field_names),
      cmocka_unit_test(every_shipped_model_is_consistent),
      cmocka_unit_test(layers_fall_into_the_kinds_their_family_says),
      cmocka_unit_test(latent_attention_has_its_own_widths),
      cmocka_unit_test(traits_of_a_family_are_set),
      cmocka_unit_test(blocks_compute_what_their_familys_code_does),
      cmocka_unit_test(factors_and_functions_are_read_from_the_config),
      cmocka_unit_test(eps_and_rotary_base_are_read_under_each_familys_name),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
