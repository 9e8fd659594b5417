#include "base/paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_PATH = 4096 };

enum spp_status spp_path_join(const char *folder, const char *name, char *buf, size_t size,
                              struct spp_diag *diag) {
  size_t n = strlen(folder);
  const char *slash = n > 0 && folder[n - 1] != '/' ? "/" : "";
  if (n + strlen(slash) + strlen(name) >= size)
    return spp_diag_set(diag, SPP_ERR_INPUT, folder, NULL, "path is too long");
  snprintf(buf, size, "%s%s%s", folder, slash, name);
  return SPP_OK;
}

/* share/spplan/configs of the prefix that holds bin/PROGRAM. */
static bool beside_program(char *buf, size_t size) {
  char program[MAX_PATH];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return false;
  program[n] = '\0';
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = '\0';
  }
  return spp_path_join(program, "share/spplan/configs", buf, size, NULL) == SPP_OK && spp_path_is_dir(buf);
}

static enum spp_status copy(const char *path, char *buf, size_t size, struct spp_diag *diag) {
  if (strlen(path) >= size) return spp_diag_set(diag, SPP_ERR_INPUT, path, NULL, "path is too long");
  memcpy(buf, path, strlen(path) + 1);
  return SPP_OK;
}

enum spp_status spp_config_dir(const char *wanted, char *buf, size_t size, struct spp_diag *diag) {
  const char *asked = wanted ? wanted : getenv("SPPLAN_CONFIG_DIR");
  if (asked && *asked) {
    if (spp_path_is_dir(asked)) return copy(asked, buf, size, diag);
    return spp_diag_set(diag, SPP_ERR_INPUT, asked,
                        wanted ? "give --config-dir an existing folder"
                               : "set SPPLAN_CONFIG_DIR to an existing folder",
                        "the folder of data files does not exist");
  }
  char found[MAX_PATH];
  if (beside_program(found, sizeof found)) return copy(found, buf, size, diag);
  if (spp_path_is_dir(SPP_CONFIG_DIR)) return copy(SPP_CONFIG_DIR, buf, size, diag);
  return spp_diag_set(diag, SPP_ERR_ABSENT, SPP_CONFIG_DIR, "install spplan again, or give --config-dir",
                      "the folder of data files does not exist");
}
