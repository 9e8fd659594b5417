/* How positions enter attention, as configs of each kind say. */
#include <math.h>
#include <string.h>

#include "model/arch.h"
#include "tests/expect.h"

#define SHAPE                                                                                                \
  "\"hidden_size\":512,\"intermediate_size\":96,\"num_hidden_layers\":8,\"num_attention_heads\":8,"          \
  "\"num_key_value_heads\":8,\"vocab_size\":64,\"max_position_embeddings\":2048"

/* 512 / 8 = 64 a head. Defaults: configuration_*.py of huggingface/transformers 5.24. */
static const struct {
  const char *config;
  int64_t rotary_dim;
  bool neighbours;
  double alibi, scale;  /* factor on slopes, on q.k */
  const char *rotating; /* layers, one letter each */
} cases[] = {
    {"{\"model_type\":\"llama\"," SHAPE "}", 64, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"llama\",\"partial_rotary_factor\":0.75," SHAPE "}", 48, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"llama\",\"rope_parameters\":{\"partial_rotary_factor\":0.5}," SHAPE "}", 32, false, 0,
     0.125, "yyyyyyyy"},
    {"{\"model_type\":\"gpt_neox\"," SHAPE "}", 16, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"gpt_neox\",\"rotary_pct\":1.0," SHAPE "}", 64, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"gptj\",\"rotary_dim\":24," SHAPE "}", 24, true, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"glm\",\"head_dim\":128," SHAPE "}", 64, true, 0, 0.08838834764831845, "yyyyyyyy"},
    {"{\"model_type\":\"gpt2\"," SHAPE "}", 0, false, 0, 0.125, "nnnnnnnn"},
    {"{\"model_type\":\"opt\"," SHAPE "}", 0, false, 0, 0.125, "nnnnnnnn"},
    {"{\"model_type\":\"mpt\",\"attn_config\":{\"alibi\":true}," SHAPE "}", 0, false, 1, 0.125, "nnnnnnnn"},
    {"{\"model_type\":\"falcon\",\"alibi\":true," SHAPE "}", 0, false, 0.125, 0.125, "nnnnnnnn"},
    {"{\"model_type\":\"falcon\",\"alibi\":false," SHAPE "}", 64, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"baichuan\"," SHAPE "}", 64, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"baichuan\",\"hidden_size\":512,\"intermediate_size\":96,\"num_hidden_layers\":8,"
     "\"num_attention_heads\":8,\"vocab_size\":64,\"model_max_length\":4096}",
     0, false, 1, 0.125, "nnnnnnnn"},
    {"{\"model_type\":\"smollm3\"," SHAPE "}", 64, false, 0, 0.125, "yyynyyyn"},
    {"{\"model_type\":\"smollm3\",\"no_rope_layers\":[0,1,1,0,1,1,1,1]," SHAPE "}", 64, false, 0, 0.125,
     "nyynyyyy"},
    {"{\"model_type\":\"cohere2\",\"sliding_window\":512," SHAPE "}", 64, true, 0, 0.125, "yyynyyyn"},
    {"{\"model_type\":\"exaone4\"," SHAPE "}", 64, false, 0, 0.125, "yyyyyyyy"},
    {"{\"model_type\":\"gemma2\",\"head_dim\":64,\"query_pre_attn_scalar\":100," SHAPE "}", 64, false, 0, 0.1,
     "yyyyyyyy"},
    {"{\"model_type\":\"granite\",\"attention_multiplier\":0.25," SHAPE "}", 64, false, 0, 0.25, "yyyyyyyy"},
    {"{\"model_type\":\"deepseek_v3\",\"kv_lora_rank\":64,\"qk_nope_head_dim\":96,\"qk_rope_head_dim\":48,"
     "\"v_head_dim\":64,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32," SHAPE
     "}",
     48, true, 0, 1.0 / 12, "yyyyyyyy"},
};

