#include "base/table.h"
#include "tests/expect.h"

static void table_aligns_columns_without_trailing_blanks(void **state) {
  (void)state;
  static const char *const names[] = {"part", "GiB", "why"};
  struct spp_table table;
  struct spp_str out;
  spp_str_init(&out);
  spp_table_init(&table, "lrl");
  spp_table_header(&table, names);
  spp_table_cell(&table, "weights");
  spp_table_cellf(&table, "%.1f", 14.2);
  spp_table_cell(&table, "bf16");
  spp_table_cell(&table, "\xE4\xB8\xAD\xE6\x96\x87");
  spp_table_cell(&table, "1.8");
  spp_table_cell(&table, NULL);
  spp_table_cell(&table, "rest");
  spp_table_end_row(&table);
  spp_table_end_row(&table); /* the row is already complete */
  spp_table_print(&table, 1, 0, &out);
  expect_str(out.data, " part      GiB  why\n"
                       " weights  14.2  bf16\n"
                       " \xE4\xB8\xAD\xE6\x96\x87      1.8\n"
                       " rest\n");
  spp_table_free(&table);
  spp_str_free(&out);
}

static void table_wraps_a_long_last_column_at_spaces(void **state) {
  (void)state;
  struct spp_table table;
  struct spp_str out;
  spp_str_init(&out);
  spp_table_init(&table, "ll");
  spp_table_cell(&table, "key");
  spp_table_cell(&table, "one two three four five six seven");
  spp_table_cell(&table, "k");
  spp_table_cell(&table, "0123456789012345678901234567890123456789");
  spp_table_print(&table, 0, 25, &out); /* 20 columns are left for the text */
  expect_str(out.data, "key  one two three four\n"
                       "     five six seven\n"
                       "k    01234567890123456789\n"
                       "     01234567890123456789\n");
  spp_table_free(&table);
  spp_str_free(&out);
}

static void an_empty_table_prints_nothing(void **state) {
  (void)state;
  struct spp_table table;
  struct spp_str out;
  spp_str_init(&out);
  spp_table_init(&table, "lr");
  spp_table_print(&table, 0, 0, &out);
  expect_str(spp_str_text(&out), "");
  spp_table_free(&table);
  spp_table_init(&table, "");
  spp_table_end_row(&table);
  spp_table_print(&table, 0, 0, &out);
  expect_str(spp_str_text(&out), "");
  spp_table_free(&table);
  spp_str_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_aligns_columns_without_trailing_blanks),
      cmocka_unit_test(table_wraps_a_long_last_column_at_spaces),
      cmocka_unit_test(an_empty_table_prints_nothing),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
