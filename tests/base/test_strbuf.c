#include "base/strbuf.h"
#include "tests/expect.h"

static void an_unused_string_is_empty_and_free(void **state) {
  (void)state;
  struct spp_str s;
  spp_str_init(&s);
  expect_str(spp_str_text(&s), "");
  spp_str_clear(&s);
  spp_str_free(&s);
  spp_str_free(&s);
}

static void every_append_ends_in_nul(void **state) {
  (void)state;
  struct spp_str s;
  spp_str_init(&s);
  spp_str_add(&s, "");
  expect_true(s.data != NULL);
  expect_str(s.data, "");
  spp_str_add(&s, "ab");
  spp_str_addc(&s, 'c');
  spp_str_addn(&s, "defg", 2);
  spp_str_addf(&s, "%d-%s", 42, "x");
  spp_str_fill(&s, '.', 3);
  spp_str_fill(&s, '!', -1);
  expect_str(s.data, "abcde42-x...");
  expect_i64((int64_t)s.len, 12);
  spp_str_clear(&s);
  expect_str(s.data, "");
  spp_str_free(&s);
}

static void growth_keeps_the_text_at_every_length(void **state) {
  (void)state;
  struct spp_str s;
  spp_str_init(&s);
  for (int i = 0; i < 5000; i++) {
    spp_str_addc(&s, (char)('a' + i % 26));
    expect_true(s.cap > s.len && s.data[s.len] == '\0');
  }
  for (int i = 0; i < 5000; i++)
    expect_true(s.data[i] == 'a' + i % 26);
  spp_str_addf(&s, "%*d", 3000, 7); /* longer than the room left */
  expect_i64((int64_t)s.len, 8000);
  expect_true(s.data[7999] == '7');
  spp_str_free(&s);
}

static void running_out_of_memory_is_remembered_and_harmless(void **state) {
  (void)state;
  struct spp_str s;
  spp_str_init(&s);
  spp_str_add(&s, "kept");
  spp_str_addn(&s, "x", SIZE_MAX / 2);
  expect_true(s.failed);
  spp_str_add(&s, "ignored");
  expect_str(s.data, "kept");
  spp_str_clear(&s);
  spp_str_add(&s, "again");
  expect_false(s.failed);
  expect_str(s.data, "again");
  spp_str_free(&s);
  spp_str_addn(&s, "x", SIZE_MAX / 2); /* with nothing before it */
  expect_true(s.failed);
  expect_str(s.data, "");
  spp_str_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_unused_string_is_empty_and_free),
      cmocka_unit_test(every_append_ends_in_nul),
      cmocka_unit_test(growth_keeps_the_text_at_every_length),
      cmocka_unit_test(running_out_of_memory_is_remembered_and_harmless),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
