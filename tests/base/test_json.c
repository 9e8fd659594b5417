#include "base/json.h"
#include "tests/comma_locale.h"
#include "tests/expect.h"

#include <stdlib.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct spp_json_doc *parse(const char *text) {
  struct spp_json_doc *doc = NULL;
  struct spp_diag diag;
  expect_status(spp_json_parse(text, strlen(text), "x.json", &doc, &diag), SPP_OK, &diag);
  return doc;
}

static void every_kind_of_value_is_told_apart(void **state) {
  (void)state;
  struct spp_json_doc *doc = parse("{\"n\":null,\"t\":true,\"i\":-3,\"e\":1e3,\"w\":2.0,\"r\":0.5,\"big\":"
                                   "1e300,\"s\":\"x\",\"a\":[],\"o\":{}}");
  static const struct {
    const char *key;
    enum spp_json_kind kind;
  } cases[] = {{"n", SPP_JSON_NULL},  {"t", SPP_JSON_BOOL},   {"i", SPP_JSON_INT},    {"e", SPP_JSON_INT},
               {"w", SPP_JSON_INT},   {"r", SPP_JSON_REAL},   {"big", SPP_JSON_REAL}, {"s", SPP_JSON_STRING},
               {"a", SPP_JSON_ARRAY}, {"o", SPP_JSON_OBJECT}, {"T", SPP_JSON_ABSENT}, {"", SPP_JSON_ABSENT}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    expect_note("%s", cases[i].key);
    expect_i64(spp_json_kind(spp_json_get(spp_json_root(doc), cases[i].key)), cases[i].kind);
  }
  spp_json_free(doc);
}

static void typed_reads_give_the_value(void **state) {
  (void)state;
  struct spp_json_doc *doc =
      parse("{\"i\":85899345920,\"r\":0.25,\"b\":false,\"s\":\"\\u00e9\\ud83d\\ude00\\n\"}");
  struct spp_json root = spp_json_root(doc);
  struct spp_diag diag;
  int64_t i = 0;
  double r = 0;
  bool b = true;
  const char *s = NULL;
  /* 80 GiB: cJSON's own integer would stop at 2147483647. */
  expect_status(spp_json_i64(spp_json_get(root, "i"), 0, INT64_MAX, &i, &diag), SPP_OK, &diag);
  expect_i64(i, INT64_C(85899345920));
  expect_status(spp_json_real(spp_json_get(root, "r"), 0, 1, &r, &diag), SPP_OK, &diag);
  expect_rel(r, 0.25, 0);
  expect_status(spp_json_bool(spp_json_get(root, "b"), &b, &diag), SPP_OK, &diag);
  expect_false(b);
  expect_status(spp_json_string(spp_json_get(root, "s"), &s, &diag), SPP_OK, &diag);
  expect_str(s, "\xC3\xA9\xF0\x9F\x98\x80\n");
  spp_json_free(doc);
}

static void fallbacks_serve_for_absent_and_null_only(void **state) {
  (void)state;
  struct spp_json_doc *doc = parse("{\"null\":null,\"wrong\":[]}");
  struct spp_json root = spp_json_root(doc);
  struct spp_diag diag;
  static const char *const unset[] = {"null", "absent"};
  for (size_t k = 0; k < COUNT(unset); k++) {
    struct spp_json v = spp_json_get(root, unset[k]);
    int64_t i = 0;
    double r = 0;
    bool b = false;
    const char *s = NULL;
    expect_status(spp_json_i64_or(v, 0, 10, -99, &i, &diag), SPP_OK, &diag);
    expect_i64(i, -99);
    expect_status(spp_json_real_or(v, 0, 1, -0.5, &r, &diag), SPP_OK, &diag);
    expect_rel(r, -0.5, 0);
    expect_status(spp_json_bool_or(v, true, &b, &diag), SPP_OK, &diag);
    expect_true(b);
    expect_status(spp_json_string_or(v, "d", &s, &diag), SPP_OK, &diag);
    expect_str(s, "d");
    expect_status(spp_json_i64(v, 0, 10, &i, &diag), SPP_ERR_INPUT, &diag);
  }
  struct spp_json wrong = spp_json_get(root, "wrong");
  int64_t i = 5;
  double r;
  bool b;
  const char *s;
  expect_status(spp_json_i64_or(wrong, 0, 10, 1, &i, &diag), SPP_ERR_INPUT, &diag);
  expect_i64(i, 5);
  expect_status(spp_json_real_or(wrong, 0, 10, 1, &r, &diag), SPP_ERR_INPUT, &diag);
  expect_status(spp_json_bool_or(wrong, true, &b, &diag), SPP_ERR_INPUT, &diag);
  expect_status(spp_json_string_or(wrong, "", &s, &diag), SPP_ERR_INPUT, &diag);
  spp_json_free(doc);
}

