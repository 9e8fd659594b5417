#include "base/units.h"
#include "tests/expect.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void tokens_are_counted_in_1024s(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t tokens;
  } cases[] = {{"32k", 32768},
               {"32K", 32768},
               {"1m", 1048576},
               {"1M", 1048576},
               {"10b", INT64_C(10000000000)},
               {"1.5B", INT64_C(1500000000)},
               {"15T", INT64_C(15000000000000)},
               {"32000", 32000},
               {"1", 1},
               {"1.5k", 1536},
               {"0.5m", 524288},
               {"1_048_576", 1048576},
               {"32.000k", 32768},
               {"1 m", 1048576},
               /* 1/1024: ten binary places are ten decimal ones. */
               {"0.0009765625k", 1},
               /* 1 + 2^-20 millions. */
               {"1.00000095367431640625m", 1048577}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int64_t tokens = -1;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_tokens_parse(cases[i].text, "--seq", 1, INT64_MAX, &tokens, &diag), SPP_OK, &diag);
    expect_i64(tokens, cases[i].tokens);
  }
}

static void tokens_refuse_everything_else(void **state) {
  (void)state;
  static const char *const cases[] = {"",
                                      " ",
                                      "k",
                                      "32kk",
                                      "32kfoo",
                                      "32g",
                                      "32kb",
                                      "32ki",
                                      "10bt",
                                      "10\x22",
                                      "9223373t",
                                      "-32k",
                                      "+32k",
                                      " 32k",
                                      "32k ",
                                      "32  k",
                                      "1e3",
                                      "0x20",
                                      "1.0001k",
                                      "1.5",
                                      "1.",
                                      ".5k",
                                      "1..5k",
                                      "1_",
                                      "_1",
                                      "1__0",
                                      "1_k",
                                      "nan",
                                      "inf",
                                      "1,024",
                                      "1.5k5",
                                      "1._5k",
                                      "1.5_k",
                                      "9223372036854775808",
                                      "9007199254740992k",
                                      "8796093022208m",
                                      "32\n"};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int64_t tokens = -7;
    struct spp_diag diag;
    expect_note("'%s'", cases[i]);
    expect_status(spp_tokens_parse(cases[i], "--seq", 1, INT64_MAX, &tokens, &diag), SPP_ERR_USAGE, &diag);
    expect_i64(tokens, -7);
    expect_str(diag.where, "--seq");
    expect_true(diag.what[0] != '\0');
  }
}

static void counts_are_plain_and_within_their_range(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum spp_status status;
    int64_t value;
  } cases[] = {
      {"8", SPP_OK, 8},         {"1_000", SPP_OK, 1000},   {"1", SPP_OK, 1},
      {"008", SPP_OK, 8},       {"0", SPP_ERR_USAGE, 0},   {"1001", SPP_ERR_USAGE, 0},
      {"8k", SPP_ERR_USAGE, 0}, {"8.0", SPP_ERR_USAGE, 0}, {"", SPP_ERR_USAGE, 0},
      {"8x", SPP_ERR_USAGE, 0}, {"-1", SPP_ERR_USAGE, 0},  {"99999999999999999999", SPP_ERR_USAGE, 0},
      {"8 ", SPP_ERR_USAGE, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int64_t value = 0;
    struct spp_diag diag;
    expect_note("'%s'", cases[i].text);
    expect_status(spp_count_parse(cases[i].text, "--gpus", 1, 1000, &value, &diag), cases[i].status, &diag);
    expect_i64(value, cases[i].value);
  }
  int64_t value = 0;
  struct spp_diag diag;
  expect_status(spp_count_parse("9223372036854775807", "n", 0, INT64_MAX, &value, &diag), SPP_OK, &diag);
  expect_i64(value, INT64_MAX);
}

static void range_messages_name_the_bound(void **state) {
  (void)state;
  int64_t value;
  struct spp_diag diag;
  spp_count_parse("0", "--gpus", 1, 65536, &value, &diag);
  expect_str(diag.what, "'0' is below the minimum of 1");
  spp_count_parse("65537", "--gpus", 1, 65536, &value, &diag);
  expect_str(diag.what, "'65537' is above the maximum of 65,536");
}

