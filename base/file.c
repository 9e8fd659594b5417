#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum spp_status fail(struct spp_diag *diag, const char *path, const char *doing) {
  return spp_diag_set(diag, SPP_ERR_INPUT, path, NULL, "cannot %s: %s", doing, strerror(errno));
}

static enum spp_status too_large(struct spp_diag *diag, const char *path, int64_t max_bytes) {
  return spp_diag_set(diag, SPP_ERR_INPUT, path, NULL, "file is larger than the limit of %lld bytes",
                      (long long)max_bytes);
}

/* Read fd to its end into a growing buffer that never passes max_bytes (+1 to notice excess). first: a byte
 * that was read already, or -1. */
static enum spp_status read_on(int fd, int first, const char *path, size_t max_bytes, char **text,
                               size_t *len, struct spp_diag *diag) {
  size_t used = 0, cap = 0;
  char *data = NULL;
  for (;;) {
    if (used + 1 >= cap) {
      size_t grown = cap ? cap * 2 : 8192;
      if (grown > max_bytes + 2) grown = max_bytes + 2;
      char *more = realloc(data, grown);
      if (!more) {
        free(data);
        return spp_diag_oom(diag);
      }
      data = more;
      cap = grown;
    }
    if (first >= 0) {
      data[used++] = (char)first;
      first = -1;
      continue;
    }
    ssize_t got = read(fd, data + used, cap - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      enum spp_status status = fail(diag, path, "read");
      free(data);
      return status;
    }
    if (got == 0) break;
    used += (size_t)got;
    if (used > max_bytes) {
      free(data);
      return too_large(diag, path, (int64_t)max_bytes);
    }
  }
  data[used] = '\0';
  *text = data;
  if (len) *len = used;
  return SPP_OK;
}

static enum spp_status read_all(int fd, const char *path, size_t max_bytes, char **text, size_t *len,
                                struct spp_diag *diag) {
  return read_on(fd, -1, path, max_bytes, text, len, diag);
}

static bool set_blocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
}

/* A pipe opened without waiting. One who writes is waited for however slow he is; that somebody begins to, a
 * second.
 */
static enum spp_status read_pipe(int fd, const char *path, size_t max_bytes, char **text, size_t *len,
                                 struct spp_diag *diag) {
  enum { WAIT_MS = 1000 };
  struct pollfd one = {.fd = fd, .events = POLLIN};
  unsigned char first;
  ssize_t got = read(fd, &first, 1);
  if (got == 0 && poll(&one, 1, WAIT_MS) == 0) {
    got = read(fd, &first, 1); /* a writer who has said nothing yet leaves EAGAIN */
    if (got == 0)
      return spp_diag_set(diag, SPP_ERR_INPUT, path, "name a file, or write into the pipe",
                          "nobody writes into this pipe");
  }
  if (!set_blocking(fd)) return fail(diag, path, "read");
  return read_on(fd, got == 1 ? first : -1, path, max_bytes, text, len, diag);
}

enum spp_status spp_file_read(const char *path, int64_t max_bytes, char **text, size_t *len,
                              struct spp_diag *diag) {
  if (max_bytes < 0) max_bytes = 0;
  if ((uint64_t)max_bytes > SIZE_MAX / 4) max_bytes = (int64_t)(SIZE_MAX / 4);
  if (strcmp(path, "-") == 0)
    return read_all(STDIN_FILENO, "standard input", (size_t)max_bytes, text, len, diag);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer would not open */
  if (fd < 0) return fail(diag, path, "open");
  struct stat info;
  enum spp_status status;
  if (fstat(fd, &info) != 0)
    status = fail(diag, path, "read");
  else if (S_ISDIR(info.st_mode))
    status = spp_diag_set(diag, SPP_ERR_INPUT, path, NULL, "is a directory, not a file");
  else if (S_ISREG(info.st_mode) && info.st_size > max_bytes)
    status = too_large(diag, path, max_bytes);
  else if (S_ISFIFO(info.st_mode))
    status = read_pipe(fd, path, (size_t)max_bytes, text, len, diag);
  else if (!set_blocking(fd))
    status = fail(diag, path, "read");
  else
    status = read_all(fd, path, (size_t)max_bytes, text, len, diag);
  close(fd);
  return status;
}

static bool write_all(int fd, const char *text, size_t len) {
  while (len > 0) {
    ssize_t put = write(fd, text, len);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text += put;
    len -= (size_t)put;
  }
  return true;
}