enum { REFUSED = -7 };

static void integers_are_exact_or_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;                                              /* -1: refused */
  } cases[] = {{"9007199254740991", INT64_C(9007199254740991)}, /* 2^53 - 1 */
               {"-9007199254740991", INT64_C(-9007199254740991)},
               /* 2^53, which the reader cannot tell from 2^53 + 1 */
               {"9007199254740992", REFUSED},
               {"9007199254740993", REFUSED},
               {"1e16", REFUSED},
               {"1e300", REFUSED},
               {"1.5", REFUSED},
               {"\"8\"", REFUSED},
               {"true", REFUSED},
               {"7.0", 7},
               {"12e1", 120}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct spp_json_doc *doc = parse(cases[i].text);
    struct spp_diag diag;
    int64_t value = REFUSED;
    expect_note("%s", cases[i].text);
    enum spp_status status = spp_json_i64(spp_json_root(doc), INT64_MIN, INT64_MAX, &value, &diag);
    expect_i64(value, cases[i].value);
    expect_i64(status, cases[i].value == REFUSED ? SPP_ERR_INPUT : SPP_OK);
    spp_json_free(doc);
  }
}

static void messages_name_file_path_and_value(void **state) {
  (void)state;
  struct spp_json_doc *doc = parse("{\"a\":{\"list\":[1,{\"x y\":\"word\"},-5]},\"r\":2.5}");
  struct spp_json root = spp_json_root(doc), list = spp_json_get(spp_json_get(root, "a"), "list");
  struct spp_diag diag;
  int64_t i;
  double r;
  bool b;
  spp_json_i64(spp_json_get(spp_json_at(list, 1), "x y"), 0, 9, &i, &diag);
  expect_str(diag.where, "x.json: $.a.list[1][\"x y\"]");
  expect_str(diag.what, "an integer expected, found the string \"word\"");
  spp_json_i64(spp_json_at(list, 2), 0, 4096, &i, &diag);
  expect_str(diag.where, "x.json: $.a.list[2]");
  expect_str(diag.what, "-5 is outside 0 to 4,096");
  spp_json_i64(spp_json_get(root, "r"), 0, 9, &i, &diag);
  expect_str(diag.what, "an integer expected, found 2.5");
  spp_json_real(spp_json_get(root, "r"), 0, 1, &r, &diag);
  expect_str(diag.what, "2.5 is outside 0 to 1");
  spp_json_bool(list, &b, &diag);
  expect_str(diag.what, "true or false expected, found an array");
  spp_json_i64(spp_json_get(spp_json_get(root, "vision_config"), "depth"), 0, 9, &i, &diag);
  expect_str(diag.where, "x.json: $.vision_config.depth");
  expect_str(diag.what, "missing: an integer expected");
  spp_json_i64(spp_json_at(spp_json_get(spp_json_at(list, 7), "k"), 3), 0, 9, &i, &diag);
  expect_str(diag.where, "x.json: $.a.list[7].k[3]");
  expect_i64(spp_json_refuse(list, "fewer", &diag, "%d are too many", 3), SPP_ERR_INPUT);
  expect_str(diag.what, "3 are too many");
  expect_str(diag.where, "x.json: $.a.list");
  expect_str(diag.hint, "fewer");
  expect_status(spp_json_expect(list, SPP_JSON_ARRAY, &diag), SPP_OK, &diag);
  expect_status(spp_json_expect(list, SPP_JSON_OBJECT, &diag), SPP_ERR_INPUT, &diag);
  expect_status(spp_json_expect(spp_json_at(list, 0), SPP_JSON_REAL, &diag), SPP_OK, &diag);
  spp_json_free(doc);
}

