#include "tests/expect.h"

#include "base/progress.h"

static void a_line_shows_share_and_time_left(void **state) {
  char line[512];
  (void)state;
  /* a quarter of 24 columns is 6; 3 s for a quarter leave 9 */
  expect_true(strcmp(spp_progress_line("measuring", NULL, 25, 100, 3, false, 80, line, sizeof line),
                     "measuring ######..................  25 % 9 s left") == 0);
  expect_true(strcmp(spp_progress_line("running", "TP 4", 10, 10, 3, false, 80, line, sizeof line),
                     "running ######################## 100 %  TP 4") == 0);
}

static void a_line_stays_within_its_columns_and_its_buffer(void **state) {
  char line[512];
  (void)state;
  for (int columns = 1; columns < 90; columns++)
    for (int size = 1; size <= 512; size += 7)
      for (int utf8 = 0; utf8 < 2; utf8++) {
        spp_progress_line("measuring", "a case with a long name", 7, 13, 2, utf8, columns, line, size);
        int seen = 0;
        for (const char *c = line; *c; c++)
          seen += ((unsigned char)*c & 0xC0) != 0x80;
        expect_true(seen < columns || columns == 1);
        expect_true((int)strlen(line) < size);
      }
}

static void nothing_is_drawn_without_a_terminal(void **state) {
  struct spp_progress progress;
  const struct spp_term term = {.columns = 80};
  (void)state;
  spp_progress_begin(&progress, &term, false, "measuring");
  expect_false(progress.shown);
  spp_progress_step(&progress, 1, 2, NULL);
  spp_progress_end(&progress);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_line_shows_share_and_time_left),
      cmocka_unit_test(a_line_stays_within_its_columns_and_its_buffer),
      cmocka_unit_test(nothing_is_drawn_without_a_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
