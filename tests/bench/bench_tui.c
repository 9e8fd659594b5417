/* How fast the interface is: bench_tui [--gpus N] [--keys N]
 * Key press to redraw: the 95th percentile of handle + draw + send to a terminal that is not there, over keys
 * that move, open and change the job (the answer itself comes later, from the worker). Goal: 16 ms. Start:
 * from nothing to the first frame. Goal: 50 ms. The search behind a change of the job is timed apart. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/paths.h"
#include "cli/setup.h"
#ifdef SPP_HAVE_CURSES
#include "tui/draw.h"
#include "tui/terminal.h"

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static enum spp_status check(void *self, const char *option, const char *text, struct spp_diag *diag) {
  (void)self, (void)option, (void)diag;
  return *text ? SPP_OK : SPP_ERR_USAGE;
}
static const char *nothing(void *self, int i) {
  (void)self, (void)i;
  return NULL;
}
static const char *no_choice(void *self, const char *option, int i) {
  (void)self, (void)option, (void)i;
  return NULL;
}
static void details(void *self, const struct spp_plan *plan, struct spp_plan_details *d) {
  struct spp_prediction prediction;
  (void)self;
  memset(d, 0, sizeof *d);
  d->plan = plan;
  spp_predict(&plan->job, &plan->layout, &d->ledger, &prediction);
  d->warning_count = spp_advise_warnings(plan, d->warnings, SPP_MAX_ADVICE);
  d->next_count = spp_advise_next(plan, d->next, SPP_MAX_ADVICE);
  d->why_not_count = spp_advise_why_not(plan, d->why_not, SPP_MAX_ADVICE);
}

static void timeline(void *self, const struct spp_plan *plan, struct spp_timeline *t) {
  (void)self;
  *t = (struct spp_timeline){.count = 0};
  (void)spp_timeline_build(&plan->job, &plan->layout, &plan->prediction, 4000, t, NULL);
}

struct bench {
  struct spp_cli cli;
  struct spp_setup setup;
  struct spp_search_options options;
  struct spp_tui_outcome outcome;
  struct spp_app app;
  struct spp_screen screen;
};

static int die(const char *what) {
  fprintf(stderr, "bench_tui: %s\n", what);
  return 1;
}

static bool search(struct bench *bench, long gpus, double *seconds) {
  struct spp_diag diag = {.status = SPP_OK};
  double begin = now_s();
  spp_arena_init(&bench->cli.arena);
  spp_args_clear(&bench->cli.args);
  bench->cli.command = spp_command_find("plan");
  bench->cli.args.model = "qwen2.5-7b";
  bench->cli.args.gpu = "h100-80gb";
  bench->cli.args.spec.seq_tokens = 32768;
  bench->cli.args.spec.gpus = gpus;
  bench->cli.args.top = 40;
  if (spp_config_dir(NULL, bench->cli.config_dir, sizeof bench->cli.config_dir, &diag) != SPP_OK ||
      spp_setup_job(&bench->cli, &bench->cli.args, 7, &bench->setup, &diag) != SPP_OK)
    return false;
  spp_setup_search(&bench->cli.args, &bench->setup, &bench->options);
  bench->outcome.status = spp_search(&bench->options, &bench->outcome.search, &diag);
  *seconds = now_s() - begin;
  return bench->outcome.status == SPP_OK;
}

static void frame(struct bench *bench) {
  spp_draw(&bench->app, &bench->screen);
  spp_terminal_show(&bench->screen, false);
}

int main(int argc, char **argv) {
  static const int keys[] = {'j',         'j', '1', 'j',           SPP_KEY_ENTER, 'j',         'x', 'q',
                             'q',         '2', '3', '5',           'j',           SPP_KEY_TAB, ']', '[',
                             SPP_KEY_TAB, 'j', 's', ' ',           'j',           'I',         '?', 'j',
                             '?',         '/', 'd', SPP_KEY_ENTER, SPP_KEY_ESCAPE};
  long gpus = argc > 2 && strcmp(argv[1], "--gpus") == 0 ? atol(argv[2]) : 64;
  enum { KEYS = 4000 };
  double *samples = malloc(KEYS * sizeof *samples), search_s, begin = now_s();
  struct bench *bench = calloc(1, sizeof *bench);
  struct spp_tui_host host = {
      .check = check, .option = nothing, .choice = no_choice, .details = details, .timeline = timeline};
  FILE *null = fopen("/dev/null", "r+");
  struct spp_diag diag;
  setlocale(LC_CTYPE, "C.UTF-8");
  if (!samples || !bench || !null) return die("out of memory");
  bench->screen.utf8 = true;
  spp_app_init(&bench->app, &host);
  spp_words_set(&bench->app.words, "seq", "32k");
  if (spp_terminal_open(
          &(struct spp_terminal_options){
              .color = true, .utf8 = true, .type = "xterm-256color", .out = null, .in = null},
          &diag) != SPP_OK)
    return die(diag.what);
  struct spp_event resize = {.kind = SPP_EVENT_RESIZE};
  spp_terminal_size(&resize.rows, &resize.cols);
  spp_app_handle(&bench->app, &resize);
  if (spp_screen_resize(&bench->screen, resize.rows, resize.cols, &diag) != SPP_OK)
    return die("out of memory");
  frame(bench);
  double start_s = now_s() - begin;
  if (!search(bench, gpus, &search_s)) return die("no plan");
  spp_app_handle(&bench->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = &bench->outcome});
  for (int i = 0; i < KEYS; i++) {
    double from = now_s();
    spp_app_handle(&bench->app, &(struct spp_event){.kind = SPP_EVENT_KEY,
                                                    .key = keys[(size_t)i % (sizeof keys / sizeof keys[0])]});
    frame(bench);
    samples[i] = now_s() - from;
  }
  spp_terminal_close();
  qsort(samples, KEYS, sizeof *samples, compare);
  printf("%ld GPUs, %d x %d, %d plans\n", gpus, resize.cols, resize.rows, bench->outcome.search.count);
  printf("first frame           %7.2f ms (goal 50)\n", 1e3 * start_s);
  printf("key press to redraw   %7.3f ms median, %7.3f ms p95, %7.3f ms most (goal 16)\n",
         1e3 * samples[KEYS / 2], 1e3 * samples[KEYS * 95 / 100], 1e3 * samples[KEYS - 1]);
  printf("a search behind it    %7.2f ms, set-up and all\n", 1e3 * search_s);
  spp_search_free(&bench->outcome.search);
  spp_arena_free(&bench->cli.arena);
  spp_screen_free(&bench->screen);
  free(bench);
  free(samples);
  fclose(null);
  return 0;
}

#else

int main(void) {
  fprintf(stderr, "bench_tui: built without ncurses\n");
  return SPP_ERR_ABSENT;
}

#endif
