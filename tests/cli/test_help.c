/* Help, manual page, version and completion: whole texts as golden files, and every example they give is run.
 */
#include "tests/cli/run.h"

#include "cli/command.h"

static void expect_help(const char *line, const char *golden) {
  struct run run = run_line(line, NULL);
  expect_i64(run.rc, 0);
  expect_str(run.err, "");
  expect_golden(run.out, golden);
  run_free(&run);
}

static void help_is_what_was_reviewed(void **state) {
  (void)state;
  expect_help("--help", "cli_help.txt");
  expect_help("help", "cli_help.txt");
  expect_help("help predict", "cli_help_predict.txt");
  expect_help("predict --help", "cli_help_predict.txt");
  expect_help("help sweep", "cli_help_sweep.txt");
  expect_help("list -h", "cli_help_list.txt");
}

static void help_adapts_to_narrow_terminals(void **state) {
  static const int widths[] = {80, 60};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    char columns[32], golden[64];
    snprintf(columns, sizeof columns, "COLUMNS=%d", widths[i]);
    snprintf(golden, sizeof golden, "cli_help_predict_%d.txt", widths[i]);
    const char *const settings[] = {columns, NULL};
    struct run run = run_line("help predict", settings);
    expect_golden(run.out, golden);
    run_free(&run);
  }
}

static void without_arguments_a_short_help_goes_to_stderr_and_the_status_is_2(void **state) {
  (void)state;
  struct run run = run_line("", NULL);
  expect_i64(run.rc, 2);
  expect_str(run.out, "");
  expect_golden(run.err, "cli_short_help.txt");
  expect_true(run_count_lines(run.err) < 20);
  run_free(&run);
}

static void the_manual_page_names_every_option_and_command(void **state) {
  (void)state;
  struct run run = run_line("--help-man", NULL);
  expect_i64(run.rc, 0);
  expect_true(strncmp(run.out, ".TH SPPLAN 1 ", 13) == 0);
  for (int i = 0; i < spp_command_count; i++)
    expect_has(run.out, spp_commands[i].name);
  for (int i = 0; i < spp_option_count; i++) {
    char name[128] = "\\-\\-";
    size_t n = strlen(name);
    for (const char *c = spp_options[i].name; *c; c++) {
      if (*c == '-') name[n++] = '\\';
      name[n++] = *c;
    }
    name[n] = '\0';
    expect_has(run.out, name);
  }
  run_free(&run);
}

static void version_says_commit_compiler_and_features(void **state) {
  (void)state;
  struct run run = run_line("--version", NULL);
  expect_i64(run.rc, 0);
  expect_true(strncmp(run.out, "spplan ", 7) == 0);
  expect_has(run.out, "commit ");
  expect_has(run.out, "features:");
  run_free(&run);
}

static void every_example_of_the_help_runs(void **state) {
  (void)state;
  struct run plan = run_line("plan --model qwen7b --seq 32k --gpus 8 --top 5 --json -o plan.json", NULL);
  expect_i64(plan.rc, 0);
  run_free(&plan);
  run_put("train.sh", "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --tuner_type full --max_length "
                      "32768 --deepspeed zero3 "
                      "--sequence_parallel_size 4 --use_liger_kernel true");
  for (int i = 0; i < spp_command_count; i++)
    for (int e = 0; e < SPP_MAX_EXAMPLES && spp_commands[i].examples[e].line; e++) {
      struct run run = run_line(spp_commands[i].examples[e].line + strlen("spplan "), NULL);
      expect_note("%s -> %s", spp_commands[i].examples[e].line, run.err);
      if (spp_commands[i].bit == SPP_CMD_TUI) { /* no terminal here: refused, or not built */
        expect_true(run.rc == SPP_ERR_USAGE || run.rc == SPP_ERR_ABSENT);
        expect_has(run.err, "spplan plan");
      } else {
        expect_i64(run.rc, 0);
        expect_true(run.out[0] != '\0' || strstr(spp_commands[i].examples[e].line, " -o "));
      }
      run_free(&run);
    }
  expect_note("%s", "");
}

static void completion_offers_commands_options_and_values(void **state) {
  static const struct {
    const char *line, *has, *lacks;
  } cases[] = {
      {"--complete-options", "predict\n", "--vary\n"},
      {"sweep --complete-options", "--vary\n", "predict\n"},
      {"--complete-values model", "qwen2.5-7b\n", "{"},
      {"--complete-values=--gpu", "h100-80gb\n", ".json"},
      {"--complete-values framework", "any\n", ".json"},
      {"--complete-values recompute", "selective\n", "core_attn"},
      {"--complete-values cluster", "h100-sxm\n", "{"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct run run = run_line(cases[i].line, NULL);
    expect_i64(run.rc, 0);
    expect_has(run.out, cases[i].has);
    expect_true(strstr(run.out, cases[i].lacks) == NULL);
    run_free(&run);
  }
}

static void no_option_name_or_letter_is_given_twice(void **state) {
  (void)state;
  for (int i = 0; i < spp_option_count; i++)
    for (int j = 0; j < i; j++) {
      expect_note("%s and %s", spp_options[i].name, spp_options[j].name);
      expect_true(strcmp(spp_options[i].name, spp_options[j].name) != 0);
      expect_true(!spp_options[i].letter || spp_options[i].letter != spp_options[j].letter);
      expect_true(!spp_options[i].key || !spp_options[j].key ||
                  strcmp(spp_options[i].key, spp_options[j].key) != 0);
    }
  expect_note("%s", "");
}

static void every_option_row_is_complete(void **state) {
  (void)state;
  for (int i = 0; i < spp_option_count; i++) {
    const struct spp_option *option = &spp_options[i];
    int value;
    expect_note("--%s", option->name);
    expect_true(option->commands != 0 && option->help && option->help[0]);
    expect_true((option->type.kind == SPP_KIND_FLAG) == (option->arg == NULL));
    expect_true(option->type.kind != SPP_KIND_CHOICE || option->type.word(0, &value) != NULL);
    expect_true(option->type.kind != SPP_KIND_COUNT || option->type.min <= option->type.max);
    expect_true(option->type.kind != SPP_KIND_TOKENS || option->type.min <= option->type.max);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(help_is_what_was_reviewed),
      cmocka_unit_test(help_adapts_to_narrow_terminals),
      cmocka_unit_test(without_arguments_a_short_help_goes_to_stderr_and_the_status_is_2),
      cmocka_unit_test(the_manual_page_names_every_option_and_command),
      cmocka_unit_test(version_says_commit_compiler_and_features),
      cmocka_unit_test(every_example_of_the_help_runs),
      cmocka_unit_test(completion_offers_commands_options_and_values),
      cmocka_unit_test(no_option_name_or_letter_is_given_twice),
      cmocka_unit_test(every_option_row_is_complete),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
