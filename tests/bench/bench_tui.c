/* How fast the interface is: bench_tui [GPUS [CHANGES]]
 * With the program's own host and worker thread, 120 x 40, on a terminal that is not there:
 *   change    a key changes the sequence length of the job: handle + ask the worker + draw + send. Goal: 16
 * ms at the 95th percentile; the search goes on behind it. look      keys that move, open, sort and filter,
 * half of them while the worker searches. Same goal. answer    from the key until the new plans are on the
 * screen. */
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"

#ifdef SPP_HAVE_CURSES
#include "cli/tui_host.h"
#include "tests/bench/bench.h"
#include "tui/draw.h"
#include "tui/terminal.h"
#include "tui/worker.h"

enum { CHANGES_MAX = 1000, LOOKS = 40 };

static double cpu_s(void) {
  return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

struct bench {
  struct spp_tui_host host;
  struct spp_worker *worker;
  struct spp_app app;
  struct spp_screen screen;
  int wake[2];
};

static void frame(struct bench *b) {
  spp_draw(&b->app, &b->screen);
  spp_terminal_show(&b->screen, false);
}

/* Time on the clock, and of the processor: on a machine that others use the clock runs on. */
struct took {
  double wall_s, cpu_s;
};
static struct took press(struct bench *b, int key) {
  double from = now_s(), worked = cpu_s();
  unsigned effects = spp_app_handle(&b->app, &(struct spp_event){.kind = SPP_EVENT_KEY, .key = key});
  if (effects & SPP_EFFECT_PLAN) spp_worker_ask(b->worker, b->app.request, &b->app.words, false);
  frame(b);
  return (struct took){now_s() - from, cpu_s() - worked};
}

/* Until the answer to the last question is on the screen. */
static void wait_for_answer(struct bench *b) {
  while (b->app.searching) {
    struct pollfd fd = {.fd = b->wake[0], .events = POLLIN};
    char bytes[64];
    poll(&fd, 1, 1000);
    if ((fd.revents & POLLIN) && read(b->wake[0], bytes, sizeof bytes) < 0) return;
    struct spp_tui_outcome *fresh = spp_worker_take(b->worker);
    const struct spp_tui_outcome *old = b->app.outcome;
    if (!fresh) continue;
    spp_app_handle(&b->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = fresh});
    if (b->app.outcome != fresh)
      b->host.release(b->host.self, fresh);
    else if (old)
      b->host.release(b->host.self, (struct spp_tui_outcome *)old);
  }
  frame(b);
}

static void report(const char *what, double *samples, int count, const char *goal) {
  qsort(samples, (size_t)count, sizeof *samples, compare);
  printf("%-34s %8.2f ms median, %8.2f ms p95, %8.2f ms most, n = %d%s\n", what, 1e3 * samples[count / 2],
         1e3 * samples[count * 95 / 100], 1e3 * samples[count - 1], count, goal);
}

static int run(struct bench *b, long gpus, int changes) {
  static const int looks[] = {'j', 'j', '1', 'j', SPP_KEY_ENTER, 'j', 'x',           'q',
                              'q', '2', '3', 'z', '5',           'j', 's',           SPP_KEY_TAB,
                              'I', '?', 'j', '?', '/',           'd', SPP_KEY_ENTER, SPP_KEY_ESCAPE};
  static double change[CHANGES_MAX], change_cpu[CHANGES_MAX], answer[CHANGES_MAX];
  static double look[CHANGES_MAX * LOOKS], look_cpu[CHANGES_MAX * LOOKS];
  int looked = 0;
  press(b, 'r');
  wait_for_answer(b);
  for (int i = 0; i < changes; i++) {
    double from = now_s();
    struct took took = press(b, i % 4 < 2 ? ']' : '[');
    change[i] = took.wall_s;
    change_cpu[i] = took.cpu_s;
    for (int k = 0; i % 2 && k < LOOKS / 2; k++, looked++) {
      took = press(b, looks[(size_t)looked % (sizeof looks / sizeof looks[0])]);
      look[looked] = took.wall_s;
      look_cpu[looked] = took.cpu_s;
    }
    wait_for_answer(b);
    answer[i] = now_s() - from;
    for (int k = 0; i % 2 && k < LOOKS / 2; k++, looked++) {
      took = press(b, looks[(size_t)looked % (sizeof looks / sizeof looks[0])]);
      look[looked] = took.wall_s;
      look_cpu[looked] = took.cpu_s;
    }
    b->app.overlay_count = 0; /* keys of a window change no job */
    b->app.prompt.kind = SPP_PROMPT_NONE;
  }
  printf("%ld GPUs, framework any, %d x %d, %d plans of %lld layouts\n", gpus, b->screen.cols, b->screen.rows,
         b->app.outcome->search.count, (long long)b->app.outcome->search.layouts);
  report("sequence changed, to redraw", change, changes, " (goal: p95 16)");
  report("  of this, processor time", change_cpu, changes, "");
  report("other keys, half while it searches", look, looked, " (goal: p95 16)");
  report("  of this, processor time", look_cpu, looked, "");
  report("sequence changed, to new plans", answer, changes, "");
  return 0;
}

int main(int argc, char **argv) {
  long gpus = argc > 1 ? atol(argv[1]) : 64;
  int changes = argc > 2 ? atoi(argv[2]) : 40;
  struct bench *b = calloc(1, sizeof *b);
  char config_dir[4096], text[32];
  struct spp_diag diag = {.status = SPP_OK};
  FILE *null = fopen("/dev/null", "r+");
  if (changes < 1 || changes > CHANGES_MAX || !b || !null || pipe(b->wake) != 0) return 1;
  setlocale(LC_CTYPE, "C.UTF-8");
  setenv("LINES", "40", 1);
  setenv("COLUMNS", "120", 1);
  b->screen.utf8 = true;
  const struct spp_terminal_options options = {
      .color = true, .utf8 = true, .type = "xterm-256color", .out = null, .in = null};
  if (spp_config_dir(NULL, config_dir, sizeof config_dir, &diag) != SPP_OK ||
      spp_tui_host_open(config_dir, &b->host, &diag) != SPP_OK ||
      spp_worker_start(&b->host, b->wake[1], &b->worker, &diag) != SPP_OK ||
      spp_terminal_open(&options, &diag) != SPP_OK) {
    fprintf(stderr, "bench_tui: %s\n", diag.what);
    return 1;
  }
  spp_app_init(&b->app, &b->host);
  spp_words_set(&b->app.words, "model", "qwen2.5-7b");
  spp_words_set(&b->app.words, "gpu", "h100-80gb");
  spp_words_set(&b->app.words, "seq", "32k");
  snprintf(text, sizeof text, "%ld", gpus);
  spp_words_set(&b->app.words, "gpus", text);
  struct spp_event resize = {.kind = SPP_EVENT_RESIZE};
  spp_terminal_size(&resize.rows, &resize.cols);
  spp_app_handle(&b->app, &resize);
  int rc =
      spp_screen_resize(&b->screen, resize.rows, resize.cols, &diag) == SPP_OK ? run(b, gpus, changes) : 1;
  spp_terminal_close();
  spp_worker_end(b->worker);
  if (b->app.outcome) b->host.release(b->host.self, (struct spp_tui_outcome *)b->app.outcome);
  spp_app_free(&b->app);
  spp_screen_free(&b->screen);
  spp_tui_host_close(&b->host);
  free(b);
  fclose(null);
  return rc;
}

#else

int main(void) {
  fprintf(stderr, "bench_tui: built without ncurses\n");
  return SPP_ERR_ABSENT;
}

#endif
