#include "tui/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tui/draw.h"

enum { LINE = 512, MOST_ROWS = 500, MOST_COLS = 1000 };

struct player {
  const struct spp_tui_host *host;
  struct spp_app app;
  struct spp_screen screen;
  struct spp_str *out;
  const char *file;
  int line;
  bool quit;
};

static enum spp_status refuse(const struct player *p, enum spp_status status, const char *hint,
                              const char *what, const char *word, struct spp_diag *diag) {
  char where[300];
  snprintf(where, sizeof where, "%.200s:%d", p->file, p->line);
  return spp_diag_set(diag, status, where, hint, "%s '%.80s'", what, word);
}

/* ---- what the loop would do ---- */

static void answer(struct player *p) {
  atomic_bool stop = false;
  struct spp_tui_outcome *fresh =
      p->host->plan(p->host->self, &p->app.words, p->app.view == SPP_VIEW_COMPARE, &stop);
  const struct spp_tui_outcome *old = p->app.outcome;
  if (!fresh) return;
  fresh->request = p->app.request;
  spp_app_handle(&p->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = fresh});
  if (p->app.outcome != fresh)
    p->host->release(p->host->self, fresh);
  else if (old)
    p->host->release(p->host->self, (struct spp_tui_outcome *)old);
}

static void tell(void *to, const struct spp_tui_trial *trial) {
  struct player *p = to;
  spp_app_handle(&p->app, &(struct spp_event){.kind = SPP_EVENT_TRIAL, .trial = trial});
}

static void save(struct player *p) {
  struct spp_diag diag = {.status = SPP_OK};
  char text[1000];
  if (p->host->save(p->host->self, p->app.outcome, spp_app_selected(&p->app), p->app.save_path, &diag) ==
      SPP_OK)
    spp_app_say(&p->app, false, "saved to %s", p->app.save_path);
  else
    spp_app_say(&p->app, true, "%s", spp_diag_format(&diag, text, sizeof text));
}

static void handle(struct player *p, const struct spp_event *event) {
  unsigned effects = spp_app_handle(&p->app, event);
  atomic_bool stop = false;
  if (effects & SPP_EFFECT_SAVE) save(p);
  if (effects & SPP_EFFECT_PLAN) answer(p);
  if (effects & SPP_EFFECT_TRIAL) p->host->trial(p->host->self, tell, p, &stop);
  if (effects & SPP_EFFECT_QUIT) p->quit = true;
}

static void press(struct player *p, int key) {
  if (!p->quit) handle(p, &(struct spp_event){.kind = SPP_EVENT_KEY, .key = key});
}

/* ---- the lines ---- */

static enum spp_status set_size(struct player *p, const char *text, struct spp_diag *diag) {
  int rows = 0, cols = 0, used = 0;
  if (sscanf(text, "%4dx%4d%n", &cols, &rows, &used) != 2 || text[used] || rows < 1 || cols < 1 ||
      rows > MOST_ROWS || cols > MOST_COLS)
    return refuse(p, SPP_ERR_INPUT, "write COLSxROWS, such as 80x24", "no size:", text, diag);
  enum spp_status status = spp_screen_resize(&p->screen, rows, cols, diag);
  if (status == SPP_OK) handle(p, &(struct spp_event){.kind = SPP_EVENT_RESIZE, .rows = rows, .cols = cols});
  return status;
}

/* 0 when the word names no key. */
static int key_of(const char *word) {
  static const struct {
    const char *name;
    int key;
  } names[] = {{"Enter", SPP_KEY_ENTER},
               {"Esc", SPP_KEY_ESCAPE},
               {"Tab", SPP_KEY_TAB},
               {"BTab", SPP_KEY_BACKTAB},
               {"BSpace", SPP_KEY_BACKSPACE},
               {"DC", SPP_KEY_DELETE},
               {"Up", SPP_KEY_UP},
               {"Down", SPP_KEY_DOWN},
               {"Left", SPP_KEY_LEFT},
               {"Right", SPP_KEY_RIGHT},
               {"PgUp", SPP_KEY_PAGE_UP},
               {"PgDn", SPP_KEY_PAGE_DOWN},
               {"Home", SPP_KEY_HOME},
               {"End", SPP_KEY_END},
               {"F1", SPP_KEY_F1},
               {"F2", SPP_KEY_F2},
               {"F6", SPP_KEY_F6},
               {"F10", SPP_KEY_F10},
               {"Space", ' '}};
  size_t length = strlen(word);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].name, word) == 0) return names[i].key;
  if (strncmp(word, "C-", 2) == 0 && word[2] >= 'a' && word[2] <= 'z' && !word[3]) return SPP_CTRL(word[2]);
  if (length > 0 && spp_utf8_length(word, length) == length) return (int)spp_utf8_decode(word, length);
  return 0;
}

