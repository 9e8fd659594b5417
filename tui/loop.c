#include "tui/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/draw.h"
#include "tui/trial.h"
#include "tui/worker.h"

enum { IDLE_MS = 1000 };

struct loop {
  const struct spp_tui_host *host;
  const struct spp_terminal_options *options;
  struct spp_app app;
  struct spp_screen screen;
  struct spp_worker *worker;
  struct spp_trial *trial;
  int wake[2]; /* pipe: the worker's and the signals' way to end a wait */
  bool quit, dirty, repaint;
};

/* A handler can reach nothing but this. */
static volatile sig_atomic_t ended_by, stop_asked, was_continued;
static volatile sig_atomic_t wake_fd = -1;

static void note_signal(int signal_number) {
  int error = errno;
  if (signal_number == SIGTSTP)
    stop_asked = 1;
  else if (signal_number == SIGCONT)
    was_continued = 1;
  else
    ended_by = signal_number;
  if (write((int)wake_fd, "", 1) < 0) errno = error;
  errno = error;
}

static const int caught_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT};
enum { CAUGHT_COUNT = (int)(sizeof caught_signals / sizeof caught_signals[0]) };

static void catch_signals(int fd, struct sigaction *before) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = note_signal;
  wake_fd = fd;
  ended_by = stop_asked = was_continued = 0;
  for (int i = 0; i < CAUGHT_COUNT; i++)
    sigaction(caught_signals[i], &action, &before[i]);
}
static void release_signals(const struct sigaction *before) {
  for (int i = 0; i < CAUGHT_COUNT; i++)
    sigaction(caught_signals[i], &before[i], NULL);
  wake_fd = -1;
}

static void save(struct loop *loop) {
  struct spp_diag diag = {.status = SPP_OK};
  char text[1000];
  struct spp_app *app = &loop->app;
  if (loop->host->save(loop->host->self, app->outcome, spp_app_selected(app), app->save_path, &diag) ==
      SPP_OK)
    spp_app_say(app, false, "saved to %s", app->save_path);
  else
    spp_app_say(app, true, "%s", spp_diag_format(&diag, text, sizeof text));
}

static void begin_trial(struct loop *loop) {
  struct spp_diag diag = {.status = SPP_OK};
  if (spp_trial_start(loop->trial, &diag) == SPP_OK) return;
  loop->app.trial.finished = true;
  loop->app.trial.diag = diag;
}

static void carry_out(struct loop *loop, unsigned effects) {
  struct spp_app *app = &loop->app;
  if (effects & SPP_EFFECT_SAVE) save(loop);
  if (effects & SPP_EFFECT_CANCEL) spp_worker_cancel(loop->worker);
  if (effects & SPP_EFFECT_PLAN)
    spp_worker_ask(loop->worker, app->request, &app->words, app->view == SPP_VIEW_COMPARE);
  if (effects & SPP_EFFECT_TRIAL) begin_trial(loop);
  if (effects & SPP_EFFECT_TRIAL_STOP) spp_trial_stop(loop->trial);
  if (effects & SPP_EFFECT_SUSPEND) {
    struct spp_event resize = {.kind = SPP_EVENT_RESIZE};
    spp_terminal_suspend();
    stop_asked = was_continued = 0;
    spp_terminal_size(&resize.rows, &resize.cols);
    spp_app_handle(app, &resize);
  }
  if (effects & SPP_EFFECT_QUIT) loop->quit = true;
  if (effects & SPP_EFFECT_REPAINT) loop->repaint = true;
  if (effects) loop->dirty = true;
}

static void handle(struct loop *loop, const struct spp_event *event) {
  carry_out(loop, spp_app_handle(&loop->app, event));
}

/* The app keeps the new answer or goes on with the old one; the other is released. */
static void take_answer(struct loop *loop) {
  struct spp_tui_outcome *fresh = spp_worker_take(loop->worker);
  const struct spp_tui_outcome *old = loop->app.outcome;
  if (!fresh) return;
  handle(loop, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = fresh});
  if (loop->app.outcome != fresh)
    loop->host->release(loop->host->self, fresh);
  else if (old)
    loop->host->release(loop->host->self, (struct spp_tui_outcome *)old);
}

static void take_trial(struct loop *loop) {
  struct spp_tui_trial news;
  if (spp_trial_take(loop->trial, &news))
    handle(loop, &(struct spp_event){.kind = SPP_EVENT_TRIAL, .trial = &news});
}

