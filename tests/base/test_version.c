#include "base/version.h"
#include "tests/expect.h"

static void version_and_features_are_stated(void **state) {
  (void)state;
  int n = 0, major, minor, patch;
  expect_i64(sscanf(spp_version(), "%d.%d.%d", &major, &minor, &patch), 3);
  expect_true(spp_version_commit()[0] != '\0');
  expect_true(strncmp(spp_version_compiler(), "gcc ", 4) == 0 ||
              strncmp(spp_version_compiler(), "clang ", 6) == 0);
  const struct spp_feature *features = spp_features(&n);
  expect_true(n > 0);
  for (int i = 0; i < n; i++)
    expect_true(features[i].name[0] && features[i].gives[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(version_and_features_are_stated),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
