#include "base/utf8.h"
#include "tests/expect.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void utf8_accepts_exactly_the_well_formed_sequences(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t length;
    uint32_t code;
  } cases[] = {{"A", 1, 0x41},
               {"\x7F", 1, 0x7F},
               {"\xC2\x80", 2, 0x80},
               {"\xDF\xBF", 2, 0x7FF},
               {"\xE0\xA0\x80", 3, 0x800},
               {"\xED\x9F\xBF", 3, 0xD7FF},
               {"\xEE\x80\x80", 3, 0xE000},
               {"\xF0\x90\x80\x80", 4, 0x10000},
               {"\xF4\x8F\xBF\xBF", 4, 0x10FFFF},
               {"\x80", 0, 0},
               {"\xC1\xBF", 0, 0},
               {"\xE0\x9F\xBF", 0, 0},
               {"\xED\xA0\x80", 0, 0},
               {"\xF0\x8F\xBF\xBF", 0, 0},
               {"\xF4\x90\x80\x80", 0, 0},
               {"\xF5\x80\x80\x80", 0, 0},
               {"\xC3(", 0, 0},
               {"\xE2\x82(", 0, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    size_t n = strlen(cases[i].text);
    expect_note("case %zu", i);
    expect_i64((int64_t)spp_utf8_length(cases[i].text, n), (int64_t)cases[i].length);
    if (cases[i].length == 0) continue;
    expect_i64(spp_utf8_decode(cases[i].text, n), cases[i].code);
    if (n > 1) expect_i64((int64_t)spp_utf8_length(cases[i].text, n - 1), 0); /* cut short */
  }
}

static void width_counts_columns_not_bytes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int width;
  } cases[] = {{"", 0},
               {"abc", 3},
               {"\xC3\xA9", 1},                 /* e acute */
               {"e\xCC\x81", 1},                /* e + combining acute */
               {"\xE4\xB8\xAD\xE6\x96\x87", 4}, /* two Chinese characters */
               {"\xEF\xBC\xA1", 2},             /* full-width A */
               {"\xF0\x9F\x98\x80", 2},         /* emoji */
               {"\xE2\x96\x88\xE2\x96\x91", 2}, /* block glyphs of our bars */
               {"\xC2\xB7", 1},                 /* middle dot */
               {"a\xFF"
                "b",
                3}}; /* not UTF-8 */
  for (size_t i = 0; i < COUNT(cases); i++) {
    expect_note("case %zu", i);
    expect_i64(spp_utf8_width(cases[i].text), cases[i].width);
  }
}

static void fit_never_cuts_a_character(void **state) {
  (void)state;
  static const char text[] = "a\xE4\xB8\xAD"
                             "e\xCC\x81"
                             "b"; /* widths 1 2 1 0 1, bytes 1 3 1 2 1 */
  static const int64_t bytes[] = {0, 1, 1, 4, 7, 8, 8};
  for (int columns = 0; columns < (int)COUNT(bytes); columns++)
    expect_i64((int64_t)spp_utf8_fit(text, columns), bytes[columns]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(utf8_accepts_exactly_the_well_formed_sequences),
      cmocka_unit_test(width_counts_columns_not_bytes),
      cmocka_unit_test(fit_never_cuts_a_character),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