static void paths_are_cut_to_the_buffer(void **state) {
  (void)state;
  struct spp_json_doc *doc = parse("{\"abcdef\":{\"ghijkl\":1}}");
  struct spp_json v = spp_json_get(spp_json_get(spp_json_root(doc), "abcdef"), "ghijkl");
  for (size_t size = 0; size < 20; size++) {
    char buf[32];
    memset(buf, 'z', sizeof buf);
    spp_json_path(v, buf, size);
    if (size > 0) {
      char expected[32];
      snprintf(expected, sizeof expected, "%.*s", (int)size - 1, "$.abcdef.ghijkl");
      expect_str(buf, expected);
    }
    expect_true(buf[size] == 'z');
  }
  spp_json_free(doc);
}

static void objects_and_arrays_are_walked_in_file_order(void **state) {
  (void)state;
  struct spp_json_doc *doc = parse("{\"z\":1,\"a\":[10,20,30]}");
  struct spp_json root = spp_json_root(doc), list = spp_json_get(root, "a");
  struct spp_diag diag;
  expect_i64(spp_json_size(root), 2);
  expect_str(spp_json_key(root, 0), "z");
  expect_str(spp_json_key(root, 1), "a");
  expect_true(spp_json_key(root, 2) == NULL);
  expect_true(spp_json_key(root, -1) == NULL);
  expect_true(spp_json_key(list, 0) == NULL);
  expect_i64(spp_json_kind(spp_json_member(root, 1)), SPP_JSON_ARRAY);
  expect_i64(spp_json_kind(spp_json_member(list, 0)), SPP_JSON_ABSENT);
  expect_i64(spp_json_size(list), 3);
  int64_t sum = 0, value;
  for (struct spp_json v = spp_json_first(list); v.node; v = spp_json_next(v)) {
    expect_status(spp_json_i64(v, 0, 99, &value, &diag), SPP_OK, &diag);
    sum += value;
  }
  expect_i64(sum, 60);
  expect_true(spp_json_at(list, 3).node == NULL);
  expect_true(spp_json_at(list, -1).node == NULL);
  expect_true(spp_json_at(root, 0).node == NULL);
  expect_i64(spp_json_size(spp_json_get(root, "none")), 0);
  expect_true(spp_json_first(spp_json_get(root, "none")).node == NULL);
  expect_str(spp_json_own_key(list), "a");
  expect_true(spp_json_own_key(root) == NULL);
  spp_json_free(doc);
}