static void bytes_are_binary_or_decimal_as_written(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t bytes;
  } cases[] = {{"0", 0},
               {"1234", 1234},
               {"1234B", 1234},
               {"1KiB", 1024},
               {"1MiB", 1048576},
               {"80GiB", INT64_C(85899345920)},
               {"1TiB", INT64_C(1099511627776)},
               {"1PiB", INT64_C(1125899906842624)},
               {"1kB", 1000},
               {"1KB", 1000},
               {"1MB", 1000000},
               {"80GB", INT64_C(80000000000)},
               {"2TB", INT64_C(2000000000000)},
               {"1PB", INT64_C(1000000000000000)},
               {"1.5GB", 1500000000},
               {"80 GiB", INT64_C(85899345920)},
               /* 58.15 x 1073741824 = 62438087065.6, to the nearest byte */
               {"58.15GiB", INT64_C(62438087066)},
               /* 0.0005 x 1000 = 0.5 rounds up, 0.00049 x 1000 = 0.49 down */
               {"0.0005kB", 1},
               {"0.00049kB", 0},
               {"1_000.5kB", 1000500},
               {"9223372036854775807", INT64_MAX},
               /* 8191 x 2^50 + 2^50 - 1 bytes is INT64_MAX; 8191 PiB is 8191 x 2^50 */
               {"8191PiB", INT64_C(8191) * (INT64_C(1) << 50)}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int64_t bytes = -1;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_bytes_parse(cases[i].text, "--max-memory", &bytes, &diag), SPP_OK, &diag);
    expect_i64(bytes, cases[i].bytes);
  }
}

static void bytes_refuse_everything_else(void **state) {
  (void)state;
  static const char *const cases[] = {"",       "80G",     "80g",     "80k",     "80T",
                                      "80Gi",   "80gib",   "80gb",    "80Gb",    "80GiBB",
                                      "80GiB ", "-80GiB",  "+1",      "1.5",     "1.5B",
                                      "GiB",    "80  GiB", "80\tGiB", "0x10",    "1e9",
                                      "nan",    "inf",     "80EB",    "8192PiB", "9223372036854775808",
                                      "80GB/s", "80 "};
  for (size_t i = 0; i < COUNT(cases); i++) {
    int64_t bytes = -7;
    struct spp_diag diag;
    expect_note("'%s'", cases[i]);
    expect_status(spp_bytes_parse(cases[i], "--max-memory", &bytes, &diag), SPP_ERR_USAGE, &diag);
    expect_i64(bytes, -7);
  }
}

static void a_bare_prefix_gets_both_readings_as_a_hint(void **state) {
  (void)state;
  int64_t bytes;
  struct spp_diag diag;
  spp_bytes_parse("80G", "--max-memory", &bytes, &diag);
  expect_str(diag.what, "'80G' could be binary or decimal");
  expect_str(diag.where, "--max-memory");
  expect_str(diag.hint, "write 80GiB (binary) or 80GB (decimal)");
  spp_bytes_parse("1.5 t", "--max-memory", &bytes, &diag);
  expect_str(diag.hint, "write 1.5TiB (binary) or 1.5TB (decimal)");
}

static void rates_tell_bytes_from_bits(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double bytes_per_s;
  } cases[] = {{"50GB/s", 50e9},      {"400Gb/s", 50e9}, {"1GiB/s", 1073741824.0},
               {"8b/s", 1},           {"1B/s", 1},       {"1.6Tb/s", 200e9},
               {"3.35TB/s", 3.35e12}, {"8Kib/s", 1024},  {"900 GB/s", 900e9}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    double rate = -1;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_rate_parse(cases[i].text, "--rate", &rate, &diag), SPP_OK, &diag);
    expect_rel(rate, cases[i].bytes_per_s, 1e-15);
  }
}

static void rates_refuse_everything_else(void **state) {
  (void)state;
  static const char *const cases[] = {
      "",        "50",      "50GB",  "50G/s", "50Gbps",  "50GB/sec",
      "50GB/h",  "50gb/s",  "50 /s", "/s",    "GB/s",    "-50GB/s",
      "50GB/s ", "50GBB/s", "50/s",  "50i/s", "infGB/s", "99999999999999999999GB/s",
      "50GB /s"};
  for (size_t i = 0; i < COUNT(cases); i++) {
    double rate = -7;
    struct spp_diag diag;
    expect_note("'%s'", cases[i]);
    expect_status(spp_rate_parse(cases[i], "--rate", &rate, &diag), SPP_ERR_USAGE, &diag);
    expect_rel(rate, -7, 0);
  }
}

