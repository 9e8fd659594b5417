/* Text answers by their structure: what comes first, what fits where, what colour and character set do. */
#include "tests/cli/document.h"

#include "base/utf8.h"

#define JOB "--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb "

static const char *const text_lines[] = {
    "plan " JOB,
    "plan " JOB "-v --top 10",
    "plan " JOB "-q",
    "plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb",
    "predict " JOB "--sp 4",
    "predict " JOB "--sp 4 --explain",
    "predict " JOB "--sp 4 --explain layer",
    "compare " JOB,
    "degrees --model qwen7b",
    "degrees --model qwen7b -v",
    "degrees --model qwen3-30b-a3b --framework megatron-lm -v",
    "alloc 785MiB --model gpt2 --framework megatron-lm --seq 4k --gpus 8 --tp 4 --gpu h100-80gb",
    "sweep --model qwen7b --gpus 8 --vary seq=4k:64k:x4",
    "alloc 2.3GiB " JOB,
    "list models",
    "list gpus",
    "list clusters",
    "list frameworks",
    "list strategies",
    "list features",
};

static void text_fits_the_terminal(void **state) {
  static const int widths[] = {100, 80, 60};
  (void)state;
  for (size_t i = 0; i < sizeof text_lines / sizeof text_lines[0]; i++)
    for (size_t w = 0; w < 3; w++) {
      char columns[32];
      snprintf(columns, sizeof columns, "COLUMNS=%d", widths[w]);
      const char *const settings[] = {columns, NULL};
      struct run run = run_line(text_lines[i], settings);
      for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
        expect_note("spplan %s, %s: %s", text_lines[i], columns, line);
        expect_true(spp_utf8_width(line) <= widths[w]);
        expect_true(line[strlen(line) - 1] != ' ');
      }
      run_free(&run);
    }
  expect_note("%s", "");
}

/* Its table has as many columns as there are figures. */
static void accuracy_fits_a_hundred_columns(void **state) {
  (void)state;
  struct run run = answer("accuracy --worst 3", NULL, 0);
  for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
    expect_note("%s", line);
    expect_true(spp_utf8_width(line) <= 100);
  }
  run_free(&run);
  expect_note("%s", "");
}

static void the_verdict_comes_first(void **state) {
  (void)state;
  struct run fits = answer("plan " JOB, NULL, 0), predict = answer("predict " JOB "--sp 4", NULL, 0),
             miss = answer("plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb", NULL, 4),
             oom = answer("predict " JOB "--zero 1 --recompute none", NULL, 4);
  expect_has(fits.out, "\n\nFITS   ");
  expect_has(predict.out, "\n\nFITS   ");
  expect_has(miss.out, "NOTHING FITS");
  expect_has(oom.out, "\n\nOOM    ");
  expect_true(strstr(fits.out, "FITS") - fits.out < 400);
  static const char *const labels[] = {"layout ",  "memory ",  "comm ", "next ",
                                       "why not ", "assumed ", "run "};
  const char *at = fits.out;
  for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) { /* in this order */
    char start[32];
    snprintf(start, sizeof start, "\n%s", labels[i]);
    expect_note("%s", labels[i]);
    at = strstr(at, start);
    expect_true(at != NULL);
  }
  expect_note("%s", "");
  run_free(&fits);
  run_free(&predict);
  run_free(&miss);
  run_free(&oom);
}

static void the_memory_bar_is_as_full_as_the_card(void **state) {
  (void)state;
  struct document d = open_json("predict " JOB "--sp 4 --json", 0);
  struct run run = answer("predict " JOB "--sp 4", NULL, 0);
  double share = (double)i64_at(spp_json_get(d.root, "memory"), "device_bytes") /
                 (double)i64_at(spp_json_get(d.root, "memory"), "capacity_bytes");
  const char *bar = strstr(run.out, "[");
  int filled = 0, cells = 0;
  expect_true(bar != NULL);
  for (bar++; *bar && *bar != ']'; bar++, cells++)
    filled += *bar != '.';
  expect_i64(cells, 87); /* 100 columns, 11 of label, two brackets */
  expect_near(filled, share * cells, 1.0);
  run_free(&run);
  close_json(&d);
}

static void without_utf8_text_is_ascii(void **state) {
  const char *const settings[] = {"LC_ALL=C", NULL};
  (void)state;
  for (size_t i = 0; i < sizeof text_lines / sizeof text_lines[0]; i++) {
    struct run run = run_line(text_lines[i], settings);
    for (const char *c = run.out; *c; c++)
      expect_true((unsigned char)*c < 128);
    expect_true(strchr(run.out, '?') == NULL); /* a character without a replacement */
    run_free(&run);
  }
}

