/* import and export as commands: exit codes, what is printed where, files whole or not at all. */
#include "tests/cli/run.h"

#include "base/utf8.h"

static const char script[] =
    "NPROC_PER_NODE=8 \\\nswift sft \\\n  --model Qwen/Qwen2.5-7B-Instruct \\\n  --tuner_type full \\\n"
    "  --max_length 32768 --sequence_parallel_size 4 --deepspeed zero3 \\\n"
    "  --attn_impl flash_attn --gradient_accumulation_steps 4\n";

static void exit_codes_are_those_of_the_contract(void **state) {
  static const struct {
    const char *text, *line, *says;
    int rc;
  } rows[] = {
      {script, "import f.sh", "", 0},
      {script, "import f.sh --json", "", 0},
      {script, "import f.sh --csv", "", 0},
      {script, "plan --from f.sh -q", "", 0},
      {script, "predict --from f.sh -q", "", 0},
      {script, "import", "needs a file", 2},
      {script, "import nowhere.sh", "nowhere.sh", 3},
      {script, "import f.sh --sp 3", "illegal layout", 2},
      {script, "import f.sh --gpu t4-16gb --attention sdpa", "does not fit", 4},
      {script, "import f.sh --assert time.step_s<0.001", "assert", 5},
      {"ls\n", "import f.sh", "no framework", 3},
      {"swift sft --model 'x\n", "import f.sh", "f.sh:1", 3},
      {"swift sft --model qwen7b\n", "import f.sh", "--seq is missing", 2},
      {"swift sft --model qwen7b --max_length 4096 --per_device_train_batch_size x\n", "import f.sh",
       "f.sh:1", 3},
      {script, "export --model qwen7b --seq 32k --gpus 8", "--to is missing", 2},
      {script, "export --to nothing --model qwen7b --seq 32k --gpus 8", "unknown value", 2},
      {script, "export --to ms-swift --framework deepspeed --model qwen7b --seq 32k --gpus 8", "--framework",
       2},
      {script, "export --to ms-swift --model qwen7b --seq 32k --gpus 8 --sp 8", "illegal layout", 2},
      {script, "export --to ms-swift --model qwen7b --seq 32k --gpus 8 --zero 3 --offload optimizer",
       "-o FOLDER", 2},
      {script, "export --to ms-swift --model qwen7b --seq 32k --gpus 8 --zero 3 --offload optimizer -o f.sh",
       "folder", 3},
      {script, "export --to ms-swift --model qwen7b --seq 32k --gpus 8", "", 0},
      {script, "export --to ms-swift --from f.sh --json", "", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    run_put("f.sh", rows[i].text);
    struct run run = answer(rows[i].line, NULL, rows[i].rc);
    expect_has(run.err, rows[i].says);
    expect_true(rows[i].rc == 0 || run_count_lines(run.err) == 1);
    run_free(&run);
    run_remove("f.sh");
    expect_i64(run_files(), 0);
  }
}

/* The same numbers as the same job typed in. */
static void an_import_is_the_predict_of_its_job(void **state) {
  (void)state;
  run_put("f.sh", script);
  struct run a = answer("predict --from f.sh -q", NULL, 0);
  struct run b = answer("predict --model qwen7b --gpus 8 --seq 32k --sp 4 --zero 3 --recompute full "
                        "--attention fa2 --global-batch 8 -q",
                        NULL, 0);
  expect_str(a.out, b.out);
  run_free(&a);
  run_free(&b);
  run_remove("f.sh");
}

/* What the file leaves to its framework is assumed, and so is listed; what the command line says is not. */
static void defaults_of_the_file_s_framework_are_listed_as_assumed(void **state) {
  (void)state;
  run_put("ds.json", "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4,\n"
                     "\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 3}}");
  struct run run = answer("import ds.json --model qwen2.5-0.5b --seq 1k --gpus 8", NULL, 0);
  expect_has(strstr(run.out, "assumed "), "no recompute (DeepSpeed's defaults)");
  run_free(&run);
  run = answer("import ds.json --model qwen2.5-0.5b --seq 1k --gpus 8 --recompute none", NULL, 0);
  expect_true(strstr(run.out, "no recompute (") == NULL);
  run_free(&run);
  run = answer("import ds.json --model qwen2.5-0.5b --seq 1k --gpus 8 --json", NULL, 0);
  expect_has(run.out, "\"code\": \"import-defaults\"");
  run_free(&run);
  run_remove("ds.json");
}

static void a_mistyped_flag_is_warned_of_and_a_harmless_one_is_not(void **state) {
  (void)state;
  run_put(
      "f.sh",
      "swift sft --model qwen7b --max_length 2048 --learning_rate 1e-4 --per_device_train_batch-szie 2\n");
  struct run run = answer("import f.sh", NULL, 0);
  expect_has(run.out, "did you mean");
  expect_true(strstr(run.out, "--learning_rate") == NULL);
  run_free(&run);
  run = answer("import f.sh -v", NULL, 0);
  expect_has(run.out, "passed over: --learning_rate");
  run_free(&run);
  run_remove("f.sh");
}

static void several_files_go_into_a_folder(void **state) {
  (void)state;
  struct run run = answer(
      "export --to ms-swift --model qwen7b --seq 32k --gpus 8 --zero 3 --offload optimizer -o out", NULL, 0);
  expect_str(run.out, "out/train.sh\nout/ds_zero3_optimizer_offload.json\n");
  run_free(&run);
  run = answer("import out/train.sh -v", NULL, 0); /* the file beside the script is found */
  expect_has(run.out, "--offload optimizer");
  expect_has(run.out, "--zero 3");
  run_free(&run);
  run_remove("out/train.sh");
  run_remove("out/ds_zero3_optimizer_offload.json");
  run_remove("out");
}

/* One difference: all of it is that difference. Two: each is laid out alone. */
static void a_diff_says_what_each_setting_does(void **state) {
  static const char one[] =
      "NPROC_PER_NODE=8 swift sft --model qwen7b --tuner_type full --max_length 32768 --deepspeed zero3 "
      "--sequence_parallel_size 4 --gradient_accumulation_steps 4";
  char other[512];
  (void)state;
  run_put("a.sh", one);
  snprintf(other, sizeof other, "%s --gradient_checkpointing false", one);
  run_put("b.sh", other);
  struct run run = answer("diff a.sh b.sh --csv", NULL, 0);
  expect_i64(run_count_lines(run.out), 2); /* the header, and recompute */
  expect_has(run.out, "recompute,\"full\",\"none\",");
  run_free(&run);
  run = answer("diff a.sh a.sh", NULL, 0);
  expect_has(run.out, "no setting differs");
  run_free(&run);
  snprintf(other, sizeof other, "%s --gradient_checkpointing false --attn_impl flash_attn", one);
  run_put("b.sh", other);
  run = answer("diff a.sh b.sh", NULL, 0);
  expect_has(run.out, "recompute");
  expect_has(run.out, "attention");
  expect_has(run.out, "all together");
  run_free(&run);
  run = answer("diff a.sh", NULL, 2);
  expect_has(run.err, "two files");
  run_free(&run);
  run = answer("diff a.sh b.sh c.sh", NULL, 2);
  run_free(&run);
  run = answer("diff a.sh nowhere.sh", NULL, 3);
  run_free(&run);
  run_remove("a.sh");
  run_remove("b.sh");
}

/* Names of differing settings, the two values and the effect stand side by side: 60 columns are too few. */
static void reasons_and_flags_fit_the_terminal(void **state) {
  static const struct {
    const char *line;
    int columns;
  } rows[] = {
      {"diff a.sh b.sh", 100}, {"diff a.sh b.sh", 80}, {"import a.sh -v", 100}, {"import a.sh -v", 60}};
  (void)state;
  run_put("a.sh", "NPROC_PER_NODE=8 swift sft --model qwen7b --tuner_type full --max_length 32768 "
                  "--sequence_parallel_size 4 --deepspeed zero3 --learning_rate 1e-5 --weight_decay 0.1 "
                  "--save_steps 200 --warmup_ratio 0.05 --dataloader_num_workers 4 --num_train_epochs 1\n");
  run_put("b.sh",
          "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B --max_length 32768 --global_batch_size 16 "
          "--tensor_model_parallel_size 2 --context_parallel_size 4 --attention_backend fused\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char columns[32];
    snprintf(columns, sizeof columns, "COLUMNS=%d", rows[i].columns);
    const char *const settings[] = {columns, NULL};
    struct run run = run_line(rows[i].line, settings);
    expect_true(run_count_lines(run.out) > 5);
    for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
      expect_note("spplan %s, %s: %s", rows[i].line, columns, line);
      expect_true(spp_utf8_width(line) <= rows[i].columns);
    }
    run_free(&run);
  }
  expect_note("%s", "");
  run_remove("a.sh");
  run_remove("b.sh");
}

