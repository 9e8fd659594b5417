/* Names, aliases and folders of models. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/model/arch_case.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_aliases_and_hub_ids_resolve_without_case),
      cmocka_unit_test(every_alias_leads_to_a_model),
      cmocka_unit_test(unknown_names_get_the_nearest_or_the_candidates),
      cmocka_unit_test(a_folder_gives_its_config_and_the_pixel_limits_beside_it),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
