/* Shared by the fuzz targets. A target is one file tests/fuzz/fuzz_NAME.c that defines
 * LLVMFuzzerTestOneInput; its seeds are the files of tests/fuzz/corpus/NAME. It runs under libFuzzer (clang,
 * -DSPP_FUZZ=ON), and over its seeds and simple mutations of them in every test run (tests/fuzz/replay.c). */
#ifndef SPP_TESTS_FUZZ_H
#define SPP_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A law that must hold whatever the input; not assert, which a release build leaves out. */
#define FUZZ_CHECK(condition)                                                                                \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                          \
      abort();                                                                                               \
    }                                                                                                        \
  } while (0)

/* The input as a NUL-terminated copy of exactly its size, so that the sanitizer sees every step beyond it. */
static inline char *fuzz_text(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (!text) abort();
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  return text;
}

#endif
