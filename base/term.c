#include "base/term.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"

enum { DEFAULT_COLUMNS = 100, MIN_COLUMNS = 20, MAX_COLUMNS = 10000 };

static int columns(bool stdout_tty) {
  const char *text = getenv("COLUMNS");
  int64_t value;
  if (text && spp_count_parse(text, "COLUMNS", MIN_COLUMNS, MAX_COLUMNS, &value, NULL) == SPP_OK)
    return (int)value;
  struct winsize size;
  if (stdout_tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= MIN_COLUMNS)
    return size.ws_col;
  return DEFAULT_COLUMNS;
}

static bool color_wanted(enum spp_color color, bool stdout_tty) {
  if (color != SPP_COLOR_AUTO) return color == SPP_COLOR_ALWAYS;
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return stdout_tty && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

struct spp_term spp_term_facts(enum spp_color color) {
  struct spp_term term;
  term.stdout_tty = isatty(STDOUT_FILENO) == 1;
  term.stderr_tty = isatty(STDERR_FILENO) == 1;
  term.columns = columns(term.stdout_tty);
  term.color = color_wanted(color, term.stdout_tty);
  term.utf8 = strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
  return term;
}
