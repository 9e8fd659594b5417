#include "base/file.h"
#include "base/paths.h"
#include "tests/expect.h"

#include <stdlib.h>

static void config_folder_is_the_one_asked_for(void **state) {
  (void)state;
  char buf[256] = "";
  struct spp_diag diag;
  unsetenv("SPPLAN_CONFIG_DIR");
  expect_status(spp_config_dir("/tmp", buf, sizeof buf, &diag), SPP_OK, &diag);
  expect_str(buf, "/tmp");
  setenv("SPPLAN_CONFIG_DIR", "/usr", 1);
  expect_status(spp_config_dir(NULL, buf, sizeof buf, &diag), SPP_OK, &diag);
  expect_str(buf, "/usr");
  expect_status(spp_config_dir("/tmp", buf, sizeof buf, &diag), SPP_OK, &diag);
  expect_str(buf, "/tmp"); /* the option before the environment */
  expect_status(spp_config_dir("/no/such", buf, sizeof buf, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.where, "/no/such");
  setenv("SPPLAN_CONFIG_DIR", "/no/such", 1);
  expect_status(spp_config_dir(NULL, buf, sizeof buf, &diag), SPP_ERR_INPUT, &diag);
  unsetenv("SPPLAN_CONFIG_DIR");
  expect_status(spp_config_dir("/tmp", buf, 4, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "path is too long");
}

static void config_folder_defaults_to_the_source_tree(void **state) {
  (void)state;
  char buf[4096] = "";
  struct spp_diag diag;
  unsetenv("SPPLAN_CONFIG_DIR");
  bool there = spp_path_is_dir(SPP_SOURCE_DIR "/configs");
  expect_status(spp_config_dir(NULL, buf, sizeof buf, &diag), there ? SPP_OK : SPP_ERR_ABSENT, &diag);
  if (there) expect_str(buf, SPP_SOURCE_DIR "/configs");
}

static void paths_join_with_one_slash(void **state) {
  (void)state;
  static const struct {
    const char *folder, *name, *joined;
  } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
  char buf[8];
  struct spp_diag diag;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_status(spp_path_join(cases[i].folder, cases[i].name, buf, sizeof buf, &diag), SPP_OK, &diag);
    expect_str(buf, cases[i].joined);
  }
  expect_status(spp_path_join("1234", "67", buf, sizeof buf, &diag), SPP_OK, &diag);
  expect_str(buf, "1234/67");
  expect_status(spp_path_join("1234", "678", buf, sizeof buf, &diag), SPP_ERR_INPUT, &diag);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(config_folder_is_the_one_asked_for),
      cmocka_unit_test(config_folder_defaults_to_the_source_tree),
      cmocka_unit_test(paths_join_with_one_slash),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