static enum spp_status write_in_place(const char *path, const char *text, size_t len, struct spp_diag *diag) {
  bool to_stdout = strcmp(path, "-") == 0;
  int fd = to_stdout ? STDOUT_FILENO : open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENXIO)
    return spp_diag_set(diag, SPP_ERR_INPUT, path, "name a file, or read from the pipe",
                        "nobody reads this pipe");
  if (fd < 0 || (!to_stdout && !set_blocking(fd))) return fail(diag, path, "open");
  enum spp_status status = write_all(fd, text, len) ? SPP_OK : fail(diag, path, "write");
  if (!to_stdout && close(fd) != 0 && status == SPP_OK) status = fail(diag, path, "write");
  return status;
}

/* Mode of the file to be replaced, else what creating it would give. */
static mode_t final_mode(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0) return info.st_mode & 07777;
  mode_t mask = umask(0);
  umask(mask);
  return (mode_t)(0666 & ~mask);
}

static enum spp_status write_beside(const char *target, const char *text, size_t len, struct spp_diag *diag) {
  static const char ending[] = ".XXXXXX";
  size_t size = strlen(target) + sizeof ending;
  char *temporary = malloc(size);
  if (!temporary) return spp_diag_oom(diag);
  snprintf(temporary, size, "%s%s", target, ending);
  int fd = mkstemp(temporary);
  if (fd < 0) {
    enum spp_status status = fail(diag, target, "write");
    free(temporary);
    return status;
  }
  bool ok = fchmod(fd, final_mode(target)) == 0 && write_all(fd, text, len) && fsync(fd) == 0;
  int error = errno;
  if (close(fd) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (ok && rename(temporary, target) != 0) {
    ok = false;
    error = errno;
  }
  if (!ok) unlink(temporary);
  free(temporary);
  errno = error;
  return ok ? SPP_OK : fail(diag, target, "write");
}

/* An interrupt between creating the temporary file and the rename would leave it behind. */
static enum spp_status write_uninterrupted(const char *target, const char *text, size_t len,
                                           struct spp_diag *diag) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  sigset_t interrupts, before;
  sigemptyset(&interrupts);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    sigaddset(&interrupts, ends[i]);
  sigprocmask(SIG_BLOCK, &interrupts, &before);
  enum spp_status status = write_beside(target, text, len, diag);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return status;
}

enum spp_status spp_file_write_atomic(const char *path, const char *text, size_t len, struct spp_diag *diag) {
  struct stat info, link;
  bool exists = stat(path, &info) == 0;
  int error = errno;
  if (!exists && lstat(path, &link) == 0) { /* a link to nothing or to itself: not for us to replace */
    errno = error;
    return fail(diag, path, "write");
  }
  if (strcmp(path, "-") == 0 || (exists && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)))
    return write_in_place(path, text, len, diag);
  if (exists && S_ISDIR(info.st_mode))
    return spp_diag_set(diag, SPP_ERR_INPUT, path, NULL, "cannot write: is a directory");
  char *real = exists ? realpath(path, NULL) : NULL;
  enum spp_status status = write_uninterrupted(real ? real : path, text, len, diag);
  free(real);
  return status;
}

bool spp_path_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

bool spp_path_is_dir(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool ends_in(const char *name, const char *suffix) {
  size_t n = strlen(name), m = suffix ? strlen(suffix) : 0;
  return n >= m && memcmp(name + n - m, suffix ? suffix : "", m) == 0;
}

static bool append_name(struct spp_names *list, int *cap, const char *name) {
  if (list->count == *cap) {
    int grown = *cap ? *cap * 2 : 32;
    char **names = realloc(list->names, (size_t)grown * sizeof *names);
    if (!names) return false;
    list->names = names;
    *cap = grown;
  }
  char *copy = strdup(name);
  if (!copy) return false;
  list->names[list->count++] = copy;
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

enum spp_status spp_dir_list(const char *path, const char *suffix, struct spp_names *out,
                             struct spp_diag *diag) {
  DIR *dir = opendir(path);
  if (!dir) return fail(diag, path, "list");
  struct spp_names list = {0};
  int cap = 0;
  bool ok = true;
  for (const struct dirent *entry; ok && (entry = readdir(dir)) != NULL;)
    if (entry->d_name[0] != '.' && ends_in(entry->d_name, suffix))
      ok = append_name(&list, &cap, entry->d_name);
  closedir(dir);
  if (!ok) {
    spp_names_free(&list);
    return spp_diag_oom(diag);
  }
  if (list.count > 1) qsort(list.names, (size_t)list.count, sizeof *list.names, by_name);
  *out = list;
  return SPP_OK;
}

void spp_names_free(struct spp_names *names) {
  for (int i = 0; i < names->count; i++)
    free(names->names[i]);
  free(names->names);
  *names = (struct spp_names){0};
}