static enum spp_status draw(struct loop *loop, struct spp_diag *diag) {
  int rows, cols;
  if (!loop->dirty) return SPP_OK;
  spp_terminal_size(&rows, &cols);
  enum spp_status status = spp_screen_resize(&loop->screen, rows, cols, diag);
  if (status != SPP_OK) return status;
  spp_draw(&loop->app, &loop->screen);
  spp_terminal_show(&loop->screen, loop->repaint);
  loop->dirty = loop->repaint = false;
  return SPP_OK;
}

/* False when the terminal has gone. */
static bool wait(struct loop *loop) {
  struct pollfd fds[2] = {{.fd = fileno(loop->options->in ? loop->options->in : stdin), .events = POLLIN},
                          {.fd = loop->wake[0], .events = POLLIN}};
  char bytes[64];
  if (poll(fds, 2, IDLE_MS) < 0) return errno == EINTR;
  while (fds[1].revents & POLLIN && read(loop->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
    continue;
  return !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) || (fds[0].revents & POLLIN);
}

/* Stopped by somebody else's hand, or continued after that: the shell may have used the terminal. */
static void heed_job_control(struct loop *loop) {
  if (stop_asked) carry_out(loop, SPP_EFFECT_SUSPEND | SPP_EFFECT_REPAINT | SPP_EFFECT_DRAW);
  if (!was_continued) return;
  was_continued = 0;
  spp_terminal_resume();
  carry_out(loop, SPP_EFFECT_REPAINT | SPP_EFFECT_DRAW);
}

static enum spp_status turn(struct loop *loop, struct spp_diag *diag) {
  struct spp_event event;
  enum spp_status status;
  while (!loop->quit && !ended_by) {
    heed_job_control(loop);
    while (!loop->quit && spp_terminal_event(&event))
      handle(loop, &event);
    take_answer(loop);
    take_trial(loop);
    if (loop->quit) break;
    if ((status = draw(loop, diag)) != SPP_OK) return status;
    if (!wait(loop)) return SPP_INTERRUPTED;
  }
  return ended_by ? SPP_INTERRUPTED : SPP_OK;
}

static enum spp_status make_pipe(int fds[2], struct spp_diag *diag) {
  if (pipe(fds) != 0)
    return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, "close some files", "no pipe can be made");
  for (int i = 0; i < 2; i++) {
    fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    fcntl(fds[i], F_SETFD, FD_CLOEXEC);
  }
  return SPP_OK;
}

static enum spp_status run(struct loop *loop, const char *greeting, struct spp_diag *diag) {
  struct spp_event resize = {.kind = SPP_EVENT_RESIZE};
  enum spp_status status = spp_terminal_open(loop->options, diag);
  if (status != SPP_OK) return status;
  spp_terminal_size(&resize.rows, &resize.cols);
  handle(loop, &resize);
  handle(loop, &(struct spp_event){.kind = SPP_EVENT_KEY, .key = 'r'});
  if (greeting) spp_app_say(&loop->app, false, "%s", greeting);
  status = turn(loop, diag);
  spp_terminal_close();
  return status;
}

enum spp_status spp_tui_run(const struct spp_tui_host *host, const struct spp_terminal_options *options,
                            const struct spp_words *words, const char *greeting, struct spp_diag *diag) {
  struct sigaction before[CAUGHT_COUNT];
  struct loop *loop = calloc(1, sizeof *loop);
  if (!loop) return spp_diag_oom(diag);
  loop->host = host;
  loop->options = options;
  loop->screen.utf8 = options->utf8;
  spp_app_init(&loop->app, host);
  loop->app.words = *words;
  enum spp_status status = make_pipe(loop->wake, diag);
  if (status == SPP_OK) {
    status = spp_trial_create(host, loop->wake[1], &loop->trial, diag);
    if (status == SPP_OK) status = spp_worker_start(host, loop->wake[1], &loop->worker, diag);
    if (status == SPP_OK) {
      catch_signals(loop->wake[1], before);
      status = run(loop, greeting, diag);
      spp_worker_end(loop->worker);
      release_signals(before);
    }
    spp_trial_free(loop->trial);
    close(loop->wake[0]);
    close(loop->wake[1]);
  }
  if (loop->app.outcome) host->release(host->self, (struct spp_tui_outcome *)loop->app.outcome);
  spp_app_free(&loop->app);
  spp_screen_free(&loop->screen);
  free(loop);
  return status;
}
