/* Parameter counts against published totals and hand sums. */
#include "model/params.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "model/arch_families.h"
#include "tests/expect.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

static const struct spp_arch *load(const char *name, struct spp_arena *arena) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag;
  expect_note("%s", name);
  expect_status(spp_arch_load(CONFIGS, name, arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

/* Totals of the checkpoints on the hub (safetensors metadata); active and GEMM parameters are sums over the
 * shapes listed in each config.json, worked out apart from this program. */
static const struct {
  const char *name;
  int64_t total, active, gemm_per_token;
} known[] = {
    {"qwen2.5-0.5b", 494032768, 494032768, 493961216},
    {"qwen2.5-1.5b", 1543714304, 1543714304, 1543569408},
    {"qwen2.5-3b", INT64_C(3085938688), INT64_C(3085938688), INT64_C(3085697024)},
    {"qwen2.5-7b", INT64_C(7615616512), INT64_C(7615616512), INT64_C(7070285824)},
    {"qwen2.5-14b", INT64_C(14770033664), INT64_C(14770033664), INT64_C(13990625280)},
    {"qwen2.5-32b", INT64_C(32763876352), INT64_C(32763876352), INT64_C(31984189440)},
    {"qwen2.5-72b", INT64_C(72706203648), INT64_C(72706203648), INT64_C(71458357248)},
    {"qwen3-0.6b", 596049920, 596049920, 595984384},
    {"qwen3-1.7b", 1720574976, 1720574976, 1720451072},
    {"qwen3-4b", INT64_C(4022468096), INT64_C(4022468096), INT64_C(4022272000)},
    {"qwen3-8b", INT64_C(8190735360), INT64_C(8190735360), INT64_C(7568097280)},
    {"qwen3-14b", INT64_C(14768307200), INT64_C(14768307200), INT64_C(13989969920)},
    {"qwen3-32b", INT64_C(32762123264), INT64_C(32762123264), INT64_C(31983534080)},
    {"llama3.1-8b", INT64_C(8030261248), INT64_C(8030261248), INT64_C(7504658432)},
    {"llama3.1-70b", INT64_C(70553706496), INT64_C(70553706496), INT64_C(69501714432)},
    {"llama3.1-405b", INT64_C(405853388800), INT64_C(405853388800), INT64_C(403747897344)},
    {"llama3.2-1b", 1235814400, 1235814400, 1235746816},
    {"llama3.2-3b", INT64_C(3212749824), INT64_C(3212749824), INT64_C(3212574720)},
    {"mistral-7b-v0.3", INT64_C(7248023552), INT64_C(7248023552), INT64_C(7113539584)},
    {"mixtral-8x7b", INT64_C(46702792704), INT64_C(12879925248), INT64_C(12748587008)},
    {"qwen3-30b-a3b", INT64_C(30532122624), INT64_C(3353032704), INT64_C(3041656832)},
    {"qwen3-235b-a22b", INT64_C(235093634560), INT64_C(22190763520), INT64_C(21567635456)},
    {"llama4-scout", INT64_C(108641793536), INT64_C(18044827136), INT64_C(16137912320)},
    {"deepseek-v3", INT64_C(671026404352), INT64_C(37552282624), INT64_C(36624596992)},
    {"qwen2.5-vl-7b", INT64_C(8292166656), INT64_C(8292166656), INT64_C(7070285824)},
    {"qwen3-vl-8b", INT64_C(8767123696), INT64_C(8767123696), INT64_C(7568097280)},
};

static void the_common_models_have_their_published_counts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    struct spp_arena arena;
    struct spp_params p;
    spp_arena_init(&arena);
    spp_params_count(load(known[i].name, &arena), &p);
    expect_i64(p.total, known[i].total);
    expect_i64(p.active, known[i].active);
    expect_i64(p.gemm_per_token, known[i].gemm_per_token);
    spp_arena_free(&arena);
  }
}

/* The total stored beside each model was counted apart from this program: see its "source". */
static void every_shipped_model_counts_to_the_total_stored_beside_it(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const char *const *names;
  int count = 0;
  spp_arena_init(&arena);
  expect_status(spp_arch_list(CONFIGS, &arena, &names, &count, &diag), SPP_OK, &diag);
  expect_true(count > 100);
  for (int i = 0; i < count; i++) {
    struct spp_json_doc *doc;
    struct spp_params p;
    int64_t total = 0, active = 0;
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s.json", CONFIGS, names[i]);
    expect_note("%s", names[i]);
    expect_status(spp_json_load(path, &doc, &diag), SPP_OK, &diag);
    struct spp_json own = spp_json_get(spp_json_root(doc), "_spplan");
    expect_status(spp_json_i64(spp_json_get(own, "params_total"), 1, SPP_JSON_EXACT_MAX, &total, &diag),
                  SPP_OK, &diag);
    expect_status(spp_json_i64_or(spp_json_get(own, "params_active"), 1, total, total, &active, &diag),
                  SPP_OK, &diag);
    spp_params_count(load(names[i], &arena), &p);
    expect_i64(p.total, total);
    expect_i64(p.active, active);
    spp_json_free(doc);
  }
  spp_arena_free(&arena);
}

