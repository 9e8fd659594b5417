/* Runs the program under test (the SPPLAN variable, set by ctest) in a folder of its own and keeps what it
 * said. */
#ifndef SPP_TESTS_CLI_RUN_H
#define SPP_TESTS_CLI_RUN_H

#include "tests/golden.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUN_MAX_ARGS = 48 };

struct run {
  int rc; /* exit status; 1000 + signal when killed by one */
  char *out, *err;
};

static char run_folder[128]; /* working folder of every run; empty but for what a test put there */

__attribute__((unused)) static int run_setup(void **state) {
  (void)state;
  snprintf(run_folder, sizeof run_folder, "/tmp/spplan-test-XXXXXX");
  return mkdtemp(run_folder) ? 0 : -1;
}

__attribute__((unused)) static void run_remove(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", run_folder, name);
  if (remove(path) != 0) expect_fail_at(__FILE__, __LINE__, "cannot remove %s", path);
}

/* Entries of the folder that begin with no dot-only name. */
__attribute__((unused)) static int run_files(void) {
  DIR *dir = opendir(run_folder);
  int count = 0;
  if (!dir) return -1;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(dir);
  return count;
}

__attribute__((unused)) static int run_teardown(void **state) {
  (void)state;
  DIR *dir = opendir(run_folder); /* a failed test may leave files */
  for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) run_remove(entry->d_name);
  if (dir) closedir(dir);
  return rmdir(run_folder);
}

__attribute__((unused)) static void run_put(const char *name, const char *text) {
  char path[512];
  struct spp_diag diag;
  snprintf(path, sizeof path, "%s/%s", run_folder, name);
  expect_status(spp_file_write_atomic(path, text, strlen(text), &diag), SPP_OK, &diag);
}

static char *run_slurp(const char *path) {
  char *text = NULL;
  if (spp_file_read(path, 64 << 20, &text, NULL, NULL) != SPP_OK)
    expect_fail_at(__FILE__, __LINE__, "cannot read %s", path);
  remove(path);
  return text;
}

/* In the child: a world without the user's settings, then those of the test ("NAME=value", NULL at the end).
 */
static void run_environment(const char *const *settings) {
  extern char **environ;
  static const char *const world[] = {"LC_ALL=C.UTF-8", "COLUMNS=100", "TERM=xterm", "HOME=/nonexistent",
                                      NULL};
  static char *empty[] = {NULL};
  environ = empty;
  for (int i = 0; world[i]; i++)
    putenv((char *)(uintptr_t)world[i]);
  for (int i = 0; settings && settings[i]; i++)
    putenv((char *)(uintptr_t)settings[i]);
}

static void run_child(const char *program, char **argv, const char *const *settings, const char *out,
                      const char *err) {
  int out_fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600),
      err_fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int in_fd = open("/dev/null", O_RDONLY);
  if (out_fd < 0 || err_fd < 0 || in_fd < 0 || chdir(run_folder) != 0) _exit(99);
  dup2(in_fd, 0);
  dup2(out_fd, 1);
  dup2(err_fd, 2);
  run_environment(settings);
  execv(program, argv);
  _exit(98);
}

/* argv without the program's name, NULL at the end. settings may be NULL. */
static struct run run_argv(char **argv, const char *const *settings) {
  const char *program = getenv("SPPLAN");
  char out[160], err[160];
  struct run run = {-1, NULL, NULL};
  int status = -1;
  if (!program) expect_fail_at(__FILE__, __LINE__, "SPPLAN names no program: run this test through ctest");
  snprintf(out, sizeof out, "%s.out", run_folder);
  snprintf(err, sizeof err, "%s.err", run_folder);
  pid_t pid = fork();
  if (pid == 0) run_child(program, argv, settings, out, err);
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    expect_fail_at(__FILE__, __LINE__, "cannot run %s", program);
  run.rc = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  run.out = run_slurp(out);
  run.err = run_slurp(err);
  return run;
}

/* A command line as one string, cut at blanks; '...' holds a word with blanks together. */
__attribute__((unused)) static struct run run_line(const char *line, const char *const *settings) {
  char copy[1024], *argv[RUN_MAX_ARGS + 2];
  char program[] = "spplan";
  int argc = 1;
  argv[0] = program;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *c = copy; *c && argc <= RUN_MAX_ARGS;) {
    char stop = ' ';
    while (*c == ' ')
      c++;
    if (!*c) break;
    if (*c == '\'') stop = *c++;
    argv[argc++] = c;
    while (*c && *c != stop)
      c++;
    if (*c) *c++ = '\0';
  }
  argv[argc] = NULL;
  expect_note("spplan %s", line);
  return run_argv(argv, settings);
}

__attribute__((unused)) static void run_free(struct run *run) {
  free(run->out);
  free(run->err);
}

/* The same, and the exit status must be rc. */
__attribute__((unused)) static struct run answer(const char *line, const char *const *settings, int rc) {
  struct run run = run_line(line, settings);
  if (run.rc != rc)
    expect_fail_at(__FILE__, __LINE__, "exit status %d, expected %d: %s", run.rc, rc, run.err);
  return run;
}

/* Lines of text; a last one without its end counts. */
__attribute__((unused)) static int run_count_lines(const char *text) {
  int lines = 0;
  for (const char *c = text; *c; c++)
    lines += *c == '\n' || !c[1];
  return lines;
}

#endif
