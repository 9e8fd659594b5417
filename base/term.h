/* Facts about the terminal. */
#ifndef SPP_BASE_TERM_H
#define SPP_BASE_TERM_H

#include <stdbool.h>

#include "base/status.h"

enum spp_color { SPP_COLOR_AUTO, SPP_COLOR_ALWAYS, SPP_COLOR_NEVER };

struct spp_term {
  bool stdout_tty;
  bool stderr_tty;
  int columns; /* COLUMNS, else the terminal's own, else 100 */
  bool color;  /* stdout may be coloured */
  bool utf8;   /* the locale's character set is UTF-8; call setlocale(LC_CTYPE, "") first */
};

/* Reads the environment (COLUMNS, NO_COLOR, TERM) and the standard streams; changes nothing. */
struct spp_term spp_term_facts(enum spp_color color);

#endif
