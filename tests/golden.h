/* Golden files: text compared with tests/golden/NAME. After a wanted change, SPPLAN_UPDATE_GOLDEN=1 rewrites
 * the files; the review reads their difference. */
#ifndef SPP_TESTS_GOLDEN_H
#define SPP_TESTS_GOLDEN_H

#include "tests/expect.h"

#include <stdlib.h>

#include "base/file.h"

/* First line in which the two differ, counted from 1, and where it begins in each. */
__attribute__((unused)) static int golden_difference(const char *a, const char *b, const char **at_a,
                                                     const char **at_b) {
  int line = 1;
  *at_a = a;
  *at_b = b;
  for (; *a && *a == *b; a++, b++) {
    if (*a != '\n') continue;
    line++;
    *at_a = a + 1;
    *at_b = b + 1;
  }
  return line;
}

__attribute__((unused)) static void expect_golden_at(const char *text, const char *name, const char *file,
                                                     int line) {
  char path[4096];
  char *golden = NULL;
  struct spp_diag diag;
  snprintf(path, sizeof path, "%s/tests/golden/%s", SPP_SOURCE_DIR, name);
  const char *update = getenv("SPPLAN_UPDATE_GOLDEN");
  if (update && strcmp(update, "1") == 0) {
    if (spp_file_write_atomic(path, text, strlen(text), &diag) != SPP_OK)
      expect_fail_at(file, line, "%s: %s", diag.where, diag.what);
    print_message("rewrote %s\n", path);
    return;
  }
  if (spp_file_read(path, 16 << 20, &golden, NULL, &diag) != SPP_OK)
    expect_fail_at(file, line, "%s: %s (SPPLAN_UPDATE_GOLDEN=1 writes it)", diag.where, diag.what);
  if (strcmp(text, golden) == 0) {
    free(golden);
    return;
  }
  const char *actual, *expected;
  int at = golden_difference(text, golden, &actual, &expected);
  expect_fail_at(file, line, "tests/golden/%s:%d differs\n  is       \"%.*s\"\n  expected \"%.*s\"", name, at,
                 (int)strcspn(actual, "\n"), actual, (int)strcspn(expected, "\n"), expected);
}

#define expect_golden(text, name) expect_golden_at((text), (name), __FILE__, __LINE__)

#endif
