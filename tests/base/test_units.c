#include "base/units.h"
#include "tests/expect.h"

static void tokens_are_counted_in_1024s(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t tokens;
  } cases[] = {{"32k", 32 * 1024},     {"32K", 32 * 1024},  {"1m", 1024 * 1024},  {"1M", 1024 * 1024},
               {"32000", 32000},       {"1.5k", 1536},      {"0.5m", 512 * 1024}, {"1_048_576", 1048576},
               {"32.000k", 32 * 1024}, {"0.0009765625k", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t tokens = -1;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_tokens_parse(cases[i].text, "--seq", 1, INT64_MAX, &tokens, &diag), SPP_OK, &diag);
    expect_i64(tokens, cases[i].tokens);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_counted_in_1024s),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
