/* What the terminal shall show: a grid of characters, each with a role. Drawing writes here and never sees
 * curses, so that a screen can be compared, character by character and role by role, without a terminal. */
#ifndef SPP_TUI_SCREEN_H
#define SPP_TUI_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

/* What a cell means. Colours and attributes are in one table in tui/terminal.c; meaning is never by colour
 * alone. */
enum spp_ink {
  SPP_INK_PLAIN,
  SPP_INK_DIM,
  SPP_INK_BAR,      /* title line */
  SPP_INK_HEAD,     /* heading of a pane */
  SPP_INK_FOCUS,    /* heading of the pane that has the keys */
  SPP_INK_COLUMN,   /* column names */
  SPP_INK_SELECTED, /* the row under the cursor */
  SPP_INK_KEY,      /* a key in the bottom line */
  SPP_INK_GOOD,
  SPP_INK_WARN,
  SPP_INK_BAD,
  SPP_INK_SERIES, /* first of SPP_SERIES_COUNT colours for parts and curves */
  SPP_SERIES_COUNT = 6,
  SPP_INK_COUNT = SPP_INK_SERIES + SPP_SERIES_COUNT
};
static inline enum spp_ink spp_ink_series(int i) {
  return (enum spp_ink)((int)SPP_INK_SERIES + i % (int)SPP_SERIES_COUNT);
}
/* One letter a role, for role maps. */
char spp_ink_letter(enum spp_ink role);

struct spp_rect {
  int row, col, rows, cols; /* rows or cols 0: not shown */
};

struct spp_cell_glyph {
  uint32_t ch; /* 0: right half of a wide character */
  uint8_t role;
};
struct spp_screen {
  int rows, cols;
  bool utf8; /* false: every character becomes ASCII of the same width */
  struct spp_cell_glyph *cells;
  int cursor_row, cursor_col; /* where text is being typed; -1 = nowhere */
};

/* Blank, of this size; keeps its memory. SPP_ERR_INTERNAL when out of memory: the screen is then 0 x 0. */
enum spp_status spp_screen_resize(struct spp_screen *screen, int rows, int cols, struct spp_diag *diag);
void spp_screen_clear(struct spp_screen *screen);
void spp_screen_free(struct spp_screen *screen);

/* Text at (row, col) of the rectangle, cut at its right edge, where an ellipsis says so; control characters
 * show as '?'. Returns the column after it. Rows and columns outside the rectangle or the screen are not
 * drawn. */
int spp_put(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
            const char *text);
int spp_putf(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
             const char *fmt, ...) SPP_PRINTF(6, 7);
/* The same, ending at the right edge. */
void spp_put_right(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role,
                   const char *text);
/* One character, as spp_put. */
void spp_put_char(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
                  uint32_t ch);
/* `count` of one character. */
void spp_put_fill(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
                  uint32_t ch, int count);
/* Give a whole row of the rectangle a role, keeping its characters. */
void spp_put_role(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role);
/* Text broken at spaces into the rectangle from `row` on; returns the row after it. */
int spp_put_wrapped(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role,
                    const char *text);

/* The screen as lines of text, or of role letters; trailing blanks cut. */
void spp_screen_text(const struct spp_screen *screen, struct spp_str *out);
void spp_screen_roles(const struct spp_screen *screen, struct spp_str *out);

/* UTF-8 of a code point into buf (at most 4 bytes and NUL). */
void spp_utf8_encode(uint32_t ch, char buf[5]);

#endif
