#include "tests/expect.h"

#include "cli/assert.h"

static const char json[] = "{\"memory\":{\"peak_bytes\":1000,\"fits\":true,\"parts\":[{\"a\":1.5}]},"
                           "\"time\":{\"step_s\":2.5},\"seq_tokens\":32768,\"kind\":\"ring\",\"none\":null,"
                           "\"plans\":[{\"rank\":1,\"cost\":{\"usd\":0.25}}]}";

static void comparisons_use_the_unit_of_the_key(void **state) {
  static const struct {
    const char *expression;
    enum spp_status status;
  } cases[] = {
      {"memory.peak_bytes<1001", SPP_OK},
      {"memory.peak_bytes<=1000", SPP_OK},
      {"memory.peak_bytes<1000", SPP_ERR_TOLERANCE},
      {"memory.peak_bytes>=1000", SPP_OK},
      {"memory.peak_bytes>1000", SPP_ERR_TOLERANCE},
      {"memory.peak_bytes==1kB", SPP_OK}, /* 1 kB = 1000 bytes */
      {"memory.peak_bytes!=1kB", SPP_ERR_TOLERANCE},
      {"memory.peak_bytes<1KiB", SPP_OK}, /* 1024 bytes */
      {"memory.peak_bytes<80G", SPP_ERR_USAGE},
      {" memory.peak_bytes  <  1KiB ", SPP_OK},
      {"memory.fits==true", SPP_OK},
      {"memory.fits==false", SPP_ERR_TOLERANCE},
      {"memory.parts[0].a==1.5", SPP_OK},
      {"memory.parts[1].a==1.5", SPP_ERR_USAGE},
      {"memory.parts[-1].a==1.5", SPP_ERR_USAGE},
      {"memory.parts[0==1", SPP_ERR_USAGE},
      {"time.step_s<3s", SPP_OK},
      {"time.step_s<2500ms", SPP_ERR_TOLERANCE},
      {"time.step_s==2.5", SPP_OK},
      {"seq_tokens==32k", SPP_OK}, /* 32 x 1024 */
      {"seq_tokens<32k", SPP_ERR_TOLERANCE},
      {"kind==ring", SPP_OK},
      {"kind!=ring", SPP_ERR_TOLERANCE},
      {"kind<ring", SPP_ERR_USAGE},
      {"none==null", SPP_OK},
      {"none!=null", SPP_ERR_TOLERANCE},
      {"rank==1", SPP_OK}, /* of plans[0] */
      {"cost.usd<0.3", SPP_OK},
      {"plans[0].rank==1", SPP_OK},
      {"memory==1", SPP_ERR_USAGE}, /* an object has no value */
      {"nothing==1", SPP_ERR_USAGE},
      {"memory.Peak_bytes<1001", SPP_ERR_USAGE},
      {"time.step_s<soon", SPP_ERR_USAGE},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_diag diag = {0};
    expect_note("%s", cases[i].expression);
    expect_status(spp_assert_check(cases[i].expression, json, &diag), cases[i].status, &diag);
  }
  expect_note("%s", "");
}

static void what_is_no_comparison_is_refused_before_the_search(void **state) {
  static const char *const bad[] = {"", "a", "a=1", "<1", "a<", "a< ", "a<1<2", "a=<1", "a===1", " <= "};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct spp_diag diag = {0};
    expect_note("'%s'", bad[i]);
    expect_status(spp_assert_parse(bad[i], &diag), SPP_ERR_USAGE, &diag);
  }
  expect_note("%s", "");
  expect_status(spp_assert_parse("a.b[3].c<=4", NULL), SPP_OK, NULL);
}

static void a_long_expression_is_refused_not_cut(void **state) {
  char text[600];
  (void)state;
  memset(text, 'a', sizeof text);
  memcpy(text + sizeof text - 4, "<1", 3);
  expect_status(spp_assert_parse(text, NULL), SPP_ERR_USAGE, NULL);
}

static void a_false_assertion_says_what_was_found(void **state) {
  struct spp_diag diag = {0};
  (void)state;
  spp_assert_check("memory.peak_bytes<1B", json, &diag);
  expect_str(diag.what, "assertion is false: it is 1000");
  expect_str(diag.where, "memory.peak_bytes");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comparisons_use_the_unit_of_the_key),
      cmocka_unit_test(what_is_no_comparison_is_refused_before_the_search),
      cmocka_unit_test(a_long_expression_is_refused_not_cut),
      cmocka_unit_test(a_false_assertion_says_what_was_found),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
