/* The validator itself: it must refuse, or the schema tests prove nothing. */
#include "tests/report/schema.h"

static bool valid(const char *schema_json, const char *value_json, char *why, size_t size) {
  struct schema_set set = {0};
  struct schema_fault fault = {"", ""};
  struct spp_json_doc *value;
  expect_status(spp_json_parse(schema_json, strlen(schema_json), "schema", &set.own, NULL), SPP_OK, NULL);
  expect_status(spp_json_parse(value_json, strlen(value_json), "value", &value, NULL), SPP_OK, NULL);
  set.common = set.own;
  bool ok = schema_check(&set, spp_json_root(set.own), spp_json_root(value), &fault);
  snprintf(why, size, "%s: %s", fault.path, fault.what);
  spp_json_free(value);
  spp_json_free(set.own);
  return ok;
}

static void every_keyword_refuses_what_it_should(void **state) {
  static const struct {
    const char *schema, *good, *bad;
  } cases[] = {
      {"{\"type\":\"integer\"}", "3", "3.5"},
      {"{\"type\":\"number\"}", "3.5", "\"3\""},
      {"{\"type\":[\"string\",\"null\"]}", "null", "1"},
      {"{\"type\":\"boolean\"}", "true", "1"},
      {"{\"const\":\"x/1\"}", "\"x/1\"", "\"x/2\""},
      {"{\"enum\":[\"a\",null]}", "null", "\"b\""},
      {"{\"minimum\":1}", "1", "0"},
      {"{\"maximum\":1}", "1", "1.5"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}",
       "{\"a\":1}", "{}"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"a\":1}", "{\"a\":\"1\"}"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{}}}", "{}", "{\"b\":1}"},
      {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}", "[1,2]", "[1,\"2\"]"},
      {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\"}]}", "null", "\"x\""},
      {"{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"integer\"}}}", "1", "\"1\""},
      {"{\"title\":\"t\",\"type\":\"integer\"}", "1", "null"},
  };
  char why[700];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("%s", cases[i].schema);
    expect_true(valid(cases[i].schema, cases[i].good, why, sizeof why));
    expect_false(valid(cases[i].schema, cases[i].bad, why, sizeof why));
  }
  expect_note("%s", "");
}

static void an_unknown_keyword_or_reference_fails(void **state) {
  char why[700];
  (void)state;
  expect_false(valid("{\"maxLength\":3}", "\"x\"", why, sizeof why));
  expect_has(why, "unknown keyword");
  expect_false(valid("{\"$ref\":\"#/$defs/absent\"}", "1", why, sizeof why));
}

static void the_place_of_a_fault_is_named(void **state) {
  char why[700];
  (void)state;
  expect_false(valid("{\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}}}", "{\"a\":[1,2,\"x\"]}",
                     why, sizeof why));
  expect_str(why, "$.a[2]: wrong type");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_keyword_refuses_what_it_should),
      cmocka_unit_test(an_unknown_keyword_or_reference_fails),
      cmocka_unit_test(the_place_of_a_fault_is_named),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
