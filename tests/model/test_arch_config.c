/* Configurations that are wrapped, scaled, incomplete or bad. */
#include "model/params.h"
#include "tests/model/arch_case.h"

static void an_unknown_family_is_read_like_llama_and_says_so(void **state) {
  (void)state;
  static const char *const cases[] = {"{\"model_type\":\"novel\"," USUAL "}", "{" USUAL "}"};
  for (int i = 0; i < 2; i++) {
    struct spp_arena arena;
    struct spp_diag diag;
    const struct spp_arch *a = NULL;
    expect_note("%s", cases[i]);
    spp_arena_init(&arena);
    expect_status(parse_arch(cases[i], &arena, &a, &diag), SPP_OK, &diag);
    expect_i64(a->note_count, 1);
    expect_has(a->notes[0], "read like llama");
    expect_has(a->notes[0], i == 0 ? "novel" : "absent");
    expect_i64(a->kv_heads, 8);
    spp_arena_free(&arena);
  }
}

/* A tower that is not described leaves the language model, with a warning. */
static void what_is_not_described_is_named(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *a = NULL;
  expect_note("%s", "gemma3");
  spp_arena_init(&arena);
  expect_status(parse_arch("{\"model_type\":\"gemma3\",\"text_config\":{" USUAL
                           "},\"vision_config\":{\"hidden_size\":8}}",
                           &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->note_count, 1);
  expect_has(a->notes[0], "vision tower");
  expect_true(a->vision.kind == SPP_VISION_NONE);
  expect_status(parse_arch("{\"model_type\":\"qwen3\",\"text_config\":{" USUAL
                           "},\"audio_config\":{\"d_model\":8}}",
                           &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->note_count, 1);
  expect_has(a->notes[0], "audio tower");
  expect_status(parse_arch("{\"model_type\":\"llama\"," USUAL
                           ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4}}",
                           &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->note_count, 1);
  expect_has(a->notes[0], "quantization_config (awq) is not read");
  spp_arena_free(&arena);
}

/* The published config.json of google/gemma-3-4b-it leaves to its class: 8 heads, 4 KV heads, head_dim 256,
 * vocabulary 262,208. Its language model has 3,880,263,168 parameters. */
static void members_a_class_fills_in_need_not_be_there(void **state) {
  (void)state;
  static const char text[] =
      "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,"
      "\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,\"sliding_window\":1024},\"vision_config\":{}"
      "}";
  struct spp_arena arena;
  struct spp_diag diag;
  struct spp_params p;
  const struct spp_arch *a = NULL;
  expect_note("%s", text);
  spp_arena_init(&arena);
  expect_status(parse_arch(text, &arena, &a, &diag), SPP_OK, &diag);
  expect_i64(a->heads, 8);
  expect_i64(a->kv_heads, 4);
  expect_i64(a->head_dim, 256);
  spp_params_count(a, &p);
  expect_i64(p.total, INT64_C(3880263168));
  spp_arena_free(&arena);
}

/* InternVL, LLaVA: the family of the language model inside is used. */
static void a_wrapped_language_model_is_read_by_its_own_family(void **state) {
  (void)state;
  static const char *const members[] = {"text_config", "llm_config", "language_config"};
  for (int i = 0; i < 3; i++) {
    char text[600];
    struct spp_arena arena;
    struct spp_diag diag;
    const struct spp_arch *a = NULL;
    snprintf(text, sizeof text,
             "{\"model_type\":\"wrapper\",\"%s\":{\"model_type\":\"qwen2\"," USUAL "},\"vision_config\":{}}",
             members[i]);
    expect_note("%s", text);
    spp_arena_init(&arena);
    expect_status(parse_arch(text, &arena, &a, &diag), SPP_OK, &diag);
    expect_true(a->qkv_bias);
    expect_i64(a->note_count, 1);
    expect_has(a->notes[0], "language model only");
    spp_arena_free(&arena);
  }
}

static void bad_configs_are_refused_at_their_path(void **state) {
  (void)state;
  static const struct {
    const char *text, *where, *what;
  } cases[] = {
      {"[1]", "$", ""},
      {"{}", "$.num_hidden_layers", ""},
      {"{\"model_type\":5," USUAL "}", "$.model_type", ""},
      {"{\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":256}",
       "$.intermediate_size", ""},
      {"{\"model_type\":\"llama\"," USUAL ",\"head_dim\":-1}", "$.head_dim", ""},
      {"{\"model_type\":\"llama\"," USUAL ",\"num_key_value_heads\":3}", "$.num_key_value_heads", "multiple"},
      {"{\"model_type\":\"llama\"," USUAL ",\"num_key_value_heads\":16}", "$.num_key_value_heads",
       "multiple"},
      {"{\"model_type\":\"llama\",\"hidden_size\":63,\"intermediate_size\":160,\"num_hidden_layers\":2,"
       "\"num_attention_heads\":8,\"vocab_size\":256}",
       "$.num_attention_heads", "multiple"},
      {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":100000,"
       "\"num_attention_heads\":8,\"vocab_size\":256}",
       "$.num_hidden_layers", ""},
      {"{\"model_type\":\"llama\",\"hidden_size\":64.5}", "$.", ""},
      {"{\"model_type\":\"llama\",\"hidden_size\":\"64\",\"num_hidden_layers\":2}", "$.hidden_size", ""},
      {"{\"model_type\":\"mixtral\"," USUAL "}", "$.num_local_experts", ""},
      {"{\"model_type\":\"mixtral\"," USUAL ",\"num_local_experts\":4,\"num_experts_per_tok\":5}",
       "$.num_experts_per_tok", "more experts"},
      {"{\"model_type\":\"deepseek_v3\"," USUAL ",\"n_routed_experts\":4,\"num_experts_per_tok\":2}",
       "$.kv_lora_rank", ""},
      {"{\"model_type\":\"gemma2\"," USUAL ",\"layer_types\":[\"full_attention\"]}", "$.layer_types",
       "shorter"},
      {"{\"model_type\":\"gemma2\"," USUAL ",\"layer_types\":[\"full_attention\",\"odd\"]}",
       "$.layer_types[1]", "not known"},
      {"{\"model_type\":\"qwen3_next\"," USUAL ",\"linear_num_value_heads\":32}", "$.linear_num_value_heads",
       "linear-attention"},
      {"{\"model_type\":\"t5\"," USUAL ",\"is_encoder_decoder\":true}", "$.is_encoder_decoder",
       "encoder-decoder"},
      {"{\"model_type\":\"qwen2_5_vl\"," USUAL ",\"vision_config\":{}}", "$.vision_config.depth", ""},
      {"{\"model_type\":\"phi\"," USUAL ",\"qk_layernorm\":true}", "$.qk_layernorm", "layer norms"},
      {"{\"model_type\":\"mpt\"," USUAL ",\"attn_config\":{\"qk_ln\":true}}", "$.attn_config.qk_ln",
       "layer norms"},
      {"{\"model_type\":\"opt\"," USUAL ",\"word_embed_proj_dim\":32}", "$.word_embed_proj_dim", ""},
      {"{\"model_type\":\"mixtral\",\"hidden_size\":1048576,\"intermediate_size\":8388608,\"num_hidden_"
       "layers\":4096,"
       "\"num_attention_heads\":8192,\"head_dim\":16384,\"vocab_size\":67108864,\"num_local_experts\":16384,"
       "\"num_experts_per_tok\":2}",
       "$", "larger than can be counted"},
      {"{\"model_type\":\"llama\"," USUAL ",\"hidden_size\":64}", "$", "hidden_size"}, /* twice */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    struct spp_diag diag;
    const struct spp_arch *a = NULL;
    expect_note("%s", cases[i].text);
    spp_arena_init(&arena);
    expect_status(parse_arch(cases[i].text, &arena, &a, &diag), SPP_ERR_INPUT, &diag);
    expect_has(diag.where, cases[i].where);
    expect_has(diag.what, cases[i].what);
    expect_true(a == NULL);
    spp_arena_free(&arena);
  }
}

