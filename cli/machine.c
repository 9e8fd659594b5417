#include "cli/machine.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* "Model: <tab> NVIDIA H100 80GB HBM3" in the driver's information file. */
static bool model_line(const char *text, char *buf, size_t size) {
  const char *line = strstr(text, "Model:");
  size_t length;
  if (!line) return false;
  line += strlen("Model:");
  line += strspn(line, " \t");
  length = strcspn(line, "\r\n");
  if (length == 0 || length >= size) return false;
  memcpy(buf, line, length);
  buf[length] = '\0';
  return true;
}

const char *spp_machine_gpu(const char *root, char *buf, size_t size) {
  struct spp_names gpus;
  bool found = false;
  if (!spp_path_is_dir(root) || spp_dir_list(root, NULL, &gpus, NULL) != SPP_OK) return NULL;
  for (int i = 0; i < gpus.count && !found; i++) {
    char path[512], *text;
    int length = snprintf(path, sizeof path, "%s/%s/information", root, gpus.names[i]);
    if (length < 0 || (size_t)length >= sizeof path || !spp_path_exists(path)) continue;
    if (spp_file_read(path, 65536, &text, NULL, NULL) != SPP_OK) continue;
    found = model_line(text, buf, size);
    free(text);
  }
  spp_names_free(&gpus);
  return found ? buf : NULL;
}

/* `word` of `length` stands in `text` between characters that are no letters or digits; case ignored. */
static bool has_word(const char *text, const char *word, size_t length) {
  for (size_t at = 0; text[at]; at++) {
    size_t n = 0;
    if (at > 0 && isalnum((unsigned char)text[at - 1])) continue;
    while (n < length && tolower((unsigned char)text[at + n]) == tolower((unsigned char)word[n]))
      n++;
    if (n == length && !isalnum((unsigned char)text[at + n])) return true;
  }
  return false;
}

static bool has_digit(const char *word, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (isdigit((unsigned char)word[i])) return true;
  return false;
}

static int score(const char *model, const char *name) {
  int points = 100;
  bool identified = false;
  while (*name) {
    size_t length = strcspn(name, "-");
    bool there = has_word(model, name, length);
    if (!identified && !there) return 0;
    if (identified || !has_digit(name, length)) points += there ? 10 : -1;
    identified = identified || has_digit(name, length);
    name += length;
    name += *name == '-';
  }
  return points;
}

const char *spp_machine_match(const char *model, const char *const *names, int count) {
  const char *best = NULL;
  int most = 0;
  for (int i = 0; i < count; i++) {
    int points = score(model, names[i]);
    if (points <= most) continue;
    most = points;
    best = names[i];
  }
  return best;
}
