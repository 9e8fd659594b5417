/* A line on the terminal that says how far a long command is, and is gone when it is done. Nothing is written
 * where the standard error is no terminal. */
#ifndef SPP_BASE_PROGRESS_H
#define SPP_BASE_PROGRESS_H

#include <stdint.h>

#include "base/term.h"

struct spp_progress {
  bool shown; /* a terminal is there to see it */
  bool utf8;
  int columns;
  const char *what; /* borrowed; "measuring" */
  double begun_s, drawn_s;
  double patience_s; /* nothing is drawn before: what is quick needs no bar */
};

/* quiet: draws nothing. */
void spp_progress_begin(struct spp_progress *progress, const struct spp_term *term, bool quiet,
                        const char *what);
/* `done` of `total`; `now` names what is under way and may be NULL. Draws ten times a second at most. */
void spp_progress_step(struct spp_progress *progress, int64_t done, int64_t total, const char *now);
/* Wipes the line. */
void spp_progress_end(struct spp_progress *progress);

/* The line itself: a bar, the share, the time left once that can be told. `columns` includes the ending NUL's
 * place; buf holds four bytes a column. Returns buf. */
const char *spp_progress_line(const char *what, const char *now, int64_t done, int64_t total,
                              double elapsed_s, bool utf8, int columns, char *buf, int size);

#endif