static void times_carry_a_unit(void **state) {
  (void)state;
  static const struct {
    const char *text;
    double s;
  } cases[] = {{"10us", 10e-6}, {"3ms", 3e-3}, {"2s", 2},          {"5min", 300}, {"2h", 7200},
               {"3d", 259200},  {"7ns", 7e-9}, {"1.5 ms", 1.5e-3}, {"0s", 0},     {"1_000s", 1000}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    double s = -1;
    struct spp_diag diag;
    expect_note("%s", cases[i].text);
    expect_status(spp_seconds_parse(cases[i].text, "--mtbf", &s, &diag), SPP_OK, &diag);
    expect_rel(s, cases[i].s, 1e-15);
  }
  static const char *const refused[] = {
      "",      "10",   "10m",  "10sec", "s",    "-1s", "1s ",
      "1 s s", "infs", "nans", "1e3s",  "10Us", "1hs", "99999999999999999999s"};
  for (size_t i = 0; i < COUNT(refused); i++) {
    double s = -7;
    struct spp_diag diag;
    expect_note("'%s'", refused[i]);
    expect_status(spp_seconds_parse(refused[i], "--mtbf", &s, &diag), SPP_ERR_USAGE, &diag);
    expect_rel(s, -7, 0);
  }
}

static void reals_are_finite_and_within_their_range(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum spp_status status;
    double value;
  } cases[] = {{"0.25", SPP_OK, 0.25},       {"1e-4", SPP_OK, 1e-4},
               {"-1", SPP_OK, -1},           {"1", SPP_OK, 1},
               {"1.0001", SPP_ERR_USAGE, 0}, {"-1.1", SPP_ERR_USAGE, 0},
               {"nan", SPP_ERR_USAGE, 0},    {"inf", SPP_ERR_USAGE, 0},
               {"1e999", SPP_ERR_USAGE, 0},  {"0x1p-2", SPP_ERR_USAGE, 0},
               {"", SPP_ERR_USAGE, 0},       {" 0.5", SPP_ERR_USAGE, 0},
               {"0.5 ", SPP_ERR_USAGE, 0},   {"0,5", SPP_ERR_USAGE, 0},
               {".5", SPP_ERR_USAGE, 0},     {"5.", SPP_ERR_USAGE, 0},
               {"1e", SPP_ERR_USAGE, 0},     {"+0.5", SPP_ERR_USAGE, 0},
               {"--1", SPP_ERR_USAGE, 0},    {"0.5x", SPP_ERR_USAGE, 0}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    double value = 0;
    struct spp_diag diag;
    expect_note("'%s'", cases[i].text);
    expect_status(spp_real_parse(cases[i].text, "--x", -1, 1, &value, &diag), cases[i].status, &diag);
    expect_rel(value, cases[i].value, 0);
  }
}

