/* The terminal: curses behind a handful of calls. The only user of curses besides tests. */
#ifndef SPP_TUI_TERMINAL_H
#define SPP_TUI_TERMINAL_H

#include <stdio.h>

#include "tui/app.h"

struct spp_terminal_options {
  bool color, utf8, mouse;
  const char *type; /* NULL = TERM */
  FILE *out, *in;   /* NULL = standard streams */
};
/* Takes the terminal over. It is given back by spp_terminal_close(), and when the process is killed by a
 * fault. SPP_ERR_USAGE when the terminal type is unknown. */
enum spp_status spp_terminal_open(const struct spp_terminal_options *options, struct spp_diag *diag);
void spp_terminal_close(void);

void spp_terminal_size(int *rows, int *cols);
/* Send what changed; `all`: as if nothing were there yet. */
void spp_terminal_show(const struct spp_screen *screen, bool all);
/* The next event waiting, without waiting for one; false when there is none. */
bool spp_terminal_event(struct spp_event *event);
/* Back to the shell until the process is continued. */
void spp_terminal_suspend(void);
/* Takes the terminal over again after the process was stopped from outside. */
void spp_terminal_resume(void);

#endif