static void every_format_is_exported_and_read_again(void **state) {
  static const char *const formats[] = {
      "ms-swift",   "megatron-lm", "megatron-swift", "llama-factory", "axolotl",
      "accelerate", "trl",         "torchtitan",     "verl",          "deepspeed"};
  static const char *const files[] = {"train.yaml", "config.yaml", "ds_config.json", "accelerate.yaml",
                                      "train.toml"};
  (void)state;
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    char line[200], path[64];
    snprintf(line, sizeof line, "export --to %s --model qwen2.5-0.5b --seq 8k --gpus 8 -o out", formats[i]);
    char make[200];
    snprintf(make, sizeof make, "%s/out", run_folder);
    expect_i64(mkdir(make, 0700), 0);
    struct run run = answer(line, NULL, 0);
    run_free(&run);
    run = answer("import out/train.sh --json", NULL, 0);
    snprintf(path, sizeof path, "\"format\": \"%s\"", formats[i]);
    expect_true(strstr(run.out, path) || strcmp(formats[i], "accelerate") == 0); /* it starts TRL's script */
    expect_has(run.out, "\"seq_tokens\": 8192");
    run_free(&run);
    run_remove("out/train.sh");
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
      snprintf(make, sizeof make, "%s/out/%s", run_folder, files[f]);
      snprintf(path, sizeof path, "out/%s", files[f]);
      if (access(make, F_OK) == 0) run_remove(path);
    }
    run_remove("out");
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)
  const struct CMUnitTest tests[] = {
      TEST(exit_codes_are_those_of_the_contract),
      TEST(an_import_is_the_predict_of_its_job),
      TEST(defaults_of_the_file_s_framework_are_listed_as_assumed),
      TEST(a_mistyped_flag_is_warned_of_and_a_harmless_one_is_not),
      TEST(several_files_go_into_a_folder),
      TEST(a_diff_says_what_each_setting_does),
      TEST(reasons_and_flags_fit_the_terminal),
      TEST(every_format_is_exported_and_read_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
