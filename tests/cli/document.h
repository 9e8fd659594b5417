/* JSON answers opened for reading: a value that is not there fails the test. */
#ifndef SPP_TESTS_CLI_DOCUMENT_H
#define SPP_TESTS_CLI_DOCUMENT_H

#include "tests/cli/run.h"

#include "base/json.h"

struct document {
  struct run run;
  struct spp_json_doc *doc;
  struct spp_json root;
};
__attribute__((unused)) static struct document open_json(const char *line, int rc) {
  struct document d = {.run = answer(line, NULL, rc)};
  struct spp_diag diag = {0};
  expect_status(spp_json_parse(d.run.out, strlen(d.run.out), "answer", &d.doc, &diag), SPP_OK, &diag);
  d.root = spp_json_root(d.doc);
  return d;
}
__attribute__((unused)) static void close_json(struct document *d) {
  spp_json_free(d->doc);
  run_free(&d->run);
}
__attribute__((unused)) static int64_t i64_at(struct spp_json v, const char *key) {
  int64_t value = INT64_MIN;
  struct spp_diag diag = {0};
  expect_status(spp_json_i64(spp_json_get(v, key), INT64_MIN, INT64_MAX, &value, &diag), SPP_OK, &diag);
  return value;
}
__attribute__((unused)) static double real_at(struct spp_json v, const char *key) {
  double value = NAN;
  struct spp_diag diag = {0};
  expect_status(spp_json_real(spp_json_get(v, key), -1e300, 1e300, &value, &diag), SPP_OK, &diag);
  return value;
}

#endif
