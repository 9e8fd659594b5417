#ifndef NCURSES_WIDECHAR
#define NCURSES_WIDECHAR 1
#endif
#include "tui/terminal.h"

#include <curses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

/* Colours of the 8-colour palette, so that the user's theme decides what they look like; attributes carry the
 * same meaning where there is no colour. */
struct look {
  short color; /* -1 = the default */
  attr_t attributes, mono;
};
static const struct look looks[SPP_INK_COUNT] = {
    [SPP_INK_PLAIN] = {-1, A_NORMAL, A_NORMAL},
    [SPP_INK_DIM] = {COLOR_CYAN, A_NORMAL, A_DIM},
    [SPP_INK_BAR] = {COLOR_BLUE, A_REVERSE | A_BOLD, A_REVERSE | A_BOLD},
    [SPP_INK_HEAD] = {COLOR_BLUE, A_BOLD | A_UNDERLINE, A_UNDERLINE},
    [SPP_INK_FOCUS] = {COLOR_YELLOW, A_BOLD | A_UNDERLINE, A_BOLD | A_UNDERLINE},
    [SPP_INK_COLUMN] = {COLOR_CYAN, A_UNDERLINE, A_UNDERLINE},
    [SPP_INK_SELECTED] = {COLOR_CYAN, A_REVERSE, A_REVERSE},
    [SPP_INK_KEY] = {COLOR_YELLOW, A_BOLD, A_BOLD},
    [SPP_INK_GOOD] = {COLOR_GREEN, A_NORMAL, A_NORMAL},
    [SPP_INK_WARN] = {COLOR_YELLOW, A_NORMAL, A_BOLD},
    [SPP_INK_BAD] = {COLOR_RED, A_BOLD, A_BOLD | A_REVERSE},
    [SPP_INK_SERIES + 0] = {COLOR_BLUE, A_BOLD, A_NORMAL},
    [SPP_INK_SERIES + 1] = {COLOR_GREEN, A_BOLD, A_BOLD},
    [SPP_INK_SERIES + 2] = {COLOR_MAGENTA, A_BOLD, A_NORMAL},
    [SPP_INK_SERIES + 3] = {COLOR_YELLOW, A_BOLD, A_BOLD},
    [SPP_INK_SERIES + 4] = {COLOR_CYAN, A_BOLD, A_NORMAL},
    [SPP_INK_SERIES + 5] = {COLOR_RED, A_BOLD, A_BOLD},
};

/* What curses itself keeps as one terminal of the process; there is no second. */
static struct {
  SCREEN *screen;
  bool color, at_exit;
} terminal;

/* ---- faults ---- */

/* What a fault handler needs, saved while all is well: it may call write and tcsetattr, not curses. */
static struct {
  volatile sig_atomic_t active;
  int fd;
  struct termios modes;
} saved;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { FATAL_COUNT = (int)(sizeof fatal_signals / sizeof fatal_signals[0]) };