static void every_syntax_fault_is_refused_with_its_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *where, *what;
  } cases[] = {
      {"", "x.json:1:1", "no JSON value"},
      {"  \n ", "x.json:2:2", "no JSON value"},
      {"{\"a\":1} x", "x.json:1:9", "text after the JSON value"},
      {"{\"a\":1}\n{}", "x.json:2:1", "text after the JSON value"},
      {"{\"a\":1,}", "x.json:1:8", "a key in double quotes expected"},
      {"[1,]", "x.json:1:4", "a value expected after the comma"},
      {"[1 2]", "x.json:1:4", "',' or ']' expected"},
      {"{\"a\":1 \"b\":2}", "x.json:1:8", "',' or '}' expected"},
      {"{\"a\" 1}", "x.json:1:6", "':' expected after the key"},
      {"{a:1}", "x.json:1:2", "a key in double quotes expected"},
      {"{\"a\":}", "x.json:1:6", "not a JSON value"},
      {"{\n \"a\": NaN\n}", "x.json:2:7", "NaN and infinity are not JSON"},
      {"[Infinity]", "x.json:1:2", "NaN and infinity are not JSON"},
      {"[-Infinity]", "x.json:1:3", "not a JSON value"},
      {"[1e999]", "x.json:1:2", "number is out of range"},
      {"[-1e999]", "x.json:1:2", "number is out of range"},
      {"[01]", "x.json:1:4", "number with a leading zero"},
      {"[1.]", "x.json:1:4", "digit expected after the decimal point"},
      {"[.5]", "x.json:1:2", "not a JSON value"},
      {"[+1]", "x.json:1:2", "not a JSON value"},
      {"[1e]", "x.json:1:4", "digit expected in the exponent"},
      {"[0x10]", "x.json:1:3", "',' or ']' expected"},
      {"[1", "x.json:1:3", "array is not closed"},
      {"[", "x.json:1:2", "a value expected"},
      {"{\"a\":1", "x.json:1:7", "object is not closed"},
      {"{", "x.json:1:2", "object is not closed"},
      {"{\"a\":1,", "x.json:1:8", "object is not closed"},
      {"{\"a\":", "x.json:1:6", "a value expected"},
      {"[\"abc", "x.json:1:2", "string is not closed"},
      {"[\"a\\", "x.json:1:5", "unknown escape in a string"},
      {"[\"a\\x\"]", "x.json:1:5", "unknown escape in a string"},
      {"[\"\\u12g4\"]", "x.json:1:4", "\\u needs four hexadecimal digits"},
      {"[\"\\u0000\"]", "x.json:1:4", "\\u0000 is not allowed in a string"},
      {"[\"\\ud800\"]", "x.json:1:9", "lone high surrogate"},
      {"[\"\\ud800\\u0041\"]", "x.json:1:9", "lone high surrogate"},
      {"[\"\\udc00\"]", "x.json:1:4", "lone low surrogate"},
      {"[\"a\nb\"]", "x.json:1:4", "control character in a string"},
      {"[\"a\xFF\"]", "x.json:1:4", "invalid UTF-8"},
      {"[\"\xC0\x80\"]", "x.json:1:3", "invalid UTF-8"},         /* overlong NUL */
      {"[\"\xED\xA0\x80\"]", "x.json:1:3", "invalid UTF-8"},     /* surrogate */
      {"[\"\xF4\x90\x80\x80\"]", "x.json:1:3", "invalid UTF-8"}, /* above U+10FFFF */
      {"[\"\xE2\x82", "x.json:1:3", "invalid UTF-8"},
      {"\xFF", "x.json:1:1", "invalid UTF-8"},
      {"['a']", "x.json:1:2", "not a JSON value"},
      {"tru", "x.json:1:1", "not a JSON value"},
      {"truex", "x.json:1:5", "text after the JSON value"},
      {"// c\n1", "x.json:1:1", "not a JSON value"},
      {"[1]]", "x.json:1:4", "text after the JSON value"},
      {"]", "x.json:1:1", "not a JSON value"},
      {"[1}", "x.json:1:3", "',' or ']' expected"},
      /* A column counts characters, not bytes. */
      {"[\"\xC3\xA9\xC3\xA9\" 1]", "x.json:1:7", "',' or ']' expected"},
      {"[0000000000000000000000000000000000000000000000000000000000000]", "x.json:1:63",
       "number with a leading zero"},
      {"[1111111111111111111111111111111111111111111111111111111111111]", "x.json:1:2", "number is too long"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag;
    expect_note("case %zu: %s", i, cases[i].text);
    expect_status(spp_json_parse(cases[i].text, strlen(cases[i].text), "x.json", &doc, &diag), SPP_ERR_INPUT,
                  &diag);
    expect_true(doc == NULL);
    expect_str(diag.where, cases[i].where);
    expect_str(diag.what, cases[i].what);
  }
}

static void a_nul_byte_is_refused_wherever_it_stands(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t len;
  } cases[] = {{"1\0", 2},
               {"\0"
                "1",
                2},
               {"[\"a\0\"]", 6},
               {"[\"\\\0\"]", 6},
               {"{\0}", 3}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag;
    expect_note("case %zu", i);
    expect_status(spp_json_parse(cases[i].text, cases[i].len, "x.json", &doc, &diag), SPP_ERR_INPUT, &diag);
  }
}

static void valid_corners_of_the_grammar_are_taken(void **state) {
  (void)state;
  static const char *const cases[] = {"0",
                                      "-0",
                                      "1E+2",
                                      "1e-999",
                                      "\"\"",
                                      "[]",
                                      "{}",
                                      " [ ] ",
                                      "\t{ } \r\n",
                                      "[[],{}]",
                                      "{\"\":{\"\":0}}",
                                      "\xEF\xBB\xBF{\"a\":1}",
                                      "\xEF\xBB\xBF\n1",
                                      "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
                                      "{\"a\":1,\"A\":2}",
                                      "[\"\x7F\"]"};
  for (size_t i = 0; i < COUNT(cases); i++) {
    expect_note("%s", cases[i]);
    spp_json_free(parse(cases[i]));
  }
}

static void numbers_do_not_follow_the_locale(void **state) {
  (void)state;
  double value = 0;
  struct spp_diag diag;
  if (!comma_locale_set()) skip();
  struct spp_json_doc *doc = parse("[0.25]");
  expect_status(spp_json_real(spp_json_at(spp_json_root(doc), 0), 0, 1, &value, &diag), SPP_OK, &diag);
  comma_locale_reset();
  expect_rel(value, 0.25, 0);
  spp_json_free(doc);
}