static void bytes_print_three_digits_or_so(void **state) {
  (void)state;
  static const struct {
    int64_t bytes;
    const char *binary, *decimal;
  } cases[] = {
      {0, "0 B", "0 B"},
      {512, "512 B", "512 B"},
      {1023, "1023 B", "1.0 kB"},
      {1024, "1.0 KiB", "1.0 kB"},
      /* 58.15000000037 x 2^30 = 62.438e9 */
      {INT64_C(62438087066), "58.2 GiB", "62.4 GB"},
      /* 403 MiB = 422,576,128 */
      {INT64_C(403) << 20, "403 MiB", "423 MB"},
      {INT64_C(85899345920), "80.0 GiB", "85.9 GB"},
      /* one below 1 GiB must not print 1024 MiB */
      {(INT64_C(1) << 30) - 1, "1.0 GiB", "1.1 GB"},
      {(INT64_C(1) << 10) * 100 - 1, "100 KiB", "102 kB"},
      {999999999, "954 MiB", "1.0 GB"},
      {-(INT64_C(16) << 30) / 5, "-3.2 GiB", "-3.4 GB"},
      {INT64_MAX, "8192 PiB", "9223 PB"},
      {INT64_MIN, "-8192 PiB", "-9223 PB"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    char buf[32];
    expect_note("%lld", (long long)cases[i].bytes);
    expect_str(spp_bytes_print(cases[i].bytes, buf), cases[i].binary);
    expect_str(spp_bytes_print_decimal(cases[i].bytes, buf), cases[i].decimal);
  }
}

static void whole_numbers_are_grouped_by_thousands(void **state) {
  (void)state;
  static const struct {
    int64_t value;
    const char *text;
  } cases[] = {{0, "0"},
               {999, "999"},
               {1000, "1,000"},
               {32768, "32,768"},
               {7615616512, "7,615,616,512"},
               {-1234, "-1,234"},
               {INT64_MAX, "9,223,372,036,854,775,807"},
               {INT64_MIN, "-9,223,372,036,854,775,808"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    char buf[32];
    expect_str(spp_int_print(cases[i].value, buf), cases[i].text);
  }
}

static void tokens_print_as_they_are_typed(void **state) {
  (void)state;
  static const struct {
    int64_t tokens;
    const char *text;
  } cases[] = {{0, "0"},        {1000, "1,000"},    {1024, "1k"},    {32768, "32k"},   {32000, "32,000"},
               {1048576, "1m"}, {1572864, "1536k"}, {2097152, "2m"}, {-1024, "-1,024"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    char buf[32];
    expect_str(spp_tokens_print(cases[i].tokens, buf), cases[i].text);
  }
}

static void printed_tokens_parse_back(void **state) {
  (void)state;
  for (int64_t tokens = 1; tokens < (INT64_C(1) << 40); tokens = tokens * 3 + 1024) {
    char buf[32];
    int64_t back = 0, rounded = tokens / 1024 * 1024 + 1024;
    struct spp_diag diag;
    expect_status(spp_tokens_parse(spp_tokens_print(rounded, buf), "n", 1, INT64_MAX, &back, &diag), SPP_OK,
                  &diag);
    expect_i64(back, rounded);
  }
}

static void times_print_in_the_unit_a_person_would_use(void **state) {
  (void)state;
  static const struct {
    double s;
    const char *text;
  } cases[] = {{0, "0 s"},
               {9.6, "9.6 s"},
               {0.0123, "12.3 ms"},
               {4.1e-6, "4.1 us"},
               {5e-9, "5.0 ns"},
               {0.9996, "1.0 s"}, /* not 1000 ms */
               {0.9994, "999 ms"},
               {59.94, "59.9 s"},
               {59.96, "1 min 0 s"},
               {90, "1 min 30 s"},
               {3599.6, "1 h 0 min"},
               {11520, "3 h 12 min"},
               {86400, "1 d 0 h"},
               {86400 * 2 + 3600 * 5, "2 d 5 h"},
               {-0.0123, "-12.3 ms"},
               {-90, "-1 min 30 s"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    char buf[32];
    expect_note("%g", cases[i].s);
    expect_str(spp_seconds_print(cases[i].s, buf), cases[i].text);
  }
  char buf[32];
  expect_str(spp_seconds_print((double)NAN, buf), "unknown");
  expect_str(spp_seconds_print((double)INFINITY, buf), "forever");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tokens_are_counted_in_1024s),
      cmocka_unit_test(tokens_refuse_everything_else),
      cmocka_unit_test(counts_are_plain_and_within_their_range),
      cmocka_unit_test(range_messages_name_the_bound),
      cmocka_unit_test(bytes_are_binary_or_decimal_as_written),
      cmocka_unit_test(bytes_refuse_everything_else),
      cmocka_unit_test(a_bare_prefix_gets_both_readings_as_a_hint),
      cmocka_unit_test(rates_tell_bytes_from_bits),
      cmocka_unit_test(rates_refuse_everything_else),
      cmocka_unit_test(times_carry_a_unit),
      cmocka_unit_test(reals_are_finite_and_within_their_range),
      cmocka_unit_test(bytes_print_three_digits_or_so),
      cmocka_unit_test(whole_numbers_are_grouped_by_thousands),
      cmocka_unit_test(tokens_print_as_they_are_typed),
      cmocka_unit_test(printed_tokens_parse_back),
      cmocka_unit_test(times_print_in_the_unit_a_person_would_use),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
