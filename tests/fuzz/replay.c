/* Runs a fuzz target without libFuzzer: over every file given (folders are read flat), and over simple
 * mutations of each, chosen by a fixed seed. Usage: REPLAY [--mutations N] FILE|FOLDER... */
#include <stdbool.h>

#include "base/file.h"
#include "base/paths.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_BYTES = 1 << 20, MAX_MUTATED = 4096 };

static uint32_t seed = 1;

static uint32_t draw(uint32_t below) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % below;
}

/* Change, drop or repeat one stretch of the text. */
static size_t mutate(uint8_t *text, size_t size) {
  static const char bytes[] = "0123456789.-_eE{}[]\",:\\ukKmMGiB/s \n\x80\xFF";
  uint32_t at = draw((uint32_t)size + 1), n = 1 + draw(8);
  switch (draw(3)) {
  case 0:
    if (at < size) text[at] = (uint8_t)bytes[draw(sizeof bytes)]; /* the closing NUL too */
    return size;
  case 1:
    if (at + n > size) return size;
    memmove(text + at, text + at + n, size - at - n);
    return size - n;
  default:
    if (at + n > size || size + n > MAX_MUTATED) return size;
    memmove(text + at + n, text + at, size - at);
    return size + n;
  }
}

static int run_file(const char *path, int mutations) {
  char *text;
  size_t size;
  struct spp_diag diag;
  if (spp_file_read(path, MAX_BYTES, &text, &size, &diag) != SPP_OK) {
    fprintf(stderr, "%s: %s\n", diag.where, diag.what);
    return -1;
  }
  LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  for (int i = 0; i < mutations && size <= MAX_MUTATED; i++) {
    uint8_t changed[MAX_MUTATED];
    size_t length = size;
    memcpy(changed, text, size);
    for (uint32_t k = 1 + draw(4); k > 0; k--)
      length = mutate(changed, length);
    LLVMFuzzerTestOneInput(changed, length);
  }
  free(text);
  return 1;
}

static int run_folder(const char *folder, int mutations) {
  struct spp_names names;
  struct spp_diag diag;
  int done = 0;
  if (spp_dir_list(folder, NULL, &names, &diag) != SPP_OK) return -1;
  for (int i = 0; i < names.count && done >= 0; i++) {
    char path[4096];
    if (spp_path_join(folder, names.names[i], path, sizeof path, &diag) != SPP_OK || spp_path_is_dir(path))
      continue;
    int result = run_file(path, mutations);
    done = result < 0 ? result : done + result;
  }
  spp_names_free(&names);
  return done;
}

int main(int argc, char **argv) {
  int files = 0, mutations = 0, first = 1;
  if (argc > 2 && strcmp(argv[1], "--mutations") == 0) {
    mutations = atoi(argv[2]);
    first = 3;
  }
  for (int i = first; i < argc; i++) {
    int result = spp_path_is_dir(argv[i]) ? run_folder(argv[i], mutations) : run_file(argv[i], mutations);
    if (result < 0) return 1;
    files += result;
  }
  printf("%d files, %d mutations of each\n", files, mutations);
  return files > 0 ? 0 : 1;
}