static void text_need_not_end_in_nul(void **state) {
  (void)state;
  struct spp_json_doc *doc = NULL;
  struct spp_diag diag;
  char *exact = malloc(3); /* one byte more would be found by the address sanitizer */
  memcpy(exact, "123", 3);
  expect_status(spp_json_parse(exact, 3, "x.json", &doc, &diag), SPP_OK, &diag);
  free(exact);
  spp_json_free(doc);
}

static void duplicate_keys_are_refused_at_any_depth(void **state) {
  (void)state;
  static const struct {
    const char *text, *where;
  } cases[] = {{"{\"a\":1,\"a\":2}", "x.json: $"},
               {"{\"l\":[{\"m\":{\"k\":1,\"j\":0,\"k\":1}}]}", "x.json: $.l[0].m"},
               /* The same key, once written with an escape. */
               {"{\"a\":1,\"\\u0061\":2}", "x.json: $"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_json_parse(cases[i].text, strlen(cases[i].text), "x.json", &doc, &diag), SPP_ERR_INPUT,
                  &diag);
    expect_str(diag.where, cases[i].where);
    expect_has(diag.what, "stands twice");
  }
}

static void nesting_ends_at_64(void **state) {
  (void)state;
  for (int depth = 63; depth <= 66; depth++) {
    char text[200];
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag;
    enum spp_status status = spp_json_parse(text, (size_t)depth * 2, "x.json", &doc, &diag);
    expect_note("depth %d", depth);
    expect_status(status, depth <= 64 ? SPP_OK : SPP_ERR_INPUT, &diag);
    if (status != SPP_OK) {
      expect_str(diag.what, "nested too deeply");
      expect_str(diag.where, "x.json:1:65");
      continue;
    }
    /* The path of the innermost value reaches all the way down. */
    struct spp_json v = spp_json_root(doc);
    for (int i = 1; i < depth; i++)
      v = spp_json_at(v, 0);
    char path[300];
    expect_i64((int64_t)strlen(spp_json_path(v, path, sizeof path)), 1 + 3 * (depth - 1));
    spp_json_free(doc);
  }
}

static void files_are_loaded_up_to_the_limit(void **state) {
  (void)state;
  char path[] = "/tmp/spplan-test-json-XXXXXX";
  int fd = mkstemp(path);
  expect_true(fd >= 0);
  FILE *file = fdopen(fd, "w");
  /* 1 MiB + 1: spaces around a number. */
  for (int64_t i = 0; i < SPP_JSON_MAX_BYTES; i++)
    fputc(' ', file);
  fputc('7', file);
  fclose(file);
  struct spp_json_doc *doc = NULL;
  struct spp_diag diag;
  expect_status(spp_json_load(path, &doc, &diag), SPP_ERR_INPUT, &diag);
  expect_has(diag.what, "limit");
  expect_str(diag.where, path);
  expect_status(spp_json_load_limit(path, 2 * SPP_JSON_MAX_BYTES, &doc, &diag), SPP_OK, &diag);
  expect_str(spp_json_name(doc), path);
  spp_json_free(doc);
  expect_i64(truncate(path, SPP_JSON_MAX_BYTES), 0);
  doc = NULL;
  expect_status(spp_json_load(path, &doc, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "no JSON value");
  unlink(path);
  expect_status(spp_json_load(path, &doc, &diag), SPP_ERR_INPUT, &diag);
  expect_true(doc == NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_value_is_told_apart),
      cmocka_unit_test(typed_reads_give_the_value),
      cmocka_unit_test(fallbacks_serve_for_absent_and_null_only),
      cmocka_unit_test(integers_are_exact_or_refused),
      cmocka_unit_test(messages_name_file_path_and_value),
      cmocka_unit_test(paths_are_cut_to_the_buffer),
      cmocka_unit_test(objects_and_arrays_are_walked_in_file_order),
      cmocka_unit_test(every_syntax_fault_is_refused_with_its_place),
      cmocka_unit_test(a_nul_byte_is_refused_wherever_it_stands),
      cmocka_unit_test(valid_corners_of_the_grammar_are_taken),
      cmocka_unit_test(numbers_do_not_follow_the_locale),
      cmocka_unit_test(text_need_not_end_in_nul),
      cmocka_unit_test(duplicate_keys_are_refused_at_any_depth),
      cmocka_unit_test(nesting_ends_at_64),
      cmocka_unit_test(files_are_loaded_up_to_the_limit),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
