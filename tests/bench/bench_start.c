/* How long `spplan tui` takes from the start of the process to its first whole frame: bench_start PROGRAM
 * [RUNS] On a pseudo-terminal of 120 x 40. The frame is whole when the form, at the left, and the keys, at
 * the bottom, have arrived; the first plans follow when the search behind them is done. Goal: 50 ms. */
#define _GNU_SOURCE /* posix_openpt, memmem */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/bench/bench.h"

enum { RUNS_MAX = 200, BYTES = 1 << 20 };

static void become(const char *program, int terminal) {
  setsid();
  ioctl(terminal, TIOCSCTTY, 0);
  for (int fd = 0; fd < 3; fd++)
    dup2(terminal, fd);
  setenv("TERM", "xterm-256color", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  execl(program, program, "tui", "--model", "qwen2.5-7b", "--seq", "32k", "--gpus", "64", "--gpu",
        "h100-80gb", (char *)NULL);
  _exit(127);
}

/* Reads on until `text` has come; the time when it had, or -1. */
static double until(int fd, const char *text, char *bytes, size_t *used) {
  double give_up = now_s() + 20;
  while (now_s() < give_up && *used < BYTES) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (memmem(bytes, *used, text, strlen(text))) return now_s();
    if (poll(&ready, 1, 100) <= 0) continue;
    ssize_t n = read(fd, bytes + *used, BYTES - *used);
    if (n <= 0) return -1;
    *used += (size_t)n;
  }
  return -1;
}

/* Times of the first frame and of the first plans. */
static int once(const char *program, char *bytes, double *frame_s, double *plans_s) {
  struct winsize size = {.ws_row = 40, .ws_col = 120};
  int master = posix_openpt(O_RDWR | O_NOCTTY), status = 0;
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
  int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0) return -1;
  ioctl(terminal, TIOCSWINSZ, &size);
  size_t used = 0;
  double begin_s = now_s();
  pid_t pid = fork();
  if (pid == 0) become(program, terminal);
  close(terminal);
  *frame_s =
      until(master, "micro-batch", bytes, &used) < 0 ? -1 : until(master, "quit", bytes, &used) - begin_s;
  *plans_s = until(master, "layouts", bytes, &used) - begin_s;
  if (write(master, "q", 1) != 1) *frame_s = -1;
  while (read(master, bytes, BYTES) > 0)
    continue; /* until it has closed its end */
  close(master);
  waitpid(pid, &status, 0);
  return *frame_s > 0 && *plans_s > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int main(int argc, char **argv) {
  int runs = argc > 2 ? atoi(argv[2]) : 20;
  static double frame[RUNS_MAX], plans[RUNS_MAX];
  char *bytes = malloc(BYTES);
  if (argc < 2 || runs < 1 || runs > RUNS_MAX || !bytes) {
    fprintf(stderr, "usage: bench_start PROGRAM [RUNS]\n");
    return 2;
  }
  for (int i = 0; i < runs; i++)
    if (once(argv[1], bytes, &frame[i], &plans[i]) != 0) {
      fprintf(stderr, "bench_start: %s showed no frame, or did not end well\n", argv[1]);
      return 1;
    }
  qsort(frame, (size_t)runs, sizeof *frame, compare);
  qsort(plans, (size_t)runs, sizeof *plans, compare);
  printf("start to first frame  %7.1f ms median, %7.1f ms p95, n = %d (goal: 50)\n", 1e3 * frame[runs / 2],
         1e3 * frame[runs * 95 / 100], runs);
  printf("start to first plans  %7.1f ms median, %7.1f ms p95 (64 GPUs, framework any)\n",
         1e3 * plans[runs / 2], 1e3 * plans[runs * 95 / 100]);
  free(bytes);
  return 0;
}