static enum spp_status press_keys(struct player *p, char *text, struct spp_diag *diag) {
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
    int key = key_of(word);
    if (!key)
      return refuse(p, SPP_ERR_INPUT, "Enter, Esc, Tab, C-u, F2, Left, or a character", "no key", word, diag);
    press(p, key);
  }
  return SPP_OK;
}

static void type(struct player *p, const char *text) {
  for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
    n = spp_utf8_length(text, left);
    if (n > 0) press(p, (int)spp_utf8_decode(text, n));
    if (n == 0) n = 1;
  }
}

static enum spp_status expect(struct player *p, const char *text, struct spp_diag *diag) {
  struct spp_str screen;
  spp_str_init(&screen);
  spp_screen_text(&p->screen, &screen);
  bool found = strstr(spp_str_text(&screen), text) != NULL;
  spp_str_free(&screen);
  return found ? SPP_OK
               : refuse(p, SPP_ERR_TOLERANCE, "print it with 'screen'", "the screen lacks", text, diag);
}

static enum spp_status do_line(struct player *p, char *line, struct spp_diag *diag) {
  size_t length = strcspn(line, " ");
  char *rest = line + length + strspn(line + length, " ");
  line[length] = '\0';
  spp_draw(&p->app, &p->screen);
  if (p->out->len > SPP_SCRIPT_MAX_OUT)
    return refuse(p, SPP_ERR_INPUT, "print fewer screens", "too much is printed before", line, diag);
  if (strcmp(line, "size") == 0) return set_size(p, rest, diag);
  if (strcmp(line, "key") == 0) return press_keys(p, rest, diag);
  if (strcmp(line, "type") == 0)
    type(p, rest);
  else if (strcmp(line, "screen") == 0)
    spp_screen_text(&p->screen, p->out);
  else if (strcmp(line, "roles") == 0)
    spp_screen_roles(&p->screen, p->out);
  else if (strcmp(line, "expect") == 0)
    return expect(p, rest, diag);
  else if (strcmp(line, "quit") == 0)
    p->quit = true;
  else
    return refuse(p, SPP_ERR_INPUT, "size, key, type, screen, roles, expect or quit", "no such line:", line,
                  diag);
  return p->out->failed ? spp_diag_oom(diag) : SPP_OK;
}

static enum spp_status do_lines(struct player *p, const char *text, struct spp_diag *diag) {
  char line[LINE], start[] = "80x24";
  enum spp_status status = set_size(p, start, diag);
  if (status == SPP_OK) press(p, 'r');
  for (; status == SPP_OK && *text && !p->quit; text += *text == '\n') {
    size_t length = strcspn(text, "\n");
    p->line++;
    if (length >= sizeof line)
      return refuse(p, SPP_ERR_INPUT, "write shorter lines", "this line is too long:", "...", diag);
    memcpy(line, text, length);
    line[length] = '\0';
    text += length;
    if (length > 0 && line[0] != '#') status = do_line(p, line, diag);
  }
  return status;
}

enum spp_status spp_tui_play(const struct spp_tui_host *host, const struct spp_words *words, bool utf8,
                             const char *file, const char *text, struct spp_str *out, struct spp_diag *diag) {
  struct player *p = calloc(1, sizeof *p);
  if (!p) return spp_diag_oom(diag);
  p->host = host;
  p->out = out;
  p->file = file;
  p->screen.utf8 = utf8;
  spp_app_init(&p->app, host);
  p->app.words = *words;
  enum spp_status status = do_lines(p, text, diag);
  if (p->app.outcome) host->release(host->self, (struct spp_tui_outcome *)p->app.outcome);
  spp_app_free(&p->app);
  spp_screen_free(&p->screen);
  free(p);
  return status;
}
