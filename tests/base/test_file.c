#include "base/file.h"
#include "tests/expect.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/spplan-test-file-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *in_folder(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  fputs(text, file);
  fclose(file);
}

static void expect_content(const char *path, const char *expected) {
  char *text = NULL;
  struct spp_diag diag;
  expect_status(spp_file_read(path, 1000, &text, NULL, &diag), SPP_OK, &diag);
  expect_str(text, expected);
  free(text);
}

static int entries(void) {
  struct spp_names names;
  struct spp_diag diag;
  expect_status(spp_dir_list(folder, NULL, &names, &diag), SPP_OK, &diag);
  int count = names.count;
  spp_names_free(&names);
  return count;
}

static void a_file_is_read_whole_up_to_its_limit(void **state) {
  (void)state;
  const char *path = in_folder("a");
  put(path, "12345");
  char *text = NULL;
  size_t len = 0;
  struct spp_diag diag;
  expect_status(spp_file_read(path, 5, &text, &len, &diag), SPP_OK, &diag);
  expect_i64((int64_t)len, 5);
  expect_str(text, "12345");
  free(text);
  text = NULL;
  expect_status(spp_file_read(path, 4, &text, &len, &diag), SPP_ERR_INPUT, &diag);
  expect_true(text == NULL);
  expect_str(diag.where, path);
  expect_str(diag.what, "file is larger than the limit of 4 bytes");
}

static void an_endless_file_stops_at_the_limit(void **state) {
  (void)state;
  char *text = NULL;
  struct spp_diag diag;
  expect_status(spp_file_read("/dev/zero", 100000, &text, NULL, &diag), SPP_ERR_INPUT, &diag);
  expect_has(diag.what, "limit");
  expect_true(text == NULL);
}

static void sizes_around_the_buffer_steps_are_read_exactly(void **state) {
  (void)state;
  static const int sizes[] = {0, 1, 8190, 8191, 8192, 16383, 16384, 100000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const char *path = in_folder("sized");
    FILE *file = fopen(path, "w");
    for (int k = 0; k < sizes[i]; k++)
      fputc('a' + k % 26, file);
    fclose(file);
    char *text = NULL;
    size_t len = 0;
    struct spp_diag diag;
    expect_note("%d bytes", sizes[i]);
    expect_status(spp_file_read(path, sizes[i], &text, &len, &diag), SPP_OK, &diag);
    expect_i64((int64_t)len, sizes[i]);
    for (int k = 0; k < sizes[i]; k++)
      expect_true(text[k] == 'a' + k % 26);
    free(text);
  }
}