static void colour_is_only_where_it_was_asked_for(void **state) {
  const char *const no_color[] = {"NO_COLOR=1", NULL};
  (void)state;
  struct run plain = answer("predict " JOB "--sp 4", NULL, 0),
             always = answer("predict " JOB "--sp 4 --color always", NULL, 0),
             never = answer("predict " JOB "--sp 4 --color never", NULL, 0),
             no = answer("predict " JOB "--sp 4", no_color, 0);
  expect_true(strchr(plain.out, '\033') == NULL); /* standard output is no terminal here */
  expect_true(strchr(always.out, '\033') != NULL);
  expect_str(never.out, plain.out);
  expect_str(no.out, plain.out);
  run_free(&plain);
  run_free(&always);
  run_free(&never);
  run_free(&no);
}

static void quiet_is_short_and_verbose_is_long(void **state) {
  (void)state;
  struct run quiet = answer("plan " JOB "-q", NULL, 0), normal = answer("plan " JOB, NULL, 0),
             verbose = answer("plan " JOB "-v", NULL, 0);
  expect_true(run_count_lines(quiet.out) <= 10);
  expect_true(run_count_lines(normal.out) <= 62);
  expect_true(strlen(quiet.out) < strlen(normal.out) && strlen(normal.out) < strlen(verbose.out));
  expect_has(verbose.out, "\nrejected ");
  run_free(&quiet);
  run_free(&normal);
  run_free(&verbose);
}

static void explain_prints_the_ledgers(void **state) {
  static const struct {
    const char *part, *has;
  } parts[] = {{"memory", "tensor: why"},
               {"comm", "sent per step"},
               {"time", "attention kernels"},
               {"layer", "with nothing recomputed"}};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    char line[160];
    snprintf(line, sizeof line, "predict " JOB "--sp 4 --explain %s", parts[i].part);
    struct run run = answer(line, NULL, 0);
    expect_has(run.out, parts[i].has);
    run_free(&run);
  }
}

/* Nothing is trained: a pass, a prompt and a last token instead of steps, losses and backwards; and of
 * frameworks the one that serves today, not one of years ago. */
static void an_answer_about_serving_has_no_words_of_training(void **state) {
  static const char *const lines[] = {"predict",
                                      "predict --tp 4 -v",
                                      "predict --pp 2 --explain",
                                      "predict --tp 2 --explain memory",
                                      "predict --framework ms-swift -v",
                                      "predict --gpu t4-16gb",
                                      "plan -v",
                                      "plan --find max-seq",
                                      "compare",
                                      "sweep --vary gpus=8,16"};
  static const char *const words[] = {" step",       "loss",     "backward",  "training",  "tuning",
                                      "micro-batch", "gradient", "optimizer", "checkpoint"};
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    char line[160];
    snprintf(line, sizeof line, "%s --mode infer --model qwen2.5-7b --seq 16k %s%s", lines[i],
             strstr(lines[i], "--vary gpus") ? "" : "--gpus 8",
             strstr(lines[i], "--gpu ") ? "" : " --gpu h100-80gb");
    struct run run = run_line(line, NULL);
    expect_note("%s", line);
    expect_true(run.rc == 0 || run.rc == 4);
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
      if (strstr(run.out, words[w]))
        expect_fail_at(__FILE__, __LINE__, "'%s': %s", words[w], strstr(run.out, words[w]));
      if (strstr(run.err, words[w])) expect_fail_at(__FILE__, __LINE__, "'%s': %s", words[w], run.err);
    }
    if (strncmp(lines[i], "predict --framework", 19) != 0)
      expect_true(strstr(run.out, "vLLM ·") || strstr(run.out, " vllm ·"));
    run_free(&run);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_about_serving_has_no_words_of_training),
      cmocka_unit_test(text_fits_the_terminal),
      cmocka_unit_test(accuracy_fits_a_hundred_columns),
      cmocka_unit_test(the_verdict_comes_first),
      cmocka_unit_test(the_memory_bar_is_as_full_as_the_card),
      cmocka_unit_test(without_utf8_text_is_ascii),
      cmocka_unit_test(colour_is_only_where_it_was_asked_for),
      cmocka_unit_test(quiet_is_short_and_verbose_is_long),
      cmocka_unit_test(explain_prints_the_ledgers),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
