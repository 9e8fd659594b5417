#include "base/json.h"
#include "base/json_out.h"
#include "tests/comma_locale.h"
#include "tests/expect.h"

#include <float.h>
#include <stdlib.h>

static void write_sample(struct spp_jo *jo) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "schema", "spplan.x/1");
  spp_jo_arr(jo, "list");
  spp_jo_i64(jo, NULL, 1);
  spp_jo_obj(jo, NULL);
  spp_jo_end(jo);
  spp_jo_end(jo);
  spp_jo_bool(jo, "yes", true);
  spp_jo_null(jo, "nothing");
  spp_jo_end(jo);
}

static void compact_output_is_one_line(void **state) {
  (void)state;
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, false);
  write_sample(&jo);
  expect_true(spp_jo_ok(&jo));
  expect_str(out.data, "{\"schema\":\"spplan.x/1\",\"list\":[1,{}],\"yes\":true,\"nothing\":null}\n");
  spp_str_free(&out);
}

static void pretty_output_indents_by_one_space(void **state) {
  (void)state;
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, true);
  write_sample(&jo);
  expect_true(spp_jo_ok(&jo));
  expect_str(out.data, "{\n \"schema\": \"spplan.x/1\",\n \"list\": [\n  1,\n  {}\n ],\n \"yes\": true,\n"
                       " \"nothing\": null\n}\n");
  spp_str_free(&out);
}

static void what_is_not_known_is_null(void **state) {
  (void)state;
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, false);
  spp_jo_arr(&jo, NULL);
  for (int known = 0; known < 2; known++) {
    spp_jo_i64_if(&jo, NULL, 7, known);
    spp_jo_real_if(&jo, NULL, 0.5, known);
    spp_jo_bool_if(&jo, NULL, false, known);
  }
  spp_jo_end(&jo);
  expect_true(spp_jo_ok(&jo));
  expect_str(out.data, "[null,null,null,7,0.5,false]\n");
  spp_str_free(&out);
}

static void integers_are_exact_to_the_last_digit(void **state) {
  (void)state;
  static const struct {
    int64_t value;
    const char *text;
  } cases[] = {{0, "0"},
               {-1, "-1"},
               {INT64_C(9007199254740993), "9007199254740993"}, /* 2^53 + 1, which no double holds */
               {INT64_MAX, "9223372036854775807"},
               {INT64_MIN, "-9223372036854775808"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_str out;
    struct spp_jo jo;
    spp_str_init(&out);
    spp_jo_begin(&jo, &out, false);
    spp_jo_i64(&jo, NULL, cases[i].value);
    expect_str(out.data, cases[i].text);
    spp_str_free(&out);
  }
}

static const char *real_text(double value, bool exact, char buf[64]) {
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, false);
  if (exact)
    spp_jo_real_exact(&jo, NULL, value);
  else
    spp_jo_real(&jo, NULL, value);
  snprintf(buf, 64, "%s", out.data);
  spp_str_free(&out);
  return buf;
}

static void reals_carry_six_digits_or_all(void **state) {
  (void)state;
  char buf[64];
  expect_str(real_text(0.1, false, buf), "0.1");
  expect_str(real_text(1234567.0, false, buf), "1.23457e+06");
  expect_str(real_text(0, false, buf), "0");
  expect_str(real_text(2.0 / 3, false, buf), "0.666667");
  expect_str(real_text((double)NAN, false, buf), "null");
  expect_str(real_text((double)INFINITY, false, buf), "null");
  expect_str(real_text(-(double)INFINITY, true, buf), "null");
  static const double values[] = {0.1, 2.0 / 3, DBL_MAX, DBL_MIN, -1e-7, 123456789.123456789};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    expect_rel(strtod(real_text(values[i], true, buf), NULL), values[i], 0);
}

static void reals_do_not_follow_the_locale(void **state) {
  (void)state;
  char buf[64];
  if (!comma_locale_set()) skip();
  expect_str(real_text(0.5, false, buf), "0.5");
  expect_str(real_text(0.1, true, buf), "0.1");
  comma_locale_reset();
}

static void strings_are_escaped_and_always_valid_utf8(void **state) {
  (void)state;
  static const struct {
    const char *text, *json;
  } cases[] = {{"plain", "\"plain\""},
               {"q\"b\\s/", "\"q\\\"b\\\\s/\""},
               {"a\nb\tc\rd\x01\x1F\x7F", "\"a\\nb\\tc\\u000dd\\u0001\\u001f\\u007f\""},
               {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
               {"bad\xFF"
                "end\xC3",
                "\"bad\xEF\xBF\xBD"
                "end\xEF\xBF\xBD\""},
               {NULL, "null"},
               {"", "\"\""}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_str out;
    struct spp_jo jo;
    spp_str_init(&out);
    spp_jo_begin(&jo, &out, false);
    spp_jo_str(&jo, NULL, cases[i].text);
    expect_str(out.data, cases[i].json);
    spp_str_free(&out);
  }
}

/* Every byte string survives: written, then read by our own strict reader. */
static void what_is_written_reads_back(void **state) {
  (void)state;
  uint32_t seed = 12345;
  for (int round = 0; round < 200; round++) {
    char text[33];
    for (int i = 0; i < 32; i++) {
      seed = seed * 1664525u + 1013904223u;
      text[i] = (char)(1 + (seed >> 24) % 0x7F);
    }
    text[32] = '\0';
    struct spp_str out;
    struct spp_jo jo;
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag;
    const char *back = NULL;
    spp_str_init(&out);
    spp_jo_begin(&jo, &out, round % 2 == 0);
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, text, text);
    spp_jo_end(&jo);
    expect_status(spp_json_parse(out.data, out.len, "out", &doc, &diag), SPP_OK, &diag);
    expect_status(spp_json_string(spp_json_get(spp_json_root(doc), text), &back, &diag), SPP_OK, &diag);
    expect_str(back, text);
    spp_json_free(doc);
    spp_str_free(&out);
  }
}

static void misuse_is_noticed(void **state) {
  (void)state;
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, false);
  spp_jo_obj(&jo, NULL);
  expect_false(spp_jo_ok(&jo)); /* not closed */
  spp_jo_i64(&jo, NULL, 1);     /* a member without a key */
  spp_jo_end(&jo);
  expect_false(spp_jo_ok(&jo));
  spp_jo_begin(&jo, &out, false);
  spp_jo_end(&jo); /* nothing to close */
  expect_false(spp_jo_ok(&jo));
  spp_jo_begin(&jo, &out, false);
  spp_jo_arr(&jo, NULL);
  spp_jo_i64(&jo, "key", 1); /* an element with a key */
  spp_jo_end(&jo);
  expect_false(spp_jo_ok(&jo));
  spp_jo_begin(&jo, &out, false);
  for (int i = 0; i < SPP_JO_MAX_DEPTH + 1; i++)
    spp_jo_arr(&jo, NULL);
  for (int i = 0; i < SPP_JO_MAX_DEPTH; i++)
    spp_jo_end(&jo);
  expect_false(spp_jo_ok(&jo));
  spp_str_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compact_output_is_one_line),
      cmocka_unit_test(pretty_output_indents_by_one_space),
      cmocka_unit_test(what_is_not_known_is_null),
      cmocka_unit_test(integers_are_exact_to_the_last_digit),
      cmocka_unit_test(reals_carry_six_digits_or_all),
      cmocka_unit_test(reals_do_not_follow_the_locale),
      cmocka_unit_test(strings_are_escaped_and_always_valid_utf8),
      cmocka_unit_test(what_is_written_reads_back),
      cmocka_unit_test(misuse_is_noticed),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
