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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_checker_finds_what_is_not_well_formed),
      cmocka_unit_test(every_picture_is_well_formed_and_says_its_units),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
