/* Reading config.json: shapes of each family, names and aliases, refusals. */
#include "model/arch.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "model/params.h"
#include "tests/expect.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

static const struct spp_arch *load(const char *name, struct spp_arena *arena) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag;
  expect_note("%s", name);
  expect_status(spp_arch_load(CONFIGS, name, arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

static enum spp_status parse(const char *text, struct spp_arena *arena, const struct spp_arch **arch,
                             struct spp_diag *diag) {
  return spp_arch_parse(text, strlen(text), "config.json", arena, arch, diag);
}

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
  expect_true(gemma->tied && gemma->logit_softcap && gemma->attention_softcap);
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

static void names_aliases_and_hub_ids_resolve_without_case(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"qwen7b", "qwen2.5-7b"},
      {"QWEN2.5-7B", "qwen2.5-7b"},
      {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
      {"someone/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
      {"Llama-3.1-8B-Instruct", "llama3.1-8b"},
      {"meta-llama/Llama-2-7b-hf", "llama2-7b"},
      {"QwQ-32B", "qwen2.5-32b"},
      {"mosaicml/mpt-7b", "mosaicml-mpt-7b"},
      {"GPT-530B", "gpt-529.6b"},
      /* suffixes that change no shape, several at once */
      {"unsloth/Qwen2.5-32B-Instruct-bnb-4bit", "qwen2.5-32b"},
      {"Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "qwen3-coder-30b-a3b"},
      {"Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "qwen2.5-vl-72b"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    spp_arena_init(&arena);
    expect_str(load(cases[i][0], &arena)->name, cases[i][1]);
    spp_arena_free(&arena);
  }
}

static void every_alias_leads_to_a_model(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  struct spp_json_doc *doc;
  expect_status(spp_json_load(CONFIGS "/aliases.json", &doc, &diag), SPP_OK, &diag);
  struct spp_json aliases = spp_json_get(spp_json_root(doc), "models");
  expect_true(spp_json_size(aliases) > 100);
  for (int i = 0; i < spp_json_size(aliases); i++) {
    const char *target = "";
    spp_arena_init(&arena);
    expect_status(spp_json_string(spp_json_member(aliases, i), &target, &diag), SPP_OK, &diag);
    expect_str(load(spp_json_key(aliases, i), &arena)->name, target);
    spp_arena_free(&arena);
  }
  spp_json_free(doc);
}

static void unknown_names_get_the_nearest_or_the_candidates(void **state) {
  (void)state;
  static const struct {
    const char *name, *what, *hint;
    enum spp_status status;
  } cases[] = {
      {"qwen2.5-7", "ambiguous", "qwen2.5-7b", SPP_ERR_USAGE}, /* 7b and 72b begin so */
      {"llama3.1", "ambiguous", "llama3.1-405b", SPP_ERR_USAGE},
      {"qwen", "ambiguous", "...", SPP_ERR_USAGE},
      {"lama3.1-8b", "no model named", "llama3.1-8b", SPP_ERR_USAGE},
      {"-instruct", "no model named", "spplan list models", SPP_ERR_USAGE},
      {"zzzzzzzzzzzz", "no model named", "spplan list models", SPP_ERR_USAGE},
      {"", "1 to", "", SPP_ERR_USAGE},
      {"nowhere/config.json", "", "", SPP_ERR_INPUT},
      {"./nowhere", "", "", SPP_ERR_INPUT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    struct spp_diag diag;
    const struct spp_arch *arch = NULL;
    expect_note("'%s'", cases[i].name);
    spp_arena_init(&arena);
    expect_status(spp_arch_load(CONFIGS, cases[i].name, &arena, &arch, &diag), cases[i].status, &diag);
    expect_has(diag.what, cases[i].what);
    expect_has(diag.hint, cases[i].hint);
    expect_true(arch == NULL);
    spp_arena_free(&arena);
  }
}

#define USUAL                                                                                                \
  "\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_"  \
  "size\":256"

/* Granite divides its logits (modeling_granite.py). */
static void factors_and_functions_are_read_from_the_config(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *a;
  spp_arena_init(&arena);
  expect_status(parse("{\"model_type\":\"granite\"," USUAL ",\"embedding_multiplier\":12.0,"
                      "\"residual_multiplier\":0.25,\"logits_scaling\":8.0,\"hidden_act\":\"relu2\"}",
                      &arena, &a, &diag),
                SPP_OK, &diag);
  expect_near(a->embedding_scale, 12, 0);
  expect_near(a->residual_scale, 0.25, 0);
  expect_near(a->logit_scale, 0.125, 0);
  expect_i64(a->activation, SPP_RELU2);
  expect_i64(a->note_count, 0);
  expect_status(parse("{\"model_type\":\"llama\"," USUAL ",\"hidden_act\":\"xielu\"}", &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->activation, SPP_SILU);
  expect_i64(a->note_count, 1);
  expect_true(strstr(a->notes[0], "xielu") != NULL);
  spp_arena_free(&arena);
}

static void write_file(const char *path, const char *text) {
  struct spp_diag diag;
  expect_status(spp_file_write_atomic(path, text, strlen(text), &diag), SPP_OK, &diag);
}

/* As a checkpoint folder has them. */
static void a_folder_gives_its_config_and_the_pixel_limits_beside_it(void **state) {
  (void)state;
  char folder[] = "/tmp/spp_arch_XXXXXX", config[64], pixels[64];
  struct spp_arena arena;
  expect_true(mkdtemp(folder) != NULL);
  snprintf(config, sizeof config, "%s/config.json", folder);
  snprintf(pixels, sizeof pixels, "%s/preprocessor_config.json", folder);
  write_file(config,
             "{\"model_type\":\"qwen2_5_vl\"," USUAL
             ",\"vision_config\":{\"depth\":2,\"hidden_size\":32,\"intermediate_size\":48,\"num_heads\":4}}");
  write_file(pixels, "{\"min_pixels\":784,\"max_pixels\":50176}");
  spp_arena_init(&arena);
  const struct spp_arch *a = load(folder, &arena);
  expect_i64(a->hidden, 64);
  expect_str(a->display, folder + strlen("/tmp/")); /* the folder's name says what it is */
  expect_i64(a->vision.min_pixels, 784);
  expect_i64(a->vision.max_pixels, 50176);
  expect_i64(a->vision.out_hidden, 64); /* absent: the language model's width */
  unlink(pixels);
  expect_i64(load(folder, &arena)->vision.max_pixels, 12845056);
  unlink(config);
  rmdir(folder);
  spp_arena_free(&arena);
}

static void an_unknown_family_is_read_like_llama_and_says_so(void **state) {
  (void)state;
  static const char *const cases[] = {"{\"model_type\":\"novel\"," USUAL "}", "{" USUAL "}"};
  for (int i = 0; i < 2; i++) {
    struct spp_arena arena;
    struct spp_diag diag;
    const struct spp_arch *a = NULL;
    expect_note("%s", cases[i]);
    spp_arena_init(&arena);
    expect_status(parse(cases[i], &arena, &a, &diag), SPP_OK, &diag);
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
  expect_status(parse("{\"model_type\":\"gemma3\",\"text_config\":{" USUAL
                      "},\"vision_config\":{\"hidden_size\":8}}",
                      &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->note_count, 1);
  expect_has(a->notes[0], "vision tower");
  expect_true(a->vision.kind == SPP_VISION_NONE);
  expect_status(parse("{\"model_type\":\"qwen3\",\"text_config\":{" USUAL
                      "},\"audio_config\":{\"d_model\":8}}",
                      &arena, &a, &diag),
                SPP_OK, &diag);
  expect_i64(a->note_count, 1);
  expect_has(a->notes[0], "audio tower");
  expect_status(parse("{\"model_type\":\"llama\"," USUAL
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
  expect_status(parse(text, &arena, &a, &diag), SPP_OK, &diag);
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
    expect_status(parse(text, &arena, &a, &diag), SPP_OK, &diag);
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
    expect_status(parse(cases[i].text, &arena, &a, &diag), SPP_ERR_INPUT, &diag);
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
  expect_status(parse(text, &arena, &a, &diag), SPP_OK, &diag);
  expect_rel(a->norm_eps, 1e-6, 1e-9);
  expect_rel(a->rope_theta, 1234, 1e-9); /* as transformers 5 writes it */
  spp_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_is_scaled_by_the_figures_that_are_named),
      cmocka_unit_test(figures_that_make_no_model_are_refused_where_they_were_given),
      cmocka_unit_test(each_family_is_read_from_its_own_field_names),
      cmocka_unit_test(every_shipped_model_is_consistent),
      cmocka_unit_test(layers_fall_into_the_kinds_their_family_says),
      cmocka_unit_test(latent_attention_has_its_own_widths),
      cmocka_unit_test(traits_of_a_family_are_set),
      cmocka_unit_test(blocks_compute_what_their_familys_code_does),
      cmocka_unit_test(factors_and_functions_are_read_from_the_config),
      cmocka_unit_test(eps_and_rotary_base_are_read_under_each_familys_name),
      cmocka_unit_test(names_aliases_and_hub_ids_resolve_without_case),
      cmocka_unit_test(every_alias_leads_to_a_model),
      cmocka_unit_test(unknown_names_get_the_nearest_or_the_candidates),
      cmocka_unit_test(a_folder_gives_its_config_and_the_pixel_limits_beside_it),
      cmocka_unit_test(an_unknown_family_is_read_like_llama_and_says_so),
      cmocka_unit_test(what_is_not_described_is_named),
      cmocka_unit_test(members_a_class_fills_in_need_not_be_there),
      cmocka_unit_test(a_wrapped_language_model_is_read_by_its_own_family),
      cmocka_unit_test(bad_configs_are_refused_at_their_path),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