static void what_cannot_be_read_is_named(void **state) {
  (void)state;
  char *text = NULL;
  struct spp_diag diag;
  expect_status(spp_file_read(in_folder("none"), 10, &text, NULL, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "cannot open: No such file or directory");
  expect_status(spp_file_read(folder, 10, &text, NULL, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "is a directory, not a file");
  expect_true(text == NULL);
}

static void writing_creates_and_replaces(void **state) {
  (void)state;
  const char *path = in_folder("w");
  struct spp_diag diag;
  expect_status(spp_file_write_atomic(path, "first", 5, &diag), SPP_OK, &diag);
  expect_content(path, "first");
  chmod(path, 0640);
  expect_status(spp_file_write_atomic(path, "2nd", 3, &diag), SPP_OK, &diag);
  expect_content(path, "2nd");
  struct stat info;
  stat(path, &info);
  expect_i64(info.st_mode & 0777, 0640);
  expect_i64(entries(), 1); /* nothing temporary stays */
}

static void a_new_file_has_the_usual_mode(void **state) {
  (void)state;
  const char *path = in_folder("mode");
  struct spp_diag diag;
  struct stat info;
  mode_t old = umask(027);
  expect_status(spp_file_write_atomic(path, "x", 1, &diag), SPP_OK, &diag);
  umask(old);
  stat(path, &info);
  expect_i64(info.st_mode & 0777, 0640); /* 0666 without 027 */
}

static void a_reader_keeps_the_old_file_while_it_is_replaced(void **state) {
  (void)state;
  const char *path = in_folder("r");
  struct spp_diag diag;
  char buf[8] = "";
  put(path, "old");
  FILE *reader = fopen(path, "r");
  expect_status(spp_file_write_atomic(path, "new", 3, &diag), SPP_OK, &diag);
  expect_i64((int64_t)fread(buf, 1, 7, reader), 3);
  expect_str(buf, "old");
  fclose(reader);
}

static void a_failed_write_leaves_the_old_file(void **state) {
  (void)state;
  const char *path = in_folder("full");
  struct spp_diag diag;
  static char large[100000];
  put(path, "old");
  /* Files may not grow beyond 1000 bytes: the write fails half way. */
  struct rlimit limit, small = {1000, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  small.rlim_max = limit.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  enum spp_status status = spp_file_write_atomic(path, large, sizeof large, &diag);
  setrlimit(RLIMIT_FSIZE, &limit);
  expect_status(status, SPP_ERR_INPUT, &diag);
  expect_has(diag.what, "cannot write: ");
  expect_content(path, "old");
  expect_i64(entries(), 1);
}

static void links_are_followed_and_kept(void **state) {
  (void)state;
  const char *target = in_folder("target"), *link = in_folder("link");
  struct spp_diag diag;
  struct stat info;
  put(target, "old");
  expect_i64(symlink("target", link), 0);
  expect_status(spp_file_write_atomic(link, "new", 3, &diag), SPP_OK, &diag);
  expect_content(target, "new");
  lstat(link, &info);
  expect_true(S_ISLNK(info.st_mode));
}

static void links_that_lead_nowhere_are_refused_and_kept(void **state) {
  (void)state;
  const char *nowhere = in_folder("nowhere"), *loop = in_folder("loop"), *const links[] = {nowhere, loop};
  struct spp_diag diag;
  struct stat info;
  expect_i64(symlink("absent", nowhere), 0);
  expect_i64(symlink("loop", loop), 0);
  for (int i = 0; i < 2; i++) {
    expect_note("%s", links[i]);
    expect_i64(spp_file_write_atomic(links[i], "new", 3, &diag), SPP_ERR_INPUT);
    lstat(links[i], &info);
    expect_true(S_ISLNK(info.st_mode));
  }
}

static void devices_are_written_in_place(void **state) {
  (void)state;
  struct spp_diag diag;
  struct stat info;
  expect_status(spp_file_write_atomic("/dev/null", "x", 1, &diag), SPP_OK, &diag);
  stat("/dev/null", &info);
  expect_true(S_ISCHR(info.st_mode));
}

/* A pipe by name whose other end nobody holds would stop a plain open for ever. */
static void a_pipe_that_nobody_holds_is_refused(void **state) {
  (void)state;
  const char *pipe = in_folder("pipe");
  struct spp_diag diag;
  char *text = NULL;
  expect_i64(mkfifo(pipe, 0600), 0);
  expect_i64(spp_file_read(pipe, 100, &text, NULL, &diag), SPP_ERR_INPUT);
  expect_has(diag.what, "nobody writes into this pipe");
  expect_i64(spp_file_write_atomic(pipe, "x", 1, &diag), SPP_ERR_INPUT);
  expect_has(diag.what, "nobody reads this pipe");
}

/* Who has opened the pipe may take longer than the second in which a writer must appear. */
static void a_slow_writer_is_waited_for(void **state) {
  (void)state;
  const char *pipe = in_folder("slow");
  struct spp_diag diag;
  char *text = NULL;
  size_t len = 0;
  expect_i64(mkfifo(pipe, 0600), 0);
  pid_t writer = fork();
  if (writer == 0) {
    int fd = open(pipe, O_WRONLY);
    nanosleep(&(struct timespec){1, 300000000}, NULL);
    _exit(fd >= 0 && write(fd, "late", 4) == 4 ? 0 : 1);
  }
  nanosleep(&(struct timespec){0, 100000000}, NULL);
  expect_status(spp_file_read(pipe, 100, &text, &len, &diag), SPP_OK, &diag);
  expect_str(text, "late");
  expect_i64((int64_t)len, 4);
  free(text);
  waitpid(writer, NULL, 0);
}

static void impossible_targets_are_refused(void **state) {
  (void)state;
  struct spp_diag diag;
  expect_status(spp_file_write_atomic(folder, "x", 1, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "cannot write: is a directory");
  expect_status(spp_file_write_atomic(in_folder("no/such"), "x", 1, &diag), SPP_ERR_INPUT, &diag);
  expect_str(diag.what, "cannot write: No such file or directory");
}

static void folders_are_listed_in_order(void **state) {
  (void)state;
  static const char *const names[] = {"b.json", "a.json", "B.json", ".hidden.json", "c.txt", ".json", "json"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    put(in_folder(names[i]), "");
  struct spp_names list;
  struct spp_diag diag;
  expect_status(spp_dir_list(folder, ".json", &list, &diag), SPP_OK, &diag);
  expect_i64(list.count, 3);
  expect_str(list.names[0], "B.json");
  expect_str(list.names[1], "a.json");
  expect_str(list.names[2], "b.json");
  spp_names_free(&list);
  expect_i64(list.count, 0);
  expect_i64(entries(), 5);
  expect_status(spp_dir_list(in_folder("none"), NULL, &list, &diag), SPP_ERR_INPUT, &diag);
  expect_true(spp_path_is_dir(folder));
  expect_false(spp_path_is_dir(in_folder("a.json")));
  expect_true(spp_path_exists(in_folder("a.json")));
  expect_false(spp_path_exists(in_folder("none")));
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_file_is_read_whole_up_to_its_limit),
      IN_FOLDER(an_endless_file_stops_at_the_limit),
      IN_FOLDER(sizes_around_the_buffer_steps_are_read_exactly),
      IN_FOLDER(what_cannot_be_read_is_named),
      IN_FOLDER(writing_creates_and_replaces),
      IN_FOLDER(a_new_file_has_the_usual_mode),
      IN_FOLDER(a_reader_keeps_the_old_file_while_it_is_replaced),
      IN_FOLDER(a_failed_write_leaves_the_old_file),
      IN_FOLDER(links_are_followed_and_kept),
      IN_FOLDER(links_that_lead_nowhere_are_refused_and_kept),
      IN_FOLDER(devices_are_written_in_place),
      IN_FOLDER(a_pipe_that_nobody_holds_is_refused),
      IN_FOLDER(a_slow_writer_is_waited_for),
      IN_FOLDER(impossible_targets_are_refused),
      IN_FOLDER(folders_are_listed_in_order),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