static void restore_and_die(int signal_number) {
  /* leave the alternate screen, show the cursor, mouse off, attributes off: what every terminal that has
   * these understands, and others ignore */
  static const char undo[] = "\033[?1000l\033[?1006l\033[?1002l\033[0m\033[?25h\033[?1049l\r\n";
  if (saved.active) {
    saved.active = 0;
    if (write(saved.fd, undo, sizeof undo - 1) < 0) signal_number = signal_number + 0;
    tcsetattr(saved.fd, TCSANOW, &saved.modes);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

/* The handler has a stack of its own: the fault may be that there is none left. */
static void guard(bool on) {
  static char stack[1 << 16];
  struct sigaction action;
  stack_t own = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = on ? 0 : SS_DISABLE};
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = on ? restore_and_die : SIG_DFL;
  action.sa_flags = sigaltstack(&own, NULL) == 0 ? SA_ONSTACK : 0;
  for (int i = 0; i < FATAL_COUNT; i++)
    sigaction(fatal_signals[i], &action, NULL);
}

/* Somebody called exit() below us. */
static void close_at_exit(void) {
  if (saved.active) spp_terminal_close();
}

/* ---- opening and closing ---- */

static void prepare_colors(bool wanted) {
  terminal.color = wanted && has_colors() && start_color() == OK;
  if (!terminal.color) return;
  use_default_colors();
  for (int role = 0; role < SPP_INK_COUNT; role++)
    init_pair((short)(role + 1), looks[role].color, -1);
}

enum spp_status spp_terminal_open(const struct spp_terminal_options *options, struct spp_diag *diag) {
  FILE *out = options->out ? options->out : stdout, *in = options->in ? options->in : stdin;
  saved.fd = fileno(out);
  bool modes = tcgetattr(saved.fd, &saved.modes) == 0;
  terminal.screen = newterm(options->type, out, in);
  if (!terminal.screen)
    return spp_diag_set(diag, SPP_ERR_USAGE, "TERM", "set TERM to the terminal's type, or use spplan plan",
                        "this terminal type is unknown");
  set_term(terminal.screen);
  saved.active = modes;
  guard(true);
  if (!terminal.at_exit) terminal.at_exit = atexit(close_at_exit) == 0;
  raw(); /* ^C, ^Z come as keys: the terminal is restored before they act */
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  leaveok(stdscr, FALSE);
  prepare_colors(options->color);
  if (options->mouse) {
    mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
    mouseinterval(0);
  }
  return SPP_OK;
}

void spp_terminal_close(void) {
  if (!terminal.screen) return;
  endwin();
  saved.active = 0;
  guard(false);
  delscreen(terminal.screen);
  terminal.screen = NULL;
}

void spp_terminal_size(int *rows, int *cols) {
  getmaxyx(stdscr, *rows, *cols);
}

void spp_terminal_resume(void) {
  saved.active = 1;
  reset_prog_mode();
  refresh();
}

void spp_terminal_suspend(void) {
  struct sigaction stop, before;
  memset(&stop, 0, sizeof stop);
  sigemptyset(&stop.sa_mask);
  stop.sa_handler = SIG_DFL;
  def_prog_mode();
  endwin();
  saved.active = 0;
  sigaction(SIGTSTP, &stop, &before);
  raise(SIGTSTP); /* stops here until the shell continues us */
  sigaction(SIGTSTP, &before, NULL);
  spp_terminal_resume();
}

/* ---- output ---- */

static attr_t attributes_of(int role) {
  return terminal.color ? looks[role].attributes : looks[role].mono;
}

void spp_terminal_show(const struct spp_screen *screen, bool all) {
  if (all) clearok(stdscr, TRUE);
  erase();
  for (int row = 0; row < screen->rows; row++)
    for (int col = 0; col < screen->cols; col++) {
      const struct spp_cell_glyph *cell = &screen->cells[row * screen->cols + col];
      if (cell->ch == 0 || (cell->ch == ' ' && cell->role == SPP_INK_PLAIN)) continue;
      wchar_t text[2] = {(wchar_t)cell->ch, L'\0'};
      cchar_t glyph;
      if (setcchar(&glyph, text, attributes_of(cell->role), (short)(terminal.color ? cell->role + 1 : 0),
                   NULL) == OK)
        mvadd_wch(row, col, &glyph);
    }
  bool typing = screen->cursor_row >= 0 && screen->cursor_col < screen->cols;
  curs_set(typing ? 1 : 0);
  if (typing) move(screen->cursor_row, screen->cursor_col);
  refresh();
}

/* ---- input ---- */

static const struct {
  int curses, ours;
} keys[] = {{KEY_ENTER, SPP_KEY_ENTER},     {KEY_BTAB, SPP_KEY_BACKTAB}, {KEY_BACKSPACE, SPP_KEY_BACKSPACE},
            {KEY_DC, SPP_KEY_DELETE},       {KEY_UP, SPP_KEY_UP},        {KEY_DOWN, SPP_KEY_DOWN},
            {KEY_LEFT, SPP_KEY_LEFT},       {KEY_RIGHT, SPP_KEY_RIGHT},  {KEY_PPAGE, SPP_KEY_PAGE_UP},
            {KEY_NPAGE, SPP_KEY_PAGE_DOWN}, {KEY_HOME, SPP_KEY_HOME},    {KEY_END, SPP_KEY_END},
            {KEY_F(1), SPP_KEY_F1},         {KEY_F(2), SPP_KEY_F2},      {KEY_F(6), SPP_KEY_F6},
            {KEY_F(10), SPP_KEY_F10}};

static int key_of_character(wint_t ch) {
  switch (ch) {
  case L'\r':
  case L'\n': return SPP_KEY_ENTER;
  case L'\t': return SPP_KEY_TAB;
  case 27: return SPP_KEY_ESCAPE;
  case 8:
  case 127: return SPP_KEY_BACKSPACE;
  default: return (int)ch;
  }
}

static bool mouse_event(struct spp_event *event) {
  MEVENT mouse;
  if (getmouse(&mouse) != OK) return false;
  *event = (struct spp_event){.kind = SPP_EVENT_CLICK, .rows = mouse.y, .cols = mouse.x};
  if (mouse.bstate & (BUTTON4_PRESSED | BUTTON5_PRESSED)) {
    event->kind = SPP_EVENT_WHEEL;
    event->direction = mouse.bstate & BUTTON4_PRESSED ? -1 : 1;
  }
  return true;
}

bool spp_terminal_event(struct spp_event *event) {
  wint_t ch;
  for (;;) {
    int got = get_wch(&ch);
    if (got == ERR) return false;
    *event = (struct spp_event){.kind = SPP_EVENT_KEY};
    if (got == OK) {
      event->key = key_of_character(ch);
      return true;
    }
    if (ch == KEY_RESIZE) {
      event->kind = SPP_EVENT_RESIZE;
      spp_terminal_size(&event->rows, &event->cols);
      return true;
    }
    if (ch == KEY_MOUSE && mouse_event(event)) return true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
      if ((wint_t)keys[i].curses == ch) {
        event->key = keys[i].ours;
        return true;
      }
  }
}
