#include "tests/expect.h"

static void diag_set_fills_every_part_and_returns_the_status(void **state) {
  (void)state;
  struct spp_diag diag;
  enum spp_status status = spp_diag_set(&diag, SPP_ERR_INPUT, "x.json: $.a", "write 1", "%d is odd", 3);
  expect_i64(status, 3);
  expect_i64(diag.status, SPP_ERR_INPUT);
  expect_str(diag.what, "3 is odd");
  expect_str(diag.where, "x.json: $.a");
  expect_str(diag.hint, "write 1");
}

static void diag_set_takes_null_for_every_optional_part(void **state) {
  (void)state;
  struct spp_diag diag;
  expect_i64(spp_diag_set(NULL, SPP_ERR_USAGE, NULL, NULL, "unseen"), SPP_ERR_USAGE);
  spp_diag_set(&diag, SPP_ERR_USAGE, NULL, NULL, "seen");
  expect_str(diag.where, "");
  expect_str(diag.hint, "");
}

static void diag_is_one_printable_line(void **state) {
  (void)state;
  struct spp_diag diag;
  spp_diag_set(&diag, SPP_ERR_USAGE, "a\nb", "\x1b[31m", "tab\there\r");
  expect_str(diag.what, "tab?here?");
  expect_str(diag.where, "a?b");
  expect_str(diag.hint, "?[31m");
}

static void overlong_text_is_cut_with_dots_and_never_inside_a_character(void **state) {
  (void)state;
  char text[401];
  struct spp_diag diag;
  memset(text, 'a', 400);
  text[400] = '\0';
  spp_diag_set(&diag, SPP_ERR_USAGE, NULL, NULL, "%s", text);
  expect_i64((int64_t)strlen(diag.what), 319);
  expect_str(diag.what + 316, "...");
  /* Two-byte characters from an odd offset: byte 316, where the dots would go, is the second half of one. */
  for (size_t i = 1; i + 1 < 400; i += 2)
    memcpy(text + i, "\xC3\xA9", 2);
  spp_diag_set(&diag, SPP_ERR_USAGE, NULL, NULL, "%s", text);
  expect_i64((int64_t)strlen(diag.what), 318);
  expect_str(diag.what + 313, "\xC3\xA9...");
}

static void a_message_may_be_built_from_the_one_before(void **state) {
  (void)state;
  struct spp_diag diag;
  spp_diag_set(&diag, SPP_ERR_INPUT, "inner", NULL, "cause");
  spp_diag_set(&diag, SPP_ERR_INPUT, diag.where, NULL, "outer: %s", diag.what);
  expect_str(diag.what, "outer: cause");
  expect_str(diag.where, "inner");
}

static void format_leaves_out_empty_parts(void **state) {
  (void)state;
  struct spp_diag diag;
  char buf[1000];
  spp_diag_set(&diag, SPP_ERR_USAGE, "--seq", "write 32k", "bad");
  expect_str(spp_diag_format(&diag, buf, sizeof buf), "bad: --seq: write 32k");
  spp_diag_set(&diag, SPP_ERR_USAGE, NULL, "write 32k", "bad");
  expect_str(spp_diag_format(&diag, buf, sizeof buf), "bad: write 32k");
  spp_diag_oom(&diag);
  expect_str(spp_diag_format(&diag, buf, sizeof buf), "out of memory");
}

static void status_numbers_are_the_exit_codes_of_the_contract(void **state) {
  (void)state;
  static const struct {
    enum spp_status status;
    int code;
    const char *name;
  } cases[] = {{SPP_OK, 0, "ok"},
               {SPP_ERR_INTERNAL, 1, "internal"},
               {SPP_ERR_USAGE, 2, "usage"},
               {SPP_ERR_INPUT, 3, "input"},
               {SPP_ERR_NOFIT, 4, "nofit"},
               {SPP_ERR_TOLERANCE, 5, "tolerance"},
               {SPP_ERR_ABSENT, 6, "absent"},
               {SPP_INTERRUPTED, 130, "interrupted"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_i64(cases[i].status, cases[i].code);
    expect_str(spp_status_name(cases[i].status), cases[i].name);
  }
  expect_str(spp_status_name((enum spp_status)99), "unknown");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(diag_set_fills_every_part_and_returns_the_status),
      cmocka_unit_test(diag_set_takes_null_for_every_optional_part),
      cmocka_unit_test(diag_is_one_printable_line),
      cmocka_unit_test(overlong_text_is_cut_with_dots_and_never_inside_a_character),
      cmocka_unit_test(a_message_may_be_built_from_the_one_before),
      cmocka_unit_test(format_leaves_out_empty_parts),
      cmocka_unit_test(status_numbers_are_the_exit_codes_of_the_contract),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