static const struct spp_arch *arch_of(const char *config, struct spp_arena *arena) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag = {.status = SPP_OK};
  spp_arena_init(arena);
  expect_status(spp_arch_parse(config, strlen(config), "test", arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

static void a_config_says_how_positions_enter_attention(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    const struct spp_arch *a = arch_of(cases[i].config, &arena);
    expect_note("%s", cases[i].config);
    expect_i64(a->rotary_dim, cases[i].rotary_dim);
    expect_true(cases[i].rotary_dim == 0 || a->rotary_neighbours == cases[i].neighbours);
    expect_near(a->alibi, cases[i].alibi, 1e-12);
    expect_near(a->attention_scale, cases[i].scale, 1e-12);
    for (int l = 0; l < 8; l++)
      expect_true(a->layer_rotates[l] == (cases[i].rotating[l] == 'y'));
    spp_arena_free(&arena);
  }
}

/* A scaled GPT-J keeps the part of the head that turns: 64 of 4096 / 16 = 256, a quarter; of 16 that is 4. */
static void a_scaled_head_turns_as_large_a_part(void **state) {
  (void)state;
  const struct spp_arch *arch;
  const struct spp_arch_scale scale = {.hidden = 64, .heads = 4, .head_dim = 16};
  struct spp_arena arena;
  struct spp_diag diag = {.status = SPP_OK};
  spp_arena_init(&arena);
  expect_status(spp_arch_load_scaled(SPP_SOURCE_DIR "/configs", "gpt-j-6b", &scale, &arena, &arch, &diag),
                SPP_OK, &diag);
  expect_i64(arch->rotary_dim, 4);
  spp_arena_free(&arena);
}

/* Base 10000, head of 64: pair i turns by 10000^(-i/32). Llama 3.1 with factor 8, low 1, high 4, 8192
 * positions: pair 0 turns 8192/2pi = 1304 times, more than 4: as it is. Pair 31, 10000^(-31/32) = 1.334e-4,
 * turns 0.174 times, less than 1: an eighth. Pair 20, 10000^(-20/32) = 3.162278e-3, turns 4.12 times: as it
 * is; pair 24, 1e-3, turns 1.30380 times: part (1.30380 - 1)/3 = 0.101266 of it, and the rest of an eighth of
 * it. */
static void frequencies_are_stretched_as_the_config_says(void **state) {
  (void)state;
  struct spp_arena arena;
  const struct spp_arch *a =
      arch_of("{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_"
              "freq_factor\":1.0,"
              "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192}," SHAPE "}",
              &arena);
  expect_rel(spp_arch_rope_frequency(a, false, 0), 1, 1e-12);
  expect_rel(spp_arch_rope_frequency(a, false, 20), 3.16227766e-3, 1e-8);
  expect_rel(spp_arch_rope_frequency(a, false, 24), 1e-3 * (0.101266 + 0.898734 / 8), 1e-5);
  expect_rel(spp_arch_rope_frequency(a, false, 31), pow(10000, -31.0 / 32) / 8, 1e-12);
  spp_arena_free(&arena);
  a = arch_of("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}," SHAPE "}",
              &arena);
  expect_rel(spp_arch_rope_frequency(a, false, 0), 0.25, 1e-12);
  spp_arena_free(&arena);
}

/* Base 10000, head of 64, factor 4, 4096 positions: a pair that turns r times is 32 ln(4096/(2 pi r))/ln
 * 10000, 22.5 for r = 1 and 10.47 for r = 32: pairs up to 10 stay, those from 23 on turn a quarter, and of
 * pair 16, 1e-2, 6/13 goes to a quarter. cos and sin grow by 0.1 ln 4 + 1, unless the config says by what. */
static void yarn_stretches_between_two_pairs_and_grows(void **state) {
  (void)state;
  struct spp_arena arena;
  const struct spp_arch *a =
      arch_of("{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
              "\"original_max_position_embeddings\":4096}," SHAPE "}",
              &arena);
  expect_rel(spp_arch_rope_frequency(a, false, 10), pow(10000, -10.0 / 32), 1e-12);
  expect_rel(spp_arch_rope_frequency(a, false, 16), 1e-2 * (1 - 0.75 * 6 / 13), 1e-12);
  expect_rel(spp_arch_rope_frequency(a, false, 23), pow(10000, -23.0 / 32) / 4, 1e-12);
  expect_rel(a->rope_scaling.gain, 1.13862943611, 1e-9);
  spp_arena_free(&arena);
  a = arch_of("{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
              "\"attention_factor\":1.0}," SHAPE "}",
              &arena);
  expect_rel(a->rope_scaling.gain, 1, 1e-12);
  spp_arena_free(&arena);
  a = arch_of("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"longrope\"}," SHAPE "}", &arena);
  expect_i64(a->rope_scaling.kind, SPP_ROPE_OTHER);
  spp_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_config_says_how_positions_enter_attention),
                                     cmocka_unit_test(a_scaled_head_turns_as_large_a_part),
                                     cmocka_unit_test(frequencies_are_stretched_as_the_config_says),
                                     cmocka_unit_test(yarn_stretches_between_two_pairs_and_grows)};
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
