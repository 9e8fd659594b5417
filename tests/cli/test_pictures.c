#include "tests/cli/run.h"
#include "tests/xml.h"

static void run_free_both(struct run *run) {
  free(run->out);
  free(run->err);
}

static void the_checker_finds_what_is_not_well_formed(void **state) {
  static const char *const bad[] = {"<a><b></a></b>", "<a>x & y</a>", "<a b=c></a>", "<a>",
                                    "<a t=\"<\"></a>"};
  const char *where;
  (void)state;
  expect_i64(xml_check("<a b=\"1 &amp; 2\"><c/>text</a>", &where), 2);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    expect_i64(xml_check(bad[i], &where), -1);
}

static void every_picture_is_well_formed_and_says_its_units(void **state) {
  static const struct {
    const char *line, *words[4];
  } cases[] = {
      {"compare --model qwen7b --seq 64k --gpus 8 --threads 1 --svg",
       {"seconds", "GiB a GPU", "tokens a sequence", "weights"}},
      {"sweep --model qwen7b --gpus 8 --vary seq=8k:64k:x2 --vary sp=1,4 --svg",
       {"tokens/s a GPU", "GiB a GPU", "--sp 4", "64k"}},
      {"sweep --model qwen7b --seq 32k --vary gpus=1,2,4 --svg",
       {"--gpus", "seconds", "tokens/s a GPU", "polyline"}},
      {"accuracy --core --svg", {"measured GiB a GPU", "predicted s a step", "circle", "10 %"}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct run run = run_line(cases[i].line, NULL);
    expect_note("%s", cases[i].line);
    expect_i64(run.rc, 0);
    expect_xml(run.out);
    for (int w = 0; w < 4; w++)
      expect_has(run.out, cases[i].words[w]);
    run_free_both(&run);
  }
  expect_note("%s", "");
}

static void a_report_is_one_page_that_loads_nothing(void **state) {
  static const char *const lines[] = {
      "report --model qwen7b --seq 32k --gpus 8 --threads 1",
      "report --model qwen2.5-72b --seq 32k --gpus 64 --framework megatron-lm --tp 8 --pp 4 --threads 1"};
  static const char *const words[] = {"FITS",
                                      "Memory of the fullest GPU",
                                      "The largest tensors",
                                      "One step",
                                      "Communication of one GPU",
                                      "Alternatives",
                                      "Launch",
                                      "Assumed",
                                      "Pareto front",
                                      "Where the figures come from",
                                      "prefers-color-scheme:dark",
                                      "@media print"};
  static const char *const never[] = {"<script", "src=", "href=", "url(", "@import"};
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct run run = run_line(lines[i], NULL);
    expect_note("%s", lines[i]);
    expect_i64(run.rc, 0);
    expect_xml(run.out);
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
      expect_has(run.out, words[w]);
    for (size_t w = 0; w < sizeof never / sizeof never[0]; w++)
      expect_true(strstr(run.out, never[w]) == NULL);
    run_free_both(&run);
  }
  expect_note("%s", "");
}

static void a_report_of_what_does_not_fit_shows_the_nearest_layout(void **state) {
  struct run run = run_line("report --model qwen7b --seq 1m --gpus 1 --threads 1", NULL);
  (void)state;
  expect_i64(run.rc, 4);
  expect_xml(run.out);
  expect_has(run.out, "DOES NOT FIT");
  run_free_both(&run);
}

static void a_trace_goes_beside_the_answer_or_in_its_place(void **state) {
  struct run run = run_line("predict --model qwen7b --seq 32k --gpus 8 --sp 4 --trace step.json", NULL);
  (void)state;
  expect_i64(run.rc, 0);
  expect_has(run.out, "FITS");
  expect_i64(run_files(), 1);
  run_remove("step.json");
  run_free_both(&run);
  run = run_line("predict --model qwen7b --seq 32k --gpus 8 --sp 4 --trace -", NULL);
  expect_i64(run.rc, 0);
  expect_true(run.out[0] == '{');
  run_free_both(&run);
  run = run_line("predict --model qwen7b --seq 32k --gpus 8 --sp 4 --trace missing/step.json", NULL);
  expect_i64(run.rc, 3);
  expect_has(run.err, "--trace");
  run_free_both(&run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_checker_finds_what_is_not_well_formed),
      cmocka_unit_test(every_picture_is_well_formed_and_says_its_units),
      cmocka_unit_test(a_report_is_one_page_that_loads_nothing),
      cmocka_unit_test(a_report_of_what_does_not_fit_shows_the_nearest_layout),
      cmocka_unit_test(a_trace_goes_beside_the_answer_or_in_its_place),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
