/* Checks with readable failures, on top of cmocka 1.1.5, whose own print hexadecimal and whose float check
 * lets NaN pass. Include this one header in a test; end main with `return failed != 0` (cmocka returns a
 * count, and an exit status keeps only its low byte). */
#ifndef SPP_TESTS_EXPECT_H
#define SPP_TESTS_EXPECT_H

/* cmocka.h needs these four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static char expect_context[256];

/* What the following checks are about ("case 32k"); printed with the next failure. expect_note("%s", "")
 * clears. */
__attribute__((unused)) static void SPP_PRINTF(1, 2) expect_note(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(expect_context, sizeof expect_context, fmt, args);
  va_end(args);
}

__attribute__((unused)) static void SPP_PRINTF(3, 4)
    expect_fail_at(const char *file, int line, const char *fmt, ...) {
  char message[2048];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  print_error("%s:%d: %s\n", file, line, message);
  if (expect_context[0]) print_error("  in: %s\n", expect_context);
  _fail(file, line);
}

__attribute__((unused)) static void expect_i64_at(int64_t actual, int64_t expected, const char *text,
                                                  const char *file, int line) {
  if (actual != expected)
    expect_fail_at(file, line, "%s is %" PRId64 ", expected %" PRId64, text, actual, expected);
}

/* |actual - expected| <= rel * |expected|; rel 0 asks for equality. */
__attribute__((unused)) static void expect_rel_at(double actual, double expected, double rel,
                                                  const char *text, const char *file, int line) {
  if (!(fabs(actual - expected) <= rel * fabs(expected)) && !(isinf(expected) && actual == expected))
    expect_fail_at(file, line, "%s is %.17g, expected %.17g within %g", text, actual, expected, rel);
}

/* |actual - expected| <= bound */
__attribute__((unused)) static void expect_near_at(double actual, double expected, double bound,
                                                   const char *text, const char *file, int line) {
  if (!(fabs(actual - expected) <= bound))
    expect_fail_at(file, line, "%s is %.17g, expected %.17g within +-%g", text, actual, expected, bound);
}

__attribute__((unused)) static void expect_str_at(const char *actual, const char *expected, const char *text,
                                                  const char *file, int line) {
  if (!actual != !expected || (actual && strcmp(actual, expected) != 0))
    expect_fail_at(file, line, "%s is \"%s\", expected \"%s\"", text, actual ? actual : "(NULL)",
                   expected ? expected : "(NULL)");
}

/* actual holds the words somewhere. */
__attribute__((unused)) static void expect_has_at(const char *actual, const char *words, const char *text,
                                                  const char *file, int line) {
  if (!actual || !strstr(actual, words))
    expect_fail_at(file, line, "%s is \"%s\", which lacks \"%s\"", text, actual ? actual : "(NULL)", words);
}

__attribute__((unused)) static void expect_true_at(bool actual, bool expected, const char *text,
                                                   const char *file, int line) {
  if (actual != expected) expect_fail_at(file, line, "%s is %s", text, actual ? "true" : "false");
}

/* diag may be NULL; its message is printed on a surprise. */
__attribute__((unused)) static void expect_status_at(enum spp_status actual, enum spp_status expected,
                                                     const struct spp_diag *diag, const char *text,
                                                     const char *file, int line) {
  char message[1024] = "";
  if (actual == expected) return;
  if (diag && actual != SPP_OK) spp_diag_format(diag, message, sizeof message);
  expect_fail_at(file, line, "%s gives status %d (%s), expected %d (%s)%s%s", text, (int)actual,
                 spp_status_name(actual), (int)expected, spp_status_name(expected), message[0] ? ": " : "",
                 message);
}

#define expect_i64(actual, expected) expect_i64_at((actual), (expected), #actual, __FILE__, __LINE__)
#define expect_rel(actual, expected, rel)                                                                    \
  expect_rel_at((actual), (expected), (rel), #actual, __FILE__, __LINE__)
#define expect_near(actual, expected, bound)                                                                 \
  expect_near_at((actual), (expected), (bound), #actual, __FILE__, __LINE__)
#define expect_str(actual, expected) expect_str_at((actual), (expected), #actual, __FILE__, __LINE__)
#define expect_has(actual, words)    expect_has_at((actual), (words), #actual, __FILE__, __LINE__)
#define expect_true(condition)       expect_true_at((condition), true, #condition, __FILE__, __LINE__)
#define expect_false(condition)      expect_true_at((condition), false, #condition, __FILE__, __LINE__)
#define expect_status(status, expected, diag)                                                                \
  expect_status_at((status), (expected), (diag), #status, __FILE__, __LINE__)

#endif
