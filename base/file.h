/* Whole files, read within a limit and written all or nothing. */
#ifndef SPP_BASE_FILE_H
#define SPP_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Read at most max_bytes; "-" is standard input. *text is malloc'd and NUL-terminated (the file may hold
 * NULs), *len (may be NULL) its length. Absent, unreadable, a directory, too large, or a pipe into which
 * nobody writes: SPP_ERR_INPUT. */
enum spp_status spp_file_read(const char *path, int64_t max_bytes, char **text, size_t *len,
                              struct spp_diag *diag);

/* Write beside path, then rename over it: a reader sees the old file or the new one, never half of it; on any
 * error the old file stays. A link is followed, the old mode kept; "-" and devices are written in place.
 * Errors are SPP_ERR_INPUT. */
enum spp_status spp_file_write_atomic(const char *path, const char *text, size_t len, struct spp_diag *diag);

bool spp_path_exists(const char *path);
bool spp_path_is_dir(const char *path);

/* A sorted list of names, one allocation per name. */
struct spp_names {
  char **names;
  int count;
};

/* Entries of a directory in byte order, without those that begin with a dot; with suffix (may be NULL), only
 * those that end in it. Names carry no folder. The caller frees with spp_names_free. */
enum spp_status spp_dir_list(const char *path, const char *suffix, struct spp_names *out,
                             struct spp_diag *diag);
void spp_names_free(struct spp_names *names);

#endif
