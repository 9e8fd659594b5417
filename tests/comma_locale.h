/* A locale whose decimal point is a comma, made on the spot: small machines have none installed. */
#ifndef SPP_TESTS_COMMA_LOCALE_H
#define SPP_TESTS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What glibc's localedef writes for: LC_NUMERIC, decimal_point ",", thousands_sep ".", grouping 3;3. */
static const unsigned char comma_lc_numeric[] = {
    0x14, 0x11, 0x03, 0x20, 6,    0,   0,   0, /* magic of the category, number of fields */
    0x20, 0,    0,    0,    0x22, 0,   0,   0,   0x24, 0,   0,   0, /* where each field begins */
    0x28, 0,    0,    0,    0x2C, 0,   0,   0,   0x30, 0,   0,   0, /* ... */
    ',',  0,    '.',  0,    3,    3,   0,   0,   ',',  0,   0,   0,   '.', 0,   0,
    0, /* point, separator, groups; the first two wide */
    'A',  'N',  'S',  'I',  '_',  'X', '3', '.', '4',  '-', '1', '9', '6', '8', 0, /* character set */
};

/* Switch LC_NUMERIC to it; false where the C library reads another format. */
static bool comma_locale_set(void) {
  char folder[] = "/tmp/spplan-test-locale-XXXXXX", name[64], path[96];
  if (!mkdtemp(folder)) return false;
  snprintf(name, sizeof name, "%s/comma", folder);
  snprintf(path, sizeof path, "%s/LC_NUMERIC", name);
  mkdir(name, 0700);
  FILE *file = fopen(path, "wb");
  if (file) {
    fwrite(comma_lc_numeric, 1, sizeof comma_lc_numeric, file);
    fclose(file);
  }
  setenv("LOCPATH", folder, 1);
  bool set = setlocale(LC_NUMERIC, "comma") != NULL;
  unlink(path);
  rmdir(name);
  rmdir(folder);
  char half[8];
  snprintf(half, sizeof half, "%.1f", 0.5);
  return set && half[1] == ',';
}

static void comma_locale_reset(void) {
  setlocale(LC_NUMERIC, "C");
  unsetenv("LOCPATH");
}

#endif