static const char *const not_in_transformers[] = {
    /* read from code beside the checkpoint; counted by the shipped models of theirs */
    "qwen", "internlm", "internlm2", "baichuan", "chatglm", "kimi_k2",
    /* the text part of a family that is counted */
    "llama4_text", "gemma3"};

static bool has_case(struct spp_json cases, const char *model_type) {
  for (size_t i = 0; i < sizeof not_in_transformers / sizeof not_in_transformers[0]; i++)
    if (strcmp(not_in_transformers[i], model_type) == 0) return true;
  for (struct spp_json c = spp_json_first(cases); spp_json_kind(c) != SPP_JSON_ABSENT; c = spp_json_next(c)) {
    const char *type = "";
    spp_json_string(spp_json_get(spp_json_get(c, "config"), "model_type"), &type, NULL);
    if (strcmp(type, model_type) == 0) return true;
  }
  return false;
}

/* family_counts.json: small random shapes of every family with the counts of the transformers module. Each
 * config is cut out of the text of the file, for the parser takes text. */
static void every_family_counts_like_its_module(void **state) {
  (void)state;
  static const char path[] = SPP_SOURCE_DIR "/tests/model/family_counts.json", opening[] = "\"config\": ";
  struct spp_json_doc *doc;
  struct spp_diag diag;
  char *text = NULL;
  expect_note("%s", path);
  expect_status(spp_file_read(path, 1 << 20, &text, NULL, &diag), SPP_OK, &diag);
  expect_status(spp_json_load(path, &doc, &diag), SPP_OK, &diag);
  struct spp_json cases = spp_json_get(spp_json_root(doc), "cases");
  const char *at = text;
  for (struct spp_json c = spp_json_first(cases); spp_json_kind(c) != SPP_JSON_ABSENT; c = spp_json_next(c)) {
    struct spp_arena arena;
    struct spp_params p;
    const struct spp_arch *arch = NULL;
    int64_t total = 0, vision = 0;
    at = strstr(at, opening) + strlen(opening);
    size_t length = strcspn(at, "\n");
    while (at[length - 1] != '}')
      length--; /* the comma between cases */
    length--;   /* the brace that closes the case */
    expect_note("%.*s", (int)length, at);
    spp_arena_init(&arena);
    expect_status(spp_json_i64(spp_json_get(c, "total"), 1, SPP_JSON_EXACT_MAX, &total, &diag), SPP_OK,
                  &diag);
    expect_status(spp_json_i64(spp_json_get(c, "vision"), 0, total, &vision, &diag), SPP_OK, &diag);
    expect_status(spp_arch_parse(at, length, "case", &arena, &arch, &diag), SPP_OK, &diag);
    spp_params_count(arch, &p);
    expect_i64(p.total, total);
    expect_i64(p.vision, vision);
    spp_arena_free(&arena);
  }
  for (int i = 0; spp_arch_family_at(i); i++) {
    expect_note("%s", spp_arch_family_at(i)->model_type);
    expect_true(has_case(cases, spp_arch_family_at(i)->model_type));
  }
  spp_json_free(doc);
  free(text);
}

static const char tiny[] = "{\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":160,"
                           "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
                           "\"head_dim\":16,\"vocab_size\":256,\"tie_word_embeddings\":false}";

/* attention 64*(128+2*32) + 128*64 + bias 192 = 20,672; MLP 3*64*160 = 30,720; two norms of 64;
 * total 2*51,520 + 64 + 2*256*64. */
static void a_small_model_adds_up_by_hand(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  struct spp_params p;
  spp_arena_init(&arena);
  expect_note("%s", "tiny");
  expect_status(spp_arch_parse(tiny, strlen(tiny), "tiny", &arena, &arch, &diag), SPP_OK, &diag);
  spp_params_count(arch, &p);
  expect_i64(p.per_layer_attention, 20672);
  expect_i64(p.per_dense_mlp, 30720);
  expect_i64(p.per_layer_norms, 128);
  expect_i64(p.per_layer[0], 51520);
  expect_i64(p.embedding, 16384);
  expect_i64(p.head, 16384);
  expect_i64(p.total, 135872);
  /* matrices only: 2*(20,480 + 30,720) + head */
  expect_i64(p.gemm_per_token, 2 * 51200 + 16384);
  spp_arena_free(&arena);
}

