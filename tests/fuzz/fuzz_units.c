/* Any text through every parser of units: it is refused, or the result is in range. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = fuzz_text(data, size);
  struct spp_diag diag;
  int64_t value = 0;
  double real = 0;
  char buf[32];
  if (spp_count_parse(text, "x", 1, 1000, &value, &diag) == SPP_OK) FUZZ_CHECK(value >= 1 && value <= 1000);
  if (spp_tokens_parse(text, "x", 1, INT64_MAX, &value, &diag) == SPP_OK) {
    FUZZ_CHECK(value >= 1);
    FUZZ_CHECK(strlen(spp_tokens_print(value, buf)) < 32);
  }
  if (spp_bytes_parse(text, "x", &value, &diag) == SPP_OK) {
    FUZZ_CHECK(value >= 0);
    FUZZ_CHECK(strlen(spp_bytes_print(value, buf)) < 32);
    FUZZ_CHECK(strlen(spp_bytes_print_decimal(value, buf)) < 32);
    FUZZ_CHECK(strlen(spp_int_print(value, buf)) < 32);
  }
  if (spp_rate_parse(text, "x", &real, &diag) == SPP_OK) FUZZ_CHECK(isfinite(real) && real >= 0);
  if (spp_seconds_parse(text, "x", &real, &diag) == SPP_OK) {
    FUZZ_CHECK(isfinite(real) && real >= 0);
    FUZZ_CHECK(strlen(spp_seconds_print(real, buf)) < 32);
  }
  if (spp_real_parse(text, "x", -1, 1, &real, &diag) == SPP_OK) FUZZ_CHECK(real >= -1 && real <= 1);
  free(text);
  return 0;
}
