#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, LINE_BYTES = 1024 };
static const double between_s = 0.1;

static double clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Cut at a character's first byte so that at most `columns` characters stay. */
static void cut(char *text, int columns) {
  int seen = 0;
  for (char *c = text; *c; c++) {
    if (((unsigned char)*c & 0xC0) == 0x80) continue;
    if (seen++ == columns) {
      *c = '\0';
      return;
    }
  }
}

const char *spp_progress_line(const char *what, const char *now, int64_t done, int64_t total,
                              double elapsed_s, bool utf8, int columns, char *buf, int size) {
  double share = total > 0 ? (double)done / (double)total : 0;
  int filled, used;
  if (share < 0) share = 0;
  if (share > 1) share = 1;
  filled = (int)(share * BAR);
  used = snprintf(buf, (size_t)size, "%s ", what);
  for (int i = 0; i < BAR && used < size; i++)
    used += snprintf(buf + used, (size_t)(size - used), "%s",
                     utf8 ? (i < filled ? "█" : "░") : (i < filled ? "#" : "."));
  if (used < size) used += snprintf(buf + used, (size_t)(size - used), " %3.0f %%", 100 * share);
  if (share > 0.05 && elapsed_s > 1 && share < 1 && used < size)
    used += snprintf(buf + used, (size_t)(size - used), " %.0f s left", elapsed_s * (1 - share) / share);
  if (now && used < size) snprintf(buf + used, (size_t)(size - used), "  %s", now);
  cut(buf, columns - 1);
  return buf;
}

void spp_progress_begin(struct spp_progress *p, const struct spp_term *term, bool quiet, const char *what) {
  *p = (struct spp_progress){.shown = term->stderr_tty && !quiet,
                             .utf8 = term->utf8,
                             .columns = term->columns,
                             .what = what,
                             .begun_s = clock_s()};
  if (p->shown) alarm(0); /* the bar is the sign of life */
}

void spp_progress_step(struct spp_progress *p, int64_t done, int64_t total, const char *now) {
  char line[LINE_BYTES];
  double s;
  if (!p->shown || (s = clock_s()) - p->drawn_s < between_s || s - p->begun_s < p->patience_s) return;
  p->drawn_s = s;
  fprintf(
      stderr, "\r%s\033[K",
      spp_progress_line(p->what, now, done, total, s - p->begun_s, p->utf8, p->columns, line, LINE_BYTES));
  fflush(stderr);
}

void spp_progress_end(struct spp_progress *p) {
  if (!p->shown || p->drawn_s == 0) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
}