/* ms-swift prints "20.1851M Trainable" for rank 8 on every linear of Qwen2.5-7B: 8 x 28 x 90,112. */
static void adapters_of_every_linear_have_the_published_size(void **state) {
  (void)state;
  struct spp_arena arena;
  int64_t elements = 0;
  spp_arena_init(&arena);
  const struct spp_arch *arch = load("qwen2.5-7b", &arena);
  for (int k = 0; k < arch->kind_count; k++)
    for (int i = 0; i < arch->kinds[k].weight_count; i++) {
      const struct spp_weight *w = &arch->kinds[k].weights[i];
      if (w->linear) elements += 8 * (w->rows + w->cols) * w->copies * arch->kinds[k].count;
    }
  expect_i64(elements, 20185088);
  spp_arena_free(&arena);
}

/* DeepSeek-V3: one multi-token-prediction module is a layer (attention 187,107,328 with its inner norms,
 * experts 11,320,164,352, two norms 14,336), a 2h -> h projection 102,760,448 and three norms 21,504. */
static void prediction_modules_are_counted_apart(void **state) {
  (void)state;
  struct spp_arena arena;
  struct spp_params p;
  spp_arena_init(&arena);
  spp_params_count(load("deepseek-v3", &arena), &p);
  expect_i64(p.mtp, INT64_C(11610067968));
  expect_i64(p.per_expert, 44040192);
  expect_i64(p.per_moe_mlp, INT64_C(11320164352));
  expect_i64(p.per_moe_mlp_active, 398196736);
  expect_i64(p.per_dense_mlp, 396361728);
  spp_arena_free(&arena);
}

static void vision_towers_are_counted_apart(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t vision;
  } cases[] = {/* visual.* of the huggingface/transformers modules, built without weights */
               {"qwen2.5-vl-7b", 676550144}, {"qwen3-vl-8b", 576388336}, {"llama4-scout", 871932416},
               {"qwen2-vl-2b", 665271296},   {"qwen3-vl-4b", 415347712}, {"qwen2.5-7b", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_arena arena;
    struct spp_params p;
    spp_arena_init(&arena);
    spp_params_count(load(cases[i].name, &arena), &p);
    expect_i64(p.vision, cases[i].vision);
    expect_i64(p.text + p.vision, p.total);
    spp_arena_free(&arena);
  }
}

/* tp 3 of 64 rows holds ceil(64/3) = 22; 8 experts over ep 3 are at most 3 a rank; etp cuts inside. */
static void a_weight_is_cut_by_tensor_and_expert_parallelism(void **state) {
  (void)state;
  struct spp_weight column = {
      .role = SPP_ROLE_MLP, .split = SPP_SPLIT_OUTPUT, .rows = 64, .cols = 10, .copies = 1};
  struct spp_weight row = {
      .role = SPP_ROLE_MLP, .split = SPP_SPLIT_INPUT, .rows = 10, .cols = 64, .copies = 1};
  struct spp_weight whole = {
      .role = SPP_ROLE_NORM, .split = SPP_SPLIT_NONE, .rows = 64, .cols = 1, .copies = 1};
  struct spp_weight expert = {
      .role = SPP_ROLE_EXPERT, .split = SPP_SPLIT_OUTPUT, .rows = 64, .cols = 10, .copies = 8};
  expect_note("%s", "");
  expect_i64(spp_weight_elements(&column, 3, 1, 1), 220);
  expect_i64(spp_weight_elements(&row, 3, 1, 1), 220);
  expect_i64(spp_weight_elements(&whole, 3, 4, 2), 64);
  expect_i64(spp_weight_elements(&expert, 3, 1, 1), 5120);
  expect_i64(spp_weight_elements(&expert, 3, 3, 2), 960);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_common_models_have_their_published_counts),
      cmocka_unit_test(every_shipped_model_counts_to_the_total_stored_beside_it),
      cmocka_unit_test(every_family_counts_like_its_module),
      cmocka_unit_test(adapters_of_every_linear_have_the_published_size),
      cmocka_unit_test(a_small_model_adds_up_by_hand),
      cmocka_unit_test(prediction_modules_are_counted_apart),
      cmocka_unit_test(vision_towers_are_counted_apart),
      cmocka_unit_test(a_weight_is_cut_by_tensor_and_expert_parallelism),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