static void a_model_is_scaled_by_the_figures_that_are_named(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  struct spp_arch_scale scale;
  const struct spp_arch *a = NULL;
  spp_arena_init(&arena);
  expect_status(spp_arch_scale_parse("layers=2,hidden=96,heads=6,kv-heads=3,ffn=200", &scale, &diag), SPP_OK,
                &diag);
  expect_status(spp_arch_load_scaled(CONFIGS, "qwen2.5-7b", &scale, &arena, &a, &diag), SPP_OK, &diag);
  expect_i64(a->layers, 2);
  expect_i64(a->hidden, 96);
  expect_i64(a->heads, 6);
  expect_i64(a->kv_heads, 3);
  expect_i64(a->head_dim, 16); /* its config.json names none: hidden over heads */
  expect_i64(a->ffn, 200);
  expect_i64(a->vocab, 152064); /* as the file says */
  assert_true(a->qkv_bias);
  spp_arena_free(&arena);
}

static void figures_that_make_no_model_are_refused_where_they_were_given(void **state) {
  (void)state;
  static const struct {
    const char *scale, *message, *hint; /* hint: part of it */
  } cases[] = {
      {"depth=2", "is no figure", "layers"},
      {"layers", "is no figure", "layers"},
      {"layers=", "has no number", "layers"},
      {"layers=0", "has no number", "layers"},
      {"layers=2;hidden=64", "has no number", "layers"},
      {"hidden=64,heads=3", "multiple of the number of heads", "figures"},
      {"heads=4,kv-heads=3,head-dim=8", "multiple of the number of KV heads", "figures"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    struct spp_diag diag = {0};
    struct spp_arch_scale scale;
    const struct spp_arch *a;
    spp_arena_init(&arena);
    expect_note("%s", cases[i].scale);
    enum spp_status status = spp_arch_scale_parse(cases[i].scale, &scale, &diag);
    if (status == SPP_OK) status = spp_arch_load_scaled(CONFIGS, "qwen2.5-7b", &scale, &arena, &a, &diag);
    expect_i64(status, SPP_ERR_USAGE);
    expect_str(diag.where, "--scale");
    expect_has(diag.what, cases[i].message);
    expect_has(diag.hint, cases[i].hint);
    spp_arena_free(&arena);
  }
}

/* Of the published config.json files; what one leaves out is the default of most config classes. */

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_is_scaled_by_the_figures_that_are_named),
      cmocka_unit_test(figures_that_make_no_model_are_refused_where_they_were_given),
      cmocka_unit_test(an_unknown_family_is_read_like_llama_and_says_so),
      cmocka_unit_test(what_is_not_described_is_named),
      cmocka_unit_test(members_a_class_fills_in_need_not_be_there),
      cmocka_unit_test(a_wrapped_language_model_is_read_by_its_own_family),
      cmocka_unit_test(bad_configs_are_refused_at_their_path),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
